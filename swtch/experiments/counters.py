# SPDX-License-Identifier: Apache-2.0
"""Study 004, figures 4 and 6 to 12: what the caches and the TLB miss for a switch.

The walk of ``working-set`` for several sizes in one trial; counted for a unit of work of
one thread alone, and of two in turns: load misses of L1i, L1d and dTLB, instructions.

Where the kernel lets a program have the processor's counters, they are used (engine
native). Most clouds have none; then times are all that is measured, and the exact engine
counts by a model of caches and a TLB with the geometry of the trial: the study's, which
its claims are about, or this machine's. The two are never in one table: engines are
places. The kernel is part of both where it may be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec

from swtch.experiments import Experiment, Main, Metric, Setting, shape, value
from swtch.experiments.direct_cost import Way, request
from swtch.records import Depth, Model, Scalar, Trial

NAME: Final = "counters"
WAYS: Final = (Way("process", "pipe"), Way("pthread", "pipe"), Way("uthread", "locks"))
MODELS: Final[tuple[Model, ...]] = tuple(way.model for way in WAYS)
MODES: Final = ("single", "switch")
EVENTS: Final[Mapping[str, str]] = {
    "l1i": "L1i load misses",
    "l1d": "L1d load misses",
    "dtlb": "dTLB load misses",
    "instructions": "instructions",
}
# Of a model only: what dTLB load misses would be, had all of the kernel's pages 4 KiB.
PAGES_4K: Final = "dtlb_4k"

KIB: Final = 1 << 10
SIZES: Final = tuple(1 << power for power in range(10, 21))
SMALL_SIZES: Final = tuple(size * KIB for size in (4, 8, 16, 32, 64, 128, 256))
STRIDES: Final = (8, 64, 256)
# Whatever a run leaves out, claims are about this one: a line for each element.
STRIDE: Final = 64

GEOMETRIES: Final = ("paper", "here", "prefetch")
# By depth, the first so many: each is a boot for each model.
GEOMETRIES_AT: Final[Mapping[Depth, int]] = {"quick": 1, "normal": 2, "paper": 3}
EXACT_NOTES: Final[Mapping[str, str]] = {
    "paper": "counted by a model of the study's caches and dTLB (32 KB, 256 KB, 64 entries)",
    "here": "counted by a model of this machine's caches; the dTLB is the study's",
    "prefetch": "the same with a next-line prefetcher, which this machine may have or not",
}


def cell_name(size: int, stride: int) -> str:
    return f"{size}_{stride}"


def metric(mode: str, event: str, size: int, stride: int, per_thousand: bool = False) -> str:
    """The name of what was counted for one unit of work of a cell."""
    return f"{mode}_{event}_{cell_name(size, stride)}" + ("_ki" if per_thousand else "")


def grid(setting: Setting) -> tuple[tuple[int, int], ...]:
    """The cells, as (bytes, stride); the first has no walk."""
    small = setting.quick
    sizes, strides = (SMALL_SIZES, (STRIDE,)) if small else (SIZES, STRIDES)
    return ((KIB, 0), *((size, stride) for stride in strides for size in sizes))


def passes(size: int, stride: int, setting: Setting) -> int:
    """Of the token to each thread in a round; an emulated processor is far slower."""
    elements = size // 8 if stride else 0
    if not setting.guest:
        budget = 300_000 if setting.quick else 10_000_000
        return max(10, min(20_000, budget // (elements + 500)))
    return max(3, min(100, 50_000 // (elements + 500)))


# Two arrays that fill L1d: the switch evicts what the other thread has there.
MAIN: Final = Main(metric("switch", "l1d", 32 * KIB, STRIDE))


def _per_thousand(
    mode: str, event: str, cell: str
) -> Callable[[Mapping[str, float]], float | None]:
    def of(values: Mapping[str, float]) -> float | None:
        misses = values.get(f"{mode}_{event}_{cell}")
        instructions = values.get(f"{mode}_instructions_{cell}")
        return misses / instructions * 1000 if misses is not None and instructions else None

    return of


def _metrics() -> dict[str, Metric]:
    metrics: dict[str, Metric] = {}
    for size, stride in ((KIB, 0), *((size, stride) for stride in STRIDES for size in SIZES)):
        cell = cell_name(size, stride)
        for mode in MODES:
            for event in EVENTS:
                name = metric(mode, event, size, stride)
                metrics[name] = value(name, "a unit of work")
                if event != "instructions":
                    ki = metric(mode, event, size, stride, per_thousand=True)
                    of = _per_thousand(mode, event, cell)
                    metrics[ki] = Metric(unit="a thousand instructions", of=of)
            small = metric(mode, PAGES_4K, size, stride)
            metrics[small] = value(small, "a unit of work")
    metrics["l1d_kib"] = value("l1d_bytes", "KiB", 1 / KIB)
    return metrics


def _trial(way: Way, geometry: str, setting: Setting) -> Trial:
    exact = setting.counting
    factors: dict[str, Scalar] = {"way": way.by, "cpus_used": 1, "policy": setting.policy}
    rounds = 1 if exact else 5
    cells = [
        {"bytes": size, "stride": stride, "passes": passes(size, stride, setting)}
        for size, stride in grid(setting)
    ]
    probe = request(way, cells, rounds, setting)
    note = ""
    if exact:
        factors["geometry"] = geometry
        probe["caches"] = geometry
        note = EXACT_NOTES[geometry]
    else:
        probe["count"] = True
    return setting.trial(
        NAME, f"{f'{geometry}/' if exact else ''}{way.model}", probe, factors, note
    )


def shortened(setting: Setting) -> str:
    return "seven sizes and one stride of the study's" if setting.quick else ""


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Each model with all cells; in the exact engine for the depth's geometries."""
    geometries = GEOMETRIES[: GEOMETRIES_AT[setting.depth] if setting.counting else 1]
    return tuple(
        _trial(way, geometry, setting)
        for geometry in geometries
        for way in WAYS
        if way.model in setting.models
    )


Cache = Annotated[list[int], msgspec.Meta(min_length=2)]


class Geometry(msgspec.Struct):
    """The caches that counted, where those are a model's."""

    l1i: Cache
    l1d: Cache
    l2: Cache
    tlb: Cache
    flush: bool
    note: str
    tlb2m: Cache | msgspec.UnsetType = msgspec.UNSET


class Counted(msgspec.Struct):
    """A sample's detail."""

    model: Geometry | msgspec.UnsetType = msgspec.UNSET


EXPERIMENT = Experiment(
    name=NAME,
    title="What the caches and the TLB miss for a switch",
    # Each is a boot under the cache model: minutes, which a quick run does not have.
    exact_at=("normal", "paper"),
    study="004",
    question="Which misses does a switch add, and from which size of the threads' arrays on?",
    models=MODELS,
    seconds=1.0,
    seconds_at={("native", "quick"): 0.15},
    trials=trials,
    metrics=_metrics(),
    main=dict.fromkeys(("time", "instructions"), MAIN),
    shortened=shortened,
    factors=shape(way=str),
    detail=Counted,
)
