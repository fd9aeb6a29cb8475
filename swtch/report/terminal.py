# SPDX-License-Identifier: Apache-2.0
"""A run in the terminal: tables, small charts, the verdicts.

Fits 80 columns; colour carries nothing that is not also a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swtch.report import dots
from swtch.report.chapters import chapter, sentences
from swtch.report.standing import checks_of, findings_of, marked
from swtch.report.story import Story, spread, tell, where
from swtch.report.verdicts import STYLES, print_standing, print_story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from swtch.records import Verdict


def print_run(run_dir: Path, console: Console, *, verbose: bool = False) -> None:
    """Prints the run in `run_dir`; of one about all studies a line a claim, unless `verbose`."""
    story = tell(run_dir)
    if story.of_all_studies and not verbose:
        print_story(story, console)
        return
    for experiment in story.experiments:
        for shown in chapter(experiment.name).terminal(story):
            # What is text is text: an id may look like rich's markup.
            console.print(shown, highlight=False, markup=False)
        for chart in dots.charts(story, experiment.name):
            _print_chart(chart, console)
        for sentence in sentences(story, experiment.name):
            console.print(sentence, highlight=False, markup=False)
    console.print()
    _verdicts(story, console)
    _rest(story, console)


def _print_chart(chart: dots.Chart, console: Console) -> None:
    boxes = console.encoding.lower().startswith("utf")
    lines = dots.draw(chart, console.width, dots.DRAWN if boxes else dots.ASCII)
    if lines:
        console.print("\n".join(("", *lines)), highlight=False, markup=False, no_wrap=True)


def _verdicts(story: Story, console: Console) -> None:
    if not story.verdicts:
        for sentence in filter(None, (story.neighbours.sentence, story.elsewhere)):
            console.print(sentence, highlight=False, markup=False)
        return
    for title, own in (
        ("Claims", findings_of(story.verdicts)),
        ("Checks", checks_of(story.verdicts)),
    ):
        if own:
            _table(title, own, story, console)
    print_standing(story, console)


def _table(title: str, own: Sequence[Verdict], story: Story, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    table.add_column("claim", no_wrap=True)
    table.add_column("what it says", ratio=3)
    table.add_column("here", ratio=2)
    table.add_column("verdict")
    for verdict in own:
        here = f"{spread(verdict.here)} {verdict.here.unit}" if verdict.here else "–"
        table.add_row(
            verdict.claim,
            Text(verdict.text),
            Text(f"{here} ({where(verdict)})" if len(story.places) > 1 else here),
            Text(marked(verdict), style=STYLES[verdict.verdict]),
        )
    console.print(table)


def _rest(story: Story, console: Console) -> None:
    for control in story.controls:
        console.print(
            f"A/A control, {control.a.trial.id} against its copy: {spread(control.ratio)} x"
            + (": called different, which they are not" if control.differs else ""),
            highlight=False,
            markup=False,
        )
    if story.false_positives.of:
        console.print(
            f"of trials measured twice, {story.false_positives} are called different from their"
            f" copies; by chance it may be up to {story.false_positives.most}",
            highlight=False,
        )
    for error in story.errors:
        console.print(error, markup=False, highlight=False, style="red")
