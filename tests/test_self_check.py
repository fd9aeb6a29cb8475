# SPDX-License-Identifier: Apache-2.0
"""`swtch doctor --self-check`: each path works, is absent or fails, and it is said in a line."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic

from swtch import cli, self_check
from swtch.engines import Outcome
from swtch.errors import EXIT_CANNOT, EXIT_OK, EXIT_SOME_FAILED
from swtch.records import CarrierRecord, Invocation, Sample, Trial
from swtch.self_check import PathState


class Answers:
    """An engine that gives made-up samples."""

    name = "native"

    def __init__(self, give: Callable[[Trial], Sample]) -> None:
        self._give = give

    def describe(self) -> dict[str, Any]:
        return {}

    def stop(self) -> None:
        pass

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        return Outcome(self._give(trial), b"", b"")


def counted(small: float, large: float, **detail: Any) -> Answers:
    cells = {self_check.SMALL: small, self_check.LARGE: large}
    values = {f"single_instructions_{size}_64": count for size, count in cells.items()}
    values |= {f"running_{size}_64": 1.0 for size in cells}
    facts = {"counted": True, "kernel_counted": True, **detail}
    return Answers(lambda trial: synthetic.sample(trial, values=values, detail=facts))


def test_counters_work_where_a_longer_walk_takes_more_instructions() -> None:
    state, detail = self_check.counters(counted(2000.0, 30_000.0))
    assert (state, "instructions, with the kernel, on 1.00" in detail) == ("works", True)


@pytest.mark.parametrize(("small", "large"), [(0.0, 30_000.0), (2000.0, 2000.0), (3.0, 2.0)])
def test_counters_that_cannot_be_right_fail(small: float, large: float) -> None:
    assert self_check.counters(counted(small, large))[0] == "fails"


def test_counters_that_are_not_there_are_absent_with_the_reason() -> None:
    refused = counted(1.0, 2.0, counted=False, uncounted="perf_event_open: No such device")
    assert self_check.counters(refused) == ("absent", "perf_event_open: No such device")


def adding(lost: int, cpus: int) -> Answers:
    def give(trial: Trial) -> Sample:
        assert trial.probe["threads"] == 2 * cpus
        carriers = tuple(
            CarrierRecord(
                index=i, tid=i, cpu=i, nvcsw=0, nivcsw=0, utime_ns=0, stime_ns=0, cpu_ns=0
            )
            for i in range(cpus)
        )
        values = {"counter": 4000 - lost, "expected": 4000}
        return synthetic.sample(trial, values=values, carriers=carriers)

    return Answers(give)


def test_more_cpus_than_were_seen_are_all_used_and_lose_nothing() -> None:
    state, detail = self_check.cpus(adding(0, 4), allowed=4)
    assert (state, detail) == ("works", "4 CPUs: pthread on 0, uthread on 4")
    assert self_check.cpus(adding(1, 4), allowed=4)[0] == "fails"
    assert self_check.cpus(adding(0, 2), allowed=2)[0] == "absent"


def test_a_failed_invocation_is_a_path_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Answers(synthetic.failed)
    real = self_check.counters
    monkeypatch.setattr(self_check, "counters", lambda: real(broken))
    monkeypatch.setattr(self_check, "in_kvm", lambda _say: ("absent", "no"))
    monkeypatch.setattr(self_check, "find_probe", lambda: Path("probe"))
    paths = self_check.every(lambda _line: None)
    assert [path.state for path in paths if path.name == "counters"] == ["fails"]
    assert self_check.failed(paths)


PATHS = (PathState("kvm", "works", "6.1-amd64: 4000 of 4000"), PathState("cpus", "absent", "2"))


def test_the_line_names_versions_and_paths_and_nobody() -> None:
    line = self_check.line(PATHS)
    assert "\n" not in line and line.startswith("swtch ")
    assert "kvm=works (6.1-amd64: 4000 of 4000); cpus=absent (2)" in line
    assert platform.release() in line and platform.node() not in line.split()


@pytest.mark.parametrize(("state", "code"), [("works", EXIT_OK), ("fails", EXIT_SOME_FAILED)])
def test_the_command_prints_one_line(
    state: self_check.State,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = (PathState("kvm", state, "x"),)
    monkeypatch.setattr(self_check, "every", lambda _say: paths)
    assert cli.main(["doctor", "--self-check"]) == code
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1 and f"kvm={state} (x)" in said.out
    assert "send this line" in said.err


def test_without_the_probe_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWTCH_PROBE_DIR", str(tmp_path))
    assert cli.main(["doctor", "--self-check"]) == EXIT_CANNOT
    assert "swtch-probe" in capsys.readouterr().err
