# SPDX-License-Identifier: Apache-2.0
"""The claims of study 000: kernel-level and user-level threads on ARM64.

Its own user-level threads are pthreads; the kernel-level ones come from the
module and are measured in a guest by the vm engine.
"""

from __future__ import annotations

from collections.abc import Callable

from swtch.analysis import effects, stats
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, effect
from swtch.claims import About, Claim, Evidence, Ruling, missing, too_few
from swtch.experiments.coroutine_gantt import SLOTS
from swtch.experiments.scenarios import SCENARIOS
from swtch.records import Interval, Kind, Model, Sample

NO_PTHREAD = "no pthread samples in this run"
NO_KTHREAD = "kernel threads need the module, which this engine does not load"
HOW_KTHREAD = "the vm engine measures them in a guest"
CONVERGE = 0.05
CV_LIMIT = 5.0
PER_THREAD = (95.0, 105.0)


def _scenario(evidence: Evidence, model: Model, case: str) -> Group | None:
    return evidence.one("scenarios", model, scenario=case)


def _cases(evidence: Evidence, model: Model, cases: str) -> dict[str, Group]:
    found = {case: _scenario(evidence, model, case) for case in cases.split()}
    return {case: group for case, group in found.items() if group is not None}


def _models_with_kernel_counts(evidence: Evidence) -> list[Model]:
    return [m for m in ("pthread", "kthread") if evidence.of("scenarios", m)]


def _no_voluntary(evidence: Evidence) -> Ruling:
    models = _models_with_kernel_counts(evidence)
    if not models:
        return missing(NO_PTHREAD)
    counts: list[float] = []
    per_case: list[str] = []
    for model in models:
        for case, group in _cases(evidence, model, "A B1 B2").items():
            values = group.values("nvcsw")
            counts += values
            if values:
                per_case.append(f"{model} {case}: {max(values):g} at most")
    here = stats.interval(counts, "switches")
    if here is None:
        return missing("no samples of A, B1 and B2 in this run")
    if here.n < effects.LEAST:
        return too_few(None, n=here.n)
    share = sum(count > 0 for count in counts) / len(counts)
    why = "; ".join(per_case)
    if share == 0:
        return Ruling("holds", why, here, 0)
    if share > 0.5:
        return Ruling("differs", why, here, 0)
    return Ruling("cannot tell", f"{share:.0%} of the invocations had some: {why}", here, 0)


def _hundred_voluntary(evidence: Evidence) -> Ruling:
    models = _models_with_kernel_counts(evidence)
    if not models:
        return missing(NO_PTHREAD)
    per_thread: list[float] = []
    for model in models:
        for group in _cases(evidence, model, "C1 C2").values():
            threads = len(group.good[0].threads)
            per_thread += [value / threads for value in group.values("nvcsw")]
    here = effects.level(per_thread, "switches a thread")
    if here is None:
        return missing("no samples of C1 and C2 in this run")
    return evidence.within(here, *PER_THREAD, f"{' and '.join(models)}, C1 and C2 together")


def _counter_exact(evidence: Evidence) -> Ruling:
    samples = [sample for group in evidence.of("scenarios") for sample in group.good]
    if not samples:
        return missing("no scenario samples in this run")
    values = [sample.values["counter"] for sample in samples]
    wrong = [s for s in samples if s.values["counter"] != s.values["expected"]]
    here = stats.interval(values, "increments")
    models = ", ".join(dict.fromkeys(sample.model for sample in samples))
    if not wrong:
        return Ruling("holds", f"in all {len(samples)} invocations: {models}", here)
    first = wrong[0]
    return Ruling(
        "differs",
        f"{len(wrong)} of {len(samples)} invocations lost increments, first"
        f" {first.trial_id} with {first.values['counter']:g}",
        here,
    )


def _one_cpu_beats_four(evidence: Evidence) -> Ruling:
    base, single = _scenario(evidence, "pthread", "A"), _scenario(evidence, "pthread", "B2")
    if base is None or single is None:
        return missing("scenarios A and B2 of the pthreads are needed")
    used = base.trial.factors["cpus_used"]
    if not isinstance(used, int) or used < 2:
        return missing("A needs at least two CPUs, one is allowed", "allow more, or --engine vm")
    here = effect(single, base)
    if here is None:
        return missing("no comparable samples")
    plural = f"on {used} CPUs" + ("" if used == 4 else " instead of 4, so the contention is less")
    return evidence.above(here, 1.0, f"throughput of B2 over A, pthread; A ran {plural}")


def _kthread_over_pthread(evidence: Evidence, case: str) -> Effect | None:
    kthread, pthread = (
        _scenario(evidence, "kthread", case),
        _scenario(evidence, "pthread", case),
    )
    return effect(kthread, pthread) if kthread and pthread else None


def _kthread_wins_a(evidence: Evidence) -> Ruling:
    here = _kthread_over_pthread(evidence, "A")
    if here is None:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    return evidence.above(here, 1.0, "throughput of kthread over pthread in A")


def _kthread_wins_others(evidence: Evidence) -> Ruling:
    ratios = {case: _kthread_over_pthread(evidence, case) for case in ("B1", "B2", "C1")}
    found = {case: ratio for case, ratio in ratios.items() if ratio is not None}
    if not found:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    rulings = {case: evidence.above(ratio, 1.0) for case, ratio in found.items()}
    return evidence.all_of(rulings, "throughput of kthread over pthread")


def _converge(evidence: Evidence) -> Ruling:
    here = _kthread_over_pthread(evidence, "C2")
    if here is None:
        return missing(NO_KTHREAD, HOW_KTHREAD)
    return evidence.within(
        here, 1 - CONVERGE, 1 + CONVERGE, "throughput of kthread over pthread in C2"
    )


def _low_cv(evidence: Evidence) -> Ruling:
    cases = _cases(evidence, "pthread", " ".join(s.id for s in SCENARIOS))
    if not cases:
        return missing(NO_PTHREAD)
    intervals: dict[str, Interval] = {}
    for case, group in cases.items():
        made = stats.interval(group.speeds(), "%", stats.cv)
        if made is not None:
            intervals[case] = made
    fewest = min(len(group.speeds()) for group in cases.values())
    why = "CV of " + ", ".join(f"{c} {i.estimate:.1f} %" for c, i in intervals.items())
    worst = max(intervals.values(), key=lambda interval: interval.estimate, default=None)
    # One scenario is enough to contradict it; it takes all of them to hold.
    if any(i.low > CV_LIMIT and i.n >= effects.LEAST for i in intervals.values()):
        return Ruling("differs", why, worst, CV_LIMIT)
    if fewest < effects.LEAST:
        return too_few(None, threshold=CV_LIMIT, n=fewest)
    if all(i.high < CV_LIMIT for i in intervals.values()):
        return Ruling("holds", why, worst, CV_LIMIT)
    return Ruling(
        "cannot tell", f"{why}; an interval reaches across {CV_LIMIT:g} %", worst, CV_LIMIT
    )


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
    samples = [sample for group in groups for sample in group.good]
    wrong = [s for s in samples if [slot["task"] for slot in s.detail["slots"]] != list(SLOTS)]
    here = stats.interval([len(s.detail["slots"]) for s in samples], "slots")
    if wrong:
        return Ruling("differs", f"another order in {len(wrong)} invocations", here)
    models = " and ".join(dict.fromkeys(group.trial.model for group in groups))
    return Ruling("holds", f"slot for slot the published chart, {models}", here)


def _first_and_last(evidence: Evidence) -> Ruling:
    groups = _gantt(evidence)
    if not groups:
        return missing("no round-robin samples of coroutine-gantt in this run")
    orders = {tuple(s.detail["finished"]) for group in groups for s in group.good}
    shown = "; ".join(", ".join(map(str, order)) for order in sorted(orders))
    if all(order and order[0] == 4 and order[-1] == 3 for order in orders):
        return Ruling("holds", f"they finished in the order {shown}")
    return Ruling("differs", f"they finished in the order {shown}")


def _overflow(evidence: Evidence) -> Ruling:
    groups = evidence.of("coroutine-gantt")
    if not groups:
        return missing("no samples of coroutine-gantt in this run")
    samples = [sample for group in groups for sample in group.good]
    missed = [s for s in samples if s.detail.get("overflow_detected") is not True]
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
        "0 in every run",
        _no_voluntary,
        "counts",
    ),
    _claim(
        "2",
        "scenarios",
        "A sleeping thread makes about 100 voluntary switches (C1, C2)",
        "399.4 ± 0.9 and 399.2 ± 0.8 a run of four threads",
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
        "The coefficient of variation of pthreads is under 5 % in every scenario",
        "3.4, 4.3, 3.7, 4.0, 3.5 %",
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
