# SPDX-License-Identifier: Apache-2.0
"""Finding the kernels that `make test-kernel` tests the module under, without fetching any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import standing

from swtch.errors import CannotError
from swtch.vm import cache


def test_a_debugging_kernel_that_was_not_built_says_how(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cache, "room", lambda name: tmp_path / name)
    one = standing.KERNELS["debug-kasan-amd64"]
    with pytest.raises(CannotError, match=r"tools/debug-kernel\.sh kasan"):
        standing.own(one)
    tree = tmp_path / "debug-kernels/kasan"
    for name in ("arch/x86/boot/bzImage", "Module.symvers"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    found = standing.own(one)
    assert (found.kernel, found.headers) == (tree / "arch/x86/boot/bzImage", tree)


def test_one_that_was_found_before_is_taken_without_asking(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cache, "room", lambda name: tmp_path / name)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "headers").mkdir()
    (tmp_path / "vmlinuz").touch()
    note = tmp_path / "kernels/standing-6.1-rt-amd64"
    note.write_text(f"{tmp_path}/vmlinuz\n{tmp_path}/headers\n")
    found = standing.own(standing.KERNELS["6.1-rt-amd64"])
    assert (found.kernel, found.headers) == (tmp_path / "vmlinuz", tmp_path / "headers")


class Apt:
    """What an archive has: names and what they depend on."""

    def __init__(self, **has: str) -> None:
        self._has = {name.replace("_", "-"): depends for name, depends in has.items()}

    def find(self, name: str, arch: str, suite: str) -> Any:
        if name not in self._has:
            raise CannotError(f"apt knows no package {name} for {arch} in {suite}.")
        return standing.Package(name, arch, "1", name, self._has[name])


def found(apt: Apt, name: str) -> list[str]:
    image, headers = standing._packages(apt, standing.KERNELS[name])  # type: ignore[arg-type]
    return [image.name, *(package.name for package in headers)]


def test_packages_of_preempt_rt_are_not_those_of_its_neighbour() -> None:
    apt = Apt(
        linux_headers_rt_amd64="linux-headers-6.12.9-rt-amd64 (= 6.12.9-1)",
        **{
            "linux-headers-6.12.9-rt-amd64": "linux-headers-6.12.9-common-rt (= 6.12.9-1),"
            " linux-kbuild-6.12.9",
            "linux-headers-6.12.9-common": "",
            "linux-headers-6.12.9-common-rt": "",
            "linux-kbuild-6.12.9": "",
            "linux-image-6.12.9-rt-amd64": "",
        },
    )
    assert found(apt, "6.12-rt-amd64") == [
        "linux-image-6.12.9-rt-amd64",
        "linux-headers-6.12.9-rt-amd64",
        "linux-headers-6.12.9-common-rt",
        "linux-kbuild-6.12.9",
    ]
    with pytest.raises(CannotError, match=r"has no kernel 6\.1 "):
        found(Apt(linux_headers_rt_amd64="linux-headers-6.12.9-rt-amd64"), "6.1-rt-amd64")


def test_since_7_the_image_is_in_a_package_of_its_own() -> None:
    apt = Apt(
        linux_headers_amd64="linux-base-amd64 (= 1), linux-headers-7.3.4+deb13-amd64 (= 1)",
        **{
            "linux-headers-7.3.4+deb13-amd64": "linux-headers-7.3.4+deb13-common,"
            " linux-kbuild-7.3.4+deb13",
            "linux-headers-7.3.4+deb13-common": "",
            "linux-kbuild-7.3.4+deb13": "",
            "linux-image-7.3.4+deb13-amd64": "",
            "linux-binary-7.3.4+deb13-amd64": "",
        },
    )
    assert found(apt, "newest-amd64")[0] == "linux-binary-7.3.4+deb13-amd64"


def test_programs_of_a_later_release_are_begun_by_its_loader(tmp_path: Path) -> None:
    draft, final = tmp_path / "draft", tmp_path / "final"
    tools = draft / "usr/lib/linux-kbuild-7.3"
    for name in ("scripts/basic/fixdep", "scripts/mod/modpost", "scripts/mod/modpost.real-msb-32"):
        (tools / name).parent.mkdir(parents=True, exist_ok=True)
        (tools / name).write_text(name)
    (tools / "scripts/mod/modpost.real-lsb-64").write_text("the one")
    standing._lend_libc(draft, final)
    there = final / "usr/lib/linux-kbuild-7.3/scripts"
    assert (tools / "scripts/basic/fixdep.real").read_text() == "scripts/basic/fixdep"
    for name, real in (("basic/fixdep", "fixdep.real"), ("mod/modpost", "modpost.real-lsb-64")):
        text = (tools / "scripts" / name).read_text()
        assert text.startswith("#!/bin/sh\nexec " + str(final / "later"))
        assert f" {there / name.split('/')[0] / real} " in text
