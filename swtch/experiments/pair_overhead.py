# SPDX-License-Identifier: Apache-2.0
"""Study 002, section 3: what context switches cost two tasks beyond themselves.

Two tasks share one CPU and hand over to one another n times. With R the time for
n = 1, R' for n, and C one switch by itself from cold caches:

    indirect I = R' - (R - C) - n C

which falls apart into what each task loses (A and B) and what the switches inflate. What
the tasks lose and what the switches take in R' need no C, and claims are about those. The
tasks are those of the study: bubble sort of data the size of L1d, deflate, AES, CRC; all
six pairs of them.

In the kernel (kthread) the hand-over is a wake-up and schedule() by SCHED_FIFO
threads, once as kernel threads are, without an address space to switch, and once
with the address spaces of two processes (``space``); the study's tasks had their
own. In user space the same tasks are processes, pthreads and uthreads. The study used
no scheduler: its tasks call one another. SCHED_BATCH is the nearest that everybody
may have, for there a woken thread does not preempt its waker.

The study's tasks take 3 to 4 s of 120 MHz, its switch 48 us. A switch is cheaper today
even in cycles, and so much work would bury 99 of them: tasks take about a thirtieth of
those cycles, but at depth *paper*, which does what the study did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from swtch.engines import TRAITS
from swtch.experiments import Count, Experiment, Main, Metric, PublishedKey, Setting, shape, value
from swtch.records import Depth, Engine, Model, Published, Scalar, Trial

NAME: Final = "pair-overhead"
MODELS: Final[tuple[Model, ...]] = ("pthread", "process", "kthread", "uthread", "coroutine")

# As in figure 2.
PAIRS: Final = (
    ("sort", "deflate"),
    ("sort", "crc"),
    ("aes", "crc"),
    ("crc", "deflate"),
    ("aes", "deflate"),
    ("aes", "sort"),
)
QUICK_PAIRS: Final = (PAIRS[0], PAIRS[2])
MOST: Final = 99
# With one switch R' is R. The study's figures have no marks; these make their curves.
PAPER_SWITCHES: Final = (1, *range(9, MOST + 1, 10))
SWITCHES: Final = (9, 39, 69, MOST)
QUICK_SWITCHES: Final = (9, MOST)

# About 4 ms each on a CPU of 2023, and at least one step for each of 50 parts.
STEPS: Final[Mapping[str, int]] = {"sort": 55, "deflate": 200, "aes": 50, "crc": 80}
# So many times that is what 3 to 4 s of 120 MHz are, in cycles.
PAPER_STEPS: Final = 30
GRAIN: Final = 16_384
SORT_BYTES: Final = 32_768  # where the machine does not say, the smallest L1d still made
SORT_BYTES_MOST: Final = 1 << 20
STREAM_BYTES: Final = 1 << 20
PAPER_STREAM_BYTES: Final = 8 << 20  # beyond L2, too
# The study emptied its caches. Beyond the last one this takes up to a second, thirty
# times an invocation; 16 MiB are beyond L2, and enough for a kernel's path to be gone.
EVICT_BYTES: Final = 16 << 20
# Beyond L2. What a pass begins with is gone after its first part, which no loss is of.
QUICK_EVICT_BYTES: Final = 4 << 20
EVICT_BYTES_MOST: Final = 1 << 30
LLC_BYTES: Final = 64 << 20  # where the machine does not say
# The study's were five.
REPEAT: Final[Mapping[Depth, int]] = {"quick": 21, "normal": 21, "paper": 5}
ROUNDS: Final = 100

# An emulated processor is some twenty times slower, and has no caches.
GUEST_EVICT_BYTES: Final = 2 << 20
GUEST_REPEAT: Final = 5
GUEST_QUICK_REPEAT: Final = 3

_FIGURE_2: Final = "study 002, section 3.2 on figure 2"
_FIGURE_3: Final = "study 002, section 3.2 on figure 3"
_SECTION: Final = "study 002, section 3.2"


def case_of(pair: tuple[str, str]) -> str:
    """The pair's name."""
    return "+".join(pair)


def _published() -> dict[PublishedKey, Published]:
    at_most = f"{_SECTION}, n = {MOST}"
    figures: dict[PublishedKey, Published] = {
        ("C", "kthread", "direct_us"): Published(value=48, unit="µs", source=_SECTION),
        ("all", "kthread", "switches_us"): Published(value=4_750, unit="µs", source=at_most),
    }
    for pair, indirect_us, seconds in (("sort+deflate", 10_300, 7.159), ("aes+crc", 6_900, 6.6)):
        figures[pair, "kthread", "indirect_us"] = Published(
            value=indirect_us, unit="µs", source=f"{_FIGURE_2}, n = {MOST}"
        )
        figures[pair, "kthread", "run_s"] = Published(value=seconds, unit="s", source=_FIGURE_2)
    for pair, share in (("sort+deflate", 0.14), ("aes+crc", 0.10), ("aes+deflate", 0.18)):
        figures[pair, "kthread", "indirect_percent"] = Published(
            value=share, unit="%", source=f"{_FIGURE_2}, n = {MOST}"
        )
    for which, share in (("least", 0.17), ("most", 0.25)):
        figures[which, "kthread", "added_percent"] = Published(
            value=share, unit="%", source=f"{at_most}, direct and indirect"
        )
    of_tasks = f"{_FIGURE_3}, n = {MOST}"
    figures["crc", "kthread", "share_us"] = Published(
        value=2_000, unit="µs", bound="upper", source=f"{of_tasks}: below 2 ms"
    )
    figures["sort", "kthread", "share_us"] = Published(value=2_500, unit="µs", source=of_tasks)
    for task in ("aes", "deflate"):
        for case, us, bound in ((task, 8_000, "upper"), (f"{task}, least", 6_000, "lower")):
            figures[case, "kthread", "share_us"] = Published(
                value=us,
                unit="µs",
                bound="upper" if bound == "upper" else "lower",
                source=f"{of_tasks}: aes and deflate vary between 6 and 8 ms",
            )
    return figures


def in_both_units(parts: Mapping[str, str]) -> dict[str, Metric]:
    """Metrics of times, by what a probe calls them: in µs, and where the engine counts
    instructions in those."""
    metrics: dict[str, Metric] = {}
    for name, source in parts.items():
        metrics[f"{name}_us"] = value(f"{source}_ns", "µs", 1e-3)
        metrics[f"{name}_instructions"] = value(f"{source}_instructions", "instructions")
    return metrics


def unit_of(engine: Engine) -> str:
    """What the metrics of a place end with."""
    return "instructions" if TRAITS[engine].counting else "us"


def shown_in(engine: Engine) -> str:
    """The same in words."""
    return "instructions" if TRAITS[engine].counting else "µs"


def difference(a: str, b: str) -> dict[str, Metric]:
    """How much a is more than b, as ``excess``."""

    def of(unit: str, scale: float) -> Metric:
        def computed(values: Mapping[str, float | int]) -> float | None:
            if not {f"{a}_{unit}", f"{b}_{unit}"} <= values.keys():
                return None
            return (values[f"{a}_{unit}"] - values[f"{b}_{unit}"]) * scale

        return Metric(unit="µs" if unit == "ns" else unit, of=computed)

    return {"excess_us": of("ns", 1e-3), "excess_instructions": of("instructions", 1)}


Values = Mapping[str, float | int]
Compute = Callable[[Values], float | None]


def total(*names: str, scale: float = 1.0) -> Compute:
    """The sum of these of a sample's values; None where one is missing."""

    def computed(values: Values) -> float | None:
        if not all(name in values for name in names):
            return None
        return sum(values[name] for name in names) * scale

    return computed


def _lost(unit: str, scale: float = 1.0) -> Compute:
    """What both tasks lost: A and B."""
    return total(f"indirect_a_{unit}", f"indirect_b_{unit}", scale=scale)


def _added(unit: str, scale: float = 1.0) -> Compute:
    """Direct and indirect together: what the tasks lost, and what all switches took."""
    parts = f"indirect_a_{unit}", f"indirect_b_{unit}", f"rn_switch_{unit}"
    return total(*parts, scale=scale)


def _excess(unit: str, scale: float = 1.0) -> Compute:
    """What the tasks lost less what the switches took."""

    def computed(values: Values) -> float | None:
        lost = _lost(unit)(values)
        if lost is None or f"rn_switch_{unit}" not in values:
            return None
        return (lost - values[f"rn_switch_{unit}"]) * scale

    return computed


def _between(unit: str, scale: float) -> Compute:
    """One switch between the tasks, as it is in R'."""

    def computed(values: Values) -> float | None:
        if f"rn_switch_{unit}" not in values or not values.get("n"):
            return None
        return values[f"rn_switch_{unit}"] * scale / values["n"]

    return computed


def in_cycles(of: Compute) -> Metric:
    """A time in ns as thousands of this processor's cycles."""

    def computed(values: Values) -> float | None:
        ns, cycle_ps = of(values), values.get("cycle_ps")
        return None if ns is None or not cycle_ps else ns / cycle_ps

    return Metric(unit="thousand cycles", of=computed)


def share(part: float, whole: float) -> float | None:
    """In percent; none of nothing."""
    return 100 * part / whole if whole else None


def _added_percent(values: Values) -> float | None:
    for unit in ("ns", "instructions"):
        added, whole = _added(unit)(values), values.get(f"rn_{unit}")
        if added is not None and whole is not None:
            # R' less that is the tasks by themselves.
            return share(added, whole - added)
    return None


def _lost_switches(values: Values) -> float | None:
    """What both tasks lost, in times of one switch between them."""
    lost, switch = _lost("ns")(values), _between("ns", 1)(values)
    return None if lost is None or not switch else lost / switch


METRICS: Final[Mapping[str, Metric]] = {
    **in_both_units(
        {
            "direct": "c_cold",
            "direct_warm": "c_warm",
            "indirect": "indirect",
            "indirect_warm": "indirect_warm",
            "share_a": "indirect_a",
            "share_b": "indirect_b",
            "inflation": "indirect_switch",
            "switches": "rn_switch",
        }
    ),
    "lost_us": Metric(unit="µs", of=_lost("ns", 1e-3)),
    "lost_instructions": Metric(unit="instructions", of=_lost("instructions")),
    "lost_kilocycles": in_cycles(_lost("ns")),
    "lost_switches": Metric(unit="switches", of=_lost_switches),
    "excess_us": Metric(unit="µs", of=_excess("ns", 1e-3)),
    "excess_instructions": Metric(unit="instructions", of=_excess("instructions")),
    "between_us": Metric(unit="µs", of=_between("ns", 1e-3)),
    "between_instructions": Metric(unit="instructions", of=_between("instructions", 1)),
    "added_us": Metric(unit="µs", of=_added("ns", 1e-3)),
    "added_instructions": Metric(unit="instructions", of=_added("instructions")),
    "added_kilocycles": in_cycles(_added("ns")),
    "added_percent": Metric(unit="%", of=_added_percent),
    "run_ms": value("r_ns", "ms", 1e-6),
    "run_mi": value("r_instructions", "million instructions", 1e-6),
}


def faithful(setting: Setting) -> bool:
    """Whether work, data and eviction are the study's; an emulated processor has no caches,
    is too slow for it, and what its clock says is not judged."""
    return setting.depth == "paper" and (not setting.guest or setting.llc_bytes > 0)


def sizes(setting: Setting) -> tuple[tuple[tuple[str, str], ...], tuple[int, ...]]:
    """The pairs and the numbers of switches to measure."""
    if setting.counting or setting.quick:
        return QUICK_PAIRS, QUICK_SWITCHES
    return PAIRS, PAPER_SWITCHES if faithful(setting) else SWITCHES


def shortened(setting: Setting) -> str:
    """What this setting leaves out, in one line."""
    if setting.counting:
        return (
            "two of the study's six pairs, 9 and 99 switches: each invocation is a boot; and"
            " instructions know no caches"
        )
    if faithful(setting):
        return ""
    if not setting.quick:
        return f"9, 39, 69 and 99 switches, {less_work(setting)}"
    return f"two of the study's six pairs, 9 and 99 switches, {less_work(setting)}"


def less_work(setting: Setting) -> str:
    """What both experiments of the study do less of, where they are not `faithful`."""
    most = (QUICK_EVICT_BYTES if setting.quick else EVICT_BYTES) >> 20
    caches = "no caches to evict" if setting.guest else f"caches evicted up to {most} MiB"
    only = "; in the guest kernel threads only" if setting.guest and setting.quick else ""
    return f"a thirtieth of the study's work (in cycles), {caches}{only}"


def work(task: str, letter: str, setting: Setting) -> dict[str, Any]:
    """The members of a trial that give one task its work."""
    times = PAPER_STEPS if faithful(setting) else 1
    return {f"task_{letter}": task, f"steps_{letter}": STEPS[task] * times}


def sort_bytes(setting: Setting) -> int:
    """The size of L1d, of which the study's sort had all."""
    size = setting.l1d_bytes // GRAIN * GRAIN
    return min(size, SORT_BYTES_MOST) if size else SORT_BYTES


def evict_bytes(setting: Setting) -> int:
    """What is walked to begin with empty caches: more than the last of them has."""
    if setting.guest and not setting.llc_bytes:
        return GUEST_EVICT_BYTES
    beyond = (setting.llc_bytes or LLC_BYTES) // 4 * 5 // GRAIN * GRAIN
    if faithful(setting):
        return min(beyond, EVICT_BYTES_MOST)
    return min(beyond, QUICK_EVICT_BYTES if setting.quick else EVICT_BYTES)


def repeats(setting: Setting, last: bool, usual: Mapping[Depth, int] = REPEAT) -> int:
    """How often R and R' are measured. Of a quick trial that is not the `last` half of that: in
    a line through none where there is none, what few switches cost counts little."""
    if setting.guest:
        return GUEST_QUICK_REPEAT if setting.quick else GUEST_REPEAT
    often = usual[setting.depth]
    return often if last or not setting.quick else (often + 1) // 2


def measuring(setting: Setting) -> dict[str, bool | int]:
    """The members of a trial that say how it is measured, but how often."""
    return {
        "sort_bytes": sort_bytes(setting),
        "stream_bytes": PAPER_STREAM_BYTES if faithful(setting) else STREAM_BYTES,
        "evict_bytes": evict_bytes(setting),
        "cold": True,
        "rounds": ROUNDS,
    }


def note_of(setting: Setting) -> str:
    """Where the machine cannot do what the study did."""
    if faithful(setting) and setting.llc_bytes > EVICT_BYTES_MOST:
        return "the last cache is too large to be evicted: 1 GiB of it is"
    return ""


def kind_of(trial: Trial) -> str:
    """The model, and of a kthread whether it has an address space."""
    mm = trial.model == "kthread" and trial.factors["space"] == "own"
    return f"{trial.model}-mm" if mm else trial.model


def spaces(model: Model) -> tuple[str, ...]:
    """Whose address spaces the two threads of a model have."""
    if model == "kthread":
        return ("none", "own")
    return ("own",) if model == "process" else ("shared",)


def kinds(setting: Setting) -> tuple[tuple[Model, str], ...]:
    """The models and address spaces that this setting measures. In a quick guest only what
    nobody else has: the study's own kind."""
    few = setting.quick and setting.guest and not setting.counting and "kthread" in setting.models
    return tuple(
        (model, space)
        for model in MODELS
        if model in setting.models
        for space in spaces(model)
        if not few or (model, space) == ("kthread", "own")
    )


def numbers(
    known: tuple[int, ...], usual: tuple[int, ...], model: Model, setting: Setting
) -> tuple[int, ...]:
    """Those of a model: all where a verdict may be about it, else enough for the picture."""
    if model in ("process", "kthread"):
        return known
    if setting.quick:
        return known[-1:]
    return tuple(n for n in known if n in usual)


def _trial(pair: tuple[str, str], n: int, model: Model, space: str, setting: Setting) -> Trial:
    a, b = pair
    # The module's threads are SCHED_FIFO always.
    policy = "fifo" if model == "kthread" else setting.policy
    factors: dict[str, Scalar] = {
        "pair": case_of(pair),
        "task_a": a,
        "task_b": b,
        "n": n,
        "space": space,
        "cpus_used": 1,
        "policy": policy,
    }
    probe = setting.probe(
        NAME,
        model,
        **work(a, "a", setting),
        **work(b, "b", setting),
        n=n,
        repeat=repeats(setting, n == MOST),
        **measuring(setting),
    )
    probe["policy"] = policy
    if model == "kthread":
        probe["mm"] = space == "own"
    if model == "uthread":
        probe["tick_ns"] = 0
    case = f"{case_of(pair)}/{n}/{model}" + ("-mm" if probe.get("mm") else "")
    return setting.trial(NAME, case, probe, factors, note_of(setting))


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every pair with every number of switches and every model, by address spaces."""
    pairs, switches = sizes(setting)
    return tuple(
        _trial(pair, n, model, space, setting)
        for pair in pairs
        for n in switches
        for model, space in kinds(setting)
        if n in numbers(switches, SWITCHES, model, setting)
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Two tasks that hand over to one another",
    study="002",
    question="What do context switches cost two tasks beyond the switches themselves?",
    models=MODELS,
    seconds=0.3,
    seconds_at={
        ("native", "quick"): 0.4,
        ("native", "normal"): 0.6,
        ("native", "paper"): 5.5,
        ("vm", "quick"): 0.42,
        ("vm", "normal"): 0.66,
    },
    repeats={"paper": 10},
    trials=trials,
    published=_published(),
    metrics=METRICS,
    main={"time": Main("between_us"), "instructions": Main("between_instructions")},
    shortened=shortened,
    factors=shape(pair=str, n=Count, space=str),
)
