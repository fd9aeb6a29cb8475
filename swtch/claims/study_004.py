# SPDX-License-Identifier: Apache-2.0
"""The claims of study 004: kernel-level against user-level switches.

Its kernel-level threads are processes over pipes; its user-level threads are those of a
library with locks and a queue, and ours stand in their place. What it says of costs needs
times; what it says of misses needs a processor's counters or a model of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from swtch.analysis import effects, stats
from swtch.analysis.effects import Effect
from swtch.analysis.findings import Group, effect
from swtch.claims import Claim, Evidence, Ruling, missing, plain
from swtch.experiments import counters, direct_cost, working_set
from swtch.records import Model

# Half and twice of the study's figure, which is of another processor and kernel.
ABOUT_US = (0.31, 1.24)
# "Constant": the range over sizes is below this share of the cost without a walk.
FLAT = 0.25
FLAT_BYTES = 64 << 10
SECOND_PEAK = 256 << 10
# "At L1": the first size that does not fit is L1's or the next. "At half": half as large.
AT = 2.0
HALF = 2.0
# "Hardly": of the rise between processes.
HARDLY = 0.25
A_MISS = 1.0

SUBJECTS: tuple[tuple[Model, str], ...] = (("process", "processes"), ("uthread", "uthreads"))

NO_TIMES = "a cost in time is needed, and this engine counts instructions"
NO_CACHES = "an emulated processor loses no time with its caches"


def _emulated(evidence: Evidence, experiment: str) -> bool:
    groups = evidence.of(experiment)
    return evidence.place.engine == "exact" or any(
        group.trial.factors.get("accel") == "tcg" for group in groups
    )


# ---- direct-cost ----


def _cost(group: Group) -> str:
    return "cost_instructions" if group.place.engine == "exact" else "cost_us"


def _kernels(evidence: Evidence) -> Ruling:
    if evidence.place.engine == "exact":
        return missing(NO_TIMES)
    group = evidence.one(direct_cost.NAME, "process", way="pipe")
    here = effects.level(group.values("cost_us"), "us") if group else None
    if group is None or here is None:
        return missing("processes that pass a token over pipes are needed")
    why = "a switch between processes over pipes, to be within half and twice of 0.62 us"
    if group.trial.factors.get("accel") == "tcg":
        why += "; an emulated processor's"
    return evidence.within(here, *ABOUT_US, why)


def _slower_in_user_space(evidence: Evidence) -> Ruling:
    user = evidence.one(direct_cost.NAME, "uthread", way="locks")
    kernel = evidence.one(direct_cost.NAME, "process", way="pipe")
    if user is None or kernel is None:
        return missing("uthreads with locks and processes over pipes are needed")
    here = effect(user, kernel, _cost(user))
    if here is None:
        return missing("no comparable samples")
    why = "a uthread's switch with locks over that of processes with pipes"
    asked = evidence.one(direct_cost.NAME, "ucontext", way="yield")
    spared = evidence.one(direct_cost.NAME, "coroutine", way="yield")
    if asked and spared and (ratio := effect(asked, spared, _cost(asked))):
        why += (
            "; the study's library switches by swapcontext, which asks the kernel twice: that"
            f" alone makes a coroutine's switch {plain(ratio.estimate)} times as dear here"
        )
    return evidence.above(here, 1.0, why)


# ---- working-set ----


def _costs(evidence: Evidence, model: Model) -> dict[int, dict[int, float]]:
    """By size and block, the median over the strides; size 0 has no walk."""
    found: dict[int, dict[int, list[float]]] = {}
    for group in evidence.of(working_set.NAME, model):
        size = int(str(group.trial.factors["bytes"]))
        for block, cost in group.by_block("cost_us").items():
            found.setdefault(size, {}).setdefault(block, []).append(cost)
    return {
        size: {block: float(stats.median(costs)) for block, costs in by_block.items()}
        for size, by_block in sorted(found.items())
    }


def _more(costs: Mapping[int, Mapping[int, float]], a: int, b: int) -> Effect | None:
    """How much more a switch costs with arrays of `a` bytes than with those of `b`."""
    blocks = sorted(costs[a].keys() & costs[b].keys())
    return effects.level([costs[a][block] - costs[b][block] for block in blocks], "us")


def _nearest(sizes: Iterable[int], size: float) -> int:
    """By ratio; the smaller of two."""
    return min(sizes, key=lambda one: (abs(math.log(one / size)), one))


def _kib(size: int) -> str:
    return f"{size >> 10} KiB"


def _peaks(evidence: Evidence) -> Ruling:
    if _emulated(evidence, working_set.NAME):
        return missing(NO_CACHES)
    costs = _costs(evidence, "process")
    sizes = [size for size in costs if size]
    known = [v for g in evidence.of(working_set.NAME, "process") for v in g.values("l1d_kib")]
    if SECOND_PEAK not in sizes or len(sizes) < 5:
        return missing("processes with arrays from small ones to beyond 256 KiB are needed")
    if not known or not max(known):
        return missing("this machine does not tell the size of its L1d")
    first = _nearest(sizes, max(known) * 1024)
    at, last = sizes.index(first), sizes.index(SECOND_PEAK)
    if not 0 < at < last - 1 or last == len(sizes) - 1:
        return missing("sizes below L1d's, between it and 256 KiB, and beyond are needed")
    steps = {
        f"up to {_kib(first)}": (first, sizes[0]),
        f"and less at {_kib(sizes[at + 1])}": (first, sizes[at + 1]),
        f"up to {_kib(SECOND_PEAK)}": (SECOND_PEAK, sizes[at + 1]),
        f"and less at {_kib(sizes[-1])}": (SECOND_PEAK, sizes[-1]),
    }
    rulings = {
        step: evidence.above(made, 0.0)
        for step, (more, less) in steps.items()
        if (made := _more(costs, more, less)) is not None
    }
    if len(rulings) < len(steps):
        return missing("no comparable samples")
    l1 = f"{plain(max(known))} KiB"
    return evidence.all_of(
        rulings, f"a process's cost, by how much it rises and falls (L1d is {l1})"
    )


def _range(costs: Mapping[int, Mapping[int, float]]) -> dict[int, float]:
    """By block, between the dearest and the cheapest of the sizes."""
    blocks = set.intersection(*(set(by_block) for by_block in costs.values()))
    return {
        block: max(of[block] for of in costs.values()) - min(of[block] for of in costs.values())
        for block in sorted(blocks)
    }


def _flat(evidence: Evidence) -> Ruling:
    if _emulated(evidence, working_set.NAME):
        return missing(NO_CACHES)
    user, kernel = (_costs(evidence, model) for model in ("uthread", "process"))
    small = [{s: of for s, of in costs.items() if 0 < s < FLAT_BYTES} for costs in (user, kernel)]
    if not all(len(costs) > 1 for costs in small) or 0 not in user:
        return missing(
            "uthreads and processes are needed, without a walk and with arrays below 64 KiB"
        )
    ranges, beside = map(_range, small)
    blocks = [b for b in ranges if b in beside and user[0].get(b, 0) > 0 and beside[b] > 0]
    own = effects.level([ranges[block] / user[0][block] for block in blocks], "of the cost")
    less = effects.level([ranges[block] / beside[block] for block in blocks], "x")
    if own is None or less is None:
        return missing("no comparable samples")
    rulings = {
        "over a uthread's cost without a walk": evidence.below(own, FLAT),
        "over the range of processes": evidence.below(less, 1.0),
    }
    return evidence.all_of(rulings, "how far a uthread's cost ranges below 64 KiB")


# ---- counters ----


def _counted(evidence: Evidence, model: Model) -> Group | None:
    """The study's geometry where there is a choice."""
    found = evidence.of(counters.NAME, model)
    studys = [g for g in found if g.trial.factors.get("geometry", "paper") == "paper"]
    return next(iter(studys or found), None)


def _uncounted(evidence: Evidence) -> Ruling:
    reasons = {
        str(sample.detail["uncounted"])
        for group in evidence.of(counters.NAME)
        for sample in group.good
        if "uncounted" in sample.detail
    }
    if not reasons:
        return missing("counts of processes and of uthreads are needed, of several sizes")
    return missing(
        f"no counters here ({', '.join(sorted(reasons))})",
        "a model counts anywhere: swtch run counters --engine exact --guest 6.1-amd64",
    )


def _cells(group: Group, event: str) -> dict[int, tuple[dict[int, float], dict[int, float]]]:
    """By size, by block: misses of a unit of work alone and in turns."""
    found = {}
    for size in counters.SIZES:
        alone, turns = (
            group.by_block(counters.metric(mode, event, size, counters.STRIDE))
            for mode in counters.MODES
        )
        if alone and turns:
            found[size] = (alone, turns)
    return found


def _begins(cells: Mapping[int, tuple[dict[int, float], ...]], mode: int, block: int) -> float:
    """The first size of whose lines each is missed once a walk; twice the last if none is."""
    for size, of in cells.items():
        if of[mode].get(block, 0.0) >= size / 64:
            return float(size)
    return 2.0 * max(cells)


def _l1d(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    told = []
    for model, name in SUBJECTS:
        group = _counted(evidence, model)
        cells = _cells(group, "l1d") if group else {}
        if group is None or len(cells) < 3:
            continue
        blocks = sorted(set.intersection(*(set(alone) for alone, _ in cells.values())))
        l1 = _l1d_bytes(group)
        if not l1:
            return missing("this machine does not tell the size of its L1d")
        alone = [_begins(cells, 0, block) for block in blocks]
        turns = [_begins(cells, 1, block) for block in blocks]
        at = effects.level([one / l1 for one in alone], "of L1")
        half = effects.level([a / b for a, b in zip(alone, turns, strict=True)], "x")
        if at is None or half is None:
            continue
        rulings[f"one of {name} begins at"] = evidence.within(at, 1.0, AT)
        rulings[f"that over two {name}"] = evidence.within(half, HALF, math.inf)
        told.append(f"{name} {_kib(int(stats.median(alone)))}, {_kib(int(stats.median(turns)))}")
    if len(told) < 2:
        return _uncounted(evidence)
    ruling = evidence.all_of(
        rulings, "the size at which each line of an array is missed once a walk"
    )
    why = f"{ruling.why}. Alone, in turns: {'; '.join(told)}"
    return Ruling(ruling.verdict, why, ruling.here, ruling.threshold)


def _l1d_bytes(group: Group) -> float:
    """Of the model's geometry, or of the processor that counted."""
    for sample in group.good:
        model = sample.detail.get("model")
        if isinstance(model, dict):
            return float(model["l1d"][0])
    return max(group.values("l1d_kib"), default=0.0) * 1024


def _rise(group: Group, event: str) -> dict[int, float]:
    """By block: what a switch adds to a unit of work, the median over sizes."""
    by_block: dict[int, list[float]] = {}
    for alone, turns in _cells(group, event).values():
        for block in alone.keys() & turns.keys():
            by_block.setdefault(block, []).append(turns[block] - alone[block])
    return {block: float(stats.median(rises)) for block, rises in sorted(by_block.items())}


def _rises(evidence: Evidence, event: str) -> tuple[dict[int, float], dict[int, float]] | None:
    kernel, user = (_counted(evidence, model) for model in ("process", "uthread"))
    if kernel is None or user is None:
        return None
    rises = _rise(kernel, event), _rise(user, event)
    return rises if all(rises) else None


def _dtlb(evidence: Evidence) -> Ruling:
    rises = _rises(evidence, "dtlb")
    if rises is None:
        return _uncounted(evidence)
    kernel, user = rises
    here = effects.level(list(kernel.values()), "misses a switch")
    blocks = sorted(kernel.keys() & user.keys())
    beside = effects.level(list(user.values()), "misses a switch")
    if here is None or beside is None:
        return _uncounted(evidence)
    share = [user[b] / kernel[b] for b in blocks if kernel[b] > 0]
    rulings = {"processes": evidence.above(here, A_MISS)}
    if share and (made := effects.level(share, "of that")) is not None:
        rulings["uthreads"] = evidence.below(made, HARDLY)
    why = "dTLB misses that a switch adds, median over sizes"
    ruling = evidence.all_of(rulings, why)
    more = (
        f"{ruling.why} ({plain(beside.estimate)} misses)" if "uthreads" in rulings else ruling.why
    )
    return Ruling(ruling.verdict, more, ruling.here, ruling.threshold)


def _l1i(evidence: Evidence) -> Ruling:
    rises = _rises(evidence, "l1i")
    if rises is None:
        return _uncounted(evidence)
    group = _counted(evidence, "process")
    if group and not all(sample.detail.get("kernel_counted", True) for sample in group.good):
        return missing(
            "the kernel's share was not counted",
            "as root set kernel.perf_event_paranoid to 1, or use the exact engine",
        )
    kernel, user = rises
    blocks = sorted(kernel.keys() & user.keys())
    here = effects.level([kernel[b] - user[b] for b in blocks], "misses a switch")
    if here is None:
        return _uncounted(evidence)
    middle = [plain(float(stats.median(list(rise.values())))) for rise in rises]
    why = (
        f"L1i misses that a switch adds, median over sizes: {middle[0]} between processes,"
        f" {middle[1]} between uthreads"
    )
    return evidence.above(here, 0.0, why)


CLAIMS = (
    Claim(
        "004.1",
        "004",
        direct_cost.NAME,
        "A kernel-level switch costs about 0.62 us beyond the calls that ask for it",
        "0.62 us (section IV, figure 3 at stride 0)",
        _kernels,
    ),
    Claim(
        "004.2",
        "004",
        direct_cost.NAME,
        "A user-level switch, with locks and a queue, costs more than the kernel's",
        "1.18 us against 0.62 us (section IV.C)",
        _slower_in_user_space,
    ),
    Claim(
        "004.3",
        "004",
        working_set.NAME,
        "The kernel's cost peaks where the arrays are near L1's size, and again near 256 KB",
        "about 1.5 us at 32 KB, 3 us at 256 KB (figure 3)",
        _peaks,
    ),
    Claim(
        "004.4",
        "004",
        working_set.NAME,
        "The user-level cost is flat below 64 KB and varies less than the kernel's",
        "“constant and relatively stable at about 1.2 us” (figure 5)",
        _flat,
    ),
    Claim(
        "004.5",
        "004",
        counters.NAME,
        "L1d misses begin at L1's size when one thread runs and at half of it when two switch",
        "32 KB alone, 16 KB in turns (figures 8 and 9)",
        _l1d,
        "counts",
    ),
    Claim(
        "004.6",
        "004",
        counters.NAME,
        "dTLB misses rise with switches between processes, hardly between user-level threads",
        "“only a slight difference” at user level (figures 10 and 11)",
        _dtlb,
        "counts",
    ),
    Claim(
        "004.7",
        "004",
        counters.NAME,
        "L1i misses rise more with the kernel's switches than with user-level ones",
        "the gap is “larger in the kernel-level context switch” (figures 6 and 7)",
        _l1i,
        "counts",
    ),
)
