# SPDX-License-Identifier: Apache-2.0
"""Study 003's claims: each verdict from samples made for it, at every place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_003 import handing, ticking, timed, trial, valued, waking
from synthetic import Scene, failed
from verdicts import ALL_FOUR, Make, Row, Where, by_claim, checked, name_of

from swtch.claims import study_003
from swtch.experiments import Setting, get
from swtch.records import VerdictName

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}
# Every claim but 003.4 is about time, which an emulated processor does not tell.
TIMELESS = {"4": set(PLACES)}
CASES = [(threads, workers) for threads in (10_000, 20_000, 30_000) for workers in (1, 2)]


# ---- scenes ----


def counting(
    where: Where,
    factor: float = 2.0,
    *,
    odd: float | None = None,
    n: int = 10,
    share: float = 0.01,
    alone: float | None = None,
) -> Scene:
    """pthreads that take `factor` times as long as uthreads; one case takes `odd` times.

    `alone` is what the work takes alone, as a share of the uthreads' time.
    """
    scene = Scene()
    for threads, workers in CASES:
        ms = threads / 20 / workers
        last = (threads, workers) == CASES[-1]
        ratio = odd if odd is not None and last else factor
        timed(scene, "uthread", threads, workers, ms, n=n, share=share, where=where)
        timed(scene, "pthread", threads, workers, ms * ratio, n=n, share=-share, where=where)
        if alone:
            timed(scene, "alone", threads, workers, ms * alone, n=n, share=share, where=where)
    return scene


def leading(
    where: Where, one: float = 1.5, two: float = 2.0, *, share: float = 0.01, n: int = 10
) -> Scene:
    """So many times the uthreads' time, with one worker and with two."""
    scene = Scene()
    for threads in (10_000, 20_000, 30_000):
        for workers, factor in ((1, one), (2, two)):
            more: dict[str, Any] = {"n": n, "where": where}
            noise = share if workers == 1 else -share
            timed(scene, "uthread", threads, workers, 500, share=noise, **more)
            timed(scene, "pthread", threads, workers, 500 * factor, share=-noise, **more)
    return scene


def one_cpu(where: Where) -> Scene:
    scene = timed(Scene(), "uthread", 10_000, 1, 500, where=where)
    return timed(scene, "pthread", 10_000, 1, 900, where=where)


def managed(where: Where, factor: float = 1.1, *, share: float = 0.01, n: int = 10) -> Scene:
    """pthreads that take `factor` times the uthreads' CPU time; where instructions are
    counted, all the time is CPU time."""
    exact = where.get("engine") == "exact"
    scene = Scene()
    for threads in (10_000, 20_000):
        more: dict[str, Any] = {"n": n, "where": where}
        timed(scene, "uthread", threads, 1, 500, share=share, **more)
        timed(
            scene,
            "pthread",
            threads,
            1,
            500 * (factor if exact else 1),
            share=-share,
            cpu=1 if exact else factor,
            **more,
        )
    return scene


def one_model(where: Where) -> Scene:
    return timed(Scene(), "uthread", 10_000, 1, 500, where=where)


def only_failed(where: Where) -> Scene:
    scene = Scene()
    for kind in ("pthread", "uthread"):
        one = trial(
            "uthread-scaling",
            kind=kind,
            threads=10_000,
            iterations=100_000,
            workers=1,
            **where,
        )
        scene.add(one, [failed(one)] * 10)
    return scene


def chained(
    where: Where, delivered: float = 1.0, *, own: float = 1.0, share: float = 0.01, n: int = 10
) -> Scene:
    """Ticks of the chain and of own timers that reached the worst worker so often."""
    scene = Scene()
    for us in (1000, 10_000):
        more: dict[str, Any] = {"n": n, "where": where}
        ticking(scene, us, "worker", own, share=share, **more)
        # The last interval decides.
        chain = delivered if us == 10_000 else own
        ticking(scene, us, "process", chain, share=-share, **more)
    return scene


def sliced(
    where: Where, one: float = 0.004, ten: float = 0.0004, *, share: float = 0.01, n: int = 10
) -> Scene:
    """Shares of the CPU time that ticks take, every 1 and every 10 ms."""
    scene = ticking(Scene(), 1000, "worker", 1.0, overhead=one, share=share, n=n, where=where)
    ticking(scene, 10_000, "worker", 1.0, overhead=ten, share=-share, n=n, where=where)
    # Not of the study's two, and so not looked at.
    return ticking(scene, 100, "worker", 1.0, overhead=0.0, n=n, where=where)


def due(where: Where, period: float = 1.1, *, share: float = 0.01, n: int = 10) -> Scene:
    """Ticks every ms, in the median so many intervals after the last."""
    scene = ticking(Scene(), 1000, "worker", 1.0, period=period, share=share, n=n, where=where)
    return ticking(scene, 100, "worker", 1.0, period=9.0, n=n, where=where)


def often(where: Where) -> Scene:
    return ticking(Scene(), 100, "worker", 1.0, where=where)


def unchained(where: Where) -> Scene:
    return ticking(Scene(), 1000, "worker", 1.0, where=where)


def looped(
    where: Where, one: float = 2.0, eight: float = 9.0, *, share: float = 0.01, n: int = 10
) -> Scene:
    """Main beside one and eight loops a worker; in guests there is only one."""
    scene = Scene()
    more: dict[str, Any] = {"share": share, "n": n, "where": where}
    waking(scene, "uthread", one, loops=1, **more)
    waking(scene, "uthread", eight, loops=8, **more)
    return waking(scene, "uthread, no ticks", 2000.0, **more)


def never_stopped(where: Where) -> Scene:
    return waking(Scene(), "uthread, no ticks", 2000.0, where=where)


def beside(
    where: Where,
    pthreads: float = 800.0,
    uthreads: float = 1.0,
    *,
    few: float = 1.0,
    share: float = 0.01,
    n: int = 10,
) -> Scene:
    """Three neighbours of very many threads, and of few."""
    scene = Scene()
    for case, ms in (
        ("a pthread a CPU", few),
        ("many pthreads", pthreads),
        ("many uthreads", uthreads),
    ):
        waking(scene, case, ms, part="neighbours", share=share, n=n, where=where)
        share = -share
    return scene


def few_only(where: Where) -> Scene:
    return waking(Scene(), "a pthread a CPU", 1.0, part="neighbours", where=where)


def handed(where: Where, waste: float = 0.1, **more: Any) -> Scene:
    """Hand-overs by the mutex and by a loop around an exchange."""
    scene = Scene()
    handing(scene, "naive", 2.0, where=where)
    return handing(scene, "mutex", waste, where=where, **more)


def naive_only(where: Where) -> Scene:
    return handing(Scene(), "naive", 2.0, where=where)


# What each claim can become, and the samples of which it becomes that.
VERDICTS: list[Row] = [
    ("1", "holds", "", counting),
    ("1", "holds", "nearly", lambda w: counting(w, 1.7)),
    ("1", "differs", "as fast", lambda w: counting(w, 1.05)),
    ("1", "differs", "slower", lambda w: counting(w, 0.5)),
    ("1", "differs", "far faster", lambda w: counting(w, 9.0)),
    ("1", "differs", "one case", lambda w: counting(w, odd=1.05)),
    ("1", "cannot tell", "at the bound", lambda w: counting(w, odd=1.5)),
    ("1", "cannot tell", "too few", lambda w: counting(w, n=4)),
    ("1", "not measurable here", "one model", one_model),
    ("1", "not measurable here", "failed", only_failed),
    ("2", "holds", "", looped),
    ("2", "differs", "a second", lambda w: looped(w, 1000.0)),
    ("2", "cannot tell", "at the bound", lambda w: looped(w, 100.0, share=0.1)),
    ("2", "cannot tell", "too few", lambda w: looped(w, n=4)),
    ("2", "not measurable here", "no ticks", never_stopped),
    ("3", "holds", "", beside),
    ("3", "differs", "pthreads do too", lambda w: beside(w, 1.5)),
    ("3", "differs", "uthreads do not", lambda w: beside(w, 800.0, 300.0)),
    ("3", "cannot tell", "at the bound", lambda w: beside(w, 2.0, share=0.1)),
    ("3", "cannot tell", "too few", lambda w: beside(w, n=4)),
    ("3", "not measurable here", "few only", few_only),
    ("4", "holds", "", chained),
    ("4", "holds", "a busy machine", lambda w: chained(w, 0.5, own=0.5)),
    ("4", "differs", "half of them", lambda w: chained(w, 0.5)),
    ("4", "differs", "twice", lambda w: chained(w, 1.0, own=0.5)),
    ("4", "cannot tell", "noise", lambda w: chained(w, 0.9, share=0.04)),
    ("4", "cannot tell", "too few", lambda w: chained(w, n=4)),
    ("4", "not measurable here", "no chain", unchained),
    ("5", "holds", "", handed),
    ("5", "holds", "noise", lambda w: handed(w, -0.7)),
    ("5", "differs", "a turn", lambda w: handed(w, 1.0)),
    ("5", "cannot tell", "at the bound", lambda w: handed(w, 0.5, share=0.1)),
    ("5", "cannot tell", "too few", lambda w: handed(w, n=4)),
    ("5", "not measurable here", "no mutex", naive_only),
    ("6", "holds", "", sliced),
    ("6", "differs", "dearer", lambda w: sliced(w, 0.004, 0.006)),
    ("6", "cannot tell", "the same", lambda w: sliced(w, 0.004, 0.004, share=0.1)),
    ("6", "cannot tell", "too few", lambda w: sliced(w, n=4)),
    ("6", "not measurable here", "one interval", often),
    ("7", "holds", "", leading),
    ("7", "differs", "smaller", lambda w: leading(w, 2.0, 1.5)),
    ("7", "cannot tell", "the same", lambda w: leading(w, 2.0, 2.0, share=0.05)),
    ("7", "cannot tell", "too few", lambda w: leading(w, n=4)),
    ("7", "not measurable here", "one CPU", one_cpu),
    ("8", "holds", "", due),
    ("8", "differs", "a turn later", lambda w: due(w, 3.0)),
    ("8", "cannot tell", "at the bound", lambda w: due(w, 2.0, share=0.1)),
    ("8", "cannot tell", "too few", lambda w: due(w, n=4)),
    ("8", "not measurable here", "no ms", often),
    ("9", "holds", "", managed),
    ("9", "differs", "more", lambda w: managed(w, 0.8)),
    ("9", "cannot tell", "the same", lambda w: managed(w, 1.0, share=0.05)),
    ("9", "cannot tell", "too few", lambda w: managed(w, n=4)),
    ("9", "not measurable here", "one model", one_model),
]
ROWS = [
    (row, place)
    for row in VERDICTS
    for place in PLACES
    if place != "vm" or row[0] in TIMELESS or row[1] == "not measurable here"
]


@pytest.mark.parametrize(("row", "place"), ROWS, ids=name_of)
def test_verdict(row: Row, place: str) -> None:
    number, expected, _, make = row
    where = PLACES[place]
    verdict = checked(make, where, f"003.{number}", expected)
    assert (verdict.here is None) == (expected == "not measurable here")


def test_every_claim_has_its_verdicts_here() -> None:
    given = by_claim("003", VERDICTS)
    assert list(given) == [claim.id for claim in study_003.CLAIMS]
    for claim, verdicts in given.items():
        assert verdicts == ALL_FOUR, claim


@pytest.mark.parametrize("make", [counting, looped, beside, handed, sliced, leading, due, managed])
def test_emulated_time_decides_nothing(make: Make) -> None:
    """Not how the samples are: the scene that holds elsewhere holds nothing there."""
    scene = make(PLACES["vm"])
    emulated = [
        msgspec.structs.replace(one, factors={**one.factors, "accel": "tcg"})
        for one in scene.trials
    ]
    scene.trials = emulated
    for claim in study_003.CLAIMS:
        for verdict in scene.verdicts(claim.id):
            assert verdict.verdict == "not measurable here" or claim.about == "counts"


def test_instructions_answer_where_they_can_and_say_so() -> None:
    verdict = managed(PLACES["exact"]).verdict("003.9")
    assert verdict.verdict == "holds" and "in instructions" in verdict.why


# ---- what a verdict says ----


def referred(one: tuple[float, float], two: tuple[float, float]) -> Scene:
    """Twice as long as the uthreads of the same block, and (wall, CPU) so many times as long as
    those right beside them, on one and on two CPUs."""
    scene = Scene()
    for workers, beside in ((1, one), (2, two)):
        timed(scene, "uthread", 10_000, workers, 500, share=0.2)
        timed(scene, "pthread", 10_000, workers, 1000, share=-0.2, cpu=2.0, beside=beside)
    return scene


@pytest.mark.parametrize(
    ("one", "two", "half", "grows", "manage"),
    [
        ((2.0, 2.0), (2.6, 1.7), "holds", "holds", "holds"),
        # On one CPU by CPU time: what others had of it meanwhile is not the threads'.
        ((2.0, 1.3), (2.6, 1.7), "differs", "holds", "holds"),
        ((1.3, 2.0), (2.6, 0.8), "holds", "holds", "differs"),
        ((2.0, 2.0), (1.3, 2.0), "differs", "differs", "holds"),
    ],
)
def test_uthreads_right_beside_decide(
    one: tuple[float, float],
    two: tuple[float, float],
    half: VerdictName,
    grows: VerdictName,
    manage: VerdictName,
) -> None:
    scene = referred(one, two)
    for number, expected in ((1, half), (7, grows), (9, manage)):
        verdict = scene.verdict(f"003.{number}")
        assert verdict.verdict == expected, verdict.why


def test_one_shows_the_case_that_decides() -> None:
    verdict = counting({}, odd=1.05).verdict("003.1")
    assert verdict.here is not None and verdict.here.estimate == pytest.approx(1.05, rel=0.05)
    assert "30000 on 2 CPUs: 1.05 x, differs" in verdict.why
    assert "10000 on 1 CPU: 2 x, holds" in verdict.why


def test_one_says_how_much_there_was_to_gain() -> None:
    """Only where it is not as the study says, and only when the work alone was measured."""
    near = counting({}, 1.05, alone=0.98).verdict("003.1")
    assert near.verdict == "differs"
    assert "at most 1.07 times the work alone" in near.why
    assert "alone" not in counting({}, 1.05).verdict("003.1").why
    assert "alone" not in counting({}, 2.0, alone=0.98).verdict("003.1").why


def test_four_without_own_timers_takes_the_chain_as_it_is() -> None:
    scene = Scene()
    ticking(scene, 1000, "process", 0.97)
    verdict = scene.verdict("003.4")
    assert verdict.verdict == "holds" and verdict.here is not None
    assert verdict.here.unit == "of those due"


def test_four_needs_a_chain_of_two() -> None:
    setting = Setting(cpus=(3,), models=("uthread",))
    scene = Scene()
    for one in get("preemption").trials(setting):
        if one.factors["source"] == "process":
            scene.add(one, [valued(one, {"delivered_least": 1.0})] * 5)
    verdict = scene.verdict("003.4")
    assert verdict.verdict == "not measurable here" and "no links" in verdict.why


# ---- who had the CPUs ----


def crowded(delivered: float = 0.5, *, quiet: int = 0) -> Scene:
    """A chain whose workers had no CPU half of the time, and `quiet` blocks in which they had."""
    scene = Scene()
    for blocks, least, waited in ((quiet, 1.0, 0.0), (10, delivered, 0.5)):
        ticking(scene, 1000, "worker", 1.0, n=blocks)
        ticking(scene, 1000, "process", least, n=blocks, waited=waited)
    return scene


def test_a_worker_that_others_starved_says_nothing_of_the_chain() -> None:
    verdict = crowded().verdict("003.4")
    assert verdict.verdict == "cannot tell" and verdict.here is not None
    assert "Left out are 10 samples whose workers waited for CPUs, and too little is left" in (
        verdict.why
    )
    # As many lost ticks of workers that had their CPUs are the chain's own.
    assert chained({}, 0.5).verdict("003.4").verdict == "differs"


def test_what_is_left_decides() -> None:
    verdict = crowded(quiet=10).verdict("003.4")
    assert verdict.verdict == "holds", verdict.why
    assert "Left out are 10 samples" in verdict.why
    assert crowded(quiet=4).verdict("003.4").verdict == "cannot tell"


def test_what_is_left_has_to_be_of_every_case() -> None:
    """Of one interval all workers waited: that the other's chain is well says nothing of it."""
    scene = crowded()
    for source in ("worker", "process"):
        ticking(scene, 100, source, 1.0)
    verdict = scene.verdict("003.4")
    assert verdict.verdict == "cannot tell" and "too little is left" in verdict.why


def test_what_holds_beside_others_holds() -> None:
    verdict = crowded(1.0).verdict("003.4")
    assert verdict.verdict == "holds" and "Left out" not in verdict.why


def test_late_ticks_and_late_threads_are_not_those_of_starved_workers() -> None:
    late = ticking(Scene(), 1000, "worker", 1.0, period=9.0, waited=0.5)
    assert late.verdict("003.8").verdict == "cannot tell"
    asleep = waking(Scene(), "uthread", 1000.0, loops=1, waited=0.5)
    assert asleep.verdict("003.2").verdict == "cannot tell"


def test_starved_or_not_what_nobody_measured_is_not_measurable() -> None:
    scene = ticking(Scene(), 100, "worker", 1.0, waited=0.5)
    for claim in ("4", "8"):
        assert scene.verdict(f"003.{claim}").verdict == "not measurable here"


def test_two_says_what_happens_without_ticks() -> None:
    assert "without ticks it is 2" in looped({}).verdict("003.2").why
    alone = waking(Scene(), "uthread", 2.0, loops=1).verdict("003.2")
    assert alone.verdict == "holds" and "without" not in alone.why


def test_two_is_about_one_loop_a_worker() -> None:
    assert looped({}, eight=500.0).verdict("003.2").verdict == "holds"


def test_three_names_the_numbers_of_threads() -> None:
    why = beside({}).verdict("003.3").why
    assert "beside 100000 uthreads over a busy pthread a CPU: " in why
    assert "beside 20000 pthreads over 100000 uthreads: " in why


def test_five_shows_what_spinning_would_be() -> None:
    assert "spends 2" in handed({}).verdict("003.5").why
    alone = handing(Scene(), "mutex", 0.1).verdict("003.5")
    assert alone.verdict == "holds" and "spends" not in alone.why
