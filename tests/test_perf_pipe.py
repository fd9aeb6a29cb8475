# SPDX-License-Identifier: Apache-2.0
"""peers/perf_pipe.py with a perf made for it: what is compared with what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swtch.engines.native import find_probe

SCRIPT = Path(__file__).parents[1] / "peers" / "perf_pipe.py"


def run(path: Path, perf: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script with this perf alone on its path."""
    if perf is not None:
        program = path / "perf"
        program.write_text(f"#!/bin/sh\n{perf}\n")
        program.chmod(0o755)
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--rounds", "5", "--loops", "200", "--policy", "other"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": f"{path}", **environment},
    )


@pytest.mark.parametrize("seconds", ["0.000001", "1000"])
def test_what_is_far_apart_is_said(tmp_path: Path, seconds: str) -> None:
    """No machine makes 200 round trips in a microsecond, or takes a quarter of an hour."""
    # The script imports the package of this tree, which has no programs in it.
    probes = str(find_probe().parent)
    perf = f'echo "$@" >> {tmp_path}/asked; echo {seconds}'
    done = run(tmp_path, perf, SWTCH_PROBE_DIR=probes)
    assert done.returncode == 1, done.stderr
    assert "more than 10 % apart" in done.stdout
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked.count("bench -f simple sched pipe -l 200") == 5
    assert asked.count("bench -f simple sched pipe -l 200 -T") == 5


def test_without_perf_it_says_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path, None)
    assert done.returncode == 3 and "apt-get install linux-perf" in done.stderr


def test_a_perf_that_fails_is_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, "echo no pipes today >&2; exit 1")
    assert done.returncode == 3 and "no pipes today" in done.stderr
    assert "Traceback" not in done.stderr
