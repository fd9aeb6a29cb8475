# SPDX-License-Identifier: Apache-2.0
"""From an effect to a verdict, of one case and of several."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from synthetic import Scene

from swtch import claims
from swtch.analysis import effects, findings
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Place
from swtch.claims import Claim, Evidence, Ruling, missing, rules

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


def test_more_and_less_are_by_a_twentieth_so_that_equal_is_neither() -> None:
    def ratio(low: float, high: float) -> Effect:
        values = tuple(math.log(low + (high - low) * i / 5) for i in range(6))
        return Effect(values, "x", logarithmic=True)

    assert EVIDENCE.more(ratio(1.06, 1.2)).verdict == "holds"
    assert EVIDENCE.more(ratio(1.04, 1.2)).verdict == "cannot tell"
    assert EVIDENCE.more(ratio(0.98, 1.02)).verdict == "differs"
    assert EVIDENCE.less(ratio(0.8, 0.94)).verdict == "holds"
    assert EVIDENCE.less(ratio(0.8, 0.96)).verdict == "cannot tell"
    assert EVIDENCE.less(ratio(0.98, 1.02)).verdict == "differs"


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


def cases(**differ_by: int) -> dict[str, Ruling]:
    """A case each: so many blocks of an effect that is below its bound."""
    return {name: EVIDENCE.above(between(0.8, 0.9, n), 1.0) for name, n in differ_by.items()}


def test_cases_of_cases_are_counted_together() -> None:
    """Nine blocks are enough for one of twelve, and not for one of fifteen."""
    assert effects.least(1 - 0.05 / 12) == 9 and effects.least(1 - 0.05 / 15) == 10
    held = {f"held {i}": EVIDENCE.above(between(1.1, 1.2), 1.0) for i in range(11)}
    twelve = EVIDENCE.all_of({**held, **cases(bad=9)}, "inner")
    assert twelve.verdict == "differs"
    more = {f"more {i}": EVIDENCE.above(between(1.1, 1.2), 1.0) for i in range(3)}
    assert EVIDENCE.all_of({"inner": twelve, **more}, "outer").verdict == "cannot tell"
    enough = EVIDENCE.all_of({**held, **cases(bad=10)}, "inner")
    assert EVIDENCE.all_of({"inner": enough, **more}, "outer").verdict == "differs"


def test_a_case_that_is_not_measurable_decides_nothing() -> None:
    held = EVIDENCE.above(between(1.1, 1.2), 1.0)
    ruling = EVIDENCE.all_of({"here": held, "there": missing("no module")}, "why")
    assert ruling.verdict == "holds" and "there: not measurable here" in ruling.why
    nothing: Mapping[str, Ruling]
    for nothing in ({}, {"there": missing("no module")}):
        assert EVIDENCE.all_of(nothing, "why").verdict == "not measurable here"


def test_a_case_that_counts_decide_is_not_corrected() -> None:
    """Each of its invocations was seen; no chance is in it."""
    counted = rules.of_counts([0.0] * 6, 0, "none of six", None, None)
    held = {f"held {i}": EVIDENCE.above(between(1.1, 1.2), 1.0) for i in range(9)}
    assert EVIDENCE.all_of({**held, "counted": counted}, "why").verdict == "differs"


@pytest.mark.parametrize(
    ("right", "verdict"), [(6, "holds"), (5, "cannot tell"), (3, "cannot tell"), (2, "differs")]
)
def test_counts_hold_in_all_and_differ_in_most(right: int, verdict: str) -> None:
    assert rules.of_counts([1.0] * 6, right, "why", None, None).verdict == verdict


def test_five_counts_are_too_few() -> None:
    ruling = rules.of_counts([1.0] * 5, 5, "why", None, None)
    assert (ruling.verdict, ruling.why) == ("cannot tell", "5 blocks; at least 6 are needed")


# ---- what a clock tells ----


@pytest.mark.parametrize(("step_ns", "verdict"), [(1, "holds"), (10**6, "cannot tell")])
def test_times_that_a_clock_rounded_decide_nothing_within_its_step(
    monkeypatch: pytest.MonkeyPatch, step_ns: int, verdict: str
) -> None:
    """A tenth faster, of five milliseconds: in whole ones it is a fifth, in every block."""

    def check(evidence: Evidence) -> Ruling:
        one, other = (evidence.group("scenarios", "pthread", scenario=case) for case in ("A", "B2"))
        made = findings.effect(other, one) if one and other else None
        assert made is not None
        return evidence.above(made, 1.05, "B2 over A")

    claim = Claim("000.0", "000", "scenarios", "B2 is faster", "so", check)
    monkeypatch.setattr(claims, "every", lambda: (claim,))
    scene = Scene()
    for case, wall_ns in (("A", 5_000_003), ("B2", 4_500_001)):
        wall = wall_ns // step_ns * step_ns
        scene.scenario(case, "pthread", [4_000_000 * 1e3 / wall] * 10)
    (found,) = claims.judge(scene.groups(), ["scenarios"])
    assert found.verdict == verdict, found.why
    assert found.here is not None and found.here.low < found.here.high


# ---- what a gate marked ----


def judged(
    monkeypatch: pytest.MonkeyPatch, a: list[float], b: list[float], marked: set[int]
) -> tuple[str, str]:
    """The verdict of "B2 is faster than A", where the hypervisor took time in these blocks."""

    def check(evidence: Evidence) -> Ruling:
        one, other = (evidence.group("scenarios", "pthread", scenario=case) for case in ("A", "B2"))
        if one is None or other is None:
            return missing("both")
        made = findings.effect(other, one)
        assert made is not None
        return evidence.above(made, 1.0, "B2 over A")

    claim = Claim("000.0", "000", "scenarios", "B2 is faster", "so", check)
    monkeypatch.setattr(claims, "every", lambda: (claim,))
    scene = Scene().scenario("A", "pthread", a)
    for block, speed in enumerate(b):
        steal = 10**9 if block in marked else 0
        scene.scenario("B2", "pthread", [speed], steal_ns=steal)
    (verdict,) = claims.judge(scene.groups(), ["scenarios"])
    return verdict.verdict, verdict.why


@pytest.mark.parametrize(
    ("factors", "marked", "verdict", "without"),
    [
        # As without them: nothing is said.
        ([1.2] * 10, {0, 1}, "holds", ""),
        ([1.2] * 8 + [0.9] * 2, set(), "holds", ""),
        # Too few are left to say anything, or enough to say something.
        ([1.2] * 10, {0, 1, 2, 3, 4}, "holds", "cannot tell"),
        ([0.5] * 4 + [1.2] * 6, {0, 1, 2, 3}, "cannot tell", "holds"),
        # What only the marked ones hold is not held, and not differing either.
        ([3.0] * 14 + [0.97] * 6, set(range(14)), "cannot tell", "differs"),
    ],
)
def test_a_verdict_that_turns_on_marked_samples_says_so(
    monkeypatch: pytest.MonkeyPatch,
    factors: list[float],
    marked: set[int],
    verdict: str,
    without: str,
) -> None:
    base = [100.0 + i for i in range(len(factors))]
    speeds = [a * f * 1.0001**i for i, (a, f) in enumerate(zip(base, factors, strict=True))]
    here, why = judged(monkeypatch, base, speeds, marked)
    assert here == verdict
    said = f"Without the {len(marked)} samples that a gate marked: "
    assert (f"{said}{without}" in why) if without else (said not in why)
