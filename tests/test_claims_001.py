# SPDX-License-Identifier: Apache-2.0
"""Study 001's claims: each verdict from samples made for it, at every place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from made_001 import Where, measured, speed, trial
from synthetic import Scene, failed, spread
from verdicts import ALL_FOUR, Make, Row, by_claim, checked, name_of

from swtch.claims import contradictions, judge, study_001
from swtch.experiments import binding, thread_count, work_scaling, yield_sweep
from swtch.experiments._study_001 import (
    COROUTINE,
    COROUTINE_OWN,
    KTHREAD,
    KTHREAD_BARE,
    KTHREAD_MATCHED,
    PTHREAD,
    PTHREAD_OWN,
    UCONTEXT_OWN,
    UTHREAD,
    Arm,
)
from swtch.records import VerdictName

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}
# The published ones, in Mops/s.
SWEEP = {100: 0.049, 1000: 0.49, 10_000: 3.66, 0: 5.11}
BOUND = {KTHREAD: (30.2, 10.8, 4.9), PTHREAD: (45.3, 40.7, 46.8)}
YIELDS = {KTHREAD: (0.4917, 0.4870, 0.4883), PTHREAD: (3.77, 3.74, 3.95)}


# ---- scenes ----


def modes(where: Where, kthread: float = 0.13, yields: float | None = None, **more: Any) -> Scene:
    """Kernel threads that reach this share of the pthreads' throughput."""
    scene = Scene()
    for mode, share in (("normal", kthread), ("yield", kthread if yields is None else yields)):
        measured(scene, "yield-modes", mode, PTHREAD, 40.0, where, n=more.get("n", 10))
        turned = {**more, "share": -more.get("share", 0.01)}
        measured(scene, "yield-modes", mode, KTHREAD, 40.0 * share, where, **turned)
        measured(scene, "yield-modes", mode, KTHREAD_BARE, 38.0, where)
    return measured(scene, "yield-modes", "yield", KTHREAD_MATCHED, 30.0, where)


def pthreads_only(where: Where) -> Scene:
    return measured(Scene(), "yield-modes", "normal", PTHREAD, 40.0, where)


def only_failed(where: Where) -> Scene:
    scene = Scene()
    for arm in (PTHREAD, KTHREAD):
        for mode in ("normal", "yield"):
            one = trial("yield-modes", mode, arm, where)
            scene.add(one, [failed(one)] * 10)
    return scene


def switching(where: Where, odd: int = 0, n: int = 10, **counts: int) -> Scene:
    """Sleepers of which `odd` invocations have these counts, and the rest what they should."""
    one = trial("yield-modes", "yield", KTHREAD, where)
    return Scene().add(one, [speed(one, 0.5, **(counts if i < odd else {})) for i in range(n)])


def in_user(where: Where, odd: int, n: int = 10, others: int = 0) -> Scene:
    """Kernel threads with user time in `odd` invocations, and `others` kinds without."""
    scene = Scene()
    kinds = (KTHREAD, KTHREAD_BARE, KTHREAD_MATCHED)[: 1 + others]
    for arm in kinds:
        one = trial("yield-modes", "yield", arm, where)
        used = [4_000_000 if i < odd and arm is KTHREAD else 0 for i in range(n)]
        scene.add(one, [speed(one, 5.0, utime_ns=time) for time in used])
    return scene


def sweeping(
    where: Where,
    speeds: Mapping[int, float] = SWEEP,
    efficiencies: tuple[float, ...] = (0.5, 4.97, 41.2, 99.7),
    **more: Any,
) -> Scene:
    scene = Scene()
    for (interval, mops), efficiency in zip(speeds.items(), efficiencies, strict=False):
        case = yield_sweep.case_of(interval)
        own = {"efficiency": efficiency, **more}
        measured(scene, "yield-sweep", case, KTHREAD, mops, where, **own)
        more = {**more, "share": -more.get("share", 0.01)}
    return scene


def bound(
    where: Where,
    kthread: tuple[float, ...] = BOUND[KTHREAD],
    pthread: tuple[float, ...] = BOUND[PTHREAD],
    *,
    mode: str = "normal",
    **more: Any,
) -> Scene:
    scene = Scene()
    for arm, speeds in ((KTHREAD, kthread), (PTHREAD, pthread)):
        for cpus, mops in zip(binding.CPUS, speeds, strict=False):
            case = binding.case_of(mode, cpus)
            measured(scene, "binding", case, arm, mops, where, **more)
            more = {**more, "share": -more.get("share", 0.01)}
    return scene


def opposed(
    scene: Scene,
    experiment: str,
    case: str,
    arm: Arm,
    mops: float,
    odd: bool,
    where: Where,
    more: Mapping[str, Any],
) -> None:
    """The odd one is spread the other way, so that it does not move with its base."""
    share = more.get("share", 0.01) * (-1 if odd else 1)
    measured(scene, experiment, case, arm, mops, where, **{**more, "share": share})


def worked(
    where: Where, last: float = 30.0, arms: tuple[Arm, ...] = (PTHREAD, KTHREAD), **more: Any
) -> Scene:
    """Thirty Mops/s for every amount of work, but for the last arm's last."""
    scene = Scene()
    for arm in arms:
        for mode in ("normal", "yield"):
            for millions in (1, 5, 10):
                odd = (arm, mode, millions) == (arms[-1], "normal", 10)
                case = work_scaling.case_of(mode, millions)
                opposed(scene, "work-scaling", case, arm, last if odd else 30.0, odd, where, more)
    return scene


def crowded(
    where: Where, last: float = 30.0, arms: tuple[Arm, ...] = (PTHREAD, KTHREAD), **more: Any
) -> Scene:
    scene = Scene()
    for arm in arms:
        for threads in thread_count.THREADS:
            odd = (arm, threads) == (arms[-1], 32)
            case = thread_count.case_of(threads)
            opposed(scene, "thread-count", case, arm, last if odd else 30.0, odd, where, more)
    return scene


def side_by_side(
    where: Where, coroutine: float = 2000.0, *, kthread: bool = True, **more: Any
) -> Scene:
    """The study's figures, with coroutines about so fast in both modes."""
    scene = Scene()
    for mode, pthread, slow in (("normal", 45.0, 29.0), ("yield", 2.6, 0.5)):
        speeds = {COROUTINE_OWN: coroutine, PTHREAD: pthread, COROUTINE: 46.0, PTHREAD_OWN: 1500.0}
        if kthread:
            speeds[KTHREAD] = slow
        for arm, mops in speeds.items():
            measured(scene, "aligned", mode, arm, mops, where, **more)
            more = {**more, "share": -more.get("share", 0.01)}
    return scene


def unseen(where: Where, *switches: int, n: int = 10) -> Scene:
    """Coroutines that yield, and so many switches by the kernel: 2, or these in turn."""
    scene = Scene()
    for arm in (COROUTINE_OWN, UCONTEXT_OWN):
        one = trial("coroutine", "yield", arm, where)
        counts = switches or (2,)
        scene.add(one, [speed(one, 200.0, os=counts[i % len(counts)]) for i in range(n)])
    return scene


def slowed(
    where: Where, left: float = 0.1, arms: tuple[Arm, ...] = (PTHREAD, KTHREAD), **more: Any
) -> Scene:
    """Threads of which a yield leaves this share of their throughput."""
    scene = Scene()
    for arm in arms:
        for mode, mops, sign in (("normal", 40.0, 1), ("yield", 40.0 * left, -1)):
            own = {**more, "share": more.get("share", 0.01) * sign}
            measured(scene, "yield-modes", mode, arm, mops, where, **own)
    return scene


def computing(where: Where, odd: int = 0, n: int = 10, **counts: int) -> Scene:
    """Kernel threads that do not yield, of which `odd` invocations have these counts."""
    one = trial("yield-modes", "normal", KTHREAD, where)
    usual = {"nvcsw": 0, "nivcsw": 0}
    made = [speed(one, 5.0, **{**usual, **(counts if i < odd else {})}) for i in range(n)]
    return Scene().add(one, made)


def other(experiment: str, case: str, arm: Arm) -> Make:
    """Samples that say nothing about the claim."""
    return lambda where: measured(Scene(), experiment, case, arm, 40.0, where)


# What each claim can become, and the samples of which it becomes that.
VERDICTS: list[Row] = [
    ("1", "holds", "", modes),
    ("1", "differs", "faster", lambda w: modes(w, 1.3)),
    ("1", "differs", "not far less", lambda w: modes(w, 0.5)),
    ("1", "differs", "one mode", lambda w: modes(w, 0.13, 1.3)),
    ("1", "cannot tell", "at the bound", lambda w: modes(w, 1 / 3, share=0.1)),
    ("1", "cannot tell", "too few", lambda w: modes(w, n=4)),
    ("1", "not measurable here", "pthreads only", pthreads_only),
    ("1", "not measurable here", "failed", only_failed),
    ("2", "holds", "", switching),
    ("2", "differs", "involuntary", lambda w: switching(w, 10, nivcsw=1)),
    ("2", "differs", "some slept less", lambda w: switching(w, 6, nvcsw=3)),
    ("2", "cannot tell", "one of ten", lambda w: switching(w, 1, nivcsw=1)),
    ("2", "cannot tell", "too few", lambda w: switching(w, n=4)),
    ("2", "not measurable here", "pthreads only", pthreads_only),
    ("3", "holds", "", sweeping),
    ("3", "differs", "throughput", lambda w: sweeping(w, {100: 5, 1000: 4, 10_000: 3, 0: 2})),
    ("3", "differs", "the last", lambda w: sweeping(w, {**SWEEP, 0: 2.0})),
    ("3", "cannot tell", "noise", lambda w: sweeping(w, {**SWEEP, 0: 3.66}, share=0.1)),
    ("3", "cannot tell", "too few", lambda w: sweeping(w, n=4)),
    ("3", "not measurable here", "one", lambda w: sweeping(w, {100: 0.05})),
    ("3", "not measurable here", "no kthread", other("yield-sweep", "never", PTHREAD)),
    ("4", "holds", "", bound),
    ("4", "differs", "kthreads do not", lambda w: bound(w, (5.0, 10.0, 20.0))),
    ("4", "differs", "pthreads do too", lambda w: bound(w, pthread=(250.0, 94.0, 87.0))),
    ("4", "cannot tell", "noise", lambda w: bound(w, (10.0, 10.0, 10.0), share=0.1)),
    ("4", "cannot tell", "too few", lambda w: bound(w, n=4)),
    ("4", "not measurable here", "one CPU", lambda w: bound(w, (30.0,), (45.0,))),
    ("5", "holds", "", worked),
    ("5", "holds", "nearly", lambda w: worked(w, 28.5)),
    ("5", "differs", "slower", lambda w: worked(w, 20.0)),
    ("5", "differs", "faster", lambda w: worked(w, 45.0)),
    ("5", "cannot tell", "at the bound", lambda w: worked(w, 27.0, share=0.05)),
    ("5", "cannot tell", "too few", lambda w: worked(w, n=4)),
    ("5", "not measurable here", "uthreads only", lambda w: worked(w, arms=(UTHREAD,))),
    ("6", "holds", "", crowded),
    ("6", "differs", "slower", lambda w: crowded(w, 20.0)),
    ("6", "cannot tell", "at the bound", lambda w: crowded(w, 27.0, share=0.05)),
    ("6", "cannot tell", "too few", lambda w: crowded(w, n=4)),
    ("6", "not measurable here", "uthreads only", lambda w: crowded(w, arms=(UTHREAD,))),
    ("7", "holds", "", side_by_side),
    ("7", "differs", "slower", lambda w: side_by_side(w, 20.0)),
    ("7", "cannot tell", "as fast", lambda w: side_by_side(w, 45.0, share=0.1)),
    ("7", "cannot tell", "too few", lambda w: side_by_side(w, n=4)),
    ("7", "not measurable here", "no coroutine", other("aligned", "normal", PTHREAD)),
    ("8", "holds", "", lambda w: in_user(w, 0)),
    ("8", "differs", "some", lambda w: in_user(w, 10)),
    ("8", "cannot tell", "one of ten", lambda w: in_user(w, 1)),
    ("8", "cannot tell", "too few", lambda w: in_user(w, 0, n=4)),
    ("8", "holds", "three kinds", lambda w: in_user(w, 0, others=2)),
    ("8", "differs", "one of three kinds", lambda w: in_user(w, 10, others=2)),
    ("8", "cannot tell", "too few of three kinds", lambda w: in_user(w, 0, n=4, others=2)),
    ("8", "not measurable here", "pthreads only", pthreads_only),
    ("9", "holds", "", lambda w: bound(w, YIELDS[KTHREAD], YIELDS[PTHREAD], mode="yield")),
    ("9", "holds", "pthreads", lambda w: bound(w, (), YIELDS[PTHREAD], mode="yield")),
    ("9", "differs", "pthreads", lambda w: bound(w, (), (3.8, 2.5, 1.6), mode="yield")),
    (
        "9",
        "differs",
        "kernel threads",
        lambda w: bound(w, (0.5, 1.0, 2.0), YIELDS[PTHREAD], mode="yield"),
    ),
    ("9", "cannot tell", "", lambda w: bound(w, (), (4.0, 5.0), mode="yield", share=0.1)),
    ("9", "cannot tell", "too few", lambda w: bound(w, (), YIELDS[PTHREAD], mode="yield", n=5)),
    ("9", "not measurable here", "one CPU", lambda w: bound(w, (), (4.0,), mode="yield")),
    ("10", "holds", "", unseen),
    ("10", "differs", "", lambda w: unseen(w, 2000)),
    ("10", "cannot tell", "", lambda w: unseen(w, 2, 1000)),
    ("10", "cannot tell", "too few", lambda w: unseen(w, n=5)),
    ("10", "not measurable here", "no yields", other("coroutine", "normal", COROUTINE_OWN)),
    ("11", "holds", "", slowed),
    ("11", "holds", "pthreads", lambda w: slowed(w, arms=(PTHREAD,))),
    ("11", "differs", "", lambda w: slowed(w, 0.8)),
    ("11", "cannot tell", "", lambda w: slowed(w, 0.5, share=0.1)),
    ("11", "cannot tell", "too few", lambda w: slowed(w, n=5)),
    ("11", "not measurable here", "one mode", pthreads_only),
    ("12", "holds", "", computing),
    ("12", "differs", "preempted", lambda w: computing(w, 10, nivcsw=1)),
    ("12", "differs", "slept", lambda w: computing(w, 6, nvcsw=1)),
    ("12", "cannot tell", "one of ten", lambda w: computing(w, 1, nivcsw=1)),
    ("12", "cannot tell", "too few", lambda w: computing(w, n=5)),
    ("12", "not measurable here", "pthreads only", pthreads_only),
]

# Where only instructions are counted: a sleep has none, and an atomic addition is one as any.
AT_EXACT: Mapping[tuple[str, str, str], VerdictName] = {
    ("1", "differs", "one mode"): "holds",
    ("7", "differs", "slower"): "holds",
    ("7", "cannot tell", "as fast"): "holds",
    ("9", "differs", "kernel threads"): "holds",
}
NEVER_AT_EXACT = ("3",)


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("row", VERDICTS, ids=name_of)
def test_verdict(row: Row, where: Where) -> None:
    number, expected, name, make = row
    if where.get("engine") == "exact":
        expected = AT_EXACT.get((number, expected, name), expected)
        expected = "not measurable here" if number in NEVER_AT_EXACT else expected
    verdict = checked(make, where, f"001.{number}", expected)
    assert (verdict.here is None) == (expected == "not measurable here")


def test_every_claim_has_its_verdicts_here() -> None:
    given = by_claim("001", VERDICTS)
    assert list(given) == [claim.id for claim in study_001.CLAIMS]
    for claim, verdicts in given.items():
        assert verdicts == ALL_FOUR, claim


# ---- what a verdict says ----


def test_one_says_how_much_is_accounting() -> None:
    verdict = modes({}).verdict("001.1")
    assert "normal, without accounts 0.95 x" in verdict.why
    assert "and with the pthreads' own yield 0.75 x" in verdict.why
    assert verdict.here is not None and verdict.here.estimate == pytest.approx(0.13, rel=0.05)


def test_two_scales_with_the_work() -> None:
    """26 000 additions, so 25 sleeps of each of four threads."""
    verdict = switching({}).verdict("001.2")
    assert verdict.threshold == 100 and "100 sleeps asked for" in verdict.why
    one = trial("yield-modes", "yield", KTHREAD, depth="paper")
    paper = Scene().add(one, [speed(one, 0.5)] * 6).verdict("001.2")
    assert paper.verdict == "holds" and paper.threshold == 3996
    assert paper.here is not None and paper.here.estimate == 3996


def test_two_says_what_a_matched_yield_is_counted_as() -> None:
    assert "sched_yield make 0 voluntary ones" in modes({}).verdict("001.2").why


def test_three_takes_efficiency_for_itself() -> None:
    """More throughput is not enough: the CPUs must be used more, too."""
    scene = sweeping({}, efficiencies=(99.0, 41.0, 5.0, 0.5))
    assert scene.verdict("001.3").verdict == "differs"


def test_four_of_pthreads_alone_is_half_a_verdict() -> None:
    verdict = bound({}, kthread=()).verdict("001.4")
    assert verdict.verdict == "holds" and "half needs the module" in verdict.why
    assert "half needs" not in bound({}).verdict("001.4").why


def test_four_stands_beside_what_it_contradicts() -> None:
    scene = bound({}, pthread=(250.0, 94.0, 87.0))
    scene.scenario("A", "pthread", 87.0).scenario("B2", "pthread", 250.0)
    (pair,) = (
        one
        for one in contradictions.judged(judge(scene.groups(), scene.experiments()))
        if any(verdict.claim == "001.4" for verdict in one.right)
    )
    assert [v.verdict for v in pair.left] == ["holds"]
    assert [v.verdict for v in pair.right] == ["differs"]


def test_seven_says_what_the_counter_does() -> None:
    why = side_by_side({}, efficiency=100.0).verdict("001.7").why
    assert "normal, with the pthreads' shared atomic counter: 1.02 x pthread" in why
    assert "normal, pthreads with an own counter too: 1.33 x pthread" in why
    assert "half needs the module" in side_by_side({}, kthread=False).verdict("001.7").why
    assert "half needs" not in why


def test_eight_shows_the_pthreads_beside() -> None:
    assert "Pthreads at the same work: " in modes({}).verdict("001.8").why


# ---- on one CPU its time decides ----


def robbed(where: Where, arm: Arm, case: str, mops: float) -> Scene:
    """Threads of 32 of which another program took a third of the CPU, now and then: by wall
    time nothing can be told, by CPU time they are as fast as four."""
    scene = measured(Scene(), "thread-count", thread_count.case_of(4), arm, 30.0, where)
    one = trial("thread-count", case, arm, where)
    shares = [100.0, 60.0, 100.0, 150.0, 55.0, 100.0, 60.0, 160.0, 100.0, 65.0]
    samples = [speed(one, mops * share / 100, efficiency=share * 0.9) for share in shares]
    return scene.add(one, samples)


def test_six_goes_by_cpu_time() -> None:
    case = thread_count.case_of(32)
    verdict = robbed({}, PTHREAD, case, 30.0).verdict("001.6")
    assert verdict.verdict == "holds" and "By CPU time" in verdict.why
    slower = robbed({}, PTHREAD, case, 20.0).verdict("001.6")
    assert slower.verdict == "differs"


@pytest.mark.parametrize(
    ("verdict", "ratio", "share", "n"),
    [
        ("holds", 1.0, 0.01, 10),
        ("holds", 0.95, 0.02, 10),
        ("differs", 0.8, 0.02, 10),
        ("differs", 1.25, 0.02, 10),
        ("cannot tell", 0.9, 0.03, 10),
        ("cannot tell", 1.0, 0.01, 5),
    ],
)
@pytest.mark.parametrize("number", ["5", "6"])
def test_what_is_measured_in_turn_decides(
    number: str, verdict: str, ratio: float, share: float, n: int
) -> None:
    """The last case beside the first; its own throughput, twice the first's, decides nothing."""
    scene = Scene()
    name = "work-scaling" if number == "5" else "thread-count"
    first, last = {
        "5": (work_scaling.case_of("normal", 1), work_scaling.case_of("normal", 10)),
        "6": (thread_count.case_of(4), thread_count.case_of(32)),
    }[number]
    measured(scene, name, first, PTHREAD, 30.0, n=n)
    one = trial(name, last, PTHREAD)
    samples = []
    for each in spread(ratio, n, share):
        of_one = speed(one, 60.0)
        ns = 1_000_000 * of_one.values["counter"]
        values = {**of_one.values, "reference_counter": 1000}
        detail = {"round_cpu_ns": [ns / each] * 3, "reference_cpu_ns": [1_000_000_000] * 4}
        samples.append(msgspec.structs.replace(of_one, values=values, detail=detail))
    scene.add(one, samples)
    judged = scene.verdict(f"001.{number}")
    assert judged.verdict == verdict
    assert "By CPU time" in judged.why and "in turn" in judged.why


@pytest.mark.parametrize(("gate", "turns"), [("steal", False), ("faults", True)])
@pytest.mark.parametrize("engine", ["native", "vm"])
def test_steal_marks_nothing_of_what_is_measured_in_turn(
    gate: str, turns: bool, engine: str
) -> None:
    """Six of ten blocks are marked: four are too few to decide. A guest does nothing in turn."""
    where = {} if engine == "native" else {"engine": "vm", "guest": "6.1-amd64"}
    scene = Scene()
    for millions in (1, 5, 10):
        case = work_scaling.case_of("normal", millions)
        measured(scene, "work-scaling", case, PTHREAD, 30.0, where=where)
    for index, one in enumerate(scene.samples):
        if one.block < 6 and gate == "steal":
            one = msgspec.structs.replace(one, steal_ns=one.elapsed_ns // 10)
        elif one.block < 6:
            one = msgspec.structs.replace(one, values={**one.values, "majflt": 3})
        scene.samples[index] = one
    why = scene.verdict("001.5").why
    assert ("that a gate marked: cannot tell" in why) == (turns or engine == "vm"), why


def test_what_sleeps_goes_by_the_clock() -> None:
    """CPU time says nothing of how long a sleeper takes."""
    scene = Scene()
    for millions, mops, efficiency in ((1, 0.5, 5.0), (10, 0.5, 1.0)):
        case = work_scaling.case_of("yield", millions)
        share = 0.01 if millions == 1 else -0.01
        given = {"efficiency": efficiency, "share": share}
        measured(scene, "work-scaling", case, KTHREAD, mops, **given)
    verdict = scene.verdict("001.5")
    assert verdict.verdict == "holds" and "CPU time" not in verdict.why


def test_seven_at_the_exact_place_is_about_yields() -> None:
    why = side_by_side({"engine": "exact", "guest": "6.1-amd64"}).verdict("001.7").why
    assert "yield, over pthread" in why and "normal, over" not in why and "kthread:" not in why
    assert "instructions, which are not time" in why


def test_twelve_needs_a_cpu_for_each() -> None:
    one = trial("yield-modes", "normal", KTHREAD)
    few = msgspec.structs.replace(one, factors={**one.factors, "cpus_used": 2})
    verdict = Scene().add(few, [speed(few, 5.0)] * 10).verdict("001.12")
    assert verdict.verdict == "not measurable here" and "a CPU of its own" in verdict.why


def test_nine_says_that_four_cpus_are_missing() -> None:
    verdict = bound({}, (), YIELDS[PTHREAD][:2], mode="yield").verdict("001.9")
    assert "On at most 2 CPUs, where the study had 4" in verdict.why
    assert "half needs the module" in verdict.why


def test_what_is_only_said_beside_a_verdict_may_fail() -> None:
    scene = modes({})
    whole = scene.verdict("001.1")
    assert whole.verdict == "holds" and "without accounts" in whole.why
    bare = {trial("yield-modes", mode, KTHREAD_BARE, {}).id for mode in ("normal", "yield")}
    scene.samples = [made for made in scene.samples if made.trial_id not in bare]
    scene.samples += [failed(one) for one in scene.trials if one.id in bare]
    verdict = scene.verdict("001.1")
    assert verdict.verdict == "holds" and "without accounts" not in verdict.why
    assert "Every invocation failed of yield-modes/normal" in verdict.why
