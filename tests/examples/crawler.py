# SPDX-License-Identifier: Apache-2.0
"""crawler.py PROGRAM HTTP_SERVER: examples/crawler.cpp over a site that the other example
serves, and over servers that misbehave."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from server import LIMIT_S, check, refused, serving, unprinted

PROGRAM, SERVER = sys.argv[1:]
CHAIN, CROWD = 50, 300


def crawl(port: int, *arguments: str, path: str = "/") -> tuple[int, list[str], str]:
    done = subprocess.run(
        [PROGRAM, f"http://127.0.0.1:{port}{path}", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    check("standard error", done.stderr, "")
    *lines, last = done.stdout.splitlines()
    return done.returncode, sorted(lines), last


def line(path: str, body: bytes | None, after: str = "") -> str:
    return f"{200 if body is not None else 404} {len(body or b''):9} {path}{after}"


def links(*paths: str) -> bytes:
    return "".join(f"<a href='{path}'>x</a>\n" for path in paths).encode()


def site(top: Path, port: int) -> dict[str, bytes]:
    """What is to be found, by its path."""
    crowd = [f"/crowd/{n}.html" for n in range(CROWD)]
    found = {
        "/": links(
            *("chain/0.html", "#top", "", "http://other.example/x", "//other/x", "mailto:a@b"),
            *("./chain/../chain/0.html#part", "..", "/.", "sub/", "/missing", "javascript:x(1)"),
            f"http://127.0.0.1:{port}/here.html",
            f"http://127.0.0.1:{port}9/not-here.html",
        )
        + b'<img src="picture"> <a href="a b.html"> <a href=bare> <a href="cut',
        "/chain/0.html": links("1.html"),
        "/sub/": links("../crowd/0.html", "deep/er/"),
        "/sub/deep/er/": links(
            "/sub/deep/er/../../?query=a/b", "../../..", "../../../../here.html"
        ),
        "/sub/?query=a/b": links("../crowd/0.html", "deep/er/"),
        "/here.html": b"no links: href=",
        "/picture": links("/not-a-page.html") * 1000,
        "/a%20b.html": b"<a href='a b.html'>",
    }
    for n in range(1, CHAIN):
        found[f"/chain/{n}.html"] = links(f"{n + 1}.html" if n + 1 < CHAIN else "0.html", "../")
    # Each to all: who sees first what is new?
    found |= dict.fromkeys(crowd, links(*crowd))
    for path, body in found.items():
        name = path.partition("?")[0].replace("%20", " ")
        file = top / (name + "index.html" if name.endswith("/") else name)[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    return found


def whole_site() -> None:
    with tempfile.TemporaryDirectory() as name, serving([SERVER, "0", name]) as server:
        found = site(Path(name), server.port)
        pages = [line(path, body) for path, body in found.items()]
        total = sum(map(len, found.values()))
        broken = line("/missing", None, " (linked from /)")
        for connections in ("1", "16", "400"):
            check(
                f"{connections} connections",
                crawl(server.port, connections),
                (1, sorted([*pages, broken]), f"{len(found) + 1} pages, {total} bytes, 1 broken"),
            )
        (Path(name) / "missing").touch()
        status, lines, last = crawl(server.port)
        check("nothing is broken", (status, line("/missing", b"") in lines), (0, True))
        check("last line", last, f"{len(found) + 1} pages, {total} bytes, 0 broken")
        check("one page", crawl(server.port, path="/here.html")[0], 0)


class Misbehaving:
    """Answers with what it is given, a connection at a time in a thread; counts how many there
    are at once, and keeps each until `at_once` have been there or nobody else comes."""

    def __init__(self, replies: dict[str, bytes], at_once: int = 1) -> None:
        self.replies = replies
        self.at_once = at_once
        self.now = self.most = 0
        self.changed = threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        request = connection.recv(65536).decode()
        path = request.split()[1]
        with self.changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            if path != "/":
                self.changed.wait_for(lambda: self.most >= self.at_once, LIMIT_S)
                time.sleep(0.01)  # would one more come?
            self.now -= 1
        connection.sendall(self.replies[path])
        connection.close()


def ok(body: bytes, length: int | None = None) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length or len(body)}\r\n\r\n".encode() + body


def bounded() -> None:
    """So many at once as is said, and no more."""
    pages = [f"/{n}.html" for n in range(60)]
    server = Misbehaving({"/": ok(links(*pages))} | dict.fromkeys(pages, ok(b"x")), 7)
    status, lines, _ = crawl(server.port, "7")
    check("pages", (status, len(lines)), (0, 61))
    check("connections at once", server.most, 7)


def bad_replies() -> None:
    server = Misbehaving(
        {
            "/": ok(links("/early", "/nothing", "/nonsense", "/error", "/bare", "/nul.html")),
            "/early": ok(b"12345", 9),
            "/nothing": b"",
            "/nonsense": b"220 mail.example ready\r\n\r\n",
            "/error": b"HTTP/1.0 500 Oh\r\n\r\n",
            "/bare": b"HTTP/1.0 200 OK\r\n\r\nwithout a length",
            "/nul.html": ok(b"\0<a href='\0\r\n'>" + b"href=" * 100),
            "/%00%0D%0A": ok(b""),
        }
    )
    _, lines, last = crawl(server.port)
    got = {re.split(r"[ :]", text[14:])[0]: text for text in lines}
    check("pages", set(got), set(server.replies))
    for path, word in (
        ("/early", "the reply ends early (linked from /)"),
        ("/nothing", "no HTTP reply"),
        ("/nonsense", "no HTTP reply"),
        ("/error", "500 "),
        ("/bare", "200        16 /bare"),
    ):
        check(path, word in got[path], True)
    check("last line", last.endswith(", 4 broken"), True)


whole_site()
bounded()
bad_replies()
with socket.create_server(("127.0.0.1", 0)) as closed:
    port = closed.getsockname()[1]
check("nobody there", crawl(port)[1], ["  0         0 /: connect: Connection refused"])
unprinted([PROGRAM, f"http://127.0.0.1:{port}/"])
refused([PROGRAM], "usage")
for bad in ("0", "x", "10001"):
    refused([PROGRAM, "http://127.0.0.1/", bad], "usage", "1 to 10000")
for url in ("ftp://127.0.0.1/", "127.0.0.1", "http://"):
    refused([PROGRAM, url], url, "give http://HOST[:PORT][/PATH]")
refused([PROGRAM, "http://127.0.0.1:x/"], "127.0.0.1:x")
