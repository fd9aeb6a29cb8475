# SPDX-License-Identifier: Apache-2.0
"""What of a plan is measured at all, where that depends on what was measured before.

A plan is complete before the first invocation; a run with a target (`--until`) or a
budget leaves out what it does not need. Who asks is the runner, before every pass, and
whoever wants to know whether a run is complete.

Invariant: a function of manifest and samples alone, so a resumed run goes on as it would
have.

Rejected: marking what is left out with empty samples (they would have to be told from
failures everywhere), a plan that is made while it runs (it would not be known before).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import msgspec

from swtch.plan import Pass
from swtch.records import Manifest, Sample


class Course(Protocol):
    """Asked pass by pass, in the plan's order."""

    def needed(self, stretch: Pass, samples: Sequence[Sample]) -> frozenset[int]:
        """The invocations of `one` that are to be done, by the `samples` before it."""

    def ahead(self) -> frozenset[int]:
        """What of later passes is known to be left out already."""

    def left_out(self, samples: Sequence[Sample]) -> frozenset[int]:
        """What of the plan need not be done, as far as `samples` tell."""

    def seconds_left(self, samples: Sequence[Sample]) -> float | None:
        """The most there can be; None where the plan alone says it."""

    @property
    def stage(self) -> str:
        """What it is at, in words; empty where there is but one stage."""


class Everything:
    """A plan that is done as it stands."""

    stage = ""

    def needed(self, stretch: Pass, samples: Sequence[Sample]) -> frozenset[int]:
        return frozenset(invocation.seq for invocation in stretch.invocations)

    def ahead(self) -> frozenset[int]:
        return frozenset()

    def left_out(self, samples: Sequence[Sample]) -> frozenset[int]:
        return frozenset()

    def seconds_left(self, samples: Sequence[Sample]) -> float | None:
        return None


def of(manifest: Manifest) -> Course:
    """The course of a run."""
    if manifest.spending is not None:
        from swtch.spending import Spender

        return Spender(manifest)
    if manifest.target is not None:
        from swtch.analysis.adaptive import Target

        return Target(manifest)
    return Everything()


# By digest: a report asks several times, and a budget's looks judge every claim again.
_counts: dict[bytes, int] = {}


def count_left_out(manifest: Manifest, samples: Sequence[Sample]) -> int:
    """How much of the plan need not be done; remembered for the same run."""
    written = msgspec.json.encode((manifest, samples))
    digest = hashlib.sha256(written).digest()
    if digest not in _counts:
        _counts.clear()
        _counts[digest] = len(of(manifest).left_out(samples))
    return _counts[digest]
