# SPDX-License-Identifier: Apache-2.0
"""The chapter of `coroutine`: two libraries, two counters, two modes."""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.coroutine import NAME
from swtch.report.chapters import _study_001 as shared
from swtch.report.charts import Figure
from swtch.report.story import Story
from swtch.report.tables import Table


def figures(story: Story) -> list[Figure]:
    measured = shared.per_place(story, NAME, (_throughput,))
    known = shared.published(NAME, 6, "throughput of coroutines by mode")
    return shared.beside(measured, known)


def _throughput(story: Story, place: Place) -> Figure | None:
    return shared.bars(
        story,
        NAME,
        place,
        "Throughput of 32 coroutines on one CPU",
        "Own counter: each adds to its own, without an atomic instruction, as the study's do;"
        " otherwise all add to one, atomically, as its threads do.",
    )


def tables(story: Story) -> list[Table]:
    return shared.tables(story, NAME)


def terminal(story: Story) -> list[RenderableType]:
    return shared.terminal(story, NAME)
