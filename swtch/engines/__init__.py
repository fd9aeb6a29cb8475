# SPDX-License-Identifier: Apache-2.0
"""What an engine is: something that can perform one invocation of one trial.

``TRAITS`` is the one table of engines: who opens each, and what is true of it wherever
its numbers are used. Nobody else compares engines' names; who must tell them apart asks
what he wants to know: is it a guest, does its clock count instructions?

Invariants:

- ``perform`` never raises for anything a probe does: a crash, a hang or
  rubbish is a failed Sample with one clear line.
- ``stop`` may be called from a signal handler at any moment; ``perform`` then
  returns soon, and its result is not to be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from swtch.records import Engine as EngineName
from swtch.records import Invocation, Model, Sample, Trial

Clock = Literal["time", "emulated", "instructions"]
Scale = Literal["ns", "us", "ms"]

# By scale, of time and of instructions: how the name of a metric ends, and its unit.
_TIME: Final[Mapping[Scale, tuple[str, str]]] = {
    "ns": ("ns", "ns"),
    "us": ("us", "µs"),
    "ms": ("ms", "ms"),
}
_INSTRUCTIONS: Final[Mapping[Scale, tuple[str, str]]] = {
    "ns": ("instructions", "instructions"),
    "us": ("ki", "thousand instructions"),
    "ms": ("mi", "million instructions"),
}


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What is true of an engine.

    ``opener`` is "module:function" and takes the options and the guests (engines.choice).
    ``guest``: trials run in a guest, with its own CPUs and less work. ``counting``: what
    probes call nanoseconds are instructions, and only the direction of a claim about time
    can be looked at.
    """

    opener: str
    guest: bool = False
    counting: bool = False

    def clock(self, emulated: bool) -> Clock:
        """What its clock tells; `emulated` says whether the processor is."""
        if self.counting:
            return "instructions"
        return "emulated" if emulated else "time"

    def suffix(self, scale: Scale = "ns") -> str:
        """How the names of metrics end that are times of this scale elsewhere."""
        return self._scales[scale][0]

    def unit(self, scale: Scale = "ns") -> str:
        """What they are counted in."""
        return self._scales[scale][1]

    @property
    def speed(self) -> str:
        """The metric that says how fast something was."""
        return "throughput_opki" if self.counting else "throughput_mops"

    @property
    def _scales(self) -> Mapping[Scale, tuple[str, str]]:
        return _INSTRUCTIONS if self.counting else _TIME


TRAITS: Final[Mapping[EngineName, Traits]] = {
    "native": Traits(opener="swtch.engines.native:opened"),
    "vm": Traits(opener="swtch.engines.vm:opened", guest=True),
    "exact": Traits(opener="swtch.engines.exact:opened", guest=True, counting=True),
}

# What swtch-probe can do, as it names them itself (probes/main.c).
PROBES: Final = (
    *("scenario", "gantt", "scaling", "preemption", "floor", "starvation", "locks", "ring"),
    *("calls", "sync", "queue", "plain", "wakeup", "io", "io-echo", "pair-overhead"),
    *("interrupt-overhead", "token"),
)

# Programs of other runtimes by the same protocol, beside the probe where they were built.
PEERS: Final[Mapping[Model, str]] = {
    "go": "swtch-probe-go",
    "boost": "swtch-probe-boost",
    "tokio": "swtch-probe-tokio",
    "java": "swtch-probe-java",
    "context": "swtch-probe-context",
    "pth": "swtch-probe-pth",
    "st": "swtch-probe-st",
    "may": "swtch-probe-may",
    "cpp20": "swtch-probe-cpp20",
    "argobots": "swtch-probe-argobots",
    "photon": "swtch-probe-photon",
}

# Whose trial `work` is a program of its own as well, beside what swtch-probe does of them.
WORKERS: Final[Mapping[Model, str]] = {
    "pthread": "swtch-probe-pthread",
    "uthread": "swtch-probe-uthread",
    "ucontext": "swtch-probe-ucontext",
}


# Trials that swtch-probe performs whoever the model is: it starts the peer's program as the
# server that it asks (probes/io/echo.c).
SERVED: Final = frozenset({"io-echo"})


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
