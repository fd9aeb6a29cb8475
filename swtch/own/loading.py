# SPDX-License-Identifier: Apache-2.0
"""From a file, or an entry point of a package, to what it defines, checked and guarded.

A module defines

    EXPERIMENT = Experiment(...)        or EXPERIMENTS = (Experiment(...), ...)
    CLAIMS = (Claim(...), ...)          about these experiments; may be left out
    CHAPTER = ...                       or CHAPTERS = {name: ...}; may be left out

A chapter is anything with ``figures``, ``tables``, ``terminal`` or ``sentences``, such as
report.casework.Cases; what it lacks is plain.

A file is read once: what is run, what its digest is of and what the run keeps are the
same bytes. It is whole by itself: what lies beside it cannot be imported, for it would
not be in the run.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast, get_args

from swtch.errors import CannotError, CorruptError, RequestError, os_error_text
from swtch.own import FOLDER, guard
from swtch.own.apart import FOREIGN, apart
from swtch.own.guard import Where
from swtch.records import Kind, MetricOutline, Outline, Source

if TYPE_CHECKING:
    from swtch.claims import Claim
    from swtch.experiments import Experiment

SIZE_MAX = 1 << 20
# As of --repeats.
REPEATS_MAX = 10_000
CLAIM_TEXTS = ("id", "study", "experiment", "text", "published")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_COPY = re.compile(rf"{FOLDER}/[\w.+-]+\.py")


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What one file or package defines; of an outline only what a manifest says of it."""

    label: str
    source: Source
    experiments: Mapping[str, Experiment]
    claims: tuple[Claim, ...] = ()
    chapters: Mapping[str, Any] = field(default_factory=dict)
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    text: bytes = b""
    outline: bool = False


# ---- where it comes from ----


def file(path: Path) -> Extension:
    """What the user's file `path` defines; RequestError says in a line what is wrong."""
    label = str(path)
    try:
        with path.open("rb") as stream:
            # No more: a device may never end.
            text = stream.read(SIZE_MAX + 1)
    except OSError as error:
        raise RequestError(f"{label}: cannot be read: {os_error_text(error)}.") from None
    if len(text) > SIZE_MAX:
        raise RequestError(f"{label}: more than {SIZE_MAX >> 20} MiB is no experiment.")
    whole = path.resolve()
    name = re.sub(r"[^\w.+-]", "_", path.stem) or "own"
    source = Source(
        path=str(whole),
        sha256=hashlib.sha256(text).hexdigest(),
        experiments=(),
        copy=f"{FOLDER}/{name}-{hashlib.sha256(text).hexdigest()[:8]}.py",
    )
    where = Where(label, str(whole))
    return _extension(_run(text, where), where, source, whole.parent, text)


def read_kept(run: Path, source: Source) -> bytes:
    """The copy in a run, which must be what the run was made with."""
    if not _COPY.fullmatch(source.copy):
        raise CorruptError(f"{run}: its manifest has a source {source.copy!r}, which is none.")
    kept = run / source.copy
    try:
        if kept.exists() and not kept.is_file():
            # Whose run that is may be anybody: a pipe would be waited for.
            raise CorruptError(f"{kept}: is no file; put the run's own there.")
        text = kept.read_bytes()
    except OSError as error:
        raise CorruptError(f"{kept}: cannot be read: {os_error_text(error)}.") from None
    if hashlib.sha256(text).hexdigest() != source.sha256:
        raise CorruptError(f"{kept}: is not the file that the run was measured with.")
    return text


def kept(run: Path, source: Source) -> Extension:
    """The copy in a run, executed: only for who is trusted."""
    try:
        text = read_kept(run, source)
    except CorruptError as error:
        raise RequestError(str(error)) from None
    where = Where(Path(source.path).name, str(run / source.copy))
    extension = _extension(_run(text, where), where, source, Path(source.path).parent, text)
    if {o.name for o in source.experiments} != set(extension.experiments):
        raise RequestError(f"{where.label}: does not define what the run has of it.")
    return extension


def entry_point(entry: metadata.EntryPoint) -> Extension:
    """What an installed package has under `entry`."""
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.name
    label = f"{package} ({entry.module})"
    try:
        with apart():
            module = importlib.import_module(entry.module)
    except FOREIGN as error:
        spec = _spec_file(entry.module)
        raise RequestError(Where(label, spec).line("import", error)) from None
    path = str(getattr(module, "__file__", None) or "")
    text = Path(path).read_bytes() if path.endswith(".py") else b""
    source = Source(
        path=entry.module,
        sha256=hashlib.sha256(text).hexdigest(),
        experiments=(),
        package=package,
    )
    return _extension(module, Where(label, path), source, Path(path).parent, b"")


def _spec_file(module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return ""
    return str(spec.origin) if spec else ""


def _run(text: bytes, where: Where) -> ModuleType:
    name = f"_swtch_own_{hashlib.sha256(text).hexdigest()[:16]}"
    module = ModuleType(name)
    module.__file__ = where.file
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look there
    try:
        code = compile(text, where.file, "exec", dont_inherit=True)
        with apart():
            exec(code, module.__dict__)
    except FOREIGN as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        line = where.line("does not import", error)
        if isinstance(error, ModuleNotFoundError):
            line += "; an experiment is one file, and imports only what is installed"
        raise RequestError(line + ".") from None
    return module


# ---- what it defines ----


def _extension(
    module: ModuleType, where: Where, source: Source, folder: Path, text: bytes
) -> Extension:
    from swtch import experiments

    definitions = _experiments(module, where)
    for definition in definitions:
        if definition.name in experiments.names():
            raise RequestError(
                f"{where.label}: experiment {definition.name!r} is one of swtch's own; name it"
                " otherwise."
            )
    names = [definition.name for definition in definitions]
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"{where.label}: experiment {name!r} is defined twice.")
    programs = {
        definition.name: _program(definition, folder)
        for definition in definitions
        if definition.program
    }
    outlines = tuple(
        _outline(definition, programs.get(definition.name, ())) for definition in definitions
    )
    import msgspec

    return Extension(
        label=where.label,
        source=msgspec.structs.replace(source, experiments=source.experiments or outlines),
        experiments={
            definition.name: guard.experiment(definition, where) for definition in definitions
        },
        claims=_claims(module, names, where),
        chapters=_chapters(module, names, where),
        programs=programs,
        text=text,
    )


def _experiments(module: ModuleType, where: Where) -> tuple[Experiment, ...]:
    from swtch.experiments import Experiment

    many = getattr(module, "EXPERIMENTS", ())
    single = getattr(module, "EXPERIMENT", None)
    if not isinstance(many, (list, tuple)):
        raise RequestError(f"{where.label}: EXPERIMENTS is {many!r:.40}, and no tuple.")
    definitions = ([single] if single is not None else []) + list(many)
    if not definitions:
        raise RequestError(
            f"{where.label}: defines no experiment: EXPERIMENT = Experiment(...) is looked for."
        )
    for definition in definitions:
        if not isinstance(definition, Experiment):
            raise RequestError(
                f"{where.label}: {definition!r:.60} is no swtch.experiments.Experiment."
            )
        wrong = _wrong(definition)
        if wrong:
            raise RequestError(f"{where.label}: experiment {definition.name!r:.40}: {wrong}.")
    return tuple(definitions)


def _wrong(definition: Experiment) -> str:
    """What no experiment may be, as types are not checked by Python."""
    from swtch.experiments import Main, Metric
    from swtch.plan import MODEL_NAMES

    known: dict[str, Any] = dict(vars(definition))
    if not isinstance(known["name"], str) or not _NAME.fullmatch(known["name"]):
        return "a name has small letters, digits and single '-' between them"
    for name in ("title", "study", "question"):
        if not guard.is_text(known[name]):
            return f"its {name} is no text"
    if not _all(known["models"], str) or not known["models"]:
        return "it has no models"
    for model in known["models"]:
        if model not in MODEL_NAMES:
            return f"there is no model {model!r}; known are {', '.join(MODEL_NAMES)}"
    seconds = known["seconds"]
    if not isinstance(seconds, (int, float)) or not 0 < seconds < 86_400:
        return f"seconds is {seconds!r}, and not how long an invocation takes"
    for name in ("trials", "shortened"):
        if not callable(known[name]):
            return f"its {name} is no function"
    metrics, main = known["metrics"], known["main"]
    if not isinstance(metrics, Mapping) or not _all(list(metrics.values()), Metric):
        return "metrics is no mapping of names to Metric"
    if not callable(main) and not (isinstance(main, Mapping) and _all(list(main.values()), Main)):
        return "main is neither a mapping of clocks to Main nor a function"
    if not _all(known["program"], str) or any("\0" in word for word in known["program"]):
        return "program is no tuple of a program and its arguments"
    return _wrong_metrics(definition) or _wrong_repeats(known["repeats"])


def _wrong_metrics(definition: Experiment) -> str:
    from swtch.analysis.main_metric import Better

    for name, metric in definition.metrics.items():
        if not guard.is_text(name) or not guard.is_text(metric.unit):
            return f"its metric {name!r:.40} has a name or a unit that is no text"
        functions: tuple[object, ...] = (metric.of, metric.of_sample or metric.of)
        if not all(map(callable, functions)):
            return f"its metric {name!r:.40} is computed by no function"
    for main in () if callable(definition.main) else definition.main.values():
        if not guard.is_text(main.metric) or main.better not in get_args(Better):
            return f"{main!r:.60} names no metric, or not which way is better"
    return ""


def _wrong_repeats(repeats: object) -> str:
    from swtch.plan import DEPTHS

    if not isinstance(repeats, Mapping) or not set(repeats) <= set(DEPTHS):
        return f"repeats is no mapping of {', '.join(DEPTHS)} to how often"
    for times in repeats.values():
        if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= REPEATS_MAX:
            return f"repeats has {times!r:.40}, and not how often: from 1 to {REPEATS_MAX}"
    return ""


def _all(values: object, kind: type) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(value, kind) for value in values)


def _claims(module: ModuleType, names: Sequence[str], where: Where) -> tuple[Claim, ...]:
    from swtch import claims

    defined = getattr(module, "CLAIMS", ())
    if not isinstance(defined, (list, tuple)):
        raise RequestError(f"{where.label}: CLAIMS is {defined!r:.40}, and no tuple.")
    known = {claim.id for claim in claims.built_in()}
    seen: set[str] = set()
    for claim in defined:
        if not isinstance(claim, claims.Claim):
            raise RequestError(f"{where.label}: {claim!r:.60} is no swtch.claims.Claim.")
        wrong = [name for name in CLAIM_TEXTS if not guard.is_text(getattr(claim, name))]
        if wrong:
            raise RequestError(f"{where.label}: claim {claim.id!r:.40}: its {wrong[0]} is no text.")
        if not callable(claim.check):
            raise RequestError(f"{where.label}: claim {claim.id!r:.40}: its check is no function.")
        if claim.about not in get_args(claims.About) or claim.kind not in get_args(Kind):
            raise RequestError(
                f"{where.label}: claim {claim.id!r:.40}: about is one of"
                f" {', '.join(get_args(claims.About))}, kind of {', '.join(get_args(Kind))}."
            )
        if claim.id in known:
            raise RequestError(
                f"{where.label}: claim {claim.id!r} is one of swtch's own; number it otherwise."
            )
        if claim.id in seen:
            raise RequestError(f"{where.label}: claim {claim.id!r} is there twice.")
        if claim.experiment not in names:
            raise RequestError(
                f"{where.label}: claim {claim.id!r} is about {claim.experiment!r}, which the file"
                " does not define."
            )
        seen.add(claim.id)
    return tuple(guard.claim(claim, where) for claim in defined)


def _chapters(module: ModuleType, names: Sequence[str], where: Where) -> dict[str, Any]:
    many = getattr(module, "CHAPTERS", {}) or {}
    if not isinstance(many, Mapping):
        raise RequestError(f"{where.label}: CHAPTERS is {many!r:.40}, and no mapping of names.")
    chapters = dict(many)
    single = getattr(module, "CHAPTER", None)
    if single is not None:
        chapters = dict.fromkeys(names, single) | chapters
    for name in chapters:
        if name not in names:
            raise RequestError(f"{where.label}: CHAPTERS has {name!r}, which it does not define.")
    return {name: guard.Chapter(name, chapter, where) for name, chapter in chapters.items()}


# ---- programs ----


def _program(definition: Experiment, folder: Path) -> tuple[str, ...]:
    """The program as it is started: one with a folder in its name is looked for beside the
    file, another on the path."""
    name, *arguments = definition.program
    if "/" in name:
        return (str((folder / name).absolute()), *arguments)
    return (shutil.which(name) or name, *arguments)


def check_programs(extension: Extension) -> None:
    """Refuses an experiment whose program is not there."""
    for name, argv in extension.programs.items():
        if not os.access(argv[0], os.X_OK) or not Path(argv[0]).is_file():
            raise RequestError(
                f"{extension.label}: {name} has the probe program {argv[0]}, which is not there"
                " or is no program; a path is relative to the file."
            )


def digest(argv: Sequence[str]) -> str:
    """Of the program that is started; nothing where it cannot be read."""
    try:
        with Path(argv[0]).open("rb") as program:
            return hashlib.file_digest(program, "sha256").hexdigest()
    except (OSError, IndexError):
        return ""


# ---- outlines ----


def _outline(definition: Experiment, program: Sequence[str]) -> Outline:
    simple = {
        name: MetricOutline(unit=metric.unit, value=metric.source, scale=metric.scale)
        for name, metric in definition.metrics.items()
        if metric.source and metric.of_sample is None
    }
    return Outline(
        name=definition.name,
        title=definition.title,
        study=definition.study,
        question=definition.question,
        models=tuple(definition.models),
        seconds=float(definition.seconds),
        metrics=simple,
        main={}
        if callable(definition.main)
        else {clock: (main.metric, main.better) for clock, main in definition.main.items()},
        program=tuple(definition.program),
        program_sha256=digest(program) if program else "",
    )


def outline(source: Source) -> Extension:
    """What a manifest says of a source whose code does not run."""
    from swtch import experiments
    from swtch.report import legible

    def trials(name: str) -> Callable[[object], Any]:
        def refuse(_: object) -> Any:
            raise CannotError(f"{name}: its code was not run, so it has no trials.")

        return refuse

    definitions = {}
    for known in source.experiments:
        # From a manifest, which anybody may have written.
        if known.name in experiments.names() or not _NAME.fullmatch(known.name):
            continue
        definitions[known.name] = experiments.Experiment(
            name=known.name,
            title=legible.text(known.title),
            study=legible.text(known.study),
            question=legible.text(known.question),
            models=known.models,
            seconds=known.seconds if 0 < known.seconds < 86_400 else 1.0,
            trials=cast(Any, trials(known.name)),
            metrics={
                legible.text(name): experiments.value(
                    metric.value, legible.text(metric.unit), metric.scale
                )
                for name, metric in known.metrics.items()
            },
            main={
                cast(Any, clock): experiments.Main(legible.text(metric), cast(Any, better))
                for clock, (metric, better) in known.main.items()
                if better in ("less", "more", "neither")
            },
        )
    label = legible.text(source.package or Path(source.path).name)
    return Extension(label=label, source=source, experiments=definitions, outline=True)
