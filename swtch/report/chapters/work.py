# SPDX-License-Identifier: Apache-2.0
"""The chapter of `work`: where each thread library stands beside the best other one.

A ratio is of a uthread's row over the best peer's: of those that are no uthreads, and have
a stack as they do, the one with the least median. Above one is behind, and stands in the same
table as below. Growth is what an operation costs by how many threads or workers there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from swtch.analysis.findings import Group, Place, ratio_interval
from swtch.analysis.stats import median_interval
from swtch.experiments.work import LESS, NAME, TLS, Row, metric_of, row_of, series_of
from swtch.records import Interval, Trial
from swtch.report import shapes
from swtch.report.casework import phrase, times
from swtch.report.charts import COLOURS, Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row as TableRow
from swtch.report.tables import Table

GROWS = {"yield": "A turn", "batch": "A thread created and joined", "parked": "A parked thread"}
# By workers: of so many threads, where the work has several sizes.
SPREADS = {
    "yield": ("A turn among 1 000", 1_000),
    "create": ("A thread created and joined", 1),
    "channel": ("A round trip of one of four pairs", 8),
    "contended": ("A lock of eight", 8),
    "fibonacci": ("A thread of a fork-join tree", 1),
    "queens": ("A thread of a search", 1),
}

# As their programs call them, where that is not what a model is called.
NAMES = {
    "boost": "Boost.Fiber",
    "context": "Boost.Context",
    "pth": "GNU Pth",
    "st": "State Threads",
    "go": "Go",
    "java": "Java",
    "cpp20": "C++20 coroutine",
    "argobots": "Argobots",
    "photon": "Photon",
}
KNOWN = {**COLOURS, **{name: COLOURS[model] for model, name in NAMES.items()}}

# A row's groups by who they are of, those without the metric left out.
Rows = dict[Row, dict[str, Group]]


def named(trial: Trial) -> str:
    """Who does it, for a reader."""
    return NAMES.get(trial.model, series_of(trial))


def rows_of(story: Story, place: Place) -> Rows:
    """What was measured, by row, in the order of the definition."""
    found: Rows = {}
    for group in story.groups_of(NAME, place):
        row = row_of(group.trial)
        if group.trial.factors.get("control") != "b" and group.values(metric_of(row.work)):
            found.setdefault(row, {})[named(group.trial)] = group
    return found


def _median(group: Group, metric: str) -> Interval:
    found = median_interval(group.values(metric), "ns")
    assert found is not None
    return found


def best_peer(row: Row, of: dict[str, Group]) -> str | None:
    """Of those that are no uthreads, and do as much, the one with the least median."""
    metric = metric_of(row.work)
    apart = TLS.keys() | LESS
    peers = [name for name, group in of.items() if group.trial.model not in apart]
    return min(peers, key=lambda name: _median(of[name], metric).estimate, default=None)


def label(row: Row) -> str:
    """A row in words."""
    parts = [row.work]
    if row.threads > 1:
        parts.append(f"{number(row.threads)} threads")
    if row.workers > 1:
        parts.append(f"{row.workers} workers")
    return ", ".join(parts)


def ratios(row: Row, of: dict[str, Group]) -> dict[str, Interval]:
    """Each one's median over the best peer's, within blocks; without those that have none."""
    best = best_peer(row, of)
    found: dict[str, Interval] = {}
    for name, group in of.items():
        ratio = ratio_interval(group, of[best], metric_of(row.work)) if best else None
        if ratio is not None and name != best:
            found[name] = ratio
    return found


def figures(story: Story) -> list[Figure]:
    made = []
    for place in story.places_of(NAME):
        rows = rows_of(story, place)
        made += [*_standing(rows, place), *_growth(rows, place), *_spreading(rows, place)]
    return made


def _standing(rows: Rows, place: Place) -> Iterator[Figure]:
    drawn = [
        shapes.of_interval(ratio, case=label(row), series=name)
        for row, of in rows.items()
        for name, ratio in ratios(row, of).items()
        if of[name].trial.model in TLS and ratio.low > 0
    ]
    if not drawn:
        return
    worst = max(drawn, key=lambda one: one["value"])
    yield figure(
        shapes.forest(drawn, "times the best peer's (less is better)", log=True, line=1.0),
        f"fig-{NAME}" + place_suffix(place),
        f"Uthreads beside the best other library{place.beside}",
        f"Furthest behind: {worst['series']}, {worst['case']}, {number(worst['value'])} times.",
        "Ratio of medians, compared block by block, with its 95 % interval. Left of the line"
        " uthreads are ahead, right of it behind.",
    )


def _growth(rows: Rows, place: Place) -> Iterator[Figure]:
    for work, what in GROWS.items():
        drawn = [
            shapes.of_interval(_median(group, "each_ns"), x=row.threads, series=name)
            for row, of in rows.items()
            if row.work == work and row.workers == 1
            for name, group in of.items()
        ]
        counts = sorted({one["x"] for one in drawn})
        if len(counts) < 2:
            continue
        yield figure(
            shapes.curves(
                drawn, "threads", "ns (less is better)", known=KNOWN, log_y=True, ticks=counts
            ),
            f"fig-{NAME}-{work}" + place_suffix(place),
            f"{what}, by how many there are{place.beside}",
            f"{len(drawn)} medians, from {counts[0]} to {counts[-1]} threads.",
            "One worker. Median over invocations, with its 95 % interval.",
        )


def _spreading(rows: Rows, place: Place) -> Iterator[Figure]:
    for work, (what, threads) in SPREADS.items():
        drawn = [
            shapes.of_interval(_median(group, "each_ns"), x=row.workers, series=name)
            for row, of in rows.items()
            if row.work == work and row.threads == threads
            for name, group in of.items()
        ]
        counts = sorted({one["x"] for one in drawn})
        if len(counts) < 2:
            continue
        yield figure(
            shapes.curves(
                drawn, "workers", "ns (less is better)", known=KNOWN, log_y=True, ticks=counts
            ),
            f"fig-{NAME}-{work}-workers" + place_suffix(place),
            f"{what}, by workers{place.beside}",
            f"{len(drawn)} medians, from {counts[0]} to {counts[-1]} workers.",
            "Time for one of all operations, whoever did it. Median over invocations, with its"
            " 95 % interval.",
        )


def tables(story: Story) -> list[Table]:
    places = story.places_of(NAME)
    return [one for place in places for one in (_table(story, place), *_versions(story, place))]


def _versions(story: Story, place: Place) -> Iterator[Table]:
    """What was measured, as each program says of itself."""
    found = {
        (named(group.trial), str(sample.detail["version"]), str(sample.detail.get("built", "")))
        for group in story.groups_of(NAME, place)
        for sample in group.good
        if sample.detail.get("version")
    }
    if found:
        yield Table(
            f"What was measured, engine {place}: versions, compilers and flags",
            ("library", "version", "built by"),
            3,
            tuple(TableRow(line) for line in sorted(found)),
        )


def _table(story: Story, place: Place) -> Table:
    lines = []
    for row, of in rows_of(story, place).items():
        metric = metric_of(row.work)
        beside, best = ratios(row, of), best_peer(row, of)
        order = sorted(of, key=lambda name: _median(of[name], metric).estimate)
        for index, name in enumerate(order):
            held = median_interval(of[name].values("bytes"), "bytes")
            lines.append(
                TableRow(
                    (
                        label(row),
                        name,
                        spread(_median(of[name], metric)),
                        "best peer" if name == best else spread(beside.get(name)),
                        number(held.estimate) if held else "–",
                        str(len(of[name].good)),
                    ),
                    first=index == 0,
                )
            )
    return Table(
        f"Measured here, engine {place}: ns of one operation, of sleep and requests how late 1 %"
        " are, medians with 95 % intervals, and over the best peer's",
        ("work", "library", "ns", "x best peer", "bytes each", "n"),
        2,
        tuple(lines),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal(tables(story))


def _says(groups: Rows) -> Iterator[str]:
    for row, of in groups.items():
        best = best_peer(row, of)
        found = ratios(row, of)
        clauses = [
            times(found[name], f"as long as {best}")
            + ("" if found[name].high < 1 else " – behind" if found[name].low > 1 else "")
            for name in of
            if name in found and of[name].trial.model in TLS
        ]
        names = [name for name in of if name in found and of[name].trial.model in TLS]
        if best and names:
            said = "; ".join(f"{n} {c}" for n, c in zip(names, clauses, strict=True))
            took = phrase(_median(of[best], metric_of(row.work)), "ns")
            yield f"{label(row)}: the best peer is {best}, {took}; {said}."


def _sums_up(groups: Rows) -> Iterator[str]:
    """In how many rows each mode is ahead of all others, behind, or neither."""
    for tls in TLS["uthread"]:
        name = f"uthread {tls}"
        found = [ratios(row, of).get(name) for row, of in groups.items()]
        told = [one for one in found if one is not None]
        ahead = sum(one.high < 1 for one in told)
        behind = sum(one.low > 1 for one in told)
        if told:
            yield (
                f"{name} is ahead of the best other library in {ahead} of {len(told)} rows,"
                f" behind in {behind}, and in {len(told) - ahead - behind} there may be no"
                " difference."
            )


def _missing(groups: Sequence[Group]) -> Iterator[str]:
    reasons = dict.fromkeys(
        f"{named(group.trial)}, {label(row_of(group.trial))}: {why}"
        for group in groups
        for sample in group.good
        if (why := sample.detail.get("unmeasured"))
    )
    for reason in reasons:
        yield f"Not measurable here: {reason}."


def sentences(story: Story) -> list[str]:
    """Each row's standing, losses as plainly as wins, and what could not be measured."""
    return [
        sentence
        for place in story.places_of(NAME)
        for sentence in (
            *_sums_up(rows_of(story, place)),
            *_says(rows_of(story, place)),
            *_missing(story.groups_of(NAME, place)),
        )
    ]
