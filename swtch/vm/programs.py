# SPDX-License-Identifier: Apache-2.0
"""What guests need from the system: an emulator, a compiler, for some builds pkg-config.

Root gets the missing packages installed; everybody else gets one line that
names them all, so that nobody is sent to the package manager twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from swtch.errors import CannotError
from swtch.vm.guests import Arch, host_arch


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


def ensure(arches: Sequence[Arch]) -> None:
    """CannotError says what to install, all of it, if something is missing."""
    if packages := missing(arches):
        raise CannotError(
            "guests need programs that are missing; as root run:"
            f" apt-get install {' '.join(packages)}"
        )
