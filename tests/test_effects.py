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
        assert here.level >= level - 1e-12
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


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_a_zero_and_what_is_not_finite_have_no_ratio(bad: float) -> None:
    good = [1.0] * 6
    for made in (effects.paired, effects.unpaired):
        assert made([*good, bad], [*good, 1.0]) is None
        assert made([*good, 1.0], [*good, bad]) is None
    assert (effects.level([*good, bad], "ns") is None) == (not math.isfinite(bad))


def test_one_value_is_no_constant() -> None:
    for one in (effects.level([7.0], "ns"), effects.paired([2.0], [1.0])):
        assert one is not None and not one.decides()
        assert (one.interval().method, one.interval().level) == ("too few", 0.0)
    one = effects.unpaired([2.0] * 9, [1.0])
    assert one is not None and one.interval().method == "too few" and not one.decides()


def test_constant_log_ratios_are_a_point_through_any_drift() -> None:
    """By powers of two, of which the quotient is exact."""
    drift = [2.0**e for e in (0, 3, -2, 7, 1, 5)]
    made = effects.paired([4 * d for d in drift], drift)
    assert made is not None
    here = made.interval()
    assert (here.estimate, here.low, here.high, here.method) == (4, 4, 4, "constant")
    assert made.p() == pytest.approx(2 / 2**6) and made.p(4.0) == 1.0


def test_ties_only_make_it_wider() -> None:
    """Values equal to what is tested count for both sides."""
    made = effects.level([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "switches")
    assert made is not None
    here = made.interval()
    assert here.low == 0.0 and made.p() > 0.05
    assert effects.level([0.0] * 8, "switches").p() == 1.0  # type: ignore[union-attr]


@pytest.mark.parametrize(("n", "m"), [(4, 4), (4, 9), (12, 5), (3, 30), (30, 3), (4, 60)])
def test_groups_of_different_sizes(n: int, m: int) -> None:
    """The smaller decides whether there are enough, and turned round it is the inverse."""
    rng = random.Random(n * m)
    a, b = ([rng.lognormvariate(0, 0.1) for _ in range(size)] for size in (n, m))
    one, other = effects.unpaired(a, b), effects.unpaired(b, a)
    assert one is not None and other is not None
    assert one.n == min(n, m) and one.decides() == (min(n, m) >= 4)
    here, there = one.interval(), other.interval()
    assert here.low == pytest.approx(1 / there.high)
    assert one.p() == pytest.approx(other.p())
    if one.decides():
        assert here.level >= 0.95 or n + m > effects.EXACT


@pytest.mark.parametrize("n", [5, 6, 8, 10, 20])
def test_the_level_is_the_share_of_signs_that_hold_zero(n: int) -> None:
    """What `level` says, counted: of all patterns of signs of n magnitudes, those whose
    interval holds the centre. Exact to twelve blocks, of more by chance, seeded."""
    magnitudes = [1.37**i for i in range(n)]
    rng = random.Random(n)
    patterns = range(2**n) if n <= 10 else [rng.getrandbits(n) for _ in range(3000)]
    held = 0
    for signs in patterns:
        values = tuple(m if signs >> i & 1 else -m for i, m in enumerate(magnitudes))
        here = Effect(values, "").interval()
        held += here.low <= 0 <= here.high
    share = held / len(patterns)
    assert share == pytest.approx(here.level, abs=1e-12 if n <= 10 else 0.01)


@pytest.mark.parametrize("of", [(70, 0), (40, 40), (4, 80)])
def test_many_values_have_the_approximation_of_the_exact_cut(of: tuple[int, int]) -> None:
    exact, _ = effects.cut(effects._counts(*of), 0.95)
    middle, variance = effects._moments(*of)
    assert exact == pytest.approx(middle - 1.96 * math.sqrt(variance) - 0.5, abs=2)


def test_a_p_value_may_be_against_anything() -> None:
    made = effects.paired([1.1, 1.2, 1.3, 1.15, 1.25, 1.18], [1.0] * 6)
    assert made is not None
    assert made.p() == made.p(1.0) == pytest.approx(2 / 2**6)
    assert made.p(1.2) > 0.5


def test_what_does_not_vary_is_a_point() -> None:
    made = effects.level([7.0] * 6, "switches")
    assert made is not None
    here = made.interval()
    assert (here.low, here.high, here.method, here.n) == (7.0, 7.0, "constant", 6)


@pytest.mark.parametrize(
    ("values", "unit", "step"),
    [
        # All alike: whole ones of the coarsest unit.
        ([3.0] * 6, "ms", 1.0),
        ([3.0] * 6, "µs", 1.0),
        ([3000.0] * 6, "ns", 1000.0),
        ([3001.0] * 6, "ns", 1.0),
        ([0.083] * 6, "us", 0.001),
        ([0.0] * 6, "us", 1.0),
        # Else the least step that there is.
        ([83.0, 83.0, 125.0, 83.0, 42.0, 83.0], "ns", 41.0),
        # None alike: finer than the noise.
        ([83.0, 84.0, 85.0, 86.0, 87.0, 88.0], "ns", 0.0),
        ([7.0] * 6, "switches", 0.0),
        ([7.0] * 6, "instructions", 0.0),
    ],
)
def test_a_time_is_no_surer_than_its_clock(values: list[float], unit: str, step: float) -> None:
    made = effects.level(values, unit)
    assert made is not None and made.grain == pytest.approx(step)
    here = made.interval()
    exact = Effect(tuple(values), unit).interval()
    assert here.low == pytest.approx(exact.low - step)
    assert here.high == pytest.approx(exact.high + step)
    assert here.estimate == exact.estimate
    assert (here.method == "constant") == (step == 0 and len(set(values)) == 1)


def test_the_interval_of_rounded_times_is_still_the_test() -> None:
    """It lacks what the test denies, and has what it does not."""
    made = effects.level([3.0] * 6, "ms")
    assert made is not None
    for against, denied in ((1.9, True), (2.1, False), (3.9, False), (4.1, True)):
        assert (made.p(against) < 0.05) is denied, against


def test_a_ratio_of_rounded_times_has_the_coarser_step() -> None:
    two, one = [2000.0] * 6, [1000.0] * 6
    grain = effects.grain_of_ratio(two, one)
    made, exact = effects.paired(two, one, grain), effects.paired(two, one)
    assert made is not None and exact is not None
    here = made.interval()
    assert (here.low, here.estimate, here.high) == pytest.approx((1.0, 2.0, 4.0))
    assert exact.interval().low == 2.0
    # Of many steps it is as good as none.
    assert effects.grain_of_ratio([2_000_001.0] * 6, [1_000_001.0] * 6) < 1e-5


def test_many_values_are_counted_by_the_normal_approximation() -> None:
    rng = random.Random(3)
    values = tuple(rng.gauss(0.0, 1.0) for _ in range(effects.EXACT + 1))
    few = Effect(values[: effects.EXACT], "").interval()
    many = Effect(values, "").interval()
    assert math.isclose(many.low, few.low, abs_tol=0.05)
    assert math.isclose(many.high, few.high, abs_tol=0.05)
