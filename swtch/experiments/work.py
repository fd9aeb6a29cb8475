# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: the same work in every thread library that is there (`make peers`).

`swtch peers` runs it, and nothing else does: it needs programs that nobody else needs. A
piece of work at one size is a *row*; a row has a trial for each library that can do it, and
what those have in common in ``factors`` tells rows apart (``row_of``).

Libraries without several workers, or for whom so many threads are too many, have no trial
there; what else a library cannot do its program says itself (``unmeasured``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from swtch.experiments import (
    BEYOND,
    EACH,
    Count,
    Experiment,
    Main,
    Mains,
    Metric,
    Setting,
    less,
    shape,
    time_of_each,
    value,
)
from swtch.records import Depth, Model, Scalar, Trial

NAME: Final = "work"
MODELS: Final[tuple[Model, ...]] = (
    *("pthread", "uthread", "ucontext", "go", "boost", "tokio"),
    *("context", "pth", "st", "java", "may", "cpp20", "argobots", "photon"),
)
# A uthread in both its modes; to everybody else they mean nothing.
TLS: Final[Mapping[Model, tuple[str, ...]]] = {"uthread": ("own", "shared")}
SEVERAL: Final[frozenset[Model]] = frozenset(
    {"pthread", "uthread", "go", "tokio", "java", "may", "argobots"}
)
# No more threads than so many: a limit of the kernel, time that grows with the square, or
# mappings that the kernel does not give.
MOST: Final[Mapping[Model, int]] = {
    "pthread": 10_000,
    "pth": 1_000,
    "st": 10_000,
    "may": 10_000,
    "photon": 10_000,
}
# Contexts and a queue.
BARE: Final[frozenset[Model]] = frozenset({"ucontext", "context"})
BARE_WORK: Final = frozenset(
    {"yield", "create", "batch", "skynet", "fibonacci", "queens", "increments"}
)
# Without a stack or a switch, they do less: shown, and never the peer that others are
# compared with.
LESS: Final[frozenset[Model]] = frozenset({"cpp20"})
MAIN: Final[frozenset[Model]] = frozenset({"pthread", "uthread", "tokio", "java", "may"})
LATE: Final = frozenset({"sleep", "requests"})

SPAN_NS: Final[Mapping[Depth, int]] = {
    "quick": 20_000_000,
    "normal": 60_000_000,
    "paper": 200_000_000,
}
LATE_MS: Final[Mapping[Depth, int]] = {"quick": 100, "normal": 400, "paper": 2_000}
TIMEOUT_S: Final = 120.0
QUICK: Final = "shorter batches, and no more than 1 000 threads"


@dataclass(frozen=True)
class Row:
    """One piece of work at one size; ``size`` -1: so many ms as the depth has."""

    work: str
    threads: int = 1
    size: int = 0
    workers: int = 1


def rows(depth: Depth) -> Iterator[Row]:
    """All, in the order in which they are told."""
    counts = {"quick": (10, 1_000), "normal": (10, 1_000, 100_000)}.get(
        depth, (10, 1_000, 100_000, 1_000_000)
    )
    more = (1,) if depth == "quick" else (1, 2, 4)
    yield Row("yield", 2)
    yield from (Row("yield", threads) for threads in counts)
    yield from (Row("yield", 1_000, workers=workers) for workers in more[1:])
    yield from (Row("create", workers=workers) for workers in more)
    yield Row("create-main")
    yield from (Row("batch", threads) for threads in counts[1:])
    yield Row("batch-main", 1_000)
    yield Row("channel", 2)
    yield from (Row("channel", 8, workers=workers) for workers in more if len(more) > 1)
    yield Row("condition", 2)
    yield Row("mutex")
    yield from (Row("contended", 8, workers=workers) for workers in more)
    yield from (Row("skynet", threads) for threads in counts[1:])
    yield from (Row("fibonacci", size=14, workers=workers) for workers in more)
    yield from (Row("queens", size=8, workers=workers) for workers in more)
    yield Row("increments", 1_000, 1_000)
    yield from (Row("parked", threads) for threads in counts[1:])
    yield Row("sleep", 100, -1)
    yield Row("requests", 1, -1)


WORKS: Final = tuple(dict.fromkeys(row.work for row in rows("paper")))


def can(model: Model, row: Row) -> bool:
    """Whether there is a trial of it."""
    if model in BARE and row.work not in BARE_WORK:
        return False
    if row.work.endswith("-main") and model not in MAIN:
        return False
    if row.work == "condition" and model == "tokio":
        return False
    return row.threads <= MOST.get(model, row.threads) and (row.workers == 1 or model in SEVERAL)


def row_of(trial: Trial) -> Row:
    """The row that a trial is of."""
    given = trial.factors
    size, threads, workers = (int(str(given[name])) for name in ("size", "threads", "workers"))
    return Row(str(given["work"]), threads, size, workers)


def series_of(trial: Trial) -> str:
    """Who does it: a model, and of a uthread its mode."""
    return f"{trial.model} {trial.factors['tls']}" if trial.model in TLS else trial.model


def metric_of(work: str) -> str:
    """What a piece of work is compared by."""
    return "late_p99_ns" if work in LATE else "each_ns"


def _trial(model: Model, tls: str, row: Row, setting: Setting) -> Trial:
    size = LATE_MS[setting.depth] if row.size < 0 else row.size
    factors: dict[str, Scalar] = {
        "work": row.work,
        "threads": row.threads,
        "size": size,
        "workers": row.workers,
        "tls": tls if model in TLS else "",
        "policy": "other",
    }
    probe = {
        "schema": 1,
        "probe": "work",
        "model": model,
        "work": row.work,
        "size": size,
        "threads": row.threads,
        "workers": row.workers,
        "tls": tls,
        "policy": "other",
        "span_ns": SPAN_NS[setting.depth],
        "seed": 0,
        "cpus": list(setting.cpus[: row.workers]),
    }
    parts = [row.work, str(row.threads), str(row.workers), model, *([tls] if model in TLS else [])]
    return setting.trial(
        NAME, "/".join(parts), probe, factors, timeout_s=max(setting.timeout_s, TIMEOUT_S)
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every row in every library that can do it; a guest has none of them."""
    if setting.guest:
        return ()
    return tuple(
        _trial(model, tls, row, setting)
        for row in rows(setting.depth)
        for model in MODELS
        if model in setting.models and can(model, row)
        for tls in TLS.get(model, ("own",))
    )


METRICS: Final[Mapping[str, Metric]] = {
    **time_of_each("operations"),
    "bytes": value("bytes", "bytes"),
    "late_p50_ns": value("late_p50_ns", "ns"),
    "late_p99_ns": value("late_p99_ns", "ns"),
}


def _main(trial: Trial) -> Mains:
    return {"time": Main("late_p99_ns")} if trial.factors["work"] in LATE else EACH


EXPERIMENT = Experiment(
    name=NAME,
    title="The same work in every thread library",
    study=BEYOND,
    question="Who is ahead at creating, switching, passing on and waiting, and by how much?",
    models=MODELS,
    seconds=0.25,
    trials=trials,
    metrics=METRICS,
    main=_main,
    shortened=less(QUICK, "natively only"),
    by_name=True,
    factors=shape(work=str, threads=Count, size=Count, workers=Count, tls=str),
)
