# SPDX-License-Identifier: Apache-2.0
"""The definitions of study 003: what is run, what a quick run leaves out, what is said of it."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
from synthetic import sample

from swtch.experiments import Policy, Setting, get, locks, preemption, starvation, uthread_scaling
from swtch.records import Depth, Engine, Trial


def trials(
    name: str, cpus: tuple[int, ...] = (4, 7), *, quick: bool = False, engine: Engine = "native"
) -> dict[str, Trial]:
    setting = Setting(
        cpus=cpus, models=get(name).models, depth="quick" if quick else "normal", engine=engine
    )
    return {one.id.removeprefix(f"{name}/"): one for one in get(name).trials(setting)}


def shortened(name: str, *, quick: bool = False, engine: Engine = "native") -> str:
    depth: Depth = "quick" if quick else "paper"
    return get(name).shortened(
        Setting(cpus=(4, 7), models=get(name).models, depth=depth, engine=engine)
    )


@pytest.mark.parametrize("name", ["uthread-scaling", "preemption", "starvation", "locks"])
def test_at_paper_nothing_is_shorter_and_only_the_kernels_limit_is_noted(name: str) -> None:
    assert shortened(name) == ""
    setting = Setting(cpus=(4, 7), models=get(name).models, depth="paper")
    noted = {one.id: one.note for one in get(name).trials(setting) if one.note}
    assert set(noted.values()) <= {starvation.MANY_NOTE} and len(noted) <= 1


@pytest.mark.parametrize("name", ["uthread-scaling", "preemption", "locks"])
def test_the_study_names_no_policy(name: str) -> None:
    """So its threads had SCHED_OTHER, whatever the lab's own default is."""
    for asked, given in (("batch", "other"), ("other", "other"), ("fifo", "fifo")):
        setting = Setting(cpus=(4, 7), models=get(name).models, policy=cast(Policy, asked))
        made = get(name).trials(setting)
        assert {one.probe["policy"] for one in made} == {given}
        assert {one.factors["policy"] for one in made} == {given}


# ---- uthread-scaling ----


def test_the_studys_sizes_are_there_with_their_baseline() -> None:
    made = trials("uthread-scaling")
    for threads in (10_000, 20_000, 30_000):
        for workers in (1, 2):
            for kind in ("pthread", "uthread", "alone"):
                one = made[f"{threads}x100000/{workers}w/{kind}"]
                assert one.probe["threads"] == threads
                assert one.probe["iterations"] == 100_000
                assert one.probe["cpus"] == [4, 7][:workers]
                assert one.probe["alone"] == (kind == "alone")
                assert one.model == ("uthread" if kind == "uthread" else "pthread")
                assert one.probe.get("tick_ns") == (1_000_000 if kind == "uthread" else None)
                assert one.note == ""


@pytest.mark.parametrize("depth", ["quick", "normal", "paper"])
def test_pthreads_have_uthreads_beside_them(depth: Depth) -> None:
    """Of the study's work, where time is the machine's own; at paper as the study did it."""
    models = get("uthread-scaling").models
    made = get("uthread-scaling").trials(Setting(cpus=(0, 1), models=models, depth=depth))
    for one in made:
        beside = one.factors["kind"] == "pthread" and one.factors["iterations"] == 100_000
        assert ("reference" in one.probe) == (beside and depth != "paper"), one.id
    for other in (
        Setting(cpus=(0,), models=("pthread",)),
        Setting(cpus=(0,), models=models, engine="vm"),
    ):
        assert not any("reference" in one.probe for one in get("uthread-scaling").trials(other))


def test_a_lead_is_over_the_mean_of_both_sides() -> None:
    one = trials("uthread-scaling", (3,), quick=True)["2500x100000/1w/pthread"]
    metric = uthread_scaling.METRICS["lead_cpu"].of_sample
    assert metric is not None
    made = sample(one, values={"cpu_ns": 600})
    for beside, lead in (([100, 400], 3.0), ([100], None), ([0, 5], None), (None, None)):
        detail = {"reference_cpu_ns": beside} if beside else {}
        assert metric(msgspec.structs.replace(made, detail=detail)) == lead


def test_a_million_has_no_pthreads() -> None:
    made = trials("uthread-scaling")
    million = [one for name, one in made.items() if name.startswith("1000000x")]
    assert {one.factors["kind"] for one in million} == {"uthread", "alone"}
    assert "pid_max" in (uthread_scaling.__doc__ or "")
    # The study had no such number: nothing was left out.
    assert not any(one.note for one in million)


@pytest.mark.parametrize("engine", ["native", "vm", "exact"])
def test_a_quick_run_keeps_what_the_claim_needs(engine: Engine) -> None:
    made = trials("uthread-scaling", quick=True, engine=engine)
    assert len(made) < len(trials("uthread-scaling"))
    assert shortened("uthread-scaling", quick=True, engine=engine)
    if engine == "native":
        study = [one for one in made.values() if one.factors["iterations"] == 100_000]
        assert {(one.factors["kind"], one.factors["workers"]) for one in study} == {
            (kind, workers) for kind in ("pthread", "uthread", "alone") for workers in (1, 2)
        }


def test_one_cpu_is_said() -> None:
    made = trials("uthread-scaling", (3,))
    assert {one.factors["workers"] for one in made.values()} == {1}
    assert all(uthread_scaling.ONE_CPU_NOTE in one.note for one in made.values())


def test_only_what_was_asked_for() -> None:
    setting = Setting(cpus=(0, 1), models=("uthread",))
    assert {one.model for one in get("uthread-scaling").trials(setting)} == {"uthread"}


# ---- preemption ----


def test_ticks_stand_beside_both_floors() -> None:
    made = trials("preemption")
    assert made["self"].probe["kind"] == "self" and "interval_us" not in made["self"].factors
    for us in (100, 300, 1000, 3000, 10_000):
        floor = made[f"{us}us/timer"]
        assert (floor.model, floor.probe["probe"]) == ("pthread", "floor")
        for source in ("worker", "process", "monitor"):
            one = made[f"{us}us/{source}-call-loop"]
            assert (one.model, one.probe["probe"]) == ("uthread", "preemption")
            assert one.probe["tick_ns"] == us * 1000 and one.probe["source"] == source
            # The same work, as often, with the same ticks.
            for field in ("part_ns", "rounds", "tick_ns", "cpus"):
                assert floor.probe[field] == one.probe[field], field
            assert one.probe["part_ns"] >= 10 * one.probe["tick_ns"]
            assert one.probe["cpus"] == [4, 7]
    for us in (100, 1000):
        assert made[f"{us}us/worker-frame-loop"].probe["mechanism"] == "frame"
        assert made[f"{us}us/worker-call-libc"].probe["work"] == "libc"


@pytest.mark.parametrize("engine", ["native", "vm", "exact"])
def test_a_quick_run_of_ticks_keeps_the_chain_and_its_floor(engine: Engine) -> None:
    made = trials("preemption", quick=True, engine=engine)
    assert len(made) < len(trials("preemption"))
    # Guests have what their processor can do.
    how = "call" if engine == "native" else "default"
    ticks = (f"1000us/{way}" for way in ("timer", f"worker-{how}-loop", f"process-{how}-loop"))
    for name in ("self", *ticks):
        assert made[name].note == ""
    assert shortened("preemption", quick=True, engine=engine) == (
        preemption.QUICK if engine == "native" else preemption.GUEST
    )


def test_one_worker_is_said() -> None:
    made = trials("preemption", (3,))
    assert all(one.probe["cpus"] == [3] for one in made.values())
    assert all(one.note == preemption.ONE_CPU_NOTE for one in made.values())


# ---- starvation ----


def test_both_figures_are_there_with_what_they_lack() -> None:
    made = trials("starvation")
    for loops in (1, 8):
        for kind in ("pthread", "uthread", "go"):
            one = made[f"main/{loops}-a-cpu/{kind}"]
            assert (one.model, one.probe["answerer"], one.probe["hogs"]) == (kind, kind, 2 * loops)
            assert one.probe["answerers"] == 1
    assert made["main/1-a-cpu/uthread"].probe["tick_ns"] == 1_000_000
    assert made["main/1-a-cpu/uthread-no-ticks"].probe["tick_ns"] == 0
    assert made["main/1-a-cpu/go"].probe["preempt"] is True
    assert made["main/1-a-cpu/go-no-signals"].probe["preempt"] is False
    assert made["main/8-a-cpu/uthread-fair"].probe["order"] == "fair"
    for name, model, hogs in (
        ("0-a-cpu/nobody", "pthread", 0),
        ("1-a-cpu/a-pthread-a-CPU", "pthread", 2),
        ("20000/many-pthreads", "pthread", 20_000),
        ("100000/many-uthreads", "uthread", 100_000),
    ):
        one = made[f"neighbours/{name}"]
        assert (one.model, one.probe["hogs"]) == (model, hogs)
        assert (one.probe["answerer"], one.probe["answerers"]) == ("pthread", 3)
    assert "32 768" in made["neighbours/20000/many-pthreads"].note


def test_a_quick_run_answers_long_enough_for_a_last_hundredth() -> None:
    made = trials("starvation", quick=True)
    spans = {name: one.probe["span_ns"] for name, one in made.items()}
    many = f"neighbours/{starvation.QUICK_PTHREADS}/many-pthreads"
    crowd = f"neighbours/{starvation.QUICK_UTHREADS}/many-uthreads"
    few = "neighbours/1-a-cpu/a-pthread-a-CPU"
    assert spans[many] == spans["main/1-a-cpu/uthread"] < spans[few] == spans[crowd]
    said = shortened("starvation", quick=True)
    # Written as the study's 100 000 beside it.
    assert "15 000 uthreads and 10 000 pthreads" in said and not made[many].note


@pytest.mark.parametrize("policy", ["other", "batch", "fifo"])
def test_nobody_starves_by_policy(policy: Policy) -> None:
    setting = Setting(cpus=(0, 1), models=get("starvation").models, policy=policy)
    made = get("starvation").trials(setting)
    assert {one.probe["policy"] for one in made} == {"other"}
    assert all((starvation.POLICY_NOTE in one.note) == (policy == "fifo") for one in made)


def test_a_guest_has_no_go_and_fewer_threads() -> None:
    made = trials("starvation", engine="vm").values()
    assert {one.model for one in made} == {"pthread", "uthread"}
    assert max(int(str(one.factors["hogs"])) for one in made) == starvation.GUEST_UTHREADS
    assert shortened("starvation", engine="vm") == starvation.GUEST


def test_a_quick_run_of_loops_is_shorter_and_whole() -> None:
    full, quick = trials("starvation"), trials("starvation", quick=True)
    assert len(full) == len(quick)
    spans = {starvation.SPAN_QUICK_NS, starvation.SPAN_NEIGHBOURS_QUICK_NS}
    assert {one.probe["span_ns"] for one in quick.values()} == spans
    fewer = {quick[name].probe["hogs"] for name in set(quick) - set(full)}
    assert fewer == {starvation.QUICK_UTHREADS, starvation.QUICK_PTHREADS}


# ---- locks ----


def test_every_lock_waits_in_both_places() -> None:
    made = trials("locks")
    for mode in ("handover", "contend"):
        for model, known in (
            ("pthread", ("mutex", "spin")),
            ("uthread", ("mutex", "spin", "naive", "pthread")),
        ):
            for lock in known:
                same, other = (made[f"{mode}/{p}/{model}-{lock}"] for p in ("same", "other"))
                assert (same.probe["place"], other.probe["place"]) == ("same", "other")
                assert other.probe["cpus"] == [4, 7]
                assert same.probe.get("rounds") == other.probe.get("rounds")
                assert same.probe.get("times") == other.probe.get("times")
    for lock in ("mutex", "inherit"):
        one = made[f"inversion/same/uthread-{lock}"]
        assert (one.probe["order"], one.probe["bystanders"]) == ("priority", 4)
        assert one.probe["cpus"] == [4]


def test_a_waiter_has_some_ticks_to_waste() -> None:
    assert locks.HOLD_NS >= 3 * locks.TICK_NS


def test_on_one_cpu_nobody_waits_elsewhere() -> None:
    made = trials("locks", (3,)).values()
    assert {one.factors["place"] for one in made} == {"same"}
    assert all(locks.ONE_CPU_NOTE in one.note for one in made)


@pytest.mark.parametrize("engine", ["native", "vm", "exact"])
def test_a_quick_run_of_locks_is_whole(engine: Engine) -> None:
    full, quick = trials("locks"), trials("locks", quick=True, engine=engine)
    assert list(full) == list(quick)
    assert shortened("locks", quick=True, engine=engine) == locks.QUICK
    assert sum(one.probe.get("rounds", 0) for one in quick.values()) < sum(
        one.probe.get("rounds", 0) for one in full.values()
    )
