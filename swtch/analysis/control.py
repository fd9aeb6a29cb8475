# SPDX-License-Identifier: Apache-2.0
"""The A/A control: what this run calls different although it is not.

Every campaign measures one trial of each experiment twice, under another name, at every
place. Original and copy are the same, so whatever differs between them is noise, and
what is called different is a false positive. There are few such pairs in one run, so
the rate is found from its noise, too: ``COMPARISONS`` pairs of groups are drawn from
the invocations of its own trials, each pair from one trial, and compared as `swtch
compare` compares. A rate well above ``LEVEL`` says that intervals and calls of this run
cannot be trusted.

Rejected: a synthetic noise (knows nothing of this machine), the pairs alone (one of
eight is 12 %, and says nothing).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from swtch.analysis import main_metric, stats
from swtch.analysis.comparison import LEVEL
from swtch.analysis.findings import Group, compare
from swtch.analysis.ranks import rank_p
from swtch.records import Interval

COMPARISONS = 200
SEED = 20130620


@dataclass(frozen=True)
class Control:
    """One trial against its own copy. 1 lies inside, or noise does."""

    a: Group
    b: Group
    ratio: Interval
    p: float

    @property
    def differs(self) -> bool:
        return self.p < LEVEL


@dataclass(frozen=True)
class Rate:
    """Of ``of`` comparisons of like with like, so many were called different."""

    called: int
    of: int

    @property
    def share(self) -> float:
        return self.called / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.called} of {self.of} ({self.share * 100:.1f} %)"


def controls(groups: Sequence[Group]) -> tuple[Control, ...]:
    """Every trial that has a copy, with the ratio between the two."""
    found = []
    copies = [g for g in groups if g.trial.factors.get("control") == "b"]
    for copy in copies:
        for original in groups:
            factors = {"control": None, **original.trial.factors}
            same = {**factors, "control": "b"} == copy.trial.factors
            if original is copy or not same or original.trial.probe != copy.trial.probe:
                continue
            if original.place == copy.place and original.trial.model == copy.trial.model:
                made = _control(original, copy)
                if made is not None:
                    found.append(made)
    return tuple(found)


def _control(a: Group, b: Group) -> Control | None:
    metric = main_metric.within(a)
    if metric is None or metric != main_metric.within(b):
        return None
    ratio = compare(a, b, metric.name)
    if ratio is None:
        return None
    sides = metric.costs(a.values(metric.name)), metric.costs(b.values(metric.name))
    return Control(a, b, ratio, rank_p([sides]))


def rate(groups: Sequence[Group], comparisons: int = COMPARISONS) -> Rate:
    """How often groups of one and the same trial are called different in this run."""
    rng = random.Random(SEED)
    pools = []
    for one in groups:
        metric = main_metric.within(one)
        if metric is not None and one.trial.factors.get("control") != "b":
            values = one.values(metric.name)
            if len(values) >= stats.MIN_N and min(values) < max(values):
                pools.append(values)
    if not pools:
        return Rate(0, 0)
    called = 0
    for _ in range(comparisons):
        pool = rng.choice(pools)
        a, b = (rng.choices(pool, k=len(pool)) for _ in range(2))
        called += rank_p([(a, b)]) < LEVEL
    return Rate(called, comparisons)
