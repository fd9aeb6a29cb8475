# SPDX-License-Identifier: Apache-2.0
"""Trials over a series of runs, with what changed from one to the next.

A series is a trial that at least two runs have with the same work at the same place, by its
main metric; what an emulated guest cannot answer has none. A run is marked where it differs
from the one before beyond the noise (the effect and its test are those of `swtch compare`,
adjusted over all series and runs together), and where a long series changes its level for
good (``changes``).

Rejected: fitting a trend (runs are not equally far apart), one p-value a series (says
that something changed and not when).
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from swtch.analysis import changes, comparison, main_metric
from swtch.analysis.findings import Group, group_samples
from swtch.analysis.main_metric import MainMetric

if TYPE_CHECKING:
    from swtch.store import Run


@dataclass
class Point:
    """One run of a series. ``changed``: by how much its cost differs from the one before."""

    run: str
    created: str
    group: Group
    main: MainMetric
    changed: float | None = None
    p: float = 1.0

    @cached_property
    def values(self) -> list[float]:
        return self.group.values(self.main.name)

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass
class Series:
    """A trial over runs. ``levels`` are indices of points where a new level begins."""

    name: str
    place: str
    main: MainMetric
    points: list[Point] = field(default_factory=list)
    levels: tuple[int, ...] = ()

    @property
    def metric(self) -> str:
        return self.main.name

    @property
    def unit(self) -> str:
        return self.main.unit


def trace(runs: Sequence[Run]) -> list[Series]:
    """The series of all trials that two runs have in common, with their changes."""
    from swtch.timing import key_of

    by_trial: dict[tuple[str, str, str], Series] = {}
    for run in runs:
        for group in group_samples(run.manifest.trials, run.samples):
            metric = main_metric.usable(group) if _shown(group) else None
            if metric is None:
                continue
            key = (group.trial.id, str(group.place), key_of(group.trial))
            series = by_trial.setdefault(key, Series(group.trial.id, str(group.place), metric))
            series.points.append(Point(run.manifest.run_id, run.manifest.created, group, metric))
    traced = [series for series in by_trial.values() if len(series.points) > 1]
    _mark(traced)
    return traced


def _shown(group: Group) -> bool:
    return bool(group.good) and group.trial.factors.get("control") != "b"


def _mark(traced: list[Series]) -> None:
    steps = []
    for series in traced:
        medians = [point.median for point in series.points]
        series.levels = changes.changepoints(series.main.costs(medians))
        for before, point in itertools.pairwise(series.points):
            effect = comparison.effect_of(before.group, point.group, series.main)
            point.p = effect.p()
            steps.append((point, effect.estimate - 1))
    adjusted = comparison.adjusted([point.p for point, _ in steps])
    for (point, share), p in zip(steps, adjusted, strict=True):
        point.p = p
        if p < comparison.LEVEL:
            point.changed = share
