# SPDX-License-Identifier: Apache-2.0
"""The definitions of study 002: what is run, what a quick run leaves out, what is said of it."""

from __future__ import annotations

from collections import Counter

import pytest

from swtch.experiments import Setting, get, interrupt_overhead, pair_overhead
from swtch.records import Engine, Trial

NAMES = ("pair-overhead", "interrupt-overhead")


def trials(
    name: str, *, quick: bool = False, engine: Engine = "native", cpus: tuple[int, ...] = (4, 7)
) -> list[Trial]:
    setting = Setting(
        cpus=cpus, models=get(name).models, depth="quick" if quick else "normal", engine=engine
    )
    return list(get(name).trials(setting))


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
    """Two numbers, the study's largest among them, and every task; and it says what is left out."""
    all_of, made = trials(name), trials(name, quick=True)
    assert {one.id for one in made} < {one.id for one in all_of}
    assert len({one.factors["n"] for one in made}) == 2
    assert max(int(str(one.factors["n"])) for one in made) == max(
        int(str(one.factors["n"])) for one in all_of
    )
    assert all(one.note.startswith("quick: two of the study's") for one in made)
    if name == "pair-overhead":
        tasks = {task for one in made for task in str(one.factors["pair"]).split("+")}
        assert tasks == set(pair_overhead.STEPS)


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_engine_has_fewer_and_says_why(name: str) -> None:
    made = trials(name, engine="exact")
    assert len(made) < len(trials(name, engine="vm")) / 2
    assert all("each invocation is a boot" in one.note for one in made)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_asked_for(name: str) -> None:
    setting = Setting(cpus=(0, 1), models=("uthread",))
    assert {one.model for one in get(name).trials(setting)} == {"uthread"}


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
    # R' - (R - C), and of R - C the share
    assert made["added_us"] == pytest.approx(1.0)
    assert made["added_percent"] == pytest.approx(100 * 1000 / 8000)
    assert made["excess_us"] == pytest.approx(-0.98)
    assert not any("instructions" in key for key in made)


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
    assert made["excess_instructions"] == (-980 if name == "pair-overhead" else 980)
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


@pytest.mark.parametrize("name", ["pair-overhead", "interrupt-overhead"])
def test_a_quick_run_in_a_guest_has_what_the_kernel_knows(name: str) -> None:
    made = trials(name, quick=True, engine="vm")
    assert {one.model for one in made} == {"process", "kthread"}
    assert all("in the guest kernel threads and processes" in one.note for one in made)
    assert {one.probe["repeat"] for one in made} == {pair_overhead.GUEST_QUICK_REPEAT}
