# SPDX-License-Identifier: Apache-2.0
"""Kernels, headers and single files, unpacked from packages into the cache.

Of a kernel's package only the image is unpacked: what the lab needs is built
in, and the modules are 400 MB. The headers, the headers they share between
architectures and the build programs go into one folder, whose single absolute
path (the flavour's Makefile includes the common one, and since Linux 7 names
itself) is turned to this place.

Invariants:

- What a guest was prepared from is written down (kernels/GUEST.json) with
  version and checksum of each package, and stays so until it is refreshed: the
  archive moves on, a measured kernel does not.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swtch.errors import CannotError
from swtch.vm import cache
from swtch.vm.aptstate import AptState, Package
from swtch.vm.guests import ARCHES, Guest, host_arch

OWN = "own"  # the version of a kernel that is from no package


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that is ready to be booted, and what a module is built with.

    ``headers`` is empty when the user gave none: then there is no kthread.
    """

    release: str
    version: str
    image: str
    headers: str
    sha256: str
    packages: tuple[str, ...] = ()


def apt() -> AptState:
    """The private state for all architectures that guests can have."""
    native = host_arch()
    if native not in ARCHES:
        raise CannotError(
            f"guest kernels cannot be prepared on {native}; known are {', '.join(ARCHES)}."
        )
    return AptState(native, tuple(ARCHES))


def kernel(guest: Guest, *, refresh: bool = False) -> Kernel:
    """The kernel of `guest`, fetched and unpacked if it is not there yet."""
    note = cache.room("kernels") / f"{guest.name}.json"
    if not refresh:
        known = _known(note)
        if known is not None:
            return known
    state = apt()
    if refresh:
        state.update()
    image, headers = _resolve(state, guest)
    state.fetch([image, *headers])
    image_folder = _unpack_image(image)
    headers_folder = _unpack_headers(guest, headers)
    release = image.name.removeprefix("linux-image-").removesuffix("-unsigned")
    file = image_folder / f"vmlinuz-{release}"
    if not file.is_file():
        raise CannotError(f"the package {image.name} holds no kernel image vmlinuz-{release}.")
    kernel = Kernel(
        release=release,
        version=image.version,
        image=str(file),
        headers=str(headers_folder / "usr/src" / f"linux-headers-{release}"),
        sha256=image.sha256,
        packages=tuple(f"{p.name}:{p.arch} {p.version} {p.sha256}" for p in [image, *headers]),
    )
    cache.write(note, msgspec.json.format(msgspec.json.encode(kernel)))
    return kernel


def prepared(guest: Guest) -> Kernel | None:
    """The kernel of `guest` if it is in the cache; asks nobody."""
    return _known(cache.room("kernels") / f"{guest.name}.json")


def files(name: str, arch: str, wanted: Sequence[str]) -> Path:
    """A folder with the files `wanted` (patterns) of the package `name` for `arch`."""
    note = cache.room("kernels") / f"{name}-{arch}.json"
    try:
        package = msgspec.json.decode(note.read_bytes(), type=Package)
    except (OSError, msgspec.DecodeError):
        state = apt()
        package = state.find(name, arch, "bookworm")
        state.fetch([package])
        cache.write(note, msgspec.json.encode(package))
    if not package.file.exists() and not (cache.room("unpacked") / package.sha256).is_dir():
        apt().fetch([package])
    return cache.entry(
        "unpacked", package.sha256, lambda draft, _final: _extract(package, draft, wanted)
    )


def _known(note: Path) -> Kernel | None:
    try:
        kernel = msgspec.json.decode(note.read_bytes(), type=Kernel)
    except (OSError, msgspec.DecodeError):
        return None
    whole = Path(kernel.image).is_file() and Path(kernel.headers).is_dir()
    return kernel if whole else None


def _resolve(state: AptState, guest: Guest) -> tuple[Package, list[Package]]:
    arch = guest.arch.name
    image = state.find(_newest(state, guest, "image"), arch, guest.suite)
    flavour = state.find(_newest(state, guest, "headers"), arch, guest.suite)
    return image, [flavour, *headers_of(state, flavour, guest.suite)]


def headers_of(state: AptState, flavour: Package, suite: str) -> list[Package]:
    """What headers of a flavour are used with: those that flavours share (real-time ones have
    their own), and build programs, which are for this machine, whatever the guest is."""
    names = re.findall(r"(?:^|, )(linux-(?:headers-\S+-common|kbuild-)[^\s,]*)", flavour.depends)
    if len(names) != 2:
        raise CannotError(f"{flavour.name} depends on no common headers or no build programs.")
    return [state.find(name, host_arch(), suite) for name in names]


def _newest(state: AptState, guest: Guest, what: str) -> str:
    """What the package that always depends on the newest kernel depends on."""
    meta = state.find(f"linux-{what}-{guest.arch.name}", guest.arch.name, guest.suite)
    match = re.match(rf"(linux-{what}-\S+)", meta.depends)
    if match is None or f"-{guest.series}." not in match[1]:
        raise CannotError(
            f"{guest.suite} has no kernel {guest.series} for {guest.arch.name}"
            f" ({meta.name} is {meta.version}); give your own with --kernel and --headers."
        )
    return match[1]


def _unpack_image(package: Package) -> Path:
    def make(draft: Path, _final: Path) -> None:
        _extract(package, draft, [r"boot/(vmlinuz|config)-.*"])
        for file in (draft / "boot").iterdir():
            file.rename(draft / file.name)
        (draft / "boot").rmdir()

    return cache.entry("unpacked", package.sha256, make)


def _unpack_headers(guest: Guest, packages: Sequence[Package]) -> Path:
    def make(draft: Path, final: Path) -> None:
        for package in packages:
            _verify(package)
            command = ["dpkg-deb", "-x", str(package.file), str(draft)]
            if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                raise CannotError(f"{package.name} cannot be unpacked; is the disk full?")
        for makefile in (draft / "usr/src").glob("linux-headers-*/Makefile"):
            text = makefile.read_text()
            makefile.write_text(re.sub(r"(include |=)/usr/src/", rf"\g<1>{final}/usr/src/", text))

    key = cache.key_of(["headers", guest.name, *(package.sha256 for package in packages)])
    return cache.entry("unpacked", key, make)


def _verify(package: Package) -> None:
    if cache.sha256(package.file) != package.sha256:
        package.file.unlink(missing_ok=True)
        raise CannotError(
            f"{package.name} was damaged in the cache and has been removed; run it again."
        )


def _extract(package: Package, folder: Path, wanted: Sequence[str]) -> None:
    """Members of a package whose path matches; the package's checksum is verified."""
    _verify(package)
    patterns = [re.compile(pattern) for pattern in wanted]
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(package.file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    if not any(pattern.fullmatch(name) for pattern in patterns):
                        continue
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if member.issym():
                        target.symlink_to(member.linkname)
                    elif member.isfile():
                        content = archive.extractfile(member)
                        assert content is not None
                        with target.open("wb") as stream:
                            shutil.copyfileobj(content, stream)
                        target.chmod(member.mode & 0o755)
        except tarfile.TarError as error:
            raise CannotError(f"{package.name} cannot be unpacked: {error}.") from None
