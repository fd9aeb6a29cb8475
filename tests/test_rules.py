# SPDX-License-Identifier: Apache-2.0
"""From an effect to a verdict, of one case and of several."""

from __future__ import annotations

import pytest

from swtch.analysis import effects
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Place
from swtch.claims import Evidence

EVIDENCE = Evidence(Place("native"), ())


def between(low: float, high: float, n: int = 6) -> Effect:
    """An effect whose interval at six blocks is [low, high]."""
    return Effect(tuple(low + (high - low) * i / (n - 1) for i in range(n)), "x")


@pytest.mark.parametrize(
    ("low", "high", "n", "verdict"),
    [
        (1.1, 1.2, 6, "holds"),
        (1.0, 1.2, 6, "cannot tell"),
        (0.9, 1.2, 6, "cannot tell"),
        (0.8, 1.0, 6, "cannot tell"),
        (0.8, 0.9, 6, "differs"),
        (1.1, 1.2, 5, "cannot tell"),
        (0.8, 0.9, 5, "cannot tell"),
    ],
)
def test_above(low: float, high: float, n: int, verdict: str) -> None:
    ruling = EVIDENCE.above(between(low, high, n), 1.0, "why")
    assert (ruling.verdict, ruling.threshold) == (verdict, 1.0)
    assert ("5 blocks; at least 6 are needed" in ruling.why) == (n == 5)


@pytest.mark.parametrize(
    ("low", "high", "n", "verdict"),
    [
        (0.95, 1.05, 6, "holds"),
        (0.94, 1.05, 6, "cannot tell"),
        (0.95, 1.06, 6, "cannot tell"),
        (0.5, 2.0, 6, "cannot tell"),
        (0.5, 0.94, 6, "differs"),
        (1.06, 2.0, 6, "differs"),
        (1.0, 1.0, 5, "cannot tell"),
    ],
)
def test_within(low: float, high: float, n: int, verdict: str) -> None:
    assert EVIDENCE.within(between(low, high, n), 0.95, 1.05, "why").verdict == verdict


def test_a_point_on_the_bound_is_not_above_it() -> None:
    assert EVIDENCE.above(between(1.0, 1.0), 1.0).verdict == "differs"
    assert EVIDENCE.within(between(1.0, 1.0), 1.0, 2.0).verdict == "holds"


def test_several_looks_need_more_blocks() -> None:
    often = Evidence(Place("native"), (), level=0.99)
    assert often.above(between(1.1, 1.2, 7), 1.0).verdict == "cannot tell"
    assert "at least 8" in often.above(between(1.1, 1.2, 7), 1.0).why
    assert often.above(between(1.1, 1.2, 8), 1.0).verdict == "holds"


def test_all_must_hold_and_one_that_differs_decides() -> None:
    good, bad, open_ = between(1.1, 1.2, 12), between(0.8, 0.9, 12), between(0.9, 1.1, 12)

    def verdict(*cases: Effect) -> str:
        asked = {f"case {i}": EVIDENCE.above(one, 1.0) for i, one in enumerate(cases)}
        return EVIDENCE.all_of(asked, "why").verdict

    assert verdict(good, good) == "holds"
    assert verdict(good, open_) == "cannot tell"
    assert verdict(good, open_, bad) == "differs"


def test_one_of_many_cases_differs_only_at_a_level_for_as_many() -> None:
    """Six blocks reach 0.969: enough for one case, not for one of six."""
    six = {f"case {i}": EVIDENCE.above(between(1.1, 1.2), 1.0) for i in range(5)}
    six["last"] = EVIDENCE.above(between(0.8, 0.9), 1.0)
    assert six["last"].verdict == "differs"
    ruling = EVIDENCE.all_of(six, "why")
    assert ruling.verdict == "cannot tell" and "last: 0.85 x" in ruling.why
    six["last"] = EVIDENCE.above(between(0.8, 0.9, effects.least(1 - 0.05 / 6)), 1.0)
    assert EVIDENCE.all_of(six, "why").verdict == "differs"
