# SPDX-License-Identifier: Apache-2.0
"""The chapter of `syscall`: calls that switch nobody, from the cheapest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.syscall import NAME
from swtch.report.casework import (
    Cases,
    counted,
    find,
    interval,
    median,
    ratio,
    switches_for,
    times,
    told,
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
    least = find(groups, "pthread", kind="getppid")
    own = interval(least, _EACH)
    way = ratio(find(groups, "pthread", kind="pipe"), least, _EACH)
    if own and way:
        yield (
            f"Into the kernel and back takes {told(own)} at least (getppid); the two calls of a"
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
    case=lambda trial: _KINDS[str(trial.factors["kind"])],
    series=lambda trial: trial.model,
    labels=("model", "call"),
    columns={
        "{unit}": median(_EACH),
        "p10": counted("floor_{unit}"),
        "p90": counted("tail_{unit}"),
        "switches": switches_for("calls"),
    },
    says=_says,
    brief=3,
)

figures = _CASES.figures
tables = _CASES.tables
terminal = _CASES.terminal
said = _CASES.said
