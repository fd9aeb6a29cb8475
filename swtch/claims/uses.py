# SPDX-License-Identifier: Apache-2.0
"""Which trials a claim uses, and how far it is from a decision.

Nobody writes that down: a claim is judged on groups that note when their samples are
read, and on evidence that notes what it was asked. So a new claim needs no list, and a
list cannot fall behind its claim.

A question that nothing decided yet says how many blocks it would take: an interval
shrinks with the root of their number, and has to end before the bound it reaches across.
That is a guess, good enough to spend a budget by and to tell people; no verdict rests on
it.

Rejected: the groups that `of` handed out (a check asks for a whole experiment to see
whether there is any of a model), names of trials in the claim (two places to keep right).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from swtch import claims
from swtch.analysis import effects
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, Place
from swtch.claims.rules import Question, Ruling
from swtch.records import Engine, Kind, Model, Trial, VerdictName


@dataclass(frozen=True)
class Use:
    """A claim at a place: what became of it so far, and the trials it was judged on.

    ``blocks`` is how many it would take to decide; infinite where an effect lies on its
    bound, None where nobody can say.
    """

    claim: str
    place: Place
    verdict: VerdictName
    trials: frozenset[str]
    blocks: float | None = None
    kind: Kind = "finding"


@dataclass(frozen=True)
class _Noting(Group):
    """A group that notes when its samples are read."""

    notes: set[str] = field(default_factory=set, compare=False)

    def __getattribute__(self, name: str) -> Any:
        if name in ("good", "failed"):
            object.__getattribute__(self, "notes").add(object.__getattribute__(self, "trial").id)
        return object.__getattribute__(self, name)


@dataclass(frozen=True)
class _Evidence(claims.Evidence):
    """Evidence that notes what is read and asked of it."""

    notes: set[str] = field(default_factory=set, compare=False)
    asked: list[Question] = field(default_factory=list, compare=False)

    def of(
        self,
        experiment: str,
        model: Model | None = None,
        only: Callable[[Trial], bool] | None = None,
        **factors: object,
    ) -> list[Group]:
        groups = super().of(experiment, model, only, **factors)
        return [_Noting(group.trial, group.good, group.failed, self.notes) for group in groups]

    def above(self, effect: Effect, threshold: float, why: str = "") -> Ruling:
        self.asked.append(Question(effect, low=threshold))
        return super().above(effect, threshold, why)

    def below(self, effect: Effect, threshold: float, why: str = "") -> Ruling:
        self.asked.append(Question(effect, high=threshold))
        return super().below(effect, threshold, why)

    def within(self, effect: Effect, low: float, high: float, why: str = "") -> Ruling:
        self.asked.append(Question(effect, low, high, closed=True))
        return super().within(effect, low, high, why)


def uses(
    groups: Sequence[Group],
    experiments: Iterable[str],
    level: float | Mapping[Engine, float] = effects.LEVEL,
) -> tuple[Use, ...]:
    """Every claim about these experiments at every place, as `claims.judge` judges it."""
    wanted = set(experiments)
    chosen = [claim for claim in claims.every() if claim.experiment in wanted]
    claim_uses = []
    for evidence in claims.evidence(groups, level):
        unmarked = evidence.unmarked()
        for claim in chosen:
            noting = _Evidence(evidence.place, evidence.groups, evidence.level)
            # Without the marked samples a check reads no other trials.
            ruling = claims.ruling(claim, noting, replace(unmarked))
            blocks = blocks_needed(noting.asked, evidence.level)
            read = frozenset(noting.notes)
            claim_uses.append(
                Use(claim.id, evidence.place, ruling.verdict, read, blocks, claim.kind)
            )
    return tuple(claim_uses)


def blocks_needed(asked: Sequence[Question], level: float) -> float | None:
    """How many blocks would decide all that is undecided of these; None of no question.

    Where one lies outside its bounds, it alone decides, once it is sure.
    """
    undecided = [question for question in asked if question.verdict(level) == "cannot tell"]
    outside = [
        question
        for question in undecided
        if not question.low <= question.effect.estimate <= question.high
    ]
    if outside:
        return min(_blocks(question, level) for question in outside)
    return max((_blocks(question, level) for question in undecided), default=None)


def _blocks(question: Question, level: float) -> float:
    effect = question.effect
    least = effect.least(level)
    if effect.n < least:
        return least
    here = effect.interval(level)
    scale = math.log if effect.logarithmic else float
    needed = float(effect.n)
    for bound, end in ((question.low, here.low), (question.high, here.high)):
        crossed = here.low <= bound <= here.high
        if not crossed or not math.isfinite(bound) or (effect.logarithmic and bound <= 0):
            continue
        # Inside the bounds the near end must come in, outside the far one.
        inside = question.low <= here.estimate <= question.high
        if not inside:
            end = here.high if end == here.low else here.low
        reach = abs(scale(end) - scale(here.estimate))
        room = abs(scale(here.estimate) - scale(bound))
        needed = max(needed, math.inf if room == 0 else effect.n * (reach / room) ** 2)
    return needed
