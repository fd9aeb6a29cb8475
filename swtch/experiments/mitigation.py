# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: what an indirect-branch prediction barrier adds to a switch.

Mitigations are usually compared by booting twice. One of them a task can ask for
by itself, without privilege: prctl(PR_SET_SPECULATION_CTRL,
PR_SPEC_INDIRECT_BRANCH, PR_SPEC_DISABLE) makes the kernel issue a barrier when that
task's address space is switched to or from (cond_mitigation() in
arch/x86/mm/tlb.c). So one kernel shows a switch with and without, in one run. Within
one address space there is no barrier: pthreads that ask for it are the control.

A kernel that was told at boot to issue it always, or never, refuses the request.
That is an answer, not a failure: the sample keeps it, and has no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import BEYOND, EACH, Experiment, Metric, Setting, less, ping, shape, value
from swtch.records import Model, Scalar, Trial

NAME: Final = "mitigation"
MODELS: Final[tuple[Model, ...]] = ("process", "pthread")
ASKED: Final[Mapping[Model, tuple[str, ...]]] = {
    "process": ("none", "one", "all"),
    "pthread": ("none", "one"),
}
BATCHES: Final = 400
BATCHES_QUICK: Final = 100

QUICK: Final = "a quarter of the hand-overs"
GUEST: Final = "few hand-overs; an emulated processor has no branch predictor to protect"


def _each(unit: str) -> Metric:
    """The time of a hand-over, unless the kernel refused what it was to be measured with."""

    def allowed(values: Mapping[str, float | int]) -> float | None:
        return None if values.get("fence_errno") else values.get(f"each_p50_{unit}")

    return Metric(unit=unit, of=allowed)


METRICS: Final[Mapping[str, Metric]] = {
    "each_ns": _each("ns"),
    "each_instructions": _each("instructions"),
    "fence_errno": value("fence_errno", "errno"),
    "fence_state": value("fence_state", "state"),
    "handovers": value("handovers", "hand-overs"),
}


def _trial(model: Model, asked: str, setting: Setting) -> Trial:
    probe = ping.ring(model, "futex", setting)
    probe["barrier"] = asked
    if not setting.guest:
        probe["batches"] = BATCHES_QUICK if setting.quick else BATCHES
    factors: dict[str, Scalar] = {"barrier": asked, "cpus_used": 1, "policy": setting.policy}
    return setting.trial(NAME, f"{asked}/{model}", probe, factors)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Two that hand over by a futex: nobody, one or both ask for the barrier."""
    return tuple(
        _trial(model, asked, setting)
        for model in MODELS
        if model in setting.models
        for asked in ASKED[model]
    )


EXPERIMENT = Experiment(
    pictured=True,
    name=NAME,
    title="A branch barrier, asked for by one task",
    study=BEYOND,
    question="What does a switch cost more when one of the two asks for a prediction barrier?",
    models=MODELS,
    seconds=0.08,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(barrier=str),
)
