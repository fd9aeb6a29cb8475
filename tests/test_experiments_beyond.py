# SPDX-License-Identifier: Apache-2.0
"""The definitions beyond the studies: what is run, and what a quick run leaves out."""

from __future__ import annotations

import msgspec
import pytest
from synthetic import sample, threads

from swtch.analysis import findings, main_metric
from swtch.experiments import (
    Setting,
    asid_cliff,
    coroutine_io,
    eevdf_yield,
    every,
    get,
    mitigation,
    peers,
    ping,
    producer_consumer,
    signal,
    sync,
    syscall,
)
from swtch.records import Depth, Engine, Trial

NAMES = (
    "asid-cliff",
    "coroutine-io",
    "mitigation",
    "peers",
    "ping",
    "producer-consumer",
    "signal",
    "sync",
    "syscall",
    "wakeup-latency",
)
# What makes a trial longer or shorter.
SIZES = ("batches", "iterations", "times", "items", "wakes", "trips")


def trials(
    name: str, cpus: tuple[int, ...] = (4, 7), *, quick: bool = False, engine: Engine = "native"
) -> dict[str, Trial]:
    depth: Depth = "quick" if quick else "normal"
    setting = Setting(cpus=cpus, models=get(name).models, depth=depth, engine=engine)
    return {one.id.removeprefix(f"{name}/"): one for one in get(name).trials(setting)}


def test_those_of_no_study_say_so() -> None:
    beyond = {one.name for one in every() if one.study == "beyond"}
    assert beyond >= {"asid-cliff", "mitigation", "ping"}
    for name in beyond:
        assert get(name).origin == "Beyond the studies"
    assert get("scenarios").origin == "Study 000"


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_run_leaves_nothing_out_and_a_quick_one_says_what(name: str) -> None:
    whole, quick = trials(name), trials(name, quick=True)
    assert not any(one.note for one in (*whole.values(), *quick.values()))
    models = get(name).models
    said = {
        depth: get(name).shortened(Setting(cpus=(4, 7), models=models, depth=depth))
        for depth in ("quick", "paper")
    }
    assert said["quick"] and not said["paper"]
    assert set(quick) <= set(whole)
    work = {
        kind: sum(one.probe.get(size, 0) for one in made.values() for size in SIZES)
        for kind, made in (("whole", whole), ("quick", quick))
    }
    assert len(quick) < len(whole) or work["quick"] < work["whole"]


@pytest.mark.parametrize("engine", ["vm", "exact"])
@pytest.mark.parametrize("name", NAMES)
def test_guests_do_less_and_say_so(name: str, engine: Engine) -> None:
    made = trials(name, (0,) if engine == "exact" else (0, 1, 2, 3), engine=engine)
    assert made and get(name).shortened(Setting(cpus=(0,), models=(), engine=engine))
    assert not any(one.note for one in made.values())
    assert all(one.engine == engine for one in made.values())


@pytest.mark.parametrize("name", NAMES)
def test_one_cpu_is_enough_for_something(name: str) -> None:
    made = trials(name, (3,))
    assert made and all(one.probe["cpus"] == [3] for one in made.values())
    quick = trials(name, (3,), quick=True)
    assert quick and all(one.probe["cpus"] == [3] for one in quick.values())


@pytest.mark.parametrize("name", NAMES)
def test_only_the_models_asked_for(name: str) -> None:
    for model in get(name).models:
        setting = Setting(cpus=(0, 1), models=(model,))
        assert {one.model for one in get(name).trials(setting)} == {model}


def test_peers_do_the_same_as_the_probe_does() -> None:
    made = trials("peers")
    assert set(made) == {f"{way}/{model}" for way in ("yield", "channel") for model in peers.MODELS}
    for one in made.values():
        assert (one.probe["members"], one.probe["cpus"]) == (2, [4])
        assert one.probe["policy"] == one.factors["policy"] == "other"
    for model in peers.OTHERS:
        assert made[f"channel/{model}"].probe["by"] == "channel"
    assert made["channel/pthread"].probe["by"] == made["channel/uthread"].probe["by"] == "cond"
    assert {one.model for one in trials("peers", engine="vm").values()} == set(peers.OWN)


# ---- ping ----


def test_every_model_hands_over_by_every_mechanism() -> None:
    made = trials("ping")
    for model, all_of_them in ping.SAME.items():
        for by in all_of_them:
            one = made[f"same/{model}-{by}"]
            assert (one.model, one.probe["cpus"]) == (model, [4])
            assert one.factors["policy"] == ("fifo" if model == "kthread" else "batch")
    for model, all_of_them in ping.TWO.items():
        for by in all_of_them:
            assert made[f"two/{model}-{by}"].probe["cpus"] == [4, 7]
    assert not any(name.startswith("two/coroutine") for name in made)
    assert made["same/kthread-wake-mm"].probe["mm"] is True
    assert made["same/uthread-yield"].probe["tick_ns"] == 0


def test_what_is_said_of_ping_is_in_a_quick_run() -> None:
    made = trials("ping", quick=True)
    for name in (
        "same/uthread-yield",
        "same/pthread-futex",
        "same/process-futex",
        "two/pthread-futex",
    ):
        assert name in made


def test_one_cpu_wakes_no_other() -> None:
    made = trials("ping", (3,))
    assert all(one.factors["place"] == "same" for one in made.values())
    assert all(one.note == ping.ONE_CPU_NOTE for one in made.values())


# ---- asid-cliff ----


def test_rings_reach_beyond_the_kernels_marks() -> None:
    for quick in (False, True):
        made = trials("asid-cliff", quick=quick)
        sizes = {int(str(one.factors["members"])) for one in made.values()}
        assert {asid_cliff.WITHIN, asid_cliff.MARKS, asid_cliff.BEYOND_MARKS, 2, 12} <= sizes
        for one in made.values():
            assert one.probe["members"] == one.factors["members"]
            assert one.probe["pages"] == asid_cliff.PAGES
            # As many hand-overs a batch, whatever the size.
            assert 40 <= one.probe["laps"] * one.probe["members"] <= 60
    assert asid_cliff.WITHIN < asid_cliff.MARKS < asid_cliff.BEYOND_MARKS


# ---- mitigation ----


def test_a_barrier_is_asked_for_by_nobody_one_and_both() -> None:
    made = trials("mitigation")
    assert set(made) == {
        *(f"{asked}/process" for asked in ("none", "one", "all")),
        *(f"{asked}/pthread" for asked in ("none", "one")),
    }
    for one in made.values():
        assert one.probe["barrier"] == one.factors["barrier"]
        assert (one.probe["members"], one.probe["by"]) == (2, "futex")


def test_a_refused_barrier_has_no_time() -> None:
    of = mitigation.METRICS["each_ns"].of
    assert of({"each_p50_ns": 900.5, "fence_errno": 1}) is None
    assert of({"each_p50_ns": 900.5, "fence_errno": 0}) == 900.5
    assert of({"each_p50_ns": 900.5}) == 900.5


# ---- syscall, signal ----


def test_calls_are_made_one_by_one_on_one_cpu() -> None:
    made = trials("syscall")
    assert set(made) == {
        f"{kind}/{model}" for model, kinds in syscall.KINDS.items() for kind in kinds
    }
    for one in made.values():
        assert (one.probe["kind"], one.probe["cpus"]) == (one.factors["kind"], [4])
    assert made["uyield/uthread"].probe["tick_ns"] == 0
    assert made["function/pthread"].probe["calls"] > made["getppid/pthread"].probe["calls"]


def test_signals_go_to_oneself_and_to_another() -> None:
    made = {name.partition("/")[0]: one for name, one in trials("signal").items()}
    assert set(made) == {*signal.SELF, "pong-same", *signal.OTHERS}
    assert all(made[kind].probe["probe"] == "calls" for kind in signal.SELF)
    assert made["interrupt"].probe["cpus"] == made["pong-two"].probe["cpus"] == [4, 7]
    assert made["pong-same"].probe["by"] == "signal"
    alone = trials("signal", (3,))
    assert not any(name.startswith(signal.OTHERS) for name in alone)
    assert all(one.note == signal.ONE_CPU_NOTE for one in alone.values())


# ---- sync, producer-consumer ----


def test_every_way_of_a_sum_on_one_cpu_and_on_two() -> None:
    made = trials("sync")
    assert set(made) == {
        f"{cpus}/{way}/{model}" for cpus in (1, 2) for way in sync.WAYS for model in sync.MODELS
    }
    for one in made.values():
        assert len(one.probe["cpus"]) == one.factors["cpus_used"]
        assert one.probe["threads"] == sync.THREADS
    assert get("sync").study == get("producer-consumer").study == "001"
    each = sync.METRICS["each_ns"].of
    assert each({"wall_ns": 500, "counter": 100}) == 5
    assert each({"wall_ns": 500}) is None and each({"counter": 5}) is None


def test_items_by_model_and_room() -> None:
    made = trials("producer-consumer")
    assert set(made) == {
        f"{cpus}/{room}/{model}"
        for cpus in (1, 2)
        for room in producer_consumer.ROOMS
        for model in producer_consumer.MODELS
        if cpus == 1 or model != "coroutine"
    }
    for one in made.values():
        assert one.probe["room"] == one.factors["room"] and one.probe["pairs"] == 1
        assert one.probe["items"] >= one.probe["room"]
    quick = trials("producer-consumer", quick=True)
    assert all(one.probe["items"] >= 100 for one in quick.values())
    each = producer_consumer.METRICS["each_ns"].of
    assert each({"wall_ns": 500, "items": 100}) == 5 and each({"wall_ns": 500}) is None


# ---- eevdf-yield ----


@pytest.mark.parametrize("engine", ["native", "vm"])
def test_two_threads_do_nothing_but_yield(engine: Engine) -> None:
    made = trials("eevdf-yield", engine=engine)
    policies = ("other", "batch") if engine == "native" else ("other", "batch", "fifo")
    assert set(made) == {f"{policy}/{m}" for policy in policies for m in eevdf_yield.MODELS}
    for one in made.values():
        assert (one.probe["threads"], one.probe["every"], one.probe["cpus"]) == (2, 1, [4])
        assert (one.probe["intervention"], one.probe["policy"]) == ("yield", one.factors["policy"])
        assert one.note == ""
    quick = trials("eevdf-yield", quick=True, engine=engine)
    assert set(quick) == {f"other/{m}" for m in ("kthread", "pthread")}
    fewer = eevdf_yield.YIELDS_QUICK if engine == "native" else eevdf_yield.GUEST_YIELDS_QUICK
    for one in quick.values():
        assert (one.probe["iterations"], one.note) == (fewer, "")


def test_yields_are_compared_by_their_share_of_switches_and_not_by_their_number() -> None:
    """A run with half the yields, half of which switch as before, is the same."""
    few, many = (
        Setting(cpus=(4,), models=("pthread",), engine="native", depth=depth)
        for depth in ("quick", "normal")
    )
    shares = []
    for setting in (few, many):
        one = eevdf_yield.trials(setting)[0]
        asked = one.probe["threads"] * one.probe["iterations"]
        counted = threads(2, nvcsw=10, nivcsw=asked // 4 - 10)
        taken = sample(one, values={"wall_ns": 1, "expected": asked}, threads=counted)
        main = main_metric.declared(one)
        assert main is not None and main.better == "neither"
        shares.append(findings.metrics(taken)[main.name])
    assert shares == [50.0, 50.0]
    unknown = msgspec.structs.replace(taken, threads=())
    assert eevdf_yield.SWITCHED not in findings.metrics(unknown)


# ---- wakeup-latency ----


def test_sleepers_are_woken_quiet_and_beside_a_loop() -> None:
    made = trials("wakeup-latency")
    for policy in ("other", "batch"):
        for model in ("pthread", "uthread"):
            for where in ("timer/quiet", "timer/busy", "same/quiet", "same/busy", "two/quiet"):
                one = made[f"{where}/{policy}/{model}"]
                assert one.probe["busy"] == where.endswith("busy")
                assert one.probe["by"] == ("timer" if where.startswith("timer") else "other")
                assert one.probe["cpus"] == ([4, 7] if where.startswith("two") else [4])
                assert one.probe["policy"] == policy
    assert len(made) == 20
    assert {one.factors["policy"] for one in trials("wakeup-latency", quick=True).values()} == {
        "other"
    }


# ---- coroutine-io ----


def test_everybody_waits_as_they_do_best_and_two_fall_asleep() -> None:
    made = trials("coroutine-io")
    assert set(made) == {
        f"{cpus}/{number}/{by}/{model}"
        for cpus in (1, 2)
        for number in coroutine_io.CONNECTIONS
        for model, by in (*coroutine_io.ARMS, *coroutine_io.TRAPS)
        if number == coroutine_io.TRAP_AT or (model, by) not in coroutine_io.TRAPS
    }
    for one in made.values():
        assert len(one.probe["cpus"]) == one.factors["cpus_used"]
        assert one.probe["by"] == one.factors["by"]
        assert one.probe["connections"] == one.factors["connections"]
        assert one.probe["policy"] == one.factors["policy"] == "other"
        assert one.probe["trips"] >= 4 and one.probe["bytes"] == 64
        # Spares come by ticks.
        ticks = 1_000_000 if one.probe["by"] == "blocking" else 0
        assert one.probe.get("tick_ns") == (ticks if one.model == "uthread" else None)
    assert get("coroutine-io").study == "001"


def test_who_is_compared_makes_as_many_round_trips() -> None:
    for made in (trials("coroutine-io"), trials("coroutine-io", quick=True)):
        for cpus in (1, 2):
            assert (
                len(
                    {
                        one.probe["trips"]
                        for name, one in made.items()
                        if name.startswith(f"{cpus}/32/")
                        and (one.model, one.factors["by"]) in coroutine_io.ARMS
                    }
                )
                == 1
            )


def test_what_is_said_of_coroutines_under_io_is_in_a_quick_run() -> None:
    made = trials("coroutine-io", quick=True)
    for model, by in (*coroutine_io.ARMS, *coroutine_io.TRAPS):
        assert f"1/{coroutine_io.TRAP_AT}/{by}/{model}" in made


def test_a_round_trips_share_of_what_was_counted() -> None:
    metrics = coroutine_io.METRICS
    values = {
        "trips": 10,
        "wall_ns": 500,
        "client_cpu_instructions": 70,
        "client_nvcsw": 8,
        "client_nivcsw": 4,
        "server_waits": 5,
    }
    told = {name: metric.of(values) for name, metric in metrics.items()}
    assert told["each_ns"] == 50 and told["each_instructions"] is None
    assert told["cpu_instructions"] == 7 and told["cpu_ns"] is None
    assert told["kernel_switches"] == 1.2 and told["batch"] == 2
    # Who makes no switches of their own, and calls no epoll_wait(), has none.
    assert told["own_switches"] is None and told["waits"] is None
    assert metrics["each_ns"].of({"wall_ns": 5}) is None
    assert metrics["batch"].of({"trips": 5, "server_waits": 0}) is None
