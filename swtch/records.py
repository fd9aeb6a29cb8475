# SPDX-License-Identifier: Apache-2.0
"""The types that cross the lab's boundaries, one per arrow of the data flow.

    Trial -> Invocation -> (probe) -> Sample -> Finding -> Verdict

All are immutable msgspec structs. What is written to disk carries ``schema``;
a reader accepts its own schema and older ones (``upgrade`` says how) and refuses
newer ones. Field names end in their unit (``_ns``, ``_bytes``); counts have no suffix.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA = 2

Scalar = int | float | str | bool | None
Model = Literal[
    "kthread",
    "process",
    "pthread",
    "uthread",
    "coroutine",
    "ucontext",
    # Peers: the same work in other runtimes, each by a program of its own.
    "go",
    "boost",
    "tokio",
    "java",
    "context",
    "pth",
    "st",
    "may",
    "cpp20",
    "argobots",
    "photon",
    # Whatever a probe program of the user's own runs.
    "own",
]
Engine = Literal["native", "vm", "exact"]
Depth = Literal["quick", "normal", "paper"]
# A finding is about what something costs or does; a check, whether what was built or
# measured is right at all. Reports show them apart.
Kind = Literal["finding", "check"]
VerdictName = Literal["holds", "differs", "cannot tell", "not measurable here"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of one experiment: what `engine` shall run with `model`.

    ``id`` is unique in a run and readable: ``scenarios/A/pthread``.
    ``factors`` are what analysis groups by (scenario, cpus asked, cpus used, ...);
    ``probe`` is the JSON object the probe reads (docs/architecture.md).
    ``note`` says in one sentence what was done instead, when the machine
    cannot do what the study did; empty otherwise.
    """

    id: str
    experiment: str
    model: Model
    engine: Engine
    factors: dict[str, Scalar]
    probe: dict[str, Any]
    note: str = ""
    timeout_s: float = 60.0


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One process start of a trial: the unit of statistics.

    ``seq`` is the position in the plan and the key by which a resumed run
    knows what is done. ``block`` is the randomised block it belongs to.
    """

    seq: int
    block: int
    trial_id: str
    seed: int


class ThreadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of a sample. Counters are null where the kernel does not
    know the thread (uthread, coroutine, ucontext)."""

    index: int
    pid: int
    tid: int
    cpu: int
    cpu_end: int | None = None
    start_ns: int
    end_ns: int
    nvcsw: int | None = None
    nivcsw: int | None = None
    utime_ns: int | None = None
    stime_ns: int | None = None
    cpu_ns: int | None = None


class CarrierRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel thread that carried user-space threads during a sample."""

    index: int
    tid: int
    cpu: int
    nvcsw: int
    nivcsw: int
    utime_ns: int
    stime_ns: int
    cpu_ns: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One line of samples.jsonl: what one invocation gave, good or failed.

    ``values`` are the scalar results of the probe, unit in the name.
    ``detail`` keeps what only one experiment reads (the Gantt slots).
    ``steal_ns`` and ``interrupts`` are of the CPUs measured, over the invocation; of the
    whole guest, and of the whole machine that runs it, where that is a guest. ``busy_ns`` is
    what those CPUs worked for anybody, ``own_ns`` what the probe's processes had of it; both
    only of probes on the machine itself. ``throttled_ns`` is how long the control group was
    stopped for its CPU quota, summed over CPUs. ``started`` is for people; ``begun_ns`` is the same
    moment by CLOCK_MONOTONIC, which nobody sets, and ``boot`` the boot that it counts from.
    ``elsewhere`` has what was not as the manifest's environment says, where a run was resumed
    under other conditions (swtch.elsewhere). A failed invocation has ``status`` "failed",
    ``error`` one clear line, and no values; it still counts as done for resuming.
    """

    schema: int = SCHEMA
    seq: int
    experiment: str
    trial_id: str
    model: Model
    engine: Engine
    factors: dict[str, Scalar]
    block: int
    seed: int
    started: str
    elapsed_ns: int
    status: Literal["ok", "failed"]
    error: str = ""
    values: dict[str, float | int] = {}
    threads: tuple[ThreadRecord, ...] = ()
    carriers: tuple[CarrierRecord, ...] = ()
    detail: dict[str, Any] = {}
    steal_ns: int | None = None
    interrupts: int | None = None
    busy_ns: int | None = None
    own_ns: int | None = None
    throttled_ns: int | None = None
    boot: str = ""
    begun_ns: int | None = None
    elsewhere: dict[str, str] = {}


class MetricOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A metric that is one value of the probe, multiplied."""

    unit: str
    value: str
    scale: float = 1.0


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an experiment from outside without running its code.

    ``main`` has by clock the metric its trials are compared by and which way is better,
    where that is one for all. ``program`` is its own probe program with arguments;
    ``program_sha256`` is of the program as it was found.
    """

    name: str
    title: str
    study: str
    question: str
    models: tuple[Model, ...]
    seconds: float
    metrics: dict[str, MetricOutline] = {}
    main: dict[str, tuple[str, str]] = {}
    program: tuple[str, ...] = ()
    program_sha256: str = ""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where experiments of a run come from that are not swtch's own (swtch.own).

    ``path`` is the file they were read from, and ``copy`` where in the run it was kept; of
    an installed package they are "module" and empty, and ``package`` has name and version.
    ``sha256`` is that of the file.
    """

    path: str
    sha256: str
    experiments: tuple[Outline, ...]
    copy: str = ""
    package: str = ""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks [begin, end) of an engine, until ``until_ns`` of the budget are spent: of all
    trials, of those that claims use, or of those that undecided claims use."""

    engine: Engine
    begin: int
    end: int
    of: Literal["all", "used", "undecided"]
    until_ns: int


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """How a budget is to be spent (swtch.spending).

    ``budget_ns`` is that of the invocations, without what comes before and after them.
    ``looks`` are by engine the numbers of blocks after which its claims are judged.
    """

    budget_ns: int
    looks: dict[Engine, tuple[int, ...]]
    phases: tuple[Phase, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """manifest.json: everything needed to understand and to resume a run.

    ``trials`` and ``plan`` are complete before the first invocation starts.
    ``environment`` is what `swtch doctor` found, in full. ``repeats`` is the most that
    any trial has; an experiment may have its own (plan.repeats_of). With a ``target``, a
    trial has enough when its interval is as narrow (analysis.adaptive); with ``spending``
    it is measured as long as claims need it (swtch.spending). ``sources`` are of
    experiments that are not swtch's own.
    """

    schema: int = SCHEMA
    run_id: str
    created: str
    swtch_version: str
    command: tuple[str, ...]
    seed: int
    depth: Depth
    repeats: int
    experiments: tuple[str, ...]
    models: tuple[Model, ...]
    engine: Engine
    trials: tuple[Trial, ...]
    plan: tuple[Invocation, ...]
    environment: dict[str, Any]
    target: float | None = None
    sources: tuple[Source, ...] = ()
    spending: Spending | None = None


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with its confidence interval over invocations.

    ``method`` is "ranks" of what is compared (analysis.effects), "order" of a median that is
    only shown (analysis.stats), "constant" (all samples equal) or "too few" (the widest there
    is, which decides nothing). ``n`` is the number of blocks or invocations; ``level`` what
    the method really gives.
    """

    estimate: float
    low: float
    high: float
    level: float = 0.95
    n: int
    unit: str
    method: str = "order"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure with the table it comes from.

    ``bound``: the study says only that the figure is at most (upper) or at least (lower) this.
    """

    value: float
    sd: float | None = None
    unit: str
    source: str
    bound: Literal["upper", "lower"] | None = None

    @property
    def sign(self) -> str:
        """What stands before the figure: a bound's sign, or nothing."""
        return {"upper": "≤ ", "lower": "≥ ", None: ""}[self.bound]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one claim on this machine.

    ``here`` is None when it is not measurable here, and ``why`` then says why.
    ``published`` is text: what the study says, in its own figures.
    ``guest`` names the guest that measured it; empty on the machine itself.
    """

    claim: str
    study: str
    text: str
    published: str
    here: Interval | None
    engine: Engine
    verdict: VerdictName
    why: str
    threshold: float | None = None
    guest: str = ""
    kind: Kind = "finding"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What analysis says of one trial: intervals by metric, and its gates.

    ``gates`` counts samples marked, by gate name. ``dispersion`` holds plain
    mean, SD (Bessel) and CV by metric, as the studies print them; no CV of a mean of zero.
    """

    trial: Trial
    n: int
    failed: int
    intervals: dict[str, Interval]
    dispersion: dict[str, dict[str, float]]
    gates: dict[str, int]
    errors: tuple[str, ...] = ()
