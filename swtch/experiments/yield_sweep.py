# SPDX-License-Identifier: Apache-2.0
"""Study 001, table 9: how often four threads yield, and what is left of their throughput.

Intervals of 100, 1000 and 10 000 additions, and never. The study's kernel threads sleep
at every yield for a tick, which the kernel makes two (a timer of one tick ends with the
tick after the next), so that its efficiency says how much work lies between two sleeps.
Beside them stand the pthreads and what the study does not have: kernel threads that
yield as pthreads do.
"""

from __future__ import annotations

from typing import Final

from swtch.experiments import Experiment, PublishedKey, Setting
from swtch.experiments import _study_001 as shared
from swtch.records import Model, Published, Trial

NAME: Final = "yield-sweep"
CPUS: Final = 4
INTERVALS: Final = (0, 100, 1000, 10_000)
MODELS: Final[tuple[Model, ...]] = ("pthread", "kthread", "uthread")
ARMS: Final = (
    shared.PTHREAD,
    shared.KTHREAD,
    shared.KTHREAD_BARE,
    shared.KTHREAD_MATCHED,
    shared.UTHREAD,
)
QUICK_ARMS: Final = (shared.KTHREAD,)
QUICK: Final = "guests do only the study's kernel threads"

# Interval: operations a second, efficiency in percent, voluntary switches.
_TABLE_9: Final = {
    0: (5_112_064.67, 99.70, 0.0),
    100: (49_042.67, 0.50, 15_646.67),
    1000: (489_778.00, 4.97, 3996.0),
    10_000: (3_662_569.00, 41.20, 396.0),
}


def case_of(interval: int) -> str:
    return f"every {interval}" if interval else "never"


def _published() -> dict[PublishedKey, Published]:
    figures: dict[PublishedKey, Published] = {}
    for interval, (ops, efficiency, voluntary) in _TABLE_9.items():
        case = case_of(interval)
        figures |= shared.throughputs(9, {case: {"kthread": ops}})
        figures[case, "kthread", "cpu_efficiency"] = shared.figure_of(9, efficiency, "%")
        figures[case, "kthread", "nvcsw"] = shared.figure_of(9, voluntary, "switches")
    return figures


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every interval with every arm; what yields as pthreads do is the same without yields."""
    few = shared.few(setting)
    planned = []
    for interval in INTERVALS:
        case = shared.Case(
            name=case_of(interval), interval=interval, cpus=CPUS, studied=(shared.KTHREAD,)
        )
        for arm in shared.measured(QUICK_ARMS if few else ARMS, setting):
            if not interval and arm.operation == "matched":
                continue
            planned.append(shared.trial(NAME, arm, case, setting))
    return tuple(planned)


def shortened(setting: Setting) -> str:
    return shared.shortened(trials(setting), QUICK if shared.few(setting) else "")


EXPERIMENT = Experiment(
    name=NAME,
    title="Yields more and less often",
    study="001",
    question="How much throughput is left when threads yield every so many additions?",
    models=MODELS,
    seconds=0.1,
    trials=trials,
    published=_published(),
    metrics=shared.METRICS,
    shortened=shortened,
    repeats=shared.REPEATS,
    seconds_at=shared.guest_seconds(10),
    main=shared.main,
    factors=shared.FACTORS,
)
