# SPDX-License-Identifier: Apache-2.0
"""The chapter of `yield-sweep`: throughput and efficiency over the yield interval."""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.yield_sweep import NAME
from swtch.report.chapters import _study_001 as shared
from swtch.report.charts import Figure
from swtch.report.story import Story
from swtch.report.tables import Table

STEPS = shared.Steps(
    axis="additions between two yields",
    step=lambda trial: str(trial.factors["interval"] or "never"),
    order=("100", "1000", "10000", "never"),
)
TITLE = "throughput over the yield interval"
EFFICIENCY = "CPU efficiency in % of the CPUs' time"


def figures(story: Story) -> list[Figure]:
    measured = shared.per_place(story, NAME, (_throughput, _efficiency))
    known = (
        shared.published(NAME, 2, TITLE, steps=STEPS, panel=""),
        shared.published(
            NAME,
            2,
            "CPU efficiency over the yield interval",
            steps=STEPS,
            metric="cpu_efficiency",
            axis=EFFICIENCY,
            part="efficiency",
            panel="",
        ),
    )
    return shared.beside(measured, *known)


def _throughput(story: Story, place: Place) -> Figure | None:
    return shared.curves(story, NAME, place, STEPS, TITLE[0].upper() + TITLE[1:], panel="")


def _efficiency(story: Story, place: Place) -> Figure | None:
    return shared.curves(
        story,
        NAME,
        place,
        STEPS,
        "CPU efficiency over the yield interval",
        metric="cpu_efficiency",
        axis=EFFICIENCY,
        part="efficiency",
        panel="",
        caption="A thread that sleeps leaves its CPU idle; one that calls sched_yield does not.",
    )


def tables(story: Story) -> list[Table]:
    return shared.tables(story, NAME)


def terminal(story: Story) -> list[RenderableType]:
    return shared.terminal(story, NAME)
