# SPDX-License-Identifier: Apache-2.0
"""Guests without a QEMU: the fake one on the PATH, and subjects that it boots."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import swtch
from swtch.engines import choice
from swtch.engines.vm import Subject
from swtch.vm import guests, packages, session
from swtch.vm.kvm import Choice
from swtch.vm.prepare import Prepared

FAKE = Path(__file__).with_name("vm_fake_qemu.py")
FakeQemu = Callable[[str], None]


def use_fake_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeQemu:
    """Puts the fake first on the PATH; its result sets the mode."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for arch in guests.ARCHES.values():
        program = folder / arch.emulator
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{FAKE}' \"$@\"\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_QEMU_SWTCH", str(Path(swtch.__file__).parents[1]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # How soon a lost frame is asked for again, and that a guest which has stopped is not listened
    # to for long, costs a slow machine nothing. What is waited for has the time that it needs.
    for name, value in (("ANSWER_S", 0.3), ("SLACK_S", 60.0), ("OFF_S", 60.0), ("_GRACE_S", 0.5)):
        monkeypatch.setattr(session, name, value)

    def choose(mode: str) -> None:
        monkeypatch.setenv("FAKE_QEMU", mode)

    choose("ok")
    return choose


def subject_of(
    tmp_path: Path, name: str = "6.1-amd64", accel: Literal["tcg", "kvm"] = "tcg"
) -> Subject:
    """The guest `name`, whose kernel and archive are empty files."""
    file = tmp_path / "image"
    file.write_bytes(b"kernel")
    kernel = packages.Kernel(
        release=f"{guests.GUESTS[name].series}.0",
        version="1",
        image=str(file),
        headers="",
        sha256="0" * 64,
    )
    prepared = Prepared(
        guest=guests.GUESTS[name],
        kernel=kernel,
        initramfs=file,
        has_module=False,
        digest="d",
    )
    return Subject(prepared=prepared, accel=Choice(accel, "test"))


def options(**changes: Any) -> choice.Options:
    """What is chosen by a command line that says only this."""
    return choice.Options(**changes)
