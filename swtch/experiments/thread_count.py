# SPDX-License-Identifier: Apache-2.0
"""Study 001, table 12: four, sixteen and thirty-two threads on one CPU.

More threads on one CPU take turns more, and nothing else: the study finds throughput
flat. On a kernel where it is not, the turns cost something, or the threads' starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, PublishedKey, Setting
from swtch.experiments import _study_001 as shared
from swtch.records import Model, Published, Trial

NAME: Final = "thread-count"
THREADS: Final = (4, 16, 32)
MODELS: Final[tuple[Model, ...]] = ("pthread", "kthread", "uthread")
ARMS: Final = (shared.PTHREAD, shared.KTHREAD, shared.KTHREAD_BARE, shared.UTHREAD)
QUICK_ARMS: Final = (shared.KTHREAD,)
QUICK: Final = "guests do only 4 and 32 of the study's kernel threads"

# Threads: operations a second of kernel threads and of pthreads.
_TABLE_12: Final = {
    4: (29_578_459.00, 44_152_508.00),
    16: (30_242_576.67, 44_543_114.33),
    32: (29_754_987.00, 44_507_082.33),
}


def case_of(threads: int) -> str:
    return f"{threads} threads"


PUBLISHED: Final[Mapping[PublishedKey, Published]] = shared.throughputs(
    12,
    {
        case_of(threads): {"kthread": kthread, "pthread": pthread}
        for threads, (kthread, pthread) in _TABLE_12.items()
    },
)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every number of threads, without yields."""
    few = shared.few(setting)
    planned, first = [], None
    for threads in (THREADS[0], THREADS[-1]) if few else THREADS:
        case = shared.Case(
            name=case_of(threads),
            threads=threads,
            threads_most=max(THREADS),
            first=first,
            in_turn=True,
        )
        first = first or case
        arms = shared.measured(QUICK_ARMS if few else ARMS, setting)
        planned += [shared.trial(NAME, arm, case, setting) for arm in arms]
    return tuple(planned)


def shortened(setting: Setting) -> str:
    return shared.shortened(trials(setting), QUICK if shared.few(setting) else "")


EXPERIMENT = Experiment(
    name=NAME,
    title="Four to thirty-two threads on one CPU",
    study="001",
    question="Does throughput depend on how many threads share one CPU?",
    models=MODELS,
    seconds=0.4,
    trials=trials,
    published=PUBLISHED,
    metrics=shared.METRICS,
    shortened=shortened,
    repeats=shared.REPEATS,
    seconds_at={**shared.guest_seconds(2), ("native", "quick"): 0.2},
    main=shared.main_on_one_cpu,
    factors=shared.FACTORS,
)
