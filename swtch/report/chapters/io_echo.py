# SPDX-License-Identifier: Apache-2.0
"""The chapter of `io-echo`: requests a second, and how late the slowest of a hundred is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from swtch.analysis.findings import Group, Place
from swtch.experiments.io_echo import HEAVY, MOST, NAME, P99, THROUGHPUT
from swtch.records import Interval, Trial
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
from swtch.report.chapters.peers import HOW
from swtch.report.charts import COLOURS, Figure
from swtch.report.story import Story, number

_CPU = "cpu_ns"
SERVERS = {
    ("pthread", "loop"): "epoll loop",
    ("pthread", "threads"): "pthreads",
    ("uthread", "epoll"): "uthreads, epoll",
    ("uthread", "uring"): "uthreads, io_uring",
    ("go", "net"): "Go",
    ("tokio", "net"): "tokio",
}
_KNOWN = {
    "epoll loop": "#7F8C8D",
    "pthreads": COLOURS["pthread"],
    "uthreads, epoll": COLOURS["uthread"],
    "uthreads, io_uring": COLOURS["coroutine"],
    "Go": COLOURS["go"],
    "tokio": COLOURS["tokio"],
}


def _series(trial: Trial) -> str:
    by = str(trial.factors["by"])
    return SERVERS.get((trial.model, by), f"{trial.model}, {by}")


def _case(trial: Trial) -> str:
    parts = [f"{trial.factors['connections']} connections"]
    if trial.factors["rate"] == HEAVY:
        parts.append("heavy")
    if trial.factors["workers"] != 1:
        parts.append(f"{trial.factors['workers']} workers")
    if trial.factors["hogs"]:
        parts.append("beside a hog a CPU")
    return ", ".join(parts)


def _at(groups: Sequence[Group], server: str, hogs: int) -> Group | None:
    """With the connections and the load that every depth has, and one worker."""
    model, by = next(key for key, name in SERVERS.items() if name == server)
    group = first_group(groups, model, by=by, connections=MOST, rate=HEAVY, hogs=hogs)
    # One that was not measurable here has samples, and no numbers.
    return group if group is not None and group.values(P99) else None


def _ratios(
    groups: Sequence[Group], a: str, others: Sequence[str], metric: str, hogs: int
) -> list[tuple[str, Interval]]:
    """How many times each other's median that of `a` is."""
    found = []
    for name in others:
        ratio = ratio_between(_at(groups, a, hogs), _at(groups, name, hogs), metric)
        if ratio is not None:
            found.append((name, ratio))
    return found


def _quiet(groups: Sequence[Group], own: str) -> Iterator[str]:
    others = ("epoll loop", "pthreads", "Go", "tokio")
    through = median_of(_at(groups, own, 0), THROUGHPUT, "requests/s")
    if through is None:
        return
    clauses = [
        f"{times(ratio, 'as many')} as {name}"
        for name, ratio in _ratios(groups, own, others, THROUGHPUT, 0)
    ]
    yield (
        f"With {MOST} connections and one worker, a uthread for each ({own}) answers"
        f" {phrase(through)}{''.join(f'; {clause}' for clause in clauses)}."
    )
    cost = median_of(_at(groups, own, 0), _CPU, "ns")
    more = _ratios(groups, own, others[:1], _CPU, 0)
    if cost and more:
        yield (
            f"The server's CPU time for a request is {phrase(cost)} then,"
            f" {times(more[0][1], 'as much')} as the loop's: where the load is the limit, that is"
            " what differs."
        )
    late = _ratios(groups, own, others[:1], P99, 0)
    tail = median_of(_at(groups, own, 0), P99, "ns")
    if tail and late:
        yield (
            f"Of {number(HEAVY)} requests a second 1 % take more than {phrase(tail)},"
            f" {times(late[0][1], 'as long')} as the loop's."
        )


def _hogs(groups: Sequence[Group], own: str) -> Iterator[str]:
    tail = median_of(_at(groups, own, 1), P99, "ns")
    if tail is None:
        return
    clauses = [
        f"{times(ratio, 'as long')} as {name}"
        for name, ratio in _ratios(groups, own, ("epoll loop", "pthreads", "Go", "tokio"), P99, 1)
    ]
    yield (
        f"Beside a hog on its CPU 1 % of them ({own}) take more than"
        f" {phrase(tail)}{''.join(f'; {clause}' for clause in clauses)}."
    )


def _missing(place: Place, groups: Sequence[Group]) -> Iterator[str]:
    """Who was not measured, and why: of each reason once."""
    reasons = dict.fromkeys(
        f"{_series(group.trial)}: {why}"
        for group in groups
        for sample in group.good
        if (why := sample.detail.get("unmeasured"))
    )
    for reason in reasons:
        yield f"Not measurable here: {reason}."
    absent = [model for model in ("go", "tokio") if first_group(groups, model) is None]
    if absent and place.home:
        how = "; ".join(f"{SERVERS[model, 'net']}: once {HOW[model]}" for model in absent)
        yield f"Not measured here: {how}."


def _says(place: Place, groups: Sequence[Group]) -> Iterator[str]:
    for own in ("uthreads, epoll", "uthreads, io_uring"):
        yield from _quiet(groups, own)
        yield from _hogs(groups, own)
    yield from _missing(place, groups)


_CASES = Cases(
    experiment=NAME,
    title="Requests that a server answers",
    axis="requests a second (more is better)",
    metric=THROUGHPUT,
    caption="Every connection asks again when it was answered; median with its 95 % interval. Where"
    " a server is not busy, the load is the limit: see its CPU time.",
    table="an echo server over TCP on the loopback device, medians with 95 % intervals; requests a"
    " second of a closed loop, the server's CPU time for one and its share of the time; of an open"
    " loop what half, 99 % and 99.9 % of the requests take at most, from the moment each was meant"
    " to be sent, what 99 % take from the moment they were, and how late the load sent 1 % of them;"
    " of the connections the share that the least served got of the most served one's",
    case=_case,
    series=_series,
    labels=("server", "connections"),
    columns={
        "requests/s": median_cell(THROUGHPUT),
        "p99 ns": median_cell(P99),
        "CPU ns": median_cell(_CPU),
        "busy": count_cell("busy"),
        "p50 ns": count_cell("p50_ns"),
        "p99.9 ns": count_cell("p999_ns"),
        "p99 from sending": count_cell("answer_p99_ns"),
        "load late": count_cell("load_late_ns"),
        "least served": count_cell("least_served"),
        "kernel's switches": count_cell("kernel_switches"),
        "own": count_cell("own_switches"),
    },
    says=_says,
    known=_KNOWN,
)

_TAIL = replace(
    _CASES,
    part="tail",
    title="How late a request is answered",
    axis="ns, 99 % of the requests take at most (less is better)",
    metric=P99,
    caption="Requests at moments fixed beforehand, each timed from its moment on, whatever became"
    " of those before; median over invocations, with its 95 % interval.",
)


def figures(story: Story) -> list[Figure]:
    return [*_CASES.figures(story), *_TAIL.figures(story)]


tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
