# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: what it takes to enter the kernel and come back, with no switch.

A kernel thread that hands over makes at least one system call, so the cheapest one is
a floor that no mechanism of `ping` can be below. Between it and a hand-over lie the
calls of the mechanism without anybody there to be woken: a byte through one's own
pipe, a wake-up of nobody, a yield to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swtch.experiments import BEYOND, EACH, Experiment, Metric, Setting, less, shape, timed, value
from swtch.records import Model, Scalar, Trial

NAME: Final = "syscall"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
KINDS: Final[Mapping[Model, tuple[str, ...]]] = {
    "pthread": (
        *("function", "vdso", "getppid", "clock", "rusage", "wake", "yield"),
        *("eventfd", "pipe"),
    ),
    "uthread": ("uyield",),
}
CALLS: Final = 100
CALLS_TINY: Final = 2000  # of what takes nanoseconds
TINY: Final = ("function", "vdso", "uyield")
BATCHES: Final = 500
BATCHES_QUICK: Final = 100
BATCHES_GUEST: Final = 10

QUICK: Final = "a fifth of the calls"
GUEST: Final = "few calls"

METRICS: Final[Mapping[str, Metric]] = {
    **timed(each="each_p50", floor="each_p10", tail="each_p90"),
    "calls": value("calls", "calls"),
}


def calls(model: Model, kind: str, setting: Setting, cpus: int = 1) -> dict[str, Any]:
    """The trial of one kind of call, for this experiment and for `signal`."""
    batches = BATCHES_QUICK if setting.quick else BATCHES
    probe: dict[str, Any] = {
        "schema": 1,
        "probe": "calls",
        "model": model,
        "kind": kind,
        "batches": batches if not setting.guest else BATCHES_GUEST,
        "calls": CALLS_TINY if kind in TINY else CALLS,
        "cpus": list(setting.cpus[:cpus]),
        "policy": setting.policy,
        "seed": 0,
    }
    if model == "uthread":
        probe["tick_ns"] = 0
    return probe


def _trial(model: Model, kind: str, setting: Setting) -> Trial:
    factors: dict[str, Scalar] = {"kind": kind, "cpus_used": 1, "policy": setting.policy}
    return setting.trial(NAME, f"{kind}/{model}", calls(model, kind, setting), factors)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Each kind of call, alone on one CPU."""
    return tuple(
        _trial(model, kind, setting)
        for model, kinds in KINDS.items()
        if model in setting.models
        for kind in kinds
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Into the kernel and back, with no switch",
    study=BEYOND,
    question="What does a system call take that switches nobody: the floor of every hand-over?",
    models=MODELS,
    seconds=0.05,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(kind=str),
)
