# SPDX-License-Identifier: Apache-2.0
"""Where reports are written: whole or not at all, where they are told, and only then."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic import Scene

from swtch import report
from swtch.report import charts

Swtch = Callable[..., "subprocess.CompletedProcess[str]"]


def names(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return Scene().scenario("A", "pthread", n=2).gantt(n=1).write(tmp_path / "run")


def test_a_place_without_devices_allows_files_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container may be."""
    monkeypatch.setattr(os, "devnull", "/absent/null")
    charts._may_open.cache_clear()
    assert charts._may_open(charts.DESCRIPTORS)


@pytest.mark.parametrize("broken", ["_html", "_markdown", "_json"])
def test_a_report_that_cannot_be_made_leaves_the_old_one(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    files = report.write(run_dir)
    for file in files:
        file.write_text("old")
    before = names(run_dir)

    def fail(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, broken, fail)
    with pytest.raises(KeyboardInterrupt):
        report.write(run_dir)
    assert {file.read_text() for file in files} == {"old"}
    assert names(run_dir) == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_report_whole(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    (html,) = report.write(run_dir, ("html",))
    html.write_text("old")
    before = names(run_dir)

    def full_disk(*_: object) -> None:
        assert html.read_text() == "old"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os if call == "fsync" else Path, call, full_disk)
        with pytest.raises(OSError, match="No space left"):
            report.write(run_dir, ("html",))
    assert html.read_text() == "old"
    assert names(run_dir) == before
    report.write(run_dir, ("html",))
    assert html.read_text().startswith("<!doctype html>")


def test_a_report_goes_where_it_is_told(run_dir: Path, swtch: Swtch, tmp_path: Path) -> None:
    before = names(run_dir)
    out = tmp_path / "some" / "where"
    done = swtch("report", str(run_dir), "-o", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        str(out / name) for name in ("report.html", "report.md", "report.json")
    ]
    assert names(out) == ["report.html", "report.json", "report.md"]
    assert names(run_dir) == before
    chosen = swtch("report", str(run_dir), "--format", "md")
    assert chosen.stdout == f"{run_dir / 'report.md'}\n"
    assert (run_dir / "report.md").read_bytes() == (out / "report.md").read_bytes()
    assert names(run_dir) == sorted([*before, "report.md"])


def test_a_place_that_cannot_be_written_is_one_line(
    run_dir: Path, swtch: Swtch, tmp_path: Path, one_line: Callable[[str], str]
) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        done = swtch("report", str(run_dir), "-o", str(out))
        assert done.returncode == 3
        assert "cannot write the report" in one_line(done.stderr)
    assert (tmp_path / "file").read_text() == "mine"


def test_showing_writes_nothing(run_dir: Path, swtch: Swtch) -> None:
    before = names(run_dir)
    shown = {form: swtch("show", str(run_dir), "--format", form) for form in ("md", "json", "csv")}
    shown["table"] = swtch("show", str(run_dir))
    assert {done.returncode for done in shown.values()} == {0}
    assert names(run_dir) == before
    assert shown["md"].stdout == report.as_markdown(run_dir)
    assert json.loads(shown["json"].stdout) == json.loads(
        msgspec.json.encode(report.as_json(run_dir))
    )
