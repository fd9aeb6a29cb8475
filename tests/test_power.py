# SPDX-License-Identifier: Apache-2.0
"""What `swtch compare` finds and what it does not make up, on noise that was recorded.

``data/noise.json`` is one metric of twelve trials as measured on a small, busy virtual
machine. Campaigns are drawn from it: each invocation of a trial is one of that trial's
recorded values. A slowdown is planted by multiplying.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swtch import experiments
from swtch.analysis import comparison
from swtch.analysis.comparison import Comparison
from swtch.analysis.findings import Group
from swtch.experiments import Setting
from swtch.plan import REPEATS
from swtch.records import Depth, Engine, Model, Sample, Trial

NOISE: dict[str, list[float]] = json.loads(
    (Path(__file__).parent / "data" / "noise.json").read_text()
)["values"]
CAMPAIGNS = 100
MODELS: tuple[Model, ...] = ("pthread", "process", "uthread")
# A slower probe is slower in all it measures; a guest's probe beside it is not.
ENGINES: tuple[Engine, ...] = ("native", "vm")
PLANTED: Engine = "native"


def trials_of(depth: Depth) -> tuple[Trial, ...]:
    """Of the experiment that the noise is of; every model has the pthreads' noise."""
    return tuple(
        trial
        for engine in ENGINES
        for trial in experiments.get("interrupt-overhead").trials(
            Setting(cpus=(0, 1), models=MODELS, depth=depth, engine=engine)
        )
    )


def run(
    depth: Depth, rng: random.Random, slower: Callable[[Trial], float], drift: float = 0.0
) -> list[Group]:
    """One run of all trials. ``drift``: by how much a block slows all of its trials, about."""
    groups = []
    blocks = [math.exp(rng.gauss(0, drift)) for _ in range(REPEATS[depth])]
    for trial in trials_of(depth):
        pool = NOISE[trial.id.rpartition("/")[0] + "/pthread"]
        drawn = zip(rng.choices(pool, k=len(blocks)), blocks, strict=True)
        samples = tuple(
            sample(trial, block, value * slower(trial) * slow)
            for block, (value, slow) in enumerate(drawn)
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


def campaign(depth: Depth, seed: int, share: float, drift: float = 0.0) -> Comparison:
    """Before and after; after, one probe is slower by `share`."""
    rng = random.Random(seed)
    before = run(depth, rng, lambda _: 1.0, drift)
    after = run(depth, rng, lambda trial: 1 + share if trial.engine == PLANTED else 1.0, drift)
    return comparison.compare_groups(before, after)


def test_the_noise_is_of_the_trials_there_are() -> None:
    assert {t.id for t in trials_of("normal") if t.model == "pthread"} == set(NOISE)
    assert min(map(len, NOISE.values())) >= 50
    made = campaign("normal", 0, 0.0)
    assert {row.metric for row in made.rows} == {"direct_us"}


@pytest.mark.parametrize("drift", [0.0, 0.05])
@pytest.mark.parametrize("depth", ["quick", "normal"])
def test_like_with_like_is_hardly_ever_called_different(depth: Depth, drift: float) -> None:
    """Also where what disturbs a block disturbs all of its trials."""
    made = [campaign(depth, seed, 0.0, drift) for seed in range(20)]
    rows = [row for one in made for row in one.rows]
    assert sum(row.differs for row in rows) <= 0.05 * len(rows)
    # Nor before adjustment more often than a test at that level may.
    families = [row for one in made for row in one.families]
    assert sum(row.p < comparison.LEVEL for row in families) <= 0.08 * len(families)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "share", "least"), [("normal", 0.03, 95), ("quick", 0.10, 80), ("quick", 0.20, 95)]
)
def test_a_planted_slowdown_is_called(depth: Depth, share: float, least: int) -> None:
    """Of six blocks no p is below 0.002, and 10 % do not always reach that."""
    called, wrong, rows = 0, 0, 0
    for seed in range(CAMPAIGNS):
        made = campaign(depth, seed, share)
        (family,) = [
            row for row in made.families if row.model is None and row.place.a.engine == PLANTED
        ]
        called += family.word == "slower"
        others = [row for row in made.rows if row.place.a.engine != PLANTED]
        wrong += sum(row.differs for row in others)
        rows += len(others)
    assert called >= least
    # What did not become slower is left alone.
    assert wrong <= 0.05 * rows
