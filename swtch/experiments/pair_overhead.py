# SPDX-License-Identifier: Apache-2.0
"""Study 002, section 3: what context switches cost two tasks beyond themselves.

Two tasks share one CPU and hand over to one another n times. With R the time for
n = 1, R' for n, and C one switch by itself from cold caches:

    indirect I = R' - (R - C) - n C

which falls apart into what each task loses and what the switches inflate. The
tasks are those of the study: bubble sort of data the size of L1d, deflate, AES,
CRC; all six pairs of them.

In the kernel (kthread) the hand-over is a wake-up and schedule() by SCHED_FIFO
threads, once as kernel threads are, without an address space to switch, and once
with the address spaces of two processes (``space``); the study's tasks had their
own. In user space the same tasks are processes, pthreads and uthreads.

The study's tasks take 3 to 4 s each, its switch 48 us. Here a switch is so much
cheaper that work of seconds would bury 99 of them: tasks take about 4 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from swtch.experiments import Experiment, Main, Metric, PublishedKey, Setting, value
from swtch.records import Engine, Model, Published, Scalar, Trial

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
SWITCHES: Final = (9, 33, 66, MOST)
QUICK_SWITCHES: Final = (33, MOST)

# About 4 ms each on a CPU of 2023, and at least one step for each of 50 parts.
STEPS: Final[Mapping[str, int]] = {"sort": 55, "deflate": 200, "aes": 50, "crc": 80}
SORT_BYTES: Final = 32_768  # the smallest L1 data cache still made
STREAM_BYTES: Final = 1 << 20
EVICT_BYTES: Final = 16 << 20
# Odd, for a median; the study's were five.
REPEAT: Final = 9
QUICK_REPEAT: Final = 5
ROUNDS: Final = 100

# An emulated processor is some twenty times slower, and has no caches.
GUEST_EVICT_BYTES: Final = 2 << 20
GUEST_REPEAT: Final = 5
GUEST_QUICK_REPEAT: Final = 3
# A quick run in a guest compares kernel threads with what the kernel knows, too.
GUEST_QUICK_MODELS: Final[tuple[Model, ...]] = ("process", "kthread")

QUICK_NOTE: Final = "quick: two of the study's six pairs, 33 and 99 switches"
GUEST_QUICK_NOTE: Final = f"{QUICK_NOTE}; in the guest kernel threads and processes"
EXACT_NOTE: Final = (
    "each invocation is a boot, so two of the study's six pairs, 33 and 99 switches; there are no"
    " caches either, so what is indirect is instructions only"
)

_FIGURE_2: Final = "study 002, section 3.2 on figure 2"
_FIGURE_3: Final = "study 002, section 3.2 on figure 3"


def case_of(pair: tuple[str, str]) -> str:
    """The pair's name."""
    return "+".join(pair)


def _published() -> dict[PublishedKey, Published]:
    figures: dict[PublishedKey, Published] = {
        ("C", "kthread", "direct_us"): Published(
            value=48, unit="us", source="study 002, section 3.2"
        )
    }
    for pair, indirect_us, seconds in (("sort+deflate", 10_300, 7.159), ("aes+crc", 6_900, 6.6)):
        figures[pair, "kthread", "indirect_us"] = Published(
            value=indirect_us, unit="us", source=f"{_FIGURE_2}, n = 99"
        )
        figures[pair, "kthread", "run_s"] = Published(value=seconds, unit="s", source=_FIGURE_2)
    for pair, share in (("sort+deflate", 0.14), ("aes+crc", 0.10), ("aes+deflate", 0.18)):
        figures[pair, "kthread", "indirect_percent"] = Published(
            value=share, unit="%", source=f"{_FIGURE_2}, n = 99"
        )
    for which, share in (("least", 0.17), ("most", 0.25)):
        figures[which, "kthread", "added_percent"] = Published(
            value=share, unit="%", source="study 002, section 3.2, n = 99, direct and indirect"
        )
    for task, indirect_us in (("crc", 2_000), ("sort", 2_500), ("aes", 7_000), ("deflate", 7_000)):
        figures[task, "kthread", "share_us"] = Published(
            value=indirect_us,
            unit="us",
            source=f"{_FIGURE_3}, n = 99: crc below 2 ms, aes and deflate between 6 and 8 ms",
        )
    return figures


def in_both_units(parts: Mapping[str, str]) -> dict[str, Metric]:
    """Metrics of times, by what a probe calls them: in us, and where the engine counts
    instructions in those."""
    made: dict[str, Metric] = {}
    for name, source in parts.items():
        made[f"{name}_us"] = value(f"{source}_ns", "us", 1e-3)
        made[f"{name}_instructions"] = value(f"{source}_instructions", "instructions")
    return made


def unit_of(engine: Engine) -> str:
    """What the metrics of a place end with."""
    return "instructions" if engine == "exact" else "us"


def difference(a: str, b: str) -> dict[str, Metric]:
    """How much a is more than b, as ``excess``."""

    def of(unit: str, scale: float) -> Metric:
        def computed(values: Mapping[str, float | int]) -> float | None:
            if f"{a}_{unit}" not in values:
                return None
            return (values[f"{a}_{unit}"] - values[f"{b}_{unit}"]) * scale

        return Metric(unit="us" if unit == "ns" else unit, of=computed)

    return {"excess_us": of("ns", 1e-3), "excess_instructions": of("instructions", 1)}


def _added(unit: str) -> Callable[[Mapping[str, float | int]], float | None]:
    """Direct and indirect together: R' - (R - C)."""

    def computed(values: Mapping[str, float | int]) -> float | None:
        if f"rn_{unit}" not in values:
            return None
        return values[f"rn_{unit}"] - values[f"r_{unit}"] + values[f"c_cold_{unit}"]

    return computed


def _between(unit: str, scale: float) -> Callable[[Mapping[str, float | int]], float | None]:
    """One switch between the tasks, as it is in R'."""

    def computed(values: Mapping[str, float | int]) -> float | None:
        if f"rn_switch_{unit}" not in values or not values.get("n"):
            return None
        return values[f"rn_switch_{unit}"] * scale / values["n"]

    return computed


def _added_us(values: Mapping[str, float | int]) -> float | None:
    added = _added("ns")(values)
    return None if added is None else added / 1e3


def share(part: float, whole: float) -> float | None:
    """In percent; none of nothing."""
    return 100 * part / whole if whole else None


def _added_percent(values: Mapping[str, float | int]) -> float | None:
    for unit in ("ns", "instructions"):
        added = _added(unit)(values)
        if added is not None:
            return share(added, values[f"r_{unit}"] - values[f"c_cold_{unit}"])
    return None


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
        }
    ),
    **difference("indirect", "direct"),
    "between_us": Metric(unit="us", of=_between("ns", 1e-3)),
    "between_instructions": Metric(unit="instructions", of=_between("instructions", 1)),
    "added_us": Metric(unit="us", of=_added_us),
    "added_instructions": Metric(unit="instructions", of=_added("instructions")),
    "added_percent": Metric(unit="%", of=_added_percent),
    "run_ms": value("r_ns", "ms", 1e-6),
    "run_mi": value("r_instructions", "million instructions", 1e-6),
}


def sizes(setting: Setting) -> tuple[tuple[tuple[str, str], ...], tuple[int, ...], str]:
    """The pairs and the numbers of switches to measure, and why not all."""
    if setting.engine == "exact":
        return QUICK_PAIRS, QUICK_SWITCHES, EXACT_NOTE
    if setting.quick:
        note = GUEST_QUICK_NOTE if setting.engine == "vm" else QUICK_NOTE
        return QUICK_PAIRS, QUICK_SWITCHES, note
    return PAIRS, SWITCHES, ""


def work(task: str, letter: str) -> dict[str, str | int]:
    """The members of a trial that give one task its work."""
    return {f"task_{letter}": task, f"steps_{letter}": STEPS[task]}


def measuring(setting: Setting) -> dict[str, bool | int]:
    """The members of a trial that say how it is measured."""
    native = setting.engine == "native"
    guest_repeat = GUEST_QUICK_REPEAT if setting.quick else GUEST_REPEAT
    return {
        "sort_bytes": SORT_BYTES,
        "stream_bytes": STREAM_BYTES,
        "evict_bytes": EVICT_BYTES if native else GUEST_EVICT_BYTES,
        "cold": True,
        "repeat": (QUICK_REPEAT if setting.quick else REPEAT) if native else guest_repeat,
        "rounds": ROUNDS,
    }


def kind_of(trial: Trial) -> str:
    """The model, and of a kthread whether it has an address space."""
    mm = trial.model == "kthread" and trial.factors["space"] == "own"
    return f"{trial.model}-mm" if mm else trial.model


def spaces(model: Model) -> tuple[str, ...]:
    """Whose address spaces the two threads of a model have."""
    if model == "kthread":
        return ("none", "own")
    return ("own",) if model == "process" else ("shared",)


def models(known: tuple[Model, ...], setting: Setting) -> tuple[Model, ...]:
    """Those of `known` that this setting measures."""
    few = setting.quick and setting.engine == "vm"
    return tuple(
        model
        for model in known
        if model in setting.models and (not few or model in GUEST_QUICK_MODELS)
    )


def _trial(pair: tuple[str, str], n: int, model: Model, space: str, setting: Setting) -> Trial:
    a, b = pair
    *_, note = sizes(setting)
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
    probe = {
        "schema": 1,
        "probe": NAME,
        "model": model,
        **work(a, "a"),
        **work(b, "b"),
        "n": n,
        **measuring(setting),
        "cpus": [setting.cpus[0]],
        "policy": policy,
        "seed": 0,
    }
    if model == "kthread":
        probe["mm"] = space == "own"
    if model == "uthread":
        probe["tick_ns"] = 0
    return Trial(
        id=f"{NAME}/{case_of(pair)}/{n}/{model}" + ("-mm" if probe.get("mm") else ""),
        experiment=NAME,
        model=model,
        engine=setting.engine,
        factors=factors,
        probe=probe,
        note=note,
        timeout_s=setting.timeout_s,
    )


def trials(setting: Setting) -> tuple[Trial, ...]:
    """Every pair with every number of switches and every model, by address spaces."""
    pairs, switches, _ = sizes(setting)
    return tuple(
        _trial(pair, n, model, space, setting)
        for pair in pairs
        for n in switches
        for model in models(MODELS, setting)
        for space in spaces(model)
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Two tasks that hand over to one another",
    study="002",
    question="What do context switches cost two tasks beyond the switches themselves?",
    models=MODELS,
    seconds=0.25,
    seconds_at={("native", "quick"): 0.19, ("vm", "quick"): 0.42, ("vm", "normal"): 0.66},
    trials=trials,
    published=_published(),
    metrics=METRICS,
    main={"time": Main("between_us"), "instructions": Main("between_instructions")},
)
