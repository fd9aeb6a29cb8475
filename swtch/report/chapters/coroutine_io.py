# SPDX-License-Identifier: Apache-2.0
"""The chapter of `coroutine-io`: a round trip's time, and the clients' CPU time for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from swtch.analysis.findings import Group, Place
from swtch.experiments.coroutine_io import NAME, TRAP_AT
from swtch.records import Trial
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
from swtch.report.charts import COLOURS, Figure
from swtch.report.story import Story

_EACH = "each_{unit}"
_CPU = "cpu_{unit}"
FLOOR = "no threads"
_KNOWN = {FLOOR: "#7F8C8D", **COLOURS}


def _series(trial: Trial) -> str:
    return FLOOR if trial.factors["by"] == "loop" else trial.model


def _case(trial: Trial) -> str:
    """A pthread's way to wait is read(); for the others that is a case of its own."""
    number = trial.factors["connections"]
    asleep = trial.factors["by"] == "blocking" and trial.model != "pthread"
    return "".join(
        (
            f"{number} connection{'' if number == 1 else 's'}",
            ", asleep in read()" if asleep else "",
            "" if trial.factors["cpus_used"] == 1 else ", two CPUs",
        )
    )


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    def at(model: str, by: str, cpus: int = 1) -> Group | None:
        return first_group(groups, model, by=by, connections=TRAP_AT, cpus_used=cpus)

    floor, parked = at("pthread", "loop"), at("coroutine", "epoll")
    own, more = median_of(floor, _CPU), ratio_between(parked, floor, _CPU)
    if own and more:
        yield (
            f"With {TRAP_AT} connections and the server on the same CPU, a round trip costs an"
            f" epoll loop without threads {phrase(own)} of its CPU time; as coroutines it costs"
            f" {times(more, 'as much')}."
        )
    threads = ratio_between(at("pthread", "blocking"), parked, _CPU)
    if threads:
        yield (
            "A pthread for each connection costs"
            f" {times(threads, 'as much CPU time as coroutines')}."
        )
    for cpus, who in ((1, "Coroutines"), (2, "With the server on another CPU, coroutines")):
        trap = ratio_between(
            at("coroutine", "blocking", cpus), at("coroutine", "epoll", cpus), _EACH
        )
        if trap:
            yield (
                f"{who} that sleep in read(), and all others with them, need"
                f" {times(trap, 'as long for a round trip')} as parked ones."
            )
    asleep = ratio_between(at("uthread", "blocking"), at("uthread", "epoll"), _EACH)
    if asleep:
        yield (
            f"Uthreads that sleep in read() need {times(asleep, 'as long as parked ones')}: a spare"
            " worker has to take over before each sleep."
        )


_CASES = Cases(
    experiment=NAME,
    title="A round trip under I/O",
    axis="{unit} a round trip (less is better)",
    metric=_EACH,
    caption="Median with its 95 % interval: the time of all round trips over their number, so that"
    " what clients do while others wait makes it shorter. Pthreads wait in read(), the others are"
    " parked until epoll_wait() names them; asleep in read(): they, too, are not.",
    table="one message and its echo, medians with 95 % intervals: of the clock, of the clients' CPU"
    " time; for each, switches that the kernel counted of the clients and that their runtime did,"
    " and calls of epoll_wait(); messages that the server found at once",
    case=_case,
    series=_series,
    labels=("clients", "connections"),
    columns={
        "{unit}": median_cell(_EACH),
        "CPU {unit}": median_cell(_CPU),
        "kernel's switches": count_cell("kernel_switches"),
        "own": count_cell("own_switches"),
        "epoll_wait": count_cell("waits"),
        "served at once": count_cell("batch"),
    },
    says=_says,
    known=_KNOWN,
)

_COST = replace(
    _CASES,
    part="cpu",
    title="What a round trip costs the clients",
    axis="{unit} of CPU time a round trip (less is better)",
    metric=_CPU,
    caption="CPU time of the clients' kernel threads, without the server's: median with its 95 %"
    " interval. Clients without threads make the same system calls, so what is right of them is"
    " what threads or coroutines add.",
)


def figures(story: Story) -> list[Figure]:
    return [*_CASES.figures(story), *_COST.figures(story)]


tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
