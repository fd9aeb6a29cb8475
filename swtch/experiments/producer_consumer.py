# SPDX-License-Identifier: Apache-2.0
"""Study 001's future work: a producer and a consumer with a bounded buffer between them.

The text book's way, a mutex and two condition variables, by each model. How often one
must switch to the other follows from the room in the buffer: with room for one item,
each item is a switch there and one back; with room for many, a switch moves as many.
So the same program shows what a switch costs and what it costs to have few of them.

The consumer adds the items up, and the sum must be right: the gate ``counter`` marks a
sample in which an item was lost or came twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import (
    EACH,
    Count,
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

NAME: Final = "producer-consumer"
MODELS: Final[tuple[Model, ...]] = ("process", "pthread", "uthread", "coroutine")
ROOMS: Final = (1, 16, 256)
ROOMS_QUICK: Final = (1, 256)
# Items by room: about as many switches, and many more items where those are rare.
ITEMS: Final[Mapping[int, int]] = {1: 5_000, 16: 20_000, 256: 50_000}
QUICK_PART: Final = 5
TWO_PART: Final = 10  # a wake-up across takes that much longer at least
GUEST_PART: Final = 50

QUICK: Final = "room for 1 and for 256 only, and a fifth of the items"
GUEST: Final = "few items on one CPU, and room for 1 and for 256 only"
ONE_CPU_NOTE: Final = "no second CPU is allowed here, so both sides share one"

METRICS: Final[Mapping[str, Metric]] = {
    **time_of_each("items"),
    "items": value("items", "items"),
}


def items_of(room: int, cpus: int, setting: Setting) -> int:
    """Fewer where each takes longer."""
    if setting.guest:
        return ITEMS[room] // GUEST_PART
    return ITEMS[room] // (QUICK_PART if setting.quick else 1) // (TWO_PART if cpus > 1 else 1)


def _trial(model: Model, room: int, cpus: int, setting: Setting) -> Trial:
    factors: dict[str, Scalar] = {"room": room, "cpus_used": cpus, "policy": setting.policy}
    probe = {
        "schema": 1,
        "probe": "queue",
        "model": model,
        "pairs": 1,
        "room": room,
        "items": items_of(room, cpus, setting),
        "cpus": list(setting.cpus[:cpus]),
        "policy": setting.policy,
        "seed": 0,
    }
    if model == "uthread":
        probe["tick_ns"] = 0
    return setting.trial(NAME, f"{cpus}/{room}/{model}", probe, factors, one_cpu_note(setting))


def one_cpu_note(setting: Setting) -> str:
    alone = not setting.guest and len(setting.cpus) < 2
    return ONE_CPU_NOTE if alone else ""


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Each model with each room, both sides on one CPU and each on its own."""
    native = not setting.guest
    rooms = ROOMS_QUICK if setting.quick or not native else ROOMS
    return tuple(
        _trial(model, room, cpus, setting)
        for cpus in (1, 2)[: len(setting.cpus) if native else 1]
        for room in rooms
        for model in MODELS
        if model in setting.models and (cpus == 1 or model != "coroutine")
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="A producer and a consumer",
    study="001",
    question="What does an item cost on its way through a bounded buffer, by model and room?",
    models=MODELS,
    seconds=0.1,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(room=Count, cpus_used=Some),
)
