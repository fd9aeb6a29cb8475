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
an L2. The uthreads pass the token as the study's do, under locks and through a queue.

Rejected: N = 100 000 for every cell (at 1 MiB a cell would take minutes; the number is
chosen so that cells take about the same time, and is a factor of the trial).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swtch.experiments import Experiment, Metric, PublishedKey, Setting, value
from swtch.experiments.direct_cost import MAIN, Way, request, times
from swtch.records import Depth, Model, Published, Scalar, Trial

NAME: Final = "working-set"
WAYS: Final = (Way("process", "pipe"), Way("pthread", "pipe"), Way("uthread", "locks"))
MODELS: Final[tuple[Model, ...]] = tuple(way.model for way in WAYS)

KIB: Final = 1 << 10
# The study's 2^10 to 2^20, and beyond; see above.
SIZES: Final = tuple(
    sorted((*(1 << power for power in range(10, 23)), 48 * KIB, 192 * KIB, 1536 * KIB))
)
STRIDES: Final = (8, 16, 32, 64, 128, 256)
QUICK_SIZES: Final = tuple(
    size * KIB for size in (1, 4, 16, 32, 48, 64, 128, 192, 256, 512, 1024, 1536, 2048, 4096)
)
QUICK_STRIDES: Final = (8, 64)
# An emulated processor loses no time with its caches: a few sizes show that it works.
GUEST_SIZES: Final = tuple(size * KIB for size in (1, 16, 32, 64, 256, 1024))
QUICK_MODELS: Final[tuple[Model, ...]] = ("process", "uthread")  # the study's
ROUNDS: Final = 10
PASSES_MAX: Final = 100_000

# Of one round of a cell, both parts: so many elements are walked through, or so many
# switches' worth of time taken, which is about as long as that many elements.
_BUDGET: Final[Mapping[Depth, int]] = {"quick": 400_000, "normal": 4_000_000, "paper": 60_000_000}
_SWITCH_ELEMENTS: Final = 4_000
# Of the largest arrays three told 20 us from noise no more.
_PASSES_MIN: Final = 12
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
        value=us, unit="us", source=source
    )
    for model, points, source in (("process", KERNEL, _FIG3), ("uthread", USER, _FIG5))
    for (size, stride), us in points.items()
}

METRICS: Final[Mapping[str, Metric]] = {
    **times(),
    "l1d_kib": value("l1d_bytes", "KiB", 1 / KIB),
    "l2_kib": value("l2_bytes", "KiB", 1 / KIB),
}


def grid(setting: Setting) -> tuple[tuple[int, int], ...]:
    """The cells, as (bytes, stride); the first has no walk, and so no size."""
    small = setting.quick or setting.guest
    sizes, strides = (QUICK_SIZES, QUICK_STRIDES) if small else (SIZES, STRIDES)
    if setting.guest:
        sizes = GUEST_SIZES
    return ((KIB, 0), *((size, stride) for size in sizes for stride in strides))


def passes(size: int, stride: int, setting: Setting) -> int:
    """Of the token to each thread in a round: fewer where each takes longer."""
    budget = _BUDGET[setting.depth] if not setting.guest else 40_000
    elements = size // 8 if stride else 0
    least = _GUEST_PASSES_MIN if setting.guest else _PASSES_MIN
    return max(least, min(PASSES_MAX, budget // (elements + _SWITCH_ELEMENTS)))


def _rounds(setting: Setting) -> int:
    if setting.counting:
        return 2
    return ROUNDS // 2 if setting.quick else ROUNDS


def shortened(setting: Setting) -> str:
    cells = grid(setting)
    least = min(passes(size, stride, setting) for size, stride in cells)
    fewer = f"{least} to {PASSES_MAX // 1000} 000 passes of the study's 100 000, fewer the larger"
    if setting.guest:
        return f"{len(GUEST_SIZES)} sizes and two strides, with few passes"
    if not setting.quick:
        return f"{fewer} the array, so that a cell takes no minutes"
    return "no pthreads, two strides of the study's six, five rounds of ten, and few passes"


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every cell of the grid for each model, on one CPU."""
    planned = []
    for way in WAYS:
        if way.model not in setting.models or (setting.quick and way.model not in QUICK_MODELS):
            continue
        for size, stride in grid(setting):
            number = passes(size, stride, setting)
            rounds = _rounds(setting)
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
)
