# SPDX-License-Identifier: Apache-2.0
"""Study 001's future work: how late somebody runs who was to wake up.

Throughput says nothing of it: a thread that gets its share may still get it late. A
sleeper waits for a moment (as cyclictest's do), or for another thread that wakes it;
on a machine that is quiet, and beside a thread that computes without end on each CPU;
as a pthread and as a uthread, by whose runtime it is woken.

Wakes are meant for moments that are equally far apart, whatever became of the last: *late*
is from when a sleeper that slept was to wake, *intended* from the moment that was meant,
which one that is kept waiting misses again and again (coordinated omission).

The policy is SCHED_OTHER, by which a kernel thread that wakes may take the CPU from
one that computes; SCHED_BATCH, the lab's usual one, keeps it waiting, and is there to
be compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, Main, Metric, Policy, Setting, less, shape, timed, value
from swtch.records import Model, Scalar, Trial

NAME: Final = "wakeup-latency"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
WAYS: Final = ("timer", "same", "two")
APART_NS: Final = 500_000
TICK_NS: Final = 1_000_000
WAKES: Final = 500
WAKES_QUICK: Final = 40
WAKES_GUEST: Final = 20

QUICK: Final = "40 wakes, so p99 is the worst, and SCHED_OTHER only"
GUEST: Final = "20 wakes on one CPU, and SCHED_OTHER only"
ONE_CPU_NOTE: Final = "no second CPU is allowed here, so nobody is woken from another"

METRICS: Final[Mapping[str, Metric]] = {
    **timed(late="late_p50", p90="late_p90", p99="late_p99", worst="late_max"),
    **timed(
        intended="intended_late_p50",
        intended_p90="intended_late_p90",
        intended_p99="intended_late_p99",
        intended_worst="intended_late_max",
    ),
    "wakes": value("wakes", "wakes"),
    "slept": value("late_n", "wakes"),
}


def _wakes(setting: Setting) -> int:
    if setting.guest:
        return WAKES_GUEST
    return WAKES_QUICK if setting.quick else WAKES


def _trial(model: Model, way: str, busy: bool, policy: Policy, setting: Setting) -> Trial:
    cpus = list(setting.cpus[: 2 if way == "two" else 1])
    factors: dict[str, Scalar] = {
        "way": way,
        "busy": busy,
        "cpus_used": len(cpus),
        "policy": policy,
    }
    probe = {
        "schema": 1,
        "probe": "wakeup",
        "model": model,
        "by": "timer" if way == "timer" else "other",
        "wakes": _wakes(setting),
        "apart_ns": APART_NS,
        "busy": busy,
        "cpus": cpus,
        "policy": policy,
        "seed": 0,
    }
    if model == "uthread":
        probe["tick_ns"] = TICK_NS
    return setting.trial(
        NAME,
        f"{way}/{'busy' if busy else 'quiet'}/{policy}/{model}",
        probe,
        factors,
        one_cpu_note(setting),
    )


def one_cpu_note(setting: Setting) -> str:
    alone = not setting.guest and len(setting.cpus) < 2
    return ONE_CPU_NOTE if alone else ""


def trials(setting: Setting) -> tuple[Trial, ...]:
    """By a timer and by another thread, quiet and busy, by policy."""
    native = not setting.guest
    ways = WAYS if native and len(setting.cpus) >= 2 else WAYS[:2]
    policies: tuple[Policy, ...] = ("other", "batch")
    if setting.quick or not native:
        policies = policies[:1]
    return tuple(
        _trial(model, way, busy, policy, setting)
        for policy in policies
        for busy in (False, True)
        for way in ways
        for model in MODELS
        if model in setting.models
        # A loop on the waker's CPU as well keeps the waker waiting, not the sleeper.
        if not (busy and way == "two")
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="How late a sleeper wakes",
    study="001",
    question="How long until somebody runs who was to wake up, quiet and beside busy threads?",
    models=MODELS,
    seconds=0.15,
    trials=trials,
    metrics=METRICS,
    main={"time": Main("late_ns"), "instructions": Main("late_instructions")},
    shortened=less(QUICK, GUEST),
    factors=shape(way=str, busy=bool, policy=str),
)
