# SPDX-License-Identifier: Apache-2.0
"""What disturbed an invocation from outside: time the hypervisor took, and interrupts.

Both are counted on the CPUs that were measured, where the kernel tells them apart: on a
machine with many CPUs the others' interrupts are no disturbance. /proc/stat has steal
per CPU in ticks of 10 ms; interrupts per CPU are in /proc/interrupts only. Reading
both takes under a millisecond for each hundred CPUs and happens before and after.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

STAT = Path("/proc/stat")
INTERRUPTS = Path("/proc/interrupts")
_STEAL = 8  # the column of a CPU's line in /proc/stat


def counters(cpus: Collection[int] = ()) -> dict[str, int]:
    """``steal_ns`` and ``interrupts`` since boot, of `cpus` or of all; without what is unknown."""
    try:
        stat = STAT.read_text()
        table = INTERRUPTS.read_text() if cpus else ""
    except OSError:
        return {}
    counts: dict[str, int] = {}
    steal = _steal(stat, cpus)
    if steal is not None:
        counts["steal_ns"] = steal
    interrupts = _interrupts(table, cpus) if cpus else _all_interrupts(stat)
    if interrupts is not None:
        counts["interrupts"] = interrupts
    return counts


def delta(before: dict[str, int], after: dict[str, int], key: str) -> int | None:
    """How much more there is of `key`; None where it is not known."""
    if key not in before or key not in after:
        return None
    return after[key] - before[key]


def _steal(stat: str, cpus: Collection[int]) -> int | None:
    wanted = {f"cpu{cpu}" for cpu in cpus} or {"cpu"}
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    ticks = [int(words[_STEAL]) for words in lines if words[0] in wanted and len(words) > _STEAL]
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
