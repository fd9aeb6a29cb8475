# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: where it pays to run a program for pthreads under `uthread-run`.

One program, compiled for pthreads, that knows of nothing else (probes/plain), in two
models: as it is, and the same file with its threads made uthreads. What differs is who
schedules them; the program, the load on it and what is counted are the same.

- ``echo``: a server with a thread for each connection, asked by the load of `io-echo`;
  with ``hogs`` a thread a CPU computes in it without end.
- ``queue``: producers and consumers with a buffer between them, by a mutex and two
  conditions: who waits is woken, so each item may cost a switch.
- ``mutex``: one sum under one mutex, rarely contended: the runtime can only lose there.

The last two have 2 threads, 200 and 1000, and the same number of items in all. With two
threads and two CPUs there is nothing to gain from a scheduler of one's own, and it should
cost nothing.

``AIMS`` are what the runtime set itself for such programs. The chapter judges them by the
lab's rule; no study claims them, so no verdict counts them and no budget is spent on them.

Natively only: a guest has no network that anybody would wait for, and not these programs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from swtch.experiments import BEYOND, Count, Experiment, Main, Mains, Metric, Policy, Setting, less
from swtch.records import Depth, Model, Scalar, Trial

NAME: Final = "drop-in"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
POLICY: Final[Policy] = "other"

CONNECTIONS: Final = (10, 1_000, 10_000)
SOME: Final = 1_000  # of the quick run, and of two workers
MOST: Final = 10_000
BYTES: Final = 64
# Requests a second of the open phase: what either model answers on a part of one CPU. Beyond
# that a latency tells how long the phase was.
RATE: Final = 10_000
CLOSED_NS: Final[Mapping[Depth, int]] = {
    "quick": 40_000_000,
    "normal": 200_000_000,
    "paper": 1_000_000_000,
}
OPEN_NS: Final[Mapping[Depth, int]] = {
    "quick": 100_000_000,
    "normal": 400_000_000,
    "paper": 5_000_000_000,
}
HOGS: Final = 1

WAYS: Final = ("queue", "mutex")
THREADS: Final = (2, 200, 1_000)
FEW: Final = 2
ITEMS: Final[Mapping[Depth, int]] = {"quick": 30_000, "normal": 100_000, "paper": 1_000_000}
# A mutex alone costs a tenth of what a hand-over by a condition does.
MORE_ITEMS: Final[Mapping[str, int]] = {"queue": 1, "mutex": 5}
ROOM: Final = 16
INSIDE: Final = 20
OUTSIDE: Final = 200
TIMEOUT_S: Final = 120.0

QUICK: Final = (
    "1 000 connections and one worker only, 1 000 requests at fixed moments, queues of 2 and 200"
    " threads with a third of the items, and no mutex alone"
)
SHARED_NOTE: Final = "no CPU is left for the load here, so it shares one with the server"
ONE_CPU_NOTE: Final = "one CPU, where its two threads were to have one each"


def _either(unit: str, scale: float, *fractions: tuple[str, str]) -> Metric:
    """The first of these ratios that the sample has both numbers of."""

    def computed(values: Mapping[str, float | int]) -> float | None:
        for above, below in fractions:
            over, under = values.get(above), values.get(below)
            if over is not None and under:
                return scale * over / under
        return None

    return Metric(unit=unit, of=computed)


def _first(unit: str, *names: str) -> Metric:
    def computed(values: Mapping[str, float | int]) -> float | None:
        return next((values[name] for name in names if name in values), None)

    return Metric(unit=unit, of=computed)


THROUGHPUT: Final = "throughput_rps"
ITEM_RATE: Final = "items_mps"
P99: Final = "p99_ns"
METRICS: Final[Mapping[str, Metric]] = {
    THROUGHPUT: _either("requests/s", 1e9, ("closed_answers", "closed_ns")),
    ITEM_RATE: _either("million a second", 1e3, ("items", "wall_ns")),
    "cpu_ns": _either("ns", 1, ("closed_cpu_ns", "closed_answers"), ("cpu_ns", "items")),
    "busy": _either("share", 1, ("closed_cpu_ns", "closed_ns")),
    "p50_ns": _first("ns", "latency_p50_ns", "took_p50_ns"),
    P99: _first("ns", "latency_p99_ns", "took_p99_ns"),
    "p999_ns": _first("ns", "latency_p999_ns", "took_p999_ns"),
    "worst_ns": _first("ns", "latency_max_ns", "took_max_ns"),
    "answer_p99_ns": _first("ns", "answer_p99_ns"),
    "unanswered": _first("requests", "open_unanswered"),
    "kernel_threads": _first("threads", "server_threads"),
    "kernel_switches": _either(
        "switches", 1, ("server_nvcsw", "requests"), ("process_nvcsw", "items")
    ),
}


@dataclass(frozen=True, kw_only=True)
class Aim:
    """How many times that of pthreads a metric is to be in these cases: at least or at most."""

    text: str
    metric: str
    factors: Mapping[str, Scalar]
    low: float = -math.inf
    high: float = math.inf

    def about(self, trial: Trial) -> bool:
        return all(trial.factors.get(name) == wanted for name, wanted in self.factors.items())

    @property
    def wanted(self) -> str:
        at_least = math.isfinite(self.low)
        return f"at least {self.low:g}" if at_least else f"at most {self.high:g}"


AIMS: Final = (
    Aim(
        text=f"the requests answered with {MOST} connections",
        metric=THROUGHPUT,
        factors={"way": "echo", "connections": MOST, "hogs": 0},
        low=1.5,
    ),
    Aim(
        text=f"the p99 with {MOST} connections",
        metric=P99,
        factors={"way": "echo", "connections": MOST, "hogs": 0},
        high=0.5,
    ),
    *(
        Aim(
            text=f"the p99 with {number} connections beside a hog",
            metric=P99,
            factors={"way": "echo", "connections": number, "hogs": HOGS},
            high=0.2,
        )
        for number in CONNECTIONS
    ),
    *(
        Aim(
            text=f"the items of {FEW} threads, a CPU each ({way})",
            metric=ITEM_RATE,
            factors={"way": way, "threads": FEW, "cpus_used": FEW},
            low=0.95,
        )
        for way in WAYS
    ),
)


def _of(
    setting: Setting, case: str, probe: Mapping[str, Any], factors: Mapping[str, Scalar], note: str
) -> tuple[Trial, ...]:
    """One case, in each model."""
    timeout_s = max(setting.timeout_s, TIMEOUT_S)
    return tuple(
        setting.trial(
            NAME,
            f"{case}/{model}",
            {"schema": 1, **probe, "model": model, "policy": POLICY, "seed": 0},
            {**factors, "policy": POLICY},
            note,
            timeout_s=timeout_s,
        )
        for model in MODELS
        if model in setting.models
    )


def _echo(setting: Setting, workers: int, connections: int, hogs: int) -> tuple[Trial, ...]:
    cpus = setting.cpus[: workers + 1]
    probe = {
        "probe": "io-echo",
        "by": "plain",
        "connections": connections,
        "bytes": BYTES,
        "workers": workers,
        "hogs": hogs,
        "closed_ns": CLOSED_NS[setting.depth],
        "open_ns": OPEN_NS[setting.depth],
        "rate": RATE,
        "cpus": list(cpus),
    }
    factors: dict[str, Scalar] = {
        "way": "echo",
        "connections": connections,
        "workers": workers,
        "hogs": hogs,
        "cpus_used": len(cpus),
    }
    how = "hogs" if hogs else "quiet"
    note = SHARED_NOTE if len(cpus) == workers else ""
    return _of(setting, f"echo/{workers}/{connections}/{how}", probe, factors, note)


def _lock(setting: Setting, way: str, threads: int) -> tuple[Trial, ...]:
    cpus = setting.cpus[:FEW]
    probe: dict[str, Any] = {
        "probe": "plain",
        "way": way,
        "threads": threads,
        "items": ITEMS[setting.depth] * MORE_ITEMS[way],
        "cpus": list(cpus),
    }
    if way == "queue":
        probe["room"] = ROOM
    else:
        probe |= {"inside": INSIDE, "outside": OUTSIDE}
    factors: dict[str, Scalar] = {"way": way, "threads": threads, "cpus_used": len(cpus)}
    note = ONE_CPU_NOTE if threads == FEW and len(cpus) < FEW else ""
    return _of(setting, f"{way}/{threads}", probe, factors, note)


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Each program in both models, by how many threads it has."""
    if setting.guest:
        return ()
    if setting.quick:
        echoes = [_echo(setting, 1, SOME, hogs) for hogs in (0, HOGS)]
        locks = [_lock(setting, "queue", threads) for threads in THREADS[:2]]
        return tuple(one for both in (*echoes, *locks) for one in both)
    echoes = [_echo(setting, 1, number, hogs) for number in CONNECTIONS for hogs in (0, HOGS)]
    if len(setting.cpus) > 1:
        echoes.append(_echo(setting, 2, SOME, 0))
    locks = [_lock(setting, way, threads) for way in WAYS for threads in THREADS]
    return tuple(one for both in (*echoes, *locks) for one in both)


def _main(trial: Trial) -> Mains:
    """How much is done where nothing disturbs, how late a request is where something does."""
    if trial.factors["way"] != "echo":
        return {"time": Main(ITEM_RATE, "more")}
    return {"time": Main(P99) if trial.factors["hogs"] else Main(THROUGHPUT, "more")}


class Factors(msgspec.Struct):
    """What is read of a trial: of the server who asks, of a program how many threads."""

    way: str
    connections: Count | None = None
    workers: Count | None = None
    hogs: Count | None = None
    threads: Count | None = None

    def __post_init__(self) -> None:
        echo = (self.connections, self.workers, self.hogs)
        if None in (echo if self.way == "echo" else (self.threads,)):
            raise ValueError(f"a factor is missing of the way {self.way}")


EXPERIMENT = Experiment(
    name=NAME,
    title="A program for pthreads on uthreads",
    study=BEYOND,
    question="Where does it pay to run a program that was written for pthreads on uthreads?",
    models=MODELS,
    seconds=1.2,
    seconds_at={("native", "quick"): 0.3},
    trials=trials,
    metrics=METRICS,
    main=_main,
    shortened=less(QUICK, "natively only"),
    factors=Factors,
)
