# SPDX-License-Identifier: Apache-2.0
"""The claims of study 001: kthread_perf.ko, pthreads and coroutines.

They are judged on the study's own arms: kernel threads that keep accounts and sleep,
pthreads that call ``sched_yield``, coroutines with counters of their own. What the
matched arms say stands in the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from swtch.analysis import effects, gates, stats
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, effect
from swtch.claims import (
    Claim,
    Evidence,
    Ruling,
    missing,
    plain,
    too_few,
)
from swtch.experiments import (
    _study_001,
    aligned,
    binding,
    thread_count,
    work_scaling,
    yield_modes,
    yield_sweep,
)
from swtch.experiments._study_001 import (
    COROUTINE,
    COROUTINE_OWN,
    KTHREAD,
    KTHREAD_BARE,
    KTHREAD_MATCHED,
    PTHREAD,
    PTHREAD_OWN,
    Arm,
)
from swtch.records import VerdictName

NO_KTHREAD = "kernel threads need the module, which this engine does not load"
HOW_KTHREAD = "the vm engine measures them in a guest"
# "Flat": the study's own figures lie within 6 % of each other.
FLAT = (0.9, 1.1)
# "Near 45": its pthreads' three figures lie within 14 %.
NEAR = (0.8, 1.25)
MODES = ("normal", "yield")


def _arm(evidence: Evidence, experiment: str, case: str, arm: Arm) -> Group | None:
    return evidence.one(experiment, arm.model, case=case, arm=arm.name)


def _ratio(a: Group | None, b: Group | None, metric: str = "") -> Effect | None:
    return effect(a, b, metric) if a and b else None


def _beside(evidence: Evidence, experiment: str, case: str, arm: Arm, base: Arm) -> Effect | None:
    """The throughput of one arm over another's in the same case."""
    return _ratio(_arm(evidence, experiment, case, arm), _arm(evidence, experiment, case, base))


def _and(ruling: Ruling, more: Sequence[str]) -> Ruling:
    return ruling.also(*more)


def _times(interval: Effect) -> str:
    return f"{plain(interval.estimate)} x"


# ---- yield-modes ----


def _accounts_cost(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    more = []
    for mode in MODES:
        here = _beside(evidence, yield_modes.NAME, mode, KTHREAD, PTHREAD)
        if here is None:
            continue
        rulings[mode] = evidence.below(here, 1.0)
        told = [
            f"{said} {_times(made)}"
            for said, arm in (
                ("without accounts", KTHREAD_BARE),
                ("and with the pthreads' own yield", KTHREAD_MATCHED),
            )
            if (made := _beside(evidence, yield_modes.NAME, mode, arm, PTHREAD)) is not None
        ]
        if told:
            more.append(f"{mode}, {' '.join(told)}")
    if not rulings:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    ruling = evidence.all_of(rulings, "throughput of kernel threads with accounts over pthreads")
    return _and(ruling, more)


def _exact_switches(evidence: Evidence) -> Ruling:
    """As many voluntary switches as sleeps were asked for, and no involuntary one."""
    group = _arm(evidence, yield_modes.NAME, "yield", KTHREAD)
    if group is None:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    wanted = _study_001.expected_yields(group.trial)
    voluntary, involuntary = group.values("nvcsw"), group.values("nivcsw")
    here = stats.interval(voluntary, "switches")
    if here is None or len(involuntary) != len(voluntary):
        return missing("switches were not told")
    if here.n < effects.LEAST:
        return too_few(None, threshold=wanted, n=here.n)
    pairs = list(zip(voluntary, involuntary, strict=True))
    good = sum(pair == (wanted, 0) for pair in pairs)
    why = (
        f"{wanted} sleeps asked for, {good} of {len(pairs)} invocations with exactly so many"
        f" voluntary switches and no involuntary one; voluntary {min(voluntary):g} to"
        f" {max(voluntary):g}, involuntary {max(involuntary):g} at most"
    )
    matched = _arm(evidence, yield_modes.NAME, "yield", KTHREAD_MATCHED)
    if matched is not None and (counts := matched.values("nvcsw")):
        why += f". Kernel threads that call sched_yield make {max(counts):g} voluntary ones at most"
    return Ruling(_of_share(good / len(pairs)), why, here, wanted)


def _of_share(share: float) -> VerdictName:
    """Of invocations that are exactly as the claim says."""
    if share == 1:
        return "holds"
    return "differs" if share < 0.5 else "cannot tell"


def _no_user_time(evidence: Evidence) -> Ruling:
    groups = evidence.of(yield_modes.NAME, "kthread")
    if not groups:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    unit = "million instructions" if evidence.place.engine == "exact" else "ms"
    values = _user_time(groups)
    here = stats.interval(values, unit)
    if here is None:
        return missing("user time was not told")
    if here.n < effects.LEAST:
        return too_few(None, threshold=0, n=here.n)
    good = sum(value == 0 for value in values)
    why = f"0 {unit} in {good} of {len(values)} invocations of every kind of kernel thread"
    pthread = _arm(evidence, yield_modes.NAME, "normal", PTHREAD)
    beside = effects.level(_user_time([pthread]), unit) if pthread else None
    if beside is not None:
        why += f"; pthreads at the same work: {plain(beside.estimate)} {unit}"
    return Ruling(_of_share(good / len(values)), why, here, 0)


def _user_time(groups: Sequence[Group]) -> list[float]:
    """Of all threads of an invocation; what the exact engine counts there is instructions."""
    totals = [gates.total(sample, "utime_ns") for group in groups for sample in group.good]
    return [total / 1e6 for total in totals if total is not None]


# ---- yield-sweep ----


def _oftener_is_less(evidence: Evidence) -> Ruling:
    names = [yield_sweep.case_of(interval) for interval in (100, 1000, 10_000, 0)]
    groups = {
        name: group
        for name in names
        if (group := _arm(evidence, yield_sweep.NAME, name, KTHREAD)) is not None
    }
    rulings: dict[str, Ruling] = {}
    for what, metric in (("throughput", ""), ("CPU efficiency", "cpu_efficiency")):
        known = list(groups)
        for oftener, seldom in itertools.pairwise(known):
            here = _ratio(groups[seldom], groups[oftener], metric)
            if here is not None:
                rulings[f"{what}, {seldom} over {oftener}"] = evidence.above(here, 1.0)
    if not rulings:
        return missing(NO_KTHREAD if not groups else "two intervals are needed", HOW_KTHREAD)
    return evidence.all_of(rulings, "kernel threads that sleep at every yield")


# ---- binding ----


def _more_cpus(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    on = {
        (arm.name, cpus): _arm(evidence, binding.NAME, binding.case_of("normal", cpus), arm)
        for arm in (KTHREAD, PTHREAD)
        for cpus in binding.CPUS
    }
    for fewer, more in zip(binding.CPUS, binding.CPUS[1:], strict=False):
        here = _ratio(on[KTHREAD.name, more], on[KTHREAD.name, fewer])
        if here is not None:
            rulings[f"kernel threads on {more} CPUs over {fewer}, to fall"] = evidence.below(
                here, 1.0
            )
        here = _ratio(on[PTHREAD.name, more], on[PTHREAD.name, 1])
        if here is not None:
            rulings[f"pthreads on {more} CPUs over 1, to stay"] = evidence.within(here, *NEAR)
    if not rulings:
        return missing(
            "throughput on one and on more CPUs is needed", "allow more CPUs, or --engine vm"
        )
    ruling = evidence.all_of(rulings, "throughput in normal mode")
    if not any(case.startswith("kernel") for case in rulings):
        return _and(ruling, ("The kernel threads' half needs the vm engine",))
    return ruling


# ---- work-scaling, thread-count ----


def _flat(evidence: Evidence, experiment: str, rows: Mapping[str, Sequence[str]]) -> Ruling:
    """Every case of a row has the throughput of its first, kernel threads and pthreads."""
    rulings: dict[str, Ruling] = {}
    for arm in (PTHREAD, KTHREAD):
        for first, *others in rows.values():
            base = _arm(evidence, experiment, first, arm)
            for other in others:
                here = _ratio(_arm(evidence, experiment, other, arm), base)
                if here is not None:
                    rulings[f"{arm.model}, {other} over {first}"] = evidence.within(here, *FLAT)
    if not rulings:
        return missing("pthreads or kernel threads of two cases are needed")
    return evidence.all_of(rulings, "throughput")


def _flat_in_work(evidence: Evidence) -> Ruling:
    rows = {
        mode: [work_scaling.case_of(mode, work // 10**6) for work in work_scaling.WORKS]
        for mode in MODES
    }
    return _flat(evidence, work_scaling.NAME, rows)


def _flat_in_threads(evidence: Evidence) -> Ruling:
    rows = {"normal": [thread_count.case_of(threads) for threads in thread_count.THREADS]}
    return _flat(evidence, thread_count.NAME, rows)


# ---- aligned ----


def _coroutines_fastest(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    more = []
    for mode in MODES:
        for base in (PTHREAD, KTHREAD):
            here = _beside(evidence, aligned.NAME, mode, COROUTINE_OWN, base)
            if here is not None:
                rulings[f"{mode}, over {base.model}"] = evidence.above(here, 1.0)
        made = _beside(evidence, aligned.NAME, mode, COROUTINE, PTHREAD)
        if made is not None:
            more.append(f"{mode}, with the pthreads' shared atomic counter: {_times(made)} pthread")
        made = _beside(evidence, aligned.NAME, mode, COROUTINE_OWN, PTHREAD_OWN)
        if made is not None:
            more.append(f"{mode}, pthreads with an own counter too: {_times(made)} pthread")
    if not rulings:
        return missing("coroutines beside pthreads or kernel threads are needed")
    if not any(case.endswith("kthread") for case in rulings):
        more.append("The kernel threads' half needs the vm engine")
    return _and(evidence.all_of(rulings, "throughput of coroutines with own counters"), more)


CLAIMS = (
    Claim(
        "001.1",
        "001",
        yield_modes.NAME,
        "Kernel threads that keep accounts get through far less than pthreads, in both modes",
        "13.5 % of the pthreads' throughput in normal mode, 11.8 % in yield mode (tables 7, 8)",
        _accounts_cost,
    ),
    Claim(
        "001.2",
        "001",
        yield_modes.NAME,
        "Every yield of a kernel thread is a voluntary switch, and there is no involuntary one",
        "3 996 voluntary and 0 involuntary of 4 x 999 yields (table 8)",
        _exact_switches,
        "counts",
    ),
    Claim(
        "001.3",
        "001",
        yield_sweep.NAME,
        "The shorter the yield interval, the less throughput and CPU efficiency",
        "99.70, 41.20, 4.97, 0.50 % without yields, every 10 000, 1000, 100 (table 9)",
        _oftener_is_less,
    ),
    Claim(
        "001.4",
        "001",
        binding.NAME,
        "In normal mode kernel threads slow down with every CPU, and pthreads stay as they are",
        "kthread 30.2, 10.8, 4.9 Mops/s on 1, 2, 4 CPUs; pthread 45.3, 40.7, 46.8 (table 10)",
        _more_cpus,
    ),
    Claim(
        "001.5",
        "001",
        work_scaling.NAME,
        "Throughput does not depend on the amount of work",
        "within 6 % from 1 to 10 million additions, in both modes (table 11)",
        _flat_in_work,
    ),
    Claim(
        "001.6",
        "001",
        thread_count.NAME,
        "Throughput does not depend on the number of threads on one CPU",
        "within 3 % from 4 to 32 threads (table 12)",
        _flat_in_threads,
    ),
    Claim(
        "001.7",
        "001",
        aligned.NAME,
        "Coroutines are fastest, without yields and with",
        "45.9 x pthread and 70.1 x kthread; with yields 89.5 x and 459 x (table 14)",
        _coroutines_fastest,
    ),
    Claim(
        "001.8",
        "001",
        yield_modes.NAME,
        "The user time of a kernel thread is 0",
        "0: it runs no code in user space (section 6.4)",
        _no_user_time,
        "counts",
    ),
)
