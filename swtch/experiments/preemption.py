# SPDX-License-Identifier: Apache-2.0
"""Study 003, section 3.2: what it costs to stop a thread by a signal, tick by tick.

Two uthreads that compute share a worker and are stopped in turn. The study gives
no figure for one tick; it calls the signal cheap and switches every millisecond.
Here each way to make a tick (a timer for each worker, the study's one timer
passed along the workers, a thread that watches) and each way to stop a thread
(registers saved in user space, a signal frame) stands beside what no runtime can
save: ``self``, a signal to oneself and back, and ``timer``, a periodic timer
whose signal finds an empty handler. On a virtual machine most of a tick is the
latter's interrupt, and only the rest is the runtime's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from swtch.experiments import Count, Experiment, Main, Metric, Setting, Some, less, value
from swtch.experiments._study_003 import policy_of
from swtch.records import Model, Scalar, Trial

NAME: Final = "preemption"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
WORKERS: Final = 2
INTERVALS_US: Final = (100, 300, 1000, 3000, 10_000)
QUICK_US: Final = (100, 1000)
GUEST_US: Final = (1000, 10_000)

Kind = Literal["ticks", "timer", "self"]


@dataclass(frozen=True)
class Way:
    """How ticks are made, how a thread is stopped, and what it does meanwhile."""

    kind: Kind
    source: str = ""
    mechanism: str = ""
    work: str = ""

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.source, self.mechanism, self.work) if part)


SELF: Final = Way("self")
TIMER: Final = Way("timer")
OWN: Final = Way("ticks", "worker", "call", "loop")
CHAIN: Final = Way("ticks", "process", "call", "loop")
MONITOR: Final = Way("ticks", "monitor", "call", "loop")
FRAME: Final = Way("ticks", "worker", "frame", "loop")
LIBC: Final = Way("ticks", "worker", "call", "libc")
# An emulated processor may lack what the call needs; the runtime knows.
GUEST_OWN: Final = Way("ticks", "worker", "default", "loop")
GUEST_CHAIN: Final = Way("ticks", "process", "default", "loop")

# Work of one part, and how often there is a quiet and a disturbed one.
PART_NS: Final = 20_000_000
ROUNDS: Final = 20
ROUNDS_QUICK: Final = 4
TICKS_OF_A_PART: Final = 10

QUICK: Final = "ticks of 100 µs and 1 ms only, fewer rounds, and the other sources at 1 ms"
GUEST: Final = "ticks of 1 and 10 ms only, from two sources: an emulated processor is far slower"
ONE_CPU_NOTE: Final = "one worker: no more CPUs are allowed here, and a chain has one link"

# Each in time, and in instructions where the engine counts those.
_TIMES: Final = {
    "gap": "gap_p50",
    "gap_low": "gap_p10",
    "gap_p99": "gap_p99",
    "each_cpu": "each_cpu",
    "each_wall": "each_wall",
    "period": "period_p50",
    "period_p99": "period_p99",
    "aside": "aside",
}
METRICS: Final[Mapping[str, Metric]] = {
    **{f"{own}_us": value(f"{name}_ns", "µs", 1e-3) for own, name in _TIMES.items()},
    **{
        f"{own}_ki": value(f"{name}_instructions", "thousand instructions", 1e-3)
        for own, name in _TIMES.items()
    },
    "overhead_cpu": value("overhead_cpu", "%", 100),
    "overhead_wall": value("overhead_wall", "%", 100),
    "cpu_share": value("cpu_share", "%", 100),
    "delivered_least": value("delivered_least", "of those due"),
    "delivered_most": value("delivered_most", "of those due"),
    "taken": value("taken", "ticks"),
    "ticks": value("ticks", "ticks"),
    "deferred_libc": value("deferred_libc", "ticks"),
    "deferred_runtime": value("deferred_runtime", "ticks"),
    "deferred_taking": value("deferred_taking", "ticks"),
    "deferred_young": value("deferred_young", "ticks"),
}


def part_ns(interval_us: int) -> int:
    """Long enough for some ticks."""
    return max(PART_NS, TICKS_OF_A_PART * interval_us * 1000)


def _rounds(interval_us: int, setting: Setting) -> int:
    rounds = ROUNDS_QUICK if setting.quick or setting.guest else ROUNDS
    return max(4, rounds * PART_NS // part_ns(interval_us))


def _trial(way: Way, interval_us: int, setting: Setting) -> Trial:
    cpus = list(setting.cpus[:WORKERS])
    model: Model = "uthread" if way.kind == "ticks" else "pthread"
    policy = policy_of(setting)
    factors: dict[str, Scalar] = {"kind": way.kind, "workers": len(cpus), "policy": policy}
    probe = {
        "schema": 1,
        "probe": "preemption" if way.kind == "ticks" else "floor",
        "model": model,
        "cpus": cpus,
        "policy": policy,
        "seed": 0,
    }
    if way.kind != "self":
        factors["interval_us"] = interval_us
        probe |= {
            "tick_ns": interval_us * 1000,
            "part_ns": part_ns(interval_us),
            "rounds": _rounds(interval_us, setting),
        }
    if way.kind == "ticks":
        factors |= {"source": way.source, "mechanism": way.mechanism, "work": way.work}
        probe |= {"source": way.source, "mechanism": way.mechanism, "work": way.work}
    else:
        probe["kind"] = way.kind
    case = "self" if way.kind == "self" else f"{interval_us}us/{way.name or way.kind}"
    return setting.trial(
        NAME, f"{case}", probe, factors, ONE_CPU_NOTE if len(cpus) < WORKERS else ""
    )


def cases(setting: Setting) -> tuple[tuple[Way, int], ...]:
    """Each way with each interval (us) it is measured at; ``self`` has none."""
    ways: dict[int, tuple[Way, ...]]
    if setting.guest:
        ways = dict.fromkeys(GUEST_US, (TIMER, GUEST_OWN, GUEST_CHAIN))
    elif setting.quick:
        ways = {100: (TIMER, OWN, FRAME, LIBC), 1000: (TIMER, OWN, CHAIN, MONITOR)}
    else:
        ways = dict.fromkeys(INTERVALS_US, (TIMER, OWN, CHAIN, MONITOR))
        for us in QUICK_US:
            ways[us] += (FRAME, LIBC)
    return ((SELF, 0), *((way, us) for us, several in ways.items() for way in several))


def trials(setting: Setting) -> tuple[Trial, ...]:
    """The two floors, and ticks of each interval, source and mechanism."""
    planned = (_trial(way, interval_us, setting) for way, interval_us in cases(setting))
    return tuple(trial for trial in planned if trial.model in setting.models)


class Factors(msgspec.Struct):
    """What is read of a trial; all of it only of ticks."""

    kind: str
    workers: Count
    interval_us: Some | None = None
    source: str | None = None
    mechanism: str | None = None
    work: str | None = None

    def __post_init__(self) -> None:
        ticks = (self.interval_us, self.source, self.mechanism, self.work)
        if self.kind == "ticks" and None in ticks:
            raise ValueError("a factor of ticks is missing")


EXPERIMENT = Experiment(
    name=NAME,
    title="What a tick costs that stops a thread",
    study="003",
    question="What does it cost to stop a thread that computes, and how punctual is it?",
    models=MODELS,
    seconds=1.4,
    seconds_at={("native", "quick"): 0.32},
    trials=trials,
    metrics=METRICS,
    main={"time": Main("gap_us"), "instructions": Main("gap_ki")},
    shortened=less(QUICK, GUEST),
    factors=Factors,
)
