# SPDX-License-Identifier: Apache-2.0
"""The chapter of `starvation`: how late those wake who want to answer, beside endless loops."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Group, Place
from swtch.experiments.starvation import NAME
from swtch.records import Finding
from swtch.report import shapes
from swtch.report.charts import COLOURS, INK, Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

SERIES = {
    **COLOURS,
    "uthread, no ticks": "#D55E00",
    "uthread, fair": "#E69F00",
    "go, no signals": "#CC79A7",
    "nobody": INK,
    "a pthread a CPU": "#E69F00",
    "many pthreads": COLOURS["pthread"],
    "many uthreads": COLOURS["uthread"],
}
NO_GO = (
    "go: not measured; its program is built where Go is installed (apt-get install golang-go; make)"
)


def in_unit(place: Place, metric: str) -> str:
    """The name of a time metric at this place."""
    return f"{metric}_{place.suffix('ms')}"


def _unit(place: Place) -> str:
    return place.unit("ms")


def _beside(measured: Group | Finding) -> str:
    """What computes meanwhile, in words."""
    factors = measured.trial.factors
    hogs = int(str(factors["hogs"]))
    if factors["part"] == "neighbours":
        kind = f"{measured.trial.model}{'s'[: hogs != 1]}"
        return f"{number(hogs)} {kind}" if hogs else "nobody"
    return f"{hogs} loop{'s'[: hogs != 1]}"


def _part(story: Story, place: Place, part: str) -> list[Group]:
    return [g for g in story.groups_of(NAME, place) if g.trial.factors["part"] == part]


def parts(story: Story, place: Place) -> list[tuple[str, list[Group]]]:
    """The pictures of a place: a name, and whom it shows."""
    main = _part(story, place, "main")
    by_loops = [
        (f"main-{loops}", [g for g in main if g.trial.factors["loops"] == loops])
        for loops in dict.fromkeys(int(str(g.trial.factors["loops"])) for g in main)
    ]
    return [*by_loops, ("neighbours", _part(story, place, "neighbours"))]


# ---- figures ----


def figures(story: Story) -> list[Figure]:
    pictures = [
        _distribution(place, name, groups)
        for place in story.places_of(NAME)
        for name, groups in parts(story, place)
    ]
    return [picture for picture in pictures if picture is not None]


def _distribution(place: Place, name: str, groups: list[Group]) -> Figure | None:
    neighbours = name == "neighbours"
    key = "intended_response_quantiles" if neighbours else "intended_late_quantiles"
    rows: list[dict[str, Any]] = []
    for group in groups:
        details = [s.detail[key] for s in group.good if s.detail.get(key)]
        series = str(group.trial.factors["case"])
        rows += [{**row, "series": series} for row in shapes.pooled(details, 1e-6)]
    if not any(row["x"] > 0 and 0 < row["share"] < 1 for row in rows):
        return None
    if neighbours:
        title = "Three pthreads that answer, beside busy threads"
        axis = f"{_unit(place)} from when it should have woken until it had answered"
        caption = (
            "The study's first figure as a measurement. A busy uthread is none of the kernel's"
            " threads: the three compete with as many threads as there are workers."
        )
    else:
        loops = name.removeprefix("main-")
        several = "an endless loop" if loops == "1" else f"{loops} endless loops"
        title = f"How late main wakes beside {several} for each CPU"
        axis = f"{_unit(place)} late"
        caption = (
            "The study's second figure as a measurement, from each moment that main was to wake."
            " Where it woke once, when the loops had ended by themselves, it missed all of them,"
            " the first by the whole time and the last by nothing: a slope over all of it."
        )
    slowest = max(rows, key=lambda row: (row["share"] == 0.5) * row["x"])
    return figure(
        shapes.distributions(rows, axis, known=SERIES),
        f"fig-starvation-{name}" + place_suffix(place),
        f"{title}{place.beside}",
        f"Half of all is latest for: {slowest['series']}, {number(slowest['x'])} {_unit(place)}.",
        caption,
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    return [_results(story, place) for place in story.places_of(NAME)]


def _row(finding: Finding, place: Place, before: str) -> Row:
    factors = finding.trial.factors
    closed = "response" if factors["part"] == "neighbours" else "late"
    name = f"intended_{closed}"
    return Row(
        (
            str(factors["case"]),
            _beside(finding),
            count(finding, in_unit(place, f"{name}_p50")),
            spread(finding.intervals.get(in_unit(place, f"{name}_p99"))),
            count(finding, in_unit(place, f"{name}_max")),
            count(finding, in_unit(place, f"{closed}_p99")),
            count(finding, "answers"),
            count(finding, "asked"),
            count(finding, "preempted"),
            f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
            gate_marks(finding),
        ),
        first=_group(finding) != before,
    )


def _group(finding: Finding) -> str:
    factors = finding.trial.factors
    return f"{factors['part']} {factors['loops'] if factors['part'] == 'main' else ''}"


def _results(story: Story, place: Place) -> Table:
    rows = []
    before = ""
    for finding in story.findings_of(NAME, place):
        rows.append(_row(finding, place, before))
        before = _group(finding)
    columns = (
        *("who", "beside", f"p50, {_unit(place)}", "p99", "max", "p99 closed", "answers"),
        *("asked", "preempted", "n", "gates"),
    )
    if lacks_go(story, place):
        rows.append(Row((NO_GO, *["–"] * (len(columns) - 1)), first=True))
    return Table(
        f"Measured here, engine {place}: how late one wakes (of three neighbours: until they have"
        " answered) after each moment that was meant, p50, p99 and max of an invocation, medians"
        " over invocations, p99 with its 95 % interval; closed: of those alone that slept, as a"
        " closed loop sees it; asked: answers, were every one on time",
        columns,
        2,
        tuple(rows),
    )


def lacks_go(story: Story, place: Place) -> bool:
    """On the machine itself Go could have been measured."""
    models = {group.trial.model for group in story.groups_of(NAME, place)}
    return place.home and bool(models) and "go" not in models


def _brief(story: Story, place: Place) -> Table:
    """What fits a terminal."""
    full = _results(story, place)
    return Table(
        f"How late they wake or answer, {place}: p50, p99 [95 %], max",
        full.columns[:5],
        2,
        tuple(
            Row((NO_GO.partition(";")[0], *row.cells[1:5]), first=True)
            if row.cells[0] == NO_GO
            else Row(row.cells[:5], row.first)
            for row in full.rows
        ),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([_brief(story, place) for place in story.places_of(NAME)])
