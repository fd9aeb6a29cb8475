# SPDX-License-Identifier: Apache-2.0
"""The guest's root folder as one archive in cpio's newc format.

Written by hand because the format is 110 bytes of header per file, needs no
root for device nodes this way, and comes out the same to the byte every time.

Invariants:

- The archive is a function of its members alone: sorted by name, numbered in
  that order, owned by 0:0, dated 0.
- The folders above a member are added, so a caller names files only.

Rejected: the cpio program (not on every machine, and keeps dates and inode
numbers), gzip (the guest's decompression costs more than the copying saves,
under emulation), a disk image (Debian builds its drivers as modules).
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_ALIGN = 4


@dataclass(frozen=True)
class Member:
    """One entry: ``mode`` has the file type; ``data`` is content or link target."""

    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


class Archive:
    """Members by name; ``pack`` makes the bytes."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}

    def add_file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """A regular file. A name that exists is replaced."""
        self._add(name, Member(stat.S_IFREG | mode, data))

    def add_program(self, name: str, source: Path) -> None:
        """A copy of `source` that may be run."""
        self.add_file(name, source.read_bytes(), 0o755)

    def add_link(self, name: str, target: str) -> None:
        """A symbolic link."""
        self._add(name, Member(stat.S_IFLNK | 0o777, target.encode()))

    def add_device(self, name: str, major: int, minor: int) -> None:
        """A character device."""
        self._add(name, Member(stat.S_IFCHR | 0o600, device=(major, minor)))

    def add_folder(self, name: str, mode: int = 0o755) -> None:
        """An empty folder."""
        self._add(name, Member(stat.S_IFDIR | mode))

    def __contains__(self, name: str) -> bool:
        return _clean(name) in self._members

    def pack(self) -> bytes:
        """The archive."""
        members = dict(self._members)
        for name in self._members:
            for parent in PurePosixPath(name).parents:
                if str(parent) == ".":
                    continue
                above = members.setdefault(str(parent), Member(stat.S_IFDIR | 0o755))
                if not stat.S_ISDIR(above.mode):
                    raise ValueError(f"/{parent} is a file, and /{name} is to be in it")
        packed = bytearray()
        for number, name in enumerate(sorted(members), start=1):
            packed += _entry(number, name, members[name])
        packed += _entry(0, "TRAILER!!!", Member(0))
        return bytes(packed)

    def _add(self, name: str, member: Member) -> None:
        self._members[_clean(name)] = member


def _clean(name: str) -> str:
    path = PurePosixPath(name.lstrip("/"))
    if ".." in path.parts or not path.parts:
        raise ValueError(f"no name for a member of the archive: {name!r}")
    return str(path)


def _entry(number: int, name: str, member: Member) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(member.mode) else 1
    fields = (
        number,
        member.mode,
        0,  # uid
        0,  # gid
        links,
        0,  # mtime
        len(member.data),
        0,  # device the file is on
        0,
        *member.device,
        len(encoded),
        0,  # checksum: none in this variant
    )
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(head + encoded) + _padded(member.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGN)
