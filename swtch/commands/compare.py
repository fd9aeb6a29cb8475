# SPDX-License-Identifier: Apache-2.0
"""`swtch compare A B`: what differs between two runs, conditions first.

One ``Sides`` holds all that is said, whatever the form: table, JSON or page.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from swtch.analysis import conditions, effects
from swtch.analysis.comparison import CALLS, LEVEL, Compared, Comparison, compare_groups
from swtch.analysis.conditions import Difference, Side
from swtch.analysis.findings import group_samples
from swtch.commands import output, results
from swtch.commands.output import parse_share
from swtch.errors import EXIT_CANNOT, EXIT_OK, EXIT_WORSE, CannotError, os_error_text
from swtch.store import Run

COLUMNS = {
    "name": "what",
    "place": "place",
    "metric": "metric",
    "a": "A",
    "b": "B",
    "ratio": "B's cost over A's",
    "p": "p, adjusted",
    "call": "called",
}
STYLES = {
    "slower": "red",
    "faster": "green",
    "in part": "yellow",
    "no difference": "dim",
    "too few": "dim",
}
SHOWN_LENGTH = 60


@dataclass(frozen=True)
class Sides:
    """The two runs, how they compare, and what was not the same around them."""

    a: Run
    b: Run
    comparison: Comparison

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Of the places first, then of the machines."""
        a, b = self._sides
        return (
            *conditions.of_places(a, b, self.comparison.pairings),
            *conditions.of_environments(a.environment, b.environment),
        )

    @cached_property
    def warning(self) -> str:
        """What a reader must know before any ratio; mostly nothing."""
        return conditions.architectures(*self._sides, self.comparison.pairings)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows are called what."""
        words = Counter(row.word for row in self.comparison.rows)
        return {word: words[word] for word in CALLS if words[word]}

    @cached_property
    def reasons(self) -> dict[str, list[str]]:
        """Why trials that both have are not compared, with their names."""
        names: dict[str, list[str]] = {}
        for trial in self.comparison.apart:
            names.setdefault(trial.reason, []).append(trial.name)
        return names

    @cached_property
    def _sides(self) -> tuple[Side, Side]:
        return _side(self.a), _side(self.b)


def show(
    a: Path,
    b: Path,
    *,
    form: str,
    html: Path | None,
    fail_if_slower: str | None,
    every: bool,
    a_place: str | None = None,
    b_place: str | None = None,
) -> int:
    """Compares the runs in `a` and `b`; EXIT_WORSE when B is slower than allowed,
    EXIT_CANNOT when no comparison could say so."""
    allowed = parse_allowed(fail_if_slower)
    sides = compare_runs(read(a), read(b), a_place, b_place)
    comparison = sides.comparison
    if not comparison.rows:
        raise CannotError(nothing(a, b, sides))
    too_slow = () if allowed is None else comparison.slower(allowed)
    if form == "json":
        output.print_json(as_json(sides, too_slow, allowed))
    elif form in ("csv", "md"):
        rows = [_row(row, plain=form == "csv") for row in comparison.rows]
        if form == "csv":
            output.print_csv(rows)
        else:
            output.print_markdown(rows, COLUMNS)
    else:
        print_table(sides, every=every)
    if html is not None:
        write_page(html, sides)
    sys.stdout.flush()
    if too_slow and allowed is not None:
        worst = max(too_slow, key=lambda row: row.ratio.estimate)
        print(
            f"swtch: {len(too_slow)} of {len(comparison.rows)} comparisons are more than"
            f" {allowed:.3g} slower (as a share): worst is {worst.name},"
            f" {worst.ratio.estimate:.3g} times the cost.",
            file=sys.stderr,
        )
        return EXIT_WORSE
    if allowed is not None and not sides.comparison.can_call_slower:
        print(f"swtch: --fail-if-slower decides nothing: {_undecided(sides)}", file=sys.stderr)
        return EXIT_CANNOT
    return EXIT_OK


def parse_allowed(text: str | None) -> float | None:
    """The share of --fail-if-slower."""
    return None if text is None else parse_share("--fail-if-slower", text)


def _undecided(sides: Sides) -> str:
    """Why no row could have been called slower, and what would change that."""
    costs = [row for row in sides.comparison.rows if row.better != "neither"]
    if not costs:
        count = len(sides.comparison.rows)
        return f"none of {count} comparisons is of a cost; compare places with a clock."
    return (
        f"none of {len(costs)} comparisons has blocks enough; measure A and B with --repeats"
        f" {effects.least_of_two()} or more."
    )


def read(path: Path) -> Run:
    """The run in `path` with its text made legible."""
    from swtch.report import legible

    return legible.run(results.validated(path))


def compare_runs(a: Run, b: Run, a_place: str | None = None, b_place: str | None = None) -> Sides:
    """The comparison of two runs; RequestError where it is not clear at which places."""
    left, right = (group_samples(run.manifest.trials, run.samples) for run in (a, b))
    return Sides(a, b, compare_groups(left, right, a_place, b_place))


def _side(run: Run) -> Side:
    return Side(run.manifest.environment, group_samples(run.manifest.trials, run.samples))


def nothing(a: Path, b: Path, sides: Sides) -> str:
    """Why there is nothing to show, in a line."""
    if not sides.reasons:
        return (
            f"{a} and {b} have no trial in common; both need samples of the same experiment and"
            " models."
        )
    reason, names = max(sides.reasons.items(), key=lambda item: len(item[1]))
    return (
        f"of {a} and {b} no trial can be compared, though {len(sides.comparison.apart)} are in"
        f" both: {names[0]}: {reason}."
    )


def as_json(sides: Sides, too_slow: tuple[Compared, ...], allowed: float | None) -> dict[str, Any]:
    """The comparison as one object."""
    a, b, comparison = sides.a.manifest, sides.b.manifest, sides.comparison
    return {
        "schema": 1,
        "a": {"run_id": a.run_id, "created": a.created},
        "b": {"run_id": b.run_id, "created": b.created},
        "places": [{"a": str(pair.a), "b": str(pair.b)} for pair in comparison.pairings],
        "warning": sides.warning,
        "environment": [{"fact": d.fact, "a": d.a, "b": d.b} for d in sides.differences],
        "level": LEVEL,
        "correction": "Benjamini-Hochberg",
        "families": [_object(row) for row in comparison.families],
        "trials": [_object(row) for row in comparison.trials],
        "not_comparable": [
            {"name": trial.name, "place": trial.place, "reason": trial.reason}
            for trial in comparison.apart
        ],
        "only_a": comparison.only_a,
        "only_b": comparison.only_b,
        "fail_if_slower": allowed,
        "too_slow": [row.name for row in too_slow],
    }


def _object(row: Compared) -> dict[str, Any]:
    return {
        "name": row.name,
        "experiment": row.experiment,
        "engine": row.place.a.engine,
        "guest": row.place.a.guest,
        "b_engine": row.place.b.engine,
        "b_guest": row.place.b.guest,
        "model": row.model,
        "metric": row.metric,
        "unit": row.unit,
        "better": row.better,
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


def print_table(sides: Sides, *, every: bool) -> None:
    """The conditions that differ, the rows and what is not comparable."""
    a, b, comparison = sides.a.manifest, sides.b.manifest, sides.comparison
    print(f"A: {a.run_id}, {a.created}   B: {b.run_id}, {b.created}")
    if sides.warning:
        print(f"\n{sides.warning}")
    if sides.differences:
        print("\nNot the same in both environments:")
        rows = [{"fact": d.fact, "a": _short(d.a), "b": _short(d.b)} for d in sides.differences]
        output.print_table(rows, {"fact": "fact", "a": "A", "b": "B"})
    else:
        print("\nThe environments are the same.")
    shown = [row for row in comparison.rows if every or row.differs or row.trials > 1]
    shown.sort(key=lambda row: (row.trials == 1, not row.differs))
    if shown:
        output.print_table([_row(row) for row in shown], COLUMNS, STYLES)
    hidden = len(comparison.rows) - len(shown)
    counts = ", ".join(f"{count} {word}" for word, count in sides.counts.items())
    print(
        f"{len(comparison.rows)} comparisons: {counts}. Of what is called different,"
        f" {LEVEL:.0%} is expected not to be (Benjamini-Hochberg)."
    )
    if few := sides.counts.get("too few"):
        least = effects.least_of_two()
        print(f"{few} have too few invocations to tell: {least} of each run is the least.")
    if hidden:
        print(f"{hidden} trials without a difference are not listed; --all lists them.")
    for reason, names in sides.reasons.items():
        print(f"Not comparable: {names[0]}{_and_more(names)}: {reason}.")
    for name, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            print(f"Only in {name}: {only[0]}{_and_more(only)}.")


def _and_more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def write_page(html: Path, sides: Sides) -> None:
    """The comparison page; CannotError when it cannot be written."""
    from swtch.report import comparing
    from swtch.store import write_atomically

    text = comparing.page(sides)
    try:
        write_atomically(html, text.encode())
    except OSError as error:
        raise CannotError(
            f"cannot write {html}: {os_error_text(error)}; choose another file."
        ) from None
    print(f"report: {html}", file=sys.stderr)
