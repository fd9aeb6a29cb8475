# SPDX-License-Identifier: Apache-2.0
"""What the seven experiments of study 001 share: arms, sizes, metrics.

The study compares three programs: a module's kernel threads, pthreads and a coroutine
library, each of which adds ones to a counter and in *yield* mode gives up the CPU after
every so many. The three differ in more than the kind of thread, so each *arm* here says
which of the differences it has:

- ``loop``: the module's loop keeps accounts of every addition (``instrumented``); the
  others' do not (``bare``). Kernel threads are measured with both.
- ``operation``: in yield mode the module sleeps (``schedule_timeout`` of one tick), the
  pthreads call ``sched_yield``, the coroutines switch in user space. The *matched* arm
  of the kernel threads calls what ``sched_yield`` calls, so that both stay runnable.
- ``counter``: threads share one and add atomically (``shared``); the study's coroutines
  have one each and add without an atomic instruction (``own``). Coroutines and pthreads
  are measured with both.

A thread yields between stretches of work: 999 times in 1 000 000 / 1000, as the study's.

Policy: the study names none, so the threads have SCHED_OTHER.

Sizes: throughput, efficiency and switches for so much work do not depend on the amount
(claim 001.5 is about that), so a run that is not of depth *paper* does less of it where a
processor is emulated, and sleeps less often where every sleep takes two ticks. Natively
and on several CPUs an invocation is three runs in a row, as many as the study's, and its
sample is the run of median time.

Where a claim says that a case is as fast as the first (work-scaling, thread-count), the two
must not be half a second apart: this machine's speed changes by a tenth in that time. So
natively an invocation of the case does the first one, too, in turn with its own runs, and
`OVER_FIRST` is the median ratio of a run to those on either side.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from swtch.engines import TRAITS
from swtch.experiments import (
    SPEED,
    Count,
    Main,
    Mains,
    Metric,
    PublishedKey,
    Setting,
    Some,
    shape,
    value,
)
from swtch.records import Depth, Engine, Model, Published, Sample, Scalar, Trial

WORK: Final = 1_000_000
INTERVAL: Final = 1000
JIFFIES: Final = 1
# Two ticks of a kernel of 100 Hz, the longest there are.
SLEEP_MOST_S: Final = 0.02
# The study repeated three times: within an invocation, and those are repeated.
RUNS: Final = 3
REPEATS: Final[Mapping[Depth, int]] = {"paper": 6}
# The metric: a case over the first of its experiment, within an invocation.
OVER_FIRST: Final = "over_first"
# Runs of the case beside it. A quick run's are shorter, so that they alternate faster.
TURNS: Final[Mapping[Depth, int]] = {"quick": 5, "normal": RUNS, "paper": RUNS}
QUICK_PART: Final = 5


def guest_seconds(paper: float) -> dict[tuple[Engine, Depth], float]:
    """What an invocation takes in a guest; with the study's sizes it is sleeping mostly."""
    return {("vm", "quick"): 0.2, ("vm", "normal"): 0.4, ("vm", "paper"): paper}


# Additions of all threads together in a guest, by loop.
GUEST_WORK: Final[Mapping[Depth, Mapping[str, int]]] = {
    "quick": {"bare": 1_600_000, "instrumented": 160_000},
    "normal": {"bare": 8_000_000, "instrumented": 800_000},
}
# Where the work is what varies, the least of it must still outlast the threads' start.
SCALING: Final = 5
LEAST_WORK: Final = 10_000
SLEEPS: Final[Mapping[Depth, int]] = {"quick": 6, "normal": 25}

LESS: Final = "less work a thread than the study's, as rates do not depend on it"

Operation = Literal["own", "matched"]
OPERATIONS: Final[Mapping[Model, str]] = {
    "pthread": "sched_yield",
    "kthread": "schedule_timeout",
    "uthread": "uthread_yield",
    "coroutine": "coroutine_yield",
    "ucontext": "coroutine_yield",
}
ONE_CPU_MODELS: Final[frozenset[Model]] = frozenset({"coroutine", "ucontext"})


@dataclass(frozen=True)
class Arm:
    """A kind of thread with what it does between stretches of work, and how it counts."""

    model: Model
    loop: Literal["bare", "instrumented"] = "bare"
    operation: Operation = "own"
    counter: Literal["shared", "own"] = "shared"

    @property
    def name(self) -> str:
        """In ids, tables and legends."""
        parts: list[str] = [self.model]
        if self.model == "kthread":
            parts.append(self.loop)
        if self.operation == "matched":
            parts.append("sched_yield")
        if self.counter == "own":
            parts.append("own counter")
        return " ".join((parts[0], ", ".join(parts[1:]))).strip()


PTHREAD: Final = Arm("pthread")
PTHREAD_OWN: Final = Arm("pthread", counter="own")
UTHREAD: Final = Arm("uthread")
KTHREAD: Final = Arm("kthread", loop="instrumented")
KTHREAD_BARE: Final = Arm("kthread")
KTHREAD_MATCHED: Final = Arm("kthread", operation="matched")
KTHREAD_MATCHED_INSTRUMENTED: Final = Arm("kthread", loop="instrumented", operation="matched")
COROUTINE: Final = Arm("coroutine")
COROUTINE_OWN: Final = Arm("coroutine", counter="own")
UCONTEXT: Final = Arm("ucontext")
UCONTEXT_OWN: Final = Arm("ucontext", counter="own")
STUDY_ARMS: Final = (PTHREAD, KTHREAD, UCONTEXT_OWN)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of a table. ``interval`` 0 is the study's normal mode.

    ``work`` is the study's, of each thread; ``threads_most`` and ``work_most`` are the
    largest of the experiment, by which all its cases are reduced alike. ``studied`` are the
    arms that the study measured, too. ``first`` is the case beside which this one is measured;
    it and those beside it have ``in_turn``.
    """

    name: str
    threads: int = 4
    work: int = WORK
    interval: int = 0
    cpus: int = 1
    threads_most: int = 4
    work_most: int = WORK
    studied: tuple[Arm, ...] = STUDY_ARMS
    first: Case | None = None
    in_turn: bool = False

    @property
    def mode(self) -> str:
        return "yield" if self.interval else "normal"


def sleeps(arm: Arm, case: Case) -> bool:
    """Whether the arm gives up its CPU by sleeping."""
    return bool(case.interval) and arm.model == "kthread" and arm.operation == "own"


def work_of(arm: Arm, case: Case, setting: Setting) -> int:
    """Additions of each thread."""
    if setting.depth == "paper":
        return case.work
    # The least work of the experiment, of which the others are multiples.
    times = case.work * 10 // case.work_most
    least = case.work_most // 10
    if setting.guest:
        total = GUEST_WORK[setting.depth][arm.loop]
        if case.work_most > WORK:
            total *= SCALING
        least = min(least, max(LEAST_WORK, total // case.threads_most) // 10)
    elif case.in_turn and setting.quick and not setting.counting:
        least //= QUICK_PART
    work = least * times
    few = SLEEPS[setting.depth]
    if sleeps(arm, case):
        share = 1 if case.work_most == WORK else times
        return min(case.work, case.interval * (few + 1) * share)
    return min(case.work, max(work, case.interval * (few + 1)))


def expected_yields(trial: Trial) -> int:
    """Of all threads together: between stretches of work."""
    factors = trial.factors
    interval, work, threads = (int(str(factors[n])) for n in ("interval", "work", "threads"))
    return threads * (-(-work // interval) - 1) if interval else 0


def shortened(planned: tuple[Trial, ...], *left_out: str) -> str:
    """What is not done, as one of the seven says, and whether threads do less than the study's."""
    less = any(int(str(t.factors["work"])) < int(str(t.factors["work_asked"])) for t in planned)
    return "; ".join(filter(None, (*left_out, LESS if less else "")))


def trial(experiment: str, arm: Arm, case: Case, setting: Setting) -> Trial:
    """The trial of one arm in one case."""
    policy = setting.policy_of("other")
    cpus = setting.cpus[: 1 if arm.model in ONE_CPU_MODELS else case.cpus]
    work = work_of(arm, case, setting)
    operation = "sched_yield" if arm.operation == "matched" else OPERATIONS[arm.model]
    factors: dict[str, Scalar] = {
        "case": case.name,
        "arm": arm.name,
        "mode": case.mode,
        "threads": case.threads,
        "work": work,
        "work_asked": case.work,
        "interval": case.interval,
        "operation": operation if case.interval else "none",
        "loop": arm.loop,
        "counter": arm.counter,
        "cpus_asked": case.cpus,
        "cpus_used": len(cpus),
        "policy": policy,
    }
    return setting.trial(
        case=f"{case.name}/{_slug(arm.name)}".replace(" ", "-"),
        experiment=experiment,
        factors=factors,
        probe={
            "schema": 1,
            "probe": "scenario",
            "model": arm.model,
            "threads": case.threads,
            "iterations": work,
            # Never, as one stretch of everything: the probe's own least is 1.
            "every": case.interval or work,
            **_intervening(arm, case),
            **_rounds(arm, case, setting),
            "cpus": list(cpus),
            "policy": policy,
            "seed": 0,
        },
        note=_cpu_note(arm, case, len(cpus)),
        timeout_s=_timeout(arm, case, work, setting),
    )


FACTORS = shape(
    **dict.fromkeys(("case", "arm", "mode", "operation"), str),
    **dict.fromkeys(("threads", "work", "work_asked", "interval"), Count),
    **dict.fromkeys(("cpus_asked", "cpus_used"), Some),
)


def _slug(name: str) -> str:
    return name.replace(",", "")


def _intervening(arm: Arm, case: Case) -> dict[str, Any]:
    """The module has its own words for what the user-space probe is told."""
    if arm.model == "kthread":
        mode = "sched_yield" if arm.operation == "matched" else "yield"
        return {
            "work_mode": mode if case.interval else "normal",
            "loop": arm.loop,
            "yield_sleep_jiffies": JIFFIES,
        }
    return {
        "intervention": "yield" if case.interval else "none",
        "between": True,
        "counter": arm.counter,
    }


def _rounds(arm: Arm, case: Case, setting: Setting) -> dict[str, Any]:
    """On one CPU its time is what is compared, which a neighbour does not spoil. The module
    does one run; a guest, too, whose time is seldom of use."""
    if setting.guest or arm.model == "kthread":
        return {}
    if case.first is not None and not setting.counting:
        work = work_of(arm, case.first, setting)
        first = {"iterations": work, "every": case.first.interval or work}
        reference = {"threads": case.first.threads, **first}
        return {"rounds": TURNS[setting.depth], "reference": reference}
    return {"rounds": RUNS} if case.cpus > 1 else {}


def _timeout(arm: Arm, case: Case, work: int, setting: Setting) -> float:
    """As asked for, and more where the study's own sizes need it."""
    slept = work / case.interval * SLEEP_MOST_S if sleeps(arm, case) else 0.0
    # Emulated and with accounts, an addition takes about a microsecond.
    counted = work * case.threads * 3e-6 if setting.guest else 0.0
    return setting.timeout_s + 2 * slept + counted


def _cpu_note(arm: Arm, case: Case, used: int) -> str:
    """Of what the study measured: that this machine cannot do as it did."""
    if used >= case.cpus or arm not in case.studied:
        return ""
    return (
        f"the study used {case.cpus} CPUs and {used} {'is' if used == 1 else 'are'} allowed"
        f" here, so the {case.threads} threads shared {used} CPU{'s'[: used - 1]}"
    )


def few(setting: Setting) -> bool:
    """Whether a guest has so little time that trials are left out."""
    return setting.depth == "quick" and setting.guest and not setting.counting


def measured(arms: tuple[Arm, ...], setting: Setting) -> tuple[Arm, ...]:
    """Those of `arms` whose model was asked for."""
    return tuple(arm for arm in arms if arm.model in setting.models)


def modes(*modes: str) -> tuple[tuple[str, int], ...]:
    """(mode, interval) of the study's two."""
    return tuple((mode, INTERVAL if mode == "yield" else 0) for mode in modes)


# ---- metrics ----


def _usage(sample: Sample, field: str) -> list[int] | None:
    """A counter of the kernel threads of a sample: its own, or those that carried them."""
    if TRAITS[sample.engine].counting:  # these count instructions there
        return None
    counts = [getattr(thread, field) for thread in sample.threads]
    if any(count is None for count in counts):
        counts = [getattr(carrier, field) for carrier in sample.carriers]
    known = [count for count in counts if count is not None]
    return known or None


def _total_ms(field: str) -> Metric:
    def of_sample(sample: Sample) -> float | None:
        counts = _usage(sample, field)
        return sum(counts) / 1e6 if counts else None

    return Metric(unit="ms", of_sample=of_sample)


def _efficiency(sample: Sample) -> float | None:
    """The share of the CPUs' time in which the threads ran, in percent."""
    counts, wall = _usage(sample, "cpu_ns"), sample.values.get("wall_ns")
    cpus = sample.factors.get("cpus_used")
    if not counts or not wall or not isinstance(cpus, int):
        return None
    return 100 * sum(counts) / (wall * cpus)


def _runtime_ms(sample: Sample) -> float | None:
    if TRAITS[sample.engine].counting or not sample.threads:
        return None
    took = [thread.end_ns - thread.start_ns for thread in sample.threads]
    return sum(took) / len(took) / 1e6


def _mops_by_runtimes(sample: Sample) -> float | None:
    """By the sum of the threads' runtimes, as the study's own figures seem to be."""
    total = sum(thread.end_ns - thread.start_ns for thread in sample.threads)
    done = sample.values.get("counter")
    return done * 1e3 / total if done and total and not TRAITS[sample.engine].counting else None


def _thread_cpu_ms(sample: Sample) -> float | None:
    counts = [thread.cpu_ns for thread in sample.threads if thread.cpu_ns is not None]
    if TRAITS[sample.engine].counting or not counts:
        return None
    return sum(counts) / len(counts) / 1e6


def _voluntary_for_a_million(sample: Sample) -> float | None:
    """The one number that trials with less work than the study's have in common with it."""
    counts = [thread.nvcsw for thread in sample.threads if thread.nvcsw is not None]
    done = sample.values.get("counter")
    return sum(counts) * 1e6 / done if counts and done else None


def _logical(sample: Sample) -> float | None:
    """Yields among coroutines, as the study counts them: its library's own switches."""
    switches = sample.values.get("switches")
    if sample.model not in ONE_CPU_MODELS or switches is None:
        return None
    # Out and in for each, and once to begin and to end each coroutine.
    return switches / 2 - len(sample.threads)


def _os_switches(sample: Sample) -> float | None:
    """What the kernel switched while coroutines ran, which it knows nothing of."""
    if sample.model not in ONE_CPU_MODELS or not sample.carriers:
        return None
    return sum(carrier.nvcsw + carrier.nivcsw for carrier in sample.carriers)


def _os_share(sample: Sample) -> float | None:
    switches, logical = _os_switches(sample), _logical(sample)
    return 100 * switches / logical if switches is not None and logical else None


def _over_first(sample: Sample) -> float | None:
    """By CPU time: of each run over the geometric mean of the first case's on either side,
    the median."""
    own, first = (sample.detail.get(f"{who}_cpu_ns") for who in ("round", "reference"))
    done, counted = sample.values.get("counter"), sample.values.get("reference_counter")
    if not isinstance(own, list) or not isinstance(first, list) or len(first) != len(own) + 1:
        return None
    if not own or not done or not counted or min((*own, *first)) <= 0:
        return None
    beside = [math.sqrt(a * b) / counted for a, b in itertools.pairwise(first)]
    ratios = [each * done / ns for each, ns in zip(beside, own, strict=True)]
    return float(statistics.median(ratios))


METRICS: Final[Mapping[str, Metric]] = {
    "user_ms": _total_ms("utime_ns"),
    "system_ms": _total_ms("stime_ns"),
    "cpu_ms": _total_ms("cpu_ns"),
    "cpu_efficiency": Metric(unit="%", of_sample=_efficiency),
    "runtime_ms": Metric(unit="ms a thread", of_sample=_runtime_ms),
    "mops_by_runtimes": Metric(unit="Mops/s", of_sample=_mops_by_runtimes),
    "thread_cpu_ms": Metric(unit="ms a thread", of_sample=_thread_cpu_ms),
    "voluntary_per_million": Metric(unit="switches", of_sample=_voluntary_for_a_million),
    "logical_switches": Metric(unit="switches", of_sample=_logical),
    "os_switches": Metric(unit="switches", of_sample=_os_switches),
    "os_share": Metric(unit="% of the yields", of_sample=_os_share),
    "op_p50_ns": value("op_p50_ns", "ns"),
    "op_p99_ns": value("op_p99_ns", "ns"),
    OVER_FIRST: Metric(unit="x", of_sample=_over_first),
    "pause_p50_us": value("pause_p50_ns", "µs", 1e-3),
    "pause_p99_us": value("pause_p99_ns", "µs", 1e-3),
}


def main(trial: Trial) -> Mains:
    """Throughput; in an emulated guest the switches that its yields are."""
    if not trial.factors["interval"]:
        return SPEED
    count = {"coroutine": "logical_switches", "ucontext": "logical_switches"}.get(
        trial.model, "user_switches" if trial.model == "uthread" else "nivcsw"
    )
    if trial.factors["operation"] == "schedule_timeout":
        count = "voluntary_per_million"
    return {**SPEED, "emulated": Main(count, "neither")}


def main_on_one_cpu(trial: Trial) -> Mains:
    """`main` of an experiment on one CPU: what other programs take of it is no part of what
    its threads cost, so by CPU time, as its claims are judged; a sleeper's is not the CPU's."""
    if trial.factors["operation"] == "schedule_timeout":
        return main(trial)
    return {**main(trial), "time": Main("throughput_cpu_mops", "more")}


# ---- published figures ----


def throughputs(
    table: int, rows: Mapping[str, Mapping[Model, float]]
) -> dict[PublishedKey, Published]:
    """Of a table: operations a second by case and model."""
    return {
        (case, model, "throughput_mops"): Published(
            value=ops / 1e6, unit="Mops/s", source=f"study 001, table {table}"
        )
        for case, by_model in rows.items()
        for model, ops in by_model.items()
    }


def figure_of(table: int, number: float, unit: str) -> Published:
    return Published(value=number, unit=unit, source=f"study 001, table {table}")
