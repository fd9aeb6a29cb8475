# SPDX-License-Identifier: Apache-2.0
"""The chapter of `eevdf-yield`: the share of yields that were switches, kernel by kernel.

Counts of two kernels stand in one picture and one table, which times never do.
"""

from __future__ import annotations

from rich.console import RenderableType

from swtch.analysis import stats
from swtch.analysis.findings import Group
from swtch.experiments.eevdf_yield import NAME, SWITCHED
from swtch.records import Interval
from swtch.report import shapes
from swtch.report.casework import n_of, phrase
from swtch.report.charts import Figure, figure
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

PERCENT = "of 100"


def share(group: Group) -> Interval | None:
    """Of a hundred yields, how many were switches."""
    return stats.median_interval(group.values(SWITCHED), PERCENT)


def place_of(group: Group) -> str:
    """The kernel in words: the machine's own, or a guest's with its scheduler."""
    if group.place.home:
        return "this kernel"
    return f"{group.place} ({group.trial.factors.get('scheduler')})"


def _case(group: Group) -> str:
    return f"{group.trial.factors['call']}, {group.trial.factors['policy']}: {place_of(group)}"


def figures(story: Story) -> list[Figure]:
    rows = []
    for group in story.groups_of(NAME):
        interval = share(group)
        if interval is not None:
            rows.append(shapes.of_interval(interval, case=_case(group), series=group.trial.model))
    if not rows:
        return []
    rows.sort(key=lambda row: row["case"])
    least = min(rows, key=lambda row: row["value"])
    return [
        figure(
            shapes.forest(rows, "of 100 yields, how many were switches", line=100, zero=True),
            f"fig-{NAME}",
            "How many of the yields are switches",
            f"Least: {least['case']}, {least['series']}, {number(least['value'])} of 100.",
            "Two threads of one CPU that do nothing but yield; the kernel's counts over theirs,"
            " median with its 95 % interval. Far left: a loop of such yields measures the"
            " scheduler's entry, and no switch.",
        )
    ]


def tables(story: Story) -> list[Table]:
    findings = {finding.trial.id: finding for finding in story.findings_of(NAME)}
    rows = []
    before = ""
    for group in story.groups_of(NAME):
        finding = findings[group.trial.id]
        where = place_of(group)
        rows.append(
            Row(
                (
                    where,
                    f"{group.trial.model}: {group.trial.factors['call']}",
                    str(group.trial.factors["policy"]),
                    spread(share(group)),
                    count(finding, "nvcsw"),
                    count(finding, "nivcsw"),
                    n_of(finding),
                    gate_marks(finding),
                ),
                first=where != before,
            )
        )
        before = where
    return [
        Table(
            "Two threads of one CPU that do nothing but yield: the kernel's counts, medians with"
            " 95 % intervals. The gate “switches” marks what is not what a study took it for",
            (
                *("kernel", "who", "policy", "switches of 100 yields", "voluntary"),
                *("involuntary", "n", "gates"),
            ),
            3,
            tuple(rows),
        )
    ]


def terminal(story: Story) -> list[RenderableType]:
    brief = [
        Table(
            f"{NAME}: the kernel's counts, medians with 95 % intervals",
            wide.columns[:4],
            3,
            tuple(Row(row.cells[:4], row.first) for row in wide.rows),
        )
        for wide in tables(story)
    ]
    return shapes.terminal(brief)


def sentences(story: Story) -> list[str]:
    """One sentence for each call: what became of it on each kernel that was measured."""
    lines = []
    groups = [
        group
        for group in story.groups_of(NAME)
        if group.trial.factors["policy"] == "other" and group.good
    ]
    for model, who in (("kthread", "a kernel thread's schedule()"), ("pthread", "sched_yield()")):
        parts = []
        for group in groups:
            interval = share(group) if group.trial.model == model else None
            if interval is not None:
                parts.append(f"{phrase(interval, '')} on {place_of(group)}")
        if parts:
            lines.append(
                f"Of 100 calls of {who} beside another that does the same, so many are"
                f" switches: {', '.join(parts)}."
            )
    kernels = {str(group.trial.factors.get("scheduler")) for group in groups}
    if groups and not {"CFS", "EEVDF"} <= kernels:
        lines.append("To compare the two schedulers: --engine vm --guest 6.1-amd64,6.12-amd64.")
    return lines
