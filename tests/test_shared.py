# SPDX-License-Identifier: Apache-2.0
"""The effect that trials share: the interval is the test, and blocks are what counts."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from swtch.analysis.shared import Shared

POOLS: list[list[float]] = list(
    json.loads((Path(__file__).parent / "data" / "noise.json").read_text())["values"].values()
)


def runs(
    rng: random.Random, n: int, m: int, trials: int, shift: float = 0.0, drift: float = 0.0
) -> Shared:
    """Recorded noise; ``drift`` is what the trials of a block have in common."""
    pools = [rng.choice(POOLS) for _ in range(trials)]

    def side(count: int, above: float) -> tuple[dict[int, float], ...]:
        blocks = [above + rng.gauss(0, drift) for _ in range(count)]
        # The pools are short, and what is drawn twice would be a tie of all trials at once.
        return tuple(
            {b: math.log(rng.choice(pool)) + rng.gauss(0, 0.002) + blocks[b] for b in range(count)}
            for pool in pools
        )

    return Shared(side(n, 0.0), side(m, shift))


@pytest.mark.parametrize("drift", [0.0, 0.02, 0.05])
def test_like_runs_are_called_in_one_of_twenty(drift: float) -> None:
    rng = random.Random(7)
    called = sum(runs(rng, 8, 8, 12, drift=drift).p() <= 0.05 for _ in range(400))
    assert called <= 29  # 20 and two standard deviations


@pytest.mark.parametrize(("n", "m", "drift"), [(6, 6, 0.0), (10, 10, 0.02), (20, 8, 0.05)])
def test_the_interval_covers_what_was_planted(n: int, m: int, drift: float) -> None:
    rng = random.Random(11)
    shift = math.log(1.05)
    found = [runs(rng, n, m, 12, shift, drift).ratio for _ in range(150)]
    assert sum(one.low <= 1.05 <= one.high for one in found) >= 135
    assert all(one.low <= one.estimate <= one.high for one in found)
    assert {one.method for one in found} == {"ranks"}


def test_the_interval_lacks_one_exactly_when_the_test_calls() -> None:
    rng = random.Random(3)
    for number in range(60):
        made = runs(rng, 8, 8, 6, shift=0.01 * (number % 5))
        lacks = not made.ratio.low <= 1 <= made.ratio.high
        assert lacks == (made.p() <= 0.05)


def test_a_small_shift_of_all_trials_is_seen_where_none_shows_it() -> None:
    made = runs(random.Random(1), 10, 10, 36, shift=math.log(1.03))
    assert made.p() < 0.001
    assert made.ratio.estimate == pytest.approx(1.03, abs=0.01)


def test_few_blocks_decide_nothing() -> None:
    made = runs(random.Random(1), 3, 10, 20, shift=1.0)
    assert not made.decides
    assert made.ratio.method == "too few"
    assert made.ratio.low < math.e < made.ratio.high


def test_what_does_not_vary() -> None:
    a = ({0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0},) * 2
    b = ({0: 1.5, 1: 1.5, 2: 1.5, 3: 1.5},) * 2
    same, other = Shared(a, a), Shared(a, b)
    assert same.p() == 1.0
    assert (same.ratio.estimate, same.ratio.method) == (1.0, "constant")
    assert other.p() < 0.05
    assert other.ratio.low == other.ratio.high == pytest.approx(math.exp(0.5))


def test_what_came_in_steps_is_no_finer_than_these() -> None:
    four, five, eight = ({b: math.log(ms) for b in range(10)} for ms in (4.0, 5.0, 8.0))
    step = math.log1p(1 / 4)
    made = Shared((four,) * 3, (five,) * 3, (step,) * 3)
    assert made.p() == 1.0
    assert made.ratio.estimate == pytest.approx(5 / 4, rel=1e-4)
    assert made.ratio.low == pytest.approx(1.0, rel=1e-4)
    assert made.ratio.high == pytest.approx(25 / 16, rel=1e-4)
    assert made.ratio.method == "ranks"
    # More than a step apart is called, however coarse the clock.
    made = Shared((four,) * 3, (eight,) * 3, (step,) * 3)
    assert made.p() < 0.001 and made.ratio.low == pytest.approx(8 / 5, rel=1e-4)
    # A trial of another step keeps its own.
    fine = Shared((four,) * 3, (five,) * 3, (step, 0.0, 0.0))
    assert fine.p() < 0.001


@pytest.mark.parametrize("step", [0.0, 0.01])
def test_with_steps_the_interval_is_the_test_too(step: float) -> None:
    rng = random.Random(5)
    for number in range(30):
        bare = runs(rng, 8, 8, 4, shift=0.01 * (number % 5))
        made = Shared(bare.a, bare.b, (step,) * 4)
        lacks = not made.ratio.low <= 1 <= made.ratio.high
        assert lacks == (made.p() <= 0.05)
        assert made.p() >= bare.p()
        assert made.ratio.low <= bare.ratio.low and bare.ratio.high <= made.ratio.high


def test_a_trial_that_failed_in_a_block_leaves_the_block() -> None:
    made = runs(random.Random(2), 8, 8, 6)
    lacking = tuple({k: v for k, v in one.items() if k != row} for row, one in enumerate(made.a))
    assert Shared(lacking, made.b).n == (8, 8)
    # Blocks that one trial alone went on for are not the others'.
    more = ({**made.a[0], **dict.fromkeys(range(8, 20), 1.0)}, *made.a[1:])
    assert Shared(more, made.b).n == (8, 8)
    assert Shared(more, made.b).p() == pytest.approx(made.p(), abs=0.3)
