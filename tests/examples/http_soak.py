# SPDX-License-Identifier: Apache-2.0
"""http_soak.py PROGRAM [SECONDS]: examples/http_server.c for a long time, under all sorts of
clients at once, beside uthreads and processes that compute.

Load and rest take turns. While there is load, wrk (where it is installed) asks as fast as it can
and counts errors; polite clients compare every byte of every reply, half-close, and send in
drips; rude ones reset, read slowly and leave, and send garbage. Each client ends by itself, so at
rest nothing may be left of them: no connection, no descriptor, no memory. What must hold:

- every reply that was asked for comes, and is right; wrk sees no error;
- at each rest the server has no connection and no descriptor more than at the first;
- behind the warm-up (a third of the time) memory at rest grows by at most 2 %, which is
  judged when there are enough rests to tell growth from noise (a minute);
- SIGTERM ends it, with status 0 and without a word.

PROGRAM is linked with hogs.c, and dumps what its uthreads do when something failed. The back end
of input and output is what UTHREAD_IO says, as ever."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from server import LIMIT_S, Served, await_true, check, connect, serving, talk, until_end

PATIENCE_S = "30"  # of the server: a client on this machine may be slow
GROWTH = 0.02
JUDGED_S = 60
HOG_UTHREADS = "2"
HOGS_LEFT = f"the process ends while {HOG_UTHREADS} uthreads have not ended"  # the hogs
HOG = "n = 0\nwhile True: n += 1"

FILES = {
    "small": b"a small file\n",
    "empty": b"",
    "large": random.Random(1).randbytes(150_001),
    "huge": random.Random(2).randbytes(8_000_000),
}


def reply_of(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: keep-alive\r\n\r\n"
    return head.encode() + body


def request(path: str, body: bytes | None = None) -> bytes:
    if body is None:
        return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    return f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def reset(s: socket.socket) -> None:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Clients:
    """The clients of one stretch of load; `counts` are of all."""

    def __init__(self, port: int, counts: Counter[str], seed: int) -> None:
        self.port = port
        self.counts = counts
        self.seed = seed
        self.stop = threading.Event()
        self.failures: list[str] = []

    # Polite ones: what they ask for has to come.

    def keeps(self, rng: random.Random) -> None:
        """Many requests on one connection."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        for _ in range(rng.randint(1, 40)):
            if rng.random() < 0.5:
                want = rng.randbytes(rng.choice((0, 1, 1000, 64_000, 200_000)))
                client.request("POST", "/echo", want)
            else:
                name = rng.choice(("small", "empty", "large"))
                want = FILES[name]
                client.request("GET", f"/{name}")
            r = client.getresponse()
            check("status", r.status, 200)
            check("body", r.read(), want)
            self.counts["replies compared"] += 1
        client.close()

    def half_closes(self, rng: random.Random) -> None:
        """Several requests at once, cut anywhere; then it says that no more will come."""
        sent = want = b""
        n = rng.randint(1, 8)
        for _ in range(n):
            if rng.random() < 0.5:
                name = rng.choice(("small", "large"))
                sent += request(f"/{name}")
                want += reply_of(FILES[name])
            else:
                body = rng.randbytes(rng.choice((1, 3000, 100_000)))
                sent += request("/echo", body)
                want += reply_of(body)
        cut = rng.randint(0, len(sent))
        check("replies to a half-closed socket", talk(self.port, sent[:cut], sent[cut:]), want)
        self.counts["replies compared"] += n

    def drips(self, rng: random.Random) -> None:
        """A request byte by byte."""
        sent = request("/small")
        reply = talk(self.port, *(bytes([b]) for b in sent))
        check("reply to drips", reply, reply_of(FILES["small"]))
        self.counts["replies compared"] += 1

    # Rude ones.

    def resets(self, rng: random.Random) -> None:
        with connect(self.port) as s:
            sent = request(rng.choice(("/small", "/large", "/huge")))
            s.sendall(sent[: rng.randint(0, len(sent))])
            if rng.random() < 0.5:
                s.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    s.recv(rng.randint(1, 100_000))
            reset(s)
        self.counts["resets"] += 1

    def reads_slowly(self, rng: random.Random) -> None:
        with connect(self.port) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(request("/huge"))
            got = b""
            for _ in range(20):
                got += s.recv(rng.randint(1, 8192))
                time.sleep(0.02)
            check("beginning of a slow reply", got, reply_of(FILES["huge"])[: len(got)])
        self.counts["slow readers"] += 1

    def sends_garbage(self, rng: random.Random) -> None:
        sent = rng.randbytes(rng.randint(1, 3000)) + b"\r\n\r\n"
        with connect(self.port) as s:
            with contextlib.suppress(ConnectionError):
                s.sendall(sent)
                s.shutdown(socket.SHUT_WR)
            reply = until_end(s)
        if not re.match(rb"HTTP/1\.1 [45]\d\d |$", reply):
            check("reply to garbage", reply, b"")
        self.counts["garbage"] += 1

    # All of them.

    def repeat(self, client: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        while not self.stop.is_set() and not self.failures:
            try:
                client(rng)
            except (Exception, SystemExit) as error:
                self.failures.append(f"{client.__name__}, seed {seed}: {error!r}")

    def wrk(self, seconds: float) -> None:
        url = f"http://127.0.0.1:{self.port}/small"
        options = ["-t1", "-c64", f"-d{max(1, round(seconds))}s", "--timeout", f"{LIMIT_S}s"]
        done = subprocess.run(
            ["wrk", *options, url], capture_output=True, text=True, timeout=600, check=False
        )
        served = re.search(r"(\d+) requests in", done.stdout)
        bad = re.search(r"Socket errors:.*|Non-2xx.*", done.stdout)
        if done.returncode or not served or bad or not int(served[1]):
            self.failures.append(f"wrk: {bad[0] if bad else done.stdout + done.stderr}")
        else:
            self.counts["requests of wrk"] += int(served[1])

    def run(self, seconds: float) -> None:
        mix = [self.keeps] * 4 + [self.half_closes] * 2 + [self.drips] + [self.resets] * 2
        mix += [self.reads_slowly] * 4 + [self.sends_garbage]
        threads = [
            threading.Thread(target=self.repeat, args=(client, self.seed + i))
            for i, client in enumerate(mix)
        ]
        if shutil.which("wrk"):
            threads.append(threading.Thread(target=self.wrk, args=(seconds,)))
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.stop.set()
        for thread in threads:
            thread.join()
        if self.failures:
            raise SystemExit("; ".join(self.failures))


class Rest:
    """What the server holds while nobody is there."""

    def __init__(self, server: Served) -> None:
        await_true("connections are left at rest", lambda: server.sockets() == 1)
        self.descriptors = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        status = Path(f"/proc/{server.pid}/status").read_text()
        self.kib = int(re.findall(r"VmRSS:\s+(\d+)", status)[0])
        self.threads = int(re.findall(r"Threads:\s+(\d+)", status)[0])

    def __str__(self) -> str:
        return f"{self.kib} KiB, {self.descriptors} descriptors, {self.threads} threads"


def growth(rests: list[Rest]) -> float:
    """Of memory, from the first third to the last one behind the warm-up."""
    behind = rests[len(rests) // 3 :]
    third = max(1, len(behind) // 3)
    first = statistics.median(r.kib for r in behind[:third])
    last = statistics.median(r.kib for r in behind[-third:])
    return last / first - 1


def soak(server: Served, seconds: float, seed: int) -> list[Rest]:
    end = time.monotonic() + seconds
    stretch = min(20.0, seconds / 3)
    counts: Counter[str] = Counter()
    rests: list[Rest] = []
    try:
        while not rests or time.monotonic() + stretch / 2 < end:
            Clients(server.port, counts, seed + 1000 * len(rests)).run(stretch)
            rests.append(Rest(server))
            check("descriptors at rest", rests[-1].descriptors, rests[0].descriptors)
            print(f"{len(rests):4} {rests[-1]}", flush=True)
    except SystemExit:
        os.kill(server.pid, signal.SIGUSR1)
        time.sleep(2)
        os.kill(server.pid, signal.SIGKILL)
        raise
    finally:
        print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return rests


def main() -> None:
    program = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 6.0
    seed = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"SOAK_SEED={seed} UTHREAD_IO={os.environ.get('UTHREAD_IO', '')}")
    if not shutil.which("wrk"):
        print("without wrk, which is not installed (Debian: wrk)")
    os.environ["HOGS"] = HOG_UTHREADS
    with tempfile.TemporaryDirectory() as site, contextlib.ExitStack() as hogs:
        for name, body in FILES.items():
            (Path(site) / name).write_bytes(body)
        hog = subprocess.Popen([sys.executable, "-c", HOG])
        hogs.callback(hog.wait)
        hogs.callback(hog.kill)
        with serving([program, "0", site, PATIENCE_S], said=HOGS_LEFT) as server:
            rests = soak(server, seconds, seed)
    grown = growth(rests)
    print(f"memory at rest grew by {grown:.2%}; all connections ended, no reply was lost")
    if seconds >= JUDGED_S and grown > GROWTH:
        raise SystemExit(f"memory grew by more than {GROWTH:.0%}")


main()
