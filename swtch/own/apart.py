# SPDX-License-Identifier: Apache-2.0
"""Around foreign code: what is the process' and not its own is afterwards as it was.

- What it prints is no data of ours, and goes to standard error. It may close these streams,
  or put others in their place.
- The folder that our paths begin in, and the locale by which files are read.
- It ends itself, not us: ``os._exit`` and ``os.abort`` are ``sys.exit`` in it, and what is no
  Exception and nobody's signal is raised as one (`BareError`). A child that it forks ends as it
  likes.

Nothing helps where C has the kernel end us (``abort()``, a segmentation fault): what was
measured is on the disk by then, and a report can be made of it.

Rejected: a process of its own for it (a metric is asked for once a sample, and is given
objects of ours).
"""

from __future__ import annotations

import contextlib
import io
import locale
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

# What foreign code may raise and goes on after; sys.exit() in it is not ours.
FOREIGN = (Exception, SystemExit)
_STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")
_LEAVES = ("_exit", "abort")


class BareError(Exception):
    """Foreign code raised ``error``, a BaseException of its own kind."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Within it foreign code runs; what that raises is one of FOREIGN, or Ctrl-C."""
    streams = {name: getattr(sys, name) for name in _STREAMS}
    folder, letters = _folder(), locale.setlocale(locale.LC_ALL)
    leaves = {name: getattr(os, name) for name in _LEAVES}
    said = _Lent.of(streams["stderr"])
    try:
        for name in streams:
            setattr(sys, name, said)
        for name, leave in leaves.items():
            setattr(os, name, _Leave.of(leave, f"os.{name}()"))
        yield
    except (*FOREIGN, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise BareError(error) from None
    finally:
        for name, leave in leaves.items():
            setattr(os, name, leave)
        for name, stream in streams.items():
            setattr(sys, name, stream)
        if locale.setlocale(locale.LC_ALL) != letters:
            locale.setlocale(locale.LC_ALL, letters)
        if folder and _folder() != folder:
            os.chdir(folder)


class _Lent:
    """A stream that whoever has it cannot close."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @classmethod
    def of(cls, stream: Any) -> Any:
        """None stays None, as where a program has no terminal, and code may be within code."""
        return stream if stream is None or isinstance(stream, cls) else cls(stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        self._stream.flush()

    def detach(self) -> NoReturn:
        raise io.UnsupportedOperation("detach")


class _Leave:
    """What ``os._exit`` and ``os.abort`` are meanwhile."""

    def __init__(self, leave: Any, name: str) -> None:
        self._leave = leave
        self._name = name
        self._pid = os.getpid()

    @classmethod
    def of(cls, leave: Any, name: str) -> Any:
        return leave if isinstance(leave, cls) else cls(leave, name)

    def __call__(self, *status: int) -> NoReturn:
        if os.getpid() != self._pid:
            self._leave(*status)
        raise SystemExit(*status or (self._name,))


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # it is no more
