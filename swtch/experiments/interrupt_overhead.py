# SPDX-License-Identifier: Apache-2.0
"""Study 002, section 4: what interrupts cost the task that they interrupt.

One task interrupts itself n times while it works. With R its time without, R'
with, and D one interrupt by itself in a loop, caches warm:

    indirect I = R' - R - n D

In the kernel (kthread) it is a true interrupt to the own CPU with the kernel's
ordinary entry and exit. In user space its counterpart is a signal to the own
thread. The other method is in the same trials: over several n, the slope of
R' - R is the whole cost of one interrupt, without a D measured apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Count, Experiment, Main, Metric, PublishedKey, Setting, shape, value
from swtch.experiments.pair_overhead import (
    STEPS,
    difference,
    faithful,
    in_both_units,
    in_cycles,
    less_work,
    measuring,
    note_of,
    numbers,
    repeats,
    share,
    total,
    work,
)
from swtch.records import Depth, Model, Published, Scalar, Trial

NAME: Final = "interrupt-overhead"
MODELS: Final[tuple[Model, ...]] = ("pthread", "process", "kthread", "uthread")
TASKS: Final = tuple(STEPS)
QUICK_TASKS: Final = ("sort", "aes")
MOST: Final = 49
PAPER_INTERRUPTS: Final = tuple(range(4, MOST + 1, 5))
INTERRUPTS: Final = (9, 24, MOST)
QUICK_INTERRUPTS: Final = (9, MOST)
# One task takes half as long as a pair, and loses less.
REPEAT: Final[Mapping[Depth, int]] = {"quick": 41, "normal": 41, "paper": 5}

_SECTION: Final = "study 002, section 4.2, n = 49"
PUBLISHED: Final[Mapping[PublishedKey, Published]] = {
    **{
        (task, "kthread", "indirect_percent"): Published(value=share, unit="%", source=_SECTION)
        for task, share in (("sort", 0.01), ("deflate", 0.02), ("aes", 0.09), ("crc", 0.05))
    },
    **{
        (which, "kthread", "added_percent"): Published(
            value=share, unit="%", source=f"{_SECTION}, direct and indirect"
        )
        for which, share in (("least", 0.28), ("most", 0.38))
    },
    ("sort", "kthread", "run_s"): Published(value=3.64, unit="s", source="study 002, section 4.2"),
}


def _added_percent(values: Mapping[str, float | int]) -> float | None:
    for unit in ("ns", "instructions"):
        if {f"total_{unit}", f"r_{unit}"} <= values.keys():
            return share(values[f"total_{unit}"], values[f"r_{unit}"])
    return None


METRICS: Final[Mapping[str, Metric]] = {
    **in_both_units(
        {
            "direct": "d",
            "base": "base",
            "net": "d_net",
            "added": "total",
            "indirect": "indirect",
            "share": "indirect_a",
            "inflation": "indirect_interrupt",
        }
    ),
    **difference("direct", "indirect"),
    "added_kilocycles": in_cycles(total("total_ns")),
    "indirect_kilocycles": in_cycles(total("indirect_ns")),
    "added_percent": Metric(unit="%", of=_added_percent),
    "run_ms": value("r_ns", "ms", 1e-6),
    "run_mi": value("r_instructions", "million instructions", 1e-6),
}


def sizes(setting: Setting) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The tasks and the numbers of interrupts to measure."""
    if setting.counting or setting.quick:
        return QUICK_TASKS, QUICK_INTERRUPTS
    return TASKS, PAPER_INTERRUPTS if faithful(setting) else INTERRUPTS


def shortened(setting: Setting) -> str:
    """What this setting leaves out, in one line."""
    if setting.counting:
        return (
            "two of the study's four tasks, 9 and 49 interrupts: each invocation is a boot; and"
            " instructions know no caches"
        )
    if faithful(setting):
        return ""
    if not setting.quick:
        return f"9, 24 and 49 interrupts, {less_work(setting)}"
    return f"two of the study's four tasks, 9 and 49 interrupts, {less_work(setting)}"


def models(setting: Setting) -> tuple[Model, ...]:
    """Those that this setting measures; in a quick guest only what nobody else has."""
    few = setting.quick and setting.guest and not setting.counting and "kthread" in setting.models
    return tuple(
        model for model in MODELS if model in setting.models and (not few or model == "kthread")
    )


def _trial(task: str, n: int, model: Model, setting: Setting) -> Trial:
    policy = "fifo" if model == "kthread" else setting.policy
    factors: dict[str, Scalar] = {"task": task, "n": n, "cpus_used": 1, "policy": policy}
    probe = setting.probe(
        NAME,
        model,
        **work(task, "a", setting),
        n=n,
        repeat=repeats(setting, n == MOST, REPEAT),
        **measuring(setting),
    )
    probe["policy"] = policy
    if model == "uthread":
        probe["tick_ns"] = 0
    return setting.trial(NAME, f"{task}/{n}/{model}", probe, factors, note_of(setting))


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every task with every number of interrupts and every model."""
    tasks, interrupts = sizes(setting)
    return tuple(
        _trial(task, n, model, setting)
        for task in tasks
        for n in interrupts
        for model in models(setting)
        if n in numbers(interrupts, INTERRUPTS, model, setting)
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="A task that interrupts itself",
    study="002",
    question="What do interrupts cost a task beyond the time in which they are handled?",
    models=MODELS,
    seconds=0.1,
    seconds_at={
        ("native", "quick"): 0.35,
        ("native", "normal"): 0.5,
        ("native", "paper"): 2.2,
        ("vm", "quick"): 0.25,
    },
    repeats={"paper": 10},
    trials=trials,
    published=PUBLISHED,
    metrics=METRICS,
    main={"time": Main("direct_us"), "instructions": Main("direct_instructions")},
    shortened=shortened,
    factors=shape(task=str, n=Count),
)
