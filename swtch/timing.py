# SPDX-License-Identifier: Apache-2.0
"""How long a run will take, said before it starts and corrected while it goes on.

An invocation is expected to take, in this order of trust:

1. the median of what the same trial took here before: runs leave what they took in
   $XDG_STATE_HOME, by a digest of all that the probe is told;
2. what the definition guesses for its engine and depth, times how much slower this
   machine is than the one the guesses were made on (``calibrate``: a reference trial).

``source`` says which of the two an estimate is made of, so that a guess is never
passed off as experience. While a run goes on, what is left is scaled by how the
invocations so far compared with what was expected of them.

Rejected: performing one block for practice first (a fifth of a quick run), one number
an experiment (trials of one experiment differ thousandfold), a fixed duration with
repeats fitted into it (the plan would not be known in advance).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swtch import experiments, folders
from swtch.engines import TRAITS, Engine
from swtch.records import Depth, Invocation, Sample, Trial

ENV = "XDG_STATE_HOME"
FILE = "durations.json"
# What the reference trial took where the definitions' guesses were made.
REFERENCE_S = 0.024
# Beyond these the reference trial says something else than speed.
SLOWEST, FASTEST = 20.0, 0.25
# A guest's probes do less work on a slower machine, plus a round trip over its console.
GUEST_S = 0.45
EXACT_S = 15.0
BOOT_S = 7.0
REMEMBERED_MAX = 20_000


@dataclass(frozen=True)
class Expected:
    """Seconds by trial id; ``seen`` are the trials that were timed here before."""

    seconds: Mapping[str, float]
    seen: frozenset[str] = frozenset()
    slowness: float = 1.0
    boots: int = 0

    def total(self, plan: Iterable[Invocation]) -> float:
        """Of a plan, with the boots of its guests."""
        return self.boots * BOOT_S + sum(self.seconds[invocation.trial_id] for invocation in plan)

    @property
    def source(self) -> str:
        """What the estimate is made of, in words."""
        if not self.seconds:
            return "nothing to do"
        share = len(self.seen) / len(self.seconds)
        machine = f"guessed from the definitions, {_slower(self.slowness)}"
        if share == 0:
            return machine
        return "as timed here before" if share == 1 else f"{share:.0%} timed here before, {machine}"


def _slower(factor: float) -> str:
    if 0.9 <= factor <= 1.1:
        return "on a machine as fast as theirs"
    return f"on a machine {factor:.2g} times as slow" if factor > 1 else "on a faster machine"


def key_of(trial: Trial) -> str:
    """Of everything that makes a trial take its time."""
    asked = {name: value for name, value in trial.probe.items() if name not in ("seed", "cpus")}
    about = [trial.engine, trial.model, trial.factors.get("guest"), trial.factors.get("accel")]
    text = msgspec.json.encode([about, asked, len(trial.probe.get("cpus", ()))], order="sorted")
    return hashlib.sha256(text).hexdigest()[:20]


def expect(
    trials: Sequence[Trial], depth: Depth, *, slowness: float = 1.0, boots: int = 0
) -> Expected:
    """What each of `trials` is expected to take here."""
    known = _remembered()
    seconds, seen = {}, set()
    for trial in trials:
        before = known.get(key_of(trial))
        if before is not None:
            seen.add(trial.id)
        seconds[trial.id] = before if before is not None else guess(trial, depth) * slowness
    return Expected(seconds, frozenset(seen), slowness, boots)


def guess(trial: Trial, depth: Depth) -> float:
    """Of the definition, on the machine where it was written."""
    experiment = experiments.get(trial.experiment)
    seconds = experiment.seconds_at.get((trial.engine, depth))
    if seconds is not None:
        return seconds
    if TRAITS[trial.engine].counting:
        return EXACT_S
    return GUEST_S if TRAITS[trial.engine].guest else experiment.seconds


def calibrate(engine: Engine) -> float:
    """How many times slower this machine is than where the guesses were made; 1 if unknown."""
    if TRAITS[engine.name].guest:
        return 1.0
    trial = _reference()
    took = []
    for number in range(3):
        plan = Invocation(seq=number, block=0, trial_id=trial.id, seed=number)
        sample = engine.perform(trial, plan).sample
        if sample.status != "ok":
            return 1.0
        took.append(sample.elapsed_ns / 1e9)
    return min(SLOWEST, max(FASTEST, min(took) / REFERENCE_S))


def _reference() -> Trial:
    from swtch import environment

    cpus = environment.allowed_cpus()
    setting = experiments.Setting(cpus=cpus[:1], models=("coroutine",), timeout_s=5.0)
    return next(
        trial
        for trial in experiments.get("scenarios").trials(setting)
        if trial.factors["scenario"] == "B2"
    )


def remember(trials: Iterable[Trial], samples: Iterable[Sample]) -> None:
    """Keeps what the invocations took, for the next estimate. Never fails: it is a hint."""
    took: dict[str, list[float]] = {}
    keys = {trial.id: key_of(trial) for trial in trials}
    for sample in samples:
        if sample.status == "ok" and sample.trial_id in keys:
            took.setdefault(keys[sample.trial_id], []).append(sample.elapsed_ns / 1e9)
    file = _file()
    if not took or file is None:
        return
    from swtch.store import write_atomically

    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        new = {key: round(statistics.median(values), 4) for key, values in took.items()}
        # The newest last, so that the oldest are what is forgotten.
        kept = {key: value for key, value in _remembered().items() if key not in new} | new
        last = dict(list(kept.items())[-REMEMBERED_MAX:])
        write_atomically(file, msgspec.json.encode(last))


def _file() -> Path | None:
    state = folders.of_user(os.environ.get(ENV, ""), ".local/state")
    return state / "swtch" / FILE if state else None


def _remembered() -> dict[str, float]:
    file = _file()
    if file is None:
        return {}
    try:
        remembered = msgspec.json.decode(file.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return {key: value for key, value in remembered.items() if math.isfinite(value) and value >= 0}


@dataclass
class Left:
    """What is left of a run, by what was expected and how that compared so far."""

    expected: Mapping[int, float]
    # So many seconds must have passed before what was seen outweighs what was expected.
    trust_s: float = 8.0
    _done: set[int] = field(default_factory=set)
    _spent: float = 0.0
    _expected_spent: float = 0.0

    def skip(self, seqs: Iterable[int]) -> None:
        """These were done before."""
        self._done |= set(seqs)

    def spend(self, seq: int, seconds: float) -> None:
        """One invocation took so long."""
        self._done.add(seq)
        self._spent += seconds
        self._expected_spent += self.expected.get(seq, 0.0)

    @property
    def seconds(self) -> float:
        left = sum(value for seq, value in self.expected.items() if seq not in self._done)
        pace = (self._spent + self.trust_s) / (self._expected_spent + self.trust_s)
        return left * pace
