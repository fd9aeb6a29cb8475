# SPDX-License-Identifier: Apache-2.0
"""Two runs, before and after: ratios with intervals, and which of them are differences.

A comparison is of one metric of one trial that both runs have at the same place. Its
ratio is that of the *cost* (time, or one over a rate), so that above 1 always means
slower. Beside the trials stand two kinds of *families*: all trials of a model in an
experiment, and all of an experiment, at one place each. A slower probe is slower in all
of its trials, and together they show what one trial's few invocations cannot.

What is called different passes a rank test: Wilcoxon's for a trial, exact for the few
invocations there are, and van Elteren's, which is Wilcoxon's with a stratum a trial, for
a family. Ranks, because noise has a tail to one side and one invocation that was
preempted shall not decide. A family is tested in two ways, by its strata and by its
members' p-values (Simes), so that neither a small change of all nor a large one of a
single trial is lost; the smaller p counts double.

Multiplicity is controlled from above (Yekutieli, JASA 103, 2008): experiments are
adjusted together by Benjamini and Hochberg (JRSS B 57, 1995), the models of an
experiment only if it is called, the trials of a model only if that is. Of the
experiments that are called different a share of ``LEVEL`` is expected not to be; if
nothing differs, nothing at all is called in 95 of 100 comparisons of runs.

Rejected: calling what has an interval without 1 (with five invocations, bootstrap
intervals are too narrow, and of 200 intervals 10 miss by design), Welch's t on
logarithms (one outlier hides a shift of all others), Holm's step-down (it controls any
false call at all, and gives up most true ones of a quick run), pairing blocks of two
runs (they were not measured at the same time), one adjustment over all trials (a trial
more that did not change would hide those that did).

Source: measurement guide after Kalibera and Jones (2013), section 2; Lehmann,
Nonparametrics (1975), section 3.3 for van Elteren's test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swtch.analysis import main_metric, stats
from swtch.analysis.findings import Group, Place
from swtch.analysis.main_metric import MainMetric
from swtch.analysis.ranks import rank_p
from swtch.records import Interval, Model, Verdict

LEVEL = 0.05
RESAMPLES = 2000


@dataclass(frozen=True)
class Compared:
    """One row. ``ratio`` is B's cost over A's; ``p`` as tested, ``adjusted`` for all rows.

    ``a`` and ``b`` are medians in ``unit``, None for a family, which has ``trials``;
    ``model`` is None where a family has all models.
    """

    name: str
    experiment: str
    place: Place
    model: Model | None
    metric: str
    unit: str
    n: tuple[int, int]
    a: float | None
    b: float | None
    ratio: Interval
    p: float
    adjusted: float = 1.0
    trials: int = 1

    @property
    def differs(self) -> bool:
        return self.adjusted < LEVEL

    @property
    def word(self) -> str:
        """What is called: slower, faster or no difference."""
        if not self.differs:
            return "no difference"
        return "slower" if self.ratio.estimate > 1 else "faster"


@dataclass(frozen=True)
class Comparison:
    """Two runs: families first, then trials; and what only one of them has."""

    families: tuple[Compared, ...]
    trials: tuple[Compared, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    verdicts: tuple[tuple[Verdict, Verdict], ...] = ()

    @property
    def rows(self) -> tuple[Compared, ...]:
        return self.families + self.trials

    def slower(self, share: float) -> tuple[Compared, ...]:
        """What is called slower by more than `share`."""
        return tuple(r for r in self.rows if r.differs and r.ratio.estimate > 1 + share)


# Before, after, and by what they are compared.
Pair = tuple[Group, Group, MainMetric]


def compare(a: Sequence[Group], b: Sequence[Group]) -> Comparison:
    """Every trial that both have, and their families."""
    left = {(g.trial.id, g.place): g for g in a if g.good and not _copy(g)}
    right = {(g.trial.id, g.place): g for g in b if g.good and not _copy(g)}
    pairs: list[Pair] = []
    for key, one in left.items():
        other = right.get(key)
        if other is None or not _same_work(one, other):
            continue
        main = main_metric.within(one)
        if main is not None and main == main_metric.within(other):
            pairs.append((one, other, main))
    tree: dict[tuple[str, Place], dict[Model, list[Pair]]] = {}
    for pair in pairs:
        trial = pair[0].trial
        models = tree.setdefault((trial.experiment, pair[0].place), {})
        models.setdefault(trial.model, []).append(pair)
    families, rows = _called([_node(models) for models in tree.values()])
    compared = {(g.trial.id, g.place) for g, *_ in pairs}
    return Comparison(
        families=tuple(families),
        trials=tuple(rows),
        only_a=tuple(str(name) for name, place in left if (name, place) not in compared),
        only_b=tuple(str(name) for name, place in right if (name, place) not in compared),
    )


def _copy(group: Group) -> bool:
    return group.trial.factors.get("control") == "b"


def _same_work(a: Group, b: Group) -> bool:
    """A trial of the same name does the same at another depth, or it is not compared."""
    placed = ("cpus", "seed")
    one, other = ({k: v for k, v in g.trial.probe.items() if k not in placed} for g in (a, b))
    return one == other


def _trial(a: Group, b: Group, main: MainMetric) -> Compared:
    here, there = main.costs(a.values(main.name)), main.costs(b.values(main.name))
    ratio = stats.ratio(there, here)
    assert ratio is not None  # all costs are positive
    return Compared(
        name=a.trial.id,
        experiment=a.trial.experiment,
        place=a.place,
        model=a.trial.model,
        metric=main.name,
        unit=main.unit,
        n=(len(here), len(there)),
        a=float(stats.median(a.values(main.name))),
        b=float(stats.median(b.values(main.name))),
        ratio=ratio,
        p=rank_p([(here, there)]),
    )


@dataclass(frozen=True)
class _Node:
    """A row with the rows that it stands for; of a trial there are none."""

    row: Compared
    children: tuple[_Node, ...] = ()


def _node(models: Mapping[Model, Sequence[Pair]]) -> _Node:
    """An experiment at a place, with its models and their trials."""
    members = []
    for model, pairs in models.items():
        trials = tuple(_Node(_trial(*pair)) for pair in pairs)
        members.append(trials[0] if len(trials) == 1 else _family(pairs, trials, model))
    if len(members) == 1:
        return members[0]
    every = [pair for pairs in models.values() for pair in pairs]
    return _family(every, tuple(members), None)


def _family(pairs: Sequence[Pair], children: tuple[_Node, ...], model: Model | None) -> _Node:
    trial = pairs[0][0].trial
    strata = [(m.costs(a.values(m.name)), m.costs(b.values(m.name))) for a, b, m in pairs]
    metrics = dict.fromkeys(main.name for *_, main in pairs)
    row = Compared(
        name=f"{trial.experiment}, all {model or 'models'}",
        experiment=trial.experiment,
        place=pairs[0][0].place,
        model=model,
        metric=", ".join(metrics),
        unit="x",
        n=(min(len(a) for a, _ in strata), min(len(b) for _, b in strata)),
        a=None,
        b=None,
        ratio=geometric_ratio(strata),
        p=min(1.0, 2 * min(rank_p(strata), simes([child.row.p for child in children]))),
        trials=len(pairs),
    )
    return _Node(row, children)


def simes(ps: Sequence[float]) -> float:
    """One p-value for several that each test the same: none of them is a difference."""
    return min(p * len(ps) / rank for rank, p in enumerate(sorted(ps), start=1))


def geometric_ratio(strata: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Interval:
    """The geometric mean of the strata's ratios of medians, b over a, resampled within each."""
    import numpy as np

    rng = np.random.default_rng(stats.SEED)
    logs = np.zeros(RESAMPLES)
    estimate = 0.0
    n = min(len(side) for pair in strata for side in pair)
    for a, b in strata:
        drawn = [_medians(np.asarray(side, dtype=float), rng) for side in (a, b)]
        logs += np.log(drawn[1]) - np.log(drawn[0])
        estimate += math.log(float(np.median(b)) / float(np.median(a)))
    count = len(strata)
    low, high = np.quantile(np.exp(logs / count), [(1 - stats.LEVEL) / 2, (1 + stats.LEVEL) / 2])
    middle = math.exp(estimate / count)
    return Interval(
        estimate=middle,
        low=min(float(low), middle),
        high=max(float(high), middle),
        level=stats.LEVEL,
        n=n,
        unit="x",
        method="percentile" if n >= stats.MIN_N else "too few",
    )


def _medians(values: Any, rng: Any) -> Any:
    import numpy as np

    return np.median(values[rng.integers(0, len(values), (RESAMPLES, len(values)))], axis=1)


def _called(roots: Sequence[_Node]) -> tuple[list[Compared], list[Compared]]:
    """Families and trials with their adjusted p, from above."""
    found: list[Compared] = []

    def descend(nodes: Sequence[_Node], above: float) -> None:
        for node, p in zip(nodes, adjusted([node.row.p for node in nodes]), strict=True):
            # Nothing below is called where what stands for it is not.
            own = max(p, above)
            found.append(replace(node.row, adjusted=own))
            descend(node.children, own)

    descend(roots, 0.0)
    return [r for r in found if r.a is None], [r for r in found if r.a is not None]


def adjusted(ps: Sequence[float]) -> list[float]:
    """By Benjamini and Hochberg."""
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(ps, method="bh")] if ps else []


# ---- environments ----

# What varies from minute to minute and explains nothing by itself.
_RESTLESS = (
    "host.load",
    "memory.available_bytes",
    "steal.",
    "limits.",
    "cgroup.",
    "kernel.threads_max",
    "tools.",
)


@dataclass(frozen=True)
class Difference:
    """One fact that is not the same in both environments."""

    fact: str
    a: str
    b: str


def environment_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What is not the same, the facts in the order of the manifest."""
    left, right = _flat(a), _flat(b)
    return tuple(
        Difference(fact, left.get(fact, "–"), right.get(fact, "–"))
        for fact in dict.fromkeys([*left, *right])
        if left.get(fact) != right.get(fact) and not fact.startswith(_RESTLESS)
    )


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
        return found
    if isinstance(value, (list, tuple)):
        return {prefix: " ".join(str(item) for item in value)}
    return {prefix: str(value)}
