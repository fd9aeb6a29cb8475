# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command: each is what Ctrl-C is, at any moment.

Python makes a KeyboardInterrupt of SIGINT alone. SIGTERM (a service manager, `timeout`, a
batch system) and SIGHUP (a terminal that is closed) ended the process where it stood:
without a line, and without what `finally` and `with` are there for.

Whoever must not be left in the middle has handlers of its own for as long, inside these
(swtch.runner, swtch.commands.vm_bisect).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def as_interrupts() -> Iterator[None]:
    """Meanwhile these signals raise KeyboardInterrupt, but for those that are ignored, as
    nohup does, or that a program around us handles."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the first thread may have handlers
        return
    ours = [number for number in ENDS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
