# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: one hand-over, by every model and every mechanism there is.

The studies measure a switch by one mechanism each and compare models by different
ones. Here two of a kind hand a token to one another, and everything but the model
and the mechanism stays the same: on one CPU, where a hand-over is a switch, and on
two, where it is a wake-up across CPUs and no switch between the two at all.

kthreads are the module's: they wake and sleep as in study 002's pairs, with almost
no work between the switches, SCHED_FIFO as always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from swtch.experiments import BEYOND, EACH, Experiment, Metric, Setting, less, shape, timed, value
from swtch.experiments.pair_overhead import STEPS
from swtch.records import Model, Scalar, Trial

NAME: Final = "ping"
MODELS: Final[tuple[Model, ...]] = (
    "kthread",
    "process",
    "pthread",
    "uthread",
    "coroutine",
    "ucontext",
)

Place = Literal["same", "two"]

# By sleeping and waking; by giving up the turn; by looking, which needs two CPUs.
WAKES: Final = ("pipe", "socket", "eventfd", "futex", "cond", "signal")
SAME: Final[Mapping[Model, tuple[str, ...]]] = {
    "kthread": ("wake", "wake-mm"),
    "process": (*WAKES, "yield"),
    "pthread": (*WAKES, "yield"),
    "uthread": ("yield", "sem", "cond"),
    "coroutine": ("yield",),
    "ucontext": ("yield",),
}
TWO: Final[Mapping[Model, tuple[str, ...]]] = {
    "process": (*WAKES, "spin"),
    "pthread": (*WAKES, "spin"),
    "uthread": ("sem", "cond"),
}
QUICK_CASES: Final[Mapping[Place, Mapping[Model, tuple[str, ...]]]] = {
    "same": {
        **SAME,
        "process": ("pipe", "futex", "yield"),
        "pthread": ("pipe", "eventfd", "futex", "cond", "yield"),
    },
    "two": {"process": ("futex",), "pthread": ("pipe", "futex", "spin"), "uthread": ("sem",)},
}
GUEST_CASES: Final[Mapping[Place, Mapping[Model, tuple[str, ...]]]] = {
    "same": {
        **SAME,
        "process": ("pipe", "futex"),
        "pthread": ("futex", "yield"),
        "uthread": ("yield", "sem"),
        "ucontext": (),
    },
    "two": {},
}

QUICK: Final = "fewer mechanisms, and fewer hand-overs by each"
GUEST: Final = (
    "one CPU only, by few mechanisms: emulated CPUs wake one another by threads of the emulator"
)
ONE_CPU_NOTE: Final = "no second CPU is allowed here, so nobody wakes another CPU"


def _each(unit: str) -> Metric:
    """Of a ring, or of the module's pair: there it is called C, from warm caches."""
    own, pair = f"each_p50_{unit}", f"c_warm_{unit}"
    return Metric(unit=unit, of=lambda values: values.get(own, values.get(pair)))


METRICS: Final[Mapping[str, Metric]] = {
    "each_ns": _each("ns"),
    "each_instructions": _each("instructions"),
    **timed(floor="each_p10", tail="each_p90"),
    "handovers": value("handovers", "hand-overs"),
    "passes": value("passes", "hand-overs"),
}


@dataclass(frozen=True)
class Size:
    """So many laps around the ring in a batch, and so many batches.

    Batches are short, so that a neighbour who takes the CPU for some milliseconds
    is in few of them, and not in the median.
    """

    batches: int
    laps: int


def size_of(model: Model, by: str, place: str, setting: Setting) -> Size:
    """Some tens of milliseconds, if nobody disturbs it."""
    if setting.guest:
        return Size(10, 20)
    batches = 100 if setting.quick else 200
    if model not in ("process", "pthread"):
        return Size(batches, 200 if place == "same" else 10)
    if by == "spin":
        return Size(batches, 200)
    return Size(batches, 25) if place == "same" else Size(batches // 4, 4)


def ring(
    model: Model, by: str, setting: Setting, place: str = "same", members: int = 2
) -> dict[str, Any]:
    """The trial of a ring, for this experiment and for those built upon it."""
    size = size_of(model, by, place, setting)
    probe: dict[str, Any] = {
        "schema": 1,
        "probe": "ring",
        "model": model,
        "by": by,
        "members": members,
        "batches": size.batches,
        "laps": size.laps,
        "cpus": list(setting.cpus[: 1 if place == "same" else 2]),
        "policy": setting.policy,
        "seed": 0,
    }
    if model == "uthread":
        probe["tick_ns"] = 0
    return probe


def _pair(by: str, setting: Setting) -> dict[str, Any]:
    """Two kthreads of the module: their hand-over alone is timed, between small parts of work."""
    return {
        "schema": 1,
        "probe": "pair-overhead",
        "model": "kthread",
        "task_a": "crc",
        "steps_a": STEPS["crc"],
        "task_b": "crc",
        "steps_b": STEPS["crc"],
        "n": 99,
        "sort_bytes": 16384,
        "stream_bytes": 16384,
        "evict_bytes": 0,
        "cold": False,
        "repeat": 1,
        "rounds": 10,
        "cpus": [setting.cpus[0]],
        "policy": "fifo",
        "mm": by == "wake-mm",
        "seed": 0,
    }


def _trial(model: Model, by: str, place: Place, setting: Setting) -> Trial:
    probe = _pair(by, setting) if model == "kthread" else ring(model, by, setting, place)
    factors: dict[str, Scalar] = {
        "place": place,
        "by": by,
        "cpus_used": len(probe["cpus"]),
        "policy": probe["policy"],
    }
    return setting.trial(NAME, f"{place}/{model}-{by}", probe, factors, one_cpu_note(setting))


def one_cpu_note(setting: Setting) -> str:
    alone = not setting.guest and len(setting.cpus) < 2
    return ONE_CPU_NOTE if alone else ""


def cases(setting: Setting) -> tuple[tuple[Place, Model, str], ...]:
    """Who hands over to whom, and how."""
    chosen: Mapping[Place, Mapping[Model, tuple[str, ...]]] = {"same": SAME, "two": TWO}
    if setting.guest:
        chosen = GUEST_CASES
    elif setting.quick:
        chosen = QUICK_CASES
    return tuple(
        (place, model, by)
        for place, models in chosen.items()
        if place == "same" or len(setting.cpus) >= 2
        for model in MODELS
        if model in setting.models
        for by in models.get(model, ())
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every model by every mechanism, on one CPU and on two."""
    return tuple(_trial(model, by, place, setting) for place, model, by in cases(setting))


EXPERIMENT = Experiment(
    pictured=True,
    name=NAME,
    title="A hand-over, by every model and mechanism",
    study=BEYOND,
    question="What does it take to hand over to another thread, and how much of it is the way?",
    models=MODELS,
    seconds=0.1,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(place=str, by=str),
)
