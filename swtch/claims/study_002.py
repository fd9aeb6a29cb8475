# SPDX-License-Identifier: Apache-2.0
"""The claims of study 002: what context switches and interrupts cost on ARM.

Its tasks were kernel code with address spaces of their own. Where there are no
kernel threads, processes stand for them, and a signal for an interrupt; each
verdict says whose figures it is about.

Its work took seconds and ours takes milliseconds, so a share of the work is
rescaled: what was added here, as a share of as much work as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from swtch.analysis import effects, stats
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group
from swtch.claims import Claim, Evidence, Ruling, missing, plain
from swtch.experiments import interrupt_overhead, pair_overhead
from swtch.experiments.pair_overhead import unit_of
from swtch.records import Model

PAIR = pair_overhead.NAME
INTERRUPT = interrupt_overhead.NAME

# The direct cost of the most switches over that of the fewest.
CONSTANT = (0.9, 1.1)
# The shortest of its pairs of tasks, and its tasks for interrupts.
PAIR_WORK_S = 6.6
TASK_WORK_S = 3.64
PAIR_PERCENT = 0.25
INTERRUPT_PERCENT = 0.38
INTERRUPT_INDIRECT_PERCENT = 0.09

# Whose figures a verdict is about: the nearest to the study's that was measured.
PAIR_SUBJECTS: tuple[tuple[Model, str, str], ...] = (
    ("kthread", "own", "kthreads in address spaces of their own"),
    ("process", "own", "processes"),
    ("kthread", "none", "kthreads"),
    ("pthread", "shared", "pthreads"),
    ("uthread", "shared", "uthreads"),
    ("coroutine", "shared", "coroutines"),
)
INTERRUPT_SUBJECTS: tuple[tuple[Model, str], ...] = (
    ("kthread", "interrupts of a kthread"),
    ("process", "signals to a process"),
    ("pthread", "signals to a pthread"),
    ("uthread", "signals to a uthread"),
)
NO_PAIRS = "no samples of pair-overhead in this run"
NO_INTERRUPTS = "no samples of interrupt-overhead in this run"
NO_SECONDS = "a share of seconds needs times, and this engine counts instructions"


def _pairs(evidence: Evidence) -> tuple[list[Group], str]:
    for model, space, name in PAIR_SUBJECTS:
        found = evidence.of(PAIR, model, space=space)
        if found:
            return found, name + _caveat(found[0])
    return [], ""


def _interrupts(evidence: Evidence) -> tuple[list[Group], str]:
    for model, name in INTERRUPT_SUBJECTS:
        found = evidence.of(INTERRUPT, model)
        if found:
            return found, name + _caveat(found[0])
    return [], ""


def _caveat(group: Group) -> str:
    emulated = group.place.engine == "exact" or group.trial.factors.get("accel") == "tcg"
    return " (emulated, so without caches to disturb)" if emulated else ""


def _unit(group: Group) -> str:
    return unit_of(group.place.engine)


def _most(groups: Sequence[Group], n: int) -> list[Group]:
    return [group for group in groups if group.trial.factors["n"] == n]


def _by(groups: list[Group], factor: str) -> dict[str, dict[int, Group]]:
    """By a factor, and of that by the number of switches or interrupts."""
    found: dict[str, dict[int, Group]] = {}
    for group in groups:
        factors = group.trial.factors
        found.setdefault(str(factors[factor]), {})[int(str(factors["n"]))] = group
    return found


def _each(
    groups: list[Group], factor: str, metric: str, judge: Callable[[Effect], Ruling]
) -> dict[str, Ruling]:
    """A ruling for each pair or task on the interval of a metric."""
    rulings = {}
    for group in groups:
        made = effects.level(group.values(metric), _unit(group))
        if made is not None:
            rulings[str(group.trial.factors[factor])] = judge(made)
    return rulings


# ---- pair-overhead ----


def _constant(evidence: Evidence) -> Ruling:
    groups, whose = _pairs(evidence)
    if not groups:
        return missing(NO_PAIRS)
    numbers = sorted({int(str(group.trial.factors["n"])) for group in groups})
    if len(numbers) < 2:
        return missing("two different numbers of switches are needed")
    metric = f"direct_{_unit(groups[0])}"
    few, many = (typical(_most(groups, n), metric) for n in (numbers[0], numbers[-1]))
    ratios = [many[block] / few[block] for block in sorted(few.keys() & many.keys())]
    here = effects.level(ratios, "x")
    if here is None:
        return missing("no comparable samples")
    return evidence.within(
        here, *CONSTANT, f"C of {numbers[-1]} switches over C of {numbers[0]}, {whose}"
    )


def typical(groups: Sequence[Group], metric: str) -> dict[int, float]:
    """By block: the median of the metric over the groups, which are pairs of tasks."""
    found: dict[int, list[float]] = {}
    for group in groups:
        for block, cost in group.by_block(metric).items():
            found.setdefault(block, []).append(cost)
    return {block: float(stats.median(costs)) for block, costs in found.items()}


def slopes(by_n: Mapping[int, Group], metric: str) -> list[float]:
    """By block: how much more of the metric one switch more is, by least squares."""
    values = {n: group.by_block(metric) for n, group in by_n.items()}
    blocks = set.intersection(*(set(of) for of in values.values()))
    centre = sum(values) / len(values)
    spread = sum((n - centre) ** 2 for n in values)
    return [
        sum((n - centre) * of[block] for n, of in values.items()) / spread
        for block in sorted(blocks)
    ]


def _grows(evidence: Evidence) -> Ruling:
    groups, whose = _pairs(evidence)
    if not groups:
        return missing(NO_PAIRS)
    rulings: dict[str, Ruling] = {}
    warm: list[float] = []
    for pair, by_n in _by(groups, "pair").items():
        unit = _unit(groups[0])
        if len(by_n) < 2:
            continue
        made = effects.level(slopes(by_n, f"indirect_{unit}"), f"{unit} a switch")
        if made is not None:
            rulings[pair] = evidence.above(made, 0)
            warm.append(float(stats.median(slopes(by_n, f"indirect_warm_{unit}"))))
    if not rulings:
        return missing("two different numbers of switches are needed")
    ruling = evidence.all_of(rulings, f"indirect cost of a switch more, {whose}")
    return _told_warm(ruling, warm, f"{_unit(groups[0])} a switch")


def _told_warm(ruling: Ruling, warm: list[float], unit: str) -> Ruling:
    """With what it would be if C were the warm one, where that is another verdict."""
    if ruling.verdict != "differs" or min(warm) <= 0:
        return ruling
    least, most = plain(min(warm)), plain(max(warm))
    why = (
        f"{ruling.why}. With C from warm caches it would be {least} to {most}"
        f" {unit}: a switch between these tasks finds more of its own in the caches than an"
        " eviction leaves"
    )
    return Ruling(ruling.verdict, why, ruling.here, ruling.threshold)


def _exceeds(evidence: Evidence) -> Ruling:
    groups, whose = _pairs(evidence)
    last = _most(groups, pair_overhead.MOST)
    if not last:
        return missing(NO_PAIRS if not groups else f"no trial of {pair_overhead.MOST} switches")
    rulings = _each(last, "pair", f"excess_{_unit(last[0])}", lambda made: evidence.above(made, 0))
    return evidence.all_of(
        rulings, f"indirect less direct cost of {pair_overhead.MOST} switches, {whose}"
    )


def _little(evidence: Evidence) -> Ruling:
    groups, whose = _pairs(evidence)
    last = _most(groups, pair_overhead.MOST)
    if not last:
        return missing(NO_PAIRS if not groups else f"no trial of {pair_overhead.MOST} switches")
    if evidence.place.engine == "exact":
        return missing(NO_SECONDS)
    rulings = _shares(evidence, last, "pair", "added_us", PAIR_WORK_S, PAIR_PERCENT)
    return evidence.all_of(
        rulings, f"added to {PAIR_WORK_S:g} s of work, {whose}{_of_what_ran(last)}"
    )


def _of_what_ran(groups: Sequence[Group]) -> str:
    """The share before it is rescaled."""
    values = [group.values("added_percent") for group in groups]
    percent = [float(stats.median(of)) for of in values if of]
    if not percent:
        return ""
    least, most = plain(min(percent)), plain(max(percent))
    return f"; of the milliseconds measured it is {least} to {most} %"


def _shares(
    evidence: Evidence, groups: list[Group], factor: str, metric: str, seconds: float, most: float
) -> dict[str, Ruling]:
    """What was added, as a share of so much work: more than nothing, and not more than most."""
    rulings = {}
    for group in groups:
        shares = [100 * us / (seconds * 1e6) for us in group.values(metric)]
        made = effects.level(shares, "%")
        if made is not None:
            rulings[str(group.trial.factors[factor])] = evidence.within(made, 0, most)
    return rulings


def losses_of(groups: Sequence[Group]) -> dict[str, dict[int, float]]:
    """By task and block: what the task lost, the mean over its pairs."""
    found: dict[str, dict[int, list[float]]] = {}
    for group in groups:
        for letter in "ab":
            task = str(group.trial.factors[f"task_{letter}"])
            for block, loss in group.by_block(f"share_{letter}_{_unit(group)}").items():
                found.setdefault(task, {}).setdefault(block, []).append(loss)
    return {
        task: {block: float(stats.mean(losses)) for block, losses in by_block.items()}
        for task, by_block in found.items()
    }


def _difference(a: Mapping[int, float], b: Mapping[int, float], unit: str) -> Effect | None:
    return effects.level([a[block] - b[block] for block in sorted(a.keys() & b.keys())], unit)


def _who_suffers(evidence: Evidence) -> Ruling:
    groups, whose = _pairs(evidence)
    last = _most(groups, pair_overhead.MOST)
    losses = losses_of(last)
    if not losses:
        return missing(NO_PAIRS if not groups else f"no trial of {pair_overhead.MOST} switches")
    rulings: dict[str, Ruling] = {}
    # From these it follows for the rest.
    for more, less in (("sort", "crc"), ("aes", "sort"), ("deflate", "sort")):
        made = _difference(losses.get(more, {}), losses.get(less, {}), _unit(last[0]))
        if made is None:
            return missing(f"{more} and {less} are needed")
        rulings[f"{more} over {less}"] = evidence.above(made, 0)
    middle = {task: float(stats.median(list(of.values()))) for task, of in losses.items()}
    order = sorted(middle, key=lambda task: middle[task])
    told = ", ".join(f"{task} {plain(middle[task])}" for task in order)
    unit = _unit(last[0])
    return evidence.all_of(
        rulings, f"lost by each task in {pair_overhead.MOST} switches, {whose}: {told} {unit}"
    )


# ---- interrupt-overhead ----


def _direct_exceeds(evidence: Evidence) -> Ruling:
    groups, whose = _interrupts(evidence)
    last = _most(groups, interrupt_overhead.MOST)
    if not last:
        return missing(NO_INTERRUPTS)
    rulings = _each(last, "task", f"excess_{_unit(last[0])}", lambda made: evidence.above(made, 0))
    return evidence.all_of(
        rulings, f"direct less indirect cost of {interrupt_overhead.MOST} {whose}"
    )


def _interrupts_add_little(evidence: Evidence) -> Ruling:
    groups, whose = _interrupts(evidence)
    last = _most(groups, interrupt_overhead.MOST)
    if not last:
        return missing(NO_INTERRUPTS)
    if evidence.place.engine == "exact":
        return missing(NO_SECONDS)
    rulings = _shares(evidence, last, "task", "added_us", TASK_WORK_S, INTERRUPT_PERCENT)
    for group in last:
        shares = [us / (TASK_WORK_S * 1e4) for us in group.values("indirect_us")]
        made = effects.level(shares, "%")
        if made is not None:
            case = f"{group.trial.factors['task']} indirect"
            limit = INTERRUPT_INDIRECT_PERCENT
            rulings[case] = evidence.within(made, -limit, limit)
    return evidence.all_of(
        rulings,
        f"added to {TASK_WORK_S:g} s of work by {interrupt_overhead.MOST}"
        f" {whose}{_of_what_ran(last)}",
    )


def _disturbs_less(evidence: Evidence) -> Ruling:
    """99 switches leave a task and come back to it 49 times."""
    pairs, whose = _pairs(evidence)
    interrupts, by_what = _interrupts(evidence)
    last = _most(pairs, pair_overhead.MOST)
    losses = losses_of(last)
    alone = _by(interrupts, "task")
    if not losses or not alone:
        return missing("pair-overhead and interrupt-overhead are both needed", "run both")
    rulings: dict[str, Ruling] = {}
    for task, by_n in alone.items():
        group = by_n.get(interrupt_overhead.MOST)
        if group is None or task not in losses:
            continue
        unit = _unit(group)
        made = _difference(losses[task], group.by_block(f"share_{unit}"), unit)
        if made is not None:
            rulings[task] = evidence.above(made, 0)
    if not rulings:
        return missing("no task was measured both ways")
    return evidence.all_of(
        rulings,
        f"lost by a task that was left {interrupt_overhead.MOST} times, {whose}, less what it"
        f" lost by as many {by_what.partition(' (')[0]}",
    )


CLAIMS = (
    Claim(
        "002.1",
        "002",
        PAIR,
        "The direct cost of a switch does not depend on how many there are",
        "48 us for every n",
        _constant,
    ),
    Claim(
        "002.2",
        "002",
        PAIR,
        "The indirect cost grows with the number of switches, for every pair of tasks",
        "figure 2: it does for all six",
        _grows,
    ),
    Claim(
        "002.3",
        "002",
        PAIR,
        "Of 99 switches the indirect cost exceeds the direct, for every pair of tasks",
        "6.9 ms (aes and crc), 10.3 ms (sort and deflate) against 4.75 ms",
        _exceeds,
    ),
    Claim(
        "002.4",
        "002",
        PAIR,
        "99 switches add a small share to seconds of work, 0.25 % at most",
        "0.17 to 0.25 % of 6.6 to 7.2 s",
        _little,
    ),
    Claim(
        "002.5",
        "002",
        PAIR,
        "CRC suffers least from switches, then sort, AES and deflate most",
        "crc below 2 ms, sort 2.5 ms, aes and deflate 6 to 8 ms (figure 3)",
        _who_suffers,
    ),
    Claim(
        "002.6",
        "002",
        INTERRUPT,
        "The direct cost of interrupts exceeds the indirect, for every task",
        "0.28 to 0.38 % in all, of which 0.01 to 0.09 % is indirect",
        _direct_exceeds,
    ),
    Claim(
        "002.7",
        "002",
        INTERRUPT,
        "49 interrupts add a small share to seconds of work: 0.38 % at most, 0.09 % indirect",
        "0.28 to 0.38 %; indirect: sort 0.01, deflate 0.02, aes 0.09, crc 0.05 %",
        _interrupts_add_little,
    ),
    Claim(
        "002.8",
        "002",
        INTERRUPT,
        "An interrupt disturbs a task less than a switch does",
        "0.01 to 0.09 % of 49 interrupts against 0.10 to 0.18 % of 99 switches",
        _disturbs_less,
    ),
)
