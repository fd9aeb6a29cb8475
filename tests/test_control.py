# SPDX-License-Identifier: Apache-2.0
"""The A/A control: planned in every campaign, seen by no chapter, and an honest rate."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from scipy.stats import binom
from synthetic import Scene

from swtch import experiments, plan
from swtch.analysis import control, effects, findings
from swtch.analysis.control import Control
from swtch.analysis.findings import Group
from swtch.experiments import Setting
from swtch.records import Trial


def planned(name: str) -> tuple[Trial, ...]:
    experiment = experiments.get(name)
    return experiment.trials(Setting(cpus=(0, 1), models=experiment.models))


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_has_one_copy(name: str) -> None:
    made = plan.with_control(planned(name))
    copies = [trial for trial in made if trial.factors.get("control") == "b"]
    (copy,) = copies
    assert len(made) == len(planned(name)) + (name != "scenarios")
    assert len({trial.id for trial in made}) == len(made)
    (original,) = [t for t in made if f"{t.id}/again" == copy.id]
    assert original.probe == copy.probe
    assert (original.model, original.engine) == (copy.model, copy.engine)


def test_a_copy_finds_its_original_without_a_mark() -> None:
    made = plan.with_control(planned("coroutine-gantt"))
    scene = Scene()
    groups = []
    for trial in made[:3]:
        sample = {"wall_ns": 1000, "switches": 30}
        values = [{**sample, "wall_ns": 1000 + 7 * n} for n in range(6)]
        samples = tuple(
            msgspec.structs.replace(scene_sample(scene), values=v, block=n, trial_id=trial.id)
            for n, v in enumerate(values)
        )
        groups.append(Group(trial, samples, ()))
    (found,) = control.controls(groups)
    assert found.b.trial.id == f"{found.a.trial.id}/again"
    assert not found.differs
    assert found.ratio.estimate == 1


def scene_sample(scene: Scene):  # type: ignore[no-untyped-def]
    if not scene.groups():
        scene.scenario("A", "pthread")
    sample = scene.groups()[0].good[0]
    return msgspec.structs.replace(sample, experiment="coroutine-gantt", threads=())


def twice(*speeds: tuple[Sequence[float], Sequence[float]]) -> tuple[Control, ...]:
    """A control of each pair: a trial's speeds by block, and its copy's."""
    pairs: list[Control] = []
    for a, b in speeds:
        scene = Scene().scenario("A", "pthread", list(a))
        scene.scenario("A", "pthread", list(b), where={"again": True})
        pairs += control.controls(scene.groups())
    return tuple(pairs)


def ramp(n: int, by: float = 1.0) -> list[float]:
    """A machine that becomes faster with each block."""
    return [by * (100 + 50 * block) for block in range(n)]


def test_a_control_is_judged_within_its_blocks_by_the_verdicts_rule() -> None:
    """A tenth faster in each block of a drift that hides it from who compares the groups."""
    (faster,) = twice((ramp(6), ramp(6, 1.1)))
    assert faster.differs and faster.decides
    assert faster.ratio == findings.ratio_interval(faster.a, faster.b)
    assert faster.ratio.high == pytest.approx(1 / 1.1)
    assert faster.p == pytest.approx(2 / 2**6)
    (few,) = twice((ramp(5), ramp(5, 1.1)))
    assert not few.differs and not few.decides


def test_the_rate_is_of_the_pairs_that_decide() -> None:
    like, unlike, few = (ramp(6), ramp(6)), (ramp(6), ramp(6, 1.1)), (ramp(5), ramp(5, 1.1))
    rate = control.rate(twice(like, unlike, few, like))
    assert (rate.called, rate.of) == (1, 3)
    assert str(rate) == "1 of 3 (33.3 %)"
    assert str(control.rate([])) == "0 of 0 (0.0 %)"


@pytest.mark.parametrize(("of", "most"), [(0, 0), (1, 0), (2, 1), (8, 2), (30, 4), (1000, 62)])
def test_more_than_chance_is_by_the_binomial(of: int, most: int) -> None:
    rate = control.Rate(0, of)
    assert rate.most == most == (binom.ppf(0.95, of, 0.05) if of else 0)


def test_like_with_like_is_called_in_no_more_than_five_of_a_hundred() -> None:
    """Skewed noise and a drift from block to block; seeded."""
    rng = random.Random(5)
    pairs = []
    for _ in range(400):
        drift = [rng.lognormvariate(0, 0.3) for _ in range(6)]
        a, b = ([d * (100 + 20 * rng.expovariate(1)) for d in drift] for _ in range(2))
        pairs.append((a, b))
    rate = control.rate(twice(*pairs))
    assert rate.of == 400
    assert 0 < rate.share <= 0.05 and rate.called <= rate.most


def test_a_run_that_was_looked_at_often_has_its_controls_at_the_same_level() -> None:
    """At 0.99 eight blocks are needed, and one of a hundred pairs is called by chance."""
    seven, eight = (
        Scene()
        .scenario("A", "pthread", ramp(n))
        .scenario("A", "pthread", ramp(n, 1.1), where={"again": True})
        .groups()
        for n in (7, 8)
    )
    (few,), (enough,) = (control.controls(groups, {"native": 0.99}) for groups in (seven, eight))
    assert not few.decides and enough.differs and enough.ratio.level >= 0.99
    rate = control.rate([few, enough])
    assert (rate.called, rate.of) == (1, 1) and rate.error == pytest.approx(0.01)
    assert control.Rate(0, 30, 0.01).most == binom.ppf(0.95, 30, 0.01) == 1
    (usual,) = control.controls(seven, {"vm": 0.99})
    assert usual.differs and usual.level == effects.LEVEL
