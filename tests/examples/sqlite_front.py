# SPDX-License-Identifier: Apache-2.0
"""sqlite_front.py PROGRAM: what examples/sqlite_front.c says is stored is stored, once, also
with another writer at the database."""

from __future__ import annotations

import http.client
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path

from server import LIMIT_S, check, refused, serving

PROGRAM = sys.argv[1]
CLIENTS, NOTES = 16, 8


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    client.request(method, path, body)
    reply = client.getresponse()
    result = reply.status, reply.read()
    client.close()
    return result


with tempfile.TemporaryDirectory() as name:
    file = Path(name) / "notes.db"
    stored: dict[int, bytes] = {}
    failed: list[object] = []

    refused([PROGRAM], "usage")
    refused([PROGRAM, "0", str(Path(name) / "none" / "notes.db")], "unable to open")
    (Path(name) / "text").write_text("this is no database, " * 100)
    refused([PROGRAM, "0", str(Path(name) / "text")], "not a database")

    def write(port: int, which: int) -> None:
        for n in range(NOTES):
            body = f"{which}.{n}\0'; DROP TABLE notes".encode()
            status, number = ask(port, "POST", "/notes", body)
            if status != 201 or int(number) in stored:
                failed.append((status, number))
            else:
                stored[int(number)] = body

    with serving([PROGRAM, "0", str(file)]) as server:
        clients = [threading.Thread(target=write, args=(server.port, n)) for n in range(CLIENTS)]
        other = sqlite3.connect(file, timeout=LIMIT_S, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # they wait for it, and others may read
        for thread in clients:
            thread.start()
        check("read", ask(server.port, "GET", "/notes"), (200, b"0"))
        other.execute("COMMIT")
        other.close()
        for thread in clients:
            thread.join()
        check("failed", failed, [])
        check("count", ask(server.port, "GET", "/notes"), (200, str(len(stored)).encode()))
        for number, body in stored.items():
            check("note", ask(server.port, "GET", f"/notes/{number}"), (200, body))
        check("empty", ask(server.port, "POST", "/notes", b"")[0], 201)
        for path in ("/notes/0", "/notes/99999", "/notes/", "/notes/x", "/notes/1x"):
            check(path, ask(server.port, "GET", path), (404, b""))
        check("method", ask(server.port, "DELETE", "/notes")[0], 405)
    with sqlite3.connect(file) as database:
        rows = dict(database.execute("SELECT id, text FROM notes WHERE text != x''"))
    check("stored", rows, stored)
