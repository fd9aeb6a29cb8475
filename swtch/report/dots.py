# SPDX-License-Identifier: Apache-2.0
"""The small chart of `swtch show`: a line a trial, a dot and its interval on one scale.

What is drawn is the finding's interval of the metric that trials are compared by
(analysis.main_metric). One chart has one metric of one experiment at one place:
numbers of two places or of two units never share a scale. Without colour the picture
is the same; on a terminal that knows no box drawing the signs are ASCII.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from swtch.analysis import main_metric
from swtch.analysis.findings import Place
from swtch.records import Interval
from swtch.report.story import Story, number

# So many lines are still seen at once; the report's figure has them all.
MOST = 24
# Ends of a scale further apart than this: equal steps are equal ratios.
LOG_FROM = 10
LABEL_MOST = 34
LEAST = 16  # columns, for the marks; a narrower terminal gets no chart


@dataclass(frozen=True)
class Line:
    label: str
    interval: Interval


@dataclass(frozen=True)
class Chart:
    """``left_out``: how many more lines there would have been."""

    title: str
    lines: tuple[Line, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Signs:
    dot: str
    rule: str
    left: str
    right: str


DRAWN = Signs("●", "─", "├", "┤")
ASCII = Signs("o", "-", "|", "|")


def charts(story: Story, experiment: str) -> list[Chart]:
    """The charts of `experiment`, in the plan's order; none of fewer than two trials."""
    by_metric: dict[tuple[Place, str, str], list[Line]] = {}
    findings = {(Place.of(f.trial), f.trial.id): f for f in story.findings_of(experiment)}
    for group in story.groups_of(experiment):
        metric = main_metric.within(group)
        finding = findings.get((group.place, group.trial.id))
        interval = finding.intervals.get(metric.name) if finding and metric else None
        if metric and interval and _drawable(interval):
            label = group.trial.id.removeprefix(f"{experiment}/")
            label = label.removesuffix(f"@{group.place.guest}")
            by_metric.setdefault((group.place, metric.name, metric.unit), []).append(
                Line(label, interval)
            )
    return [
        Chart(
            f"{experiment}, {place}: {_words(metric, unit)}",
            tuple(lines[:MOST]),
            max(0, len(lines) - MOST),
        )
        for (place, metric, unit), lines in by_metric.items()
        if len(lines) > 1
    ]


def draw(chart: Chart, width: int, signs: Signs = DRAWN) -> list[str]:
    """The chart's lines of text, none longer than `width`; [] where there is no room."""
    values = [number(line.interval.estimate) for line in chart.lines]
    label = min(LABEL_MOST, max(len(line.label) for line in chart.lines))
    value = max(map(len, values))
    room = width - label - value - 4
    low = min(line.interval.low for line in chart.lines)
    high = max(line.interval.high for line in chart.lines)
    left, right = f"{number(low)}{' (log)' if _log(low, high) else ''}", number(high)
    if room < max(LEAST, len(left) + 1 + len(right)):
        return []
    place = _scale(low, high, room)
    drawn = [chart.title]
    for line, text in zip(chart.lines, values, strict=True):
        marks = _marks(line.interval, place, room, signs)
        drawn.append(f"{_short(line.label, label):<{label}}  {text:>{value}}  {marks}".rstrip())
    pad = " " * (label + value + 4)
    drawn.append(f"{pad}{left}{right:>{room - len(left)}}")
    if chart.left_out:
        drawn.append(f"and {chart.left_out} more: the report's figure has them all")
    return drawn


def _drawable(interval: Interval) -> bool:
    return all(map(math.isfinite, (interval.low, interval.estimate, interval.high)))


def _words(metric: str, unit: str) -> str:
    name = metric.removesuffix(f"_{unit}").replace("_", " ")
    return f"{name}, {unit}"


def _log(low: float, high: float) -> bool:
    return low > 0 and high / low > LOG_FROM


def _scale(low: float, high: float, room: int) -> Callable[[float], int]:
    """From a value to its column, the least at 0 and the greatest at room - 1."""
    by = math.log if _log(low, high) else float
    start, span = by(low), by(high) - by(low)
    return lambda value: round((by(value) - start) / span * (room - 1)) if span else room // 2


def _marks(interval: Interval, place: Callable[[float], int], room: int, signs: Signs) -> str:
    low, dot, high = place(interval.low), place(interval.estimate), place(interval.high)
    row = [" "] * room
    row[low : high + 1] = signs.rule * (high + 1 - low)
    row[low], row[high], row[dot] = signs.left, signs.right, signs.dot
    return "".join(row)


def _short(label: str, most: int) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}~"
