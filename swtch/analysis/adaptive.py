# SPDX-License-Identifier: Apache-2.0
"""Stopping when a trial's interval is narrow enough, with the target in the manifest.

With a target (`swtch run --until 2%`) the plan holds the most invocations there may be.
A trial has enough as soon as the 95 % interval of its main metric's median is no wider
than the target to either side, looked at after ``LEAST`` invocations and after every
``STEP`` more; its later blocks are then left out. A trial that never gets there is
measured to the end of the plan and named in the report.

Invariant: what is left out is a function of manifest and samples alone, so a resumed
run leaves out the same, and a run is complete when everything else has a sample.

Looking again and again stops a little too early too often; looking seldom, and first
after ten, keeps that small (Kalibera and Jones 2013, section 6).

Rejected: marking what is left out with empty samples (they would have to be told from
failures everywhere), a plan that is made while it runs (it would not be known before).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from swtch.analysis import findings, main_metric, stats
from swtch.analysis.findings import Group
from swtch.records import Interval, Manifest, Sample, Trial

LEAST = 10
STEP = 5
# The most invocations of a trial where the user does not say how many.
MOST = 50


def half_width(made: Interval) -> float:
    """How far the interval reaches to either side, as a share of the estimate."""
    if made.estimate == 0:
        return 0.0 if made.low == made.high else float("inf")
    reach = max(made.high - made.estimate, made.estimate - made.low)
    return reach / abs(made.estimate)


def width(trial: Trial, samples: Sequence[Sample]) -> float | None:
    """Of the main metric over these samples; None where there is none."""
    good = tuple(sample for sample in samples if sample.status == "ok")
    metric = main_metric.within(Group(trial, good, ()))
    if metric is None:
        return None
    return _width(tuple(findings.metrics(s)[metric.name] for s in good), metric.unit)


@lru_cache(maxsize=8192)
def _width(values: tuple[float, ...], unit: str) -> float | None:
    """Asked again after each block, and dear."""
    made = stats.interval(values, unit)
    return None if made is None else half_width(made)


def enough(trial: Trial, samples: Sequence[Sample], target: float) -> int | None:
    """The block after which the trial has enough; None while it has not."""
    ordered = sorted(samples, key=lambda sample: sample.block)
    for count in range(LEAST, len(ordered) + 1, STEP):
        reached = width(trial, ordered[:count])
        if reached is not None and reached <= target:
            return ordered[count - 1].block
    return None


def left_out(manifest: Manifest, samples: Sequence[Sample]) -> frozenset[int]:
    """The invocations of the plan that need not be done."""
    if manifest.target is None:
        return frozenset()
    by_trial: dict[str, list[Sample]] = {}
    for sample in samples:
        by_trial.setdefault(sample.trial_id, []).append(sample)
    last: dict[str, int] = {}
    for trial in manifest.trials:
        block = enough(trial, by_trial.get(trial.id, ()), manifest.target)
        if block is not None:
            last[trial.id] = block
    done = {sample.seq for sample in samples}
    return frozenset(
        one.seq
        for one in manifest.plan
        if one.trial_id in last and one.block > last[one.trial_id] and one.seq not in done
    )


def told(manifest: Manifest, samples: Sequence[Sample]) -> str:
    """One sentence on what became of the target; nothing where there is none."""
    if manifest.target is None:
        return ""
    by_trial: dict[str, list[Sample]] = {}
    for sample in samples:
        by_trial.setdefault(sample.trial_id, []).append(sample)
    missed = {}
    for trial in manifest.trials:
        own = by_trial.get(trial.id, [])
        if enough(trial, own, manifest.target) is None:
            reached = width(trial, own)
            missed[trial.id] = "no cost" if reached is None else f"{reached:.1%}"
    met = len(manifest.trials) - len(missed)
    line = (
        f"The target, {manifest.target:.3g} of the median to either side, was met by {met} of"
        f" {len(manifest.trials)} trials"
    )
    return line + (
        f"; not by {', '.join(f'{k} ({v})' for k, v in missed.items())}." if missed else "."
    )
