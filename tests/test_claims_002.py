# SPDX-License-Identifier: Apache-2.0
"""Study 002's claims: each verdict from samples made for it, at every place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from made_002 import interrupted, switched, trial
from synthetic import Scene, failed
from verdicts import Make, Row, Where, checked, name_of

from swtch.claims import study_002
from swtch.experiments.pair_overhead import PAIRS, case_of
from swtch.records import Model, VerdictName

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64", "accel": "kvm"},
}
EMULATED: Where = {"engine": "vm", "guest": "6.1-amd64", "accel": "tcg"}
EXACT: Where = {"engine": "exact", "guest": "6.1-amd64"}
# In the order in which the study found them, for 99 switches, in us.
LOSSES = {"crc": 2.0, "sort": 6.0, "aes": 90.0, "deflate": 100.0}
# Of a switch of 4 us more than a quarter each time: of each pair, and of sort over its signals.
GREAT = {"crc": 60.0, "sort": 66.0, "aes": 130.0, "deflate": 130.0}
# A quarter of a switch of 4 us, 49 times.
QUARTER_US = 49.0
NUMBERS = (9, 39, 69, 99)
NO_LOSS = dict.fromkeys(LOSSES, 0.0)


def pairs(
    where: Where,
    losses: Mapping[str, float] = LOSSES,
    *,
    numbers: tuple[int, ...] = NUMBERS,
    only: str = "",
    last: float = 1.0,
    **given: Any,
) -> Scene:
    """All six pairs, where each task loses in proportion to the switches."""
    scene = Scene()
    for a, b in PAIRS:
        if only and only != case_of((a, b)):
            continue
        for n in numbers:
            more = dict(given)
            if n == 99 and last != 1:
                more["really"] = given.get("cold", 4.0) * last
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
    return interrupts(where, of_interrupts, scene=pairs(where, GREAT, **given), **given)


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
# Of the study's cycles more than a quarter by each of 49: 3.3, 6.6, 29 and 16 us are a quarter.
GROWING = {"sort": 8.0, "deflate": 14.0, "aes": 60.0, "crc": 35.0}
AES_QUARTER_US = 0.25 * 0.09e-2 * 436.8e6 * 0.3e-3
# Of as many cycles as the study's work: 0.255 % of 792 million, 0.015 % of 437, in us.
BOUND_US = 0.255e-2 * 792e6 * 0.3e-3
SORT_BOUND_US = 0.015e-2 * 436.8e6 * 0.3e-3

# What each claim can become, and the samples of which it becomes that.
VERDICTS: list[Row] = [
    ("1", "holds", "", pairs),
    ("1", "differs", "dearer", lambda w: pairs(w, last=1.5)),
    ("1", "differs", "cheaper", lambda w: pairs(w, last=0.5)),
    ("1", "cannot tell", "at the bound", lambda w: pairs(w, last=1.1, share=0.1)),
    ("1", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("1", "not measurable here", "one number", lambda w: pairs(w, numbers=(99,))),
    ("1", "not measurable here", "failed", FAILED_PAIRS),
    ("2", "holds", "", lambda w: pairs(w, GREAT)),
    ("2", "holds", "whatever C is", lambda w: pairs(w, GREAT, really=2.0, cold=20.0)),
    ("2", "differs", "one pair loses little", pairs),
    ("2", "differs", "nothing lost", lambda w: pairs(w, NO_LOSS, wobble=9.0)),
    ("2", "differs", "little for such a switch", lambda w: pairs(w, GREAT, really=8.0)),
    ("2", "differs", "it falls", lambda w: pairs(w, dict.fromkeys(LOSSES, -30.0))),
    ("2", "differs", "one pair gains", lambda w: pairs(w, {**NO_LOSS, "crc": -90, "sort": 90})),
    ("2", "cannot tell", "a quarter", lambda w: pairs(
        w, dict.fromkeys(LOSSES, QUARTER_US), wobble=9.0)),
    ("2", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("2", "not measurable here", "one number", lambda w: pairs(w, numbers=(99,))),
    ("2", "not measurable here", "failed", FAILED_PAIRS),
    ("3", "holds", "", lambda w: pairs(w, dict.fromkeys(LOSSES, 900.0))),
    ("3", "holds", "whatever C is", lambda w: pairs(w, cold=20.0, really=0.05)),
    ("3", "differs", "one pair", lambda w: pairs(w, {**LOSSES, "aes": 900, "deflate": 900})),
    ("3", "differs", "all", pairs),
    ("3", "cannot tell", "equal", lambda w: pairs(w, dict.fromkeys(LOSSES, 198.0))),
    ("3", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("3", "not measurable here", "fewer", lambda w: pairs(w, numbers=(9, 39))),
    ("3", "not measurable here", "failed", FAILED_PAIRS),
    ("4", "holds", "", pairs),
    ("4", "differs", "much", lambda w: pairs(w, cold=9.0)),
    ("4", "differs", "one pair", lambda w: pairs(w, odd("crc", 900))),
    ("4", "differs", "indirectly", lambda w: pairs(w, odd("crc", 450), cold=0.1)),
    ("4", "differs", "faster than without", lambda w: pairs(w, really=0.1, cold=0.1,
        losses=dict.fromkeys(LOSSES, -100.0))),
    ("4", "cannot tell", "at the bound", lambda w: pairs(w, NO_LOSS, cold=BOUND_US / 99)),
    ("4", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("4", "not measurable here", "fewer", lambda w: pairs(w, numbers=(9, 39))),
    ("4", "not measurable here", "failed", FAILED_PAIRS),
    ("5", "holds", "", pairs),
    ("5", "differs", "crc most", lambda w: pairs(w, odd("crc", 200))),
    ("5", "differs", "sort most", lambda w: pairs(w, odd("sort", 200))),
    ("5", "differs", "aes least", lambda w: pairs(w, odd("aes", 1))),
    ("5", "differs", "as sort", lambda w: pairs(w, odd("aes", 6), share=0.2)),
    ("5", "differs", "more by little", lambda w: pairs(w, odd("aes", 30))),
    ("5", "holds", "sort by little", lambda w: pairs(w, odd("sort", 3))),
    ("5", "cannot tell", "a quarter", lambda w: pairs(
        w, odd("aes", 6 + QUARTER_US), share=0.2)),
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
    ("7", "holds", "", lambda w: interrupts(w, SMALL)),
    ("7", "differs", "direct", lambda w: interrupts(w, SMALL, direct=15.0)),
    ("7", "differs", "indirect", lambda w: interrupts(w, {**SMALL, "aes": 200})),
    # What is little for one task may be much for another.
    ("7", "holds", "aes may", lambda w: interrupts(w, {**SMALL, "aes": 60})),
    ("7", "differs", "sort may not", lambda w: interrupts(w, {**SMALL, "sort": 60})),
    ("7", "cannot tell", "bound", lambda w: interrupts(w, {**SMALL, "sort": SORT_BOUND_US})),
    ("7", "cannot tell", "too few", lambda w: interrupts(w, SMALL, count=4)),
    ("7", "not measurable here", "fewer", lambda w: interrupts(w, numbers=(9,))),
    ("7", "not measurable here", "failed", FAILED_INTERRUPTS),
    ("8", "holds", "", lambda w: both(w, SMALL)),
    ("8", "differs", "one task", lambda w: both(w, {**SMALL, "crc": 90})),
    ("8", "differs", "by little", lambda w: both(w, {**SMALL, "sort": 50})),
    ("8", "holds", "crc by little", lambda w: both(w, {**SMALL, "crc": 50})),
    ("8", "cannot tell", "alike", lambda w: both(w, {**SMALL, "crc": 60})),
    ("8", "cannot tell", "a quarter", lambda w: both(
        w, {**SMALL, "sort": 66 - QUARTER_US}, wobble=3.0)),
    ("8", "cannot tell", "too few", lambda w: both(w, SMALL, count=4)),
    ("8", "not measurable here", "no switches", interrupts),
    ("8", "not measurable here", "no task in common", lambda w: interrupts(
        w, {"aes": 1.0}, scene=pairs(w, only="sort+deflate"))),
    ("9", "holds", "", lambda w: interrupts(w, GROWING)),
    ("9", "holds", "sort by little", lambda w: interrupts(w, {**GROWING, "sort": 4})),
    ("9", "differs", "nothing lost", lambda w: interrupts(w, wobble=5.0)),
    ("9", "differs", "one by little", lambda w: interrupts(w, {**GROWING, "aes": 20})),
    ("9", "differs", "one falls", lambda w: interrupts(w, {**GROWING, "sort": -20})),
    ("9", "cannot tell", "a quarter", lambda w: interrupts(
        w, {**GROWING, "aes": AES_QUARTER_US}, wobble=5.0)),
    ("9", "cannot tell", "too few", lambda w: interrupts(w, GROWING, count=4)),
    ("9", "not measurable here", "one number", lambda w: interrupts(w, GROWING, numbers=(49,))),
    ("9", "not measurable here", "failed", FAILED_INTERRUPTS),
    ("10", "holds", "", lambda w: pairs(w, really=6.0)),
    ("10", "differs", "", lambda w: pairs(w, really=2.0)),
    ("10", "cannot tell", "as long", pairs),
    ("10", "cannot tell", "too few", lambda w: pairs(w, really=6.0, count=4)),
    ("10", "not measurable here", "fewer", lambda w: pairs(w, numbers=(9, 39))),
    ("10", "not measurable here", "failed", FAILED_PAIRS),
    ("11", "holds", "", pairs),
    ("11", "differs", "crc and deflate", lambda w: pairs(w, odd("crc", 500))),
    ("11", "cannot tell", "another as much", lambda w: pairs(w, odd("sort", 90))),
    ("11", "cannot tell", "too few", lambda w: pairs(w, count=4)),
    ("11", "not measurable here", "one pair", lambda w: pairs(w, only="aes+deflate")),
    ("11", "not measurable here", "failed", FAILED_PAIRS),
]  # fmt: skip


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("row", VERDICTS, ids=name_of)
def test_verdict(row: Row, where: Where) -> None:
    number, expected, _, make = row
    verdict = checked(make, where, f"002.{number}", expected)
    assert (verdict.here is None) == (expected == "not measurable here")


def test_every_claim_has_its_verdicts_here() -> None:
    tested = {row[:2] for row in VERDICTS}
    for claim in study_002.CLAIMS:
        number = claim.id.removeprefix("002.")
        for verdict in ("holds", "differs", "cannot tell", "not measurable here"):
            assert (number, verdict) in tested
    assert [claim.id for claim in study_002.CLAIMS] == [f"002.{i}" for i in range(1, 12)]


@pytest.mark.parametrize("number", range(1, 12))
def test_an_emulated_processors_time_decides_nothing(number: int) -> None:
    verdict = both(EMULATED, SMALL).verdict(f"002.{number}")
    assert verdict.verdict == "not measurable here"
    assert "emulated" in verdict.why


@pytest.mark.parametrize("number", range(2, 12))
def test_instructions_say_nothing_of_caches(number: int) -> None:
    verdict = both(EXACT, SMALL).verdict(f"002.{number}")
    assert verdict.verdict == "not measurable here"
    assert "know no caches" in verdict.why


@pytest.mark.parametrize(("last", "expected"), [(1.0, "holds"), (1.5, "differs")])
def test_instructions_say_whether_each_switch_is_alike(last: float, expected: str) -> None:
    verdict = pairs(EXACT, last=last).verdict("002.1")
    assert verdict.verdict == expected, verdict.why
    assert "in instructions, which are not time" in verdict.why


def test_the_first_switch_is_not_one_among_few() -> None:
    """It finds no trace of another; the study's n = 1 is R itself."""
    scene = pairs({})
    for a, b in PAIRS:
        switched(scene, case_of((a, b)), 1, (0.0, 0.0), cold=50.0, where={"faithful": True})
    assert scene.verdict("002.1").verdict == "holds"
    assert "over one of 9" in scene.verdict("002.1").why


@pytest.mark.parametrize(("blocks", "excess"), [(6, "cannot tell"), (7, "differs")])
def test_as_few_blocks_as_the_rule_needs_decide(blocks: int, excess: VerdictName) -> None:
    """A quick run: two pairs and tasks, two numbers. Six blocks are enough for what holds; one
    of two cases that differs has to do so at a level for two, which takes seven."""
    scene = Scene()
    for pair, losses in (("sort+deflate", (66.0, 130.0)), ("aes+crc", (130.0, 60.0))):
        for n in (9, 99):
            switched(scene, pair, n, (losses[0] * n / 99, losses[1] * n / 99), count=blocks)
    for task in ("sort", "aes"):
        for n in (9, 49):
            interrupted(scene, task, n, GROWING[task] * n / 49, count=blocks)
    expected = {1: "holds", 2: "holds", 3: excess, 4: "holds", 5: "holds", 6: "holds"}
    expected |= {7: "holds", 8: "holds", 9: "holds", 11: "not measurable here"}
    for number, verdict in expected.items():
        assert scene.verdict(f"002.{number}").verdict == verdict, number


def test_samples_without_a_cycles_length_have_no_share() -> None:
    """Those of versions before this one."""
    scene = both({}, SMALL)
    for kept in scene.samples:
        kept.values.pop("cycle_ps")
    for number in (4, 7, 9):
        verdict = scene.verdict(f"002.{number}")
        assert verdict.verdict == "not measurable here"
        assert "how long a cycle took" in verdict.why


def test_growth_is_a_line_through_none_where_there_is_none() -> None:
    """Both numbers count, the larger one more; without such a number it is any line."""
    scene = Scene()
    for n, lost in ((9, 20.0), (99, 40.0)):
        switched(scene, "aes+crc", n, (lost, 0.0), share=0.0)
    by_n = {int(str(group.trial.factors["n"])): group for group in scene.groups()}
    through = (8 * 20 + 98 * 40) / (8 * 8 + 98 * 98)
    assert study_002.slopes(by_n, "lost_us", 1) == pytest.approx([through] * 10)
    assert study_002.slopes(by_n, "lost_us") == pytest.approx([20 / 90] * 10)


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


def test_where_all_of_the_nearest_failed_the_next_are_what_it_is_about() -> None:
    scene = pairs({}, dict.fromkeys(LOSSES, 900.0))
    assert scene.verdict("002.3").verdict == "holds"
    for a, b in PAIRS:
        one = trial("pair-overhead", "kthread", pair=case_of((a, b)), n=99, space="own")
        scene.add(one, [failed(one)] * 10)
    verdict = scene.verdict("002.3")
    assert verdict.verdict == "holds" and "processes" in verdict.why
    assert "Every invocation failed of pair-overhead" in verdict.why
    # Of one kind all pairs count.
    assert without(scene, "sort+crc", range(10), 99).verdict("002.3").verdict == "cannot tell"


@pytest.mark.parametrize("number", ["5", "8"])
def test_means_over_pairs_that_lack_one_decide_nothing(number: str) -> None:
    """Neither way: of a task that lacks a pair the mean is another one's."""
    scene = both({}, {**SMALL, "sort": 50, "crc": 200})
    scene = pairs({}, odd("aes", 1)) if number == "5" else scene
    assert scene.verdict(f"002.{number}").verdict == "differs"
    without(scene, "sort+crc", range(10), 99)
    verdict = scene.verdict(f"002.{number}")
    assert verdict.verdict == "cannot tell" and "Nothing was measured of" in verdict.why


def test_signals_stand_for_interrupts_and_it_is_said() -> None:
    assert "signals to a process" in interrupts({}).verdict("002.6").why
    scene = interrupts({}, model="kthread", scene=interrupts({}))
    assert "interrupts of a kthread" in scene.verdict("002.6").why


def without(scene: Scene, pair: str, blocks: range, n: int | None = None) -> Scene:
    """The scene in which these invocations of a pair gave nothing."""
    scene.samples = [
        made
        for made in scene.samples
        if made.factors.get("pair") != pair
        or made.block not in blocks
        or n not in (None, made.factors["n"])
    ]
    return scene


def test_a_block_that_lacks_a_pair_has_no_mean_of_them() -> None:
    """Sort loses with deflate alone, and is no task that suffers by where that is missing."""
    scene = Scene()
    for a, b in PAIRS:
        lost = LOSSES[a], LOSSES[b]
        if (a, b) == ("sort", "deflate"):
            lost = (600.0, LOSSES[b])
        switched(scene, case_of((a, b)), 99, lost)
    whole = study_002.losses_of(scene.groups())
    assert min(whole["sort"].values()) > 150
    cut = study_002.losses_of(without(scene, "sort+deflate", range(3)).groups())
    assert sorted(cut["sort"]) == sorted(cut["deflate"]) == list(range(3, 10))
    assert cut["sort"] == {block: whole["sort"][block] for block in range(3, 10)}
    assert sorted(cut["crc"]) == list(range(10))


def test_one_is_about_the_same_pairs_at_each_number() -> None:
    """A pair whose switches are dear, and whose trial of 99 failed, is in neither median."""
    scene = Scene()
    for a, b in PAIRS:
        dear = 40.0 if "sort" in (a, b) else 4.0
        for n in NUMBERS:
            switched(scene, case_of((a, b)), n, (0.0, 0.0), cold=dear)
    assert scene.verdict("002.1").verdict == "holds"
    for a, b in PAIRS[:2]:
        without(scene, case_of((a, b)), range(10), 99)
    verdict = scene.verdict("002.1")
    assert verdict.here is not None and verdict.here.estimate == pytest.approx(1.0, rel=0.05)
    # Of the others it holds; of these nobody knows.
    assert verdict.verdict == "cannot tell" and "Nothing was measured of" in verdict.why
