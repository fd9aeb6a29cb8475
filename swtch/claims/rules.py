# SPDX-License-Identifier: Apache-2.0
"""From an effect to a verdict: the one rule, and how several cases become one verdict.

A ``Question`` is an effect and the bounds that the claim sets it. It *holds* when the
whole interval is inside, *differs* when all of it is outside, and else nothing can be
told. The interval is at the level the run is judged at: 0.95 of a run that was planned
in full, more where it was looked at while it grew (analysis.effects says how many blocks
a level needs).

Of several cases all must hold, each at that level: that needs no correction, for a claim
that is false in one of them holds with the error of that one. One case that differs
decides, and the more cases the more often one does by chance: so it counts only if it
would at a level corrected for how many cases were looked at (Bonferroni). Cases of cases
are counted together. A case that is not measurable is named and decides nothing here; what
was to be measured and was not is the registry's to judge (claims._checked).

Rejected: the median of the cases (a claim "for every pair" is about the worst), a test
for the whole family (it would not say which case).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from swtch.analysis import effects
from swtch.analysis.effects import Effect
from swtch.records import Interval, VerdictName

# Of several cases the first of these that there is.
ORDER: tuple[VerdictName, ...] = ("differs", "cannot tell", "holds")


# "More" is by a twentieth at least, and so is "less". Against 1 itself no number of blocks
# tells an effect that is none from one that is small, so the claim could never be denied;
# all that the studies call more is more by far than this.
MORE = 1.05
# Two trials of which no block has both, or none a value that can be compared.
NOT_COMPARABLE = "no block has samples of both that can be compared"


class UnsureError(Exception):
    """What a check has to know is not sure, so that nothing can be told; ``str()`` says why."""


@dataclass(frozen=True)
class Question:
    """Whether an effect lies within the bounds, in its unit; an equal bound is inside
    only where ``closed``."""

    effect: Effect
    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    @property
    def threshold(self) -> float | None:
        """The bound where there is one."""
        bounds = [bound for bound in (self.low, self.high) if math.isfinite(bound)]
        return bounds[0] if len(bounds) == 1 else None

    def verdict(self, level: float) -> VerdictName:
        if not self.effect.decides(level):
            return "cannot tell"
        here = self.effect.interval(level)
        low, high = self._exact(here.low), self._exact(here.high)
        if self._inside(low, high):
            return "holds"
        outside = high < self.low or low > self.high
        if not self.closed:
            outside |= high == low and low in (self.low, self.high)
        return "differs" if outside else "cannot tell"

    def _exact(self, limit: float) -> float:
        """The bound where the limit is one but for what logarithms lose: counts five times
        others are 4.999999999999999 times them."""
        return next((b for b in (self.low, self.high) if math.isclose(limit, b)), limit)

    def _inside(self, low: float, high: float) -> bool:
        if self.closed:
            return self.low <= low and high <= self.high
        return self.low < low and high < self.high

    def across(self) -> str:
        """What an interval reaches across that decides nothing."""
        if self.threshold is not None:
            return f"the interval reaches across {self.threshold:g}"
        return f"the interval reaches across the bounds {self.low:g} and {self.high:g}"


@dataclass(frozen=True)
class Ruling:
    """What a claim's check says; the registry adds the rest.

    ``questions`` are what was asked of effects, of one case or of several, so that they can
    be asked again at another level; none where counts decided.
    """

    verdict: VerdictName
    why: str
    here: Interval | None = None
    threshold: float | None = None
    questions: tuple[Question, ...] = ()
    # In the place of "cannot tell", where more can be said of it.
    open: str = ""

    def also(self, *more: str) -> Ruling:
        """The ruling with what else was measured."""
        return replace(self, why=". ".join((self.why, *more)))


def ask(question: Question, level: float, why: str) -> Ruling:
    """The verdict at `level`, with its reason."""
    here = question.effect.interval(level)
    if not question.effect.decides(level):
        return too_few(question.effect, level, question.threshold, question)
    verdict = question.verdict(level)
    if verdict == "cannot tell":
        why += ("; " if why else "") + question.across()
    return Ruling(verdict, why, here, question.threshold, (question,))


def all_of(rulings: Mapping[str, Ruling], why: str, level: float = effects.LEVEL) -> Ruling:
    """One verdict of several cases: all must hold, and one that differs decides if it does
    at a level corrected for their number.

    Shown is the case that decides; of several, the lowest.
    """
    measured = [ruling for ruling in rulings.values() if ruling.verdict in ORDER]
    if not measured:
        return missing(f"{why}: none of the cases")
    looked_at = sum(max(1, len(ruling.questions)) for ruling in measured)
    corrected = {case: _corrected(ruling, looked_at, level) for case, ruling in rulings.items()}
    verdict = min((r.verdict for r in corrected.values() if r.verdict in ORDER), key=ORDER.index)
    deciding = [r for r in corrected.values() if r.verdict == verdict and r.here is not None]
    shown = min(deciding, key=lambda r: r.here.low if r.here else 0.0, default=None)
    cases = "; ".join(f"{case}: {_case(ruling)}" for case, ruling in corrected.items())
    return Ruling(
        verdict,
        f"{why}: {cases}",
        shown.here if shown else None,
        shown.threshold if shown else None,
        tuple(question for ruling in measured for question in ruling.questions),
    )


def _corrected(ruling: Ruling, cases: int, level: float) -> Ruling:
    """A case that differs only at the level of one case alone decides nothing."""
    if ruling.verdict != "differs" or not ruling.questions or cases == 1:
        return ruling
    strict = 1 - (1 - level) / cases
    if any(question.verdict(strict) == "differs" for question in ruling.questions):
        return ruling
    return replace(ruling, verdict="cannot tell", open=f"differs, but not as one of {cases} cases")


def _case(ruling: Ruling) -> str:
    here, verdict = ruling.here, ruling.open or ruling.verdict
    return f"{plain(here.estimate)} {here.unit}, {verdict}" if here else verdict


def missing(what: str, how: str = "") -> Ruling:
    """Not measurable here, with the reason and how to get it."""
    return Ruling("not measurable here", what + (f"; {how}" if how else ""))


def of_counts(
    values: Sequence[float], right: int, why: str, here: Interval | None, threshold: float | None
) -> Ruling:
    """Of invocations that are each exactly as the claim says or not: all, or fewer than half."""
    if len(values) < effects.LEAST:
        return replace(too_few(None, threshold=threshold, n=len(values)), here=here)
    share = right / len(values)
    if share == 1:
        return Ruling("holds", why, here, threshold)
    return Ruling("differs" if share < 0.5 else "cannot tell", why, here, threshold)


def too_few(
    effect: Effect | None,
    level: float = effects.LEVEL,
    threshold: float | None = None,
    question: Question | None = None,
    n: int = 0,
) -> Ruling:
    """Cannot tell; `n` says how few where there is no effect."""
    n, least = (effect.n, effect.least(level)) if effect else (n, effects.least(level))
    return Ruling(
        "cannot tell",
        f"{n} block{'' if n == 1 else 's'}; at least {least} are needed",
        effect.interval(level) if effect else None,
        threshold,
        (question,) if question else (),
    )


def plain(value: float) -> str:
    """Three significant digits, no exponent."""
    if abs(value) >= 999.5:
        return f"{value:,.0f}".replace(",", " ")
    text = f"{value:.3g}"
    return f"{value:.{2 - int(text.partition('e')[2])}f}" if "e" in text else text
