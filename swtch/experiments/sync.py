# SPDX-License-Identifier: Apache-2.0
"""Study 001's future work: one sum by four threads, kept right in different ways.

The study's threads add to a shared atomic counter, and its outlook names what else one
would do: a spin lock, a mutex, a counter for each CPU. Here four threads make the same
number of additions with a little work of their own in between, on one CPU and on two.
Every way must give the same sum, and the sample is marked (gate ``counter``) when not.

``own`` and ``packed`` are both a counter for each thread; only the latter share a cache
line, and the distance between the two is what that alone costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import (
    EACH,
    Experiment,
    Metric,
    Setting,
    Some,
    less,
    shape,
    time_of_each,
    value,
)
from swtch.records import Model, Scalar, Trial

NAME: Final = "sync"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
WAYS: Final = ("own", "packed", "shared", "spin", "mutex")
LOCKS: Final = ("spin", "mutex")
THREADS: Final = 4
BETWEEN: Final = 20  # additions of one's own between two of the sum
TIMES: Final = 500_000
TIMES_QUICK: Final = 100_000
# Between CPUs each turn of a lock may be a wake-up across.
TIMES_LOCKED: Final = 3_000
TIMES_LOCKED_QUICK: Final = 300
TIMES_GUEST: Final = 500

QUICK: Final = "a fifth of the additions, of locks on two CPUs a tenth"
GUEST: Final = "few additions"
ONE_CPU_NOTE: Final = "no second CPU is allowed here, so nobody adds at the same time"

METRICS: Final[Mapping[str, Metric]] = {
    **time_of_each("counter"),
    "additions": value("counter", "additions"),
}


def times_of(way: str, cpus: int, setting: Setting) -> int:
    """So that none takes much longer than the others."""
    if setting.guest:
        return TIMES_GUEST
    if way in LOCKS and cpus > 1:
        return TIMES_LOCKED_QUICK if setting.quick else TIMES_LOCKED
    return TIMES_QUICK if setting.quick else TIMES


def _trial(model: Model, way: str, cpus: int, setting: Setting) -> Trial:
    factors: dict[str, Scalar] = {"way": way, "cpus_used": cpus, "policy": setting.policy}
    probe = {
        "schema": 1,
        "probe": "sync",
        "model": model,
        "way": way,
        "threads": THREADS,
        "times": times_of(way, cpus, setting),
        "between": BETWEEN,
        "cpus": list(setting.cpus[:cpus]),
        "policy": setting.policy,
        "seed": 0,
    }
    if model == "uthread":
        probe["tick_ns"] = 1_000_000
    return setting.trial(NAME, f"{cpus}/{way}/{model}", probe, factors, one_cpu_note(setting))


def one_cpu_note(setting: Setting) -> str:
    alone = not setting.guest and len(setting.cpus) < 2
    return ONE_CPU_NOTE if alone else ""


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Each way on one CPU, and on two where there are two."""
    return tuple(
        _trial(model, way, cpus, setting)
        for cpus in (1, 2)[: len(setting.cpus)]
        for way in WAYS
        for model in MODELS
        if model in setting.models
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="One sum by four threads, kept right in different ways",
    study="001",
    question="What does it cost to keep a sum right: atomic, spin lock, mutex, own counters?",
    models=MODELS,
    seconds=0.1,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(way=str, cpus_used=Some),
)
