# SPDX-License-Identifier: Apache-2.0
"""Foreign code behind a guard: what it raises becomes one line, and the rest goes on.

Functions of an experiment's file are wrapped once, where the file is loaded, so that no
caller has to think of it. Each fault is one line that names file, line, function and
error; the command line prints it at its end and leaves with status 4. A notice is a line
of the same kind that changes no status; damaged samples are one, too (swtch.store).

- ``trials`` raises RequestError: nothing is measured yet.
- a metric is missing from that sample, a trial without its main metric is not compared.
- a claim's check gives "not measurable here", with the line as its reason.
- a chapter's tables become the plain ones, its figures and sentences none; also where
  they raise only as they are drawn.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from swtch.engines import PROBES
from swtch.engines.protocol import beyond
from swtch.errors import RequestError
from swtch.own.apart import FOREIGN, BareError, apart
from swtch.records import Interval, Sample, Trial, VerdictName

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from swtch.claims import Claim, Evidence, Ruling
    from swtch.experiments import Experiment, Mains, Metric, Setting

_faults: dict[str, None] = {}
_notices: dict[str, None] = {}
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,199}", re.ASCII)
# More of them say the same of other samples.
MOST = 20


def faults() -> tuple[str, ...]:
    """What foreign code got wrong so far, a line each."""
    return tuple(_faults)[:MOST]


def notices() -> tuple[str, ...]:
    return tuple(_notices)


def notice(line: str) -> None:
    """Something to be said of what was read that is no fault; once, however often it is read."""
    _notices[_legible(line)] = None


def _legible(line: str) -> str:
    """One line that does not steer a terminal: paths and errors may hold anything."""
    from swtch.report import legible

    return legible.text(" ".join(line.split()))


def clear() -> None:
    """No faults and notices any more."""
    _faults.clear()
    _notices.clear()


@dataclass(frozen=True)
class Where:
    """The file that foreign code is from: as people call it, and as tracebacks do."""

    label: str
    file: str

    def line(self, what: str, error: BaseException) -> str:
        """One line for what was raised."""
        error = error.error if isinstance(error, BareError) else error
        number = error.lineno if isinstance(error, SyntaxError) else _last(error, self.file)
        at = f"{self.label}, line {number}" if number else self.label
        text = " ".join(_said(error).split()).encode(errors="replace").decode()
        return f"{at}: {what}: {type(error).__name__}" + (f": {text}" if text else "")

    def fault(self, what: str, error: BaseException) -> str:
        """The same, to be said at the end."""
        line = _legible(self.line(what, error))
        _faults[line] = None
        return line


def _said(error: BaseException) -> str:
    """What `error` says; nothing where saying it raises once more."""
    try:
        with apart():
            return str(error.msg if isinstance(error, SyntaxError) else error)
    except FOREIGN:
        return ""


def _last(error: BaseException, file: str) -> int:
    """The line of `file` where it was raised, or that called what raised it."""
    number = 0
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            number = trace.tb_lineno
        trace = trace.tb_next
    return number


class NotAsExpectedError(Exception):
    """Foreign code gave something of another kind."""


def _expect(right: bool, text: str) -> None:
    if not right:
        raise NotAsExpectedError(text)


def is_text(value: object) -> bool:
    """Whether it can be written: half of a character of two (a surrogate) cannot."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


# ---- an experiment ----


def experiment(definition: Experiment, where: Where) -> Experiment:
    """`definition` with its functions guarded."""
    metrics = {
        name: _metric(definition.name, name, metric, where)
        for name, metric in definition.metrics.items()
    }
    return replace(
        definition,
        trials=_trials(definition, where),
        metrics=metrics,
        shortened=_shortened(definition, where),
        main=_main(definition, where) if callable(definition.main) else definition.main,
    )


def _shortened(definition: Experiment, where: Where) -> Callable[[Setting], str]:
    def shortened(setting: Setting) -> str:
        try:
            with apart():
                said = str(definition.shortened(setting))
                _expect(is_text(said), f"gave {said!r:.60}")
        except FOREIGN as error:
            where.fault(f"shortened() of {definition.name}", error)
            return ""
        return said

    return shortened


def _main(definition: Experiment, where: Where) -> Callable[[Trial], Mains]:
    def main(trial: Trial) -> Mains:
        try:
            with apart():
                mains = dict(cast(Any, definition.main)(trial))
                for answer in mains.values():
                    _expect(isinstance(answer, Main), f"gave {answer!r:.60}, which is no Main")
        except FOREIGN as error:
            where.fault(f"main() of {definition.name}", error)
            return {}
        return mains

    from swtch.experiments import Main

    return main


def _trials(definition: Experiment, where: Where) -> Callable[[Setting], tuple[Trial, ...]]:
    def trials(setting: Setting) -> tuple[Trial, ...]:
        try:
            with apart():
                planned = tuple(definition.trials(setting))
                _check_trials(definition, setting, planned)
        except FOREIGN as error:
            raise RequestError(where.line(f"trials() of {definition.name}", error)) from None
        return planned

    return trials


def _check_trials(definition: Experiment, setting: Setting, planned: Sequence[Trial]) -> None:
    from swtch import intact

    seen: set[str] = set()
    for trial in planned:
        _expect(isinstance(trial, Trial), f"gave {trial!r:.60}, which is no Trial")
        try:
            msgspec.convert(msgspec.to_builtins(trial), Trial)
            wrong = intact.planned(trial) or intact.text(msgspec.json.encode(trial))
        except (msgspec.ValidationError, msgspec.EncodeError, TypeError, ValueError) as error:
            raise NotAsExpectedError(f"trial {trial.id!r}: {error}") from None
        name = f"trial {trial.id!r}"
        _expect(not wrong, f"{name}: {wrong}")
        _expect(
            trial.experiment == definition.name and trial.id.startswith(f"{definition.name}/"),
            f"{name} must be of experiment {definition.name!r}, and its id begin with"
            f" '{definition.name}/'",
        )
        _expect(trial.id not in seen, f"{name} is there twice")
        seen.add(trial.id)
        _expect(trial.engine == setting.engine, f"{name} is not of the setting's engine")
        _expect(trial.model in definition.models, f"{name}: {trial.model} is none of its models")
        _expect(trial.probe.get("model") == trial.model, f"{name}: its probe has another model")
        cpus = trial.probe.get("cpus", [])
        _expect(
            isinstance(cpus, (list, tuple)) and set(cpus) <= set(setting.cpus),
            f"{name}: cpus {cpus!r} are not of the setting's {list(setting.cpus)}",
        )
        if not definition.program:
            _expect(
                trial.probe.get("probe") in PROBES,
                f"{name}: there is no probe {trial.probe.get('probe')!r};"
                f" known are {', '.join(PROBES)}",
            )
            _expect(trial.model != "own", f"{name}: model own is for a program of your own")


def _metric(of: str, name: str, metric: Metric, where: Where) -> Metric:
    def guarded(function: Callable[[Any], Any]) -> Callable[[Any], float | None]:
        def value(argument: Any) -> float | None:
            try:
                with apart():
                    result = function(argument)
                    if result is None:
                        return None
                    # numpy's numbers, and fractions, are some, too.
                    _expect(_is_number(result), f"gave {result!r:.60}, which is no number")
                    number = int(result) if isinstance(result, numbers.Integral) else float(result)
                    _expect(
                        not beyond(number), f"gave {number!r:.60}, which is beyond what is measured"
                    )
                    return number
            except FOREIGN as error:
                where.fault(f"metric {name} of {of}", error)
                return None

        return value

    values: Callable[[Mapping[str, float | int]], float | None] = guarded(metric.of)
    of_sample: Callable[[Sample], float | None] | None = (
        guarded(metric.of_sample) if metric.of_sample else None
    )
    return replace(metric, of=values, of_sample=of_sample)


# ---- a claim ----


def claim(definition: Claim, where: Where) -> Claim:
    """`definition` with its check guarded."""
    from swtch.claims import Ruling, missing

    def check(evidence: Evidence) -> Ruling:
        try:
            with apart():
                ruling = definition.check(evidence)
                _expect(isinstance(ruling, Ruling), f"gave {ruling!r:.60}, which is no Ruling")
                _check_ruling(ruling)
        except FOREIGN as error:
            return missing(where.fault(f"check of claim {definition.id}", error))
        return ruling

    return replace(definition, check=check)


def _check_ruling(ruling: Ruling) -> None:
    """Of a Ruling that was filled by hand: each of its parts is looked up or drawn later."""
    from swtch.claims import Question

    # Types are not checked by Python.
    questions: object = ruling.questions
    here: object = ruling.here
    bound: object = ruling.threshold
    _expect(is_text(ruling.why), f"gave {ruling.why!r:.60} as its reason, which is no text")
    _expect(
        ruling.verdict in get_args(VerdictName),
        f"gave the verdict {ruling.verdict!r:.60}; there are {', '.join(get_args(VerdictName))}",
    )
    _expect(bound is None or _is_number(bound), f"gave the threshold {bound!r:.60}, no number")
    _expect(
        here is None
        or (
            isinstance(here, Interval)
            and all(map(_is_number, (here.estimate, here.low, here.high, here.level)))
            and is_text(here.unit)
        ),
        f"gave {here!r:.60} as what is here, which is no Interval of numbers",
    )
    _expect(
        isinstance(questions, tuple)
        and all(isinstance(question, Question) for question in questions),
        f"gave {questions!r:.60} as its questions, which is no tuple of Question",
    )


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value) and not isinstance(value, bool)


# ---- a chapter ----


class Chapter:
    """A chapter of foreign code, with the plain one to fall back on."""

    def __init__(self, name: str, own: Any, where: Where) -> None:
        self._name = name
        self._own = own
        self._where = where

    def figures(self, story: Any) -> list[Any]:
        from swtch.report.charts import Figure

        def right(figure: Any) -> bool:
            # What a picture is called is the name of a file, too.
            words = (figure.title, figure.description, figure.caption, figure.svg)
            return all(map(is_text, words)) and bool(_ID.fullmatch(figure.id))

        return self._ask("figures", story, list, Figure, right)

    def file(self, figure: Any, form: str) -> bytes | None:
        """One of its figures as a file; None where that cannot be drawn."""
        from swtch.report import charts

        charts.need(charts.REPORT_WITHOUT)
        try:
            with apart():
                return charts.as_file(figure, form)
        except FOREIGN as error:
            self._fault("figures", error)
            return None

    def tables(self, story: Any) -> list[Any]:
        from swtch.report.tables import Row, Table

        def right(table: Any) -> bool:
            wide = len(table.columns)
            return (
                all(isinstance(row, Row) and len(row.cells) == wide for row in table.rows)
                and all(map(is_text, (table.caption, *table.columns)))
                and all(is_text(cell) for row in table.rows for cell in row.cells)
                and table.labels in range(wide + 1)
            )

        return self._ask("tables", story, self._plain().tables, Table, right)

    def terminal(self, story: Any) -> list[Any]:
        plain = self._plain().terminal
        parts = self._ask("terminal", story, plain, object)
        return [_Drawn(parts, lambda: plain(story), lambda error: self._fault("terminal", error))]

    def sentences(self, story: Any) -> list[Any]:
        return self._ask("sentences", story, list, str, is_text)

    def _plain(self) -> Any:
        from swtch.report.chapters.plain import Plain

        return Plain(self._name)

    def _ask(
        self,
        part: str,
        story: Any,
        instead: Callable[..., list[Any]],
        kind: type,
        right: Callable[[Any], bool] = lambda _: True,
    ) -> list[Any]:
        default = (story,) if instead is not list else ()
        try:
            with apart():
                function = getattr(self._own, part, None)
                if function is None:
                    return instead(*default)
                parts = list(function(story))
                for item in parts:
                    _expect(isinstance(item, kind) and right(item), f"gave {item!r:.60}")
        except FOREIGN as error:
            self._fault(part, error)
            return instead(*default)
        return parts

    def _fault(self, part: str, error: BaseException) -> None:
        self._where.fault(f"{part}() of the chapter of {self._name}", error)


@dataclass(frozen=True)
class _Drawn:
    """What a chapter has for the terminal, and ``plain`` instead where it raises only as it is
    drawn: rich asks it then."""

    parts: Sequence[Any]
    plain: Callable[[], list[Any]]
    fault: Callable[[BaseException], None]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.protocol import is_renderable

        try:
            with apart():
                shown = [part if is_renderable(part) else str(part) for part in self.parts]
                segments = [one for part in shown for one in console.render(part, options)]
                for segment in segments:
                    _expect(is_text(segment.text), f"gave {segment.text!r:.60}")
        except FOREIGN as error:
            self.fault(error)
            yield from self.plain()
        else:
            yield from segments
