# SPDX-License-Identifier: Apache-2.0
"""Study 001, tables 7 and 8: four threads on one counter, without and with yields.

Its scenario A adds a million ones a thread; scenario B yields after every thousand. The
kernel threads reach 13.5 % and 11.8 % of the pthreads' throughput. They keep accounts of
every addition and sleep where the pthreads only call ``sched_yield``; here stand beside
them kernel threads without accounts (*bare*) and with the pthreads' own operation
(*sched_yield*), each change alone and both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, PublishedKey, Setting
from swtch.experiments import _study_001 as shared
from swtch.records import Model, Published, Trial

NAME: Final = "yield-modes"
CPUS: Final = 4
MODELS: Final[tuple[Model, ...]] = ("pthread", "kthread", "uthread", "coroutine")
ARMS: Final = (
    shared.PTHREAD,
    shared.KTHREAD,
    shared.KTHREAD_BARE,
    shared.UTHREAD,
    shared.COROUTINE,
)
# In yield mode only: what is matched is the operation.
MATCHED: Final = (shared.KTHREAD_MATCHED_INSTRUMENTED, shared.KTHREAD_MATCHED)
QUICK: Final = "guests do only what the claims compare"

PUBLISHED: Final[Mapping[PublishedKey, Published]] = {
    **shared.throughputs(7, {"normal": {"kthread": 6_478_375, "pthread": 48_044_031}}),
    **shared.throughputs(8, {"yield": {"kthread": 497_802, "pthread": 4_207_257}}),
    ("normal", "kthread/pthread", "throughput_ratio"): shared.figure_of(7, 0.135, "x"),
    ("yield", "kthread/pthread", "throughput_ratio"): shared.figure_of(8, 0.118, "x"),
    ("normal", "kthread", "system_ms"): shared.figure_of(7, 614, "ms"),
    ("yield", "kthread", "system_ms"): shared.figure_of(8, 372, "ms"),
    ("normal", "pthread", "user_ms"): shared.figure_of(7, 301.896, "ms"),
    ("normal", "pthread", "system_ms"): shared.figure_of(7, 5.962, "ms"),
    ("yield", "pthread", "user_ms"): shared.figure_of(8, 1641.086, "ms"),
    ("yield", "pthread", "system_ms"): shared.figure_of(8, 2134.476, "ms"),
    ("normal", "kthread", "nvcsw"): shared.figure_of(7, 0, "switches"),
    ("normal", "kthread", "nivcsw"): shared.figure_of(7, 0, "switches"),
    ("yield", "kthread", "nvcsw"): shared.figure_of(8, 3996, "switches"),
    ("yield", "kthread", "nivcsw"): shared.figure_of(8, 0, "switches"),
}


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Both modes with every arm, and the yields of kernel threads matched."""
    few = shared.few(setting)
    planned = []
    for mode, interval in shared.modes("normal", "yield"):
        case = shared.Case(name=mode, interval=interval, cpus=CPUS)
        arms = ARMS + (MATCHED if interval else ())
        for arm in shared.measured(arms, setting):
            if few and arm.model not in ("pthread", "kthread"):
                continue
            planned.append(shared.trial(NAME, arm, case, setting))
    return tuple(planned)


def shortened(setting: Setting) -> str:
    return shared.shortened(trials(setting), QUICK if shared.few(setting) else "")


EXPERIMENT = Experiment(
    name=NAME,
    title="Kernel threads, pthreads and coroutines with and without yields",
    study="001",
    question="What do a kernel thread's accounts and its way of yielding cost?",
    models=MODELS,
    seconds=0.1,
    trials=trials,
    published=PUBLISHED,
    metrics=shared.METRICS,
    shortened=shortened,
    repeats=shared.REPEATS,
    seconds_at=shared.guest_seconds(2),
    main=shared.main,
    factors=shared.FACTORS,
)
