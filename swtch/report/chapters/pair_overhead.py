# SPDX-License-Identifier: Apache-2.0
"""The chapter of `pair-overhead`: direct and indirect cost over n, a switch by itself, and what
each task loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType

from swtch.analysis import stats
from swtch.analysis.findings import Group, Place
from swtch.claims.study_002 import PAIR_SUBJECTS, losses_of, typical
from swtch.experiments.pair_overhead import (
    EXPERIMENT,
    MOST,
    NAME,
    STEPS,
    kind_of,
    shown_in,
    unit_of,
)
from swtch.records import Finding, Published
from swtch.report import shapes
from swtch.report.chapters import _study_002 as study_002
from swtch.report.charts import COLOURS, INK, Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

# kthreads first, with the study's kind; no ucontext, whose colour is free.
SERIES = {"kthread": COLOURS["kthread"], "kthread-mm": COLOURS["ucontext"]}
SERIES |= {kind: COLOURS[kind] for kind in ("process", "pthread", "uthread", "coroutine")}
PARTS = {"direct, n C": "#D55E00", "indirect": "#0072B2", "indirect, C warm": "#56B4E9"}
PARTS |= {"taken by the switches": "#CC79A7"}
PARTS |= {"lost by the tasks": "#009E73", "lost by the task": "#009E73", "direct, n D": "#D55E00"}
CAPTION = "Dot: median over invocations, bar: its 95 % interval, cut where it is very wide."


def figures(story: Story) -> list[Figure]:
    pictures = [
        maker(story, place)
        for place in story.places_of(NAME)
        for maker in (_over_n, _one_switch, _who_pays)
    ]
    return [picture for picture in pictures if picture is not None]


def of_place(place: Place) -> str:
    return place.beside


def caveat(groups: Sequence[Group]) -> str:
    """What an emulated place cannot show."""
    if not groups:
        return ""
    first = groups[0]
    if first.place.counting:
        return " Counted are instructions, so no cache has a part in it."
    emulated = first.trial.factors.get("accel") == "tcg"
    return " Emulated: there are no caches to disturb, only the emulator's." if emulated else ""


def _good(story: Story, place: Place) -> list[Group]:
    return [group for group in story.groups_of(NAME, place) if group.good]


def _subject(groups: Sequence[Group]) -> tuple[list[Group], str]:
    """The kind of thread nearest to the study's, as the claims take it."""
    for model, space, name in PAIR_SUBJECTS:
        chosen = [g for g in groups if g.trial.model == model and g.trial.factors["space"] == space]
        if chosen:
            return chosen, name
    return [], ""


def _n(measured: Group | Finding) -> int:
    return int(str(measured.trial.factors["n"]))


def _row(values: Sequence[float], unit: str, **more: Any) -> list[dict[str, Any]]:
    interval = stats.median_interval(values, unit)
    return [shapes.of_interval(interval, **more)] if interval is not None else []


def _over_n(story: Story, place: Place) -> Figure | None:
    groups, whose = _subject(_good(story, place))
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows: list[dict[str, Any]] = []
    for group in groups:
        n, pair = _n(group), str(group.trial.factors["pair"])
        a, b = (group.by_block(f"share_{letter}_{ends}") for letter in "ab")
        for series, values in (
            ("direct, n C", [n * c for c in group.values(f"direct_{ends}")]),
            ("taken by the switches", group.values(f"switches_{ends}")),
            ("indirect", group.values(f"indirect_{ends}")),
            ("indirect, C warm", group.values(f"indirect_warm_{ends}")),
            ("lost by the tasks", [a[i] + b[i] for i in a if i in b]),
        ):
            rows += _row(values, unit, pair=pair, x=n, series=series)
    if not rows:
        return None
    last = [r for r in rows if r["x"] == max(row["x"] for row in rows)]
    listing = "; ".join(
        f"{r['pair']} {r['series']} {number(r['value'])}" for r in last if r["series"] != "direct"
    )
    return figure(
        panels(rows, "pair", "switches", unit),
        "fig-pair-cost" + place_suffix(place),
        f"What n switches between {whose} cost{of_place(place)}",
        f"{unit} at most n: {listing}.",
        CAPTION + " In the study (figure 2) the indirect cost lies above the direct one. It is"
        " below 0 where a switch between the tasks takes less than C, one from evicted caches;"
        " what the tasks lose and what the switches took do not depend on C, and claims are"
        " about those." + caveat(groups),
    )


def panels(rows: list[dict[str, Any]], by: str, x: str, unit: str) -> Any:
    """Curves over n, a panel for each pair or task, two in a row; intervals that would dwarf the
    curves are cut."""
    import altair as alt

    low, high = (f(row["value"] for row in rows) for f in (min, max))
    room = (high - low) / 2
    for row in rows:
        row["low"] = max(row["low"], low - room)
        row["high"] = min(row["high"], high + room)
    charts = []
    for case in dict.fromkeys(row[by] for row in rows):
        own = [row for row in rows if row[by] == case]
        chart = shapes.curves(
            own, x, unit, known=PARTS, log_x=False, ticks=sorted({row["x"] for row in own}), line=0
        )
        title = alt.TitleParams(case, anchor="start", color=INK, fontSize=13)
        charts.append(chart.properties(title=title, width=215, height=150))
    return alt.concat(*charts, columns=2, spacing=12).resolve_scale(color="shared")


def _one_switch(story: Story, place: Place) -> Figure | None:
    groups = _good(story, place)
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows: list[dict[str, Any]] = []
    for kind in SERIES:
        own = [group for group in groups if kind_of(group.trial) == kind]
        last = [group for group in own if _n(group) == MOST]
        for series, metric, of in (
            ("evicted (C)", "direct", own),
            ("warm", "direct_warm", own),
            ("between the tasks", "between", last),
        ):
            by_block = typical(of, f"{metric}_{ends}")
            rows += _row(list(by_block.values()), unit, case=kind, series=series)
    if not rows:
        return None
    chart = shapes.forest(rows, f"{unit} a switch", known={}, log=True)
    dearest = max(rows, key=lambda row: row["value"])
    return figure(
        chart,
        "fig-pair-direct" + place_suffix(place),
        f"One switch, by itself and between the tasks{of_place(place)}",
        f"Dearest: {dearest['case']}, {dearest['series']}, {number(dearest['value'])} {unit}.",
        "By itself from evicted caches (C) and from warm ones, and between the tasks at"
        f" n = {MOST}; median over all pairs. The study's switch took 48 µs, from empty caches,"
        " as all of its switches did." + caveat(groups),
    )


def _who_pays(story: Story, place: Place) -> Figure | None:
    groups = [group for group in _good(story, place) if _n(group) == MOST]
    unit = shown_in(place.engine)
    rows: list[dict[str, Any]] = []
    for task in STEPS:
        for kind in SERIES:
            losses = losses_of([group for group in groups if kind_of(group.trial) == kind])
            values = list(losses.get(task, {}).values())
            rows += _row(values, unit, case=task, series=kind)
    if not rows:
        return None
    most = max(rows, key=lambda row: row["value"])
    return figure(
        shapes.forest(rows, f"{unit} lost in {MOST} switches", known=SERIES, line=0),
        "fig-pair-losses" + place_suffix(place),
        f"What each task loses in {MOST} switches{of_place(place)}",
        f"Most: {most['case']} as {most['series']}, {number(most['value'])} {unit}.",
        "A task's time in R' less its time in R, the mean of its pairs, without the switches"
        " themselves. The study (figure 3): crc ≤ 2 ms, sort 2.5 ms, aes and deflate 6 to"
        " 8 ms." + caveat(groups),
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    place_tables = []
    for place in story.places_of(NAME):
        place_tables += [_results(story, place), _by_n(story, place)]
    return [*place_tables, _published()]


def _ordered(story: Story, place: Place) -> list[Finding]:
    return [f for f in story.findings_of(NAME, place) if f.n or f.failed]


def _results(story: Story, place: Place) -> Table:
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows = []
    shown = ""
    for finding in (f for f in _ordered(story, place) if _n(f) == MOST):
        pair = str(finding.trial.factors["pair"])
        intervals = finding.intervals
        rows.append(
            Row(
                (
                    pair if pair != shown else "",
                    kind_of(finding.trial),
                    *(count(finding, f"{name}_{ends}") for name in ("direct", "direct_warm")),
                    *(
                        spread(intervals.get(f"{name}_{ends}"))
                        for name in ("indirect", "indirect_warm")
                    ),
                    *(
                        count(finding, f"{name}_{ends}")
                        for name in ("share_a", "share_b", "inflation", "added")
                    ),
                    count(finding, "added_percent"),
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=pair != shown,
            )
        )
        shown = pair
    return Table(
        f"Measured here, engine {place}: {MOST} switches, in {unit}, medians, some with 95 %"
        " intervals. Indirect is A + B + switches; added is what both tasks lost and all"
        " switches took, and its share of the tasks by themselves",
        (
            *("pair", "thread", "C cold", "C warm", "indirect", "with warm C", "A", "B"),
            *("switches", "added", "%", "n", "gates"),
        ),
        2,
        tuple(rows),
    )


def _by_n(story: Story, place: Place) -> Table:
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    findings = _ordered(story, place)
    numbers = sorted({_n(finding) for finding in findings})
    by_case: dict[tuple[str, str], dict[int, Finding]] = {}
    for finding in findings:
        case = str(finding.trial.factors["pair"]), kind_of(finding.trial)
        by_case.setdefault(case, {})[_n(finding)] = finding
    rows = []
    shown = ""
    for (pair, kind), by_n in by_case.items():
        cells = [
            spread(by_n[n].intervals.get(f"indirect_{ends}")) if n in by_n else "–" for n in numbers
        ]
        rows.append(Row((pair if pair != shown else "", kind, *cells), first=pair != shown))
        shown = pair
    return Table(
        f"Indirect cost over the number of switches, engine {place}, in {unit}",
        ("pair", "thread", *(f"n = {n}" for n in numbers)),
        2,
        tuple(rows),
    )


def _brief(story: Story, place: Place) -> Table:
    """What fits a terminal."""
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows = []
    shown = ""
    for finding in (f for f in _ordered(story, place) if _n(f) == MOST):
        pair = str(finding.trial.factors["pair"])
        rows.append(
            Row(
                (
                    pair if pair != shown else "",
                    kind_of(finding.trial),
                    *(count(finding, f"{name}_{ends}") for name in ("direct", "direct_warm")),
                    spread(finding.intervals.get(f"indirect_{ends}")),
                    *(
                        count(finding, f"{name}_{ends}")
                        for name in ("share_a", "share_b", "inflation")
                    ),
                ),
                first=pair != shown,
            )
        )
        shown = pair
    return Table(
        f"{MOST} switches, {place}, {unit}: median [95 %]; indirect = A + B + switches",
        ("pair", "thread", "C cold", "warm", "indirect", "A", "B", "switches"),
        2,
        tuple(rows),
    )


def published_figure(known: Published) -> str:
    """As the study has it: a figure, or only a bound of one."""
    return f"{known.sign}{number(known.value)} {known.unit}"


def _published() -> Table:
    names = {"direct_us": "direct", "indirect_us": "indirect", "run_s": "R"}
    names |= {"switches_us": f"direct of {MOST}"}
    names |= {"indirect_percent": "indirect", "added_percent": "direct and indirect"}
    names |= {"share_us": "lost by it"}
    return Table(
        "Published, on an ARM926 of 120 MHz: tasks in the kernel with address spaces of their own",
        ("case", "what", "figure", "source"),
        2,
        tuple(
            Row((case, names[metric], published_figure(known), known.source))
            for (case, _, metric), known in EXPERIMENT.published.items()
        ),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([_brief(story, place) for place in story.places_of(NAME)])


def sentences(story: Story) -> list[str]:
    return study_002.sentences(story, NAME)
