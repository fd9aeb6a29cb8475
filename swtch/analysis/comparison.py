# SPDX-License-Identifier: Apache-2.0
"""Two runs, before and after: ratios with intervals, and which of them are differences.

A comparison is of the main metric of one trial that both runs have (analysis.pairing). Its
ratio is that of the *cost* (time, or one over a rate), so that above 1 always means slower;
of a count, of which neither way is better, it is the count's. Beside the trials stand two
kinds of *families*: all trials of a model in an experiment, and all of an experiment, at one
place each. A slower probe is slower in all of its trials, and together they show what one
trial's few invocations cannot.

Every row is decided by the lab's one rule (analysis.effects), for two groups without common
blocks: the Hodges-Lehmann shift of log-costs, the interval that the rank-sum test gives, and
the p of that test. Of a trial the values are its invocations; of a family they are its
blocks, each by the mean rank of its trials (analysis.shared), since what disturbs a block
disturbs all of its trials.

A family is tested in two ways, by its blocks and by its members' p-values (Simes), so that
neither a small change of all nor a large one of a single trial is lost; the smaller p
counts double.

Multiplicity is controlled from above (Yekutieli, JASA 103, 2008): experiments are
adjusted together by Benjamini and Hochberg (JRSS B 57, 1995), the models of an
experiment only if it is called, the trials of a model only if that is. Of the
experiments that are called different a share of ``LEVEL`` is expected not to be; if
nothing differs, nothing at all is called in 95 of 100 comparisons of runs.

Invariant: an interval is never adjusted, a call always is.

Rejected: the ratio of medians with a bootstrap
(misses 5 % in 16 % of like pairs, and had to be stretched to hold its estimate), Holm's
step-down (it controls any false call at all, and gives up most true ones of a quick run),
pairing blocks of two runs (they were not measured at the same time), one adjustment over all
trials (a trial more that did not change would hide those that did).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from swtch.analysis import effects, findings, pairing
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group
from swtch.analysis.main_metric import Better, MainMetric
from swtch.analysis.pairing import Apart, Pair, Pairing
from swtch.analysis.shared import Shared
from swtch.records import Interval, Model

LEVEL = 0.05
# Words for what is called, by which way is better.
_WORDS: Mapping[Better, tuple[str, str]] = {
    "less": ("slower", "faster"),
    "more": ("slower", "faster"),
    "neither": ("more", "fewer"),
}
# Of a family of which only members differ, each in its own way.
IN_PART = "in part"
CALLS = ("slower", "faster", "more", "fewer", IN_PART, "no difference", "too few")


@dataclass(frozen=True)
class Compared:
    """One row. ``ratio`` is B's cost over A's; ``p`` as tested, ``adjusted`` for all rows,
    ``own`` of the ratio alone, without a family's members.

    ``a`` and ``b`` are medians in ``unit``, None for a family, which has ``trials``;
    ``model`` is None where a family has all models. ``n`` counts invocations, of a family
    blocks.
    """

    name: str
    experiment: str
    place: Pairing
    model: Model | None
    metric: str
    unit: str
    better: Better
    n: tuple[int, int]
    a: float | None
    b: float | None
    ratio: Interval
    p: float
    own: float
    adjusted: float = 1.0
    trials: int = 1

    @property
    def differs(self) -> bool:
        return self.adjusted < LEVEL

    @property
    def word(self) -> str:
        """What is called, one of CALLS."""
        if self.differs and self.own > LEVEL:
            return IN_PART
        if self.differs:
            return _WORDS[self.better][self.ratio.estimate < 1]
        return "too few" if self.ratio.method == "too few" else "no difference"


@dataclass(frozen=True)
class Comparison:
    """Two runs: families first, then trials; what both have and cannot be compared, and what
    only one of them has."""

    pairings: tuple[Pairing, ...]
    families: tuple[Compared, ...]
    trials: tuple[Compared, ...]
    apart: tuple[Apart, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def rows(self) -> tuple[Compared, ...]:
        return self.families + self.trials

    @property
    def can_call_slower(self) -> bool:
        """Whether any row has blocks enough, and a better way, to be called slower at all."""
        return any(r.better != "neither" and r.word != "too few" for r in self.rows)

    def slower(self, share: float) -> tuple[Compared, ...]:
        """What is called slower by more than `share`."""
        return tuple(r for r in self.rows if r.word == "slower" and r.ratio.estimate > 1 + share)


def compare_groups(
    a: Sequence[Group], b: Sequence[Group], a_place: str | None = None, b_place: str | None = None
) -> Comparison:
    """Every trial that both have, and their families; RequestError where places are unclear."""
    paired = pairing.paired(a, b, a_place, b_place)
    tree: dict[tuple[str, Pairing], dict[Model, list[Pair]]] = {}
    for pair in paired.pairs:
        trial = pair.a.trial
        models = tree.setdefault((trial.experiment, pair.pairing), {})
        models.setdefault(trial.model, []).append(pair)
    families, trials = _called([_node(models) for models in tree.values()])
    return Comparison(
        pairings=paired.pairings,
        families=tuple(families),
        trials=tuple(trials),
        apart=paired.apart,
        only_a=paired.only_a,
        only_b=paired.only_b,
    )


def effect_of(a: Group, b: Group, main: MainMetric) -> Effect:
    """How many times A's cost B's is, of two runs of a trial; all values are positive."""
    there, here = (main.costs(group.values(main.name)) for group in (b, a))
    effect = effects.unpaired(there, here, findings.grain(a, b, main.name))
    assert effect is not None
    return effect


def _trial(pair: Pair) -> Compared:
    main = pair.main
    a, b = (group.values(main.name) for group in (pair.a, pair.b))
    effect = effect_of(pair.a, pair.b, main)
    # Of two values and fifty the ranks have a small p, too, and no interval that says as much.
    p = effect.p() if effect.decides() else 1.0
    return Compared(
        name=pair.name,
        experiment=pair.a.trial.experiment,
        place=pair.pairing,
        model=pair.a.trial.model,
        metric=main.name,
        unit=main.unit,
        better=main.better,
        n=(len(a), len(b)),
        a=statistics.median(a),
        b=statistics.median(b),
        ratio=effect.interval(),
        p=p,
        own=p,
    )


# ---- families ----


@dataclass(frozen=True)
class _Node:
    """A row with the rows that it stands for; of a trial there are none."""

    row: Compared
    children: tuple[_Node, ...] = ()


def _node(models: Mapping[Model, Sequence[Pair]]) -> _Node:
    """An experiment at a place, with its models and their trials."""
    members = []
    for model, pairs in models.items():
        trials = tuple(_Node(_trial(pair)) for pair in pairs)
        members.append(trials[0] if len(trials) == 1 else _family(pairs, trials, model))
    if len(members) == 1:
        return members[0]
    every = [pair for pairs in models.values() for pair in pairs]
    return _family(every, tuple(members), None)


def _family(pairs: Sequence[Pair], children: tuple[_Node, ...], model: Model | None) -> _Node:
    experiment = pairs[0].a.trial.experiment
    effect = shared_effect(pairs)
    own = effect.p() if effect.decides else 1.0
    ps = (simes([child.row.p for child in children]), own)
    row = Compared(
        name=f"{experiment}, all {model or 'models'}",
        experiment=experiment,
        place=pairs[0].pairing,
        model=model,
        metric=", ".join(dict.fromkeys(pair.main.name for pair in pairs)),
        unit="x",
        better="neither" if any(pair.main.better == "neither" for pair in pairs) else "less",
        n=effect.n,
        a=None,
        b=None,
        ratio=effect.ratio,
        p=min(1.0, 2 * min(ps)),
        own=own,
        trials=len(pairs),
    )
    return _Node(row, children)


def shared_effect(pairs: Sequence[Pair]) -> Shared:
    """How far B's log-costs lie above A's in all of `pairs`."""
    return Shared(
        tuple(_logs(pair.a, pair.main) for pair in pairs),
        tuple(_logs(pair.b, pair.main) for pair in pairs),
        tuple(findings.grain(pair.a, pair.b, pair.main.name) for pair in pairs),
    )


def _logs(group: Group, main: MainMetric) -> dict[int, float]:
    """The logarithms of the costs by block."""
    values = group.by_block(main.name)
    return dict(zip(values, map(math.log, main.costs(list(values.values()))), strict=True))


def simes(ps: Sequence[float]) -> float:
    """One p-value for several that each test the same: none of them is a difference."""
    return min(p * len(ps) / rank for rank, p in enumerate(sorted(ps), start=1))


def blocks_for_one(experiments: Sequence[Sequence[int]]) -> int:
    """The fewest blocks of each run of which a trial is called that differs alone. Of each
    experiment there is how many trials its models have."""
    levels = [LEVEL / _times(counts) / len(experiments) for counts in experiments]
    return effects.least_of_two(1 - min(levels, default=LEVEL))


def _times(counts: Sequence[int]) -> int:
    """How many times a trial's p its experiment's is, as `_family` makes it of children of
    which one differs: so many times by Simes, and double for the second test."""
    return math.prod(2 * of if of > 1 else 1 for of in (len(counts), max(counts)))


# ---- calls ----


def _called(roots: Sequence[_Node]) -> tuple[list[Compared], list[Compared]]:
    """Families and trials with their adjusted p, from above."""
    rows: list[Compared] = []

    def descend(nodes: Sequence[_Node], above: float) -> None:
        for node, p in zip(nodes, adjusted([node.row.p for node in nodes]), strict=True):
            # Nothing below is called where what stands for it is not.
            own = max(p, above)
            rows.append(replace(node.row, adjusted=own))
            descend(node.children, own)

    descend(roots, 0.0)
    return [r for r in rows if r.a is None], [r for r in rows if r.a is not None]


def adjusted(ps: Sequence[float]) -> list[float]:
    """By Benjamini and Hochberg."""
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(ps, method="bh")] if ps else []
