# SPDX-License-Identifier: Apache-2.0
"""The claims of study 003: preemptive user threads.

Its uthreads are its own runtime's; ours stand in their place. What it says of
pthreads is about this kernel's.
"""

from __future__ import annotations

from collections.abc import Mapping

from swtch.analysis import effects
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, effect
from swtch.claims import Claim, Evidence, Ruling, missing
from swtch.experiments import locks, preemption, starvation, uthread_scaling

# "Nearly twofold": neither half as much again nor three times.
ABOUT_TWICE = (1.5, 3.0)
# Once a tick: of ten, at most one is missing or too many.
ONCE = (0.9, 1.1)
# A person notices a tenth of a second.
NOTICED_MS = 100.0
# "Responsive": not even twice as late as beside one busy thread a CPU; and otherwise not.
AS_RESPONSIVE = 2.0
FAR_LATER = 2.0
# Who spins for an owner of the same worker spends a whole turn at least.
HALF_A_TURN = 0.5


# ---- uthread-scaling ----


def _by_kind(evidence: Evidence) -> dict[tuple[int, int], dict[str, Group]]:
    """The study's trials by (threads, workers) and kind."""
    found: dict[tuple[int, int], dict[str, Group]] = {}
    work = {size.iterations for size in uthread_scaling.STUDY}
    for group in evidence.of(uthread_scaling.NAME):
        factors = group.trial.factors
        if factors["iterations"] in work:
            case = int(str(factors["threads"])), int(str(factors["workers"]))
            found.setdefault(case, {})[str(factors["kind"])] = group
    return found


def _ratio(kinds: Mapping[str, Group], a: str, b: str) -> Effect | None:
    if a not in kinds or b not in kinds:
        return None
    exact = kinds[a].place.engine == "exact"
    return effect(kinds[a], kinds[b], "wall_mi" if exact else "wall_ms")


def _half_the_time(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    gains = []
    for (threads, workers), kinds in sorted(_by_kind(evidence).items()):
        here = _ratio(kinds, "pthread", "uthread")
        if here is None:
            continue
        case = f"{threads} on {workers} CPU{'s'[: workers - 1]}"
        rulings[case] = evidence.within(here, *ABOUT_TWICE)
        room = _ratio(kinds, "pthread", "alone")
        if room is not None:
            gains.append(room.estimate)
    if not rulings:
        return missing(
            "pthreads and uthreads of the study's numbers are needed, with 100 000 additions each"
        )
    ruling = evidence.all_of(rulings, "pthread's time over uthread's")
    if ruling.verdict != "holds" and gains:
        most = max(gains)
        why = (
            f"{ruling.why}. Pthreads take at most {most:.3g} times the work alone here, so no"
            " threads could be faster than that"
        )
        return Ruling(ruling.verdict, why, ruling.here, ruling.threshold)
    return ruling


# ---- preemption ----


def _every_worker_once(evidence: Evidence) -> Ruling:
    """The worst served worker of the chain, beside timers of its own.

    A worker that has no CPU gets no tick from anybody: against its own timers, measured
    in the same block, what another program took is not the chain's fault.
    """
    rulings: dict[str, Ruling] = {}
    chained = evidence.of(preemption.NAME, "uthread", source="process")
    for chain in chained:
        if int(str(chain.trial.factors["workers"])) < 2:
            continue
        us = int(str(chain.trial.factors["interval_us"]))
        own = evidence.one(preemption.NAME, "uthread", source="worker", interval_us=us, work="loop")
        here = (
            effect(chain, own, "delivered_least")
            if own
            else effects.level(chain.values("delivered_least"), "of those due")
        )
        if here is not None:
            rulings[f"every {us / 1000:g} ms"] = evidence.within(here, *ONCE)
    if not rulings:
        how = "a chain of one worker has no links" if chained else ""
        return missing("ticks passed along at least two workers are needed", how)
    return evidence.all_of(
        rulings, "ticks that reached the last served worker, against timers of its own"
    )


# ---- starvation ----


def _in_time(one: Group, metric: str) -> str:
    """The name of a time metric at the group's place."""
    return f"{metric}_{'mi' if one.place.engine == 'exact' else 'ms'}"


def _wakes_in_time(evidence: Evidence) -> Ruling:
    """Main's wait beside one loop a worker; how long a queue is with more is the policy's."""
    one = evidence.one(starvation.NAME, "uthread", part="main", preempt=True, loops=1)
    unit = "million instructions" if evidence.place.engine == "exact" else "ms"
    here = effects.level(one.values(_in_time(one, "late_p99")), unit) if one else None
    if one is None or here is None:
        return missing("a uthread that sleeps beside endless loops is needed, with ticks")
    why = f"p99 of main's delays beside an endless loop a worker, to be below {NOTICED_MS:g}"
    without = evidence.one(starvation.NAME, "uthread", part="main", preempt=False)
    made = effects.level(without.values(_in_time(without, "late_p99")), unit) if without else None
    if made is not None:
        why += f"; without ticks it is {made.estimate:.3g}, until the loops end"
    return evidence.below(here, NOTICED_MS, why)


def _leaves_neighbours(evidence: Evidence) -> Ruling:
    """Three pthreads beside very many busy threads of one kind and the other."""
    of = {
        str(one.trial.factors["case"]): one
        for one in evidence.of(starvation.NAME, part="neighbours")
    }
    few, pthreads, uthreads = map(of.get, ("a pthread a CPU", "many pthreads", "many uthreads"))
    if few is None or pthreads is None or uthreads is None:
        return missing("three pthreads beside few and many pthreads and many uthreads are needed")
    metric = _in_time(few, "response_p99")
    beside, against = effect(uthreads, few, metric), effect(pthreads, uthreads, metric)
    if beside is None or against is None:
        return missing("responses were not told")
    many, more = (int(str(one.trial.factors["hogs"])) for one in (pthreads, uthreads))
    rulings = {
        f"beside {more} uthreads over a busy pthread a CPU": evidence.below(beside, AS_RESPONSIVE),
        f"beside {many} pthreads over {more} uthreads": evidence.above(against, FAR_LATER),
    }
    return evidence.all_of(rulings, "99 % of their responses")


# ---- locks ----


def _no_spinning(evidence: Evidence) -> Ruling:
    """CPU time that a hand-over took beyond the owner's work, in turns of one tick."""
    factors = {"mode": "handover", "place": "same"}
    mutex = evidence.one(locks.NAME, "uthread", lock="mutex", **factors)
    if mutex is None:
        return missing("a uthread that waits for a mutex on its owner's worker is needed")
    here = effects.level(mutex.values("waste_ticks"), "ticks")
    if here is None:
        return missing("what the hand-over took was not told")
    why = "CPU time of a hand-over beyond the owner's work, in turns of one tick"
    naive = evidence.one(locks.NAME, "uthread", lock="naive", **factors)
    beside = effects.level(naive.values("waste_ticks"), "ticks") if naive else None
    if beside is not None:
        why += f"; a loop around an exchange spends {beside.estimate:.2g}"
    return evidence.below(here, HALF_A_TURN, why)


CLAIMS = (
    Claim(
        "003.1",
        "003",
        uthread_scaling.NAME,
        "Uthreads finish in about half the pthreads' time, on one and on two cores",
        "“a nearly twofold increase in speed” (figure 11)",
        _half_the_time,
    ),
    Claim(
        "003.2",
        "003",
        starvation.NAME,
        "An endless loop on every worker cannot keep main from waking",
        "stuck for ever before Go 1.14; preempted since (section 1, figure 2)",
        _wakes_in_time,
    ),
    Claim(
        "003.3",
        "003",
        starvation.NAME,
        "100 000 uthreads leave three pthreads responsive where as many pthreads do not",
        "“each pthread receives a slice” of its own beside few workers (section 1, figure 1)",
        _leaves_neighbours,
    ),
    Claim(
        "003.4",
        "003",
        preemption.NAME,
        "One timer's signal, passed along the workers, reaches each of them once a tick",
        "“propagates the signal out to the rest of the softcores in a chain” (section 2, figure 4)",
        _every_worker_once,
        "counts",
    ),
    Claim(
        "003.5",
        "003",
        locks.NAME,
        "A waiter on the owner's worker gets the lock without spinning",
        "“it yields directly to the thread holding the lock” (section 3.3.2, figure 8)",
        _no_spinning,
    ),
)
