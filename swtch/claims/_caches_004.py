# SPDX-License-Identifier: Apache-2.0
"""What study 004's checks know of this machine's caches, and sizes that go against the others.

A virtual machine may tell a cache of nothing or of any size, the CPUs of one machine may have
different ones, and one size of a sweep may be wild for a reason of its own. None of that is
to turn a verdict round: what nine tenths of the samples say is the size, and where they are
not agreed, or two neighbouring sizes say the opposite, nothing can be told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from swtch.analysis.findings import Group
from swtch.claims.rules import Ruling, UnsureError, plain

KIB = 1024
# Of the samples that tell a size at all.
AGREED = 0.9
# No processor that runs Linux has an L1d out of this.
L1D_LEAST, L1D_MOST = 4 * KIB, 1024 * KIB
L1D = "l1d_kib"
NAMES: Mapping[str, str] = {L1D: "L1d", "l2_kib": "L2"}


def size_of(groups: Iterable[Group], metric: str) -> float:
    """In bytes: what the samples say of this cache, 0 where they do not; UnsureError where
    they say several things."""
    return _agreed((kib * KIB for group in groups for kib in group.values(metric)), NAMES[metric])


def l1d_that_counted(group: Group) -> float:
    """Of the model's geometry, or of the processor that counted."""
    of_models = [
        float(model["l1d"][0])
        for sample in group.good
        if isinstance(model := sample.detail.get("model"), dict)
    ]
    return _agreed(of_models, NAMES[L1D]) if of_models else size_of([group], L1D)


def is_none(l1d: float) -> str:
    """Why this is no L1d; empty where it may be one."""
    if not l1d:
        return "this machine does not tell the size of its L1d"
    if L1D_LEAST <= l1d <= L1D_MOST:
        return ""
    return f"this machine tells of an L1d of {plain(l1d / KIB)} KiB, which no processor has"


def _agreed(sizes: Iterable[float], name: str) -> float:
    said = Counter(size for size in sizes if size > 0)
    if not said:
        return 0.0
    size, often = said.most_common(1)[0]
    if often < AGREED * said.total():
        several = " and ".join(f"{plain(one / KIB)} KiB" for one in sorted(said)[:3])
        raise UnsureError(
            f"the samples do not agree on the size of this machine's {name}: {several}"
        )
    return size


def unless_turned(ruling: Ruling, others: Mapping[str, Ruling]) -> Ruling:
    """The ruling; none where one of the `others`, by what it takes instead, is its opposite."""
    for instead, other in others.items():
        if {ruling.verdict, other.verdict} == {"holds", "differs"}:
            said = f"{ruling.verdict}, but {other.verdict} {instead}"
            return replace(ruling, verdict="cannot tell", open=said)
    return ruling
