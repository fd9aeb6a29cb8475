# SPDX-License-Identifier: Apache-2.0
"""How the claims stand: the headline, the grid of verdicts, and what would decide the rest.

Findings and named checks are counted apart: that a counter is right says nothing of what
a switch costs, and a check that fails says that nothing else is to be believed.

Every verdict has a letter, so that the grid is read without its colours. A verdict that
turns on samples which a gate marked has a mark, wherever it is shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from swtch.analysis.findings import Place
from swtch.records import Verdict, VerdictName

VERDICT_ORDER: Final[tuple[VerdictName, ...]] = (
    "holds",
    "differs",
    "cannot tell",
    "not measurable here",
)
LETTERS: Final[Mapping[VerdictName, str]] = {
    "holds": "H",
    "differs": "D",
    "cannot tell": "?",
    "not measurable here": "–",
}
# How many of them do what: one of them, and several.
_DO: Final[Mapping[VerdictName, tuple[str, str]]] = {
    "holds": ("holds", "hold"),
    "differs": ("differs", "differ"),
    "cannot tell": ("cannot be told", "cannot be told"),
    "not measurable here": ("is not measurable here", "are not measurable here"),
}
# As the registry puts it (claims._gated).
_GATED: Final = re.compile(r"Without the \d+ samples that a gate marked: ([a-z ]+)")
MARK: Final = "*"
MARK_MEANING: Final = "turns on samples that a gate marked as doubtful"
# More blocks than this are no answer: the effect is as good as on the bound.
BLOCKS_MOST: Final = 1000


def findings_of(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in verdicts if verdict.kind == "finding")


def checks_of(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in verdicts if verdict.kind == "check")


def counts(verdicts: Iterable[Verdict]) -> dict[VerdictName, int]:
    """Verdicts by name, in a fixed order."""
    names = [verdict.verdict for verdict in verdicts]
    return {name: names.count(name) for name in VERDICT_ORDER if name in names}


def headline(verdicts: Sequence[Verdict]) -> str:
    """Findings by verdict, and the checks, in one sentence; empty without claims."""
    findings, checks = findings_of(verdicts), checks_of(verdicts)
    parts = []
    if findings:
        by_name = counts(findings)
        does = [f"{n} {_DO[name][n > 1]}" for name, n in by_name.items()]
        noun = "finding" if len(findings) == 1 else "findings"
        parts.append(f"of {len(findings)} {noun} {_listed(does)}")
    if checks:
        parts.append(_of_checks(checks))
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _of_checks(checks: Sequence[Verdict]) -> str:
    passed = sum(check.verdict == "holds" for check in checks)
    of = len(checks)
    noun = "check" if of == 1 else "checks"
    if passed == of:
        return f"the {noun} passes" if of == 1 else f"all {of} {noun} pass"
    failed = [check.claim for check in checks if check.verdict == "differs"]
    open_ = of - passed - len(failed)
    parts = [f"{passed} of {of} {noun} pass{'es' if passed == 1 else ''}"]
    if failed:
        parts.append(f"{', '.join(dict.fromkeys(failed))} FAIL{'S' if len(failed) == 1 else ''}")
    if open_:
        parts.append(f"{open_} cannot be told")
    return ", ".join(parts)


def _listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def turns_on_gates(verdict: Verdict) -> bool:
    """Whether it would be another without the samples that a gate marked: decided by them, or
    undecided for them. That there is too little either way is nothing new."""
    without = _GATED.search(verdict.why)
    decided = ("holds", "differs")
    return without is not None and (verdict.verdict in decided or without[1] in decided)


def marked(verdict: Verdict) -> str:
    """Its name, with a mark where it turns on doubtful samples."""
    return verdict.verdict + (MARK if turns_on_gates(verdict) else "")


# ---- what would decide ----


def to_decide(verdict: Verdict, needed: float | None, done: int) -> str:
    """What would decide an undecided verdict, in a sentence; empty where nobody knows.

    ``needed`` blocks are an estimate (claims.uses): an interval narrows by the root of their
    number, if the effect and its noise stay as they are. ``done`` are there already.
    """
    if verdict.verdict != "cannot tell" or needed is None:
        return ""
    if needed > BLOCKS_MOST:
        return (
            "The effect is too near the bound for any number of blocks to decide, if it stays"
            " as it is (estimate)."
        )
    more = max(1, math.ceil(needed) - done)
    blocks = "1 more block is" if more == 1 else f"{more} more blocks are"
    if verdict.here is None or verdict.here.method == "too few":
        return f"At least {blocks} needed for any verdict."
    return f"About {blocks} needed, if the effect stays as it is (estimate)."


# ---- the grid ----


@dataclass(frozen=True)
class Mark:
    """One verdict of a claim: a letter, its style, and all of it in words."""

    letter: str
    style: str
    words: str
    gated: bool


@dataclass(frozen=True)
class Cell:
    """One claim: what tells it from the others of its row, and where its row is."""

    label: str
    anchor: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Row:
    title: str
    cells: tuple[Cell, ...]


def grid(verdicts: Sequence[Verdict]) -> tuple[Row, ...]:
    """A row for each study's findings, and the last for all checks."""
    findings, checks = findings_of(verdicts), checks_of(verdicts)
    rows = [
        Row(study, _cells([v for v in findings if v.study == study], study))
        for study in dict.fromkeys(verdict.study for verdict in findings)
    ]
    if checks:
        rows.append(Row("checks", _cells(checks, "")))
    return tuple(rows)


def anchor(claim: str) -> str:
    """The id of a claim's row in the page: neither markup nor that of another claim."""
    return "claim-" + re.sub(r"[^A-Za-z0-9-]", lambda match: f"_{ord(match[0]):x}_", claim)


def _cells(verdicts: Sequence[Verdict], study: str) -> tuple[Cell, ...]:
    by_claim: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_claim.setdefault(verdict.claim, []).append(verdict)
    return tuple(
        Cell(claim.removeprefix(f"{study}."), anchor(claim), tuple(map(_mark, own)))
        for claim, own in by_claim.items()
    )


def _mark(verdict: Verdict) -> Mark:
    gated = turns_on_gates(verdict)
    place = Place(verdict.engine, verdict.guest)
    words = f"{verdict.claim} {verdict.verdict} ({place}): {verdict.text}"
    return Mark(
        LETTERS[verdict.verdict],
        verdict.verdict.replace(" ", "-"),
        words + (f"; {MARK_MEANING}" if gated else ""),
        gated,
    )
