# SPDX-License-Identifier: Apache-2.0
"""Beyond the studies: an echo server, by how it waits for its connections.

Programs that wait are what threads are for. Many connections and one server that sends
back what it reads, over TCP on the loopback device:

- ``loop``: written by hand, one epoll loop on each CPU and no threads. The measure.
- ``threads``: a pthread for each connection, which sleeps in recv().
- ``epoll``, ``uring``: a uthread for each, the same text with the runtime's calls, by each
  of its back ends.
- ``net``: a goroutine for each, by Go's net; a task for each, by tokio's.

One load asks them all, a process of its own on another CPU where there is one, in two
phases: closed, in which each connection asks again when it was answered, says how many
requests a second the server gets through; open, in which requests have moments of their
own whatever became of those before, says how long they take, from those moments (no
coordinated omission). With ``hogs`` an endless loop a CPU is in the server, of the
server's own kind of thread. Who of its threads gets the CPU then is all that differs.

Natively only: a guest has no other runtimes, and an emulated one no network that anybody
would wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import (
    BEYOND,
    Count,
    Experiment,
    Main,
    Mains,
    Metric,
    Policy,
    Setting,
    less,
    shape,
    value,
)
from swtch.records import Depth, Model, Scalar, Trial

NAME: Final = "io-echo"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread", "go", "tokio")
# In the order in which they are shown.
ARMS: Final[tuple[tuple[Model, str], ...]] = (
    ("pthread", "loop"),
    ("pthread", "threads"),
    ("uthread", "epoll"),
    ("uthread", "uring"),
    ("go", "net"),
    ("tokio", "net"),
)
CONNECTIONS: Final = (10, 1_000, 10_000)
# Of the quick run, of two workers and of the heavy load.
MOST: Final = 1_000
BYTES: Final = 64
# Requests a second of the open phase. Light is far below what any of them can do, so that
# what is late is late for another reason; heavy is a part of what the loop can, and about
# what a pthread for each connection can.
LIGHT: Final = 10_000
HEAVY: Final = 40_000
CLOSED_NS: Final[Mapping[Depth, int]] = {
    "quick": 40_000_000,
    "normal": 100_000_000,
    "paper": 1_000_000_000,
}
OPEN_NS: Final[Mapping[Depth, int]] = {
    "quick": 100_000_000,
    "normal": 400_000_000,
    "paper": 5_000_000_000,
}
HOGS: Final = 1
POLICY: Final[Policy] = "other"
TICK_NS: Final = 1_000_000
TIMEOUT_S: Final = 120.0

QUICK: Final = "1 000 connections, the heavy load and one worker only, 4 000 requests of it"
SHARED_NOTE: Final = "no CPU is left for the load here, so it shares one with the server"


def _ratio(unit: str, above: str, below: str, scale: float = 1.0) -> Metric:
    def computed(values: Mapping[str, float | int]) -> float | None:
        over, under = values.get(above), values.get(below)
        return scale * over / under if over is not None and under else None

    return Metric(unit=unit, of=computed)


THROUGHPUT: Final = "throughput_rps"
P99: Final = "p99_ns"
METRICS: Final[Mapping[str, Metric]] = {
    THROUGHPUT: _ratio("requests/s", "closed_answers", "closed_ns", 1e9),
    "cpu_ns": _ratio("ns", "closed_cpu_ns", "closed_answers"),
    "busy": _ratio("share", "closed_cpu_ns", "closed_ns"),
    "least_served": _ratio("share", "closed_least", "closed_most"),
    "p50_ns": value("latency_p50_ns", "ns"),
    P99: value("latency_p99_ns", "ns"),
    "answer_p99_ns": value("answer_p99_ns", "ns"),
    "p999_ns": value("latency_p999_ns", "ns"),
    "worst_ns": value("latency_max_ns", "ns"),
    "load_late_ns": value("late_p99_ns", "ns"),
    "unanswered": value("open_unanswered", "requests"),
    "kernel_switches": _ratio("switches", "server_nvcsw", "requests"),
    "own_switches": _ratio("switches", "switches", "requests"),
}


def _trial(
    model: Model, by: str, connections: int, rate: int, workers: int, hogs: int, setting: Setting
) -> Trial:
    cpus = setting.cpus[: workers + 1]
    factors: dict[str, Scalar] = {
        "by": by,
        "connections": connections,
        "rate": rate,
        "workers": workers,
        "hogs": hogs,
        "cpus_used": len(cpus),
        "policy": POLICY,
    }
    probe = {
        "schema": 1,
        "probe": "io-echo",
        "model": model,
        "by": by,
        "connections": connections,
        "bytes": BYTES,
        "workers": workers,
        "hogs": hogs,
        "closed_ns": CLOSED_NS[setting.depth],
        "open_ns": OPEN_NS[setting.depth],
        "rate": rate,
        "cpus": list(cpus),
        "policy": POLICY,
        "seed": 0,
    }
    if model == "uthread":
        probe["tick_ns"] = TICK_NS
    return setting.trial(
        NAME,
        f"{workers}/{connections}/{rate}/{'hogs' if hogs else 'quiet'}/{by}/{model}",
        probe,
        factors,
        SHARED_NOTE if len(cpus) == workers else "",
        timeout_s=max(setting.timeout_s, TIMEOUT_S),
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Each server by connections, quiet and beside hogs, on one CPU and on two."""
    if setting.guest:
        return ()
    cases = [(1, MOST, HEAVY)]
    if not setting.quick:
        cases += [(1, number, LIGHT) for number in CONNECTIONS]
    if not setting.quick and len(setting.cpus) > 1:
        cases.append((2, MOST, LIGHT))
    return tuple(
        _trial(model, by, connections, rate, workers, hogs, setting)
        for workers, connections, rate in cases
        for hogs in (0, HOGS)
        for model, by in ARMS
        if model in setting.models
    )


def _main(trial: Trial) -> Mains:
    """How much where nothing disturbs, how late where something does."""
    return {"time": Main(P99) if trial.factors["hogs"] else Main(THROUGHPUT, "more")}


EXPERIMENT = Experiment(
    name=NAME,
    title="An echo server",
    study=BEYOND,
    question="How many requests does a server answer, how late, and beside threads that compute?",
    models=MODELS,
    seconds=0.9,
    seconds_at={("native", "quick"): 0.3},
    trials=trials,
    metrics=METRICS,
    main=_main,
    shortened=less(QUICK, "natively only"),
    factors=shape(by=str, connections=Count, rate=Count, workers=Count, hogs=Count),
)
