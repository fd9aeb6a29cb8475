# SPDX-License-Identifier: Apache-2.0
"""The chapter of `preemption`: a tick beside its floors, by interval, and its punctuality."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Group, Place, ratio_interval
from swtch.experiments.preemption import NAME
from swtch.records import Finding, Interval, Trial
from swtch.report import shapes
from swtch.report.charts import COLOURS, INK, Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

SELF = "signal to oneself"
TIMER = "bare timer signal"
SERIES = {
    SELF: "#8C7AE6",
    TIMER: INK,
    "own timers": COLOURS["uthread"],
    "chain": "#0072B2",
    "monitor": "#D55E00",
    "own timers, frame": "#CC79A7",
    "own timers, in libc": "#E69F00",
}
_SOURCES = {"worker": "own timers", "process": "chain", "monitor": "monitor"}


def name_of(trial: Trial) -> str:
    """The way of a trial in words: who makes the ticks, and what is not as usual."""
    factors = trial.factors
    if factors["kind"] != "ticks":
        return SELF if factors["kind"] == "self" else TIMER
    words = [shapes.spoken(_SOURCES, factors["source"])]
    if factors["mechanism"] == "frame":
        words.append("frame")
    if factors["work"] == "libc":
        words.append("in libc")
    return ", ".join(words)


def interval_us(trial: Trial) -> int:
    """Of its ticks; 0 where there are none."""
    return int(str(trial.factors.get("interval_us") or 0))


def in_unit(place: Place, metric: str) -> str:
    """The name of a time metric at this place."""
    return f"{metric}_{place.suffix('us')}"


def _unit(place: Place) -> str:
    return place.unit("us")


def _interval_name(us: int) -> str:
    return f"{us / 1000:g} ms" if us >= 1000 else f"{us} µs" if us else "–"


def over_timer(story: Story, place: Place) -> dict[str, Interval]:
    """By trial: its gap over that of a bare timer signal of the same interval."""
    groups = [g for g in story.groups_of(NAME, place) if g.good]
    timers = {interval_us(g.trial): g for g in groups if g.trial.factors["kind"] == "timer"}
    ratios = {}
    for group in groups:
        base = timers.get(interval_us(group.trial))
        if group.trial.factors["kind"] != "ticks" or base is None:
            continue
        ratio = ratio_interval(group, base, in_unit(place, "gap_low"))
        if ratio is not None:
            ratios[group.trial.id] = ratio
    return ratios


# ---- figures ----


def figures(story: Story) -> list[Figure]:
    makers = (_gaps, _tails, _overheads, _punctuality)
    pictures = [maker(story, place) for place in story.places_of(NAME) for maker in makers]
    return [picture for picture in pictures if picture is not None]


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The floors first, then by interval, then as planned."""
    return sorted(findings, key=lambda f: interval_us(f.trial))


def _gaps(story: Story, place: Place) -> Figure | None:
    rows: list[dict[str, Any]] = []
    for finding in _ordered(story.findings_of(NAME, place)):
        interval = finding.intervals.get(in_unit(place, "gap_low"))
        if interval is None or interval.low <= 0:
            continue
        us = interval_us(finding.trial)
        name = name_of(finding.trial)
        case = f"{name}, every {_interval_name(us)}" if us else name
        rows.append(shapes.of_interval(interval, case=case, series=name))
    if not rows:
        return None
    dearest = max(rows, key=lambda row: row["value"])
    return figure(
        shapes.forest(
            rows, f"{_unit(place)} (less is better)", known=SERIES, log=True, legend=False
        ),
        "fig-preemption-gap" + place_suffix(place),
        f"One tick, from the last moment of one thread to the first of the next{place.beside}",
        f"Most: {dearest['case']}, {number(dearest['value'])} {_unit(place)}.",
        "The gap that a tenth of the ticks stay below, median over invocations with its 95 %"
        " interval: on a machine with other work, half the gaps may hold another program's turn."
        " The two floors have no runtime in them; what a tick adds to the bare timer signal is"
        " the runtime's.",
    )


def _quantiles(group: Group, name: str, scale: float) -> list[dict[str, Any]]:
    details = [s.detail[name] for s in group.good if s.detail.get(name)]
    return shapes.pooled(details, scale) if details else []


def _tails(story: Story, place: Place) -> Figure | None:
    groups = [g for g in story.groups_of(NAME, place) if g.good and interval_us(g.trial)]
    if not groups:
        return None
    finest = min(interval_us(g.trial) for g in groups)
    rows: list[dict[str, Any]] = []
    for group in groups:
        if interval_us(group.trial) == finest:
            series = name_of(group.trial)
            rows += [{**row, "series": series} for row in _quantiles(group, "gap_quantiles", 1e-3)]
    if not any(row["x"] > 0 and 0 < row["share"] < 1 for row in rows):
        return None
    return figure(
        shapes.distributions(rows, f"{_unit(place)} of one gap", known=SERIES),
        "fig-preemption-tail" + place_suffix(place),
        f"All gaps of ticks every {_interval_name(finest)}{place.beside}",
        f"{len({row['series'] for row in rows})} curves, from half of the gaps to the rarest.",
        "How many of the gaps were longer. Where the bare timer's curve bends away too, it was the"
        " machine: another program, or the hypervisor, had the CPU.",
    )


def _overheads(story: Story, place: Place) -> Figure | None:
    rows: list[dict[str, Any]] = []
    for finding in story.findings_of(NAME, place):
        interval = finding.intervals.get("overhead_cpu")
        factors = finding.trial.factors
        plain = factors.get("mechanism") != "frame" and factors.get("work") != "libc"
        if interval is None or not plain or interval.estimate <= 0:
            continue
        row = shapes.of_interval(
            interval, x=interval_us(finding.trial) / 1000, series=name_of(finding.trial)
        )
        row["low"] = max(row["low"], interval.estimate / 4)
        rows.append(row)
    if not rows:
        return None
    ticks = sorted({row["x"] for row in rows})
    chart = shapes.curves(
        rows,
        "ms from tick to tick",
        "% of CPU time added (less is better)",
        known=SERIES,
        log_y=True,
        ticks=ticks,
    )
    most = max(rows, key=lambda row: row["value"])
    return figure(
        chart,
        "fig-preemption-overhead" + place_suffix(place),
        f"What ticks add to work{place.beside}",
        f"Most: {most['series']} every {most['x']:g} ms, {number(most['value'])} %.",
        "CPU time of the same work with and without ticks, as a difference of parts that follow"
        " one another; everything is in it, caches too. Ten times as far apart, a tenth of the"
        " cost: a straight line. A difference not above zero is not drawn, and an interval is cut"
        " at a quarter of its estimate.",
    )


def _punctuality(story: Story, place: Place) -> Figure | None:
    groups = [
        g
        for g in story.groups_of(NAME, place)
        if g.good and interval_us(g.trial) == 1000 and g.trial.factors["kind"] == "ticks"
    ]
    rows: list[dict[str, Any]] = []
    for group in groups:
        series = name_of(group.trial)
        rows += [{**row, "series": series} for row in _quantiles(group, "period_quantiles", 1e-6)]
    if not any(row["x"] > 0 and 0 < row["share"] < 1 for row in rows):
        return None
    unit = place.unit("ms")
    return figure(
        shapes.distributions(rows, f"{unit} from one start to the next", known=SERIES),
        "fig-preemption-period" + place_suffix(place),
        f"How punctual ticks of 1 ms are{place.beside}",
        f"{len(groups)} ways to make ticks.",
        "The time from the start of one thread to the start of the other on the same worker. A"
        " source that never misses falls off at 1 ms; what is right of it came late or not at all.",
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    return [_results(story, place) for place in story.places_of(NAME)]


def _delivered(finding: Finding) -> str:
    least = finding.intervals.get("delivered_least")
    most = finding.intervals.get("delivered_most")
    if least is None or most is None:
        return "–"
    return f"{number(least.estimate)} to {number(most.estimate)}"


def _results(story: Story, place: Place) -> Table:
    ratios = over_timer(story, place)
    rows = []
    before = -1
    for finding in _ordered(story.findings_of(NAME, place)):
        us = interval_us(finding.trial)
        rows.append(
            Row(
                (
                    name_of(finding.trial),
                    _interval_name(us),
                    spread(finding.intervals.get(in_unit(place, "gap_low"))),
                    count(finding, in_unit(place, "gap")),
                    count(finding, in_unit(place, "gap_p99")),
                    spread(ratios.get(finding.trial.id)),
                    spread(finding.intervals.get(in_unit(place, "each_cpu"))),
                    spread(finding.intervals.get("overhead_cpu")),
                    _delivered(finding),
                    count(finding, "deferred_libc"),
                    count(finding, in_unit(place, "aside")),
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=us != before,
            )
        )
        before = us
    unit = _unit(place)
    return Table(
        f"Measured here, engine {place}: gaps of ticks (p10 and CPU time with their 95 %"
        " intervals); delivered: ticks that came of those that were due, on the worst and the"
        " best worker; aside: CPU time of other threads of the process in one part",
        (
            *("ticks from", "every", f"gap p10, {unit}", "p50", "p99", "x bare timer"),
            *(f"CPU {unit} a tick", "CPU added, %", "delivered", "deferred in libc"),
            *(f"aside, {unit}", "n", "gates"),
        ),
        2,
        tuple(rows),
    )


def _brief(story: Story, place: Place) -> Table:
    """What fits a terminal."""
    rows = []
    before = -1
    for finding in _ordered(story.findings_of(NAME, place)):
        us = interval_us(finding.trial)
        rows.append(
            Row(
                (
                    name_of(finding.trial),
                    _interval_name(us),
                    spread(finding.intervals.get(in_unit(place, "gap_low"))),
                    count(finding, in_unit(place, "gap")),
                    count(finding, "overhead_cpu"),
                    _delivered(finding),
                ),
                first=us != before,
            )
        )
        before = us
    return Table(
        f"Gap of one tick, {place}: p10 [95 %] and p50",
        ("ticks from", "every", f"p10, {_unit(place)}", "p50", "CPU %", "delivered"),
        2,
        tuple(rows),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([_brief(story, place) for place in story.places_of(NAME)])
