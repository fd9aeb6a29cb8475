# SPDX-License-Identifier: Apache-2.0
"""What each experiment says its trials are compared by: fixed, known, in the right direction."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest

from swtch import experiments
from swtch.analysis import main_metric
from swtch.analysis.findings import UNITS, Group, own_metrics
from swtch.analysis.main_metric import MainMetric
from swtch.engines import Clock
from swtch.experiments import Experiment, Main, Setting
from swtch.records import Engine, Sample, Scalar, Trial

TIMES = {"ns", "us", "µs", "ms", "s", "ticks"}
INSTRUCTIONS = {"instructions", "thousand instructions", "million instructions"}
RATES = {"Mops/s", "Mops/s of CPU time", "ops/1000 instructions", "million a second", "requests/s"}
COUNTS = {"switches", "a unit of work", "of 100 yields"}
# What they count is the same by every clock.
COUNTED = {"coroutine-gantt", "eevdf-yield", "counters"}
WHERE: tuple[tuple[Engine, dict[str, Scalar], Clock], ...] = (
    ("native", {}, "time"),
    ("vm", {"accel": "kvm"}, "time"),
    ("vm", {"accel": "tcg"}, "emulated"),
    ("exact", {}, "instructions"),
)

every = pytest.mark.parametrize("experiment", experiments.every(), ids=lambda e: e.name)


def trials_of(experiment: Experiment, engine: Engine, placed: dict[str, Scalar]) -> list[Trial]:
    setting = Setting(cpus=(0, 1, 2, 3), models=experiment.models, engine=engine, depth="paper")
    return [
        msgspec.structs.replace(trial, factors={**trial.factors, **placed})
        for trial in experiment.trials(setting)
    ]


def declared(experiment: Experiment) -> list[tuple[Clock, Trial, MainMetric | None]]:
    return [
        (clock, trial, main_metric.declared(trial))
        for engine, placed, clock in WHERE
        for trial in trials_of(experiment, engine, placed)
    ]


@every
def test_every_trial_has_a_metric_where_its_clock_tells_something(experiment: Experiment) -> None:
    for clock, trial, main in declared(experiment):
        assert main is not None or clock == "emulated", trial.id


@every
def test_it_is_a_metric_of_the_experiment(experiment: Experiment) -> None:
    own = {name: metric.unit for name, metric in own_metrics(experiment.name).items()}
    for _, trial, main in declared(experiment):
        if main is not None:
            assert {**UNITS, **own}[main.name] == main.unit, trial.id


@every
def test_the_direction_is_that_of_its_unit(experiment: Experiment) -> None:
    for clock, trial, main in declared(experiment):
        if main is None:
            continue
        ways = {
            "less": TIMES | INSTRUCTIONS | {"a unit of work"},
            "more": RATES,
            "neither": COUNTS,
        }
        assert main.unit in ways[main.better], trial.id
        if clock == "emulated":
            assert main.better == "neither", f"{trial.id}: {main.name} is no count"
        if clock == "instructions" and experiment.name not in COUNTED:
            # A tick of the exact engine is a million instructions, as its probe has them.
            assert main.unit not in TIMES - {"ticks"}, trial.id
        if clock == "time":
            assert main.unit not in INSTRUCTIONS, trial.id


def main_of(name: str, trial_id: str, engine: Engine = "native") -> str:
    by_id = {trial.id: trial for trial in trials_of(experiments.get(name), engine, {})}
    main = main_metric.declared(by_id[f"{name}/{trial_id}"])
    assert main is not None
    return main.name


def test_what_trials_of_different_kinds_are_compared_by() -> None:
    assert main_of("preemption", "self") == "gap_us"
    assert main_of("preemption", "1000us/worker-call-loop") == "gap_us"
    assert main_of("starvation", "main/1-a-cpu/uthread") == "intended_late_p99_ms"
    assert main_of("starvation", "neighbours/0-a-cpu/nobody") == "intended_response_p99_ms"
    assert main_of("locks", "contend/same/uthread-spin") == "takes_m"
    assert main_of("locks", "handover/same/uthread-spin") == "waste_ticks"
    assert main_of("working-set", "0x0/uthread") == "cost_us"
    assert main_of("working-set", "1048576x64/uthread") == "cost_us"
    assert main_of("yield-modes", "normal/pthread") == "throughput_mops"
    assert main_of("yield-modes", "normal/coroutine") == "throughput_mops"


def test_study_001_on_one_cpu_is_compared_by_cpu_time_as_its_claims_are() -> None:
    assert main_of("thread-count", "4-threads/pthread") == "throughput_cpu_mops"
    assert main_of("thread-count", "4-threads/pthread", "exact") == "throughput_opki"
    for name in ("thread-count", "work-scaling", "aligned", "coroutine"):
        for trial in trials_of(experiments.get(name), "vm", {"accel": "kvm"}):
            main = main_metric.declared(trial)
            assert main is not None and trial.factors["cpus_used"] == 1
            sleeps = trial.factors["operation"] == "schedule_timeout"
            assert main.name == ("throughput_mops" if sleeps else "throughput_cpu_mops"), trial.id


def emulated(trial: Trial) -> Trial:
    return msgspec.structs.replace(trial, engine="vm", factors={**trial.factors, "accel": "tcg"})


def test_an_emulated_guest_answers_with_counts_or_not_at_all() -> None:
    by_id = {trial.id: trial for trial in trials_of(experiments.get("scenarios"), "native", {})}
    mains = {
        name: main_metric.declared(emulated(by_id[f"scenarios/{name}"]))
        for name in ("A/pthread", "B1/pthread", "C1/pthread", "B2/coroutine")
    }
    assert mains["A/pthread"] is None
    assert {name: main.name for name, main in mains.items() if main} == {
        "B1/pthread": "nivcsw",
        "C1/pthread": "nvcsw",
        "B2/coroutine": "user_switches",
    }


def sample(trial: Trial, cost_ns: float) -> Sample:
    made = {
        "seq": 0,
        "block": 0,
        "seed": 1,
        "started": "",
        "elapsed_ns": 1,
        "status": "ok",
        "experiment": trial.experiment,
        "trial_id": trial.id,
        "model": trial.model,
        "engine": trial.engine,
        "factors": trial.factors,
        # A baseline and a time there always are, and are not what is asked.
        "values": {"cost_ns": cost_ns, "single_ns": 900.0, "switch_ns": 1800.0, "wall_ns": 10**9},
    }
    return msgspec.convert(made, Sample)


def test_data_do_not_choose_the_metric() -> None:
    """A cost below zero, which a small difference of large numbers may be, is not replaced by
    the baseline."""
    trial = trials_of(experiments.get("working-set"), "native", {})[0]
    good, bad = (Group(trial, (sample(trial, cost),), ()) for cost in (80.0, -3.0))
    main = main_metric.within(good)
    assert main is not None and main.name == "cost_us"
    assert main_metric.within(bad) is None
    assert main_metric.declared(trial) == main
    assert main_metric.within(Group(trial, (), ())) is None


@pytest.mark.parametrize("cost", [math.inf, math.nan, 5e-324, 0.0])
def test_what_has_no_ratio_is_not_compared(cost: float) -> None:
    """As an own experiment's metric may give, by a probe's number that is out of all bounds."""
    trial = trials_of(experiments.get("working-set"), "native", {})[0]
    assert main_metric.within(Group(trial, (sample(trial, 80.0), sample(trial, cost)), ())) is None


def test_an_emulated_guest_is_followed_by_its_own_time() -> None:
    trial = emulated(trials_of(experiments.get("working-set"), "native", {})[0])
    main = main_metric.within(Group(trial, (sample(trial, 80.0),), ()))
    assert main is not None and main.name == "cost_us"
    assert main_metric.declared(trial) is None


def test_costs_turn_rates_round() -> None:
    assert MainMetric("takes_m", "million a second", "more").costs([2.0, 4.0]) == [0.5, 0.25]
    assert MainMetric("each_ns", "ns", "less").costs([2.0, 4.0]) == [2.0, 4.0]


def test_a_name_that_is_no_metric_is_in_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = trials_of(experiments.get("ping"), "native", {})[0]
    wrong = dataclasses.replace(experiments.get("ping"), main={"time": Main("eech_ns")})
    monkeypatch.setattr(experiments, "find", lambda name: wrong)
    assert main_metric.declared(trial) == MainMetric("eech_ns", "", "less")
    assert main_metric.within(Group(trial, (sample(trial, 1.0),), ())) is None


def test_an_experiment_of_another_version_has_none() -> None:
    trial = trials_of(experiments.get("ping"), "native", {})[0]
    assert main_metric.declared(msgspec.structs.replace(trial, experiment="gone")) is None
