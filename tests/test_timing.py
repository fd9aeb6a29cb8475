# SPDX-License-Identifier: Apache-2.0
"""How long a run takes: guesses, memory, and what is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from swtch import experiments, timing
from swtch.engines import Engine
from swtch.progress import Progress, sparkline
from swtch.records import Manifest, Sample, Trial


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def trials(make_manifest: Callable[..., Manifest]) -> tuple[Trial, ...]:
    """Without the A/A copy, which takes what its original takes."""
    return tuple(t for t in make_manifest().trials if t.factors["control"] != "b")


def sample(trial: Trial, seconds: float, seq: int = 0, status: str = "ok") -> Sample:
    made = {
        "seq": seq,
        "experiment": trial.experiment,
        "trial_id": trial.id,
        "model": trial.model,
        "engine": trial.engine,
        "factors": trial.factors,
        "block": 0,
        "seed": 1,
        "started": "",
        "elapsed_ns": round(seconds * 1e9),
        "status": status,
    }
    return msgspec.convert(made, Sample)


def test_a_guess_is_the_definitions_times_the_slowness(trials: tuple[Trial, ...]) -> None:
    expected = timing.expect(trials, "normal", slowness=2)
    assert (
        expected.seconds[trials[0].id]
        == 2 * experiments.get("scenarios").seconds_at["native", "normal"]
    )
    assert expected.source == "guessed from the definitions, on a machine 2 times as slow"


def test_what_was_timed_here_outweighs_the_guess(trials: tuple[Trial, ...]) -> None:
    timing.remember(trials, [sample(trials[0], s) for s in (1.0, 3.0, 50.0)])
    expected = timing.expect(trials, "normal", slowness=2)
    assert expected.seconds[trials[0].id] == 3.0
    assert expected.seen == {trials[0].id}
    share = f"{1 / len(trials):.0%}"
    assert expected.source.startswith(f"{share} timed here before, guessed from")
    timing.remember(trials, [sample(trial, 1.0) for trial in trials])
    assert timing.expect(trials, "normal").source == "as timed here before"


def test_failures_and_other_work_teach_nothing(trials: tuple[Trial, ...]) -> None:
    timing.remember(trials, [sample(trials[0], 9.0, status="failed")])
    timing.remember(trials, [sample(trials[1], 9.0)])
    more = msgspec.structs.replace(trials[1], probe={**trials[1].probe, "iterations": 7})
    expected = timing.expect([trials[0], more], "normal")
    assert not expected.seen


@pytest.mark.parametrize("text", [b"", b"[]", b'{"a":"b"}', b'{"a":NaN}', b"\xff"])
def test_a_broken_memory_is_none(text: bytes, trials: tuple[Trial, ...], tmp_path: Path) -> None:
    file = tmp_path / "state" / "swtch" / timing.FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    assert not timing.expect(trials, "normal").seen
    timing.remember(trials, [sample(trials[0], 1.0)])
    assert timing.expect(trials, "normal").seen == {trials[0].id}


def test_nowhere_to_remember_is_no_failure(
    trials: tuple[Trial, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    timing.remember(trials, [sample(trials[0], 1.0)])
    assert not timing.expect(trials, "normal").seen


def test_a_slow_machine_is_found(probe_dir: Path) -> None:
    from swtch.engines.native import NativeEngine

    assert timing.FASTEST <= timing.calibrate(NativeEngine()) <= timing.SLOWEST


def test_a_machine_that_cannot_say_is_taken_as_it_is(
    probe_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from swtch.engines.native import NativeEngine

    monkeypatch.setenv("FAKE_PROBE", "crash")
    assert timing.calibrate(NativeEngine()) == 1
    assert timing.calibrate(cast(Engine, SimpleNamespace(name="vm"))) == 1


def test_what_is_left_follows_the_pace() -> None:
    left = timing.Left(dict.fromkeys(range(101), 1.0))
    left.skip([100])
    assert left.seconds == 100
    for number in range(50):
        left.spend(number, 3.0)
    assert 125 < left.seconds < 150  # 50 s at three times, not quite believed yet


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([5], "▁"), ([5, 5], "▁▁"), ([0, 7], "▁█"), ([0, 3, 7], "▁▄█"), ([7, 0], "█▁")],
)
def test_sparkline(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars


def test_a_sparkline_is_short() -> None:
    assert len(sparkline([float(i) for i in range(100)])) == 12


def test_plain_progress_tells_the_time_left(
    trials: tuple[Trial, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((100.0, 104.0, 130.0))
    monkeypatch.setattr("swtch.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("swtch.progress.PLAIN_EVERY_S", 0.0)
    progress = Progress(quiet=False)
    with progress.running(3, {0}, {0: 60.0, 1: 60.0, 2: 60.0}):
        progress.advance(sample(trials[0], 1, seq=1))
        progress.advance(sample(trials[0], 1, seq=2))
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("2 of 3 invocations, 4 s, about ")
    assert last == "3 of 3 invocations, 30 s"
