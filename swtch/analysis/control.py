# SPDX-License-Identifier: Apache-2.0
"""The A/A control: what this run calls different although it is not.

Every campaign measures one trial of each experiment twice, under another name, at every
place. Original and copy are the same, so whatever differs between them is noise, and
what is called different is a false positive. The two are compared as a verdict compares:
within their blocks, by analysis.effects at the level of the run's verdicts, and not at
all with fewer blocks than decide.

One run has some thirty such pairs. How many of so many may be called different by chance
is a binomial; a run with more cannot be trusted, nor can its machine.

Rejected: a synthetic noise (knows nothing of this machine); pairs drawn anew from a
run's own values (they lose the blocks, and with them the drift that makes the false
positives); another test than the verdicts' (what it says is not about them).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from swtch.analysis import effects, findings, main_metric
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group
from swtch.records import Engine, Interval

# A run with more false positives than all but this share of sound runs is not sound.
CHANCE = 0.05


@dataclass(frozen=True)
class Control:
    """One trial against its own copy. 1 lies inside, or noise does."""

    a: Group
    b: Group
    effect: Effect
    level: float = effects.LEVEL

    @property
    def ratio(self) -> Interval:
        return self.effect.interval(self.level)

    @property
    def p(self) -> float:
        return self.effect.p()

    @property
    def decides(self) -> bool:
        """Whether there are enough blocks for a verdict."""
        return self.effect.decides(self.level)

    @property
    def differs(self) -> bool:
        return self.decides and not self.ratio.low <= 1 <= self.ratio.high


@dataclass(frozen=True)
class Rate:
    """Of ``of`` comparisons of like with like, so many were called different."""

    called: int
    of: int
    error: float = 1 - effects.LEVEL

    @property
    def share(self) -> float:
        return self.called / self.of if self.of else 0.0

    @property
    def most(self) -> int:
        """So many may be by chance: of sound runs at most `CHANCE` have more."""
        below = 0.0
        for called in range(self.of + 1):
            ways = math.comb(self.of, called)
            below += ways * self.error**called * (1 - self.error) ** (self.of - called)
            if below >= 1 - CHANCE - 1e-12:
                return called
        return self.of

    def __str__(self) -> str:
        return f"{self.called} of {self.of} ({self.share * 100:.1f} %)"


def controls(
    groups: Sequence[Group], level: Mapping[Engine, float] | None = None
) -> tuple[Control, ...]:
    """Every trial that has a copy, with the ratio between the two; `level` is that of the
    run's verdicts, by engine, where it is not the usual one."""
    pairs = []
    copies = [g for g in groups if g.trial.factors.get("control") == "b"]
    for copy in copies:
        for original in groups:
            factors = {"control": None, **original.trial.factors}
            same = {**factors, "control": "b"} == copy.trial.factors
            if original is copy or not same or original.trial.probe != copy.trial.probe:
                continue
            if original.place == copy.place and original.trial.model == copy.trial.model:
                own = (level or {}).get(copy.place.engine, effects.LEVEL)
                pair = _control(original, copy, own)
                if pair is not None:
                    pairs.append(pair)
    return tuple(pairs)


def _control(a: Group, b: Group, level: float) -> Control | None:
    metric = main_metric.within(a)
    if metric is None or metric != main_metric.within(b):
        return None
    effect = findings.effect(a, b, metric.name)
    return None if effect is None else Control(a, b, effect, level)


def rate(pairs: Iterable[Control]) -> Rate:
    """Of the pairs with enough blocks, those that are called different."""
    decided = [pair for pair in pairs if pair.decides]
    # Of pairs at several levels the mean is the error that is to be expected.
    error = math.fsum(1 - pair.level for pair in decided) / max(1, len(decided))
    return Rate(sum(pair.differs for pair in decided), len(decided), error)
