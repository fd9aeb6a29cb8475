# SPDX-License-Identifier: Apache-2.0
"""What `swtch compare` finds and what it does not make up, on noise that was recorded.

``data/noise.json`` is one metric of twelve trials as measured on a small, busy virtual
machine. Campaigns are drawn from it: each invocation of a trial is one of that trial's
recorded values. A slowdown is planted by multiplying.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from swtch import experiments
from swtch.analysis import comparison, stats
from swtch.analysis.comparison import Comparison
from swtch.analysis.findings import Group
from swtch.experiments import Setting
from swtch.plan import REPEATS
from swtch.records import Depth, Engine, Interval, Model, Sample, Trial

NOISE: dict[str, list[float]] = json.loads(
    (Path(__file__).parent / "data" / "noise.json").read_text()
)["values"]
CAMPAIGNS = 100
MODELS: tuple[Model, ...] = ("pthread", "process", "uthread")
# A slower probe is slower in all it measures; a guest's probe beside it is not.
ENGINES: tuple[Engine, ...] = ("native", "vm")
PLANTED: Engine = "native"


@pytest.fixture(autouse=True)
def no_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not what is tested here, and cost most of the time; calls come from ranks."""

    def ratio(b: Sequence[float], a: Sequence[float]) -> Interval:
        middle = statistics.median(b) / statistics.median(a)
        return Interval(estimate=middle, low=middle, high=middle, n=len(a), unit="x")

    monkeypatch.setattr(stats, "ratio", ratio)
    monkeypatch.setattr(comparison, "RESAMPLES", 49)


def trials_of(depth: Depth) -> tuple[Trial, ...]:
    """Of the experiment that the noise is of; every model has the pthreads' noise."""
    return tuple(
        trial
        for engine in ENGINES
        for trial in experiments.get("interrupt-overhead").trials(
            Setting(cpus=(0, 1), models=MODELS, depth=depth, engine=engine)
        )
    )


def run(depth: Depth, rng: random.Random, slower: Callable[[Trial], float]) -> list[Group]:
    """One run of all trials."""
    groups = []
    for trial in trials_of(depth):
        pool = NOISE[trial.id.rpartition("/")[0] + "/pthread"]
        samples = tuple(
            sample(trial, block, value * slower(trial))
            for block, value in enumerate(rng.choices(pool, k=REPEATS[depth]))
        )
        groups.append(Group(trial, samples, ()))
    return groups


def sample(trial: Trial, block: int, direct_us: float) -> Sample:
    made = {
        "seq": block,
        "experiment": trial.experiment,
        "trial_id": trial.id,
        "model": trial.model,
        "engine": trial.engine,
        "factors": trial.factors,
        "block": block,
        "seed": 1,
        "started": "",
        "elapsed_ns": 1,
        "status": "ok",
        "values": {"d_ns": direct_us * 1e3, "wall_ns": 1},
    }
    return msgspec.convert(made, Sample)


def campaign(depth: Depth, seed: int, share: float) -> Comparison:
    """Before and after; after, one probe is slower by `share`."""
    rng = random.Random(seed)
    before = run(depth, rng, lambda _: 1.0)
    after = run(depth, rng, lambda trial: 1 + share if trial.engine == PLANTED else 1.0)
    return comparison.compare(before, after)


def test_the_noise_is_of_the_trials_there_are() -> None:
    assert {t.id for t in trials_of("normal") if t.model == "pthread"} == set(NOISE)
    assert min(map(len, NOISE.values())) >= 50
    made = campaign("normal", 0, 0.0)
    assert {row.metric for row in made.rows} == {"direct_us"}


@pytest.mark.parametrize("depth", ["quick", "normal"])
def test_like_with_like_is_hardly_ever_called_different(depth: Depth) -> None:
    rows = [row for seed in range(12) for row in campaign(depth, seed, 0.0).rows][:200]
    assert len(rows) >= 180
    assert sum(row.differs for row in rows) <= 0.05 * len(rows)
    # Nor before adjustment more often than a test at that level may.
    assert sum(row.p < comparison.LEVEL for row in rows) <= 0.08 * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "share"), [("normal", 0.03), ("quick", 0.10)])
def test_a_planted_slowdown_is_called(depth: Depth, share: float) -> None:
    called, wrong, rows = 0, 0, 0
    for seed in range(CAMPAIGNS):
        made = campaign(depth, seed, share)
        (family,) = [
            row for row in made.families if row.model is None and row.place.engine == PLANTED
        ]
        called += family.word == "slower"
        others = [row for row in made.rows if row.place.engine != PLANTED]
        wrong += sum(row.differs for row in others)
        rows += len(others)
    assert called >= 95
    # What did not become slower is left alone.
    assert wrong <= 0.05 * rows
