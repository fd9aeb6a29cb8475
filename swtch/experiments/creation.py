# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: what a thread costs that does nothing, from its creation to its join.

The studies compare threads that live; programs make and end them. One CPU, so that no
creation is hidden behind another thread's work: main creates all, then joins all. Each
adds once to a counter of its own, which says that it ran. ``create`` is main's part until
the last is created, ``life`` all of it until the last is joined; among many, stacks no
longer come from where they were cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import BEYOND, Count, Experiment, Main, Metric, Setting, shape
from swtch.records import Depth, Model, Trial

NAME: Final = "creation"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
THREADS: Final[Mapping[Depth, tuple[int, ...]]] = {
    "quick": (100,),
    "normal": (10, 100, 1_000),
    "paper": (10, 100, 1_000, 10_000),
}


def _each(part: str, unit: str) -> Metric:
    """A part of the time, for each thread."""

    def of(values: Mapping[str, float | int]) -> float | None:
        time, created = values.get(f"{part}_{unit}"), values.get("created")
        return time / created if time is not None and created else None

    return Metric(unit=unit, of=of)


METRICS: Final[Mapping[str, Metric]] = {
    f"{name}_{unit}": _each(part, unit)
    for name, part in (("life", "wall"), ("create", "create"))
    for unit in ("ns", "instructions")
}


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Both models, by how many there are at a time."""
    planned = []
    for threads in THREADS[setting.depth]:
        for model in MODELS:
            if model not in setting.models:
                continue
            probe = setting.probe("scaling", model, alone=False, threads=threads, iterations=1)
            if model == "uthread":
                probe["tick_ns"] = 0
            factors = {"threads": threads, "cpus_used": 1, "policy": setting.policy}
            planned.append(setting.trial(NAME, f"{threads}/{model}", probe, factors))
    return tuple(planned)


def _shortened(setting: Setting) -> str:
    return "quick: a hundred threads at a time only" if setting.quick else ""


EXPERIMENT = Experiment(
    name=NAME,
    title="A thread that does nothing",
    study=BEYOND,
    question="What does it take to create a thread and to join it, by how many there are?",
    models=MODELS,
    seconds=0.05,
    trials=trials,
    metrics=METRICS,
    shortened=_shortened,
    main={"time": Main("life_ns"), "instructions": Main("life_instructions")},
    factors=shape(threads=Count),
)
