# SPDX-License-Identifier: Apache-2.0
"""How the tests of the real swtch-probe make trials, run them and read the answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swtch.engines.protocol import read_result
from swtch.experiments import get
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
