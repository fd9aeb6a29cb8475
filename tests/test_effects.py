# SPDX-License-Identifier: Apache-2.0
"""The one rule of verdicts: against scipy's exact tests, by its invariants, by coverage."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swtch.analysis import effects
from swtch.analysis.effects import Effect

NUMBERS = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 3))


@pytest.mark.parametrize(("level", "least", "of_two"), [(0.95, 6, 4), (0.99, 8, 5), (0.998, 10, 7)])
def test_a_level_needs_so_many_blocks(level: float, least: int, of_two: int) -> None:
    assert effects.least(level) == least
    assert effects.least_of_two(level) == of_two
    enough, short = (Effect(tuple(map(float, range(n))), "") for n in (least, least - 1))
    assert (enough.interval(level).method, short.interval(level).method) == ("ranks", "too few")
    assert enough.interval(level).level >= level > short.interval(level).level
    assert effects.least() == effects.LEAST


def test_the_p_values_are_those_of_the_exact_tests() -> None:
    from scipy.stats import mannwhitneyu, wilcoxon

    rng = random.Random(7)
    for _ in range(60):
        a = tuple(rng.gauss(0.5, 1) for _ in range(rng.randint(4, 14)))
        b = tuple(rng.gauss(0, 1) for _ in range(rng.randint(3, 9)))
        assert Effect(a, "").p() == pytest.approx(wilcoxon(a, method="exact").pvalue)
        expected = mannwhitneyu(a, b, method="exact").pvalue
        assert Effect(a, "", others=b).p() == pytest.approx(expected)


@given(values=st.lists(NUMBERS, min_size=1, max_size=12, unique=True), level=st.floats(0.5, 0.999))
def test_the_interval_is_the_test_and_has_its_estimate(values: list[float], level: float) -> None:
    made = Effect(tuple(values), "")
    here = made.interval(level)
    assert here.low <= here.estimate <= here.high
    if here.method == "ranks":
        assert here.level >= level
        # Ties with zero (a value or a mean of two) are on both sides.
        ties = any(a + b == 0 for a in values for b in values)
        assert ties or (here.low <= 0 <= here.high) == (made.p() > 1 - here.level + 1e-12)


@given(values=st.lists(NUMBERS, min_size=6, max_size=20), by=NUMBERS)
def test_a_shift_moves_the_interval(values: list[float], by: float) -> None:
    here, there = (Effect(tuple(v + d for v in values), "").interval() for d in (0.0, by))
    assert there.estimate == pytest.approx(here.estimate + by, abs=1e-6)
    assert there.high - there.low == pytest.approx(here.high - here.low, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.1, 1e6)), min_size=6, max_size=15))
def test_a_ratio_turned_round_is_its_inverse(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    for made in (effects.paired, effects.unpaired):
        one, other = made(a, b), made(b, a)
        assert one is not None and other is not None
        here, there = one.interval(), other.interval()
        assert here.estimate == pytest.approx(1 / there.estimate)
        assert here.low == pytest.approx(1 / there.high)


def test_drift_between_blocks_does_not_touch_a_pair() -> None:
    drift = [1.0, 3.0, 0.2, 7.0, 1.5, 0.9]
    made = effects.paired([2 * x for x in drift], drift)
    assert made is not None
    here = made.interval()
    assert here.low == pytest.approx(2.0) and here.high == pytest.approx(2.0)


def test_what_has_no_ratio_has_no_effect() -> None:
    assert effects.paired([], []) is None
    assert effects.paired([1.0, 0.0], [1.0, 1.0]) is None
    assert effects.unpaired([1.0], []) is None
    assert effects.level([], "ns") is None
    with pytest.raises(ValueError, match="differ in length: 1 and 2"):
        effects.paired([1.0], [1.0, 2.0])


def test_what_does_not_vary_is_a_point() -> None:
    made = effects.level([7.0] * 6, "switches")
    assert made is not None
    here = made.interval()
    assert (here.low, here.high, here.method, here.n) == (7.0, 7.0, "constant", 6)


def test_many_values_are_counted_by_the_normal_approximation() -> None:
    rng = random.Random(3)
    values = tuple(rng.gauss(0.0, 1.0) for _ in range(effects.EXACT + 1))
    few = Effect(values[: effects.EXACT], "").interval()
    many = Effect(values, "").interval()
    assert math.isclose(many.low, few.low, abs_tol=0.05)
    assert math.isclose(many.high, few.high, abs_tol=0.05)
