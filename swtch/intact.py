# SPDX-License-Identifier: Apache-2.0
"""Whether what a run directory holds can be used: asked once, where it is read (swtch.store).

The records' types are checked as they are decoded. Here is what types do not say:

- what the lab itself reads of the members that anybody may fill (an environment, a probe's
  question, a sample's detail, a trial's factors) is of the kind that it reads;
- the parts of a manifest belong together, and a sample to its invocation;
- a number is none that arithmetic, a chart or a table of other programs breaks on.

What nobody reads may be anything. So behind ``store.load`` all that is read is as the code
expects it, and nothing has to look again.

Each check gives a line that names the key and what is wrong, or nothing; who reads adds
the file and what to do.

Rejected: a reader that copes with anything where it is used (each new table would be a new
hole), a net around the analysis that calls every error a damaged file (hides our own).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from swtch import experiments
from swtch.engines.protocol import beyond
from swtch.records import Engine, Invocation, Manifest, Sample, Trial

DEEPEST = 64
# Of an invocation, as of --time-limit; a kernel waits for weeks at most.
LONGEST_S = 86_400

# Of a number that `beyond` may refuse: many digits, also zeros behind the point, or a power.
_EXTREME = re.compile(rb"\d{19}|\d[eE][+-]?\d\d")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_Positive = Annotated[int, msgspec.Meta(ge=1)]


# ---- what is read of members that may be anything ----


class _Cache(msgspec.Struct):
    level: int | None = None


class _Cpu(msgspec.Struct):
    allowed: list[int] | None = None
    online: list[int] | None = None
    governor: str | None = None
    caches: list[_Cache] | None = None


class _Host(msgspec.Struct):
    load: list[float] | None = None


class _Guest(msgspec.Struct):
    guest: str | None = None
    given: list[str] | None = None
    append: list[str] = []


class _Engine(msgspec.Struct):
    engine: Engine | msgspec.UnsetType = msgspec.UNSET
    guests: list[_Guest] = []
    cpus: int | None = None
    memory_mib: int | None = None
    accel_asked: Literal["auto", "kvm", "tcg"] = "auto"
    pin: list[int] = []


class _Engines(_Engine):
    engines: list[_Engine] | None = None


class _Environment(msgspec.Struct):
    cpu: _Cpu | msgspec.UnsetType = msgspec.UNSET
    host: _Host | msgspec.UnsetType = msgspec.UNSET
    engine: _Engines | msgspec.UnsetType = msgspec.UNSET
    kernel: dict[str, Any] = {}
    memory: dict[str, Any] = {}


class _Probe(msgspec.Struct):
    probe: str | None = None
    cpus: list[int] = []
    evict_bytes: int | None = None
    sleep_ns: int | None = None


class _Scenario(msgspec.Struct):
    """Of the probe whose interventions are counted on (analysis.gates)."""

    iterations: _Positive
    every: _Positive
    threads: _Positive


# ---- the checks ----


def manifest(one: Manifest, text: bytes) -> str:
    """What is wrong with the manifest that was decoded from `text`; empty: nothing."""
    return next(filter(None, _of_manifest(one, text)), "")


def sample(one: Sample, text: bytes, invocation: Invocation, trial: Trial) -> str:
    """What is wrong with a sample that says it is of `invocation`; empty: nothing."""
    return next(filter(None, _of_sample(one, text, invocation, trial)), "")


def text(written: bytes) -> str:
    """What is wrong with a record that is to be written, if anything: nobody could read it."""
    return next(filter(None, _of_text(written)), "")


def planned(trial: Trial) -> str:
    """What is wrong with a trial that is to be in a manifest, where it would be too late."""
    return next(filter(None, _of_trial(trial, "$")), "")


def _of_manifest(one: Manifest, text: bytes) -> Iterator[str]:
    yield from _of_text(text)
    yield _unlike(one.environment, _Environment, "$.environment")
    trials = {trial.id: trial for trial in one.trials}
    if len(trials) < len(one.trials):
        yield "two of its trials have the same id - at `$.trials`"
    for index, trial in enumerate(one.trials):
        yield from _of_trial(trial, f"$.trials[{index}]")
    first = one.plan[0].seq if one.plan else 0
    for index, invocation in enumerate(one.plan):
        where = f" - at `$.plan[{index}]`"
        if invocation.seq != first + index or first < 0:
            yield f"expected `seq` {max(first, 0) + index}, got {invocation.seq}{where}"
        if invocation.trial_id not in trials:
            yield f"there is no trial {invocation.trial_id}{where}"
    if one.spending is not None:
        yield from _of_spending(one, trials)


def _of_trial(trial: Trial, where: str) -> Iterator[str]:
    yield _unlike(trial.probe, _Probe, f"{where}.probe")
    idle = trial.probe.get("intervention") == "none" or trial.probe.get("work_mode") == "normal"
    if trial.probe.get("probe") == "scenario" and not idle:
        yield _unlike(trial.probe, _Scenario, f"{where}.probe")
    if trial.timeout_s <= 0:
        yield f"expected more than 0, got {trial.timeout_s:g} - at `{where}.timeout_s`"
    if not trial.timeout_s <= LONGEST_S:
        yield f"expected at most {LONGEST_S}, got {trial.timeout_s:g} - at `{where}.timeout_s`"
    known = _known(trial.experiment)
    if known is not None and known.factors is not None:
        yield _unlike(trial.factors, known.factors, f"{where}.factors")


def _of_spending(one: Manifest, trials: dict[str, Trial]) -> Iterator[str]:
    spending = one.spending
    assert spending is not None
    planned = {(trials[i.trial_id].engine, i.block) for i in one.plan}
    covered: set[tuple[Engine, int]] = set()
    for index, phase in enumerate(spending.phases):
        blocks = planned & {(phase.engine, b) for b in range(phase.begin, min(phase.end, 1 << 20))}
        if blocks and (phase.engine, phase.begin) not in blocks:
            yield f"the plan has no such first block - at `$.spending.phases[{index}].begin`"
        covered |= blocks
    if not spending.phases or planned - covered:
        yield "not every block of the plan is in a phase - at `$.spending.phases`"
    for engine, looks in spending.looks.items():
        if not looks:
            yield f"expected at least one look - at `$.spending.looks.{engine}`"


def _of_sample(one: Sample, text: bytes, invocation: Invocation, trial: Trial) -> Iterator[str]:
    yield from _of_text(text)
    as_planned = (
        ("block", one.block, invocation.block),
        ("experiment", one.experiment, trial.experiment),
        ("model", one.model, trial.model),
        ("engine", one.engine, trial.engine),
        ("factors", one.factors, trial.factors),
    )
    for name, here, planned in as_planned:
        if here != planned:
            yield f"is not that of the plan's invocation {invocation.seq} - at `$.{name}`"
    for name, time in (("elapsed_ns", one.elapsed_ns), *_walls(one)):
        if time < 0:
            yield f"expected a time, got {time:g} - at `$.{name}`"
    if one.started and one.begun_ns is None and not _is_time(one.started):
        yield "expected a time - at `$.started`"
    known = _known(one.experiment)
    if known is not None and one.status == "ok":
        yield _unlike(one.detail, known.detail, "$.detail")


def _walls(one: Sample) -> Iterator[tuple[str, float]]:
    for name in ("wall_ns", "wall_instructions"):
        if name in one.values:
            yield f"values.{name}", one.values[name]


def _of_text(text: bytes) -> Iterator[str]:
    """Cheap of what is sound: only what looks extreme or deep is looked at."""
    if _EXTREME.search(text) and (wrong := beyond(msgspec.json.decode(text))):
        yield f"{wrong}, measures nothing"
    brackets = text.translate(None, _NO_BRACKETS)
    for _ in range(DEEPEST):
        if not brackets:
            return
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    # Or there are some in a string.
    if _deep(msgspec.json.decode(text)):
        yield f"nested more than {DEEPEST} deep"


def _deep(value: Any, levels: int = DEEPEST) -> bool:
    within = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)):
        return False
    return not levels or any(_deep(inner, levels - 1) for inner in within)


def _known(name: str) -> experiments.Experiment | None:
    """One of the package's; what is from outside looks after itself (own.guard)."""
    return experiments.find(name) if name in experiments.names() else None


def _unlike(value: dict[str, Any], shape: type[msgspec.Struct], where: str) -> str:
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        return f"{what[0].lower()}{what[1:]} - at `{where}{place.rstrip('`')}`"
    return ""


def _is_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return False
    return True
