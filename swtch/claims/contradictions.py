# SPDX-License-Identifier: Apache-2.0
"""Where the studies contradict one another: claims that belong side by side.

Each side is one claim or several; what this machine says of both stands in one row,
and ``because`` says what the two did differently. A contradiction is shown as soon as
one of its claims was judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swtch.records import Verdict


@dataclass(frozen=True)
class Contradiction:
    """``left`` and ``right`` are ids of claims; ``about`` is the question they answer."""

    about: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    because: str


CONTRADICTIONS: tuple[Contradiction, ...] = (
    Contradiction(
        "Do pthreads get through less on more CPUs?",
        ("000.4",),
        ("001.4",),
        "Study 000's threads share one atomic counter, whose cache line has to travel; in study"
        " 001 the pthreads' throughput stays near 45 Mops/s on 1, 2 and 4 CPUs.",
    ),
    Contradiction(
        "Are kernel threads faster or slower than pthreads at the same work?",
        ("000.5", "000.6"),
        ("001.1",),
        "Study 001's kernel threads keep accounts in their loop, its pthreads do not; the bare"
        " loop, measured beside it, has none.",
    ),
    Contradiction(
        "Is a yield a voluntary switch?",
        ("000.1",),
        ("001.2",),
        "Study 000's kernel threads call schedule() and stay runnable, which the kernel counts as"
        " involuntary; those of study 001 sleep with a timeout, which it counts as voluntary.",
    ),
    Contradiction(
        "Is a switch in user space dearer or cheaper than one in the kernel?",
        ("004.1", "004.2"),
        ("001.7",),
        "Study 004's user-level switch goes through gtthread's locks and queue; a coroutine saves"
        " a few registers and does not enter the kernel.",
    ),
    Contradiction(
        "What does one switch in the kernel cost by itself?",
        ("002.1",),
        ("004.1",),
        "48 µs on an ARM board of 120 MHz, from empty caches and without the scheduler; 0.62 µs"
        " on a PC, a token in warm caches. Neither figure is expected here; both ways are"
        " measured.",
    ),
)


@dataclass(frozen=True)
class SideBySide:
    """A contradiction with what became of its claims here."""

    about: str
    because: str
    left: tuple[Verdict, ...]
    right: tuple[Verdict, ...]


def judged(verdicts: Sequence[Verdict]) -> tuple[SideBySide, ...]:
    """The contradictions of which a claim was judged, in the order of this file."""
    sides = []
    for contradiction in CONTRADICTIONS:
        left, right = (
            tuple(v for v in verdicts if v.claim in side)
            for side in (contradiction.left, contradiction.right)
        )
        if left and right:
            sides.append(SideBySide(contradiction.about, contradiction.because, left, right))
    return tuple(sides)
