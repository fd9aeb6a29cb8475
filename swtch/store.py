# SPDX-License-Identifier: Apache-2.0
"""The run directory: what was measured, safe against any interruption.

    manifest.json   written once, atomically, before the first invocation
    samples.jsonl   one Sample a line, each flushed and fsynced before the next starts
    source/         files of experiments that are not swtch's own, as they were run
    logs/           raw output of failed invocations and the last good one of each trial

Invariants:

- A line of samples.jsonl is complete when it ends in a newline. Cut anywhere,
  the file holds every earlier sample whole; only an incomplete last line is
  lost, and the invocation it belonged to is simply not done yet.
- A ``seq`` appears at most once and is one of the plan's.
- What is read can be used (swtch.intact). A line that cannot be is left out and said,
  and its invocation is not done yet: the other samples are as good as they were.
- One writer at a time: a flock on the directory itself, which needs no lock
  file and vanishes with its process.

Rejected: SQLite and Parquet for the samples (neither can be read, mended or
diffed with a pager, and a run has thousands of lines, not millions); a lock
file (survives a crash and then lies).
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from swtch import elsewhere, intact, own, upgrade
from swtch.errors import CannotError, CorruptError, os_error_text
from swtch.own import guard
from swtch.records import SCHEMA, Invocation, Manifest, Sample, Trial

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
LOGS = "logs"
# Of damaged lines.
NAMED_MOST = 6
# Of a log, in bytes without its ending; a file system takes 255, some of them 143.
LONGEST_NAME = 128
# Of a draft, in bytes without its ending of 13.
LONGEST_STEM = 242
_NO_NAME = re.compile(r"[/\x00-\x1f\x7f]")
_DRAFT = re.compile(re.escape(MANIFEST) + r"\.[0-9a-f]{8}\.tmp")
_SOURCE = re.compile(r"[\w.+-]+\.py(\.[0-9a-f]{8}\.tmp)?")

T = TypeVar("T")


class _Schema(msgspec.Struct):
    schema: int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory as read: ``cut_bytes`` counts an incomplete last line."""

    path: Path
    manifest: Manifest
    samples: tuple[Sample, ...]
    cut_bytes: int = 0

    @property
    def counted(self) -> str:
        """How many invocations there are, and of how many where the plan alone says that."""
        of = f" of {len(self.manifest.plan)}" if self.manifest.spending is None else ""
        return f"{len(self.samples)}{of} invocations"

    @property
    def complete(self) -> bool:
        """Every invocation of the plan has a sample, or is not needed (swtch.course)."""
        missing = len(self.manifest.plan) - len(self.samples)
        if missing == 0:
            return True
        from swtch import course

        return missing == course.count_left_out(self.manifest, self.samples)


def load(path: Path) -> Run:
    """Reads and validates `path`; raises CorruptError naming file, key and remedy."""
    manifest = load_manifest(path)
    samples, cut = load_samples(path, manifest)
    if said := elsewhere.sentence(manifest, samples):
        guard.notice(f"{path}: {said}")
    return Run(path=path, manifest=manifest, samples=samples, cut_bytes=cut)


def load_manifest(path: Path) -> Manifest:
    """The manifest of the run directory `path`."""
    file = path / MANIFEST
    if not path.is_dir():
        raise CorruptError(f"{path} is not a run directory: {no_folder(path)}")
    try:
        text = _read(file)
    except FileNotFoundError:
        raise CorruptError(
            f"{path} is not a run directory: it has no {MANIFEST};"
            " give the folder that 'swtch run' named at its end."
        ) from None
    try:
        manifest = _decode(text, Manifest)
    except _UNREADABLE as error:
        raise CorruptError(
            f"{file}: not a manifest ({_at(error, text)});"
            f" restore it from a copy: without the plan, {SAMPLES} cannot be understood."
        ) from None
    except _NewerSchemaError as error:
        raise CorruptError(f"{file}: {error}") from None
    if wrong := intact.manifest(manifest, text):
        raise CorruptError(f"{file}: {wrong}; mend that, or restore the file from a copy.")
    if manifest.sources:
        # Here, because whoever reads a run comes by, and nobody may forget it.
        own.attach(path, manifest)
    return manifest


def no_folder(path: Path) -> str:
    """What `path` is in the place of a folder; of a run's file, where that run is."""
    if not path.exists():
        return "there is no such folder."
    run = next((one for one in path.parents[:2] if (one / MANIFEST).is_file()), None)
    return f"it is a file; the run is {run}." if run else "it is a file."


def instant(created: str) -> datetime.datetime | None:
    """When that is, for a manifest may be of another time zone; without one it is UTC. None
    of what is no time."""
    try:
        time = datetime.datetime.fromisoformat(created)
        return time.replace(tzinfo=time.tzinfo or datetime.UTC).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def load_samples(path: Path, manifest: Manifest) -> tuple[tuple[Sample, ...], int]:
    """The complete samples and the number of bytes of an incomplete last line.

    What is damaged is left out, with a notice; CorruptError where that is everything.
    """
    file = path / SAMPLES
    try:
        text = _read(file)
    except FileNotFoundError:
        return (), 0
    end = text.rfind(b"\n") + 1
    trials = {trial.id: trial for trial in manifest.trials}
    planned = {one.seq: (one, trials[one.trial_id]) for one in manifest.plan}
    first_line: dict[int, int] = {}
    samples = []
    damaged: dict[int, str] = {}
    for number, line in enumerate(text[:end].split(b"\n")[:-1], start=1):
        try:
            sample = _sample(line, planned)
            if sample.seq in first_line:
                first = first_line[sample.seq]
                raise _DamagedError(f"invocation {sample.seq} was already given in line {first}")
        except _DamagedError as error:
            damaged[number] = str(error)
            continue
        except _NewerSchemaError as error:
            raise CorruptError(f"{file}, line {number}: {error}") from None
        first_line[sample.seq] = number
        samples.append(sample)
    if damaged:
        number, wrong = next(iter(damaged.items()))
        where = f"{file}, line {number}: {wrong}"
        if not samples:
            raise CorruptError(
                f"{where}; no line of it is a sample of this run: restore it from a copy, or move"
                " it away, and 'swtch run --resume' will measure everything again."
            )
        guard.notice(
            f"{where}; {_left_out(list(damaged))} To measure again what is missing, delete what is"
            f" damaged, then: swtch run --resume {shlex.quote(str(path))}"
        )
    return tuple(samples), len(text) - end


def _sample(line: bytes, planned: Mapping[int, tuple[Invocation, Trial]]) -> Sample:
    try:
        sample = _decode(line, Sample)
    except _UNREADABLE as error:
        raise _DamagedError(f"not a sample ({_at(error, line)})") from None
    invocation, trial = planned.get(sample.seq, (None, None))
    if invocation is None or trial is None or trial.id != sample.trial_id:
        raise _DamagedError(
            f"the plan has no invocation {sample.seq} of {sample.trial_id};"
            " the line belongs to another run"
        )
    if wrong := intact.sample(sample, line, invocation, trial):
        raise _DamagedError(f"not a sample of this run ({wrong})")
    return sample


def _left_out(lines: list[int]) -> str:
    if len(lines) == 1:
        return "it is left out."
    named = ", ".join(map(str, lines[1:NAMED_MOST]))
    more = f" and {len(lines) - NAMED_MOST} more" if len(lines) > NAMED_MOST else ""
    so = "so is line" if len(lines) == 2 else "so are lines"
    return f"it is left out, and {so} {named}{more}."


class Writer:
    """Exclusive use of a run directory for adding samples. A context manager."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.dropped_bytes = 0
        self.samples: list[Sample] = []
        self._lock = -1
        self._file = -1

    @classmethod
    def create(
        cls, path: Path, manifest: Manifest, files: Mapping[str, bytes] | None = None
    ) -> Writer:
        """A new run in `path`, which must be absent or an empty folder; `files` are kept in it,
        by their paths there."""
        claim_folder(path)
        writer = cls(path, manifest)
        try:
            writer._acquire()
            # Another may have been here between, and be done already.
            _refuse_used(path)
            with _beginning(path):
                for name, text in (files or {}).items():
                    (path / name).parent.mkdir(exist_ok=True)
                    write_atomically(path / name, text)
                text = msgspec.json.format(msgspec.json.encode(manifest))
                write_atomically(path / MANIFEST, text)
            (path / LOGS).mkdir()
            writer._open()
        except OSError as error:
            writer.close()
            raise CannotError(f"cannot write to {path}: {os_error_text(error)}.") from None
        except BaseException:
            writer.close()
            raise
        return writer

    @classmethod
    def resume(cls, path: Path) -> Writer:
        """The run in `path` again. Drops an incomplete last line (``dropped_bytes``)."""
        writer = cls(path, load_manifest(path))
        try:
            writer._acquire()
            # Only under the lock: until then another process may still be adding.
            samples, writer.dropped_bytes = load_samples(path, writer.manifest)
            writer.samples = list(samples)
            _remove_drafts(path / MANIFEST)
            (path / LOGS).mkdir(exist_ok=True)
            writer._open()
            if writer.dropped_bytes:
                os.ftruncate(writer._file, os.fstat(writer._file).st_size - writer.dropped_bytes)
                os.fsync(writer._file)
        except OSError as error:
            writer.close()
            raise CannotError(f"cannot write to {path}: {os_error_text(error)}.") from None
        except BaseException:
            writer.close()
            raise
        return writer

    def add(self, sample: Sample) -> None:
        """Appends `sample`; when this returns it is on the disk."""
        data = msgspec.json.encode(sample) + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._cannot_add(SAMPLES, error) from None
        self._check_place()
        self.samples.append(sample)

    def log(self, name: str, stdout: bytes, stderr: bytes) -> None:
        """Keeps raw output as logs/`name`.stdout and .stderr; an old one is replaced."""
        for suffix, data in (("stdout", stdout), ("stderr", stderr)):
            file = self.path / LOGS / f"{_file_name(name)}.{suffix}"
            try:
                if data:
                    file.write_bytes(data)
                else:
                    file.unlink(missing_ok=True)
            except OSError as error:
                raise self._cannot_add(LOGS, error) from None

    def done(self) -> frozenset[int]:
        """The invocations that have a sample, good or failed."""
        return frozenset(sample.seq for sample in self.samples)

    def close(self) -> None:
        """Gives the directory free for others. May be called twice."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_place(self) -> None:
        """Refuses to go on adding to a file that nobody will read: as long as it is open, it
        takes what is written to it, also when it was removed."""
        file = self.path / SAMPLES
        with contextlib.suppress(OSError):
            if os.path.samestat(file.stat(), os.fstat(self._file)):
                return
        raise CannotError(
            f"{file} was removed, or another was put in its place, while the run added to it. Put"
            " it back, or have what is missing measured again: swtch run --resume"
            f" {shlex.quote(str(self.path))}"
        )

    def _cannot_add(self, what: str, error: OSError) -> CannotError:
        return CannotError(
            f"cannot add to {self.path / what}: {os_error_text(error)}; the samples before are"
            f" whole. Mend that, then: swtch run --resume {shlex.quote(str(self.path))}"
        )

    def _acquire(self) -> None:
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotError(
                f"{self.path} is in use by another swtch; wait for it to end, or choose another."
            ) from None

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(self.path / SAMPLES, flags, 0o644)
        os.fsync(self._lock)


def claim_folder(path: Path) -> None:
    """Makes `path` and its parents; refuses a folder that holds anything."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        _refuse_used(path)
    except (FileExistsError, NotADirectoryError):
        raise CannotError(f"{path} cannot be made: a part of it is a file.") from None
    except OSError as error:
        raise CannotError(
            f"cannot make {path}: {os_error_text(error)}; choose another folder with --out."
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise CannotError(f"{path} is not writable; choose another folder with --out.")


def _refuse_used(path: Path) -> None:
    if not any(path.iterdir()) or _left(path):
        return
    here = shlex.quote(str(path))
    there = (path / MANIFEST).exists()
    other = f"continue the run in it: swtch run --resume {here}" if there else "empty it."
    raise CannotError(f"{path} exists and is not empty; choose another folder, or {other}")


@contextlib.contextmanager
def _beginning(path: Path) -> Iterator[None]:
    """Until there is a manifest a draft of one marks what lies in `path` as ours: who ends here,
    however, can begin anew in the same folder. Under the lock of `path`."""
    _clear(path)
    mark = path / f"{MANIFEST}.{secrets.token_hex(4)}.tmp"
    with mark.open("xb") as stream:
        _lock(stream.fileno())  # who writes the manifest removes drafts that nobody holds
        try:
            yield
        except BaseException:
            if not (path / MANIFEST).exists():
                with contextlib.suppress(OSError):
                    _clear(path)
            raise
        finally:
            mark.unlink(missing_ok=True)


def _left(path: Path) -> tuple[Path, ...]:
    """What in `path` was left by who was killed before there was a manifest; nothing where
    anything in it may be another's."""
    found = tuple(path.iterdir())
    marks = [one for one in found if _DRAFT.fullmatch(one.name)]
    rest = [one for one in found if one not in marks]
    ours = all(one.name == own.FOLDER and _is_ours(one) for one in rest)
    # The mark goes last.
    return (*rest, *marks) if marks and ours else ()


def _is_ours(sources: Path) -> bool:
    with contextlib.suppress(OSError):
        return not sources.is_symlink() and all(
            _SOURCE.fullmatch(one.name) and one.is_file() for one in sources.iterdir()
        )
    return False


def _clear(path: Path) -> None:
    for one in _left(path):
        if one.name == own.FOLDER:
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)


def write_atomically(file: Path, data: bytes) -> None:
    """`file` holds either what it held before or all of `data`, also after a power cut.

    A link stays one. A device or a pipe, as /dev/stdout may be, is written to and not replaced.
    Of two who write at once each has a draft of its own, and the last to be done stays. A draft
    is locked for as long as somebody writes it: one that is not is of who was killed, and goes.
    """
    if file.exists() and not file.is_file():
        with file.open("wb", buffering=0) as stream:
            while data:
                data = data[stream.write(data) :]
        return
    file = Path(os.path.realpath(file))
    _remove_drafts(file)
    draft = file
    try:
        while True:
            draft = file.with_name(f"{_draft_stem(file)}.{secrets.token_hex(4)}.tmp")
            with draft.open("xb") as stream:
                _lock(stream.fileno())
                if not os.fstat(stream.fileno()).st_nlink:
                    continue  # another took it for one that was left, before it was locked
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                draft.replace(file)
                break
    except BaseException as error:
        if draft != file:
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(draft):
            error.filename = str(file)  # the draft's name says nothing to anybody
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _draft_stem(file: Path) -> str:
    """What a draft's name begins with: a file may have a name that is nearly as long as any."""
    stem = file.name
    while len(os.fsencode(stem)) > LONGEST_STEM:
        stem = stem[:-1]
    return stem


def _remove_drafts(file: Path) -> None:
    """Those of `file` that nobody writes any more; what cannot be removed stays."""
    name = re.compile(re.escape(_draft_stem(file)) + r"\.[0-9a-f]{8}\.tmp")
    left: list[str] = []
    with contextlib.suppress(OSError), os.scandir(file.parent) as entries:
        left = [e.path for e in entries if name.fullmatch(e.name) and e.is_file()]
    for path in left:
        with contextlib.suppress(OSError):
            draft = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
                Path(path).unlink()
            finally:
                os.close(draft)


def _lock(draft: int) -> None:
    # A file system that has no locks has none for who looks for drafts, either.
    with contextlib.suppress(OSError):
        fcntl.flock(draft, fcntl.LOCK_EX)


def _file_name(name: str) -> str:
    """`name`, a trial's id with what became of it, as a file may be called: of one's own
    experiments it may be long, and have letters that no file's name has."""
    plain = _NO_NAME.sub("_", name)
    if len(plain.encode()) <= LONGEST_NAME:
        return plain
    stem, _, end = plain.rpartition(".")
    head = stem.encode()[: LONGEST_NAME - 32].decode(errors="ignore")
    return f"{head}~{hashlib.sha256(name.encode()).hexdigest()[:8]}.{end}"


def failed(samples: Iterable[Sample]) -> int:
    """How many of `samples` are failed invocations."""
    return sum(sample.status == "failed" for sample in samples)


class _NewerSchemaError(Exception):
    pass


class _DamagedError(Exception):
    """Of a line; ``str()`` says what is wrong with it."""


# What decoding raises; msgspec's own recursion has a limit, too.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _read(file: Path) -> bytes:
    """What is in `file`; FileNotFoundError is the caller's."""
    try:
        if file.exists() and not file.is_file():
            # A pipe would be waited for, and a device may never end.
            raise CorruptError(f"{file}: is no file; put the run's own there.")
        return file.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptError(f"{file}: cannot be read: {os_error_text(error)}.") from None


def _decode(text: bytes, kind: type[T]) -> T:
    # The schema first: a newer one may differ in every other field.
    schema = msgspec.json.decode(text, type=_Schema).schema
    if schema > SCHEMA:
        raise _NewerSchemaError(
            f"has schema {schema}, this swtch reads up to {SCHEMA};"
            " use the version of swtch that wrote it, or a newer one."
        )
    if schema < SCHEMA:
        return msgspec.convert(upgrade.record(msgspec.json.decode(text), kind), kind)
    return msgspec.json.decode(text, type=kind)


def _at(error: Exception, text: bytes) -> str:
    reason = str(error)
    if not text.strip(b"\0 \n"):
        return "empty, or filled with zero bytes by a crash of the machine"
    return reason if reason.startswith("JSON") else reason[0].lower() + reason[1:]
