# SPDX-License-Identifier: Apache-2.0
"""Made-up samples of study 002's experiments, beside those of ``synthetic``.

Trials are those of the definitions, so that a factor or an id that changes
there changes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from synthetic import Scene, placed, sample, spread

from swtch.experiments import Setting, get
from swtch.records import Engine, Model, Trial

TASK_US = 4000.0  # what each of them takes by itself
CYCLE_PS = 300


def trial(
    experiment: str,
    model: Model,
    *,
    engine: Engine = "native",
    guest: str = "",
    accel: str = "",
    faithful: bool = False,
    **factors: Any,
) -> Trial:
    """The one trial of the experiment that has these factors."""
    setting = Setting(cpus=(0, 1), models=(model,), depth="paper" if faithful else "normal")
    (found,) = (
        one
        for one in get(experiment).trials(setting)
        if all(one.factors.get(name) == value for name, value in factors.items())
    )
    there = placed(found, engine, guest)
    more = {"accel": accel} if accel else {}
    return msgspec.structs.replace(there, factors={**there.factors, **more})


def _ns(**us: float) -> dict[str, int]:
    return {f"{name}_ns": round(value * 1000) for name, value in us.items()}


def _noise(count: int, share: float) -> list[float]:
    """From -1 to 1, symmetrical; nothing where there shall be none."""
    return [x - 1 for x in spread(1.0, count, 1.0)] if share else [0.0] * count


def switched(
    scene: Scene,
    pair: str,
    n: int,
    losses: tuple[float, float],
    *,
    model: Model = "process",
    space: str = "own",
    cold: float = 4.0,
    warm: float = 2.0,
    really: float | None = None,
    count: int = 10,
    share: float = 0.01,
    wobble: float = 0.0,
    where: Mapping[str, Any] | None = None,
) -> Scene:
    """A pair with samples in which the tasks lost so many us, and each switch between them
    took `really` (like the cold ones by themselves). What is lost varies by `share` of it and
    by `wobble` us, and no two cases vary alike."""
    one = trial("pair-overhead", model, pair=pair, n=n, space=space, **(where or {}))
    switch = cold if really is None else really
    samples = []
    noise, shift = _noise(count, share), sum(map(ord, pair)) + n // 10
    for i in range(count):
        own = [noise[(shift + i * step) % count] for step in (1, 3, 7, 9)]
        # What is lost is a difference of the whole, and so is its noise.
        a, b = (
            lost + (abs(lost) * share + wobble) * x for lost, x in zip(losses, own, strict=False)
        )
        c = cold * (1 + share * own[2])
        r, switches = 2 * TASK_US + switch, n * switch * (1 + share * own[3])
        rn = 2 * TASK_US + a + b + switches
        values = _ns(
            wall=20 * TASK_US,
            r=r,
            rn=rn,
            rn_a=TASK_US + a,
            rn_b=TASK_US + b,
            rn_switch=switches,
            c_cold=c,
            c_warm=warm,
            direct=n * c,
            indirect=rn - r - (n - 1) * c,
            indirect_warm=rn - r - (n - 1) * warm,
            indirect_a=a,
            indirect_b=b,
            indirect_switch=switches - switch - (n - 1) * c,
        )
        counts = {"n": n, "switches": 0, "cycle_ps": CYCLE_PS}
        samples.append(sample(one, values={**values, **counts}))
    return scene.add(one, samples)


def interrupted(
    scene: Scene,
    task: str,
    n: int,
    loss: float,
    *,
    model: Model = "process",
    direct: float = 3.0,
    count: int = 10,
    share: float = 0.01,
    wobble: float = 0.0,
    where: Mapping[str, Any] | None = None,
) -> Scene:
    """A task with samples in which it lost so many us beside the interrupts themselves."""
    one = trial("interrupt-overhead", model, task=task, n=n, **(where or {}))
    samples = []
    noise, shift = _noise(count, share), sum(map(ord, task)) + n // 10
    for i in range(count):
        own = [noise[(shift + i * step) % count] for step in (7, 9)]
        lost = loss + (abs(loss) * share + wobble) * own[0]
        d = direct * (1 + share * own[1])
        values = _ns(
            wall=10 * TASK_US,
            r=TASK_US,
            rn=TASK_US + lost + n * d,
            d=d,
            base=d / 3,
            d_net=d * 2 / 3,
            total=lost + n * d,
            direct=n * d,
            indirect=lost,
            indirect_a=lost,
            indirect_interrupt=0,
        )
        counts = {"n": n, "switches": 0, "cycle_ps": CYCLE_PS}
        samples.append(sample(one, values={**values, **counts}))
    return scene.add(one, samples)
