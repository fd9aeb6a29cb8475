# SPDX-License-Identifier: Apache-2.0
"""What was fetched or built once, kept by content below $XDG_CACHE_HOME/swtch.

    debs/SHA256.deb     packages, as fetched
    ROOM/KEY/           one thing unpacked or built; KEY is a digest of all it was made from
    apt/                the private state of apt

Invariants:

- A folder ROOM/KEY is whole or absent: it is made beside its place and renamed.
- What a killed process left of one is removed by who makes it next.
- Two processes that need the same thing make it once: the second waits.
- Deleting the cache, or any part of it, costs time and nothing else.

Rejected: time stamps (a checkout sets them anew), one lock for all (a build
would wait for a download).
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from swtch import folders
from swtch.errors import CannotError, os_error_text

ENV = "XDG_CACHE_HOME"
_BLOCK = 1 << 20


def root() -> Path:
    """The cache's folder; made if absent."""
    base = folders.of_user(os.environ.get(ENV, ""), ".cache")
    if base is None:
        raise CannotError(f"this user has no home for a cache; set {ENV} to a folder.")
    folder = base / "swtch"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotError(
            f"cannot make the cache {folder}: {os_error_text(error)};"
            f" set {ENV} to a folder that is writable."
        ) from None
    return folder


def room(name: str) -> Path:
    """A folder of the cache."""
    folder = root() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one process is inside for the same `name`."""
    file = os.open(room("locks") / name.replace("/", "_"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def entry(where: str, key: str, make: Callable[[Path, Path], None]) -> Path:
    """The folder `where`/`key`; if absent, ``make(draft, final)`` fills `draft` first.

    `final` is where the draft will be, for files that must name their place.
    """
    final = room(where) / key
    if final.is_dir():
        return final
    with locked(f"{where}-{key}"):
        if final.is_dir():
            return final
        sweep(final.parent, f".{key}-")
        draft = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=final.parent))
        try:
            make(draft, final)
            draft.chmod(0o755)
            draft.rename(final)
        except OSError as error:
            raise CannotError(f"cannot write to {final}: {os_error_text(error)}.") from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return final


def sweep(folder: Path, prefix: str) -> None:
    """Removes drafts whose makers were killed. Who calls has the lock that makers have."""
    for left in folder.glob(f"{glob.escape(prefix)}*"):
        shutil.rmtree(left, ignore_errors=True)


def write(file: Path, data: bytes) -> None:
    """`file` with `data` in it, whole or as it was before; CannotError when it cannot be."""
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            Path(draft).replace(file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CannotError(f"cannot write to {file}: {os_error_text(error)}.") from None


def sha256(path: Path) -> str:
    """The digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def key_of(parts: Iterable[str | bytes | Path]) -> str:
    """A short key over texts, files and whole folders (names and contents)."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            for file in _files(part):
                digest.update(f"{file.relative_to(part.parent)}\0".encode())
                digest.update(bytes.fromhex(sha256(file)))
        else:
            data = part.encode() if isinstance(part, str) else part
            digest.update(b"%d\0" % len(data) + data)
    return digest.hexdigest()[:24]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.exists() else []
    skip = {"__pycache__", ".git"}
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not skip & set(file.relative_to(path).parts)
    )
