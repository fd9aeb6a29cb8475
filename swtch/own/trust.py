# SPDX-License-Identifier: Apache-2.0
"""Whose code may run: the files this user named himself, by digest and path.

The list is below $XDG_STATE_HOME, out of reach of a run directory that somebody sends.
The path counts because a program of the user's own is found relative to it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from swtch import folders

ENV = "XDG_STATE_HOME"
FILE = "trusted"

# Also where no file can be kept.
_now: set[str] = set()


def add(sha256: str, path: str) -> None:
    """The user asked for this code."""
    line = _line(sha256, path)
    if has(sha256, path):
        return
    _now.add(line)
    file = _file()
    if file is None:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")


def has(sha256: str, path: str) -> bool:
    """Whether he did, now or before."""
    line = _line(sha256, path)
    if line in _now:
        return True
    file = _file()
    if file is None:
        return False
    try:
        return line in file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False


def forget() -> None:
    """What only this process knows is forgotten; for tests."""
    _now.clear()


def _line(sha256: str, path: str) -> str:
    # One line, whatever is in the name of a file.
    return f"{sha256} {path!a}"


def _file() -> Path | None:
    state = folders.of_user(os.environ.get(ENV, ""), ".local/state")
    return state / "swtch" / FILE if state else None
