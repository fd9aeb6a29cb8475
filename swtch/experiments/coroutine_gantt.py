# SPDX-License-Identifier: Apache-2.0
"""Study 000, section VII: five coroutines and the chart of who ran when.

Five coroutines of 3, 3, 3, 5 and 2 iterations, each of which hands back after
every iteration: 16 slots, of which the scheduler's order is the result. The
study did round robin with ucontext and stacks in a global array, and names
what it left out: other orders, heap stacks, a pool, overflow detection. All of
those are trials here.

The result is exact, not a measurement: every invocation must give the same
slots. Only ``wall_ns`` varies, and it is shown, never claimed about.
"""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from swtch.engines import Clock
from swtch.experiments import Count, Experiment, Main, PublishedKey, Setting, shape
from swtch.records import Model, Published, Scalar, Trial

WORK: Final = (3, 3, 3, 5, 2)
# A larger number runs first; equal numbers in order of creation.
PRIORITIES: Final = (1, 2, 3, 4, 5)
# Iterations a coroutine may do in one turn.
SLICES: Final = (2, 2, 2, 2, 2)
STACK_BYTES: Final = 65536

MODELS: Final[tuple[Model, ...]] = ("coroutine", "ucontext")
ORDERS: Final = ("round-robin", "priority", "time-slice")

# Figure 2 prints the order of finishing, figure 3 the chart; slots are derived from it.
FINISHED: Final = (4, 0, 1, 2, 3)
SLOTS: Final = (0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 3, 3)

_SOURCE: Final = "study 000, section VII.C and figures 2 and 3"
PUBLISHED: Final[dict[PublishedKey, Published]] = {
    ("round-robin", "ucontext", "slots"): Published(value=16, unit="slots", source=_SOURCE),
    ("round-robin", "ucontext", "first_finished"): Published(
        value=FINISHED[0], unit="task", source=_SOURCE
    ),
    ("round-robin", "ucontext", "last_finished"): Published(
        value=FINISHED[-1], unit="task", source=_SOURCE
    ),
}


def _trial(order: str, model: Model, pool: bool, setting: Setting) -> Trial:
    factors: dict[str, Scalar] = {"order": order, "pool": pool, "tasks": len(WORK)}
    return setting.trial(
        case=f"{order}/{model}" + ("" if pool else "/no-pool"),
        experiment="coroutine-gantt",
        factors=factors,
        probe={
            "schema": 1,
            "probe": "gantt",
            "model": model,
            "work": list(WORK),
            "order": order,
            "priorities": list(PRIORITIES),
            "slices": list(SLICES),
            "stack_bytes": STACK_BYTES,
            "pool": pool,
        },
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every order with a pool, and the study's own order without one."""
    models = [model for model in MODELS if model in setting.models]
    planned = [_trial(order, model, True, setting) for order in ORDERS for model in models]
    planned += [_trial("round-robin", model, False, setting) for model in models]
    return tuple(planned)


class Slot(msgspec.Struct):
    """One box of the chart."""

    slot: Count
    task: Count
    iteration: Count


class Chart(msgspec.Struct):
    """A sample's detail."""

    slots: list[Slot] = []
    finished: list[Count] = []


EXPERIMENT = Experiment(
    name="coroutine-gantt",
    title="Five coroutines and the chart of who ran when",
    study="000",
    question="In which order do coroutines run and finish under each way of scheduling them?",
    models=MODELS,
    seconds=0.02,
    trials=trials,
    published=PUBLISHED,
    main=dict.fromkeys(get_args(Clock), Main("user_switches", "neither")),
    factors=shape(order=str, pool=bool),
    detail=Chart,
)
