# SPDX-License-Identifier: Apache-2.0
"""The probes of study 003 by their protocol: what they count is exact, what is wrong is said.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from swtch.analysis import gates
from swtch.engines import PEERS
from swtch.engines.native import find_probe
from swtch.engines.protocol import Result, read_result
from swtch.experiments import get
from swtch.experiments.uthread_scaling import METRICS
from swtch.records import Trial

LIMIT_S = 120  # only ever reached by a probe that hangs
CPUS = sorted(os.sched_getaffinity(0))[:2]

# Another program on that CPU, which ends by itself if nobody ends it.
SPIN = """
import os, signal
signal.alarm({limit})
os.sched_setaffinity(0, [{cpu}])
print("there", flush=True)
while True:
    pass
"""

Record = dict[str, Any]


@pytest.fixture(scope="session")
def probe() -> Path:
    """The measuring program; without it there is nothing to test, which is a failure."""
    return find_probe()


def perform(probe: Path, trial: Record) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(probe)], input=json.dumps(trial).encode(), capture_output=True, timeout=LIMIT_S
    )


def measure(probe: Path, trial: Record) -> Result:
    """What the lab makes of the trial."""
    done = perform(probe, trial)
    of = Trial(
        id="t", experiment="x", model=trial["model"], engine="native", factors={}, probe=trial
    )
    return read_result(done.stdout, done.returncode, of)


def error(probe: Path, trial: Record) -> Record:
    """The one error record of a trial that cannot be."""
    done = perform(probe, trial)
    assert done.returncode == 2, done.stdout
    hello, record = map(json.loads, done.stdout.splitlines())
    assert (hello["kind"], record["kind"]) == ("hello", "error")
    assert record["where"] and "\n" not in record["what"]
    return dict(record)


# ---- scaling ----


def scaling(model: str = "uthread", **given: Any) -> Record:
    """A small trial; `given` replaces fields, None removes them."""
    trial: Record = {
        "schema": 1,
        "probe": "scaling",
        "model": model,
        "threads": 500,
        "iterations": 2000,
        "cpus": CPUS,
        "policy": "other",
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


@pytest.mark.parametrize("cpus", [CPUS[:1], CPUS], ids=["one", "all"])
@pytest.mark.parametrize("kind", ["pthread", "uthread", "alone"])
def test_every_thread_counts(probe: Path, kind: str, cpus: list[int]) -> None:
    model = "uthread" if kind == "uthread" else "pthread"
    made = measure(probe, scaling(model, alone=kind == "alone", cpus=cpus))
    values = made.values
    assert values["counter"] == values["expected"] == 500 * 2000
    assert values["created"] == 500
    assert 0 <= values["live"] <= 500
    assert 0 <= values["create_ns"] <= values["wall_ns"]
    assert values["cpu_ns"] >= 0 and values["maxrss_kb"] > 0
    assert ("ticks" in values) == (kind == "uthread")
    if kind == "uthread":
        assert values["workers"] == len(cpus)
        assert values["switches"] >= 500
    assert get("uthread-scaling").metrics == METRICS


@pytest.mark.parametrize("cpus", [CPUS[:1], CPUS], ids=["one", "all"])
def test_uthreads_do_the_same_on_both_sides(probe: Path, cpus: list[int]) -> None:
    made = measure(probe, scaling("pthread", cpus=cpus, reference={"tick_ns": 1_000_000}))
    assert made.values["counter"] == made.values["expected"] == 500 * 2000
    for name in ("reference_times_ns", "reference_cpu_ns"):
        assert len(made.detail[name]) == 2 and min(made.detail[name]) > 0
    assert "ticks" not in made.values
    assert "reference_times_ns" not in measure(probe, scaling("pthread")).detail


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("pthread", {"reference": 5}),
        ("pthread", {"reference": [], "alone": True}),
        ("pthread", {"reference": {}, "alone": True}),
        ("uthread", {"reference": {}}),
    ],
)
def test_a_reference_is_for_pthreads(probe: Path, model: str, given: Record) -> None:
    assert error(probe, scaling(model, **given))["where"] == "reference"


def test_what_is_wrong_with_a_reference_is_one_line(probe: Path) -> None:
    """Found by the child."""
    record = error(probe, scaling("pthread", reference={"tick_ns": -5}))
    assert record["where"] == "tick_ns"


def test_more_threads_than_counters_of_one_batch(probe: Path) -> None:
    assert measure(probe, scaling(threads=20_001, iterations=1)).values["counter"] == 20_001


@pytest.mark.parametrize("tick_ns", [0, 100_000, 1_000_000])
def test_ticks_lose_no_addition(probe: Path, tick_ns: int) -> None:
    """Four threads that compute for some ticks each, on one worker."""
    made = measure(probe, scaling(threads=4, iterations=20_000_000, cpus=CPUS[:1], tick_ns=tick_ns))
    assert made.values["counter"] == 80_000_000
    assert made.values["preempted"] <= made.values["ticks"]
    assert (made.values["ticks"] > 0) == (tick_ns > 0)


def test_what_the_runtime_chose_is_told(probe: Path) -> None:
    made = measure(probe, scaling(tick_ns=1_000_000, source="process", mechanism="frame"))
    assert (made.detail["source"], made.detail["mechanism"]) == ("process", "frame")


def test_too_many_uthreads_for_the_memory(probe: Path) -> None:
    record = error(probe, scaling(threads=10_000_000, iterations=1))
    if "created" in record["what"]:  # a machine with that much memory has another limit
        pytest.skip(record["what"])
    assert "10000000 uthreads need" in record["what"] and "free memory" in record["what"]


def test_pthreads_that_cannot_be_made_name_the_limits(probe: Path) -> None:
    """Little address space, so that nobody else is disturbed: stacks take 8 MiB of it each."""
    room = 1 << 30
    done = subprocess.run(
        ["prlimit", f"--as={room}", str(probe)],
        input=json.dumps(scaling("pthread", threads=2000, iterations=10**9)).encode(),
        capture_output=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 2, done.stdout
    what = json.loads(done.stdout.splitlines()[-1])["what"]
    assert "of 2000 could not be created" in what
    assert "kernel.pid_max" in what and "vm.max_map_count" in what and "ulimit -u" in what


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threads", 0),
        ("threads", "1"),
        ("iterations", -1),
        ("cpus", []),
        ("cpus", [8000]),
        ("policy", "idle"),
        ("model", "coroutine"),
        ("tick_ns", 1),
        ("tick_ns", 99_999),
        ("source", "clock"),
        ("mechanism", "magic"),
        ("tls", "none"),
    ],
)
def test_a_wrong_field_is_named(probe: Path, field: str, value: Any) -> None:
    record = error(probe, scaling(**{field: value}))
    assert (record["where"] == field and field in record["what"]) or "CPU" in record["what"]


def test_alone_is_a_matter_of_pthreads(probe: Path) -> None:
    assert error(probe, scaling("uthread", alone=True))["where"] == "alone"


# ---- preemption, floor ----


def preemption(**given: Any) -> Record:
    trial: Record = {
        "schema": 1,
        "probe": "preemption",
        "model": "uthread",
        "work": "loop",
        "tick_ns": 1_000_000,
        "part_ns": 10_000_000,
        "rounds": 3,
        "cpus": CPUS,
        "policy": "other",
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


def floor(**given: Any) -> Record:
    return preemption(**{"probe": "floor", "model": "pthread", "kind": "timer", **given})


def ticked(probe: Path, trial: Record) -> Result:
    """A sample with ticks that were taken. None come while whoever sends them has no CPU, and
    that may be as long as a trial of some milliseconds takes."""
    deadline = time.monotonic() + LIMIT_S
    while not (made := measure(probe, trial)).values["taken"]:
        assert time.monotonic() < deadline, "no tick was ever taken"
    return made


def ascending(quantiles: list[list[float]]) -> bool:
    values = [value for _, value in quantiles]
    return values == sorted(values) and values[0] > 0


@pytest.mark.parametrize("work", ["loop", "libc"])
@pytest.mark.parametrize("source", ["worker", "process", "monitor"])
def test_ticks_are_told(probe: Path, source: str, work: str) -> None:
    made = ticked(probe, preemption(source=source, work=work))
    values = made.values
    assert made.detail["source"] == source
    assert 0 <= values["taken"] <= values["preempted"] <= values["ticks"]
    assert values["gap_n"] == values["taken"] and ascending(made.detail["gap_quantiles"])
    # Two starts in every part make a period; each part's first has none before it.
    assert values["taken"] - 3 * len(CPUS) <= values["period_n"] <= values["taken"]
    assert values["events"] == pytest.approx(values["taken"] / 3 / len(CPUS))
    assert values["quiet_cpu_ns"] > 0 and 0 < values["cpu_share"] <= 1.05
    assert values["workers"] == len(CPUS)
    # Workers that had no CPU meanwhile, at most all of them all the time.
    assert 0 <= values["run_delay_ns"] <= values["wall_ns"] * len(CPUS)


def test_workers_alone_are_waited_for(tmp_path: Path) -> None:
    """The runtime's monitor, its spares and main wait for the workers, not for others."""
    tree = Path(__file__).parents[1] / "probes"
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is needed")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", f"-I{tree}", "-pthread"]
    sources = [str(tree / file) for file in ("tests/delay.c", "measure/delay.c")]
    command += [f"-I{tree.parent / 'workloads'}", "-o", str(tmp_path / "delay"), *sources]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    done = subprocess.run(
        [tmp_path / "delay"], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.stdout.startswith("skip"):
        pytest.skip(done.stdout.strip())
    assert (done.returncode, done.stdout) == (0, "ok\n")


def test_who_takes_the_workers_cpu_is_seen(probe: Path) -> None:
    """As many ticks as come, half of the worker's time is another's, when that one runs."""
    spin = [sys.executable, "-c", SPIN.format(cpu=CPUS[0], limit=LIMIT_S)]
    deadline = time.monotonic() + LIMIT_S
    with subprocess.Popen(spin, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == b"there\n"
            seen = False
            while not seen:
                assert time.monotonic() < deadline, "nobody's delay was ever seen"
                values = measure(probe, preemption(cpus=CPUS[:1], rounds=10)).values
                seen = values["run_delay_ns"] > values["wall_ns"] * gates.DELAY_SHARE
        finally:
            other.kill()


@pytest.mark.parametrize("mechanism", ["call", "frame"])
def test_the_mechanism_is_the_one_asked_for(probe: Path, mechanism: str) -> None:
    made = ticked(probe, preemption(mechanism=mechanism, tick_ns=100_000))
    assert made.detail["mechanism"] == mechanism


def test_a_timers_signals_are_counted(probe: Path) -> None:
    values = measure(probe, floor()).values
    assert values["events"] > 0 and values["gap_n"] > 0
    assert values["quiet_wall_ns"] > 0 and "each_cpu_ns" in values
    assert "period_n" not in values and "taken" not in values


def test_signals_to_oneself_all_come(probe: Path) -> None:
    """A missing one is an error record, which measure() would raise."""
    values = measure(probe, floor(kind="self", tick_ns=None, part_ns=None, rounds=None)).values
    assert values["gap_n"] == 200 * len(CPUS)
    assert 0 < values["gap_p10_ns"] <= values["gap_p50_ns"] <= values["gap_max_ns"]
    assert "events" not in values


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("work", "sleep"),
        ("tick_ns", 0),
        ("tick_ns", 99_999),
        ("part_ns", 1),
        ("rounds", 0),
        ("model", "pthread"),
        ("source", "clock"),
        ("cpus", []),
    ],
)
def test_a_wrong_field_of_preemption_is_named(probe: Path, field: str, value: Any) -> None:
    assert error(probe, preemption(**{field: value}))["where"] == field


@pytest.mark.parametrize(
    ("field", "value"), [("kind", "poll"), ("tick_ns", 9999), ("rounds", -1), ("model", "uthread")]
)
def test_a_wrong_field_of_floor_is_named(probe: Path, field: str, value: Any) -> None:
    assert error(probe, floor(**{field: value}))["where"] == field


# ---- starvation ----


@pytest.fixture(scope="session")
def go(probe: Path) -> Path:
    """The Go peer, which is there where Go was."""
    found = probe.with_name(PEERS["go"])
    if not found.is_file():
        pytest.skip("Go is not installed: its peer was not built")
    return found


def starving(model: str = "uthread", **given: Any) -> Record:
    trial: Record = {
        "schema": 1,
        "probe": "starvation",
        "model": model,
        "answerer": model,
        "answerers": 2,
        "hogs": 3 * len(CPUS),
        "span_ns": 50_000_000,
        "sleep_ns": 1_000_000,
        "cpus": CPUS,
        "policy": "other",
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


def answered(made: Result) -> None:
    values = made.values
    # Of those that slept, and of every moment that was meant.
    for late, response in (("late", "response"), ("intended_late", "intended_response")):
        assert values[f"{late}_n"] == values[f"{response}_n"]
        if late == "late" and not values["late_n"]:
            continue  # whoever has more to answer than time never sleeps
        assert 0 <= values[f"{late}_p50_ns"] <= values[f"{late}_p99_ns"]
        assert values[f"{late}_p99_ns"] <= values[f"{late}_max_ns"]
        assert values[f"{late}_max_ns"] <= values[f"{response}_max_ns"] <= values["wall_ns"]
        assert ascending(made.detail[f"{response}_quantiles"])
    assert values["asked"] == pytest.approx(2 * 50 / 1.25)
    # Each moment is one to one and a half milliseconds after the last, come what may.
    assert 2 * 50 / 1.5 - 2 <= values["intended_late_n"] <= 2 * 50 + 2
    # Timers are as exact on a worker as on a thread, whatever policy: 0 of SCHED_FIFO.
    assert values["timer_slack"] in (0, 1)


@pytest.mark.parametrize("hogs", [0, 3 * len(CPUS)])
@pytest.mark.parametrize(
    ("model", "answerer"), [("pthread",) * 2, ("uthread",) * 2, ("uthread", "pthread")]
)
def test_answers_are_told(probe: Path, model: str, answerer: str, hogs: int) -> None:
    made = measure(probe, starving(model, answerer=answerer, hogs=hogs))
    answered(made)
    assert ("preempted" in made.values) == (model == "uthread")


@pytest.mark.parametrize("order", ["fifo", "priority", "fair"])
def test_answers_in_any_order(probe: Path, order: str) -> None:
    answered(measure(probe, starving(order=order)))


def test_without_ticks_nobody_answers_before_the_loops_end(probe: Path) -> None:
    """A worker each has a loop, and so each answerer wakes once, as late as can be.

    A closed loop sees two late answers; of the moments that were meant it missed all,
    the first of them by the whole span and the last by next to nothing.
    """
    values = measure(probe, starving(tick_ns=0)).values
    assert values["preempted"] == 0
    assert values["late_n"] == 2 and values["late_p10_ns"] >= 50_000_000
    assert values["intended_late_n"] > 60
    assert values["intended_late_p99_ns"] > values["intended_late_p50_ns"] > 20_000_000
    assert values["intended_late_max_ns"] >= 48_000_000


def test_thousands_of_loops_end(probe: Path) -> None:
    """More than a queue of a worker holds."""
    answered(measure(probe, starving(hogs=5000, answerer="pthread")))


def test_go_answers_by_the_same_protocol(go: Path) -> None:
    made = measure(go, starving("go"))
    answered(made)
    assert made.values["procs"] == len(CPUS) and made.detail["go"].startswith("go")


def test_go_without_signals_waits_for_the_loops(go: Path) -> None:
    """At most one answer of each can come before the first loops run."""
    values = measure(go, starving("go", preempt=False, hogs=len(CPUS))).values
    assert 2 <= values["late_n"] <= values["asked"]
    assert values["intended_late_n"] >= values["late_n"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("answerer", "go"),
        ("answerers", 0),
        ("hogs", -1),
        ("span_ns", 1),
        ("sleep_ns", "1"),
        ("order", "random"),
        ("policy", "idle"),
    ],
)
def test_a_wrong_field_of_starvation_is_named(probe: Path, field: str, value: Any) -> None:
    assert error(probe, starving(**{field: value}))["where"] == field


def test_uthreads_answer_only_beside_uthreads(probe: Path) -> None:
    assert error(probe, starving("pthread", answerer="uthread"))["where"] == "answerer"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 2),
        ("probe", "scaling"),
        ("model", "uthread"),
        ("policy", "fifo"),
        ("answerers", 0),
        ("hogs", -1),
        ("span_ns", 0),
        ("sleep_ns", None),
        ("cpus", []),
        ("cpus", [8000]),
        ("hogs", "two"),
    ],
)
def test_a_wrong_field_for_go_is_named(go: Path, field: str, value: Any) -> None:
    record = error(go, starving("go") | {field: value})
    assert field in record["what"] or "CPU" in record["what"]


# ---- locks ----


def locking(model: str = "uthread", **given: Any) -> Record:
    trial: Record = {
        "schema": 1,
        "probe": "locks",
        "model": model,
        "mode": "handover",
        "lock": "mutex",
        "place": "same",
        "rounds": 4,
        "hold_ns": 1_500_000,
        "cpus": CPUS,
        "policy": "other",
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


def contended(model: str, lock: str, **given: Any) -> Record:
    return locking(model, mode="contend", lock=lock, threads=3, times=2000, **given)


LOCKS = [("pthread", lock) for lock in ("mutex", "inherit", "spin")] + [
    ("uthread", lock) for lock in ("mutex", "inherit", "spin", "naive", "pthread")
]
PLACES = ["same", "other"] if len(CPUS) > 1 else ["same"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("model", "lock"), LOCKS)
def test_every_lock_is_handed_over(probe: Path, model: str, lock: str, place: str) -> None:
    made = measure(probe, locking(model, lock=lock, place=place))
    values = made.values
    assert values["wait_n"] == values["waste_n"] == 4
    assert 0 < values["wait_max_ns"] <= values["wall_ns"]
    assert values["hold_ns"] > 0 and values["pair_ns"] > 0
    assert ("donated" in values) == (model == "uthread")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("model", "lock"), LOCKS)
def test_a_lock_loses_no_addition(probe: Path, model: str, lock: str, place: str) -> None:
    made = measure(probe, contended(model, lock, place=place))
    assert made.values["counter"] == made.values["expected"] == 3 * 2000 * 20
    assert made.values["cpu_ns"] > 0


@pytest.mark.parametrize("model", ["pthread", "uthread"])
def test_the_time_of_a_lock_is_all_contenders(probe: Path, model: str) -> None:
    """So many additions in memory that nothing else counts; none makes 20 of them in a ns."""
    trial = contended(model, "mutex", cpus=CPUS[:1]) | {"times": 100_000}
    assert measure(probe, trial).values["cpu_ns"] >= 3 * 100_000 * 120 / 20


def test_a_waiter_gives_its_turn_to_an_owner_of_its_worker(probe: Path) -> None:
    """Each owner works for more than a tick, so each waiter finds it stopped."""
    assert measure(probe, locking(hold_ns=4_000_000)).values["donated"] >= 1


def test_a_spin_locks_holder_is_not_stopped(probe: Path) -> None:
    """So its waiter, on the same worker, runs when the lock is free again."""
    values = measure(probe, locking(lock="spin", hold_ns=4_000_000)).values
    assert values["wait_p50_ns"] < values["hold_ns"]
    assert values["donated"] == 0


@pytest.mark.parametrize("lock", ["mutex", "inherit"])
def test_an_inversion_ends(probe: Path, lock: str) -> None:
    trial = locking(lock=lock, order="priority", bystanders=3, cpus=CPUS[:1])
    assert measure(probe, trial).values["wait_n"] == 4


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "wait"),
        ("lock", "rwlock"),
        ("place", "far"),
        ("rounds", 0),
        ("hold_ns", 1),
        ("bystanders", 1000),
        ("model", "go"),
        ("order", "random"),
    ],
)
def test_a_wrong_field_of_locks_is_named(probe: Path, field: str, value: Any) -> None:
    assert error(probe, locking(**{field: value}))["where"] == field


@pytest.mark.parametrize(("field", "value"), [("threads", 0), ("threads", 65), ("times", 0)])
def test_a_wrong_number_of_contenders_is_named(probe: Path, field: str, value: int) -> None:
    assert error(probe, contended("uthread", "mutex") | {field: value})["where"] == field


@pytest.mark.parametrize("lock", ["naive", "pthread"])
def test_pthreads_have_no_locks_of_uthreads(probe: Path, lock: str) -> None:
    assert error(probe, locking("pthread", lock=lock))["where"] == "lock"


def test_another_worker_needs_another_cpu(probe: Path) -> None:
    assert error(probe, locking(place="other", cpus=CPUS[:1]))["where"] == "place"
