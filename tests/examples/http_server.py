# SPDX-License-Identifier: Apache-2.0
"""http_server.py PROGRAM: examples/http_server.c under polite, rude and too many clients."""

from __future__ import annotations

import http.client
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from server import LIMIT_S, Served, await_true, check, connect, refused, serving, talk, until_end

PROGRAM = sys.argv[1]
BIG = random.Random(1).randbytes(3_000_000)


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.1 ") else 0


def body(reply: bytes) -> bytes:
    return reply.partition(b"\r\n\r\n")[2]


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def files(port: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    for path, want in (
        ("/big", BIG),
        ("/", b"<a>index</a>"),
        ("/sub/a%20b?query", b"space"),
        ("/empty", b""),
        ("/sub/../big", BIG),
        ("/inside", b"space"),
    ):
        client.request("GET", path)  # all on one connection
        check(path, (r := client.getresponse()).status, 200)
        check(path, r.read(), want)
    client.request("HEAD", "/big")
    r = client.getresponse()
    check("HEAD", (r.status, r.getheader("Content-Length"), r.read()), (200, str(len(BIG)), b""))
    for path in (
        "/../secret",
        "/%2e%2e/secret",
        "/sub/../../secret",
        "//etc/passwd",
        "/outside",
        "/sub",
        "/pipe",
        "/none",
        "/sub/none/",
        "/%00",
        "/" + "a" * 300,
    ):
        client.request("GET", path)
        check(path, (r := client.getresponse()).status, 404)
        r.read()
    client.request("DELETE", "/big")
    check("DELETE", (r := client.getresponse()).status, 405)
    r.read()
    client.request("POST", "/echo", BIG[:200_000])
    check("echo", client.getresponse().read(), BIG[:200_000])
    client.close()


def curl(port: int, folder: Path) -> None:
    if not shutil.which("curl"):
        return
    url = f"http://127.0.0.1:{port}"
    (folder / "post").write_bytes(BIG[:150_000])
    limit = ["--silent", "--show-error", "--fail", "--max-time", str(LIMIT_S)]
    for arguments, want in (
        ([f"{url}/big"], BIG),
        ([f"{url}/", f"{url}/sub/a%20b"], b"<a>index</a>space"),
        (["--data-binary", f"@{folder / 'post'}", f"{url}/echo"], BIG[:150_000]),
        (["-H", "Expect: 100-continue", "--data-binary", "x", f"{url}/echo"], b"x"),
    ):
        done = subprocess.run(["curl", *limit, *arguments], capture_output=True, check=False)
        check(f"curl {arguments}", (done.returncode, done.stderr), (0, b""))
        check(f"curl {arguments}", done.stdout, want)


def wrk(port: int) -> None:
    """As fast as it can, on many connections: no error, no reply but 200."""
    if not shutil.which("wrk"):
        return
    for path in ("/", "/sub/a%20b", "/big"):
        done = subprocess.run(
            ["wrk", "-t1", "-c50", "-d1s", "--timeout", "60s", f"http://127.0.0.1:{port}{path}"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        bad = [word for word in ("Socket errors", "Non-2xx") if word in done.stdout]
        check(f"wrk {path}", (done.returncode, done.stderr, bad), (0, "", []))
        served = re.search(r"(\d+) requests in", done.stdout)
        check(f"wrk {path}: served any", bool(served and int(served[1])), True)


def ab(port: int) -> None:
    """An old client: HTTP/1.0, with and without keep-alive."""
    if not shutil.which("ab"):
        return
    for options in ([], ["-k"]):
        command = ["ab", "-q", "-n200", "-c20", *options, f"http://127.0.0.1:{port}/big"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        check(f"ab {options}", done.returncode, 0)
        for what, want in (("Complete", 200), ("Failed", 0)):
            got = re.search(rf"{what} requests:\s+(\d+)", done.stdout)
            check(f"ab {options}: {what}", got and int(got[1]), want)
        check(f"ab {options}", "Non-2xx" in done.stdout, False)


def rude(port: int) -> None:
    # One at a time, two at once, and old clients.
    check("bytes", body(talk(port, *(bytes([b]) for b in get("/sub/a%20b")))), b"space")
    check("pipeline", talk(port, get("/") + get("/none") + get("/")).count(b"<a>index</a>"), 2)
    check("1.0", body(talk(port, b"GET / HTTP/1.0\r\n\r\n")), b"<a>index</a>")
    check("half", talk(port, b"GET / HT"), b"")
    for request, want in (
        (b"nonsense\r\n\r\n", 400),
        (b"GET no-slash HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\0\r\n\r\n", 400),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 9x\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 300_000, 431),
    ):
        check(f"{request[:40]!r}", status(talk(port, request)), want)
    # Who asks and leaves: replies meet a reset (SIGPIPE, ECONNRESET).
    for _ in range(20):
        with connect(port) as s:
            s.sendall(get("/big"))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def slow(server: Served) -> None:
    """With a second's patience: who is slow is sent away, others do not wait for it."""
    port = server.port
    with connect(port) as head, connect(port) as reader, connect(port) as idle:
        head.sendall(b"GET / HTT")
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(get("/huge"))
        check("others", body(talk(port, get("/"))), b"<a>index</a>")
        check("slow head", status(until_end(head)), 408)
        check("idle", until_end(idle), b"")
        await_true("it gives up who reads nothing", lambda: server.sockets() == 1)


def resident(server: Served) -> int:
    """KiB of memory that the server holds."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0])


def large(server: Served) -> None:
    """What large requests have touched is given back when their connections end: 100 of 250 KB
    touch 25 MB; the stacks of 100 uthreads a tenth of that."""
    wanted = BIG[:250_000]
    talk(server.port, get("/"))  # from the first free() on glibc has another place for the next
    await_true("the first connection has ended", lambda: server.sockets() == 1)
    before = resident(server)
    connections = [connect(server.port) for _ in range(100)]
    for s in connections:
        s.sendall(f"POST /echo HTTP/1.1\r\nContent-Length: {len(wanted)}\r\n\r\n".encode())
    for s in connections:
        s.sendall(wanted)
        s.shutdown(socket.SHUT_WR)
        check("a large reply", body(until_end(s)), wanted)
        s.close()
    await_true("of 25 MB less than 5 are left", lambda: resident(server) - before < 5 << 10)


def crowd(port: int) -> None:
    """More than it has descriptors: those beyond wait, nobody is lost."""
    failed: list[str] = []

    def client() -> None:
        try:
            reply = talk(port, get("/sub/a%20b"))
            if body(reply) != b"space" and status(reply) != 503:
                failed.append(repr(reply))
        except OSError as error:
            failed.append(str(error))

    idle = [connect(port) for _ in range(40)]
    clients = [threading.Thread(target=client) for _ in range(40)]
    for thread in clients:
        thread.start()
    for s in idle:
        s.close()
    for thread in clients:
        thread.join()
    check("crowd", failed, [])


with tempfile.TemporaryDirectory() as name:
    top = Path(name)
    site = top / "site"
    (site / "sub").mkdir(parents=True)
    (top / "secret").write_text("secret")
    (site / "big").write_bytes(BIG)
    (site / "empty").touch()
    (site / "index.html").write_text("<a>index</a>")
    (site / "sub" / "a b").write_text("space")
    (site / "inside").symlink_to("sub/a b")
    (site / "outside").symlink_to("../secret")
    with (site / "huge").open("wb") as huge:
        huge.truncate(64 << 20)
    subprocess.run(["mkfifo", site / "pipe"], check=True)

    refused([PROGRAM], "usage")
    refused([PROGRAM, "70000", str(site)], "70000", "port")
    refused([PROGRAM, "0", str(top / "none")], "none", "No such file")
    refused([PROGRAM, "0", str(site / "big")], "big", "Not a directory")
    with serving([PROGRAM, "0", str(site)]) as server:
        number = server.port
        refused([PROGRAM, str(number), str(site)], str(number), "in use")
        files(number)
        curl(number, top)
        wrk(number)
        ab(number)
        rude(number)
        waiting = connect(number)  # idle at the end: closed, and not waited for
        waiting.sendall(get("/"))
        reply = b""
        while not reply.endswith(b"</a>"):
            reply += waiting.recv(65536) or sys.exit("it closed before the end")
        check("before the end", status(reply), 200)
    check("idle at the end", until_end(waiting), b"")
    waiting.close()
    with serving([PROGRAM, "0", str(site), str(LIMIT_S)]) as server:
        large(server)
    with serving([PROGRAM, "0", str(site), "1"]) as server:
        slow(server)
    with serving([PROGRAM, "0", str(site)], descriptors=32) as server:
        crowd(server.port)
