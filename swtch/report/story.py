# SPDX-License-Identifier: Apache-2.0
"""Everything a report says, computed once; the four forms only lay it out.

Invariants: what is said in a sentence is computed from this run's samples,
never canned; numbers carry their engine; a published figure is marked as
another machine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swtch import claims, elsewhere, fidelity, spending, store
from swtch.analysis import adaptive, changes, effects, gates, main_metric
from swtch.analysis.control import Control, Rate, controls, rate
from swtch.analysis.findings import Group, Place, finding_of, group_samples, ratio_interval
from swtch.analysis.neighbours import Neighbours, neighbours
from swtch.claims.contradictions import judged
from swtch.experiments import Experiment, get
from swtch.records import Engine, Finding, Interval, Trial, Verdict
from swtch.report import legible, standing

if TYPE_CHECKING:
    from swtch.claims.uses import Use

# From so many experiments on, a run is about all studies and not about one.
MANY = 6
# Trials that a note names.
NAMED_MOST = 3


@dataclass(frozen=True)
class Story:
    """One run, analysed."""

    run: store.Run
    groups: tuple[Group, ...]
    findings: tuple[Finding, ...]
    controls: tuple[Control, ...]
    verdicts: tuple[Verdict, ...]

    @cached_property
    def experiments(self) -> tuple[Experiment, ...]:
        from swtch.report.chapters import in_reading_order

        return in_reading_order(get(name) for name in self.run.manifest.experiments)

    @cached_property
    def of_all_studies(self) -> bool:
        """Whether the run is about the studies, and not about one experiment or two."""
        return len(self.experiments) >= MANY

    @cached_property
    def headline(self) -> str:
        """Findings by verdict, and the checks apart, in a sentence."""
        return standing.headline(self.verdicts)

    @cached_property
    def levels(self) -> Mapping[Engine, float]:
        """At which claims were judged, by engine; the usual one where it is not in it."""
        return spending.level(self.run.manifest)

    @cached_property
    def judged_at(self) -> str:
        """The level of the verdicts, where it is not the usual one; else nothing."""
        other = {engine: level for engine, level in self.levels.items() if level != effects.LEVEL}
        if not other:
            return ""
        each = ", ".join(f"{level * 100:.3g} % ({engine})" for engine, level in other.items())
        error = (1 - effects.LEVEL) * 100
        return (
            f"Claims are judged at {each}: the data were looked at several times while they grew,"
            f" and all looks together shall not err in more than {error:.0f} %."
        )

    @cached_property
    def budget(self) -> str:
        """How the time was spent where there was a budget, in a sentence; else nothing."""
        lines = spending.summary(self.run.manifest, self.run.samples)
        return legible.text(" ".join(lines[:1]))

    @cached_property
    def elsewhere(self) -> str:
        """Whether the run went on under other conditions, in a sentence or two; else nothing."""
        return legible.text(elsewhere.sentence(self.run.manifest, self.run.samples))

    @cached_property
    def _uses(self) -> Mapping[tuple[str, Place], Use]:
        from swtch.claims.uses import uses

        every_use = uses(self.groups, self.run.manifest.experiments, self.levels)
        return {(use.claim, use.place): use for use in every_use}

    def to_decide(self, verdict: Verdict) -> str:
        """What would decide it, in a sentence; empty where it is decided or nobody knows."""
        use = self._uses.get((verdict.claim, Place(verdict.engine, verdict.guest)))
        if use is None:
            return ""
        done = [len(group.good) for group in self.groups if group.trial.id in use.trials]
        return standing.to_decide(verdict, use.blocks, max(done, default=0))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was done instead of what the study did, once for each experiment."""
        notes: dict[tuple[str, str], list[str]] = {}
        for group in self.groups:
            if group.trial.note and _shown(group.trial):
                notes.setdefault((group.trial.experiment, group.trial.note), []).append(
                    group.trial.id
                )
        return tuple(f"{_some(ids)}: {note}." for (_, note), ids in notes.items())

    def shortened(self, experiment: Experiment) -> list[str]:
        """What the depth left out of the experiment or did less of, a line each kind of place."""
        engines = dict.fromkeys(place.engine for place in self.places)
        lines = [fidelity.shortened(experiment, self.run.manifest, engine) for engine in engines]
        return list(dict.fromkeys(filter(None, lines)))

    @cached_property
    def errors(self) -> tuple[str, ...]:
        return tuple(
            f"{finding.trial.id}: {finding.failed} failed: {error}"
            for finding in self.findings
            for error in finding.errors
        )

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Where this run measured, in the plan's order."""
        return tuple(dict.fromkeys(group.place for group in self.groups))

    def places_of(self, experiment: str) -> tuple[Place, ...]:
        return tuple(dict.fromkeys(group.place for group in self.groups_of(experiment)))

    def findings_of(self, experiment: str, place: Place | None = None) -> tuple[Finding, ...]:
        return tuple(
            finding
            for finding in self.findings
            if finding.trial.experiment == experiment
            and _shown(finding.trial)
            and (place is None or Place.of(finding.trial) == place)
        )

    def groups_of(self, experiment: str, place: Place | None = None) -> tuple[Group, ...]:
        return tuple(
            group
            for group in self.groups
            if group.trial.experiment == experiment
            and _shown(group.trial)
            and (place is None or group.place == place)
        )

    @cached_property
    def machine(self) -> str:
        """The machine in one line."""
        return legible.text(machine_line(self.run.manifest.environment))

    @cached_property
    def created(self) -> str:
        """When the run began, for people: the manifest has it to the second."""
        return when(self.run.manifest.created)

    @cached_property
    def engines(self) -> str:
        """Where this run measured, in words."""
        return ", ".join(map(str, self.places))

    @cached_property
    def highlights(self) -> tuple[str, ...]:
        """The three findings that matter most on this machine, as sentences."""
        if not self.places:
            return ()
        # Said of one place: the machine itself where it was measured.
        home = next((place for place in self.places if place.home), self.places[0])
        groups = [group for group in self.groups if group.place == home]
        if self.of_all_studies:
            return (
                *_cost_sentence(self),
                *_surprise_sentence(self.verdicts),
                *_contradiction_sentence(self.verdicts),
                *_ratio_sentence(groups),
                *_noise_sentence(self.controls),
            )[:3]
        sentences = [
            *_ratio_sentence(groups),
            *_kthread_sentence(self.groups),
            *_fastest_sentence(groups),
            *_differs_sentence(self.verdicts),
            *_noise_sentence(self.controls),
            *_gantt_sentence(self.verdicts),
        ]
        return tuple(sentences[:3])

    @cached_property
    def false_positives(self) -> Rate:
        """How many trials this run calls different from their own copies."""
        return rate(self.controls)

    @cached_property
    def controls_summary(self) -> str:
        """What the A/A controls say of this run, in a sentence or two; empty without any."""
        if not self.controls:
            return ""
        count = len(self.controls)
        trials = "1 trial was" if count == 1 else f"{count} trials were"
        twice = (
            f"{trials} measured twice, the second time under another name, so that every"
            " difference is noise."
        )
        false = self.false_positives
        if not false.of:
            least = min(control.effect.least(control.level) for control in self.controls)
            return f"{twice} {least} blocks of both are needed to call any different."
        called = [control.a.trial.id for control in self.controls if control.differs]
        named = f": {_some(called)}" if called else ""
        return (
            f"{twice} {false} {'is' if false.called == 1 else 'are'} called different by the rule"
            f" of the verdicts{named}. By chance it may be up to {false.most} of as many"
            + ("; repeat this run on a quieter machine." if false.called > false.most else ".")
        )

    @cached_property
    def courses(self) -> str:
        """Whether trials held their level over the blocks, in a sentence; empty if too short."""
        by_course: dict[str, list[str]] = {}
        for group in self.groups:
            metric = main_metric.within(group)
            if metric is None or not _shown(group.trial):
                continue
            course = changes.course(metric.costs(group.values(metric.name)))
            by_course.setdefault(course, []).append(group.trial.id)
        shown = {name: ids for name, ids in by_course.items() if name != "too short to tell"}
        if not shown:
            return ""
        parts = [
            f"{len(ids)} {name}" + ("" if name == "steady" else f" ({', '.join(ids)})")
            for name, ids in shown.items()
        ]
        return f"Over the blocks of the run, by changepoints: {'; '.join(parts)}."

    @cached_property
    def target(self) -> str:
        """What became of the target of `--until`, in a sentence."""
        return legible.text(" ".join(adaptive.summary(self.run.manifest, self.run.samples)))

    @cached_property
    def neighbours(self) -> Neighbours:
        """How quiet the machine was over the run."""
        cpu = self.run.manifest.environment.get("cpu")
        online = cpu.get("online") if isinstance(cpu, dict) else None
        return neighbours(self.groups, len(online) if isinstance(online, list) else 1)

    @cached_property
    def gate_rows(self) -> tuple[tuple[str, str, int, int], ...]:
        """(gate, meaning, samples marked, samples) of the gates that fired."""
        total = sum(finding.n for finding in self.findings)
        rows = []
        for gate in gates.GATES:
            marked = sum(finding.gates.get(gate.name, 0) for finding in self.findings)
            rows.append((gate.name, gate.meaning, marked, total))
        return tuple(rows)


def tell(path: Path) -> Story:
    """Reads and analyses the run in `path`."""
    run = legible.run(store.load(path))
    groups = group_samples(run.manifest.trials, run.samples)
    return Story(
        run=run,
        groups=groups,
        findings=tuple(finding_of(group) for group in groups),
        controls=controls(groups, spending.level(run.manifest)),
        verdicts=claims.judge(groups, run.manifest.experiments, spending.level(run.manifest)),
    )


def _shown(trial: Trial) -> bool:
    """Chapters see no copies of the A/A control, but for the one that shows its own."""
    return trial.factors.get("control") != "b" or trial.experiment == "scenarios"


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, no exponent, thin thousands; a dash for None."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}".replace(",", " ")
    import math

    # Of the rounded number: 99.97 has no place left behind the point.
    rounded = float(f"{abs(value):.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(rounded)))
    text = f"{value:.{min(places, 6)}f}"
    return text.rstrip("0").rstrip(".") if value == int(value) else text


def spread(interval: Interval | None) -> str:
    """``estimate [low, high]``; the estimate alone where nothing varied, and where too few
    values make no interval, what was seen of them."""
    if interval is None:
        return "–"
    if interval.low == interval.high:
        once = " (seen once)" if interval.method == "too few" else ""
        return number(interval.estimate) + once
    low, high = number(interval.low), number(interval.high)
    if interval.method == "too few":
        return f"{number(interval.estimate)} (seen {low} to {high})"
    return f"{number(interval.estimate)} [{low}, {high}]"


def where(verdict: Verdict) -> str:
    """The place of a verdict, in words."""
    return str(Place(verdict.engine, verdict.guest))


def when(created: str) -> str:
    """A manifest's time for people: to the minute."""
    time = store.instant(created)
    return f"{time:%Y-%m-%d %H:%M} UTC" if time else created[:16]


def machine_line(environment: dict[str, Any]) -> str:
    """CPU, how many of them are allowed, and kernel, as far as they are known."""
    flat = _flat(environment)

    def first(*names: str) -> str:
        for name in names:
            for key, value in flat.items():
                if key.endswith(name) and value not in (None, "", [], {}):
                    return str(value)
        return ""

    cpu = first("cpu.model", "cpu_model", "model_name", "model")
    kernel = first("kernel.release", "kernel_release", "release")
    known = environment.get("cpu")
    allowed = known.get("allowed") if isinstance(known, dict) else None
    count = len(allowed) if isinstance(allowed, list) else 0
    parts = [
        cpu,
        f"{count} CPU{'s'[: count - 1]}" if count else "",
        f"Linux {kernel}" if kernel else "",
    ]
    return " · ".join(part for part in parts if part) or "unknown machine"


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat


def _some(ids: Sequence[str]) -> str:
    """All of a few, or the first of many: the rest has the same note."""
    if len(ids) <= NAMED_MOST:
        return ", ".join(ids)
    return f"{ids[0]} and {len(ids) - 1} more"


# ---- sentences ----


def _scenario(groups: Sequence[Group], model: str, case: str) -> Group | None:
    for group in groups:
        factors = group.trial.factors
        if (
            group.trial.experiment == "scenarios"
            and group.trial.model == model
            and factors.get("scenario") == case
            and factors.get("control") != "b"
            and group.good
        ):
            return group
    return None


def _times(ratio: Interval) -> str:
    """As much of a comparison as its interval allows to say."""
    if ratio.low <= 1 <= ratio.high:
        return "as much, within the noise,"
    return f"{number(ratio.estimate)} times as much"


def _range(ratio: Interval) -> str:
    if ratio.method == "too few":
        return f"{ratio.n} block{'s'[: ratio.n - 1]}, too few for an interval"
    return f"95 % interval {number(ratio.low)} to {number(ratio.high)} x"


def _ratio_sentence(groups: Sequence[Group]) -> list[str]:
    base, single = _scenario(groups, "pthread", "A"), _scenario(groups, "pthread", "B2")
    if base is None or single is None:
        return []
    ratio = ratio_interval(single, base)
    used = base.trial.factors.get("cpus_used")
    if ratio is None or used == 1:
        return []
    sentence = (
        f"Four pthreads on one shared counter get through {_times(ratio)} on one CPU"
        f" as on {used} ({_range(ratio)}; the study saw 2.87 x against four)."
    )
    return [sentence]


def _fastest_sentence(groups: Sequence[Group]) -> list[str]:
    pthread = _scenario(groups, "pthread", "B2")
    uthread = _scenario(groups, "uthread", "B2")
    if pthread is None or uthread is None:
        return []
    ratio = ratio_interval(uthread, pthread)
    if ratio is None:
        return []
    sentence = (
        "With a yield every 10 000 increments on one CPU (B2), uthreads get through"
        f" {_times(ratio)} as pthreads ({_range(ratio)})."
    )
    return [sentence]


def _kthread_sentence(groups: Sequence[Group]) -> list[str]:
    places = dict.fromkeys(group.place for group in groups)
    for place in places:
        own = [group for group in groups if group.place == place]
        kthread, pthread = _scenario(own, "kthread", "B2"), _scenario(own, "pthread", "B2")
        ratio = ratio_interval(kthread, pthread) if kthread and pthread else None
        if ratio is not None:
            sentence = (
                "Kernel threads that yield on one CPU (B2) get through"
                f" {_times(ratio)} as pthreads on {place} ({_range(ratio)};"
                " the study saw 1.40 x)."
            )
            return [sentence]
    return []


def _differs_sentence(verdicts: Sequence[Verdict]) -> list[str]:
    differing = [verdict for verdict in verdicts if verdict.verdict == "differs"]
    return [
        f"Claim {verdict.claim}, “{verdict.text}”, differs here: {_here(verdict)}."
        for verdict in differing[:1]
    ]


def _here(verdict: Verdict) -> str:
    """The figure and what it is of; what it may come from stands in the table."""
    what = verdict.why.partition("; ")[0]
    return f"{spread(verdict.here)} {verdict.here.unit}, {what}" if verdict.here else what


def _cost_sentence(story: Story) -> list[str]:
    """What a hand-over costs by the cheapest mechanism of the kernel and of user space, of the
    rows that the first picture draws."""
    from swtch.report import switchcost

    cheapest = switchcost.cheapest(story)
    if cheapest is None:
        return []
    kernel, user = cheapest
    times = kernel.interval.estimate / user.interval.estimate
    return [
        (
            "Handing over to another thread on the same CPU costs"
            f" {switchcost.in_words(kernel.interval.estimate)} through the kernel ({kernel.by})"
            f" and {switchcost.in_words(user.interval.estimate)} in user space ({user.by}):"
            f" {number(times)} times as much."
        )
    ]


def _surprise_sentence(verdicts: Sequence[Verdict]) -> list[str]:
    """The claim that differs by most, of those whose figure can be compared with a threshold."""

    def far(verdict: Verdict) -> float:
        import math

        here, threshold = verdict.here, verdict.threshold
        if here is None or not threshold or here.estimate / threshold <= 0:
            return 0.0
        return abs(math.log(here.estimate / threshold))

    differing = [verdict for verdict in verdicts if verdict.verdict == "differs"]
    if not differing:
        return []
    return _differs_sentence([max(differing, key=far)])


def _contradiction_sentence(verdicts: Sequence[Verdict]) -> list[str]:
    """The first contradiction between studies that this machine decides."""
    for shown in judged(verdicts):
        left, right = shown.left[0], shown.right[0]
        if {left.verdict, right.verdict} == {"holds", "differs"}:
            holds = left if left.verdict == "holds" else right
            other = right if holds is left else left
            return [
                (
                    f"{shown.about} Here claim {holds.claim} holds (“{holds.text}”) and claim"
                    f" {other.claim} does not (“{other.text}”)."
                )
            ]
    return []


def _noise_sentence(pairs: Sequence[Control]) -> list[str]:
    false = rate(pairs)
    return [
        f"The same trial measured against itself gives {spread(control.ratio)} x: "
        + (
            "this run sees differences that are not there; repeat it on a quieter machine."
            if false.called > false.most
            else "differences smaller than that are noise."
        )
        for control in pairs[:1]
    ]


def _gantt_sentence(verdicts: Sequence[Verdict]) -> list[str]:
    return [
        f"{verdict.text}: {verdict.verdict} here ({verdict.why})."
        for verdict in verdicts
        if verdict.claim == "000.VII.1"
    ]
