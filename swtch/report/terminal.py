# SPDX-License-Identifier: Apache-2.0
"""A run in the terminal: the table, the charts as text blocks, the verdicts.

Fits 80 columns; colour carries nothing that is not also a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swtch.report.story import Story, number, spread, tell
from swtch.report.tables import gate_marks

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "holds": "green",
    "differs": "red",
    "cannot tell": "yellow",
    "not measurable here": "dim",
}


def print_run(run_dir: Path, console: Console) -> None:
    """Prints the run in `run_dir`."""
    story = tell(run_dir)
    if "scenarios" in story.run.manifest.experiments:
        _scenarios(story, console)
    if "coroutine-gantt" in story.run.manifest.experiments:
        _gantt(story, console)
    _verdicts(story, console)
    _rest(story, console)


def _scenarios(story: Story, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Four threads on one counter: Mops/s, median [95 %]", title_justify="left")
    table.add_column("")
    table.add_column("model")
    table.add_column("CPUs", justify="right")
    table.add_column("Mops/s", justify="right", no_wrap=True)
    table.add_column("CV %", justify="right")
    table.add_column("vol", justify="right")
    table.add_column("invol", justify="right")
    table.add_column("user", justify="right")
    table.add_column("gates")
    last = None
    for finding in story.findings_of("scenarios"):
        factors = finding.trial.factors
        if factors.get("control") == "b":
            continue
        case = str(factors["scenario"])
        if last is not None and case != last:
            table.add_section()
        counts = [
            number(made.estimate) if (made := finding.intervals.get(name)) else "–"
            for name in ("nvcsw", "nivcsw", "user_switches")
        ]
        speed = finding.dispersion.get("throughput_mops")
        table.add_row(
            case if case != last else "",
            finding.trial.model,
            str(factors["cpus_used"])
            + ("" if factors["cpus_used"] == factors["cpus_asked"] else "*"),
            spread(finding.intervals.get("throughput_mops")),
            f"{speed['cv']:.1f}" if speed else "–",
            *counts,
            Text(gate_marks(finding)),
        )
        last = case
    console.print(table)
    if any(note.startswith("scenarios/") for note in story.notes):
        console.print("* fewer CPUs than the study had; the report says what was done instead")


def _gantt(story: Story, console: Console) -> None:
    from rich.text import Text

    shown: set[str] = set()
    for one in story.groups_of("coroutine-gantt"):
        order = str(one.trial.factors["order"])
        if order in shown or not one.good:
            continue
        shown.add(order)
        slots = one.good[0].detail["slots"]
        finished = " ".join(str(task) for task in one.good[0].detail["finished"])
        console.print(f"\n{order}: {len(slots)} slots, finished {finished}", highlight=False)
        for task in sorted({slot["task"] for slot in slots}):
            line = "".join("██" if slot["task"] == task else "· " for slot in slots)
            console.print(Text(f"  coroutine {task}  {line}"))
    if shown:
        console.print()


def _verdicts(story: Story, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    if not story.verdicts:
        return
    table = Table(title="Claims", title_justify="left")
    table.add_column("claim", no_wrap=True)
    table.add_column("what it says", ratio=3)
    table.add_column("here", ratio=2)
    table.add_column("verdict")
    for verdict in story.verdicts:
        here = f"{spread(verdict.here)} {verdict.here.unit}" if verdict.here else "–"
        table.add_row(
            verdict.claim,
            Text(verdict.text),
            Text(here),
            Text(verdict.verdict, style=STYLES[verdict.verdict]),
        )
    console.print(table)
    tally = ", ".join(f"{count} {name}" for name, count in story.counts.items())
    console.print(f"{tally}.", highlight=False)


def _rest(story: Story, console: Console) -> None:
    for control in story.controls:
        console.print(
            f"A/A control, {control.a.trial.id} against its copy: {spread(control.ratio)} x"
            + (": this run sees differences that are not there" if control.differs else ""),
            highlight=False,
        )
    for error in story.errors:
        console.print(error, markup=False, highlight=False, style="red")
