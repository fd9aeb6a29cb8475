# SPDX-License-Identifier: Apache-2.0
"""What swtch-probe does with trials that are wrong, or larger than the machine.

One error record that names the field, status 2, nothing else: no crash, no
half of a sample, nothing on standard error.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest
from probing import CPUS, LIMIT_S, MODELS, fails, gantt, run, scenario

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


@pytest.mark.parametrize("counter", ["mine", "", 7, True, []], ids=str)
def test_a_counter_that_is_none_is_named(probe: Path, counter: object) -> None:
    fails(probe, scenario(counter=counter), "counter")


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
    resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
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
