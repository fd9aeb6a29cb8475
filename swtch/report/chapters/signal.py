# SPDX-License-Identifier: Apache-2.0
"""The chapter of `signal`: from a signal that is dropped to one that interrupts another CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.signal import NAME, SELF
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
    switches_for,
    times,
)

_EACH = "each_{unit}"
_KINDS = {
    "ignored": "sent, ignored",
    "taken": "sent, fetched, no handler",
    "handler": "sent, handler",
    "altstack": "sent, handler on its own stack",
    "pong-same": "to another, same CPU",
    "pong-two": "to another, two CPUs",
    "interrupt": "into one that computes, two CPUs",
}


def _series(trial: Trial) -> str:
    return "to oneself" if trial.factors["kind"] in SELF else "to another"


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    handler = first_group(groups, kind="handler")
    own = median_of(handler, _EACH)
    more = ratio_between(handler, first_group(groups, kind="ignored"), _EACH)
    if own and more:
        yield (
            f"A signal to oneself with an empty handler takes {phrase(own)},"
            f" {times(more, 'as long as one that is dropped')}:"
            " the rest is the way to the handler and back."
        )
    across = ratio_between(first_group(groups, kind="interrupt"), handler, _EACH)
    if across:
        yield (
            "Until the handler of a thread that computes on another CPU has run, it takes"
            f" {times(across, 'as long')}."
        )


_CASES = Cases(
    experiment=NAME,
    title="What a signal takes",
    axis="{unit} a signal (less is better)",
    metric=_EACH,
    caption="Median over invocations of the median batch, with its 95 % interval. To another on"
    " the same CPU: one switch for each. Into one that computes: until its handler has run.",
    table="one signal, medians with 95 % intervals; p10 and p90 of an invocation's batches;"
    " switches the kernel counted for each signal between two",
    case=lambda trial: shapes.spoken(_KINDS, trial.factors["kind"]),
    series=_series,
    labels=("signal", "which"),
    columns={
        "{unit}": median_cell(_EACH),
        "p10": count_cell("floor_{unit}"),
        "p90": count_cell("tail_{unit}"),
        "switches": switches_for("handovers"),
    },
    says=_says,
    brief=3,
)

figures = _CASES.figures
tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
