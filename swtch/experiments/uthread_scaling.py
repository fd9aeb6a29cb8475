# SPDX-License-Identifier: Apache-2.0
"""Study 003, figures 10 and 11: how long very many threads take to count.

Each thread adds 100 000 ones to a counter of its own; main creates all and
joins all. The study compares its uthreads, switched every millisecond, with
pthreads on one and two cores. Beside them stands what it lacks: ``alone``, the
same additions on the same CPUs without threads. What a model takes beyond that
is what its threads cost; a ratio between models says little while both do
nothing but the work.

Between two invocations a machine's speed may change by a fifth, and by a lead over pthreads of a
half or three times is what is asked. So, but at ``paper``, pthreads of the study's work have a
*reference*: as many uthreads do the same right before them and after, in children of the probe;
the lead is the pthreads' time over the two's, their mean by ratio.

The less each thread does, the more of the time is threads: hence the trials
with 10 000 and 1 000 additions, and those with 100 000 and a million uthreads,
which have no pthreads beside them: a kernel allows 32 768 threads at a time by
default (kernel.pid_max), and the study had no more than 30 000.

The study names no policy; SCHED_OTHER is what its threads had.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swtch.experiments import (
    Count,
    Experiment,
    Main,
    Metric,
    PublishedKey,
    Setting,
    less,
    shape,
    value,
)
from swtch.experiments._study_003 import policy_of
from swtch.records import Model, Published, Sample, Scalar, Trial

NAME: Final = "uthread-scaling"
TICK_NS: Final = 1_000_000
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
WORKERS: Final = (1, 2)


@dataclass(frozen=True)
class Size:
    """So many threads of so much work. Without pthreads where a kernel allows no such number."""

    threads: int
    iterations: int
    workers: tuple[int, ...] = WORKERS
    pthreads: bool = True

    @property
    def name(self) -> str:
        return f"{self.threads}x{self.iterations}"


STUDY: Final = tuple(Size(threads, 100_000) for threads in (10_000, 20_000, 30_000))
FULL: Final = (
    *STUDY,
    Size(10_000, 10_000),
    Size(10_000, 1_000),
    Size(100_000, 1_000, workers=(2,), pthreads=False),
    Size(1_000_000, 100, workers=(2,), pthreads=False),
)
# A thread costs the same of a quarter as many, and a quick run needs blocks more than threads.
QUICK_SIZES: Final = (Size(2_500, 100_000),)
# An emulated processor is some twenty times slower, and a guest has little memory.
GUEST_SIZES: Final = (Size(10_000, 10_000), Size(10_000, 1_000))

QUICK: Final = "2 500 threads instead of the study's 10 000, 20 000 and 30 000"
GUEST: Final = "a tenth of the study's work a thread and less, and 10 000 threads only"
ONE_CPU_NOTE: Final = "one CPU is allowed here, so nothing is measured on two"

# Figure 11 is a chart without numbers; the text puts it in words.
_SOURCE: Final = "study 003, section 4 on figure 11: 'a nearly twofold increase in speed'"
PUBLISHED: Final[Mapping[PublishedKey, Published]] = {
    (f"{cores} core{'s' if cores > 1 else ''}", "pthread/uthread", "wall_ratio"): Published(
        value=2.0, unit="x", source=_SOURCE
    )
    for cores in WORKERS
}


def _lead(own: str, others: str) -> Metric:
    """How many times the reference's time, the mean of both by ratio, the sample's own is."""

    def of_sample(sample: Sample) -> float | None:
        value, beside = sample.values.get(own), sample.detail.get(others)
        if not value or not isinstance(beside, list) or len(beside) != 2 or min(beside) <= 0:
            return None
        return value / math.sqrt(beside[0] * beside[1])

    return Metric(unit="x", of_sample=of_sample)


METRICS: Final[Mapping[str, Metric]] = {
    "lead_wall": _lead("wall_ns", "reference_times_ns"),
    "lead_cpu": _lead("cpu_ns", "reference_cpu_ns"),
    "create_ms": value("create_ns", "ms", 1e-6),
    "live": value("live", "threads"),
    "create_mi": value("create_instructions", "million instructions", 1e-6),
    "cpu_ms": value("cpu_ns", "ms", 1e-6),
    "cpu_mi": value("cpu_instructions", "million instructions", 1e-6),
    "maxrss_mb": value("maxrss_kb", "MB", 1024 / 1e6),
    "preempted": value("preempted", "uthreads"),
    "ticks": value("ticks", "ticks"),
}


def _trial(size: Size, kind: str, workers: int, setting: Setting) -> Trial:
    model: Model = "uthread" if kind == "uthread" else "pthread"
    factors: dict[str, Scalar] = {
        "kind": kind,
        "threads": size.threads,
        "iterations": size.iterations,
        "workers": workers,
        "policy": policy_of(setting),
    }
    probe = {
        "schema": 1,
        "probe": "scaling",
        "model": model,
        "alone": kind == "alone",
        "threads": size.threads,
        "iterations": size.iterations,
        "cpus": list(setting.cpus[:workers]),
        "policy": policy_of(setting),
        "seed": 0,
    }
    if kind == "uthread":
        probe["tick_ns"] = TICK_NS
    if kind == "pthread" and _has_reference(size, setting):
        probe["reference"] = {"tick_ns": TICK_NS}
    return setting.trial(
        NAME,
        f"{size.name}/{workers}w/{kind}",
        probe,
        factors,
        ONE_CPU_NOTE if len(setting.cpus) < max(WORKERS) else "",
    )


def _has_reference(size: Size, setting: Setting) -> bool:
    studys = size.iterations == STUDY[0].iterations
    beside = "uthread" in setting.models and not setting.guest
    return studys and beside and setting.depth != "paper"


def sizes(setting: Setting) -> tuple[Size, ...]:
    if setting.guest:
        return GUEST_SIZES
    return QUICK_SIZES if setting.quick else FULL


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every size on one and on two CPUs: pthreads, uthreads, and the work alone."""
    planned = []
    for size in sizes(setting):
        for workers in size.workers:
            if workers > len(setting.cpus):
                continue
            # Uthreads first: of the first there is a copy, and pthreads are dearer.
            for kind in ("uthread", "pthread", "alone"):
                model: Model = "uthread" if kind == "uthread" else "pthread"
                if model not in setting.models or (kind == "pthread" and not size.pthreads):
                    continue
                planned.append(_trial(size, kind, workers, setting))
    return tuple(planned)


EXPERIMENT = Experiment(
    name=NAME,
    title="Ten thousand to a million threads that count",
    study="003",
    question="How much longer does work take when very many threads share it?",
    models=MODELS,
    seconds=0.8,
    seconds_at={("native", "quick"): 0.3},
    trials=trials,
    published=PUBLISHED,
    metrics=METRICS,
    main={"time": Main("wall_ms"), "instructions": Main("wall_mi")},
    shortened=less(QUICK, GUEST),
    factors=shape(kind=str, threads=Count, iterations=Count, workers=Count),
)
