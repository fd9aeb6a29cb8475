# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as every command may count on them: what is printed can be.

What is said on standard error beside the result, how far a run is above all, ends nothing
where it cannot be said: a full disk or a reader that went away there cost a measurement.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Buffer


def mend() -> None:
    """A letter that the terminal's encoding lacks is a ``?``, a file's name comes out as it
    is, and what was closed before we began is nowhere."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else the next file that is opened is it, and libraries read and write there.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - for good
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for good
        elif name == "stdout" and isinstance(stream, io.TextIOWrapper):
            known = codecs.lookup(stream.encoding).name == "utf-8"
            stream.reconfigure(errors="surrogateescape" if known else "replace")
        elif name == "stderr" and isinstance(stream, io.TextIOWrapper) and _is_own(stream):
            sys.stderr = io.TextIOWrapper(
                io.BufferedWriter(_Said(stream.fileno(), "wb", closefd=False)),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=True,
            )


def _is_own(stream: io.TextIOWrapper) -> bool:
    """Whether it is the process' own, and not one that a test or another program put there."""
    return stream is sys.__stderr__


class _Said(io.FileIO):
    """A file whose writer does not hear that it could not be written."""

    def write(self, data: Buffer, /) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes
