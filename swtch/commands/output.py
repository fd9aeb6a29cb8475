# SPDX-License-Identifier: Apache-2.0
"""Rows of text on standard output: as a table, JSON, CSV or Markdown."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from swtch import cells
from swtch.errors import RequestError

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 110
# Narrower than words are, nothing of a table is left; wider, a line is padded without end.
NARROWEST, WIDEST = 20, 1000

Row = Mapping[str, Any]


def console() -> Console:
    """Standard output for rich; of a fixed width where there is no terminal to ask.

    Without markup: cells come from runs, and a ``[red]`` in them is text.
    """
    from rich.console import Console

    class PipeAwareConsole(Console):
        def on_broken_pipe(self) -> None:
            # rich would leave with status 1; cli.main knows the right one.
            raise BrokenPipeError

    asked = os.environ.get("COLUMNS", "")
    # None, as some services set it, is no width.
    told = asked.isdecimal() and int(asked) > 0
    made = PipeAwareConsole(width=None if told or sys.stdout.isatty() else WIDTH, markup=False)
    made.width = min(max(made.width, NARROWEST), WIDEST)
    return made


def print_json(value: Any) -> None:
    """`value` as indented JSON."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def print_csv(rows: Sequence[Row]) -> None:
    """`rows` with the union of their keys as columns, in order of appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells.write(sys.stdout, rows, columns)


def print_markdown(rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """`rows` as a Markdown table; `columns` maps keys to headings."""
    print("| " + " | ".join(columns.values()) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        cells = (_text(row[key]).replace("|", "\\|") for key in columns)
        print("| " + " | ".join(cells) + " |")


def print_table(
    rows: Sequence[Row], columns: Mapping[str, str], styles: Mapping[str, str] | None = None
) -> None:
    """`rows` as a table; `styles` maps a cell's text to a colour."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in columns.values():
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = (_text(row[key]) for key in columns)
        table.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in cells))
    console().print(table)


def parse_target(option: str, text: str) -> float:
    """A share as `parse_share` has it, but for none: no interval of times is of no width."""
    share = parse_share(option, text)
    if not share:
        raise RequestError(
            f"{option}: {text!r} is a width that no interval of times has; give one like 2%."
        )
    return share


def parse_share(option: str, text: str) -> float:
    """``5%`` or ``0.05`` as a share."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 100:
        raise RequestError(
            f"{option}: {text!r} is no share; give one like 5% or 0.05, not below zero."
        )
    return share


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
