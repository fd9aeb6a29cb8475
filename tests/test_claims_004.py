# SPDX-License-Identifier: Apache-2.0
"""Study 004's claims: each verdict from samples made for it, at every place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from made_004 import counting, direct, switched, trial, uncounted, walking
from synthetic import Scene, failed

from swtch.claims import study_004
from swtch.records import VerdictName

Where = Mapping[str, Any]
Make = Callable[[Where], Scene]

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}
KIB = 1024


# ---- direct-cost ----


def kernels(where: Where, us: float = 0.62, **more: Any) -> Scene:
    return direct(Scene(), "process", "pipe", us, where=where, **more)


def others_only(where: Where) -> Scene:
    return direct(Scene(), "pthread", "futex", 1.0, where=where)


def levels(
    where: Where, user: float = 1.18, kernel: float = 0.62, *, share: float = 0.01, n: int = 10
) -> Scene:
    scene = direct(Scene(), "process", "pipe", kernel, share=-share, n=n, where=where)
    direct(scene, "uthread", "locks", user, share=share, n=n, where=where)
    direct(scene, "ucontext", "yield", 0.6, n=n, where=where)
    return direct(scene, "coroutine", "yield", 0.03, n=n, where=where)


def levels_failed(where: Where) -> Scene:
    scene = Scene()
    for model, way in (("process", "pipe"), ("uthread", "locks")):
        one = trial("direct-cost", model=model, way=way, **where)
        scene.add(one, [failed(one)] * 10)
    return scene


# ---- working-set ----


def mountains(
    first: float = 1.5, valley: float = 1.2, second: float = 3.0, last: float = 1.5
) -> Any:
    """Figure 3: a rise up to 32 KiB, a valley, a peak at 256 KiB."""

    def cost(size: int, _stride: int) -> float:
        if size < 32 * KIB:
            return 0.62
        if size == 32 * KIB:
            return first
        if size < 256 * KIB:
            return valley
        return second if size == 256 * KIB else last

    return cost


def process_walks(where: Where, *shape: float, **more: Any) -> Scene:
    return walking(Scene(), "process", mountains(*shape), where=where, **more)


def no_l1(where: Where) -> Scene:
    return walking(Scene(), "process", mountains(), where=where, l1d_bytes=0)


def level(user: float, rise: float) -> Any:
    """So much without a walk, and so much more with each doubling of the array."""

    def cost(size: int, _stride: int) -> float:
        return user + rise * max(0, (size // KIB).bit_length() - 1)

    return cost


def both_walk(
    where: Where, rise: float = 0.0, kernel: float = 0.1, *, share: float = 0.001, n: int = 10
) -> Scene:
    """Of uthreads and processes: what one doubling of the array adds, in us."""
    scene = walking(Scene(), "uthread", level(1.2, rise), share=share, n=n, where=where)
    return walking(scene, "process", level(0.62, kernel), share=-share, n=n, where=where)


# ---- counters ----


def events(
    *,
    alone_at: int = 64,
    turns_at: int = 32,
    dtlb: float = 0.1,
    l1i: float = 1.0,
) -> Any:
    """Misses with an L1d that arrays of these KiB do not fit, and what a switch adds."""

    def misses(mode: str, event: str, size: int) -> float:
        if event == "l1d":
            at = alone_at if mode == "single" else turns_at
            return size / 8 if size >= at * KIB else size / 1000
        if event == "instructions":
            return size * 1.0
        added = {"dtlb": dtlb, "l1i": l1i}[event]
        return 5.0 + (added if mode == "switch" else 0.0)

    return misses


def counted(
    where: Where, *, user: Any = None, kernel: Any = None, share: float = 0.0, n: int = 10
) -> Scene:
    """Counts as the study has them, but for what is given."""
    scene = counting(
        Scene(),
        "process",
        kernel or events(dtlb=35, l1i=140),
        share=share,
        n=n,
        where=where,
    )
    return counting(scene, "uthread", user or events(), share=-share, n=n, where=where)


def no_counters(where: Where) -> Scene:
    scene = uncounted(Scene(), "process", where=where)
    uncounted(scene, "uthread", where=where)
    return scene if scene.trials else counting(scene, "uthread", events(), where=where)


# What each claim can become, and the samples of which it becomes that.
VERDICTS: list[tuple[str, VerdictName, str, Make]] = [
    ("1", "holds", "", kernels),
    ("1", "differs", "dearer", lambda w: kernels(w, 3.0)),
    ("1", "differs", "cheaper", lambda w: kernels(w, 0.1)),
    ("1", "cannot tell", "at the bound", lambda w: kernels(w, 1.24, share=0.1)),
    ("1", "cannot tell", "too few", lambda w: kernels(w, n=4)),
    ("1", "not measurable here", "no processes", others_only),
    ("2", "holds", "", levels),
    ("2", "differs", "", lambda w: levels(w, 0.05, 3.0)),
    ("2", "cannot tell", "the same", lambda w: levels(w, 1.0, 1.0, share=0.1)),
    ("2", "cannot tell", "too few", lambda w: levels(w, n=4)),
    ("2", "not measurable here", "one level", kernels),
    ("2", "not measurable here", "failed", levels_failed),
    ("3", "holds", "", process_walks),
    ("3", "differs", "no valley", lambda w: process_walks(w, 1.5, 2.0, 3.0, 1.5)),
    ("3", "differs", "ever more", lambda w: process_walks(w, 1.5, 1.2, 3.0, 9.0)),
    ("3", "cannot tell", "a plain", lambda w: process_walks(w, 1.5, 1.5, 3.0, 1.5, share=0.2)),
    ("3", "cannot tell", "too few", lambda w: process_walks(w, n=4)),
    ("3", "not measurable here", "no L1", no_l1),
    (
        "3",
        "not measurable here",
        "no processes",
        lambda w: walking(Scene(), "uthread", mountains()),
    ),
    ("4", "holds", "", both_walk),
    ("4", "differs", "it rises", lambda w: both_walk(w, 0.4, 0.9)),
    ("4", "differs", "more than the kernel's", lambda w: both_walk(w, 0.05, 0.01)),
    ("4", "cannot tell", "at the bound", lambda w: both_walk(w, 0.06, 0.9, share=0.05)),
    ("4", "cannot tell", "too few", lambda w: both_walk(w, n=4)),
    ("4", "not measurable here", "no uthreads", process_walks),
    ("5", "holds", "", counted),
    ("5", "holds", "even earlier", lambda w: counted(w, kernel=events(turns_at=8))),
    ("5", "differs", "not earlier", lambda w: counted(w, user=events(turns_at=64))),
    ("5", "differs", "alone too late", lambda w: counted(w, user=events(alone_at=256))),
    ("5", "cannot tell", "too few", lambda w: counted(w, n=4)),
    ("5", "not measurable here", "no counters", no_counters),
    ("6", "holds", "", counted),
    ("6", "differs", "no rise", lambda w: counted(w, kernel=events(dtlb=0))),
    ("6", "differs", "uthreads too", lambda w: counted(w, user=events(dtlb=30))),
    ("6", "cannot tell", "at the bound", lambda w: counted(w, kernel=events(dtlb=1), share=0.1)),
    ("6", "cannot tell", "too few", lambda w: counted(w, n=4)),
    ("6", "not measurable here", "no counters", no_counters),
    ("7", "holds", "", counted),
    ("7", "differs", "uthreads more", lambda w: counted(w, user=events(l1i=400))),
    (
        "7",
        "cannot tell",
        "the same",
        lambda w: counted(w, user=events(l1i=140), share=0.1),
    ),
    ("7", "cannot tell", "too few", lambda w: counted(w, n=4)),
    ("7", "not measurable here", "no counters", no_counters),
]

# Claims that are about times, or about what caches cost, and where they are none.
ONLY = {"1": {"native", "vm"}, "3": {"native"}, "4": {"native"}}
ROWS = [
    (row, place) for row in VERDICTS for place in PLACES if place in ONLY.get(row[0], {*PLACES})
]


def name_of(given: Any) -> str:
    if isinstance(given, str):
        return given
    return "-".join(part.replace(" ", "_") for part in given[:3] if part)


@pytest.mark.parametrize(("row", "place"), ROWS, ids=name_of)
def test_verdict(row: tuple[str, VerdictName, str, Make], place: str) -> None:
    number, expected, _, make = row
    where = PLACES[place]
    verdict = make(where).verdict(f"004.{number}")
    assert verdict.verdict == expected, verdict.why
    assert (verdict.engine, verdict.guest) == (
        where.get("engine", "native"),
        where.get("guest", ""),
    )
    assert verdict.study == "004" and verdict.text and verdict.published
    assert verdict.why and "nan" not in verdict.why
    assert (verdict.here is None) == (expected == "not measurable here")


def test_every_claim_has_its_verdicts_here() -> None:
    given: dict[str, set[str]] = {}
    for number, verdict, _, _ in VERDICTS:
        given.setdefault(f"004.{number}", set()).add(verdict)
    assert list(given) == [claim.id for claim in study_004.CLAIMS]
    for claim, verdicts in given.items():
        assert verdicts == {"holds", "differs", "cannot tell", "not measurable here"}, claim


@pytest.mark.parametrize(
    ("claim", "make", "said"),
    [
        ("1", kernels, "counts instructions"),
        ("3", process_walks, "loses no time with its caches"),
        ("4", both_walk, "loses no time with its caches"),
    ],
)
def test_an_engine_without_times_says_so(claim: str, make: Make, said: str) -> None:
    verdict = make(PLACES["exact"]).verdict(f"004.{claim}")
    assert verdict.verdict == "not measurable here" and said in verdict.why


def test_an_emulated_guest_has_no_caches_to_lose() -> None:
    verdict = process_walks(PLACES["vm"]).verdict("004.3")
    assert verdict.verdict == "not measurable here" and "caches" in verdict.why


# ---- what a verdict says ----


def test_two_says_what_swapcontext_costs() -> None:
    assert "20 times as dear" in levels({}).verdict("004.2").why
    scene = direct(Scene(), "process", "pipe", 3.0)
    direct(scene, "uthread", "locks", 0.05)
    assert "swapcontext" not in scene.verdict("004.2").why


def test_three_names_the_sizes_and_this_machines_cache() -> None:
    why = process_walks({}).verdict("004.3").why
    for said in ("L1d is 32 KiB", "up to 32 KiB", "less at 64 KiB", "up to 256 KiB", "1024 KiB"):
        assert said in why


def test_three_takes_the_median_over_strides() -> None:
    """One wild stride of three changes nothing."""

    def cost(size: int, stride: int) -> float:
        return 50.0 if stride == 256 else float(mountains()(size, stride))

    assert walking(Scene(), "process", cost).verdict("004.3").verdict == "holds"


def test_three_is_about_the_machines_own_first_peak() -> None:
    """With an L1d of 64 KiB, a peak at 32 KiB is none."""
    verdict = walking(Scene(), "process", mountains(), l1d_bytes=64 * KIB).verdict("004.3")
    assert verdict.verdict == "cannot tell" and "up to 64 KiB" in verdict.why


def test_five_tells_where_misses_begin() -> None:
    why = counted({}).verdict("004.5").why
    assert "Alone, in turns: processes 64 KiB, 32 KiB; uthreads 64 KiB, 32 KiB" in why


def test_counts_missing_say_how_to_get_them() -> None:
    for claim in ("5", "6", "7"):
        why = no_counters({}).verdict(f"004.{claim}").why
        assert "No such file or directory" in why and "--engine exact" in why


def test_seven_needs_the_kernels_share() -> None:
    scene = counting(Scene(), "process", events(l1i=140), kernel=False)
    counting(scene, "uthread", events(), kernel=False)
    verdict = scene.verdict("004.7")
    assert verdict.verdict == "not measurable here" and "perf_event_paranoid" in verdict.why


def test_the_studys_geometry_is_judged_where_there_are_two() -> None:
    where = PLACES["exact"]
    scene = counting(Scene(), "process", events(dtlb=0, l1i=0), where=where, geometry="here")
    counting(scene, "uthread", events(), where=where, geometry="here")
    assert scene.verdict("004.6").verdict == "differs"
    counting(scene, "process", events(dtlb=35, l1i=140), where=where)
    counting(scene, "uthread", events(), where=where)
    assert scene.verdict("004.6").verdict == "holds"


def test_a_cost_below_zero_is_a_number_like_another() -> None:
    one = trial("direct-cost", model="process", way="pipe")
    scene = Scene().add(one, [switched(one, us) for us in (-0.2, -0.1, 0.0, 0.1, 0.2)])
    verdict = scene.verdict("004.1")
    assert verdict.verdict == "differs" and verdict.here is not None
