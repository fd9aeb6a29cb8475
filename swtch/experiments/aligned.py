# SPDX-License-Identifier: Apache-2.0
"""Study 001, table 14: every model with 32 threads on one CPU, a million additions each.

The study's conclusion stands here: coroutines are 45.9 times as fast as pthreads and 70.1
times as fast as kernel threads, 89.5 and 459 times with yields. Three things differ
between its programs beside the kind of thread: the counter, the accounts and the way of
yielding. So each model is measured as the study had it, and again with what the others
have: coroutines with the shared counter, pthreads with an own one, kernel threads without
accounts and with the pthreads' yield.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, PublishedKey, Setting
from swtch.experiments import _study_001 as shared
from swtch.records import Model, Published, Trial

NAME: Final = "aligned"
THREADS: Final = 32
MODELS: Final[tuple[Model, ...]] = ("pthread", "kthread", "uthread", "coroutine", "ucontext")
ARMS: Final = (
    shared.PTHREAD,
    shared.PTHREAD_OWN,
    shared.KTHREAD,
    shared.KTHREAD_BARE,
    shared.UTHREAD,
    shared.COROUTINE_OWN,
    shared.COROUTINE,
    shared.UCONTEXT_OWN,
)
MATCHED: Final = (shared.KTHREAD_MATCHED,)
QUICK_ARMS: Final = (shared.PTHREAD, shared.KTHREAD, shared.COROUTINE_OWN)
QUICK: Final = "guests do only what the claims compare"

PUBLISHED: Final[Mapping[PublishedKey, Published]] = {
    **shared.throughputs(
        14,
        {
            "normal": {
                "kthread": 29_415_583.00,
                "pthread": 44_957_906.33,
                "ucontext": 2_061_391_118.76,
            },
            "yield": {
                "kthread": 499_228.67,
                "pthread": 2_561_689.33,
                "ucontext": 229_176_571.04,
            },
        },
    ),
    ("normal", "ucontext/pthread", "throughput_ratio"): shared.figure_of(14, 45.852, "x"),
    ("normal", "ucontext/kthread", "throughput_ratio"): shared.figure_of(14, 70.078, "x"),
    ("yield", "ucontext/pthread", "throughput_ratio"): shared.figure_of(14, 89.463, "x"),
    ("yield", "ucontext/kthread", "throughput_ratio"): shared.figure_of(14, 459.061, "x"),
}


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Both modes with every arm, and the yields of kernel threads matched."""
    few = shared.few(setting)
    planned = []
    for mode, interval in shared.modes("normal", "yield"):
        case = shared.Case(name=mode, interval=interval, threads=THREADS, threads_most=THREADS)
        arms = QUICK_ARMS if few else ARMS + (MATCHED if interval else ())
        planned += [
            shared.trial(NAME, arm, case, setting) for arm in shared.measured(arms, setting)
        ]
    return tuple(planned)


def shortened(setting: Setting) -> str:
    return shared.shortened(trials(setting), QUICK if shared.few(setting) else "")


EXPERIMENT = Experiment(
    name=NAME,
    title="Every model side by side on one CPU",
    study="001",
    question="Which kind of thread gets through most on one CPU, and what makes it so?",
    models=MODELS,
    seconds=0.2,
    trials=trials,
    published=PUBLISHED,
    metrics=shared.METRICS,
    shortened=shortened,
    repeats=shared.REPEATS,
    seconds_at=shared.guest_seconds(2),
    main=shared.main_on_one_cpu,
    factors=shared.FACTORS,
)
