# SPDX-License-Identifier: Apache-2.0
"""The claims of study 003: preemptive user threads.

Its uthreads are its own runtime's; ours stand in their place. What it says of
pthreads is about this kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swtch.analysis import effects, gates
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, beside, effect
from swtch.claims import Claim, Evidence, Ruling, missing, plain
from swtch.claims.rules import NOT_COMPARABLE
from swtch.experiments import locks, preemption, starvation, uthread_scaling
from swtch.records import Trial

# "Nearly twofold": neither half as much again nor three times.
ABOUT_TWICE = (1.5, 3.0)
# Once a tick: of ten, at most one is missing or too many.
ONCE = (0.9, 1.1)
# A person notices a tenth of a second.
NOTICED_MS = 100.0
# "Responsive": not even twice as late as beside one busy thread a CPU; and otherwise not.
AS_RESPONSIVE = 2.0
FAR_LATER = 2.0
# A tick that waited for the kernel's next turn would be a whole interval late at least.
NO_TURN_LATER = 2.0
STUDYS_US = 1000  # its uthreads' slice; its pthreads' is ten times that
# Who spins for an owner of the same worker spends a whole turn at least.
HALF_A_TURN = 0.5
KINDS = ("pthread", "uthread")


def _served(check: Callable[[Evidence], Ruling]) -> Callable[[Evidence], Ruling]:
    """The check, where it does not hold again without samples whose workers had no CPU because
    others had it: how late a tick or a thread was then says nothing of who was to bring it.
    Also of counts, which other gates leave alone. What holds beside others holds."""

    def judged(evidence: Evidence) -> Ruling:
        whole = check(evidence)
        served = evidence.unmarked(gates.STARVED)
        if whole.verdict in ("holds", "not measurable here") or not served.without:
            return whole
        why = f"Left out are {served.without} samples whose workers waited for CPUs"
        ruling = check(served)
        nothing = ruling.verdict == "holds" and served.lacks
        if ruling.verdict != "not measurable here" and not nothing:
            return ruling.also(why)
        return Ruling("cannot tell", f"{why}, and too little is left", whole.here, whole.threshold)

    return judged


# ---- uthread-scaling ----


def _by_kind(evidence: Evidence) -> dict[tuple[int, int], dict[str, Group]]:
    """The study's trials by (threads, workers) and kind."""
    by_case: dict[tuple[int, int], dict[str, Group]] = {}
    work = {size.iterations for size in uthread_scaling.STUDY}
    studys = _kinds(evidence, lambda trial: trial.factors["iterations"] in work)
    for group in (*studys, *evidence.aside().of(uthread_scaling.NAME, kind="alone")):
        factors = group.trial.factors
        if factors["iterations"] in work:
            case = int(str(factors["threads"])), int(str(factors["workers"]))
            by_case.setdefault(case, {})[str(factors["kind"])] = group
    return by_case


def _kinds(evidence: Evidence, only: Callable[[Trial], bool] = lambda _: True) -> list[Group]:
    """The pthreads and the uthreads of these trials; the work alone is said beside them."""
    return evidence.of(
        uthread_scaling.NAME, only=lambda trial: trial.factors["kind"] in KINDS and only(trial)
    )


def _wall(group: Group) -> str:
    return f"wall_{group.place.suffix('ms')}"


def _ratio_effect(kinds: Mapping[str, Group], a: str, b: str) -> Effect | None:
    if a not in kinds or b not in kinds:
        return None
    return effect(kinds[a], kinds[b], _wall(kinds[a]))


def _lead(kinds: Mapping[str, Group], metric: str, lead: str) -> Effect | None:
    """How many times the uthreads' the pthreads' metric is: measured right beside each other
    in the same invocation, where that was done, or else in the same block."""
    if "pthread" not in kinds or "uthread" not in kinds:
        return None
    leads = kinds["pthread"].values(lead)
    if leads:
        return effects.paired(leads, [1.0] * len(leads))
    return beside(kinds["pthread"], kinds["uthread"], metric)


def _time_lead(kinds: Mapping[str, Group], workers: int) -> Effect | None:
    """Of their times. On one CPU that is their CPU time, and without what others had of it."""
    if "pthread" not in kinds:
        return None
    return _lead(kinds, _wall(kinds["pthread"]), "lead_cpu" if workers == 1 else "lead_wall")


def _name(threads: int, workers: int) -> str:
    return f"{threads} on {workers} CPU{'s'[: workers - 1]}"


def _half_the_time(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    gains = []
    for (threads, workers), kinds in sorted(_by_kind(evidence).items()):
        here = _time_lead(kinds, workers)
        if here is None:
            continue
        rulings[_name(threads, workers)] = evidence.within(here, *ABOUT_TWICE)
        room = _ratio_effect(kinds, "pthread", "alone")
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
            f"{ruling.why}. Pthreads take at most {plain(most)} times the work alone here, so no"
            " threads could be faster than that"
        )
        return Ruling(ruling.verdict, why, ruling.here, ruling.threshold)
    return ruling


def _leads(kinds: Mapping[str, Group]) -> dict[int, float]:
    """By block: how many times the uthreads' time the pthreads take."""
    if "pthread" not in kinds or "uthread" not in kinds:
        return {}
    beside = kinds["pthread"].by_block("lead_wall")
    if beside:
        return beside
    slow, fast = (kinds[kind].by_block(_wall(kinds[kind])) for kind in ("pthread", "uthread"))
    return {block: slow[block] / fast[block] for block in slow.keys() & fast.keys() if fast[block]}


def _lead_grows(evidence: Evidence) -> Ruling:
    """The lead with two workers over the lead with one, of the same number of threads."""
    leads = {case: _leads(kinds) for case, kinds in _by_kind(evidence).items()}
    rulings: dict[str, Ruling] = {}
    for threads, workers in sorted(leads):
        single, more = leads.get((threads, 1), {}), leads[threads, workers]
        blocks = sorted(single.keys() & more.keys())
        if workers == 1 or not blocks:
            continue
        here = effects.paired(
            [more[block] for block in blocks], [single[block] for block in blocks]
        )
        if here is not None:
            rulings[f"{threads} threads"] = evidence.more(here)
    if not rulings:
        return missing("pthreads and uthreads on one and on two CPUs are needed")
    return evidence.all_of(
        rulings, "pthread's time over uthread's on two CPUs, over the same on one"
    )


def _less_to_manage(evidence: Evidence) -> Ruling:
    """All the CPU time of a program of very many threads: the work is the same in both."""
    by_case: dict[tuple[int, int, int], dict[str, Group]] = {}
    for group in _kinds(evidence):
        factors = group.trial.factors
        case = tuple(int(str(factors[name])) for name in ("threads", "iterations", "workers"))
        by_case.setdefault((case[0], case[1], case[2]), {})[str(factors["kind"])] = group
    rulings: dict[str, Ruling] = {}
    for (threads, additions, workers), kinds in sorted(by_case.items()):
        if "pthread" not in kinds or "uthread" not in kinds:
            continue
        metric = _wall(kinds["pthread"]) if evidence.place.counting else "cpu_ms"
        here = _lead(kinds, metric, "lead_cpu")
        if here is not None:
            rulings[f"{_name(threads, workers)}, {additions} additions"] = evidence.more(here)
    if not rulings:
        return missing("as many pthreads as uthreads are needed, with the same work")
    return evidence.all_of(rulings, "pthread's CPU time over uthread's")


# ---- preemption ----


def _by_interval(evidence: Evidence, least: int = 0) -> dict[int, Group]:
    """Ticks from timers of the workers' own, beside a loop; in the intervals' order."""
    calls = evidence.of(
        preemption.NAME,
        "uthread",
        lambda trial: trial.factors["mechanism"] != "frame" and _interval(trial) >= least,
        source="worker",
        work="loop",
    )
    by = {_interval(group.trial): group for group in calls}
    return dict(sorted(by.items()))


def _interval(trial: Trial) -> int:
    return int(str(trial.factors["interval_us"]))


def _rarer_is_cheaper(evidence: Evidence) -> Ruling:
    """What ticks take, as a share: of the study's slice and its pthreads', or of the
    shortest and the longest slice there is."""
    known = _by_interval(evidence)
    if len(known) < 2:
        return missing("ticks of two intervals are needed")
    studys = (STUDYS_US, 10 * STUDYS_US)
    short, long = studys if set(studys) <= known.keys() else (min(known), max(known))
    often, seldom = (known[us].by_block("overhead_cpu") for us in (short, long))
    blocks = sorted(often.keys() & seldom.keys())
    here = effects.level([often[block] - seldom[block] for block in blocks], "% of the CPU time")
    if here is None:
        return missing(NOT_COMPARABLE)
    why = (
        f"CPU time that ticks take every {short / 1000:g} ms, less what they take every"
        f" {long / 1000:g} ms"
    )
    return evidence.above(here, 0.0, why)


def _when_due(evidence: Evidence) -> Ruling:
    """The middle of the times from one tick to the next: a signal that waited for a turn of the
    kernel's would double each. Of the rare long ones others are to blame, who had the CPU."""
    us, group = next(iter(_by_interval(evidence, STUDYS_US).items()), (0, None))
    middle, longest = (
        effects.level([value / us for value in group.values(metric)], "intervals")
        if group
        else None
        for metric in (
            f"period_{evidence.place.suffix('us')}",
            f"period_p99_{evidence.place.suffix('us')}",
        )
    )
    if middle is None:
        return missing("ticks of a millisecond or more are needed")
    why = f"the median time from one tick to the next, every {us / 1000:g} ms"
    if longest is not None:
        why += f"; p99 is {plain(longest.estimate)} intervals"
    return evidence.below(middle, NO_TURN_LATER, why)


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
        us = _interval(chain.trial)
        own = evidence.group(
            preemption.NAME, "uthread", source="worker", interval_us=us, work="loop"
        )
        here = (
            beside(chain, own, "delivered_least")
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


def _in_time(group: Group, metric: str) -> str:
    """The name of a time metric at the group's place."""
    return f"{metric}_{group.place.suffix('ms')}"


def _wakes_in_time(evidence: Evidence) -> Ruling:
    """Main's wait beside one loop a worker, from the moments that were meant; how long a queue
    is with more is the policy's."""
    asleep = evidence.group(starvation.NAME, "uthread", part="main", preempt=True, loops=1)
    unit = evidence.place.unit("ms")
    here = (
        effects.level(asleep.values(_in_time(asleep, "intended_late_p99")), unit)
        if asleep
        else None
    )
    if asleep is None or here is None:
        return missing("a uthread that sleeps beside endless loops is needed, with ticks")
    why = f"p99 of main's delays beside an endless loop a worker, to be below {NOTICED_MS:g}"
    without = evidence.aside().group(starvation.NAME, "uthread", part="main", preempt=False)
    beside = (
        effects.level(without.values(_in_time(without, "intended_late_p99")), unit)
        if without
        else None
    )
    if beside is not None:
        why += f"; without ticks it is {plain(beside.estimate)}, until the loops end"
    return evidence.below(here, NOTICED_MS, why)


def _leaves_neighbours(evidence: Evidence) -> Ruling:
    """Three pthreads beside very many busy threads of one kind and the other."""
    of = {
        str(group.trial.factors["case"]): group
        for group in evidence.of(starvation.NAME, part="neighbours")
    }
    few, pthreads, uthreads = map(of.get, ("a pthread a CPU", "many pthreads", "many uthreads"))
    if few is None or pthreads is None or uthreads is None:
        return missing("three pthreads beside few and many pthreads and many uthreads are needed")
    metric = _in_time(few, "intended_response_p99")
    near, against = beside(uthreads, few, metric), beside(pthreads, uthreads, metric)
    if near is None or against is None:
        return missing("the samples have no responses")
    many, more = (int(str(group.trial.factors["hogs"])) for group in (pthreads, uthreads))
    rulings = {
        f"beside {more} uthreads over a busy pthread a CPU": evidence.below(near, AS_RESPONSIVE),
        f"beside {many} pthreads over {more} uthreads": evidence.above(against, FAR_LATER),
    }
    return evidence.all_of(rulings, "99 % of their responses")


# ---- locks ----


def _no_spinning(evidence: Evidence) -> Ruling:
    """CPU time that a hand-over took beyond the owner's work, in turns of one tick."""
    factors = {"mode": "handover", "place": "same"}
    mutex = evidence.group(locks.NAME, "uthread", lock="mutex", **factors)
    if mutex is None:
        return missing("a uthread that waits for a mutex on its owner's worker is needed")
    here = effects.level(mutex.values("waste_ticks"), "ticks")
    if here is None:
        return missing("the samples do not say what the hand-over took")
    why = "CPU time of a hand-over beyond the owner's work, in turns of one tick"
    naive = evidence.aside().group(locks.NAME, "uthread", lock="naive", **factors)
    beside = effects.level(naive.values("waste_ticks"), "ticks") if naive else None
    if beside is not None:
        why += f"; a loop around an exchange spends {plain(beside.estimate)}"
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
        _served(_wakes_in_time),
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
        _served(_every_worker_once),
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
    Claim(
        "003.6",
        "003",
        preemption.NAME,
        "With a slice as long as the pthreads', ten times its own, uthreads would be faster still",
        "“should the context switch frequency be equalized, the performance disparity could be"
        " even more pronounced” (section 4)",
        _rarer_is_cheaper,
    ),
    Claim(
        "003.7",
        "003",
        uthread_scaling.NAME,
        "The more cores, the larger the uthreads' lead",
        "“we expect to see more performance lag if we increase the number of cores” (section 4)",
        _lead_grows,
    ),
    Claim(
        "003.8",
        "003",
        preemption.NAME,
        "A timer's signal stops a thread when it is due, not a turn of the kernel's later",
        "“handled almost in real-time with minimal delay that is almost negligible” (section 3.2)",
        _served(_when_due),
    ),
    Claim(
        "003.9",
        "003",
        uthread_scaling.NAME,
        "Very many uthreads take less to create and manage than as many pthreads",
        "“creating and managing them incurs less overhead than managing pthreads” (section 1)",
        _less_to_manage,
    ),
)
