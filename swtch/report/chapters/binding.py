# SPDX-License-Identifier: Apache-2.0
"""The chapter of `binding`: throughput over the number of CPUs.

Claim 001.4 contradicts claim 000.4, so a table puts what both studies say of pthreads on
one counter beside what this machine does in both experiments.
"""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis.findings import Place, ratio_interval
from swtch.experiments import binding, scenarios
from swtch.experiments.binding import NAME
from swtch.report.chapters import _study_001 as shared
from swtch.report.charts import Figure
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table

STEPS = shared.Steps(
    axis="CPUs that four threads are bound to",
    step=lambda trial: str(trial.factors["cpus_asked"]),
    order=("1", "2", "4"),
)
TITLE = "throughput over the number of CPUs"


def figures(story: Story) -> list[Figure]:
    measured = shared.per_place(story, NAME, (_throughput,))
    return shared.beside(measured, shared.published(NAME, 3, TITLE, steps=STEPS))


def _throughput(story: Story, place: Place) -> Figure | None:
    return shared.curves(
        story,
        NAME,
        place,
        STEPS,
        TITLE[0].upper() + TITLE[1:],
        caption="One counter, whose cache line every CPU needs for each addition.",
    )


def tables(story: Story) -> list[Table]:
    return shared.tables(story, NAME, *_side_by_side(story))


def _side_by_side(story: Story) -> list[Table]:
    """Pthreads on more CPUs over one CPU: both studies, and both experiments here."""
    rows = [*_published_rows(), *_measured_rows(story)]
    return [
        Table(
            "Two studies that contradict each other (000.4 and 001.4): what four pthreads on one"
            " shared counter get through on several CPUs, over what they do on one",
            ("where", "experiment", "CPUs", "throughput over one CPU"),
            3,
            tuple(rows),
        )
    ]


def _published_rows() -> list[Row]:
    ratio = scenarios.EXPERIMENT.published["B2/A", "pthread", "throughput_ratio"]
    known = binding.PUBLISHED
    one_cpu = known[binding.case_of("normal", 1), "pthread", "throughput_mops"].value
    return [
        Row(("study 000", "scenarios, A over B2", "4", number(1 / ratio.value)), first=True),
        *(
            Row(("study 001", "binding, normal", str(cpus), number(other.value / one_cpu)))
            for cpus in binding.CPUS[1:]
            for other in (known[binding.case_of("normal", cpus), "pthread", "throughput_mops"],)
        ),
    ]


def _measured_rows(story: Story) -> list[Row]:
    rows = []
    for place in story.places_of(NAME):
        groups = story.groups_of(NAME, place)
        one_cpu = shared.good(groups, "pthread", mode="normal", cpus_asked=1)
        for cpus in binding.CPUS[1:]:
            more = shared.good(groups, "pthread", mode="normal", cpus_asked=cpus)
            if one_cpu is not None and more is not None:
                ratio = spread(ratio_interval(more, one_cpu))
                rows.append(Row((f"here, {place}", "binding, normal", str(cpus), ratio)))
        rows += _scenario_rows(story, place)
    return [Row(row.cells, first=index == 0) for index, row in enumerate(rows)]


def _scenario_rows(story: Story, place: Place) -> list[Row]:
    """Study 000's own experiment, where this run has it: A has no yields, B2 a few."""
    by_scenario = {
        str(group.trial.factors["scenario"]): group
        for group in story.groups_of(scenarios.EXPERIMENT.name, place)
        if group.good and group.trial.model == "pthread" and group.trial.factors["control"] != "b"
    }
    if not {"A", "B2"} <= by_scenario.keys():
        return []
    ratio = spread(ratio_interval(by_scenario["A"], by_scenario["B2"]))
    cpus = str(by_scenario["A"].trial.factors["cpus_used"])
    return [Row((f"here, {place}", "scenarios, A over B2", cpus, ratio))]


def terminal(story: Story) -> list[RenderableType]:
    return shared.terminal(story, NAME)
