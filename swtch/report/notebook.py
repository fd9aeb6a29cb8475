# SPDX-License-Identifier: Apache-2.0
"""A run, or a comparison of two, as a notebook shows it.

A piece of HTML with its style on each element: it needs nothing from elsewhere, runs no
script, keeps its looks where style sheets are stripped, and takes the page's colours.
All text is escaped: a run is a file from somewhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from swtch.report import unbroken
from swtch.report.story import number, spread, where
from swtch.report.tables import gate_marks

if TYPE_CHECKING:
    from swtch.analysis.comparison import Comparison
    from swtch.report.story import Story
    from swtch.store import Run

# A run of a few experiments is shown with its pictures; of many they would be a report.
FIGURES_OF = 3
ROWS_MOST = 60

# A letter beside the word, so that nothing is said by colour alone.
MARKS = {"holds": "✓", "differs": "✗", "cannot tell": "?", "not measurable here": "–"}
_COLOURS = {"holds": "#009E73", "differs": "#D55E00", "slower": "#D55E00", "faster": "#009E73"}
_CELL = "padding:2px 10px 2px 0;vertical-align:top;"

Cell = str | tuple[str, str]  # text, or text and its colour


def run_html(story: Story) -> str:
    """What was measured, what became of the claims, and the medians."""
    run = story.run
    parts = [
        _line(f"Run {run.manifest.run_id}", strong=True),
        _line(f"{story.machine}; {run.counted}, {story.created}, engine {story.engines}"),
    ]
    if story.elsewhere:
        parts.append(_line(story.elsewhere))
    if not run.complete:
        folder = shlex.quote(str(run.path))
        parts.append(_line(f"Not complete; to continue it: swtch run --resume {folder}"))
    if story.verdicts:
        rows = (
            (
                verdict.claim,
                verdict.text,
                verdict.published,
                f"{spread(verdict.here)} {verdict.here.unit}" if verdict.here else "–",
                where(verdict),
                (f"{MARKS[verdict.verdict]} {verdict.verdict}", _COLOURS.get(verdict.verdict, "")),
            )
            for verdict in story.verdicts
        )
        heads = ("claim", "what it says", "published", "here", "where", "verdict")
        parts += [_line(f"Claims: {story.headline}", strong=True), _table(heads, rows, 3)]
    parts += [_line("Measured here", strong=True), _findings(story)]
    parts += _figures(story)
    parts += [_line(error) for error in story.errors]
    return _whole(parts)


def comparison_html(a: Run, b: Run, comparison: Comparison) -> str:
    """B's cost over A's, families first."""
    rows = [
        (
            row.name,
            row.metric if row.a is not None else f"{row.trials} trials",
            f"{number(row.a)} {row.unit}" if row.a is not None else "–",
            f"{number(row.b)} {row.unit}" if row.b is not None else "–",
            spread(row.ratio),
            (row.word, _COLOURS.get(row.word, "")),
        )
        for row in comparison.rows
    ]
    parts = [_line(f"{b.manifest.run_id} (B) against {a.manifest.run_id} (A)", strong=True)]
    heads = ("what", "metric", "A", "B", "B's cost over A's", "called")
    if rows:
        parts.append(_table(heads, rows, 1))
    else:
        parts.append(_line("They have no trial in common that can be compared."))
    return _whole(parts)


def _findings(story: Story) -> str:
    rows: list[tuple[Cell, ...]] = []
    for experiment in story.experiments:
        for finding in story.findings_of(experiment.name):
            for index, (metric, interval) in enumerate(finding.intervals.items()):
                marks = gate_marks(finding) if index == 0 else ""
                name = finding.trial.id if index == 0 else ""
                rows.append((name, metric, spread(interval), interval.unit, str(interval.n), marks))
    left = len(rows) - ROWS_MOST
    heads = ("trial", "metric", "median", "unit", "n", "gates")
    table = _table(heads, rows[:ROWS_MOST], 2)
    return table + (_line(f"and {left} more: .findings has them all") if left > 0 else "")


def _figures(story: Story) -> list[str]:
    if len(story.experiments) > FIGURES_OF:
        return []
    from swtch.report.chapters import figures

    return [
        f'<figure style="margin:8px 0">{picture.svg}'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>"
        for experiment in story.experiments
        for picture in figures(story, experiment.name)
    ]


def _whole(parts: Iterable[str]) -> str:
    return f'<div style="font-family:system-ui,sans-serif">{"".join(parts)}</div>'


def _line(text: str, *, strong: bool = False) -> str:
    weight = "font-weight:600;" if strong else ""
    return f'<p style="margin:6px 0;{weight}">{_text(text)}</p>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], labels: int) -> str:
    """`labels`: how many leading columns are text; the last one is, too."""
    last = len(heads) - 1

    def align(column: int) -> str:
        return "text-align:" + ("left" if column < labels or column == last else "right")

    head = "".join(
        f'<th scope="col" style="{_CELL}{align(n)}">{_text(name)}</th>'
        for n, name in enumerate(heads)
    )
    body = "".join(
        "<tr>" + "".join(_cell(cell, align(n)) for n, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    style = "border-collapse:collapse;font-variant-numeric:tabular-nums"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(cell: Cell, align: str) -> str:
    text, colour = cell if isinstance(cell, tuple) else (cell, "")
    colour = f";color:{colour};font-weight:600" if colour else ""
    return f'<td style="{_CELL}{align}{colour}">{_text(text)}</td>'


def _text(text: str) -> str:
    return escape(str(unbroken(text)))
