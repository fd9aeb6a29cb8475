# SPDX-License-Identifier: Apache-2.0
"""The chapter of `work-scaling`: throughput over the amount of work."""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.work_scaling import NAME
from swtch.report.chapters import _study_001 as shared
from swtch.report.charts import Figure
from swtch.report.story import Story
from swtch.report.tables import Table

STEPS = shared.Steps(
    axis="additions of each thread in the study (in a guest proportionally fewer)",
    step=lambda trial: f"{int(str(trial.factors['work_asked'])) // 10**6}M",
    order=("1M", "5M", "10M"),
)
TITLE = "throughput over the amount of work"


def figures(story: Story) -> list[Figure]:
    measured = shared.per_place(story, NAME, (_throughput,))
    return shared.beside(measured, shared.published(NAME, 4, TITLE, steps=STEPS))


def _throughput(story: Story, place: Place) -> Figure | None:
    return shared.curves(
        story,
        NAME,
        place,
        STEPS,
        TITLE[0].upper() + TITLE[1:],
        caption="A flat curve: what is measured is the loop, not the threads' start.",
    )


def tables(story: Story) -> list[Table]:
    return shared.tables(story, NAME)


def terminal(story: Story) -> list[RenderableType]:
    return shared.terminal(story, NAME)
