# SPDX-License-Identifier: Apache-2.0
"""`swtch compare A B`: what differs between two runs, conditions first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from swtch.analysis import comparison
from swtch.analysis.comparison import Compared, Comparison, Difference
from swtch.commands import output, results
from swtch.commands.output import parse_share
from swtch.errors import EXIT_OK, EXIT_WORSE, CannotError, os_error_text
from swtch.store import Run

COLUMNS = {
    "name": "what",
    "place": "engine",
    "metric": "metric",
    "a": "A",
    "b": "B",
    "ratio": "B's cost over A's",
    "p": "p, adjusted",
    "call": "called",
}
STYLES = {"slower": "red", "faster": "green", "no difference": "dim"}
SHOWN_LENGTH = 60


def show(
    a: Path, b: Path, *, form: str, html: Path | None, fail_if_slower: str | None, every: bool
) -> int:
    """Compares the runs in `a` and `b`; EXIT_WORSE when B is slower than allowed."""
    allowed = None if fail_if_slower is None else parse_share("--fail-if-slower", fail_if_slower)
    left, right = read(a), read(b)
    made = compare_runs(left, right)
    if not made.rows:
        raise CannotError(
            f"{a} and {b} have no trial in common that can be compared; both need samples of"
            " the same experiment at the same depth and engine."
        )
    differences = comparison.environment_differences(
        left.manifest.environment, right.manifest.environment
    )
    too_slow = () if allowed is None else made.slower(allowed)
    if form == "json":
        output.print_json(as_json(left, right, made, differences, too_slow, allowed))
    elif form in ("csv", "md"):
        rows = [_row(row, plain=form == "csv") for row in made.rows]
        if form == "csv":
            output.print_csv(rows)
        else:
            output.print_markdown(rows, COLUMNS)
    else:
        _table(left, right, made, differences, every=every)
    if html is not None:
        _write(html, left, right, made, differences)
    sys.stdout.flush()
    if too_slow and allowed is not None:
        worst = max(too_slow, key=lambda row: row.ratio.estimate)
        print(
            f"swtch: {len(too_slow)} of {len(made.rows)} comparisons are more than"
            f" {allowed:.3g} slower (as a share): worst is {worst.name},"
            f" {worst.ratio.estimate:.3g} times the cost.",
            file=sys.stderr,
        )
        return EXIT_WORSE
    return EXIT_OK


def read(path: Path) -> Run:
    """The run in `path` with its text made legible."""
    from swtch.report import legible

    return legible.run(results.validated(path))


def compare_runs(a: Run, b: Run) -> Comparison:
    """The comparison of two runs."""
    from swtch.analysis.findings import group

    return comparison.compare(
        group(a.manifest.trials, a.samples), group(b.manifest.trials, b.samples)
    )


def as_json(
    a: Run,
    b: Run,
    made: Comparison,
    differences: tuple[Difference, ...],
    too_slow: tuple[Compared, ...],
    allowed: float | None,
) -> dict[str, Any]:
    """The comparison as one object."""
    return {
        "schema": 1,
        "a": {"run_id": a.manifest.run_id, "created": a.manifest.created},
        "b": {"run_id": b.manifest.run_id, "created": b.manifest.created},
        "environment": [{"fact": d.fact, "a": d.a, "b": d.b} for d in differences],
        "level": comparison.LEVEL,
        "correction": "Benjamini-Hochberg",
        "families": [_object(row) for row in made.families],
        "trials": [_object(row) for row in made.trials],
        "only_a": made.only_a,
        "only_b": made.only_b,
        "fail_if_slower": allowed,
        "too_slow": [row.name for row in too_slow],
    }


def _object(row: Compared) -> dict[str, Any]:
    return {
        "name": row.name,
        "experiment": row.experiment,
        "engine": row.place.engine,
        "guest": row.place.guest,
        "model": row.model,
        "metric": row.metric,
        "unit": row.unit,
        "n": row.n,
        "a": row.a,
        "b": row.b,
        "cost_ratio": row.ratio,
        "p": row.p,
        "p_adjusted": row.adjusted,
        "called": row.word,
        "trials": row.trials,
    }


def _row(row: Compared, *, plain: bool = False) -> dict[str, Any]:
    from swtch.report.story import number, spread

    if plain:
        return {
            "name": row.name,
            "place": str(row.place),
            "model": row.model,
            "metric": row.metric,
            "unit": row.unit,
            "a": row.a,
            "b": row.b,
            "ratio": row.ratio.estimate,
            "low": row.ratio.low,
            "high": row.ratio.high,
            "p": row.p,
            "p_adjusted": row.adjusted,
            "called": row.word,
        }
    return {
        "name": row.name,
        "place": str(row.place),
        "metric": f"{row.metric}, {row.unit}" if row.a is not None else f"{row.trials} trials",
        "a": number(row.a),
        "b": number(row.b),
        "ratio": spread(row.ratio),
        "p": f"{row.adjusted:.2g}",
        "call": row.word,
    }


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


def _table(
    a: Run, b: Run, made: Comparison, differences: tuple[Difference, ...], *, every: bool
) -> None:
    print(f"A: {a.manifest.run_id}, {a.manifest.created}   B: {b.manifest.run_id},", end="")
    print(f" {b.manifest.created}")
    if differences:
        print("\nNot the same in both environments:")
        rows = [{"fact": d.fact, "a": _short(d.a), "b": _short(d.b)} for d in differences]
        output.print_table(rows, {"fact": "fact", "a": "A", "b": "B"})
    else:
        print("\nThe environments are the same.")
    shown = [row for row in made.rows if every or row.differs or row.trials > 1]
    shown.sort(key=lambda row: (row.trials == 1, not row.differs))
    if shown:
        output.print_table([_row(row) for row in shown], COLUMNS, STYLES)
    hidden = len(made.rows) - len(shown)
    counts = {word: sum(row.word == word for row in made.rows) for word in STYLES}
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    print(
        f"{len(made.rows)} comparisons: {told}. Of what is called different,"
        f" {comparison.LEVEL:.0%} is expected not to be (Benjamini-Hochberg)."
    )
    if hidden:
        print(f"{hidden} trials without a difference are not listed; --all lists them.")
    for name, only in (("A", made.only_a), ("B", made.only_b)):
        if only:
            print(f"Only comparable in {name}: {len(only)} trials, first {only[0]}.")


def _write(
    html: Path, a: Run, b: Run, made: Comparison, differences: tuple[Difference, ...]
) -> None:
    from swtch.report import comparing
    from swtch.store import write_atomically

    text = comparing.page(a, b, made, differences)
    try:
        write_atomically(html, text.encode())
    except OSError as error:
        raise CannotError(
            f"cannot write {html}: {os_error_text(error)}; choose another file."
        ) from None
    print(f"report: {html}", file=sys.stderr)
