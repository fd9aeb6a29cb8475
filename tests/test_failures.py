# SPDX-License-Identifier: Apache-2.0
"""tools/failures.py: what failed is named, with the end of what it said, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from built import ROOT


def said(log: Path) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/failures.py", log],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout


def line_of(name: str, result: str, **more: str) -> str:
    test = {"name": f"libuthread - swtch:{name}", "result": result, "duration": 1.25}
    return json.dumps({**test, "stdout": "", **more})


def test_who_failed_is_named_with_the_end_of_what_it_said(tmp_path: Path) -> None:
    log = tmp_path / "testlog-native.json"
    many = "\n".join(f"line {k}" for k in range(40))
    lines = [
        line_of("uthread-fine", "OK", stdout="all is well"),
        line_of("uthread-lacks", "SKIP"),
        line_of("uthread-wrong", "FAIL", stdout=many, stderr="test.c:9: 1 is not 2\n\n"),
        line_of("preload-long", "TIMEOUT"),
        '{"name": "libuthr',  # the run was killed while it wrote
    ]
    log.write_text("\n".join(lines))
    assert said(log).splitlines() == [
        "uthread-wrong: FAIL after 1.2 s",
        *(f"  line {k}" for k in range(28, 40)),
        "  test.c:9: 1 is not 2",
        "preload-long: TIMEOUT after 1.2 s",
    ]


def test_a_run_in_which_nothing_failed_has_nothing_to_say(tmp_path: Path) -> None:
    log = tmp_path / "testlog-native.json"
    log.write_text(line_of("uthread-fine", "OK") + "\n")
    assert said(log) == ""


def test_a_run_that_ended_before_its_first_test_says_so(tmp_path: Path) -> None:
    assert said(tmp_path / "none.json") == "no test ended: there is no none.json\n"
