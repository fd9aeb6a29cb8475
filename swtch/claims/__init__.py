# SPDX-License-Identifier: Apache-2.0
"""The studies' claims as checks with a verdict.

A claim is a sentence of a study about direction, order or signature; an
absolute figure of another machine is shown, never demanded. Each study is one
module that defines ``CLAIMS``; the registry is this folder.

Verdicts: *holds* (the interval lies on the claim's side), *differs* (on the
other side), *cannot tell* (it straddles, or there are too few invocations),
*not measurable here* (with the reason, and how to get it).

A claim is judged once per place (engine, and guest) that measured it, never
across. Places that cannot measure it are named only when none of the run can.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from swtch.analysis.findings import Group, Place
from swtch.analysis.stats import MIN_N
from swtch.records import Interval, Model, Verdict, VerdictName


@dataclass(frozen=True)
class Evidence:
    """The groups of one place."""

    place: Place
    groups: tuple[Group, ...]

    def of(self, experiment: str, model: Model | None = None, **factors: object) -> list[Group]:
        """Groups with samples; the copy of an A/A pair is not evidence."""
        return [
            group
            for group in self.groups
            if group.trial.experiment == experiment
            and group.good
            and (model is None or group.trial.model == model)
            and group.trial.factors.get("control") != "b"
            and all(group.trial.factors.get(name) == value for name, value in factors.items())
        ]

    def one(self, experiment: str, model: Model, **factors: object) -> Group | None:
        found = self.of(experiment, model, **factors)
        return found[0] if found else None


@dataclass(frozen=True)
class Ruling:
    """What a claim's check says; the registry adds the rest."""

    verdict: VerdictName
    why: str
    here: Interval | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Claim:
    id: str
    study: str
    experiment: str
    text: str
    published: str
    check: Callable[[Evidence], Ruling]


def every() -> tuple[Claim, ...]:
    """All claims of all studies, in the studies' order."""
    claims: list[Claim] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        if module.name.startswith("study_"):
            claims += importlib.import_module(f"{__name__}.{module.name}").CLAIMS
    return tuple(claims)


def judge(groups: Sequence[Group], experiments: Iterable[str]) -> tuple[Verdict, ...]:
    """A verdict for each claim about these experiments, per place."""
    wanted = set(experiments)
    claims = [claim for claim in every() if claim.experiment in wanted]
    places: dict[Place, list[Group]] = {}
    for group in groups:
        places.setdefault(group.place, []).append(group)
    verdicts: list[Verdict] = []
    for claim in claims:
        found = [_verdict(claim, Evidence(p, tuple(own))) for p, own in places.items()]
        measured = [v for v in found if v.verdict != "not measurable here"]
        verdicts += measured or found[:1]
    return tuple(verdicts)


def _verdict(claim: Claim, evidence: Evidence) -> Verdict:
    ruling = claim.check(evidence)
    return Verdict(
        claim=claim.id,
        study=claim.study,
        text=claim.text,
        published=claim.published,
        here=ruling.here,
        engine=evidence.place.engine,
        guest=evidence.place.guest,
        verdict=ruling.verdict,
        why=ruling.why,
        threshold=ruling.threshold,
    )


# ---- rules that many claims share ----


def missing(what: str, how: str = "") -> Ruling:
    """Not measurable here, with the reason and how to get it."""
    return Ruling("not measurable here", what + (f"; {how}" if how else ""))


def above(here: Interval, threshold: float, why: str) -> Ruling:
    """Holds when the whole interval is above the threshold."""
    if here.n < MIN_N:
        return too_few(here, threshold)
    if here.low > threshold:
        verdict: VerdictName = "holds"
    elif here.high < threshold:
        verdict = "differs"
    else:
        verdict = "cannot tell"
        why += f"; the interval reaches across {threshold:g}"
    return Ruling(verdict, why, here, threshold)


def below(here: Interval, threshold: float, why: str) -> Ruling:
    """Holds when the whole interval is below the threshold."""
    if here.n < MIN_N:
        return too_few(here, threshold)
    if here.high < threshold:
        verdict: VerdictName = "holds"
    elif here.low > threshold:
        verdict = "differs"
    else:
        verdict = "cannot tell"
        why += f"; the interval reaches across {threshold:g}"
    return Ruling(verdict, why, here, threshold)


def within(here: Interval, low: float, high: float, why: str) -> Ruling:
    """Holds when the whole interval lies in [low, high]; differs when all of it is outside."""
    if here.n < MIN_N:
        return too_few(here)
    if low <= here.low and here.high <= high:
        verdict: VerdictName = "holds"
    elif here.high < low or here.low > high:
        verdict = "differs"
    else:
        verdict = "cannot tell"
        why += f"; the interval reaches across the bounds {low:g} and {high:g}"
    return Ruling(verdict, why, here)


def all_of(rulings: Mapping[str, Ruling], why: str) -> Ruling:
    """One verdict of several cases: all must hold, and one that differs decides.

    Shown is the case that decides; of several, the lowest.
    """
    names = {ruling.verdict for ruling in rulings.values()}
    order: tuple[VerdictName, ...] = ("differs", "cannot tell", "holds")
    verdict = next(name for name in order if name in names)
    deciding = [r for r in rulings.values() if r.verdict == verdict and r.here is not None]
    shown = min(deciding, key=lambda r: r.here.low if r.here else 0.0, default=None)
    told = "; ".join(f"{case}: {_told(ruling)}" for case, ruling in rulings.items())
    return Ruling(
        verdict,
        f"{why}: {told}",
        shown.here if shown else None,
        shown.threshold if shown else None,
    )


def _told(ruling: Ruling) -> str:
    here = ruling.here
    return f"{plain(here.estimate)} {here.unit}, {ruling.verdict}" if here else ruling.verdict


def plain(value: float) -> str:
    """Three significant digits, no exponent."""
    if abs(value) >= 999.5:
        return f"{value:,.0f}".replace(",", " ")
    text = f"{value:.3g}"
    return f"{value:.{2 - int(text.partition('e')[2])}f}" if "e" in text else text


def too_few(here: Interval | None, threshold: float | None = None, n: int = 0) -> Ruling:
    """Cannot tell; `n` says how few where there is no interval."""
    n = here.n if here else n
    return Ruling(
        "cannot tell",
        f"{n} invocation{'' if n == 1 else 's'}; at least {MIN_N} are needed",
        here,
        threshold,
    )
