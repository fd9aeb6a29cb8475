# SPDX-License-Identifier: Apache-2.0
"""The chapter of `wakeup-latency`: medians in a forest, and whole distributions in curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swtch.analysis.findings import Group, Place
from swtch.experiments.wakeup_latency import NAME
from swtch.records import Trial
from swtch.report import shapes
from swtch.report.casework import (
    Cases,
    count_cell,
    first_group,
    median_cell,
    median_of,
    phrase,
    ratio_between,
    times,
)
from swtch.report.charts import Figure, figure, place_suffix
from swtch.report.story import Story

_LATE = "late_{unit}"
# From the moment that was meant: a stall is in it as often as moments were missed.
_TAIL = "intended_late_quantiles"
_WAYS = {
    "timer": "timer",
    "same": "same CPU",
    "two": "other CPU",
}


def _case(trial: Trial) -> str:
    busy = "busy" if trial.factors["busy"] else "quiet"
    policy = "" if trial.factors["policy"] == "other" else f", {trial.factors['policy']}"
    return f"{shapes.spoken(_WAYS, trial.factors['way'])}, {busy}{policy}"


def figures(story: Story) -> list[Figure]:
    pictures = list(_CASES.figures(story))
    for place in story.places_of(NAME):
        tail = _tail(story, place)
        pictures += [tail] if tail else []
    return pictures


def _tail(story: Story, place: Place) -> Figure | None:
    """Of the timers: what share was later than how much."""
    rows: list[dict[str, Any]] = []
    for group in story.groups_of(NAME, place):
        factors = group.trial.factors
        if factors["way"] != "timer" or factors["policy"] != "other":
            continue
        lists = [s.detail[_TAIL] for s in group.good if _TAIL in s.detail]
        busy = "busy" if factors["busy"] else "quiet"
        for row in shapes.pooled(lists, 1.0):
            rows.append({**row, "series": group.trial.model, "how": busy})
    if not [row for row in rows if row["x"] > 0]:
        return None
    return figure(
        shapes.distributions(rows, f"{place.unit()} late"),
        f"fig-{NAME}-tail" + place_suffix(place),
        "Sleepers that a timer wakes, all of them" + place.beside,
        "For each model, quiet and busy, the share of wakes that were later.",
        "What share of the wakes was later than so much after the moment that was meant; the"
        " median invocation at each share."
        " Who computes beside a pthread loses the CPU to it at once, by SCHED_OTHER; a uthread"
        " waits for the next tick.",
    )


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    quiet = first_group(groups, "pthread", way="timer", busy=False, policy="other")
    busy = first_group(groups, "pthread", way="timer", busy=True, policy="other")
    own, more = (
        median_of(quiet, "intended_p99_{unit}"),
        ratio_between(busy, quiet, "intended_p99_{unit}"),
    )
    if own and more:
        yield (
            f"Of a pthread's sleeps, 99 % are over no later than {phrase(own)} on a quiet CPU;"
            f" beside a loop that is {times(more, 'as much')}."
        )
    uthread = first_group(groups, "uthread", way="same", busy=False, policy="other")
    wakes = ratio_between(
        first_group(groups, "pthread", way="same", busy=False, policy="other"), uthread, _LATE
    )
    if wakes:
        yield (
            "Woken by another on the same CPU, a pthread runs after"
            f" {times(wakes, 'as long as a uthread')}."
        )


_CASES = Cases(
    experiment=NAME,
    title="How late a sleeper wakes",
    axis="{unit} late (less is better)",
    metric=_LATE,
    caption="Half of the wakes were later; median over invocations with its 95 % interval. Woken"
    " by a timer, or by another thread on the same or on the other CPU; busy: beside an endless"
    " loop of the same model.",
    table="from the moment that was asked for, or from just before the wake, to the sleeper's first"
    " look at the clock, of those that slept; medians of half of an invocation's wakes with 95 %"
    " intervals, of nine in ten, of 99 in 100, and of the worst; intended: of every moment that was"
    " meant, whether the sleeper could be asleep by then or not",
    case=_case,
    series=lambda trial: trial.model,
    labels=("model", "woken by"),
    columns={
        "{unit}": median_cell(_LATE),
        "p90": count_cell("p90_{unit}"),
        "p99": count_cell("p99_{unit}"),
        "worst": count_cell("worst_{unit}"),
        "intended": count_cell("intended_{unit}"),
        "intended p99": count_cell("intended_p99_{unit}"),
    },
    says=_says,
    brief=4,
)

tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
