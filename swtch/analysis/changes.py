# SPDX-License-Identifier: Apache-2.0
"""Where a series changes its level: within a run (is it steady?) and over runs.

A series is split at the place that Pettitt's statistic likes best, as long as a random
order of the same values would not do as well; then each half the same way. Ranks again,
so that one outlier is no change, and permutations, because series are short.

Invariants: deterministic (seeded); a segment has ``LEAST`` values at least; a constant
series has no change.

Rejected: the coefficient of variation of the last few values (calls a slow drift
steady), PELT on means (one outlier of ten times the size is two changes), the ruptures
and Otava packages (a dependency for a page of code; one pins scipy).

Source: Pettitt, A Non-Parametric Approach to the Change-Point Problem (1979); Barrett
et al., Virtual Machine Warmup Blows Hot and Cold (2017), for what to call a series.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any, Literal

LEAST = 3
LEVEL = 0.01
PERMUTATIONS = 999
SEED = 19790628
# A smaller step between levels is noticed and called steady all the same.
STEP = 0.02
# With fewer values no order is improbable enough to be a change.
FEWEST = 8

Course = Literal["steady", "slows down", "speeds up", "no steady state", "too short to tell"]


def changepoints(values: Sequence[float]) -> tuple[int, ...]:
    """The indices at which a new level begins, in order."""
    return tuple(sorted(_split(list(values), 0)))


def course(costs: Sequence[float]) -> Course:
    """What a trial did over its blocks, of values of which more is worse."""
    if len(costs) < FEWEST:
        return "too short to tell"
    levels = segments(costs)
    steps = [b / a - 1 for a, b in itertools.pairwise(levels) if a > 0]
    steps = [step for step in steps if abs(step) >= STEP]
    if not steps:
        return "steady"
    if all(step > 0 for step in steps):
        return "slows down"
    return "speeds up" if all(step < 0 for step in steps) else "no steady state"


def segments(values: Sequence[float]) -> list[float]:
    """The median of each level."""
    edges = [0, *changepoints(values), len(values)]
    return [statistics.median(values[a:b]) for a, b in itertools.pairwise(edges)]


def _split(values: list[float], start: int) -> list[int]:
    if len(values) < 2 * LEAST or min(values) == max(values):
        return []
    at = _change(values)
    if at is None:
        return []
    left, right = _split(values[:at], start), _split(values[at:], start + at)
    return [*left, start + at, *right]


def _change(values: list[float]) -> int | None:
    """Where to split first: by the whole, or by two thirds of it, in which a level
    that comes and goes is a change where it is none on the whole."""
    at, p = _best(values)
    if p < LEVEL:
        return at
    third = len(values) // 3
    parts = [(0, len(values) - third), (third, len(values))]
    tried = [
        (p, low + at)
        for low, high in parts
        if high - low >= 2 * LEAST
        for at, p in (_best(values[low:high]),)
    ]
    p, at = min(tried, default=(1.0, 0))
    return at if p < LEVEL / len(parts) else None


def _best(values: Sequence[float]) -> tuple[int, float]:
    """Where to split, and how probable as good a split of another order is."""
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(values)
    rng = np.random.default_rng(SEED)
    seen = _pettitt(ranks[None, :])[0]
    at = int(np.argmax(seen))
    orders = rng.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1)
    best = _pettitt(orders).max(axis=1)
    p = (1 + int((best >= seen[at] - 1e-9).sum())) / (PERMUTATIONS + 1)
    return at + LEAST, p


def _pettitt(ranks: Any) -> Any:
    """|U| for each split that leaves LEAST on both sides; rows are orders.

    Divided by its spread at that split, or the middle would always win.
    """
    import numpy as np

    n = ranks.shape[1]
    sizes = np.arange(1, n + 1)
    u = np.abs(2 * np.cumsum(ranks, axis=1) - sizes * (n + 1))
    spread = np.sqrt(sizes * (n - sizes) + 1e-12)
    return (u / spread)[:, LEAST - 1 : n - LEAST]
