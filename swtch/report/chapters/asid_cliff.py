# SPDX-License-Identifier: Apache-2.0
"""The chapter of `asid-cliff`: a curve by the size of the ring, for processes and pthreads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swtch.analysis.findings import Group, Place
from swtch.experiments.asid_cliff import BEYOND_MARKS, MARKS, NAME, PAGES, WITHIN
from swtch.records import Interval
from swtch.report import shapes
from swtch.report.casework import (
    Cases,
    at,
    count_cell,
    first_group,
    median_cell,
    phrase,
    ratio_between,
    switches_for,
)
from swtch.report.charts import Figure, figure, place_suffix
from swtch.report.story import Story, number

_EACH = "each_{unit}"


def figures(story: Story) -> list[Figure]:
    pictures = [_curve(story, place) for place in story.places_of(NAME)]
    return [picture for picture in pictures if picture is not None]


def _curve(story: Story, place: Place) -> Figure | None:
    rows: list[dict[str, Any]] = []
    for finding in story.findings_of(NAME, place):
        interval = finding.intervals.get(at(_EACH, place))
        if interval is not None:
            members = finding.trial.factors["members"]
            rows.append(shapes.of_interval(interval, x=members, series=finding.trial.model))
    if not rows:
        return None
    sizes = sorted({row["x"] for row in rows})
    most = max(rows, key=lambda row: row["value"])
    return figure(
        shapes.curves(
            rows,
            "members of the ring, on one CPU",
            f"{place.unit()} of a hand-over",
            log_x=False,
            ticks=sizes,
        ),
        f"fig-{NAME}" + place_suffix(place),
        "A hand-over by the number of address spaces" + place.beside,
        f"Most: {most['series']}, ring of {most['x']}, {number(most['value'])} {place.unit()}.",
        f"Each member reads {PAGES} pages of its own in a turn. x86-64 Linux keeps {MARKS} address"
        " spaces apart in a CPU's TLB: beyond that, processes pay for translations again and"
        " pthreads, which share one, do not. What both curves do is the data's.",
    )


def _step(groups: Sequence[Group], model: str) -> Interval | None:
    few = first_group(groups, model, members=WITHIN)
    many = first_group(groups, model, members=BEYOND_MARKS)
    return ratio_between(many, few, _EACH)


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    processes, pthreads = _step(groups, "process"), _step(groups, "pthread")
    if processes is None or pthreads is None:
        return
    if processes.low > pthreads.high:
        verdict = "so processes pay for their number and pthreads do not as much"
    elif processes.high < pthreads.low:
        verdict = "so it is not the number of address spaces that makes a ring dear here"
    else:
        verdict = "so no cost of many address spaces can be told from that of a larger ring"
    yield (
        f"In a ring of {BEYOND_MARKS} processes a hand-over costs {phrase(processes, 'times')} that"
        f" in a ring of {WITHIN}, among pthreads {phrase(pthreads, 'times')}: {verdict}."
    )


_CASES = Cases(
    experiment=NAME,
    title="",
    axis="",
    metric=_EACH,
    caption="",
    table=f"one hand-over in a ring whose members read {PAGES} pages each, medians with 95 %"
    " intervals",
    case=lambda trial: str(trial.factors["members"]),
    series=lambda trial: trial.model,
    labels=("model", "members"),
    columns={
        "{unit}": median_cell(_EACH),
        "p10": count_cell("floor_{unit}"),
        "p90": count_cell("tail_{unit}"),
        "switches": switches_for("handovers"),
    },
    says=_says,
    brief=3,
)

tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
