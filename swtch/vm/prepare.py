# SPDX-License-Identifier: Apache-2.0
"""Everything a guest needs, in the right order, each made once: `swtch vm prepare`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swtch.errors import CannotError
from swtch.vm import build, cache, elf, packages
from swtch.vm import own as own_kernels
from swtch.vm.guests import GUESTS, Arch, Guest, host_arch, scheduler_of
from swtch.vm.initramfs import Archive

PROBE = "/swtch/swtch-probe"
AGENT = "/swtch/swtch-guest"
BUSYBOX = "/bin/busybox"
APPLETS = ("sh", "cat", "dmesg", "ls", "ps", "insmod", "rmmod", "sleep", "dd")
REQUEST = "swtch/request"

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A guest that can be booted. ``digest`` identifies all that is in it; of the user's own
    kernels, ``given`` is what he gave: the kernel, and its headers if they are apart."""

    guest: Guest
    kernel: packages.Kernel
    initramfs: Path
    has_module: bool
    digest: str
    has_shell: bool = True
    given: tuple[str, ...] = ()

    @property
    def scheduler(self) -> str:
        """CFS or EEVDF, from the kernel's version."""
        return scheduler_of(self.kernel.release)


def prepare(
    guest: Guest,
    *,
    own: own_kernels.Own | None = None,
    refresh: bool = False,
    extra: Mapping[str, Path] | None = None,
    say: Say = lambda _line: None,
) -> Prepared:
    """Fetches, builds and packs what is not in the cache. ``extra`` are more files of the
    guest: path there -> file here; programs among them come with their libraries."""
    if own is None and (refresh or packages.prepared(guest) is None):
        say(f"{guest.name}: fetching the kernel's packages")
    kernel = own_kernels.kernel(own) if own else packages.kernel(guest, refresh=refresh)
    say(f"{guest.name}: building for {kernel.release}")
    busybox = _busybox(guest.arch, own, say)
    agent = build.agent(guest.arch)
    probe = build.probe(guest.arch)
    module = _module(guest, kernel, own, say)
    contents = {AGENT: agent, PROBE: probe}
    if busybox is not None:
        contents[BUSYBOX] = busybox
    if module is not None:
        contents["/swtch/kthread_perf.ko"] = module
    contents |= dict(extra or {})
    packed = initramfs(guest.arch, contents)
    return Prepared(
        guest=guest,
        kernel=kernel,
        initramfs=packed,
        has_module=module is not None,
        has_shell=busybox is not None,
        given=own.given if own else (),
        digest=cache.key_of([kernel.sha256, packed.parent.name]),
    )


def _busybox(arch: Arch, own: own_kernels.Own | None, say: Say) -> Path | None:
    """The shell of guests. Nothing that is measured needs it: where no package of it can be
    had, a guest of the user's own kernel has this machine's, or none."""
    try:
        return packages.files("busybox-static", arch.name, [r"bin/busybox"]) / "bin/busybox"
    except CannotError:
        if own is None:
            raise
    for name in ("busybox", "busybox.static", "busybox-static"):
        found = shutil.which(name)
        try:
            if found and elf.read(Path(found)).arch == arch.name:
                return Path(found)
        except ValueError:
            continue
    say(f"own-{arch.name}: no busybox, so no shell in it; install busybox to have one")
    return None


def _module(
    guest: Guest, kernel: packages.Kernel, own: own_kernels.Own | None, say: Say
) -> Path | None:
    try:
        return build.module(kernel, guest.arch)
    except CannotError as error:
        if own is None or not own.is_tree:
            raise
        say(f"{guest.name}: without kernel threads: {error}")
        return None


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
        for applet in APPLETS if BUSYBOX in contents else ():
            archive.add_link(f"bin/{applet}", "busybox")
        for place, file in everything.items():
            archive.add_program(place, file)
        try:
            packed = archive.pack()
        except ValueError as error:
            raise CannotError(f"no guest can have these files: {error}.") from None
        (draft / "initramfs.cpio").write_bytes(packed)

    return cache.entry("initramfs", cache.key_of(["1", *parts]), make) / "initramfs.cpio"


def _is_dynamic(file: Path) -> bool:
    try:
        return bool(elf.read(file).interpreter)
    except ValueError:
        return False


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
        "given": prepared.given,
        "digest": prepared.digest,
        "host": host_arch(),
    }
