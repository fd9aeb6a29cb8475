# SPDX-License-Identifier: Apache-2.0
"""`swtch run`: plan, measure, report; or continue what was interrupted.

Everything that can be refused is refused before the first file is made: an
unknown name, no CPU, a missing probe, a policy this user may not set.
"""

from __future__ import annotations

import datetime
import os
import secrets
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from swtch import __version__, doctor_try, environment, plan
from swtch.commands import results
from swtch.engines import Engine, choice
from swtch.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_SOME_FAILED,
    CannotError,
)
from swtch.experiments import Policy, Setting
from swtch.progress import Progress, duration
from swtch.records import Depth, Manifest, Trial
from swtch.runner import Runner
from swtch.store import LOGS, Writer

RUNS = Path("swtch-runs")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a new run, as given."""

    experiments: tuple[str, ...]
    depth: Depth
    models: str | None
    repeats: int | None
    seed: int | None
    out: Path | None
    policy: str
    time_limit_s: float
    form: str
    report: bool
    quiet: bool
    engine: choice.Options


def start(request: Request) -> int:
    """A new run from `request`, to its end."""
    models = plan.parse_models(request.models) if request.models is not None else None
    chosen = plan.choose(request.experiments, models)
    progress = Progress(quiet=request.quiet)
    engine = choice.open_engine(request.engine, say=progress.say)
    shares = choice.shares(engine, models, plan.MODEL_NAMES, chosen)
    repeats = {e.name: plan.repeats_of(e, request.depth, request.repeats) for e in chosen}
    seed = request.seed if request.seed is not None else secrets.randbits(32)
    trials: list[Trial] = []
    seconds = 0.0
    for share in shares:
        setting = _setting(share, request)
        mine = choice.spread(share.engine, plan.make_trials(share.experiments, setting))
        guess = sum(plan.estimate_seconds([e], setting, repeats[e.name]) for e in share.experiments)
        seconds += choice.estimate_seconds(share.engine, mine, max(repeats.values()), guess)
        trials += mine

    now = datetime.datetime.now(datetime.UTC)
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
    manifest = Manifest(
        run_id=run_id,
        created=now.isoformat(timespec="seconds"),
        swtch_version=__version__,
        command=("swtch", *sys.argv[1:]),
        seed=seed,
        depth=request.depth,
        repeats=max(repeats.values()),
        experiments=tuple(experiment.name for experiment in chosen),
        models=tuple(dict.fromkeys(trial.model for trial in trials)),
        engine=shares[0].engine.name,
        trials=tuple(trials),
        plan=plan.make_plan(trials, repeats, seed),
        environment={**environment.collect(), "engine": engine.describe()},
    )
    with Writer.create(request.out or RUNS / run_id, manifest) as writer:
        progress.say(
            f"run {run_id}: {len(trials)} trials x {_spoken(repeats)} repeats ="
            f" {len(manifest.plan)} invocations, about {duration(seconds)}; seed {seed}"
        )
        if line := choice.left_out(shares, models):
            progress.say(line)
        fewer = sum(bool(trial.note) for trial in trials)
        if fewer:
            progress.say(
                f"{fewer} of {len(trials)} trials do something else than the study did;"
                " the report says what and why"
            )
        return _measure(writer, engine, progress, request.form, request.report)


def _spoken(repeats: dict[str, int]) -> str:
    least, most = min(repeats.values()), max(repeats.values())
    return str(most) if least == most else f"{least} to {most}"


def _setting(share: choice.Share, request: Request) -> Setting:
    policy = cast(Policy, request.policy)
    if share.engine.name == "native":
        _check_policy(policy)
    return Setting(
        cpus=choice.cpus_of(share.engine, environment.allowed_cpus()),
        models=share.models,
        policy=policy,
        engine=share.engine.name,
        timeout_s=request.time_limit_s,
        depth=request.depth,
    )


def resume(path: Path, *, form: str, report: bool, quiet: bool) -> int:
    """Does what the run in `path` has no sample of yet."""
    progress = Progress(quiet=quiet)
    with Writer.resume(path) as writer:
        manifest = writer.manifest
        if writer.dropped_bytes:
            progress.warn(
                f"dropped an incomplete last line of {writer.dropped_bytes} bytes;"
                " its invocation is done again"
            )
        left = len(manifest.plan) - len(writer.samples)
        if left == 0:
            progress.say("nothing is left to do: every invocation has its sample")
        else:
            progress.say(f"run {manifest.run_id}: {left} of {len(manifest.plan)} are left")
        engine = choice.reopen(manifest, say=progress.say)
        _check_same_machine(manifest, engine, progress)
        return _measure(writer, engine, progress, form, report)


def _measure(writer: Writer, engine: Engine, progress: Progress, form: str, report: bool) -> int:
    choice.keep_logs(engine, writer.path / LOGS)
    try:
        ending = Runner(writer, engine, progress).run()
    finally:
        choice.close(engine)
    total = len(writer.manifest.plan)
    if ending.interrupted:
        progress.warn(
            f"interrupted: {ending.done} of {total} invocations are kept. To continue:"
            f" swtch run --resume {shlex.quote(str(writer.path))}"
        )
        return EXIT_INTERRUPTED
    if report and engine.name == "exact":
        progress.say(f"figures are instructions, for which there is no report yet: {writer.path}")
    elif report:
        files = results.write(writer.path, results.REPORT_FORMATS)
        results.emit(writer.path, form)
        sys.stdout.flush()
        for file in files:
            progress.say(f"report: {file}")
    else:
        progress.say(f"samples: {writer.path}")
    if ending.failed:
        progress.warn(
            f"swtch: {ending.failed} of {total} invocations failed; what was measured is kept."
            f" Raw output: {writer.path / 'logs'}"
        )
        return EXIT_SOME_FAILED
    return EXIT_OK


def _check_policy(policy: Policy) -> None:
    number, priority = {
        "other": (os.SCHED_OTHER, 0),
        "batch": (os.SCHED_BATCH, 0),
        "fifo": (os.SCHED_FIFO, 1),
    }[policy]
    answer = doctor_try.policy(number, priority)
    if answer != "yes":
        raise CannotError(
            f"--policy {policy} is {answer} here; use --policy other, or see"
            " 'scheduling policies' in 'swtch doctor' for how to permit it."
        )


def _check_same_machine(manifest: Manifest, engine: Engine, progress: Progress) -> None:
    """Refuses what cannot work, and says what makes old and new samples unlike."""
    allowed = environment.allowed_cpus()
    there = {member.name: choice.cpus_of(member, allowed) for member in choice.members(engine)}
    missing = {
        cpu
        for trial in manifest.trials
        for cpu in trial.probe.get("cpus", ())
        if cpu not in there.get(trial.engine, ())
    }
    if missing:
        raise CannotError(
            f"the run uses CPU {', '.join(map(str, sorted(missing)))}, which is not allowed now;"
            " resume where it is, or start a new run."
        )
    for what, before, now in _identity(manifest.environment, engine):
        if before != now:
            progress.warn(
                f"{what} is not the one this run began with ({before}, now {now});"
                " old and new samples may differ for that reason alone"
            )


def _identity(facts: dict[str, Any], engine: Engine) -> list[tuple[str, Any, Any]]:
    now = {**environment.collect(steal_s=0), "engine": engine.describe()}
    paths = (
        ("the kernel", "kernel", "release"),
        ("the CPU", "cpu", "model"),
        ("the probe program", "engine", "sha256"),
    )
    return [
        (what, facts.get(room, {}).get(key), now.get(room, {}).get(key))
        for what, room, key in paths
    ]
