# SPDX-License-Identifier: Apache-2.0
"""The A/A control: planned in every campaign, seen by no chapter, and an honest rate."""

from __future__ import annotations

import random

import msgspec
import pytest
from synthetic import Scene

from swtch import experiments, plan
from swtch.analysis import control
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


def noisy(groups: int, n: int, seed: int = 5) -> list[Group]:
    """Groups of a skewed noise."""
    rng = random.Random(seed)
    scene = Scene()
    for case in ("A", "B1", "B2", "C1", "C2")[:groups]:
        scene.scenario(case, "pthread", [100 + 10 * rng.expovariate(1) for _ in range(n)])
    return list(scene.groups())


@pytest.mark.parametrize("n", [5, 10, 20])
def test_like_with_like_is_called_in_five_of_a_hundred(n: int) -> None:
    found = control.rate(noisy(5, n), comparisons=1000)
    assert found.of == 1000
    assert found.share <= 0.07


def test_the_rate_of_nothing() -> None:
    assert str(control.rate([])) == "0 of 0 (0.0 %)"
    assert control.rate(noisy(1, 3)).of == 0
    constant = Scene().scenario("A", "pthread", [100.0] * 10).groups()
    assert control.rate(constant).of == 0


def test_the_rate_is_the_same_each_time() -> None:
    assert control.rate(noisy(3, 10)) == control.rate(noisy(3, 10))
