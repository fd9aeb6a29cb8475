# SPDX-License-Identifier: Apache-2.0
"""The claims of study 004: kernel-level against user-level switches.

Its kernel-level threads are processes over pipes; its user-level threads are those of a
library with locks and a queue, and ours stand in their place. What it says of costs needs
times; what it says of misses needs a processor's counters or a model of them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from swtch.analysis import effects, stats
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, beside, effect
from swtch.claims import Claim, Evidence, Ruling, missing, plain
from swtch.claims import _caches_004 as caches
from swtch.claims import _counts_004 as counts
from swtch.claims.rules import MORE, NOT_COMPARABLE
from swtch.experiments import counters, direct_cost, working_set
from swtch.experiments.pair_overhead import shown_in, unit_of
from swtch.records import Model

# A switch in turns is its calls and what it costs beyond them: the cost is the larger part of
# it when the whole is more than twice the calls.
BOTH_PARTS = 2.0
# The study's 64 KB are twice its L1d: what is below does not leave L2.
FLAT_L1S = 2.0
# "Constant": the range over sizes is no more than twice that of noise alone.
NO_MORE_THAN_NOISE = 2.0
# Beyond L2 the kernel's cost falls "when the stride size is greater than 16 byte".
FALLS_ABOVE = 16
# Of the study's user-level peaks, at 192 and 256 KB of an L2 of 256 KB.
NEAR_L2 = (0.75, 1.0)
BY_HOW_MUCH = "by how much it is above a twentieth more than the lower one's"
# By size, by block.
Costs = Mapping[int, Mapping[int, float]]
NO_CACHES = "an emulated processor loses no time with its caches"


def _emulated(evidence: Evidence) -> bool:
    return evidence.place.clock != "time"


# ---- direct-cost ----


def _cost(group: Group) -> str:
    return "cost_instructions" if group.place.counting else "cost_us"


def _dearer_than_its_calls(evidence: Evidence) -> Ruling:
    """Within each invocation: a switch with its calls over the calls alone."""
    group = evidence.group(direct_cost.NAME, "process", way="pipe")
    if group is None:
        return missing("processes that pass a token over pipes are needed")
    ends, unit = unit_of(group.place.engine), shown_in(group.place.engine)
    whole, calls = (group.by_block(f"{part}_{ends}") for part in ("switch", "single"))
    blocks = sorted(whole.keys() & calls.keys())
    both = [whole[block] for block in blocks], [calls[block] for block in blocks]
    here = effects.paired(*both, effects.grain_of_ratio(*both, effects.TIMES.get(unit)))
    cost = effects.level(group.values(f"cost_{ends}"), unit)
    if here is None or cost is None:
        return missing(NOT_COMPARABLE)
    why = (
        "a switch over pipes with its calls, over the calls alone: twice is as much again."
        f" The switch costs {plain(cost.estimate)} {unit} here, 0.62 µs there"
    )
    return evidence.above(here, BOTH_PARTS, why)


def _slower_in_user_space(evidence: Evidence) -> Ruling:
    user = evidence.group(direct_cost.NAME, "uthread", way="locks")
    kernel = evidence.group(direct_cost.NAME, "process", way="pipe")
    if user is None or kernel is None:
        return missing("uthreads with locks and processes over pipes are needed")
    here = beside(user, kernel, _cost(user))
    if here is None:
        return _slower_by_difference(evidence, user, kernel)
    why = "a uthread's switch with locks over that of processes with pipes"
    aside = evidence.aside()
    asked = aside.group(direct_cost.NAME, "ucontext", way="yield")
    spared = aside.group(direct_cost.NAME, "coroutine", way="yield")
    if asked and spared and (ratio := effect(asked, spared, _cost(asked))):
        why += (
            "; the study's library switches by swapcontext, which asks the kernel twice: that"
            f" alone makes a coroutine's switch {plain(ratio.estimate)} times as dear here"
        )
    return evidence.more(here, why)


def _slower_by_difference(evidence: Evidence, user: Group, kernel: Group) -> Ruling:
    """Where some cost is not above 0: it is what is left of a switch without its calls, and may
    be nothing or less. Of that there is no ratio; still a uthread's is the larger, or is not.
    It has to be a cost at all, too: of two that are less than nothing none is slow."""
    ours, theirs = (group.by_block(_cost(user)) for group in (user, kernel))
    blocks = sorted(ours.keys() & theirs.keys())
    unit = shown_in(user.place.engine)
    more = effects.level([ours[block] - MORE * theirs[block] for block in blocks], unit)
    itself = effects.level([ours[block] for block in blocks], unit)
    if more is None or itself is None:
        return missing(NOT_COMPARABLE)
    low = sum(min(ours[block], theirs[block]) <= 0 for block in blocks)
    return evidence.all_of(
        {
            "beyond a twentieth more than processes with pipes": evidence.above(more, 0.0),
            "and above nothing": evidence.above(itself, 0.0),
        },
        f"a uthread's switch with locks (in {low} of {len(blocks)} blocks one of the two costs is"
        " not above 0, so they have no ratio)",
    )


# ---- working-set ----


def _costs(
    evidence: Evidence, model: Model, above: int = -1, common: bool = False
) -> dict[int, dict[int, float]]:
    """By size and block, the median over the strides above `above`, of `common` over those that
    all sizes have; size 0 has no walk. A block that lacks one of a size's strides has no median
    of it: that of the others would be another thing."""
    by_size: dict[int, dict[int, list[float]]] = {}
    strides: Counter[int] = Counter()
    groups = evidence.of(working_set.NAME, model)
    cells = {group.trial.id: _cell(group) for group in groups}
    sizes = {size for size, _ in cells.values() if size}
    for group in groups:
        size, stride = cells[group.trial.id]
        everywhere = {known for known, its in cells.values() if its == stride} >= sizes
        if stride <= above or (common and size and not everywhere):
            continue
        costs = group.by_block("cost_us")
        strides[size] += bool(costs)
        for block, cost in costs.items():
            by_size.setdefault(size, {}).setdefault(block, []).append(cost)
    return {
        size: {
            block: float(stats.median(costs))
            for block, costs in by_block.items()
            if len(costs) == strides[size]
        }
        for size, by_block in sorted(by_size.items())
    }


def _cell(group: Group) -> tuple[int, int]:
    """The array's size and the stride."""
    factors = group.trial.factors
    return int(str(factors["bytes"])), int(str(factors["stride"]))


def _nearest(sizes: Iterable[int], size: float) -> int:
    """By ratio; the smaller of two."""
    return min(sizes, key=lambda known: (abs(math.log(known / size)), known))


def _next(sizes: Sequence[int], size: int, below: float = math.inf) -> int:
    """The size after this one, itself where there is none below that."""
    return next((known for known in sizes if size < known < below), size)


def _kib(size: int) -> str:
    return f"{size >> 10} KiB"


@dataclass(frozen=True)
class Sizes:
    """Where the study's peaks and valleys are on this machine, by its caches."""

    smallest: int
    l1: int
    valley: int  # twice L1
    near_l2: tuple[int, ...]  # three quarters of L2 to L2
    l2: int
    beyond: int  # twice L2
    # In the place of one that may be wild: the next of its kind, itself where there is none.
    small: int
    next_valley: int
    farther: int
    told: str

    @classmethod
    def of(cls, evidence: Evidence, model: Model, sizes: Iterable[int]) -> Sizes | str:
        """Or why there are none."""
        known = sorted(size for size in sizes if size)
        groups = evidence.of(working_set.NAME, model)
        l1, l2 = (caches.size_of(groups, name) for name in caches.NAMES)
        if min(l1, l2) <= 0:
            return "this machine does not tell the sizes of its L1d and L2"
        if none := caches.is_none(l1):
            return none
        if not known:
            return "arrays of several sizes are needed"
        valley, beyond = _nearest(known, 2 * l1), _nearest(known, 2 * l2)
        here = cls(
            smallest=known[0],
            l1=_nearest(known, l1),
            valley=valley,
            near_l2=tuple(size for size in known if NEAR_L2[0] <= size / l2 <= NEAR_L2[1]),
            l2=_nearest(known, l2),
            beyond=beyond,
            small=_next(known, known[0], l1 / 2),
            next_valley=_next(known, valley, NEAR_L2[0] * l2),
            farther=_next(known, beyond),
            told=f"L1d is {plain(l1 / caches.KIB)} KiB, L2 {plain(l2 / caches.KIB)} KiB",
        )
        order = (
            here.smallest,
            here.l1,
            here.valley,
            here.l2,
            here.beyond,
        )
        # Of a machine with an L2 beyond all arrays, the nearest size is not a size of it.
        if list(order) != sorted(set(order)) or not here.near_l2 or here.l2 < l2 / 2:
            return f"arrays below L1d, between it and L2, and beyond L2 are needed ({here.told})"
        return here


def _more(
    costs: Mapping[int, Mapping[int, float]], higher: Sequence[int], lower: int
) -> Effect | None:
    """How much more a switch costs with arrays of the sizes `higher`, their mean, than a
    twentieth more than with those of `lower`.

    Against the cost itself nobody could deny a step that is none: `rules.MORE` says why. The
    cost may be below zero, being a difference, so it is no ratio.
    """
    blocks = sorted(set.intersection(*(set(costs[size]) for size in (*higher, lower))))
    rises = [
        sum(costs[size][block] for size in higher) / len(higher) - MORE * costs[lower][block]
        for block in blocks
    ]
    return effects.level(rises, "µs")


@dataclass(frozen=True)
class Step:
    """One upwards, and the same by other sizes, each with its name: of one that is wild the
    opposite of these is no verdict. A peak has no other size; what it stands above has."""

    by: Effect | None
    others: Mapping[str, Effect | None] = field(default_factory=dict)

    def ruling(self, evidence: Evidence) -> Ruling | None:
        if self.by is None:
            return None
        others = {name: evidence.above(other, 0.0) for name, other in self.others.items() if other}
        return caches.unless_turned(evidence.above(self.by, 0.0), others)


def _step(costs: Costs, higher: Sequence[int], lower: int, other: int, even: Costs) -> Step:
    """Up from `lower` to the sizes `higher`, by their mean; and from `other`, of the strides
    that all have, and to each."""
    others = {}
    if other != lower and other in even:
        others[f"from {_kib(other)}"] = _more(even, higher, other)
    if len(higher) > 1:
        others |= {f"at {_kib(size)}": _more(costs, (size,), lower) for size in higher}
    return Step(_more(costs, higher, lower), others)


def _steps(evidence: Evidence, steps: Mapping[str, Step], why: str) -> Ruling:
    """Each step is one upwards: from the size that follows to those before it."""
    found = {name: step.ruling(evidence) for name, step in steps.items()}
    rulings = {name: ruling for name, ruling in found.items() if ruling is not None}
    if len(rulings) < len(steps):
        return missing(NOT_COMPARABLE)
    return evidence.all_of(rulings, why)


def _two_peaks(evidence: Evidence) -> Ruling:
    """Up to L1's size and down again, up to L2's size, higher than before, and down again."""
    if _emulated(evidence):
        return missing(NO_CACHES)
    costs = _costs(evidence, "process")
    at = Sizes.of(evidence, "process", costs)
    if not costs or isinstance(at, str):
        return missing(at if isinstance(at, str) and costs else "processes with arrays are needed")
    # What is compared with a size of few strides is of these alone.
    even = _costs(evidence, "process", common=True)
    wide = _costs(evidence, "process", FALLS_ABOVE, common=True)
    if not {at.l2, at.beyond} <= wide.keys():
        return missing(f"processes with strides above {FALLS_ABOVE} bytes are needed")
    steps = {
        f"up to {_kib(at.l1)}": _step(costs, (at.l1,), at.smallest, at.small, even),
        f"less at {_kib(at.valley)}": _step(costs, (at.l1,), at.valley, at.next_valley, even),
        f"up to {_kib(at.l2)}": _step(even, (at.l2,), at.valley, at.next_valley, even),
        f"above the first peak at {_kib(at.l2)}": Step(_more(even, (at.l2,), at.l1)),
        f"less at {_kib(at.beyond)}, strides above {FALLS_ABOVE}": _step(
            wide, (at.l2,), at.beyond, at.farther, wide
        ),
    }
    return _steps(evidence, steps, f"a process's cost, {BY_HOW_MUCH} ({at.told})")


def _user_level_peak(evidence: Evidence) -> Ruling:
    """From twice L1's size up to three quarters of L2's and L2's, and down again."""
    if _emulated(evidence):
        return missing(NO_CACHES)
    costs = _costs(evidence, "uthread")
    at = Sizes.of(evidence, "uthread", costs)
    if not costs or isinstance(at, str):
        return missing(at if isinstance(at, str) and costs else "uthreads with arrays are needed")
    peak = " and ".join(map(_kib, at.near_l2))
    steps = {
        f"at {peak} more than at {_kib(at.valley)}": _step(
            costs, at.near_l2, at.valley, at.next_valley, costs
        ),
        f"and than at {_kib(at.beyond)}": _step(costs, at.near_l2, at.beyond, at.farther, costs),
    }
    return _steps(evidence, steps, f"a uthread's cost, {BY_HOW_MUCH} ({at.told})")


def _by_size(costs: Mapping[int, Mapping[int, float]]) -> list[list[float]]:
    """A row of costs for each block that all sizes have."""
    blocks = sorted(set.intersection(*(set(by_block) for by_block in costs.values())))
    return [[of[block] for of in costs.values()] for block in blocks]


def _of_pairs(
    rows: Sequence[Sequence[float]], of_two: Callable[[Sequence[float], Sequence[float]], float]
) -> list[float]:
    """What two blocks say together, the mean of all pairs, as a value a block: what the mean
    would be but for this one (the pseudo-values of the jackknife).

    Pairs that have a block in common are not independent, and an interval of pairs as if they
    were errs three times as often as it says; of pairs that have none there are too few.
    """
    n = len(rows)
    alone = [
        sum(of_two(row, other) for j, other in enumerate(rows) if j != i)
        for i, row in enumerate(rows)
    ]
    if n < 3:
        return alone
    whole = sum(alone) / (n - 1)
    return [(2 * own - whole) / (n - 2) for own in alone]


def _range_over_noises(a: Sequence[float], b: Sequence[float]) -> float:
    """The logarithm of the range, over the sizes, of half the sum of two blocks' costs, over
    that of half their difference.

    The noise in both is the same, and only the former has what sizes do besides: so noise
    alone makes the two alike, however large it is. Not a number where either has no range.
    """
    means = [(x + y) / 2 for x, y in zip(a, b, strict=True)]
    noise = [(x - y) / 2 for x, y in zip(a, b, strict=True)]
    ranges = [max(values) - min(values) for values in (means, noise)]
    return math.log(ranges[0] / ranges[1]) if min(ranges) > 0 else math.nan


def _spread_by_size(a: Sequence[float], b: Sequence[float]) -> float:
    """The variance between sizes, without that of noise: zero on average where sizes do
    nothing, and then below zero as often as above."""
    means = statistics.fmean(a), statistics.fmean(b)
    return statistics.fmean((x - means[0]) * (y - means[1]) for x, y in zip(a, b, strict=True))


def _flat(evidence: Evidence) -> Ruling:
    """Below twice L1's size, the cost's range over sizes is that of noise; and the sizes make
    less of it than of processes'.

    A range of noisy costs grows with the noise and with the number of sizes. So it is
    compared with the range of half the differences of two blocks (`_range_over_noises`), in
    which no size can be; and variances between sizes are compared after noise's was taken off.
    """
    if _emulated(evidence):
        return missing(NO_CACHES)
    user, kernel = (_costs(evidence, model, common=True) for model in ("uthread", "process"))
    at = Sizes.of(evidence, "uthread", user)
    if not user or not kernel or isinstance(at, str):
        return missing(
            at
            if isinstance(at, str) and user and kernel
            else "uthreads and processes with arrays are needed"
        )
    most = FLAT_L1S * at.l1
    small = [{s: of for s, of in costs.items() if 0 < s < most} for costs in (user, kernel)]
    if not all(len(costs) > 1 for costs in small) or small[0].keys() != small[1].keys():
        return missing("uthreads and processes with the same sizes below twice L1d's are needed")
    # The same blocks of both, or what is taken from one another would be of different ones.
    blocks_of = [set(of) for costs in small for of in costs.values()]
    common = set.intersection(*blocks_of)
    if not common:
        return missing(NOT_COMPARABLE)
    own, others = (
        _by_size({s: {b: of[b] for b in of if b in common} for s, of in costs.items()})
        for costs in small
    )
    ranges = effects.level(_of_pairs(own, _range_over_noises) if len(own) > 1 else (), "x")
    spreads = zip(*(_of_pairs(rows, _spread_by_size) for rows in (others, own)), strict=True)
    less = effects.level([theirs - ours for theirs, ours in spreads], "µs²")
    if ranges is None or less is None:
        return missing(NOT_COMPARABLE)
    rulings = {
        "over the range of noise alone": evidence.below(
            replace(ranges, logarithmic=True), NO_MORE_THAN_NOISE
        ),
        "the variance between sizes of processes, less that of uthreads": evidence.above(less, 0.0),
    }
    ruling = evidence.all_of(
        rulings,
        f"the range of a uthread's cost from {_kib(at.smallest)} to {_kib(max(small[0]))}"
        f" ({at.told})",
    )
    if ruling.verdict != "holds":
        return ruling
    noise, cost = _noise(own), float(stats.median([us for row in own for us in row]))
    if noise > cost:
        hidden = f"By noise alone it ranges over {plain(noise)} µs, more than the {plain(cost)} µs"
        ruling = replace(ruling.also(f"{hidden} that it is"), verdict="cannot tell")
    return ruling


def _noise(rows: Sequence[Sequence[float]]) -> float:
    """The range over the sizes of half the difference of two blocks, the median of all pairs:
    beside noise that is as large as the cost, whatever sizes do is flat."""
    pairs = itertools.combinations(rows, 2)
    halves = ([(x - y) / 2 for x, y in zip(a, b, strict=True)] for a, b in pairs)
    return float(stats.median([max(half) - min(half) for half in halves]))


CLAIMS = (
    Claim(
        "004.1",
        "004",
        direct_cost.NAME,
        "A kernel-level switch costs more than the calls that ask for it",
        "“significant overhead” (section I): 0.62 µs beyond the calls (section IV, figure 3)",
        _dearer_than_its_calls,
    ),
    Claim(
        "004.2",
        "004",
        direct_cost.NAME,
        "A user-level switch, with locks and a queue, costs more than the kernel's",
        "1.18 µs against 0.62 µs (section IV.C)",
        _slower_in_user_space,
    ),
    Claim(
        "004.3",
        "004",
        working_set.NAME,
        "The kernel's cost peaks where the arrays are as large as L1d, and higher where as L2",
        "about 1.5 µs at 32 KB, which is its L1d, and 3 µs at 256 KB, its L2 (figure 3)",
        _two_peaks,
        pooled=True,
    ),
    Claim(
        "004.4",
        "004",
        working_set.NAME,
        "The user-level cost is flat below twice L1d's size and varies less than the kernel's",
        "“constant and relatively stable at about 1.2 µs” below 64 KB (figure 5)",
        _flat,
        pooled=True,
    ),
    Claim(
        "004.5",
        "004",
        counters.NAME,
        "L1d misses begin at L1's size when one thread runs and at half of it when two switch",
        "32 KB alone, 16 KB in turns (figures 8 and 9)",
        counts.l1d_misses,
        "counts",
    ),
    Claim(
        "004.6",
        "004",
        counters.NAME,
        "dTLB misses rise with switches between processes, hardly between user-level threads",
        "“only a slight difference” at user level (figures 10 and 11)",
        counts.dtlb_misses,
        "counts",
    ),
    Claim(
        "004.7",
        "004",
        counters.NAME,
        "L1i misses rise more with the kernel's switches than with user-level ones",
        "the gap is “larger in the kernel-level context switch” (figures 6 and 7)",
        counts.l1i_misses,
        "counts",
    ),
    Claim(
        "004.8",
        "004",
        counters.NAME,
        "A user-level switch executes more instructions than a kernel-level one",
        "“the user-level process executes more instructions” (figure 12)",
        counts.more_instructions,
        "counts",
    ),
    Claim(
        "004.9",
        "004",
        counters.NAME,
        "The kernel's number of instructions varies more from time to time than the user level's",
        "“different in each iteration”; “relatively less variance” at user level (figure 12)",
        counts.instructions_vary,
        "counts",
    ),
    Claim(
        "004.10",
        "004",
        working_set.NAME,
        "The user-level cost, too, peaks where the arrays nearly fill L2, and falls beyond",
        "maxima at 192 and 256 KB, 1 to 2 µs beyond (figure 5)",
        _user_level_peak,
        pooled=True,
    ),
    Claim(
        "004.11",
        "004",
        counters.NAME,
        "A walk with a stride of a line misses L1d about ten times as often as one by elements",
        "“approximately 10 times more” (figures 8 and 9)",
        counts.misses_by_stride,
        "counts",
    ),
)
