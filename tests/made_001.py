# SPDX-License-Identifier: Apache-2.0
"""Made-up samples of study 001's experiments, beside those of ``synthetic``.

Trials are those of the definitions, so that a factor or an id that changes there
changes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from synthetic import Scene, placed, sample, spread, threads

from swtch.experiments import Setting, get
from swtch.experiments import _study_001 as shared
from swtch.experiments._study_001 import Arm
from swtch.records import CarrierRecord, Depth, Sample, Trial

CPUS = (0, 1, 2, 3)
NAMES = (
    *("yield-modes", "yield-sweep", "binding", "work-scaling", "thread-count"),
    *("coroutine", "aligned"),
)
Where = Mapping[str, Any]


def trial(
    experiment: str, case: str, arm: Arm, where: Where | None = None, *, depth: Depth = "normal"
) -> Trial:
    """The one trial of this arm in this case, at a place."""
    setting = Setting(cpus=CPUS, models=get(experiment).models, depth=depth)
    (found,) = (
        one
        for one in get(experiment).trials(setting)
        if one.factors["case"] == case and one.factors["arm"] == arm.name
    )
    return placed(found, **(where or {}))


def speed(one: Trial, mops: float, **given: Any) -> Sample:
    """A good sample at a throughput, with the switches and times that belong to it.

    ``nvcsw``, ``nivcsw`` and ``utime_ns`` are each thread's; ``efficiency`` is in percent;
    ``os`` are the kernel's switches of what carries coroutines; ``cpu_ns`` is that of all.
    """
    n, work = int(str(one.factors["threads"])), int(str(one.factors["work"]))
    wall_ns = round(n * work * 1e3 / mops)
    kernel = one.model in ("pthread", "kthread")
    yields = shared.expected_yields(one) // n
    slept = one.factors["operation"] == "schedule_timeout"
    cpus = int(str(one.factors["cpus_used"]))
    nvcsw = given.pop("nvcsw", yields if slept else 0)
    nivcsw = given.pop("nivcsw", 0 if slept else yields)
    utime_ns = given.pop("utime_ns", 0 if one.model == "kthread" else wall_ns)
    cpu_ns = round(wall_ns * cpus / n * given.pop("efficiency", 90.0) / 100)
    os, all_cpu_ns = given.pop("os", 3), given.pop("cpu_ns", wall_ns)
    made = threads(
        n,
        nvcsw=nvcsw if kernel else None,
        nivcsw=nivcsw if kernel else None,
        cpus=cpus,
        wall_ns=wall_ns,
    )
    if kernel:
        times = {"utime_ns": utime_ns, "stime_ns": cpu_ns, "cpu_ns": cpu_ns}
        made = tuple(msgspec.structs.replace(one, **times) for one in made)
    carrier = CarrierRecord(
        index=0,
        tid=1,
        cpu=0,
        nvcsw=0,
        nivcsw=os,
        utime_ns=wall_ns,
        stime_ns=0,
        cpu_ns=all_cpu_ns,
    )
    values: dict[str, float] = {"wall_ns": wall_ns, "counter": n * work, "expected": n * work}
    if not kernel:
        values["switches"] = 2 * (n * yields + n)
    if one.factors["loop"] == "instrumented":
        values |= {"op_p50_ns": 60, "op_p99_ns": 90, "pause_p50_ns": 8e6, "pause_p99_ns": 9e6}
    return sample(one, values=values, threads=made, carriers=() if kernel else (carrier,), **given)


def measured(
    scene: Scene,
    experiment: str,
    case: str,
    arm: Arm,
    mops: float,
    where: Where | None = None,
    *,
    n: int = 10,
    share: float = 0.01,
    **given: Any,
) -> Scene:
    """An arm in a case with samples about a throughput; `given` goes to ``speed``."""
    one = trial(experiment, case, arm, where)
    return scene.add(one, [speed(one, mops, **given) for mops in spread(mops, n, share)])
