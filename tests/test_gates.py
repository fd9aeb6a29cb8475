# SPDX-License-Identifier: Apache-2.0
"""Every gate marks the sample that was made doubtful for it, and no clean one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import made_002
import msgspec
import pytest
import synthetic
from synthetic import scenario, scenario_sample

from swtch.analysis import gates
from swtch.analysis.findings import finding_of, group_samples
from swtch.records import Engine, Model, Sample, Trial

MODELS: tuple[Model, ...] = ("pthread", "kthread", "uthread", "coroutine", "ucontext")
CASES = ("A", "B1", "B2", "C1", "C2")
ENGINES: tuple[Engine, ...] = ("native", "vm", "exact")


def change(sample: Sample, **given: Any) -> Sample:
    """The sample with other fields; `values` are added to those it has."""
    values = {**sample.values, **given.pop("values", {})}
    return msgspec.structs.replace(sample, values=values, **given)


def counts(trial: Trial, nvcsw: int, nivcsw: int) -> Sample:
    """A sample whose kernel counted these switches of the first thread, none of the others."""
    made = scenario_sample(trial)
    first = msgspec.structs.replace(made.threads[0], nvcsw=nvcsw, nivcsw=nivcsw)
    others = [msgspec.structs.replace(t, nvcsw=0, nivcsw=0) for t in made.threads[1:]]
    return change(made, threads=(first, *others))


def handed_over(model: Model, done: int, **given: Any) -> tuple[Trial, Sample]:
    """A pair of tasks with 100 hand-overs, of which so many were switches."""
    space = "own" if model == "process" else "shared"
    one = made_002.trial("pair-overhead", model, pair="aes+crc", n=99, space=space)
    made = synthetic.sample(
        one, values={"wall_ns": 10**7, "handovers": 100, "switches": 0}, detail={"correct": True}
    )
    if model == "process":
        return one, change(made, threads=synthetic.threads(2, nvcsw=(done, 0), nivcsw=0), **given)
    return one, change(made, values={"switches": done}, **given)


# ---- clean ----


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CASES)
def test_a_clean_sample_is_not_marked(case: str, model: Model, engine: Engine) -> None:
    trial = scenario(case, model, engine=engine)
    assert gates.check(trial, scenario_sample(trial)) == ()


@pytest.mark.parametrize("model", ["process", "uthread"])
def test_tasks_that_handed_over_are_not_marked(model: Model) -> None:
    """The last hand-over needs no switch: its thread ends."""
    assert gates.check(*handed_over(model, 99)) == ()


@pytest.mark.parametrize("model", ["process", "uthread"])
def test_hand_overs_that_did_not_switch_are_marked(model: Model) -> None:
    assert gates.check(*handed_over(model, 60)) == ("switches",)


def test_a_task_with_another_result_is_marked() -> None:
    assert gates.check(*handed_over("process", 100, detail={"correct": False})) == ("counter",)


def test_a_clean_chart_is_not_marked() -> None:
    trial = synthetic.gantt()
    assert gates.check(trial, synthetic.gantt_sample(trial)) == ()


def test_a_failed_sample_is_not_marked() -> None:
    """It is counted as failed; what it holds is no measurement."""
    trial = scenario("B2", "pthread")
    doubtful = change(scenario_sample(trial), values={"counter": 1, "majflt": 9})
    assert gates.check(trial, doubtful) == ("counter", "faults")
    assert gates.check(trial, change(doubtful, status="failed", error="died")) == ()


# ---- each gate ----


def lost(trial: Trial) -> Sample:
    return change(scenario_sample(trial), values={"counter": 3_999_999})


def did_not_switch(trial: Trial) -> Sample:
    made = change(scenario_sample(trial), values={"switches": 10})
    threads = [
        t if t.nvcsw is None else msgspec.structs.replace(t, nvcsw=1, nivcsw=1)
        for t in made.threads
    ]
    return change(made, threads=tuple(threads))


def moved(trial: Trial) -> Sample:
    return scenario_sample(trial, threads_of={"ends_on": 9})


def read_a_page(trial: Trial) -> Sample:
    return change(scenario_sample(trial), values={"majflt": 1})


def was_stolen_from(trial: Trial) -> Sample:
    made = scenario_sample(trial)
    return change(made, steal_ns=made.elapsed_ns // 50)


def was_throttled(trial: Trial) -> Sample:
    made = scenario_sample(trial)
    return change(made, throttled_ns=made.elapsed_ns // 50)


def started_apart(trial: Trial) -> Sample:
    return scenario_sample(trial, threads_of={"starts": [0, 0, 0, 8_000_000]})


def was_interrupted(trial: Trial) -> Sample:
    return change(scenario_sample(trial), interrupts=5000)


def had_to_wait(trial: Trial) -> Sample:
    return waited(trial, 0.06)


def waited(trial: Trial, share: float) -> Sample:
    """Its workers waited for so much of its time."""
    made = scenario_sample(trial)
    wall = next(name for name in ("wall_ns", "wall_instructions") if name in made.values)
    delay = wall.replace("wall", "run_delay")
    return change(made, values={delay: round(made.values[wall] * share)})


def real_time(model: Model, engine: Engine, experiment: str = "pair-overhead") -> Trial:
    """Study 002's tasks by SCHED_FIFO threads; the module's are no others."""
    where = {"n": 49, "task": "aes"} if experiment == "interrupt-overhead" else {"n": 99}
    if experiment == "pair-overhead":
        space = {"process": "own", "kthread": "none"}.get(model, "shared")
        where |= {"pair": "aes+crc", "space": space}
    one = made_002.trial(experiment, model, engine=engine, **where)
    return msgspec.structs.replace(one, probe={**one.probe, "policy": "fifo"})


def ran_alone(trial: Trial, nivcsw: int = 0) -> Sample:
    """Two tasks with 100 hand-overs, or one without; so many times somebody else ran."""
    pair = trial.probe["probe"] == "pair-overhead"
    threads = synthetic.threads(2 if pair else 1, nvcsw=50 if pair else 0, nivcsw=0)
    first = msgspec.structs.replace(threads[0], nivcsw=nivcsw)
    values = {"wall_ns": 10**7, **({"handovers": 100} if pair else {})}
    made = synthetic.sample(trial, values=values, detail={"correct": True})
    return change(made, threads=(first, *threads[1:]))


def lost_its_cpu(trial: Trial) -> Sample:
    return ran_alone(trial, 1)


def subject(case: str, model: Model, engine: Engine = "native") -> Trial:
    return real_time(model, engine) if case == "fifo" else scenario(case, model, engine=engine)


DOUBTFUL: dict[str, tuple[str, Callable[[Trial], Sample]]] = {
    "counter": ("A", lost),
    "switches": ("B2", did_not_switch),
    "preempted": ("fifo", lost_its_cpu),
    "migrated": ("A", moved),
    "faults": ("A", read_a_page),
    "steal": ("A", was_stolen_from),
    "skew": ("A", started_apart),
    "interrupts": ("C1", was_interrupted),
    "starved": ("A", had_to_wait),
    "throttled": ("A", was_throttled),
}


def test_every_gate_has_a_sample_here() -> None:
    assert list(DOUBTFUL) == [gate.name for gate in gates.GATES]
    assert all(gate.meaning for gate in gates.GATES)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_gate_fires_and_only_it(name: str, engine: Engine) -> None:
    case, make = DOUBTFUL[name]
    trial = subject(case, "pthread", engine)
    assert gates.check(trial, make(trial)) == (name,)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["counter", "switches", "faults"])
def test_these_gates_fire_for_every_model(name: str, model: Model) -> None:
    case, make = DOUBTFUL[name]
    trial = scenario(case, model)
    assert gates.check(trial, make(trial)) == (name,)


def test_several_gates_fire_in_their_order() -> None:
    trial = scenario("A", "pthread")
    made = change(started_apart(trial), steal_ns=10**9, interrupts=10**6, values={"counter": 0})
    assert gates.check(trial, made) == ("counter", "steal", "skew", "interrupts")


# ---- where each begins ----


@pytest.mark.parametrize("model", ["kthread", "pthread", "process"])
@pytest.mark.parametrize("experiment", ["pair-overhead", "interrupt-overhead"])
def test_one_preemption_marks_a_real_time_task(experiment: str, model: Model) -> None:
    trial = real_time(model, "native", experiment)
    assert gates.check(trial, ran_alone(trial)) == ()
    assert gates.check(trial, ran_alone(trial, 1)) == ("preempted",)


def test_whoever_is_no_real_time_task_of_study_002_may_be_preempted() -> None:
    """A yield of a runnable thread is involuntary; and SCHED_BATCH shares its CPU."""
    shared = real_time("pthread", "native")
    shared = msgspec.structs.replace(shared, probe={**shared.probe, "policy": "batch"})
    yields = scenario("B2", "kthread")
    yields = msgspec.structs.replace(yields, probe={**yields.probe, "policy": "fifo"})
    assert gates.check(shared, ran_alone(shared, 9)) == ()
    assert gates.check(yields, counts(yields, 0, 400)) == ()


@pytest.mark.parametrize(("share", "fires"), [(0.0, False), (0.049, False), (0.051, True)])
def test_starved_begins_above_a_twentieth_of_the_time(share: float, fires: bool) -> None:
    trial = scenario("A", "pthread")
    assert ("starved" in gates.check(trial, waited(trial, share))) == fires
    assert gates.check(trial, scenario_sample(trial)) == ()


@pytest.mark.parametrize("case", ["B1", "B2", "C1", "C2"])
@pytest.mark.parametrize(("counted", "fires"), [(400, False), (360, False), (359, True)])
def test_a_tenth_of_the_interventions_may_not_switch(case: str, counted: int, fires: bool) -> None:
    """4 threads intervene 100 times each; voluntary and involuntary switches count alike."""
    kernel, user = scenario(case, "pthread"), scenario(case, "uthread")
    assert gates.interventions(kernel) == 400
    made = [
        (kernel, counts(kernel, counted, 0)),
        (kernel, counts(kernel, 50, counted - 50)),
        (user, change(scenario_sample(user), values={"switches": counted})),
    ]
    for trial, sample in made:
        assert gates.counted_switches(sample) == counted
        assert ("switches" in gates.check(trial, sample)) == fires


def test_who_does_not_intervene_need_not_switch() -> None:
    trial = scenario("A", "pthread")
    assert gates.interventions(trial) == 0
    assert gates.check(trial, counts(trial, 0, 0)) == ()
    assert gates.interventions(synthetic.gantt()) == 0


def test_interventions_are_counted_as_the_loop_does() -> None:
    """At 0, 300, 600 and 900 of 1000 additions: the last stretch is a short one."""
    trial = scenario("B2", "pthread")
    probe = {**trial.probe, "threads": 3, "iterations": 1000, "every": 300}
    assert gates.interventions(msgspec.structs.replace(trial, probe=probe)) == 12


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"between": True}, 9),
        ({"between": False}, 12),
        ({"intervention": None, "work_mode": "normal"}, 0),
        ({"intervention": None, "work_mode": "yield"}, 9),
        ({"intervention": None, "work_mode": "sched_yield"}, 9),
        ({"intervention": None, "work_mode": "schedule"}, 12),
    ],
    ids=str,
)
def test_who_works_first_intervenes_once_less(given: dict[str, Any], count: int) -> None:
    trial = scenario("B2", "pthread")
    probe = {**trial.probe, "threads": 3, "iterations": 1000, "every": 300, **given}
    assert gates.interventions(msgspec.structs.replace(trial, probe=probe)) == count


@pytest.mark.parametrize(("mode", "fires"), [("yield", False), ("sched_yield", True)])
def test_a_kernel_threads_sleeps_are_interrupts_of_their_own(mode: str, fires: bool) -> None:
    trial = scenario("B2", "pthread")
    probe = {**trial.probe, "intervention": None, "work_mode": mode}
    kernel = msgspec.structs.replace(trial, probe=probe)
    sample = change(scenario_sample(trial), elapsed_ns=50_000_000, interrupts=890)
    assert ("interrupts" in gates.check(kernel, sample)) == fires


def test_counts_that_some_threads_lack_are_not_known() -> None:
    trial = scenario("B2", "pthread")
    made = scenario_sample(trial, threads_of={"nvcsw": [1, 2, None, 3]})
    assert gates.total(made, "nvcsw") is None
    assert gates.total(made, "nivcsw") == 400
    assert gates.total(change(made, threads=()), "nivcsw") is None


@pytest.mark.parametrize(("share", "fires"), [(0.0, False), (0.01, False), (0.0101, True)])
def test_steal_begins_above_one_percent(share: float, fires: bool) -> None:
    trial = scenario("A", "pthread")
    made = change(scenario_sample(trial), elapsed_ns=10**9, steal_ns=round(share * 10**9))
    assert ("steal" in gates.check(trial, made)) == fires


@pytest.mark.parametrize(("apart", "fires"), [(4_000_000, False), (4_000_001, True)])
def test_skew_begins_above_a_tenth_of_the_run(apart: int, fires: bool) -> None:
    trial = scenario("A", "pthread")
    made = scenario_sample(trial, 100.0, threads_of={"starts": [apart, 0, 0, 0]})
    assert made.values["wall_ns"] == 40_000_000
    assert ("skew" in gates.check(trial, made)) == fires


@pytest.mark.parametrize("cpus", [1, 2, 3])
def test_threads_that_share_cpus_start_one_after_the_other(cpus: int) -> None:
    trial = scenario("A", "pthread", cpus=cpus)
    made = scenario_sample(trial, threads_of={"starts": [0, 10**7, 2 * 10**7, 3 * 10**7]})
    assert gates.check(trial, made) == ()


@pytest.mark.parametrize(("interrupts", "fires"), [(500, False), (501, True)])
def test_interrupts_begin_above_ten_per_millisecond(interrupts: int, fires: bool) -> None:
    trial = scenario("B2", "pthread")
    made = change(scenario_sample(trial), elapsed_ns=50_000_000, interrupts=interrupts)
    assert ("interrupts" in gates.check(trial, made)) == fires


def test_interrupts_are_allowed_to_each_measured_cpu() -> None:
    trial = scenario("A", "pthread")
    assert len(trial.probe["cpus"]) == 4
    for interrupts, fires in ((2000, False), (2001, True)):
        made = change(scenario_sample(trial), elapsed_ns=50_000_000, interrupts=interrupts)
        assert ("interrupts" in gates.check(trial, made)) == fires


def test_each_sleep_asks_for_an_interrupt_of_its_own() -> None:
    made = {}
    for case in ("B2", "C2"):
        trial = scenario(case, "pthread")
        sample = change(scenario_sample(trial), elapsed_ns=50_000_000, interrupts=900)
        made[case] = gates.check(trial, sample)
    assert made == {"B2": ("interrupts",), "C2": ()}


def test_a_very_short_run_may_have_the_interrupts_of_a_millisecond() -> None:
    trial = scenario("A", "pthread")
    assert gates.check(trial, change(scenario_sample(trial), elapsed_ns=1, interrupts=10)) == ()


def test_what_is_not_known_is_not_doubted() -> None:
    trial = scenario("A", "uthread")
    made = change(scenario_sample(trial), steal_ns=None, interrupts=None)
    unknown = [msgspec.structs.replace(thread, cpu_end=None) for thread in made.threads]
    assert gates.check(trial, change(made, threads=tuple(unknown))) == ()
    chart = synthetic.gantt()
    assert gates.check(chart, synthetic.sample(chart, values={"wall_ns": 1})) == ()


# ---- the exact engine ----


def test_an_exact_sample_is_measured_in_instructions() -> None:
    trial = scenario("A", "pthread", engine="exact")
    made = scenario_sample(trial, 100.0)
    assert "wall_ns" not in made.values
    assert made.values["wall_instructions"] == 40_000_000
    for apart, fires in ((4_000_000, False), (4_000_001, True)):
        late = scenario_sample(trial, 100.0, threads_of={"starts": [0, 0, apart, 0]})
        assert ("skew" in gates.check(trial, late)) == fires


# ---- what becomes of marks ----


def test_marks_are_counted_and_delete_nothing() -> None:
    trial = scenario("B2", "pthread")
    made = [scenario_sample(trial), lost(trial), change(lost(trial), values={"majflt": 2})]
    numbered = [change(one, seq=seq, block=seq) for seq, one in enumerate(made)]
    (only,) = group_samples([trial], numbered)
    finding = finding_of(only)
    assert finding.n == 3
    assert finding.gates == {"counter": 2, "faults": 1}
    assert list(finding.gates) == ["counter", "faults"]
