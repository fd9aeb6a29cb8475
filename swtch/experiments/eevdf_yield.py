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

from typing import Final, get_args

from swtch.engines import Clock
from swtch.experiments import BEYOND, Experiment, Main, Policy, Setting
from swtch.records import Model, Sample, Scalar, Trial

NAME: Final = "eevdf-yield"
MODELS: Final[tuple[Model, ...]] = ("kthread", "process", "pthread")
THREADS: Final = 2
YIELDS: Final = 20_000  # of each thread
YIELDS_QUICK: Final = 10_000  # fewer, and the first thread is done before the second begins
GUEST_YIELDS_QUICK: Final = 4_000  # an emulated processor is some twenty times slower

QUICK_NOTE: Final = "quick: half of the yields, and with SCHED_OTHER only"
GUEST_QUICK_NOTE: Final = "quick: a fifth of the yields, and with SCHED_OTHER only"


def policies(setting: Setting) -> tuple[Policy, ...]:
    """In a guest everybody may be SCHED_FIFO."""
    if setting.quick:
        return ("other",)
    return ("other", "batch") if setting.engine == "native" else ("other", "batch", "fifo")


def _yields(setting: Setting) -> tuple[int, str]:
    """Of each thread, and why not all."""
    if not setting.quick:
        return YIELDS, ""
    if setting.engine == "native":
        return YIELDS_QUICK, QUICK_NOTE
    return GUEST_YIELDS_QUICK, GUEST_QUICK_NOTE


def _trial(model: Model, policy: Policy, setting: Setting) -> Trial:
    yields, note = _yields(setting)
    factors: dict[str, Scalar] = {
        "call": "schedule()" if model == "kthread" else "sched_yield()",
        "cpus_used": 1,
        "policy": policy,
    }
    probe = {
        "schema": 1,
        "probe": "scenario",
        "model": model,
        "threads": THREADS,
        "iterations": yields,
        "every": 1,
        "intervention": "yield",
        "sleep_ns": 1000,
        "cpus": [setting.cpus[0]],
        "policy": policy,
        "seed": 0,
    }
    return Trial(
        id=f"{NAME}/{policy}/{model}",
        experiment=NAME,
        model=model,
        engine=setting.engine,
        factors=factors,
        probe=probe,
        note=note,
        timeout_s=setting.timeout_s,
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Two threads of a model that yield to one another, by policy."""
    return tuple(
        _trial(model, policy, setting)
        for policy in policies(setting)
        for model in MODELS
        if model in setting.models
    )


def switched(trial: Trial, sample: Sample) -> float | None:
    """Switches for each yield, as the kernel counted them; None where it did not."""
    counts = [
        (thread.nvcsw or 0) + (thread.nivcsw or 0)
        for thread in sample.threads
        if thread.nvcsw is not None
    ]
    if len(counts) != trial.probe["threads"]:
        return None
    return sum(counts) / (int(trial.probe["threads"]) * int(trial.probe["iterations"]))


EXPERIMENT = Experiment(
    name=NAME,
    title="Which yields are switches",
    study=BEYOND,
    question="How many of the yields that are taken for switches are any, by kernel?",
    models=MODELS,
    seconds=0.1,
    seconds_at={("vm", "quick"): 0.25},
    trials=trials,
    series=("6.1", "6.12"),
    main=dict.fromkeys(get_args(Clock), Main("nivcsw", "neither")),
)
