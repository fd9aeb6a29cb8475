# SPDX-License-Identifier: Apache-2.0
"""What the two chapters of study 002 share: how undisturbed their tasks were.

The study turned interrupts off, emptied its caches and had the machine to itself. Here each of
these holds or does not, by machine, depth and sample, so it is said, from what the samples and
the manifest know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from swtch.analysis import gates
from swtch.analysis.findings import Group, Place
from swtch.records import Sample
from swtch.report.story import Story

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def sentences(story: Story, name: str) -> list[str]:
    """One for each place."""
    said = []
    for place in story.places_of(name):
        groups = [group for group in story.groups_of(name, place) if group.good]
        parts = ", ".join(filter(None, _parts(groups, place, story.run.manifest.environment)))
        if parts:
            said.append(f"How undisturbed the tasks were, {place}: {parts}.")
    return said


def last_cache(environment: dict[str, Any]) -> int:
    """Bytes of the last cache that the manifest knows; 0: none."""
    cpu = environment.get("cpu")
    caches = cpu.get("caches") if isinstance(cpu, dict) else None
    found = [(cache.get("level") or 0, _bytes(cache.get("size"))) for cache in caches or ()]
    return max(found, default=(0, 0))[1]


def _bytes(size: object) -> int:
    text = str(size or "")
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    return int(number) * unit if number.isdigit() else 0


def _parts(groups: Sequence[Group], place: Place, environment: dict[str, Any]) -> Iterator[str]:
    if not groups:
        return
    yield _evicted(groups, 0 if place.emulated else last_cache(environment), place)
    samples = [sample for group in groups for sample in group.good]
    yield _in_turn(samples)
    yield _waited(samples)
    real_time = [g for g in groups if g.trial.probe.get("policy") == "fifo"]
    if real_time and not place.counting:
        marks = [("preempted" in gates.check(g.trial, s)) for g in real_time for s in g.good]
        yield f"real-time tasks preempted in {sum(marks)} of {len(marks)} samples"


def _evicted(groups: Sequence[Group], last: int, place: Place) -> str:
    if place.emulated:
        return "an emulated processor has no caches to evict"
    sizes = [g.trial.probe.get("evict_bytes") or 0 for g in groups if g.trial.probe.get("cold")]
    if not sizes or not max(sizes):
        return "no cache evicted before them"
    least = min(sizes)
    data = f"caches evicted of code and, with {least >> 20} MiB, of data"
    if not last:
        return f"{data} (how large the last one is nobody said)"
    than = "more" if least > last else "no more"
    return f"{data} ({than} than the last one has, {last >> 20} MiB)"


def _in_turn(samples: Sequence[Sample]) -> str:
    orders = [order for sample in samples if len(order := sample.detail.get("order") or ()) > 1]
    if not orders:
        return ""
    turns = all(one != other for order in orders for one, other in pairwise(order))
    return f"R and R' in turn, {'each' if turns else 'not each'} first every other time"


def _waited(samples: Sequence[Sample]) -> str:
    """Of the module's samples alone: a probe ends, and who waits for that need not look."""
    waited = [s.detail["waited"] for s in samples if isinstance(s.detail.get("waited"), bool)]
    if not waited:
        return ""
    looked = len(waited) - sum(waited)
    whom = f"somebody may have looked in {looked} of {len(waited)}" if looked else "nobody looked"
    return f"{whom} while kernel threads were measured"
