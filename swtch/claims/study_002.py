# SPDX-License-Identifier: Apache-2.0
"""The claims of study 002: what context switches and interrupts cost on ARM.

Its tasks were kernel code with address spaces of their own. Where there are no
kernel threads, processes stand for them, and a signal for an interrupt; each
verdict says whose figures it is about.

What the study calls indirect it got by subtracting n times C, a switch by itself
with empty caches, which its processor's caches were after every switch. Where they are
not, that C is no switch's, and I mostly says so. What the tasks lose (A + B) and what the
switches take between them are measured each for itself, and the claims are about those.

A share of the work depends on how much work there is, and what took 6.6 s at 120 MHz takes
a quarter of a second today. So work is compared in cycles of the processor: what was
added here, as a share of as many cycles as the study's work had. A processor whose
switches need as many cycles as its did has the study's share.

What tasks lose is none on a processor whose caches survive a switch, and against 0 no number
of blocks tells none from little: such a claim could hold, but never be denied. So more is by a
quarter of what a switch takes itself, each time that a task is left; where the study has more
it is nearly a whole switch, or several.

Instructions know no caches, and all but the first of the claims are about caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from swtch.analysis import effects, stats
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group
from swtch.claims import Claim, Evidence, Ruling, missing, plain
from swtch.claims.rules import NOT_COMPARABLE
from swtch.experiments import interrupt_overhead, pair_overhead
from swtch.experiments.pair_overhead import case_of, unit_of
from swtch.records import Model, Trial

PAIR = pair_overhead.NAME
INTERRUPT = interrupt_overhead.NAME

# One switch among the most over one among the fewest, and what counts as few: with one
# switch there is only the first, which finds no trace of another.
CONSTANT = (0.9, 1.1)
FEWEST = 9
# What a task loses each time it is left, in switches: so much counts as more.
MORE = 0.25
MORE_TEXT = "a quarter of a switch's time"
# In 99 switches each task of a pair is left, and come back to, so often.
RETURNS = pair_overhead.MOST // 2
# By interrupts and by switches the study's crc loses about as much: 1.8 and at most 2 ms.
ALIKE = ("crc",)
SWITCHES = "switches"
# The shortest of its pairs of tasks, and its tasks for interrupts, in thousands of cycles.
CLOCK_MHZ = 120
PAIR_WORK_S = 6.6
TASK_WORK_S = 3.64
PAIR_KILOCYCLES = PAIR_WORK_S * CLOCK_MHZ * 1e3
TASK_KILOCYCLES = TASK_WORK_S * CLOCK_MHZ * 1e3
# What the study says, and what is rounded to that.
PAIR_PERCENT = 0.25
PAIR_INDIRECT_PERCENT = 0.18
INTERRUPT_PERCENT = 0.38
INTERRUPT_INDIRECT_PERCENT: Mapping[str, float] = {
    "sort": 0.01,
    "deflate": 0.02,
    "aes": 0.09,
    "crc": 0.05,
}
ROUNDING = 0.005
MOST_INDIRECT = ("aes", "deflate")

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
NO_MOST = f"no trial of {pair_overhead.MOST} switches"
NO_CACHES = "what tasks lose is the caches' doing, and instructions know no caches"
TWO_NUMBERS = "two different numbers are needed"

Check = Callable[[Evidence], Ruling]


def _of_caches(check: Check) -> Check:
    """A check that an engine which counts instructions has nothing for."""

    def checked(evidence: Evidence) -> Ruling:
        return missing(NO_CACHES) if evidence.place.counting else check(evidence)

    return checked


def _pairs(evidence: Evidence) -> tuple[list[Group], str]:
    for model, space, name in PAIR_SUBJECTS:
        # Of those further away all the verdict is, where there is nothing of these.
        if evidence.aside().of(PAIR, model, space=space):
            return evidence.of(PAIR, model, space=space), name
    return [], ""


def _interrupts(evidence: Evidence) -> tuple[list[Group], str]:
    for model, name in INTERRUPT_SUBJECTS:
        if evidence.aside().of(INTERRUPT, model, _of_study):
            return evidence.of(INTERRUPT, model, _of_study), name
    return [], ""


def _of_study(trial: Trial) -> bool:
    """Of another task, of another version, the study says nothing."""
    return trial.factors["task"] in INTERRUPT_INDIRECT_PERCENT


def _n(group: Group) -> int:
    return int(str(group.trial.factors["n"]))


def _of_n(groups: Sequence[Group], n: int) -> list[Group]:
    return [group for group in groups if _n(group) == n]


def _by(groups: Sequence[Group], factor: str) -> dict[str, dict[int, Group]]:
    """By a factor, and of that by the number of switches or interrupts."""
    by: dict[str, dict[int, Group]] = {}
    for group in groups:
        by.setdefault(str(group.trial.factors[factor]), {})[_n(group)] = group
    return by


def _each(
    groups: Sequence[Group],
    factor: str,
    metric: str,
    unit: str,
    judge: Callable[[str, Effect], Ruling],
    scale: float = 1.0,
) -> dict[str, Ruling]:
    """A ruling for each pair or task on a metric."""
    rulings = {}
    for group in groups:
        case = str(group.trial.factors[factor])
        effect = effects.level([value * scale for value in group.values(metric)], unit)
        if effect is not None:
            rulings[case] = judge(case, effect)
    return rulings


# ---- pair-overhead ----


def _constant(evidence: Evidence) -> Ruling:
    groups, whose = _pairs(evidence)
    if not groups:
        return missing(NO_PAIRS)
    numbers = sorted({_n(group) for group in groups if _n(group) >= FEWEST})
    if len(numbers) < 2:
        return missing(TWO_NUMBERS)
    metric = f"between_{unit_of(evidence.place.engine)}"
    few, many = (typical(of, metric) for of in _same_pairs(groups, numbers[0], numbers[-1]))
    blocks = sorted(few.keys() & many.keys())
    both = [many[block] for block in blocks], [few[block] for block in blocks]
    unit_ns = effects.TIMES.get(unit_of(evidence.place.engine))
    effect = effects.paired(*both, effects.grain_of_ratio(*both, unit_ns))
    if effect is None:
        return missing(NOT_COMPARABLE)
    return evidence.within(
        effect,
        *CONSTANT,
        f"one switch of {numbers[-1]} between the tasks over one of {numbers[0]}, {whose}",
    )


def _same_pairs(groups: Sequence[Group], *numbers: int) -> list[list[Group]]:
    """The groups of each number of switches, of the pairs that all of these have."""
    by_n = [
        {str(group.trial.factors["pair"]): group for group in _of_n(groups, n)} for n in numbers
    ]
    common = set.intersection(*(set(by_pair) for by_pair in by_n))
    return [[group for pair, group in by_pair.items() if pair in common] for by_pair in by_n]


def typical(groups: Sequence[Group], metric: str) -> dict[int, float]:
    """By block: the median of the metric over the groups, which are pairs of tasks."""
    costs = [of for group in groups if (of := group.by_block(metric))]
    return {block: float(stats.median(of)) for block, of in _of_whole_blocks(costs).items()}


def _of_whole_blocks(values: Sequence[Mapping[int, float]]) -> dict[int, list[float]]:
    """By block, of those that have all: a mean or median of a block that lacks a pair is over
    other pairs than the next one's, and may differ for that alone."""
    blocks = set.intersection(*(set(of) for of in values)) if values else set()
    return {block: [of[block] for of in values] for block in sorted(blocks)}


def slopes(by_n: Mapping[int, Group], metric: str, nothing_at: int | None = None) -> list[float]:
    """By block: how much more of the metric one more of n is, by least squares.

    `nothing_at`: the n at which there is none by definition, through which the line goes.
    """
    values = {n: group.by_block(metric) for n, group in by_n.items() if n != nothing_at}
    if not values:
        return []
    blocks = set.intersection(*(set(of) for of in values.values()))
    centre = sum(values) / len(values) if nothing_at is None else nothing_at
    spread = sum((n - centre) ** 2 for n in values)
    return [
        sum((n - centre) * of[block] for n, of in values.items()) / spread
        for block in sorted(blocks)
    ]


def _growth(
    evidence: Evidence,
    groups: Sequence[Group],
    factor: str,
    metric: str,
    unit: str,
    none_at: int,
    more: Callable[[str], float],
    scale: float = 1.0,
) -> dict[str, Ruling]:
    """A ruling for each pair or task: whether the metric, in units of `scale`, rises with n, by
    each by `more` of the case."""
    rulings: dict[str, Ruling] = {}
    for case, by_n in _by(groups, factor).items():
        if len(by_n.keys() - {none_at}) < 2:
            continue
        rises = [rise * scale for rise in slopes(by_n, metric, none_at)]
        effect = effects.level(rises, unit)
        if effect is not None:
            rulings[case] = evidence.above(effect, more(case))
    return rulings


@_of_caches
def _grows(evidence: Evidence) -> Ruling:
    groups, whose = _pairs(evidence)
    if not groups:
        return missing(NO_PAIRS)
    # With one switch R' is R.
    rulings = _growth(evidence, groups, "pair", "lost_switches", SWITCHES, 1, lambda _: MORE)
    if not rulings:
        return missing(TWO_NUMBERS)
    return evidence.all_of(
        rulings, f"lost by both tasks with each switch more, in times of a switch, {whose}"
    )


def _most_switches(evidence: Evidence) -> tuple[list[Group], str, Ruling | None]:
    """The pairs that switched most often and whose they are, or what is missing."""
    groups, whose = _pairs(evidence)
    last = _of_n(groups, pair_overhead.MOST)
    lack = None if last else missing(NO_MOST if groups else NO_PAIRS)
    return last, whose, lack


@_of_caches
def _exceeds(evidence: Evidence) -> Ruling:
    last, whose, lack = _most_switches(evidence)
    if lack:
        return lack
    rulings = _each(last, "pair", "excess_us", "µs", lambda _, effect: evidence.above(effect, 0))
    return evidence.all_of(
        rulings,
        f"lost by the tasks in {pair_overhead.MOST} switches less what the switches took, {whose}",
    )


@_of_caches
def _inflated(evidence: Evidence) -> Ruling:
    last, whose, lack = _most_switches(evidence)
    if lack:
        return lack
    rulings = _each(last, "pair", "inflation_us", "µs", lambda _, e: evidence.above(e, 0))
    return evidence.all_of(
        rulings,
        f"{pair_overhead.MOST} switches between the tasks less as many by themselves from"
        f" empty caches, {whose}",
    )


@_of_caches
def _most_indirect(evidence: Evidence) -> Ruling:
    last, whose, lack = _most_switches(evidence)
    if lack:
        return lack
    by_pair = {str(group.trial.factors["pair"]): group.by_block("lost_us") for group in last}
    most = by_pair.pop(case_of(MOST_INDIRECT), None)
    if most is None or len(by_pair) < len(pair_overhead.PAIRS) - 1:
        return missing("all six pairs are needed", "--depth normal has them")
    rulings: dict[str, Ruling] = {}
    for pair, less in by_pair.items():
        effect = _difference(most, less, "µs")
        if effect is not None:
            rulings[f"over {pair}"] = evidence.above(effect, 0)
    if not rulings:
        return missing(NOT_COMPARABLE)
    return evidence.all_of(rulings, f"lost by {case_of(MOST_INDIRECT)} beyond the others, {whose}")


@_of_caches
def _little(evidence: Evidence) -> Ruling:
    last, whose, lack = _most_switches(evidence)
    if lack:
        return lack

    def whole(_: str, effect: Effect) -> Ruling:
        return evidence.within(effect, 0, PAIR_PERCENT + ROUNDING)

    def indirect(_: str, effect: Effect) -> Ruling:
        return evidence.below(effect, PAIR_INDIRECT_PERCENT + ROUNDING)

    scale = 100 / PAIR_KILOCYCLES
    rulings = _each(last, "pair", "added_kilocycles", "%", whole, scale)
    of_tasks = _each(last, "pair", "lost_kilocycles", "%", indirect, scale)
    rulings |= {f"{pair} indirect": ruling for pair, ruling in of_tasks.items()}
    if not rulings:
        return missing(NO_CYCLES)
    return evidence.all_of(
        rulings,
        f"added to as many cycles as {PAIR_WORK_S:g} s of {CLOCK_MHZ} MHz by"
        f" {pair_overhead.MOST} switches, {whose}{_of_what_ran(last)}",
    )


NO_CYCLES = "these samples do not say how long a cycle took"


def _of_what_ran(groups: Sequence[Group]) -> str:
    """The share of the work that was done here."""
    values = [group.values("added_percent") for group in groups]
    percent = [float(stats.median(of)) for of in values if of]
    if not percent:
        return ""
    least, most = plain(min(percent)), plain(max(percent))
    return f" (of the work done here it is {least} to {most} %)"


def losses_of(groups: Sequence[Group]) -> dict[str, dict[int, float]]:
    """By task and block: what the task lost, the mean over its pairs."""
    losses: dict[str, list[dict[int, float]]] = {}
    for group in groups:
        for letter in "ab":
            task = str(group.trial.factors[f"task_{letter}"])
            metric = f"share_{letter}_{unit_of(group.place.engine)}"
            if of_pair := group.by_block(metric):
                losses.setdefault(task, []).append(of_pair)
    return {
        task: {block: float(stats.mean(of)) for block, of in _of_whole_blocks(of_pairs).items()}
        for task, of_pairs in losses.items()
    }


def _difference(a: Mapping[int, float], b: Mapping[int, float], unit: str) -> Effect | None:
    return effects.level([a[block] - b[block] for block in sorted(a.keys() & b.keys())], unit)


def _a_switch(groups: Sequence[Group]) -> dict[int, float]:
    """By block: what one switch takes."""
    return {block: us for block, us in typical(groups, "between_us").items() if us > 0}


def _beyond(
    a: Mapping[int, float], b: Mapping[int, float], switch: Mapping[int, float]
) -> Effect | None:
    """How much more a lost than b each time that it was left, in times of a switch."""
    blocks = sorted(a.keys() & b.keys() & switch.keys())
    return effects.level(
        [(a[block] - b[block]) / RETURNS / switch[block] for block in blocks], SWITCHES
    )


@_of_caches
def _who_suffers(evidence: Evidence) -> Ruling:
    last, whose, lack = _most_switches(evidence)
    if lack:
        return lack
    losses = losses_of(last)
    rulings: dict[str, Ruling] = {}
    # From these it follows for the rest. The study bounds crc's loss only, near sort's.
    for more, less, by in (("sort", "crc", 0.0), ("aes", "sort", MORE), ("deflate", "sort", MORE)):
        effect = _beyond(losses.get(more, {}), losses.get(less, {}), _a_switch(last))
        if effect is None:
            return missing(f"{more} and {less} are needed")
        rulings[f"{more} over {less}"] = evidence.above(effect, by)
    middle = {task: float(stats.median(list(of.values()))) for task, of in losses.items()}
    order = ", ".join(f"{task} {plain(us)}" for task, us in sorted(middle.items(), key=_second))
    return evidence.all_of(
        rulings,
        f"lost by each task in {pair_overhead.MOST} switches, {whose}: {order} µs; each time that"
        " it is left, in times of a switch",
    )


def _second(item: tuple[str, float]) -> float:
    return item[1]


# ---- interrupt-overhead ----


@_of_caches
def _direct_exceeds(evidence: Evidence) -> Ruling:
    groups, whose = _interrupts(evidence)
    last = _of_n(groups, interrupt_overhead.MOST)
    if not last:
        return missing(NO_INTERRUPTS)
    rulings = _each(last, "task", "excess_us", "µs", lambda _, effect: evidence.above(effect, 0))
    return evidence.all_of(
        rulings, f"direct less indirect cost of {interrupt_overhead.MOST} {whose}"
    )


@_of_caches
def _interrupts_add_little(evidence: Evidence) -> Ruling:
    groups, whose = _interrupts(evidence)
    last = _of_n(groups, interrupt_overhead.MOST)
    if not last:
        return missing(NO_INTERRUPTS)

    def whole(_: str, effect: Effect) -> Ruling:
        return evidence.within(effect, 0, INTERRUPT_PERCENT + ROUNDING)

    def indirect(task: str, effect: Effect) -> Ruling:
        return evidence.below(effect, INTERRUPT_INDIRECT_PERCENT[task] + ROUNDING)

    scale = 100 / TASK_KILOCYCLES
    rulings = _each(last, "task", "added_kilocycles", "%", whole, scale)
    of_tasks = _each(last, "task", "indirect_kilocycles", "%", indirect, scale)
    rulings |= {f"{task} indirect": ruling for task, ruling in of_tasks.items()}
    if not rulings:
        return missing(NO_CYCLES)
    return evidence.all_of(
        rulings,
        f"added to as many cycles as {TASK_WORK_S:g} s of {CLOCK_MHZ} MHz by"
        f" {interrupt_overhead.MOST} {whose}{_of_what_ran(last)}",
    )


@_of_caches
def _interrupts_grow(evidence: Evidence) -> Ruling:
    groups, whose = _interrupts(evidence)
    if not groups:
        return missing(NO_INTERRUPTS)
    if all(len(by_n) < 2 for by_n in _by(groups, "task").values()):
        return missing(TWO_NUMBERS)
    rulings = _growth(
        evidence,
        groups,
        "task",
        "indirect_kilocycles",
        "cycles each",
        0,
        lambda task: MORE * studys_cycles(task),
        1e3,
    )
    if not rulings:
        return missing(NO_CYCLES)
    return evidence.all_of(rulings, f"indirect cost of one more of {whose}")


def studys_cycles(task: str) -> float:
    """What the study's task lost by each of 49 interrupts."""
    percent = INTERRUPT_INDIRECT_PERCENT[task]
    return percent / 100 * TASK_KILOCYCLES * 1e3 / interrupt_overhead.MOST


@_of_caches
def _disturbs_less(evidence: Evidence) -> Ruling:
    """99 switches leave a task and come back to it 49 times."""
    pairs, whose = _pairs(evidence)
    interrupts, by_what = _interrupts(evidence)
    last = _of_n(pairs, pair_overhead.MOST)
    losses = losses_of(last)
    alone = _by(interrupts, "task")
    if not losses or not alone:
        return missing("pair-overhead and interrupt-overhead are both needed", "run both")
    rulings: dict[str, Ruling] = {}
    for task, by_n in alone.items():
        group = by_n.get(interrupt_overhead.MOST)
        if group is None or task not in losses:
            continue
        effect = _beyond(losses[task], group.by_block("share_us"), _a_switch(last))
        if effect is not None:
            rulings[task] = evidence.above(effect, 0 if task in ALIKE else MORE)
    if not rulings:
        return missing("no task was measured both ways")
    return evidence.all_of(
        rulings,
        f"lost by a task each time that it was left, {whose}, less what it lost by one of the"
        f" {by_what}, in times of a switch",
    )


CLAIMS = (
    Claim(
        "002.1",
        "002",
        PAIR,
        "The direct cost of a switch does not depend on how many there are",
        "48 µs for every n (section 3.1: constant for all experiments)",
        _constant,
        pooled=True,
    ),
    Claim(
        "002.2",
        "002",
        PAIR,
        f"The indirect cost grows by {MORE_TEXT} a switch at least, for every pair of tasks",
        "figure 2: it does for all six, by 1.4 (aes and crc) to 2.2 (sort and deflate) of 48 µs",
        _grows,
    ),
    Claim(
        "002.3",
        "002",
        PAIR,
        "What tasks lose in 99 switches exceeds what the switches take, for every pair",
        "6.9 ms (aes and crc), 10.3 ms (sort and deflate) against 4.75 ms",
        _exceeds,
    ),
    Claim(
        "002.4",
        "002",
        PAIR,
        "99 switches add at most 0.25 % to work of as many cycles, indirectly 0.18 %",
        "0.17 to 0.25 % of 6.6 to 7.2 s at 120 MHz, of which 0.10 to 0.18 % are indirect",
        _little,
    ),
    Claim(
        "002.5",
        "002",
        PAIR,
        f"CRC suffers least from switches, then sort, AES and deflate most, by {MORE_TEXT} each",
        "crc ≤ 2 ms, sort 2.5 ms, aes and deflate 6 to 8 ms (figure 3)",
        _who_suffers,
        pooled=True,
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
        "49 interrupts add at most 0.38 % to work of as many cycles, indirectly no more than there",
        "0.28 to 0.38 %; indirect: sort 0.01, deflate 0.02, aes 0.09, crc 0.05 %",
        _interrupts_add_little,
    ),
    Claim(
        "002.8",
        "002",
        INTERRUPT,
        f"An interrupt disturbs a task less than a switch does, by {MORE_TEXT} (crc: at all)",
        "0.01 to 0.09 % of 49 interrupts against 0.10 to 0.18 % of 99 switches",
        _disturbs_less,
        pooled=True,
    ),
    Claim(
        "002.9",
        "002",
        INTERRUPT,
        "Each interrupt more adds a quarter of the study's indirect cycles at least, to every task",
        "figure 5: it grows; 0.9 (sort), 1.8 (deflate), 8.0 (aes), 4.5 (crc) kilocycles each of 49",
        _interrupts_grow,
    ),
    Claim(
        "002.10",
        "002",
        PAIR,
        "Between the tasks a switch takes longer than by itself from empty caches",
        "figure 3: it has to write back what the tasks left in the caches",
        _inflated,
    ),
    Claim(
        "002.11",
        "002",
        PAIR,
        "Of all pairs, AES and deflate lose most by switches",
        "0.18 % (aes and deflate) against 0.10 to 0.14 %",
        _most_indirect,
    ),
)
