# SPDX-License-Identifier: Apache-2.0
"""Starts an example that serves, and ends it. For the tests in this folder, which meson runs
with a program as their argument: `meson test --suite examples`."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ADVICE = "UTHREAD_SPARES allows more"
LIMIT_S = 60  # until something hangs; nothing here is about time


class Served(NamedTuple):
    port: int
    pid: int

    def sockets(self) -> int:
        """One, and one for each connection."""
        count = 0
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                count += str(link.readlink()).startswith("socket:")
        return count


def await_true(what: str, seen: Callable[[], bool]) -> None:
    by = time.monotonic() + LIMIT_S
    while not seen():
        if time.monotonic() > by:
            raise SystemExit(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.05)


def check(what: str, got: object, want: object) -> None:
    if got != want:
        raise SystemExit(f"{what}: {got!r:.300} is not {want!r:.300}")


def refused(command: list[str], *words: str) -> None:
    """It ends with an error, in one line that has these words."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    lines = done.stderr.splitlines()
    missing = [word for word in words if word not in done.stderr]
    if done.returncode not in (1, 2) or len(lines) != 1 or missing:
        raise SystemExit(f"{command}: status {done.returncode}, {lines}, without {missing}")


def unprinted(command: list[str]) -> None:
    """What it prints goes nowhere, and it says so."""
    refused(["sh", "-c", 'exec "$@" >/dev/full', "sh", *command], "standard output")


@contextlib.contextmanager
def serving(command: list[str], descriptors: int = 0, said: str = ADVICE) -> Iterator[Served]:
    """It must end by SIGTERM with status 0 and without a word, but for lines with `said`."""
    if descriptors:
        command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stderr
    try:
        line = process.stdout.readline()
        if not line.startswith("http://127.0.0.1:"):
            raise SystemExit(f"{command}: said {line!r} {process.stderr.read()!r}")
        yield Served(int(line.rstrip("/\n").rpartition(":")[2]), process.pid)
        process.send_signal(signal.SIGTERM)
        check("status after SIGTERM", process.wait(LIMIT_S), 0)
        lines = process.stderr.read().splitlines()
        # On a machine that is slow to open files the runtime advises more spares.
        check(
            "standard error",
            [line for line in lines if ADVICE not in line and said not in line],
            [],
        )
    finally:
        process.kill()
        process.wait()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)


def until_end(s: socket.socket) -> bytes:
    """What comes until the other side closes; a reset is an end, too."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while part := s.recv(65536):
            got += part
    return got


def talk(port: int, *parts: bytes) -> bytes:
    """Send these one by one, and no more; what comes back until the other side closes."""
    with connect(port) as s:
        for part in parts:
            s.sendall(part)
        s.shutdown(socket.SHUT_WR)
        return until_end(s)
