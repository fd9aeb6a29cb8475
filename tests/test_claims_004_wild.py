# SPDX-License-Identifier: Apache-2.0
"""Study 004's claims where one size of a sweep, or what a sample tells of a cache, is wild."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from made_004 import counting, walking
from scenes_004 import (
    KIB,
    both_walk,
    counted,
    events,
    mountains,
    process_walks,
    strided,
    user_walks,
    varied,
)
from synthetic import Scene
from verdicts import Make

from swtch.experiments import counters

# ---- one wild size, of a cache or of the sweep ----


def retold(scene: Scene, name: str, value: int, every: int) -> Scene:
    """Each so manyth sample tells another size of a cache."""
    scene.samples = [
        msgspec.structs.replace(s, values={**s.values, name: value}) if i % every == 0 else s
        for i, s in enumerate(scene.samples)
    ]
    return scene


CACHE_CASES = [
    ("3", process_walks, "l2_bytes"),
    ("3", process_walks, "l1d_bytes"),
    ("4", both_walk, "l1d_bytes"),
    ("10", user_walks, "l2_bytes"),
]


@pytest.mark.parametrize(("claim", "make", "name"), CACHE_CASES)
@pytest.mark.parametrize("wild", [0, 1 << 20, 8 << 30])
def test_a_few_wild_cache_sizes_change_nothing(
    claim: str, make: Make, name: str, wild: int
) -> None:
    plain, few = make({}), retold(make({}), name, wild, 40)
    before, after = (one.verdict(f"004.{claim}") for one in (plain, few))
    assert (before.verdict, before.here) == (after.verdict, after.here)
    assert before.verdict == "holds"


@pytest.mark.parametrize(("claim", "make", "name"), CACHE_CASES)
def test_samples_that_tell_several_sizes_of_a_cache_decide_nothing(
    claim: str, make: Make, name: str
) -> None:
    verdict = retold(make({}), name, 512 * KIB, 3).verdict(f"004.{claim}")
    assert verdict.verdict == "cannot tell", verdict.why
    assert "do not agree on the size of this machine's L" in verdict.why
    assert "512 KiB" in verdict.why


@pytest.mark.parametrize("claim", ["5", "11"])
@pytest.mark.parametrize(("every", "expected"), [(11, "holds"), (3, "cannot tell")])
def test_counts_are_of_the_l1d_that_the_samples_agree_on(
    claim: str, every: int, expected: str
) -> None:
    scene = retold((counted if claim == "5" else strided)({}, n=11), "l1d_bytes", 8 << 20, every)
    assert scene.verdict(f"004.{claim}").verdict == expected


def test_an_l1d_that_no_processor_has_is_none() -> None:
    for size in (512, 64 << 20):
        for make, claim in ((process_walks, "3"), (counted, "5")):
            verdict = retold(make({}), "l1d_bytes", size, 1).verdict(f"004.{claim}")
            assert verdict.verdict == "not measurable here" and "no processor" in verdict.why


def wild_at(size: int, us: float, cost: Any) -> Any:
    return lambda its, stride: us if its == size else cost(its, stride)


def rising(size: int, _stride: int) -> float:
    """Ever more, without a peak."""
    return 0.62 + 0.3 * max(0, (size // KIB).bit_length() - 1)


@pytest.mark.parametrize(("size", "us"), [(1, 9.0), (64, 9.0), (512, 9.0)])
def test_one_wild_size_denies_no_peak(size: int, us: float) -> None:
    scene = walking(Scene(), "process", wild_at(size * KIB, us, mountains()))
    verdict = scene.verdict("004.3")
    assert verdict.verdict == "cannot tell", verdict.why
    assert "differs, but holds from" in verdict.why


def test_one_wild_size_makes_no_peak_of_a_rise() -> None:
    """Without it the cost falls nowhere."""
    cost = wild_at(64 * KIB, 0.1, wild_at(512 * KIB, 0.1, rising))
    assert walking(Scene(), "process", rising).verdict("004.3").verdict == "differs"
    assert walking(Scene(), "process", cost).verdict("004.3").verdict == "cannot tell"


@pytest.mark.parametrize("size", [192, 256])
def test_one_wild_size_is_no_peak_at_user_level(size: int) -> None:
    flat = walking(Scene(), "uthread", lambda *_: 1.2, share=0.0, noise=0.01)
    assert flat.verdict("004.10").verdict == "differs"
    cost = wild_at(size * KIB, 9.0, lambda *_: 1.2)
    scene = walking(Scene(), "uthread", cost, share=0.0, noise=0.01)
    verdict = scene.verdict("004.10")
    assert verdict.verdict == "cannot tell" and "holds, but differs at" in verdict.why


@pytest.mark.parametrize(("size", "us"), [(64, 9.0), (512, 9.0)])
def test_one_wild_size_denies_no_peak_at_user_level(size: int, us: float) -> None:
    cost = wild_at(size * KIB, us, lambda its, _: 4.5 if 192 * KIB <= its <= 256 * KIB else 1.2)
    assert walking(Scene(), "uthread", cost).verdict("004.10").verdict == "cannot tell"


@pytest.mark.parametrize("wild", [4, 8, 16, 128])
@pytest.mark.parametrize("mode", counters.MODES)
def test_misses_of_one_size_are_no_beginning(wild: int, mode: str) -> None:
    """Of a size far from the edge, as many as it has elements, or none."""

    def misses(its: str, event: str, size: int) -> float:
        found = float(events()(its, event, size))
        if event != "l1d" or its != mode or size != wild * KIB:
            return found
        return size / 8 if found < size / 64 else 0.0

    verdict = counted({}, user=misses).verdict("004.5")
    # With one between it and the edge it is not known which of the two is the wild one.
    unsure = (mode, wild) in (("single", 16), ("single", 128), ("switch", 8))
    assert verdict.verdict == ("cannot tell" if unsure else "holds"), verdict.why


def test_sizes_that_do_not_agree_where_misses_begin_decide_nothing() -> None:
    def misses(its: str, event: str, size: int) -> float:
        if event == "l1d":
            return size / 8 if size in (8 * KIB, 32 * KIB, 128 * KIB) else 0.0
        return float(events()(its, event, size))

    verdict = counted({}, user=misses).verdict("004.5")
    assert verdict.verdict == "cannot tell"
    assert "do not agree where misses of uthreads alone begin" in verdict.why


def test_a_size_without_a_count_in_turns_is_no_size_that_hits() -> None:
    """Of one block: there it is not known where misses begin."""
    scene = counted({}, n=10)
    name = counters.metric("switch", "l1d", 32 * KIB, counters.STRIDE)
    scene.samples = [
        msgspec.structs.replace(s, values={k: v for k, v in s.values.items() if k != name})
        if s.block in (0, 1, 2)
        else s
        for s in scene.samples
    ]
    here = scene.verdict("004.5").here
    assert here is not None and here.n == 7


def one_stride_size(scene: Scene, sizes: set[int], times: float) -> Scene:
    """So many times the misses of a walk by a line, of arrays of these KiB."""
    names = {counters.metric("single", "l1d", size * KIB, counters.STRIDE) for size in sizes}
    scene.samples = [
        msgspec.structs.replace(
            s, values={k: v * (times if k in names else 1) for k, v in s.values.items()}
        )
        for s in scene.samples
    ]
    return scene


@pytest.mark.parametrize(("size", "times"), [(1024, 40.0), (1024, 0.01), (128, 1000.0)])
def test_one_wild_size_does_not_say_how_often_strides_miss(size: int, times: float) -> None:
    assert one_stride_size(strided({}), {size}, times).verdict("004.11").verdict == "holds"
    assert one_stride_size(strided({}, 60.0), {size}, 0.1).verdict("004.11").verdict == "differs"


def test_sizes_divided_on_how_often_strides_miss_decide_nothing() -> None:
    verdict = one_stride_size(strided({}), {512, 1024}, 40.0).verdict("004.11")
    assert verdict.verdict == "cannot tell" and "the sizes do not agree" in verdict.why


def test_five_times_is_within_five_and_twenty() -> None:
    """Logarithms make 4.999999999999999 of it."""
    scene = Scene()
    for model in ("process", "uthread"):
        counting(scene, model, events(), strides=5.0)
    assert scene.verdict("004.11").verdict == "holds"


def test_one_wild_cell_is_not_how_instructions_vary() -> None:
    drawn = random.Random(1)
    scene = varied({})
    name = counters.metric("switch", "instructions", 64 * KIB, counters.STRIDE)
    scene.samples = [
        msgspec.structs.replace(s, values={**s.values, name: s.values[name] * drawn.uniform(1, 9)})
        if s.model == "uthread"
        else s
        for s in scene.samples
    ]
    assert scene.verdict("004.9").verdict == "holds"
