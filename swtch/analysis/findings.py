# SPDX-License-Identifier: Apache-2.0
"""One finding per trial, and the comparisons between trials.

``metrics`` is the only function that says what is computed from one sample, with
what its experiment adds; all intervals, tables and figures follow from it. What is
compared comes from one place: one engine, and in guests one guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swtch import elsewhere, experiments
from swtch.analysis import effects, gates, stats
from swtch.analysis.effects import Effect
from swtch.engines import TRAITS, Clock, Scale, Traits
from swtch.experiments import Metric
from swtch.records import Engine, Finding, Interval, Sample, Trial

UNITS: Mapping[str, str] = {
    "throughput_mops": "Mops/s",
    # By the time that its threads had a CPU, whoever else had one meanwhile: what compares
    # threads that share one CPU, and says nothing of waits.
    "throughput_cpu_mops": "Mops/s of CPU time",
    "throughput_opki": "ops/1000 instructions",
    "wall_ms": "ms",
    "wall_mi": "million instructions",
    "nvcsw": "switches",
    "nivcsw": "switches",
    "user_switches": "switches",
}

# By what a speed was timed.
TIMED_BY: Mapping[str, str] = {"throughput_mops": "wall_ms"}


@dataclass(frozen=True)
class Place:
    """Where something was measured: numbers of two places are never compared."""

    engine: Engine
    guest: str = ""
    # Whether the guest's processor is emulated; no name of its own.
    emulated: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, trial: Trial) -> Place:
        emulated = TRAITS[trial.engine].counting or trial.factors.get("accel") == "tcg"
        return cls(trial.engine, str(trial.factors.get("guest") or ""), emulated)

    @property
    def traits(self) -> Traits:
        return TRAITS[self.engine]

    @property
    def home(self) -> bool:
        """This machine itself."""
        return not self.traits.guest

    @property
    def counting(self) -> bool:
        """Whether instructions are counted here instead of time."""
        return self.traits.counting

    @property
    def clock(self) -> Clock:
        """What its clock tells: time, an emulated processor's, or instructions."""
        return self.traits.clock(self.emulated)

    @property
    def speed(self) -> str:
        """The metric that says how fast something was here."""
        return self.traits.speed

    def suffix(self, scale: Scale = "ns") -> str:
        """How the names of metrics end here that are times of this scale elsewhere."""
        return self.traits.suffix(scale)

    def unit(self, scale: Scale = "ns") -> str:
        """What they are counted in."""
        return self.traits.unit(scale)

    @property
    def beside(self) -> str:
        """What a title says of a place other than the machine itself."""
        return "" if self.home else f" ({self})"

    def __str__(self) -> str:
        return f"{self.engine} {self.guest}".strip()


@dataclass(frozen=True)
class Group:
    """A trial with its good samples, in plan order, and the failed ones."""

    trial: Trial
    good: tuple[Sample, ...]
    failed: tuple[Sample, ...]

    @property
    def place(self) -> Place:
        return Place.of(self.trial)

    def speeds(self) -> list[float]:
        """The place's speed metric, one number per good sample."""
        return self.values(self.place.speed)

    def values(self, metric: str) -> list[float]:
        """One number per good sample that has the metric."""
        values = (metrics(sample).get(metric) for sample in self.good)
        return [value for value in values if value is not None]

    def by_block(self, metric: str) -> dict[int, float]:
        """The metric by block, for comparisons within blocks."""
        pairs = ((sample.block, metrics(sample).get(metric)) for sample in self.good)
        return {block: value for block, value in pairs if value is not None}


def own_metrics(experiment: str) -> Mapping[str, Metric]:
    """What the experiment adds to UNITS; nothing when it is not one of this version's."""
    known = experiments.find(experiment)
    return known.metrics if known else {}


def metrics(sample: Sample) -> dict[str, float]:
    """What is computed from one sample, unit in UNITS or in the experiment's own."""
    values: dict[str, float] = {}
    counter = sample.values.get("counter")
    # A trial too short for the clock has no speed.
    if wall := sample.values.get("wall_ns"):
        values["wall_ms"] = wall / 1e6
        if counter is not None:
            values["throughput_mops"] = counter * 1e3 / wall
            if cpu := _cpu_ns(sample):
                values["throughput_cpu_mops"] = counter * 1e3 / cpu
    if wall := sample.values.get("wall_instructions"):
        values["wall_mi"] = wall / 1e6
        if counter is not None:
            values["throughput_opki"] = counter * 1e3 / wall
    for name in ("nvcsw", "nivcsw"):
        count = gates.total(sample, name)
        if count is not None:
            values[name] = count
    if sample.values.get("switches") is not None and not sample_has_kernel_counts(sample):
        values["user_switches"] = sample.values["switches"]
    for name, metric in own_metrics(sample.experiment).items():
        value = metric.of_sample(sample) if metric.of_sample else metric.of(sample.values)
        if value is not None:
            values[name] = value
    return values


def _cpu_ns(sample: Sample) -> int | None:
    """CPU time of the threads together, or of what carried them; the exact engine has none."""
    if TRAITS[sample.engine].counting:
        return None
    counts = [thread.cpu_ns for thread in sample.threads] or [None]
    if any(count is None for count in counts):
        counts = [thread.cpu_ns for thread in sample.carriers]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def sample_has_kernel_counts(sample: Sample) -> bool:
    return gates.total(sample, "nvcsw") is not None


def group_samples(trials: Iterable[Trial], samples: Sequence[Sample]) -> tuple[Group, ...]:
    """Samples by trial, in the trials' order; trials without samples are kept. Of a run that
    went on under other conditions, those under one of them (swtch.elsewhere)."""
    by_trial: dict[str, list[Sample]] = {}
    for sample in sorted(elsewhere.alike(samples), key=lambda s: s.seq):
        by_trial.setdefault(sample.trial_id, []).append(sample)
    return tuple(
        Group(
            trial=trial,
            good=tuple(s for s in by_trial.get(trial.id, ()) if s.status == "ok"),
            failed=tuple(s for s in by_trial.get(trial.id, ()) if s.status != "ok"),
        )
        for trial in trials
    )


def finding_of(group: Group) -> Finding:
    """The finding of one trial."""
    intervals: dict[str, Interval] = {}
    dispersion: dict[str, dict[str, float]] = {}
    own = {name: metric.unit for name, metric in own_metrics(group.trial.experiment).items()}
    # Once for each sample: an experiment may have hundreds of metrics.
    computed = [metrics(sample) for sample in group.good]
    for metric, unit in {**UNITS, **own}.items():
        values = [of[metric] for of in computed if metric in of]
        interval = stats.median_interval(values, unit)
        if interval is not None:
            intervals[metric] = interval
            dispersion[metric] = stats.dispersion(values)
    marks = Counter(name for sample in group.good for name in gates.check(group.trial, sample))
    return Finding(
        trial=group.trial,
        n=len(group.good),
        failed=len(group.failed),
        intervals=intervals,
        dispersion=dispersion,
        gates={gate.name: marks[gate.name] for gate in gates.GATES if marks[gate.name]},
        errors=tuple(dict.fromkeys(sample.error for sample in group.failed)),
    )


def effect(a: Group, b: Group, metric: str = "") -> Effect | None:
    """How many times `b`'s metric `a`'s is, within the blocks that have both.

    None where no block has: what was never measured beside each other differs by when that
    was, too, and an unpaired effect would have taken the drift between for the difference.
    `metric` is by default the speed of the place both come from.
    """
    if a.place != b.place:
        raise ValueError(f"{a.trial.id} on {a.place} and {b.trial.id} on {b.place}")
    metric = metric or a.place.speed
    left, right = a.by_block(metric), b.by_block(metric)
    common = sorted(left.keys() & right.keys())
    return effects.paired(
        [left[block] for block in common],
        [right[block] for block in common],
        grain(a, b, metric),
    )


def grain(a: Group, b: Group, metric: str) -> float:
    """Of the logarithm of their ratio of this metric: the step of the clock that timed it."""
    timed = TIMED_BY.get(metric, metric)
    unit = {**UNITS, **{n: m.unit for n, m in own_metrics(a.trial.experiment).items()}}.get(timed)
    return effects.grain_of_ratio(a.values(timed), b.values(timed), effects.TIMES.get(unit or ""))


class ApartError(Exception):
    """Two trials of which no block has good samples of both; ``str()`` names them."""


def beside(a: Group, b: Group, metric: str = "") -> Effect | None:
    """As `effect`, for a case that nobody may leave out unsaid: ApartError where the two have
    samples, and no block of both."""
    ratio = effect(a, b, metric)
    left, right = ({sample.block for sample in group.good} for group in (a, b))
    if ratio is None and left and right and not left & right:
        raise ApartError(f"no block has good samples of both {a.trial.id} and {b.trial.id}")
    return ratio


def ratio_interval(a: Group, b: Group, metric: str = "") -> Interval | None:
    """`effect` with its interval, for figures and tables."""
    ratio = effect(a, b, metric)
    return ratio.interval() if ratio else None
