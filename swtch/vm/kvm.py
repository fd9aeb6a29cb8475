# SPDX-License-Identifier: Apache-2.0
"""Whether KVM really works here: only a guest that has booted with it proves that.

/dev/kvm opens on machines where every guest then hangs (nested and
paravirtual hosts), so the answer comes from booting the very kernel with a
time limit. It is remembered per kernel, emulator and boot of this machine; a
refusal for an hour, because a busy machine may boot too slowly once.

Invariants:

- The fallback is emulation, and it is said, with the reason.
- A lost cache costs one more try and nothing else.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from swtch.errors import CannotError
from swtch.vm import cache, qemu
from swtch.vm.prepare import Prepared
from swtch.vm.session import GuestDiedError, Session

DEVICE = Path("/dev/kvm")
BOOT_S = 20.0
RETRY_S = 3600.0
_WHY_MAX = 160


Asked = Literal["auto", "kvm", "tcg"]


class Choice(msgspec.Struct, frozen=True):
    """``accel`` and, when it is not KVM, why not."""

    accel: qemu.Accel
    why: str = ""


def choose(
    prepared: Prepared,
    *,
    asked: Asked = "auto",
    say: Callable[[str], None] = lambda _line: None,
    boot: Callable[[qemu.Machine], None] | None = None,
) -> Choice:
    """KVM if `prepared` boots with it, else emulation. Who asks for KVM gets no other, and
    it is not tried before; CannotError where there is none."""
    if asked == "tcg":
        return Choice("tcg", "as asked")
    refused = _refused(prepared)
    if asked == "kvm":
        if refused is not None:
            raise CannotError(f"--accel kvm: {refused.why}.")
        return Choice("kvm")
    return refused or _remembered(prepared, say, boot)


def _refused(prepared: Prepared) -> Choice | None:
    """Why there can be no KVM, without trying."""
    arch = prepared.guest.arch
    if not qemu.same_arch(arch):
        return Choice("tcg", f"this machine is no {arch.name}")
    if not DEVICE.exists():
        return Choice("tcg", f"there is no {DEVICE} here")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Choice("tcg", f"{DEVICE} may not be opened by this user")
    return None


def _remembered(
    prepared: Prepared,
    say: Callable[[str], None],
    boot: Callable[[qemu.Machine], None] | None,
) -> Choice:
    arch = prepared.guest.arch
    key = cache.key_of([prepared.kernel.sha256, qemu.version(arch), _boot_id()])
    note = cache.room("kvm") / f"{key}.json"
    try:
        known = msgspec.json.decode(note.read_bytes(), type=Choice)
        if known.accel == "kvm" or abs(time.time() - note.stat().st_mtime) < RETRY_S:
            return known
    except (OSError, msgspec.DecodeError):
        pass
    say(f"{prepared.guest.name}: trying KVM, for {BOOT_S:g} s at most")
    choice = _try(prepared, boot or _boot)
    cache.write(note, msgspec.json.encode(choice))
    return choice


def _try(prepared: Prepared, boot: Callable[[qemu.Machine], None]) -> Choice:
    machine = qemu.Machine(
        arch=prepared.guest.arch,
        image=Path(prepared.kernel.image),
        initramfs=prepared.initramfs,
        cpus=2,
        accel="kvm",
    )
    try:
        boot(machine)
    except (GuestDiedError, CannotError) as error:
        return Choice("tcg", _shortened(f"{DEVICE} is there, but with it the {error}"))
    return Choice("kvm")


def _shortened(text: str) -> str:
    return text if len(text) <= _WHY_MAX else text[: _WHY_MAX - 3] + "..."


def _boot(machine: qemu.Machine) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Session(machine, Path(folder) / "console", boot_s=BOOT_S),
    ):
        pass


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
