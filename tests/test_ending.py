# SPDX-License-Identifier: Apache-2.0
"""Signals that end the lab while it does not measure: a line, a status, nothing lost."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

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
# The command line, where before the first probe starts a signal comes.
BEGINNING = """
import os, sys
from swtch import cli
from swtch.commands import campaign
def begin(*_, **__):
    os.kill(os.getpid(), int(sys.argv[1]))
campaign.Planned.announce = campaign.own.ready = begin
sys.exit(cli.main(sys.argv[2:]))
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


@pytest.fixture
def handlers() -> Iterator[None]:
    """What a test does to the handlers of these signals is undone."""
    before = {number: signal.getsignal(number) for number in ENDS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _at(moment: int, work: Callable[[], None]) -> bool:
    """Does `work`, with SIGTERM at that line of swtch.ending that it comes to; whether it did."""
    lines = itertools.count()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != ending.__file__:
            return None
        if event == "line" and next(lines) == moment:
            os.kill(os.getpid(), signal.SIGTERM)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return next(lines) > moment


def test_a_signal_while_handlers_change_is_heard_and_leaves_none_behind(handlers: None) -> None:
    """At each line; before and after, its handler raises, as that of the command line does."""
    for number in ENDS:
        signal.signal(number, signal.default_int_handler)
    heard: list[int] = []

    def work() -> None:
        with ending.handled(ENDS, lambda number, _: heard.append(number)):
            pass

    for moment in itertools.count():
        heard.clear()
        raised = False
        try:
            came = _at(moment, work)
        except KeyboardInterrupt:
            came = raised = True
        assert [signal.getsignal(one) for one in ENDS] == [signal.default_int_handler] * 3, moment
        if not came:
            break
        assert raised != (heard == [signal.SIGTERM]), moment
    assert moment > len(ENDS)


def test_what_a_program_in_c_handles_stays_with_it(
    handlers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python does not know such a handler and could not give it back."""
    known = signal.getsignal
    of_c = {signal.SIGTERM}
    monkeypatch.setattr(signal, "getsignal", lambda one: None if one in of_c else known(one))
    before = known(signal.SIGTERM)
    with ending.handled(ENDS, lambda *_: None):
        assert known(signal.SIGTERM) is before
        assert known(signal.SIGHUP) is not before


def test_two_signals_at_once_are_one_interrupt(
    handlers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first one's `finally` is there for is done. A later one is one more."""
    for number in ending.ENDS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    now = [100.0]
    monkeypatch.setattr("swtch.ending.time.monotonic", lambda: now[0])
    done: list[str] = []
    with ending.as_interrupts():
        with pytest.raises(KeyboardInterrupt):
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                for number in ENDS:
                    signal.raise_signal(number)
                done.append("closed")
        now[0] += 2 * ending.ONE_S
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert done == ["closed"]


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_before_the_first_probe_says_how_to_continue(
    number: signal.Signals, probe_dir: Path, tmp_path: Path
) -> None:
    told = "interrupted: 0 of 10 invocations are kept. To continue: swtch run --resume here"
    for arguments in (MEASURE, ("run", "--resume", "here", "--quiet")):
        done = subprocess.run(
            [sys.executable, "-c", BEGINNING, str(int(number)), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr.splitlines()) == (130, [told])
