# SPDX-License-Identifier: Apache-2.0
"""Study 001's future work: coroutines under I/O.

The study's coroutines never wait for anything but one another. A server's or a client's
wait for the network most of the time, and then it matters *how*: who sleeps in read()
takes the kernel thread with it. So many connections, each with a client that writes a
message and reads it back, and one echo server for all of them that is the same plain
epoll loop whoever the clients are:

- ``loop``: no threads at all, an epoll loop that knows where each connection was. The
  floor: the system calls and the server are in it, and no switch in user space.
- ``epoll``: coroutines (and ucontext's) that are parked when their answer is not there
  yet, and resumed when epoll_wait() names them; uthreads that wait on a semaphore each,
  which one more of them posts.
- ``blocking``: a pthread for each connection; and the trap, coroutines and uthreads
  that sleep in read() as well, with as many connections as show it.

Everybody makes the same system calls in the same order. The policy is SCHED_OTHER, as
programs have it: by SCHED_BATCH a server on the clients' CPU answers nobody before all
clients sleep, which hides from view what they take.

Each byte of every answer is compared: the gate ``counter`` marks a sample in which one
was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import (
    EACH,
    Count,
    Experiment,
    Main,
    Metric,
    Policy,
    Setting,
    Some,
    less,
    shape,
)
from swtch.records import Model, Scalar, Trial

NAME: Final = "coroutine-io"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread", "coroutine", "ucontext")
# As each waits best, and what each is called there.
ARMS: Final[tuple[tuple[Model, str], ...]] = (
    ("pthread", "loop"),
    ("coroutine", "epoll"),
    ("ucontext", "epoll"),
    ("uthread", "epoll"),
    ("pthread", "blocking"),
)
# A whole kernel thread sleeps where only one of many was to.
TRAPS: Final[tuple[tuple[Model, str], ...]] = (("coroutine", "blocking"), ("uthread", "blocking"))
CONNECTIONS: Final = (1, 32, 256)
CONNECTIONS_QUICK: Final = (1, 32)
TRAP_AT: Final = 32
POLICY: Final[Policy] = "other"
TICK_NS: Final = 1_000_000
BYTES: Final = 64
# Round trips of all connections together. On two CPUs each may be two wake-ups across;
# one after the other, and none of them beside another's, where they wait in turn.
TRIPS: Final = 4096
TRIPS_TWO: Final = 2048
TRIPS_IN_TURN: Final = 256
QUICK_PART: Final = 2
TRIPS_GUEST: Final = 1024

QUICK: Final = "up to 32 connections, and half of the round trips"
GUEST: Final = "one CPU, 1 and 32 connections with a quarter of the round trips"
ONE_CPU_NOTE: Final = "no second CPU is allowed here, so the server is on the clients'"


def _each(unit: str, *names: str) -> Metric:
    """The sum of so many of a sample's values, for a round trip."""

    def computed(values: Mapping[str, float | int]) -> float | None:
        trips = values.get("trips")
        parts = [values[name] for name in names if name in values]
        return sum(parts) / trips if trips and len(parts) == len(names) else None

    return Metric(unit=unit, of=computed)


def _batch(values: Mapping[str, float | int]) -> float | None:
    """How many messages the server found each time it looked."""
    trips, looks = values.get("trips"), values.get("server_waits")
    return trips / looks if trips is not None and looks else None


METRICS: Final[Mapping[str, Metric]] = {
    **{
        f"{name}_{unit}": _each(unit, f"{source}_{unit}")
        for name, source in (("each", "wall"), ("cpu", "client_cpu"), ("server", "server_cpu"))
        for unit in ("ns", "instructions")
    },
    "kernel_switches": _each("switches", "client_nvcsw", "client_nivcsw"),
    "own_switches": _each("switches", "switches"),
    "waits": _each("calls", "waits"),
    "batch": Metric(unit="messages", of=_batch),
}


def trips_of(model: Model, by: str, connections: int, cpus: int, setting: Setting) -> int:
    """Of each connection: fewer where each takes longer, and never less than 4."""
    if setting.guest:
        return max(4, TRIPS_GUEST // connections)
    in_turn = connections == 1 or (model, by) in TRAPS
    total = TRIPS if cpus == 1 else TRIPS_IN_TURN if in_turn else TRIPS_TWO
    return max(4, total // (QUICK_PART if setting.quick else 1) // connections)


def _trial(model: Model, by: str, connections: int, cpus: int, setting: Setting) -> Trial:
    factors: dict[str, Scalar] = {
        "by": by,
        "connections": connections,
        "cpus_used": cpus,
        "policy": POLICY,
    }
    probe = {
        "schema": 1,
        "probe": "io",
        "model": model,
        "by": by,
        "connections": connections,
        "trips": trips_of(model, by, connections, cpus, setting),
        "bytes": BYTES,
        "cpus": list(setting.cpus[:cpus]),
        "policy": POLICY,
        "seed": 0,
    }
    if model == "uthread":
        # Those that sleep need ticks for their spares; the others give up their worker.
        probe["tick_ns"] = TICK_NS if by == "blocking" else 0
    return setting.trial(
        NAME, f"{cpus}/{connections}/{by}/{model}", probe, factors, one_cpu_note(setting)
    )


def one_cpu_note(setting: Setting) -> str:
    alone = not setting.guest and len(setting.cpus) < 2
    return ONE_CPU_NOTE if alone else ""


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Each way to wait, by connections, the server on the clients' CPU and on another."""
    native = not setting.guest
    numbers = CONNECTIONS_QUICK if setting.quick or not native else CONNECTIONS
    return tuple(
        _trial(model, by, connections, cpus, setting)
        for cpus in (1, 2)[: len(setting.cpus) if native else 1]
        for connections in (numbers[1:] if setting.quick and cpus > 1 else numbers)
        for model, by in (*ARMS, *(TRAPS if connections == TRAP_AT else ()))
        if model in setting.models
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Coroutines under I/O",
    study="001",
    question="What does a round trip cost clients that wait in read(), parked, or in a loop?",
    models=MODELS,
    seconds=0.1,
    seconds_at={("native", "quick"): 0.05},
    trials=trials,
    metrics=METRICS,
    main={**EACH, "emulated": Main("kernel_switches", "neither")},
    shortened=less(QUICK, GUEST),
    factors=shape(by=str, connections=Count, cpus_used=Some),
)
