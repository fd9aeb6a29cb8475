# SPDX-License-Identifier: Apache-2.0
"""Study 003, figures 1 and 2: threads that sleep and answer, beside loops that never end.

Figure 2 is a program in Go: an endless loop for each CPU and a main thread that
sleeps for a second and should then print. Before Go 1.14 it never did. ``main``
is that program, in pthreads, in uthreads with ticks and without, and in Go with
its signals and without. Main is to wake again and again; what is measured is how late
it wakes, from the moment that was meant. With eight loops a CPU it has others to wait for.

Figure 1 is a story: three programs of one busy pthread each beside one with
100 000 of them. ``neighbours`` measures it, with three pthreads that answer: alone,
beside as many busy pthreads as CPUs, beside 100 000 busy uthreads, and beside
20 000 busy pthreads, for a kernel allows 32 768 threads at a time by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swtch.experiments import Count, Experiment, Main, Mains, Metric, Setting, less, shape, value
from swtch.records import Model, Scalar, Trial

NAME: Final = "starvation"
MODELS: Final[tuple[Model, ...]] = ("pthread", "uthread", "go")
TICK_NS: Final = 1_000_000
CPUS: Final = 2
SPAN_NS: Final = 2_000_000_000
SPAN_QUICK_NS: Final = 300_000_000
# The last hundredth of a neighbour's answers is few of them in a short time; not beside very
# many pthreads, where none comes in time.
SPAN_NEIGHBOURS_QUICK_NS: Final = 600_000_000
SLEEP_NS: Final = 2_000_000

MANY_UTHREADS: Final = 100_000
QUICK_UTHREADS: Final = 15_000
MANY_PTHREADS: Final = 20_000
QUICK_PTHREADS: Final = 10_000
# An emulated processor is some twenty times slower, and a guest has little memory.
GUEST_UTHREADS: Final = 5_000
GUEST_PTHREADS: Final = 1_000


@dataclass(frozen=True)
class Case:
    """Who answers beside how many loops. ``loops`` is for each CPU, ``total`` is for all."""

    part: str  # main, neighbours
    name: str
    model: Model
    answerers: int = 1
    answerer: Model = "pthread"
    loops: int = 0
    total: int = 0
    preempt: bool = True
    order: str = "fifo"


def _main(loops: int) -> tuple[Case, ...]:
    """Figure 2 with so many loops for each CPU."""
    return (
        Case("main", "pthread", "pthread", loops=loops),
        Case("main", "uthread", "uthread", answerer="uthread", loops=loops),
        Case("main", "go", "go", answerer="go", loops=loops),
    )


ONE_LOOP: Final = (
    *_main(1),
    Case("main", "uthread, no ticks", "uthread", answerer="uthread", loops=1, preempt=False),
    Case("main", "go, no signals", "go", answerer="go", loops=1, preempt=False),
)
MORE_LOOPS: Final = (
    *_main(8),
    Case("main", "uthread, fair", "uthread", answerer="uthread", loops=8, order="fair"),
)


def neighbours(pthreads: int, uthreads: int) -> tuple[Case, ...]:
    """Figure 1 with so many busy threads."""
    return (
        Case("neighbours", "nobody", "pthread", 3),
        Case("neighbours", "a pthread a CPU", "pthread", 3, loops=1),
        Case("neighbours", "many pthreads", "pthread", 3, total=pthreads),
        Case("neighbours", "many uthreads", "uthread", 3, total=uthreads),
    )


QUICK: Final = (
    f"0.3 or 0.6 s a trial instead of 2, {QUICK_UTHREADS:_} uthreads and"
    f" {QUICK_PTHREADS:_} pthreads for the study's 100 000"
).replace("_", " ")
MANY_NOTE: Final = (
    f"{MANY_PTHREADS:_} pthreads for the study's 100 000: a kernel allows 32 768 threads by default"
).replace("_", " ")
GUEST: Final = (
    f"{GUEST_UTHREADS:_} uthreads and {GUEST_PTHREADS:_} pthreads for the study's 100 000, one"
    " loop a CPU only, and no Go"
).replace("_", " ")
ONE_CPU_NOTE: Final = "on one CPU: no more are allowed here"
POLICY_NOTE: Final = "SCHED_OTHER: under another policy, the kernel is told whom to starve"

# From the moment that was meant, and, as a closed loop sees it, of those alone that slept.
_TIMES: Final = ("intended_late", "intended_response", "late", "response")
METRICS: Final[Mapping[str, Metric]] = {
    **{
        f"{name}_{rank}_ms": value(f"{name}_{rank}_ns", "ms", 1e-6)
        for name in _TIMES
        for rank in ("p50", "p99", "p999", "max")
    },
    **{
        f"{name}_{rank}_mi": value(f"{name}_{rank}_instructions", "million instructions", 1e-6)
        for name in _TIMES
        for rank in ("p50", "p99", "p999", "max")
    },
    "answers": value("intended_late_n", "answers"),
    "slept": value("late_n", "answers"),
    "asked": value("asked", "answers"),
    "preempted": value("preempted", "uthreads"),
    "runnable": value("runnable", "threads"),
}


def hogs_of(case: Case, cpus: int) -> int:
    """How many loops there are in all."""
    return case.total or case.loops * cpus


def _span_ns(case: Case, setting: Setting) -> int:
    if not setting.quick:
        return SPAN_NS
    crowd = case.model == "pthread" and case.total
    short = case.part == "main" or crowd or setting.guest
    return SPAN_QUICK_NS if short else SPAN_NEIGHBOURS_QUICK_NS


def _trial(case: Case, setting: Setting) -> Trial:
    cpus = list(setting.cpus[:CPUS])
    hogs = hogs_of(case, len(cpus))
    factors: dict[str, Scalar] = {
        "part": case.part,
        "case": case.name,
        "loops": case.loops,
        "hogs": hogs,
        "workers": len(cpus),
        "preempt": case.preempt,
        "order": case.order,
        "policy": "other",
    }
    probe = {
        "schema": 1,
        "probe": "starvation",
        "model": case.model,
        "answerer": case.answerer,
        "answerers": case.answerers,
        "hogs": hogs,
        "span_ns": _span_ns(case, setting),
        "sleep_ns": SLEEP_NS,
        "cpus": cpus,
        "policy": "other",
        "seed": 0,
    }
    if case.model == "uthread":
        probe |= {"tick_ns": TICK_NS if case.preempt else 0, "order": case.order}
    if case.model == "go":
        probe["preempt"] = case.preempt
    many = f"{hogs}" if case.total else f"{case.loops}-a-cpu"
    slug = case.name.replace(",", "").replace(" ", "-")
    return setting.trial(NAME, f"{case.part}/{many}/{slug}", probe, factors, _note(case, setting))


def _note(case: Case, setting: Setting) -> str:
    notes = []
    # A quick run says so in its own line.
    many = case.total and case.model == "pthread" and not (setting.guest or setting.quick)
    if many:
        notes.append(MANY_NOTE)
    if len(setting.cpus) < CPUS:
        notes.append(ONE_CPU_NOTE)
    if setting.policy == "fifo":
        notes.append(POLICY_NOTE)
    return "; ".join(notes)


def cases(setting: Setting) -> tuple[Case, ...]:
    """Both figures; a guest has no Go."""
    if not setting.guest:
        uthreads = QUICK_UTHREADS if setting.quick else MANY_UTHREADS
        pthreads = QUICK_PTHREADS if setting.quick else MANY_PTHREADS
        known = (*ONE_LOOP, *MORE_LOOPS, *neighbours(pthreads, uthreads))
    else:
        known = (*ONE_LOOP, *neighbours(GUEST_PTHREADS, GUEST_UTHREADS))
    return tuple(
        case
        for case in known
        if case.model in setting.models and (case.model != "go" or not setting.guest)
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """One trial a case."""
    return tuple(_trial(case, setting) for case in cases(setting))


def _main_metric(trial: Trial) -> Mains:
    """The tail, which is what starves, of every moment that was meant; a neighbour has an answer
    to give as well."""
    name = "intended_late" if trial.factors["part"] == "main" else "intended_response"
    return {"time": Main(f"{name}_p99_ms"), "instructions": Main(f"{name}_p99_mi")}


EXPERIMENT = Experiment(
    name=NAME,
    title="Threads that want to answer, beside endless loops",
    study="003",
    question="How late does a thread wake while others compute without end?",
    models=MODELS,
    seconds=2.5,
    seconds_at={("native", "quick"): 0.55},
    trials=trials,
    metrics=METRICS,
    main=_main_metric,
    shortened=less(QUICK, GUEST),
    factors=shape(part=str, case=str, loops=Count, hogs=Count, workers=Count),
)
