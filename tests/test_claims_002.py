# SPDX-License-Identifier: Apache-2.0
"""Study 002's claims: each verdict from samples made for it, at every place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from made_002 import interrupted, switched, trial
from synthetic import Scene, failed

from swtch.claims import study_002
from swtch.experiments.pair_overhead import PAIRS, case_of
from swtch.records import Model, VerdictName

Where = Mapping[str, Any]
Make = Callable[[Where], Scene]

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}
# As the study found them, for 99 switches, in us.
LOSSES = {"crc": 20.0, "sort": 60.0, "aes": 900.0, "deflate": 1000.0}
NUMBERS = (9, 33, 66, 99)
NO_LOSS = dict.fromkeys(LOSSES, 0.0)


def pairs(
    where: Where,
    losses: Mapping[str, float] = LOSSES,
    *,
    numbers: tuple[int, ...] = NUMBERS,
    only: str = "",
    last_cold: float = 1.0,
    **given: Any,
) -> Scene:
    """All six pairs, where each task loses in proportion to the switches."""
    scene = Scene()
    for a, b in PAIRS:
        if only and only != case_of((a, b)):
            continue
        for n in numbers:
            more = dict(given)
            if n == 99:
                more["cold"] = given.get("cold", 8.0) * last_cold
            both = losses[a] * n / 99, losses[b] * n / 99
            switched(scene, case_of((a, b)), n, both, where=where, **more)
    return scene


def interrupts(
    where: Where,
    losses: Mapping[str, float] = NO_LOSS,
    *,
    scene: Scene | None = None,
    numbers: tuple[int, ...] = (9, 24, 49),
    **given: Any,
) -> Scene:
    scene = scene or Scene()
    for task, loss in losses.items():
        for n in numbers:
            interrupted(scene, task, n, loss * n / 49, where=where, **given)
    return scene


def both(where: Where, of_interrupts: Mapping[str, float], **given: Any) -> Scene:
    return interrupts(where, of_interrupts, scene=pairs(where, **given), **given)


def odd(task: str, loss: float) -> dict[str, float]:
    return {**LOSSES, task: loss}


def only_failed(experiment: str, **factors: Any) -> Make:
    def make(where: Where) -> Scene:
        one = trial(experiment, "process", **factors, **where)
        return Scene().add(one, [failed(one)] * 10)

    return make


FAILED_PAIRS = only_failed("pair-overhead", pair="aes+crc", n=99)
FAILED_INTERRUPTS = only_failed("interrupt-overhead", task="aes", n=49)
SMALL = {"crc": 0.2, "sort": 0.6, "aes": 3.0, "deflate": 2.0}

# What each claim can become, and the samples of which it becomes that.
VERDICTS: list[tuple[str, VerdictName, str, Make]] = [
    ("1", "holds", "", pairs),
    ("1", "differs", "dearer", lambda w: pairs(w, last_cold=1.5)),
    ("1", "differs", "cheaper", lambda w: pairs(w, last_cold=0.5)),
    ("1", "cannot tell", "at the bound", lambda w: pairs(w, last_cold=1.1)),
    ("1", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("1", "not measurable here", "one number", lambda w: pairs(w, numbers=(99,))),
    ("1", "not measurable here", "failed", FAILED_PAIRS),
    ("2", "holds", "", pairs),
    ("2", "differs", "it falls", lambda w: pairs(w, really=2.0, cold=20.0)),
    ("2", "differs", "one pair gains", lambda w: pairs(w, {**NO_LOSS, "crc": -90, "sort": 90})),
    ("2", "cannot tell", "noise", lambda w: pairs(w, NO_LOSS)),
    ("2", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("2", "not measurable here", "one number", lambda w: pairs(w, numbers=(99,))),
    ("2", "not measurable here", "failed", FAILED_PAIRS),
    ("3", "holds", "", lambda w: pairs(w, dict.fromkeys(LOSSES, 900.0))),
    ("3", "differs", "one pair", pairs),
    ("3", "differs", "all", lambda w: pairs(w, NO_LOSS)),
    ("3", "cannot tell", "equal", lambda w: pairs(w, dict.fromkeys(LOSSES, 396.0))),
    ("3", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("3", "not measurable here", "fewer", lambda w: pairs(w, numbers=(9, 33))),
    ("3", "not measurable here", "failed", FAILED_PAIRS),
    ("5", "holds", "", pairs),
    ("5", "differs", "crc most", lambda w: pairs(w, odd("crc", 2000))),
    ("5", "differs", "sort most", lambda w: pairs(w, odd("sort", 2000))),
    ("5", "differs", "aes least", lambda w: pairs(w, odd("aes", 1))),
    ("5", "cannot tell", "as sort", lambda w: pairs(w, odd("aes", 60), share=0.2)),
    ("5", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("5", "not measurable here", "no crc", lambda w: pairs(w, only="sort+deflate")),
    ("5", "not measurable here", "failed", FAILED_PAIRS),
    ("6", "holds", "", lambda w: interrupts(w, SMALL)),
    ("6", "holds", "nothing lost", interrupts),
    ("6", "differs", "one task", lambda w: interrupts(w, {**SMALL, "aes": 300})),
    ("6", "cannot tell", "equal", lambda w: interrupts(w, {**SMALL, "aes": 147})),
    ("6", "cannot tell", "too few", lambda w: interrupts(w, SMALL, count=4)),
    ("6", "not measurable here", "fewer", lambda w: interrupts(w, numbers=(9,))),
    ("6", "not measurable here", "failed", FAILED_INTERRUPTS),
    ("8", "holds", "", lambda w: both(w, SMALL)),
    ("8", "differs", "one task", lambda w: both(w, {**SMALL, "crc": 50})),
    ("8", "cannot tell", "alike", lambda w: both(w, {**SMALL, "crc": 20})),
    ("8", "cannot tell", "too few", lambda w: both(w, SMALL, count=4)),
    ("8", "not measurable here", "no switches", interrupts),
    ("8", "not measurable here", "no task in common", lambda w: interrupts(
        w, {"aes": 1.0}, scene=pairs(w, only="sort+deflate"))),
]  # fmt: skip

# Shares of seconds, for which instructions will not do.
SHARES: list[tuple[str, VerdictName, str, Make]] = [
    ("4", "holds", "", pairs),
    ("4", "differs", "much", lambda w: pairs(w, cold=300.0)),
    ("4", "differs", "one pair", lambda w: pairs(w, odd("crc", 30_000))),
    ("4", "differs", "faster than without", lambda w: pairs(w, really=0.1, cold=0.1,
        losses=dict.fromkeys(LOSSES, -100.0))),
    ("4", "cannot tell", "at the bound", lambda w: pairs(w, NO_LOSS, cold=6.6 * 2500 / 99,
        share=0.1)),
    ("4", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("4", "not measurable here", "fewer", lambda w: pairs(w, numbers=(9, 33))),
    ("4", "not measurable here", "failed", FAILED_PAIRS),
    ("7", "holds", "", lambda w: interrupts(w, SMALL)),
    ("7", "differs", "direct", lambda w: interrupts(w, SMALL, direct=400.0)),
    ("7", "differs", "indirect", lambda w: interrupts(w, {**SMALL, "aes": 6000})),
    ("7", "cannot tell", "at the bound", lambda w: interrupts(w, {**SMALL, "aes": 3276})),
    ("7", "cannot tell", "too few", lambda w: interrupts(w, SMALL, count=4)),
    ("7", "not measurable here", "fewer", lambda w: interrupts(w, numbers=(9,))),
    ("7", "not measurable here", "failed", FAILED_INTERRUPTS),
]  # fmt: skip


def name_of(row: tuple[str, VerdictName, str, Make]) -> str:
    return "-".join(part.replace(" ", "_") for part in row[:3] if part)


def check(row: tuple[str, VerdictName, str, Make], where: Where) -> None:
    number, expected, _, make = row
    verdict = make(where).verdict(f"002.{number}")
    assert verdict.verdict == expected, verdict.why
    assert (verdict.engine, verdict.guest) == (
        where.get("engine", "native"),
        where.get("guest", ""),
    )
    assert verdict.study == "002" and verdict.text and verdict.published
    assert verdict.why and "nan" not in verdict.why
    assert (verdict.here is None) == (expected == "not measurable here")


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("row", VERDICTS, ids=name_of)
def test_verdict(row: tuple[str, VerdictName, str, Make], where: Where) -> None:
    check(row, where)


@pytest.mark.parametrize("where", [PLACES["native"], PLACES["vm"]], ids=["native", "vm"])
@pytest.mark.parametrize("row", SHARES, ids=name_of)
def test_verdict_on_a_share(row: tuple[str, VerdictName, str, Make], where: Where) -> None:
    check(row, where)


@pytest.mark.parametrize(("number", "make"), [("4", pairs), ("7", interrupts)])
def test_instructions_are_no_share_of_seconds(number: str, make: Make) -> None:
    verdict = make(PLACES["exact"]).verdict(f"002.{number}")
    assert verdict.verdict == "not measurable here"
    assert "counts instructions" in verdict.why


def test_every_claim_has_its_verdicts_here() -> None:
    tested = {row[:2] for row in VERDICTS + SHARES}
    for claim in study_002.CLAIMS:
        number = claim.id.removeprefix("002.")
        for verdict in ("holds", "differs", "cannot tell", "not measurable here"):
            assert (number, verdict) in tested
    assert [claim.id for claim in study_002.CLAIMS] == [f"002.{i}" for i in range(1, 9)]


def test_an_exact_engine_tells_instructions() -> None:
    for number in "23568":
        verdict = both(PLACES["exact"], SMALL).verdict(f"002.{number}")
        assert verdict.here is not None
        assert verdict.here.unit.startswith("instructions"), number


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ([("process", "own")], "processes"),
        ([("kthread", "none"), ("pthread", "shared")], "kthreads"),
        ([("process", "own"), ("kthread", "none")], "processes"),
        ([("kthread", "own"), ("kthread", "none"), ("process", "own")], "kthreads in address"),
        ([("uthread", "shared"), ("coroutine", "shared")], "uthreads"),
    ],
)
def test_whose_figures_it_is_about(models: list[tuple[Model, str]], says: str) -> None:
    """The first, which is the nearest to the study's tasks; the others are not mixed in."""
    scene = Scene()
    for index, (model, space) in enumerate(reversed(models)):
        loss = 900.0 if index == len(models) - 1 else -900.0
        for n in NUMBERS:
            losses = loss * n / 99, loss * n / 99
            switched(scene, "aes+crc", n, losses, model=model, space=space)
    assert scene.verdict("002.3").verdict == "holds"
    assert says in scene.verdict("002.3").why


def test_signals_stand_for_interrupts_and_it_is_said() -> None:
    assert "signals to a process" in interrupts({}).verdict("002.6").why
    scene = interrupts({}, model="kthread", scene=interrupts({}))
    assert "interrupts of a kthread" in scene.verdict("002.6").why


def test_emulation_has_no_caches_and_it_is_said() -> None:
    where = {**PLACES["vm"], "accel": "tcg"}
    assert "without caches" in pairs(where).verdict("002.5").why
    assert "without caches" in pairs(PLACES["exact"]).verdict("002.5").why
    assert "without caches" not in pairs(PLACES["vm"]).verdict("002.5").why


def test_the_warm_figure_is_told_where_it_decides() -> None:
    """Switches that cost between tasks what they cost from warm caches."""
    verdict = pairs({}, really=4.5, cold=20.0, warm=4.0).verdict("002.2")
    assert verdict.verdict == "differs"
    assert "With C from warm caches it would be" in verdict.why
    assert "warm" not in pairs({}).verdict("002.2").why
