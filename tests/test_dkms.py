# SPDX-License-Identifier: Apache-2.0
"""kthread_perf under DKMS: what dkms.conf says is true of the tree, and its commands build.

DKMS itself is not needed: it reads dkms.conf as a shell script and runs what it says in a copy
of the staged folder.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from swtch.errors import CannotError
from swtch.vm import guests, prepare, programs

MODULE = Path(__file__).parents[1] / "kthread_perf"


KERNEL: Mapping[str, object] = {"kernel_source_dir": "/K", "dkms_tree": "/T"}
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine())


def conf(name: str, given: Mapping[str, object] = KERNEL, folder: Path = MODULE) -> str:
    """The value of a variable, as DKMS comes by it."""
    settings = "; ".join(f"{key}={value}" for key, value in given.items())
    script = f'{settings}; . "$1"; printf %s "${{{name}}}"'
    done = subprocess.run(
        ["bash", "-euc", script, "-", str(folder / "dkms.conf")],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def staged(folder: Path) -> Path:
    out = folder / f"kthread_perf-{conf('PACKAGE_VERSION')}"
    subprocess.run(
        ["make", "-C", str(MODULE), "stage", f"OUT={out}"], check=True, capture_output=True
    )
    return out


def test_names_and_version_are_the_modules() -> None:
    kbuild = (MODULE / "Kbuild").read_text()
    (built,) = re.findall(r"^obj-m := (\w+)\.o$", kbuild, re.MULTILINE)
    assert conf("BUILT_MODULE_NAME[0]") == conf("PACKAGE_NAME") == built
    (version,) = re.findall(r'KPERF_VERSION "(.+)"', (MODULE / "kperf.h").read_text())
    assert conf("PACKAGE_VERSION") == version
    # The commands of the README and of dkms.conf are for that version.
    for page in ("README.md", "dkms.conf"):
        told = re.findall(r"kthread_perf[-/](\d[\d.]*\d)", (MODULE / page).read_text())
        assert told and set(told) == {version}, page


@pytest.mark.parametrize(
    ("release", "built"),
    [
        ("5.10.0-35-amd64", False),
        ("5.13.19", False),
        ("5.4.0", False),
        ("4.19.0", False),
        ("5.14.0-570.el9.x86_64", True),
        ("5.15.0-139-generic", True),
        ("5.19.17", True),
        ("6.1.0-56-amd64", True),
        ("6.12.95+deb12-amd64", True),
        ("7.3-amd64", True),
        ("10.0.1", True),
    ],
)
def test_kernels_that_it_cannot_be_built_for_are_left_out(release: str, built: bool) -> None:
    # As DKMS asks.
    asks = ["bash", "-c", "[[ $1 =~ $2 ]]", "-", release, conf("BUILD_EXCLUSIVE_KERNEL")]
    assert (subprocess.run(asks, check=False).returncode == 0) == built


def test_the_staged_folder_is_all_that_is_needed(tmp_path: Path) -> None:
    out = staged(tmp_path)
    kbuild = (out / "Kbuild").read_text().replace("\\\n", " ")
    objects = " ".join(re.findall(r"^kthread_perf-y \+?:?= ?(.*)$", kbuild, re.MULTILINE)).split()
    assert len(objects) > 10
    for name in objects:
        assert (out / name).with_suffix(".c").is_file(), name
    for source in out.rglob("*.[ch]"):
        for include in re.findall(r'^#include "(.+)"$', source.read_text(), re.MULTILINE):
            assert (source.parent / include).is_file() or (out / include).is_file(), include
    assert (out / "dkms.conf").is_file()


@pytest.mark.vm
@pytest.mark.slow
def test_it_builds_as_dkms_would(tmp_path: Path) -> None:
    of_this_machine = [guest for guest in guests.GUESTS.values() if guest.arch.name == ARCH]
    if not of_this_machine:
        pytest.skip(f"there are no guests for {platform.machine()}")
    guest = of_this_machine[0]
    try:
        programs.ensure([guest.arch])
        kernel = prepare.prepare(guest).kernel
    except CannotError as error:
        pytest.skip(str(error))
    tree = tmp_path / "tree"
    where = {"kernel_source_dir": kernel.headers, "dkms_tree": tree}
    version = conf("PACKAGE_VERSION")
    build = tree / "kthread_perf" / version / "build"
    shutil.copytree(staged(tmp_path), build)
    for name in ("MAKE[0]", "CLEAN"):
        command = conf(name, where, build)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
        module = build / "kthread_perf.ko"
        assert module.is_file() == (name == "MAKE[0]")
        if module.is_file():
            assert f"version={version}".encode() in module.read_bytes()
