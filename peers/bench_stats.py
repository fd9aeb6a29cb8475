# SPDX-License-Identifier: Apache-2.0
"""The comparison's statistics: medians, intervals, ratios by round, verdicts.

Invariants: an interval contains its median; a ratio is taken within a round,
never between the medians of two rows; a verdict is about the median.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_cases import Target


@dataclass(frozen=True)
class Estimate:
    """A median and its 95 % interval; kind says what the interval is."""

    median: float
    low: float
    high: float
    n: int
    kind: str  # "bca", "range" (too few for an interval)


@dataclass
class Row:
    """All that was measured of one case; values are by round, None where it failed."""

    name: str
    what: str
    unit: str
    values: list[float | None] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """A target and what became of it: met, missed, or not measured."""

    name: str
    verdict: str
    checks: tuple[tuple[str, Estimate | None, str], ...]


def estimate(values: Iterable[float | None], seed: int = 0) -> Estimate | None:
    """Median and 95 % interval: BCa bootstrap from 5 values on, else their range."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    import numpy as np

    data = np.asarray(known, dtype=float)
    median, low, high = float(np.median(data)), float(data.min()), float(data.max())
    if len(known) < 5:
        return Estimate(median, low, high, len(known), "range")
    if low == high:
        return Estimate(median, low, high, len(known), "bca")
    from scipy.stats import bootstrap

    def ends(method: str) -> tuple[float, float]:
        interval = bootstrap(
            (data,),
            np.median,
            n_resamples=9999,
            method=method,
            random_state=np.random.default_rng(seed),
        ).confidence_interval
        return float(interval.low), float(interval.high)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        low, high = ends("BCa")
        if not (np.isfinite(low) and np.isfinite(high)):
            # Nearly all values alike: the jackknife of BCa has nothing to go by.
            low, high = ends("percentile")
    # A skewed sample can push a BCa end past the median it belongs to.
    return Estimate(median, min(low, median), max(high, median), len(known), "bca")


def paired(over: Sequence[float | None], under: Sequence[float | None]) -> list[float | None]:
    """over / under round by round; None where either is missing."""
    return [a / b if a is not None and b else None for a, b in zip(over, under, strict=False)]


def judge(target: Target, rows: dict[str, Row]) -> Verdict:
    """Decided by medians; missed only when every check is, for one without numbers may be met."""
    checks: list[tuple[str, Estimate | None, str]] = []
    for check in target.any_of:
        row, other = rows.get(check.case), rows.get(check.versus)
        found: Estimate | None = None
        if row is not None and not check.versus:
            found = estimate(row.values)
        elif row is not None and other is not None:
            found = estimate(paired(row.values, other.values))
        words = "not measured"
        if found is not None:
            good = found.median >= check.limit if check.at_least else found.median <= check.limit
            words = "met" if good else "missed"
        checks.append((f"x {check.versus}" if check.versus else "", found, words))
    found_out = {word for _, _, word in checks}
    if "met" in found_out:
        verdict = "met"
    elif found_out == {"missed"}:
        verdict = "missed"
    else:
        verdict = "not measured"
    return Verdict(target.name, verdict, tuple(checks))
