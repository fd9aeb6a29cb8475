# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: rings of 2 to 12 processes on one CPU, each with a few pages.

A processor marks what is in its TLB with the address space it belongs to, so that a
switch need not throw it away. How many address spaces it knows at once is the
kernel's choice: on x86-64 Linux gives a CPU six such marks (TLB_NR_DYN_ASIDS,
arch/x86/mm/tlb.c), and a ring of more processes takes a mark from another, whose
translations are flushed, at each switch. pthreads, which share one address space,
are the control: whatever else grows with the ring is in both.

A hypothesis, as far as we know untested in public: where no step is, none is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import (
    BEYOND,
    EACH,
    Count,
    Experiment,
    Metric,
    Setting,
    less,
    ping,
    shape,
    timed,
    value,
)
from swtch.records import Model, Scalar, Trial

NAME: Final = "asid-cliff"
MODELS: Final[tuple[Model, ...]] = ("process", "pthread")
MEMBERS: Final = tuple(range(2, 13))
MEMBERS_QUICK: Final = (2, 4, 5, 6, 7, 8, 10, 12)
MEMBERS_GUEST: Final = (2, 6, 8, 12)
# The kernel's marks on x86-64; the last ring within them and one well beyond.
MARKS: Final = 6
WITHIN: Final = 4
BEYOND_MARKS: Final = 8
# Enough to feel a TLB without its marks, and few enough to stay in L1d.
PAGES: Final = 32
HANDOVERS: Final = 60  # in a batch, about
BATCHES: Final = 150
BATCHES_QUICK: Final = 60

QUICK: Final = "not every size of a ring, and fewer hand-overs in each"
GUEST: Final = "a few sizes of a ring; an emulated TLB has no marks, so no step can be"

METRICS: Final[Mapping[str, Metric]] = {
    **timed(each="each_p50", floor="each_p10", tail="each_p90"),
    "handovers": value("handovers", "hand-overs"),
}


def _trial(model: Model, members: int, setting: Setting) -> Trial:
    probe = ping.ring(model, "futex", setting, members=members)
    probe["pages"] = PAGES
    if not setting.guest:
        probe["laps"] = max(1, HANDOVERS // members)
        probe["batches"] = BATCHES_QUICK if setting.quick else BATCHES
    factors: dict[str, Scalar] = {
        "members": members,
        "pages": PAGES,
        "cpus_used": 1,
        "policy": setting.policy,
    }
    return setting.trial(NAME, f"{members}/{model}", probe, factors)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Rings of both models, of each size."""
    sizes = MEMBERS_QUICK if setting.quick else MEMBERS
    if setting.guest:
        sizes = MEMBERS_GUEST
    return tuple(
        _trial(model, members, setting)
        for members in sizes
        for model in MODELS
        if model in setting.models
    )


EXPERIMENT = Experiment(
    pictured=True,
    name=NAME,
    title="Rings of more processes than the processor has marks for",
    study=BEYOND,
    question="Does a switch of address spaces become dearer when there are many of them?",
    models=MODELS,
    seconds=0.08,
    trials=trials,
    metrics=METRICS,
    main=EACH,
    shortened=less(QUICK, GUEST),
    factors=shape(members=Count),
)
