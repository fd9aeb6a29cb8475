# SPDX-License-Identifier: Apache-2.0
"""The chapter of `peers`: one hand-over in every runtime there is, and who is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.peers import NAME, OTHERS
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
from swtch.report.story import Story

_EACH = "each_{unit}"
_WAYS = {"yield": "giving up the turn", "channel": "through a channel"}
_NAMES = {"go": "Go", "boost": "Boost.Fiber", "tokio": "tokio", "java": "Java's virtual threads"}
HOW = {
    "go": "go is installed and make runs again",
    "boost": "Boost.Fiber and jansson are installed and tools/peers.sh has run",
    "tokio": "cargo is installed and tools/peers.sh has run",
    "java": "a JDK of at least 21 is installed and tools/peers.sh has run",
}


def _says(place: Place, groups: Sequence[Group]) -> Iterator[str]:
    uthread = first_group(groups, "uthread", way="yield")
    own = median_of(uthread, _EACH)
    if own is None:
        return
    parts = []
    for model in OTHERS:
        more = ratio_between(first_group(groups, model, way="yield"), uthread, _EACH)
        if more:
            parts.append(f"{_NAMES[model]} {times(more, 'as long')}")
    if parts:
        yield f"A uthread's yield to the next takes {phrase(own)}; {', '.join(parts)}."
    missing = [model for model in OTHERS if first_group(groups, model) is None]
    if missing and place.home:
        how = "; ".join(f"{_NAMES[model]}: once {HOW[model]}" for model in missing)
        yield f"Not measured here: {how}."


_CASES = Cases(
    experiment=NAME,
    title="One hand-over in other runtimes",
    axis="{unit} from one to the other (less is better)",
    metric=_EACH,
    caption="Two on one CPU; median over invocations of the median batch, with its 95 % interval."
    " A channel is each runtime's own; pthreads and uthreads have a mutex and a condition"
    " variable instead.",
    table="one hand-over from one to another on one CPU, medians with 95 % intervals; p10 and p90"
    " of an invocation's batches",
    case=lambda trial: shapes.spoken(_WAYS, trial.factors["way"]),
    series=lambda trial: trial.model,
    labels=("runtime", "by"),
    columns={
        "{unit}": median_cell(_EACH),
        "p10": count_cell("floor_{unit}"),
        "p90": count_cell("tail_{unit}"),
    },
    says=_says,
    brief=3,
)

figures = _CASES.figures
tables = _CASES.tables
terminal = _CASES.terminal


def sentences(story: Story) -> list[str]:
    return _CASES.sentences(story)
