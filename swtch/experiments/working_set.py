# SPDX-License-Identifier: Apache-2.0
"""Study 004, figures 3 and 5: what a switch costs threads that work on an array each.

Between switches a thread walks through an array of its own by the study's algorithm 1:
every element of 8 bytes once, in leaps of the stride. The cost of a switch is
t = (t_switch / 2 - t_single) / N, where the baseline walks as well: what is left is the
switch itself and what the other thread's array does to this one's in the caches.

One walk through 1 MiB takes as long as a hundred switches, so the cost is a small
difference of large numbers there and its interval says so.

The study's peaks are at its machine's caches, 32 KB and 256 KB, and its sizes end at four
times the larger. Here they go on to 4 MiB, since that is where peaks of today's second
levels (1 to 2 MiB) would be; 48 KiB, 192 KiB and 1.5 MiB are an L1d and three quarters of
an L2, and 96 KiB twice an L1d. The uthreads pass the token as the study's do, under locks
and through a queue.

A processor may change its speed every few milliseconds, a virtual one by several times,
and a difference is only of use between walks at one speed. So at ``quick`` and ``normal``
the baseline and the turns alternate in many short rounds, down to two passes of the
largest arrays, and the cost is the median of the rounds' differences; at ``paper`` there are
the study's ten iterations.

Rejected: N = 100 000 for every cell (at 1 MiB a cell would take minutes; the number is
chosen so that cells take about the same time, and is a factor of the trial).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Count, Experiment, Metric, PublishedKey, Setting, shape, value
from swtch.experiments.direct_cost import MAIN, Way, request, times
from swtch.records import Depth, Model, Published, Scalar, Trial

NAME: Final = "working-set"
WAYS: Final = (Way("process", "pipe"), Way("pthread", "pipe"), Way("uthread", "locks"))
MODELS: Final[tuple[Model, ...]] = tuple(way.model for way in WAYS)

KIB: Final = 1 << 10
# The study's 2^10 to 2^20, and beyond; see above.
SIZES: Final = tuple(
    sorted((*(1 << power for power in range(10, 23)), *(n * KIB for n in (48, 96, 192, 1536))))
)
STRIDES: Final = (8, 16, 32, 64, 128, 256)
QUICK_SIZES: Final = tuple(
    size * KIB for size in (1, 4, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 1536, 2048, 4096)
)
QUICK_STRIDES: Final = (8, 64)
# About L1d and twice that, 32 or 48 KiB, and no array to speak of: the study's kernel-level peak
# is between these. Two processes over pipes have one of two costs for as long as they are there,
# 1.1 or 1.8 us on one machine, so what tells sizes apart is how many of them there are.
PEAK_SIZES: Final = tuple(size * KIB for size in (1, 32, 48, 64, 96))
# An emulated processor loses no time with its caches: a few sizes show that it works.
GUEST_SIZES: Final = tuple(size * KIB for size in (1, 16, 32, 64, 256, 1024))
QUICK_MODELS: Final[tuple[Model, ...]] = ("process", "uthread")  # the study's
ROUNDS: Final[Mapping[Depth, int]] = {"quick": 16, "normal": 40, "paper": 10}
# In a quick run what small arrays take is less than to start the probe, and their costs are
# the closest together.
SMALL: Final = 128 * KIB
SMALL_ROUNDS: Final[Mapping[str, int]] = {"process": 32, "uthread": 64}
GUEST_ROUNDS: Final[Mapping[Depth, int]] = {"quick": 5, "normal": 10, "paper": 10}
PASSES_MAX: Final = 100_000

# Of one round of a cell, both parts: so many elements are walked through, or so many
# switches' worth of time taken, which is about as long as that many elements.
_BUDGET: Final[Mapping[Depth, int]] = {"quick": 150_000, "normal": 1_000_000, "paper": 60_000_000}
_SWITCH_ELEMENTS: Final = 4_000
# Beside each part's first, which is not measured.
_PASSES_MIN: Final = 2
_GUEST_PASSES_MIN: Final = 3


# Figures 3 and 5 are charts; these are the points that the text puts in numbers.
_FIG3 = "study 004, section IV on figure 3"
_FIG5 = "study 004, section IV on figure 5"
# (bytes, stride): what the text says. A stride it does not name stands for all.
KERNEL: Final[Mapping[tuple[int, int], float]] = {
    (32 * KIB, 8): 1.5,
    (256 * KIB, 8): 3.0,
    (256 * KIB, 64): 5.0,
    (256 * KIB, 256): 3.0,
    (512 * KIB, 256): 1.5,
}
USER: Final[Mapping[tuple[int, int], float]] = {
    (32 * KIB, 8): 1.2,
    (32 * KIB, 64): 1.2,
    (192 * KIB, 32): 2.2,
    (192 * KIB, 128): 5.0,
    (192 * KIB, 256): 4.8,
    (256 * KIB, 64): 4.5,
    (256 * KIB, 8): 1.4,
}
PUBLISHED: Final[Mapping[PublishedKey, Published]] = {
    (f"{size // KIB} KiB, stride {stride}", model, "cost_us"): Published(
        value=us, unit="µs", source=source
    )
    for model, points, source in (("process", KERNEL, _FIG3), ("uthread", USER, _FIG5))
    for (size, stride), us in points.items()
}

METRICS: Final[Mapping[str, Metric]] = {
    **times(),
    "l1d_kib": value("l1d_bytes", "KiB", 1 / KIB),
    "l2_kib": value("l2_bytes", "KiB", 1 / KIB),
}


def grid(setting: Setting, model: str = "uthread") -> tuple[tuple[int, int], ...]:
    """The cells of a model, as (bytes, stride); the first has no walk, and so no size."""
    small = setting.quick or setting.guest
    sizes, strides = (QUICK_SIZES, QUICK_STRIDES) if small else (SIZES, STRIDES)
    if setting.guest:
        sizes = GUEST_SIZES
    peaks = PEAK_SIZES if setting.quick and not setting.guest and model == "process" else ()
    cells = ((size, stride) for size in sizes for stride in (STRIDES if size in peaks else strides))
    return ((KIB, 0), *cells)


def passes(size: int, stride: int, setting: Setting) -> int:
    """Of the token to each thread in a round: fewer where each takes longer."""
    budget = _BUDGET[setting.depth] if not setting.guest else 40_000
    elements = size // 8 if stride else 0
    least = _GUEST_PASSES_MIN if setting.guest else _PASSES_MIN
    return max(least, min(PASSES_MAX, budget // (elements + _SWITCH_ELEMENTS)))


def _rounds(size: int, model: str, setting: Setting) -> int:
    if setting.counting:
        return 2
    if setting.quick and not setting.guest and size <= SMALL:
        return SMALL_ROUNDS[model]
    return (GUEST_ROUNDS if setting.guest else ROUNDS)[setting.depth]


def shortened(setting: Setting) -> str:
    cells = grid(setting)
    least = min(passes(size, stride, setting) for size, stride in cells)
    fewer = f"{least} to {PASSES_MAX // 1000} 000 passes of the study's 100 000, fewer the larger"
    if setting.guest:
        return f"{len(GUEST_SIZES)} sizes and two strides, with few passes"
    if not setting.quick:
        return f"{fewer} the array, so that a cell takes no minutes"
    return (
        "no pthreads, two strides of the study's six but for processes about L1d's size, and few"
        " passes in short rounds"
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every cell of the grid for each model, on one CPU."""
    planned = []
    for way in WAYS:
        if way.model not in setting.models or (setting.quick and way.model not in QUICK_MODELS):
            continue
        for size, stride in grid(setting, way.model):
            number = passes(size, stride, setting)
            rounds = _rounds(size, way.model, setting)
            factors: dict[str, Scalar] = {
                "way": way.by,
                "bytes": size if stride else 0,
                "stride": stride,
                "passes": number * rounds,
                "cpus_used": 1,
                "policy": setting.policy,
            }
            cells = [{"bytes": size, "stride": stride, "passes": number}]
            planned.append(
                setting.trial(
                    NAME,
                    f"{size if stride else 0}x{stride}/{way.model}",
                    request(way, cells, rounds, setting),
                    factors,
                )
            )
    return tuple(planned)


EXPERIMENT = Experiment(
    name=NAME,
    title="What a switch costs threads that work on arrays",
    study="004",
    question="How does the cost of a switch grow with what the threads keep in the caches?",
    models=MODELS,
    seconds=0.2,
    seconds_at={("native", "quick"): 0.02, ("native", "paper"): 3.0},
    trials=trials,
    published=PUBLISHED,
    metrics=METRICS,
    main=MAIN,
    shortened=shortened,
    factors=shape(way=str, bytes=Count, stride=Count, passes=Count),
)
