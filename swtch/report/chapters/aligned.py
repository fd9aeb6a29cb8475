# SPDX-License-Identifier: Apache-2.0
"""The chapter of `aligned`: every model with 32 threads on one CPU, as the study and matched."""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.aligned import NAME
from swtch.report.chapters import _study_001 as shared
from swtch.report.charts import Figure
from swtch.report.story import Story
from swtch.report.tables import Table


def figures(story: Story) -> list[Figure]:
    measured = shared.per_place(story, NAME, (_throughput, _ratios))
    if not measured:
        return []
    # The study has a table of this and no figure.
    return measured


def _throughput(story: Story, place: Place) -> Figure | None:
    return shared.bars(
        story,
        NAME,
        place,
        "Throughput of 32 threads on one CPU",
        "Own counter: each thread adds to its own, without an atomic instruction; otherwise all"
        " add to one, atomically.",
    )


def _ratios(story: Story, place: Place) -> Figure | None:
    return shared.ratios(
        story,
        NAME,
        place,
        "pthread",
        "Each against pthreads on a shared counter",
        "The study compares coroutines with own counters with pthreads on a shared one. Coroutines"
        " without that advantage, and pthreads with it, say how much of the ratio is the counter.",
    )


def tables(story: Story) -> list[Table]:
    return shared.tables(story, NAME)


def terminal(story: Story) -> list[RenderableType]:
    return shared.terminal(story, NAME)
