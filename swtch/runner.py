# SPDX-License-Identifier: Apache-2.0
"""Carries out what is left of a plan: one invocation after the other, in order.

Invariants:

- What a target or a budget makes needless is left out (swtch.course), pass by pass.
- Every invocation that was started and not interrupted has exactly one sample
  on disk before the next one starts.
- A trial that failed three times in a row is given up: its remaining
  invocations are marked failed without running, so that one broken probe does
  not cost an hour of time limits.
- SIGINT, SIGTERM and SIGHUP end the running probe and then the loop. The interrupted
  invocation leaves no sample; a resumed run does it again.

Signals set a flag and end the probe, nothing else: an exception raised at an
arbitrary bytecode could tear a sample. Rejected: running probes in parallel
(they would disturb each other), retrying a failed invocation at once (hides
that it failed).
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import msgspec

from swtch import course, ending, plan
from swtch.engines import Engine, Outcome
from swtch.progress import Progress
from swtch.records import Invocation, Sample, Trial
from swtch.store import Writer

GIVE_UP_AFTER = 3


@dataclass(frozen=True)
class Ending:
    """How a run ended: ``failed`` counts the whole run, also what was there before."""

    done: int
    failed: int
    interrupted: bool


class Runner:
    """Runs the plan in `writer` with `engine`. Use once. `expected`: seconds by number;
    `elsewhere`: what is not as the manifest says, by trial (swtch.elsewhere)."""

    def __init__(
        self,
        writer: Writer,
        engine: Engine,
        progress: Progress,
        expected: Mapping[int, float] | None = None,
        elsewhere: Callable[[Trial], dict[str, str]] = lambda _: {},
    ) -> None:
        self._writer = writer
        self._engine = engine
        self._progress = progress
        self._expected = expected
        self._elsewhere = elsewhere
        self._interrupted = False
        self._failures: Counter[str] = Counter()
        self._trials = {trial.id: trial for trial in writer.manifest.trials}

    def run(self) -> Ending:
        """Does what has no sample yet."""
        manifest = self._writer.manifest
        done = self._writer.done()
        way = course.of(manifest)
        with self._signals(), self._progress.running(len(manifest.plan), done, self._expected):
            for stretch in plan.passes(manifest):
                undone = [i for i in stretch.invocations if i.seq not in done]
                if not undone:
                    continue
                needed = way.needed(stretch, self._writer.samples)
                self._progress.leave_out({i.seq for i in undone} - needed | way.ahead() - done)
                if needed:
                    self._progress.begin(way.stage, way.seconds_left(self._writer.samples))
                if not self._perform_all([i for i in undone if i.seq in needed]):
                    break
        samples = self._writer.samples
        return Ending(
            done=len(samples),
            failed=sum(sample.status == "failed" for sample in samples),
            interrupted=self._interrupted,
        )

    def _perform_all(self, invocations: Sequence[Invocation]) -> bool:
        """Whether no signal came between."""
        for invocation in invocations:
            outcome = self._perform(self._trials[invocation.trial_id], invocation)
            if self._interrupted:
                return False
            self._keep(outcome)
        return True

    def _perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        if self._failures[trial.id] < GIVE_UP_AFTER:
            return self._engine.perform(trial, invocation)
        return Outcome(sample=_given_up(trial, invocation), stdout=b"", stderr=b"")

    def _keep(self, outcome: Outcome) -> None:
        sample = outcome.sample
        if there := self._elsewhere(self._trials[sample.trial_id]):
            sample = msgspec.structs.replace(sample, elsewhere=there)
        self._writer.add(sample)
        if sample.status == "ok":
            self._failures[sample.trial_id] = 0
            self._writer.log(f"{sample.trial_id}.good", outcome.stdout, outcome.stderr)
        else:
            self._failures[sample.trial_id] += 1
            if outcome.stdout or outcome.stderr:
                name = f"{sample.trial_id}.failed-{sample.seq:05d}"
                self._writer.log(name, outcome.stdout, outcome.stderr)
        self._progress.advance(sample)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def interrupt(_number: int, _frame: FrameType | None) -> None:
            self._interrupted = True
            self._engine.stop()

        if threading.current_thread() is not threading.main_thread():
            yield  # of a program that uses us as a library; only the first may have handlers
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup is respected
            numbers.append(signal.SIGHUP)
        with ending.handled(numbers, interrupt):
            yield


def _given_up(trial: Trial, invocation: Invocation) -> Sample:
    return Sample(
        seq=invocation.seq,
        experiment=trial.experiment,
        trial_id=trial.id,
        model=trial.model,
        engine=trial.engine,
        factors=trial.factors,
        block=invocation.block,
        seed=invocation.seed,
        started="",
        elapsed_ns=0,
        status="failed",
        error=f"given up after {GIVE_UP_AFTER} failures",
    )
