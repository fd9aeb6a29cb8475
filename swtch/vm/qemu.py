# SPDX-License-Identifier: Apache-2.0
"""QEMU's command lines, and its process with the wires to it.

Three wires, each a socket pair: the guest's console, the serial line of the
framed protocol, and QEMU's own control (to pause a guest while another one is
measured). On arm64 console and line are one, because `virt` has one UART.

Invariants:

- QEMU gets no network, no disk, no display and no configuration of the user's, and with
  a QEMU that can (-sandbox) it may start no program and change no user.
- QEMU leads its own session (Ctrl-C reaches only us) and dies with us.
- With ``exact`` nothing that comes from outside reaches the guest: no wire that
  can be written to, no clock but its own, no random numbers of the host.

Rejected: libvirt (a daemon), stdio for the console (one wire only), telnet
ports (anyone may connect), pausing with SIGSTOP (the guest's clock would jump
and its watchdogs bark).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from swtch.errors import CannotError, os_error_text
from swtch.vm.guests import Arch, host_arch

Accel = Literal["tcg", "kvm"]

CPUS = 4
MEMORY_MIB = 1024

_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

# A kernel's own limit (COMMAND_LINE_SIZE), what is beyond is cut off without a word.
_COMMAND_LINE_MAX = 2047

# A kernel that is in trouble says so and ends: the host sees the end at once.
_APPEND = (
    "quiet",
    "loglevel=5",
    "panic=-1",
    "oops=panic",
    "rdinit=/init",
    "random.trust_cpu=on",
    "watchdog_thresh=60",
    "rcupdate.rcu_cpu_stall_timeout=120",
)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What is booted, and how. ``words`` are added to the kernel's command line; virtual
    CPU *i* runs on the CPU ``pin[i mod n]`` of this machine, if there are any."""

    arch: Arch
    image: Path
    initramfs: Path
    cpus: int = CPUS
    memory_mib: int = MEMORY_MIB
    accel: Accel = "tcg"
    exact: bool = False
    words: tuple[str, ...] = ()
    pin: tuple[int, ...] = ()

    @property
    def one_wire(self) -> bool:
        """Console and framed line are the same."""
        return self.arch.line == f"/dev/{self.arch.console}"


def emulator(arch: Arch) -> str:
    """The path of the emulator, or the line that says what to install."""
    path = shutil.which(arch.emulator)
    if path:
        return path
    raise CannotError(
        f"{arch.name} guests need {arch.emulator};"
        f" as root run: apt-get install {arch.emulator_package}"
    )


def version(arch: Arch) -> str:
    """The emulator's own version line."""
    try:
        done = subprocess.run(
            [emulator(arch), "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotError(f"{arch.emulator} does not run: {error}.") from None
    return done.stdout.splitlines()[0].strip()


def append(machine: Machine) -> str:
    """The kernel's command line."""
    words = [f"console={machine.arch.console}", *_APPEND, f"swtch.line={machine.arch.line}"]
    if machine.exact:
        words.append("nokaslr")
    if machine.arch.name == "amd64" and machine.accel == "tcg":
        words += ["tsc=reliable", "no_timer_check"]
    line = " ".join([*words, *machine.words])
    if len(line) > _COMMAND_LINE_MAX:
        raise CannotError(
            f"the kernel's command line is {len(line)} characters long and may have"
            f" {_COMMAND_LINE_MAX}; make --append shorter."
        )
    return line


def command(machine: Machine, *, console: str, line: str, control: str = "") -> list[str]:
    """QEMU's arguments. ``console``, ``line`` and ``control`` are character devices
    as -chardev takes them, without the id; where there is one wire, ``line`` is not used."""
    program = emulator(machine.arch)
    arguments = [program, "-nodefaults", "-no-user-config", "-display", "none"]
    if _has_sandbox(program):
        arguments += ["-sandbox", _SANDBOX]
    arguments += ["-no-reboot", "-machine", _board(machine), "-cpu", _cpu(machine)]
    arguments += ["-smp", str(1 if machine.exact else machine.cpus)]
    arguments += ["-m", str(machine.memory_mib)]
    if machine.accel == "kvm":
        arguments += ["-accel", "kvm"]
    elif machine.exact:
        arguments += ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off,align=off"]
        arguments += ["-rtc", "base=2024-01-01,clock=vm", "-seed", "7"]
    else:
        arguments += ["-accel", "tcg,thread=multi"]
    arguments += ["-kernel", str(machine.image), "-initrd", str(machine.initramfs)]
    arguments += ["-append", append(machine)]
    arguments += ["-chardev", _chardev(console, "console"), "-serial", "chardev:console"]
    if not machine.one_wire:
        arguments += ["-chardev", _chardev(line, "line"), "-serial", "chardev:line"]
    if control:
        arguments += ["-chardev", _chardev(control, "control")]
        arguments += ["-mon", "chardev=control,mode=control"]
    return arguments


@functools.cache
def _has_sandbox(program: str) -> bool:
    """Whether this QEMU was built with seccomp."""
    try:
        done = subprocess.run(
            [program, "-help"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return "-sandbox on" in done.stdout


def _chardev(device: str, name: str) -> str:
    kind, _, rest = device.partition(",")
    return f"{kind},id={name}" + (f",{rest}" if rest else "")


def _board(machine: Machine) -> str:
    if machine.arch.name == "arm64":
        return "virt,gic-version=3" if machine.accel == "tcg" else "virt,gic-version=max"
    return "q35,usb=off,vmport=off"


def _cpu(machine: Machine) -> str:
    if machine.accel == "kvm":
        return "host"
    if machine.arch.name == "arm64":
        # The architected pointer-authentication hash is slow to emulate.
        return "max,pauth-impdef=on"
    # Five-level page tables lengthen every TLB miss of the emulation. Random
    # numbers of the host would differ from run to run.
    return "max,-la57,-rdrand,-rdseed" if machine.exact else "max,-la57"


class Qemu:
    """A running QEMU and its wires. ``console`` is ``line`` where there is one."""

    def __init__(self, machine: Machine) -> None:
        pairs = [socket.socketpair() for _ in range(2 if machine.one_wire else 3)]
        ours, theirs = zip(*pairs, strict=True)
        devices = [f"socket,fd={end.fileno()}" for end in theirs]
        arguments = command(machine, console=devices[0], line=devices[-2], control=devices[-1])
        try:
            self._process = start(arguments, [end.fileno() for end in theirs])
        finally:
            for end in theirs:
                end.close()
        self.console: socket.socket = ours[0]
        self.line: socket.socket = ours[-2]
        self._control: socket.socket = ours[-1]
        self._control.settimeout(10)
        self._replies = b""
        self._negotiated = False

    def pause(self) -> None:
        """Stops the guest and its clock."""
        self._ask("stop")

    def proceed(self) -> None:
        """Lets the guest go on as if no time had passed."""
        self._ask("cont")

    def pin(self, cpus: Sequence[int]) -> None:
        """Each virtual CPU stays on one of `cpus` from now on, in their order."""
        answer = self._ask("query-cpus-fast")
        if not isinstance(answer, list):
            raise CannotError("QEMU does not tell its virtual CPUs' threads; leave --pin out.")
        for number, cpu in enumerate(answer):
            try:
                os.sched_setaffinity(int(cpu["thread-id"]), {cpus[number % len(cpus)]})
            except OSError as error:
                raise CannotError(
                    f"--pin: no virtual CPU can be on CPU {cpus[number % len(cpus)]}:"
                    f" {os_error_text(error)}."
                ) from None

    def kill(self) -> None:
        """Ends QEMU. Signal-handler safe; may be called again."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, 9)

    def wait(self, timeout_s: float) -> bool:
        """True when QEMU has ended by itself within that time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def complaint(self) -> str:
        """What QEMU itself said on standard error, in one line."""
        assert self._process.stderr is not None
        return " ".join(self._process.stderr.read().decode(errors="replace").split())

    def close(self) -> None:
        """Ends QEMU and gives everything back. May be called twice."""
        self.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        for wire in (self.console, self.line, self._control):
            wire.close()

    def _ask(self, what: str) -> Any:
        try:
            if not self._negotiated:
                self._send("qmp_capabilities")
                self._negotiated = True
            return self._send(what)
        except OSError:
            # QEMU has ended or hangs; whoever reads from the guest will see it.
            return None

    def _send(self, what: str) -> Any:
        self._control.sendall(msgspec.json.encode({"execute": what}) + b"\n")
        while True:
            line, newline, rest = self._replies.partition(b"\n")
            if not newline:
                data = self._control.recv(4096)
                if not data:
                    raise ConnectionResetError
                self._replies += data
                continue
            self._replies = rest
            reply: dict[str, Any] = msgspec.json.decode(line)
            if "return" in reply or "error" in reply:
                return reply.get("return")


def guarded(arguments: list[str]) -> list[str]:
    """What begins a program that dies with us, where setpriv can arrange that."""
    guard = shutil.which("setpriv")
    return [guard, "--pdeathsig", "KILL", "--", *arguments] if guard else arguments


def start(arguments: list[str], wires: list[int]) -> subprocess.Popen[bytes]:
    """QEMU in a session of its own, dying with us."""
    try:
        return subprocess.Popen(
            guarded(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=wires,
            start_new_session=True,
        )
    except OSError as error:
        raise CannotError(f"{arguments[0]} does not start: {os_error_text(error)}.") from None


def same_arch(arch: Arch) -> bool:
    """Only a guest of this machine's architecture can use KVM."""
    return arch.name == host_arch()
