# SPDX-License-Identifier: Apache-2.0
"""The one rule by which this lab decides: an effect over blocks, with its interval.

A block is one pass over all trials, so what slows the machine for a while slows both
sides of a comparison in the same block: the logarithm of their ratio within the block
keeps the effect and drops the drift. The effect is the Hodges-Lehmann estimate of these
log-ratios, the median of all means of two of them; its interval is that of Wilcoxon's
signed-rank test, turned round. Two groups without common blocks (two runs, a run and
its history) are compared by the same estimator of a shift and the rank-sum test. Both
are exact for any n: nothing is assumed of the noise but that log-ratios are symmetric
about the effect, which those of two draws of one law always are. Where two trials are
noisy in different ways they are not quite, and what is covered is their pseudo-median.

Invariants:

- The interval is the test: it lacks 1 exactly when the two-sided p is at most 1 - level.
  Values equal to what is tested count for both sides, so ties only make it wider.
- The estimate lies in its interval by construction; nothing is stretched.
- ``level`` is what the ranks really give (0.969 of six blocks), never below what was
  asked for, but with fewer blocks than `least` says (six at 0.95), where it is that of
  the widest interval there is, method "too few", and decides nothing.
- Counts that do not vary give a point, method "constant"; one value is no such thing.
- Times never do. A clock tells them in steps, and of values that are a step apart, or all the
  same, nobody knows where within it the truth lies, however many blocks agree: the interval
  reaches a step further at both ends (``grain``), and the test counts what is as near as that
  for both sides. The step is seen from the values: `grain_of`. Where none are alike the clock
  is finer than the noise, and there is nothing to add.
- A zero, a negative number or one that is not finite has no ratio: no effect at all.

Why not the others (tools/coverage.py, docs/experiments/statistics.md): a bootstrap of
the ratio of medians (BCa, which this replaces) misses 14 of a hundred like pairs of five
blocks and is wider from ten on; t on log-ratios has its level of one law of noise only,
and one block that was preempted moves it; the sign test asks nothing of symmetry and is
a third wider at ten.

Source: Hodges and Lehmann, Estimates of location based on rank tests (1963); Lehmann,
Nonparametrics (1975), chapters 2 and 4.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from swtch.records import Interval

LEVEL = 0.95
# What times are counted in, in ns.
TIMES: Mapping[str, float] = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
# Of values that are all the same: the units that a clock may have been rounded to.
ROUND: tuple[float, ...] = (1e9, 1e6, 1e3, 1.0)
# The fewest blocks that decide anything: of five the widest interval of ranks has 0.938.
LEAST = 6
# Up to so many values (of two groups in all) every order is counted. Of more, the normal
# approximation of a rank statistic is as good.
EXACT = 100


@lru_cache(maxsize=256)
def signed_rank_counts(n: int) -> tuple[int, ...]:
    """How many of the 2^n patterns of signs have the sum of positive ranks 0, 1, 2, ..."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for total, count in enumerate(counts):
            longer[total + rank] += count
        counts = longer
    return tuple(counts)


@lru_cache(maxsize=256)
def rank_sum_counts(n: int, m: int) -> tuple[int, ...]:
    """How many of the choose(n + m, n) orders have 0, 1, 2, ... pairs the wrong way."""
    # Of the Gaussian binomial: multiply by 1 - q^(m + i), divide by 1 - q^i.
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for total in range(n * m, m + i - 1, -1):
            counts[total] -= counts[total - m - i]
        for total in range(i, n * m + 1):
            counts[total] += counts[total - i]
    return tuple(counts)


def cut(counts: Sequence[int], level: float) -> tuple[int, float]:
    """How many ordered values to leave out at either end, and the level that remains.

    -1 where even leaving out none falls short; the level is then that of none.
    """
    whole, below, left_out = sum(counts), 0, -1
    reached = 1 - 2 * counts[0] / whole
    for count in counts:
        if 2 * (below + count) > (1 - level) * whole * (1 + 1e-12):
            break
        below += count
        left_out += 1
        reached = 1 - 2 * below / whole
    return left_out, reached


def _counts(n: int, m: int) -> tuple[int, ...]:
    return rank_sum_counts(min(n, m), max(n, m)) if m else signed_rank_counts(n)


@lru_cache(maxsize=1024)
def _cut(n: int, m: int, level: float) -> tuple[int, float]:
    """As `cut`, by the normal approximation where counting every order takes too long."""
    if n + m <= EXACT:
        return cut(_counts(n, m), level)
    middle, variance = _moments(n, m)
    z = statistics.NormalDist().inv_cdf((1 + level) / 2)
    return math.floor(middle - z * math.sqrt(variance) - 0.5), level


@dataclass(frozen=True)
class Effect:
    """What is asked of the blocks, not yet at a level: `interval` answers at any.

    ``values`` are one a block, of a ratio its logarithms. ``others`` are those of a second
    group where the two have no blocks in common; the effect is then how far ``values`` lie
    above them. ``grain`` is the step in which the values came, on their own scale; counts have
    none.
    """

    values: tuple[float, ...]
    unit: str
    logarithmic: bool = False
    others: tuple[float, ...] = ()
    grain: float = 0.0

    @property
    def n(self) -> int:
        """Blocks; of two groups, those of the smaller."""
        return min(len(self.values), len(self.others)) if self.others else len(self.values)

    @property
    def estimate(self) -> float:
        """The middle, as every interval of it has it."""
        return self.interval().estimate

    @cached_property
    def _steps(self) -> Any:
        """The numbers of which the middle one is the estimate, in order."""
        import numpy as np

        data = np.asarray(self.values, dtype=float)
        if self.others:
            return np.sort((data[:, None] - np.asarray(self.others)[None, :]).ravel())
        i, j = np.triu_indices(len(data))
        return np.sort((data[i] + data[j]) / 2)

    def interval(self, level: float = LEVEL) -> Interval:
        """The estimate, and the interval that the ranks give at `level`."""
        import numpy as np

        steps = self._steps
        left_out, reached = _cut(len(self.values), len(self.others), level)
        k = max(left_out, 0)
        limits = [
            float(np.median(steps)),
            float(steps[k]) - self.grain,
            float(steps[-1 - k]) + self.grain,
        ]
        if self._flat() and not self.grain:
            method, reached = "constant", level
        elif not self.decides(level):
            method = "too few"
        else:
            method = "ranks"
        if self.logarithmic:
            limits = [math.exp(limit) for limit in limits]
        return Interval(
            estimate=limits[0],
            low=limits[1],
            high=limits[2],
            level=reached,
            n=self.n,
            unit=self.unit,
            method=method,
        )

    def least(self, level: float = LEVEL) -> int:
        """The fewest blocks that can decide anything at `level`: of two groups, of each."""
        return least_of_two(level) if self.others else least(level)

    def decides(self, level: float = LEVEL) -> bool:
        """Whether there are enough blocks for an interval at `level`."""
        return self.n >= self.least(level)

    def p(self, against: float | None = None) -> float:
        """Two-sided p that the effect is `against`, by default none: 1 of a ratio, else 0."""
        centre = 0.0 if against is None else math.log(against) if self.logarithmic else against
        off = self._steps - centre
        below, above = (int((side * off >= -self.grain).sum()) for side in (-1, 1))
        return _p(min(below, above), len(self.values), len(self.others))

    def _flat(self) -> bool:
        return all(len(set(side)) == 1 < len(side) for side in (self.values, self.others) if side)


def level(values: Sequence[float], unit: str) -> Effect | None:
    """Where `values`, one a block, have their centre; None of no values, or of one that is
    not finite."""
    if not values or not all(map(math.isfinite, values)):
        return None
    return Effect(tuple(values), unit, grain=grain_of(values, TIMES.get(unit)))


def paired(a: Sequence[float], b: Sequence[float], grain: float = 0.0) -> Effect | None:
    """How many times `b` is `a`, where a[i] and b[i] come from the same block; `grain` is
    that of the ratio's logarithm (`grain_of_ratio`).

    None where there is no ratio: no block, or a value that is not positive and finite.
    """
    if len(a) != len(b):
        raise ValueError(f"paired groups differ in length: {len(a)} and {len(b)}")
    if not a or not _have_logarithms((*a, *b)):
        return None
    ratios = tuple(math.log(x / y) for x, y in zip(a, b, strict=True))
    return Effect(ratios, "x", logarithmic=True, grain=grain)


def unpaired(a: Sequence[float], b: Sequence[float], grain: float = 0.0) -> Effect | None:
    """As `paired`, of two groups that have no blocks in common."""
    if not a or not b or not _have_logarithms((*a, *b)):
        return None
    left, right = (tuple(math.log(value) for value in values) for values in (a, b))
    return Effect(left, "x", logarithmic=True, others=right, grain=grain)


def grain_of(values: Sequence[float], unit_ns: float | None) -> float:
    """The step in which these times came, in their unit of so many ns; 0 where it does not
    show, and of what is no time.

    Of two values that are alike a clock that is finer than the noise would have made two. The
    step is then the least between values that are not; of values that are all the same, the
    coarsest of seconds, milliseconds, microseconds and nanoseconds that they are whole ones of.
    """
    # But for what arithmetic loses.
    different = sorted({float(f"{value:.12g}") for value in values})
    if unit_ns is None or len(different) == len(values):
        return 0.0
    if len(different) > 1:
        return min(y - x for x, y in itertools.pairwise(different))
    ns = abs(different[0]) * unit_ns
    if not ns:
        return 1.0  # nothing of it is left of one at least
    whole = (step for step in ROUND if math.isclose(ns / step, round(ns / step), rel_tol=1e-9))
    return next(whole, ROUND[-1]) / unit_ns


def grain_of_ratio(
    a: Sequence[float], b: Sequence[float], unit_ns: float | None = TIMES["ns"]
) -> float:
    """Of the logarithm of a ratio of these times: a step of one of them, the coarser."""
    times = [values for values in (a, b) if values and min(values) > 0]
    return max((math.log1p(grain_of(of, unit_ns) / min(of)) for of in times), default=0.0)


def _have_logarithms(values: Sequence[float]) -> bool:
    return all(0 < value < math.inf for value in values)


def least(level: float = LEVEL) -> int:
    """The fewest blocks of which a signed-rank interval reaches `level`."""
    n = 1
    while 1 - 2 ** (1 - n) < level:
        n += 1
    return n


def least_of_two(level: float = LEVEL) -> int:
    """The fewest of each of two groups of which a rank-sum interval reaches `level`."""
    n = 1
    while 1 - 2 / math.comb(2 * n, n) < level:
        n += 1
    return n


def _p(extreme: int, n: int, m: int) -> float:
    """Two-sided p of a rank statistic that is as far out as `extreme`."""
    if n + m <= EXACT:
        counts = _counts(n, m)
        return min(1.0, 2 * sum(counts[: extreme + 1]) / sum(counts))
    middle, variance = _moments(n, m)
    return min(1.0, 2 * statistics.NormalDist().cdf((extreme + 0.5 - middle) / math.sqrt(variance)))


def _moments(n: int, m: int) -> tuple[float, float]:
    """Mean and variance of the statistic where there is nothing to find."""
    if m:
        return n * m / 2, n * m * (n + m + 1) / 12
    return n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
