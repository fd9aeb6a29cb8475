# SPDX-License-Identifier: Apache-2.0
"""The tables of each experiment, as cells of text, for every form of report."""

from __future__ import annotations

from dataclasses import dataclass

from swtch.records import Finding
from swtch.report.story import Story, number, spread


@dataclass(frozen=True)
class Row:
    cells: tuple[str, ...]
    first: bool = False  # of a group of rows


@dataclass(frozen=True)
class Table:
    """``labels``: how many leading columns are names; the rest are numbers."""

    caption: str
    columns: tuple[str, ...]
    labels: int
    rows: tuple[Row, ...]


def tables(story: Story, experiment: str) -> list[Table]:
    makers = {"scenarios": (_results, _published), "coroutine-gantt": (_gantt,)}
    made = [maker(story) for maker in makers.get(experiment, ())]
    return [table for table in made if table.rows]


def gate_marks(finding: Finding) -> str:
    return ", ".join(f"{name} {count}" for name, count in finding.gates.items()) or "–"


def _results(story: Story) -> Table:
    rows = []
    last = None
    for finding in story.findings_of("scenarios"):
        factors = finding.trial.factors
        case = str(factors["scenario"])
        model = finding.trial.model + (" (again)" if factors.get("control") == "b" else "")
        speed = finding.intervals.get("throughput_mops")
        spread_of = finding.dispersion.get("throughput_mops", {})
        rows.append(
            Row(
                (
                    case,
                    model,
                    f"{factors['cpus_used']} of {factors['cpus_asked']}",
                    spread(speed),
                    f"{number(spread_of.get('mean'))} ± {number(spread_of.get('sd'))}",
                    f"{spread_of['cv']:.1f} %" if spread_of else "–",
                    _count(finding, "nvcsw"),
                    _count(finding, "nivcsw"),
                    _count(finding, "user_switches"),
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=case != last,
            )
        )
        last = case
    engine = story.run.manifest.engine
    return Table(
        f"Measured here, engine {engine}: Mops/s is the median over invocations with its 95 %"
        " interval; switches are medians of totals over the four threads",
        (
            "Scenario",
            "Model",
            "CPUs",
            "Mops/s",
            "mean ± SD",
            "CV",
            "voluntary",
            "involuntary",
            "in user space",
            "n",
            "gates",
        ),
        2,
        tuple(rows),
    )


def _count(finding: Finding, metric: str) -> str:
    made = finding.intervals.get(metric)
    return number(made.estimate) if made else "–"


def _published(story: Story) -> Table:
    experiment = next(e for e in story.experiments if e.name == "scenarios")
    rows = []
    for (case, model, metric), figure in experiment.published.items():
        if metric != "throughput_mops":
            continue

        def with_sd(name: str, case: str = case, model: str = model) -> str:
            other = experiment.published[case, model, name]
            return number(other.value) + (f" ± {number(other.sd)}" if other.sd else "")

        rows.append(
            Row(
                (
                    case,
                    model,
                    with_sd("throughput_mops"),
                    f"{experiment.published[case, model, 'throughput_cv'].value:g} %",
                    with_sd("nvcsw"),
                    with_sd("nivcsw"),
                    figure.source,
                ),
                first=case == "A",
            )
        )
    return Table(
        "Published, on another machine (ARM64, Linux 6.8, 4 vCPUs): mean ± SD of five runs",
        ("Scenario", "Model", "Mops/s", "CV", "voluntary", "involuntary", "source"),
        2,
        tuple(rows),
    )


def _gantt(story: Story) -> Table:
    rows = []
    for one in story.groups_of("coroutine-gantt"):
        if not one.good:
            continue
        sample = one.good[0]
        orders = {tuple(s.detail["finished"]) for s in one.good}
        rows.append(
            Row(
                (
                    str(one.trial.factors["order"]),
                    one.trial.model,
                    "yes" if one.trial.factors["pool"] else "no",
                    str(len(sample.detail["slots"])),
                    " ".join(str(task) for task in sample.detail["finished"])
                    if len(orders) == 1
                    else "differs between invocations",
                    f"{sample.values['stacks_created']:g} / {sample.values['stacks_reused']:g}",
                    "yes" if sample.detail.get("overflow_detected") else "no",
                    str(len(one.good)),
                )
            )
        )
    return Table(
        "Five coroutines of 3, 3, 3, 5 and 2 iterations",
        (
            "order",
            "model",
            "pool",
            "slots",
            "finished",
            "stacks made / reused",
            "overflow detected",
            "n",
        ),
        2,
        tuple(rows),
    )
