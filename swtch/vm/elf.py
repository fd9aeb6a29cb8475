# SPDX-License-Identifier: Apache-2.0
"""Which shared libraries a program needs, also when it is for another CPU.

Reads the dynamic section of 64-bit little-endian ELF files. `ldd` runs the
program's loader, which it cannot for a foreign architecture and should not for
a program it does not trust.

Rejected: parsing `readelf -d` (one more program that must be there).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swtch.errors import CannotError

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5
MACHINES = {62: "amd64", 183: "arm64"}


@dataclass(frozen=True)
class Elf:
    """What a file needs to run: its loader (empty: static) and its libraries."""

    arch: str
    interpreter: str
    needed: tuple[str, ...]


def read(path: Path) -> Elf:
    """Raises ValueError for what is no ELF file of a kind known here."""
    data = path.read_bytes()
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file: {error}") from None


def _read(data: bytes) -> Elf:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("wrong magic")
    machine = struct.unpack_from("<H", data, 18)[0]
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    loads, dynamic, interpreter = [], b"", ""
    for index in range(count):
        kind, _flags, begin, address, _physical, in_file = struct.unpack_from(
            "<IIQQQQ", data, offset + index * size
        )
        if kind == _PT_LOAD:
            loads.append((address, begin, in_file))
        elif kind == _PT_DYNAMIC:
            dynamic = data[begin : begin + in_file]
        elif kind == _PT_INTERP:
            interpreter = data[begin : begin + in_file].rstrip(b"\0").decode()
    names, table = [], 0
    for tag, value in struct.iter_unpack("<QQ", dynamic):
        if tag == _DT_NULL:
            break
        if tag == _DT_NEEDED:
            names.append(value)
        elif tag == _DT_STRTAB:
            table = _in_file(loads, value)
    needed = tuple(data[table + n : data.index(b"\0", table + n)].decode() for n in names)
    return Elf(MACHINES.get(machine, f"machine {machine}"), interpreter, needed)


def _in_file(loads: list[tuple[int, int, int]], address: int) -> int:
    for start, begin, size in loads:
        if start <= address < start + size:
            return address - start + begin
    raise ValueError("its string table is not in the file")


def closure(programs: Iterable[Path], folders: Sequence[Path]) -> dict[str, Path]:
    """Everything `programs` need beside themselves: path in the guest -> file here.

    Libraries are put where the loader's path is in the guest, in ``/lib``,
    which every loader searches.
    """
    files: dict[str, Path] = {}
    waiting = list(programs)
    arch = ""
    while waiting:
        path = waiting.pop()
        elf = read(path)
        arch = arch or elf.arch
        wanted = [(f"/lib/{name}", name) for name in elf.needed]
        if elf.interpreter:
            wanted.append((elf.interpreter, Path(elf.interpreter).name))
        for place, name in wanted:
            if place in files:
                continue
            files[place] = _search(name, folders, path, arch)
            waiting.append(files[place])
    return files


def _search(name: str, folders: Sequence[Path], user: Path, arch: str) -> Path:
    for folder in folders:
        candidate = folder / name
        try:
            if read(candidate).arch == arch:
                return candidate
        except (OSError, ValueError):
            continue
    raise CannotError(
        f"{user.name} needs the library {name} for {arch}, which is in none of"
        f" {', '.join(map(str, folders))}."
    )
