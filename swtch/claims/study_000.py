# SPDX-License-Identifier: Apache-2.0
"""The claims of study 000: kernel-level and user-level threads on ARM64.

Its own user-level threads are pthreads; the kernel-level ones come from the
module and are measured in a guest by the vm engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from swtch.analysis import effects, gates, stats
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, beside, effect
from swtch.analysis.neighbours import neighbours, percent
from swtch.claims import About, Claim, Evidence, Ruling, missing, plain, rules
from swtch.experiments.coroutine_gantt import SLOTS
from swtch.experiments.scenarios import EVERY, ITERATIONS, RUN_CV, SLEEP_NS, THREADS
from swtch.records import Kind, Model, Sample, Trial

NO_PTHREAD = "no pthread samples in this run"
NO_KTHREAD = "kernel threads need the module, which this engine does not load"
HOW_KTHREAD = "the vm engine measures them in a guest"
HOW_LONG = "an emulated CPU cannot tell that from none"
KTHREAD_HALF = "The kernel threads' half needs the module: --native-kthread, or a guest on KVM"
ASLEEP = "a sleep has no instructions"
MODELS: tuple[Model, ...] = ("pthread", "kthread")
INTERVENTIONS = THREADS * ITERATIONS // EVERY
CONVERGE = 0.05
CV_LIMIT = 5.0
PER_THREAD = (95.0, 105.0)
# "Yields are involuntary switches": most of them, where the study's fewest are 71 %.
MOST = INTERVENTIONS / 2
# "Hardly any": a tenth of the interventions. The study's most are 3 %, and what it calls
# noteworthy, the wake-ups that preempt in C1, is 26 %.
FEW = INTERVENTIONS / 10
# Of the measured CPUs' time. On an idle machine "others" are 2 or 3 % (interrupts, and the lab
# itself) and A has 30 involuntary switches; beside programs that took 32 % it had 132.
CROWDED = 0.10


def _scenario(evidence: Evidence, model: Model, case: str) -> Group | None:
    return evidence.group("scenarios", model, scenario=case)


def _each(evidence: Evidence, cases: str) -> dict[str, Group]:
    """By name, every configuration of a model and one of the scenarios that was measured."""
    known = ((model, case) for model in MODELS for case in cases.split())
    groups = {f"{model} {case}": _scenario(evidence, model, case) for model, case in known}
    return {name: group for name, group in groups.items() if group is not None}


def _nothing(evidence: Evidence, cases: str) -> Ruling:
    if any(evidence.of("scenarios", model) for model in MODELS):
        return missing(f"no samples of {cases} in this run")
    return missing(NO_PTHREAD)


def _few_cpus(groups: Mapping[str, Group]) -> list[str]:
    """What was not measured on as many CPUs as the scenario has."""
    return [
        f"{name} ran on {group.trial.factors['cpus_used']} CPUs instead of"
        f" {group.trial.factors['cpus_asked']}, so the contention is less"
        for name, group in groups.items()
        if group.trial.factors["cpus_used"] != group.trial.factors["cpus_asked"]
    ]


def _no_voluntary(evidence: Evidence) -> Ruling:
    groups = _each(evidence, "A B1 B2")
    counts = {name: group.values("nvcsw") for name, group in groups.items()}
    rulings = {
        name: rules.of_counts(
            values, values.count(0), "", stats.median_interval(values, "switches"), 0
        )
        for name, values in counts.items()
        if values
    }
    if not rulings:
        return _nothing(evidence, "A, B1 and B2")
    some = [f"{name}: {max(counts[name]):g} at most" for name in rulings if max(counts[name])]
    return evidence.all_of(rulings, "voluntary switches").also(*some)


def _hundred_voluntary(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    for name, group in _each(evidence, "C1 C2").items():
        counted = [(gates.total(s, "nvcsw"), len(s.threads)) for s in group.good]
        each = [total / threads for total, threads in counted if total is not None]
        here = effects.level(each, "a thread")
        if here is not None:
            rulings[name] = evidence.within(here, *PER_THREAD)
    if not rulings:
        return _nothing(evidence, "C1 and C2")
    return evidence.all_of(rulings, "voluntary switches")


def _counter_exact(evidence: Evidence) -> Ruling:
    """Against what the trial asked for: a probe that did nothing expects nothing, too."""
    asked = [
        (sample, _increments(group.trial, sample))
        for group in evidence.of("scenarios")
        for sample in group.good
        if "counter" in sample.values
    ]
    samples = [sample for sample, _ in asked]
    if not samples:
        return missing("no scenario samples in this run that say what was counted")
    values = [sample.values["counter"] for sample in samples]
    wrong = [sample for sample, all_of in asked if sample.values["counter"] != all_of]
    here = stats.median_interval(values, "increments")
    models = ", ".join(dict.fromkeys(sample.model for sample in samples))
    if not wrong:
        return Ruling("holds", f"in all {len(samples)} invocations: {models}", here)
    first = wrong[0]
    return Ruling(
        "differs",
        f"{len(wrong)} of {len(samples)} invocations lost increments, first"
        f" {first.trial_id} with {_all_digits(first.values['counter'])}",
        here,
    )


def _all_digits(count: float) -> str:
    """All its digits: of millions a few may be lost."""
    return f"{count:,.0f}".replace(",", " ")


def _increments(trial: Trial, sample: Sample) -> float | None:
    """How many there are to be; what the probe says itself where the trial does not."""
    threads, each = (trial.probe.get(name) for name in ("threads", "iterations"))
    if isinstance(threads, int) and isinstance(each, int):
        return threads * each
    return sample.values.get("expected")


def _one_cpu_beats_four(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    contended: dict[str, Group] = {}
    alone = False
    for model in MODELS:
        base, single = _scenario(evidence, model, "A"), _scenario(evidence, model, "B2")
        if base is None or single is None:
            continue
        used = base.trial.factors["cpus_used"]
        if not isinstance(used, int) or used < 2:
            alone = True
            continue
        here = beside(single, base)
        if here is not None:
            rulings[model] = evidence.more(here)
            contended[f"A of {model}s"] = base
    if alone and not rulings:
        return missing("A needs at least two CPUs, one is allowed", "allow more, or --engine vm")
    if not rulings:
        return missing("scenarios A and B2 of the same threads are needed")
    ruling = evidence.all_of(rulings, "throughput of B2 over A")
    return ruling.also(*_few_cpus(contended), *_without_kthread(rulings))


def _without_kthread(names: Mapping[str, object]) -> list[str]:
    """What a verdict says that is the pthreads' alone."""
    return [] if any(name.startswith("kthread") for name in names) else [KTHREAD_HALF]


def _kthread_over_pthread(evidence: Evidence, case: str) -> Effect | None:
    kthread, pthread = (
        _scenario(evidence, "kthread", case),
        _scenario(evidence, "pthread", case),
    )
    return beside(kthread, pthread) if kthread and pthread else None


def _kthread_wins(evidence: Evidence, cases: str) -> Ruling:
    """In each of the scenarios; where instructions are counted, only those without sleeps."""
    counted = evidence.place.clock == "instructions"
    wanted = [case for case in cases.split() if not (counted and case[0] == "C")]
    ratios = {case: _kthread_over_pthread(evidence, case) for case in wanted}
    rulings = {case: evidence.more(ratio) for case, ratio in ratios.items() if ratio is not None}
    if not rulings:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    return evidence.all_of(rulings, "throughput of kthread over pthread")


def _kthread_wins_a(evidence: Evidence) -> Ruling:
    return _kthread_wins(evidence, "A")


def _kthread_wins_others(evidence: Evidence) -> Ruling:
    return _kthread_wins(evidence, "B1 B2 C1")


def _converge(evidence: Evidence) -> Ruling:
    if evidence.place.clock == "instructions":
        return missing(ASLEEP, HOW_KTHREAD)
    here = _kthread_over_pthread(evidence, "C2")
    if here is None:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    return evidence.within(
        here, 1 - CONVERGE, 1 + CONVERGE, "throughput of kthread over pthread in C2"
    )


def _low_cv(evidence: Evidence) -> Ruling:
    """Of five runs in a row, as the study's; a block is the mean of the two such CVs of an
    invocation, so that what drifts between blocks is none of it."""
    groups = _each(evidence, "A B1 B2 C1 C2")
    if not groups:
        return missing(NO_PTHREAD)
    rulings: dict[str, Ruling] = {}
    for name, group in groups.items():
        here = effects.level(group.values(RUN_CV), "%")
        if here is not None and name == "kthread C1":
            rulings[name] = evidence.above(here, CV_LIMIT)
        elif here is not None:
            rulings[name] = evidence.below(here, CV_LIMIT)
    if not rulings:
        return missing("one run an invocation here, of which there is no CV")
    ruling = evidence.all_of(rulings, "CV of the runs of an invocation")
    return ruling.also(*_without_kthread(rulings))


# ---- the involuntary signatures ----


def _signature(
    evidence: Evidence, above: Mapping[str, float], below: Mapping[str, float]
) -> Ruling:
    """Of each configuration: whether its involuntary switches are above or below a bound."""
    bounds = {**above, **below}
    cases = dict.fromkeys(name.split()[1] for name in bounds)
    groups = _each(evidence, " ".join(cases))
    rulings: dict[str, Ruling] = {}
    for name, bound in bounds.items():
        here = effects.level(groups[name].values("nivcsw"), "switches") if name in groups else None
        if here is not None:
            side = evidence.above if name in above else evidence.below
            rulings[name] = _by_others(groups[name], side(here, bound), name in above)
    if not rulings:
        return _nothing(evidence, " and ".join(cases))
    ruling = evidence.all_of(rulings, f"involuntary switches for {INTERVENTIONS} interventions")
    if ruling.verdict == "holds" and not above.keys() & rulings.keys():
        # That there are few where there are to be few is half of a signature.
        more = f"Nothing was measured of {' or '.join(above)}, which is to have more"
        ruling = replace(ruling.also(more), verdict="cannot tell")
    return ruling.also(*_few_cpus({name: groups[name] for name in rulings}))


def _by_others(group: Group, ruling: Ruling, above: bool) -> Ruling:
    """The kernel counts who is preempted, not by whom: beside other programs a case that has
    too many switches, or enough of them, says nothing."""
    others = neighbours([group]).others or 0.0
    if others <= CROWDED or ruling.verdict != ("holds" if above else "differs"):
        return ruling
    return replace(
        ruling,
        verdict="cannot tell",
        questions=(),
        open=f"cannot tell, for others had {percent(others)} of its CPUs",
    )


def _yields_involuntary(evidence: Evidence) -> Ruling:
    above = {f"{model} {case}": MOST for model in MODELS for case in ("B1", "B2")}
    return _signature(evidence, above, {f"{model} A": FEW for model in MODELS})


def _wakeups_preempt(evidence: Evidence) -> Ruling:
    """Whom a timer wakes while another computes depends on how long it sleeps."""
    groups = _each(evidence, "C1 C2").values()
    slept = {group.trial.probe.get("sleep_ns") or 0 for group in groups}
    if slept - {SLEEP_NS}:
        longest = max(slept)
        return missing(f"the threads slept {longest / 1000:g} µs instead of 1 µs", HOW_LONG)
    few = {"kthread C1": FEW, "pthread C2": FEW, "kthread C2": FEW}
    return _signature(evidence, {"pthread C1": FEW}, few)


def _one_cpu_yields_more(evidence: Evidence) -> Ruling:
    crowded, apart = (_scenario(evidence, "pthread", case) for case in ("B2", "B1"))
    if crowded is None or apart is None:
        return missing("switches of pthreads in B1 and B2 are needed")
    if apart.trial.factors["cpus_used"] == crowded.trial.factors["cpus_used"]:
        return missing("B1 needs two CPUs, one is allowed", "allow more, or --engine vm")
    here, more = beside(crowded, apart, "nivcsw"), _more_switches(crowded, apart)
    why = "involuntary switches of pthreads, B2 over B1"
    if here is not None:
        ruling = evidence.more(here, why)
    elif more is not None:
        beyond = "by how many they are above a twentieth more; a block without any has no ratio"
        ruling = evidence.above(more, 0.0, f"{why}, {beyond}")
    else:
        return missing("switches of pthreads in B1 and B2 are needed")
    aside = evidence.aside()
    k_crowded, k_apart = (_scenario(aside, "kthread", case) for case in ("B2", "B1"))
    kernels = effect(k_crowded, k_apart, "nivcsw") if k_crowded and k_apart else None
    if kernels is not None:
        ruling = ruling.also(f"Kernel threads: {plain(kernels.estimate)} x, the study's 0.79 x")
    return ruling.also(*_few_cpus({"B1": apart}))


def _more_switches(a: Group, b: Group) -> Effect | None:
    """By how many `a`'s are above a twentieth more than `b`'s, of which there may be none."""
    left, right = (group.by_block("nivcsw") for group in (a, b))
    blocks = sorted(left.keys() & right.keys())
    return effects.level([left[i] - rules.MORE * right[i] for i in blocks], "switches")


def _identity(evidence: Evidence) -> Ruling:
    """Table VI, as observed."""
    groups = evidence.of("scenarios", "pthread")
    samples = [sample for group in groups for sample in group.good if sample.threads]
    if not samples:
        return missing(NO_PTHREAD)
    bad = [sample for sample in samples if not _pthread_identity(sample)]
    example = samples[0].threads
    why = f"e.g. PID {example[0].pid}, TIDs {', '.join(str(t.tid) for t in example)}"
    kthreads = [s for group in evidence.of("scenarios", "kthread") for s in group.good]
    bad += [s for s in kthreads if any(t.pid != t.tid for t in s.threads)]
    if kthreads:
        why += f"; kthread PIDs {', '.join(str(t.pid) for t in kthreads[0].threads)}"
    else:
        why += "; the kthread half needs the vm engine"
    if bad:
        return Ruling("differs", f"{len(bad)} invocations contradict it, first {bad[0].trial_id}")
    return Ruling("holds", why)


def _pthread_identity(sample: Sample) -> bool:
    pids = {thread.pid for thread in sample.threads}
    tids = {thread.tid for thread in sample.threads}
    return len(pids) == 1 and len(tids) == len(sample.threads)


# ---- section VII ----


def _gantt(evidence: Evidence) -> list[Group]:
    return evidence.of("coroutine-gantt", order="round-robin")


def _round_robin(evidence: Evidence) -> Ruling:
    groups = _gantt(evidence)
    if not groups:
        return missing("no round-robin samples of coroutine-gantt in this run")
    samples = [sample for group in groups for sample in group.good if "slots" in sample.detail]
    if not samples:
        return missing("the samples of coroutine-gantt have no slots")
    wrong = [s for s in samples if [slot["task"] for slot in s.detail["slots"]] != list(SLOTS)]
    here = stats.median_interval([len(s.detail["slots"]) for s in samples], "slots")
    if wrong:
        return Ruling("differs", f"another order in {len(wrong)} invocations", here)
    models = " and ".join(dict.fromkeys(group.trial.model for group in groups))
    return Ruling("holds", f"slot for slot the published chart, {models}", here)


def _first_and_last(evidence: Evidence) -> Ruling:
    groups = _gantt(evidence)
    if not groups:
        return missing("no round-robin samples of coroutine-gantt in this run")
    known = [s for group in groups for s in group.good if "finished" in s.detail]
    if not known:
        return missing("the samples of coroutine-gantt do not say who finished when")
    orders = {tuple(sample.detail["finished"]) for sample in known}
    shown = "; ".join(", ".join(map(str, order)) for order in sorted(orders))
    if all(order and order[0] == 4 and order[-1] == 3 for order in orders):
        return Ruling("holds", f"they finished in the order {shown}")
    return Ruling("differs", f"they finished in the order {shown}")


def _overflow(evidence: Evidence) -> Ruling:
    groups = evidence.of("coroutine-gantt")
    if not groups:
        return missing("no samples of coroutine-gantt in this run")
    samples = [s for group in groups for s in group.good if "overflow_detected" in s.detail]
    if not samples:
        return missing("the samples of coroutine-gantt do not say whether overflow was detected")
    missed = [s for s in samples if s.detail["overflow_detected"] is not True]
    if missed:
        return Ruling("differs", f"not detected in {len(missed)} of {len(samples)} invocations")
    return Ruling("holds", f"a guard page ended the process by SIGSEGV, {len(samples)} times")


def _claim(
    number: str,
    experiment: str,
    text: str,
    published: str,
    check: Callable[[Evidence], Ruling],
    about: About = "time",
    kind: Kind = "finding",
) -> Claim:
    return Claim(f"000.{number}", "000", experiment, text, published, check, about, kind)


CLAIMS = (
    _claim(
        "1",
        "scenarios",
        "Voluntary switches are exactly 0 where threads do nothing or yield (A, B1, B2)",
        "0 in every run, pthread and kthread",
        _no_voluntary,
        "counts",
    ),
    _claim(
        "2",
        "scenarios",
        "A sleeping thread makes about 100 voluntary switches (C1, C2)",
        "a run of four: pthread 399.4 ± 0.9, 399.2 ± 0.8; kthread 398.8 ± 1.3, 399.2 ± 0.8",
        _hundred_voluntary,
        "counts",
    ),
    _claim(
        "3",
        "scenarios",
        "The shared counter is exactly 4 000 000 in every run",
        "4 000 000",
        _counter_exact,
        "counts",
        "check",
    ),
    _claim(
        "4",
        "scenarios",
        "One CPU beats four on one shared counter (B2 over A)",
        "2.87 x pthread, 3.20 x kthread",
        _one_cpu_beats_four,
    ),
    _claim("5", "scenarios", "kthread beats pthread at A", "+25.4 %", _kthread_wins_a),
    _claim(
        "6",
        "scenarios",
        "kthread beats pthread at B1, B2 and C1",
        "+82.2 %, +39.8 %, +28.5 %",
        _kthread_wins_others,
    ),
    _claim("7", "scenarios", "kthread and pthread converge at C2", "-1.5 %", _converge),
    _claim(
        "8",
        "scenarios",
        "The CV of five runs is under 5 % everywhere, but for kernel threads in C1",
        "pthread 3.4, 4.3, 3.7, 4.0, 3.5 %; kthread 2.7, 3.6, 2.6, 9.4, 2.4 % (A, B1, B2, C1, C2)",
        _low_cv,
    ),
    _claim(
        "9",
        "scenarios",
        "pthreads share a PID and differ in TID; a kthread's PID is its TID",
        "PID 1401, TIDs 1402-1405; kthreads 1767-1770",
        _identity,
        "counts",
        "check",
    ),
    _claim(
        "10",
        "scenarios",
        "A yield is an involuntary switch: most of 400 are in B1 and B2, and few are in A",
        "pthread 302.4, 392.8 and 12.6 a run; kthread 356.0, 282.6 and 0",
        _yields_involuntary,
        "counts",
    ),
    _claim(
        "11",
        "scenarios",
        "Sleepers that wake preempt pthreads in C1, but not kernel threads and not in C2",
        "C1: pthread 103.0, kthread 8.0 a run; C2: pthread 10.8, kthread 0",
        _wakeups_preempt,
        "counts",
    ),
    _claim(
        "12",
        "scenarios",
        "Pthreads that yield are switched more often on one CPU than on two",
        "392.8 in B2, 302.4 in B1: 1.30 x",
        _one_cpu_yields_more,
        "counts",
    ),
    _claim(
        "VII.1",
        "coroutine-gantt",
        "Five coroutines of 3, 3, 3, 5, 2 iterations take 16 slots, in turn",
        "16 slots, round robin (figure 3)",
        _round_robin,
        "counts",
        "check",
    ),
    _claim(
        "VII.2",
        "coroutine-gantt",
        "Coroutine 4 finishes first and coroutine 3 last",
        "4, 0, 1, 2, 3 (figure 2)",
        _first_and_last,
        "counts",
        "check",
    ),
    _claim(
        "VII.3",
        "coroutine-gantt",
        "A coroutine that overflows its stack can be detected (future work)",
        "a risk of the global array; not measured",
        _overflow,
        "counts",
        "check",
    ),
)
