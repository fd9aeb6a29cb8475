# SPDX-License-Identifier: Apache-2.0
"""The chapter of `sync`: one sum, kept right in five ways, on one CPU and on two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.sync import NAME, THREADS
from swtch.records import Trial
from swtch.report import shapes
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
_WAYS = {
    "own": "a counter each",
    "packed": "a counter each, one cache line",
    "shared": "atomic",
    "spin": "spin lock",
    "mutex": "mutex",
}


def _cpus(trial: Trial) -> str:
    return "one CPU" if trial.factors["cpus_used"] == 1 else "two CPUs"


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    cpus = max((int(str(g.trial.factors["cpus_used"])) for g in groups if g.good), default=1)
    own = first_group(groups, "pthread", way="own", cpus_used=cpus)
    base = median_of(own, _EACH)
    atomic, mutex = (
        ratio_between(first_group(groups, "pthread", way=way, cpus_used=cpus), own, _EACH)
        for way in ("shared", "mutex")
    )
    if base and atomic and mutex:
        where = "one CPU" if cpus == 1 else "two CPUs"
        yield (
            f"Four pthreads on {where} make an addition in {phrase(base)} with a counter each,"
            f" one atomic counter takes {times(atomic, 'as long')}, one under a mutex"
            f" {times(mutex, 'as long')}."
        )


_CASES = Cases(
    experiment=NAME,
    title=f"An addition to one sum by {THREADS} threads",
    axis="{unit} an addition, all threads together (less is better)",
    metric=_EACH,
    caption="Median with its 95 % interval; a little work between two additions is in all of them."
    " On one CPU nobody adds at the same time, and a lock is only in the way of who is stopped"
    " with it.",
    table=f"one addition of {THREADS} threads together, medians with 95 % intervals; the sum was"
    " right in every sample that the gate “counter” does not mark",
    case=lambda trial: f"{shapes.spoken(_WAYS, trial.factors['way'])}, {_cpus(trial)}",
    series=lambda trial: trial.model,
    labels=("model", "sum"),
    columns={
        "{unit}": median_cell(_EACH),
        "switches": switches_for("additions"),
    },
    says=_says,
)

figures = _CASES.figures
tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
