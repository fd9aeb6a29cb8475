# SPDX-License-Identifier: Apache-2.0
"""Stopping when a trial's interval is narrow enough, with the target in the manifest.

With a target (`--until 2%`) the plan holds the most invocations there may be. A trial has
enough as soon as the 95 % interval of its main metric (analysis.effects) is no wider than
the target to either side, looked at after ``LEAST`` blocks and after every ``STEP`` more;
its later blocks are then left out. A trial that never gets there is measured to the end
of the plan and named in the report.

Invariant: what is left out is a function of manifest and samples alone (swtch.course).

Looking again and again stops a little too early too often; looking seldom, and first
after ten, keeps that small (Kalibera and Jones 2013, section 6).

Rejected: the level of several looks (spending.level): a width is no decision, and a
target of 2 % would mean another width at each --repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from swtch.analysis import effects, findings, main_metric
from swtch.analysis.findings import Group
from swtch.plan import Pass
from swtch.records import Interval, Manifest, Sample, Trial

LEAST = 10
STEP = 5
# The most invocations of a trial where the user does not say how many.
MOST = 50


def half_width(interval: Interval) -> float:
    """How far the interval reaches to either side, as a share of the estimate."""
    if interval.estimate == 0:
        return 0.0 if interval.low == interval.high else float("inf")
    reach = max(interval.high - interval.estimate, interval.estimate - interval.low)
    return reach / abs(interval.estimate)


@dataclass
class _Progress:
    """One trial's good values of its main metric so far; ``last``: the block of enough."""

    trial: Trial
    target: float
    good: list[Sample] = field(default_factory=list)
    count: int = 0
    last: int | None = None

    def add(self, sample: Sample) -> None:
        """The next block's. Those under other conditions do not count with it."""
        if self.last is None and any(s.elsewhere != sample.elsewhere for s in self.good[-1:]):
            self.good, self.count = [], 0
        self.count += 1
        if sample.status == "ok":
            self.good.append(sample)
        if self.last is None and self.count >= LEAST and (self.count - LEAST) % STEP == 0:
            reached = self.width()
            if reached is not None and reached <= self.target:
                self.last = sample.block

    def width(self) -> float | None:
        """Of the main metric so far; None where there is none."""
        metric = main_metric.within(Group(self.trial, tuple(self.good), ()))
        if metric is None:
            return None
        values = [findings.metrics(sample)[metric.name] for sample in self.good]
        effect = effects.level(values, metric.unit)
        return None if effect is None else half_width(effect.interval())


class Target:
    """The course of a run with a target. Each sample is looked at once."""

    stage = ""

    def __init__(self, manifest: Manifest) -> None:
        assert manifest.target is not None
        self._manifest = manifest
        self._trials = {t.id: _Progress(t, manifest.target) for t in manifest.trials}
        self._fed: set[int] = set()

    def needed(self, stretch: Pass, samples: Sequence[Sample]) -> frozenset[int]:
        """Of the trials that had not enough before this pass."""
        self._feed(sample for sample in samples if sample.seq < stretch.begin)
        return frozenset(i.seq for i in stretch.invocations if not self._past(i.trial_id, i.block))

    def ahead(self) -> frozenset[int]:
        """The later blocks of all that have enough."""
        if all(progress.last is None for progress in self._trials.values()):
            return frozenset()
        return frozenset(i.seq for i in self._manifest.plan if self._past(i.trial_id, i.block))

    def left_out(self, samples: Sequence[Sample]) -> frozenset[int]:
        """As `ahead`, of what has no sample."""
        self._feed(samples)
        return self.ahead() - {sample.seq for sample in samples}

    def seconds_left(self, samples: Sequence[Sample]) -> float | None:
        """By the plan."""
        return None

    def missed(self, samples: Sequence[Sample]) -> dict[str, float | None]:
        """The trials that never had enough, and how wide their intervals are."""
        self._feed(samples)
        return {
            k: progress.width() for k, progress in self._trials.items() if progress.last is None
        }

    def _past(self, trial: str, block: int) -> bool:
        last = self._trials[trial].last
        return last is not None and block > last

    def _feed(self, samples: Iterable[Sample]) -> None:
        new = [sample for sample in samples if sample.seq not in self._fed]
        for sample in sorted(new, key=lambda s: s.seq):
            self._fed.add(sample.seq)
            self._trials[sample.trial_id].add(sample)


def left_out(manifest: Manifest, samples: Sequence[Sample]) -> frozenset[int]:
    """The invocations of the plan that need not be done for the target."""
    return Target(manifest).left_out(samples) if manifest.target is not None else frozenset()


def summary(manifest: Manifest, samples: Sequence[Sample]) -> tuple[str, ...]:
    """One sentence on what became of the target; none where there is no target."""
    if manifest.target is None:
        return ()
    missed = Target(manifest).missed(samples)
    met = len(manifest.trials) - len(missed)
    line = (
        f"The target, {manifest.target:.3g} of the estimate to either side, was met by {met} of"
        f" {len(manifest.trials)} trials"
    )
    named = [f"{k} ({'no cost' if v is None else f'{v:.1%}'})" for k, v in missed.items()]
    return (f"{line}; not by {', '.join(named)}." if named else f"{line}.",)
