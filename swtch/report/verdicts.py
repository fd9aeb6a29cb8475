# SPDX-License-Identifier: Apache-2.0
"""The verdict table of all claims: what `swtch replicate` is for.

One row a claim and place: study, claim, published, here with its interval and engine,
verdict, one sentence why. Behind it, the contradictions between the studies side by
side. The same rows are printed, written as CSV and laid out by the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swtch.claims.contradictions import SideBySide, judged
from swtch.records import Verdict
from swtch.report.story import Story, spread, tell, where
from swtch.report.terminal import STYLES

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = ("study", "claim", "text", "published", "here", "engine", "verdict", "why")
NAME = "verdicts.csv"


def here(verdict: Verdict) -> str:
    """The interval with its unit; a dash where there is none."""
    return f"{spread(verdict.here)} {verdict.here.unit}" if verdict.here else "–"


def rows(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    """The table as text, one row a verdict."""
    return [
        {
            "study": verdict.study,
            "claim": verdict.claim,
            "text": verdict.text,
            "published": verdict.published,
            "here": here(verdict),
            "engine": where(verdict),
            "verdict": verdict.verdict,
            "why": verdict.why,
        }
        for verdict in verdicts
    ]


def write(run_dir: Path, story: Story) -> Path:
    """Writes the table as CSV into the run; gives the file."""
    import csv
    import io

    from swtch.store import write_atomically

    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(story.verdicts))
    file = run_dir / NAME
    write_atomically(file, text.getvalue().encode())
    return file


def print_table(run_dir: Path, console: Console) -> None:
    """Prints the table of the run in `run_dir`."""
    print_story(tell(run_dir), console)


def print_story(story: Story, console: Console) -> None:
    """By study; what is said of a claim stands below it, dim."""
    from rich.table import Table
    from rich.text import Text

    for study in dict.fromkeys(verdict.study for verdict in story.verdicts):
        own = [verdict for verdict in story.verdicts if verdict.study == study]
        title = f"Study {study}" if study.isdigit() else study.capitalize()
        table = Table(title=title, title_justify="left", expand=True, show_edge=False)
        table.add_column("claim", no_wrap=True, min_width=5)
        table.add_column("what it says, and why the verdict", ratio=5)
        table.add_column("published", ratio=2)
        table.add_column("here", ratio=2)
        table.add_column("verdict", min_width=11, max_width=12)
        before = ""
        for verdict in own:
            again = verdict.claim == before
            before = verdict.claim
            if not again:
                table.add_section()
            said = Text(verdict.why, style="dim")
            table.add_row(
                "" if again else verdict.claim,
                said if again else Text.assemble(verdict.text, "\n", said),
                Text("" if again else verdict.published),
                Text(f"{here(verdict)}\n({where(verdict)})"),
                Text(verdict.verdict, style=STYLES[verdict.verdict]),
            )
        console.print(table)
    _contradictions(judged(story.verdicts), console)
    for sentence in story.highlights:
        console.print(f"* {sentence}", highlight=False, markup=False)
    tally = ", ".join(f"{count} {name}" for name, count in story.counts.items())
    claims = len({verdict.claim for verdict in story.verdicts})
    console.print(
        f"\n{claims} claims, by engine {len(story.verdicts)} verdicts: {tally or 'none'}.",
        highlight=False,
    )
    for error in story.errors:
        console.print(error, markup=False, highlight=False, style="red")


def side(verdicts: Sequence[Verdict]) -> str:
    """One side of a contradiction: each claim with its verdict and figure."""
    return "\n".join(
        f"{v.claim}: {v.text}\n  published: {v.published}\n  here: {here(v)}"
        f" ({where(v)}), {v.verdict}"
        for v in verdicts
    )


def _contradictions(found: Sequence[SideBySide], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    if not found:
        return
    table = Table(
        title="Where the studies contradict each other",
        title_justify="left",
        show_lines=True,
        show_edge=False,
        expand=True,
    )
    for heading, ratio in (("the question", 3), ("one says", 4), ("another says", 4)):
        table.add_column(heading, ratio=ratio)
    for one in found:
        question = Text.assemble(one.about, "\n", (one.because, "dim"))
        table.add_row(question, Text(side(one.left)), Text(side(one.right)))
    console.print(table)
