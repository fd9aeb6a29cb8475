# SPDX-License-Identifier: Apache-2.0
"""What a person sees on standard error while a run goes on.

A bar on a terminal, plain lines elsewhere, nothing with --quiet; failures are
told as they come, each kind once per trial. Nothing is drawn while a probe
runs: ``advance`` is called between two probes, and there is no refresh thread,
because a thread that draws ten times a second is a disturbance of its own.
NO_COLOR is respected (rich does).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from swtch.records import Sample

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

REDRAW_S = 0.2
PLAIN_EVERY_S = 5.0


def duration(seconds: float) -> str:
    """``45 s`` or ``3 min 20 s``."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


class Progress:
    """Tells how far a run is. One object per run."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: RichProgress | None = None
        self._total = 0
        self._done = 0
        self._begun_with = 0
        self._begin = 0.0
        self._last_drawn = 0.0
        self._told: set[tuple[str, str]] = set()

    def say(self, line: str) -> None:
        """One line for people, unless --quiet."""
        if not self._quiet:
            self.warn(line)

    def warn(self, line: str) -> None:
        """One line for people, always."""
        if self._bar:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)

    @contextmanager
    def running(self, total: int, done: int) -> Iterator[None]:
        """Around the invocations: `done` of `total` were there before."""
        self._total, self._done, self._begun_with = total, done, done
        self._begin = self._last_drawn = time.monotonic()
        if self._quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._bar.add_task("measuring", total=total, completed=done)
        try:
            with self._bar:
                yield
        finally:
            self._bar = None

    def advance(self, sample: Sample) -> None:
        """One more invocation has its sample."""
        self._done += 1
        if sample.status == "failed" and (sample.trial_id, sample.error) not in self._told:
            self._told.add((sample.trial_id, sample.error))
            self.say(f"failed: {sample.trial_id}: {sample.error}")
        now = time.monotonic()
        if self._bar:
            if now - self._last_drawn >= REDRAW_S or self._done == self._total:
                self._last_drawn = now
                task = self._bar.task_ids[0]
                self._bar.update(task, completed=self._done, description=sample.trial_id)
                self._bar.refresh()
        elif now - self._last_drawn >= PLAIN_EVERY_S or self._done == self._total:
            self._last_drawn = now
            self.say(self._plain(now))

    def _plain(self, now: float) -> str:
        passed = now - self._begin
        rate = passed / max(1, self._done - self._begun_with)
        left = rate * (self._total - self._done)
        tail = f", about {duration(left)} left" if self._done < self._total else ""
        return f"{self._done} of {self._total} invocations, {duration(passed)}{tail}"
