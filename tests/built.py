# SPDX-License-Identifier: Apache-2.0
"""libuthread as a user gets it: its headers, its functions, a build of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "libuthread"
INCLUDE = LIBRARY / "include"


def declared() -> set[str]:
    """The functions of the public headers."""
    found: set[str] = set()
    for header in INCLUDE.rglob("*.h"):
        code = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.DOTALL)
        code = re.sub(r"^#(?:.*\\\n)*.*", "", code, flags=re.MULTILINE)
        found |= set(re.findall(r"\b((?:uthread|coroutine)_\w+)\(", code))
    return found


def macros() -> set[str]:
    """What stands there like a function, and is none."""
    found: set[str] = set()
    for header in INCLUDE.rglob("*.h"):
        found |= set(re.findall(r"#define (uthread_\w+)\(", header.read_text(encoding="utf-8")))
    return found


def _newest(candidates: list[Path]) -> Path | None:
    there = [path for path in candidates if path.is_file()]
    return max(there, key=lambda path: path.stat().st_mtime, default=None)


def _meson() -> str | None:
    """Meson of this environment, or of the machine."""
    return shutil.which("meson", path=str(Path(sys.executable).parent)) or shutil.which("meson")


def find_build(scratch: Path) -> Path:
    """The folder with libuthread.a and .so of the newest build of this tree.

    Made in ``scratch`` when there is none.
    """
    builds = [ROOT / "build", ROOT / "build-wheel"]
    probes = os.environ.get("SWTCH_PROBE_DIR")
    if probes:
        builds.append(Path(probes).parent)
    found = _newest([build / "libuthread" / "libuthread.a" for build in builds])
    if found is not None:
        return found.parent
    program = _meson()
    assert program, "no build of libuthread in build/ or build-wheel/, and no meson to make one"
    options = ["-Dprobes=false", "-Dtests=false", "-Dman=disabled"]
    for command in (["setup", *options, str(scratch), str(ROOT)], ["compile", "-C", str(scratch)]):
        done = subprocess.run([program, *command], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
    return scratch / "libuthread"
