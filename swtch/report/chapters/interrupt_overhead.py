# SPDX-License-Identifier: Apache-2.0
"""The chapter of `interrupt-overhead`: direct and indirect cost over n, and one interrupt by the
two methods."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from swtch.analysis import stats
from swtch.analysis.findings import Group, Place
from swtch.claims.study_002 import INTERRUPT_SUBJECTS, slopes
from swtch.experiments.interrupt_overhead import EXPERIMENT, MOST, NAME
from swtch.experiments.pair_overhead import shown_in, unit_of
from swtch.records import Finding, Interval
from swtch.report import shapes
from swtch.report.chapters import _study_002 as study_002
from swtch.report.chapters.pair_overhead import CAPTION, caveat, of_place, panels, published_figure
from swtch.report.charts import Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

D = "by itself (D)"
SLOPE = "in the task (slope)"


def figures(story: Story) -> list[Figure]:
    pictures = [
        maker(story, place) for place in story.places_of(NAME) for maker in (_over_n, _two_methods)
    ]
    return [picture for picture in pictures if picture is not None]


def _good(story: Story, place: Place) -> list[Group]:
    return [group for group in story.groups_of(NAME, place) if group.good]


def _n(measured: Group | Finding) -> int:
    return int(str(measured.trial.factors["n"]))


def slope_of(story: Story, place: Place) -> dict[tuple[str, str], Interval]:
    """By task and model: the whole cost of one interrupt more."""
    by_case: dict[tuple[str, str], dict[int, Group]] = {}
    for group in _good(story, place):
        case = str(group.trial.factors["task"]), str(group.trial.model)
        by_case.setdefault(case, {})[_n(group)] = group
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    medians: dict[tuple[str, str], Interval] = {}
    for case, by_n in by_case.items():
        if len(by_n) > 1:
            interval = stats.median_interval(slopes(by_n, f"added_{ends}"), unit)
            if interval is not None:
                medians[case] = interval
    return medians


def _over_n(story: Story, place: Place) -> Figure | None:
    groups = _good(story, place)
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows: list[dict[str, Any]] = []
    whose = ""
    for model, name in INTERRUPT_SUBJECTS:
        own = [group for group in groups if group.trial.model == model]
        if not own:
            continue
        whose = name
        for group in own:
            n, task = _n(group), str(group.trial.factors["task"])
            for series, values in (
                ("direct, n D", [n * d for d in group.values(f"direct_{ends}")]),
                ("indirect", group.values(f"indirect_{ends}")),
                ("lost by the task", group.values(f"share_{ends}")),
            ):
                interval = stats.median_interval(values, unit)
                if interval is not None:
                    rows.append(shapes.of_interval(interval, task=task, x=n, series=series))
        break
    if not rows:
        return None
    last = [row for row in rows if row["x"] == max(row["x"] for row in rows)]
    listing = "; ".join(f"{r['task']} {r['series']} {number(r['value'])}" for r in last)
    return figure(
        panels(rows, "task", "interrupts", unit),
        "fig-interrupt-cost" + place_suffix(place),
        f"What n {whose} cost{of_place(place)}",
        f"{unit} at most n: {listing}.",
        CAPTION + " As in the study, the direct cost is n times one interrupt by itself, and the"
        " indirect what R' is more than that and R." + caveat(groups),
    )


def _two_methods(story: Story, place: Place) -> Figure | None:
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    by_slope = slope_of(story, place)
    rows: list[dict[str, Any]] = []
    for finding in story.findings_of(NAME, place):
        case = str(finding.trial.factors["task"]), finding.trial.model
        direct = finding.intervals.get(f"direct_{ends}")
        if _n(finding) != MOST or direct is None:
            continue
        name = f"{case[0]}, {case[1]}"
        rows.append(shapes.of_interval(direct, case=name, series=D))
        if case in by_slope:
            rows.append(shapes.of_interval(by_slope[case], case=name, series=SLOPE))
    if not rows:
        return None
    dearest = max(rows, key=lambda row: row["value"])
    return figure(
        shapes.forest(rows, f"{unit} an interrupt", known={}),
        "fig-interrupt-methods" + place_suffix(place),
        f"One interrupt, by both methods{of_place(place)}",
        f"Dearest: {dearest['case']}, {dearest['series']}, {number(dearest['value'])} {unit}.",
        "D: median of a hundred in a loop. Slope: how much longer the task takes for one more. The"
        " slope less D is the indirect cost of one. Of a kthread it is an interrupt, of the others"
        " a signal to the own thread." + caveat(_good(story, place)),
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    return [*(_results(story, place) for place in story.places_of(NAME)), _published()]


def _results(story: Story, place: Place, brief: bool = False) -> Table:
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    by_slope = slope_of(story, place)
    rows = []
    shown = ""
    for finding in story.findings_of(NAME, place):
        if _n(finding) != MOST:
            continue
        task, model = str(finding.trial.factors["task"]), finding.trial.model
        intervals = finding.intervals
        cells: tuple[str, ...] = (
            task if task != shown else "",
            model,
            spread(intervals.get(f"direct_{ends}")),
            spread(by_slope.get((task, model))),
            spread(intervals.get(f"indirect_{ends}")),
        )
        if not brief:
            cells = (
                *cells,
                *(count(finding, f"{name}_{ends}") for name in ("share", "inflation", "net")),
                count(finding, f"added_{ends}"),
                count(finding, "added_percent"),
                f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                gate_marks(finding),
            )
        rows.append(Row(cells, first=task != shown))
        shown = task
    columns: tuple[str, ...] = ("task", "thread", "D", "by slope", "indirect")
    if not brief:
        columns += ("task loses", "interrupts", "D net", "added", "%", "n", "gates")
    return Table(
        f"{MOST} interrupts, {place}, {unit}: median [95 %]"
        if brief
        else f"Measured here, engine {place}: {MOST} interrupts, in {unit}, medians, some with"
        " 95 % intervals. Indirect is what the task loses and what the interrupts take beyond D",
        columns,
        2,
        tuple(rows),
    )


def _published() -> Table:
    names = {"indirect_percent": "indirect", "added_percent": "direct and indirect", "run_s": "R"}
    return Table(
        "Published, on an ARM926 of 120 MHz: a task in the kernel",
        ("task", "what", "figure", "source"),
        2,
        tuple(
            Row((case, names[metric], published_figure(known), known.source))
            for (case, _, metric), known in EXPERIMENT.published.items()
        ),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([_results(story, place, True) for place in story.places_of(NAME)])


def sentences(story: Story) -> list[str]:
    return study_002.sentences(story, NAME)
