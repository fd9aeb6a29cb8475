# SPDX-License-Identifier: Apache-2.0
"""Experiments from outside the package: a file of the user's, or an installed package.

    swtch run ./mine.py       a file: EXPERIMENT or EXPERIMENTS, CLAIMS, CHAPTER
    swtch run their-name      a package: entry points of the group ``swtch.experiments``

Both are modules with the same names in them (``loading``); here they are registered, by
the experiments they define. A run keeps the file: a copy in its folder, with its path and
digest in the manifest, so that it is reported, resumed and compared as it was measured,
even when the file is gone or another by now.

Invariants:

- Code runs only when the user asked for it: he named the file, or he installed the
  package, or he named the run to `swtch trust`. What comes with a run directory is not
  asked for: it runs only if this user once did (``trust``), by digest and path.
  Otherwise its experiments are what the manifest says of them (an outline: names, units,
  and the metrics that are a probe's values); no claims, and the plain chapter.
- A name belongs to swtch first: nothing from outside takes the place of its own.
- What is registered last under a name counts. Two runs with two versions of a file that
  are compared are both read by the second run's, and a notice says so.
- Nothing that foreign code raises leaves this package as a traceback (``guard``).

Rejected: pickled definitions in the run (code without its source), a search path of
folders with experiments (what is measured would depend on where one stands), asking at
the terminal (scripts have none).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swtch.errors import CannotError, RequestError
from swtch.own import guard, trust

if TYPE_CHECKING:
    from swtch.claims import Claim
    from swtch.experiments import Experiment
    from swtch.own.loading import Extension
    from swtch.records import Manifest, Source

GROUP = "swtch.experiments"
# In a run's folder, where it keeps them.
FOLDER = "source"

_registered: dict[str, Extension] = {}


# ---- what others ask ----


def find(name: str) -> Experiment | None:
    """The registered experiment called `name`."""
    known = _registered.get(name)
    return known.experiments[name] if known else None


def search(name: str) -> Experiment | None:
    """The same, of an installed package if need be."""
    if name not in _registered:
        for extension in packages():
            if name in extension.experiments:
                register(extension)
    return find(name)


def claims() -> tuple[Claim, ...]:
    """The claims of everything registered."""
    extensions = {id(extension): extension for extension in _registered.values()}
    return tuple(claim for extension in extensions.values() for claim in extension.claims)


def chapter(name: str) -> Any:
    """The chapter that the experiment's file has for it, or None."""
    known = _registered.get(name)
    return known.chapters.get(name) if known else None


def program(name: str) -> tuple[str, ...]:
    """The probe program of the experiment, with arguments; empty: it has none."""
    known = _registered.get(name)
    return known.programs.get(name, ()) if known else ()


def origin(name: str) -> str:
    """Where an experiment comes from, in words; empty: it is swtch's."""
    known = _registered.get(name)
    return known.label if known else ""


# ---- registering ----


def register(extension: Extension) -> None:
    """What it defines is known from now on."""
    for name in extension.experiments:
        _registered[name] = extension


def forget() -> None:
    """Nothing is registered any more; for tests."""
    _registered.clear()
    guard.clear()


def is_file(word: str) -> bool:
    """Whether an experiment is named by its file."""
    return word.endswith(".py") or "/" in word


def resolve(words: Sequence[str]) -> tuple[str, ...]:
    """Experiments by name, where each file among `words` stands for what it defines."""
    names: list[str] = []
    for word in words:
        if not is_file(word):
            names.append(word)
            continue
        from swtch.own import loading

        extension = loading.file(Path(word))
        loading.check_programs(extension)
        again = [name for name in extension.experiments if name in names]
        if again:
            raise RequestError(f"{word}: experiment {again[0]!r} is defined by two files.")
        register(extension)
        trust.add(extension.source.sha256, extension.source.path)
        names += extension.experiments
    return tuple(names)


def packages() -> tuple[Extension, ...]:
    """What installed packages bring; one that cannot be used is a notice."""
    from importlib import metadata

    by_name: dict[str, Extension] = {}
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name):
        from swtch.own import loading

        try:
            extension = loading.entry_point(entry)
            again = [name for name in extension.experiments if name in by_name]
            if again:
                raise RequestError(
                    f"{extension.label}: experiment {again[0]!r} is also"
                    f" {by_name[again[0]].label}'s; the first is taken."
                )
        except RequestError as error:
            guard.notice(str(error))
            continue
        by_name |= dict.fromkeys(extension.experiments, extension)
    return tuple({id(extension): extension for extension in by_name.values()}.values())


# ---- in a run ----


def sources(names: Iterable[str]) -> tuple[Source, ...]:
    """For the manifest: where those of `names` come from that are not swtch's."""
    extensions = {
        id(extension): extension for name in names if (extension := _registered.get(name))
    }
    return tuple(extension.source for extension in extensions.values())


def copies(manifest: Manifest) -> Mapping[str, bytes]:
    """The files that the run keeps, by path within it."""
    kept = {id(extension): extension for extension in _registered.values()}.values()
    return {
        extension.source.copy: extension.text
        for extension in kept
        if extension.source.copy and extension.source in manifest.sources
    }


def attach(path: Path, manifest: Manifest) -> None:
    """Makes known what the run in `path` has from outside, as far as it is trusted."""
    for source in manifest.sources:
        known = {id(other): other for o in source.experiments if (other := _registered.get(o.name))}
        same = (source.sha256, source.path)
        if any(
            not other.outline and (other.source.sha256, other.source.path) == same
            for other in known.values()
        ):
            continue
        extension = _executed(path, source)
        if not extension.outline and any(
            not other.outline and other.source.sha256 != source.sha256 for other in known.values()
        ):
            guard.notice(
                f"{extension.label}: two runs have different versions of it; both are read by"
                f" that of {path}"
            )
        register(extension)


def _executed(path: Path, source: Source) -> Extension:
    from swtch.own import loading

    if source.package:
        for extension in packages():
            if extension.source.package.split()[0] == source.package.split()[0] and all(
                outline.name in extension.experiments for outline in source.experiments
            ):
                if extension.source.sha256 != source.sha256:
                    guard.notice(
                        f"{source.package}: {source.path} is not as it was when {path} was measured"
                    )
                return extension
        guard.notice(f"{path}: {source.package} is not installed here; read without its code")
        return loading.outline(source)
    if not trust.has(source.sha256, source.path):
        guard.notice(
            f"{path} brings code of its own, {source.copy}, which was not run: no claims, plain"
            f" tables. Read it; to have it run: swtch trust {shlex.quote(str(path))}"
        )
        return loading.outline(source)
    try:
        return loading.kept(path, source)
    except (RequestError, OSError) as error:
        guard.notice(f"{path}: read without {source.copy}: {error}")
        return loading.outline(source)


def ready(path: Path, manifest: Manifest) -> dict[str, str]:
    """Before a run goes on: refuses programs that nobody asked for or that are gone, and
    gives the digests of those that are others now, by experiment."""
    changed = {}
    for source in manifest.sources:
        for known in source.experiments:
            if not known.program:
                continue
            extension = _registered.get(known.name)
            if extension is None or extension.outline:
                raise CannotError(
                    f"{path} has a probe program of its own, {' '.join(known.program)}, which"
                    f" is only started when you trust it: swtch trust {shlex.quote(str(path))}"
                )
            from swtch.own import loading

            try:
                loading.check_programs(extension)
            except RequestError as error:
                raise CannotError(str(error)) from None
            digest = loading.digest(extension.programs[known.name])
            if digest != known.program_sha256:
                changed[known.name] = digest
    return changed


def trust_run(path: Path, manifest: Manifest) -> list[Source]:
    """Has the code that came with the run in `path` run from now on."""
    from swtch.own import loading

    files = [source for source in manifest.sources if source.copy]
    for source in files:
        loading.read_kept(path, source)
    for source in files:
        trust.add(source.sha256, source.path)
    return files
