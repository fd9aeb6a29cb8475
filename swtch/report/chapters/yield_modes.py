# SPDX-License-Identifier: Apache-2.0
"""The chapter of `yield-modes`: throughput in both modes, and what the accounts cost."""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.yield_modes import NAME
from swtch.report.chapters import _study_001 as shared
from swtch.report.charts import Figure
from swtch.report.story import Story
from swtch.report.tables import Table

ACCOUNTS = (
    "Instrumented: the module's loop keeps accounts of every addition, as the study's did;"
    " bare: it does what the pthreads' loop does."
)
DISTANCES = (
    "From instrumented to bare is the price of the accounts; from bare to bare, sched_yield that"
    " of sleeping instead of yielding; what is left to the line is the kind of thread."
)


def figures(story: Story) -> list[Figure]:
    measured = shared.per_place(story, NAME, (_throughput, _ratios))
    known = shared.published(NAME, 1, "throughput of kernel threads (KLT) and pthreads (ULT)")
    return shared.beside(measured, known)


def _throughput(story: Story, place: Place) -> Figure | None:
    return shared.bars(
        story,
        NAME,
        place,
        "Throughput of four threads on one counter",
        ACCOUNTS if shared.has_kthreads(story, NAME, place) else "",
    )


def _ratios(story: Story, place: Place) -> Figure | None:
    return shared.ratios(
        story,
        NAME,
        place,
        "pthread",
        "Each kind of thread against pthreads",
        DISTANCES if shared.has_kthreads(story, NAME, place) else "At the line both are as fast.",
    )


def tables(story: Story) -> list[Table]:
    return shared.tables(story, NAME)


def terminal(story: Story) -> list[RenderableType]:
    return shared.terminal(story, NAME)
