# SPDX-License-Identifier: Apache-2.0
"""From samples to findings: metrics and units, groups, and what may be compared with what."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import synthetic
from synthetic import Scene, scenario, scenario_sample, spread

from swtch import experiments
from swtch.analysis.control import controls
from swtch.analysis.findings import (
    UNITS,
    ApartError,
    Place,
    beside,
    effect,
    finding_of,
    group_samples,
    metrics,
    own_metrics,
    ratio_interval,
)
from swtch.experiments import value
from swtch.records import Engine, Model

VM = {"engine": "vm", "guest": "6.1-amd64"}


# ---- metrics ----


@pytest.mark.parametrize("model", ["pthread", "kthread"])
def test_what_the_kernel_counts_is_summed_over_threads(model: Model) -> None:
    made = scenario_sample(
        scenario("C1", model), 80.0, threads_of={"nvcsw": [1, 2, 3, 4], "nivcsw": 3}
    )
    assert metrics(made) == {
        "wall_ms": 50.0,
        "throughput_mops": 80.0,
        # Four threads of 50 ms each.
        "throughput_cpu_mops": 20.0,
        "nvcsw": 10,
        "nivcsw": 12,
    }


@pytest.mark.parametrize("model", ["uthread", "coroutine", "ucontext"])
def test_what_the_kernel_does_not_know_is_counted_in_user_space(model: Model) -> None:
    made = scenario_sample(scenario("B2", model), values={"switches": 412})
    assert metrics(made) == {
        "wall_ms": 40.0,
        "throughput_mops": 100.0,
        "throughput_cpu_mops": 100.0,
        "user_switches": 412,
    }


def test_instructions_are_never_milliseconds() -> None:
    made = scenario_sample(scenario("A", "pthread", engine="exact"), 100.0)
    told = metrics(made)
    assert told["wall_mi"] == 40.0
    assert told["throughput_opki"] == 100.0
    assert "wall_ms" not in told and "throughput_mops" not in told


def test_a_trial_too_short_for_the_clock_has_no_speed() -> None:
    made = scenario_sample(scenario("A", "pthread"), values={"wall_ns": 0})
    assert set(metrics(made)) == {"nvcsw", "nivcsw"}


def test_every_metric_has_a_unit() -> None:
    for engine in ("native", "exact"):
        for model in ("pthread", "uthread"):
            one = scenario("B2", model, engine=engine)
            assert metrics(scenario_sample(one)).keys() <= UNITS.keys()


def test_an_experiment_adds_metrics_of_its_own() -> None:
    """Each only where the sample has what it is made of; none of an unknown experiment."""
    for name in experiments.names():
        own = experiments.get(name).metrics
        assert not own.keys() & UNITS.keys(), name
        assert own_metrics(name) == own
        assert all(metric.unit and metric.of({}) is None for metric in own.values()), name
    assert own_metrics("of-another-version") == {}


def test_a_value_is_a_metric_in_another_unit() -> None:
    metric = value("tick_ns", "us", 1e-3)
    assert metric.unit == "µs"
    assert metric.of({"tick_ns": 2500}) == 2.5
    assert metric.of({"wall_ns": 2500}) is None


# ---- groups and findings ----


def test_groups_keep_the_order_of_trials_and_those_without_samples() -> None:
    scene = Scene().add(scenario("A", "pthread"), missing=3).scenario("B2", "uthread", n=2)
    scene.add(scenario("C1", "pthread"), [synthetic.failed(scenario("C1", "pthread"))])
    shown = [(g.trial.id, len(g.good), len(g.failed)) for g in scene.groups()]
    assert shown == [
        ("scenarios/A/pthread", 0, 0),
        ("scenarios/B2/uthread", 2, 0),
        ("scenarios/C1/pthread", 0, 1),
    ]
    empty = finding_of(scene.groups()[0])
    assert (empty.n, empty.intervals, empty.dispersion, empty.gates) == (0, {}, {}, {})


def test_groups_are_in_plan_order_whatever_the_files_order() -> None:
    scene = Scene().scenario("A", "pthread", [90.0, 100.0, 110.0])
    (one,) = group_samples(scene.trials, list(reversed(scene.samples)))
    assert [sample.seq for sample in one.good] == [0, 1, 2]
    assert one.speeds() == pytest.approx([90, 100, 110])


def test_a_finding_is_of_good_samples_and_names_each_error_once() -> None:
    trial = scenario("A", "pthread")
    scene = Scene().scenario("A", "pthread", [80.0, 100.0, 125.0])
    scene.add(trial, [synthetic.failed(trial, error) for error in ("b", "a", "b")])
    finding = finding_of(scene.groups()[0])
    assert (finding.n, finding.failed, finding.errors) == (3, 3, ("b", "a"))
    assert finding.intervals["throughput_mops"].estimate == pytest.approx(100)
    assert finding.intervals["throughput_mops"].unit == "Mops/s"
    assert finding.dispersion["throughput_mops"]["max"] == pytest.approx(125)
    assert finding.intervals.keys() == finding.dispersion.keys()


# ---- places and comparisons ----


def test_a_place_is_an_engine_and_a_guest() -> None:
    native, vm = scenario("A", "pthread"), scenario("A", "pthread", engine="vm", guest="x")
    assert Place.of(native) == Place("native")
    assert str(Place.of(native)) == "native"
    assert Place.of(vm) == Place("vm", "x")
    assert str(Place.of(vm)) == "vm x"


@pytest.mark.parametrize(
    "other", [{"engine": "vm", "guest": "6.12-amd64"}, {"engine": "exact", "guest": "6.1-arm64"}]
)
def test_two_places_are_never_compared(other: dict[str, Engine]) -> None:
    scene = Scene().scenario("A", "pthread", where=VM).scenario("A", "pthread", where=other)
    a, b = scene.groups()
    with pytest.raises(ValueError, match=r"scenarios/A/pthread@6\.1-amd64 on vm 6\.1-amd64"):
        ratio_interval(a, b)


def test_blocks_both_have_are_compared_within() -> None:
    """The drift of the machine is common to a block and cancels, wherever a block is missing."""
    drift = [1.0, 1.4, 0.7, 1.6, 0.6, 1.2, 0.9, 1.5]
    scene = Scene().scenario("A", "pthread", [100 * d for d in drift])
    scene.scenario("A", "uthread", [120 * d for d in drift])
    base, fast = scene.groups()
    cut = replace(fast, good=fast.good[2:])
    for one in (fast, cut):
        ratio = ratio_interval(one, base)
        assert ratio is not None
        assert ratio.n == len(one.good)
        assert 1.19 < ratio.low <= ratio.estimate <= ratio.high < 1.21


def test_blocks_with_nothing_in_common_are_not_compared() -> None:
    """They were measured at different times: what the machine did between is no effect."""
    scene = Scene().scenario("A", "pthread", 100.0).scenario("A", "uthread", 120.0)
    base, fast = scene.groups()
    moved = tuple(msgspec.structs.replace(s, block=s.block + 100) for s in fast.good)
    apart = replace(fast, good=moved)
    assert effect(apart, base) is None and ratio_interval(apart, base) is None
    with pytest.raises(ApartError, match="no block has good samples of both scenarios/A/uthread"):
        beside(apart, base)
    # Where one has no samples at all, there is nothing to be said of blocks.
    assert beside(replace(fast, good=()), base) is None


def test_a_claim_about_two_that_share_no_block_is_not_decided() -> None:
    scene = Scene()
    for model, case, mops in (("pthread", "A", 80.0), ("pthread", "B2", 250.0)):
        scene.scenario(case, model, mops, n=12)
    assert scene.verdict("000.4").verdict == "holds"
    halves = {"A": range(6), "B2": range(6, 12)}
    scene.samples = [s for s in scene.samples if s.block in halves[str(s.factors["scenario"])]]
    verdict = scene.verdict("000.4")
    assert verdict.verdict == "cannot tell" and verdict.here is None
    assert "no block has good samples of both" in verdict.why
    # Pthreads and kthreads alike: a case is not left out because it cannot be compared.
    for case, mops in (("A", 80.0), ("B2", 250.0)):
        scene.scenario(case, "kthread", mops, n=12)
    assert scene.verdict("000.4").verdict == "cannot tell"


def test_a_comparison_may_be_of_any_metric() -> None:
    scene = Scene().scenario("C1", "pthread").scenario("C2", "pthread", threads_of={"nvcsw": 50})
    a, b = scene.groups()
    ratio = ratio_interval(a, b, "nvcsw")
    assert ratio is not None and (ratio.estimate, ratio.method) == (2.0, "constant")
    assert ratio_interval(a, b, "user_switches") is None


def test_exact_is_compared_by_instructions() -> None:
    where = {"engine": "exact"}
    scene = Scene().scenario("A", "pthread", 100.0, where=where)
    scene.scenario("B2", "pthread", 150.0, where=where)
    a, b = scene.groups()
    ratio = ratio_interval(b, a)
    assert ratio is not None and ratio.estimate == pytest.approx(1.5, rel=1e-6)


# ---- the A/A control ----


@pytest.mark.parametrize("where", [{}, VM], ids=["native", "vm"])
def test_a_copy_is_controlled_against_its_original(where: dict[str, str]) -> None:
    scene = Scene().scenario("B2", "pthread", where=where).scenario("A", "uthread", where=where)
    scene.scenario("A", "pthread", spread(100.0, 10, 0.05), where=where)
    scene.scenario("A", "pthread", spread(100.0, 10, -0.05), where={**where, "again": True})
    (control,) = controls(scene.groups())
    assert control.a.trial.id.startswith("scenarios/A/pthread")
    assert "/again" in control.b.trial.id
    assert control.ratio.low < 1 < control.ratio.high
    assert not control.differs


def test_a_control_that_differs_says_so() -> None:
    scene = Scene().scenario("A", "pthread", 100.0)
    scene.scenario("A", "pthread", 120.0, where={"again": True})
    (control,) = controls(scene.groups())
    assert control.differs


def test_a_copy_without_its_original_is_no_control() -> None:
    """Also when the same trial was measured at another place."""
    scene = Scene().scenario("A", "pthread", where={"again": True})
    assert controls(scene.groups()) == ()
    scene.scenario("A", "pthread", where=VM).scenario("A", "uthread")
    scene.add(scenario("A", "pthread"), missing=3)
    assert controls(scene.groups()) == ()
