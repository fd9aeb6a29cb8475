# SPDX-License-Identifier: Apache-2.0
"""Which guests there are: a kernel series on an architecture, `6.1-amd64`.

Two series, because the scheduler changed between them: 6.1 has CFS, 6.12 has
EEVDF. A guest of the user's own kernel is called `own-ARCH`; of several, `own1-ARCH`
and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from swtch.errors import RequestError, did_you_mean

ArchName = Literal["amd64", "arm64"]


@dataclass(frozen=True)
class Arch:
    """What differs between architectures. ``*_package*`` bring its emulator and,
    on machines of another architecture, its compiler."""

    name: ArchName
    machine: str
    emulator: str
    emulator_package: str
    compiler: str
    compiler_packages: tuple[str, ...]
    triplet: str
    console: str
    line: str  # the guest's device of the framed protocol
    console_config: tuple[str, ...]  # what a kernel needs for both


ARCHES: Final[dict[str, Arch]] = {
    "amd64": Arch(
        name="amd64",
        machine="x86_64",
        emulator="qemu-system-x86_64",
        emulator_package="qemu-system-x86",
        compiler="x86_64-linux-gnu-gcc",
        compiler_packages=("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"),
        triplet="x86_64-linux-gnu",
        console="ttyS0",
        line="/dev/ttyS1",
        console_config=("SERIAL_8250", "SERIAL_8250_CONSOLE"),
    ),
    "arm64": Arch(
        name="arm64",
        machine="aarch64",
        emulator="qemu-system-aarch64",
        emulator_package="qemu-system-arm",
        compiler="aarch64-linux-gnu-gcc",
        compiler_packages=("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
        triplet="aarch64-linux-gnu",
        console="ttyAMA0",
        line="/dev/ttyAMA0",
        console_config=("SERIAL_AMBA_PL011", "SERIAL_AMBA_PL011_CONSOLE"),
    ),
}


@dataclass(frozen=True)
class Guest:
    """One guest by its name. ``suite`` is where its kernel's packages are."""

    name: str
    series: str
    arch: Arch
    suite: str
    scheduler: str


_SERIES: Final = (
    ("6.1", "bookworm", "CFS"),
    ("6.12", "bookworm-backports", "EEVDF"),
)

GUESTS: Final[dict[str, Guest]] = {
    f"{series}-{arch.name}": Guest(f"{series}-{arch.name}", series, arch, suite, scheduler)
    for series, suite, scheduler in _SERIES
    for arch in ARCHES.values()
}


def parse(text: str) -> tuple[Guest, ...]:
    """The guests `text` names, comma-separated; doubles do not matter."""
    names = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    known = ", ".join(GUESTS)
    if not names:
        raise RequestError(f"--guest names no guest; known are {known}.")
    for name in names:
        if name not in GUESTS:
            raise RequestError(
                f"--guest: there is no guest {name!r}.{did_you_mean(name, GUESTS)}"
                f" Known are {known}."
            )
    return tuple(GUESTS[name] for name in names)


def host_arch() -> str:
    """The Debian name of this machine's architecture; the kernel's own if it has none here."""
    import platform

    machine = platform.machine()
    for arch in ARCHES.values():
        if arch.machine == machine:
            return arch.name
    return machine


def default() -> Guest:
    """The guest for who names none: the older kernel, on this architecture if possible."""
    return GUESTS.get(f"6.1-{host_arch()}", GUESTS["6.1-amd64"])


def scheduler_of(release: str) -> str:
    """EEVDF replaced CFS in Linux 6.6."""
    numbers = release.split("-")[0].split(".")
    try:
        version = (int(numbers[0]), int(numbers[1]))
    except (IndexError, ValueError):
        return "unknown"
    return "EEVDF" if version >= (6, 6) else "CFS"
