# SPDX-License-Identifier: Apache-2.0
"""What can go wrong and is not a bug: one clear line for the user and an exit code.

A ``LabError`` carries one line that says *what* is wrong, *where*, and *what to
do*. Only the command line turns it into text and an exit code; everything
below raises. A traceback is therefore always a bug of ours.

The codes are a contract (docs/architecture.md); scripts test for them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_OK = 0
EXIT_WORSE = 1
EXIT_USAGE = 2
EXIT_CANNOT = 3
EXIT_SOME_FAILED = 4
EXIT_CORRUPT = 5
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141


class LabError(Exception):
    """Base of all expected failures. ``str()`` is one line for the user."""

    exit_code = EXIT_CANNOT

    def __init__(self, line: str) -> None:
        super().__init__(" ".join(line.split()))


class RequestError(LabError):
    """The command line asks for something that does not exist."""

    exit_code = EXIT_USAGE


class CannotError(LabError):
    """This machine or folder cannot do what was asked."""

    exit_code = EXIT_CANNOT


class CorruptError(LabError):
    """A run directory cannot be read as it is."""

    exit_code = EXIT_CORRUPT


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean X?`` when something known is close, else an empty string."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else ""


def os_error_text(error: OSError) -> str:
    """The reason alone, without Python's ``[Errno 28]`` in front of it."""
    return (error.strerror or str(error)).lower()
