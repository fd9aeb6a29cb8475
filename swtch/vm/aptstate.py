# SPDX-License-Identifier: Apache-2.0
"""Packages of a foreign architecture or suite, without touching the system's apt.

A private state folder is derived from this machine's own apt sources: the same
archive, the same keys, the same proxies, other suites and architectures.
`apt-get download` then fetches single packages; nothing is installed.

Invariants:

- No address is known to this program: an archive is copied from the machine's
  sources when it runs, from both forms (deb822 and one line each).
- A package counts only with the SHA-256 that the signed index gives for it.
- On a full disk apt is ended: its methods write again and again, and it waits for them.
- A package that is in the cache is not fetched, and when all are, apt is not
  even started.

Rejected: dpkg --add-architecture (changes the machine), fetching by HTTP
ourselves (signatures, mirrors and proxies are apt's trade).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swtch.errors import CannotError
from swtch.vm import cache

_RELEASES = frozenset(
    (
        *("bullseye", "bookworm", "trixie", "forky", "duke", "sid"),
        *("oldoldstable", "oldstable", "stable", "testing", "unstable"),
    )
)
_BASE = "bookworm"
_FETCHED = ".fetched-"
_TIME_LIMIT_S = 1800
_LOOK_S = 1.0  # how often the disk is looked at while apt is at work
_FULL_BYTES = 2 << 20  # what is less is no room for a list or a package
_LOOKS = 3  # so often in a row, and it is full


@dataclass(frozen=True)
class Source:
    """One archive of the machine's apt sources. ``options`` are kept as written."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Package:
    """One package as the signed index describes it."""

    name: str
    arch: str
    version: str
    sha256: str
    depends: str

    @property
    def selector(self) -> str:
        """As apt-get wants it."""
        return f"{self.name}:{self.arch}={self.version}"

    @property
    def file(self) -> Path:
        """Its place in the cache, whether it is there or not."""
        return cache.room("debs") / f"{self.sha256}.deb"


def parse_list(text: str) -> list[Source]:
    """Sources in one-line form: ``deb [options] uri suite component...``."""
    sources = []
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        match = re.fullmatch(r"deb\s+(?:\[([^]]*)]\s+)?(\S+)\s+(\S+)\s*(.*)", line)
        if match is None:
            continue
        options = dict(option.split("=", 1) for option in (match[1] or "").split() if "=" in option)
        sources.append(Source((match[2],), (match[3],), tuple(match[4].split()), options))
    return sources


def parse_deb822(text: str) -> list[Source]:
    """Sources in paragraphs of fields."""
    sources = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        kept = ("signed-by", "trusted")
        options = {key: value for key, value in fields.items() if key in kept}
        sources.append(
            Source(
                tuple(fields.get("uris", "").split()),
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
                options,
            )
        )
    return sources


def machine_sources(folder: Path = Path("/etc/apt")) -> list[Source]:
    """All sources of this machine that can be read."""
    sources: list[Source] = []
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    for file in files:
        parse = {".list": parse_list, ".sources": parse_deb822}.get(file.suffix)
        if parse is None:
            continue
        try:
            sources += parse(file.read_text())
        except (OSError, UnicodeDecodeError):
            continue
    return sources


def derive(sources: Iterable[Source]) -> str:
    """The private sources, as deb822: the same archives, the suites we need."""
    paragraphs = []
    seen = set()
    for source in sources:
        uris = [uri for uri in source.uris if not uri.startswith("cdrom:")]
        release = {suite.split("-")[0].split("/")[0] for suite in source.suites}
        if not uris or not release & _RELEASES or "main" not in source.components:
            continue
        if all(re.search(r"-security$|/updates$", suite) for suite in source.suites):
            suites = f"{_BASE}-security"
        elif set(source.suites) & _RELEASES:
            suites = f"{_BASE} {_BASE}-backports"
        else:
            continue
        lines = ["Types: deb", f"URIs: {' '.join(uris)}", f"Suites: {suites}", "Components: main"]
        for key, name in (("signed-by", "Signed-By"), ("trusted", "Trusted")):
            if key in source.options:
                lines.append(f"{name}: {source.options[key]}")
        paragraph = "\n".join(lines) + "\n"
        if paragraph not in seen:
            seen.add(paragraph)
            paragraphs.append(paragraph)
    if not any(f"{_BASE}-backports" in paragraph for paragraph in paragraphs):
        raise CannotError(
            "this machine's apt sources name no Debian archive to take guest kernels from;"
            " give your own with --kernel and --headers."
        )
    return "\n".join(paragraphs)


class AptState:
    """The private state: ``find`` and ``fetch`` packages. Its lists are fetched once."""

    def __init__(self, native: str, architectures: Sequence[str]) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise CannotError(
                "guest kernels come from Debian packages, and there is no apt-get here;"
                " give your own with --kernel and --headers."
            )
        self._native = native
        self._architectures = tuple(dict.fromkeys((native, *architectures)))
        self._sources = derive(machine_sources())
        self._folder: Path | None = None

    def find(self, name: str, arch: str, suite: str) -> Package:
        """The package that `suite` offers."""
        options = []
        if suite.endswith("-backports"):
            # Backports are never automatic: they must be asked for.
            options = ["-o", f"APT::Default-Release={suite}"]
        text = self._apt("apt-cache", *options, "show", "--no-all-versions", f"{name}:{arch}")
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", text, re.MULTILINE))
        missing = {"Package", "Version", "Architecture", "SHA256"} - set(fields)
        if missing:
            raise CannotError(f"apt knows no package {name} for {arch} in {suite}.")
        return Package(
            name=fields["Package"],
            arch=fields["Architecture"] if fields["Architecture"] != "all" else self._native,
            version=fields["Version"],
            sha256=fields["SHA256"],
            depends=fields.get("Depends", ""),
        )

    def fetch(self, packages: Sequence[Package]) -> None:
        """Brings all `packages` into the cache; those that are there stay."""
        with cache.locked("fetch"):
            wanted = {package.sha256: package for package in packages if not package.file.exists()}
            if not wanted:
                return
            cache.sweep(cache.root(), _FETCHED)
            with tempfile.TemporaryDirectory(prefix=_FETCHED, dir=cache.root()) as folder:
                selectors = [package.selector for package in wanted.values()]
                self._apt("apt-get", "download", *selectors, folder=Path(folder))
                for file in Path(folder).glob("*.deb"):
                    package = wanted.pop(cache.sha256(file), None)
                    if package is not None:
                        file.rename(package.file)
        for package in wanted.values():
            raise CannotError(
                f"{package.name} {package.version} did not come with the checksum that the"
                " package index gives for it; try again later."
            )

    def update(self) -> None:
        """Fetches the package lists anew."""
        with cache.locked("apt"):
            self._update()

    def _state(self) -> Path:
        if self._folder is None:
            key = cache.key_of([self._sources, *self._architectures])
            self._folder = cache.room("apt") / key
            if not (self._folder / "updated").exists():
                self.update()
        return self._folder

    def _update(self) -> None:
        assert self._folder is not None
        for place in ("lists/partial", "cache/archives/partial"):
            (self._folder / place).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        (self._folder / "swtch.sources").write_text(self._sources)
        self._run(["apt-get", *self._options(), "-qq", "update"], self._folder)
        (self._folder / "updated").touch()

    def _options(self) -> list[str]:
        folder = self._folder
        settings = [
            f"Dir::State={folder}",
            f"Dir::State::lists={folder}/lists",
            f"Dir::State::status={folder}/status",
            f"Dir::Cache={folder}/cache",
            # Some machines turn these off, and then every question takes seconds.
            "Dir::Cache::pkgcache=pkgcache.bin",
            "Dir::Cache::srcpkgcache=srcpkgcache.bin",
            "Acquire::GzipIndexes=false",
            f"Dir::Etc::sourcelist={folder}/swtch.sources",
            "Dir::Etc::sourceparts=/dev/null",
            "Dir::Etc::preferences=/dev/null",
            "Dir::Etc::preferencesparts=/dev/null",
            f"APT::Architecture={self._native}",
            *(f"APT::Architectures::={arch}" for arch in self._architectures),
            "APT::Sandbox::User=",
            "APT::Update::Post-Invoke::=true",
            "APT::Get::List-Cleanup=false",
            "Acquire::Retries=3",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        ]
        return [word for setting in settings for word in ("-o", setting)]

    def _apt(self, program: str, *arguments: str, folder: Path | None = None) -> str:
        state = self._state()
        return self._run([program, *self._options(), "-qq", *arguments], folder or state)

    def _run(self, command: list[str], folder: Path) -> str:
        with subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        ) as process:
            try:
                said, complaints = _outcome(process, command[0], folder)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            lines = [line for line in complaints.splitlines() if line.startswith("E:")]
            reason = " ".join(lines[0][2:].split()) if lines else f"status {process.returncode}"
            raise CannotError(f"{command[0]} failed: {reason}")
        return said


def _outcome(process: subprocess.Popen[str], program: str, folder: Path) -> tuple[str, str]:
    """What `process`, which writes into `folder`, says until it ends; CannotError when it will
    not."""
    deadline = time.monotonic() + _TIME_LIMIT_S
    full = 0
    while time.monotonic() < deadline:
        try:
            return process.communicate(timeout=_LOOK_S)
        except subprocess.TimeoutExpired:
            full = full + 1 if _free_bytes(folder) < _FULL_BYTES else 0
        if full >= _LOOKS:
            raise CannotError(
                f"{program} failed: no space is left for {folder}; make room, or set"
                f" {cache.ENV} to a folder with a gigabyte to spare."
            )
    raise CannotError(
        f"{program} did not end within {_TIME_LIMIT_S // 60} minutes;"
        " check the network and try again."
    )


def _free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize
