# SPDX-License-Identifier: Apache-2.0
"""Where things are kept between runs: also of who has no home, and never where one stands."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from outside import OneLine, mine, nothing_registered

from swtch import cli, folders
from swtch.own import trust
from swtch.vm import cache

__all__ = ["mine", "nothing_registered"]  # the fixtures


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that is no user's, as a container's may be."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for variable in ("HOME", trust.ENV, cache.ENV):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


def test_the_folders_of_who_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for named, folder in (
        ("/state", "/state"),
        ("", "/home/me/.local/state"),
        ("here", "/home/me/.local/state"),
    ):
        monkeypatch.setenv(trust.ENV, named)
        assert folders.of_user(os.environ[trust.ENV], ".local/state") == Path(folder)


HOMELESS = """
import pwd, sys
def unknown(uid):
    raise KeyError(uid)
pwd.getpwuid = unknown
from swtch import cli
sys.exit(cli.main())
"""


def test_code_of_ones_own_is_run_and_reported_without_a_home(mine: Path, probe_dir: Path) -> None:
    """In a process of its own, for what libraries ask as they are loaded."""
    lacks = ("HOME", trust.ENV, cache.ENV)
    environment = {name: value for name, value in os.environ.items() if name not in lacks}

    def swtch(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", HOMELESS, *arguments],
            cwd=mine.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    done = swtch("run", "./mine.py", "--quick", "--quiet", "--out", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert (mine.parent / "run" / "report.html").exists()
    # What it was told once it cannot know the next time.
    done = swtch("report", "run")
    assert done.returncode == 0 and "brings code of its own" in done.stderr


def test_guests_are_a_line_without_a_home(
    homeless: None, capsys: pytest.CaptureFixture[str], one_line: OneLine
) -> None:
    assert cli.main(["vm", "list"]) == 3
    assert "no home for a cache; set XDG_CACHE_HOME" in one_line(capsys.readouterr().err)


def test_whose_code_runs_is_not_told_by_where_one_stands(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that somebody sent may have any file in it."""
    monkeypatch.setenv("HOME", str(mine.parent / "home"))
    monkeypatch.setenv(trust.ENV, ".")
    monkeypatch.chdir(mine.parent)
    (mine.parent / "swtch").mkdir()
    (mine.parent / "swtch" / trust.FILE).write_text(f"{'0' * 64} '/theirs.py'\n")
    assert not trust.has("0" * 64, "/theirs.py")
