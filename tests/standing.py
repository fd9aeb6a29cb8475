# SPDX-License-Identifier: Apache-2.0
"""Kernels that the module is tested under beside the lab's guests: PREEMPT_RT, the newest
that Debian packages, and ones built with the kernel's own checkers.

Packages come as the lab's do, through the machine's apt sources and a private state; what is
not there is a ``CannotError`` that says what lacks, and the test is skipped with it. Debugging
kernels are built once, by ``tools/debug-kernel.sh``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from swtch.errors import CannotError
from swtch.vm import cache, packages
from swtch.vm.aptstate import AptState, Package
from swtch.vm.guests import ARCHES, Guest, host_arch
from swtch.vm.own import Own

AMD64 = ARCHES["amd64"]
# Where a release's newest kernels are, and which kernels a debugging one is made of.
NEWEST = "trixie-backports"
DEBUG = ("kasan", "kcsan")
# What its build programs are linked with.
LATER = ("libc6", "libelf1t64", "zlib1g", "libzstd1")


@dataclass(frozen=True)
class Standing:
    """One kernel by the name of its guest; `flavour` is in the names of its packages."""

    name: str
    series: str = ""
    suite: str = ""
    flavour: str = ""

    @property
    def guest(self) -> Guest:
        return Guest(self.name, self.series, AMD64, self.suite, "")


KERNELS = {
    one.name: one
    for one in (
        Standing("6.1-rt-amd64", "6.1", "bookworm", "rt-"),
        Standing("6.12-rt-amd64", "6.12", "bookworm-backports", "rt-"),
        Standing("newest-amd64", "", NEWEST),
        *(Standing(f"debug-{kind}-amd64") for kind in DEBUG),
    )
}


class _Later(AptState):
    """The same archives, of a later release."""

    def __init__(self, suite: str) -> None:
        super().__init__(host_arch(), ["amd64"])
        suites = f"Suites: {suite.removesuffix('-backports')} {suite}"
        kept = [part for part in self._sources.split("\n\n") if "-backports" in part]
        self._sources = re.sub(r"Suites: .*", suites, "\n\n".join(kept))


def own(one: Standing) -> Own:
    """The kernel and its headers, as the lab takes a user's; CannotError without."""
    if not one.suite:
        return _debugging(one)
    known = _known(one)
    if known is not None:
        return known
    state = _Later(one.suite) if one.suite == NEWEST else AptState(host_arch(), ["amd64"])
    image, found = _packages(state, one)
    state.fetch([image, *found])
    release = re.sub(r"^linux-(image|binary)-|-unsigned$", "", image.name)
    unpacked = cache.entry("unpacked", f"standing-{image.sha256}", lambda d, _: _image(image, d))
    kernel = unpacked / "vmlinuz"
    libraries: list[Package] = []
    if one.suite == NEWEST:
        libraries = [state.find(name, "amd64", one.suite) for name in LATER]
        state.fetch(libraries)
    key = cache.key_of(["standing", *(package.sha256 for package in [*found, *libraries])])

    def make(draft: Path, final: Path) -> None:
        _headers(found, draft, final)
        for package in libraries:
            _unpack(package, draft / "later")
        if libraries:
            _lend_libc(draft, final)

    folder = cache.entry("unpacked", key, make)
    headers = folder / "usr/src" / f"linux-headers-{release}"
    for file in (kernel, headers / "Makefile"):
        if not file.is_file():
            raise CannotError(f"{one.name}: its packages hold no {file.name}")
    note = cache.room("kernels") / f"standing-{one.name}"
    note.write_text(f"{kernel}\n{headers}\n")
    return Own(kernel=kernel, headers=headers)


def _image(package: Package, draft: Path) -> None:
    """In /boot until 6.x, beside the modules since 7."""
    packages._extract(package, draft, [r"boot/vmlinuz-.*", r"usr/lib/modules/[^/]*/vmlinuz"])
    (found,) = [path for path in draft.rglob("vmlinuz*") if path.is_file()]
    found.rename(draft / "vmlinuz")


def _unpack(package: Package, folder: Path) -> None:
    subprocess.run(["dpkg-deb", "-x", package.file, folder], check=True, capture_output=True)


def _headers(found: list[Package], draft: Path, final: Path) -> None:
    """Their Makefiles name where they would be installed: in one line until 6.x, in two since 7."""
    for package in found:
        _unpack(package, draft)
    for makefile in (draft / "usr/src").glob("linux-headers-*/Makefile"):
        there = re.compile(r"^(include |KBUILD_OUTPUT=)/usr/src/", re.MULTILINE)
        makefile.write_text(there.sub(rf"\1{final}/usr/src/", makefile.read_text()))


def _known(one: Standing) -> Own | None:
    """As it was left by the last time; apt is not asked then."""
    note = cache.room("kernels") / f"standing-{one.name}"
    try:
        image, headers = map(Path, note.read_text().split())
    except (OSError, ValueError):
        return None
    return Own(kernel=image, headers=headers) if image.is_file() and headers.is_dir() else None


def _packages(state: AptState, one: Standing) -> tuple[Package, list[Package]]:
    meta = state.find(f"linux-headers-{one.flavour}amd64", "amd64", one.suite)
    match = re.search(r"linux-headers-(\S+-amd64)", meta.depends)
    if match is None or (one.series and not match[1].startswith(f"{one.series}.")):
        raise CannotError(f"{one.suite} has no kernel {one.series} {one.flavour}")
    release = match[1]
    flavour = state.find(f"linux-headers-{release}", "amd64", one.suite)
    headers = [flavour, *packages.headers_of(state, flavour, one.suite)]
    try:  # where newer ones have the image
        return state.find(f"linux-binary-{release}", "amd64", one.suite), headers
    except CannotError:
        return state.find(f"linux-image-{release}", "amd64", one.suite), headers


def _lend_libc(folder: Path, final: Path) -> None:
    """Build programs of a later release want its libc: each is begun by that one's loader."""
    later = "later/usr/lib/x86_64-linux-gnu"
    for name in ("scripts/basic/fixdep", "scripts/mod/modpost", "tools/objtool/objtool"):
        for program in folder.glob(f"usr/lib/linux-kbuild-*/{name}"):
            # Debian's are chosen among these by a program that only looks for them.
            reals = sorted(program.parent.glob(f"{program.name}.real-*"))
            wanted = [path for path in reals if path.name.endswith(("-x86", "-lsb-64"))]
            real = (wanted or [program.with_name(f"{program.name}.real")])[0]
            if wanted:
                program.unlink()
            else:
                program.rename(real)
            libraries, there = final / later, final / real.relative_to(folder)
            loader = f"{libraries}/ld-linux-x86-64.so.2 --library-path {libraries}"
            program.write_text(f'#!/bin/sh\nexec {loader} {there} "$@"\n')
            program.chmod(0o755)


def _debugging(one: Standing) -> Own:
    kind = one.name.split("-")[1]
    tree = cache.room("debug-kernels") / kind
    image = tree / "arch/x86/boot/bzImage"
    if not image.is_file() or not (tree / "Module.symvers").is_file():
        raise CannotError(
            f"{one.name} has not been built; tools/debug-kernel.sh {kind} does it once"
            f" (ten minutes to half an hour, {'cached in ' + str(tree)})"
        )
    return Own(kernel=image, headers=tree)


def present() -> dict[str, str]:
    """Why each kernel is not there; empty where it is. Asks nobody but the cache."""
    reasons = {}
    for name, one in KERNELS.items():
        try:
            if one.suite and _known(one) is None and shutil.which("apt-get") is None:
                raise CannotError("there is no apt-get here")
            if not one.suite:
                _debugging(one)
            reasons[name] = ""
        except CannotError as error:
            reasons[name] = str(error)
    return reasons


if __name__ == "__main__":
    for kernel, reason in present().items():
        print(f"{kernel}: {reason or 'will be tested'}")
    raise SystemExit(os.EX_OK)
