# SPDX-License-Identifier: Apache-2.0
"""Everything a guest needs, in the right order, each made once: `swtch vm prepare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swtch.errors import CannotError
from swtch.vm import build, cache, elf, packages
from swtch.vm.guests import ARCHES, GUESTS, Arch, Guest, host_arch, scheduler_of
from swtch.vm.initramfs import Archive

PROBE = "/swtch/swtch-probe"
AGENT = "/swtch/swtch-guest"
REQUEST = "swtch/request"

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Own:
    """A kernel of the user's own; without ``headers`` there is no kthread."""

    kernel: Path
    headers: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A guest that can be booted. ``digest`` identifies all that is in it."""

    guest: Guest
    kernel: packages.Kernel
    initramfs: Path
    has_module: bool
    digest: str

    @property
    def scheduler(self) -> str:
        """CFS or EEVDF, from the kernel's version."""
        return scheduler_of(self.kernel.release)


def prepare(
    guest: Guest,
    *,
    own: Own | None = None,
    refresh: bool = False,
    extra: Mapping[str, Path] | None = None,
    say: Say = lambda _line: None,
) -> Prepared:
    """Fetches, builds and packs what is not in the cache. ``extra`` are more files of the
    guest: path there -> file here; programs among them come with their libraries."""
    if own is None and (refresh or packages.prepared(guest) is None):
        say(f"{guest.name}: fetching the kernel's packages")
    kernel = own_kernel(own) if own else packages.kernel(guest, refresh=refresh)
    say(f"{guest.name}: building for {kernel.release}")
    busybox = packages.files("busybox-static", guest.arch.name, [r"bin/busybox"])
    agent = build.agent(guest.arch)
    probe = build.probe(guest.arch)
    module = build.module(kernel, guest.arch)
    contents = {AGENT: agent, PROBE: probe, "/bin/busybox": busybox / "bin/busybox"}
    if module is not None:
        contents["/swtch/kthread_perf.ko"] = module
    contents |= dict(extra or {})
    packed = initramfs(guest.arch, contents)
    return Prepared(
        guest=guest,
        kernel=kernel,
        initramfs=packed,
        has_module=module is not None,
        digest=cache.key_of([kernel.sha256, packed.parent.name]),
    )


def initramfs(arch: Arch, contents: Mapping[str, Path]) -> Path:
    """The archive with `contents` and the libraries of the programs among them."""
    folders = build.folders_with_libraries(arch)
    programs = [file for file in contents.values() if _is_dynamic(file)]
    everything = {**contents, **elf.closure(programs, folders)}
    parts: list[str | bytes | Path] = []
    for place, file in sorted(everything.items()):
        parts += [place, cache.sha256(file)]

    def make(draft: Path, _final: Path) -> None:
        archive = Archive()
        archive.add_device("dev/console", 5, 1)
        archive.add_link("init", AGENT)
        for name in ("proc", "sys", "tmp"):
            archive.add_folder(name)
        for applet in ("sh", "cat", "dmesg", "ls", "ps", "insmod", "rmmod", "sleep", "dd"):
            archive.add_link(f"bin/{applet}", "busybox")
        for place, file in everything.items():
            archive.add_program(place, file)
        (draft / "initramfs.cpio").write_bytes(archive.pack())

    return cache.entry("initramfs", cache.key_of(["1", *parts]), make) / "initramfs.cpio"


def _is_dynamic(file: Path) -> bool:
    try:
        return bool(elf.read(file).interpreter)
    except ValueError:
        return False


def own_kernel(own: Own) -> packages.Kernel:
    """Names the user's kernel by what is in it."""
    if not own.kernel.is_file():
        raise CannotError(f"--kernel: {own.kernel} is not a file.")
    release = image_release(own.kernel)
    if own.headers is not None:
        headers = own.headers.resolve()
        if not (headers / "Makefile").is_file():
            raise CannotError(f"--headers: {headers} holds no Makefile of a kernel.")
        named = headers / "include/config/kernel.release"
        built_for = named.read_text().strip() if named.is_file() else release
        if release and built_for != release:
            raise CannotError(
                f"--headers are of {built_for} and --kernel is {release}; a module built with"
                " them would not load."
            )
        release = release or built_for
    return packages.Kernel(
        release=release or "unknown",
        version="own",
        image=str(own.kernel.resolve()),
        headers=str(own.headers.resolve()) if own.headers else "",
        sha256=cache.sha256(own.kernel),
    )


def image_release(image: Path) -> str:
    """The release in a kernel image's own version text; empty when it is compressed away."""
    data = image.read_bytes()
    if data[0x202:0x206] == b"HdrS":
        start = int.from_bytes(data[0x20E:0x210], "little") + 0x200
        text = data[start : start + 128].split(b"\0")[0]
    else:
        start = data.find(b"Linux version ")
        text = data[start + 14 : start + 142] if start >= 0 else b""
    return text.split(b" ")[0].decode(errors="replace")


def image_arch(image: Path) -> str:
    """The Debian architecture of a kernel image."""
    with image.open("rb") as stream:
        head = stream.read(0x240)
    if head[0x202:0x206] == b"HdrS":
        return "amd64"
    if head[56:60] == b"ARMd":
        return "arm64"
    raise CannotError(f"--kernel: {image} is no x86-64 or arm64 kernel image.")


def own_guest(own: Own) -> Guest:
    """The guest for the user's kernel."""
    if not own.kernel.is_file():
        raise CannotError(f"--kernel: {own.kernel} is not a file.")
    arch = ARCHES[image_arch(own.kernel)]
    release = image_release(own.kernel)
    return Guest(f"own-{arch.name}", release, arch, "", scheduler_of(release))


def with_request(prepared: Prepared, request: bytes, folder: Path) -> Path:
    """An archive with one more file, the request that a guest of one trial does at once."""
    archive = Archive()
    archive.add_file(REQUEST, request)
    packed = folder / "once.cpio"
    packed.write_bytes(prepared.initramfs.read_bytes() + archive.pack())
    return packed


def ready(names: Sequence[str] = tuple(GUESTS)) -> dict[str, packages.Kernel | None]:
    """Which guests have their kernel in the cache."""
    return {name: packages.prepared(GUESTS[name]) for name in names}


def describe(prepared: Prepared) -> dict[str, object]:
    """For the manifest."""
    return {
        "guest": prepared.guest.name,
        "arch": prepared.guest.arch.name,
        "release": prepared.kernel.release,
        "scheduler": prepared.scheduler,
        "kernel": msgspec.to_builtins(prepared.kernel.packages) or [prepared.kernel.sha256],
        "module": prepared.has_module,
        "digest": prepared.digest,
        "host": host_arch(),
    }
