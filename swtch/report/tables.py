# SPDX-License-Identifier: Apache-2.0
"""What a table of a report is: cells of text, laid out by each form of report."""

from __future__ import annotations

from dataclasses import dataclass

from swtch.records import Finding
from swtch.report.story import number


@dataclass(frozen=True)
class Row:
    cells: tuple[str, ...]
    first: bool = False  # of a group of rows


@dataclass(frozen=True)
class Table:
    """``labels``: how many leading columns are names; the rest are numbers."""

    caption: str
    columns: tuple[str, ...]
    labels: int
    rows: tuple[Row, ...]


def gate_marks(finding: Finding) -> str:
    return ", ".join(f"{name} {count}" for name, count in finding.gates.items()) or "–"


def count(finding: Finding, metric: str) -> str:
    """The median of a count; a dash where it is not known."""
    interval = finding.intervals.get(metric)
    return number(interval.estimate) if interval else "–"
