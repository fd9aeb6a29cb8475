# SPDX-License-Identifier: Apache-2.0
"""Steal and interrupts are those of the CPUs that were measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swtch.engines import disturbance

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
STAT = """\
cpu  10 2 10 100 4 2 3 60 0 0
cpu0 5 1 5 50 4 1 1 10 0 0
cpu2 5 1 5 50 0 1 2 50 0 0
intr 1000 0 9 9
ctxt 5
"""
# CPU 1 is offline; ERR is of the machine.
INTERRUPTS = """\
           CPU0       CPU2
  0:         12          0   IO-APIC   2-edge      timer
 24:          1        300  PCI-MSIX-0000:00:01.0   0-edge      7
LOC:        200         40   Local timer interrupts
ERR:          5
"""


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("STAT", STAT), ("INTERRUPTS", INTERRUPTS)):
        file = tmp_path / name
        file.write_text(text)
        monkeypatch.setattr(disturbance, name, file)
    monkeypatch.setattr(disturbance, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("own", "files", "ns"),
    [
        # v2: its own group and those above it, each of which may have a quota.
        (
            "0::/a/b\n",
            {
                "a/b/cpu.stat": "usage_usec 9\nnr_throttled 2\nthrottled_usec 70\n",
                "a/cpu.stat": "usage_usec 9\nthrottled_usec 5\n",
                "cpu.stat": "usage_usec 9\n",
                "other/cpu.stat": "throttled_usec 1000\n",
            },
            75_000,
        ),
        # v1, with an empty hierarchy of v2 beside it.
        (
            "4:cpu,cpuacct:/a\n3:memory:/m\n0::/\n",
            {
                "cpu/a/cpu.stat": "nr_periods 3\nnr_throttled 1\nthrottled_time 80\n",
                "cpu/cpu.stat": "nr_periods 0\nthrottled_time 0\n",
            },
            80,
        ),
        # In a container the group above is not to be seen.
        ("0::/../x\n", {"cpu.stat": "throttled_usec 3\n"}, 3000),
        ("0::/\n", {"cpu.stat": "usage_usec 9\n", "cpu/cpu.stat": "throttled_usec 3\n"}, None),
        ("", {}, None),
    ],
)
def test_the_time_that_a_quota_stopped_us(
    own: str, files: dict[str, str], ns: int | None, proc: Path
) -> None:
    (proc / "proc/self").mkdir(parents=True)
    (proc / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        file = proc / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert disturbance.counters().get("throttled_ns") == ns


@pytest.mark.usefixtures("proc")
@pytest.mark.parametrize(
    ("cpus", "steal", "busy", "interrupts"),
    [
        ((), 60, 27, 1000),
        ((0,), 10, 13, 213),
        ((2,), 50, 14, 340),
        ((0, 2), 60, 27, 553),
    ],
)
def test_of_the_measured_cpus(
    cpus: tuple[int, ...], steal: int, busy: int, interrupts: int
) -> None:
    counted = disturbance.counters(cpus)
    assert counted.pop("own_ns") >= 0
    assert counted == {
        "steal_ns": steal * TICK_NS,
        "busy_ns": busy * TICK_NS,
        "interrupts": interrupts,
    }


@pytest.mark.usefixtures("proc")
def test_a_cpu_that_is_not_there_is_not_known() -> None:
    assert disturbance.counters((0, 1)).keys() == {"own_ns"}


def test_without_proc_nothing_is_known(proc: Path) -> None:
    (proc / "INTERRUPTS").unlink()
    assert disturbance.counters((0,)) == {}
    assert disturbance.counters()["interrupts"] == 1000


def test_what_is_unknown_has_no_difference() -> None:
    assert disturbance.delta({"steal_ns": 1}, {"steal_ns": 4}, "steal_ns") == 3
    assert disturbance.delta({}, {"steal_ns": 4}, "steal_ns") is None
    assert disturbance.delta({"steal_ns": 1}, {}, "steal_ns") is None


def test_own_is_what_ended_children_worked() -> None:
    before = disturbance.counters()
    if not before:
        pytest.skip("no /proc/stat here")
    # Some milliseconds of work, of which the kernel says what it was.
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    own = disturbance.delta(before, disturbance.counters(), "own_ns")
    assert own is not None and 0 < own < 60e9


def test_a_boot_has_a_short_name_and_keeps_it() -> None:
    assert disturbance.boot() == disturbance.boot()
    assert len(disturbance.boot()) in (0, 8)


def test_this_machine_counts() -> None:
    cpu = min(os.sched_getaffinity(0))
    one, every = disturbance.counters((cpu,)), disturbance.counters()
    if not every:
        pytest.skip("no /proc/stat here")
    assert set(one) == set(every)
    assert 0 <= one["interrupts"] <= disturbance.counters()["interrupts"]
