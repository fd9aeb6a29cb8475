# SPDX-License-Identifier: Apache-2.0
"""What an experiment is, and where to find them all.

Every module of this package is one experiment and defines ``EXPERIMENT``; the
registry is the folder itself, so a new experiment is one new file and nothing
else changes. The experiment's name is the module's with ``-`` for ``_``. A module
whose name begins with ``_`` is none: it holds what several of a study share.

Invariants:

- A definition knows *what* to run, never *how*: it turns a ``Setting`` into
  trials and touches neither files nor processes.
- Trials are a function of the setting alone: same setting, same trials.
- Published figures live here as data beside the trials they belong to, each
  with the table it comes from.

Experiments from outside the package, a user's file or an installed package, are
registered by ``swtch.own`` and found here by name like any other; what is done when
nothing is named is the package's own.

Rejected: a registry dictionary (two places to edit), definitions in TOML (the
interesting part of a definition is the rule for what to do when the machine has fewer
CPUs).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from swtch import own
from swtch.engines import TRAITS, Clock
from swtch.errors import RequestError, did_you_mean
from swtch.records import Depth, Engine, Model, Published, Sample, Scalar, Trial

Policy = Literal["other", "batch", "fifo"]

# (case, model or "model/model" for a ratio, metric), e.g. ("A", "pthread", "throughput_mops")
PublishedKey = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a definition may depend on. ``cpus`` are the allowed ones, best first.

    ``depth``: *quick* is some twenty seconds an experiment, *normal* is the study's grid
    with work that fits a coffee break; *paper* is the study's own sizes wherever the
    machine can do them. What a depth leaves out or does less of stands once in the
    experiment's ``shortened``; a trial's note is for what this machine cannot do.
    """

    cpus: tuple[int, ...]
    models: tuple[Model, ...]
    # What the processor's first cache of data and its last cache hold; 0 where it does not
    # say, and where it has none: an emulated one.
    l1d_bytes: int = 0
    llc_bytes: int = 0
    policy: Policy = "batch"
    # Whether the user named it; a study's own policy holds only where not.
    policy_asked: bool = False
    engine: Engine = "native"
    timeout_s: float = 60.0
    depth: Depth = "normal"

    @property
    def quick(self) -> bool:
        return self.depth == "quick"

    def policy_of(self, own: Policy) -> Policy:
        """What the user asks for, or the study's: *other* where it names none."""
        return self.policy if self.policy_asked else own

    @property
    def guest(self) -> bool:
        """In a guest: CPUs of its own, and so slow that a trial does less."""
        return TRAITS[self.engine].guest

    @property
    def counting(self) -> bool:
        """Instructions are counted, not time."""
        return TRAITS[self.engine].counting

    def probe(self, name: str, model: Model, *, cpus: int = 1, **members: Any) -> dict[str, Any]:
        """What the probe `name` is asked, on the first so many CPUs."""
        head = {"schema": 1, "probe": name, "model": model, **members}
        return {**head, "cpus": list(self.cpus[:cpus]), "policy": self.policy, "seed": 0}

    def trial(
        self,
        experiment: str,
        case: str,
        probe: Mapping[str, Any],
        factors: Mapping[str, Scalar],
        note: str = "",
        timeout_s: float | None = None,
    ) -> Trial:
        """The trial `case` of an experiment, of the model that its probe has; within the
        setting's time unless it has its own."""
        return Trial(
            id=f"{experiment}/{case}",
            experiment=experiment,
            model=probe["model"],
            engine=self.engine,
            factors=dict(factors),
            probe=dict(probe),
            note=note,
            timeout_s=self.timeout_s if timeout_s is None else timeout_s,
        )


def less(quick: str, guest: str = "") -> Callable[[Setting], str]:
    """A ``shortened``: what a quick run leaves out, and what one in a guest or an emulator,
    at any depth."""

    def shortened(setting: Setting) -> str:
        if setting.guest:
            return guest
        return quick if setting.quick else ""

    return shortened


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number computed from one sample's values; None where they do not have it.

    ``of_sample`` takes the place of ``of`` where the threads, too, are needed for it. ``source``
    names the value where it is that alone, times ``scale``.
    """

    unit: str
    source: str = ""
    scale: float = 1.0
    of: Callable[[Mapping[str, float | int]], float | None] = lambda _: None
    of_sample: Callable[[Sample], float | None] | None = None

    def __post_init__(self) -> None:
        # One spelling for who reads, whoever wrote the experiment.
        if self.unit == "us" or self.unit.startswith(("us ", "us/")):
            object.__setattr__(self, "unit", f"µ{self.unit[1:]}")


def value(name: str, unit: str, scale: float = 1.0) -> Metric:
    """The sample's value `name`, multiplied."""

    def scaled(values: Mapping[str, float | int]) -> float | None:
        number = values.get(name)
        return None if number is None else number * scale

    return Metric(unit=unit, source=name, scale=scale, of=scaled)


def timed(**sources: str) -> dict[str, Metric]:
    """Times by name, from what a probe calls them, in both units: ``each_ns``, and
    ``each_instructions`` where the engine counts those."""
    return {
        f"{name}_{unit}": value(f"{source}_{unit}", unit)
        for name, source in sources.items()
        for unit in ("ns", "instructions")
    }


def time_of_each(count: str) -> dict[str, Metric]:
    """The sample's time over what it counted of something, in both units: ``each_ns``, and
    ``each_instructions`` where the engine counts those."""

    def of(unit: str) -> Metric:
        def computed(values: Mapping[str, float | int]) -> float | None:
            wall, times = values.get(f"wall_{unit}"), values.get(count)
            return wall / times if wall is not None and times else None

        return Metric(unit=unit, of=computed)

    return {f"each_{unit}": of(unit) for unit in ("ns", "instructions")}


@dataclass(frozen=True)
class Main:
    """The metric that a trial is compared by. Of a count neither more nor less is better."""

    metric: str
    better: Literal["less", "more", "neither"] = "less"


class Detail(msgspec.Struct):
    """What is read of a good sample's detail, by the names that probes give it."""

    gap_quantiles: list[tuple[float, float]] = []
    period_quantiles: list[tuple[float, float]] = []
    intended_late_quantiles: list[tuple[float, float]] = []
    intended_response_quantiles: list[tuple[float, float]] = []
    round_times_ns: list[float] = []
    round_cpu_ns: list[float] = []
    reference_times_ns: list[float] = []
    reference_cpu_ns: list[float] = []
    order: str | list[str] | None = None
    unmeasured: str = ""


def shape(**members: Any) -> type[msgspec.Struct]:
    """What is read of a trial's factors, by name and type."""
    return msgspec.defstruct("Factors", list(members.items()))


# Of a factor that is counted or computed with.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
# Of one that there is at least one of, because it is divided by.
Some = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]


# By clock: an emulated processor's time is none, so there it is a count or nothing.
Mains = Mapping[Clock, Main]

SPEED: Mains = {
    "time": Main("throughput_mops", "more"),
    "instructions": Main("throughput_opki", "more"),
}
EACH: Mains = {"time": Main("each_ns"), "instructions": Main("each_instructions")}

BEYOND = "beyond"  # the study of an experiment that repeats none


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment. ``seconds`` estimates one invocation, for planning only.

    ``repeats`` are its own numbers of invocations where they are not plan.REPEATS: at
    *paper* those of the study, when it had more. ``seconds_at`` says more exactly what an
    invocation takes at an engine and depth. ``exact_at`` are the depths at which `swtch
    replicate` counts it in the exact engine, too. ``series`` are the kernels it compares,
    of which `swtch replicate` boots those that the others have no use for. ``metrics`` are
    its own, beside those every sample has (analysis.findings). ``shortened`` says in one
    line what a setting leaves out or does less of than the study, without a full stop; it
    says nothing where that is nothing. ``main`` is what its trials are compared by
    (``main_of``): one for all, or where they measure different things a function of the
    trial. It is fixed before anything is measured. ``program`` is a probe program of its
    own, with arguments, in place of swtch-probe (swtch.own). Of ``pictured`` ones the
    report's first picture shows the trials, so a budget measures them until they have
    intervals, whether a claim reads them or not. One that is ``by_name`` runs only if it is
    named: it needs what nobody else does. ``factors`` and ``detail`` are what claims and the
    chapter read of its trials and samples; a run in which that is of another kind is damaged
    (swtch.intact).
    """

    name: str
    title: str
    study: str
    question: str
    models: tuple[Model, ...]
    seconds: float
    trials: Callable[[Setting], tuple[Trial, ...]]
    published: Mapping[PublishedKey, Published] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    repeats: Mapping[Depth, int] = field(default_factory=dict)
    seconds_at: Mapping[tuple[Engine, Depth], float] = field(default_factory=dict)
    exact_at: tuple[Depth, ...] = ()
    series: tuple[str, ...] = ()
    shortened: Callable[[Setting], str] = lambda _: ""
    main: Mains | Callable[[Trial], Mains] = field(default_factory=dict)
    program: tuple[str, ...] = ()
    pictured: bool = False
    by_name: bool = False
    factors: type[msgspec.Struct] | None = None
    detail: type[msgspec.Struct] = Detail

    def main_of(self, trial: Trial, clock: Clock) -> Main | None:
        """What the trial is compared by; None where that clock has no answer."""
        mains = self.main(trial) if callable(self.main) else self.main
        return mains.get(clock)

    @property
    def origin(self) -> str:
        """Whose it is, in words."""
        return "Beyond the studies" if self.study == BEYOND else f"Study {self.study}"


@cache
def names() -> tuple[str, ...]:
    """The names of all that the package has, without importing any.

    Asked for every metric of every sample, and to list a folder takes 0.3 ms.
    """
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name.replace("_", "-") for name in modules if name[0] != "_"))


def find(name: str) -> Experiment | None:
    """The experiment called `name`, of the package's or registered from outside."""
    if name not in names():
        return own.find(name)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    experiment = module.EXPERIMENT
    assert isinstance(experiment, Experiment) and experiment.name == name
    return experiment


def get(name: str) -> Experiment:
    """The same, of installed packages too; raises RequestError if there is none."""
    experiment = find(name) or own.search(name)
    if experiment is None:
        raise RequestError(
            f"there is no experiment {name!r}.{did_you_mean(name, names())}"
            f" 'swtch list' shows them all: {', '.join(names())}."
        )
    return experiment


def every() -> tuple[Experiment, ...]:
    """All of the package's that run unasked, by study and then by name."""
    found = (experiment for name in names() if not (experiment := get(name)).by_name)
    return tuple(sorted(found, key=lambda e: (e.study, e.name)))
