# SPDX-License-Identifier: Apache-2.0
"""How far a run is from what the studies did, in few words.

Two things are told apart. What a depth shortens (fewer sizes, rounds, additions) is the
same kind of measurement and less of it: each experiment says it once, for all its trials.
What a trial does *instead* of the study, because this machine cannot do it, stands in the
trial's note. Experiments beyond the studies have nothing to be faithful to.
"""

from __future__ import annotations

from collections.abc import Sequence

from swtch import experiments
from swtch.engines import TRAITS
from swtch.experiments import BEYOND, Experiment, Setting
from swtch.records import Engine, Manifest, Trial

# Experiments that an announcement names.
NAMED_MOST = 3


def announcement(manifest: Manifest) -> list[str]:
    """What is said before a run begins: a line of what its depth shortens, and a line of what
    is done instead. Empty where the run does what the studies did."""
    chosen = [experiments.get(name) for name in manifest.experiments if name in experiments.names()]
    studied = {experiment.name for experiment in chosen if experiment.study != BEYOND}
    engines = list(dict.fromkeys(trial.engine for trial in manifest.trials))
    shorter = [
        experiment.name
        for experiment in chosen
        if any(shortened(experiment, manifest, engine) for engine in engines)
    ]
    lines = []
    if shorter:
        named = ", ".join(shorter)
        if len(shorter) > NAMED_MOST:
            named = f"{len(shorter)} of {len(chosen)} experiments"
        lines.append(f"depth {manifest.depth} shortens {named}; the report says by what")
    trials = [trial for trial in manifest.trials if trial.experiment in studied]
    instead = sum(bool(trial.note) for trial in trials)
    if instead:
        does = "does" if instead == 1 else "do"
        lines.append(
            f"{instead} of {len(trials)} trials {does} something else than the study; the report"
            " says what and why"
        )
    return lines


def shortened(experiment: Experiment, manifest: Manifest, engine: Engine) -> str:
    """What the run's depth shortened of the experiment at an engine, as a sentence."""
    trials = [
        trial
        for trial in manifest.trials
        if trial.experiment == experiment.name and trial.engine == engine
    ]
    if not trials:
        return ""
    line = experiment.shortened(_setting(trials, manifest, engine))
    if not line:
        return ""
    than = "a whole run" if experiment.study == BEYOND else "the study"
    where = f" (engine {engine})" if TRAITS[engine].guest else ""
    return f"Shorter than {than} at depth {manifest.depth}{where}: {line}."


def _setting(trials: Sequence[Trial], manifest: Manifest, engine: Engine) -> Setting:
    """The setting that the trials were made with, as far as a run keeps it."""
    cpus = sorted({int(cpu) for trial in trials for cpu in trial.probe.get("cpus", ())})
    return Setting(
        cpus=tuple(cpus) or (0,),
        models=tuple(dict.fromkeys(trial.model for trial in trials)),
        engine=engine,
        depth=manifest.depth,
    )
