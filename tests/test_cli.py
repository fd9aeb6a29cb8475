# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: output, one-line errors, exit codes, resume."""

from __future__ import annotations

import contextlib
import csv
import importlib
import importlib.metadata
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import swtch as swtch_package
from swtch import cli, store

Swtch = Callable[..., "subprocess.CompletedProcess[str]"]
OneLine = Callable[[str], str]

# One block of the smallest real choice: 5 scenarios and the control, and 4 charts.
SMALL = ("run", "--models", "ucontext", "--repeats", "1", "--seed", "5", "--no-report")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, swtch.cli\n"
        "swtch.cli.main(['--help'])\n"
        "heavy = {'numpy', 'scipy', 'polars', 'altair', 'rich', 'jinja2', 'msgspec'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    for command in (
        "compare",
        "doctor",
        "export",
        "history",
        "list",
        "replicate",
        "report",
        "run",
        "show",
    ):
        assert f"\n  {command} " in done.stdout


def test_list_in_every_format(swtch: Swtch) -> None:
    table = swtch("list")
    assert (table.returncode, table.stderr) == (0, "")
    assert "coroutine-gantt" in table.stdout
    listed = json.loads(swtch("list", "--format", "json").stdout)["experiments"]
    by_name = {row["experiment"]: row for row in listed}
    assert by_name["scenarios"]["trials"] == 26
    assert by_name["scenarios"]["study"] == "000"
    rows = list(csv.DictReader(io.StringIO(swtch("list", "--format", "csv").stdout)))
    assert [row["experiment"] for row in rows] == [row["experiment"] for row in listed]
    markdown = swtch("list", "--format", "md").stdout.splitlines()
    assert len(markdown) == 2 + len(listed)
    assert {line.count("|") for line in markdown} == {7}


def test_doctor_prints_conditions(swtch: Swtch) -> None:
    table = swtch("doctor")
    assert (table.returncode, table.stderr) == (0, "")
    assert "mitigations" in table.stdout
    found = json.loads(swtch("doctor", "--format", "json").stdout)
    assert found["environment"]["kernel"]["release"] == os.uname().release
    assert {c["state"] for c in found["conditions"]} <= {"good", "note", "bad", "absent"}


def test_no_color_is_respected(swtch: Swtch) -> None:
    coloured = swtch("doctor", FORCE_COLOR="1", NO_COLOR="")
    plain = swtch("doctor", FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b[32m" in coloured.stdout
    assert "\x1b[32m" not in plain.stdout


def test_run_measures_and_show_csv_gives_the_samples(
    probe_dir: Path, swtch: Swtch, tmp_path: Path
) -> None:
    done = swtch(*SMALL, "--out", "here")
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[0].endswith("; seed 5")
    planned = len(store.load(tmp_path / "cwd" / "here").manifest.trials)
    assert planned >= 10
    assert f"{planned} trials x 1 repeats = {planned} invocations" in lines[0]
    assert lines[-1] == "samples: here"
    rows = list(csv.DictReader(io.StringIO(swtch("show", "here", "--format", "csv").stdout)))
    assert len(rows) == planned
    assert {row["status"] for row in rows} == {"ok"}
    counts = [row["counter"] for row in rows if row["experiment"] == "scenarios"]
    assert counts == ["4000000"] * 6


def test_the_default_folder_is_new_each_time(probe_dir: Path, swtch: Swtch, tmp_path: Path) -> None:
    for _ in range(2):
        assert swtch(*SMALL, "coroutine-gantt", "--quiet").returncode == 0
    runs = sorted((tmp_path / "cwd" / "swtch-runs").iterdir())
    assert len(runs) == 2
    for path in runs:
        assert store.load(path).manifest.run_id == path.name


def test_quiet_says_nothing_on_success(probe_dir: Path, swtch: Swtch) -> None:
    done = swtch(*SMALL, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_same_seed_same_plan(probe_dir: Path, swtch: Swtch, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert swtch(*SMALL, "--out", name).returncode == 0
    one, two = (store.load(tmp_path / "cwd" / name).manifest for name in ("one", "two"))
    assert one.plan == two.plan
    assert one.trials == two.trials


def test_failures_are_told_kept_and_exit_4(probe_dir: Path, swtch: Swtch, tmp_path: Path) -> None:
    done = swtch(*SMALL, "scenarios", "--out", "here", FAKE_PROBE="sleep=crash")
    assert done.returncode == 4
    assert "failed: scenarios/C1/ucontext: probe died of SIGSEGV" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("swtch: 2 of 6 invocations failed; what was measured is kept.")
    run = store.load(tmp_path / "cwd" / "here")
    assert [s.status for s in run.samples].count("ok") == 4


def test_a_hanging_probe_is_ended_by_the_time_limit(probe_dir: Path, swtch: Swtch) -> None:
    done = swtch(
        *SMALL, "scenarios", "--time-limit", "0.3", "--out", "here", FAKE_PROBE="none=hang"
    )
    assert done.returncode == 4
    assert "scenarios/A/ucontext: probe ran longer than 0.3 s" in done.stderr


WRONG = [
    (("run", "scenarois"), 2, "there is no experiment 'scenarois'. Did you mean scenarios?"),
    (("run", "--models", "pthraed"), 2, "there is no model 'pthraed'. Did you mean pthread?"),
    (("run", "coroutine-gantt", "--models", "pthread"), 2, "has the model pthread"),
    (("run", "--modles", "x"), 2, "Did you mean '--models'? See 'swtch run --help'."),
    (("run", "--repeats", "0"), 2, "0 is not in the range"),
    (("run", "--repeats", "many"), 2, "'many' is not a valid integer"),
    (("run", "--quick", "--depth", "paper"), 2, "--quick is --depth quick, and --depth paper is"),
    (("run", "--depth", "deep"), 2, "'deep' is not one of 'quick', 'normal', 'paper'"),
    (("run", "--resume", "x", "--depth", "quick"), 2, "--resume continues the plan"),
    (("run", "--seed", "-1"), 2, "-1 is not in the range"),
    (("run", "--policy", "idle"), 2, "'idle' is not one of"),
    (("run", "--format", "xml"), 2, "'xml' is not one of"),
    (("run", "--time-limit", "0"), 2, "is not in the range"),
    (("run", "--time-limit", "nan"), 2, "nan is no number of seconds"),
    (("run", "--resume", "x", "--seed", "0"), 2, "--resume continues the plan as it was made"),
    (("rum",), 2, "No such command 'rum'"),
    (("show",), 2, "Missing argument 'RUN'. See 'swtch show --help'."),
    (("report", "x", "--format", "pdf"), 2, "a report cannot be 'pdf'"),
    (("show", "absent"), 5, "absent is not a run directory: there is no such folder."),
    (("report", "."), 5, "it has no manifest.json"),
    (("show", "/etc/passwd"), 5, "/etc/passwd is not a run directory: it is a file."),
    (("history", "/etc/passwd"), 5, "/etc/passwd is not a folder of runs: it is a file."),
    (("run", "--resume", "absent"), 5, "absent is not a run directory"),
    (("run", "--out", ""), 2, "Invalid value for '--out': it is empty; give a path, '.' for"),
    (("run", "--resume", ""), 2, "Invalid value for '--resume': it is empty"),
    (("replicate", "--out", ""), 2, "Invalid value for '--out': it is empty"),
    (("peers", "--out", ""), 2, "Invalid value for '--out': it is empty"),
    (("show", ""), 2, "Invalid value for 'RUN': it is empty; give a path"),
    (("report", ".", "--out", ""), 2, "Invalid value for '-o' / '--out': it is empty"),
    (("export", ".", "--out", ""), 2, "Invalid value for '-o' / '--out': it is empty"),
    (("compare", ".", ".", "--html", ""), 2, "Invalid value for '--html': it is empty"),
    (("history", ""), 2, "Invalid value for 'DIR': it is empty"),
    (("run", "--out", "/proc/none/run"), 3, "cannot make /proc/none/run"),
    (("run", "--out", "/dev/null/run"), 3, "a part of it is a file"),
    (("run", "--out", "/proc/self"), 3, "exists and is not empty"),
]


@pytest.mark.parametrize(("arguments", "code", "says"), WRONG, ids=lambda v: str(v)[:40])
def test_bad_input_is_one_line_and_a_code(
    arguments: tuple[str, ...],
    code: int,
    says: str,
    probe_dir: Path,
    swtch: Swtch,
    one_line: OneLine,
) -> None:
    done = swtch(*arguments)
    assert says in one_line(done.stderr)
    assert (done.returncode, done.stdout) == (code, "")


def test_a_missing_probe_makes_no_folder(swtch: Swtch, one_line: OneLine, tmp_path: Path) -> None:
    done = swtch("run", SWTCH_PROBE_DIR=str(tmp_path))
    assert done.returncode == 3
    assert "there is no program swtch-probe in it" in one_line(done.stderr)
    assert list((tmp_path / "cwd").iterdir()) == []


def test_no_cpu_allowed(
    probe_dir: Path,
    one_line: OneLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set())
    for arguments in (["run"], ["list"], ["doctor"]):
        assert cli.main(arguments) == 3
        assert "no CPU is allowed" in one_line(capsys.readouterr().err)


def test_a_refused_policy(
    probe_dir: Path,
    one_line: OneLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert cli.main(["run", "--policy", "fifo"]) == 3
    assert "--policy fifo is not permitted here" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("command", ["run", "replicate"])
def test_a_policy_is_an_experiments_own_unless_it_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def start(request: Any) -> int:
        asked.append(request.terms.policy)
        return 0

    monkeypatch.setattr(f"swtch.commands.{command}.start", start)
    assert cli.main([command]) == 0
    assert cli.main([command, "--policy", "batch"]) == 0
    assert asked == [None, "batch"]


def test_ctrl_c_while_it_is_being_imported(swtch: Swtch, one_line: OneLine, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os; os.kill(os.getpid(), 2)\n")
    done = swtch("list", PYTHONPATH=str(tmp_path))
    assert one_line(done.stderr) == "swtch: interrupted."
    assert (done.returncode, done.stdout) == (130, "")
    # The command that is installed is the same program.
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="swtch")
    assert command.value == "swtch.__main__:main"


@pytest.mark.parametrize("arguments", [("list",), ("doctor", "--format", "json"), ("--help",)])
def test_a_closed_pipe_is_one_line(arguments: tuple[str, ...], one_line: OneLine) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "swtch", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert "standard output was closed" in one_line(done.stderr)


def test_a_full_device_is_one_line(one_line: OneLine) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "swtch", "list"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 3
    assert "no space left on device" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("manifest.json", "{", "manifest.json: not a manifest"),
        ("manifest.json", '{"schema": 7}', "has schema 7, this swtch reads up to 2"),
        ("samples.jsonl", "rubbish\n", "samples.jsonl, line 1: not a sample"),
    ],
)
@pytest.mark.parametrize("command", [("show",), ("report",), ("run", "--resume")])
def test_corrupt_runs_exit_5(
    command: tuple[str, ...],
    file: str,
    text: str,
    says: str,
    probe_dir: Path,
    swtch: Swtch,
    one_line: OneLine,
    tmp_path: Path,
) -> None:
    assert swtch(*SMALL, "coroutine-gantt", "--out", "here").returncode == 0
    (tmp_path / "cwd" / "here" / file).write_text(text)
    done = swtch(*command, "here")
    assert done.returncode == 5
    assert says in one_line(done.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed_does_each_invocation_once(
    number: signal.Signals, probe_dir: Path, swtch: Swtch, tmp_path: Path
) -> None:
    folder = tmp_path / "cwd"
    folder.mkdir()
    log = tmp_path / "starts"
    samples = folder / "here" / store.SAMPLES
    (gate := tmp_path / "gate").touch()
    held = json.dumps([str(samples), 2, str(gate)])
    process = subprocess.Popen(
        [sys.executable, "-m", "swtch", *SMALL, "scenarios", "--out", "here"],
        cwd=folder,
        env={**os.environ, "FAKE_GATE": held, "FAKE_LOG": str(log)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not samples.exists() or samples.read_bytes().count(b"\n") < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "swtch run --resume here" in said.splitlines()[-1]
    assert len(store.load(folder / "here").samples) == 2
    for line in log.read_text().splitlines():
        assert not Path(f"/proc/{line.split()[0]}").exists(), "a probe outlived swtch"

    first = samples.read_bytes()
    samples.write_bytes(first[:-5])  # and the machine crashed, too
    done = swtch("run", "--resume", "here", "--no-report", FAKE_LOG=str(log))
    assert done.returncode == 0, done.stderr
    assert "dropped an incomplete last line" in done.stderr
    run = store.load(folder / "here")
    assert run.complete
    assert [s.seq for s in run.samples] == list(range(6))
    again = swtch("run", "--resume", "here", "--no-report")
    assert again.returncode == 0
    assert "nothing is left to do" in again.stderr


def test_progress_on_a_terminal_is_a_bar_and_data_stays_on_stdout(
    probe_dir: Path, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "swtch", *SMALL, "scenarios"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "FAKE_PROBE": "sleep=error"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # EIO: the other side has closed
        while chunk := os.read(ours, 4096):
            said += chunk
    os.close(ours)
    assert process.communicate()[0] == ""
    assert process.returncode == 4
    assert b"6/6" in said
    assert b"failed: scenarios/C1/ucontext: probe reports: CPU 9 is not allowed" in said


class FakeReport(types.ModuleType):
    """Stands in for swtch.report, whose own tests are elsewhere: who calls it, and how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("swtch.report")
        # Its rooms are the real ones: what a run says is worked out all the same.
        self.__path__ = importlib.import_module("swtch.report").__path__
        self.calls: list[tuple[str, ...]] = []
        monkeypatch.setitem(sys.modules, "swtch.report", self)
        monkeypatch.setattr(swtch_package, "report", self, raising=False)

    def write(
        self, path: Path, formats: tuple[str, ...], out: Path | None = None, told: object = None
    ) -> list[Path]:
        self.calls.append(formats)
        files = [(out or path) / f"report.{form}" for form in formats]
        for file in files:
            file.write_text(f"# {file.name}\n")
        return files

    def as_markdown(self, path: Path) -> str:
        return "# report.md\n"

    def as_json(self, path: Path) -> dict[str, int]:
        return {"samples": len(store.load(path).samples)}

    def print_run(self, path: Path, console: Any, verbose: bool = False) -> None:
        console.print(f"the table of {path.name}")


@pytest.fixture
def reporting(probe_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeReport:
    monkeypatch.chdir(tmp_path)
    return FakeReport(monkeypatch)


RUN = [word for word in SMALL if word != "--no-report"] + ["coroutine-gantt", "--out", "here"]


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("table", "the table of here\n"),
        ("json", '{\n  "samples": 5\n}\n'),
        ("md", "# report.md\n"),
    ],
)
def test_run_writes_the_report_and_prints_the_result(
    form: str, printed: str, reporting: FakeReport, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*RUN, "--format", form]) == 0
    said = capsys.readouterr()
    assert said.out == printed
    assert said.err.splitlines()[-3:] == [
        f"report: here/report.{suffix}" for suffix in ("html", "md", "json")
    ]
    assert cli.main(["show", "here", "--format", form]) == 0
    assert capsys.readouterr().out == printed


def test_report_writes_what_is_asked_for_where_it_is_asked_for(
    reporting: FakeReport, capsys: pytest.CaptureFixture[str], one_line: OneLine
) -> None:
    assert cli.main([*RUN, "--no-report", "--quiet"]) == 0
    assert reporting.calls == []
    assert cli.main(["report", "here", "--format", "md,html,md", "-o", "there/deep"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["there/deep/report.md", "there/deep/report.html"]
    assert said.err == ""
    assert Path("there/deep/report.md").read_text() == "# report.md\n"
    assert cli.main(["report", "here", "-o", "/dev/null/x"]) == 3
    assert "cannot write the report to /dev/null/x" in one_line(capsys.readouterr().err)


def test_an_incomplete_run_is_shown_and_said_to_be_so(
    reporting: FakeReport, capsys: pytest.CaptureFixture[str], one_line: OneLine
) -> None:
    assert cli.main([*RUN, "--no-report", "--quiet"]) == 0
    samples = Path("here/samples.jsonl")
    samples.write_bytes(samples.read_bytes()[:-9])
    assert cli.main(["show", "here"]) == 0
    said = capsys.readouterr()
    assert said.out == "the table of here\n"
    line = one_line(said.err)
    assert "4 of 5 invocations, and an incomplete last line is left out" in line
    assert "swtch run --resume here" in line


def test_resume_says_that_the_probe_changed(probe_dir: Path, swtch: Swtch) -> None:
    assert swtch(*SMALL, "coroutine-gantt", "--out", "here").returncode == 0
    same = swtch("run", "--resume", "here", "--no-report")
    assert "probe program" not in same.stderr
    with (probe_dir / "swtch-probe").open("a") as file:
        file.write("# newer\n")
    changed = swtch("run", "--resume", "here", "--no-report")
    assert changed.returncode == 0
    assert "the probe program is not the one this run began with" in changed.stderr


def test_a_run_in_use_is_refused(probe_dir: Path, swtch: Swtch, tmp_path: Path) -> None:
    assert swtch(*SMALL, "coroutine-gantt", "--out", "here").returncode == 0
    with store.Writer.resume(tmp_path / "cwd" / "here"):
        done = swtch("run", "--resume", "here")
    assert done.returncode == 3
    assert "in use by another swtch" in done.stderr


@pytest.mark.parametrize(
    ("options", "depth", "repeats"),
    [
        ((), "normal", 10),
        (("--quick",), "quick", 6),
        (("--depth", "quick"), "quick", 6),
        (("--depth", "quick", "--quick"), "quick", 6),
        (("--depth", "paper"), "paper", 20),
        (("--depth", "paper", "--repeats", "2"), "paper", 2),
    ],
)
def test_depth_says_how_often(
    probe_dir: Path,
    swtch: Swtch,
    tmp_path: Path,
    options: tuple[str, ...],
    depth: str,
    repeats: int,
) -> None:
    chosen = ("run", "coroutine-gantt", "--models", "ucontext", "--no-report", "--out", "here")
    assert swtch(*chosen, *options).returncode == 0
    manifest = store.load_manifest(tmp_path / "cwd" / "here")
    assert (manifest.depth, manifest.repeats) == (depth, repeats)
    assert len(manifest.plan) == repeats * len(manifest.trials)


# ---- completion ----


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("swtch rep", {"replicate", "report"}),
        ("swtch run scen", {"scenarios"}),
        ("swtch run --dep", {"--depth"}),
        ("swtch run --depth q", {"quick"}),
        ("swtch completion z", {"zsh"}),
    ],
)
def test_a_shell_is_told_what_may_come(swtch: Swtch, words: str, offered: set[str]) -> None:
    done = swtch(SWTCH_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")))
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(swtch: Swtch, shell: str) -> None:
    done = swtch("completion", shell)
    assert done.returncode == 0
    assert f"SWTCH_COMPLETE={shell}_complete" in done.stdout
