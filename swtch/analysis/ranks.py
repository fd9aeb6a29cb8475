# SPDX-License-Identifier: Apache-2.0
"""Whether two groups of invocations differ, by ranks: Wilcoxon's test, and van Elteren's.

Of one trial the test is exact for the few invocations there are; of several trials it
is Wilcoxon's with a stratum a trial, and its statistic all but normal.

Source: Lehmann, Nonparametrics (1975), chapters 1 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def rank_p(strata: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Two-sided p that B is as A: Wilcoxon's, and of several strata van Elteren's."""
    from scipy.stats import mannwhitneyu, norm

    usable = [(a, b) for a, b in strata if a and b]
    if not usable:
        return 1.0
    if len(usable) == 1:
        a, b = usable[0]
        if len(set(a) | set(b)) == 1:
            return 1.0
        tied = len(set(a) | set(b)) < len(a) + len(b)
        method = "asymptotic" if tied else "exact"
        return float(mannwhitneyu(a, b, alternative="two-sided", method=method).pvalue)
    above, variance = 0.0, 0.0
    for a, b in usable:
        found, expected, spread = rank_sum(a, b)
        # Locally most powerful for equal shifts: weight 1 / (n + 1).
        weight = 1.0 / (len(a) + len(b) + 1)
        above += weight * (found - expected)
        variance += weight**2 * spread
    if variance == 0:
        return 1.0
    return float(2 * norm.sf(abs(above) / math.sqrt(variance)))


def rank_sum(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Of b among both: the sum of ranks, what is expected of it, and its variance."""
    from collections import Counter

    from scipy.stats import rankdata

    both = [*a, *b]
    n, m, total = len(a), len(b), len(a) + len(b)
    ranks = rankdata(both)
    ties = sum(count**3 - count for count in Counter(both).values())
    variance = n * m / 12 * ((total + 1) - ties / (total * (total - 1)))
    return float(ranks[n:].sum()), m * (total + 1) / 2, variance
