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
from swtch.analysis.findings import Group, beside, effect
from swtch.claims import Claim, Evidence, Ruling, missing, plain, rules
from swtch.experiments import (
    _study_001,
    aligned,
    binding,
    coroutine,
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

NO_KTHREAD = "kernel threads need the module, which this engine does not load"
HOW_KTHREAD = "the vm engine measures them in a guest"
KTHREAD_HALF = "The kernel threads' half needs the module: --native-kthread, or a guest on KVM"
ASLEEP = "a sleep has no instructions"
# "Far less": the study's shares are 13.5 and 11.8 %.
FAR_LESS = 1 / 3
# "Sharply": its yields leave 8.8 % of the pthreads' throughput and 7.7 % of the kernel threads'.
SHARPLY = 1 / 2
# "Flat": the study's own figures lie within 7.2 % of each other (table 11) and 2.3 % (table 12).
FLAT = (0.9, 1.1)
# "Near 45": its pthreads' three figures lie within 15.0 % (table 10).
NEAR = (0.8, 1.25)
# "Mostly invisible to the kernel": 4 switches of 32 000 yields are 0.0125 %.
INVISIBLE = 1.0
CPU_TIME = "throughput_cpu_mops"
MODES = ("normal", "yield")
# Natively a case is done in turn with the first one, by CPU time: samples with steal differ from
# those without by nothing, and vary by 3.1 % instead of 2.4.
TAKEN_BY_OTHERS = frozenset({"steal"})


def _arm(evidence: Evidence, experiment: str, case: str, arm: Arm) -> Group | None:
    return evidence.group(experiment, arm.model, case=case, arm=arm.name)


def _ratio_effect(a: Group | None, b: Group | None, metric: str = "") -> Effect | None:
    return beside(a, b, metric) if a and b else None


def _beside(evidence: Evidence, experiment: str, case: str, arm: Arm, base: Arm) -> Effect | None:
    """The throughput of one arm over another's in the same case; said beside a verdict."""
    a, b = (_arm(evidence.aside(), experiment, case, one) for one in (arm, base))
    return effect(a, b) if a and b else None


def _sleeping(group: Group) -> bool:
    return group.trial.factors["operation"] == "schedule_timeout"


def _by_cpu_time(*groups: Group | None) -> bool:
    """Whether these share one CPU and only compute: what another program takes of it is then
    no part of what they cost. A sleeper's time is not the CPU's."""
    return all(
        group is not None
        and group.trial.factors["cpus_used"] == 1
        and not _sleeping(group)
        and bool(group.values(CPU_TIME))
        for group in groups
    )


def _on_one_cpu(a: Group | None, b: Group | None) -> Effect | None:
    """The ratio of throughputs by CPU time where that is what is compared."""
    return _ratio_effect(a, b, CPU_TIME if _by_cpu_time(a, b) else "")


def _said_on_one_cpu(a: Group | None, b: Group | None) -> Effect | None:
    """The same, of what is only said beside a verdict: it may be left out."""
    return effect(a, b, CPU_TIME if _by_cpu_time(a, b) else "") if a and b else None


def _which_time(pairs: Sequence[tuple[Group | None, Group | None]]) -> list[str]:
    """What the throughputs of these ratios are divided by."""
    ways = {_by_cpu_time(*pair) for pair in pairs}
    if ways == {True}:
        return ["By CPU time"]
    return ["By CPU time, and by wall time where threads sleep"] if len(ways) == 2 else []


def _asleep(evidence: Evidence, *groups: Group | None) -> bool:
    """Whether nothing can be said of sleepers, because only instructions are counted here."""
    counted = evidence.place.clock == "instructions"
    return counted and any(_sleeping(group) for group in groups if group is not None)


def _half(cases: Mapping[str, object]) -> list[str]:
    """What a verdict says that is the pthreads' alone."""
    return [] if any("kernel" in case or "kthread" in case for case in cases) else [KTHREAD_HALF]


def _times(effect: Effect) -> str:
    return f"{plain(effect.estimate)} x"


# ---- yield-modes ----


def _accounts_cost(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    more = []
    for mode in MODES:
        kthread = _arm(evidence, yield_modes.NAME, mode, KTHREAD)
        here = _ratio_effect(kthread, _arm(evidence, yield_modes.NAME, mode, PTHREAD))
        if here is None or _asleep(evidence, kthread):
            continue
        rulings[mode] = evidence.below(here, FAR_LESS)
        beside = [
            f"{what} {_times(other)}"
            for what, arm in (
                ("without accounts", KTHREAD_BARE),
                ("and with the pthreads' own yield", KTHREAD_MATCHED),
            )
            if (other := _beside(evidence, yield_modes.NAME, mode, arm, PTHREAD)) is not None
        ]
        if beside:
            more.append(f"{mode}, {' '.join(beside)}")
    if not rulings:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    why = "throughput of kernel threads with accounts over pthreads"
    return evidence.all_of(rulings, why).also(*more)


def _yields_cost(evidence: Evidence) -> Ruling:
    """Yield mode over normal mode, of pthreads and of kernel threads."""
    rulings: dict[str, Ruling] = {}
    for arm in (PTHREAD, KTHREAD):
        normal, yields = (_arm(evidence, yield_modes.NAME, mode, arm) for mode in MODES)
        here = _ratio_effect(yields, normal)
        if here is not None and not _asleep(evidence, yields):
            rulings[arm.model] = evidence.below(here, SHARPLY)
    if not rulings:
        return missing("pthreads or kernel threads in both modes are needed")
    ruling = evidence.all_of(rulings, "throughput with a yield every 1000 additions over without")
    return ruling.also(*_half(rulings))


def _exact_switches(evidence: Evidence) -> Ruling:
    """As many voluntary switches as sleeps were asked for, and no involuntary one."""
    group = _arm(evidence, yield_modes.NAME, "yield", KTHREAD)
    if group is None:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    ruling = _switches(group, _study_001.expected_yields(group.trial))
    matched = _arm(evidence.aside(), yield_modes.NAME, "yield", KTHREAD_MATCHED)
    if matched is not None and (counts := matched.values("nvcsw")):
        most = f"{max(counts):g} voluntary ones at most"
        return ruling.also(f"Kernel threads that call sched_yield make {most}")
    return ruling


def _no_switches(evidence: Evidence) -> Ruling:
    """Not a single one of kernel threads that only compute."""
    group = _arm(evidence, yield_modes.NAME, "normal", KTHREAD)
    if group is None:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    if group.trial.factors["cpus_used"] != group.trial.factors["threads"]:
        return missing("each thread needs a CPU of its own", "allow four, or --engine vm")
    return _switches(group, 0)


def _switches(group: Group, wanted: int) -> Ruling:
    voluntary, involuntary = group.values("nvcsw"), group.values("nivcsw")
    here = stats.median_interval(voluntary, "switches")
    if here is None or len(involuntary) != len(voluntary):
        return missing("switches were not counted")
    pairs = list(zip(voluntary, involuntary, strict=True))
    right = pairs.count((wanted, 0))
    why = (
        f"{wanted} sleeps asked for, {right} of {len(pairs)} invocations with exactly so many"
        f" voluntary switches and no involuntary one; voluntary {min(voluntary):g} to"
        f" {max(voluntary):g}, involuntary {max(involuntary):g} at most"
    )
    return rules.of_counts(voluntary, right, why, here, wanted)


def _no_user_time(evidence: Evidence) -> Ruling:
    """Of every kind of kernel thread by itself: invocations of several kinds make no block
    more, and those of one that has user time are not outvoted by the others."""
    groups = evidence.of(yield_modes.NAME, "kthread")
    if not groups:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    unit = evidence.place.unit("ms")
    values = {
        f"{group.trial.factors['case']}, {group.trial.factors['arm']}": _user_time(group)
        for group in groups
    }
    rulings = {
        kind: rules.of_counts(times, times.count(0), "", stats.median_interval(times, unit), 0)
        for kind, times in values.items()
        if times
    }
    if not rulings:
        return missing("user time was not counted")
    every = [time for times in values.values() for time in times]
    ruling = evidence.all_of(
        rulings, f"user time, 0 {unit} in {every.count(0)} of {len(every)} invocations"
    )
    pthread = _arm(evidence.aside(), yield_modes.NAME, "normal", PTHREAD)
    beside = effects.level(_user_time(pthread), unit) if pthread else None
    if beside is None:
        return ruling
    return ruling.also(f"Pthreads at the same work: {plain(beside.estimate)} {unit}")


def _user_time(group: Group) -> list[float]:
    """Of all threads of an invocation; what the exact engine counts there is instructions."""
    totals = [gates.total(sample, "utime_ns") for sample in group.good]
    return [total / 1e6 for total in totals if total is not None]


# ---- yield-sweep ----


def _oftener_is_less(evidence: Evidence) -> Ruling:
    names = [yield_sweep.case_of(interval) for interval in (100, 1000, 10_000, 0)]
    groups = {
        name: group
        for name in names
        if (group := _arm(evidence, yield_sweep.NAME, name, KTHREAD)) is not None
    }
    if _asleep(evidence, *groups.values()):
        return missing(ASLEEP, HOW_KTHREAD)
    rulings: dict[str, Ruling] = {}
    for what, metric in (("throughput", ""), ("CPU efficiency", "cpu_efficiency")):
        known = list(groups)
        for oftener, seldom in itertools.pairwise(known):
            here = _ratio_effect(groups[seldom], groups[oftener], metric)
            if here is not None:
                rulings[f"{what}, {seldom} over {oftener}"] = evidence.more(here)
    if not rulings:
        return missing(NO_KTHREAD if not groups else "two intervals are needed", HOW_KTHREAD)
    return evidence.all_of(rulings, "kernel threads that sleep at every yield")


# ---- binding ----


def _bound(evidence: Evidence, mode: str, arm: Arm) -> dict[int, Group]:
    """By the number of CPUs, where there are several."""
    cases = {cpus: binding.case_of(mode, cpus) for cpus in binding.CPUS}
    groups = {cpus: _arm(evidence, binding.NAME, case, arm) for cpus, case in cases.items()}
    return {cpus: group for cpus, group in groups.items() if group is not None}


def _more_cpus(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    for (fewer, base), (more, group) in itertools.pairwise(
        _bound(evidence, "normal", KTHREAD).items()
    ):
        here = _ratio_effect(group, base)
        if here is not None:
            case = f"kernel threads on {more} CPUs over {fewer}, to fall"
            rulings[case] = evidence.less(here)
    rulings |= _steady(evidence, "normal", PTHREAD, "pthreads")
    return _bound_ruling(evidence, rulings, "normal")


def _yields_and_cpus(evidence: Evidence) -> Ruling:
    rulings = _steady(evidence, "yield", PTHREAD, "pthreads")
    if not any(_asleep(evidence, group) for group in _bound(evidence, "yield", KTHREAD).values()):
        rulings |= _steady(evidence, "yield", KTHREAD, "kernel threads")
    return _bound_ruling(evidence, rulings, "yield")


def _steady(evidence: Evidence, mode: str, arm: Arm, who: str) -> dict[str, Ruling]:
    """On more CPUs as on one."""
    groups = _bound(evidence, mode, arm)
    ratios = {
        cpus: _ratio_effect(group, groups.get(1)) for cpus, group in groups.items() if cpus > 1
    }
    return {
        f"{who} on {cpus} CPUs over 1, to stay": evidence.within(here, *NEAR)
        for cpus, here in ratios.items()
        if here is not None
    }


def _bound_ruling(evidence: Evidence, rulings: dict[str, Ruling], mode: str) -> Ruling:
    if not rulings:
        return missing(
            "throughput on one and on more CPUs is needed", "allow more CPUs, or --engine vm"
        )
    ruling = evidence.all_of(rulings, f"throughput in {mode} mode")
    most = max(cpus for arm in (PTHREAD, KTHREAD) for cpus in _bound(evidence, mode, arm))
    few = [f"On at most {most} CPUs, where the study had 4"] if most < binding.CPUS[-1] else []
    return ruling.also(*few, *_half(rulings))


# ---- work-scaling, thread-count ----


def _over_first(group: Group | None) -> Effect | None:
    """Against the first case, where both were measured in turn within an invocation."""
    ratios = group.values(_study_001.OVER_FIRST) if group else []
    return effects.paired(ratios, [1.0] * len(ratios))


def _flat(evidence: Evidence, experiment: str, rows: Mapping[str, Sequence[str]]) -> Ruling:
    """Every case of a row has the throughput of its first, kernel threads and pthreads."""
    rulings: dict[str, Ruling] = {}
    pairs = []
    in_turn = False
    for arm in (PTHREAD, KTHREAD):
        for first, *others in rows.values():
            for other in others:
                group = _arm(evidence, experiment, other, arm)
                case = f"{arm.model}, {other} over {first}"
                if (beside := _over_first(group)) is not None:
                    rulings[case] = evidence.within(beside, *FLAT)
                    pairs.append((group, group))
                    in_turn = True
                    continue
                base = _arm(evidence, experiment, first, arm)
                here = _on_one_cpu(group, base)
                if here is not None and not _asleep(evidence, group, base):
                    rulings[case] = evidence.within(here, *FLAT)
                    pairs.append((group, base))
    if not rulings:
        return missing("pthreads or kernel threads of two cases are needed")
    ruling = evidence.all_of(rulings, "throughput")
    turns = ["Native pthreads' two are measured in turn"] if in_turn else []
    return ruling.also(*_which_time(pairs), *turns, *_half(rulings))


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
    """Where instructions are counted, with yields only: an atomic addition is one, too."""
    rulings: dict[str, Ruling] = {}
    pairs = []
    more = []
    for mode in MODES if evidence.place.clock != "instructions" else ("yield",):
        arms = {
            arm: _arm(asked, aligned.NAME, mode, arm)
            for asked, several in (
                (evidence, (COROUTINE_OWN, PTHREAD, KTHREAD)),
                (evidence.aside(), (COROUTINE, PTHREAD_OWN)),
            )
            for arm in several
        }
        for base in (PTHREAD, KTHREAD):
            here = _on_one_cpu(arms[COROUTINE_OWN], arms[base])
            if here is not None and not _asleep(evidence, arms[base]):
                rulings[f"{mode}, over {base.model}"] = evidence.more(here)
                pairs.append((arms[COROUTINE_OWN], arms[base]))
        here = _said_on_one_cpu(arms[COROUTINE], arms[PTHREAD])
        if here is not None:
            more.append(f"{mode}, with the pthreads' shared atomic counter: {_times(here)} pthread")
        here = _said_on_one_cpu(arms[COROUTINE_OWN], arms[PTHREAD_OWN])
        if here is not None:
            more.append(f"{mode}, pthreads with an own counter too: {_times(here)} pthread")
    if not rulings:
        return missing("coroutines beside pthreads or kernel threads are needed")
    ruling = evidence.all_of(rulings, "throughput of coroutines with own counters")
    return ruling.also(*_which_time(pairs), *more, *_half(rulings))


# ---- coroutine ----


def _invisible(evidence: Evidence) -> Ruling:
    groups = {
        model: evidence.group(coroutine.NAME, model, case="yield", counter="own")
        for model in coroutine.MODELS
    }
    rulings: dict[str, Ruling] = {}
    for model, group in groups.items():
        here = effects.level(group.values("os_share"), "% of the yields") if group else None
        if here is not None:
            rulings[model] = evidence.below(here, INVISIBLE)
    if not rulings:
        return missing("switches of coroutines that yield are needed")
    return evidence.all_of(rulings, "the kernel's switches for the coroutines' own")


CLAIMS = (
    Claim(
        "001.1",
        "001",
        yield_modes.NAME,
        "Kernel threads that keep accounts reach less than a third of pthreads, in both modes",
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
        "within 7.2 % from 1 to 10 million additions, in both modes (table 11)",
        _flat_in_work,
        steady=TAKEN_BY_OTHERS,
    ),
    Claim(
        "001.6",
        "001",
        thread_count.NAME,
        "Throughput does not depend on the number of threads on one CPU",
        "within 2.3 % from 4 to 32 threads (table 12)",
        _flat_in_threads,
        steady=TAKEN_BY_OTHERS,
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
        "check",
    ),
    Claim(
        "001.9",
        "001",
        binding.NAME,
        "In yield mode throughput does not depend on the number of CPUs",
        "kthread within 1.0 %, pthread within 5.7 % on 1, 2, 4 CPUs (table 10)",
        _yields_and_cpus,
    ),
    Claim(
        "001.10",
        "001",
        coroutine.NAME,
        "The kernel does not see coroutines yield: its switches are under 1 % of theirs",
        "4 switches of the system for 32 000 of the library, 0.0125 % (table 13)",
        _invisible,
        "counts",
    ),
    Claim(
        "001.11",
        "001",
        yield_modes.NAME,
        "A yield every 1000 additions costs more than half of the throughput",
        "8.8 % of it is left to pthreads, 7.7 % to kernel threads (tables 7, 8)",
        _yields_cost,
    ),
    Claim(
        "001.12",
        "001",
        yield_modes.NAME,
        "A kernel thread with a CPU of its own that only computes is never switched",
        "0 voluntary and 0 involuntary switches in normal mode (table 7)",
        _no_switches,
        "counts",
    ),
)
