# SPDX-License-Identifier: Apache-2.0
"""`swtch doctor --self-check`: the paths of the lab that its makers' machines do not have.

Each path is tried where it exists, with a result that is known beforehand, and nothing
else: KVM boots a guest and counts there, the processor's counters count a walk whose
instructions grow with its length, more than two CPUs add up one counter. What is absent
is said to be, with the reason; no module is loaded into this kernel.

The result is one line, made to be sent to the makers: versions, the processor, and what
became of each path. It names neither the machine nor its user.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from swtch import __version__, environment, experiments
from swtch.engines import Engine, choice, native_kthread
from swtch.engines.native import NativeEngine, find_probe
from swtch.errors import CannotError, LabError
from swtch.experiments import Setting
from swtch.records import Invocation, Model, Sample, Trial
from swtch.vm import kvm

State = Literal["works", "absent", "fails"]
Say = Callable[[str], None]
# So many CPUs everything was tried with.
SEEN_CPUS = 2
# What the walk of a larger array takes at least, in instructions of a small one's.
SMALL, LARGE = 4096, 65536


@dataclass(frozen=True)
class PathState:
    """One path: what became of it, and one fact or reason."""

    name: str
    state: State
    detail: str

    def __str__(self) -> str:
        return f"{self.name}={self.state} ({self.detail})"


def every(say: Say) -> tuple[PathState, ...]:
    """All paths, the cheapest first; `say` tells which is tried."""
    tries: tuple[tuple[str, Callable[[], tuple[State, str]]], ...] = (
        ("counters", counters),
        ("cpus", cpus),
        ("kthread", kthread),
        ("kvm", lambda: in_kvm(say)),
    )
    find_probe()  # nothing can be tried without it
    results = []
    for name, attempt in tries:
        say(f"trying {name}")
        try:
            state, detail = attempt()
        except LabError as error:
            state, detail = "fails", str(error)
        results.append(PathState(name, state, " ".join(detail.split()).rstrip(".")))
    return tuple(results)


def line(paths: tuple[PathState, ...]) -> str:
    """What to send: one line without the machine's or the user's name."""
    facts = environment.collect()
    cpu = facts.get("cpu", {})
    host = facts.get("virtualisation", {})
    virtual = host.get("type") or ("yes" if host.get("hypervisor_flag") else "no")
    words = [
        f"swtch {__version__} self-check",
        f"{platform.machine()} {cpu.get('model', 'unknown processor')}",
        f"Linux {platform.release()}",
        "glibc " + (os.confstr("CS_GNU_LIBC_VERSION") or "?").removeprefix("glibc "),
        f"virtual: {virtual}",
        *map(str, paths),
    ]
    return "; ".join(" ".join(word.split()) for word in words)


def failed(paths: tuple[PathState, ...]) -> bool:
    """Whether a path exists here and does not work."""
    return any(path.state == "fails" for path in paths)


# ---- the paths ----


def counters(engine: Engine | None = None) -> tuple[State, str]:
    """The processor's counters: the probe's own group, over walks of two lengths."""
    trial = _counted()
    sample = _perform(engine or NativeEngine(), trial)
    if not sample.detail.get("counted"):
        return "absent", str(sample.detail.get("uncounted", "no reason was given"))
    values = sample.values
    small, large = (values.get(f"single_instructions_{size}_64") for size in (SMALL, LARGE))
    running = min(values.get(f"running_{size}_64", 0.0) for size in (SMALL, LARGE))
    events = [
        e for e in ("instructions", "l1i", "l1d", "dtlb") if f"single_{e}_{LARGE}_64" in values
    ]
    kernel = "with" if sample.detail.get("kernel_counted") else "without"
    detail = f"{' '.join(events)}, {kernel} the kernel, on {running:.2f} of the time"
    if small is None or large is None or not SMALL / 8 < small < large:
        return "fails", f"{small} and {large} instructions for {SMALL} and {LARGE} bytes; {detail}"
    return "works", detail


def _counted() -> Trial:
    setting = _setting(1, ("pthread",))
    (trial,) = (t for t in experiments.get("counters").trials(setting) if t.model == "pthread")
    cells = [{"bytes": size, "stride": 64, "passes": 50} for size in (SMALL, LARGE)]
    probe = {**trial.probe, "cells": cells, "rounds": 3, "count": True}
    return msgspec.structs.replace(trial, probe=probe)


def cpus(engine: Engine | None = None, allowed: int = 0) -> tuple[State, str]:
    """Twice as many threads as CPUs on all of them: nothing is lost, every CPU is used."""
    number = allowed or len(environment.allowed_cpus())
    if number <= SEEN_CPUS:
        return "absent", f"{number} allowed, and so many were tried elsewhere"
    engine = engine or NativeEngine()
    used = []
    for model in ("pthread", "uthread"):
        sample = _perform(engine, _wide(model, number))
        counter, expected = sample.values["counter"], sample.values["expected"]
        if counter != expected:
            return "fails", f"{model}: the counter is {counter:g} of {expected:g} on {number} CPUs"
        threads = sample.threads if model == "pthread" else sample.carriers
        used.append(f"{model} on {len({thread.cpu for thread in threads})}")
    return "works", f"{number} CPUs: {', '.join(used)}"


def _wide(model: Model, number: int) -> Trial:
    setting = _setting(number, (model,))
    trial = next(
        t
        for t in experiments.get("scenarios").trials(setting)
        if t.factors["scenario"] == "B1" and t.model == model
    )
    numbers = list(environment.allowed_cpus())[:number]
    probe = {**trial.probe, "threads": 2 * number, "cpus": numbers or trial.probe["cpus"]}
    return msgspec.structs.replace(trial, probe=probe)


def kthread() -> tuple[State, str]:
    """Whether our module could be loaded here; it is not."""
    try:
        native_kthread.check(asked=True)
    except CannotError as error:
        return "absent", str(error)
    return "absent", f"not tried; 'swtch run scenarios {native_kthread.FLAG}' loads our module"


def in_kvm(say: Say) -> tuple[State, str]:
    """A guest with KVM: it boots, and four threads count to the last."""
    if not kvm.DEVICE.exists():
        return "absent", f"there is no {kvm.DEVICE}"
    engine = choice.open_engine(choice.Options(engines=("vm",)), say=say)
    try:
        setting = Setting(cpus=choice.cpus_of(engine, (0,)), models=("pthread",), engine="vm")
        planned = experiments.get("scenarios").trials(setting)
        trial = next(t for t in choice.spread(engine, planned) if t.factors["scenario"] == "B2")
        if trial.factors["accel"] != "kvm":
            (guest,) = engine.describe()["guests"][:1]
            return "absent", str(guest["why_not_kvm"])
        sample = _perform(engine, trial)
    finally:
        choice.close(engine)
    counter, expected = sample.values["counter"], sample.values["expected"]
    state: State = "works" if counter == expected else "fails"
    return state, f"{trial.factors['guest']}: {counter:g} of {expected:g}"


def _setting(number: int, models: tuple[Model, ...]) -> Setting:
    allowed = environment.allowed_cpus()
    return Setting(cpus=allowed[:number], models=models, depth="quick", timeout_s=60.0)


def _perform(engine: Engine, trial: Trial) -> Sample:
    sample = engine.perform(trial, Invocation(seq=0, block=0, trial_id=trial.id, seed=1)).sample
    if sample.status != "ok":
        raise CannotError(f"{trial.id}: {sample.error}")
    return sample
