# SPDX-License-Identifier: Apache-2.0
"""Stopping by a target: what is left out, that a resumed run leaves out the same, what is said."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from test_compare import sample

from swtch import cli, store
from swtch.analysis import adaptive
from swtch.records import Interval, Manifest, Sample

MakeManifest = Callable[..., Manifest]


def samples_of(manifest: Manifest, spread: Callable[[str], float]) -> list[Sample]:
    """One for every invocation, in the plan's order."""
    rng = random.Random(3)
    trials = {trial.id: trial for trial in manifest.trials}
    return [
        sample(
            trials[one.trial_id],
            one.seq,
            one.block,
            round(40e6 * (1 + spread(one.trial_id) * rng.gauss(0, 1))),
        )
        for one in manifest.plan
    ]


@pytest.fixture
def aimed(make_manifest: MakeManifest) -> Manifest:
    return msgspec.structs.replace(make_manifest(repeats=30), target=0.02)


def calm(trial: str) -> float:
    """Coroutines are quiet, pthreads are not."""
    return 0.005 if "coroutine" in trial else 0.5


def test_quiet_trials_stop_after_ten_and_others_go_on(aimed: Manifest) -> None:
    made = samples_of(aimed, calm)
    ten_blocks = [one for one in made if one.block < adaptive.LEAST]
    out = adaptive.left_out(aimed, ten_blocks)
    left = {one.trial_id for one in aimed.plan if one.seq in out}
    assert left == {trial.id for trial in aimed.trials if trial.model == "coroutine"}
    assert {one.block for one in aimed.plan if one.seq in out} == set(range(10, 30))


def test_nothing_is_left_out_early_or_without_a_target(aimed: Manifest) -> None:
    made = samples_of(aimed, calm)
    assert adaptive.left_out(aimed, [one for one in made if one.block < 9]) == frozenset()
    aimless = msgspec.structs.replace(aimed, target=None)
    assert adaptive.left_out(aimless, made[:200]) == frozenset()
    assert adaptive.summary(aimless, made) == ()


def test_it_does_not_matter_when_one_looks(aimed: Manifest) -> None:
    """What is left out is what it was, however many samples come after."""
    made = samples_of(aimed, lambda trial: 0.03)
    block = {one.seq: one.block for one in aimed.plan}
    last = max(block.values())
    ends = [
        adaptive.left_out(aimed, [s for s in made if s.block < looked])
        for looked in range(adaptive.LEAST, last + 1)
    ]
    for looked, (sooner, later) in enumerate(itertools.pairwise(ends), start=adaptive.LEAST):
        # What is there is not left out; what is yet to come, as it was decided.
        assert {seq for seq in sooner if block[seq] > looked} <= later
    assert any(sooner < later or later < sooner for sooner, later in itertools.pairwise(ends))


def test_what_was_not_reached_is_named(aimed: Manifest) -> None:
    (said,) = adaptive.summary(aimed, samples_of(aimed, calm))
    assert said.startswith("The target, 0.02 of the estimate to either side, was met by 5 of 11")
    assert "scenarios/A/pthread (" in said
    assert "coroutine" not in said


@pytest.mark.parametrize(
    ("low", "estimate", "high", "share"),
    [(99, 100, 103, 0.03), (95, 100, 101, 0.05), (0, 0, 0, 0), (-1, 0, 1, float("inf"))],
)
def test_half_width(low: float, estimate: float, high: float, share: float) -> None:
    made = Interval(estimate=estimate, low=low, high=high, n=5, unit="x")
    assert adaptive.half_width(made) == pytest.approx(share)


def test_a_run_stops_goes_on_and_is_complete(
    probe_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    chosen = ("scenarios", "--models", "ucontext", "--repeats", "14", "--no-report")
    assert cli.main(["run", *chosen, "--until", "5%", "--out", str(folder), "--seed", "1"]) == 0
    said = capsys.readouterr().err
    assert "14 repeats = 84 invocations, at most" in said
    assert "was met by 6 of 6 trials." in said
    run = store.load(folder)
    assert run.complete
    assert 60 <= len(run.samples) < 84
    # Cut in the middle, it does what it would have done.
    lines = (folder / store.SAMPLES).read_bytes().splitlines(keepends=True)
    (folder / store.SAMPLES).write_bytes(b"".join(lines[:31]))
    assert not store.load(folder).complete
    assert cli.main(["run", "--resume", str(folder), "--no-report"]) == 0
    again = store.load(folder)
    assert again.complete
    assert {s.seq for s in again.samples} == {s.seq for s in run.samples}
    assert cli.main(["run", "--resume", str(folder), "--no-report"]) == 0
    assert "nothing is left to do" in capsys.readouterr().err


@pytest.mark.parametrize("share", ["", "two", "-1%", "0", "0%", "nan"])
def test_a_target_that_is_none(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "scenarios", "--until", share, "--out", "/dev/null/none"]) == 2
    assert "--until:" in capsys.readouterr().err
