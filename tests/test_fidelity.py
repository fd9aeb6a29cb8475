# SPDX-License-Identifier: Apache-2.0
"""How far a run is from the studies: said shortly, and true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from synthetic import Scene, scenario, trial

from swtch import experiments, fidelity
from swtch.experiments import Experiment, Setting
from swtch.records import Trial
from swtch.report.story import tell


def noted(trials: Sequence[Trial], note: str) -> Scene:
    scene = Scene()
    for one in trials:
        scene.add(msgspec.structs.replace(one, note=note))
    return scene


@pytest.fixture
def shortening(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The experiment shortens what a setting of depth quick measures, and nothing else does."""
    real = experiments.get

    def shorten(name: str) -> None:
        def get(asked: str) -> Experiment:
            return replace(
                real(asked),
                shortened=lambda setting: (
                    "a fifth of the additions" if asked == name and setting.quick else ""
                ),
            )

        monkeypatch.setattr(experiments, "get", get)
        monkeypatch.setattr("swtch.report.story.get", get)

    return shorten


def test_what_does_as_the_study_did_needs_no_word(shortening: Callable[[str], None]) -> None:
    shortening("")
    manifest = noted([scenario("A", "pthread")], "").manifest()
    assert fidelity.announcement(manifest) == []


def test_only_trials_of_studies_are_counted(shortening: Callable[[str], None]) -> None:
    """What belongs to no study does not do something else than one."""
    shortening("")
    beyond = [trial("ping", "pthread", by=by) for by in ("futex", "pipe")]
    scene = noted(beyond, "no second CPU is allowed here")
    assert fidelity.announcement(scene.manifest()) == []
    scene.add(scenario("A", "pthread"))
    instead = msgspec.structs.replace(scenario("B2", "pthread"), note="two CPUs instead of four")
    scene.add(instead)
    (line,) = fidelity.announcement(scene.manifest())
    assert line.startswith("1 of 2 trials does something else than the study;")


def test_a_depth_that_shortens_is_one_line(shortening: Callable[[str], None]) -> None:
    shortening("scenarios")
    scene = noted([scenario("A", "pthread"), scenario("A", "uthread")], "")
    assert fidelity.announcement(scene.manifest(depth="normal")) == []
    (line,) = fidelity.announcement(scene.manifest(depth="quick"))
    assert line == "depth quick shortens scenarios; the report says by what"


def test_the_report_says_by_what(shortening: Callable[[str], None], tmp_path: Path) -> None:
    shortening("scenarios")
    scene = Scene().scenario("A", "pthread")
    story = tell(scene.write(tmp_path / "run", depth="quick"))
    (experiment,) = story.experiments
    assert story.shortened(experiment) == [
        "Shorter than the study at depth quick: a fifth of the additions."
    ]
    from swtch import report

    assert story.shortened(experiment)[0] in report.as_markdown(tmp_path / "run")


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_can_be_asked(name: str) -> None:
    experiment = experiments.get(name)
    for engine in ("native", "vm", "exact"):
        setting = Setting(cpus=(0, 1), models=experiment.models, engine=engine, depth="quick")  # type: ignore[arg-type]
        line = experiment.shortened(setting)
        assert not line.endswith(".") and "\n" not in line
