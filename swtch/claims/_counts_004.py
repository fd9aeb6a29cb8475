# SPDX-License-Identifier: Apache-2.0
"""The checks of study 004 that need counts: of misses, and of instructions.

A processor's own counters answer, or the exact engine's model; what a switch adds is what a
unit of work in turns has more than one alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from swtch.analysis import effects, stats
from swtch.analysis.findings import Group, beside
from swtch.claims import Evidence, Ruling, missing, plain
from swtch.claims import _caches_004 as caches
from swtch.claims.rules import UnsureError
from swtch.experiments import Setting, counters
from swtch.records import Model, Trial, VerdictName

# "Approximately 10 times more" from a stride of 8 to one of 64; half and twice of it.
TEN_TIMES = (5.0, 20.0)
# "At L1": the first size that does not fit is L1's or the next. "At half": half as large.
AT = 2.0
HALF = 2.0
# "Hardly": of the rise between processes.
HARDLY = 0.25
A_MISS = 1.0
# Of the sizes of a sweep so many may be wild.
WILD = 1


SUBJECTS: tuple[tuple[Model, str], ...] = (("process", "processes"), ("uthread", "uthreads"))

SAME_EVERY_TIME = "an emulator counts the same each time: it has no chance in it"


# ---- which counts ----


def _counted(evidence: Evidence, model: Model) -> Group | None:
    """The study's geometry where there is a choice."""
    studys = evidence.of(counters.NAME, model, _studys)
    return next(iter(studys or evidence.of(counters.NAME, model)), None)


def _studys(trial: Trial) -> bool:
    return trial.factors.get("geometry", "paper") == "paper"


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
    cells = {}
    for size in counters.SIZES:
        alone, turns = (
            group.by_block(counters.metric(mode, event, size, counters.STRIDE))
            for mode in counters.MODES
        )
        if alone and turns:
            cells[size] = (alone, turns)
    return cells


def _begins(
    cells: Mapping[int, tuple[dict[int, float], ...]], mode: int, block: int
) -> tuple[float, bool]:
    """The size from which on each line is missed once a walk, twice the last if there is none,
    and whether it is sure: that with which most sizes agree, the first of several.

    One size may be wild; of the first that is missed so it would be the beginning.
    """
    missed = [of[mode][block] >= size / 64 for size, of in cells.items()]
    wrong = [
        missed[:first].count(True) + missed[first:].count(False) for first in range(len(missed) + 1)
    ]
    first = wrong.index(min(wrong))
    sure = wrong[first] <= WILD and wrong.count(wrong[first]) == 1
    return float([*cells, 2 * max(cells)][first]), sure


def _beginnings(
    cells: Mapping[int, tuple[dict[int, float], ...]], mode: int, blocks: Sequence[int], name: str
) -> list[float]:
    """By block; UnsureError where the sizes do not agree in half of the blocks."""
    found = [_begins(cells, mode, block) for block in blocks]
    if 2 * sum(not sure for _, sure in found) >= max(1, len(found)):
        how = ("alone", "in turns")[mode]
        raise UnsureError(f"the sizes do not agree where misses of {name} {how} begin")
    return [size for size, _ in found]


def l1d_misses(evidence: Evidence) -> Ruling:
    rulings: dict[str, Ruling] = {}
    begins = []
    for model, name in SUBJECTS:
        group = _counted(evidence, model)
        cells = _cells(group, "l1d") if group else {}
        if group is None or len(cells) < 3:
            continue
        blocks = sorted(set.intersection(*(set(mode) for both in cells.values() for mode in both)))
        l1 = caches.l1d_that_counted(group)
        if none := caches.is_none(l1):
            return missing(none)
        if not blocks:
            continue
        alone, turns = (_beginnings(cells, mode, blocks, name) for mode in (0, 1))
        at = effects.level([size / l1 for size in alone], "of L1")
        half = effects.level([a / b for a, b in zip(alone, turns, strict=True)], "x")
        if at is None or half is None:
            continue
        rulings[f"one of {name} begins at"] = evidence.within(at, 1.0, AT)
        rulings[f"that over two {name}"] = evidence.within(half, HALF, math.inf)
        first = [f"{int(stats.median(sizes)) >> 10} KiB" for sizes in (alone, turns)]
        begins.append(f"{name} {', '.join(first)}")
    if len(begins) < 2:
        return _uncounted(evidence)
    ruling = evidence.all_of(
        rulings, "the size at which each line of an array is missed once a walk"
    )
    why = f"{ruling.why}. Alone, in turns: {'; '.join(begins)}"
    return Ruling(ruling.verdict, why, ruling.here, ruling.threshold)


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


def dtlb_misses(evidence: Evidence) -> Ruling:
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
    if share and (uthreads_share := effects.level(share, "of that")) is not None:
        rulings["uthreads"] = evidence.below(uthreads_share, HARDLY)
    why = f"dTLB misses that a switch adds, median over sizes{_had_small_pages(evidence)}"
    ruling = evidence.all_of(rulings, why)
    more = (
        f"{ruling.why} ({plain(beside.estimate)} misses)" if "uthreads" in rulings else ruling.why
    )
    return Ruling(ruling.verdict, more, ruling.here, ruling.threshold)


def _had_small_pages(evidence: Evidence) -> str:
    """What the model says of processes where no page is large: most of it is the kernel's."""
    rises = _rises(evidence, counters.PAGES_4K)
    if rises is None:
        return ""
    small = plain(float(stats.median(list(rises[0].values()))))
    return f" (of processes {small}, had all of the kernel's pages 4 KiB)"


def l1i_misses(evidence: Evidence) -> Ruling:
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


# ---- counters: instructions ----


def _instructions(evidence: Evidence, model: Model) -> Group | None:
    """With the kernel's, or the half of a process that is in the kernel would be missing."""
    group = _counted(evidence, model)
    if group is None or not all(s.detail.get("kernel_counted", True) for s in group.good):
        return None
    return group


def more_instructions(evidence: Evidence) -> Ruling:
    """Of one pass of the token and its switch, without a walk."""
    user, kernel = (_instructions(evidence, model) for model in ("uthread", "process"))
    if user is None or kernel is None:
        return _uncounted(evidence)
    here = beside(user, kernel, counters.metric("switch", "instructions", counters.KIB, 0))
    if here is None:
        return _uncounted(evidence)
    return evidence.above(
        here, 1.0, "instructions of a uthread's pass and switch, over those of a process's"
    )


def _variation(group: Group) -> dict[int, float]:
    """By block: by how many per cent its counts of instructions in turns are off the median
    of all blocks, the median over the cells: one wild cell is not the claim."""
    off: dict[int, list[float]] = {}
    for size, stride in counters.grid(Setting(cpus=(0,), models=())):
        name = counters.metric("switch", "instructions", size, stride)
        counts = group.by_block(name)
        middle = float(stats.median(list(counts.values()))) if counts else 0.0
        for block, count in counts.items():
            if middle:
                off.setdefault(block, []).append(abs(count - middle) / middle * 100)
    return {block: float(stats.median(values)) for block, values in sorted(off.items())}


def instructions_vary(evidence: Evidence) -> Ruling:
    if evidence.place.counting:
        return missing(SAME_EVERY_TIME, "a processor's counters are needed: swtch run counters")
    user, kernel = (_instructions(evidence, model) for model in ("uthread", "process"))
    if user is None or kernel is None:
        return _uncounted(evidence)
    ours, theirs = _variation(user), _variation(kernel)
    blocks = sorted(ours.keys() & theirs.keys())
    here = effects.level([theirs[block] - ours[block] for block in blocks], "% of the count")
    if here is None:
        return _uncounted(evidence)
    why = (
        "by how much the instructions of the same work vary: processes"
        f" {plain(float(stats.median(list(theirs.values()))))} %, uthreads"
        f" {plain(float(stats.median(list(ours.values()))))} %; the difference"
    )
    return evidence.above(here, 0.0, why)


def misses_by_stride(evidence: Evidence) -> Ruling:
    """Of arrays of more than twice L1d: each line is fetched by one element of it, or by all."""
    rulings: dict[str, Ruling] = {}
    groups = [(name, _counted(evidence, model)) for model, name in SUBJECTS]
    for name, group in groups:
        by_size = _by_stride(group) if group else {}
        known = [of for of in by_size.values() if of]
        blocks = set.intersection(*(set(of) for of in known)) if known else set()
        ratios = [_middle([of[block] for of in known]) for block in sorted(blocks)]
        here = effects.paired(ratios, [1.0] * len(ratios))
        if here is not None:
            ruling = evidence.within(here, *TEN_TIMES)
            rulings[name] = _agreed(
                ruling, [evidence.within(one, *TEN_TIMES) for one in _each(known)]
            )
    if len(rulings) == len(SUBJECTS):
        return evidence.all_of(rulings, "L1d misses of a walk by 64 bytes over those of one by 8")
    if all(group and _cells(group, "l1d") for _, group in groups):
        return missing("counts with strides of 8 and of 64 bytes are needed", "not --depth quick")
    return _uncounted(evidence)


def _by_stride(group: Group) -> dict[int, dict[int, float]]:
    """By size and block: L1d misses of one thread alone by a line, over those by an element."""
    l1 = caches.l1d_that_counted(group)
    if caches.is_none(l1):
        return {}
    ratios: dict[int, dict[int, float]] = {}
    for size in counters.SIZES:
        near, far = (
            group.by_block(counters.metric("single", "l1d", size, stride))
            for stride in (8, counters.STRIDE)
        )
        if size > 2 * l1:
            common = near.keys() & far.keys()
            ratios[size] = {b: far[b] / near[b] if near[b] > 0 else math.nan for b in common}
    return ratios


def _middle(ratios: Sequence[float]) -> float:
    """The geometric mean of the two in the middle, or the one: of a ratio and of its inverse it
    is the same. None of a size that has no ratio."""
    if not all(0 < ratio < math.inf for ratio in ratios):
        return math.nan
    return math.exp(float(stats.median([math.log(ratio) for ratio in ratios])))


def _each(known: Sequence[Mapping[int, float]]) -> list[effects.Effect]:
    """The effect of each size by itself, where it has one."""
    of_sizes = (effects.paired(list(of.values()), [1.0] * len(of)) for of in known)
    return [effect for effect in of_sizes if effect is not None]


def _agreed(ruling: Ruling, of_sizes: Sequence[Ruling]) -> Ruling:
    """The ruling; none where as many sizes by themselves say the opposite as say it."""
    decided: list[VerdictName] = [
        one.verdict for one in of_sizes if one.verdict in ("holds", "differs")
    ]
    alike = decided.count(ruling.verdict)
    if ruling.verdict in ("holds", "differs") and len(decided) - alike >= max(1, alike):
        return replace(ruling, verdict="cannot tell", open="the sizes do not agree")
    return ruling
