# SPDX-License-Identifier: Apache-2.0
"""The probes of study 002 by their protocol: all the work is done however it is cut, each
hand-over is counted, and the parts add up to the whole.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import probing
import pytest
from probing import CPUS, Record, fails, measure

TASKS = ("sort", "deflate", "aes", "crc")
PAIR_MODELS = ["pthread", "process", "uthread", "coroutine"]
INTERRUPT_MODELS = PAIR_MODELS[:-1]
SMALL: Record = {"sort_bytes": 16_384, "stream_bytes": 16_384, "evict_bytes": 65_536}
ROUNDS = 30
COLD_ROUNDS = 20  # at most: each walks the whole buffer


def pair(model: str = "pthread", **given: Any) -> Record:
    """A small trial; `given` replaces fields, None removes them."""
    trial: Record = {
        "schema": 1,
        "probe": "pair-overhead",
        "model": model,
        "task_a": "aes",
        "steps_a": 24,
        "task_b": "crc",
        "steps_b": 20,
        "n": 9,
        "repeat": 3,
        "rounds": ROUNDS,
        "cold": True,
        "cpus": CPUS[:1],
        "policy": "other",
        **SMALL,
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


def interrupt(model: str = "pthread", **given: Any) -> Record:
    trial = pair(model, task_b=None, steps_b=None)
    return {**trial, "probe": "interrupt-overhead", **given}


def handovers(n: int, repeat: int) -> int:
    """Of one before all, the two direct measurements, and the repetitions: A begins and ends
    each, so an odd number has one more, back to A."""

    def of(switches: int) -> int:
        return switches + switches % 2

    return of(n) + of(ROUNDS) + of(min(ROUNDS, COLD_ROUNDS)) + repeat * (of(1) + of(n))


@pytest.mark.parametrize("n", [1, 2, 9, 40])
@pytest.mark.parametrize("model", PAIR_MODELS)
def test_pair_counts_and_adds_up(probe: Path, model: str, n: int) -> None:
    made = measure(probe, pair(model, n=n))
    assert made["correct"] is True
    assert (made["n"], made["repeats"], made["handovers"]) == (n, 3, handovers(n, 3))
    assert made["experiment"] == "pair-overhead"
    for total, in_a, in_b, in_switches in made["r"] + made["rn"]:
        assert total == in_a + in_b + in_switches
        assert min(in_a, in_b, in_switches) > 0
    assert len(made["r"]) == len(made["rn"]) == 3
    parts = made["rn_a_ns"] + made["rn_b_ns"] + made["rn_switch_ns"]
    assert made["rn_ns"] == parts
    # I = R' - (R - C) - n C, and its three parts.
    c = made["c_cold_ns"]
    assert made["indirect_ns"] == made["rn_ns"] - (made["r_ns"] - c) - n * c
    assert made["direct_ns"] == n * c
    assert made["indirect_ns"] == (
        made["indirect_a_ns"] + made["indirect_b_ns"] + made["indirect_switch_ns"]
    )
    warm = made["c_warm_ns"]
    assert made["indirect_warm_ns"] == made["rn_ns"] - (made["r_ns"] - warm) - n * warm
    for name in ("c_cold", "c_warm"):
        assert 0 < made[f"{name}_min_ns"] <= made[f"{name}_ns"] <= made[f"{name}_max_ns"]


@pytest.mark.parametrize("trial", [pair(repeat=4), interrupt(repeat=4)], ids=["pair", "alone"])
def test_with_and_without_take_turns_at_being_first(probe: Path, trial: Record) -> None:
    made = measure(probe, trial)
    assert made["order"] == ["r rn", "rn r"] * 2
    # What a cycle takes: of any processor from 100 MHz to 10 GHz, disturbed or not.
    assert 100 <= made["cycle_ps"] <= 10_000


@pytest.mark.parametrize("trial", [pair(repeat=1), interrupt(repeat=1)], ids=["pair", "alone"])
def test_one_repetition_is_its_own_median(probe: Path, trial: Record) -> None:
    """What the tasks lost is the median of the parts' differences, not that of the sums."""
    made = measure(probe, trial)
    assert [made["r_ns"]] == [total for total, *_ in made["r"]]
    if trial["probe"] == "pair-overhead":
        assert [made["rn_switch_ns"]] == [switches for *_, switches in made["rn"]]


@pytest.mark.parametrize("n", [1, 2])
def test_what_comes_after_no_more_switches_loses_nothing(probe: Path, n: int) -> None:
    """A begins and ends; B begins after a switch in R, too. With one switch R' is R."""
    made = measure(probe, pair(n=n))
    assert made["indirect_b_ns"] == 0
    assert (made["indirect_a_ns"] == 0) >= (n == 1)


def test_a_part_is_a_quartile_over_the_repetitions(probe: Path) -> None:
    """Of two, the lower; so both together are less than either, or as much."""
    made = measure(probe, pair(repeat=2))
    assert made["r_ns"] <= min(total for total, *_ in made["r"])
    assert made["rn_switch_ns"] <= min(switches for *_, switches in made["rn"])


def test_the_work_does_not_depend_on_model_or_cut(probe: Path) -> None:
    """Same tasks, same number of steps: same result, whoever computed it in how many parts."""
    made = [measure(probe, pair(m, n=n)) for m in PAIR_MODELS for n in (1, 9)]
    assert len({(sample["digest_a"], sample["digest_b"]) for sample in made}) == 1
    other = measure(probe, pair(steps_a=25))
    assert other["digest_a"] != made[0]["digest_a"]
    assert other["digest_b"] == made[0]["digest_b"]
    # And an interrupted one computes what it does in company.
    assert measure(probe, interrupt())["digest_a"] == made[0]["digest_a"]


@pytest.mark.parametrize(("task_a", "task_b"), [*itertools.combinations(TASKS, 2), ("aes", "aes")])
def test_every_pair_of_tasks(probe: Path, task_a: str, task_b: str) -> None:
    made = measure(probe, pair(task_a=task_a, task_b=task_b))
    assert (made["task_a"], made["task_b"]) == (task_a, task_b)
    assert made["correct"] is True


def test_who_ran(probe: Path) -> None:
    by = {model: measure(probe, pair(model)) for model in PAIR_MODELS}
    for model, made in by.items():
        assert [thread["cpu"] for thread in made["threads"]] == CPUS[:1] * 2
        assert [thread["cpu_end"] for thread in made["threads"]] == CPUS[:1] * 2
        known = model in ("pthread", "process")
        assert ["nvcsw" in thread for thread in made["threads"]] == [known, known]
        assert len(made["carriers"]) == (0 if known else 1)
    # At least one switch a hand-over, but where one of them ended; the waker waits for its
    # turn or, with this policy, is preempted by whom it wakes.
    for model in ("pthread", "process"):
        switches = [thread["nvcsw"] + thread["nivcsw"] for thread in by[model]["threads"]]
        assert sum(switches) >= handovers(9, 3) - 2
    for model in ("uthread", "coroutine"):
        assert by[model]["switches"] >= handovers(9, 3)
    assert len({thread["pid"] for thread in by["pthread"]["threads"]}) == 1
    assert len({thread["pid"] for thread in by["process"]["threads"]}) == 2


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize("evict_bytes", [0, 65_536])
def test_cold_or_not(probe: Path, cold: bool, evict_bytes: int) -> None:
    made = measure(probe, pair(cold=cold, evict_bytes=evict_bytes))
    assert (made["cold"], made["correct"]) == (cold, True)


@pytest.mark.parametrize("n", [0, 1, 9, 49])
@pytest.mark.parametrize("model", INTERRUPT_MODELS)
def test_interrupts_count_and_add_up(probe: Path, model: str, n: int) -> None:
    """`correct` says too that each signal came before the next step."""
    made = measure(probe, interrupt(model, n=n))
    assert made["correct"] is True
    assert (made["n"], made["repeats"]) == (n, 3)
    assert made["experiment"] == "interrupt-overhead"
    for total, in_a, in_b, in_interrupts in made["r"] + made["rn"]:
        assert total == in_a + in_interrupts
        assert in_b == 0
    assert {in_interrupts > 0 for *_, in_interrupts in made["rn"]} == {n > 0}
    assert {in_interrupts for *_, in_interrupts in made["r"]} == {0}
    assert made["total_ns"] == made["rn_ns"] - made["r_ns"]
    assert made["indirect_ns"] == made["indirect_a_ns"] + made["indirect_interrupt_ns"]
    assert made["direct_ns"] == n * made["d_ns"]
    assert made["indirect_ns"] == made["total_ns"] - made["direct_ns"]
    assert made["d_net_ns"] == made["d_ns"] - made["base_ns"]
    assert len(made["threads"]) == 1
    assert "task_b" not in made and "handovers" not in made


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_interrupted(probe: Path, task: str) -> None:
    assert measure(probe, interrupt(task_a=task))["correct"] is True


def test_more_switches_than_steps(probe: Path) -> None:
    """Most stretches are empty then; that is a strange trial and not a wrong one."""
    made = measure(probe, pair(n=99, steps_a=1, steps_b=1))
    assert made["correct"] is True and made["handovers"] == handovers(99, 3)


def test_what_is_missing_has_defaults(probe: Path) -> None:
    made = measure(
        probe,
        pair(repeat=None, rounds=None, cold=None, sort_bytes=None, stream_bytes=None),
    )
    assert made["repeats"] == 5 and made["cold"] is True


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task_a", "quicksort"),
        ("task_a", None),
        ("task_b", 3),
        ("steps_a", 0),
        ("steps_b", 1_000_001),
        ("steps_b", "20"),
        ("n", 0),
        ("n", -1),
        ("n", 1001),
        ("n", None),
        ("repeat", 0),
        ("repeat", 101),
        ("rounds", 0),
        ("rounds", 10_001),
        ("evict_bytes", -1),
        ("evict_bytes", (1 << 30) + 1),
        ("stream_bytes", 1),
        ("stream_bytes", (64 << 20) + 16_384),
        ("model", "kthread"),
        ("model", "goroutine"),
        ("policy", "idle"),
        ("cpus", []),
    ],
)
def test_a_wrong_field_is_named(probe: Path, field: str, value: Any) -> None:
    record = fails(probe, pair(**{field: value}), field)
    assert field in record["what"]


@pytest.mark.parametrize("size", ["sort_bytes", "stream_bytes"])
def test_data_come_in_grains(probe: Path, size: str) -> None:
    task = "sort" if size == "sort_bytes" else "crc"
    sizes: Record = {size: 16_385}
    fails(probe, pair(task_a=task, **sizes), "bytes", "a multiple of 16384 bytes")


def test_a_cpu_that_is_not_there(probe: Path) -> None:
    fails(probe, pair(cpus=[8000]), "cpus", "8000")


def test_a_coroutine_alone_is_a_pthread(probe: Path) -> None:
    fails(probe, interrupt("coroutine"), "model", "one of pthread, process, uthread")


def test_too_much_for_the_memory(probe: Path) -> None:
    """A limit on address space, so that nobody else is disturbed."""
    import resource

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))

    for model in ("pthread", "process"):
        big = pair(model, evict_bytes=1 << 28)
        record = probing.run(probe, big, little)
        assert record.returncode == 2
        assert b"memory" in record.stdout.splitlines()[-1]
