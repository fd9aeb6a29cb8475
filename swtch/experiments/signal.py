# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: what a signal takes, part by part, with nothing else around it.

Preemption of user threads is made of signals, so a signal to oneself is the floor of a
tick (`preemption` has it beside the ticks). Here it is taken apart: sent and dropped,
sent and fetched without a handler, with a handler, with a stack for it; then between
two threads on one CPU and on two, and into a thread that computes on another CPU, as
a runtime's timer or its neighbour would do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swtch.experiments import (
    BEYOND,
    EACH,
    Experiment,
    Metric,
    Setting,
    less,
    ping,
    shape,
    timed,
    value,
)
from swtch.experiments.syscall import calls
from swtch.records import Model, Scalar, Trial

NAME: Final = "signal"
MODELS: Final[tuple[Model, ...]] = ("pthread",)
SELF: Final = ("ignored", "taken", "handler", "altstack")
# Who has a CPU of its own to compute on, or to sleep on.
OTHERS: Final = ("interrupt", "pong-two")
INTERRUPTS: Final = 20  # in a batch: each goes to another CPU and back

QUICK: Final = "a fifth of the signals"
GUEST: Final = "few signals, on one CPU"
ONE_CPU_NOTE: Final = "no second CPU is allowed here, so nobody on another is interrupted"

METRICS: Final[Mapping[str, Metric]] = {
    **timed(each="each_p50", floor="each_p10", tail="each_p90"),
    "handovers": value("handovers", "signals"),
}


def _probe(case: str, setting: Setting) -> dict[str, Any]:
    if case.startswith("pong"):
        place = "two" if case == "pong-two" else "same"
        return ping.ring("pthread", "signal", setting, place)
    if case == "interrupt":
        return {**calls("pthread", case, setting, cpus=2), "calls": INTERRUPTS}
    return calls("pthread", case, setting)


def _trial(case: str, setting: Setting) -> Trial:
    probe = _probe(case, setting)
    factors: dict[str, Scalar] = {
        "kind": case,
        "cpus_used": len(probe["cpus"]),
        "policy": setting.policy,
    }
    return setting.trial(NAME, f"{case}/pthread", probe, factors, one_cpu_note(setting))


def one_cpu_note(setting: Setting) -> str:
    alone = not setting.guest and len(setting.cpus) < 2
    return ONE_CPU_NOTE if alone else ""


def trials(setting: Setting) -> tuple[Trial, ...]:
    """To oneself, to another on the same CPU, and to another CPU where there is one."""
    cases: tuple[str, ...] = (*SELF, "pong-same")
    if not setting.guest and len(setting.cpus) >= 2:
        cases += OTHERS
    return tuple(_trial(case, setting) for case in cases if "pthread" in setting.models)


EXPERIMENT = Experiment(
    pictured=True,
    name=NAME,
    title="A signal, part by part",
    study=BEYOND,
    question="What does a signal take, and how much of it is the handler's way there and back?",
    models=MODELS,
    seconds=0.08,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(kind=str),
)
