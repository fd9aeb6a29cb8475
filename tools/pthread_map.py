#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pthread_map.py [--check] [--library SO] [--libc SO]: docs/runtime/pthread-map.md.

The page says of each function of glibc's threads (pthread_*, sem_*, thrd_*, mtx_*, cnd_*,
tss_*, call_once) what stands for it here. It is made of tools/pthread-map.txt. Checked is that

- each function that this machine's libc exports has a line there, and none has two;
- each counterpart is declared in the public headers, and, given --library, exported by it.

--check writes nothing, and asks that the page is what would be written. Functions that only
other versions of glibc have keep their lines: nothing is asked about these.

Ends with 0, or with 1 after one line for each failure. Rejected: reading glibc's headers for
the names (macros and inline functions hide some, and another libc's would be read as well).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools" / "pthread-map.txt"
PAGE = ROOT / "docs" / "runtime" / "pthread-map.md"
INCLUDE = ROOT / "libuthread" / "include"

FAMILIES = re.compile(r"(?:(?:pthread|sem|thrd|mtx|cnd|tss)_\w+|call_once)\Z")
HEAD = """# glibc's threads and ours

<!-- Made by tools/pthread_map.py from tools/pthread-map.txt: change that. -->

Every function of pthreads, POSIX semaphores and C11 threads that glibc exports, what stands
for it, and what differs. Where nothing is said nothing does. An empty second column: there is
none, and the third says why. [Moving a program over](porting.md) has what that takes;
[cancellation](cancellation.md), [synchronisation](sync.md) and [signals](porting.md#signals)
have the rules.
"""


@dataclass(frozen=True)
class Row:
    line: int
    name: str
    counterparts: tuple[str, ...]
    differs: str


@dataclass(frozen=True)
class Prose:
    text: str


def parse(text: str) -> Iterator[Row | Prose]:
    """The table's lines, and between them headings and sentences."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or (line.startswith("#") and not line.startswith("##")):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 1:
            yield Prose(line)
            continue
        if len(fields) != 3:
            raise ValueError(f"{TABLE.name}:{number}: not `function | counterpart | differences`")
        name, here, differs = fields
        if here == "=":
            here = "u" + name.removeprefix("p")
        counterparts = () if here == "-" else tuple(each.strip() for each in here.split(","))
        yield Row(number, name, counterparts, differs)


def page(items: list[Row | Prose]) -> str:
    lines = [HEAD]
    in_table = False
    for item in items:
        if isinstance(item, Prose):
            lines += [""] * in_table + [item.text, ""]
            in_table = False
            continue
        if not in_table:
            lines += ["| glibc | here | differs |", "|---|---|---|"]
            in_table = True
        here = ", ".join(f"`{name}`" for name in item.counterparts)
        lines.append(f"| `{item.name}` | {here} | {item.differs} |".replace("|  |", "| |"))
    return "\n".join(lines).rstrip("\n") + "\n"


def declared() -> set[str]:
    """Functions and macros of the public headers."""
    found: set[str] = set()
    for header in INCLUDE.rglob("*.h"):
        code = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.DOTALL)
        found |= set(re.findall(r"\b(uthread_\w+)\(", code))
    return found


def macros() -> set[str]:
    found: set[str] = set()
    for header in INCLUDE.rglob("*.h"):
        found |= set(re.findall(r"#define (uthread_\w+)\(", header.read_text(encoding="utf-8")))
    return found


def exported(library: Path) -> set[str]:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    return {
        fields[2].partition("@")[0]
        for fields in map(str.split, done.stdout.splitlines())
        if len(fields) == 3
    }


def find_libc() -> Path:
    """The one that this program runs with."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = line.partition("/")[2]
        if re.search(r"/libc(\.so|-)[^/]*\Z", "/" + path):
            return Path("/" + path)
    raise FileNotFoundError("no libc.so among this process's libraries; name one with --libc")


def failures(rows: list[Row], libc: set[str], library: set[str] | None) -> Iterator[str]:
    known: set[str] = set()
    public, as_macros = declared(), macros()
    for row in rows:
        where = f"{TABLE.name}:{row.line}: {row.name}"
        if row.name in known:
            yield f"{where} has another line; keep one"
        known.add(row.name)
        if not row.counterparts and not row.differs:
            yield f"{where} has no counterpart; say why"
        for name in row.counterparts:
            if name not in public:
                yield f"{where}: {name}() is in no public header"
            elif library is not None and name not in library | as_macros:
                yield f"{where}: {name}() is not exported"
    for name in sorted(filter(FAMILIES.match, libc - known)):
        yield f"{TABLE.name}: no line for {name}(), which libc exports; add one"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="docs/runtime/pthread-map.md")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--library", dest="uthread", type=Path, help="libuthread.so")
    parser.add_argument("--libc", type=Path, help="libc.so.6; default: that of this program")
    options = parser.parse_args(arguments)
    try:
        items = list(parse(TABLE.read_text(encoding="utf-8")))
    except ValueError as error:
        print(error)
        return 1
    rows = [item for item in items if isinstance(item, Row)]
    libc = exported(options.libc or find_libc())
    library = exported(options.uthread) if options.uthread else None
    problems = list(failures(rows, libc, library))
    text = page(items)
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        problems.append(f"{PAGE.relative_to(ROOT)} is not up to date: run tools/pthread_map.py")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
