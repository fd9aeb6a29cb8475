# SPDX-License-Identifier: Apache-2.0
"""What the tests of every study's claims check alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from synthetic import Scene

from swtch.records import Verdict, VerdictName

Where = Mapping[str, Any]
Make = Callable[[Where], Scene]
Row = tuple[str, VerdictName, str, Make]  # claim's number, verdict, case, and its samples

ALL_FOUR = {"holds", "differs", "cannot tell", "not measurable here"}


def name_of(given: Any) -> str:
    if isinstance(given, str):
        return given
    return "-".join(part.replace(" ", "_") for part in given[:3] if part)


def checked(make: Make, where: Where, claim: str, expected: str) -> Verdict:
    """The verdict on samples made there: the one expected, complete, and of that place."""
    verdict = make(where).verdict(claim)
    assert verdict.verdict == expected, verdict.why
    assert (verdict.engine, verdict.guest) == (
        where.get("engine", "native"),
        where.get("guest", ""),
    )
    assert verdict.study == claim.split(".")[0] and verdict.text and verdict.published
    assert verdict.why and "nan" not in verdict.why
    return verdict


def by_claim(study: str, rows: Iterable[Row]) -> dict[str, set[str]]:
    """The verdicts that rows expect, by claim, in the rows' order."""
    given: dict[str, set[str]] = {}
    for number, verdict, _, _ in rows:
        given.setdefault(f"{study}.{number}", set()).add(verdict)
    return given
