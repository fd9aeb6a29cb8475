# SPDX-License-Identifier: Apache-2.0
"""What an engine is: something that can perform one invocation of one trial.

Invariants:

- ``perform`` never raises for anything a probe does: a crash, a hang or
  rubbish is a failed Sample with one clear line.
- ``stop`` may be called from a signal handler at any moment; ``perform`` then
  returns soon, and its result is not to be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from swtch.records import Engine as EngineName
from swtch.records import Invocation, Model, Sample, Trial

# Programs of other runtimes by the same protocol, beside the probe where they were built.
PEERS: Final[Mapping[Model, str]] = {
    "go": "swtch-probe-go",
    "boost": "swtch-probe-boost",
    "tokio": "swtch-probe-tokio",
    "java": "swtch-probe-java",
}


@dataclass(frozen=True)
class Outcome:
    """What one invocation gave: the sample, and the raw output for the logs."""

    sample: Sample
    stdout: bytes
    stderr: bytes


class Engine(Protocol):
    """Where trials run."""

    name: EngineName

    def describe(self) -> dict[str, Any]:
        """What identifies this engine and its programs, for the manifest."""

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        """Runs one invocation to its end, bad or good."""

    def stop(self) -> None:
        """Ends the invocation that runs now, if any."""
