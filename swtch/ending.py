# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command: each is what Ctrl-C is, at any moment.

Python makes a KeyboardInterrupt of SIGINT alone. SIGTERM (a service manager, `timeout`, a
batch system) and SIGHUP (a terminal that is closed) ended the process where it stood:
without a line, and without what `finally` and `with` are there for.

Whoever must not be left in the middle has handlers of its own for as long, inside these
(swtch.runner, swtch.commands.vm_bisect).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDS = (signal.SIGTERM, signal.SIGHUP)
# Signals that are no further apart are one.
ONE_S = 1.0
Handler = Callable[[int, FrameType | None], object]


@contextmanager
def as_interrupts() -> Iterator[None]:
    """Meanwhile these signals raise KeyboardInterrupt, but for those that are ignored, as
    nohup does, or that a program around us handles."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the first thread may have handlers
        return
    raises = {signal.SIGINT: signal.default_int_handler}
    ours = [
        number
        for number in (signal.SIGINT, *ENDS)
        if signal.getsignal(number) is raises.get(number, signal.SIG_DFL)
    ]
    with handled(ours, _Interrupt()):
        yield


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: Handler) -> Iterator[None]:
    """Meanwhile `handler` has these signals. However one comes while they change hands, and
    whatever its handler before raises: in the end each has the one that it had. One that a
    program in C handles, into which Python was put, stays with it: nobody could give it back."""
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: old for number, old in before.items() if old is not None}
    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        _give_back(before)


def _give_back(before: Mapping[signal.Signals, Any]) -> None:
    try:
        for number, old in before.items():
            signal.signal(number, old)
    except BaseException:
        # Of a handler that was back, and raised before the next one was.
        _give_back(before)
        raise


class _Interrupt:
    """The handler that raises. Signals of one second are one: of a terminal that is closed the
    kernel and the shell tell, some service managers send SIGTERM and SIGHUP, and a second
    exception would break off what the first one's `finally` and `with` are there for."""

    def __init__(self) -> None:
        self._raised_s = -math.inf

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if now_s - self._raised_s > ONE_S:
            self._raised_s = now_s
            raise KeyboardInterrupt
