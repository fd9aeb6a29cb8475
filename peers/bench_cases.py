# SPDX-License-Identifier: Apache-2.0
"""What the comparison measures, and the targets it is judged by: tables, no code."""

from __future__ import annotations

from dataclasses import dataclass

KB = 1024.0


@dataclass(frozen=True)
class Case:
    """One row: a program's subcommand. With one_cpu it is pinned to a single CPU."""

    name: str
    what: str
    program: str
    args: tuple[str, ...]
    group: str
    one_cpu: bool = True
    # The ratio shown beside it: this case divided by that one.
    versus: str = ""


@dataclass(frozen=True)
class Check:
    """value(case) <= limit, or value(case) / value(versus) against the limit."""

    case: str
    limit: float
    versus: str = ""
    at_least: bool = False


@dataclass(frozen=True)
class Target:
    """Met when any of its checks is."""

    name: str
    any_of: tuple[Check, ...]


UTHREAD, PTHREAD, BOOST = "uthread-bench", "pthread-bench", "boost-bench"
GO = "go-bench"


def _cases() -> tuple[Case, ...]:
    rows = [
        Case("naked", "the least a switch can be", UTHREAD, ("naked",), "switch"),
        Case("tlsbase", "one write of the TLS base", UTHREAD, ("tlsbase",), "switch"),
        Case(
            "boost-context",
            "Boost.Context resume, bare",
            BOOST,
            ("context",),
            "switch",
            versus="bare-shared",
        ),
        Case("swapcontext", "swapcontext(3)", PTHREAD, ("swapcontext",), "switch"),
    ]
    for mode in ("shared", "own"):
        rows += [
            Case(
                f"bare-{mode}",
                f"context_switch() alone, {mode} TLS",
                UTHREAD,
                ("bare", mode),
                "switch",
                versus="naked",
            ),
            Case(
                f"yield-{mode}",
                f"uthread_yield, 2 uthreads, {mode} TLS",
                UTHREAD,
                ("yield", mode, "2"),
                "yield",
                versus=f"bare-{mode}",
            ),
            Case(
                f"yield-{mode}-off",
                f"uthread_yield, 2 uthreads, {mode} TLS, no ticks",
                UTHREAD,
                ("yield", mode, "2", "off"),
                "yield",
                versus=f"yield-{mode}",
            ),
            Case(
                f"yield-{mode}-1000",
                f"uthread_yield, 1000 uthreads, {mode} TLS",
                UTHREAD,
                ("yield", mode, "1000"),
                "yield",
                versus=f"yield-{mode}",
            ),
            Case(
                f"create-{mode}",
                f"uthread create + join, {mode} TLS, 1 worker",
                UTHREAD,
                ("create", mode, "1"),
                "create",
            ),
            Case(
                f"create-{mode}-2w",
                f"uthread create + join, {mode} TLS, 2 workers",
                UTHREAD,
                ("create", mode, "2"),
                "create",
                one_cpu=False,
                versus=f"create-{mode}",
            ),
            Case(
                f"mutex-{mode}",
                f"uthread mutex, lock + unlock, {mode} TLS",
                UTHREAD,
                ("mutex", mode),
                "sync",
                versus="mutex-pthread",
            ),
            Case(
                f"contend-{mode}",
                f"uthread mutex, 8 uthreads, {mode} TLS, all CPUs",
                UTHREAD,
                ("contend", mode),
                "sync",
                one_cpu=False,
                versus="contend-pthread",
            ),
            Case(
                f"sem-{mode}",
                f"uthread semaphores, round trip, {mode} TLS",
                UTHREAD,
                ("sem", mode),
                "sync",
                versus="sem-pthread",
            ),
            Case(
                f"chan-{mode}",
                f"uthread channels, round trip, {mode} TLS",
                UTHREAD,
                ("chan", mode, "1"),
                "channel",
                versus="chan-go",
            ),
            Case(
                f"chan-{mode}-2w",
                f"uthread channels, round trip, {mode} TLS, 2 workers",
                UTHREAD,
                ("chan", mode, "2"),
                "channel",
                one_cpu=False,
                versus="chan-go-2w",
            ),
            Case(
                f"chan-{mode}-apart",
                f"uthread channels, round trip, {mode} TLS, each bound to its worker",
                UTHREAD,
                ("chan-apart", mode),
                "channel",
                one_cpu=False,
                versus="chan-go-apart",
            ),
            Case(
                f"select-{mode}",
                f"uthread_select of two channels, round trip, {mode} TLS",
                UTHREAD,
                ("select", mode, "1"),
                "channel",
                versus="select-go",
            ),
        ]
    rows += [
        Case("yield-boost", "Boost.Fiber yield, 2 fibers", BOOST, ("yield", "2"), "yield"),
        Case(
            "yield-boost-1000",
            "Boost.Fiber yield, 1000 fibers",
            BOOST,
            ("yield", "1000"),
            "yield",
            versus="yield-boost",
        ),
        Case("yield-pthread", "sched_yield, 2 pthreads, one CPU", PTHREAD, ("yield",), "yield"),
        Case("create-boost", "Boost.Fiber launch + join, pooled", BOOST, ("create",), "create"),
        Case(
            "create-boost-malloc",
            "Boost.Fiber launch + join, default stacks",
            BOOST,
            ("create-malloc",),
            "create",
        ),
        Case("create-pthread", "pthread_create + join, one CPU", PTHREAD, ("create",), "create"),
        Case(
            "create-pthread-any",
            "pthread_create + join, all CPUs",
            PTHREAD,
            ("create",),
            "create",
            one_cpu=False,
        ),
        Case("mutex-boost", "Boost.Fiber mutex, lock + unlock", BOOST, ("mutex",), "sync"),
        Case("mutex-pthread", "pthread mutex, lock + unlock", PTHREAD, ("mutex",), "sync"),
        Case(
            "contend-pthread",
            "pthread mutex, 8 pthreads, all CPUs",
            PTHREAD,
            ("contend",),
            "sync",
            one_cpu=False,
        ),
        Case(
            "contend-go",
            "Go sync.Mutex, 8 goroutines, all CPUs",
            GO,
            ("contend",),
            "sync",
            one_cpu=False,
            versus="contend-pthread",
        ),
        Case("sem-boost", "Boost.Fiber condition variables, round trip", BOOST, ("sem",), "sync"),
        Case("sem-pthread", "POSIX semaphores, round trip, one CPU", PTHREAD, ("sem",), "sync"),
    ]
    rows += [
        Case("chan-go", "Go channels, round trip", GO, ("chan", "1"), "channel"),
        Case(
            "chan-go-2w",
            "Go channels, round trip, 2 processors",
            GO,
            ("chan", "2"),
            "channel",
            one_cpu=False,
        ),
        Case(
            "chan-go-apart",
            "Go channels, round trip, each locked to its thread",
            GO,
            ("chan-apart",),
            "channel",
            one_cpu=False,
        ),
        Case("select-go", "Go select of two channels, round trip", GO, ("select", "1"), "channel"),
    ]
    order = ("switch", "yield", "create", "sync", "channel")
    return tuple(sorted(rows, key=lambda case: order.index(case.group)))


CASES = _cases()
# The rows of very many uthreads, which have a floor: their memory without them.
MANY_VERSUS = {
    name: versus
    for mode in ("own", "shared")
    for name, versus in (
        (f"make-{mode}", f"pages-{mode}"),
        (f"make-{mode}-main", f"pages-{mode}"),
        (f"yield-{mode}-many", f"walk-{mode}"),
    )
}
GROUPS = ("switch", "yield", "create", "sync", "channel", "park", "help")


def _targets() -> tuple[Target, ...]:
    result = []
    for mode, limit in (("own", 20.0), ("shared", 10.0)):
        result.append(
            Target(
                f"yield, {mode} TLS: <= {limit:.0f} ns, or <= 2.5 x the bare switch",
                (
                    Check(f"yield-{mode}", limit),
                    Check(f"yield-{mode}", 2.5, versus=f"bare-{mode}"),
                ),
            )
        )
    result += [
        Target(
            f"yield, {mode} TLS: with ticks <= 1.05 x without",
            (Check(f"yield-{mode}", 1.05, versus=f"yield-{mode}-off"),),
        )
        for mode in ("own", "shared")
    ]
    for peer, limit, words in (("boost", 5.0, "Boost.Fiber"), ("pthread", 40.0, "sched_yield")):
        result += [
            Target(
                f"yield, {mode} TLS: {words} takes >= {limit:.0f} x as long",
                (Check(f"yield-{peer}", limit, versus=f"yield-{mode}", at_least=True),),
            )
            for mode in ("own", "shared")
        ]
    result += [
        Target(
            f"create + join, {mode} TLS, {count}: <= 250 ns",
            (Check(f"create-{mode}{suffix}", 250),),
        )
        for mode in ("own", "shared")
        for suffix, count in (("", "1 worker"), ("-2w", "2 workers"))
    ]
    result += [
        Target(
            f"mutex, {mode} TLS, nobody else: <= pthread's",
            (Check(f"mutex-{mode}", 1.0, versus="mutex-pthread"),),
        )
        for mode in ("own", "shared")
    ]
    result += [
        Target(
            f"mutex, {mode} TLS, 8 threads: {words} takes >= 1 x as long",
            (Check(f"contend-{peer}", 1.0, versus=f"contend-{mode}", at_least=True),),
        )
        for mode in ("own", "shared")
        for peer, words in (("pthread", "pthread's"), ("go", "Go's"))
    ]
    result += [
        Target(f"parked, {mode} TLS: <= {kb} KB each", (Check(f"park-{mode}", kb * KB),))
        for mode, kb in (("own", 9.0), ("shared", 4.5))
    ]
    for mode in ("own", "shared"):
        result += [
            Target(
                f"created, {mode} TLS, by {words}: <= 5 us, or <= 1.3 x the pages alone",
                (
                    Check(f"make-{mode}{suffix}", 5000.0),
                    Check(f"make-{mode}{suffix}", 1.3, versus=f"pages-{mode}"),
                ),
            )
            for suffix, words in (("", "a uthread"), ("-main", "main"))
        ]
        result.append(
            Target(
                f"yield among very many, {mode} TLS: <= 4 x two, or 1.3 x the lines alone",
                (
                    Check(f"yield-{mode}-many", 4.0, versus=f"yield-{mode}"),
                    Check(f"yield-{mode}-many", 1.3, versus=f"walk-{mode}"),
                ),
            )
        )
    for mode in ("own", "shared"):
        result += [
            Target(
                f"channel round trip, {mode} TLS: <= 80 ns, or <= 2 x two yields",
                (
                    Check(f"chan-{mode}", 80.0),
                    Check(f"chan-{mode}", 4.0, versus=f"yield-{mode}"),
                ),
            ),
            Target(
                f"channel round trip, {mode} TLS, 2 workers: no slower than Go's",
                (Check(f"chan-{mode}-2w", 1.0, versus="chan-go-2w"),),
            ),
        ]
    result.append(Target("swtch --help: <= 0.25 s", (Check("help", 0.25),)))
    return tuple(result)


TARGETS = _targets()
