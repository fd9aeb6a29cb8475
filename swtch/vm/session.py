# SPDX-License-Identifier: Apache-2.0
"""A guest that is up: one program after the other, each bounded, none lost.

The host asks and the guest answers (probes/guest/swtch-guest.c). Any frame may
get lost on the line, so a request is repeated until it is answered, under the
same number; the guest answers a known number from memory.

Invariants:

- No wait is without a limit: boot, acceptance, the program, its output, power-off.
- A guest whose kernel complains of a bug, that hangs or that is gone raises
  GuestDiedError with the last lines of its console, and is ended. Whoever
  wants to go on boots another.
- Everything on the console is in the log file, in the order it came.

Rejected: a thread per wire (nothing here happens at the same time).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import re
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from swtch.vm.qemu import Machine, Qemu
from swtch.vm.serial import Decoder, Frame, encode

BOOT_S = 120.0
FIRST_BOOT_S = 60.0  # several times what it takes on a busy machine
ANSWER_S = 3.0
SLACK_S = 20.0
OFF_S = 15.0
_PUT_SIZE = 2400
_TAIL = 65536
_TAIL_LINES = 12
_GRACE_S = 2.0

FATAL = re.compile(
    rb"Kernel panic - |\bBUG: |\bOops\b|Internal error: |kernel BUG at|Unable to handle kernel"
    rb"|PANIC: early exception|Failed to execute /|Initramfs unpacking failed"
    rb"|check access for rdinit|swtch-guest: no line"
)
# Of a kernel with one serial port the lines are swapped, or the same.
_GREETED_ON_CONSOLE = re.compile(rb'@@SWTCH \d+ \d+ [0-9a-f]{8} \{"op":"hello"')
_ONE_PORT = "let CONFIG_SERIAL_8250_NR_UARTS and _RUNTIME_UARTS be 2 or more"
# What a kernel says of itself, and what to do about it. There another boot would end alike.
_REMEDIES = (
    (
        re.compile(rb"Out of memory|oom-kill|deadlocked on memory|Initramfs unpacking failed"),
        "give the guest more with --memory",
    ),
    (re.compile(rb"Failed to execute /"), "turn on CONFIG_BINFMT_ELF and CONFIG_64BIT"),
    (
        re.compile(rb"Unable to mount root fs|Cannot open root device|check access for rdinit"),
        "turn on CONFIG_BLK_DEV_INITRD, and say nothing else of init to the kernel",
    ),
    (
        re.compile(rb"swtch-guest: no line"),
        f"turn on CONFIG_DEVTMPFS, and {_ONE_PORT}",
    ),
)
COMPLAINT = re.compile(
    rb"WARNING: |possible recursive locking|blocked for more than|detected stalls|UBSAN: "
    rb"|INFO: trying to register non-static key"
)


def remedy(line: bytes | bytearray) -> str:
    """What to do about a line of a kernel; empty where nothing is known."""
    return next((advice for pattern, advice in _REMEDIES if pattern.search(line)), "")


class GuestDiedError(Exception):
    """The guest is no more. ``str()`` is one line; ``console`` the last of its console.
    ``by_chance``: it may be another time."""

    def __init__(self, line: str, console: str, *, by_chance: bool = False) -> None:
        super().__init__(line)
        self.console = console
        self.by_chance = by_chance


@dataclass(frozen=True)
class Ran:
    """What became of one program. ``failed`` is the step that failed before it ran,
    ``killed_why`` what to do if the kernel ended it."""

    stdout: bytes
    stderr: bytes
    status: int
    signal: int
    timed_out: bool
    elapsed_ns: int
    interrupts: int
    failed: str
    killed_why: str = ""

    @property
    def returncode(self) -> int:
        """As of subprocess: negative for a signal."""
        return -self.signal if self.signal else self.status


def ran_of(done: dict[str, Any], parts: dict[tuple[str, int], bytes]) -> Ran | None:
    """The result in a ``done`` frame; None while chunks of it are missing."""
    output = {}
    for name in ("out", "err"):
        wanted = [(name, number) for number in range(int(done.get(name, 0)))]
        if any(key not in parts for key in wanted):
            return None
        output[name] = b"".join(parts[key] for key in wanted)
    return Ran(
        stdout=output["out"],
        stderr=output["err"],
        status=int(done.get("status", -1)),
        signal=int(done.get("signal", 0)),
        timed_out=bool(done.get("timed_out", False)),
        elapsed_ns=int(done.get("elapsed_ns", 0)),
        interrupts=int(done.get("interrupts", 0)),
        failed=str(done.get("failed", "")),
    )


def run_request(
    number: int, argv: Sequence[str], stdin: bytes, timeout_s: float, pad: int
) -> dict[str, Any]:
    """The request that starts a program."""
    words = b"".join(word.encode() + b"\0" for word in argv)
    return {
        "op": "run",
        "id": number,
        "argv": base64.b64encode(words).decode(),
        "stdin": base64.b64encode(stdin).decode(),
        "pad": pad,
        "timeout_ms": int(timeout_s * 1000),
    }


def boot(
    machine: Machine,
    log: Path,
    *,
    first_s: float = FIRST_BOOT_S,
    boot_s: float = BOOT_S,
    launch: Callable[[Machine], Qemu] = Qemu,
    publish: Callable[[Session], None] = lambda _session: None,
) -> Session:
    """A guest that is up. One that is silent for `first_s`, or whose kernel dies, is given up
    and booted once more: of some thousand boots under TCG one stood still before its kernel
    was done. What QEMU refuses and what a kernel lacks stay so.
    """
    try:
        return Session(machine, log, boot_s=first_s, launch=launch, publish=publish)
    except GuestDiedError as death:
        if not death.by_chance:
            raise
        return Session(machine, log, boot_s=boot_s, launch=launch, publish=publish)


class Session:
    """One boot of one guest. A context manager; leaving it powers off."""

    def __init__(
        self,
        machine: Machine,
        log: Path,
        *,
        boot_s: float = BOOT_S,
        launch: Callable[[Machine], Qemu] = Qemu,
        publish: Callable[[Session], None] = lambda _session: None,
    ) -> None:
        self._log = log.open("ab", buffering=0)
        self._arch = machine.arch
        self._decoder = Decoder()
        self._tail = bytearray()
        self._number = 0
        self._seq = 0
        self._stopped = False
        self._trouble = ""
        self._paused = False
        self._remedy = ""
        self.complaints: list[str] = []
        self.hello: dict[str, Any] = {}
        begin = time.monotonic()
        try:
            self._qemu = launch(machine)
        except BaseException:
            self._log.close()
            raise
        publish(self)
        try:
            self.hello = self._greet(begin + boot_s, boot_s)
            if machine.pin:
                self._qemu.pin(machine.pin)
        except BaseException:
            self.kill()
            raise
        self.boot_s = time.monotonic() - begin

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0, pad: int = -1
    ) -> Ran:
        """Runs a program in the guest to its end, bad or good."""
        self.proceed()
        self._remedy = ""
        if len(stdin) > _PUT_SIZE:
            self.put("/tmp/stdin", stdin)
        self._number += 1
        number = self._number
        request = run_request(
            number, argv, b"" if len(stdin) > _PUT_SIZE else stdin, timeout_s, pad
        )
        if len(stdin) > _PUT_SIZE:
            request["stdin_file"] = "/tmp/stdin"
        self._ask(request)
        return self._result(request, timeout_s)

    def put(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """Writes a file in the guest."""
        for offset in range(0, max(len(data), 1), _PUT_SIZE):
            self._number += 1
            piece = base64.b64encode(data[offset : offset + _PUT_SIZE]).decode()
            request = {"op": "put", "id": self._number, "path": path, "mode": mode}
            answer = self._ask({**request, "offset": offset, "data": piece})
            if answer.get("errno"):
                raise OSError(int(answer["errno"]), "the guest cannot write", path)

    def pause(self) -> None:
        """Takes no time of the CPUs until the next run."""
        if not self._paused:
            self._qemu.pause()
            self._paused = True

    def proceed(self) -> None:
        """The end of a pause."""
        if self._paused:
            self._qemu.proceed()
            self._paused = False

    def stop(self) -> None:
        """Ends the guest at once; signal-handler safe. What waits then raises."""
        self._stopped = True
        self._qemu.kill()

    def power_off(self) -> bool:
        """True when the guest went down by itself."""
        self.proceed()
        self._number += 1
        try:
            self._send({"op": "off", "id": self._number})
            deadline = time.monotonic() + OFF_S
            while time.monotonic() < deadline:
                self._receive(deadline - time.monotonic())
        except GuestDiedError:
            return self._qemu.wait(1) and not self._trouble
        except OSError:
            return self._qemu.wait(1)
        return False

    def kill(self) -> None:
        """Ends the guest and closes its log. May be called twice."""
        self._qemu.close()
        self._log.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.power_off()
        finally:
            self.kill()

    def console_tail(self) -> str:
        """The last lines of the console."""
        lines = bytes(self._tail).decode(errors="replace").replace("\r", "").split("\n")
        return "\n".join([line for line in lines if line.strip()][-_TAIL_LINES:])

    def _greet(self, deadline: float, boot_s: float) -> dict[str, Any]:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._died(f"guest did not boot within {boot_s:g} s{self._mute()}")
            for frame in self._receive(left):
                if frame.body.get("op") == "hello":
                    return frame.body

    def _mute(self) -> str:
        """What to turn on in a kernel that has not said a word."""
        if self._tail:
            return ""
        options = " and ".join(f"CONFIG_{name}" for name in self._arch.console_config)
        return f" and its console said nothing; a kernel of yours needs {options}"

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Repeats `request` until it is answered; chunks and results are kept for later."""
        deadline = time.monotonic() + SLACK_S
        self._early: list[Frame] = []
        while time.monotonic() < deadline:
            self._send(request)
            until = min(time.monotonic() + ANSWER_S, deadline)
            while (left := until - time.monotonic()) > 0:
                for frame in self._receive(left):
                    if frame.body.get("id") != request["id"]:
                        continue
                    self._early.append(frame)
                if self._early:
                    return self._early[0].body
        raise self._died(f"guest did not answer within {SLACK_S:g} s")

    def _result(self, request: dict[str, Any], timeout_s: float) -> Ran:
        parts: dict[tuple[str, int], bytes] = {}
        done: dict[str, Any] = {}
        frames = self._early
        deadline = time.monotonic() + timeout_s + SLACK_S
        damaged = self._decoder.damaged
        heard = time.monotonic()
        while True:
            for frame in frames:
                body = frame.body
                if body.get("id") != request["id"]:
                    continue
                heard = time.monotonic()
                if body.get("op") == "chunk":
                    data = base64.b64decode(str(body.get("data", "")))
                    parts[str(body.get("of")), int(body.get("part", -1))] = data
                    deadline = max(deadline, heard + SLACK_S)
                elif body.get("op") == "done":
                    done = body
            if done:
                ran = ran_of(done, parts)
                if ran is not None:
                    return self._explained(ran)
            now = time.monotonic()
            if now >= deadline:
                raise self._died(f"guest hangs: no result {SLACK_S:g} s after the time limit")
            lost = bool(done) or self._decoder.damaged != damaged
            if lost and now - heard >= 1:
                # Something of the answer was lost: have it sent again.
                damaged, done, heard = self._decoder.damaged, {}, now
                self._send(request)
            frames = self._receive(min(deadline - now, 1.0 if lost else deadline - now))

    def _explained(self, ran: Ran) -> Ran:
        """`ran`, whose program the kernel may have ended for want of memory. What it said of
        that comes before the end of the program."""
        if ran.signal != signal.SIGKILL or ran.timed_out:
            return ran
        self._receive(0.0)
        return dataclasses.replace(ran, killed_why=self._remedy)

    def _send(self, request: dict[str, Any]) -> None:
        self._seq += 1
        try:
            self._qemu.line.sendall(encode(self._seq, request))
        except OSError:
            raise self._died("guest is gone") from None

    def _receive(self, timeout_s: float) -> list[Frame]:
        """What comes within that time; empty when nothing does."""
        poll = select.poll()
        for wire in {self._qemu.console, self._qemu.line}:
            poll.register(wire, select.POLLIN)
        ready = {file for file, _ in poll.poll(max(0.0, timeout_s) * 1000)}
        frames: list[Frame] = []
        gone = False
        for wire in {self._qemu.console, self._qemu.line}:
            if wire.fileno() not in ready:
                continue
            try:
                data = wire.recv(65536)
            except OSError:
                data = b""
            gone = gone or not data
            if wire is self._qemu.line:
                frames += self._decoder.feed(data) if data else self._decoder.flush()
                data = self._decoder.noise()
            if data and (wire is self._qemu.console or self._qemu.console is self._qemu.line):
                self._hear(data)
        if self._trouble:
            raise self._died(self._trouble)
        if gone and not frames:
            raise self._died("guest ended by itself")
        return frames

    def _hear(self, data: bytes) -> None:
        """Console text. On a full disk the log ends, and the guest goes on."""
        with contextlib.suppress(OSError):
            self._log.write(data)
        fresh = self._tail[self._tail.rfind(b"\n") + 1 :] + data
        self._tail += data
        del self._tail[: max(0, len(self._tail) - _TAIL)]
        for line in fresh.split(b"\n")[:-1]:
            text = line.decode(errors="replace").strip()
            self._remedy = self._remedy or remedy(line)
            two = self._qemu.console is not self._qemu.line
            if two and _GREETED_ON_CONSOLE.search(line) and not self._trouble:
                self._remedy = _ONE_PORT
                self._trouble = "guest has one serial port and needs two"
            if FATAL.search(line) and not self._trouble:
                self._trouble = f"guest kernel: {text}"
            elif COMPLAINT.search(line):
                self.complaints.append(text)

    def _died(self, line: str) -> GuestDiedError:
        """Listens for what a dying kernel still says, then ends it."""
        until = time.monotonic() + _GRACE_S
        wire = self._qemu.console
        if wire is self._qemu.line:
            self._decoder.flush()
            self._hear(self._decoder.noise())
        while not self._stopped and (left := until - time.monotonic()) > 0:
            if not select.select([wire], [], [], left)[0]:
                break
            try:
                data = wire.recv(65536)
            except OSError:
                break
            if not data:
                break
            self._hear(data)
        self._qemu.kill()
        complaint = self._qemu.complaint() if self._qemu.wait(5) and not self._tail else ""
        if complaint:
            line = f"{line}: {complaint}"
        if self._stopped:
            return GuestDiedError("interrupted", self.console_tail())
        if self._remedy:
            line = f"{line}; {self._remedy}"
        by_chance = not complaint and not self._remedy
        return GuestDiedError(line, self.console_tail(), by_chance=by_chance)
