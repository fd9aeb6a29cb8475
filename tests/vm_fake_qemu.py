# SPDX-License-Identifier: Apache-2.0
"""Stands in for QEMU: takes its wires and behaves as FAKE_QEMU says.

ok       a guest that answers; programs are: cat, probe (the fake probe), false
dies     ends at once with a line on standard error
hang     never says anything
rubbish  random bytes on every wire, for ever
panic    answers, and panics when a program is started
silent   accepts a program and never ends it
lossy    as ok, but each frame is damaged the first time it is sent
noinit   its kernel cannot start the first process, and stands still
noline   its first process has no line to us, and stands still
oneport  its first process greets on the console, and stands still
rdinit   its kernel is told of another first process, and takes one of its own
oops     its kernel oopses while it boots
oom      programs are ended by its kernel, for want of memory
torn     as ok, after a greeting with a kernel message in it
noisy    as ok, with kernel messages between frames and in the first of them

With ``-chardev file`` instead of a socket it is a guest of one trial: it writes
its answer into the file and ends.
"""

import base64
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, os.environ["FAKE_QEMU_SWTCH"])

from swtch.vm.serial import Decoder, encode

MODE = os.environ.get("FAKE_QEMU", "ok")
WORDS = " ".join(sys.argv)


BOOTS = {
    "noinit": b"Failed to execute /init (error -8)",
    "noline": b"swtch-guest: no line /dev/ttyS1: Input/output error",
    "oneport": encode(1, {"op": "hello"}),
    "rdinit": b"check access for rdinit=/x failed: -2, ignoring",
    "oops": b"Oops: 0002 [#1] PREEMPT SMP",
}


def wire(name: str) -> socket.socket | None:
    found = re.search(rf"socket,id={name},fd=(\d+)", WORDS)
    return socket.socket(fileno=int(found[1])) if found else None


def result(argv: list[str], stdin: bytes) -> tuple[bytes, int]:
    if argv[0].endswith("cat"):
        return stdin, 0
    if argv[0].endswith("probe"):
        fake = Path(__file__).with_name("fake_probe.py")
        done = subprocess.run([sys.executable, str(fake)], input=stdin, capture_output=True)
        return done.stdout, done.returncode
    return b"", 1


class Guest:
    def __init__(self, line: Any, console: Any) -> None:
        self.line, self.console = line, console
        self.seq = 0
        self.sent: set[bytes] = set()

    def say(self, **body: Any) -> None:
        self.seq += 1
        data = encode(self.seq, body)
        key = repr(body).encode()
        if MODE == "lossy" and key not in self.sent:
            self.sent.add(key)
            data = data[:20] + b"X" + data[21:]
        if MODE == "noisy":
            message = b"[    1.000000] random: crng init done\r\n"
            if self.seq == 2:
                data = data[:30] + message + data[30:]
            data = message + data + message
        self.line.sendall(data)

    def answer(self, body: dict[str, Any]) -> None:
        number = body["id"]
        argv = base64.b64decode(body["argv"]).decode().split("\0")[:-1]
        out, status = result(argv, base64.b64decode(body["stdin"]))
        if MODE == "oom":
            self.console.sendall(b"[    3.0] Out of memory: Killed process 9 (swtch-probe)\n")
        parts = [out[at : at + 1000] for at in range(0, len(out), 1000)]
        for part, piece in enumerate(parts):
            data = base64.b64encode(piece).decode()
            self.say(op="chunk", id=number, of="out", part=part, data=data)
        self.say(
            op="done",
            id=number,
            status=status,
            signal=9 if MODE == "oom" else 0,
            timed_out=False,
            elapsed_ns=5,
            interrupts=3,
            out=len(parts),
            err=0,
            failed="",
        )

    def obey(self, body: dict[str, Any]) -> None:
        if body["op"] == "off":
            sys.exit(0)
        if body["op"] == "put":
            self.say(op="ok", id=body["id"], errno=0)
        if body["op"] != "run":
            return
        if MODE == "panic":
            self.console.sendall(
                b"[    2.0] some driver\n[    2.1] Kernel panic - not syncing: x\n"
            )
            self.console.sendall(b"[    2.2] Call Trace:\n")
            sys.exit(0)
        self.say(op="accepted", id=body["id"])
        if MODE != "silent":
            self.answer(body)


class File:
    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def sendall(self, data: bytes) -> None:
        with self.path.open("ab") as stream:
            stream.write(data)


def once(path: str) -> None:
    """The request is the last JSON object of the archive."""
    archive = Path(sys.argv[sys.argv.index("-initrd") + 1]).read_bytes()
    start = archive.rindex(b'{"op":"run"')
    body, _ = json.JSONDecoder().raw_decode(archive[start:].decode(errors="replace"))
    guest = Guest(File(path), None)
    if MODE == "panic":
        console = re.search(r"file,id=console,path=(\S+)", WORDS)
        assert console
        File(console[1]).sendall(b"[    2.1] Kernel panic - not syncing: x\n")
    elif MODE == "hang":
        time.sleep(600)
    else:
        guest.answer(body)


def control(line: socket.socket) -> None:
    """Answers QMP: one virtual CPU, whose thread is this program's first."""
    line.sendall(b'{"QMP": {}}\n')
    for request in line.makefile():
        cpus = [{"cpu-index": 0, "thread-id": os.getpid()}]
        answer = cpus if "query-cpus-fast" in request else {}
        line.sendall(json.dumps({"return": answer}).encode() + b"\n")


def main() -> None:
    if "--version" in sys.argv:
        print("QEMU emulator version 0 (fake)")
        return
    if "-help" in sys.argv:
        print("-sandbox on[,obsolete=allow|deny]" if "FAKE_QEMU_SANDBOX" in os.environ else "")
        return
    if MODE == "dies":
        print("qemu: no such machine", file=sys.stderr)
        sys.exit(1)
    file = re.search(r"file,id=line,path=(\S+)", WORDS) or re.search(
        r"file,id=console,path=(\S+)", WORDS
    )
    if file:
        once(file[1])
        return
    console, line = wire("console"), wire("line")
    if qmp := wire("control"):
        threading.Thread(target=control, args=(qmp,), daemon=True).start()
    assert console
    line = line or console
    if MODE == "hang":
        time.sleep(600)
    while MODE == "rubbish":
        noise = random.Random(1).randbytes(500) + b"@@SWTCH 1 4000 00000000 {"
        console.sendall(noise)
        line.sendall(noise)
        time.sleep(0.01)
    if MODE in BOOTS:
        console.sendall(b"[    0.1] " + BOOTS[MODE] + b"\n")
        time.sleep(600)
    guest = Guest(line, console)
    console.sendall(b"[    0.0] Linux version 0\n")
    hello = {"op": "hello", "protocol": 1, "release": "0", "cpus": 4, "module": "absent"}
    if MODE == "torn":
        console.sendall(encode(1, hello).replace(b'"release"', b'"[    1.0] usb: x\nrelease"'))
    guest.say(**hello)
    if MODE == "lossy":
        guest.say(**hello)
    decoder = Decoder()
    while data := line.recv(4096):
        for frame in decoder.feed(data):
            guest.obey(frame.body)


main()
