# SPDX-License-Identifier: Apache-2.0
"""What `swtch run` and `swtch replicate` share: from shares to a manifest, and carrying
out what has no sample yet.

Everything that can be refused is refused before the first file is made: an
unknown name, no CPU, a missing probe, a policy this user may not set.
"""

from __future__ import annotations

import datetime
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from swtch import (
    __version__,
    course,
    doctor_try,
    elsewhere,
    environment,
    fidelity,
    own,
    plan,
    spending,
    timing,
)
from swtch.analysis import adaptive
from swtch.engines import TRAITS, Engine, choice
from swtch.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_SOME_FAILED, CannotError, RequestError
from swtch.experiments import Policy, Setting
from swtch.progress import Progress, duration
from swtch.records import Depth, Manifest, Spending, Trial
from swtch.records import Engine as EngineName
from swtch.runner import Runner
from swtch.store import LOGS, Writer

RUNS = Path("swtch-runs")
# Emulated, counts do not vary from noise but from a probe's padding: an interval needs
# no more than the fewest there can be.
EXACT_REPEATS = plan.REPEATS["quick"]

# Prints and writes what a complete run gave.
Finish = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a new run is measured, whatever it measures."""

    depth: Depth
    repeats: int | None = None
    seed: int | None = None
    # Unless it is asked for, each experiment has its own.
    policy: str | None = None
    time_limit_s: float = 60.0
    target: float | None = None
    budget_s: float | None = None
    # A budget that nobody asked for is made long enough.
    budget_asked: bool = False
    # Getting ready counts, too.
    begin_s: float = field(default_factory=time.monotonic, compare=False)

    def __post_init__(self) -> None:
        given = [("--repeats", self.repeats), ("--until", self.target)]
        for name, value in given:
            if self.budget_s is not None and value is not None:
                raise RequestError(
                    f"--budget says how long, {name} how often: give one of the two."
                )


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run that can begin: its manifest, and what it is expected to take."""

    manifest: Manifest
    expected: timing.Expected
    repeats: Mapping[tuple[EngineName, str], int]

    @property
    def seconds(self) -> float:
        return self.expected.total(self.manifest.plan)

    def announce(self, progress: Progress, work: str = "") -> None:
        """What will be done and how long it takes, before it begins."""
        manifest = self.manifest
        if manifest.spending is not None:
            progress.say(f"run {manifest.run_id}: {work}{self._budgeted(manifest.spending)}")
        else:
            progress.say(f"run {manifest.run_id}: {work}{self._fixed()}")
        for line in fidelity.announcement(manifest):
            progress.say(line)

    def _fixed(self) -> str:
        manifest = self.manifest
        times = sorted(set(self.repeats.values()))
        spoken = str(times[0]) if len(times) == 1 else f"{times[0]} to {times[-1]}"
        most = "at most " if manifest.target is not None else ""
        return (
            f"{len(manifest.trials)} trials x {spoken} repeats ="
            f" {len(manifest.plan)} invocations, {most or 'about '}{duration(self.seconds)}"
            f" ({self.expected.source}); seed {manifest.seed}"
        )

    def _budgeted(self, spent: Spending) -> str:
        looks = next(iter(spent.looks.values()))
        return (
            f"{len(self.manifest.trials)} trials, at most {duration(spent.budget_ns / 1e9)}:"
            f" a block of all, {looks[0]} of those that claims use, then up to {looks[-1]} of"
            f" those that undecided claims use; seed {self.manifest.seed}"
        )


def make(terms: Terms, engine: Engine, shares: Sequence[choice.Share]) -> Planned:
    """The plan of a new run; nothing is written yet."""
    seed = terms.seed if terms.seed is not None else secrets.randbits(32)
    trials: list[Trial] = []
    repeats: dict[tuple[EngineName, str], int] = {}
    boots = 0
    for share in shares:
        name = share.engine.name
        own_trials = plan.make_trials(share.experiments, _setting(share, terms))
        mine = choice.spread(share.engine, plan.with_control(own_trials))
        trials += mine
        boots += (
            len({trial.factors["guest"] for trial in mine})
            if TRAITS[name].guest and not TRAITS[name].counting
            else 0
        )
        for experiment in share.experiments:
            most = adaptive.MOST if terms.target is not None else None
            times = plan.repeats_of(experiment, terms.depth, terms.repeats or most)
            if TRAITS[name].counting and terms.repeats is None:
                times = min(times, EXACT_REPEATS)
            repeats[name, experiment.name] = times
    slowness = timing.calibrate(choice.members(engine)[0])
    expected = timing.expect(trials, terms.depth, slowness=slowness, boots=boots)
    environ = {**environment.collect(), "engine": engine.describe()}
    spent = None
    if terms.budget_s is not None:
        spent = _schedule(terms, terms.budget_s, trials, expected)
        most_of = {phase.engine: phase.end for phase in spent.phases}
        repeats = {(name, experiment): most_of[name] for name, experiment in repeats}
    now = datetime.datetime.now(datetime.UTC)
    experiments = {e.name: None for share in shares for e in share.experiments}
    manifest = Manifest(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}",
        created=now.isoformat(timespec="seconds"),
        swtch_version=__version__,
        # A file's name may be no text.
        command=("swtch", *(os.fsencode(word).decode(errors="replace") for word in sys.argv[1:])),
        seed=seed,
        depth=terms.depth,
        repeats=max(repeats.values()),
        experiments=tuple(experiments),
        models=tuple(dict.fromkeys(trial.model for trial in trials)),
        engine=shares[0].engine.name,
        trials=tuple(trials),
        plan=plan.make_plan(trials, repeats, seed, spent.phases if spent else ()),
        environment=environ,
        target=terms.target,
        sources=own.sources(experiments),
        spending=spent,
    )
    return Planned(manifest=manifest, expected=expected, repeats=repeats)


def _schedule(
    terms: Terms, budget_s: float, trials: Sequence[Trial], expected: timing.Expected
) -> Spending:
    """How the budget is spent, less what getting ready took and the report will take."""
    block: dict[EngineName, float] = {}
    for trial in trials:
        block[trial.engine] = block.get(trial.engine, 0.0) + expected.seconds[trial.id]
    ready_s = time.monotonic() - terms.begin_s + spending.REPORT_S
    once = ready_s + expected.boots * timing.BOOT_S + sum(block.values())
    # A guess from the definitions is good to a factor of two.
    surely = once if len(expected.seen) == len(expected.seconds) else once / 2
    if not terms.budget_asked:
        budget_s = max(budget_s, once)
    elif surely > budget_s:
        raise RequestError(
            f"--budget: {duration(budget_s)} is too short: one block of all {len(trials)} trials"
            f" takes about {duration(once)} with its report; give more, or fewer engines."
        )
    boots = {"vm": expected.boots * timing.BOOT_S}
    looks = spending.ONE_LOOK[-1]
    whole = {name: boots.get(name, 0.0) + looks * seconds for name, seconds in block.items()}
    return spending.schedule(budget_s - ready_s, whole)


def _setting(share: choice.Share, terms: Terms) -> Setting:
    policy = cast(Policy, terms.policy or "batch")
    if not TRAITS[share.engine.name].guest:
        _check_policy(policy)
    allowed = environment.allowed_cpus()
    l1d, llc = choice.caches_of(share.engine, allowed[0])
    return Setting(
        cpus=choice.cpus_of(share.engine, allowed),
        models=share.models,
        l1d_bytes=l1d,
        llc_bytes=llc,
        policy=policy,
        policy_asked=terms.policy is not None,
        engine=share.engine.name,
        timeout_s=terms.time_limit_s,
        depth=terms.depth,
    )


def resume(path: Path, progress: Progress, finish: Finish | None, command: str) -> int:
    """Does what the run in `path` has no sample of yet."""
    with Told(progress, command, path) as told, Writer.resume(path) as writer:
        told.writer = writer
        manifest = writer.manifest
        if writer.dropped_bytes:
            progress.warn(
                f"dropped an incomplete last line of {writer.dropped_bytes} bytes;"
                " its invocation is done again"
            )
        expected = timing.expect(manifest.trials, manifest.depth)
        done = writer.done()
        way = course.of(manifest)
        not_needed = way.left_out(writer.samples)
        most = way.seconds_left(writer.samples)
        left = [
            invocation for invocation in manifest.plan if invocation.seq not in done | not_needed
        ]
        if not left:
            progress.say("nothing is left to do: every invocation has its sample")
        elif most is not None:
            progress.say(
                f"run {manifest.run_id}: {len(writer.samples)} invocations are there, at most"
                f" {duration(most)} of the budget are left"
            )
        else:
            progress.say(
                f"run {manifest.run_id}: {len(left)} of {len(manifest.plan)} are left, about"
                f" {duration(expected.total(left))} ({expected.source})"
            )
        programs = own.ready(path, manifest)
        engine = choice.reopen(manifest, say=progress.say)
        there = _there(manifest, engine, programs)
        _check_same_machine(manifest, engine, there, progress)
        return carry_out(writer, engine, expected, progress, finish, there)
    return EXIT_INTERRUPTED


class Told:
    """Around all that is done in a run directory: who interrupts it there is told how to go
    on, and what comes after the `with` gives the exit code. While it measures, the runner hears
    of signals, which is then the same. `path`: a run that is there already."""

    def __init__(self, progress: Progress, command: str, path: Path | None = None) -> None:
        self._progress = progress
        self._command = command
        self._path = path
        self.writer: Writer | None = None

    def __enter__(self) -> Told:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        path = self.writer.path if self.writer else self._path
        if path is None or not isinstance(error, KeyboardInterrupt):
            return False
        self._progress.warn(
            f"interrupted: {self._kept}. To continue:"
            f" swtch {self._command} --resume {shlex.quote(str(path))}"
        )
        return True

    @property
    def _kept(self) -> str:
        if self.writer is None:
            return "what was measured is kept"
        of = "" if self.writer.manifest.spending else f" of {len(self.writer.manifest.plan)}"
        return f"{len(self.writer.samples)}{of} invocations are kept"


def carry_out(
    writer: Writer,
    engine: Engine,
    expected: timing.Expected,
    progress: Progress,
    finish: Finish | None,
    there: Mapping[str, dict[str, str]] | None = None,
) -> int:
    """Measures what is left, then lets `finish` tell it; gives the exit code. `there` has by
    trial what is not as the manifest says. Interrupted, it raises KeyboardInterrupt (Told)."""
    manifest = writer.manifest
    choice.keep_logs(engine, writer.path / LOGS)
    seconds = {
        invocation.seq: expected.seconds[invocation.trial_id] for invocation in manifest.plan
    }
    try:
        ending = Runner(
            writer, engine, progress, seconds, lambda trial: (there or {}).get(trial.id, {})
        ).run()
    finally:
        choice.close(engine)
        timing.remember(manifest.trials, writer.samples)
    of = "" if manifest.spending else f" of {len(manifest.plan)}"
    if ending.interrupted:
        raise KeyboardInterrupt
    for line in adaptive.summary(manifest, writer.samples):
        progress.say(line)
    if finish is None:
        progress.say(f"samples: {writer.path}")
    else:
        finish(writer.path)
    if ending.failed:
        progress.warn(
            f"swtch: {ending.failed}{of} invocations failed; what was measured is kept."
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


def _there(
    manifest: Manifest, engine: Engine, programs: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """By trial, what is not as the manifest says; `programs` are a user's own that are others
    now, by experiment."""
    now = {**environment.collect(steal_s=0), "engine": engine.describe()}
    of_engine = {
        name: elsewhere.changes(
            elsewhere.facts(manifest.environment, name), elsewhere.facts(now, name)
        )
        for name in dict.fromkeys(trial.engine for trial in manifest.trials)
    }
    there: dict[str, dict[str, str]] = {}
    for trial in manifest.trials:
        there[trial.id] = dict(of_engine[trial.engine])
        if digest := programs.get(trial.experiment):
            there[trial.id][f"{elsewhere.OWN_PROGRAM} {trial.experiment}"] = digest
    return there


def _check_same_machine(
    manifest: Manifest,
    engine: Engine,
    there: Mapping[str, Mapping[str, str]],
    progress: Progress,
) -> None:
    """Refuses what cannot work, and says what makes old and new samples unlike."""
    allowed = environment.allowed_cpus()
    cpus = {member.name: choice.cpus_of(member, allowed) for member in choice.members(engine)}
    missing = {
        cpu
        for trial in manifest.trials
        for cpu in trial.probe.get("cpus", ())
        if cpu not in cpus.get(trial.engine, ())
    }
    if missing:
        raise CannotError(
            f"the run uses CPU {', '.join(map(str, sorted(missing)))}, which is not allowed now;"
            " resume where it is, or start a new run."
        )
    said: dict[str, None] = {}
    for trial in manifest.trials:
        before = elsewhere.facts(manifest.environment, trial.engine)
        for what, now in there[trial.id].items():
            was = f" ({before[what]}, now {now})" if what in before else ""
            said.setdefault(f"{what} is not the one this run began with{was}")
    for line in said:
        progress.warn(
            f"{line}; old and new samples are kept apart: numbers and verdicts will be of"
            f" {elsewhere.WHICH}"
        )
