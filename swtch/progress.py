# SPDX-License-Identifier: Apache-2.0
"""What a person sees on standard error while a run goes on.

A bar on a terminal, with the time left, what the last trial gave and a sparkline of
its invocations so far; plain lines elsewhere, nothing with --quiet. Failures are told
as they come, each kind once per trial. Nothing is drawn while a probe runs:
``advance`` is called between two probes, and there is no refresh thread, because a
thread that draws ten times a second is a disturbance of its own. NO_COLOR is
respected (rich does).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from swtch.records import Sample
from swtch.timing import Left

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

REDRAW_S = 0.2
PLAIN_EVERY_S = 5.0
BARS = "▁▂▃▄▅▆▇█"
SPARKS = 12


def sparkline(values: Sequence[float]) -> str:
    """The last few `values` as little bars from the least to the most; alike: all low."""
    shown = values[-SPARKS:]
    if not shown:
        return ""
    low, span = min(shown), max(shown) - min(shown)
    steps = (int((v - low) / span * (len(BARS) - 1) + 0.5) if span else 0 for v in shown)
    return "".join(BARS[step] for step in steps)


def headline(sample: Sample) -> tuple[float, str] | None:
    """What of a sample is worth a place on the bar: its experiment's first metric."""
    from swtch.analysis import findings

    if sample.status != "ok":
        return None
    values = findings.metrics(sample)
    own = findings.own_metrics(sample.experiment)
    for name, unit in (*((n, m.unit) for n, m in own.items()), *findings.UNITS.items()):
        if name in values:
            return values[name], unit
    return None


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
        self._shown: set[tuple[str, str]] = set()
        self._left: Left | None = None
        self._last = 0.0
        self._values: dict[str, list[float]] = {}
        self._left_out: set[int] = set()
        self._stage = ""
        # When the budget ends, where there is one.
        self._deadline: float | None = None
        self._budget = 0.0

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
    def running(
        self, total: int, done: Collection[int], expected: Mapping[int, float] | None = None
    ) -> Iterator[None]:
        """Around the invocations: `done` of `total` were there before; `expected` are
        seconds by number."""
        self._total, self._done, self._begun_with = total, len(done), len(done)
        self._begin = self._last_drawn = self._last = time.monotonic()
        if expected is not None:
            self._left = Left(expected)
            self._left.skip(done)
        if self._quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            BarColumn(bar_width=20),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._bar.add_task("measuring", total=total, completed=len(done), left="", count="")
        try:
            with self._bar:
                yield
        finally:
            self._bar = None

    def advance(self, sample: Sample) -> None:
        """One more invocation has its sample."""
        self._done += 1
        if sample.status == "failed" and (sample.trial_id, sample.error) not in self._shown:
            self._shown.add((sample.trial_id, sample.error))
            self.say(f"failed: {sample.trial_id}: {sample.error}")
        now = time.monotonic()
        if self._left is not None:
            self._left.spend(sample.seq, now - self._last)
        self._last = now
        if self._bar:
            values = self._values.setdefault(sample.trial_id, [])
            shown = headline(sample)
            if shown is not None:
                values.append(shown[0])
            if now - self._last_drawn >= REDRAW_S or self._done == self._total:
                self._last_drawn = now
                line = f"{sample.trial_id} {sparkline(values)}"
                if shown is not None:
                    line += f" {statistics.median(values):.4g} {shown[1]}"
                self._draw(self._bar, line, self._seconds_left(now))
        elif now - self._last_drawn >= PLAIN_EVERY_S or self._done == self._total:
            self._last_drawn = now
            self.say(self._plain(now))

    def _draw(self, bar: RichProgress, line: str, left: float) -> None:
        """With a budget the bar is one of time: how many there will be is not known."""
        task = bar.task_ids[0]
        if self._deadline is None:
            bar.update(task, completed=self._done, total=self._total, description=line)
            bar.update(task, left=f"{duration(left)} left", count=f"{self._done}/{self._total}")
        else:
            bar.update(task, completed=self._budget - left, total=self._budget, description=line)
            bar.update(task, left=f"at most {duration(left)} left", count=str(self._done))
        bar.refresh()

    def leave_out(self, seqs: Collection[int]) -> None:
        """These invocations will not be done; who was told so before is not counted again."""
        new = set(seqs) - self._left_out
        self._left_out |= new
        self._total -= len(new)
        if self._left is not None:
            self._left.skip(new)

    def begin(self, stage: str, seconds_left: float | None) -> None:
        """A pass begins: what it is for, and the most that is left of a budget."""
        if seconds_left is not None:
            self._budget = max(self._budget, seconds_left)
            self._deadline = time.monotonic() + seconds_left
        if stage != self._stage:
            self._stage = stage
            self.say(stage)

    def _seconds_left(self, now: float) -> float:
        if self._deadline is not None:
            return max(0.0, self._deadline - now)
        if self._left is not None:
            return self._left.seconds
        rate = (now - self._begin) / max(1, self._done - self._begun_with)
        return rate * (self._total - self._done)

    def _plain(self, now: float) -> str:
        passed, left = duration(now - self._begin), duration(self._seconds_left(now))
        if self._deadline is not None:
            # How many there will be depends on what they show.
            return f"{self._done} invocations, {passed}, at most {left} left"
        tail = f", about {left} left" if self._done < self._total else ""
        return f"{self._done} of {self._total} invocations, {passed}{tail}"
