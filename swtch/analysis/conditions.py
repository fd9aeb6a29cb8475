# SPDX-License-Identifier: Apache-2.0
"""What was not the same where two runs were measured: machines first, then the places.

A place's own facts (its kernel, architecture, scheduler, whether it is emulated) stand in
its trials; of the machine itself they are those of the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swtch.analysis.findings import Group, Place
from swtch.analysis.pairing import Pairing

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
NONE = "–"
# A guest's facts in its trials, and where the machine's own are.
_OF_PLACE: Mapping[str, tuple[str, str]] = {
    "kernel": ("kernel", "release"),
    "arch": ("host", "machine"),
    "scheduler": ("kernel", "scheduler"),
    "accel": ("", ""),
    "vcpus": ("", ""),
}
# As guests name them.
_ARCHES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Difference:
    """One fact that is not the same in both environments."""

    fact: str
    a: str
    b: str


def of_environments(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What is not the same, the facts in the order of the manifest."""
    left, right = _flat(a), _flat(b)
    return tuple(
        Difference(fact, left.get(fact, NONE), right.get(fact, NONE))
        for fact in dict.fromkeys([*left, *right])
        if left.get(fact) != right.get(fact) and not fact.startswith(_RESTLESS)
    )


@dataclass(frozen=True)
class Side:
    """One run: where it was measured, and what."""

    environment: Mapping[str, Any]
    groups: Sequence[Group]

    def facts(self, place: Place) -> dict[str, str]:
        """Of the place."""
        if place.home:
            known = {n: _at(self.environment, *path) for n, path in _OF_PLACE.items()}
        else:
            factors = next(g.trial.factors for g in self.groups if g.place == place)
            known = {name: factors.get(name) for name in _OF_PLACE}
        facts = {name: str(value) for name, value in known.items() if value is not None}
        if "arch" in facts:
            facts["arch"] = _ARCHES.get(facts["arch"], facts["arch"])
        return facts


def of_places(a: Side, b: Side, pairings: Sequence[Pairing]) -> tuple[Difference, ...]:
    """What the compared places do not have in common."""
    differences = []
    for pairing in pairings:
        if pairing.a != pairing.b:
            differences.append(Difference("place", str(pairing.a), str(pairing.b)))
        elif pairing.a.home:
            continue  # its facts are the environment's
        mine, others = a.facts(pairing.a), b.facts(pairing.b)
        differences += [
            Difference(f"{pairing.b}: {name}", mine.get(name, NONE), others.get(name, NONE))
            for name in _OF_PLACE
            if mine.get(name) != others.get(name)
        ]
    return tuple(differences)


def architectures(a: Side, b: Side, pairings: Sequence[Pairing]) -> str:
    """A sentence where two processors of different kinds are compared; else empty."""
    named = []
    for pairing in pairings:
        first, second = (side.facts(p).get("arch") for side, p in ((a, pairing.a), (b, pairing.b)))
        if first and second and first != second:
            named.append(f"{pairing}: {first} and {second}")
    if not named:
        return ""
    return (
        f"A and B ran on processors of different architectures ({'; '.join(dict.fromkeys(named))})."
        " Every ratio is that of the machines, not of a kernel or a program alone."
    )


def _at(environment: Mapping[str, Any], section: str, name: str) -> Any:
    inner = environment.get(section)
    return inner.get(name) if isinstance(inner, Mapping) else None


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        flat: dict[str, str] = {}
        for key, inner in value.items():
            flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
        return flat
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, Mapping) for item in value):
            # Guests and the like, each by its name.
            return {
                fact: text
                for index, item in enumerate(value)
                for fact, text in _flat(item, f"{prefix}.{_name(item, index)}").items()
            }
        return {prefix: " ".join(str(item) for item in value)}
    return {prefix: str(value)}


def _name(item: Any, index: int) -> str:
    named = item.get("guest") or item.get("name") if isinstance(item, Mapping) else None
    return str(named or index)
