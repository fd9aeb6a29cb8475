# SPDX-License-Identifier: Apache-2.0
"""compress_folder.py PROGRAM: examples/compress_folder.c keeps every byte of a folder, and
leaves nothing half written when there is no room."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from server import LIMIT_S, check, refused, unprinted

PROGRAM = sys.argv[1]


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


with tempfile.TemporaryDirectory() as name:
    top = Path(name)
    source = top / "from"
    (source / "a" / "b").mkdir(parents=True)
    (source / "none").mkdir()
    contents = {f"a/b/{n}": f"file {n}\n".encode() * n for n in range(300)}
    contents["noise"] = random.Random(1).randbytes(1_000_000)
    contents["zeros"] = bytes(5_000_000)
    contents["a/32768"] = random.Random(2).randbytes(32768)
    for path, data in contents.items():
        (source / path).write_bytes(data)
    (source / "loop").symlink_to(".")

    for level in ([], ["1"], ["9"]):
        to = top / ("to" + "".join(level))
        done = subprocess.run(
            [PROGRAM, str(source), str(to), *level],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        check("result", (done.returncode, done.stderr), (0, ""))
        check("names", files(to), {f"{path}.gz" for path in contents})
        check("empty folder", (to / "none").is_dir(), True)
        for path, data in contents.items():
            check(path, gzip.decompress((to / f"{path}.gz").read_bytes()), data)
        packed = sum((to / f"{path}.gz").stat().st_size for path in contents)
        total = sum(map(len, contents.values()))
        check("counts", done.stdout, f"{len(contents)} files, {total} bytes to {packed}\n")

    # No room: as on a full disk, a write ends early and the next one fails.
    to = top / "full"
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 100 && exec "$@"', "sh", PROGRAM, str(source), str(to)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        restore_signals=False,  # SIGXFSZ stays ignored
    )
    check("full", done.returncode, 1)
    check("full", "noise: File too large" in done.stderr, True)
    check("full", "not all was compressed" in done.stderr, True)
    for path in files(to):  # whole or not there
        check(path, gzip.decompress((to / path).read_bytes()), contents[path[:-3]])
    check("full", (to / "noise.gz").exists(), False)

    unprinted([PROGRAM, str(source), str(top / "unsaid")])
    refused([PROGRAM], "usage")
    refused([PROGRAM, str(source), str(top / "new"), "x"], "level from 1 to 9")
    refused([PROGRAM, str(top / "missing"), str(top / "new")], "missing", "No such file")
    refused([PROGRAM, str(source / "noise"), str(top / "new")], "noise", "Not a directory")
    refused([PROGRAM, str(source), str(top / "to")], "/to", "File exists")
    refused([PROGRAM, str(source), str(source / "inside")], "inside of", "never end")
    check("left", (source / "inside").exists(), False)
