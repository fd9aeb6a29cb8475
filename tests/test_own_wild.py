# SPDX-License-Identifier: Apache-2.0
"""Code from outside that goes wrong late, or does what no code should: what was measured is
told all the same, with a line that says what failed.
"""

from __future__ import annotations

import hashlib
import json
import locale
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from outside import WHOLE, Swtch, anew, measured, mine, nothing_registered, run

from swtch import store
from swtch.own import trust
from swtch.own.apart import apart

__all__ = ["anew", "measured", "mine", "nothing_registered", "run"]  # the fixtures

Change = Callable[[str], None]
SENTENCES = '    def sentences(self, story):\n        return ["Said by the file."]\n'


@pytest.fixture
def change(run: Path) -> Change:
    """Has the run be one that was measured with this text as its file."""

    def change(text: str) -> None:
        (source,) = store.load_manifest(run).sources
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        (run / source.copy).write_text(text)
        manifest = run / store.MANIFEST
        manifest.write_text(manifest.read_text().replace(source.sha256, sha256))
        trust.add(sha256, source.path)

    return change


def chapter(method: str, gives: str) -> str:
    """The file, whose chapter has this method."""
    assert SENTENCES in WHOLE
    return WHOLE.replace(SENTENCES, f"    def {method}(self, story):\n        return {gives}\n")


# ---- chapters that are drawn later ----

ODD = """
from rich.segment import Segment
from swtch.report.charts import Figure
from swtch.report.tables import Row, Table


class Late:
    def __init__(self, what):
        self.what = what

    def __rich_console__(self, console, options):
        yield "begun"
        yield self.what()


"""
DRAWN = {
    "raises": "[Late(lambda: 1 / 0)]",
    "after others": '["Said first.", Late(lambda: 1 / 0)]',
    "exits": "[Late(lambda: exit(3))]",
    "half of a letter": '["\\ud800"]',
    "no text": "[Late(lambda: Segment(5))]",
    "no segment": "[Late(lambda: 5)]",
}


@pytest.mark.parametrize("gives", DRAWN.values(), ids=DRAWN)
def test_what_raises_only_as_it_is_drawn_leaves_the_plain_tables(
    gives: str, change: Change, anew: Swtch
) -> None:
    """Of rich's renderables nothing is asked before they are printed."""
    change(ODD + chapter("terminal", gives))
    done = anew("show", "run")
    (line,) = done.stderr.splitlines()
    assert line.startswith("swtch: mine.py")
    assert "terminal() of the chapter of pipe-or-futex: " in line
    assert done.returncode == 4
    assert "each_ns" in done.stdout and "begun" not in done.stdout


def test_what_is_drawn_is_shown_as_it_is(change: Change, anew: Swtch) -> None:
    change(ODD + chapter("terminal", '["Said [red]first[/].", 5, Late(lambda: "and last")]'))
    done = anew("show", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Said [red]first[/].\n5\nbegun\nand last\n")


TABLES = {
    "a cell too few": 'Table("of", ("a", "b"), 1, (Row(("1",)),))',
    "no caption": 'Table(None, ("a",), 1, (Row(("1",)),))',
    "labels": 'Table("of", ("a",), 5, (Row(("1",)),))',
    "a heading": 'Table("of", (7,), 1, (Row(("1",)),))',
}


@pytest.mark.parametrize("gives", TABLES.values(), ids=TABLES)
def test_a_table_that_cannot_be_laid_out_is_the_plain_one(
    gives: str, change: Change, anew: Swtch, run: Path
) -> None:
    change(ODD + chapter("tables", f"[{gives}]"))
    done = anew("report", "run", "--format", "md,html")
    (line,) = done.stderr.splitlines()
    assert "tables() of the chapter of pipe-or-futex: " in line
    assert done.returncode == 4
    assert "each_ns" in (run / "report.md").read_text()
    assert "each_ns" in (run / "report.html").read_text()


FIGURES = {
    "no picture": 'Figure("mine", "a", "b", "c", "<svg")',
    "no file's name": 'Figure("../mine", "a", "b", "c", "<svg/>")',
    "no name": 'Figure("", "a", "b", "c", "<svg/>")',
    "no text": 'Figure("mine", "a", "b", "c", None)',
}


@pytest.mark.parametrize("gives", FIGURES.values(), ids=FIGURES)
def test_a_figure_that_cannot_be_drawn_is_left_out(
    gives: str, change: Change, anew: Swtch, run: Path
) -> None:
    change(ODD + chapter("figures", f"[{gives}]"))
    for command in (("report", "run", "--figures", "png"), ("report", "run")):
        done = anew(*command)
        lines = done.stderr.splitlines()
        # A page takes any text for a picture.
        assert len(lines) == (gives != FIGURES["no picture"] or "--figures" in command)
        assert done.returncode == 4 * len(lines)
        assert all("figures() of the chapter of pipe-or-futex: " in line for line in lines)
    assert (run / "report.html").exists()
    assert not list(run.glob("**/*mine*.png"))


# ---- what is not its own ----


def wild(line: str) -> str:
    """The file, which does this in each of its functions, and as it is imported."""
    text = WHOLE.replace('"""Is a', f'import locale, os, sys\n{line}\n"""Is a', 1)
    for begins in ("def trials(setting):", "def dearer(evidence):", "def sentences(self, story):"):
        deep = "        " if "self" in begins else "    "
        assert begins in text
        text = text.replace(begins, f"{begins}\n{deep}import locale, os, sys\n{deep}{line}", 1)
    return text.replace('2 * v["each_p50_ns"]', f'exec({line!r}) or 2 * v["each_p50_ns"]')


TAKES = {
    "no output": "sys.stdout = sys.stderr = sys.__stdout__ = None",
    "closed": "sys.stdout.close(); sys.stderr.close(); sys.__stdout__.close()",
    "another": "sys.stdout = sys.stderr = open(os.devnull, 'w')",
    "locale": "locale.setlocale(locale.LC_ALL, 'C')",
    "a child that ends": "os.fork() or os._exit(0); os.wait()",
    "a child that aborts": "os.fork() or os.abort(); os.wait()",
}


@pytest.mark.parametrize("line", TAKES.values(), ids=TAKES)
def test_what_is_the_process_own_is_given_back(
    line: str, mine: Path, swtch: Swtch, probe_dir: Path
) -> None:
    mine.write_text(wild(line))
    few = ("--quick", "--repeats", "2", "--quiet", "--format", "json")
    done = swtch(
        "run", str(mine), *few, "--out", str(mine.parent / "run"), LC_ALL="C.UTF-8", PYTHONUTF8="0"
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["complete"] and report["said"] == {"pipe-or-futex": ["Said by the file."]}


def test_locale_and_streams_are_as_before(mine: Path) -> None:
    """Also where what it did raised, or was within other code from outside."""
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, os._exit, os.abort)
    with pytest.raises(ZeroDivisionError), apart():
        sys.stdout.close()
        with pytest.raises(SystemExit), apart():
            locale.setlocale(locale.LC_ALL, "C")
            sys.stderr.close()
            os._exit(5)
        assert locale.setlocale(locale.LC_ALL) == "C.UTF-8"
        print("said", file=sys.stderr)
        sys.stdout = None
        raise ZeroDivisionError
    now = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, os._exit, os.abort)
    assert now == streams
    assert locale.setlocale(locale.LC_ALL) == "C.UTF-8"


ENDS = {
    "abort": "os.abort()",
    "bare": 'raise type("Bare", (BaseException,), {})("own")',
    "cancelled": 'import asyncio; raise asyncio.CancelledError("own")',
    "exit": "os._exit(7)",
    "generator": 'raise GeneratorExit("own")',
}


@pytest.mark.parametrize("line", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("where", ["dearer(evidence)", "sentences(self, story)"])
def test_what_ends_a_process_costs_what_was_asked(
    line: str, where: str, change: Change, anew: Swtch
) -> None:
    deep = "        " if "self" in where else "    "
    change(WHOLE.replace(f"def {where}:", f"def {where}:\n{deep}import os; {line}", 1))
    done = anew("show", "run", "--format", "json")
    (said,) = done.stderr.splitlines()
    assert "mine.py, line " in said
    assert said.endswith((": own", ": SystemExit: 7", ": SystemExit: os.abort()"))
    assert done.returncode == 4
    assert json.loads(done.stdout)["complete"]


@pytest.mark.parametrize("line", ENDS.values(), ids=ENDS)
def test_what_ends_a_process_as_it_is_imported_is_a_line(
    line: str, mine: Path, anew: Swtch, probe_dir: Path
) -> None:
    mine.write_text(f"import os\n{line}\n")
    done = anew("run", "./mine.py", "--quick", "--quiet")
    (said,) = done.stderr.splitlines()
    assert said.startswith("swtch: mine.py, line 2: does not import: ")
    assert said.endswith((": own.", ": SystemExit: 7.", ": SystemExit: os.abort()."))
    assert done.returncode == 2


def test_a_thread_that_does_not_end_is_not_waited_for(
    change: Change, run: Path, tmp_path: Path
) -> None:
    left = "threading.Thread(target=threading.Event().wait, name='l\\n').start()"
    change(f"import threading\n{left}\n{WHOLE}")
    begin = "import sys; from swtch import __main__ as m; m.GRACE_S = 0.1; sys.exit(m.main())"
    done = subprocess.run(
        [sys.executable, "-c", begin, "show", str(run)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "mine.1" in done.stdout
    (line,) = done.stderr.splitlines()
    assert "left a thread that does not end ('l\\n'); it is not waited for" in line
