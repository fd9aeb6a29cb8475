# SPDX-License-Identifier: Apache-2.0
"""Definitions and plan: what will be run, and in which order."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import scenario, scenario_sample

from swtch import experiments, plan
from swtch.errors import RequestError
from swtch.experiments import Setting, coroutine_gantt, scenarios
from swtch.records import Invocation, Model, Trial

ALL = plan.MODEL_NAMES


def by_id(cpus: tuple[int, ...]) -> dict[str, Trial]:
    chosen = experiments.every()
    trials = plan.make_trials(chosen, Setting(cpus=cpus, models=ALL))
    return {trial.id: trial for trial in trials}


def test_registry_is_the_folder() -> None:
    assert {"scenarios", "coroutine-gantt"} <= set(experiments.names())
    for name in experiments.names():
        assert experiments.get(name).name == name


def test_unknown_experiment_suggests_the_nearest() -> None:
    with pytest.raises(RequestError, match="Did you mean scenarios"):
        experiments.get("scenaros")


def test_scenarios_on_enough_cpus_are_the_studys() -> None:
    trials = by_id((0, 1, 2, 3))
    for case, cpus, intervention in (
        ("A", [0, 1, 2, 3], "none"),
        ("B1", [0, 1], "yield"),
        ("B2", [0], "yield"),
        ("C1", [0, 1], "sleep"),
        ("C2", [0], "sleep"),
    ):
        trial = trials[f"scenarios/{case}/pthread"]
        assert trial.note == ""
        assert trial.probe["cpus"] == cpus
        assert trial.probe["intervention"] == intervention
        assert trial.probe["threads"] * trial.probe["iterations"] == 4_000_000
        assert trial.probe["every"] == 10_000


def test_fewer_cpus_are_said_and_counted() -> None:
    trials = by_id((3, 5))
    for model in ("pthread", "uthread"):
        trial = trials[f"scenarios/A/{model}"]
        assert trial.probe["cpus"] == [3, 5]
        assert (trial.factors["cpus_asked"], trial.factors["cpus_used"]) == (4, 2)
    # The study had no uthreads that these could be something else than.
    assert trial.note == ""
    trial = trials["scenarios/A/pthread"]
    assert "asks for 4 CPUs and 2 are allowed" in trial.note
    assert trials["scenarios/B1/uthread"].note == ""
    assert trials["scenarios/B1/kthread"].probe["cpus"] == [3, 5]


@settings(deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=8, unique=True))
def test_note_exactly_when_cpus_differ(cpus: list[int]) -> None:
    for trial in by_id(tuple(cpus)).values():
        if trial.experiment != "scenarios":
            continue
        assert set(trial.probe["cpus"]) <= set(cpus)
        assert trial.factors["cpus_used"] == len(trial.probe["cpus"])
        fewer = trial.factors["cpus_asked"] != trial.factors["cpus_used"]
        assert bool(trial.note) == (fewer and trial.model in scenarios.STUDY_MODELS)
        if trial.model in scenarios.ONE_CPU_MODELS:
            assert trial.factors["cpus_used"] == 1


def test_scenarios_are_run_twice_as_often_as_the_study_did() -> None:
    trials = by_id((0, 1))
    assert trials["scenarios/A/pthread"].probe["rounds"] == 2 * 5
    assert trials["scenarios/A/uthread"].probe["rounds"] == 3
    # The module has no word for it, and a guest's time is seldom of use.
    assert "rounds" not in trials["scenarios/A/kthread"].probe
    setting = Setting(cpus=(0, 1), models=ALL, engine="vm")
    assert all("rounds" not in trial.probe for trial in scenarios.trials(setting))


def test_scenarios_have_the_policy_that_the_study_had() -> None:
    """It names none; under SCHED_BATCH no sleeper that wakes would preempt."""
    assert by_id((0, 1))["scenarios/C1/pthread"].factors["policy"] == "other"
    setting = Setting(cpus=(0, 1), models=ALL, policy="batch", policy_asked=True)
    assert {trial.probe["policy"] for trial in scenarios.trials(setting)} == {"batch"}


def test_a_quick_guest_leaves_models_out_and_says_so() -> None:
    setting = Setting(cpus=(0, 1, 2, 3), models=ALL, engine="vm", depth="quick")
    assert {trial.model for trial in scenarios.trials(setting)} == {"pthread", "kthread"}
    assert scenarios.shortened(setting) and not any(t.note for t in scenarios.trials(setting))
    normal = Setting(cpus=(0, 1, 2, 3), models=ALL, engine="vm")
    assert scenarios.shortened(normal) == ""


def test_the_variation_of_runs_is_that_of_speeds() -> None:
    metric = scenarios.EXPERIMENT.metrics[scenarios.RUN_CV].of_sample
    assert metric is not None
    trial = scenario("A", "pthread")
    assert metric(scenario_sample(trial, cv=4.0)) == pytest.approx(4.0, rel=1e-4)
    # Of several fives it is the mean, and not that of all together; a rest is in none.
    fives = [scenario_sample(trial, mops, cv=cv) for mops, cv in ((100, 2.0), (50, 10.0))]
    times = [time for one in fives for time in one.detail["round_times_ns"]]
    for more in ([], [1.0]):
        many = msgspec.structs.replace(fives[0], detail={"round_times_ns": times + more})
        assert metric(many) == pytest.approx(6.0, rel=1e-4)
    # Of fewer runs than the study's there is none; the exact engine's do not vary.
    assert metric(scenario_sample(trial)) is None
    assert metric(scenario_sample(scenario("A", "pthread", engine="exact"), cv=4.0)) is None


def test_control_is_one_trial_twice() -> None:
    trials = by_id((0, 1))
    pair = [t for t in trials.values() if t.factors.get("control")]
    assert [t.factors["control"] for t in pair] == ["a", "b"]
    a, b = pair
    assert a.probe == b.probe
    assert {**a.factors, "control": None} == {**b.factors, "control": None}
    assert a.id != b.id


def test_gantt_slots_are_round_robin_of_the_work() -> None:
    left = list(coroutine_gantt.WORK)
    slots, finished = [], []
    while any(left):
        for task in range(len(left)):
            if left[task]:
                slots.append(task)
                left[task] -= 1
                if left[task] == 0:
                    finished.append(task)
    assert tuple(slots) == coroutine_gantt.SLOTS
    assert tuple(finished) == coroutine_gantt.FINISHED


def test_published_figures_agree_with_each_other() -> None:
    """Table V is computed from III and IV, the CVs from mean and SD: a slip shows."""
    published = experiments.get("scenarios").published

    def figure(case: str, model: str, metric: str) -> float:
        return published[case, model, metric].value

    for case in ("A", "B1", "B2", "C1", "C2"):
        pthread = figure(case, "pthread", "throughput_mops")
        kthread = figure(case, "kthread", "throughput_mops")
        gain = figure(case, "kthread/pthread", "throughput_gain")
        assert 100 * (kthread / pthread - 1) == pytest.approx(gain, abs=0.06)
        for model in ("pthread", "kthread"):
            mean = published[case, model, "throughput_mops"]
            assert mean.sd is not None
            cv = figure(case, model, "throughput_cv")
            assert 100 * mean.sd / mean.value == pytest.approx(cv, abs=0.1)
    for model in ("pthread", "kthread"):
        ratio = figure("B2", model, "throughput_mops") / figure("A", model, "throughput_mops")
        assert ratio == pytest.approx(figure("B2/A", model, "throughput_ratio"), abs=0.01)


def make(
    models: tuple[Model, ...], repeats: int, seed: int
) -> tuple[tuple[Trial, ...], tuple[Invocation, ...]]:
    chosen = experiments.every()
    trials = plan.make_trials(chosen, Setting(cpus=(0, 1), models=models))
    return trials, plan.make_plan(trials, repeats, seed)


@settings(max_examples=30, deadline=None)
@given(
    repeats=st.integers(1, 6),
    seed=st.integers(0, 2**63 - 1),
    models=st.sets(st.sampled_from(["pthread", "uthread", "coroutine"]), min_size=1),
)
def test_every_block_is_complete(repeats: int, seed: int, models: set[Model]) -> None:
    trials, planned = make(tuple(models), repeats, seed)
    assert [invocation.seq for invocation in planned] == list(range(len(planned)))
    assert planned == make(tuple(models), repeats, seed)[1]
    count = Counter((invocation.block, invocation.trial_id) for invocation in planned)
    assert count == {(block, trial.id): 1 for block in range(repeats) for trial in trials}
    assert [i.block for i in planned] == sorted(i.block for i in planned)


def test_order_depends_on_seed_and_block() -> None:
    trials, planned = make(("pthread", "uthread"), 2, 1)
    size = len(trials)
    order = [invocation.trial_id for invocation in planned]
    assert order[:size] != order[size:]
    assert order != [i.trial_id for i in make(("pthread", "uthread"), 2, 2)[1]]
    assert order[:size] != [trial.id for trial in trials]
    assert len({invocation.seed for invocation in planned}) == len(planned)


def test_an_experiment_alone_has_the_order_it_has_in_company() -> None:
    def order(names: list[str]) -> list[str]:
        trials = plan.make_trials(plan.choose(names, None), Setting(cpus=(0,), models=ALL))
        planned = plan.make_plan(trials, 2, 3)
        return [i.trial_id for i in planned if i.trial_id.startswith("scenarios")]

    assert order(["scenarios"]) == order(["coroutine-gantt", "scenarios"])


def test_choose_follows_models() -> None:
    chosen = {e.name for e in plan.choose((), ("pthread",))}
    assert "scenarios" in chosen and "coroutine-gantt" not in chosen
    with pytest.raises(RequestError, match="coroutine-gantt has no model pthread"):
        plan.choose(("scenarios", "coroutine-gantt"), ("pthread",))
    with pytest.raises(RequestError, match="no experiment chosen has the model process"):
        plan.choose(("coroutine-gantt",), ("process", "coroutine"))


def test_parse_models() -> None:
    assert plan.parse_models("uthread, pthread,uthread") == ("pthread", "uthread")
    with pytest.raises(RequestError, match="Did you mean coroutine"):
        plan.parse_models("corutine")
    with pytest.raises(RequestError, match="names no model"):
        plan.parse_models(" ,")


def test_a_quick_run_in_a_guest_has_the_models_of_the_study() -> None:
    one = experiments.get("scenarios")
    quick = Setting(cpus=(0, 1, 2, 3), models=one.models, depth="quick", engine="vm")
    assert {trial.model for trial in one.trials(quick)} == {"pthread", "kthread"}
    natively = Setting(cpus=(0, 1), models=one.models, depth="quick")
    assert {trial.model for trial in one.trials(natively)} == set(one.models)
