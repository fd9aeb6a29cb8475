# SPDX-License-Identifier: Apache-2.0
"""What guests need from the system: an emulator, a compiler, for some builds pkg-config.

Root gets the missing packages installed; everybody else gets one line that
names them all, so that nobody is sent to the package manager twice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence

from swtch.errors import CannotError
from swtch.vm.guests import Arch, host_arch

_TIME_LIMIT_S = 1800


def missing(arches: Sequence[Arch]) -> list[str]:
    """The packages whose programs are not there."""
    packages: list[str] = []
    for arch in arches:
        if shutil.which(arch.emulator) is None:
            packages.append(arch.emulator_package)
        native = arch.name == host_arch()
        compiler = (os.environ.get("CC") or "gcc") if native else arch.compiler
        if shutil.which(compiler) is None:
            packages += ["gcc", "libc6-dev"] if native else arch.compiler_packages
        if not native and shutil.which("pkg-config") is None:
            packages.append("pkg-config")
    if shutil.which("make") is None:
        packages.append("make")
    return list(dict.fromkeys(packages))


def ensure(
    arches: Sequence[Arch],
    *,
    say: Callable[[str], None] = lambda _line: None,
    root: bool | None = None,
) -> None:
    """Installs what is missing, if this is root and there is apt; else says what to install."""
    packages = missing(arches)
    if not packages:
        return
    names = " ".join(packages)
    if root is None:
        root = os.geteuid() == 0
    if not root or shutil.which("apt-get") is None:
        raise CannotError(
            f"guests need programs that are missing; as root run: apt-get install {names}"
        )
    say(f"installing {names}")
    base = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        # An old package list is better than none: install decides.
        subprocess.run(
            [*base, "update"],
            capture_output=True,
            timeout=_TIME_LIMIT_S,
            env=environment,
            check=False,
        )
        subprocess.run(
            [*base, "--no-install-recommends", "install", *packages],
            capture_output=True,
            timeout=_TIME_LIMIT_S,
            env=environment,
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise CannotError(f"apt-get could not install {names}: {error}.") from None
    if left := missing(arches):
        raise CannotError(f"still missing after installing {names}: {' '.join(left)}.")
