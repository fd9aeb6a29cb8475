# SPDX-License-Identifier: Apache-2.0
"""What study 004 would have measured: a scene for each thing that its claims turn on."""

from __future__ import annotations

from typing import Any

from made_004 import counting, direct, trial, uncounted, walking
from synthetic import Scene, failed
from verdicts import Where

KIB = 1024


# ---- direct-cost ----


def kernels(where: Where, us: float = 3.0, **more: Any) -> Scene:
    """Switches of this cost, beyond calls of 1 us."""
    return direct(Scene(), "process", "pipe", us, where=where, **more)


def others_only(where: Where) -> Scene:
    return direct(Scene(), "pthread", "futex", 1.0, where=where)


def levels(
    where: Where,
    user: float = 1.18,
    kernel: float = 0.62,
    *,
    share: float = 0.01,
    n: int = 10,
    noise: float = 0.0,
) -> Scene:
    more: dict[str, Any] = {"n": n, "where": where, "noise": noise}
    scene = direct(Scene(), "process", "pipe", kernel, share=-share, **more)
    direct(scene, "uthread", "locks", user, share=share, **more)
    direct(scene, "ucontext", "yield", 0.6, n=n, where=where)
    return direct(scene, "coroutine", "yield", 0.03, n=n, where=where)


def levels_failed(where: Where) -> Scene:
    scene = Scene()
    for model, way in (("process", "pipe"), ("uthread", "locks")):
        one = trial("direct-cost", model=model, way=way, **where)
        scene.add(one, [failed(one)] * 10)
    return scene


# ---- working-set ----


def mountains(
    first: float = 1.5,
    valley: float = 1.2,
    second: float = 3.0,
    last: float = 1.5,
    *,
    l1: int = 32,
    l2: int = 256,
) -> Any:
    """Figure 3: a rise up to L1d's size, a valley, a peak at L2's."""

    def cost(size: int, _stride: int) -> float:
        if size < l1 * KIB:
            return 0.62
        if size == l1 * KIB:
            return first
        if size < l2 * KIB:
            return valley
        return second if size == l2 * KIB else last

    return cost


def process_walks(where: Where, *shape: float, **more: Any) -> Scene:
    return walking(Scene(), "process", mountains(*shape), where=where, **more)


def no_l1(where: Where) -> Scene:
    return walking(Scene(), "process", mountains(), where=where, l1d_bytes=0)


def level(user: float, rise: float) -> Any:
    """So much without a walk, and so much more with each doubling of the array."""

    def cost(size: int, _stride: int) -> float:
        return user + rise * max(0, (size // KIB).bit_length() - 1)

    return cost


def both_walk(
    where: Where, rise: float = 0.0, kernel: float = 0.3, *, noise: float = 0.02, n: int = 10
) -> Scene:
    """Of uthreads and processes: what one doubling of the array adds, in us."""
    more: dict[str, Any] = {"share": 0.0, "noise": noise, "n": n, "where": where}
    scene = walking(Scene(), "uthread", level(1.2, rise), **more)
    return walking(scene, "process", level(0.62, kernel), **more)


def user_walks(
    where: Where, peak: float = 4.5, last: float = 1.5, *, noise: float = 0.01, n: int = 10
) -> Scene:
    """Figure 5: 1.2 us, a peak at three quarters of L2 and at L2, and less beyond."""

    def cost(size: int, _stride: int) -> float:
        if size < 192 * KIB:
            return 1.2
        return peak if size <= 256 * KIB else last

    return walking(Scene(), "uthread", cost, share=0.0, noise=noise, n=n, where=where)


# ---- counters ----


def events(
    *,
    alone_at: int = 64,
    turns_at: int = 32,
    dtlb: float = 0.1,
    l1i: float = 1.0,
    pass_instructions: float = 1000.0,
) -> Any:
    """Misses with an L1d that arrays of these KiB do not fit, and what a switch adds."""

    def misses(mode: str, event: str, size: int) -> float:
        if event == "l1d":
            at = alone_at if mode == "single" else turns_at
            return size / 8 if size >= at * KIB else size / 1000
        if event == "instructions":
            return size * 1.0 + pass_instructions
        added = {"dtlb": dtlb, "l1i": l1i}[event]
        return 5.0 + (added if mode == "switch" else 0.0)

    return misses


def counted(
    where: Where, *, user: Any = None, kernel: Any = None, share: float = 0.0, n: int = 10
) -> Scene:
    """Counts as the study has them, but for what is given."""
    scene = counting(
        Scene(),
        "process",
        kernel or events(dtlb=35, l1i=140),
        share=share,
        n=n,
        where=where,
    )
    return counting(scene, "uthread", user or events(), share=-share, n=n, where=where)


def executed(
    where: Where, user: float = 9000.0, kernel: float = 4000.0, *, share: float = 0.01, n: int = 10
) -> Scene:
    """So many instructions for a pass of the token and its switch."""
    more: dict[str, Any] = {"where": where, "n": n}
    scene = counting(Scene(), "uthread", events(pass_instructions=user), share=share, **more)
    return counting(scene, "process", events(pass_instructions=kernel), share=-share, **more)


def varied(where: Where, user: float = 0.001, kernel: float = 0.02, *, n: int = 10) -> Scene:
    """Counts that vary by such a share from one invocation to the next."""
    if where.get("engine") == "exact":
        return one_level_counted(where)
    scene = counting(Scene(), "uthread", events(), share=user, n=n, where=where)
    return counting(scene, "process", events(), share=kernel, n=n, turned=True, where=where)


def one_level_counted(where: Where) -> Scene:
    return counting(Scene(), "uthread", events(), where=where)


def strided(where: Where, factor: float = 8.0, *, share: float = 0.01, n: int = 10) -> Scene:
    """L1d misses by 64 bytes so many times those by 8."""
    scene = Scene()
    for model in ("process", "uthread"):
        more: dict[str, Any] = {"share": share, "n": n, "where": where}
        counting(scene, model, events(), strides=factor if model == "process" else 8.0, **more)
    return scene


def no_counters(where: Where) -> Scene:
    scene = uncounted(Scene(), "process", where=where)
    uncounted(scene, "uthread", where=where)
    return scene if scene.trials else counting(scene, "uthread", events(), where=where)
