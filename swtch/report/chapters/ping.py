# SPDX-License-Identifier: Apache-2.0
"""The chapter of `ping`: hand-overs by model and mechanism, on one CPU and on two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.ping import NAME
from swtch.records import Trial
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

_BY = {
    "cond": "condition variable",
    "sem": "semaphore",
    "wake": "wake_up_process()",
    "wake-mm": "wake_up_process(), own mm",
    "spin": "looking at memory",
}


def case_of(trial: Trial) -> str:
    """Mechanism and place, in words."""
    by = str(trial.factors["by"])
    where = "" if trial.factors["place"] == "same" else ", two CPUs"
    return _BY.get(by, by) + where


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    uthread = first_group(groups, "uthread", place="same", by="yield")
    pthread = first_group(groups, "pthread", place="same", by="futex")
    own, more = median_of(uthread, "each_{unit}"), ratio_between(pthread, uthread, "each_{unit}")
    if own and more:
        yield (
            f"A uthread hands over to the next in {phrase(own)}; two pthreads that do it by a futex"
            f" on one CPU need {times(more, 'as much')}."
        )
    process = first_group(groups, "process", place="same", by="futex")
    space = ratio_between(process, pthread, "each_{unit}")
    if space:
        yield (
            "Processes instead of pthreads, by the same futex, which adds the switch of address"
            f" spaces: {times(space, 'as much')}."
        )
    across = ratio_between(
        first_group(groups, "pthread", place="two", by="futex"), pthread, "each_{unit}"
    )
    if across:
        longer = times(across, "as long as to switch to it")
        yield f"To wake a pthread on another CPU takes {longer}."


_CASES = Cases(
    experiment=NAME,
    title="What one hand-over takes",
    axis="{unit} from one to the other (less is better)",
    metric="each_{unit}",
    caption="Median over invocations of the median batch, with its 95 % interval. On one CPU a"
    " hand-over is a switch; on two it wakes another CPU, or, by looking at memory, only moves"
    " a cache line.",
    table="one hand-over from one thread to another, medians with 95 % intervals; p10 and p90 of"
    " an invocation's batches; switches the kernel or the runtime counted for each",
    case=case_of,
    series=lambda trial: trial.model,
    labels=("model", "by"),
    columns={
        "{unit}": median_cell("each_{unit}"),
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
