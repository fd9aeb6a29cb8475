# SPDX-License-Identifier: Apache-2.0
"""The chapter of an experiment that has none of its own: every metric of every trial."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.report import shapes
from swtch.report.charts import Figure
from swtch.report.story import Story, spread
from swtch.report.tables import Row, Table, gate_marks


@dataclass(frozen=True)
class Plain:
    experiment: str

    def figures(self, story: Story) -> list[Figure]:
        return []

    def tables(self, story: Story) -> list[Table]:
        return [self._table(story, place) for place in story.places_of(self.experiment)]

    def terminal(self, story: Story) -> list[RenderableType]:
        return shapes.terminal(self.tables(story))

    def _table(self, story: Story, place: Place) -> Table:
        rows = []
        for finding in story.findings_of(self.experiment, place):
            name = finding.trial.id.removeprefix(f"{self.experiment}/")
            for index, (metric, interval) in enumerate(finding.intervals.items()):
                first = index == 0
                cells = (name if first else "", metric, spread(interval), interval.unit)
                counts = (str(interval.n), gate_marks(finding) if first else "")
                rows.append(Row((*cells, *counts), first=first))
        return Table(
            f"Measured here, engine {place}: medians over invocations with 95 % intervals",
            ("trial", "metric", "median", "unit", "n", "gates"),
            2,
            tuple(rows),
        )
