# SPDX-License-Identifier: Apache-2.0
"""Made-up samples of study 003's experiments, beside those of ``synthetic``.

Trials are those of the definitions, so that a factor or an id that changes
there changes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthetic import Scene, placed, sample, spread

from swtch.experiments import Setting, get
from swtch.records import Engine, Sample, Trial

CPUS = (0, 1)
WAITS = ("late", "response", "intended_late", "intended_response")


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
        cpus=CPUS, models=get(experiment).models, depth="quick" if quick else "normal"
    )
    return [
        placed(one, engine, guest)
        for one in get(experiment).trials(setting)
        if all(
            (one.model if name == "model" else one.factors.get(name)) == value
            for name, value in factors.items()
        )
    ]


def trial(experiment: str, **factors: Any) -> Trial:
    """The one trial that has these factors."""
    found = trials(experiment, **factors)
    assert len(found) == 1, [one.id for one in found]
    return found[0]


def valued(one: Trial, values: Mapping[str, float], **given: Any) -> Sample:
    """A good sample of it with these values."""
    return sample(one, values={"wall_ns": 1_000_000, **values}, **given)


# ---- uthread-scaling ----


def timed(
    scene: Scene,
    kind: str,
    threads: int,
    workers: int,
    ms: float,
    *,
    n: int = 10,
    share: float = 0.01,
    cpu: float = 1.0,
    beside: tuple[float, float] | None = None,
    where: Mapping[str, Any] | None = None,
) -> Scene:
    """One of the study's sizes with samples that took about so long.

    ``beside``: how many times the wall and the CPU time of their reference.
    """
    one = trial(
        "uthread-scaling",
        kind=kind,
        threads=threads,
        iterations=100_000,
        workers=workers,
        **(where or {}),
    )
    work = threads * 100_000
    return scene.add(
        one,
        [
            valued(
                one,
                {
                    "wall_ns": round(took * 1e6),
                    "create_ns": 1000,
                    "created": threads,
                    "live": 17,
                    "counter": work,
                    "expected": work,
                    "cpu_ns": round(took * cpu * 1e6),
                    "maxrss_kb": 80_000,
                },
                detail=_references(took, took * cpu, beside),
            )
            for took in spread(ms, n, share)
        ],
    )


def _references(
    wall_ms: float, cpu_ms: float, beside: tuple[float, float] | None
) -> dict[str, list[int]]:
    if beside is None:
        return {}
    names = ("reference_times_ns", "reference_cpu_ns")
    return {
        name: [round(ms * 1e6 / lead)] * 2
        for name, ms, lead in zip(names, (wall_ms, cpu_ms), beside, strict=True)
    }


# ---- preemption ----


def ticking(
    scene: Scene,
    interval_us: int,
    source: str,
    delivered: float,
    *,
    n: int = 10,
    share: float = 0.01,
    where: Mapping[str, Any] | None = None,
    overhead: float = 0.003,
    period: float = 1.1,
    waited: float = 0.0,
) -> Scene:
    """Ticks of one source that reached the worst served worker about so often.

    ``waited``: for what share of the time workers had no CPU.
    """
    one = trial(
        "preemption",
        interval_us=interval_us,
        source=source,
        mechanism="call",
        work="loop",
        **(where or {}),
    )
    quantiles = [[0.0, 2000], [0.5, 3000], [0.9, 4000], [0.99, 9000], [1.0, 50_000]]
    return scene.add(
        one,
        [
            valued(
                one,
                {
                    "gap_p10_ns": 2500,
                    "gap_p50_ns": 3000,
                    "gap_p99_ns": 9000,
                    "each_cpu_ns": 3000,
                    "overhead_cpu": overhead * part,
                    "period_p50_ns": round(interval_us * 1e3 * period * part),
                    # Others had the CPU: no fault of the signal's.
                    "period_p99_ns": round(interval_us * 1e3 * 20),
                    "delivered_least": least,
                    "delivered_most": 1.0,
                    "deferred_libc": 0,
                    "run_delay_ns": round(1_000_000 * waited),
                },
                detail={"gap_quantiles": quantiles, "period_quantiles": quantiles},
            )
            for least, part in zip(spread(delivered, n, share), spread(1.0, n, share), strict=True)
        ],
    )


# ---- starvation ----


def waking(
    scene: Scene,
    case: str,
    p99_ms: float,
    *,
    part: str = "main",
    loops: int | None = None,
    n: int = 10,
    share: float = 0.01,
    where: Mapping[str, Any] | None = None,
    waited: float = 0.0,
) -> Scene:
    """A case with samples of which one answer in a hundred was about so late."""
    factors: dict[str, Any] = {"part": part, "case": case, **(where or {})}
    if loops is not None:
        factors["loops"] = loops
    one = trial("starvation", **factors)
    return scene.add(
        one,
        [
            valued(
                one,
                {
                    f"{name}_{rank}_ns": round(p99 * 1e6 * scale)
                    for name in WAITS
                    for rank, scale in (("p50", 0.1), ("p99", 1), ("p999", 2), ("max", 3))
                }
                # A closed loop does not see how late those were that it did not ask for.
                | {f"{name}_p99_ns": 1000 for name in WAITS[:2]}
                | {"late_n": 700, "intended_late_n": 800, "asked": 800.0}
                | {"preempted": 10, "runnable": 3, "timer_slack": 1}
                | {"run_delay_ns": round(1_000_000 * waited)},
                detail={
                    f"{name}_quantiles": [[0, p99 * 1e4], [0.5, p99 * 1e5], [0.99, p99 * 1e6]]
                    for name in WAITS
                },
            )
            for p99 in spread(p99_ms, n, share)
        ],
    )


# ---- locks ----


def handing(
    scene: Scene,
    lock: str,
    waste_ticks: float,
    *,
    mode: str = "handover",
    place: str = "same",
    n: int = 10,
    share: float = 0.01,
    where: Mapping[str, Any] | None = None,
) -> Scene:
    """Hand-overs of a uthread's lock that took so many ticks beyond the owner's work."""
    one = trial("locks", lock=lock, mode=mode, place=place, **{"model": "uthread", **(where or {})})
    return scene.add(
        one,
        [
            valued(
                one,
                {
                    "waste_p50_ns": round(waste * 1e6),
                    "waste_p90_ns": round(waste * 1.1e6),
                    "wait_p50_ns": 2_000_000,
                    "wait_p90_ns": 3_000_000,
                    "pair_ns": 6.5,
                    "cpu_ns": 5_000_000,
                    "donated": 40,
                    "preempted": 40,
                    "blocked": 0,
                },
            )
            for waste in spread(waste_ticks, n, share)
        ],
    )


def contending(
    scene: Scene,
    lock: str,
    ms: float,
    *,
    place: str = "same",
    n: int = 10,
    where: Mapping[str, Any] | None = None,
) -> Scene:
    """Contenders that took a uthread's lock 80 000 times in so long."""
    one = trial(
        "locks", lock=lock, mode="contend", place=place, **{"model": "uthread", **(where or {})}
    )
    count = 80_000 * 20
    return scene.add(
        one,
        [
            valued(
                one,
                {
                    "wall_ns": round(took * 1e6),
                    "cpu_ns": round(took * 2e6),
                    "counter": count,
                    "expected": count,
                    "donated": 3,
                    "preempted": 4,
                },
            )
            for took in spread(ms, n)
        ],
    )
