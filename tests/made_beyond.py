# SPDX-License-Identifier: Apache-2.0
"""Made-up samples of the experiments beyond the studies, beside those of ``synthetic``.

Trials are those of the definitions; a time is given by a function of the trial, so
that a test says which of two is slower and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from synthetic import Scene, placed, sample, spread, threads

from swtch.experiments import Setting, get
from swtch.records import Depth, Engine, Trial

CPUS = (0, 1)


def trials(
    experiment: str,
    *,
    engine: Engine = "native",
    guest: str = "",
    depth: Depth = "normal",
    cpus: tuple[int, ...] = CPUS,
) -> list[Trial]:
    """What the definition plans there, as the engine has it."""
    setting = Setting(cpus=cpus, models=get(experiment).models, depth=depth, engine=engine)
    return [placed(one, engine, guest) for one in get(experiment).trials(setting)]


def measured(
    scene: Scene,
    experiment: str,
    values: Callable[[Trial, float], Mapping[str, float]],
    *,
    n: int = 6,
    share: float = 0.01,
    where: Mapping[str, Any] | None = None,
    switches: int = 100,
    detail: Mapping[str, Any] | None = None,
) -> Scene:
    """Each trial with `n` samples: `values` of the trial and of a number about 1."""
    for index, one in enumerate(trials(experiment, **(where or {}))):
        kernel = one.model in ("kthread", "process", "pthread")
        made = []
        # Not in step with the next one's: a ratio has an interval, too.
        factors = spread(1.0, n, share)
        for factor in factors[index % n :] + factors[: index % n]:
            told = {"wall_ns": 1_000_000, **values(one, factor)}
            made.append(
                sample(
                    one,
                    values=told if kernel else {"switches": 2 * switches, **told},
                    threads=threads(2, nvcsw=switches, nivcsw=0) if kernel else (),
                    detail=dict(detail or {}),
                )
            )
        scene.add(one, made)
    return scene
