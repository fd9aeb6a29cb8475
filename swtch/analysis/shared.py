# SPDX-License-Identifier: Apache-2.0
"""The effect that several trials of two runs share, tested and estimated by blocks.

Each trial's values are ranked within the trial, both runs together, and a block's value is
the mean of its trials' ranks. The two runs' blocks are compared by the rank-sum test of
analysis.effects. Blocks are what is random: one that was disturbed is so in all of its
trials, and as one value it counts once. So the test is exact however the trials of a block
hang together, and of six blocks with six no p is below 0.002.

The estimate is the shift of the logarithms after which the two runs' blocks lie in the
middle of one another, the interval holds the shifts that the test does not reject: both are
found by taking a shift from B and ranking again, which is Hodges and Lehmann's construction
with a ranking a trial. It is exact where all trials share one shift; where they do not, it
is a middle of theirs.

Times that came in steps are no finer than these here either (``grains``, as Effect's grain):
the test is of whichever shift within a step it rejects least, and the interval reaches a
step further. Else a family would call what the same rule calls in none of its trials.

Rejected: van Elteren's test, a stratum a trial (takes the trials of a block for independent:
with a drift of 2 % between blocks it calls 20 to 45 % of like families), means of the blocks'
log-ratios (one preempted invocation weighs more than ten that are 3 % slower), the same of
values cut off at three deviations (the estimate shrinks by a third).

Source: Lehmann, Nonparametrics (1975), chapters 2 and 3; Hodges and Lehmann, Rank methods
for combination of independent experiments (1962), for ranking what was aligned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from swtch.analysis import effects
from swtch.analysis.effects import LEVEL, Effect
from swtch.records import Interval

if TYPE_CHECKING:
    import numpy as np

# Shifts are found to this share of themselves or of the unit, whichever is more.
PRECISION = 1e-5
# A block that misses more of the trials says little of what they share.
LEAST_SHARE = 0.5


@dataclass(frozen=True)
class Shared:
    """By trial the logarithms of two runs by block: how far B's lie above A's. ``grains`` are by
    trial the steps in which they came; none where there is nothing to add."""

    a: tuple[Mapping[int, float], ...]
    b: tuple[Mapping[int, float], ...]
    grains: tuple[float, ...] = ()

    @property
    def n(self) -> tuple[int, int]:
        """Blocks of A and of B."""
        columns = self._table.shape[1]
        return self._first, columns - self._first

    @property
    def decides(self) -> bool:
        """Whether there are enough blocks."""
        return min(self.n) >= effects.least_of_two(LEVEL)

    def p(self, shift: float = 0.0) -> float:
        """Two-sided p that B is A shifted by so much, or by up to a step more or less."""
        if not any(self.grains):
            return self._at(shift).p()
        if self._balance(shift, -1) >= 0 >= self._balance(shift, 1):
            return 1.0
        return max(self._at(shift, steps).p() for steps in (-1, 1))

    @cached_property
    def ratio(self) -> Interval:
        """The shared effect with its interval, as a ratio."""
        here = self._at(0.0).interval()
        lowest, highest = self._range
        edges = [
            lowest,
            _edge(lambda shift: self._balance(shift) > 0, lowest, highest),
            _edge(lambda shift: self._balance(shift) >= 0, lowest, highest),
            highest,
        ]
        if self.decides:
            alpha = (1 - LEVEL) * (1 + 1e-12)
            middle = (edges[1] + edges[2]) / 2
            edges[0] = _edge(lambda shift: self.p(shift) <= alpha, lowest, middle)
            edges[3] = _edge(lambda shift: self.p(shift) > alpha, middle, highest)
        method = "ranks" if self.decides else "too few"
        return Interval(
            estimate=math.exp((edges[1] + edges[2]) / 2),
            low=math.exp(edges[0]),
            high=math.exp(edges[3]),
            level=here.level if lowest < highest else LEVEL,
            n=min(self.n),
            unit="x",
            method="constant" if edges[0] == edges[3] else method,
        )

    @cached_property
    def _range(self) -> tuple[float, float]:
        """Between these all shifts of single trials lie."""
        import numpy as np

        further = max(self.grains, default=0.0)
        return float(np.nanmin(self._steps)) - further, float(np.nanmax(self._steps)) + further

    @cached_property
    def _first(self) -> int:
        return len(_whole(self.a))

    @cached_property
    def _table(self) -> np.ndarray[Any, Any]:
        """A row a trial, a column a block, A's first; NaN where a block lacks the trial."""
        import numpy as np

        sides = [[(of, block) for block in _whole(of)] for of in (self.a, self.b)]
        return np.array(
            [
                [of[row].get(block, np.nan) for side in sides for of, block in side]
                for row in range(len(self.a))
            ]
        )

    @cached_property
    def _steps(self) -> np.ndarray[Any, Any]:
        """By trial how far each block of B lies above each of A."""
        a, b = self._sides
        steps: np.ndarray[Any, Any] = b[:, :, None] - a[:, None, :]
        return steps

    @cached_property
    def _own(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The part of the ranks that no shift changes: among the values of the own run."""
        a, b = (_above(x[:, :, None] - x[:, None, :]).sum(axis=2) for x in self._sides)
        return a, b

    @property
    def _sides(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return self._table[:, : self._first], self._table[:, self._first :]

    def _at(self, shift: float, steps: int = 0) -> Effect:
        """The blocks' mean ranks after `shift`, and so many steps of its own from each trial,
        were taken from B; 0 is the middle."""
        import numpy as np

        taken = np.asarray(self.grains or (0.0,), dtype=float) * steps + shift
        across = _above(self._steps - taken[:, None, None])
        own_a, own_b = self._own
        ranks = np.hstack([own_a - across.sum(axis=1), own_b + across.sum(axis=2)])
        known = ~np.isnan(self._table)
        # Of as many trials as there are: each rank as a share of its trial's values.
        shares = np.where(known, ranks / (2 * known.sum(axis=1, keepdims=True)), np.nan)
        means: np.ndarray[Any, Any] = np.nanmean(shares, axis=0)
        values = [round(float(value), 12) for value in means]
        return Effect(tuple(values[self._first :]), "rank", others=tuple(values[: self._first]))

    def _balance(self, shift: float, steps: int = 0) -> int:
        """How many more pairs of blocks have B's above than A's."""
        import numpy as np

        at = self._at(shift, steps)
        return int(np.sign(np.subtract.outer(at.values, at.others)).sum())


def _above(steps: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """1 where a step goes up, -1 where down, 0 for a tie and where there is none."""
    import numpy as np

    signs: np.ndarray[Any, Any] = np.nan_to_num(np.sign(steps))
    return signs


def _whole(trials: Sequence[Mapping[int, float]]) -> list[int]:
    """The blocks that have enough of the trials."""
    have: dict[int, int] = {}
    for values in trials:
        for block in values:
            have[block] = have.get(block, 0) + 1
    most = max(have.values())
    return sorted(block for block, count in have.items() if count >= LEAST_SHARE * most)


def _edge(before: Callable[[float], bool], low: float, high: float) -> float:
    """Where `before`, true below some shift and false above it, changes."""
    if before(high):
        return high
    if not before(low):
        return low
    while high - low > PRECISION * max(1.0, abs(low), abs(high)):
        middle = (low + high) / 2
        low, high = (middle, high) if before(middle) else (low, middle)
    return (low + high) / 2
