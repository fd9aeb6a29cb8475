# SPDX-License-Identifier: Apache-2.0
"""Several engines in one run, one after the other: natively, then in guests.

Kernel threads need the module, and the module a guest; everything else is best
measured on the machine itself. So one run has both, each in its own unit and
with its own trials, and nothing is compared across.

Invariants:

- The plan is in phases: an engine is done before the next one begins. While
  this machine is measured no guest is up, and its idle CPUs disturb nobody; where the
  plan comes back to it, guests are powered off before.
- Each trial is performed by the engine that it names.

Rejected: interleaving engines within blocks (no comparison would gain by it,
and a paused guest still holds its memory), two runs (two reports to read).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swtch.engines import Engine, Outcome
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Trial


class SeveralEngines:
    """Hands each trial to its engine; ``close`` closes them all."""

    def __init__(self, members: Sequence[Engine]) -> None:
        self.members = tuple(members)
        self.name: EngineName = self.members[0].name
        self._by_name = {member.name: member for member in self.members}
        self._last: Engine | None = None

    def describe(self) -> dict[str, Any]:
        """As the first engine, and each by itself."""
        from swtch.vm import cache

        each = [member.describe() for member in self.members]
        digests = [str(facts.get("sha256", "")) for facts in each]
        return {**each[0], "engines": each, "sha256": cache.key_of(digests)}

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        """One invocation by the engine of the trial."""
        member = self._by_name[trial.engine]
        if self._last is not None and self._last is not member and hasattr(self._last, "rest"):
            self._last.rest()
        self._last = member
        return member.perform(trial, invocation)

    def keep_logs(self, folder: Path) -> None:
        """Where their own logs go."""
        from swtch.engines import choice

        for member in self.members:
            choice.keep_logs(member, folder)

    def stop(self) -> None:
        """Ends what runs. Signal-handler safe."""
        for member in self.members:
            member.stop()

    def close(self) -> None:
        """Gives everything back, the last engine first."""
        from swtch.engines import choice

        for member in reversed(self.members):
            choice.close(member)
