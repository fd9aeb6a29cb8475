# SPDX-License-Identifier: Apache-2.0
"""What a trial is compared by: its experiment's declaration, with the metric's unit.

Invariant: a function of the trial alone. Which samples it has, and what is in them,
changes nothing, or a comparison would be by whatever happened to come out well.

Rejected: the first metric whose unit is a cost (as long as units chose, preemption was
compared by ticks taken, and half of working-set by its baseline).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from swtch import experiments
from swtch.analysis.findings import UNITS, Group, Place, own_metrics
from swtch.engines import Clock
from swtch.records import Trial

Better = Literal["less", "more", "neither"]


@dataclass(frozen=True)
class MainMetric:
    """``better``: which way is; of a count, neither."""

    name: str
    unit: str
    better: Better

    def costs(self, values: Sequence[float]) -> list[float]:
        """`values` so that more is worse."""
        return [1 / value for value in values] if self.better == "more" else list(values)


def declared(trial: Trial, clock: Clock | None = None) -> MainMetric | None:
    """What `trial` is compared by, by the clock of its place or by another."""
    experiment = experiments.find(trial.experiment)
    if experiment is None:
        return None  # of another version
    main = experiment.main_of(trial, clock or Place.of(trial).clock)
    if main is None:
        return None
    own = own_metrics(trial.experiment).get(main.metric)
    # A slip of somebody's own experiment names what no sample has.
    unit = own.unit if own else UNITS.get(main.metric, "")
    return MainMetric(main.metric, unit, main.better)


def within(group: Group) -> MainMetric | None:
    """What `group` is followed by within its own place, where an emulated processor's time
    is as good as any; None where a good sample lacks it, or has no ratio to another."""
    return usable(group, "time" if group.place.clock == "emulated" else None)


def usable(group: Group, clock: Clock | None = None) -> MainMetric | None:
    """What is `declared`, where every good sample has it and it has a ratio to another."""
    main = declared(group.trial, clock)
    values = group.values(main.name) if main else []
    if not main or not values or len(values) != len(group.good):
        return None
    # Not what is so large, or so small, that its inverse is none.
    fit = all(0 < value < math.inf and 0 < 1 / value < math.inf for value in values)
    return main if fit else None
