# SPDX-License-Identifier: Apache-2.0
"""Study 001, table 10: four threads bound to one, two and four CPUs.

The study's kernel threads slow down with every CPU they get, its pthreads stay the same.
The second half contradicts study 000, whose pthreads on one shared counter got through
2.87 times as much on one CPU as on four; the report puts the two side by side.

The number of CPUs is what varies here, so a machine with fewer leaves the others out
(`shortened` says so) instead of measuring one number twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, PublishedKey, Setting
from swtch.experiments import _study_001 as shared
from swtch.records import Model, Published, Trial

NAME: Final = "binding"
CPUS: Final = (1, 2, 4)
MODELS: Final[tuple[Model, ...]] = ("pthread", "kthread", "uthread")
ARMS: Final = (shared.PTHREAD, shared.KTHREAD, shared.KTHREAD_BARE, shared.UTHREAD)
MATCHED: Final = (shared.KTHREAD_MATCHED,)
QUICK_ARMS: Final = (shared.PTHREAD, shared.KTHREAD)
QUICK: Final = "guests do only the study's threads in normal mode"

# CPUs: operations a second of kernel threads and of pthreads.
_TABLE_10: Final = {
    "normal": {
        1: (30_172_515.67, 45_348_659.67),
        2: (10_832_564.00, 40_712_400.67),
        4: (4_919_058.67, 46_804_430.67),
    },
    "yield": {
        1: (491_728.67, 3_773_221.00),
        2: (487_039.33, 3_736_243.33),
        4: (488_320.67, 3_950_989.00),
    },
}


def case_of(mode: str, cpus: int) -> str:
    return f"{mode} on {cpus}"


PUBLISHED: Final[Mapping[PublishedKey, Published]] = shared.throughputs(
    10,
    {
        case_of(mode, cpus): {"kthread": kthread, "pthread": pthread}
        for mode, rows in _TABLE_10.items()
        for cpus, (kthread, pthread) in rows.items()
    },
)


def _too_many_cpus(setting: Setting) -> str:
    allowed = len(setting.cpus)
    left = [str(cpus) for cpus in CPUS if cpus > allowed]
    if not left:
        return ""
    return (
        f"{allowed} CPU{'s'[: allowed - 1]} {'is' if allowed == 1 else 'are'} allowed here, so"
        f" nothing is measured on {' and '.join(left)}; a guest has 4"
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Both modes on every number of CPUs there is."""
    few = shared.few(setting)
    planned = []
    for mode, interval in shared.modes(*(("normal",) if few else ("normal", "yield"))):
        arms = QUICK_ARMS if few else ARMS + (MATCHED if interval else ())
        for cpus in CPUS:
            if cpus > len(setting.cpus):
                continue
            case = shared.Case(name=case_of(mode, cpus), interval=interval, cpus=cpus)
            planned += [
                shared.trial(NAME, arm, case, setting) for arm in shared.measured(arms, setting)
            ]
    return tuple(planned)


def shortened(setting: Setting) -> str:
    quick = QUICK if shared.few(setting) else ""
    return shared.shortened(trials(setting), quick, _too_many_cpus(setting))


EXPERIMENT = Experiment(
    name=NAME,
    title="Four threads on one, two and four CPUs",
    study="001",
    question="Do threads on one shared counter get through more or less on more CPUs?",
    models=MODELS,
    seconds=0.1,
    trials=trials,
    published=PUBLISHED,
    metrics=shared.METRICS,
    shortened=shortened,
    repeats=shared.REPEATS,
    seconds_at=shared.guest_seconds(2.5),
    main=shared.main,
    factors=shared.FACTORS,
)
