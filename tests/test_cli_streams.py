# SPDX-License-Identifier: Apache-2.0
"""The command line where standard output, or a file's name, is not what one expects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic

RUN = "a run"
# As bytes of Latin-1 are: no UTF-8, and yet a name that the kernel takes.
ODD = os.fsdecode(b"l\xe4uft")


def swtch(*words: str, close: int = -1, **environment: str) -> subprocess.CompletedProcess[bytes]:
    closes = f"import os; os.close({close}); " if close >= 0 else ""
    program = (
        f"{closes}import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'swtch',"
        " *sys.argv[1:]])"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    synthetic.full().write(tmp_path / RUN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_without_our_letters(here: Path, encoding: str) -> None:
    done = swtch("show", RUN, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout
    done.stdout.decode(encoding)


@pytest.mark.parametrize("words", [("show", RUN), ("list",), ("export", RUN)])
@pytest.mark.parametrize("close", [1, 2])
def test_a_stream_that_was_closed_before(here: Path, words: tuple[str, ...], close: int) -> None:
    done = swtch(*words, close=close)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_export_into_a_folder_whose_name_is_no_text(here: Path, form: str) -> None:
    done = swtch("export", RUN, "--format", form, "--out", ODD, PYTHONIOENCODING="utf-8")
    assert (done.returncode, done.stderr) == (0, b"")
    written = [os.fsdecode(line) for line in done.stdout.splitlines()]
    assert written
    assert all(Path(name).stat().st_size for name in written)


def test_a_run_in_a_folder_whose_name_is_no_text(here: Path, probe: Path) -> None:
    options = ("--models", "ucontext", "--repeats", "1", "--no-report", "--quiet")
    done = swtch(
        "run", "coroutine-gantt", *options, "--out", ODD, SWTCH_PROBE_DIR=str(probe.parent)
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((here / ODD / "manifest.json").read_text())["command"][-1] == "l\ufffduft"
    assert swtch("show", ODD).returncode == 0


@pytest.mark.parametrize("words", [("export", RUN), ("report", RUN), ("show", RUN)])
def test_a_reader_that_went_away_is_no_folder_that_cannot_be_written(
    here: Path, words: tuple[str, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "swtch", *words],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
        )
    finally:
        os.close(writer)
    assert done.returncode == 141, done.stderr
    assert b"standard output was closed before everything was written" in done.stderr
    if words[0] == "export":
        names = {file.name for file in (here / RUN / "export").iterdir()}
        assert {"samples.csv", "findings.csv", "verdicts.csv"} <= names
        assert not any(name.endswith(".tmp") for name in names)
