# SPDX-License-Identifier: Apache-2.0
"""Threads that libraries start: asked for before, because two of them do not fail as one should.

Where a thread cannot be had, polars and what draws the figures panic, and OpenBLAS, which is
loaded with numpy, sends SIGINT to the process: the lab was interrupted by nobody.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cache

from swtch.errors import CannotError

BLAS = "OPENBLAS_NUM_THREADS"
# No more does OpenBLAS start, whatever the machine has.
BLAS_MOST = 64
# Polars starts at most so many, and so many for each CPU that it may use.
POLARS = 5
POLARS_EACH = 3


@cache
def may_start(count: int) -> bool:
    """Whether so many more can be had. Asked once: the libraries keep theirs."""
    enough = threading.Event()
    started: list[threading.Thread] = []
    try:
        while len(started) < count:
            thread = threading.Thread(target=enough.wait)
            thread.start()
            started.append(thread)
    except RuntimeError:
        return False
    finally:
        enough.set()
        for thread in started:
            thread.join()
    return True


def lack(who: str, count: int) -> str:
    """Why `who`, several, cannot have so many; empty where they can."""
    if may_start(count):
        return ""
    return (
        f"{who} take {count} threads, and 'ulimit -u' or the control group does not allow"
        " as many more"
    )


def spare_blas() -> None:
    """Has OpenBLAS start none where it may not: nothing of the lab's is so large."""
    if "numpy" not in sys.modules and not may_start(min(BLAS_MOST, _cpus())):
        os.environ[BLAS] = "1"


def check_polars() -> None:
    """CannotError where polars would panic, when it is imported or later."""
    wrong = lack("tables of a run", POLARS + POLARS_EACH * _cpus())
    if wrong and "polars" not in sys.modules:
        raise CannotError(f"{wrong}; raise it, or do without: swtch show --format csv")


def _cpus() -> int:
    return len(os.sched_getaffinity(0))
