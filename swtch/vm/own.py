# SPDX-License-Identifier: Apache-2.0
"""A kernel of the user's own: what it is, whether guests can live in it, its headers.

A kernel is an image, or a folder that it was built in (a source tree, or its O=),
which holds image, configuration and headers at once.

Invariants:

- What cannot work is refused before anything is built or booted, in one line that
  says what to give or to turn on instead. What cannot be known is tried.
- Nothing is written into the user's folders.

Rejected: reading the configuration out of the image (IKCONFIG is mostly off, and six
compressions would have to be known), building the kernel here (its owner knows how).
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swtch.errors import CannotError, RequestError
from swtch.vm import cache, packages
from swtch.vm.guests import ARCHES, Arch, Guest, scheduler_of

OLDEST: Final = (5, 10)
_IMAGES: Final = {
    "amd64": ("arch/x86/boot/bzImage",),
    "arm64": ("arch/arm64/boot/Image", "arch/arm64/boot/Image.gz"),
}
_SYMBOL: Final = {"amd64": "CONFIG_X86_64", "arm64": "CONFIG_ARM64"}
# What the guest's first process, its archive and its lines are made of.
_NEEDED: Final = (
    *("BLK_DEV_INITRD", "BINFMT_ELF", "TTY", "PRINTK", "PROC_FS", "SYSFS", "DEVTMPFS"),
    *("TMPFS", "FUTEX", "EPOLL", "SIGNALFD", "POSIX_TIMERS"),
)
_NAME: Final = "own"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True)
class Own:
    """A kernel of the user's own; without ``headers`` there is no kthread. ``config`` is
    what it was configured with, if that is known; ``number`` tells several apart. Of a
    tree nobody has said that modules can be built in it: then there is no kthread, either.
    ``given`` is what it was found by: the kernel, and headers that are apart from it.
    """

    kernel: Path
    headers: Path | None = None
    config: Path | None = None
    number: int = 0
    is_tree: bool = False
    given: tuple[str, ...] = ()


def found(kernel: Path, headers: Path | None = None, number: int = 0) -> Own:
    """The kernel in `kernel`, an image or the folder it was built in. CannotError says
    what is missing there."""
    if kernel.is_dir():
        image = _image_of_tree(kernel)
        return Own(
            kernel=image,
            headers=headers or kernel,
            config=kernel / ".config",
            number=number,
            is_tree=headers is None,
            given=_given(kernel, headers),
        )
    if not kernel.is_file():
        raise CannotError(f"--kernel: {kernel} is not a file.")
    candidates = [kernel.with_name(f"config-{kernel.name.removeprefix('vmlinuz-')}")]
    if kernel.name == "vmlinuz":
        candidates.append(kernel.with_name("config"))
    if headers is not None:
        candidates.insert(0, headers / ".config")
    config = next((file for file in candidates if file.is_file()), None)
    return Own(
        kernel=kernel,
        headers=headers,
        config=config,
        number=number,
        given=_given(kernel, headers),
    )


def _given(*paths: Path | None) -> tuple[str, ...]:
    return tuple(str(path.resolve()) for path in paths if path is not None)


def check_number(kernels: Sequence[Path], headers: Sequence[Path]) -> None:
    """Refuses headers that belong to no kernel."""
    if headers and not kernels:
        raise RequestError("--headers belongs to --kernel.")
    if headers and len(headers) != len(kernels):
        raise RequestError(
            f"{len(kernels)} --kernel and {len(headers)} --headers: give one for each, in the"
            " same order, or a folder that a kernel was built in, which is both."
        )


def several(kernels: Sequence[Path], headers: Sequence[Path]) -> tuple[Own, ...]:
    """Of each kernel, with its headers: as many as kernels, in their order, or none."""
    check_number(kernels, headers)
    many = len(kernels) > 1
    return tuple(
        found(kernel, headers[index] if headers else None, index + 1 if many else 0)
        for index, kernel in enumerate(kernels)
    )


def _image_of_tree(tree: Path) -> Path:
    config = _configured(tree / ".config")
    arches = [name for name, symbol in _SYMBOL.items() if config.get(symbol) == "y"]
    places = [place for name in arches or _IMAGES for place in _IMAGES[name]]
    for place in places:
        if (tree / place).is_file():
            return tree / place
    if not (tree / ".config").is_file():
        raise CannotError(
            f"--kernel: {tree} holds no kernel and no .config; configure and build one there,"
            " or if it was built with O=, give that folder."
        )
    raise CannotError(
        f"--kernel: {tree} holds no {places[0]}; build it: make -C {tree}"
        f" {Path(places[0]).name} modules"
    )


def _configured(file: Path | None) -> dict[str, str]:
    """A kernel's configuration by name; empty when it cannot be read."""
    try:
        text = file.read_text(errors="replace") if file is not None else ""
    except OSError:
        return {}
    return dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.MULTILINE))


def guest(own: Own) -> Guest:
    """The guest for the user's kernel; CannotError where guests cannot live in it."""
    arch = ARCHES[image_arch(own.kernel)]
    release = image_release(own.kernel)
    version = re.match(r"(\d+)\.(\d+)", release)
    if version and (int(version[1]), int(version[2])) < OLDEST:
        raise CannotError(
            f"--kernel: {own.kernel} is Linux {release}; guests need"
            f" {'.'.join(map(str, OLDEST))} or later."
        )
    check_config(own, arch)
    name = f"{_NAME}{own.number or ''}-{arch.name}"
    return Guest(name, release, arch, "", scheduler_of(release))


def is_name(name: str) -> bool:
    """Whether a guest of that name has a kernel of the user's own."""
    return name.startswith(_NAME)


def check_config(own: Own, arch: Arch) -> None:
    """Refuses a kernel that is known to lack what a guest is made of."""
    config = _configured(own.config)
    if not config:
        return
    needed = (*_NEEDED, *arch.console_config)
    missing = [f"CONFIG_{name}" for name in needed if config.get(f"CONFIG_{name}") != "y"]
    if missing:
        raise CannotError(
            f"--kernel: no guest can live in {own.kernel}; turn on {', '.join(missing)}"
            f" (=y, not =m) in {own.config}."
        )


def kernel(own: Own) -> packages.Kernel:
    """Names the user's kernel by what is in it; CannotError where its headers are others'."""
    release = image_release(own.kernel)
    headers = _headers(own, release)
    built_for = headers_release(headers) if headers else ""
    if release and built_for and built_for != release:
        raise CannotError(
            f"--headers are of {built_for} and --kernel is {release}; a module built with"
            " them would not load."
        )
    return packages.Kernel(
        release=release or built_for or "unknown",
        version=packages.OWN,
        image=str(own.kernel.resolve()),
        headers=str(headers) if headers else "",
        sha256=cache.sha256(own.kernel),
    )


def _headers(own: Own, release: str) -> Path | None:
    """Where the headers are, whatever of the forms that tools/kmod.sh takes."""
    if own.headers is None:
        return None
    headers = own.headers.resolve()
    flavour = headers / "usr/src" / f"linux-headers-{release}"
    if flavour.is_dir():
        return flavour
    if not (headers / "Makefile").is_file() and not (headers / "usr/src").is_dir():
        raise CannotError(f"--headers: {headers} holds no Makefile of a kernel.")
    return headers


def headers_release(headers: Path) -> str:
    """The release that modules built with `headers` say they are for; empty if unknown.

    Not kernel.release: in Debian's packages that is upstream's.
    """
    for place, pattern in (
        ("include/generated/utsrelease.h", r'UTS_RELEASE "(.*)"'),
        ("include/config/kernel.release", r"(\S+)"),
    ):
        try:
            match = re.search(pattern, (headers / place).read_text())
        except OSError:
            continue
        if match:
            return match[1]
    return ""


def image_release(image: Path) -> str:
    """The release in a kernel image's own version text; empty when it is compressed away."""
    data = _unpacked(image)
    if data[0x202:0x206] == b"HdrS":
        start = int.from_bytes(data[0x20E:0x210], "little") + 0x200
        text = data[start : start + 128].split(b"\0")[0]
    else:
        start = data.find(b"Linux version ")
        text = data[start + 14 : start + 142] if start >= 0 else b""
    return text.split(b" ")[0].decode(errors="replace")


def image_arch(image: Path) -> str:
    """The Debian architecture of a kernel image; CannotError for what QEMU cannot boot."""
    data = _unpacked(image)
    if data[0x202:0x206] == b"HdrS":
        _check_x86(image, data)
        return "amd64"
    if data[56:60] == b"ARMd":
        return "arm64"
    if data[:4] == b"\x7fELF":
        raise CannotError(
            f"--kernel: {image} is what a kernel is linked to (vmlinux); give the image that is"
            f" made of it, {' or '.join(places[0] for places in _IMAGES.values())}."
        )
    if data[4:8] == b"zimg":
        raise CannotError(
            f"--kernel: {image} unpacks itself with EFI, which guests have not; give"
            f" {_IMAGES['arm64'][0]}, or turn off CONFIG_EFI_ZBOOT."
        )
    raise CannotError(f"--kernel: {image} is no x86-64 or arm64 kernel image.")


def _check_x86(image: Path, data: bytes) -> None:
    protocol = int.from_bytes(data[0x206:0x208], "little")
    if protocol >= 0x20C and not data[0x236] & 1:
        raise CannotError(f"--kernel: {image} is a 32-bit kernel; turn on CONFIG_64BIT.")
    size = (data[0x1F1] + 1) * 512 + int.from_bytes(data[0x1F4:0x1F8], "little") * 16
    if len(data) < size:
        raise CannotError(
            f"--kernel: {image} is cut off: {len(data)} of {size} bytes; copy or build it again."
        )


def _unpacked(image: Path) -> bytes:
    data = image.read_bytes()
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise CannotError(
            f"--kernel: {image} is compressed, and damaged or cut off; copy or build it again."
        ) from None
