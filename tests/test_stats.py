# SPDX-License-Identifier: Apache-2.0
"""The interval of a median has the level it states, by exact binomials; and dispersion."""

from __future__ import annotations

import itertools
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from swtch.analysis import effects, stats

# Times, counts and throughputs as samples have them; neither denormals nor 1e300.
NUMBERS = st.floats(1e-3, 1e12, allow_nan=False).map(lambda value: float(f"{value:.6g}"))
ANY = st.lists(NUMBERS, min_size=1, max_size=40)
quick = settings(max_examples=50, deadline=None)


# ---- the level, exactly ----


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 9, 10, 20, 21, 50, 200])
def test_the_level_is_the_binomials(n: int) -> None:
    """Each value is above the median with probability 1/2, whatever its law."""
    values = [float(2 * i) for i in range(n)]
    here = stats.median_interval(values, "ms")
    assert here is not None
    # The interval misses when fewer values than these lie below the median, or above it.
    below = sum(value <= here.low for value in values)
    above = sum(value >= here.high for value in values)
    assert below == above
    ways = sum(math.comb(n, k) for k in range(below, n - above + 1))
    assert here.level == pytest.approx(float(Fraction(ways, 2**n)))
    assert here.level == pytest.approx(1 - 2 * binom.cdf(below - 1, n, 0.5))


@pytest.mark.parametrize("n", range(6, 41))
def test_it_is_the_narrowest_that_reaches_the_level(n: int) -> None:
    left_out, level = stats.order_cut(n)
    assert level >= stats.LEVEL
    assert 1 - 2 * binom.cdf(left_out + 1, n, 0.5) < stats.LEVEL


@pytest.mark.parametrize(("n", "level"), [(1, 0.0), (2, 0.5), (4, 0.875), (5, 0.9375)])
def test_too_few_give_their_range_at_its_own_level(n: int, level: float) -> None:
    here = stats.median_interval([1.0, 2.0, 4.0, 8.0, 16.0][:n], "ms")
    assert here is not None
    assert (here.method, here.level, here.n) == ("too few", level, n)
    assert (here.low, here.high) == (1.0, 2.0 ** (n - 1))
    assert n < stats.LEAST


def test_as_many_values_are_needed_as_blocks_for_a_verdict() -> None:
    assert stats.LEAST == effects.LEAST == 6
    here = stats.median_interval([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "ms")
    assert here is not None
    assert (here.method, here.level, here.low, here.high) == ("order", 0.96875, 1.0, 32.0)


@pytest.mark.parametrize("n", [5, 6, 8])
def test_every_sample_of_a_small_law_is_covered_as_stated(n: int) -> None:
    """All samples of n out of a skewed law of four values with the median between two of
    them: as many as `level` says, and more only where values are equal to a limit."""
    law, median = [1.0, 2.0, 30.0, 400.0], 16.0
    held = 0
    for sample in itertools.product(law, repeat=n):
        here = stats.median_interval(sample, "ms")
        assert here is not None
        held += here.low <= median <= here.high
    # A sample all of one value is a point, and misses as it would otherwise.
    assert held / len(law) ** n == pytest.approx(stats.order_cut(n)[1])


# ---- the module's promises ----


@quick
@given(values=ANY)
def test_an_interval_contains_its_estimate_among_the_values(values: list[float]) -> None:
    here = stats.median_interval(values, "ms")
    assert here is not None
    assert here.estimate == statistics.median(values)
    assert here.low <= here.estimate <= here.high
    assert {here.low, here.high} <= set(values)
    assert (here.n, here.unit) == (len(values), "ms")


@quick
@given(values=ANY, data=st.data())
def test_the_order_of_the_values_changes_nothing(values: list[float], data: st.DataObject) -> None:
    other = data.draw(st.permutations(values))
    assert stats.median_interval(values, "ms") == stats.median_interval(other, "ms")


@quick
@given(values=ANY, power=st.integers(-20, 20))
def test_another_unit_gives_the_same_interval(values: list[float], power: int) -> None:
    """By powers of two, which floats multiply exactly."""
    factor = 2.0**power
    one, other = (stats.median_interval([v * f for v in values], "a") for f in (1.0, factor))
    assert one is not None and other is not None
    assert (other.method, other.level) == (one.method, one.level)
    assert (other.low, other.high) == (one.low * factor, one.high * factor)


@quick
@given(value=NUMBERS, n=st.integers(2, 20))
def test_constant_data_is_its_value(value: float, n: int) -> None:
    here = stats.median_interval([value] * n, "ms")
    assert here is not None
    assert (here.estimate, here.low, here.high) == (value, value, value)
    assert (here.method, here.n) == ("constant", n)


def test_one_value_is_not_constant() -> None:
    here = stats.median_interval([5.0], "ms")
    assert here is not None
    assert (here.estimate, here.low, here.high, here.n) == (5, 5, 5, 1)
    assert (here.method, here.level) == ("too few", 0.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_no_interval(bad: float) -> None:
    assert stats.median_interval([1.0] * 6 + [bad], "ms") is None


def test_no_values_are_no_interval() -> None:
    assert stats.median_interval([], "ms") is None
    assert stats.dispersion([]) == {}


def test_an_outlier_moves_one_limit_of_few_and_none_of_many() -> None:
    for n, moved in ((6, True), (10, False)):
        calm = [100.0 + i for i in range(n)]
        one, other = (
            stats.median_interval(calm, "ns"),
            stats.median_interval([*calm[:-1], 1e6], "ns"),
        )
        assert one is not None and other is not None
        assert other.estimate == one.estimate and other.low == one.low
        assert (other.high != one.high) == moved


# ---- dispersion ----


@quick
@given(values=st.lists(NUMBERS, min_size=2, max_size=30))
def test_dispersion_is_numpys(values: list[float]) -> None:
    here = stats.dispersion(values)
    exact = np.array(values)
    scale = max(values)
    assert here["mean"] == pytest.approx(float(np.mean(exact)))
    assert here["sd"] == pytest.approx(float(np.std(exact, ddof=1)), abs=1e-9 * scale)
    assert here["sd"] == pytest.approx(statistics.stdev(values), abs=1e-9 * scale)
    assert here["cv"] == pytest.approx(100 * here["sd"] / here["mean"])
    assert (here["min"], here["max"]) == (min(values), max(values))


def test_dispersion_of_one_and_of_zeros() -> None:
    assert stats.dispersion([4.0]) == {"mean": 4.0, "sd": 0.0, "cv": 0.0, "min": 4.0, "max": 4.0}
    assert stats.dispersion([0.0, 0.0]) == {"mean": 0.0, "sd": 0.0, "min": 0.0, "max": 0.0}


@pytest.mark.parametrize(
    "values", [[-1.0, 1.0], [-3.0, 1.0, 2.0], [5e-324, 0.0, 5e-324, 1e9, -1e9]]
)
def test_what_varies_about_zero_has_no_share_of_it(values: list[float]) -> None:
    """A CV of 0 said that it does not vary at all."""
    here = stats.dispersion(values)
    assert here["sd"] > 0 and "cv" not in here


def test_a_share_of_less_than_nothing_is_as_of_more() -> None:
    assert stats.dispersion([-4.0, -6.0])["cv"] == stats.dispersion([4.0, 6.0])["cv"] > 0
