# SPDX-License-Identifier: Apache-2.0
"""The A/A control: what this run calls different although it is not.

Every campaign measures one trial of each experiment twice, under another name, at every
place. Original and copy are the same, so whatever differs between them is noise, and
what is called different is a false positive. The two are compared as a verdict compares:
within their blocks, by analysis.effects, and not at all with fewer blocks than decide.

One run has some thirty such pairs. How many of so many may be called different by chance
is a binomial; a run with more cannot be trusted, nor can its machine.

Rejected: a synthetic noise (knows nothing of this machine); pairs drawn anew from a
run's own values (they lose the blocks, and with them the drift that makes the false
positives); another test than the verdicts' (what it says is not about them).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swtch.analysis import effects, findings, main_metric
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group
from swtch.records import Interval

# A run with more false positives than all but this share of sound runs is not sound.
CHANCE = 0.05


@dataclass(frozen=True)
class Control:
    """One trial against its own copy. 1 lies inside, or noise does."""

    a: Group
    b: Group
    effect: Effect

    @property
    def ratio(self) -> Interval:
        return self.effect.interval()

    @property
    def p(self) -> float:
        return self.effect.p()

    @property
    def decides(self) -> bool:
        """Whether there are enough blocks for a verdict."""
        return self.effect.decides()

    @property
    def differs(self) -> bool:
        return self.decides and not self.ratio.low <= 1 <= self.ratio.high


@dataclass(frozen=True)
class Rate:
    """Of ``of`` comparisons of like with like, so many were called different."""

    called: int
    of: int

    @property
    def share(self) -> float:
        return self.called / self.of if self.of else 0.0

    @property
    def most(self) -> int:
        """So many may be by chance: of sound runs at most `CHANCE` have more."""
        false = 1 - effects.LEVEL
        below = 0.0
        for called in range(self.of + 1):
            ways = math.comb(self.of, called)
            below += ways * false**called * effects.LEVEL ** (self.of - called)
            if below >= 1 - CHANCE - 1e-12:
                return called
        return self.of

    def __str__(self) -> str:
        return f"{self.called} of {self.of} ({self.share * 100:.1f} %)"


def controls(groups: Sequence[Group]) -> tuple[Control, ...]:
    """Every trial that has a copy, with the ratio between the two."""
    pairs = []
    copies = [g for g in groups if g.trial.factors.get("control") == "b"]
    for copy in copies:
        for original in groups:
            factors = {"control": None, **original.trial.factors}
            same = {**factors, "control": "b"} == copy.trial.factors
            if original is copy or not same or original.trial.probe != copy.trial.probe:
                continue
            if original.place == copy.place and original.trial.model == copy.trial.model:
                pair = _control(original, copy)
                if pair is not None:
                    pairs.append(pair)
    return tuple(pairs)


def _control(a: Group, b: Group) -> Control | None:
    metric = main_metric.within(a)
    if metric is None or metric != main_metric.within(b):
        return None
    effect = findings.effect(a, b, metric.name)
    return None if effect is None else Control(a, b, effect)


def rate(pairs: Iterable[Control]) -> Rate:
    """Of the pairs with enough blocks, those that are called different."""
    decided = [pair.differs for pair in pairs if pair.decides]
    return Rate(sum(decided), len(decided))
