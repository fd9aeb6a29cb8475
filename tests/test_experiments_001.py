# SPDX-License-Identifier: Apache-2.0
"""The definitions of study 001: what is run, how it differs from the study, what is said of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_001 import NAMES, speed, trial

from swtch.analysis import findings
from swtch.analysis.findings import metrics
from swtch.analysis.gates import interventions
from swtch.engines.control import control_text
from swtch.experiments import Setting, get, thread_count, work_scaling
from swtch.experiments import _study_001 as shared
from swtch.experiments._study_001 import (
    COROUTINE_OWN,
    KTHREAD,
    KTHREAD_BARE,
    KTHREAD_MATCHED,
    PTHREAD,
    UCONTEXT,
)
from swtch.records import Depth, Engine, Trial

DEPTHS: tuple[Depth, ...] = ("quick", "normal", "paper")
ENGINES: tuple[Engine, ...] = ("native", "vm", "exact")
CPUS = (0, 1, 2, 3)
# Of the two experiments whose cases are measured beside their first.
FIRST_CASES = (
    work_scaling.case_of("normal", 1),
    work_scaling.case_of("yield", 1),
    thread_count.case_of(4),
)


def trials(
    name: str,
    depth: Depth = "normal",
    engine: Engine = "native",
    cpus: tuple[int, ...] = (0, 1, 2, 3),
) -> dict[str, Trial]:
    models = get(name).models
    setting = Setting(cpus=cpus, models=models, depth=depth, engine=engine)
    return {one.id.removeprefix(f"{name}/"): one for one in get(name).trials(setting)}


# ---- all seven ----


BINDING: tuple[str, Depth, Engine] = ("binding", "paper", "native")


def shortened(name: str, depth: Depth, engine: Engine, cpus: tuple[int, ...] = CPUS) -> str:
    models = get(name).models
    return get(name).shortened(Setting(cpus=cpus, models=models, depth=depth, engine=engine))


@pytest.mark.parametrize("name", NAMES)
def test_paper_is_the_studys_own_size(name: str) -> None:
    """In a guest, too, where the others do less."""
    for engine in ENGINES:
        made = trials(name, "paper", engine).values()
        assert all(one.factors["work"] == one.factors["work_asked"] for one in made)
        assert shortened(name, "paper", engine) == ""
        assert all(one.factors["policy"] == one.probe["policy"] == "other" for one in made)
        assert get(name).repeats["paper"] >= 6  # the study's three decide nothing


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_less_work_is_said_once(name: str, engine: Engine, depth: Depth) -> None:
    less = False
    for one in trials(name, depth, engine).values():
        less |= int(str(one.factors["work"])) < int(str(one.factors["work_asked"]))
        assert one.note == ""
        assert one.probe["iterations"] == one.factors["work"]
        # There is always something to yield between.
        interval = int(str(one.factors["interval"]))
        assert not interval or int(str(one.factors["work"])) > interval
    assert (shared.LESS in shortened(name, depth, engine)) == less


def test_a_named_policy_is_the_users() -> None:
    setting = Setting(cpus=(0,), models=("pthread",), policy="fifo", policy_asked=True)
    assert all(one.probe["policy"] == "fifo" for one in get("aligned").trials(setting))


def test_runs_in_a_row_are_for_several_cpus() -> None:
    """On one its CPU time is compared; the module has no word for it."""
    for name in NAMES:
        for one in trials(name).values():
            many = one.factors["cpus_asked"] != 1 or "reference" in one.probe
            many = many and one.model != "kthread"
            assert one.probe.get("rounds", 1) == (3 if many else 1), one.id
    assert all("rounds" not in one.probe for one in trials("binding", engine="vm").values())


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("name", "first", "field"),
    [
        ("work-scaling", work_scaling.case_of("normal", 1), "iterations"),
        ("work-scaling", work_scaling.case_of("yield", 1), "iterations"),
        ("thread-count", thread_count.case_of(4), "threads"),
    ],
)
def test_a_case_is_measured_in_turn_with_the_first(
    name: str, first: str, field: str, depth: Depth
) -> None:
    """The same in all but what varies; a module, a guest and who counts have none."""
    own = [one for one in trials(name, depth).values() if one.model != "kthread"]
    assert own and not any(
        "reference" in one.probe
        for one in (*trials(name, depth, "vm").values(), *trials(name, depth, "exact").values())
    )
    for one in trials(name, depth).values():
        alone = one.model == "kthread" or one.factors["case"] in FIRST_CASES
        assert ("reference" in one.probe) == (not alone)
    (base,) = (
        one for one in own if one.factors["case"] == first and one.factors["arm"] == "pthread"
    )
    beside = [
        one
        for one in own
        if one.factors["mode"] == base.factors["mode"]
        and one.factors["arm"] == "pthread"
        and "reference" in one.probe
    ]
    assert len(beside) == 2
    for one in beside:
        sizes = {size: base.probe[size] for size in ("threads", "iterations", "every")}
        assert one.probe["reference"] == sizes
        assert one.probe["rounds"] == shared.TURNS[depth]
    times = [one.probe[field] // base.probe[field] for one in beside]
    assert times == ([4, 8] if field == "threads" else [5, 10])


def over_first(own: list[int], first: list[int], done: float = 500, counted: float = 100) -> Any:
    values = {"counter": done, "reference_counter": counted}
    detail = {"round_cpu_ns": own, "reference_cpu_ns": first}
    one = speed(trial("work-scaling", work_scaling.case_of("normal", 5), shared.PTHREAD), 30.0)
    one = msgspec.structs.replace(one, values=values, detail=detail)
    return findings.metrics(one).get(shared.OVER_FIRST)


def test_a_run_is_compared_with_those_on_either_side() -> None:
    """Five times the work in five times the time, on a machine that becomes slower by two
    each time: every run lies between its neighbours."""
    assert over_first([500], [100, 100]) == pytest.approx(1)
    assert over_first([1000, 4000], [100, 400, 1600]) == pytest.approx(1)
    assert over_first([1000], [100, 100]) == pytest.approx(0.5)
    # A run that another program disturbed is one of three.
    assert over_first([500, 5000, 500], [100] * 4) == pytest.approx(1)


@pytest.mark.parametrize(
    "given",
    [
        {"own": [500], "first": [100]},
        {"own": [0], "first": [100, 100]},
        {"own": [], "first": [100]},
        {"own": [500], "first": [100, 0]},
        {"own": [500], "first": [100, 100], "counted": 0},
    ],
)
def test_without_times_there_is_no_ratio(given: dict[str, Any]) -> None:
    assert over_first(**given) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_guest_does_a_part_of_it(name: str) -> None:
    normal, quick = trials(name, "normal", "vm"), trials(name, "quick", "vm")
    assert set(quick) <= set(normal)
    if "kthread" in get(name).models:
        assert len(quick) < len(normal) and "guests do" in shortened(name, "quick", "vm")
        assert {"pthread", "kthread"} & {one.model for one in quick.values()}
    work = {
        kind: sum(int(str(one.factors["work"])) for one in made.values())
        for kind, made in (("normal", normal), ("quick", quick))
    }
    assert work["quick"] < work["normal"]


@pytest.mark.parametrize("name", NAMES)
def test_every_published_case_is_measured(name: str) -> None:
    cases = {one.factors["case"] for one in trials(name).values()}
    models = {one.model for one in trials(name).values()}
    assert get(name).published
    for case, model, metric in get(name).published:
        assert case in cases, case
        assert set(model.split("/")) <= models
        known = {"throughput_mops", "throughput_ratio", "nvcsw", "nivcsw", *shared.METRICS}
        assert metric in known


@pytest.mark.parametrize("name", NAMES)
def test_yields_are_between_stretches_of_work(name: str) -> None:
    """The gate and the claims count what the loops do: 999 in 1 000 000 / 1000."""
    for one in trials(name, "paper").values():
        assert interventions(one) == shared.expected_yields(one)
    if name in ("yield-modes", "aligned"):
        one = trials(name, "paper")["yield/kthread-instrumented"]
        assert shared.expected_yields(one) == 999 * int(str(one.factors["threads"]))


def test_the_module_is_told_in_its_own_words() -> None:
    text = control_text(trial("yield-modes", "yield", KTHREAD, depth="paper").probe)
    for word in (
        *("probe=scenario", "threads=4", "iterations=1000000", "every=1000", "work_mode=yield"),
        *("loop=instrumented", "yield_sleep_jiffies=1", "cpus=0,1,2,3"),
    ):
        assert word in text.split()
    assert "between" not in text and "counter" not in text
    words = control_text(trial("yield-modes", "yield", KTHREAD_MATCHED).probe).split()
    assert {"work_mode=sched_yield", "loop=bare"} <= set(words)
    words = control_text(trial("yield-modes", "normal", KTHREAD_BARE).probe).split()
    assert {"work_mode=normal", "loop=bare"} <= set(words)


def test_sleeps_are_few_except_on_paper() -> None:
    """Each takes two ticks: 999 of them are 8 s on a kernel of 250 Hz."""
    for depth, sleeps in (("quick", 6), ("normal", 25), ("paper", 999)):
        one = trials("yield-modes", depth, "vm")["yield/kthread-instrumented"]
        assert shared.expected_yields(one) == 4 * sleeps
    long = trials("yield-sweep", "paper", "vm")["every-100/kthread-instrumented"]
    assert long.timeout_s > 2 * 9999 * 0.008


# ---- one by one ----


def test_modes_have_every_difference_alone() -> None:
    made = trials("yield-modes")
    assert set(made) == {
        *(
            f"{mode}/{arm}"
            for mode in ("normal", "yield")
            for arm in (
                *("pthread", "kthread-instrumented", "kthread-bare", "uthread", "coroutine"),
            )
        ),
        "yield/kthread-instrumented-sched_yield",
        "yield/kthread-bare-sched_yield",
    }
    assert made["yield/pthread"].factors["operation"] == "sched_yield"
    assert made["normal/pthread"].factors["operation"] == "none"
    assert made["yield/kthread-bare"].factors["operation"] == "schedule_timeout"
    assert made["normal/coroutine"].factors["cpus_used"] == 1


def test_fewer_cpus_are_said() -> None:
    """Of what the study measured, too."""
    for one in trials("yield-modes", cpus=(3, 5)).values():
        if one.model != "coroutine":
            assert one.probe["cpus"] == [3, 5]
        said = "used 4 CPUs and 2 are allowed here" in one.note
        assert said == (one.factors["arm"] in ("pthread", "kthread instrumented"))


def test_the_sweep_has_a_case_that_never_yields() -> None:
    made = trials("yield-sweep")
    intervals = {one.factors["case"]: one.factors["interval"] for one in made.values()}
    assert intervals == {"never": 0, "every 100": 100, "every 1000": 1000, "every 10000": 10_000}
    assert "never/kthread-bare-sched_yield" not in made


def test_bindings_that_cannot_be_are_left_out_and_said() -> None:
    """Not measured twice on the same CPUs: the number of CPUs is what varies."""
    assert {one.factors["cpus_used"] for one in trials("binding").values()} == {1, 2, 4}
    made = trials("binding", cpus=(3, 5)).values()
    assert {one.factors["cpus_used"] for one in made} == {1, 2}
    assert "nothing is measured on 4; a guest has 4" in shortened(*BINDING, (3, 5))
    alone = trials("binding", cpus=(3,)).values()
    assert {one.factors["cpus_used"] for one in alone} == {1}
    assert "nothing is measured on 2 and 4" in shortened(*BINDING, (3,))
    assert not any(one.note for one in (*made, *alone))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("engine", ENGINES)
def test_work_keeps_its_proportion(engine: Engine, depth: Depth) -> None:
    by_arm: dict[tuple[object, object], dict[int, int]] = {}
    for one in trials("work-scaling", depth, engine).values():
        factors = one.factors
        key = factors["arm"], factors["mode"]
        work = by_arm.setdefault(key, {})
        work[int(str(factors["work_asked"]))] = int(str(factors["work"]))
    for work in by_arm.values():
        assert work[10_000_000] == 10 * work[1_000_000]
        assert work.get(5_000_000, 5 * work[1_000_000]) == 5 * work[1_000_000]


def test_threads_share_one_cpu() -> None:
    made = trials("thread-count").values()
    assert {one.factors["threads"] for one in made} == {4, 16, 32}
    assert {one.factors["cpus_used"] for one in made} == {1}


def test_coroutines_count_in_both_forms() -> None:
    for name in ("coroutine", "aligned"):
        made = trials(name)
        for mode in ("normal", "yield"):
            assert made[f"{mode}/coroutine-own-counter"].probe["counter"] == "own"
            assert made[f"{mode}/coroutine"].probe["counter"] == "shared"
            assert made[f"{mode}/coroutine"].probe["threads"] == 32
    assert trials("aligned")["normal/pthread-own-counter"].probe["counter"] == "own"


# ---- metrics ----


def test_times_are_of_all_threads_or_of_what_carries_them() -> None:
    kernel = metrics(speed(trial("yield-modes", "normal", KTHREAD), 5.0, efficiency=80.0))
    assert kernel["user_ms"] == 0 and kernel["system_ms"] == kernel["cpu_ms"] > 0
    assert kernel["cpu_efficiency"] == pytest.approx(80.0, rel=0.01)
    assert kernel["thread_cpu_ms"] == pytest.approx(kernel["cpu_ms"] / 4)
    assert kernel["runtime_ms"] == pytest.approx(kernel["wall_ms"])
    # Four threads at once: by their runtimes they seem four times as slow.
    assert kernel["mops_by_runtimes"] == pytest.approx(kernel["throughput_mops"] / 4)
    assert (kernel["op_p50_ns"], kernel["pause_p50_us"]) == (60, 8000)
    user = metrics(speed(trial("coroutine", "normal", COROUTINE_OWN), 500.0))
    assert user["user_ms"] == pytest.approx(user["wall_ms"])
    assert "thread_cpu_ms" not in user and "voluntary_per_million" not in user


def test_cpu_time_is_of_all_threads_or_of_what_carries_them() -> None:
    kernel = metrics(speed(trial("aligned", "normal", PTHREAD), 50.0, efficiency=50.0))
    assert kernel["throughput_cpu_mops"] == pytest.approx(100.0, rel=0.01)
    user = metrics(speed(trial("coroutine", "normal", COROUTINE_OWN), 500.0))
    assert user["throughput_cpu_mops"] == pytest.approx(user["throughput_mops"])
    counted = metrics(speed(trial("aligned", "normal", PTHREAD, {"engine": "exact"}), 50.0))
    assert "throughput_cpu_mops" not in counted


def test_what_the_kernel_switches_under_coroutines() -> None:
    made = metrics(speed(trial("coroutine", "yield", UCONTEXT, depth="paper"), 200.0, os=32))
    assert made["os_switches"] == 32 and made["os_share"] == pytest.approx(100 / 999)
    # Without yields there is nothing to compare them with.
    normal = metrics(speed(trial("coroutine", "normal", UCONTEXT), 200.0, os=8))
    assert normal["os_switches"] == 8 and "os_share" not in normal
    assert "os_switches" not in metrics(speed(trial("yield-modes", "normal", PTHREAD), 40.0))


def test_a_rate_compares_less_work_with_the_studys() -> None:
    normal = metrics(speed(trial("yield-modes", "yield", KTHREAD), 0.5))
    paper = metrics(speed(trial("yield-modes", "yield", KTHREAD, depth="paper"), 0.5))
    assert paper["nvcsw"] == 3996 and paper["voluntary_per_million"] == 999
    assert normal["voluntary_per_million"] == pytest.approx(1000, rel=0.05)


def test_logical_switches_are_yields() -> None:
    made = metrics(speed(trial("coroutine", "yield", UCONTEXT, depth="paper"), 200.0))
    assert made["logical_switches"] == 32 * 999
    assert "logical_switches" not in metrics(speed(trial("yield-modes", "normal", PTHREAD), 40.0))


def test_instructions_are_no_milliseconds() -> None:
    one = trial("yield-modes", "normal", KTHREAD, {"engine": "exact"})
    made = metrics(speed(one, 5.0))
    assert not {"user_ms", "cpu_ms", "cpu_efficiency", "runtime_ms", "op_p50_ns"} & set(made)
    assert made["throughput_opki"] > 0
