# SPDX-License-Identifier: Apache-2.0
"""A budget of time, spent where it decides claims.

Every trial is measured in a first few blocks, so that every table has figures and it is
seen which trials the claims read (claims.uses). Only those go on until claims can be
judged at all; and after that only the trials of claims that are undecided, from look to
look. First come the claims whose decision is expected to cost least, and each keeps what
it is expected to take until it is decided; those that the last look or the budget would
not decide get what is left. What no claim reads has one block, and a few more where it is
cheap, but that the trials of the report's first picture go on until they have intervals.

The first engine of the run gets what the others leave: its later blocks are planned
after them. Guests boot once, have a share of the budget that is kept for them, and one
look.

Looking more than once gives chance more than one occasion: of an engine with k looks
every claim is judged at the level 1 - 0.05 / k (Bonferroni), at every look and at the
end. With three looks 0.983, which seven blocks reach (effects.least).

Invariants:

- The schedule (``Spending``: budget, looks, phases) is in the manifest; the level is a
  function of it, of no sample.
- What is measured next is a function of the manifest and of the samples before it in the
  plan. The clock is theirs, too: what is spent is what the samples took, with the gaps
  between them. So a run that was killed goes on as it would have.
- A pass that was begun is done whole: blocks stay blocks. A trial that joins later than
  others does not catch up, for its old blocks are past.

Rejected: the clock of the wall for the budget (a resumed run would decide otherwise),
stopping a claim as soon as its interval allows (a look after every block: with 5 % at each
one in four claims about nothing would be decided), spending where intervals are widest
(the width of a trial decides nothing by itself), more looks (each costs level, and on
recorded campaigns five decide fewer claims than three), all undecided claims to the next
look alike (those that nothing would decide then eat what others need).
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swtch.analysis import effects
from swtch.errors import RequestError
from swtch.records import Depth, Engine, Manifest, Phase, Sample, Spending, Trial

if TYPE_CHECKING:
    from swtch.claims.uses import Use
    from swtch.plan import Pass

# What `swtch replicate` spends where nobody says how much: quick is to be over in six
# minutes and normal in an hour (every trial in all its repeats would take two to seven);
# at paper every trial has as many repeats as a study's.
DEFAULT_S: Mapping[Depth, float | None] = {"quick": 360.0, "normal": 3600.0, "paper": None}
# After so many blocks claims are judged: each look at twice as many as the last. Seven are
# the fewest that reach the level of three looks.
LOOKS = (7, 14, 28)
# Other engines than the first are judged once.
ONE_LOOK = (6,)
# So many blocks of trials that no claim reads, where there is time; of other engines one.
FIRST = 3
ERROR = 0.05
# Before what no claim reads, so much more than is expected is kept for what claims read.
MARGIN = 0.5
# All that no claim reads costs at most this part of the budget in its later first blocks.
REST = 0.05
# Each other engine's part of the budget is at most this.
SHARE = 0.3
# The report is written in the budget, too.
REPORT_S = 12.0
# A longer gap between two samples is an interruption and costs nothing.
GAP_NS = 30_000_000_000
NOT_HERE = "not measurable here"
# Claims that a line of progress names.
NAMES = 8
LONGEST_S = 30 * 86_400.0

_UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h)")


def parse_budget(text: str) -> float:
    """``90s``, ``6min``, ``1h`` or ``1h30min`` in seconds."""
    asked = text.strip().lower()
    parts = _PART.findall(asked)
    if not parts or "".join(_PART.split(asked)[::3]).strip():
        raise RequestError(f"--budget: {text!r} is no duration; give one like 90s, 6min or 1h.")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 1 <= seconds <= LONGEST_S:
        raise RequestError(f"--budget: {text!r} is not between one second and thirty days.")
    return seconds


def level(manifest: Manifest) -> Mapping[Engine, float]:
    """At which claims are judged, by engine; 0.95 where it is not in the mapping."""
    looks = manifest.spending.looks if manifest.spending else {}
    return {engine: 1 - ERROR / len(counts) for engine, counts in looks.items()}


def schedule(
    budget_s: float, expected_s: Mapping[Engine, float], looks: Sequence[int] = LOOKS
) -> Spending:
    """How a budget is spent on engines, the first of which is refined.

    `expected_s`: what each is expected to take for all blocks of its first look.
    """
    budget = max(1, round(budget_s * 1e9))
    lead, *others = expected_s
    shares = {engine: round(min(expected_s[engine], SHARE * budget_s) * 1e9) for engine in others}
    until = budget - sum(shares.values())
    phases = [
        Phase(engine=lead, begin=0, end=1, of="all", until_ns=until),
        Phase(engine=lead, begin=1, end=FIRST, of="all", until_ns=until),
        Phase(engine=lead, begin=FIRST, end=looks[0], of="used", until_ns=until),
    ]
    for engine in others:
        until += shares[engine]
        phases += [
            Phase(engine=engine, begin=0, end=1, of="all", until_ns=until),
            Phase(engine=engine, begin=1, end=ONE_LOOK[-1], of="used", until_ns=until),
        ]
    phases += [
        Phase(engine=lead, begin=begin, end=end, of="undecided", until_ns=budget)
        for begin, end in itertools.pairwise(looks)
    ]
    return Spending(
        budget_ns=budget,
        looks={lead: tuple(looks), **dict.fromkeys(others, ONE_LOOK)},
        phases=tuple(phases),
    )


@dataclass
class Clock:
    """What samples took, one after the other, with the gaps between them."""

    spent_ns: int = 0
    # By which clock, and when, the last one ended.
    _end: tuple[str, float] | None = None

    def add(self, sample: Sample) -> int:
        """Gives what this one cost."""
        cost = sample.elapsed_ns
        if sample.started:
            clock, begin = _begin(sample)
            if self._end is not None and clock == self._end[0]:
                gap = begin - self._end[1]
                cost += round(gap) if 0 < gap <= GAP_NS else 0
            self._end = clock, begin + sample.elapsed_ns
        self.spent_ns += cost
        return cost


def _begin(sample: Sample) -> tuple[str, float]:
    """By which clock a sample began, and when: by that of its boot, which nobody sets; older
    samples have the wall's alone."""
    if sample.begun_ns is not None:
        return f"boot {sample.boot}", sample.begun_ns
    return "wall", datetime.datetime.fromisoformat(sample.started).timestamp() * 1e9


@dataclass(frozen=True)
class Round:
    """What is measured next: these trials, for these claims; ``waiting`` cannot be paid."""

    phase: Phase
    trials: frozenset[str]
    claims: tuple[Use, ...] = ()
    waiting: tuple[Use, ...] = ()

    @property
    def text(self) -> str:
        """In words."""
        phase = self.phase
        numbers = f"{phase.begin + 1} to {phase.end}" if phase.end - phase.begin > 1 else ""
        blocks = f"blocks {numbers}" if numbers else f"block {phase.end}"
        text = f"{phase.engine}: {blocks} of {len(self.trials)} trials"
        if phase.begin == 0:
            return text
        late = f"; for {len(self.waiting)} more there is no time" if self.waiting else ""
        if phase.of == "undecided":
            return f"{text}, for what is undecided: {_names(self.claims)}{late}"
        return f"{text}, {len(self.claims)} claims use them{late}"


@dataclass
class Spender:
    """Says of each pass of a plan what of it is to be done. Passes are asked in order."""

    manifest: Manifest
    round: Round | None = None
    _clock: Clock = field(default_factory=Clock)
    _fed: set[int] = field(default_factory=set)
    _took: dict[str, list[int]] = field(default_factory=dict)
    _alike: dict[tuple[Engine, str], list[int]] = field(default_factory=dict)
    _wanted: tuple[Use, ...] = ()

    def __post_init__(self) -> None:
        from swtch import plan

        assert self.manifest.spending is not None
        self._spending = self.manifest.spending
        self._trials = {trial.id: trial for trial in self.manifest.trials}
        self._copies = _copies(self.manifest.trials)
        self._lead = self._spending.phases[0].engine
        pictured = {name for name in self.manifest.experiments if _in_picture(name)}
        self._pictured = frozenset(t.id for t in self.manifest.trials if t.experiment in pictured)
        self._passes = plan.passes(self.manifest)
        self._by_block = {
            (phase.engine, block): phase
            for phase in self._spending.phases
            for block in range(phase.begin, phase.end)
        }
        self._begins = {(stretch.engine, stretch.block): stretch.begin for stretch in self._passes}

    @property
    def stage(self) -> str:
        """What the budget is spent on now."""
        return self.round.text if self.round else ""

    def seconds_left(self, samples: Sequence[Sample]) -> float | None:
        """Of the budget."""
        clock = Clock()
        for sample in sorted(samples, key=lambda s: s.seq):
            clock.add(sample)
        return max(0.0, (self._spending.budget_ns - clock.spent_ns) / 1e9)

    def ahead(self) -> frozenset[int]:
        """Nobody knows what later looks will show."""
        return frozenset()

    def needed(self, stretch: Pass, samples: Iterable[Sample]) -> frozenset[int]:
        """The invocations of this pass that are to be done; only `samples` before it count."""
        phase = self._by_block[stretch.engine, stretch.block]
        if self.round is None or self.round.phase != phase:
            # As it was when the phase began, also for a run that goes on in its middle.
            before = self._begins[phase.engine, phase.begin]
            self._wanted = self._candidates(phase, [s for s in samples if s.seq < before])
        self._feed(sample for sample in samples if sample.seq < stretch.begin)
        self.round = self._fit(phase, stretch.block)
        return frozenset(i.seq for i in stretch.invocations if i.trial_id in self.round.trials)

    def _feed(self, samples: Iterable[Sample]) -> None:
        new = [sample for sample in samples if sample.seq not in self._fed]
        for sample in sorted(new, key=lambda s: s.seq):
            self._fed.add(sample.seq)
            cost = self._clock.add(sample)
            self._took.setdefault(sample.trial_id, []).append(cost)
            self._alike.setdefault((sample.engine, sample.experiment), []).append(cost)

    def _cost(self, trial: str) -> float:
        """In ns, of one more invocation; nothing is known of one that had none."""
        took = self._took.get(trial)
        if not took:
            return 0.0
        if len(took) > 2:
            return statistics.median(took)
        # The first one in a guest has waited for its boot.
        own = self._trials[trial]
        return min(min(took), 5 * statistics.median(self._alike[own.engine, own.experiment]))

    def _candidates(self, phase: Phase, samples: Sequence[Sample]) -> tuple[Use, ...]:
        """The claims that the phase is for."""
        if phase.begin == 0:
            return ()
        own = [sample for sample in samples if sample.engine == phase.engine]
        return tuple(
            use
            for use in uses(self.manifest, own, phase.engine)
            if use.verdict == "cannot tell"
            # A check that holds of every invocation so far asks for no more of them.
            or (phase.of != "undecided" and use.kind == "finding" and use.verdict != NOT_HERE)
        )

    def _fit(self, phase: Phase, block: int) -> Round:
        """What can be paid from this block on: claims, then what no claim reads."""
        mine = frozenset(t.id for t in self.manifest.trials if t.engine == phase.engine)
        if block == 0:
            return Round(phase, mine)
        whole = left = float(phase.until_ns - self._clock.spent_ns)
        reserved: Counter[str] = Counter()
        chosen, waiting = [], sorted(self._wanted, key=lambda use: self._price(use, block))
        # First who can be decided, with all that it takes; then, to the next look, the others.
        for look in (False, True):
            asked, waiting = waiting, []
            for use in asked:
                end = self._look(phase) if look else self._end(phase, use)
                more = self._more(use, end - block, reserved) if end else Counter[str]()
                price = sum(blocks * self._cost(name) for name, blocks in more.items())
                if end and price <= left:
                    left -= price
                    reserved += more
                    chosen.append(use)
                else:
                    waiting.append(use)
        trials = set(reserved)
        if phase.of == "all":
            # What claims need may become dearer than it was.
            left -= MARGIN * (whole - left)
            part = (phase.end - block) / (phase.end - phase.begin)
            left = min(left, REST * self._spending.budget_ns * part)
        rest, end = self._unread(phase, block)
        for name in sorted((mine & rest) - trials, key=lambda name: (self._cost(name), name)):
            price = (end - block) * self._cost(name)
            if price <= left:
                left -= price
                trials.add(name)
        return Round(phase, frozenset(trials), tuple(chosen), tuple(waiting))

    def _look(self, phase: Phase) -> int:
        """The blocks at which claims are judged next."""
        return max(phase.end, self._spending.looks[phase.engine][0])

    def _end(self, phase: Phase, use: Use) -> int:
        """The blocks by which a claim is expected to be decided; 0 where the last look is
        before that."""
        look = self._look(phase)
        if phase.of != "undecided" or use.blocks is None:
            return look
        last = self._spending.looks[phase.engine][-1]
        return max(look, math.ceil(use.blocks)) if use.blocks <= last else 0

    def _more(self, use: Use, blocks: int, reserved: Counter[str]) -> Counter[str]:
        """The invocations that a claim needs beyond those that are reserved."""
        trials = self._with_copies(use.trials)
        return Counter(dict.fromkeys(trials, blocks)) - reserved

    def _unread(self, phase: Phase, block: int) -> tuple[frozenset[str], int]:
        """What goes on though no claim reads it, and to which block: everything in the first
        blocks, and what the first picture shows until it has intervals."""
        if phase.of == "all":
            return frozenset(self._trials), phase.end
        if phase.engine == self._lead and block < effects.LEAST:
            return self._pictured, min(phase.end, effects.LEAST)
        return frozenset(), phase.end

    def _price(self, use: Use, done: int) -> tuple[bool, float, str]:
        """Of a decision, as is expected; what the last look will not decide comes last."""
        last = self._spending.looks[use.place.engine][-1]
        blocks = max(1.0, (use.blocks or 0.0) - done)
        each = sum(map(self._cost, self._with_copies(use.trials)))
        return use.blocks is not None and use.blocks > last, min(blocks, last) * each, use.claim

    def _with_copies(self, trials: Iterable[str]) -> set[str]:
        return {name for trial in trials for name in (trial, *self._copies.get(trial, ()))}

    def left_out(self, samples: Sequence[Sample]) -> frozenset[int]:
        """What of the plan is not to be done, as far as these samples tell."""
        done = {sample.seq for sample in samples}
        out: set[int] = set()
        for stretch in self._passes:
            undone = {i.seq for i in stretch.invocations} - done
            needed = self.needed(stretch, samples) if undone else frozenset[int]()
            out |= undone - needed
            if undone & needed:
                break  # what comes after depends on what this gives
        return frozenset(out)


def uses(manifest: Manifest, samples: Sequence[Sample], engine: Engine) -> tuple[Use, ...]:
    """What became so far of each claim, and what it read, at the places of an engine."""
    from swtch.analysis import findings
    from swtch.claims.uses import uses as of_groups

    trials = [trial for trial in manifest.trials if trial.engine == engine]
    return of_groups(findings.group_samples(trials, samples), manifest.experiments, level(manifest))


def _in_picture(experiment: str) -> bool:
    from swtch import experiments

    return experiment in experiments.names() and experiments.get(experiment).pictured


def _copies(trials: Iterable[Trial]) -> dict[str, tuple[str, ...]]:
    """The A/A copies of a trial, which go where it goes."""
    alike: dict[Any, list[Trial]] = {}
    for trial in trials:
        factors = {name: value for name, value in trial.factors.items() if name != "control"}
        key = (
            trial.engine,
            trial.experiment,
            trial.model,
            tuple(sorted(map(str, factors.items()))),
        )
        alike.setdefault(key, []).append(trial)
    return {
        trial.id: tuple(copy.id for copy in own if copy.factors.get("control") == "b")
        for own in alike.values()
        for trial in own
    }


def summary(manifest: Manifest, samples: Sequence[Sample]) -> tuple[str, ...]:
    """How the budget was spent, and which claims it left undecided; nothing without one."""
    if manifest.spending is None or not samples:
        return ()
    from swtch.progress import duration

    spending = manifest.spending
    parts, spent = _parts(manifest, samples)
    each = ", ".join(f"{duration(ns / 1e9)} {name}" for name, ns in parts.items() if ns)
    whole = duration(spending.budget_ns / 1e9)
    lines = [f"Of {whole} for measuring, {duration(spent / 1e9)} were spent: {each}."]
    for engine in spending.looks:
        own = [sample for sample in samples if sample.engine == engine]
        judged = [u for u in uses(manifest, own, engine) if u.verdict != NOT_HERE]
        undecided = [use for use in judged if use.verdict == "cannot tell"]
        if not judged:
            continue
        share = f"{len(judged) - len(undecided)} of {len(judged)} claims are decided"
        line = f"{engine}: {share} at a level of {level(manifest)[engine]:.3g}"
        named = [_undecided(use, own) for use in undecided]
        line += f"; undecided: {', '.join(named)}" if named else ""
        lines.append(f"{line}.")
    return tuple(lines)


def _parts(manifest: Manifest, samples: Sequence[Sample]) -> tuple[dict[str, int], int]:
    """Nanoseconds by what they were spent on."""
    from swtch import plan

    assert manifest.spending is not None
    looks = manifest.spending.looks
    block = {i.seq: stretch.block for stretch in plan.passes(manifest) for i in stretch.invocations}
    parts: dict[str, int] = {}
    clock = Clock()
    for sample in sorted(samples, key=lambda s: s.seq):
        screening = block[sample.seq] < looks[sample.engine][0]
        name = f"screening ({sample.engine})" if screening else "on undecided claims"
        parts[name] = parts.get(name, 0) + clock.add(sample)
    return parts, clock.spent_ns


def _undecided(use: Use, samples: Sequence[Sample]) -> str:
    """The claim, and what would decide it."""
    from swtch.progress import duration

    took: dict[str, list[int]] = {}
    for sample in samples:
        if sample.trial_id in use.trials:
            took.setdefault(sample.trial_id, []).append(sample.elapsed_ns)
    if use.blocks is None or not took:
        return use.claim
    if use.blocks > 1000:
        return f"{use.claim} (too near its bound)"
    more = max(1, math.ceil(use.blocks) - max(map(len, took.values())))
    # The first one in a guest has waited for its boot.
    usual = 5 * statistics.median(each for own in took.values() for each in own)
    seconds = more * sum(min(usual, statistics.median(own)) for own in took.values()) / 1e9
    return f"{use.claim} ({more} blocks more, {duration(max(1, seconds))})"


def _names(undecided: Sequence[Use]) -> str:
    names = [use.claim for use in undecided]
    return ", ".join(names[:NAMES] + (["..."] if len(names) > NAMES else []))
