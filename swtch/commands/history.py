# SPDX-License-Identifier: Apache-2.0
"""`swtch history DIR`: a series of runs over time, with the changes marked.

Runs are the folders of DIR that hold a manifest, in the order of their creation.
analysis.series says what of them is put in a row, and what is marked.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swtch import elsewhere, store
from swtch.analysis import comparison
from swtch.analysis.series import Series, trace
from swtch.commands import output
from swtch.errors import EXIT_OK, CannotError, CorruptError
from swtch.progress import sparkline
from swtch.report import legible

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
    traced = trace(runs)
    if not traced:
        raise CannotError(
            f"no two runs in {folder} have a trial of the same work in common that has a metric."
        )
    if form == "json":
        output.print_json(as_json(runs, traced))
    elif form == "csv":
        output.print_csv(_points(traced))
    elif form == "md":
        output.print_markdown(_rows(traced), COLUMNS)
    else:
        print(f"{len(runs)} runs, {_when(runs[0])} to {_when(runs[-1])}")
        output.print_table(_rows(traced), COLUMNS)
        marked = sum(point.changed is not None for series in traced for point in series.points)
        print(f"{len(traced)} trials, {marked} changes from one run to the next.")
        for run, what in conditions(runs).items():
            print(f"{run} was measured under other conditions than the run before: {what}.")
    if html is not None:
        _write(html, runs, traced)
    sys.stdout.flush()
    return EXIT_OK


def runs_in(folder: Path) -> list[store.Run]:
    """The runs in `folder`, oldest first; a broken one is named and left out."""
    if not folder.is_dir():
        raise CorruptError(f"{folder} is not a folder of runs: {store.no_folder(folder)}")
    runs = []
    for path in sorted(folder.iterdir()):
        if not (path / store.MANIFEST).is_file():
            continue
        try:
            runs.append(legible.run(store.load(path)))
        except CorruptError as error:
            print(f"swtch: left out: {error}", file=sys.stderr)
    return sorted(runs, key=_age)


def conditions(runs: Sequence[store.Run]) -> dict[str, str]:
    """By run, what was not as in the one before: what changed may be that alone."""
    changed: dict[str, str] = {}
    for before, run in itertools.pairwise(runs):
        sides = ((one.manifest, one.samples) for one in (before, run))
        if what := elsewhere.between(*sides):
            changed[run.manifest.run_id] = legible.text(what)
    return changed


def _age(run: store.Run) -> tuple[float, str]:
    """What runs are sorted by: those without a time that can be read are first."""
    time = store.instant(run.manifest.created)
    return time.timestamp() if time else -math.inf, run.manifest.created


def _when(run: store.Run) -> str:
    from swtch.report import story

    return story.when(run.manifest.created)


def _rows(traced: list[Series]) -> list[dict[str, Any]]:
    from swtch.report.story import number

    rows = []
    for series in traced:
        marks = [
            f"{point.run} ({point.changed:+.1%} cost)"
            for point in series.points
            if point.changed is not None
        ]
        marks += [f"{series.points[index].run} (new level)" for index in series.levels]
        medians = [point.median for point in series.points]
        rows.append(
            {
                "name": series.name,
                "place": series.place,
                "metric": f"{series.metric}, {series.unit}",
                "runs": len(series.points),
                "first": number(medians[0]),
                "last": number(medians[-1]),
                "course": sparkline(medians),
                "changed": "; ".join(marks),
            }
        )
    return rows


def _points(traced: list[Series]) -> list[dict[str, Any]]:
    return [
        {
            "trial": series.name,
            "engine": series.place,
            "metric": series.metric,
            "unit": series.unit,
            "run": point.run,
            "created": point.created,
            "n": len(point.values),
            "median": point.median,
            "p_adjusted": point.p,
            "cost_change": point.changed,
            "new_level": index in series.levels,
        }
        for series in traced
        for index, point in enumerate(series.points)
    ]


def as_json(runs: list[store.Run], traced: list[Series]) -> dict[str, Any]:
    """The history as one object."""
    return {
        "schema": 1,
        "runs": [{"run_id": run.manifest.run_id, "created": run.manifest.created} for run in runs],
        "conditions": conditions(runs),
        "level": comparison.LEVEL,
        "points": _points(traced),
    }


def _write(html: Path, runs: list[store.Run], traced: list[Series]) -> None:
    from swtch.errors import os_error_text
    from swtch.report import comparing

    text = comparing.history(runs, traced, conditions(runs))
    try:
        store.write_atomically(html, text.encode())
    except OSError as error:
        raise CannotError(
            f"cannot write {html}: {os_error_text(error)}; choose another file."
        ) from None
    print(f"report: {html}", file=sys.stderr)
