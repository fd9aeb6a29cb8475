# SPDX-License-Identifier: Apache-2.0
"""The real swtch-probe by its protocol: every model and intervention, bad trials, signals.

Nothing here depends on how fast the machine is. What the kernel may do on its
own (a switch more, a thread moved) is given room; what is exact is exact.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swtch.engines.native import find_probe
from swtch.engines.protocol import read_result
from swtch.experiments import Setting, get
from swtch.experiments.coroutine_gantt import FINISHED, SLOTS
from swtch.records import Model, Trial

LIMIT_S = 120  # only ever reached by a probe that hangs
CPUS = sorted(os.sched_getaffinity(0))
# kthreads are the module's, not the probe's.
MODELS = [model for model in get("scenarios").models if model != "kthread"]
KERNEL_MODELS = [model for model in MODELS if model in ("pthread", "process")]
USER_MODELS = [model for model in MODELS if model not in KERNEL_MODELS]
COROUTINES = ["coroutine", "ucontext"]
INTERVENTIONS = ["none", "yield", "sleep"]

Record = dict[str, Any]


@pytest.fixture(scope="session")
def probe() -> Path:
    """The measuring program; without it there is nothing to test, which is a failure."""
    return find_probe()


def scenario(model: Any = "pthread", **given: Any) -> Record:
    """A trial of `scenario`, small; `given` replaces fields, None removes them."""
    trial: Record = {
        "schema": 1,
        "probe": "scenario",
        "model": model,
        "threads": 4,
        "iterations": 10_000,
        "every": 1000,
        "intervention": "yield",
        "sleep_ns": 1000,
        "cpus": CPUS[:2],
        "policy": "other",
        "seed": 7,
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


def gantt(model: Any = "coroutine", **given: Any) -> Record:
    trial: Record = {
        "schema": 1,
        "probe": "gantt",
        "model": model,
        "work": [3, 3, 3, 5, 2],
        "order": "round-robin",
        "pool": True,
        "stack_bytes": 65536,
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


def run(
    probe: Path, trial: Record | bytes, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Starts the probe with the trial as its input; `before` runs in its process."""
    data = trial if isinstance(trial, bytes) else json.dumps(trial).encode()
    return subprocess.run(
        [str(probe)], input=data, capture_output=True, timeout=LIMIT_S, preexec_fn=before
    )


def measure(probe: Path, trial: Record) -> Record:
    """The one sample of a good trial; hello and end are looked at too."""
    done = run(probe, trial)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-300:]
    lines = done.stdout.split(b"\n")
    assert lines.pop() == b""
    hello, sample, end = (json.loads(line) for line in lines)
    assert hello.keys() == {"kind", "schema", "probe", "version", "pid"}
    assert (hello["kind"], hello["schema"], hello["probe"]) == ("hello", 1, "swtch-probe")
    assert (sample["kind"], sample["schema"]) == ("sample", 1)
    assert end == {"kind": "end", "schema": 1, "samples": 1}
    if "pid" in sample:
        assert hello["pid"] == sample["pid"]
    # As the engine reads it.
    model: Model = trial["model"]
    made = Trial(id="t", experiment="e", model=model, engine="native", factors={}, probe=trial)
    read_result(done.stdout, done.returncode, made)
    assert isinstance(sample, dict)
    return sample


def fails(
    probe: Path,
    trial: Record | bytes,
    where: str,
    says: str = "",
    before: Callable[[], None] | None = None,
) -> Record:
    """One error record after hello, one clear line, status 2."""
    done = run(probe, trial, before)
    assert done.returncode == 2, done.stdout[-500:] + done.stderr[-300:]
    assert done.stderr == b""
    hello, error = (json.loads(line) for line in done.stdout.decode().splitlines())
    assert hello["kind"] == "hello"
    assert error.keys() == {"kind", "schema", "errno", "where", "what"}
    assert (error["kind"], error["schema"], error["where"]) == ("error", 1, where)
    assert error["errno"] > 0
    assert error["what"].isprintable() and 5 <= len(error["what"]) < 256
    assert says in error["what"]
    assert isinstance(error, dict)
    return error


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
    sample = measure(probe, scenario(model, cpus=cpus))
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
    # Each of 4 threads intervenes 10 times, and somebody else is always ready.
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


class Running:
    """A probe at work on a trial that would take for ever; ended with its group."""

    def __init__(self, probe: Path, trial: Record) -> None:
        self.process = subprocess.Popen(
            [str(probe)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(trial).encode())
        self.process.stdin.close()
        assert json.loads(self.process.stdout.readline())["kind"] == "hello"

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert self.process.poll() is None, "the probe ended"
            assert time.monotonic() < deadline, "the probe did not get there"
            time.sleep(0.01)

    def members(self) -> list[int]:
        """Every process of its group that still runs."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                    if int(group) == self.process.pid and state not in "ZX":
                        found.append(int(entry.name))
        return found

    def threads(self) -> list[int]:
        found = []
        for pid in self.members():
            with contextlib.suppress(OSError):
                found += [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
        return found

    def busy_ticks(self) -> int:
        """Processor time of the group, in the kernel's ticks."""
        total = 0
        for pid in self.members():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(words[11]) + int(words[12])
        return total

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


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


# ---- bad trials ----


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"nope",
        b"{",
        b'{"schema":1,',
        b'{"schema":1}}',
        b'{"schema":1} {"schema":1}',
        b'{"schema":1,"schema":1}',
        b"[]",
        b'"scenario"',
        b"\xff\xfe",
        b'{"schema":1,"probe":"\xc3"}',
        b'{"schema":1,"probe":"a\x00b"}',
        b'{"schema":1,"probe":"a\\u0000b"}',
        b"[" * 100_000,
        b'{"schema":1e999}',
        b'{"schema":123456789012345678901234567890}',
    ],
    ids=lambda data: repr(data[:24]),
)
def test_what_is_not_a_trial(probe: Path, data: bytes) -> None:
    fails(probe, data, "standard input")


@pytest.mark.parametrize("schema", [None, 0, -1, 2, 1.0, "1", True, []], ids=str)
def test_another_schema(probe: Path, schema: object) -> None:
    trial = {**scenario(), "schema": schema}
    if schema is None:
        del trial["schema"]
    error = fails(probe, trial, "schema")
    if schema == 2:
        assert "use a newer swtch" in error["what"]


@pytest.mark.parametrize(
    "field", ["probe", "model", "threads", "iterations", "every", "intervention", "cpus", "policy"]
)
def test_a_field_that_is_missing_is_named(probe: Path, field: str) -> None:
    fails(probe, scenario(**{field: None}), field, f"the trial has no {field}")
    null = {**scenario(), field: None}
    fails(probe, null, field)


@pytest.mark.parametrize("field", ["model", "work", "order"])
def test_a_field_that_a_chart_lacks_is_named(probe: Path, field: str) -> None:
    fails(probe, gantt(**{field: None}), field, f"the trial has no {field}")


@pytest.mark.parametrize("value", [0, -1, -(10**18), 10**18, 2**63, 1.5, "4", [4], True], ids=str)
@pytest.mark.parametrize("field", ["threads", "iterations", "every"])
def test_a_count_that_is_none(probe: Path, field: str, value: object) -> None:
    where = field if value != 2**63 else "standard input"
    fails(probe, scenario(**{field: value}), where)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threads", 100_001),
        ("iterations", 10**12 + 1),
        ("sleep_ns", -1),
        ("sleep_ns", 10**9 + 1),
        ("sleep_ns", "1"),
        ("cpus", []),
        ("cpus", 0),
        ("cpus", "0"),
        ("cpus", [-1]),
        ("cpus", [0.5]),
        ("cpus", [None]),
        ("cpus", [8192]),
        ("cpus", [CPUS[0]] * 1025),
        ("probe", "scenari"),
        ("probe", ""),
        ("probe", 1),
        ("probe", "x" * 10_000),
        ("model", "kthread"),
        ("model", "pthreads"),
        ("model", "PTHREAD"),
        ("model", ""),
        ("model", ["pthread"]),
        ("model", "a" + "é" * 5000),
        ("intervention", "nap"),
        ("intervention", None),
        ("policy", "rr"),
        ("policy", ""),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_field_that_is_wrong_is_named(probe: Path, field: str, value: object) -> None:
    fails(probe, {**scenario(), field: value}, field)


def test_text_that_is_not_for_eyes_is_told_as_it_is(probe: Path) -> None:
    """The record is JSON on one line; who shows it to people makes it legible."""
    odd = "\x1b[2J\u202e\n"
    done = run(probe, scenario(odd))
    assert done.returncode == 2 and done.stdout.count(b"\n") == 2
    assert odd in json.loads(done.stdout.splitlines()[1])["what"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "pthread"),
        ("order", "random"),
        ("work", []),
        ("work", [0]),
        ("work", [-3, 1]),
        ("work", [10_001]),
        ("work", [1] * 65),
        ("work", 5),
        ("work", ["3"]),
        ("priorities", [1, 2]),
        ("priorities", [1, 2, 3, 4, 1001]),
        ("priorities", "high"),
        ("slices", [1, 1, 1, 1, 0]),
        ("slices", [1] * 6),
        ("stack_bytes", 0),
        ("stack_bytes", -65536),
        ("stack_bytes", 8191),
        ("stack_bytes", 2**31),
        ("stack_bytes", 65536.5),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_chart_that_is_wrong_is_named(probe: Path, field: str, value: object) -> None:
    fails(probe, gantt(**{field: value}), field)


@pytest.mark.parametrize("model", MODELS)
def test_a_cpu_that_is_not_allowed(probe: Path, model: str) -> None:
    other = CPUS[-1] + 1
    says = f"CPU {other} is not allowed to this process"
    fails(probe, scenario(model, cpus=[CPUS[0], other]), "cpus", says)


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs to be kept from one")
@pytest.mark.parametrize("model", MODELS)
def test_a_cpu_that_was_taken_away(probe: Path, model: str) -> None:
    def keep_one() -> None:
        os.sched_setaffinity(0, CPUS[:1])

    says = f"CPU {CPUS[1]} is not allowed"
    fails(probe, scenario(model, cpus=CPUS[:2]), "cpus", says, before=keep_one)


def test_arguments_are_not_understood(probe: Path) -> None:
    done = subprocess.run([str(probe), "--help"], capture_output=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: ") and done.stderr.count(b"\n") == 1


def test_an_output_that_takes_nothing_is_told(probe: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [str(probe)],
            input=json.dumps(scenario()).encode(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
        )
    assert done.returncode == 1
    assert b"standard output: No space left on device" in done.stderr


# ---- more than there is ----


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (192 << 20, 192 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.mark.parametrize("model", [m for m in MODELS if m != "process"])
def test_more_threads_than_memory(probe: Path, model: str) -> None:
    trial = scenario(model, threads=100_000, iterations=10, every=1)
    error = fails(probe, trial, "threads", before=little_memory)
    assert "00" in error["what"] or "memory" in error["what"]


def test_larger_stacks_than_memory(probe: Path) -> None:
    done = run(probe, gantt(work=[1] * 64, stack_bytes=1 << 29), little_memory)
    assert done.returncode == 2
    error = json.loads(done.stdout.splitlines()[-1])
    assert error["kind"] == "error"
    assert "memory" in error["what"].lower()


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
