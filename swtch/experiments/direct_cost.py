# SPDX-License-Identifier: Apache-2.0
"""Study 004, sections II and IV: what a switch costs two threads that only take turns.

Two threads on one CPU pass a token 100 000 times each. In the baseline one of them
makes the same calls and passes the token to itself. The study's figure is
t = (t_switch / 2 - t_single) / N. It has two ways: a byte through pipes between two
processes, and a variable under the locks of a user-level library. Beside them stand
the ways between: pthreads, a futex, and yields without locks, by libuthread and by
coroutines with a hand-written switch and with ucontext's.

The study's SCHED_FIFO is used where the user may, and SCHED_BATCH elsewhere: both let
each hand-over be one switch. ``--policy other`` is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from swtch.experiments import (
    Count,
    Experiment,
    Main,
    Mains,
    Metric,
    PublishedKey,
    Setting,
    shape,
    value,
)
from swtch.records import Model, Published, Scalar, Trial

NAME: Final = "direct-cost"
MODELS: Final[tuple[Model, ...]] = ("process", "pthread", "uthread", "coroutine", "ucontext")
PASSES: Final = 100_000


@dataclass(frozen=True)
class Way:
    """How two threads of a model pass the token."""

    model: Model
    by: str

    @property
    def name(self) -> str:
        return f"{self.model}-{self.by}"


WAYS: Final = (
    Way("process", "pipe"),
    Way("pthread", "pipe"),
    Way("process", "futex"),
    Way("pthread", "futex"),
    Way("ucontext", "yield"),
    Way("uthread", "locks"),
    Way("uthread", "yield"),
    Way("coroutine", "yield"),
)


_KERNEL = "study 004, section IV on figure 3: the direct cost of one context switch"
_USER = "study 004, section IV.C: the direct cost of user-level context switch"
PUBLISHED: Final[Mapping[PublishedKey, Published]] = {
    ("pipe", "process", "cost_us"): Published(value=0.62, unit="µs", source=_KERNEL),
    ("locks", "uthread", "cost_us"): Published(value=1.18, unit="µs", source=_USER),
}


def times() -> dict[str, Metric]:
    """What one switch takes, and the two times it is the difference of."""
    metrics = {}
    for name in ("cost", "single", "switch"):
        metrics[f"{name}_us"] = value(f"{name}_ns", "µs", 1e-3)
        metrics[f"{name}_instructions"] = value(f"{name}_instructions", "instructions")
    return metrics


METRICS: Final[Mapping[str, Metric]] = {
    **times(),
    "single_switches": value("single_switches", "switches"),
}

# Of working-set, too: what is left beyond the calls and the walk, not the times it is of.
MAIN: Final[Mains] = {"time": Main("cost_us"), "instructions": Main("cost_instructions")}


def request(way: Way, cells: list[dict[str, int]], rounds: int, setting: Setting) -> dict[str, Any]:
    """What the probe is asked for; study 004's three experiments differ in the cells."""
    return {
        "schema": 1,
        "probe": "token",
        "model": way.model,
        "pass": way.by,
        "cells": cells,
        "rounds": rounds,
        "cpus": list(setting.cpus[:1]),
        "policy": setting.policy,
        "fifo_if_allowed": setting.policy == "batch",
        "seed": 0,
    }


def _size(setting: Setting) -> tuple[int, int]:
    """Passes to each thread in a round, and rounds."""
    if setting.counting:
        return 200, 2
    if setting.guest and not setting.counting:
        return 2_000, 5
    if setting.quick:
        return 4_000, 5
    # The study's ten iterations of a group are rounds; at paper each is of its size.
    return (PASSES if setting.depth == "paper" else PASSES // 10), 10


def shortened(setting: Setting) -> str:
    passes, rounds = _size(setting)
    if passes * rounds >= PASSES:
        return ""
    done = f"{passes * rounds:,}".replace(",", " ")
    return f"the token goes round {done} times instead of the study's 100 000"


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every way to pass the token, on one CPU."""
    passes, rounds = _size(setting)
    planned = []
    for way in WAYS:
        if way.model not in setting.models:
            continue
        factors: dict[str, Scalar] = {
            "way": way.by,
            "passes": passes * rounds,
            "cpus_used": 1,
            "policy": setting.policy,
        }
        cells = [{"bytes": 64, "stride": 0, "passes": passes}]
        planned.append(
            setting.trial(NAME, f"{way.name}", request(way, cells, rounds, setting), factors)
        )
    return tuple(planned)


EXPERIMENT = Experiment(
    pictured=True,
    name=NAME,
    title="What a switch costs beyond the calls that ask for it",
    study="004",
    question="What does it cost to switch between two threads that only take turns?",
    models=MODELS,
    seconds=0.7,
    seconds_at={("native", "quick"): 0.15, ("native", "paper"): 5.0},
    trials=trials,
    published=PUBLISHED,
    metrics=METRICS,
    main=MAIN,
    shortened=shortened,
    factors=shape(way=str, passes=Count),
)
