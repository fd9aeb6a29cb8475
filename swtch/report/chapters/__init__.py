# SPDX-License-Identifier: Apache-2.0
"""How each experiment is reported: one module for one experiment, of its name.

A chapter has three functions, all of a ``Story``: ``figures`` and ``tables``
for the files, ``terminal`` for `swtch show`. One may have ``sentences``: what was
found, in sentences with their intervals, for experiments that no study's claims
are about, or how undisturbed what was measured was. What was measured at two places
(engine, guest) stands in two figures and two tables, never in one. An
experiment without a chapter gets ``plain``: every metric of every trial.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast

from swtch import own

if TYPE_CHECKING:
    from rich.console import RenderableType

    from swtch.experiments import Experiment
    from swtch.report.charts import Figure
    from swtch.report.story import Story
    from swtch.report.tables import Table


# In the order in which a study tells them: what it measures first, and what is its future
# work last; beyond the studies, the plainer before what is made of it.
READING = (
    *("scenarios", "coroutine-gantt"),
    *("yield-modes", "yield-sweep", "binding", "work-scaling", "thread-count", "coroutine"),
    *("aligned", "sync", "producer-consumer", "wakeup-latency", "coroutine-io"),
    *("pair-overhead", "interrupt-overhead"),
    *("uthread-scaling", "starvation", "preemption", "locks"),
    *("direct-cost", "working-set", "counters"),
    *("syscall", "signal", "ping", "peers", "work", "io-echo", "drop-in"),
    *("asid-cliff", "eevdf-yield", "mitigation"),
)


def in_reading_order(experiments: Iterable[Experiment]) -> tuple[Experiment, ...]:
    """By study, and within it in the order to read them; new ones follow, as they come."""

    def place(experiment: Experiment) -> tuple[str, int]:
        name = experiment.name
        return experiment.study, READING.index(name) if name in READING else len(READING)

    return tuple(sorted(experiments, key=place))


class Chapter(Protocol):
    def figures(self, story: Story) -> list[Figure]: ...

    def tables(self, story: Story) -> list[Table]: ...

    def terminal(self, story: Story) -> list[RenderableType]: ...


def chapter(experiment: str) -> Chapter:
    """The chapter of the experiment called `experiment`."""
    if (outside := own.chapter(experiment)) is not None:
        return cast("Chapter", outside)
    name = f"{__name__}.{experiment.replace('-', '_')}"
    if importlib.util.find_spec(name) is None:
        from swtch.report.chapters.plain import Plain

        return Plain(experiment)
    return cast("Chapter", importlib.import_module(name))


def figures(story: Story, experiment: str) -> list[Figure]:
    """Its pictures. Altair checks every part of a chart against its schema, for a third of
    the time; the tests have that done, who reads a report need not wait for it."""
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        return chapter(experiment).figures(story)


def sentences(story: Story, experiment: str) -> list[str]:
    """What its chapter says was found; nothing where claims say it."""
    says = getattr(chapter(experiment), "sentences", None)
    return list(says(story)) if says else []
