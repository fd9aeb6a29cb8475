# SPDX-License-Identifier: Apache-2.0
"""Study 001, table 13: 32 coroutines that add a million ones each, on one CPU.

The study's coroutines (``ucontext``, with a library of its own) each add to a counter of
their own, without an atomic instruction; its threads share one counter and add
atomically. So both forms are run, with the study's way of switching and with ours: the
difference between the forms is the counter's, that between the ways the switch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, PublishedKey, Setting
from swtch.experiments import _study_001 as shared
from swtch.records import Model, Published, Trial

NAME: Final = "coroutine"
TASKS: Final = 32
MODELS: Final[tuple[Model, ...]] = ("coroutine", "ucontext")
ARMS: Final = (shared.COROUTINE_OWN, shared.COROUTINE, shared.UCONTEXT_OWN, shared.UCONTEXT)

PUBLISHED: Final[Mapping[PublishedKey, Published]] = {
    **shared.throughputs(
        13,
        {"normal": {"ucontext": 1_956_268_380.36}, "yield": {"ucontext": 227_482_320.41}},
    ),
    ("normal", "ucontext", "user_ms"): shared.figure_of(13, 15.351, "ms"),
    ("normal", "ucontext", "system_ms"): shared.figure_of(13, 0.375, "ms"),
    ("yield", "ucontext", "user_ms"): shared.figure_of(13, 109.427, "ms"),
    ("yield", "ucontext", "system_ms"): shared.figure_of(13, 30.918, "ms"),
    ("normal", "ucontext", "os_switches"): shared.figure_of(13, 8, "switches"),
    ("yield", "ucontext", "os_switches"): shared.figure_of(13, 4, "switches"),
    ("normal", "ucontext", "logical_switches"): shared.figure_of(13, 0, "switches"),
    ("yield", "ucontext", "logical_switches"): shared.figure_of(13, 32_000, "switches"),
}


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Both modes with both libraries and both counters."""
    return tuple(
        shared.trial(
            NAME,
            arm,
            shared.Case(name=mode, interval=interval, threads=TASKS, threads_most=TASKS),
            setting,
        )
        for mode, interval in shared.modes("normal", "yield")
        for arm in shared.measured(ARMS, setting)
    )


def shortened(setting: Setting) -> str:
    return shared.shortened(trials(setting))


EXPERIMENT = Experiment(
    name=NAME,
    title="Thirty-two coroutines",
    study="001",
    question="How much do coroutines get through, and how much of it is their counter's doing?",
    models=MODELS,
    seconds=0.15,
    trials=trials,
    published=PUBLISHED,
    metrics=shared.METRICS,
    shortened=shortened,
    repeats=shared.REPEATS,
    seconds_at=shared.guest_seconds(1.0),
    main=shared.main_on_one_cpu,
    factors=shared.FACTORS,
)
