# SPDX-License-Identifier: Apache-2.0
"""Facts survive any missing file; conditions say what follows from invented facts."""

from __future__ import annotations

import copy
import os
import platform
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swtch import cli, doctor, doctor_try, environment
from swtch.doctor import Condition
from swtch.errors import CannotError


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return environment.collect(steal_s=0.05)


def found(facts: dict[str, Any], name: str) -> Condition:
    (condition,) = [c for c in doctor.examine(facts) if c.name == name]
    return condition


def changed(facts: dict[str, Any], **rooms: dict[str, Any]) -> dict[str, Any]:
    new = copy.deepcopy(facts)
    for room, entries in rooms.items():
        new[room].update(entries)
    return new


def test_facts_are_plain_json(facts: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(facts)) == facts


def test_facts_of_an_empty_machine(tmp_path: Path) -> None:
    """Nothing of /proc and /sys readable: facts and conditions all the same."""
    facts = environment.collect(root=tmp_path, steal_s=0)
    assert facts["cpu"]["model"] is None
    assert facts["steal"]["percent"] is None
    conditions = doctor.examine(facts)
    assert len(conditions) == len(doctor.CHECKS)
    assert found(facts, "steal").state == "absent"
    assert found(facts, "caches").state == "absent"
    assert found(facts, "mitigations").state == "absent"


def test_names_are_unique_and_bad_news_comes_with_a_remedy(facts: dict[str, Any]) -> None:
    conditions = doctor.examine(facts)
    assert len({c.name for c in conditions}) == len(conditions)
    for condition in conditions:
        assert condition.value
        assert condition.effect or condition.state == "good", condition.name


def test_files_are_read_from_the_root(tmp_path: Path) -> None:
    def put(name: str, text: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    cpus = sorted(os.sched_getaffinity(0))
    base = "sys/devices/system/cpu"
    put(f"{base}/online", "0-3,7\n")
    put(f"{base}/cpu{cpus[0]}/cpufreq/scaling_governor", "powersave\n")
    put(f"{base}/vulnerabilities/meltdown", "Mitigation: PTI\n")
    put(f"{base}/vulnerabilities/mds", "Vulnerable\n")
    put("proc/stat", "cpu  1 2 3 4 5 6 7 80 9 10\nintr 5\n")
    put("proc/cpuinfo", "model name\t: Test CPU\nflags\t: hypervisor constant_tsc\n")
    put("proc/self/cgroup", "0::/a/b\n")
    put("sys/fs/cgroup/a/cpu.max", "50000 100000\n")
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    put("sys/fs/cgroup/a/b/pids.max", "77\n")
    put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    put("proc/cmdline", "quiet preempt=full\n")
    facts = environment.collect(root=tmp_path, steal_s=0)
    assert facts["cpu"]["model"] == "Test CPU"
    assert facts["cpu"]["online"] == [0, 1, 2, 3, 7]
    assert facts["cgroup"] == {"version": 2, "cpus": 0.5, "pids": 77, "memory_bytes": None}
    assert facts["memory"]["transparent_hugepage"] == "madvise"
    assert facts["kernel"]["preempt"] == "full"
    assert facts["steal"]["since_boot_ticks"] == 80
    assert found(facts, "hypervisor").state == "note"
    assert found(facts, "cgroup limits").state == "bad"
    assert "active: meltdown; vulnerable: mds" in found(facts, "mitigations").value
    governor = found(facts, "frequency governor")
    assert (governor.state, governor.value) == ("bad", "powersave (None)")
    assert "performance" in governor.mend


def test_cgroup_v1(tmp_path: Path) -> None:
    for name, text in (
        ("proc/self/cgroup", "4:cpu,cpuacct:/job\n3:pids:/\n2:memory:/job\n"),
        ("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/pids/pids.max", "max\n"),
        ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    facts = environment.collect(root=tmp_path, steal_s=0)
    assert facts["cgroup"] == {"version": 1, "cpus": 1.5, "pids": None, "memory_bytes": 1048576}


@pytest.mark.parametrize(
    ("release", "scheduler"),
    [("6.5.13-x", "CFS"), ("6.6.0", "EEVDF"), ("5.10", "CFS"), ("7.0-rc1", "EEVDF"), ("x", None)],
)
def test_scheduler_follows_the_version(
    release: str, scheduler: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    assert environment.collect(root=tmp_path, steal_s=0)["kernel"]["scheduler"] == scheduler


def test_not_permitted_and_not_supported_are_told_apart(facts: dict[str, Any]) -> None:
    refused = found(changed(facts, tried={"perf_hardware": "not permitted"}), "hardware counters")
    absent = found(changed(facts, tried={"perf_hardware": "not supported"}), "hardware counters")
    assert (refused.state, absent.state) == ("bad", "absent")
    assert "perf_event_paranoid=1" in refused.mend
    assert absent.mend == ""


def test_kvm_is_never_called_proved(facts: dict[str, Any]) -> None:
    for opens in (True, False):
        for qemu in ({}, {"qemu-system-x86_64": "QEMU 7.2"}):
            entries = {"kvm_present": True, "kvm_opens": opens, "qemu": qemu}
            condition = found(changed(facts, vm_engine=entries), "virtual machines")
            assert ("not proved" in condition.value) == opens
            assert (condition.state == "note") == bool(qemu)


def test_steal_and_siblings_are_bad_news(facts: dict[str, Any]) -> None:
    assert found(changed(facts, steal={"percent": 3.0}), "steal").state == "bad"
    assert found(changed(facts, steal={"percent": 0.0}), "steal").state == "good"
    cpu = {"package": 0, "core": 0, "siblings": [0, 1]}
    assert found(changed(facts, cpu={"topology": {"0": cpu}}), "SMT").state == "bad"


def test_a_remedy_is_one_that_can_work(facts: dict[str, Any]) -> None:
    def mend(soft: int, hard: int | None) -> str:
        limits = {**facts["limits"], "nproc": {"soft": soft, "hard": hard}}
        return found({**facts, "limits": limits}, "ulimits").mend

    assert mend(100, 5000) == "ulimit -u 5000"
    assert mend(100, None) == "ulimit -u unlimited"
    assert mend(100, 100) == "raise nproc in limits.conf"
    assert mend(50_000, 50_000) == ""


def test_tries_answer_and_change_nothing() -> None:
    policy = os.sched_getscheduler(0)
    answers = doctor_try.everything()
    assert set(answers.values()) <= {"yes", "not permitted", "not supported"}
    assert os.sched_getscheduler(0) == policy
    assert answers["policy_batch"] == "yes"  # needs no privilege anywhere


def test_a_refused_policy_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert doctor_try.policy(os.SCHED_FIFO, 1) == "not permitted"


def test_an_invalid_policy_is_not_supported() -> None:
    assert doctor_try.policy(99, 0) == "not supported"


def test_distinct_cores_come_before_siblings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cpu, siblings in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        file = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text(siblings)
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    assert environment.allowed_cpus() == (0, 2, 1, 3)


def test_no_cpu_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set())
    with pytest.raises(CannotError, match="no CPU is allowed"):
        environment.allowed_cpus()


@given(st.lists(st.integers(0, 300), unique=True))
def test_parse_list_reads_what_the_kernel_writes(cpus: list[int]) -> None:
    assert environment.parse_list(",".join(map(str, cpus))) == cpus


@given(st.text(alphabet="019-, (a\n", max_size=6))
def test_parse_list_never_fails(text: str) -> None:
    assert all(cpu >= 0 for cpu in environment.parse_list(text))


def test_parse_list_ranges() -> None:
    assert environment.parse_list("0-2,5,8-9\n") == [0, 1, 2, 5, 8, 9]
    assert environment.parse_list(None) == environment.parse_list("(null)") == []


def test_a_machine_that_starts_no_process_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    assert cli.main(["run", "coroutine-gantt"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "no process can be started" in line and "ulimit -u" in line
