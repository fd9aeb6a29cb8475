# SPDX-License-Identifier: Apache-2.0
"""Made-up samples of study 004's experiments, beside those of ``synthetic``.

Trials are those of the definitions, so that a factor or an id that changes there
changes here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from synthetic import Scene, placed, sample, spread, threads

from swtch.engines.caches import PAPER
from swtch.experiments import Setting, counters, get
from swtch.experiments.counters import metric
from swtch.records import Engine, Sample, Trial

CPUS = (0, 1)
Where = Mapping[str, Any]


def trials(
    experiment: str,
    *,
    engine: Engine = "native",
    guest: str = "",
    quick: bool = False,
    **factors: Any,
) -> list[Trial]:
    """The experiment's trials that have these factors."""
    setting = Setting(
        cpus=CPUS,
        models=get(experiment).models,
        depth="quick" if quick else "normal",
        engine=engine,
    )
    found = []
    for one in get(experiment).trials(setting):
        if all(
            (one.model if name == "model" else one.factors.get(name)) == value
            for name, value in factors.items()
        ):
            made = placed(one, engine, guest)
            # A vm's guest is emulated here.
            if engine == "vm":
                made = msgspec.structs.replace(made, factors={**made.factors, "accel": "tcg"})
            found.append(made)
    return found


def trial(experiment: str, **factors: Any) -> Trial:
    """The one trial that has these factors."""
    found = trials(experiment, **factors)
    assert len(found) == 1, [one.id for one in found]
    return found[0]


def switched(one: Trial, cost_us: float, single_us: float = 1.003, **more: Any) -> Sample:
    """A good sample of direct-cost or working-set, whose switch took so long."""
    kernel = one.model in ("process", "pthread")
    values = {
        "wall_ns": 1_000_000,
        "cost_ns": cost_us * 1e3,
        "single_ns": single_us * 1e3,
        "switch_ns": (cost_us + single_us) * 1e3,
        "handovers": 200,
        "single_switches": 0,
        "l1i_bytes": 32 << 10,
        "l1d_bytes": 32 << 10,
        "l2_bytes": 256 << 10,
        **({} if kernel else {"switches": 200}),
        **more,
    }
    return sample(
        one,
        values=values,
        threads=threads(2, nvcsw=100 if kernel else None, nivcsw=0 if kernel else None, cpus=1),
        detail={"policy": "fifo", "correct": True, "counted": False},
    )


# ---- direct-cost ----


def direct(
    scene: Scene,
    model: str,
    way: str,
    us: float,
    *,
    n: int = 10,
    share: float = 0.01,
    where: Where | None = None,
    single_us: float = 1.003,
    noise: float = 0.0,
) -> Scene:
    """A way to switch that took about so long, with `noise` us besides."""
    one = trial("direct-cost", model=model, way=way, **(where or {}))
    noises = [noise * (step - 1) for step in spread(1.0, n, 1.0)]
    costs = [cost + beside for cost, beside in zip(spread(us, n, share), noises, strict=True)]
    return scene.add(one, [switched(one, cost, single_us) for cost in costs])


# ---- working-set ----


def walking(
    scene: Scene,
    model: str,
    cost: Callable[[int, int], float],
    *,
    n: int = 10,
    share: float = 0.01,
    where: Where | None = None,
    quick: bool = True,
    noise: float = 0.0,
    **more: Any,
) -> Scene:
    """Every cell of a model, at a cost by (bytes, stride); without a walk both are 0.

    ``noise`` is the standard deviation, in us, of what each invocation has besides, drawn
    anew for each but always the same.
    """
    for one in trials("working-set", model=model, quick=quick, **(where or {})):
        size, stride = (int(str(one.factors[name])) for name in ("bytes", "stride"))
        drawn = random.Random(f"{model}/{size}/{stride}")
        costs = [us + drawn.gauss(0, noise) for us in spread(cost(size, stride), n, share)]
        scene.add(one, [switched(one, us, 1.0 + size / 1e4, **more) for us in costs])
    return scene


# ---- counters ----


def counting(
    scene: Scene,
    model: str,
    misses: Callable[[str, str, int], float],
    *,
    n: int = 10,
    share: float = 0.0,
    where: Where | None = None,
    kernel: bool = True,
    geometry: str = "paper",
    strides: float = 0.0,
    turned: bool = False,
    small_pages: float = 0.0,
) -> Scene:
    """Counts by (mode, event, bytes), for every cell of a quick run; with ``small_pages``, also
    so many times the dTLB's misses as had all pages 4 KiB; with ``strides``, also of L1d by
    strides of 8 and 64, the latter so many times the former."""
    given = dict(where or {})
    exact = given.get("engine") == "exact"
    if exact:
        given["geometry"] = geometry
        detail: dict[str, Any] = {"model": PAPER.described()}
    else:
        detail = {}
    quick = geometry == "paper"
    one = trial("counters", model=model, quick=quick, **given)
    made = []
    for factor in spread(1.0, n, share)[:: -1 if turned else 1]:
        values: dict[str, float] = {
            "wall_ns": 1_000_000,
            "handovers": 200,
            "l1d_bytes": 32 << 10,
            "running": 1.0,
        }
        for size in counters.SMALL_SIZES:
            for mode in counters.MODES:
                for event in counters.EVENTS:
                    name = metric(mode, event, size, counters.STRIDE)
                    values[name] = misses(mode, event, size) * factor
                if small_pages:
                    name = metric(mode, counters.PAGES_4K, size, counters.STRIDE)
                    values[name] = misses(mode, "dtlb", size) * factor * small_pages
        for mode in counters.MODES:
            name = metric(mode, "instructions", counters.KIB, 0)
            values[name] = misses(mode, "instructions", 0) * factor
            for size in counters.SIZES if strides else ():
                for stride in (8, counters.STRIDE):
                    name = metric(mode, "l1d", size, stride)
                    values[name] = size / 64 * (1.0 if stride == 8 else strides * factor)
        made.append(
            sample(
                one,
                values=values,
                detail={"counted": True, "kernel_counted": kernel, "policy": "batch", **detail},
            )
        )
    return scene.add(one, made)


def uncounted(scene: Scene, model: str, *, n: int = 10, where: Where | None = None) -> Scene:
    """A machine without counters; in the exact engine, which always counts, nothing."""
    given = dict(where or {})
    if given.get("engine") == "exact":
        return scene
    one = trial("counters", model=model, quick=True, **given)
    told = "perf_event_open: No such file or directory"
    detail = {"counted": False, "uncounted": told, "policy": "batch"}
    values = {"wall_ns": 1_000_000, "handovers": 200}
    return scene.add(one, [sample(one, values=values, detail=detail)] * n)
