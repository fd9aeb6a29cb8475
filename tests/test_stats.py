# SPDX-License-Identifier: Apache-2.0
"""Intervals agree with scipy asked directly, keep the module's promises, and cover the truth."""

from __future__ import annotations

import math
import random
import statistics
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swtch.analysis import stats
from swtch.records import Interval

# Times, counts and throughputs as samples have them; neither denormals nor 1e300.
NUMBERS = st.floats(1e-3, 1e12, allow_nan=False).map(lambda value: float(f"{value:.6g}"))
MANY = st.lists(NUMBERS, min_size=stats.MIN_N, max_size=20)
ANY = st.lists(NUMBERS, min_size=1, max_size=20)
quick = settings(max_examples=20, deadline=None)


def asked(data: Sequence[Sequence[float]], statistic: Callable[..., Any], **more: Any) -> Any:
    """scipy's own answer with the module's settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scipy.stats.bootstrap(
            tuple(np.array(one) for one in data),
            statistic,
            n_resamples=stats.RESAMPLES,
            confidence_level=0.95,
            method="BCa",
            rng=np.random.default_rng(stats.SEED),
            **more,
        ).confidence_interval


def agrees(made: Interval, limits: Any) -> None:
    """Wherever BCa is defined it is what is given, widened to hold the estimate."""
    if math.isfinite(limits.low) and math.isfinite(limits.high):
        assert made.method == "BCa"
        assert made.low == min(limits.low, made.estimate)
        assert made.high == max(limits.high, made.estimate)
    else:
        assert made.method in ("percentile", "too few")


def median_ratio(a: Any, b: Any, axis: int) -> Any:
    return np.median(a, axis=axis) / np.median(b, axis=axis)


# ---- against scipy ----


@quick
@given(values=MANY)
def test_the_median_is_scipys(values: list[float]) -> None:
    assume(len(set(values)) > 1)
    made = stats.interval(values, "ms")
    assert made is not None
    assert made.estimate == statistics.median(values)
    assert (made.n, made.unit, made.level) == (len(values), "ms", 0.95)
    agrees(made, asked([values], np.median))


@quick
@given(values=MANY)
def test_the_coefficient_of_variation_is_scipys(values: list[float]) -> None:
    assume(len(set(values)) > 1)
    made = stats.interval(values, "%", stats.cv)
    assert made is not None
    expected = 100 * statistics.stdev(values) / statistics.fmean(values)
    assert made.estimate == pytest.approx(expected)

    def cv(x: Any, axis: int) -> Any:
        return 100 * np.std(x, axis=axis, ddof=1) / np.mean(x, axis=axis)

    limits = asked([values], cv)
    if math.isfinite(limits.low) and math.isfinite(limits.high):
        assert made.low == pytest.approx(min(limits.low, made.estimate))
        assert made.high == pytest.approx(max(limits.high, made.estimate))


@quick
@given(a=MANY, b=MANY)
def test_the_ratio_of_two_groups_is_scipys(a: list[float], b: list[float]) -> None:
    assume(len(set(a)) > 1 or len(set(b)) > 1)
    made = stats.ratio(a, b)
    assert made is not None
    assert made.estimate == pytest.approx(statistics.median(a) / statistics.median(b))
    assert (made.n, made.unit) == (min(len(a), len(b)), "x")
    agrees(made, asked([a, b], median_ratio, paired=False))


@quick
@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=stats.MIN_N, max_size=20))
def test_the_ratio_of_pairs_is_scipys(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    assume(len(set(a)) > 1 or len(set(b)) > 1)
    made = stats.ratio(a, b, paired=True)
    assert made is not None
    assert made.n == len(pairs)
    agrees(made, asked([a, b], median_ratio, paired=True))


# ---- the module's promises ----


@quick
@given(values=ANY, other=ANY)
def test_the_same_numbers_give_the_same_interval_whatever_came_before(
    values: list[float], other: list[float]
) -> None:
    first = stats.interval(values, "ms"), stats.ratio(values, other)
    np.random.seed(len(other))
    random.seed(len(values))
    stats.interval(other, "ms")
    stats.ratio(other, values)
    assert (stats.interval(values, "ms"), stats.ratio(values, other)) == first


@quick
@given(a=ANY, b=ANY, statistic=st.sampled_from([stats.median, stats.mean, stats.cv]))
def test_an_interval_is_finite_and_contains_its_estimate(
    a: list[float], b: list[float], statistic: stats.Statistic
) -> None:
    made = [stats.interval(a, "ms", statistic), stats.ratio(a, b)]
    if len(a) == len(b):
        made.append(stats.ratio(a, b, paired=True))
    for interval in made:
        if interval is not None:
            assert math.isfinite(interval.low) and math.isfinite(interval.high)
            assert interval.low <= interval.estimate <= interval.high


@quick
@given(value=NUMBERS, n=st.integers(1, 20), m=st.integers(1, 20))
def test_constant_data_is_its_value(value: float, n: int, m: int) -> None:
    made = stats.interval([value] * n, "ms")
    assert made == Interval(
        estimate=value, low=value, high=value, n=n, unit="ms", method="constant"
    )
    ratio = stats.ratio([3 * value] * n, [value] * m)
    assert ratio is not None
    assert (ratio.method, ratio.n) == ("constant", min(n, m))
    assert ratio.low == ratio.estimate == ratio.high == pytest.approx(3)


def test_constant_data_has_no_variation() -> None:
    made = stats.interval([7.0] * 6, "%", stats.cv)
    assert made is not None
    assert (made.estimate, made.low, made.high, made.method) == (0, 0, 0, "constant")


@quick
@given(values=st.lists(NUMBERS, min_size=2, max_size=stats.MIN_N - 1))
def test_too_few_give_the_range_and_no_inference(values: list[float]) -> None:
    assume(len(set(values)) > 1)
    made = stats.interval(values, "ms")
    assert made is not None
    assert made.method == "too few"
    assert (made.low, made.high) == (min(values), max(values))
    ratio = stats.ratio(values, [2.0] * 10)
    assert ratio is not None
    assert (ratio.method, ratio.n) == ("too few", len(values))
    assert (ratio.low, ratio.high) == (min(values) / 2, max(values) / 2)


def test_too_few_for_a_statistic_that_is_not_a_place_among_the_values() -> None:
    """A coefficient of variation in percent has no range of milliseconds."""
    made = stats.interval([100.0, 101.0, 102.0], "%", stats.cv)
    assert made is not None
    assert made.method == "too few"
    assert made.estimate == pytest.approx(100 / 101)
    assert made.high < 2


def test_one_value_has_no_variation_that_could_be_told() -> None:
    assert stats.interval([5.0], "%", stats.cv) is None
    made = stats.interval([5.0], "ms")
    assert made is not None
    assert (made.estimate, made.low, made.high, made.n) == (5, 5, 5, 1)


@pytest.mark.parametrize("n", [stats.MIN_N - 1, stats.MIN_N])
def test_inference_begins_at_min_n(n: int) -> None:
    made = stats.interval([1.0, 2.0, 4.0, 8.0, 16.0][:n], "ms")
    assert made is not None
    assert (made.method == "BCa") == (n >= stats.MIN_N)


def test_no_values_are_no_interval() -> None:
    assert stats.interval([], "ms") is None
    assert stats.ratio([], [1.0]) is None
    assert stats.ratio([1.0], []) is None
    assert stats.dispersion([]) == {}


def test_nothing_is_divided_by_zero() -> None:
    assert stats.ratio([1.0] * 5, [1.0, 2.0, 0.0, 1.0, 1.0]) is None
    assert stats.ratio([1.0] * 5, [-1.0] * 5) is None
    assert stats.interval([0.0] * 6, "%", stats.cv) is None
    made = stats.ratio([0.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert made is not None
    assert (made.estimate, made.low, made.high) == (0, 0, 0)


def test_pairs_need_partners() -> None:
    with pytest.raises(ValueError, match="differ in length: 5 and 6"):
        stats.ratio([1.0] * 5, [1.0] * 6, paired=True)


def test_pairs_cancel_what_moves_both() -> None:
    """A drift that hits both of a block is no noise for pairs, and is for groups."""
    drift = [1.0, 1.3, 0.8, 1.6, 0.7, 1.2, 0.9, 1.5, 1.1, 0.6]
    a, b = [110 * d for d in drift], [100 * d for d in drift]
    paired, apart = stats.ratio(a, b, paired=True), stats.ratio(a, b)
    assert paired is not None and apart is not None
    assert paired.estimate == apart.estimate == pytest.approx(1.1)
    assert paired.low > 1.09 and paired.high < 1.11
    assert apart.low < 1 < apart.high


@quick
@given(values=MANY, power=st.integers(-20, 20))
def test_another_unit_gives_the_same_interval(values: list[float], power: int) -> None:
    """By powers of two, which floats multiply exactly."""
    factor = 2.0**power
    made, scaled = stats.interval(values, "a"), stats.interval([v * factor for v in values], "b")
    assert made is not None and scaled is not None
    assert scaled.method == made.method
    assert (scaled.low, scaled.high) == (made.low * factor, made.high * factor)


# ---- dispersion ----


@quick
@given(values=st.lists(NUMBERS, min_size=2, max_size=30))
def test_dispersion_is_numpys(values: list[float]) -> None:
    told = stats.dispersion(values)
    exact = np.array(values)
    scale = max(values)
    assert told["mean"] == pytest.approx(float(np.mean(exact)))
    assert told["sd"] == pytest.approx(float(np.std(exact, ddof=1)), abs=1e-9 * scale)
    assert told["sd"] == pytest.approx(statistics.stdev(values), abs=1e-9 * scale)
    assert told["cv"] == pytest.approx(100 * told["sd"] / told["mean"])
    assert (told["min"], told["max"]) == (min(values), max(values))


def test_dispersion_of_one_and_of_zeros() -> None:
    assert stats.dispersion([4.0]) == {"mean": 4.0, "sd": 0.0, "cv": 0.0, "min": 4.0, "max": 4.0}
    assert stats.dispersion([0.0, 0.0])["cv"] == 0.0


# ---- does it cover the truth ----


def covered(draw: Callable[[Any], Any], truth: float, n: int, runs: int = 100) -> float:
    """How often the interval of `n` values holds the median they were drawn with."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(runs):
        made = stats.interval([float(v) for v in draw(rng.random(n))], "ms")
        assert made is not None
        held += made.low <= truth <= made.high
    return held / runs


@pytest.mark.parametrize("n", [10, 25])
@pytest.mark.parametrize("skewed", [False, True])
def test_ninety_five_percent_is_about_that(n: int, skewed: bool) -> None:
    """Seeded, hence the same each time; BCa of few values is known to be a little narrow."""
    normal = scipy.stats.norm(100, 5).ppf
    share = covered(
        (lambda u: np.exp(normal(u) / 20)) if skewed else normal,
        *((math.exp(5), n) if skewed else (100.0, n)),
    )
    assert 0.85 <= share <= 0.995


def test_a_ratio_of_equals_seldom_excludes_one() -> None:
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(100):
        a, b = (list(map(float, rng.lognormal(3, 0.2, 12))) for _ in range(2))
        made = stats.ratio(a, b)
        assert made is not None
        wrong += not made.low <= 1 <= made.high
    assert wrong <= 15


def test_a_ratio_that_is_there_is_found() -> None:
    rng = np.random.default_rng(13)
    found = 0
    for _ in range(50):
        a = [float(v) for v in 1.3 * rng.lognormal(3, 0.05, 10)]
        b = [float(v) for v in rng.lognormal(3, 0.05, 10)]
        made = stats.ratio(a, b)
        assert made is not None
        found += made.low > 1
    assert found >= 48
