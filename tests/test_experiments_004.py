# SPDX-License-Identifier: Apache-2.0
"""The definitions of study 004: what is run, what a quick run leaves out, what is said of it."""

from __future__ import annotations

import pytest

from swtch.experiments import Policy, Setting, counters, get, working_set
from swtch.records import Depth, Engine, Trial

NAMES = ("direct-cost", "working-set", "counters")
KIB = 1024


def trials(
    name: str,
    *,
    depth: Depth = "normal",
    engine: Engine = "native",
    policy: Policy = "batch",
    cpus: tuple[int, ...] = (4, 7),
) -> dict[str, Trial]:
    setting = Setting(cpus=cpus, models=get(name).models, depth=depth, engine=engine, policy=policy)
    return {one.id.removeprefix(f"{name}/"): one for one in get(name).trials(setting)}


def passes(one: Trial) -> int:
    """Of the token to each thread, in all rounds and cells."""
    return sum(int(cell["passes"]) for cell in one.probe["cells"]) * int(one.probe["rounds"])


# ---- of all three ----


@pytest.mark.parametrize("name", NAMES)
def test_both_threads_are_on_the_first_cpu(name: str) -> None:
    for one in trials(name).values():
        assert one.probe["cpus"] == [4] and one.probe["probe"] == "token"
        assert one.factors["cpus_used"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_fifo_is_asked_for_unless_the_user_has_a_policy(name: str) -> None:
    assert all(one.probe["fifo_if_allowed"] for one in trials(name).values())
    other = trials(name, policy="other")
    assert not any(one.probe["fifo_if_allowed"] for one in other.values())
    assert all(one.probe["policy"] == "other" for one in other.values())


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_asked_for(name: str) -> None:
    made = get(name).trials(Setting(cpus=(0,), models=("uthread",)))
    assert made and {one.model for one in made} == {"uthread"}


@pytest.mark.parametrize("engine", ["native", "vm", "exact"])
@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_is_less_and_says_so(name: str, engine: Engine) -> None:
    quick = trials(name, depth="quick", engine=engine)
    setting = Setting(cpus=(0,), models=get(name).models, depth="quick", engine=engine)
    assert get(name).shortened(setting)
    assert sum(map(passes, quick.values())) <= sum(
        map(passes, trials(name, engine=engine).values())
    )


# ---- direct-cost ----


def test_every_way_is_there_with_the_studys_number_of_passes() -> None:
    made = trials("direct-cost")
    assert list(made) == [
        "process-pipe",
        "pthread-pipe",
        "process-futex",
        "pthread-futex",
        "ucontext-yield",
        "uthread-locks",
        "uthread-yield",
        "coroutine-yield",
    ]
    for one in made.values():
        assert passes(one) == 100_000 and one.note == ""
        assert [cell["stride"] for cell in one.probe["cells"]] == [0]


def test_at_paper_each_of_ten_iterations_is_of_the_studys_size() -> None:
    for one in trials("direct-cost", depth="paper").values():
        assert one.probe["rounds"] == 10
        assert [cell["passes"] for cell in one.probe["cells"]] == [100_000]


def test_its_published_figures_have_a_trial() -> None:
    made = {(one.factors["way"], one.model) for one in trials("direct-cost").values()}
    assert {(way, model) for way, model, _ in get("direct-cost").published} <= made


# ---- working-set ----


def test_the_studys_grid() -> None:
    made = trials("working-set")
    for model in ("process", "pthread", "uthread"):
        own = [one for one in made.values() if one.model == model]
        cells = {(one.factors["bytes"], one.factors["stride"]) for one in own}
        assert (0, 0) in cells
        sizes = {size for size, _ in cells}
        # The study's, and on to what is larger than the second level of today's caches.
        assert sizes >= {0, 192 * KIB, *(1 << n for n in range(10, 21))}
        assert sizes >= {48 * KIB, 1536 * KIB, 2048 * KIB, 4096 * KIB}
        assert {stride for _, stride in cells} == {0, 8, 16, 32, 64, 128, 256}
        assert len(cells) == len(own) == 1 + 17 * 6
    assert {one.factors["way"] for one in made.values() if one.model == "uthread"} == {"locks"}


def test_large_arrays_have_fewer_passes_and_it_is_said() -> None:
    made = trials("working-set")
    small, large = made["1024x64/process"], made["1048576x64/process"]
    assert passes(small) > 10 * passes(large)
    # Rounds as short as an undisturbed stretch of a virtual processor.
    quick = trials("working-set", depth="quick")
    assert quick["4194304x64/process"].probe["cells"][0]["passes"] == 2
    assert all(one.probe["rounds"] >= 16 for one in quick.values())
    assert quick["131072x64/process"].probe["rounds"] > quick["196608x64/process"].probe["rounds"]
    assert large.note == ""
    setting = Setting(cpus=(0,), models=("process",))
    assert "fewer the larger" in get("working-set").shortened(setting)
    assert passes(trials("working-set", depth="paper")["1048576x64/process"]) > passes(large)


def test_at_paper_there_are_the_studys_ten_iterations() -> None:
    assert {one.probe["rounds"] for one in trials("working-set", depth="paper").values()} == {10}


def test_a_quick_run_has_what_the_claims_need() -> None:
    sizes = {one.factors["bytes"] for one in trials("working-set", depth="quick").values()}
    assert {0, 1 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB} <= sizes
    # L1d, twice that, three quarters of L2, L2 and twice that, of two machines.
    for l1, l2 in ((32, 256), (48, 2048)):
        assert {l1 * KIB, l2 * 3 // 4 * KIB, l2 * KIB, 2 * l2 * KIB} <= sizes


@pytest.mark.parametrize("engine", ["native", "vm"])
def test_a_quick_run_has_all_strides_at_the_first_peak(engine: Engine) -> None:
    """Of processes, whose cost has two values by invocation: there sizes differ by little."""
    made = trials("working-set", depth="quick", engine=engine)
    strides: dict[tuple[str, int], set[int]] = {}
    for one in made.values():
        size, stride = (int(str(one.factors[name])) for name in ("bytes", "stride"))
        if size:
            strides.setdefault((one.model, size), set()).add(stride)
    for (model, size), own in strides.items():
        at_peak = model == "process" and engine == "native" and size in working_set.PEAK_SIZES
        expected = working_set.STRIDES if at_peak else working_set.QUICK_STRIDES
        assert own == set(expected), (model, size)
    if engine == "native":
        for l1 in (32, 48):
            assert {KIB, l1 * KIB, 2 * l1 * KIB} <= set(working_set.PEAK_SIZES)


def test_every_published_point_is_in_the_grid() -> None:
    names = {
        (f"{size // KIB} KiB, stride {stride}", "cost_us")
        for size in working_set.SIZES
        for stride in working_set.STRIDES
    }
    assert {(case, metric) for case, _, metric in get("working-set").published} <= names


# ---- counters ----


def test_a_processor_counts_and_in_the_exact_engine_a_model_does() -> None:
    native = trials("counters")
    assert list(native) == ["process", "pthread", "uthread"]
    assert all(one.probe["count"] and "caches" not in one.probe for one in native.values())
    exact = trials("counters", engine="exact")
    assert {one.factors["geometry"] for one in exact.values()} == {"paper", "here"}
    for one in exact.values():
        assert one.probe["caches"] == one.factors["geometry"]
        assert "count" not in one.probe and "model" in one.note
    quick = trials("counters", engine="exact", depth="quick")
    assert {one.factors["geometry"] for one in quick.values()} == {"paper"}
    full = trials("counters", engine="exact", depth="paper")
    assert {one.factors["geometry"] for one in full.values()} == {"paper", "here", "prefetch"}


@pytest.mark.parametrize("depth", ["quick", "normal", "paper"])
@pytest.mark.parametrize("engine", ["native", "vm", "exact"])
def test_every_cell_has_its_metrics(engine: Engine, depth: Depth) -> None:
    known = get("counters").metrics
    for one in trials("counters", engine=engine, depth=depth).values():
        cells = {(cell["bytes"], cell["stride"]) for cell in one.probe["cells"]}
        assert {(size, counters.STRIDE) for size in counters.SMALL_SIZES} <= cells
        for size, stride in cells:
            for mode in counters.MODES:
                assert counters.metric(mode, "l1d", size, stride) in known


def test_misses_of_a_thousand_instructions() -> None:
    known = get("counters").metrics["switch_l1d_16384_64_ki"]
    values = {"switch_l1d_16384_64": 30.0, "switch_instructions_16384_64": 1500.0}
    assert known.of(values) == 20.0
    assert known.of({"switch_l1d_16384_64": 30.0}) is None
    assert known.of({**values, "switch_instructions_16384_64": 0.0}) is None
