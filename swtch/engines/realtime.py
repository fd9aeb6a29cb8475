# SPDX-License-Identifier: Apache-2.0
"""What the kernel keeps back from real-time threads: lifted for a trial, and given back.

A real-time thread that wants a whole CPU gets 95 % of each second of it. Until Linux 6.12 that
is a limit on the real-time class, since then a server of the fair class on each CPU, which
has a file of its own in debugfs; there the older file does nothing. Study 002's threads want
a whole CPU, and somebody who gets it in between is a switch that nobody asked for.

Invariants:

- Given back is what was there, by a process of its own, the keeper: it sleeps until the pipe
  that this one holds ends. So it is given back after a refused trial, an exception and
  a SIGKILL alike, and there is one way to do it.
- Where the pipe ended without a word, the run is nobody's any more: the keeper ends it first.
- Nothing is lifted before there is a keeper, nor on CPUs that are not measured.
- A server is lifted from its own CPU, where the kernel stops it first; on a CPU that has just
  become idle it would not, and 6.12 gets a sum wrong (probes/guest/limits.c). Servers are given
  back before the limit, which 6.12 refuses otherwise.

Rejected: a note of what to give back for the next start to find (until then the machine lets
any real-time loop have a CPU for ever).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT = "proc/sys/kernel/sched_rt_runtime_us"
SERVERS = "sys/kernel/debug/sched/fair_server"
_KEEPER = """
trap '' INT TERM HUP QUIT
read -r word || echo stop >"$1"
shift
while [ $# -gt 1 ]; do
	echo "$2" >"$1"
	shift 2
done
"""


def wanted(probe: dict[str, Any]) -> bool:
    """Whether a trial of kernel threads has real-time ones."""
    return probe.get("probe") != "scenario" or probe.get("policy") == "fifo"


def limits(root: Path, cpus: Sequence[int]) -> dict[Path, str]:
    """What is kept back now from real-time threads on these CPUs, by the file that says so."""
    files = [root / LIMIT, *(_server(root, cpu) for cpu in cpus)]
    found = {}
    for file in files:
        with contextlib.suppress(OSError):
            found[file] = file.read_text().strip()
    return found


def _server(root: Path, cpu: int) -> Path:
    return root / SERVERS / f"cpu{cpu}/runtime"


def _lift(root: Path, cpus: Sequence[int]) -> None:
    """What the kernel refuses stays; the gate of preempted samples tells."""
    before = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):
            _overwrite(root / LIMIT, "-1\n")
        for cpu in cpus:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {cpu})
                _overwrite(_server(root, cpu), "0\n")
    finally:
        os.sched_setaffinity(0, before)


def _overwrite(file: Path, text: str) -> None:
    """Writes to a file that is there; makes none."""
    with file.open("r+") as stream:
        stream.truncate()
        stream.write(text)


@contextmanager
def lifted(root: Path, cpus: Sequence[int], control: Path) -> Iterator[None]:
    """Nothing is kept back in here. `control`: where to end a run that is nobody's."""
    found = limits(root, cpus)
    words = [str(word) for pair in reversed(found.items()) for word in pair]
    with subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, "keeper", str(control), *words],
        stdin=subprocess.PIPE,
        bufsize=0,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as keeper:
        assert keeper.stdin is not None
        try:
            _lift(root, cpus)
            yield
        finally:
            with contextlib.suppress(BrokenPipeError):
                keeper.stdin.write(b"done\n")
