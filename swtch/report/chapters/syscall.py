# SPDX-License-Identifier: Apache-2.0
"""The chapter of `syscall`: calls that switch nobody, from the cheapest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.syscall import NAME
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
    "function": "a function",
    "vdso": "clock_gettime(), vDSO",
    "clock": "clock_gettime(), by number",
    "getppid": "getppid()",
    "rusage": "getrusage()",
    "wake": "futex(): wake nobody",
    "yield": "sched_yield() to nobody",
    "eventfd": "eventfd: write and read",
    "pipe": "pipe: write and read",
    "uyield": "uthread_yield() to nobody",
}


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    least = first_group(groups, "pthread", kind="getppid")
    own = median_of(least, _EACH)
    way = ratio_between(first_group(groups, "pthread", kind="pipe"), least, _EACH)
    if own and way:
        yield (
            f"Into the kernel and back takes {phrase(own)} at least (getppid); the two calls of a"
            f" pipe's hand-over, with nobody there, {times(way, 'as long')}."
        )


_CASES = Cases(
    experiment=NAME,
    title="What a call takes that switches nobody",
    axis="{unit} a call (less is better)",
    metric=_EACH,
    caption="Median over invocations of the median batch of calls, with its 95 % interval. The"
    " function is what the loop itself takes; it is in all others.",
    table="one call, or one pair of calls, medians with 95 % intervals; p10 and p90 of an"
    " invocation's batches; switches the kernel counted for each, of which there should be none",
    case=lambda trial: shapes.spoken(_KINDS, trial.factors["kind"]),
    series=lambda trial: trial.model,
    labels=("model", "call"),
    columns={
        "{unit}": median_cell(_EACH),
        "p10": count_cell("floor_{unit}"),
        "p90": count_cell("tail_{unit}"),
        "switches": switches_for("calls"),
    },
    says=_says,
    brief=3,
)

figures = _CASES.figures
tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
