# SPDX-License-Identifier: Apache-2.0
"""Samples of one run that were measured under other conditions than it began with.

A run that was interrupted goes on where and when its user likes: after an update of the
kernel, with other mitigations, on another machine that has the same CPUs. Each sample from
there says what was not as the manifest's environment has it (`Sample.elsewhere`); who began
with one and the same machine has nothing there.

Invariants:

- What is computed is of samples under one and the same condition: findings, figures and
  verdicts (`alike`). Of each engine that is the newest condition which says as much as any:
  under which as many trials as under any other have the blocks that a verdict needs. Where
  none has them of any trial it is the one with most good samples, the newest of several.
- Nothing is lost: the others stay in samples.jsonl and in the frame of samples, and every
  report says how many they are and why (`sentence`).
- A fact that is not known of one of the two is no difference.

Rejected: to refuse going on (what was measured would be lost to who cannot go back); to
judge each condition by itself (a report of two machines, and blocks too few of both); to
take all together (the interval of a mixture is of neither, and where the interrupted block
lies decides who was slower); always the newest (one block of it would take every verdict of a
long run away); the most samples (who goes on after an update asks of the machine as it is now,
and a run with a target stops as soon as that is measured well enough: `analysis.adaptive`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from swtch.analysis.effects import LEAST
from swtch.engines import TRAITS
from swtch.records import Engine, Manifest, Sample

# What tells one machine in one setting from another: what people call it, and where it is. Not
# what root reads otherwise than anybody else (how the kernel preempts), nor what has no rest.
_MACHINE: tuple[tuple[str, str, str], ...] = (
    ("the kernel", "kernel", "release"),
    ("the kernel's build", "kernel", "version"),
    ("the kernel's command line", "kernel", "cmdline"),
    ("the scheduler", "kernel", "scheduler"),
    ("the C library", "host", "libc"),
    ("the machine's maker", "virtualisation", "vendor"),
    ("the machine's model", "virtualisation", "product"),
    ("the CPU", "cpu", "model"),
    ("the CPU's microcode", "cpu", "microcode"),
    ("SMT", "cpu", "smt"),
    ("the frequency governor", "cpu", "governor"),
    ("turbo", "cpu", "no_turbo"),
    ("boost", "cpu", "boost"),
    ("huge pages", "memory", "transparent_hugepage"),
)
PROGRAM = "the probe program"
# Of a user's experiment, with its name.
OWN_PROGRAM = "the probe program of"
# Of a long fact, a command line, so much is shown; of many facts so many.
LONGEST = 40
WHICH = "the newest conditions that say as much as any"
NAMED_MOST = 4

Condition = frozenset[tuple[str, str]]


# ---- where a run goes on ----


def facts(environment: Mapping[str, Any], engine: Engine) -> dict[str, str]:
    """What is known of the conditions of samples of `engine`, by what people call it."""
    known: dict[str, str] = {}
    # Instructions do not depend on the machine that counts them.
    if not TRAITS[engine].counting:
        for what, room, key in _MACHINE:
            known[what] = _text(_in(environment.get(room), key))
        flaws = _in(environment.get("cpu"), "vulnerabilities")
        for flaw, state in flaws.items() if isinstance(flaws, Mapping) else ():
            known[f"the mitigation of {flaw}"] = _text(state)
    known[PROGRAM] = _text(_digest(environment, engine))
    return {what: value for what, value in known.items() if value}


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """What is known of both and is another now."""
    return {what: value for what, value in now.items() if before.get(what, value) != value}


def _in(room: Any, key: str) -> Any:
    return room.get(key) if isinstance(room, Mapping) else None


def _digest(environment: Mapping[str, Any], engine: Engine) -> Any:
    described = environment.get("engine")
    for one in _in(described, "engines") or ():
        if _in(one, "engine") == engine:
            return _in(one, "sha256")
    return _in(described, "sha256")


def _text(value: Any) -> str:
    return "" if value is None else str(value)


# ---- what is made of its samples ----


def alike(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Those measured under one and the same condition, for each engine; and of a user's
    experiment those by one and the same program."""
    if not any(sample.elsewhere for sample in samples):
        return tuple(samples)
    machines = _newest([(s, (s.engine,), _machine(s)) for s in samples])
    return _newest([(s, (s.engine, s.experiment), _condition(s)) for s in machines])


def _newest(
    samples: Sequence[tuple[Sample, tuple[str, ...], Condition]],
) -> tuple[Sample, ...]:
    """Of each room the samples under the condition that counts there."""
    rooms: dict[tuple[str, ...], dict[Condition, list[Sample]]] = {}
    for sample, room, condition in samples:
        rooms.setdefault(room, {}).setdefault(condition, []).append(sample)
    chosen = {room: max(of, key=lambda one: _rank(of[one])) for room, of in rooms.items()}
    return tuple(sample for sample, room, condition in samples if condition == chosen[room])


def _rank(samples: Sequence[Sample]) -> tuple[int, int, int]:
    """The more trials can be judged the higher; of as many, the later. A condition that can
    judge none is as good as it has samples."""
    good = [sample for sample in samples if sample.status == "ok"]
    blocks = Counter(trial for trial, _ in {(s.trial_id, s.block) for s in good})
    judged = sum(n >= LEAST for n in blocks.values())
    last = max((sample.seq for sample in good), default=-1)
    return judged, 0 if judged else len(good), last


def _condition(sample: Sample) -> Condition:
    return frozenset(sample.elsewhere.items())


def _machine(sample: Sample) -> Condition:
    return frozenset(one for one in _condition(sample) if not one[0].startswith(OWN_PROGRAM))


def sentence(manifest: Manifest, samples: Sequence[Sample]) -> str:
    """What became of a run that went on under other conditions; empty of any other."""
    there = [sample for sample in samples if sample.elsewhere]
    if not there:
        return ""
    used = alike(samples)
    if len(used) == len(samples):
        which = f"all its {len(samples)} samples were measured there"
    else:
        from_there = [bool(sample.elsewhere) for sample in used]
        side = "those from there" if all(from_there) else "those from before"
        side = side if all(from_there) or not any(from_there) else "of each engine those that count"
        which = (
            f"numbers, figures and verdicts are of {len(used)} of its {len(samples)} samples,"
            f" {side} ({WHICH}), and the others are kept beside"
        )
    return (
        f"This run went on under other conditions than it began with ({_changed(manifest, there)}):"
        f" {which}. What is said of the machine is of where it began."
    )


def between(a: tuple[Manifest, Sequence[Sample]], b: tuple[Manifest, Sequence[Sample]]) -> str:
    """What was not the same where what is computed of two runs was measured; empty where
    nothing is known to be."""
    before, now = (_used(manifest, samples) for manifest, samples in (a, b))
    named: dict[str, None] = {}
    for engine in now:
        known = before.get(engine, {})
        for what, value in changes(known, now[engine]).items():
            named.setdefault(_step(what, known[what], value))
    return _some(list(named))


def _used(manifest: Manifest, samples: Sequence[Sample]) -> dict[Engine, dict[str, str]]:
    """By engine, the conditions of the samples that are used; of the user's programs nothing."""
    used: dict[Engine, dict[str, str]] = {}
    for sample in alike(samples):
        if sample.engine not in used:
            known = facts(manifest.environment, sample.engine)
            used[sample.engine] = known | dict(_machine(sample))
    return used


def _changed(manifest: Manifest, there: Sequence[Sample]) -> str:
    named: dict[str, None] = {}
    for sample in there:
        before = facts(manifest.environment, sample.engine)
        for what, value in sample.elsewhere.items():
            named.setdefault(_step(what, before.get(what, ""), value))
    return _some(list(named))


def _some(steps: Sequence[str]) -> str:
    more = f", and {len(steps) - NAMED_MOST} more" if len(steps) > NAMED_MOST else ""
    return ", ".join(steps[:NAMED_MOST]) + more


def _step(what: str, before: str, now: str) -> str:
    if what.startswith(PROGRAM):
        return f"{what} is another one"
    if not before or max(len(before), len(now)) > LONGEST:
        return f"{what} is not the same"
    return f"{what} {before}, then {now}"
