# SPDX-License-Identifier: Apache-2.0
"""The first picture of a report: what one switch costs here, by model and mechanism.

``SOURCES`` is the one table that says which metric of which trial is the cost of one
switch: what passes from the moment one thread hands over until the other runs, the calls
that ask for it included. All of them are times of one hand-over, so that they may share
an axis. A mechanism that two experiments measure is drawn once, from the first in the
table; one that the run did not measure is absent.

Invariants:

- One place (engine and guest) a picture, and only places whose clock tells time: neither
  instructions of the exact engine nor an emulated guest's nanoseconds are drawn.
- Nothing is computed here: a row is an interval of a finding, in ns.
- The report's first sentence reads the rows that are drawn: one number for one mechanism.

Rejected: a switch from throughput with yields (yield-modes, binding, scenarios: the work
between two yields is a thousand times what is asked for), lateness of a wake-up
(wakeup-latency: the timer is in it), looking at memory on another CPU (no switch at all).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from swtch.analysis.findings import Place
from swtch.records import Interval, Model, Trial
from swtch.report import shapes
from swtch.report.charts import Figure, figure, place_suffix
from swtch.report.story import Story, number

# What a metric's unit is in ns; a metric of any other unit is no time.
NS: Final[Mapping[str, float]] = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6}

# By whom a thread of a model is switched. Not ucontext: it switches in user space and asks
# the kernel for signal masks only. Other runtimes are no part of the comparison.
KERNEL: Final[tuple[Model, ...]] = ("kthread", "process", "pthread")
USER: Final[tuple[Model, ...]] = ("uthread", "coroutine")
PLURALS: Final[Mapping[Model, str]] = {"process": "processes"}

OTHER_CPU: Final = "to another CPU"
# On a telephone the same in fewer letters.
SHORT: Final[Mapping[str, str]] = {
    "condition variable": "cond.",
    "wake_up_process()": "wake",
    "wake_up_process(), own mm": "wake, mm",
    "socket pair": "socket",
    "futex, with a barrier": "futex, IBPB",
    OTHER_CPU: "2nd CPU",
}

_BY: Final[Mapping[str, str]] = {
    "cond": "condition variable",
    "sem": "semaphore",
    "socket": "socket pair",
    "wake": "wake_up_process()",
    "wake-mm": "wake_up_process(), own mm",
}


@dataclass(frozen=True)
class Mechanism:
    """How a thread hands over, and whether another CPU takes it."""

    name: str
    across: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {OTHER_CPU}" if self.across else self.name

    @property
    def short(self) -> str:
        name = SHORT.get(self.name, self.name)
        return f"{name}, {SHORT[OTHER_CPU]}" if self.across else name


# A trial's mechanism, or None where it measures something other than one switch.
MechanismOf = Callable[[Trial], Mechanism | None]


@dataclass(frozen=True)
class Source:
    """Trials of `experiment` whose `metric`, a time, is what one switch costs."""

    experiment: str
    metric: str
    mechanism: MechanismOf


@dataclass(frozen=True)
class Cost:
    """One row: who switches, how, and for how many ns."""

    model: Model
    mechanism: Mechanism
    interval: Interval
    trial_id: str

    @property
    def by(self) -> str:
        """Who hands over and how, within a sentence."""
        return f"{PLURALS.get(self.model, self.model + 's')} by {self.mechanism}"


def _ping(trial: Trial) -> Mechanism | None:
    by = str(trial.factors.get("by"))
    if by == "spin":
        return None
    return Mechanism(_BY.get(by, by), trial.factors.get("place") == "two")


def _token(trial: Trial) -> Mechanism | None:
    way = str(trial.factors.get("way"))
    return Mechanism("yield under locks" if way == "locks" else way)


def _peer(trial: Trial) -> Mechanism | None:
    """Only other runtimes': ours have other names in `ping`, and another policy here."""
    if trial.model in ("pthread", "uthread"):
        return None
    return Mechanism(str(trial.factors.get("way")))


def _signal(trial: Trial) -> Mechanism | None:
    kind = str(trial.factors.get("kind"))
    return Mechanism("signal", kind.endswith("-two")) if kind.startswith("pong") else None


def _ring(trial: Trial) -> Mechanism | None:
    """The smallest ring is two threads that hand over by a futex, as in `ping`."""
    return Mechanism("futex") if trial.factors.get("members") == 2 else None


def _barrier(trial: Trial) -> Mechanism | None:
    asked = trial.factors.get("barrier")
    return {"none": Mechanism("futex"), "all": Mechanism("futex, with a barrier")}.get(str(asked))


# In the order of preference where two measure the same.
SOURCES: Final = (
    Source("ping", "each_ns", _ping),
    Source("direct-cost", "switch_us", _token),
    Source("signal", "each_ns", _signal),
    Source("peers", "each_ns", _peer),
    Source("mitigation", "each_ns", _barrier),
    Source("asid-cliff", "each_ns", _ring),
)


def costs(story: Story, place: Place) -> tuple[Cost, ...]:
    """What `place` measured of SOURCES, the cheapest first; nothing where it tells no time."""
    if place.clock != "time":
        return ()
    rows: dict[tuple[Model, Mechanism], Cost] = {}
    for source in SOURCES:
        for finding in story.findings_of(source.experiment, place):
            interval = finding.intervals.get(source.metric)
            mechanism = source.mechanism(finding.trial)
            if interval is None or mechanism is None or interval.unit not in NS:
                continue
            key = finding.trial.model, mechanism
            rows.setdefault(key, Cost(*key, in_ns(interval), finding.trial.id))
    return tuple(sorted(rows.values(), key=lambda cost: cost.interval.estimate))


def drawn(story: Story) -> tuple[Place, tuple[Cost, ...]] | None:
    """The place that the picture is of, the machine itself or the first that tells time, and
    its rows; None where nothing was measured."""
    for place in sorted(story.places, key=lambda place: not place.home):
        if rows := costs(story, place):
            return place, rows
    return None


def cheapest(story: Story) -> tuple[Cost, Cost] | None:
    """Of what is drawn, the cheapest switch on one CPU by the kernel, and by user space."""
    _, rows = drawn(story) or (None, ())
    same = [cost for cost in rows if not cost.mechanism.across and cost.interval.low > 0]
    kernel = [cost for cost in same if cost.model in KERNEL]
    user = [cost for cost in same if cost.model in USER]
    return (kernel[0], user[0]) if kernel and user else None


def in_ns(interval: Interval) -> Interval:
    """The same time in ns."""
    times = NS[interval.unit]
    return msgspec.structs.replace(
        interval,
        estimate=interval.estimate * times,
        low=interval.low * times,
        high=interval.high * times,
        unit="ns",
    )


# Ticks in the units of the text; Vega's number format knows neither µs nor thin blanks.
_TICKS: Final = (
    "datum.value >= 1e9 ? datum.value / 1e9 + ' s' : datum.value >= 1e6 ? datum.value / 1e6 + ' ms'"
    " : datum.value >= 1e3 ? datum.value / 1e3 + ' µs' : datum.value + ' ns'"
)


def figures(story: Story) -> list[Figure]:
    """The picture of the machine itself, or of the first place that tells time; then the same
    picture for a narrow window."""
    from altair.utils.schemapi import debug_mode

    shown = drawn(story)
    if shown is None:
        return []
    with debug_mode(False):
        pictures = [_figure(story, *shown, narrow) for narrow in (False, True)]
    return [picture for picture in pictures if picture is not None]


def _figure(story: Story, place: Place, all_costs: tuple[Cost, ...], narrow: bool) -> Figure | None:
    positive = [cost for cost in all_costs if cost.interval.low > 0]
    if not positive:
        return None
    rows: list[dict[str, Any]] = [
        shapes.of_interval(
            cost.interval,
            case=f"{cost.model}: {cost.mechanism.short if narrow else cost.mechanism}",
            series=cost.model,
            label=in_words(cost.interval.estimate),
        )
        for cost in positive
    ]
    least, most = positive[0], positive[-1]
    chart = shapes.forest(
        rows,
        "one switch" if narrow else "one switch (logarithmic, less is better)",
        log=True,
        legend=False,
        width=150 if narrow else 330,
        values=True,
        ticks_as=_TICKS,
        most_ticks=3 if narrow else 6,
    )
    return figure(
        chart,
        "fig-switch-cost" + place_suffix(place) + ("-narrow" if narrow else ""),
        "What one switch costs here" + place.beside,
        f"From {in_words(least.interval.estimate)} ({least.model}: {least.mechanism}) to"
        f" {in_words(most.interval.estimate)} ({most.model}: {most.mechanism});"
        f" {len(positive)} mechanisms, the cheapest first.",
        _caption(story, place, all_costs, positive),
    )


def _caption(story: Story, place: Place, all_costs: tuple[Cost, ...], positive: list[Cost]) -> str:
    caption = (
        "One hand-over to another thread with the calls that ask for it; dot: median over"
        " invocations, bar: its 95 % interval."
    )
    if any(cost.interval.method == "too few" for cost in positive):
        caption += f" {shapes.TOO_FEW}"
    lost = [f"{cost.model}: {cost.mechanism}" for cost in all_costs if cost not in positive]
    if lost:
        caption += f" Not drawn, because it reaches zero: {', '.join(lost)}."
    elsewhere = _elsewhere(story, place, all_costs)
    if elsewhere:
        caption += f" Not drawn, because only another place measured it: {elsewhere}."
    return caption


def _elsewhere(story: Story, place: Place, all_costs: tuple[Cost, ...]) -> str:
    """Models whose switch only another place measured, and where."""
    here = {cost.model for cost in all_costs}
    places: dict[str, list[str]] = {}
    for source in SOURCES:
        for group in story.groups_of(source.experiment):
            if group.place != place and group.good and group.trial.model not in here:
                names = places.setdefault(group.trial.model, [])
                if str(group.place) not in names:
                    names.append(str(group.place))
    return ", ".join(f"{model} ({', '.join(names)})" for model, names in places.items())


def in_words(ns: float) -> str:
    """A time with the unit that keeps its number short."""
    for unit, times in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= times:
            return f"{number(ns / times)} {unit}"
    return f"{number(ns)} ns"
