# SPDX-License-Identifier: Apache-2.0
"""Study 000: five scenarios of four threads on one shared atomic counter.

Four threads add one million each to one counter and intervene (yield or sleep
1 us) every 10 000 additions; the scenarios differ in how many CPUs the four
share and in the intervention. Thread i belongs to CPU i mod cpus.

When the machine allows fewer CPUs than a scenario asks for, the trial uses
those there are, ``cpus_used`` says how many and the ``note`` of what the study
measured, too, says it in words; the scenario is then a different one, and analysis
must not pretend otherwise. Coroutines and ucontexts live on one kernel thread,
hence on one CPU, always.

The study names no policy, so SCHED_OTHER is what it had: under SCHED_BATCH no thread
that wakes preempts another, and that is what C1 shows.

An invocation is twice five runs in a row (``rounds``), where the study did five; of
models that it did not have, three runs.
Its sample is the run whose time is the median of theirs, whole: what takes a CPU away for
some milliseconds spoils one run and not the block. `RUN_CV` is the mean of the coefficients
of variation of each five: one alone is 1 % in a block and 20 % in the next. The module does
one run, and in guests it is one: where their clock is emulated only counts are of use.

The A/A control: one trial (scenario A with the first model) is planned twice,
as ``control`` "a" and "b". The two are the same configuration, so whatever
difference shows between them is the noise floor of the whole campaign.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

from swtch.engines import TRAITS
from swtch.experiments import (
    SPEED,
    Experiment,
    Main,
    Mains,
    Metric,
    PublishedKey,
    Setting,
    Some,
    shape,
)
from swtch.records import Model, Published, Sample, Scalar, Trial

THREADS: Final = 4
ITERATIONS: Final = 1_000_000
EVERY: Final = 10_000
SLEEP_NS: Final = 1_000
# Runs of which there is one CV, the study's number, and how often an invocation does so many.
RUNS: Final = 5
SERIES: Final = 2
MEDIAN_RUNS: Final = 3
# The metric: the mean of the series' coefficients of variation.
RUN_CV: Final = "run_cv"

MODELS: Final[tuple[Model, ...]] = (
    "pthread",
    "process",
    "kthread",
    "uthread",
    "coroutine",
    "ucontext",
)
STUDY_MODELS: Final[tuple[Model, ...]] = ("pthread", "kthread")
ONE_CPU_MODELS: Final[frozenset[Model]] = frozenset({"coroutine", "ucontext"})


@dataclass(frozen=True)
class Scenario:
    """One row of the study's table I."""

    id: str
    label: str
    cpus: int
    intervention: str


SCENARIOS: Final = (
    Scenario("A", "baseline", 4, "none"),
    Scenario("B1", "moderate contention", 2, "yield"),
    Scenario("B2", "maximum contention", 1, "yield"),
    Scenario("C1", "voluntary, moderate", 2, "sleep"),
    Scenario("C2", "voluntary, maximum", 1, "sleep"),
)

# scenario: (voluntary, involuntary, Mops/s), each (mean, SD) over five runs;
# counts are totals over the four threads.
_Row = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
_TABLE_III: Final[dict[str, _Row]] = {
    "A": ((0, 0), (12.6, 2.7), (87.3, 3.0)),
    "B1": ((0, 0), (302.4, 12.6), (93.9, 4.0)),
    "B2": ((0, 0), (392.8, 10.6), (250.3, 9.2)),
    "C1": ((399.4, 0.9), (103.0, 6.5), (144.1, 5.7)),
    "C2": ((399.2, 0.8), (10.8, 2.4), (165.4, 5.7)),
}
_TABLE_IV: Final[dict[str, _Row]] = {
    "A": ((0, 0), (0, 0), (109.5, 3.0)),
    "B1": ((0, 0), (356.0, 13.3), (171.1, 6.1)),
    "B2": ((0, 0), (282.6, 11.4), (349.9, 9.0)),
    "C1": ((398.8, 1.3), (8.0, 1.6), (185.2, 17.5)),
    "C2": ((399.2, 0.8), (0, 0), (163.0, 3.9)),
}
_CV_PERCENT: Final[dict[str, tuple[float, float]]] = {
    "A": (3.4, 2.7),
    "B1": (4.3, 3.6),
    "B2": (3.7, 2.6),
    "C1": (4.0, 9.4),
    "C2": (3.5, 2.4),
}
_TABLE_V_GAIN: Final = {"A": 25.4, "B1": 82.2, "B2": 39.8, "C1": 28.5, "C2": -1.5}


def _published() -> dict[PublishedKey, Published]:
    figures: dict[PublishedKey, Published] = {}
    tables: tuple[tuple[Model, str, dict[str, _Row], int], ...] = (
        ("pthread", "III", _TABLE_III, 0),
        ("kthread", "IV", _TABLE_IV, 1),
    )
    for model, number, table, column in tables:
        source = f"study 000, table {number}"
        for case, (voluntary, involuntary, throughput) in table.items():
            for metric, (mean, sd), unit in (
                ("nvcsw", voluntary, "switches"),
                ("nivcsw", involuntary, "switches"),
                ("throughput_mops", throughput, "Mops/s"),
            ):
                figures[case, model, metric] = Published(
                    value=mean, sd=sd, unit=unit, source=source
                )
            figures[case, model, "throughput_cv"] = Published(
                value=_CV_PERCENT[case][column], unit="%", source=source
            )
    for case, gain in _TABLE_V_GAIN.items():
        figures[case, "kthread/pthread", "throughput_gain"] = Published(
            value=gain, unit="%", source="study 000, table V"
        )
    for model, ratio in (("pthread", 2.87), ("kthread", 3.20)):
        figures["B2/A", model, "throughput_ratio"] = Published(
            value=ratio, unit="x", source="study 000, section V.C"
        )
    return figures


def _cpus(scenario: Scenario, model: Model, allowed: tuple[int, ...]) -> tuple[int, ...]:
    asked = 1 if model in ONE_CPU_MODELS else scenario.cpus
    return allowed[:asked]


def _note(scenario: Scenario, model: Model, used: int) -> str:
    """Of what the study measured: that this machine cannot do as it did."""
    if used == scenario.cpus or model not in STUDY_MODELS:
        return ""
    return (
        f"the scenario asks for {scenario.cpus} CPUs and {used} {'is' if used == 1 else 'are'}"
        f" allowed here, so the {THREADS} threads shared {used} CPU{'s'[: used - 1]}"
    )


def _runs(model: Model) -> int:
    """In a row; the study's threads for CVs of as many runs as it did, the others for a median."""
    return SERIES * RUNS if model in STUDY_MODELS else MEDIAN_RUNS


def _run_cv(sample: Sample) -> float | None:
    times = sample.detail.get("round_times_ns")
    if not isinstance(times, list) or len(times) < RUNS or TRAITS[sample.engine].counting:
        return None
    if min(times) <= 0:
        return None
    speeds = [1 / float(time) for time in times]
    series = (speeds[begin : begin + RUNS] for begin in range(0, len(speeds), RUNS))
    cvs = [statistics.stdev(own) / statistics.fmean(own) for own in series if len(own) == RUNS]
    return 100 * statistics.fmean(cvs)


def _trial(scenario: Scenario, model: Model, setting: Setting, control: str | None) -> Trial:
    cpus = _cpus(scenario, model, setting.cpus)
    policy = setting.policy_of("other")
    runs = {"rounds": _runs(model)} if not setting.guest and model != "kthread" else {}
    factors: dict[str, Scalar] = {
        "scenario": scenario.id,
        "intervention": scenario.intervention,
        "threads": THREADS,
        "cpus_asked": scenario.cpus,
        "cpus_used": len(cpus),
        "policy": policy,
        "control": control,
    }
    return setting.trial(
        case=f"{scenario.id}/{model}" + ("/again" if control == "b" else ""),
        experiment="scenarios",
        factors=factors,
        probe={
            "schema": 1,
            "probe": "scenario",
            "model": model,
            "threads": THREADS,
            "iterations": ITERATIONS,
            "every": EVERY,
            "intervention": scenario.intervention,
            "sleep_ns": SLEEP_NS,
            "cpus": list(cpus),
            "policy": policy,
            "seed": 0,
            **runs,
        },
        note=_note(scenario, model, len(cpus)),
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every scenario with every model asked for, and the A/A control."""
    # A quick run in a guest has what the study had; the others are measured natively.
    known = STUDY_MODELS if setting.quick and setting.guest and not setting.counting else MODELS
    models = [model for model in known if model in setting.models]
    planned = []
    for scenario in SCENARIOS:
        for model in models:
            controlled = scenario.id == "A" and model == models[0]
            planned.append(_trial(scenario, model, setting, "a" if controlled else None))
            if controlled:
                planned.append(_trial(scenario, model, setting, "b"))
    return tuple(planned)


def _main_metric(trial: Trial) -> Mains:
    """Throughput; in an emulated guest the switches that the intervention asks for."""
    counts = {"sleep": "nvcsw", "yield": "nivcsw"}
    if trial.model not in ("pthread", "process", "kthread"):
        counts = dict.fromkeys(counts, "user_switches")
    count = counts.get(str(trial.factors["intervention"]))
    return {**SPEED, "emulated": Main(count, "neither")} if count else SPEED


def shortened(setting: Setting) -> str:
    if setting.quick and setting.guest and not setting.counting:
        return "guests do pthreads and kernel threads only"
    return ""


EXPERIMENT = Experiment(
    name="scenarios",
    title="Five scenarios of four threads on one counter",
    study="000",
    question="Do more CPUs, yields or sleeps speed up or slow down threads that share a counter?",
    models=MODELS,
    seconds=0.12,
    seconds_at={
        ("native", "quick"): 0.12,
        ("native", "normal"): 0.12,
        ("native", "paper"): 0.12,
        ("vm", "quick"): 0.22,
        ("vm", "normal"): 0.22,
    },
    trials=trials,
    published=_published(),
    main=_main_metric,
    metrics={RUN_CV: Metric(unit="%", of_sample=_run_cv)},
    shortened=shortened,
    factors=shape(
        scenario=str, intervention=str, cpus_asked=Some, cpus_used=Some, control=str | None
    ),
)
