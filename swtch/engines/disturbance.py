# SPDX-License-Identifier: Apache-2.0
"""What disturbed an invocation from outside: the hypervisor, other programs, interrupts, and
the CPU quota of the control group.

All are counted on the CPUs that were measured, where the kernel tells them apart: on a
machine with many CPUs the others' interrupts are no disturbance. /proc/stat has steal
and work per CPU in ticks of 10 ms; what the probe's own processes worked the kernel says
of children that ended, more exactly. Interrupts per CPU are in /proc/interrupts only.
Reading both takes under a millisecond for each hundred CPUs and happens before and after.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Collection
from functools import cache
from pathlib import Path

from swtch import environment

STAT = Path("/proc/stat")
INTERRUPTS = Path("/proc/interrupts")
ROOT = Path("/")
BOOT = Path("/proc/sys/kernel/random/boot_id")
# The columns of a CPU's line in /proc/stat: what it worked is user, nice, system, irq, softirq.
_STEAL = 8
_BUSY = (1, 2, 3, 6, 7)


def counters(cpus: Collection[int] = ()) -> dict[str, int]:
    """``steal_ns``, ``busy_ns`` and ``interrupts`` since boot, of `cpus` or of all, and
    ``own_ns`` of the children that ended; ``throttled_ns`` that our control group was stopped
    for its quota; without what is unknown."""
    try:
        stat = STAT.read_text()
        table = INTERRUPTS.read_text() if cpus else ""
    except OSError:
        return {}
    counts: dict[str, int] = {}
    for name, columns in (("steal_ns", (_STEAL,)), ("busy_ns", _BUSY)):
        spent = _spent(stat, cpus, columns)
        if spent is not None:
            counts[name] = spent
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts["own_ns"] = round((children.ru_utime + children.ru_stime) * 1e9)
    interrupts = _interrupts(table, cpus) if cpus else _all_interrupts(stat)
    if interrupts is not None:
        counts["interrupts"] = interrupts
    throttled = environment.throttled_ns(ROOT)
    if throttled is not None:
        counts["throttled_ns"] = throttled
    return counts


def delta(before: dict[str, int], after: dict[str, int], key: str) -> int | None:
    """How much more there is of `key`; None where it is not known."""
    if key not in before or key not in after:
        return None
    return after[key] - before[key]


@cache
def boot() -> str:
    """What this boot of the machine is called, shortened; empty where it has no name."""
    try:
        return BOOT.read_text().strip()[:8]
    except OSError:
        return ""


def _spent(stat: str, cpus: Collection[int], columns: Collection[int]) -> int | None:
    wanted = {f"cpu{cpu}" for cpu in cpus} or {"cpu"}
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    ticks = [
        sum(int(words[column]) for column in columns)
        for words in lines
        if words[0] in wanted and len(words) > max(columns)
    ]
    if len(ticks) != len(wanted):
        return None
    return sum(ticks) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def _all_interrupts(stat: str) -> int | None:
    for line in stat.splitlines():
        if line.startswith("intr "):
            return int(line.split(maxsplit=2)[1])
    return None


def _interrupts(table: str, cpus: Collection[int]) -> int | None:
    head, *lines = table.splitlines() or [""]
    names = head.split()
    if not all(f"CPU{cpu}" in names for cpu in cpus):
        return None
    columns = [names.index(f"CPU{cpu}") + 1 for cpu in cpus]
    total = 0
    for line in lines:
        words = line.split()[: len(names) + 1]
        # ERR and MIS are of the machine: one number.
        if len(words) == len(names) + 1 and all(word.isdigit() for word in words[1:]):
            total += sum(int(words[column]) for column in columns)
    return total
