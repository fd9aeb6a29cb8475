# SPDX-License-Identifier: Apache-2.0
"""What is shown of one trial: its median with an interval, and the studies' dispersion.

The invocation is the unit: every number that comes in here is one invocation's. The
interval is between two of the values, as many from either end: that the median lies
outside has the probability of so many heads or tails in n throws, whatever the noise is
like. Nothing decides by it: what decides is analysis.effects.

Invariants:

- ``level`` is what the binomial gives, at least 0.95 from ``LEAST`` values on (0.969 of
  six, 0.979 of ten, 0.959 of twenty), and method is "order".
- Of fewer it is the range of what was seen at its own level, method "too few".
- The interval has the estimate in it without being stretched: the middle of sorted values
  lies between any two that are as far from the ends.
- Constant data (counters, instruction counts) is its value, method "constant"; one value
  is no such thing.
- A value that is not finite is none of anything: no interval.

Rejected: BCa bootstrap (of few values it covers less than it says), means with a t
interval (one preempted run moves them), the minimum (hides what users live with; shown as
a floor elsewhere), dropping outliers, an interval of a CV (a tail that is not among the
few values cannot be in their interval).

Source: Thompson, On confidence ranges for the median (1936); David and Nagaraja, Order
Statistics (2003), section 7.1.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from swtch.analysis import effects
from swtch.records import Interval

LEVEL = effects.LEVEL
LEAST = effects.LEAST


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


@lru_cache(maxsize=256)
def order_cut(n: int, level: float = LEVEL) -> tuple[int, float]:
    """How many of n sorted values to leave out at either end for an interval of the median,
    and the level that it has: the most that reach `level`, else none."""
    return effects.cut([math.comb(n, k) for k in range(n + 1)], level)


def median_interval(values: Sequence[float], unit: str) -> Interval | None:
    """The median of `values` with its interval; None of none, or where one is not finite."""
    if not values or not all(map(math.isfinite, values)):
        return None
    ordered = sorted(map(float, values))
    left_out, level = order_cut(len(ordered))
    method = "order"
    if left_out < 0:
        left_out, method = 0, "too few"
    if len(ordered) > 1 and ordered[0] == ordered[-1]:
        level, method = LEVEL, "constant"
    return Interval(
        estimate=statistics.median(ordered),
        low=ordered[left_out],
        high=ordered[-1 - left_out],
        level=level,
        n=len(ordered),
        unit=unit,
        method=method,
    )


def dispersion(values: Sequence[float]) -> dict[str, float]:
    """Mean, SD (Bessel) and CV in percent, as the studies print them, and the range.

    The CV is a share of how far the mean is from zero, and not there where it is zero: 0
    would say that nothing varies.
    """
    n = len(values)
    if not n:
        return {}
    centre = math.fsum(values) / n
    sd = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (n - 1)) if n > 1 else 0.0
    share = 100.0 * sd / abs(centre) if centre else math.inf
    return {
        "mean": centre,
        "sd": sd,
        **({"cv": share} if math.isfinite(share) else {}),
        "min": min(values),
        "max": max(values),
    }
