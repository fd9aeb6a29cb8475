# SPDX-License-Identifier: Apache-2.0
"""Study 003, section 3.3: a lock whose owner does not run while somebody waits for it.

With threads that are stopped anywhere, an owner is stopped with the lock in its
hand. A waiter on the same worker that spins then keeps its owner from giving it
back. The study's spin lock cannot be stopped, and its sleep lock gives the turn
to the owner, and the lock to the first waiter; on another worker it spins.

``handover``: an owner works for three ticks with the lock; CPU time beyond that
work is what waiting cost. ``inversion``: the same with others of a priority
between the two. ``contend``: four threads that do little else than lock. The
locks are this library's, the kernel's library's, and the mistake: a loop around
an exchange (``naive``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from swtch.experiments import Experiment, Main, Mains, Metric, Setting, shape, value
from swtch.experiments._study_003 import policy_of
from swtch.records import Model, Scalar, Trial

NAME: Final = "locks"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread")
TICK_NS: Final = 1_000_000
HOLD_NS: Final = 3_000_000
CPUS: Final = 2
ROUNDS: Final = 40
ROUNDS_QUICK: Final = 10
BYSTANDERS: Final = 4
CONTENDERS: Final = 4
TIMES: Final = 20_000
TIMES_QUICK: Final = 5_000
ADDITIONS: Final = 20  # under the lock, each time

Mode = Literal["handover", "inversion", "contend"]
Place = Literal["same", "other"]

# Each model's locks; `pthread` is pthread_mutex_t in the hands of uthreads.
LOCKS: Final[Mapping[Model, tuple[str, ...]]] = {
    "pthread": ("mutex", "spin"),
    "uthread": ("mutex", "spin", "naive", "pthread"),
}


@dataclass(frozen=True)
class Case:
    mode: Mode
    place: Place
    model: Model
    lock: str


CASES: Final = (
    *(
        Case("handover", place, model, lock)
        for place in ("same", "other")
        for model, locks in LOCKS.items()
        for lock in locks
    ),
    Case("inversion", "same", "uthread", "mutex"),
    Case("inversion", "same", "uthread", "inherit"),
    *(
        Case("contend", place, model, lock)
        for place in ("same", "other")
        for model, locks in LOCKS.items()
        for lock in locks
    ),
)

# The study has no figures of its locks, so no number of rounds is too small for it.
QUICK: Final = "a quarter of the rounds, and a quarter of the turns of contenders"
ONE_CPU_NOTE: Final = "on one CPU: no more are allowed here, so nobody waits on another"


def _takes(values: Mapping[str, float | int]) -> float | None:
    counter = values.get("counter")
    return None if counter is None else counter / ADDITIONS


def _rate(values: Mapping[str, float | int]) -> float | None:
    takes, wall = _takes(values), values.get("wall_ns") or values.get("wall_instructions")
    return takes * 1e3 / wall if takes and wall else None


def _cpu_of_a_take(values: Mapping[str, float | int]) -> float | None:
    takes, cpu = _takes(values), values.get("cpu_ns") or values.get("cpu_instructions")
    return cpu / takes if takes and cpu else None


def _turns(name: str) -> Metric:
    """In ticks, by either clock: an exact engine's instruction is its nanosecond."""

    def in_ticks(values: Mapping[str, float | int]) -> float | None:
        duration = values.get(f"{name}_ns", values.get(f"{name}_instructions"))
        return None if duration is None else duration / TICK_NS

    return Metric(unit="ticks", of=in_ticks)


METRICS: Final[Mapping[str, Metric]] = {
    "waste_ticks": _turns("waste_p50"),
    "waste_p90_ticks": _turns("waste_p90"),
    "wait_ticks": _turns("wait_p50"),
    "pair_ns": value("pair_ns", "ns"),
    "pair_instructions": value("pair_instructions", "instructions"),
    "takes_m": Metric(unit="million a second", of=_rate),
    "take_cpu_ns": Metric(unit="ns", of=_cpu_of_a_take),
    "donated": value("donated", "turns"),
    "preempted": value("preempted", "uthreads"),
    "blocked": value("blocked", "workers"),
}


def _probe(case: Case, setting: Setting) -> dict[str, object]:
    cpus = list(setting.cpus[:CPUS])
    quick = setting.quick or setting.guest
    if case.mode == "inversion":
        cpus = cpus[:1]
    probe: dict[str, object] = {
        "schema": 1,
        "probe": "locks",
        "model": case.model,
        "mode": "contend" if case.mode == "contend" else "handover",
        "lock": case.lock,
        "place": case.place,
        "cpus": cpus,
        "policy": policy_of(setting),
        "seed": 0,
    }
    if case.model == "uthread":
        probe["tick_ns"] = TICK_NS
    if case.mode == "contend":
        probe |= {"threads": CONTENDERS, "times": TIMES_QUICK if quick else TIMES}
    else:
        probe |= {"rounds": ROUNDS_QUICK if quick else ROUNDS, "hold_ns": HOLD_NS}
    if case.mode == "inversion":
        probe |= {"order": "priority", "bystanders": BYSTANDERS}
    return probe


def _trial(case: Case, setting: Setting) -> Trial:
    probe = _probe(case, setting)
    factors: dict[str, Scalar] = {
        "mode": case.mode,
        "place": case.place,
        "lock": case.lock,
        "policy": policy_of(setting),
    }
    return setting.trial(
        NAME,
        f"{case.mode}/{case.place}/{case.model}-{case.lock}",
        probe,
        factors,
        ONE_CPU_NOTE if len(setting.cpus) < CPUS else "",
    )


def shortened(setting: Setting) -> str:
    return QUICK if setting.quick or setting.guest else ""


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every lock on the owner's worker and on another."""
    return tuple(
        _trial(case, setting)
        for case in CASES
        if case.model in setting.models and (case.place == "same" or len(setting.cpus) >= CPUS)
    )


def _main_metric(trial: Trial) -> Mains:
    """What waiting for the owner cost; of contenders how often they get the lock."""
    contend = trial.factors["mode"] == "contend"
    main = Main("takes_m", "more") if contend else Main("waste_ticks")
    return {"time": main, "instructions": main}


EXPERIMENT = Experiment(
    name=NAME,
    title="Locks whose owner does not run",
    study="003",
    question="What does it cost to wait for a lock whose owner was stopped?",
    models=MODELS,
    seconds=0.7,
    seconds_at={("native", "quick"): 0.18},
    trials=trials,
    metrics=METRICS,
    main=_main_metric,
    shortened=shortened,
    factors=shape(mode=str, place=str, lock=str),
)
