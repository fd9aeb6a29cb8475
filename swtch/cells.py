# SPDX-License-Identifier: Apache-2.0
"""Rows as CSV, which spreadsheets may open: no text in them is a formula.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@``, and CSV cannot say
that it is text. Names, factors and errors come from whoever made the run, so such a text
has a ``'`` before it, the sign of spreadsheets for text; so has such a column's name.
Numbers stay numbers, also as text, and a sign alone, which is no formula. JSON and Parquet
have types, and everything as it is.

Rejected: quotes around it (spreadsheets run it all the same), leaving it out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

# The wide ones are the same to some; blanks before a sign are lost on the way in.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]\s*\S")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*|\s*[-+]?(inf|nan)\s*", re.I | re.A)


def plain(value: T) -> T | str:
    """`value`, of which no spreadsheet makes a formula."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def write(stream: TextIO, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """`rows` as CSV with these columns; what a row lacks is empty."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(plain, columns))
    for row in rows:
        writer.writerow([plain(row.get(column, "")) for column in columns])


def frame(given: pl.DataFrame) -> pl.DataFrame:
    """`given` with plain texts."""
    import polars as pl

    return pl.DataFrame(
        pl.Series(plain(series.name), map(plain, series), pl.String)
        if series.dtype == pl.String
        else series.alias(str(plain(series.name)))
        for series in given
    )
