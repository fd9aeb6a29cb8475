# SPDX-License-Identifier: Apache-2.0
"""The definitions of study 002: what is run, what a quick run leaves out, what is said of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from swtch.experiments import Setting, get, interrupt_overhead, pair_overhead
from swtch.records import Depth, Engine, Trial

NAMES = ("pair-overhead", "interrupt-overhead")


L1D, LLC = 48 << 10, 32 << 20


def setting(depth: Depth = "normal", engine: Engine = "native", **more: Any) -> Setting:
    every = ("pthread", "process", "kthread", "uthread", "coroutine")
    return Setting(
        cpus=(4, 7), models=more.pop("models", every), depth=depth, engine=engine, **more
    )


def trials(
    name: str, *, quick: bool = False, engine: Engine = "native", paper: bool = False
) -> list[Trial]:
    """On a machine that says how large its caches are; guests are emulated and have none."""
    depth: Depth = "quick" if quick else "paper" if paper else "normal"
    caches = {"l1d_bytes": L1D, "llc_bytes": LLC} if engine == "native" else {}
    return list(get(name).trials(setting(depth, engine, **caches)))


def test_all_six_pairs_of_the_four_tasks() -> None:
    made = trials("pair-overhead")
    pairs = {str(one.factors["pair"]) for one in made}
    assert {frozenset(pair.split("+")) for pair in pairs} == {
        frozenset((a, b)) for a in pair_overhead.STEPS for b in pair_overhead.STEPS if a < b
    }
    # Each with every number of switches and every kind of thread.
    kinds = Counter((one.model, one.factors["space"]) for one in made)
    assert kinds == dict.fromkeys(
        [
            ("pthread", "shared"),
            ("process", "own"),
            ("kthread", "none"),
            ("kthread", "own"),
            ("uthread", "shared"),
            ("coroutine", "shared"),
        ],
        len(pairs) * len(pair_overhead.SWITCHES),
    )
    assert all(one.note == "" for one in made)
    assert max(pair_overhead.SWITCHES) == 99


def test_all_four_tasks_are_interrupted() -> None:
    made = trials("interrupt-overhead")
    assert {one.factors["task"] for one in made} == set(pair_overhead.STEPS)
    assert {one.factors["n"] for one in made} == {9, 24, 49}
    assert "coroutine" not in {one.model for one in made}
    assert all("task_b" not in one.probe for one in made)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", ["native", "vm", "exact"])
@pytest.mark.parametrize("quick", [False, True])
def test_a_trial_says_what_it_does(name: str, engine: Engine, quick: bool) -> None:
    made = trials(name, engine=engine, quick=quick)
    assert len({one.id for one in made}) == len(made)
    for one in made:
        assert one.probe["probe"] == name and one.probe["model"] == one.model
        assert one.probe["n"] == one.factors["n"]
        assert one.probe["cpus"] == [4]  # one CPU for both tasks
        assert one.probe["repeat"] % 2 == 1
        # At least a step for each part of a task.
        n = int(one.probe["n"])
        parts = n // 2 + 1 if name == "pair-overhead" else n + 1
        for letter in "ab":
            task = one.factors.get(f"task_{letter}") or one.factors.get("task")
            if f"task_{letter}" in one.probe:
                assert one.probe[f"task_{letter}"] == task
                assert one.probe[f"steps_{letter}"] >= parts
        if one.model == "kthread":
            assert one.probe["policy"] == one.factors["policy"] == "fifo"
            assert bool(one.probe.get("mm")) == (one.factors.get("space") == "own")
        else:
            assert one.probe["policy"] == "batch" and "mm" not in one.probe
        assert (one.probe.get("tick_ns") == 0) == (one.model == "uthread")


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_keeps_what_the_claims_need(name: str) -> None:
    """Two numbers, the study's largest among them, and every task; of what no verdict is about,
    the largest is enough."""
    all_of, quick = trials(name), trials(name, quick=True)
    assert {one.id for one in quick} < {one.id for one in all_of}
    most = max(int(str(one.factors["n"])) for one in all_of)
    for model in get(name).models:
        numbers = {one.factors["n"] for one in quick if one.model == model}
        assert numbers == ({9, most} if model in ("process", "kthread") else {most})
    if name == "pair-overhead":
        tasks = {task for one in quick for task in str(one.factors["pair"]).split("+")}
        assert tasks == set(pair_overhead.STEPS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", ["native", "vm", "exact"])
@pytest.mark.parametrize("depth", ["quick", "normal", "paper"])
def test_what_is_shortened_stands_once_and_in_no_note(
    name: str, engine: Engine, depth: Depth
) -> None:
    caches = {"l1d_bytes": L1D, "llc_bytes": LLC} if engine == "native" else {}
    one = setting(depth, engine, **caches)
    line = get(name).shortened(one)
    assert (line == "") == (engine == "native" and depth == "paper")
    assert "\n" not in line and not line.endswith(".")
    assert not any(trial.note for trial in get(name).trials(one))


@pytest.mark.parametrize("name", NAMES)
def test_a_guest_at_a_quick_run_has_what_nobody_else_has(name: str) -> None:
    quick = trials(name, quick=True, engine="vm")
    assert len(quick) == 4
    assert {(one.model, one.factors.get("space", "own")) for one in quick} == {("kthread", "own")}
    assert {one.probe["repeat"] for one in quick} == {pair_overhead.GUEST_QUICK_REPEAT}
    without = get(name).trials(setting("quick", "vm", models=("process",)))
    assert {one.model for one in without} == {"process"}


# ---- as the study did it ----


def test_the_papers_numbers_make_its_curves() -> None:
    numbers = {one.factors["n"] for one in trials("pair-overhead", paper=True)}
    assert numbers == {1, 9, 19, 29, 39, 49, 59, 69, 79, 89, 99}
    numbers = {one.factors["n"] for one in trials("interrupt-overhead", paper=True)}
    assert numbers == {4, 9, 14, 19, 24, 29, 34, 39, 44, 49}


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_work_is_as_long_as_the_studys(name: str) -> None:
    """A task of 3.64 s of 120 MHz are 437 million cycles: thirty times 4 ms of 3.6 GHz."""
    usual = {one.id: one.probe for one in trials(name)}
    for one in trials(name, paper=True):
        if one.id not in usual:
            continue
        assert one.probe["steps_a"] == 30 * usual[one.id]["steps_a"]
        assert one.probe["repeat"] == 5


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", ["quick", "normal", "paper"])
@pytest.mark.parametrize(
    ("l1d", "sort"),
    [(0, 32 << 10), (32 << 10, 32 << 10), (48 << 10, 48 << 10), (2 << 20, 1 << 20), (100, 32768)],
)
def test_the_sort_fills_the_first_cache(name: str, depth: Depth, l1d: int, sort: int) -> None:
    for one in get(name).trials(setting(depth, l1d_bytes=l1d)):
        assert one.probe["sort_bytes"] == sort


def test_a_quick_trial_of_few_is_measured_half_as_often() -> None:
    for name, most, often in (("pair-overhead", 99, 21), ("interrupt-overhead", 49, 41)):
        for depth, few in (("quick", (often + 1) // 2), ("normal", often), ("paper", 5)):
            for one in get(name).trials(setting(depth, llc_bytes=LLC)):
                last = 5 if depth == "paper" else often
                assert one.probe["repeat"] == (last if one.factors["n"] == most else few)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("llc", "usual", "paper", "note"),
    [
        (0, 16 << 20, 80 << 20, ""),  # it does not say: more than most have
        (8 << 20, 10 << 20, 10 << 20, ""),
        (260 << 20, 16 << 20, 325 << 20, ""),
        (1152 << 20, 16 << 20, 1 << 30, "too large to be evicted"),
    ],
)
def test_eviction_goes_beyond_the_last_cache(
    name: str, llc: int, usual: int, paper: int, note: str
) -> None:
    quick = pair_overhead.QUICK_EVICT_BYTES  # less than any of these
    for depth, expected in (("quick", quick), ("normal", usual), ("paper", paper)):
        for one in get(name).trials(setting(depth, llc_bytes=llc)):
            assert one.probe["evict_bytes"] == expected
            assert (note in one.note) if depth == "paper" else not one.note


@pytest.mark.parametrize("name", NAMES)
def test_a_guest_with_a_processor_of_its_own_does_what_the_study_did(name: str) -> None:
    """Under KVM there are caches; an emulated processor has none, and is too slow."""
    real = get(name).trials(setting("paper", "vm", llc_bytes=LLC, l1d_bytes=L1D))
    emulated = get(name).trials(setting("paper", "vm"))
    assert {one.probe["evict_bytes"] for one in real} == {LLC // 4 * 5}
    assert {one.probe["evict_bytes"] for one in emulated} == {2 << 20}
    assert len(real) > len(emulated)


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_engine_has_fewer(name: str) -> None:
    assert len(trials(name, engine="exact")) < len(trials(name, engine="vm")) / 2


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_asked_for(name: str) -> None:
    assert {one.model for one in get(name).trials(setting(models=("uthread",)))} == {"uthread"}


def test_some_published_figures_are_only_bounds() -> None:
    figures = get("pair-overhead").published
    signs = {
        case: known.sign for (case, _, metric), known in figures.items() if metric == "share_us"
    }
    assert signs == {
        "crc": "≤ ",
        "sort": "",
        "aes": "≤ ",
        "aes, least": "≥ ",
        "deflate": "≤ ",
        "deflate, least": "≥ ",
    }
    assert figures["aes", "kthread", "share_us"].value == 8_000
    assert figures["aes, least", "kthread", "share_us"].value == 6_000


def test_published_figures_name_their_place_in_the_paper() -> None:
    figures = {**get("pair-overhead").published, **get("interrupt-overhead").published}
    assert figures["C", "kthread", "direct_us"].value == 48
    assert figures["aes+deflate", "kthread", "indirect_percent"].value == 0.18
    assert figures["sort", "kthread", "run_s"].value == 3.64
    assert all("study 002, section" in one.source for one in figures.values())


# ---- metrics ----

PAIR = {
    "r": 8_010,
    "rn": 9_000,
    "c_cold": 10,
    "c_warm": 4,
    "direct": 990,
    "indirect": 10,
    "indirect_warm": 598,
    "indirect_a": 30,
    "indirect_b": 40,
    "indirect_switch": -60,
    "rn_switch": 930,
}


def computed(name: str, values: dict[str, int]) -> dict[str, float]:
    found = {key: metric.of(values) for key, metric in get(name).metrics.items()}
    return {key: value for key, value in found.items() if value is not None}


def test_metrics_of_a_pair() -> None:
    made = computed("pair-overhead", {f"{key}_ns": value for key, value in PAIR.items()})
    assert made["direct_us"] == pytest.approx(0.010)
    assert made["indirect_us"] == pytest.approx(0.010)
    assert made["indirect_warm_us"] == pytest.approx(0.598)
    assert made["share_a_us"] + made["share_b_us"] + made["inflation_us"] == pytest.approx(0.010)
    # No C in these: A + B, all switches, and of the tasks by themselves the share.
    assert made["lost_us"] == pytest.approx(0.070)
    assert made["switches_us"] == pytest.approx(0.930)
    assert made["added_us"] == pytest.approx(1.0)
    assert made["added_percent"] == pytest.approx(100 * 1000 / 8000)
    assert made["excess_us"] == pytest.approx(-0.86)
    assert not any("instructions" in key or "cycles" in key for key in made)


@pytest.mark.parametrize("name", NAMES)
def test_a_time_in_cycles(name: str) -> None:
    """1 us of 2 GHz: 2 000 cycles."""
    values = {"cycle_ps": 500, "indirect_a_ns": 100, "indirect_b_ns": 200, "rn_switch_ns": 700}
    values |= {"total_ns": 1_000, "indirect_ns": 300, "rn_ns": 9_000, "r_ns": 8_000}
    made = computed(name, values)
    assert made["added_kilocycles"] == pytest.approx(2.0)
    part = "lost_kilocycles" if name == "pair-overhead" else "indirect_kilocycles"
    assert made[part] == pytest.approx(0.6)
    assert "added_kilocycles" not in computed(name, {**values, "cycle_ps": 0})


def test_metrics_of_an_interrupted_task() -> None:
    values = {
        "r": 4_000,
        "rn": 4_250,
        "d": 4,
        "base": 1,
        "d_net": 3,
        "total": 250,
        "direct": 196,
        "indirect": 54,
        "indirect_a": 44,
        "indirect_interrupt": 10,
    }
    made = computed("interrupt-overhead", {f"{key}_ns": value for key, value in values.items()})
    assert made["added_us"] == pytest.approx(0.25)
    assert made["added_percent"] == pytest.approx(6.25)
    assert made["share_us"] + made["inflation_us"] == made["indirect_us"] == pytest.approx(0.054)
    assert made["excess_us"] == pytest.approx(0.142)
    assert made["net_us"] == pytest.approx(0.003)


@pytest.mark.parametrize("name", NAMES)
def test_instructions_are_kept_apart_from_times(name: str) -> None:
    values = {f"{key}_instructions": value for key, value in PAIR.items()}
    values |= {"d_instructions": 5, "total_instructions": 990}
    made = computed(name, values)
    assert made["indirect_instructions"] == 10
    assert made["excess_instructions"] == (-860 if name == "pair-overhead" else 980)
    assert made["added_percent"] > 0
    assert not any(key.endswith(("_us", "_ms")) for key in made)
    for key, metric in get(name).metrics.items():
        assert ("instructions" in metric.unit) == key.endswith(("_instructions", "_mi"))


def test_a_trial_too_short_for_the_clock_has_no_shares() -> None:
    nothing = dict.fromkeys([f"{key}_ns" for key in PAIR] + ["rn_switch_ns", "n"], 0)
    made = computed("pair-overhead", nothing)
    assert made["indirect_us"] == 0
    assert "added_percent" not in made and "between_us" not in made
    assert "added_percent" not in computed("interrupt-overhead", {"total_ns": 0, "r_ns": 0})


def test_nothing_is_made_of_nothing() -> None:
    for name in NAMES:
        assert computed(name, {}) == {}
    assert interrupt_overhead.MOST == 49
