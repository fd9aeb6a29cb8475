# SPDX-License-Identifier: Apache-2.0
"""The chapter of `drop-in`: one program in two models, side by side, and what is aimed at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from swtch.analysis import effects
from swtch.analysis.findings import Group, Place, effect
from swtch.claims.rules import Question, ask
from swtch.experiments.drop_in import (
    AIMS,
    HOGS,
    ITEM_RATE,
    NAME,
    P99,
    SOME,
    THREADS,
    THROUGHPUT,
    Aim,
)
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

MODELS = {"pthread": "as it is", "uthread": "under uthread-run"}
_KNOWN = {name: COLOURS[model] for model, name in MODELS.items()}


def _series(trial: Trial) -> str:
    return MODELS[trial.model]


def _case(trial: Trial) -> str:
    factors = trial.factors
    if factors["way"] != "echo":
        return f"{factors['way']}, {factors['threads']} threads"
    parts = [f"{factors['connections']} connections"]
    if factors["workers"] != 1:
        parts.append(f"{factors['workers']} workers")
    if factors["hogs"]:
        parts.append("beside a hog a CPU")
    return ", ".join(parts)


def _pair(groups: Sequence[Group], **factors: object) -> tuple[Group, Group] | None:
    """The program on uthreads, and as it is; None where either has no numbers."""
    own = first_group(groups, "uthread", **factors)
    plain = first_group(groups, "pthread", **factors)
    if own is None or plain is None or not (own.values(P99) and plain.values(P99)):
        return None
    return own, plain


# In the words of a sentence: the cases that every depth has, and by which metric.
_SAYS: tuple[tuple[Mapping[str, object], str, str, str], ...] = (
    (
        {"way": "echo", "connections": SOME, "workers": 1, "hogs": 0},
        THROUGHPUT,
        f"The server with {SOME} connections answers",
        "requests a second",
    ),
    (
        {"way": "echo", "connections": SOME, "workers": 1, "hogs": HOGS},
        P99,
        "Beside a thread that computes on its CPU, 1 % of its answers take more than",
        "ns",
    ),
    *(
        (
            {"way": "queue", "threads": threads},
            ITEM_RATE,
            f"{threads} threads move",
            "million items a second through their buffer",
        )
        for threads in THREADS
    ),
)


def _says(place: Place, groups: Sequence[Group]) -> Iterator[str]:
    for factors, metric, begin, unit in _SAYS:
        pair = _pair(groups, **factors)
        if pair is None:
            continue
        median = median_of(pair[0], metric, unit)
        ratio = ratio_between(*pair, metric)
        if median and ratio:
            yield (
                f"{begin} {phrase(median)} under uthread-run,"
                f" {times(ratio, 'as long' if metric == P99 else 'as many')} as without."
            )
    reasons = dict.fromkeys(
        f"{_case(group.trial)}, {_series(group.trial)}: {why}"
        for group in groups
        for sample in group.good
        if (why := sample.detail.get("unmeasured"))
    )
    for reason in reasons:
        yield f"Not measurable here: {reason}."


def judged(aim: Aim, groups: Sequence[Group], level: float) -> str:
    """The aim with its verdict, by the rule of all verdicts; nothing where it was not measured."""
    pairs = (
        _pair(groups, **group.trial.factors)
        for group in groups
        if group.trial.model == "uthread" and aim.about(group.trial)
    )
    pair = next((pair for pair in pairs if pair is not None), None)
    ratio = effect(*pair, aim.metric) if pair else None
    if ratio is None:
        return ""
    ruling = ask(Question(ratio, aim.low, aim.high), level, "")
    here = phrase(ratio.interval(level), "times")
    why = f" ({ruling.why})" if ruling.why else ""
    return f"Aim: {aim.text}, {aim.wanted} times those of pthreads. {here}: {ruling.verdict}{why}."


_CASES = Cases(
    experiment=NAME,
    title="What a server for pthreads answers, as it is and on uthreads",
    axis="requests a second (more is better)",
    metric=THROUGHPUT,
    caption="The same file each time; median with its 95 % interval. Where a server is not busy,"
    " the load is the limit: see its CPU time.",
    table="programs for pthreads as they are and under uthread-run, medians with 95 % intervals;"
    " requests or items a second, what 99 % of them take at most (of the servers in an open loop,"
    " from the moment each was meant to be sent; of a queue from its producer to its consumer; of a"
    " mutex until it is locked), CPU time for one, the server's share of its CPUs, what half and"
    " 99.9 % take at most, what 99 % take from the moment they were sent, the server's kernel"
    " threads, and switches of the kernel that threads asked for by waiting",
    case=_case,
    series=_series,
    labels=("program", "what it does"),
    columns={
        "requests/s": median_cell(THROUGHPUT),
        "items, million/s": median_cell(ITEM_RATE),
        "p99 ns": median_cell(P99),
        "CPU ns": median_cell("cpu_ns"),
        "busy": count_cell("busy"),
        "p50 ns": count_cell("p50_ns"),
        "p99.9 ns": count_cell("p999_ns"),
        "p99 from sending": count_cell("answer_p99_ns"),
        "kernel threads": count_cell("kernel_threads"),
        "kernel's switches": count_cell("kernel_switches"),
    },
    says=_says,
    brief=3,
    known=_KNOWN,
)

_ITEMS = replace(
    _CASES,
    part="items",
    title="What threads around one lock get done",
    axis="million items a second (more is better)",
    metric=ITEM_RATE,
    caption="The same file each time, and the same items in all whatever the number of threads;"
    " median with its 95 % interval.",
)

_TAIL = replace(
    _CASES,
    part="tail",
    title="How late one of a hundred is",
    axis="ns, 99 % of the requests or items take at most (less is better)",
    metric=P99,
    caption="Requests at moments fixed beforehand, each timed from its moment on; items from before"
    " their producer asks for the lock; of the mutex, each lock. Median over invocations, with its"
    " 95 % interval.",
)


def figures(story: Story) -> list[Figure]:
    return [picture for cases in (_CASES, _ITEMS, _TAIL) for picture in cases.figures(story)]


def sentences(story: Story) -> list[str]:
    aims = []
    for place in story.places_of(NAME):
        level = story.levels.get(place.engine, effects.LEVEL)
        groups = story.groups_of(NAME, place)
        aims += [said for aim in AIMS if (said := judged(aim, groups, level))]
    return [*_CASES.sentences(story), *aims]


tables = _CASES.tables
terminal = _CASES.terminal
