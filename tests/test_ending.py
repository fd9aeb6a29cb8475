# SPDX-License-Identifier: Apache-2.0
"""Signals that end the lab while it does not measure: a line, a status, nothing lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from swtch import cli, ending, store

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The command line, where telling a run's story says that it has begun, and never ends.
TELLING = """
import sys, time
from swtch import cli
from swtch.report import story
def tell(path):
    print("telling", flush=True)
    time.sleep(600)
story.tell = tell
sys.exit(cli.main(sys.argv[1:]))
"""
MEASURE = ("run", "coroutine-gantt", "--models", "ucontext", "--repeats", "2", "--out", "here")


def end(folder: Path, number: signal.Signals, *arguments: str) -> tuple[int, list[str]]:
    """Status and lines of `swtch` that has this signal while it tells a run's story."""
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "telling\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said.splitlines()


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_while_the_report_is_made_says_how_to_have_it(
    number: signal.Signals, probe_dir: Path, tmp_path: Path
) -> None:
    status, said = end(tmp_path, number, *MEASURE, "--quiet")
    assert status == 130
    kept = "10 of 10 invocations are kept"
    assert said == [f"interrupted: {kept}. To continue: swtch run --resume here"]
    before = (tmp_path / "here" / store.SAMPLES).read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "swtch", "run", "--resume", "here", "--quiet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "here" / store.SAMPLES).read_bytes() == before
    assert (tmp_path / "here" / "report.html").exists()


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_ends_any_command_with_a_line(
    number: signal.Signals, probe_dir: Path, tmp_path: Path
) -> None:
    status, _ = end(tmp_path, number, *MEASURE)
    assert status == 130
    assert end(tmp_path, number, "report", "here") == (130, ["swtch: interrupted."])


def test_who_ignores_or_handles_a_signal_goes_on_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nohup does, and a program that has the lab in it."""
    seen: list[object] = []

    def look(_: object) -> int:
        seen.extend(map(signal.getsignal, ending.ENDS))
        return 0

    monkeypatch.setattr(cli, "_run_command", look)
    mine = lambda *_: None  # noqa: E731
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGTERM, mine)
    try:
        assert cli.main(["list"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])
    assert seen == [mine, signal.SIG_IGN]


def test_handlers_are_put_back_and_other_threads_have_none() -> None:
    before = [signal.getsignal(number) for number in ending.ENDS]
    assert cli.main(["--version"]) == 0
    assert [signal.getsignal(number) for number in ending.ENDS] == before
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(cli.main(["--version"])))
    thread.start()
    thread.join()
    assert codes == [0]
