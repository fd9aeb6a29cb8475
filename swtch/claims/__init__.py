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

A claim about time is not judged by an emulated processor's clock: only what such a guest
counts decides there. The exact engine counts instructions, and its verdict says so.

Times that gates marked are judged with and without: a verdict that turns on doubtful
samples says so, and one that they turn round is none. A count is not doubtful for that, nor
is a ratio for a gate that its claim calls steady.

A claim rests on all that it asks for. What the run has no trial of (another model, a depth
without it) is not asked for, and a check says whose half is lacking. What it has a trial of
and no good sample, or samples without the number in question, keeps a claim from holding:
nobody knows that it holds there. One measured case that differs decides all the same, where
nothing that is lacking is part of it. What is only said beside a verdict (`Evidence.aside`)
decides nothing, there or not.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from swtch import own
from swtch.analysis import effects, gates
from swtch.analysis.effects import Effect
from swtch.analysis.findings import ApartError, Group, Place
from swtch.claims import rules
from swtch.claims.rules import Question, Ruling, UnsureError, missing, plain, too_few
from swtch.records import Engine, Kind, Model, Trial, Verdict

__all__ = [
    "About",
    "Claim",
    "Evidence",
    "Question",
    "Ruling",
    "every",
    "evidence",
    "judge",
    "missing",
    "plain",
    "ruling",
    "too_few",
]

EMULATED = "an emulated processor's time decides nothing"
HOW_TIME = "--engine exact counts instructions, and where KVM boots time counts"
# Trials that a reason names.
NAMED_MOST = 3
IN_INSTRUCTIONS = "in instructions, which are not time"


@dataclass(frozen=True)
class Lack:
    """Of a trial without a good sample: whether it was tried, and whether the claim rests on it."""

    tried: bool
    decides: bool


@dataclass(frozen=True)
class Evidence:
    """The groups of one place, and the level at which they are judged."""

    place: Place
    groups: tuple[Group, ...]
    level: float = effects.LEVEL
    # So many samples that a gate marked were left out.
    without: int = 0
    # Asked of this is what is only said beside a verdict.
    beside: bool = False
    # What was asked for and has no good sample; and what has no ratio, with why.
    lacking: dict[str, Lack] = field(default_factory=dict, compare=False)
    idle: dict[str, str] = field(default_factory=dict, compare=False)

    def of(
        self,
        experiment: str,
        model: Model | None = None,
        only: Callable[[Trial], bool] | None = None,
        **factors: object,
    ) -> list[Group]:
        """Groups with samples, `only` of some trials; the copy of an A/A pair is not evidence.

        What is asked for and was never measured keeps the claim from holding.
        """
        asked = [
            group
            for group in self.groups
            if group.trial.experiment == experiment
            and (model is None or group.trial.model == model)
            and group.trial.factors.get("control") != "b"
            and all(group.trial.factors.get(name) == value for name, value in factors.items())
            and (only is None or only(group.trial))
        ]
        for group in asked:
            if not group.good:
                self._lacks(group)
        self.idle.update((g.trial.id, said) for g in asked if (said := _idle(g)))
        return [group for group in asked if group.good]

    def _lacks(self, group: Group) -> None:
        known = self.lacking.get(group.trial.id)
        decides = not self.beside or (known is not None and known.decides)
        self.lacking[group.trial.id] = Lack(bool(group.failed), decides)

    @property
    def lacks(self) -> bool:
        """Whether something that a verdict would have to rest on was never measured."""
        return any(lack.decides for lack in self.lacking.values())

    def aside(self) -> Evidence:
        """The same, for what a check only says beside its verdict, or would rather have had."""
        return replace(self, beside=True)

    def group(self, experiment: str, model: Model, **factors: object) -> Group | None:
        groups = self.of(experiment, model, None, **factors)
        return groups[0] if groups else None

    # ---- the rule: the whole interval on one side of a bound, or between two ----

    def above(self, effect: Effect, threshold: float, why: str = "") -> Ruling:
        """Holds when the whole interval is above the threshold."""
        return rules.ask(Question(effect, low=threshold), self.level, why)

    def below(self, effect: Effect, threshold: float, why: str = "") -> Ruling:
        """Holds when the whole interval is below the threshold."""
        return rules.ask(Question(effect, high=threshold), self.level, why)

    def more(self, effect: Effect, why: str = "") -> Ruling:
        """Holds when a ratio is above 1 by what counts as more; `rules.MORE` says why."""
        return self.above(effect, rules.MORE, why)

    def less(self, effect: Effect, why: str = "") -> Ruling:
        """Holds when a ratio is as far below 1."""
        return self.below(effect, 1 / rules.MORE, why)

    def within(self, effect: Effect, low: float, high: float, why: str = "") -> Ruling:
        """Holds when the whole interval lies in [low, high]; `high` may be infinite."""
        return rules.ask(Question(effect, low, high, closed=True), self.level, why)

    def all_of(self, rulings: Mapping[str, Ruling], why: str) -> Ruling:
        """One verdict of several cases (claims.rules)."""
        return rules.all_of(rulings, why, self.level)

    def unmarked(self, gate: str = "", steady: frozenset[str] = frozenset()) -> Evidence:
        """The same without the samples that a gate marked, or this one; not for `steady` ones."""
        groups = tuple(_unmarked(group, gate, steady) for group in self.groups)
        left_out = sum(len(a.good) - len(b.good) for a, b in zip(self.groups, groups, strict=True))
        return replace(self, groups=groups, without=left_out, lacking={}, idle={})


def _idle(group: Group) -> str:
    """How many invocations counted nothing: of a throughput of zero there is no ratio, and a
    check has to leave out the case."""
    idle = sum(sample.values.get("counter", 1) <= 0 for sample in group.good)
    return f"{idle} of {len(group.good)} invocations of {group.trial.id}" if idle else ""


def _unmarked(group: Group, gate: str, steady: frozenset[str]) -> Group:
    marks = ((sample, {*gates.check(group.trial, sample)} - steady) for sample in group.good)
    good = tuple(sample for sample, names in marks if not (gate in names if gate else names))
    return group if len(good) == len(group.good) else replace(group, good=good)


# What a claim is about: time and what follows of it (throughput, latency, CPU time), or
# what an emulated processor does like any other (counts, orders, identities, correctness).
About = Literal["time", "counts"]


@dataclass(frozen=True)
class Claim:
    """A sentence of a study as a check. ``about`` says who can answer it, ``kind`` where it is
    shown. ``steady`` are gates that mark nothing of it natively: a ratio of parts of one
    invocation that take turns has what others took in both. ``pooled``: its trials come
    together in means and medians, so that of others it might as well not differ."""

    id: str
    study: str
    experiment: str
    text: str
    published: str
    check: Callable[[Evidence], Ruling]
    about: About = "time"
    kind: Kind = "finding"
    steady: frozenset[str] = frozenset()
    pooled: bool = False


def every() -> tuple[Claim, ...]:
    """All claims of all studies, in the studies' order, then those from outside."""
    return (*built_in(), *own.claims())


def built_in() -> tuple[Claim, ...]:
    """Those of the package."""
    claims: list[Claim] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        if module.name.startswith("study_"):
            claims += importlib.import_module(f"{__name__}.{module.name}").CLAIMS
    return tuple(claims)


def judge(
    groups: Sequence[Group],
    experiments: Iterable[str],
    level: float | Mapping[Engine, float] = effects.LEVEL,
) -> tuple[Verdict, ...]:
    """A verdict for each claim about these experiments, per place.

    `level` is that of one look at the data: more than 0.95 where there were several.
    """
    wanted = set(experiments)
    claims = [claim for claim in every() if claim.experiment in wanted]
    sides = [(marked, marked.unmarked()) for marked in evidence(groups, level)]
    verdicts: list[Verdict] = []
    for claim in claims:
        by_place = [_verdict(claim, *both) for both in sides]
        measured = [v for v in by_place if v.verdict != "not measurable here"]
        verdicts += measured or by_place[:1]
    return tuple(verdicts)


def evidence(
    groups: Sequence[Group], level: float | Mapping[Engine, float] = effects.LEVEL
) -> tuple[Evidence, ...]:
    """The groups by place, each at the level of its engine."""
    places: dict[Place, list[Group]] = {}
    for group in groups:
        places.setdefault(group.place, []).append(group)
    return tuple(
        Evidence(
            place,
            tuple(own),
            level.get(place.engine, effects.LEVEL) if isinstance(level, Mapping) else level,
        )
        for place, own in places.items()
    )


def _verdict(claim: Claim, evidence: Evidence, unmarked: Evidence) -> Verdict:
    judged = ruling(claim, evidence, unmarked)
    return Verdict(
        claim=claim.id,
        study=claim.study,
        text=claim.text,
        published=claim.published,
        here=judged.here,
        engine=evidence.place.engine,
        guest=evidence.place.guest,
        verdict=judged.verdict,
        why=judged.why,
        threshold=judged.threshold,
        kind=claim.kind,
    )


def ruling(claim: Claim, evidence: Evidence, unmarked: Evidence) -> Ruling:
    """The check's, where its evidence is of use, with what the gates make of it."""
    evidence.idle.clear()
    judged = _checked(claim, evidence)
    judged = judged.also(*_without(evidence.lacking))
    if evidence.idle and claim.about == "time":
        judged = judged.also(f"Nothing was counted in {_some(list(evidence.idle.values()))}")
        if judged.verdict == "holds":
            # Not of a case in which nobody got through anything.
            judged = replace(judged, verdict="cannot tell")
    if judged.verdict == "not measurable here":
        return judged
    if claim.about == "time" and evidence.place.clock == "emulated":
        return missing(EMULATED, HOW_TIME)
    if claim.about != "time":
        return judged
    if claim.steady and evidence.place.home:
        plain_evidence = Evidence(evidence.place, evidence.groups, evidence.level)
        unmarked = plain_evidence.unmarked(steady=claim.steady)
    judged = _gated(claim, unmarked, judged)
    return judged.also(IN_INSTRUCTIONS) if evidence.place.clock == "instructions" else judged


def _checked(claim: Claim, evidence: Evidence) -> Ruling:
    """The check's ruling; of a case whose two sides were never measured in one block, or that
    lacks a fact that is sure, none. No claim holds that rests on what was never measured."""
    evidence.lacking.clear()
    try:
        judged = claim.check(evidence)
    except (ApartError, UnsureError) as said:
        return Ruling("cannot tell", str(said))
    hangs = judged.verdict == "holds" or (claim.pooled and judged.verdict == "differs")
    return replace(judged, verdict="cannot tell") if hangs and evidence.lacks else judged


def _without(lacking: Mapping[str, Lack]) -> list[str]:
    """Which cases nobody could measure."""
    tried, untried = (
        [trial for trial, lack in lacking.items() if lack.tried is tried] for tried in (True, False)
    )
    return [
        *([f"Every invocation failed of {_some(tried)}"] if tried else []),
        *([f"Nothing was measured of {_some(untried)}"] if untried else []),
    ]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
    return ", ".join(names[:NAMED_MOST]) + more


def _gated(claim: Claim, unmarked: Evidence, ruling: Ruling) -> Ruling:
    """A verdict that turns on samples which a gate marked says so; one that becomes its
    opposite without them is none."""
    if not unmarked.without:
        return ruling
    without = _checked(claim, unmarked).verdict
    if without == ruling.verdict:
        return ruling
    turns = ruling.also(f"Without the {unmarked.without} samples that a gate marked: {without}")
    turned = {ruling.verdict, without} == {"holds", "differs"}
    return replace(turns, verdict="cannot tell") if turned else turns
