# SPDX-License-Identifier: Apache-2.0
"""The chapter of `uthread-scaling`: time against threads, and what threads add to the work."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Group, Place, ratio_interval
from swtch.experiments.uthread_scaling import EXPERIMENT, NAME, STUDY
from swtch.records import Finding, Interval
from swtch.report import shapes
from swtch.report.charts import COLOURS, INK, Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

# Threads, additions of each, CPUs.
Case = tuple[int, int, int]

SERIES = {**COLOURS, "alone": INK}
CAPTION = "Dot: median over invocations, bar: its 95 % interval."


def figures(story: Story) -> list[Figure]:
    pictures = [
        maker(story, place) for place in story.places_of(NAME) for maker in (_times, _overheads)
    ]
    return [picture for picture in pictures if picture is not None]


def time_metric(place: Place) -> str:
    """What says how long something took at this place."""
    return f"wall_{place.suffix('ms')}"


def _case(measured: Group | Finding) -> tuple[int, int, int]:
    factors = measured.trial.factors
    return tuple(int(str(factors[name])) for name in ("threads", "iterations", "workers"))  # type: ignore[return-value]


def over_alone(
    story: Story, place: Place, metric: str
) -> dict[tuple[int, int, int], dict[str, Interval]]:
    """By case and kind: the metric over that of the work alone."""
    groups = [g for g in story.groups_of(NAME, place) if g.good]
    alone = {_case(g): g for g in groups if g.trial.factors["kind"] == "alone"}
    ratios: dict[Case, dict[str, Interval]] = {}
    for group in groups:
        base = alone.get(_case(group))
        if group.trial.factors["kind"] == "alone" or base is None:
            continue
        ratio = ratio_interval(group, base, metric)
        if ratio is not None:
            ratios.setdefault(_case(group), {})[group.trial.model] = ratio
    return ratios


def _times(story: Story, place: Place) -> Figure | None:
    metric = time_metric(place)
    unit = _unit(metric)
    rows: list[dict[str, Any]] = []
    work = max((_case(f)[1] for f in story.findings_of(NAME, place)), default=0)
    for finding in story.findings_of(NAME, place):
        threads, iterations, workers = _case(finding)
        interval = finding.intervals.get(metric)
        if interval is None or iterations != work:
            continue
        series = str(finding.trial.factors["kind"])
        rows.append(shapes.of_interval(interval, x=threads, workers=workers, series=series))
    if not rows:
        return None
    if len({row["x"] for row in rows}) == 1:
        # One number of threads is no curve.
        for row in rows:
            row["case"] = f"{row['workers']} CPU{'s'[: row['workers'] - 1]}"
        chart: Any = shapes.forest(rows, f"{unit} (less is better)", known=SERIES, zero=True)
    else:
        chart = _panels(rows, work, unit)
    return figure(
        chart,
        "fig-scaling-time" + place_suffix(place),
        f"Time for all threads, from the first creation to the last join{place.beside}",
        f"{len(rows)} medians, up to {number(max(row['value'] for row in rows))} {unit}.",
        CAPTION + " “Alone” is the same additions on the same CPUs without threads; what lies"
        " above it is what the threads cost. The study's figure has no numbers to draw here.",
    )


def _panels(rows: list[dict[str, Any]], work: int, unit: str) -> Any:
    """Curves over the number of threads, for each number of CPUs."""
    import altair as alt

    panels = []
    for workers in sorted({row["workers"] for row in rows}):
        own = [row for row in rows if row["workers"] == workers]
        chart = shapes.curves(
            own,
            f"threads, {number(work)} additions each",
            f"{unit} (less is better)",
            known=SERIES,
            log_x=False,
            ticks=sorted({row["x"] for row in own}),
        )
        title = f"{workers} CPU{'s'[: workers - 1]}"
        panels.append(
            chart.properties(title=alt.TitleParams(title, anchor="start", color=INK, fontSize=13))
        )
    return alt.vconcat(*panels, spacing=10).resolve_scale(color="shared")


def _overheads(story: Story, place: Place) -> Figure | None:
    rows: list[dict[str, Any]] = []
    for (threads, iterations, workers), by_model in over_alone(
        story, place, time_metric(place)
    ).items():
        for model, ratio in by_model.items():
            case = f"{number(threads)} x {number(iterations)}, {workers} CPU{'s'[: workers - 1]}"
            rows.append(shapes.of_interval(ratio, case=case, series=model))
    if not rows:
        return None
    chart = shapes.forest(rows, "time over that of the work alone", log=True, line=1.0)
    worst = max(rows, key=lambda row: row["value"])
    return figure(
        chart,
        "fig-scaling-overhead" + place_suffix(place),
        f"What threads add to the work{place.beside}",
        f"Most: {worst['series']}, {worst['case']}, with {number(worst['value'])} times the work.",
        "Ratio of medians, compared block by block, with its 95 % interval. At the line threads"
        " cost nothing. A case is threads x additions each; the less a thread does, the more of"
        " the time is creating, switching and joining it.",
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    measured = [_results(story, place) for place in story.places_of(NAME)]
    return [*measured, _published()]


def _results(story: Story, place: Place) -> Table:
    metric = time_metric(place)
    ratios = over_alone(story, place, metric)
    rows = []
    for finding in story.findings_of(NAME, place):
        case = _case(finding)
        kind = str(finding.trial.factors["kind"])
        rows.append(
            Row(
                (
                    *_names(case, kind),
                    spread(finding.intervals.get(metric)),
                    spread(ratios.get(case, {}).get(kind)),
                    count(finding, "cpu_ms"),
                    count(finding, "live"),
                    count(finding, "preempted"),
                    count(finding, "maxrss_mb"),
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=kind == "pthread",
            )
        )
    return Table(
        f"Measured here, engine {place}: time from the first creation to the last join, median"
        " with its 95 % interval; CPU time, threads that existed when the last was created,"
        " uthreads stopped by a tick, and memory are medians",
        (
            *("threads x work", "CPUs", "model", _unit(metric), "over alone", "CPU ms"),
            *("live", "preempted", "MB", "n", "gates"),
        ),
        3,
        tuple(rows),
    )


def _names(case: Case, kind: str) -> tuple[str, str, str]:
    return f"{number(case[0])} x {number(case[1])}", str(case[2]), kind


def _unit(metric: str) -> str:
    return "million instructions" if metric == "wall_mi" else "ms"


def _brief(story: Story, place: Place) -> Table:
    """What fits a terminal."""
    metric = time_metric(place)
    ratios = over_alone(story, place, metric)
    rows = []
    for finding in story.findings_of(NAME, place):
        case = _case(finding)
        kind = str(finding.trial.factors["kind"])
        ratio = ratios.get(case, {}).get(kind)
        rows.append(
            Row(
                (
                    *_names(case, kind),
                    spread(finding.intervals.get(metric)),
                    number(ratio.estimate) if ratio else "–",
                    count(finding, "cpu_ms"),
                ),
                first=kind == "pthread",
            )
        )
    return Table(
        f"Time for all threads, {place}: median [95 %]",
        ("threads x work", "CPUs", "model", _unit(metric), "x alone", "CPU ms"),
        3,
        tuple(rows),
    )


def _published() -> Table:
    sizes = ", ".join(number(size.threads) for size in STUDY)
    return Table(
        f"Published, on another machine: {sizes} threads, uthreads switched every 1 ms",
        ("cores", "what", "figure", "source"),
        2,
        tuple(
            Row((case, "pthread's time over uthread's", f"about {known.value:g} x", known.source))
            for (case, _, _), known in EXPERIMENT.published.items()
        ),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([_brief(story, place) for place in story.places_of(NAME)])
