# SPDX-License-Identifier: Apache-2.0
"""`swtch history DIR`: a series of runs over time, with the changes marked.

Runs are the folders of DIR that hold a manifest, in the order of their creation.
analysis.series says what of them is put in a row, and what is marked.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from swtch import store
from swtch.analysis import comparison
from swtch.analysis.series import Series, trace
from swtch.commands import output
from swtch.errors import EXIT_OK, CannotError, CorruptError
from swtch.progress import sparkline

COLUMNS = {
    "name": "trial",
    "place": "engine",
    "metric": "metric",
    "runs": "runs",
    "first": "first",
    "last": "last",
    "course": "course",
    "changed": "changed at",
}


def show(folder: Path, *, form: str, html: Path | None) -> int:
    """Prints the history of the runs in `folder`."""
    runs = runs_in(folder)
    if len(runs) < 2:
        raise CannotError(
            f"{folder} holds {len(runs)} runs, and a history needs two; give the folder that"
            " holds run directories, such as swtch-runs."
        )
    made = trace(runs)
    if not made:
        raise CannotError(
            f"no two runs in {folder} have a trial of the same work in common that has a metric."
        )
    if form == "json":
        output.print_json(as_json(runs, made))
    elif form == "csv":
        output.print_csv(_points(made))
    elif form == "md":
        output.print_markdown(_rows(made), COLUMNS)
    else:
        print(f"{len(runs)} runs, {_when(runs[0])} to {_when(runs[-1])}")
        output.print_table(_rows(made), COLUMNS)
        marked = sum(point.changed is not None for one in made for point in one.points)
        print(f"{len(made)} trials, {marked} changes from one run to the next.")
    if html is not None:
        _write(html, runs, made)
    sys.stdout.flush()
    return EXIT_OK


def runs_in(folder: Path) -> list[store.Run]:
    """The runs in `folder`, oldest first; a broken one is named and left out."""
    from swtch.report import legible

    if not folder.is_dir():
        raise CorruptError(f"{folder} is not a folder of runs: there is no such folder.")
    found = []
    for path in sorted(folder.iterdir()):
        if not (path / store.MANIFEST).is_file():
            continue
        try:
            found.append(legible.run(store.load(path)))
        except CorruptError as error:
            print(f"swtch: left out: {error}", file=sys.stderr)
    return sorted(found, key=lambda run: run.manifest.created)


def _when(run: store.Run) -> str:
    return run.manifest.created[:16].replace("T", " ")


def _rows(made: list[Series]) -> list[dict[str, Any]]:
    from swtch.report.story import number

    rows = []
    for one in made:
        marks = [
            f"{point.run} ({point.changed:+.1%} cost)"
            for point in one.points
            if point.changed is not None
        ]
        marks += [f"{one.points[index].run} (new level)" for index in one.levels]
        medians = [point.median for point in one.points]
        rows.append(
            {
                "name": one.name,
                "place": one.place,
                "metric": f"{one.metric}, {one.unit}",
                "runs": len(one.points),
                "first": number(medians[0]),
                "last": number(medians[-1]),
                "course": sparkline(medians),
                "changed": "; ".join(marks),
            }
        )
    return rows


def _points(made: list[Series]) -> list[dict[str, Any]]:
    return [
        {
            "trial": one.name,
            "engine": one.place,
            "metric": one.metric,
            "unit": one.unit,
            "run": point.run,
            "created": point.created,
            "n": len(point.values),
            "median": point.median,
            "p_adjusted": point.p,
            "cost_change": point.changed,
            "new_level": index in one.levels,
        }
        for one in made
        for index, point in enumerate(one.points)
    ]


def as_json(runs: list[store.Run], made: list[Series]) -> dict[str, Any]:
    """The history as one object."""
    return {
        "schema": 1,
        "runs": [{"run_id": run.manifest.run_id, "created": run.manifest.created} for run in runs],
        "level": comparison.LEVEL,
        "points": _points(made),
    }


def _write(html: Path, runs: list[store.Run], made: list[Series]) -> None:
    from swtch.errors import os_error_text
    from swtch.report import comparing

    text = comparing.history(runs, made)
    try:
        store.write_atomically(html, text.encode())
    except OSError as error:
        raise CannotError(
            f"cannot write {html}: {os_error_text(error)}; choose another file."
        ) from None
    print(f"report: {html}", file=sys.stderr)
