# SPDX-License-Identifier: Apache-2.0
"""Which trials of two runs are the same, wherever they ran, and what they are compared by.

A trial is what it does: its experiment, its model and its probe without the numbers of its
CPUs. Where it ran is the *place*, and places are paired first: a place with the same of the
other run; of what is left one of an engine with the other's one; one alone with one alone.
Anything else the user has to say (``--a-place``, ``--b-place``).

A pair is compared by the metric that its experiment declares for the clock both places
have. An emulated processor's time is none, and instructions are not time: where clocks
differ, or both are emulated, a trial is compared by what it counts, or not at all.

Invariants:

- What one run has and the other has not is in ``only_a`` or ``only_b``; what both have is a
  pair or is in ``apart``, with the reason. No trial is in two of them.
- Nothing here looks at which of the numbers is larger.

Rejected: pairing by the whole trial (a trial with other work would be "only in A" and "only
in B" at once), pairing every place with every other (a row for each, of which most compare
an engine with a guest by accident).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swtch import experiments
from swtch.analysis.findings import Group, Place
from swtch.analysis.main_metric import MainMetric, declared
from swtch.engines import Clock
from swtch.errors import RequestError
from swtch.records import Trial

# Of a probe, where it runs and not what it does; of the CPUs only the number counts.
_PLACED = ("cpus", "seed")
_SHOWN = 3
_TELLS: Mapping[Clock, str] = {
    "time": "time",
    "emulated": "an emulated processor's time",
    "instructions": "instructions",
}


@dataclass(frozen=True)
class Pairing:
    """A place of A with the place of B that it is compared with."""

    a: Place
    b: Place

    def __str__(self) -> str:
        return str(self.a) if self.a == self.b else f"{self.a} against {self.b}"

    @property
    def clock(self) -> Clock:
        """What both tell; "emulated" where only counts can be compared."""
        return self.a.clock if self.a.clock == self.b.clock else "emulated"


@dataclass(frozen=True)
class Pair:
    """One trial in both runs, and what it is compared by."""

    name: str
    pairing: Pairing
    a: Group
    b: Group
    main: MainMetric


@dataclass(frozen=True)
class Apart:
    """A trial that both runs have and that is not compared, with the reason."""

    name: str
    place: str
    reason: str


@dataclass(frozen=True)
class Paired:
    """All trials of two runs; those that only one has by name and place."""

    pairings: tuple[Pairing, ...]
    pairs: tuple[Pair, ...]
    apart: tuple[Apart, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def paired(
    a: Sequence[Group], b: Sequence[Group], a_place: str | None = None, b_place: str | None = None
) -> Paired:
    """The trials of two runs; RequestError where it is not clear which places to compare."""
    a, b = ([group for group in groups if not _copy(group)] for groups in (a, b))
    pairings = pair_places(places(a), places(b), a_place, b_place)
    pairs: list[Pair] = []
    apart: list[Apart] = []
    left, right = _by_place(a), _by_place(b)
    missing: tuple[list[str], list[str]] = ([], [])
    for pairing in pairings:
        mine, others = left.pop(pairing.a, {}), right.pop(pairing.b, {})
        for name, group in mine.items():
            if name in others:
                _pair(name, pairing, group, others[name], pairs, apart)
        for own, other, names, place in (
            (mine, others, missing[0], pairing.a),
            (others, mine, missing[1], pairing.b),
        ):
            names += [f"{n}, {place}" for n, group in own.items() if n not in other and group.good]
    asked = a_place is not None or b_place is not None
    for rest, names in ((left, missing[0]), (right, missing[1])):
        # Who names places asks about those alone.
        for place, groups in {} if asked else rest.items():
            names += [f"{name}, {place}" for name, group in groups.items() if group.good]
    return Paired(pairings, tuple(pairs), tuple(apart), tuple(missing[0]), tuple(missing[1]))


# ---- places ----


def places(groups: Sequence[Group]) -> tuple[Place, ...]:
    """Where anything was tried, in the order of the trials."""
    return tuple(dict.fromkeys(group.place for group in groups if group.good or group.failed))


def pair_places(
    a: Sequence[Place], b: Sequence[Place], a_place: str | None, b_place: str | None
) -> tuple[Pairing, ...]:
    """Which place of A is compared with which of B; none where a run has no samples."""
    if not a or not b:
        return ()
    if a_place is not None or b_place is not None:
        return (_named(a, b, a_place, b_place),)
    pairings = [Pairing(place, next(p for p in b if p == place)) for place in a if place in b]
    rest_a, rest_b = ([p for p in own if p not in other] for own, other in ((a, b), (b, a)))
    for engine in dict.fromkeys(place.engine for place in rest_a):
        mine, others = ([p for p in rest if p.engine == engine] for rest in (rest_a, rest_b))
        if len(mine) == len(others) == 1:
            pairings.append(Pairing(mine[0], others[0]))
    if not pairings and len(a) == len(b) == 1:
        pairings.append(Pairing(a[0], b[0]))
    if not pairings:
        raise RequestError(
            f"A was measured at {_listed(a)}, B at {_listed(b)}; say which to compare with"
            " --a-place and --b-place."
        )
    return tuple(pairings)


def _named(
    a: Sequence[Place], b: Sequence[Place], a_place: str | None, b_place: str | None
) -> Pairing:
    left = _find("--a-place", "A", a, a_place) if a_place is not None else None
    right = _find("--b-place", "B", b, b_place) if b_place is not None else None
    return Pairing(left or _counterpart("A", a, right), right or _counterpart("B", b, left))


def _find(option: str, run: str, known: Sequence[Place], text: str) -> Place:
    """The place of `known` that is called `text`: whole, or by its engine or guest alone."""
    for names in (str, lambda place: place.guest, lambda place: place.engine):
        # What is measured in no guest is not called by the name of none.
        matching = [place for place in known if text and names(place) == text]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise RequestError(f"{option}: {run} has several places {text!r}: {_listed(matching)}.")
    raise RequestError(f"{option}: {run} has no place {text!r}; it has {_listed(known)}.")


def _counterpart(run: str, known: Sequence[Place], other: Place | None) -> Place:
    """What the user did not name: the same place, or the only one."""
    if other in known:
        return next(place for place in known if place == other)
    if len(known) == 1:
        return known[0]
    raise RequestError(
        f"{run} was measured at {_listed(known)}; say which to compare with --{run.lower()}-place."
    )


def _listed(known: Sequence[Place]) -> str:
    return ", ".join(map(str, known))


# ---- trials ----


def name_of(trial: Trial) -> str:
    """What it is called wherever it runs: its id without the guest."""
    return trial.id.removesuffix(f"@{trial.factors.get('guest')}")


def work_of(trial: Trial) -> dict[str, Any]:
    """All that its probe is asked to do."""
    work = {name: value for name, value in trial.probe.items() if name not in _PLACED}
    return {"model": trial.model, **work, "number of CPUs": len(trial.probe.get("cpus", ()))}


def _copy(group: Group) -> bool:
    return group.trial.factors.get("control") == "b"


def _by_place(groups: Sequence[Group]) -> dict[Place, dict[str, Group]]:
    by_place: dict[Place, dict[str, Group]] = {}
    for group in groups:
        by_place.setdefault(group.place, {})[name_of(group.trial)] = group
    return by_place


def _pair(
    name: str, pairing: Pairing, a: Group, b: Group, pairs: list[Pair], apart: list[Apart]
) -> None:
    """Puts the trial where it belongs."""
    if not a.good and not b.good:
        return  # neither has it
    main = declared(a.trial, pairing.clock)
    reason = (
        _unmeasured(a, b)
        or _other_work(a.trial, b.trial)
        or (_no_metric(a.trial, pairing) if main is None else _unusable(main, a, b))
    )
    if main is None or reason:
        apart.append(Apart(name, str(pairing), reason))
    else:
        pairs.append(Pair(name, pairing, a, b, main))


def _unmeasured(a: Group, b: Group) -> str:
    for run, group in (("A", a), ("B", b)):
        if not group.good:
            return f"{run} has no good sample of it"
    return ""


def _other_work(a: Trial, b: Trial) -> str:
    mine, others = work_of(a), work_of(b)
    differing = [n for n in dict.fromkeys([*mine, *others]) if mine.get(n) != others.get(n)]
    if not differing:
        return ""
    named = [f"{name} {_text(mine, name)} and {_text(others, name)}" for name in differing[:_SHOWN]]
    more = f", and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
    return f"its work is not the same in A and B: {', '.join(named)}{more}"


def _text(work: Mapping[str, Any], name: str) -> str:
    return str(work[name]) if name in work else "none"


def _no_metric(trial: Trial, pairing: Pairing) -> str:
    if experiments.find(trial.experiment) is None:
        return "this version of swtch does not know its experiment"
    if pairing.a.clock != pairing.b.clock:
        tells = f"A's clock tells {_TELLS[pairing.a.clock]}, B's {_TELLS[pairing.b.clock]}"
        return f"{tells}, and it has no count to compare"
    if pairing.clock == "emulated":
        return "an emulated processor's time is none, and it has no count to compare"
    return "its experiment names no main metric"


def _unusable(main: MainMetric, a: Group, b: Group) -> str:
    """Why the declared metric has no ratio here."""
    reasons = []
    for run, group in (("A", a), ("B", b)):
        values = group.values(main.name)
        if not values:
            reasons.append(f"in none of {run}'s {len(group.good)}")
        elif len(values) < len(group.good):
            reasons.append(
                f"missing in {len(group.good) - len(values)} of {run}'s {len(group.good)}"
            )
        elif not any(values):
            reasons.append(f"0 in all of {run}'s {len(values)}")
        elif bad := sum(value <= 0 for value in values):
            reasons.append(f"not above 0 in {bad} of {run}'s {len(values)}")
    return f"{main.name} is {' and '.join(reasons)} samples: no ratio" if reasons else ""
