# SPDX-License-Identifier: Apache-2.0
"""Study 004's claims: each verdict from samples made for it, at every place."""

from __future__ import annotations

import itertools
import random
import statistics

import msgspec
import pytest
from made_004 import counting, direct, switched, trial, walking
from scenes_004 import (
    KIB,
    both_walk,
    counted,
    events,
    executed,
    kernels,
    level,
    levels,
    levels_failed,
    mountains,
    no_counters,
    no_l1,
    one_level_counted,
    others_only,
    process_walks,
    strided,
    user_walks,
    varied,
)
from synthetic import Scene
from verdicts import ALL_FOUR, Make, Row, Where, by_claim, checked, name_of

from swtch.analysis import effects
from swtch.claims import study_004
from swtch.records import VerdictName

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}


# What each claim can become, and the samples of which it becomes that.
VERDICTS: list[Row] = [
    ("1", "holds", "", kernels),
    ("1", "differs", "cheaper", lambda w: kernels(w, 0.1)),
    ("1", "differs", "next to nothing", lambda w: kernels(w, -0.1)),
    ("1", "cannot tell", "at the bound", lambda w: kernels(w, 1.0, share=0.1)),
    ("1", "cannot tell", "too few", lambda w: kernels(w, n=4)),
    ("1", "not measurable here", "no processes", others_only),
    ("2", "holds", "", levels),
    ("2", "differs", "", lambda w: levels(w, 0.05, 3.0)),
    ("2", "differs", "less than nothing", lambda w: levels(w, -0.02, 3.0)),
    ("2", "differs", "both less than nothing", lambda w: levels(w, -0.1, -0.3)),
    ("2", "holds", "the kernel's less than nothing", lambda w: levels(w, 1.0, -0.1)),
    ("2", "cannot tell", "nothing but noise", lambda w: levels(w, 0.0, 0.0, noise=0.1)),
    ("2", "cannot tell", "the same", lambda w: levels(w, 1.0, 1.0, share=0.1)),
    ("2", "cannot tell", "too few", lambda w: levels(w, n=4)),
    ("2", "not measurable here", "one level", kernels),
    ("2", "not measurable here", "failed", levels_failed),
    ("3", "holds", "", process_walks),
    ("3", "differs", "no valley", lambda w: process_walks(w, 1.5, 2.0, 3.0, 1.5)),
    ("3", "differs", "ever more", lambda w: process_walks(w, 1.5, 1.2, 3.0, 9.0)),
    ("3", "cannot tell", "a plain", lambda w: process_walks(w, 1.5, 1.5, share=0.0, noise=0.3)),
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
    ("4", "cannot tell", "noise", lambda w: both_walk(w, 0.01, 0.9, noise=0.02)),
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
    ("8", "holds", "", executed),
    ("8", "differs", "fewer", lambda w: executed(w, 300.0)),
    ("8", "cannot tell", "the same", lambda w: executed(w, 4000.0, share=0.1)),
    ("8", "cannot tell", "too few", lambda w: executed(w, n=4)),
    ("8", "not measurable here", "one model", one_level_counted),
    ("9", "holds", "", varied),
    ("9", "differs", "less", lambda w: varied(w, 0.02, 0.001)),
    ("9", "cannot tell", "as much", lambda w: varied(w, 0.01, 0.01)),
    ("9", "cannot tell", "too few", lambda w: varied(w, n=4)),
    ("9", "not measurable here", "one model", one_level_counted),
    ("10", "holds", "", user_walks),
    ("10", "differs", "flat", lambda w: user_walks(w, 1.0)),
    ("10", "differs", "ever more", lambda w: user_walks(w, 4.5, 9.0)),
    ("10", "differs", "a plain", lambda w: user_walks(w, 4.5, 4.5, noise=0.1)),
    ("10", "cannot tell", "at the bound", lambda w: user_walks(w, 4.5, 4.5 / 1.05, noise=0.3)),
    ("10", "cannot tell", "too few", lambda w: user_walks(w, n=4)),
    ("10", "not measurable here", "no uthreads", process_walks),
    ("11", "holds", "", strided),
    ("11", "differs", "as often", lambda w: strided(w, 1.0)),
    ("11", "differs", "far more", lambda w: strided(w, 60.0)),
    ("11", "cannot tell", "at the bound", lambda w: strided(w, 5.0, share=0.1)),
    ("11", "cannot tell", "too few", lambda w: strided(w, n=4)),
    ("11", "not measurable here", "one stride", counted),
]

# Claims about times, or about what caches cost, or chance, and where there is none.
ONLY = {
    "1": {"native", "exact"},
    "2": {"native", "exact"},
    "3": {"native"},
    "4": {"native"},
    "9": {"native", "vm"},
    "10": {"native"},
}
ROWS = [
    (row, place) for row in VERDICTS for place in PLACES if place in ONLY.get(row[0], {*PLACES})
]


@pytest.mark.parametrize(("row", "place"), ROWS, ids=name_of)
def test_verdict(row: Row, place: str) -> None:
    number, expected, _, make = row
    where = PLACES[place]
    verdict = checked(make, where, f"004.{number}", expected)
    assert (verdict.here is None) == (expected == "not measurable here")


def test_every_claim_has_its_verdicts_here() -> None:
    given = by_claim("004", VERDICTS)
    assert list(given) == [claim.id for claim in study_004.CLAIMS]
    for claim, verdicts in given.items():
        assert verdicts == ALL_FOUR, claim


@pytest.mark.parametrize(
    ("claim", "make", "said"),
    [
        ("3", process_walks, "loses no time with its caches"),
        ("4", both_walk, "loses no time with its caches"),
        ("9", varied, "the same each time"),
        ("10", user_walks, "loses no time with its caches"),
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
    for said in ("L1d is 32 KiB, L2 256 KiB", "up to 32 KiB", "less at 64 KiB", "at 512 KiB"):
        assert said in why


def cost_of_strides(_size: int, stride: int) -> float:
    return 0.62 + (0.0 if stride in (0, 8, 64) else 9.0)


def test_a_level_cost_is_denied_where_there_are_all_strides() -> None:
    """Each invocation has its own 0.12 us: ten blocks of six strides tell, of two they do not."""
    scene = process_walks({}, 1.5, 1.5, share=0.0, noise=0.12)
    assert scene.verdict("004.3").verdict == "differs"
    few = Scene()
    for one in scene.trials:
        if one.factors["stride"] in (0, 8, 64):
            few.add(one, [s for s in scene.samples if s.trial_id == one.id])
    assert few.verdict("004.3").verdict == "cannot tell"


def test_what_is_compared_has_the_same_strides() -> None:
    """Around L1d there are more of them than at L2: what they alone do is no step."""

    def cost(size: int, stride: int) -> float:
        return mountains()(size, stride) + (3.0 if stride not in (8, 64) else 0.0)

    scene = walking(Scene(), "process", cost)
    assert scene.verdict("004.3").verdict == "holds", scene.verdict("004.3").why
    uthreads = walking(Scene(), "uthread", level(1.2, 0.0), share=0.0, noise=0.02)
    more = walking(uthreads, "process", cost_of_strides, share=0.0, noise=0.02)
    assert more.verdict("004.4").verdict != "holds"


def test_three_takes_the_median_over_strides() -> None:
    """One wild stride of three changes nothing."""

    def cost(size: int, stride: int) -> float:
        return 50.0 if stride == 256 else float(mountains()(size, stride))

    assert walking(Scene(), "process", cost).verdict("004.3").verdict == "holds"


@pytest.mark.parametrize(
    ("rises_by", "verdict"), [(8, "holds"), (16, "holds"), (64, "differs"), (256, "differs")]
)
def test_three_falls_beyond_l2_by_the_strides_of_which_the_study_says_so(
    rises_by: int, verdict: VerdictName
) -> None:
    def cost(size: int, stride: int) -> float:
        rises = size > 256 * KIB and (stride <= 16) == (rises_by <= 16)
        return 9.0 if rises else float(mountains()(size, stride))

    scene = walking(Scene(), "process", cost, quick=False)
    assert scene.verdict("004.3").verdict == verdict


def test_three_without_such_strides_is_not_measurable() -> None:
    scene = walking(Scene(), "process", mountains())
    kept = [one for one in scene.trials if int(str(one.factors["stride"])) <= 16]
    scene.trials = kept
    scene.samples = [s for s in scene.samples if s.trial_id in {one.id for one in kept}]
    verdict = scene.verdict("004.3")
    assert verdict.verdict == "not measurable here" and "strides above 16" in verdict.why


def test_three_is_about_the_machines_own_caches() -> None:
    """Both peaks go with them: the study's are none on a machine with others."""
    caches = {"l1d_bytes": 48 * KIB, "l2_bytes": 2048 * KIB}
    here = walking(Scene(), "process", mountains(l1=48, l2=2048), **caches).verdict("004.3")
    assert here.verdict == "holds" and "above the first peak at 2048 KiB" in here.why
    theirs = walking(Scene(), "process", mountains(), **caches).verdict("004.3")
    assert theirs.verdict == "differs"


def test_three_has_no_second_peak_beyond_all_arrays() -> None:
    for l2 in (0, 64 << 20):
        verdict = walking(Scene(), "process", mountains(), l2_bytes=l2).verdict("004.3")
        assert verdict.verdict == "not measurable here" and "L2" in verdict.why


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.5])
def test_four_is_not_about_how_noisy_the_costs_are(noise: float) -> None:
    """The range of noisy costs grows with the noise; sizes that do nothing stay nothing."""
    for n in (10, 20):
        verdict = both_walk({}, 0.0, noise * 15, noise=noise, n=n).verdict("004.4")
        assert verdict.verdict != "differs", verdict.why
    far = both_walk({}, noise * 10, noise * 15, noise=noise, n=20).verdict("004.4")
    assert far.verdict == "differs", far.why


def test_four_does_not_hold_for_noise_alone() -> None:
    """The cost grows threefold, and noise of thrice the cost hides it: 15 of 40 held."""
    held = 0
    for seed in range(20):
        drawn = random.Random(seed)
        scene = both_walk({}, 0.4, 0.9, noise=0.0)
        scene.samples = [
            msgspec.structs.replace(
                s, values={**s.values, "cost_ns": s.values["cost_ns"] + drawn.gauss(0, 3000)}
            )
            for s in scene.samples
        ]
        held += scene.verdict("004.4").verdict == "holds"
    assert held == 0


def test_four_compares_variances_without_that_of_noise() -> None:
    """Flat processes beside flat uthreads: as noisy as they may be, neither varies less."""
    scene = walking(Scene(), "uthread", level(1.2, 0.0), share=0.0, noise=0.001)
    walking(scene, "process", level(0.62, 0.0), share=0.0, noise=0.5)
    assert scene.verdict("004.4").verdict == "cannot tell"


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


def test_six_has_the_figure_of_small_pages_beside_it_where_a_model_counted() -> None:
    where = PLACES["exact"]
    scene = counted(where)
    assert "4 KiB" not in scene.verdict("004.6").why
    scene = counting(Scene(), "process", events(dtlb=16), where=where, small_pages=3.0)
    counting(scene, "uthread", events(), where=where, small_pages=1.0)
    verdict = scene.verdict("004.6")
    assert verdict.verdict == "holds"
    assert "(of processes 48, had all of the kernel's pages 4 KiB)" in verdict.why


def test_a_cost_below_zero_is_a_number_like_another() -> None:
    one = trial("direct-cost", model="process", way="pipe")
    scene = Scene().add(one, [switched(one, us) for us in (-0.2, -0.1, 0.0, 0.1, 0.2)])
    assert scene.verdict("004.1").verdict == "cannot tell"
    scene = Scene().add(one, [switched(one, us) for us in (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2)])
    verdict = scene.verdict("004.1")
    assert verdict.verdict == "differs" and verdict.here is not None
    assert "0.62 µs there" in verdict.why


def test_a_block_cut_short_is_no_block_of_a_median() -> None:
    """Of the last block only the narrow strides were done: their median is not that of all."""
    scene = walking(Scene(), "process", mountains(), n=7)
    whole = scene.verdict("004.3")
    last = [s for s in scene.samples if s.block == 6]
    scene.samples = [s for s in scene.samples if s.block < 6]
    scene.samples += [s for s in last if int(str(s.factors["stride"])) < 64]
    cut = scene.verdict("004.3")
    assert whole.verdict == cut.verdict == "holds"
    assert cut.here is not None and cut.here.n == 6


def test_four_takes_the_same_blocks_of_both() -> None:
    """A block that processes lack is none of the uthreads'."""
    scene = both_walk({}, 0.0, 15.0, n=10)
    scene.samples = [s for s in scene.samples if s.block != 3 or s.model != "process"]
    verdict = scene.verdict("004.4")
    assert verdict.verdict == "holds"
    assert verdict.here is not None and verdict.here.n == 9


def test_a_block_counts_once_in_what_pairs_say() -> None:
    """As many pairs as blocks, each block in two of them, erred three times as often as they
    said: here the two sides have the same spread between sizes, and one in twenty may differ."""
    drawn = random.Random(4)
    false, runs = 0, 300
    for _ in range(runs):
        sides = [
            [[10.0 * i + drawn.gauss(0, 1) for i in range(6)] for _ in range(10)] for _ in "ab"
        ]
        ours, theirs = (study_004._of_pairs(side, study_004._spread_by_size) for side in sides)
        effect = effects.level([a - b for a, b in zip(ours, theirs, strict=True)], "us²")
        assert effect is not None and effect.n == 10
        false += not effect.interval().low <= 0 <= effect.interval().high
    assert false <= 0.08 * runs  # 0.05, and as it was 0.15


def test_pairs_say_together_what_each_block_says() -> None:
    rows = [[1.0, 2.0, 4.0], [1.5, 2.0, 5.0], [0.0, 2.5, 4.5], [1.0, 1.0, 4.0]]
    mean = statistics.fmean(
        study_004._spread_by_size(a, b) for a, b in itertools.combinations(rows, 2)
    )
    assert statistics.fmean(study_004._of_pairs(rows, study_004._spread_by_size)) == (
        pytest.approx(mean)
    )
    assert study_004._of_pairs(rows[:1], study_004._spread_by_size) == [0]
