# SPDX-License-Identifier: Apache-2.0
"""Code from outside that goes wrong late, or does what no code should: what was measured is
told all the same, with a line that says what failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from outside import WHOLE, Swtch, anew, measured, mine, nothing_registered, run

from swtch import store
from swtch.own import trust

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
