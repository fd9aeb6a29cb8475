# SPDX-License-Identifier: Apache-2.0
"""Study 001, table 11: one, five and ten million additions a thread, on one CPU.

If starting and ending threads were a part of what is measured, throughput would grow with
the work; the study finds it flat in both modes. A test of the method more than of the
machine, and what allows the other experiments of this study to do less work in a guest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, PublishedKey, Setting
from swtch.experiments import _study_001 as shared
from swtch.records import Model, Published, Trial

NAME: Final = "work-scaling"
WORKS: Final = (1_000_000, 5_000_000, 10_000_000)
MODELS: Final[tuple[Model, ...]] = ("pthread", "kthread", "uthread")
ARMS: Final = (shared.PTHREAD, shared.KTHREAD, shared.KTHREAD_BARE, shared.UTHREAD)
QUICK_ARMS: Final = (shared.PTHREAD,)
GUEST_QUICK_ARMS: Final = (shared.KTHREAD,)
QUICK: Final = "pthreads only"
GUEST_QUICK: Final = "guests do only the study's kernel threads, 1 and 10 million in normal mode"

# Million additions: operations a second of kernel threads and of pthreads.
_TABLE_11: Final = {
    "normal": {
        1: (29_186_876.00, 46_656_497.33),
        5: (29_442_138.67, 44_161_246.67),
        10: (29_921_437.33, 44_465_376.33),
    },
    "yield": {
        1: (486_426.67, 4_135_691.33),
        5: (488_761.33, 3_859_280.67),
        10: (487_733.67, 3_904_580.00),
    },
}


def case_of(mode: str, millions: int) -> str:
    return f"{mode} {millions}M"


PUBLISHED: Final[Mapping[PublishedKey, Published]] = shared.throughputs(
    11,
    {
        case_of(mode, millions): {"kthread": kthread, "pthread": pthread}
        for mode, rows in _TABLE_11.items()
        for millions, (kthread, pthread) in rows.items()
    },
)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every amount of work in both modes."""
    few = shared.few(setting)
    arms = GUEST_QUICK_ARMS if few else QUICK_ARMS if setting.quick else ARMS
    planned = []
    for mode, interval in shared.modes(*(("normal",) if few else ("normal", "yield"))):
        first = None
        for work in (WORKS[0], WORKS[-1]) if few else WORKS:
            case = shared.Case(
                name=case_of(mode, work // 10**6),
                work=work,
                interval=interval,
                work_most=max(WORKS),
                first=first,
                in_turn=True,
            )
            first = first or case
            planned += [
                shared.trial(NAME, arm, case, setting) for arm in shared.measured(arms, setting)
            ]
    return tuple(planned)


def shortened(setting: Setting) -> str:
    quick = QUICK if setting.quick else ""
    return shared.shortened(trials(setting), GUEST_QUICK if shared.few(setting) else quick)


EXPERIMENT = Experiment(
    name=NAME,
    title="Ten times as much work",
    study="001",
    question="Does throughput depend on how much work is measured?",
    models=MODELS,
    seconds=0.5,
    trials=trials,
    published=PUBLISHED,
    metrics=shared.METRICS,
    shortened=shortened,
    repeats=shared.REPEATS,
    seconds_at={**shared.guest_seconds(15), ("native", "quick"): 0.2},
    main=shared.main_on_one_cpu,
    factors=shared.FACTORS,
)
