# SPDX-License-Identifier: Apache-2.0
"""peers/programs.py on programs that every system has: what it says, and when it fails.

That real programs are right by uthread-run is what `make bench-programs` is for.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PEERS = Path(__file__).resolve().parent.parent / "peers"


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(PEERS))
    module = importlib.import_module("programs")
    launcher = tmp_path / "uthread-run"
    launcher.write_text('#!/bin/sh\n[ "$1" = --tick ] && shift 2\nBY=us exec "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setattr(module, "DATA_MB", 1)
    monkeypatch.setattr(module.sys, "argv", ["programs.py", "--launcher", str(launcher)])
    return module


def run(programs: Any, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    monkeypatch.setattr(programs.sys, "argv", [*programs.sys.argv, *more])
    return int(programs.main())


def test_pairs(
    programs: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(
        programs,
        "PROGRAMS",
        [
            programs.Program("copies", "the data", "cat", stdin=True),
            programs.Program("gone", "nothing", "no-such-program"),
        ],
    )
    assert run(programs, monkeypatch, "--pairs", "3", "--json", str(tmp_path / "j")) == 0
    said = capsys.readouterr().out
    assert "| gone | nothing | left out: no-such-program is not installed |" in said
    assert "geometric mean" in said
    copies = json.loads((tmp_path / "j").read_text())[0]
    assert [len(values) for values in copies["wall"]] == [3, 3]


def test_wrong_is_said(
    programs: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(name: str, script: str) -> Any:
        return programs.Program(name, "", f"sh -c '{script}'", stdin=True, timed=False)

    monkeypatch.setattr(
        programs,
        "PROGRAMS",
        [
            says("exits", "exit 3"),
            says("dies", "kill -9 $$"),
            says("differs", "echo $BY"),
            says("good", "wc -c"),
        ],
    )
    assert run(programs, monkeypatch, "--check") == 1
    said = capsys.readouterr().out
    assert "| exits |  | **wrong**: glibc: exit status 3: it said nothing |" in said
    assert "| dies |  | **wrong**: glibc: signal 9: it said nothing |" in said
    assert "| differs |  | **wrong**: the output is not always the same |" in said
    assert "| good |  | right |" in said


def test_nothing_runs_for_ever(programs: Any) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True
    )
    assert programs.wait_for(child, 0.1) == (-1, 0.0)
    assert programs.ended(-1) == "it did not end"


def test_ratio(programs: Any) -> None:
    assert programs.ratio(([1.0, 2.0, 4.0], [2.0, 2.0, 2.0])) == "1.00 (0.50 to 2.00)"
    assert programs.ratio(([0.0], [0.0])) == "-"
