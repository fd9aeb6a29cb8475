# SPDX-License-Identifier: Apache-2.0
"""The chapter of `thread-count`: throughput over the number of threads on one CPU."""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.thread_count import NAME
from swtch.report.chapters import _study_001 as shared
from swtch.report.charts import Figure
from swtch.report.story import Story
from swtch.report.tables import Table

STEPS = shared.Steps(
    axis="threads on one CPU",
    step=lambda trial: str(trial.factors["threads"]),
    order=("4", "16", "32"),
)
TITLE = "throughput over the number of threads"


def figures(story: Story) -> list[Figure]:
    measured = shared.per_place(story, NAME, (_throughput,))
    return shared.beside(measured, shared.published(NAME, 5, TITLE, steps=STEPS, panel=""))


def _throughput(story: Story, place: Place) -> Figure | None:
    return shared.curves(story, NAME, place, STEPS, TITLE[0].upper() + TITLE[1:], panel="")


def tables(story: Story) -> list[Table]:
    return shared.tables(story, NAME)


def terminal(story: Story) -> list[RenderableType]:
    return shared.terminal(story, NAME)
