# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: how many yields are switches, before EEVDF and since.

Studies 000 and 001 let threads yield and take each yield for a switch. Until Linux 6.5
(CFS) it mostly was one. Since 6.6 (EEVDF) a thread that is still entitled to run is
chosen again: schedule() by a kernel thread that does not sleep only enters and leaves
the scheduler, while sched_yield() gives up the rest of its slice first. Whoever divides
a time by such yields measures an unknown mixture.

Two threads of one CPU do nothing but yield, and the kernel's own counts say how often
one was switched to. Counts may be compared between kernels, unlike times, so this is
the experiment to run in two guests: ``--engine vm --guest 6.1-amd64,6.12-amd64``.
`swtch replicate` does so by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from swtch.engines import Clock
from swtch.experiments import BEYOND, Experiment, Main, Metric, Policy, Setting, shape
from swtch.records import Model, Sample, Scalar, Trial

NAME: Final = "eevdf-yield"
MODELS: Final[tuple[Model, ...]] = ("kthread", "process", "pthread")
SWITCHED: Final = "switched_of_100"
THREADS: Final = 2
YIELDS: Final = 20_000  # of each thread
YIELDS_QUICK: Final = 10_000  # fewer, and the first thread is done before the second begins
GUEST_YIELDS_QUICK: Final = 2_000  # an emulated processor is some twenty times slower
# A process yields as a pthread does.
QUICK_MODELS: Final[tuple[Model, ...]] = ("kthread", "pthread")


def policies(setting: Setting) -> tuple[Policy, ...]:
    """In a guest everybody may be SCHED_FIFO."""
    if setting.quick:
        return ("other",)
    return ("other", "batch", "fifo") if setting.guest else ("other", "batch")


def yields(setting: Setting) -> int:
    """Of each thread."""
    if not setting.quick:
        return YIELDS
    return GUEST_YIELDS_QUICK if setting.guest else YIELDS_QUICK


def shortened(setting: Setting) -> str:
    """What this setting leaves out, in one line."""
    if not setting.quick:
        return ""
    return f"{yields(setting):,} yields of 20,000, with SCHED_OTHER only, no processes"


def _trial(model: Model, policy: Policy, setting: Setting) -> Trial:
    factors: dict[str, Scalar] = {
        "call": "schedule()" if model == "kthread" else "sched_yield()",
        "cpus_used": 1,
        "policy": policy,
    }
    probe = setting.probe(
        "scenario",
        model,
        threads=THREADS,
        iterations=yields(setting),
        every=1,
        intervention="yield",
        sleep_ns=1000,
    )
    probe["policy"] = policy
    return setting.trial(NAME, f"{policy}/{model}", probe, factors)


def models(setting: Setting) -> tuple[Model, ...]:
    """Those that this setting measures: in a quick run not what is like another."""
    wanted = [model for model in MODELS if model in setting.models]
    few = [model for model in wanted if model in QUICK_MODELS]
    return tuple(few if setting.quick and few else wanted)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Two threads of a model that yield to one another, by policy."""
    return tuple(
        _trial(model, policy, setting) for policy in policies(setting) for model in models(setting)
    )


def switched(sample: Sample) -> float | None:
    """Of a hundred yields, how many the kernel counted as switches; None where it did not.

    A yield is one addition to the counter, so as many are expected of it as there were yields.
    """
    yielded = sample.values.get("expected")
    counts = [
        thread.nvcsw + thread.nivcsw
        for thread in sample.threads
        if thread.nvcsw is not None and thread.nivcsw is not None
    ]
    if not yielded or len(counts) != THREADS:
        return None
    return 100 * sum(counts) / yielded


METRICS: Final[Mapping[str, Metric]] = {
    SWITCHED: Metric(unit="of 100 yields", of_sample=switched),
}


EXPERIMENT = Experiment(
    name=NAME,
    title="Which yields are switches",
    study=BEYOND,
    question="How many of the yields that are taken for switches are any, by kernel?",
    models=MODELS,
    seconds=0.1,
    seconds_at={("vm", "quick"): 0.15},
    trials=trials,
    series=("6.1", "6.12"),
    shortened=shortened,
    metrics=METRICS,
    # Not nivcsw: it grows with the number of yields asked for, which a quick run has fewer of.
    main=dict.fromkeys(get_args(Clock), Main(SWITCHED, "neither")),
    factors=shape(call=str, policy=str),
)
