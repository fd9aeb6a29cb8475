# SPDX-License-Identifier: Apache-2.0
"""The command line where standard output, or a file's name, is not what one expects."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import synthetic

from swtch import cli, threads
from swtch.errors import CannotError
from swtch.report import charts, comparing

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


@pytest.mark.parametrize("file", ["manifest.json", "logs/a.stdout"])
def test_a_file_of_a_run_says_where_the_run_is(here: Path, file: str) -> None:
    (here / RUN / "logs").mkdir(exist_ok=True)
    (here / RUN / file).touch()
    done = swtch("show", f"{RUN}/{file}")
    said = f"swtch: {RUN}/{file} is not a run directory: it is a file; the run is {RUN}.\n"
    assert (done.returncode, done.stderr.decode()) == (5, said)


def test_a_command_that_is_named_can_be_given(here: Path) -> None:
    """A folder's name may have blanks: RUN has one."""
    samples = here / RUN / "samples.jsonl"
    samples.write_bytes(b"{}\n" + samples.read_bytes())
    (here / RUN / "report.html").mkdir()
    said = [
        (swtch("show", RUN), "swtch run --resume 'a run'"),
        (swtch("run", "--out", RUN), "swtch run --resume 'a run'"),
        (swtch("report", RUN), "swtch report 'a run' -o DIR"),
    ]
    for done, command in said:
        (*_, line) = done.stderr.decode().splitlines()
        assert line.endswith(command), line


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_without_our_letters(here: Path, encoding: str) -> None:
    done = swtch("show", RUN, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout
    done.stdout.decode(encoding)


@pytest.mark.parametrize("words", [("show", RUN), ("list",), ("export", RUN), ("report", RUN)])
@pytest.mark.parametrize("close", [0, 1, 2])
def test_a_stream_that_was_closed_before(here: Path, words: tuple[str, ...], close: int) -> None:
    done = swtch(*words, close=close)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "code"), [(("show", "no run"), 5), (("show", RUN), 0), (("frobnicate",), 2)]
)
@pytest.mark.parametrize("where", ["full", "nobody reads"])
def test_what_cannot_be_said_beside_the_result_ends_nothing(
    here: Path, words: tuple[str, ...], code: int, where: str
) -> None:
    """Not with another exit code either; the run is cut, so that there is something to say."""
    samples = here / RUN / "samples.jsonl"
    samples.write_bytes(samples.read_bytes()[:-40])
    reader, nobody = os.pipe()
    os.close(reader)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "swtch", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full if where == "full" else nobody,
        )
    os.close(nobody)
    assert done.returncode == code


def few_addresses(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As under 'ulimit -v', with all that Python needs and not what the figures do."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    return subprocess.run(
        [sys.executable, "-m", "swtch", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        preexec_fn=limit,
    )


@pytest.mark.parametrize(
    ("words", "without"),
    [
        (("report", RUN), "--format md,json"),
        (("report", RUN, "--figures", "svg"), "--format md,json"),
        (("compare", RUN, RUN, "--html", "page.html"), "leave --html out"),
    ],
)
def test_figures_without_docstrings_are_a_line(
    words: tuple[str, ...], without: str, here: Path
) -> None:
    done = swtch(*words, PYTHONOPTIMIZE="2")
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 3
    assert "'python -OO' or PYTHONOPTIMIZE=2" in line and without in line


def test_a_report_without_docstrings_has_no_figures(here: Path) -> None:
    done = swtch("report", RUN, "--format", "md,json", PYTHONOPTIMIZE="2")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_history_without_figures_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "lack", lambda: "figures take more")
    with pytest.raises(CannotError, match=r"figures take more; .* leave --html out"):
        comparing.history([], [])


def test_figures_without_addresses_are_a_line(here: Path) -> None:
    done = few_addresses("report", RUN)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "'ulimit -v' allows 4" in line and "--format md,json" in line
    assert few_addresses("report", RUN, "--figures", "svg").returncode == 3
    done = few_addresses("report", RUN, "--format", "md,json")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_without_addresses_has_the_other_reports(here: Path, probe: Path) -> None:
    options = ("--models", "ucontext", "--repeats", "1", "--quiet", "--out", "new")
    done = few_addresses("run", "coroutine-gantt", *options, SWTCH_PROBE_DIR=str(probe.parent))
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "there is no report.html: figures take" in line
    written = {file.name for file in (here / "new").iterdir()}
    assert {"report.md", "report.json"} <= written and "report.html" not in written


def test_figures_without_files_to_open_are_a_line(here: Path, probe: Path) -> None:
    def few(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "swtch", *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "SWTCH_PROBE_DIR": str(probe.parent)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (14, 14)),
        )

    done = few("report", RUN)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 3 and "figures take 16 open files, and 'ulimit -n'" in line
    options = ("--models", "ucontext", "--repeats", "1", "--quiet", "--out", "new")
    done = few("run", "coroutine-gantt", *options)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 0 and "there is no report.html: figures take" in line
    assert {"report.md", "report.json"} <= {file.name for file in (here / "new").iterdir()}


def test_figures_without_threads_are_a_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        begin(thread)

    begin = threading.Thread.start
    threads.may_start.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", start)
    try:
        assert cli.main(["report", RUN]) == 3
    finally:
        threads.may_start.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert "threads, and 'ulimit -u' or the control group" in line
    assert len(started) == 3 and not any(thread.is_alive() for thread in started)


# The command line, to which no thread is granted; OpenBLAS tells of it by SIGINT, polars panics.
THREADLESS = """
import os, sys, threading
from swtch import cli
def refuse(_):
    raise RuntimeError("can't start new thread")
class Libraries:
    def find_spec(self, name, *_):
        if name == "numpy" and os.environ.get("OPENBLAS_NUM_THREADS") != "1":
            os.kill(os.getpid(), 2)
        if name == "polars":
            raise BaseException("a panic")
threading.Thread.start = refuse
sys.meta_path.insert(0, Libraries())
sys.exit(cli.main(sys.argv[1:]))
"""


def test_no_thread_at_all_is_a_line_or_enough(here: Path) -> None:
    def swtch(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", THREADLESS, *arguments]
        environment = {k: v for k, v in os.environ.items() if k != threads.BLAS}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    shown = swtch("show", RUN)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert swtch("report", RUN, "--format", "md,json").returncode == 0
    done = swtch("export", RUN, "-o", str(here / "exported"))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 3 and "threads, and 'ulimit -u' or the control group" in line


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory;"),
        (ImportError("x.so: failed to map segment from shared object"), "a library of Python's"),
    ],
)
def test_a_lack_of_memory_is_a_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run_command", fails)
    assert cli.main(["list"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and "ulimit -v" in line


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


@pytest.mark.parametrize(
    ("columns", "is_as"),
    [("0", "110"), ("-5", "110"), ("wide", "110"), ("1", "20"), ("99999999", "1000")],
)
def test_a_width_that_is_none(here: Path, columns: str, is_as: str) -> None:
    """Nothing at all was printed at 0, and with success."""
    for words in (("show", RUN), ("list",)):
        done, right = (swtch(*words, COLUMNS=value) for value in (columns, is_as))
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == right.stdout != b""
