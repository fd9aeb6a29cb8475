# SPDX-License-Identifier: Apache-2.0
"""The real swtch-probe by its protocol: every model and intervention, charts, signals.

Nothing here depends on how fast the machine is. What the kernel may do on its
own (a switch more, a thread moved) is given room; what is exact is exact.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probing import (
    COROUTINES,
    CPUS,
    INTERVENTIONS,
    KERNEL_MODELS,
    LIMIT_S,
    MODELS,
    USER_MODELS,
    Record,
    Running,
    fails,
    gantt,
    measure,
    run,
    scenario,
)

from swtch.engines.native import find_probe
from swtch.experiments import Setting, get
from swtch.experiments.coroutine_gantt import FINISHED, SLOTS
from swtch.records import Model

# ---- scenario: in turn with another ----


@pytest.mark.parametrize("counter", ["shared", "own"])
@pytest.mark.parametrize("model", MODELS)
def test_a_reference_is_done_on_both_sides_of_each_round(
    probe: Path, model: str, counter: str
) -> None:
    reference = {"threads": 3, "iterations": 2000, "every": 500}
    given = {"rounds": 4, "counter": counter, "intervention": "yield", "iterations": 5000}
    sample = measure(probe, scenario(model, reference=reference, threads=2, **given))
    assert sample["counter"] == sample["expected"] == 2 * 5000
    assert sample["reference_counter"] == 3 * 2000
    assert len(sample["round_times_ns"]) == len(sample["round_cpu_ns"]) == 4
    assert len(sample["reference_times_ns"]) == len(sample["reference_cpu_ns"]) == 5
    assert min(sample["round_cpu_ns"] + sample["reference_cpu_ns"]) > 0
    assert len(sample["threads"]) == 2


def test_without_a_reference_there_is_none(probe: Path) -> None:
    sample = measure(probe, scenario(rounds=2))
    assert "reference_cpu_ns" not in sample and len(sample["round_cpu_ns"]) == 2


@pytest.mark.parametrize("reference", [{}, {"threads": 0, "iterations": 1, "every": 1}])
def test_a_reference_is_read_as_the_trial_is(probe: Path, reference: Any) -> None:
    fails(probe, scenario(reference=reference, intervention="none"), "threads")


@pytest.mark.parametrize("reference", [5, [], "x", None])
def test_a_reference_is_an_object(probe: Path, reference: Any) -> None:
    trial = scenario(intervention="none")
    fails(probe, {**trial, "reference": reference}, "reference")


# ---- scenario: every model ----


@pytest.mark.parametrize("intervention", INTERVENTIONS)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_with_every_intervention(probe: Path, model: str, intervention: str) -> None:
    sample = measure(probe, scenario(model, intervention=intervention))
    assert sample["model"] == model
    assert sample["policy"] == "other"
    assert sample["counter"] == sample["expected"] == 40_000
    threads = sample["threads"]
    assert [thread["index"] for thread in threads] == [0, 1, 2, 3]
    assert [thread["cpu"] for thread in threads] == [CPUS[i % len(CPUS[:2])] for i in range(4)]
    assert all(thread["cpu_end"] == thread["cpu"] for thread in threads)
    assert all(0 < thread["start_ns"] <= thread["end_ns"] for thread in threads)
    wall = max(t["end_ns"] for t in threads) - min(t["start_ns"] for t in threads)
    assert sample["wall_ns"] == wall > 0
    assert sample["minflt"] >= 0 and sample["majflt"] >= 0


@pytest.mark.parametrize("threads", [1, 4, 32])
@pytest.mark.parametrize("model", MODELS)
def test_the_counter_is_exact_with_any_number_of_threads(
    probe: Path, model: str, threads: int
) -> None:
    """7 does not divide 10 001: the last stretch of each thread is a short one."""
    for intervention in ("yield", "sleep"):
        trial = scenario(
            model, threads=threads, iterations=10_001, every=777, intervention=intervention
        )
        sample = measure(probe, trial)
        assert sample["counter"] == sample["expected"] == threads * 10_001
        assert len(sample["threads"]) == threads
        assert len({thread["tid"] for thread in sample["threads"]}) == threads


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "given",
    [
        {"iterations": 1, "every": 1},
        {"iterations": 1, "every": 10**12},
        {"iterations": 5, "every": 5},
        {"sleep_ns": None, "intervention": "sleep"},
        {"sleep_ns": 0, "intervention": "sleep"},
        {"seed": None},
        {"unknown": {"to": ["this", "probe"]}},
    ],
    ids=str,
)
def test_edges_of_a_good_trial(probe: Path, model: str, given: Record) -> None:
    trial = scenario(model, **given)
    sample = measure(probe, trial)
    assert sample["counter"] == sample["expected"] == 4 * trial["iterations"]


@pytest.mark.parametrize("model", MODELS)
def test_own_counters_are_added_up(probe: Path, model: str) -> None:
    for intervention in ("none", "yield"):
        trial = scenario(model, counter="own", intervention=intervention, iterations=10_001)
        sample = measure(probe, trial)
        assert sample["counter"] == sample["expected"] == 40_004


# ---- scenario: several in a row ----


@pytest.mark.parametrize("counter", ["shared", "own"])
@pytest.mark.parametrize("model", MODELS)
def test_the_sample_is_the_round_of_median_time(probe: Path, model: str, counter: str) -> None:
    """Whole, and its counter its own: no round adds to that of another."""
    trial = scenario(model, rounds=5, counter=counter, intervention="yield")
    sample = measure(probe, trial)
    times = sample["round_times_ns"]
    assert len(times) == 5 and all(time > 0 for time in times)
    assert sample["wall_ns"] == statistics.median(times)
    threads = sample["threads"]
    wall = max(t["end_ns"] for t in threads) - min(t["start_ns"] for t in threads)
    assert wall == sample["wall_ns"]
    assert sample["counter"] == sample["expected"] == 40_000


@pytest.mark.parametrize(("rounds", "place"), [(None, 0), (1, 0), (2, 0), (4, 1)])
def test_of_an_even_number_it_is_the_faster(probe: Path, rounds: int | None, place: int) -> None:
    sample = measure(probe, scenario(rounds=rounds, intervention="none"))
    times = sorted(sample["round_times_ns"])
    assert len(times) == (rounds or 1) and sample["wall_ns"] == times[place]


def test_switches_are_those_of_one_round(probe: Path) -> None:
    """In and out for each of the four yields in ten thousand additions, not for those of all."""
    one = measure(probe, scenario("coroutine", every=2500))
    five = measure(probe, scenario("coroutine", every=2500, rounds=5))
    assert five["switches"] == one["switches"]


@pytest.mark.parametrize("rounds", [0, -1, 1000, "5"])
def test_a_number_of_rounds_has_bounds(probe: Path, rounds: Any) -> None:
    fails(probe, scenario(rounds=rounds), "rounds")


@pytest.mark.parametrize("model", ["coroutine", "ucontext"])
def test_between_work_there_is_one_yield_less(probe: Path, model: str) -> None:
    """In and out for each yield, and once for each coroutine."""
    for between, yields in ((False, 10), (True, 9)):
        trial = scenario(model, cpus=CPUS[:1], between=between)
        assert measure(probe, trial)["switches"] == 2 * 4 * (yields + 1)


# ---- who is who ----


def test_pthreads_share_a_pid_and_differ_in_tid(probe: Path) -> None:
    sample = measure(probe, scenario("pthread"))
    threads = sample["threads"]
    assert {thread["pid"] for thread in threads} == {sample["pid"]}
    assert len({thread["tid"] for thread in threads} | {sample["pid"]}) == 5
    assert sample["carriers"] == []
    assert sample["switches"] == 0


def test_processes_are_their_own(probe: Path) -> None:
    if "process" not in MODELS:
        return  # no experiment has them yet
    sample = measure(probe, scenario("process"))
    threads = sample["threads"]
    assert all(thread["pid"] == thread["tid"] for thread in threads)
    assert len({thread["pid"] for thread in threads} | {sample["pid"]}) == 5
    assert sample["carriers"] == []
    assert sample["switches"] == 0


@pytest.mark.parametrize("cpus", [CPUS[:1], CPUS[:2]], ids=["one", "two"])
@pytest.mark.parametrize("model", USER_MODELS)
def test_the_kernel_knows_the_carriers_only(probe: Path, model: str, cpus: list[int]) -> None:
    # Between carriers nobody need be ready at a yield: of two that the barrier wakes one
    # may be done before the other is awake. Who sleeps leaves its carrier whoever is.
    how = "sleep" if model == "uthread" and len(cpus) > 1 else "yield"
    sample = measure(probe, scenario(model, cpus=cpus, intervention=how))
    counters = {"nvcsw", "nivcsw", "utime_ns", "stime_ns", "cpu_ns"}
    for thread in sample["threads"]:
        assert thread["pid"] == sample["pid"]
        assert all(thread.get(name) is None for name in counters)
    carriers = sample["carriers"]
    assert [carrier["index"] for carrier in carriers] == list(range(len(cpus)))
    assert [carrier["cpu"] for carrier in carriers] == cpus
    assert len({carrier["tid"] for carrier in carriers}) == len(cpus)
    for carrier in carriers:
        assert all(carrier[name] >= 0 for name in counters)
    # Each of 4 threads intervenes 10 times, and leaves its carrier at each.
    assert sample["switches"] >= 40


@pytest.mark.parametrize("model", COROUTINES)
def test_coroutines_number_themselves_and_switch_exactly(probe: Path, model: str) -> None:
    """In and out for each stretch between two yields: the same number every time."""
    for threads in (1, 4):
        sample = measure(probe, scenario(model, threads=threads, cpus=CPUS[:1]))
        assert [thread["tid"] for thread in sample["threads"]] == list(range(threads))
        assert len(sample["carriers"]) == 1
        assert sample["switches"] == threads * (10 + 1) * 2


@pytest.mark.parametrize("model", MODELS)
def test_one_cpu_is_one_cpu(probe: Path, model: str) -> None:
    """Also one that is not the first allowed."""
    sample = measure(probe, scenario(model, cpus=CPUS[-1:]))
    assert {thread["cpu_end"] for thread in sample["threads"]} == {CPUS[-1]}
    assert {carrier["cpu"] for carrier in sample["carriers"]} <= {CPUS[-1]}


# ---- what the kernel counts ----


def counted(probe: Path, trial: Record, field: str, times: int = 5) -> float:
    """The median over invocations of a counter's total: a noisy machine spoils one or two."""
    totals = []
    for _ in range(times):
        sample = measure(probe, trial)
        totals.append(sum(record[field] for record in sample["threads"] or sample["carriers"]))
    return float(statistics.median(totals))


@pytest.mark.parametrize("intervention", ["none", "yield"])
@pytest.mark.parametrize("model", KERNEL_MODELS)
def test_who_does_not_sleep_does_not_switch_voluntarily(
    probe: Path, model: str, intervention: str
) -> None:
    trial = scenario(model, intervention=intervention, cpus=CPUS[:1])
    assert counted(probe, trial, "nvcsw") == 0


@pytest.mark.parametrize("model", KERNEL_MODELS)
def test_a_sleep_is_a_voluntary_switch(probe: Path, model: str) -> None:
    """10 sleeps of each of 4 threads; a timer may be up before its thread has gone to sleep."""
    trial = scenario(model, intervention="sleep", sleep_ns=200_000)
    assert 20 <= counted(probe, trial, "nvcsw", times=3) <= 60


@pytest.mark.parametrize("model", USER_MODELS)
def test_when_all_sleep_the_carrier_sleeps(probe: Path, model: str) -> None:
    sample = measure(probe, scenario(model, intervention="sleep", sleep_ns=500_000, cpus=CPUS[:1]))
    (carrier,) = sample["carriers"]
    assert carrier["nvcsw"] >= 1
    assert sample["wall_ns"] >= 10 * 500_000


@pytest.mark.parametrize("model", MODELS)
def test_a_sleep_is_not_shorter_than_asked(probe: Path, model: str) -> None:
    for threads in (1, 4):
        trial = scenario(
            model, threads=threads, intervention="sleep", sleep_ns=1_000_000, cpus=CPUS[:1]
        )
        for thread in measure(probe, trial)["threads"]:
            assert thread["end_ns"] - thread["start_ns"] >= 10 * 1_000_000


# ---- policies ----


@pytest.fixture
def start(probe: Path) -> Iterator[Callable[[Record], Running]]:
    """Starts a probe that works until it is told to stop."""
    started: list[Running] = []

    def begin(trial: Record) -> Running:
        started.append(Running(probe, trial))
        return started[-1]

    yield begin
    for running in started:
        running.end()


def endless(model: str, **given: Any) -> Record:
    return scenario(model, iterations=10**12, every=10_000, **given)


@pytest.mark.parametrize(
    ("policy", "number"), [("other", os.SCHED_OTHER), ("batch", os.SCHED_BATCH)]
)
@pytest.mark.parametrize("model", MODELS)
def test_a_policy_is_every_threads(
    start: Callable[[Record], Running], probe: Path, model: str, policy: str, number: int
) -> None:
    assert measure(probe, scenario(model, policy=policy))["policy"] == policy
    running = start(endless(model, policy=policy, threads=2))
    running.wait_for(lambda: running.busy_ticks() > 2)
    found = [os.sched_getscheduler(thread) for thread in running.threads()]
    assert set(found) == {number}


def test_fifo_works_or_is_refused_in_one_line(probe: Path) -> None:
    """As the kernel decides; a container's root often may not."""
    trial = scenario("pthread", policy="fifo", iterations=100, every=10)
    if run(probe, trial).returncode == 0:
        assert measure(probe, trial)["policy"] == "fifo"
    else:
        error = fails(probe, trial, "policy", "the kernel refuses SCHED_FIFO")
        assert "or use batch" in error["what"]


# ---- gantt ----


def chart(
    work: Sequence[int], order: str, priorities: Sequence[int], slices: Sequence[int]
) -> tuple[list[tuple[int, int]], list[int]]:
    """Who has which slot, and who finishes when: the scheduler in a few lines."""
    ready = deque(range(len(work)))
    done = [0] * len(work)
    slots: list[tuple[int, int]] = []
    finished: list[int] = []
    while ready:
        # The first of those with the highest priority; FIFO otherwise.
        task = max(ready, key=lambda t: priorities[t]) if order == "priority" else ready[0]
        ready.remove(task)
        for _ in range(slices[task] if order == "time-slice" else 1):
            done[task] += 1
            slots.append((task, done[task]))
            if done[task] == work[task]:
                break
        if done[task] < work[task]:
            ready.append(task)
        else:
            finished.append(task)
    return slots, finished


def check_chart(sample: Record, trial: Record) -> None:
    work = trial["work"]
    n = len(work)
    slots, finished = chart(
        work,
        trial["order"],
        trial.get("priorities") or [0] * n,
        trial.get("slices") or [1] * n,
    )
    assert [slot["slot"] for slot in sample["slots"]] == list(range(sum(work)))
    assert [(slot["task"], slot["iteration"]) for slot in sample["slots"]] == slots
    assert sample["finished"] == finished
    assert (sample["model"], sample["order"]) == (trial["model"], trial["order"])
    assert sample["switches"] == 2 * sum(work)
    assert sample["stacks_created"] == n
    assert sample["stacks_reused"] == (n if trial.get("pool", True) else 0)
    assert sample["wall_ns"] > 0
    assert sample["overflow_detected"] is True


@pytest.mark.parametrize("model", COROUTINES)
def test_the_published_chart(probe: Path, model: str) -> None:
    sample = measure(probe, gantt(model))
    assert [slot["task"] for slot in sample["slots"]] == list(SLOTS)
    assert sample["finished"] == list(FINISHED)


@pytest.mark.parametrize("model", COROUTINES)
def test_every_trial_of_the_experiment(probe: Path, model: Model) -> None:
    for trial in get("coroutine-gantt").trials(Setting(cpus=(0,), models=(model,))):
        check_chart(measure(probe, trial.probe), trial.probe)


COUNTS = st.integers(1, 9)
CHARTS = st.integers(1, 8).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            "model": st.sampled_from(COROUTINES),
            "work": st.lists(COUNTS, min_size=n, max_size=n),
            "order": st.sampled_from(["round-robin", "priority", "time-slice"]),
            "priorities": st.none() | st.lists(st.integers(-3, 3), min_size=n, max_size=n),
            "slices": st.none() | st.lists(COUNTS, min_size=n, max_size=n),
            "stack_bytes": st.sampled_from([None, 8192, 65536, 1 << 20]),
            "pool": st.sampled_from([None, True, False]),
        }
    )
)


@settings(max_examples=40, deadline=None)
@given(told=CHARTS)
def test_any_chart_is_the_schedulers(told: Record) -> None:
    trial = gantt(**told)
    check_chart(measure(find_probe(), trial), trial)


def test_a_full_house(probe: Path) -> None:
    trial = gantt(work=[40] * 64, order="time-slice", slices=[10_000] * 64, stack_bytes=8192)
    check_chart(measure(probe, trial), trial)


# ---- signals ----


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("intervention", ["yield", "sleep"])
@pytest.mark.parametrize("model", MODELS)
def test_a_signal_ends_it_and_leaves_no_process(
    start: Callable[[Record], Running], model: str, intervention: str, number: signal.Signals
) -> None:
    running = start(endless(model, intervention=intervention))
    running.wait_for(lambda: running.busy_ticks() > 2)
    os.kill(running.process.pid, number)
    assert running.process.wait(LIMIT_S) == -number
    deadline = time.monotonic() + LIMIT_S
    while running.members():
        assert time.monotonic() < deadline, f"left behind: {running.members()}"
        time.sleep(0.01)
    assert running.process.stdout is not None
    assert running.process.stdout.read() == b""
