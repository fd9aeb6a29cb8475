# SPDX-License-Identifier: Apache-2.0
"""The definitions beyond the studies: what is run, and what a quick run leaves out."""

from __future__ import annotations

import pytest

from swtch.experiments import Setting, asid_cliff, every, get, mitigation, ping
from swtch.records import Depth, Engine, Trial

NAMES = ("asid-cliff", "mitigation", "ping")


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
    assert all(one.note == "" for one in whole.values())
    assert all(one.note.startswith("quick: ") for one in quick.values())
    assert set(quick) <= set(whole)
    work = {
        kind: sum(one.probe.get("batches", 0) for one in made.values())
        for kind, made in (("whole", whole), ("quick", quick))
    }
    assert len(quick) < len(whole) or work["quick"] < work["whole"]


@pytest.mark.parametrize("engine", ["vm", "exact"])
@pytest.mark.parametrize("name", NAMES)
def test_guests_do_less_and_say_so(name: str, engine: Engine) -> None:
    made = trials(name, (0,) if engine == "exact" else (0, 1, 2, 3), engine=engine)
    assert made and all("guest" in one.note for one in made.values())
    assert all(one.engine == engine for one in made.values())


@pytest.mark.parametrize("name", NAMES)
def test_one_cpu_is_enough_for_something(name: str) -> None:
    made = trials(name, (3,))
    assert made and all(one.probe["cpus"] == [3] for one in made.values())


@pytest.mark.parametrize("name", NAMES)
def test_only_the_models_asked_for(name: str) -> None:
    for model in get(name).models:
        setting = Setting(cpus=(0, 1), models=(model,))
        assert {one.model for one in get(name).trials(setting)} == {model}


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
