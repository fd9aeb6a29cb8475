# SPDX-License-Identifier: Apache-2.0
"""From experiments to the complete list of invocations, before the first starts.

The plan is made of *randomised complete blocks*: each block holds every trial
of an experiment exactly once, in an order drawn anew for each block. Slow
drifts of the machine (heat, neighbours, frequency) then fall on all trials
alike instead of on whichever happened to be measured last.

Invariants:

- The plan is a function of (trials, repeats, seed) alone; ``seq`` is its index.
- An engine is done before the next begins (``engines/several.py`` says why). With a
  budget its blocks come in phases (swtch.spending): the last of the first engine's are
  after the other engines'.
- Within an engine, block b of every experiment comes before block b+1 of any, so
  that a run cut short still has about the same number of samples everywhere. An
  experiment with fewer repeats than others is missing from the last blocks.

Rejected: all repeats of one trial in a row (confounds trial with drift), one
big shuffle (may leave a trial for the end), a plan that grows until intervals are
narrow (it would not be known in advance; swtch.course leaves out instead).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import get_args

import msgspec

from swtch import experiments
from swtch.errors import RequestError, did_you_mean
from swtch.experiments import Experiment, Setting
from swtch.records import Depth, Engine, Invocation, Manifest, Model, Phase, Trial

# The least is what an interval needs; the most is more than any of the studies did.
REPEATS: Mapping[Depth, int] = {"quick": 6, "normal": 10, "paper": 20}
DEPTHS: tuple[Depth, ...] = get_args(Depth)

MODEL_NAMES: tuple[Model, ...] = get_args(Model)


def parse_models(text: str) -> tuple[Model, ...]:
    """`text` is comma-separated; order and doubles do not matter."""
    asked = [word.strip() for word in text.split(",") if word.strip()]
    if not asked:
        raise RequestError(f"--models names no model; known are {', '.join(MODEL_NAMES)}.")
    for word in asked:
        if word not in MODEL_NAMES:
            raise RequestError(
                f"--models: there is no model {word!r}.{did_you_mean(word, MODEL_NAMES)}"
                f" Known are {', '.join(MODEL_NAMES)}."
            )
    return tuple(model for model in MODEL_NAMES if model in asked)


def choose(names: Sequence[str], models: tuple[Model, ...] | None) -> tuple[Experiment, ...]:
    """The experiments to run: those named, or all that have one of `models`.

    Every model must be of use to some experiment, and every experiment that
    was named must have one of the models; anything else is a slip of the user.
    """
    chosen = tuple(experiments.get(name) for name in dict.fromkeys(names)) or experiments.every()
    if models is None:
        return chosen
    for model in models:
        if not any(model in experiment.models for experiment in chosen):
            have = "; ".join(f"{e.name} has {', '.join(e.models)}" for e in chosen)
            raise RequestError(f"--models: no experiment chosen has the model {model} ({have}).")
    if not names:
        return tuple(e for e in chosen if set(models) & set(e.models))
    for experiment in chosen:
        if not set(models) & set(experiment.models):
            raise RequestError(
                f"{experiment.name} has no model {' or '.join(models)};"
                f" it has {', '.join(experiment.models)}."
            )
    return chosen


def make_trials(chosen: Sequence[Experiment], setting: Setting) -> tuple[Trial, ...]:
    """All trials of `chosen`, in definition order; ids are unique."""
    trials = tuple(trial for experiment in chosen for trial in experiment.trials(setting))
    assert len({trial.id for trial in trials}) == len(trials)
    return trials


def with_control(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """`trials` with a copy of the first of each experiment that has no copy of its own:
    the A/A control (analysis.control)."""
    controlled_trials: list[Trial] = []
    controlled = {t.experiment for t in trials if t.factors.get("control") == "b"}
    for trial in trials:
        controlled_trials.append(trial)
        if trial.experiment not in controlled:
            controlled.add(trial.experiment)
            factors = {**trial.factors, "control": "b"}
            controlled_trials.append(
                msgspec.structs.replace(trial, id=f"{trial.id}/again", factors=factors)
            )
    return tuple(controlled_trials)


def repeats_of(experiment: Experiment, depth: Depth, asked: int | None) -> int:
    """How often each of its trials is done; what the user asks for holds for all."""
    return asked or experiment.repeats.get(depth, REPEATS[depth])


def make_plan(
    trials: Sequence[Trial],
    repeats: int | Mapping[tuple[Engine, str], int],
    seed: int,
    phases: Sequence[Phase] = (),
) -> tuple[Invocation, ...]:
    """Blocks of `trials` for each engine, in the trials' order: `repeats` of each
    experiment, by engine and name where they differ. Each experiment has its own stream of random
    numbers, so running it alone gives the order it has in company. `phases` are in
    which order blocks come where that is not engine by engine."""
    by_engine: dict[Engine, dict[str, list[Trial]]] = {}
    for trial in trials:
        by_engine.setdefault(trial.engine, {}).setdefault(trial.experiment, []).append(trial)
    times = {
        (engine, name): repeats if isinstance(repeats, int) else repeats[engine, name]
        for engine, by_experiment in by_engine.items()
        for name in by_experiment
    }
    blocks = [(phase.engine, block) for phase in phases for block in range(phase.begin, phase.end)]
    if not phases:
        most = {
            engine: max(times[engine, name] for name in by_engine[engine]) for engine in by_engine
        }
        blocks = [(engine, block) for engine in by_engine for block in range(most[engine])]
    planned: list[Invocation] = []
    for engine, block in blocks:
        for name, experiment in by_engine[engine].items():
            if block >= times[engine, name]:
                continue
            rng = random.Random(f"{seed}/{name}/{block}")
            order = list(experiment)
            rng.shuffle(order)
            for trial in order:
                planned.append(
                    Invocation(
                        seq=len(planned),
                        block=block,
                        trial_id=trial.id,
                        seed=rng.getrandbits(32),
                    )
                )
    return tuple(planned)


@dataclass(frozen=True)
class Pass:
    """One block of one engine, all experiments: what the plan does in one go."""

    engine: Engine
    block: int
    invocations: tuple[Invocation, ...]

    @property
    def begin(self) -> int:
        """The first ``seq``; those of a pass are consecutive."""
        return self.invocations[0].seq


def passes(manifest: Manifest) -> tuple[Pass, ...]:
    """The plan in passes, in its order."""
    engines = {trial.id: trial.engine for trial in manifest.trials}
    blocks = groupby(
        manifest.plan, lambda invocation: (engines[invocation.trial_id], invocation.block)
    )
    return tuple(Pass(engine, block, tuple(own)) for (engine, block), own in blocks)
