# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: the same hand-over in other runtimes, each by a program of its own.

Two of a kind on one CPU hand a token to one another, by giving up the turn, or through
what each runtime's programs use for it: a channel, a queue, a condition variable. The
programs speak the probe's protocol (``peers/``) and time batches as it does. One that
was not built is left out, and the report says how to get it.

Not a contest of languages: who hands over in one runtime allocates, checks or fences
what another does not. Peers have SCHED_OTHER, and so has everybody here.
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
from swtch.records import Model, Scalar, Trial

NAME: Final = "peers"
OWN: Final[tuple[Model, ...]] = ("pthread", "uthread")
OTHERS: Final[tuple[Model, ...]] = ("go", "boost", "tokio", "java")
MODELS: Final[tuple[Model, ...]] = (*OWN, *OTHERS)
WAYS: Final = ("yield", "channel")
# What stands for a channel where the library has none.
CHANNEL: Final[Mapping[Model, str]] = {"pthread": "cond", "uthread": "cond"}
LAPS: Final = 500
LAPS_KERNEL: Final = 25
BATCHES: Final = 200
BATCHES_QUICK: Final = 60

QUICK: Final = "a third of the hand-overs"
GUEST: Final = "few hand-overs, and no peers"

METRICS: Final[Mapping[str, Metric]] = {
    **timed(each="each_p50", floor="each_p10", tail="each_p90"),
    "handovers": value("handovers", "hand-overs"),
}


def _probe(model: Model, way: str, setting: Setting) -> dict[str, Any]:
    by = CHANNEL.get(model, way) if way == "channel" else way
    if setting.guest:
        return ping.ring(model, by, setting)
    return {
        **ping.ring(model, by, setting),
        "batches": BATCHES_QUICK if setting.quick else BATCHES,
        # pthreads switch by the kernel, and so much slower.
        "laps": LAPS_KERNEL if model == "pthread" else LAPS,
        "policy": "other",
    }


def _trial(model: Model, way: str, setting: Setting) -> Trial:
    probe = _probe(model, way, setting)
    factors: dict[str, Scalar] = {"way": way, "cpus_used": 1, "policy": probe["policy"]}
    return setting.trial(NAME, f"{way}/{model}", probe, factors)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Both ways in every runtime; in a guest only in those of the probe."""
    models = MODELS if not setting.guest else OWN
    return tuple(
        _trial(model, way, setting) for way in WAYS for model in models if model in setting.models
    )


EXPERIMENT = Experiment(
    pictured=True,
    name=NAME,
    title="The same hand-over in other runtimes",
    study=BEYOND,
    question="What does a hand-over take in Go, Boost.Fiber, tokio and Java's virtual threads?",
    models=MODELS,
    seconds=0.1,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(way=str),
)
