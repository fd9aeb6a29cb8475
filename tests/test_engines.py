# SPDX-License-Identifier: Apache-2.0
"""The table of engines: one entry makes an engine, and all else follows from its traits."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from swtch import engines, experiments
from swtch.analysis.findings import Place
from swtch.engines import TRAITS, Traits, choice
from swtch.experiments import Setting
from swtch.records import Engine


def test_every_engine_has_its_traits() -> None:
    assert set(TRAITS) == set(get_args(Engine))


@pytest.mark.parametrize("traits", TRAITS.values(), ids=list(TRAITS))
def test_openers_are_there(traits: Traits) -> None:
    module, _, function = traits.opener.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_units_follow_the_clock() -> None:
    time, count = TRAITS["vm"], TRAITS["exact"]
    assert [time.suffix(scale) for scale in ("ns", "us", "ms")] == ["ns", "us", "ms"]
    assert [time.unit(scale) for scale in ("ns", "us", "ms")] == ["ns", "µs", "ms"]
    assert [count.suffix(scale) for scale in ("ns", "us", "ms")] == ["instructions", "ki", "mi"]
    assert count.unit("us") == "thousand instructions"
    assert (time.speed, count.speed) == ("throughput_mops", "throughput_opki")


@pytest.mark.parametrize(
    ("engine", "emulated", "clock"),
    [
        ("native", False, "time"),
        ("vm", False, "time"),
        ("vm", True, "emulated"),
        ("exact", True, "instructions"),
    ],
)
def test_place_has_the_clock_of_its_engine(engine: Engine, emulated: bool, clock: str) -> None:
    place = Place(engine, "" if engine == "native" else "guest", emulated)
    assert place.clock == clock
    assert place.home == (engine == "native")
    assert place.beside == ("" if place.home else f" ({engine} guest)")


def test_a_new_engine_is_an_entry_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but its opener and its traits is asked for."""

    class Simulator:
        name = "simulator"

    def opened(options: choice.Options, subjects: Sequence[object]) -> Simulator:
        assert not subjects
        return Simulator()

    monkeypatch.setattr(choice, "_test_opened", opened, raising=False)
    entry = Traits(opener="swtch.engines.choice:_test_opened", counting=True)
    monkeypatch.setitem(TRAITS, "simulator", entry)  # type: ignore[index, misc]
    monkeypatch.setattr(choice, "ENGINE_NAMES", ("simulator", *choice.ENGINE_NAMES))
    options = choice.Options(engines=choice.parse_engines("simulator"))
    assert isinstance(choice.open_engine(options, say=print), Simulator)
    setting = Setting(cpus=(0, 1), models=("pthread",), engine="simulator")  # type: ignore[arg-type]
    assert setting.counting and not setting.guest
    place = Place("simulator")  # type: ignore[arg-type]
    assert (place.clock, place.unit(), place.speed) == (
        "instructions",
        "instructions",
        "throughput_opki",
    )


def test_a_setting_builds_trials() -> None:
    setting = Setting(cpus=(2, 5, 7), models=("pthread",), engine="vm", timeout_s=3)
    probe = setting.probe("ring", "pthread", cpus=2, by="pipe")
    assert probe == {
        "schema": 1,
        "probe": "ring",
        "model": "pthread",
        "by": "pipe",
        "cpus": [2, 5],
        "policy": "batch",
        "seed": 0,
    }
    trial = setting.trial("mine", "two/pipe", probe, {"by": "pipe"}, "a; b")
    assert (trial.id, trial.experiment, trial.model) == ("mine/two/pipe", "mine", "pthread")
    assert (trial.engine, trial.timeout_s, trial.note) == ("vm", 3, "a; b")


def test_nobody_else_tells_engines_apart_by_name() -> None:
    """Who needs to asks for a trait: a new engine is then an entry of the table."""
    names = "|".join(TRAITS)
    compared = re.compile(rf"""(?:==|!=|Place\() *["'](?:{names})["']""")
    package = Path(engines.__file__).parents[1]
    found = [
        f"{file.relative_to(package)}: {line.strip()}"
        for file in package.rglob("*.py")
        if file.parent.name != "engines"
        for line in file.read_text(encoding="utf-8").splitlines()
        if compared.search(line)
    ]
    assert found == []


def test_trials_are_built_in_one_place() -> None:
    folder = Path(experiments.__file__).parent
    built = [file.name for file in folder.glob("*.py") if re.search(r"\bTrial\(", file.read_text())]
    assert built == ["__init__.py"]
