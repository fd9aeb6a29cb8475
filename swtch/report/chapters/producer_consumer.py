# SPDX-License-Identifier: Apache-2.0
"""The chapter of `producer-consumer`: an item by model, room in the buffer, and CPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.producer_consumer import NAME
from swtch.records import Trial
from swtch.report.casework import (
    Cases,
    first_group,
    median_cell,
    median_of,
    phrase,
    ratio_between,
    switches_for,
    times,
)

_EACH = "each_{unit}"
ONE, MANY = 1, 256


def _case(trial: Trial) -> str:
    where = "" if trial.factors["cpus_used"] == 1 else ", two CPUs"
    return f"room for {trial.factors['room']}{where}"


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    single = first_group(groups, "pthread", room=ONE, cpus_used=1)
    many = first_group(groups, "pthread", room=MANY, cpus_used=1)
    own, more = median_of(many, _EACH), ratio_between(single, many, _EACH)
    if own and more:
        yield (
            f"With room for {MANY} items, one costs two pthreads on one CPU {phrase(own)};"
            f" with room for one, which makes each item two switches, {times(more, 'as much')}."
        )
    less = ratio_between(single, first_group(groups, "uthread", room=ONE, cpus_used=1), _EACH)
    if less:
        yield (
            "With room for one, the same program as pthreads takes"
            f" {times(less, 'as long as it does as uthreads')}."
        )


_CASES = Cases(
    experiment=NAME,
    title="An item through a bounded buffer",
    axis="{unit} an item (less is better)",
    metric=_EACH,
    caption="Median with its 95 % interval; one producer, one consumer, a mutex and two condition"
    " variables. The less room, the more switches an item needs: with room for one, two.",
    table="one item from the producer to the consumer, medians with 95 % intervals; switches the"
    " kernel or the runtime counted for each",
    case=_case,
    series=lambda trial: trial.model,
    labels=("model", "buffer"),
    columns={
        "{unit}": median_cell(_EACH),
        "switches": switches_for("items"),
    },
    says=_says,
)

figures = _CASES.figures
tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
