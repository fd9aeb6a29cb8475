#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rooms.py [--list] [ROOT]: that calls go one way, from the source text alone.

A tree is a folder of rooms, declared in TREES from the lowest up. A room is a folder of
the tree, or all files of one stem (run.c and run.h: `run`). Checked is that

- every file is in a room;
- an include names a file of the same room or of a lower one;
- what a room's header declares is defined in that room, if it is in the tree at all;
- a function or an object of another room is used only by rooms above it.

Any use of the name counts, so the address of a function is as good as a call of it.
What goes up goes through a hook: a pointer declared below and set above, whose use is one
of the room that declares it. An exception is a line in `declared`, with its reason; one
that nobody needs any more is a failure too.

The text is C in the kernel's style: what is defined begins in the first column, and
so does the brace of a function's body. Rejected: looking into objects (needs a build of
each architecture, does not see what was inlined), a parser (needs one).

Ends with 0, or with 1 after one line for each failure. --list prints who uses what.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Tree:
    folder: str
    # The lowest first. Rooms on one floor do not know each other.
    floors: Sequence[Sequence[str]]
    # Folders of the tree that are none of its rooms.
    apart: Sequence[str] = ()
    # (file, name it uses or header it includes) -> why it may.
    declared: Mapping[tuple[str, str], str] = field(default_factory=dict)


TREES = (
    Tree(
        "libuthread/src",
        (
            ("base",),
            ("stack",),
            ("tls",),
            ("sched",),
            ("preempt",),
            ("signals",),
            ("sync",),
            ("io",),
            ("process",),
            ("thread",),
            ("chan",),
            ("coroutine",),
        ),
        declared={
            ("tls/own_stack.c", "pthread_getattr_np"): "libc's, of a pthread of our own",
            ("process/worker.c", "pthread_getattr_np"): "libc's, which thread only stands in for",
            ("process/main_thread.c", "pthread_getattr_np"): "libc's: main is no uthread yet",
            ("stack/stack.c", "write"): "libc's, before which preempt/calls_socket.c stands",
            ("stack/stack.c", "close"): "libc's, before which io/close.c stands",
            ("preempt/monitor.c", "close"): "libc's, before which io/close.c stands",
        },
    ),
    Tree(
        "probes",
        (
            ("base",),
            ("measure",),
            ("models", "plugin"),
            ("io", "running", "switching", "waiting"),
            ("main",),
        ),
        apart=("guest", "paths", "plain", "tests"),
    ),
    Tree(
        "kthread_perf",
        (
            ("histogram", "compat", "json", "trace"),
            ("kperf",),
            ("params", "peer"),
            ("run",),
            ("crew",),
            ("overhead",),
            ("loop", "pair", "interrupt"),
            ("supervisor",),
            ("samples",),
            ("control", "stats"),
            ("main", "kunit"),
        ),
        apart=("build", "tests"),
    ),
)

_NOT_CODE = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""",
    re.DOTALL | re.VERBOSE,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_PARENS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_ATTRIBUTE = re.compile(rf"\b(?:__attribute__|_Alignas|alignas)\s*{_PARENS}[ \t]*")
# A function's body, from the brace in the first column to the other.
_BODY = re.compile(r"^\{.*?^\}", re.DOTALL | re.MULTILINE)
# What stands in the first column, up to the end of its declarator.
_FUNCTION = re.compile(rf"^(\w[\w\s*]*?)\b(\w+)\s*{_PARENS}[\s\w]*([;\0])", re.MULTILINE)
_OBJECT = re.compile(r"^(\w[\w \t*]*[ \t*])(\w+)(?:\[[^\]]*\])*\s*(?:=|;)", re.MULTILINE)
_ANONYMOUS = re.compile(r"^\}[ \t*]*(\w+)(?:\[[^\]]*\])*\s*(?:=|;)", re.MULTILINE)
_POINTER = re.compile(r"^(\w[\w \t*]*)\(\*(?:const )?(\w+)(?:\[[^\]]*\])*\)\s*\(", re.MULTILINE)
# A parameter or a variable of a function: a type, and a name that is not called.
_LOCAL = re.compile(
    r"\b(?!(?:return|else|case|goto|struct|union|enum)\b)[A-Za-z_]\w*[ \t]+\**(\w+)(?=\s*[,;=)\[])"
)
_EXTERN = re.compile(r"\bextern\b[^;{]*;")
_NAME = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
_TAG = re.compile(r"\b(?:struct|union|enum|goto)[ \t]+\w+")
_GLOBAL = re.compile(r"^\s*\.globa?l\s+(\w+)", re.MULTILINE)


def _newlines(match: re.Match[str]) -> str:
    """Nothing, on as many lines."""
    return "\n" * match[0].count("\n")


def _blank(match: re.Match[str]) -> str:
    return " " + _newlines(match)


class Source:
    """One file: what it includes, defines, declares and uses."""

    def __init__(self, path: Path, name: str, room: str) -> None:
        text = path.read_text(encoding="utf-8")
        self.name, self.room, self.header = name, room, path.suffix == ".h"
        # Of includes the string is wanted, so before strings go.
        bare = re.sub(r"/\*.*?\*/", _blank, text, flags=re.DOTALL)
        self.includes = [(_line(bare, m.start()), m[1]) for m in _INCLUDE.finditer(bare)]
        bare = _NOT_CODE.sub(_blank, text)
        bare = re.sub(r"^[ \t]*#[ \t]*include[^\n]*", "", bare, flags=re.MULTILINE)
        self.defines: set[str] = set()
        self.own: set[str] = set()  # what nobody else sees
        self.declares: dict[str, int] = {}
        if path.suffix == ".S":
            self.defines = set(_GLOBAL.findall(bare))
        else:
            self._outside(_ATTRIBUTE.sub(_newlines, _DIRECTIVE.sub(_newlines, bare)))
            self.own.update(_LOCAL.findall(_EXTERN.sub(" ", bare)))
        if self.header:
            bare = "".join(_bodies_and_macros(bare))
        self.uses = _uses(bare)

    def _outside(self, text: str) -> None:
        """What stands in the first column, with bodies shrunk to a mark."""
        text = _BODY.sub(lambda m: "\0" + _newlines(m), text)
        self.own.update(_ANONYMOUS.findall(text))
        for found in _FUNCTION.finditer(text):
            words = found[1].split()
            if not words or words[0] == "typedef":
                continue
            if found[3] == ";":
                self.declares.setdefault(found[2], _line(text, found.start(2)))
            elif "static" in words and not self.header:
                self.own.add(found[2])
            else:
                self.defines.add(found[2])
        for pattern in (_OBJECT, _POINTER):
            for found in pattern.finditer(text):
                words = found[1].replace("*", " ").split()
                if words[0] == "typedef" or words in (["struct"], ["union"], ["enum"]):
                    continue
                if words[0] == "extern":
                    self.declares.setdefault(found[2], _line(text, found.start(2)))
                elif "static" in words:
                    self.own.add(found[2])
                else:
                    self.defines.add(found[2])


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _bodies_and_macros(text: str) -> Iterator[str]:
    """Of a header what is code, with everything else blank; lines stay where they are."""
    at = 0
    spans = [m.span() for m in _BODY.finditer(text)]
    spans += [m.span() for m in _DIRECTIVE.finditer(text) if "define" in m[0].split("\n")[0]]
    for begin, end in sorted(spans):
        if begin < at:
            continue
        yield "\n" * text.count("\n", at, begin) + text[begin:end]
        at = end


def _uses(text: str) -> dict[str, list[int]]:
    """Each name and its lines; not members, tags and labels."""
    uses: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(_TAG.sub(" ", text).split("\n"), 1):
        for name in _NAME.findall(line):
            uses[name].append(number)
    return uses


@dataclass
class Findings:
    failures: list[str]
    listing: list[str]


def check(root: Path, tree: Tree) -> Findings:
    top = root / tree.folder
    floor_of = {room: number for number, rooms in enumerate(tree.floors) for room in rooms}
    failures: list[str] = []
    sources: dict[str, Source] = {}
    for path in sorted(top.rglob("*.[chS]")):
        name = path.relative_to(top).as_posix()
        first = name.split("/")[0]
        if first in tree.apart:
            continue
        room = first if "/" in name else path.stem
        if room in floor_of:
            sources[name] = Source(path, name, room)
        else:
            failures.append(f"{tree.folder}/{name}: it is in none of the tree's rooms")
    there = {source.room for source in sources.values()}
    failures += [f"{tree.folder}: it has no room {room}" for room in floor_of if room not in there]

    owners: dict[str, set[str]] = defaultdict(set)
    for source in sources.values():
        for name in source.defines:
            owners[name].add(source.room)
    needed: set[tuple[str, str]] = set()

    def may(source: Source, name: str, rooms: set[str]) -> bool:
        mine = floor_of[source.room]
        if any(room == source.room or floor_of[room] < mine for room in rooms):
            return True
        needed.add((source.name, name))
        return (source.name, name) in tree.declared

    counts: dict[str, Counter[str]] = {room: Counter() for room in floor_of}
    for source in sources.values():
        where = f"{tree.folder}/{source.name}"
        for line, header in source.includes:
            beside = (Path(source.name).parent / header).as_posix()
            target = sources.get(header) or sources.get(beside)
            if target and not may(source, header, {target.room}):
                failures.append(
                    f"{where}:{line}: {source.room} includes {header},"
                    f" and {target.room} is not below"
                )
        for name, line in source.declares.items():
            rooms = owners.get(name)
            if source.header and "/" in source.name and rooms and source.room not in rooms:
                failures.append(
                    f"{where}:{line}: {source.room} declares {name}, which {_some(rooms)} defines"
                )
        for name, lines in source.uses.items():
            rooms = owners.get(name)
            if not rooms or name in source.own or source.room in rooms:
                continue
            if may(source, name, rooms):
                below = max(rooms, key=floor_of.__getitem__)
                counts[source.room][below] += len(lines)
                continue
            failures.append(
                f"{where}:{lines[0]}: {source.room} uses {name},"
                f" and {_some(rooms)}, where it is, is not below"
            )
    failures += [
        f"{tree.folder}/{name}: need not be declared any more: {what}"
        for name, what in tree.declared
        if (name, what) not in needed
    ]
    return Findings(failures, list(_listing(tree, counts, sources.values(), owners)))


def _some(rooms: set[str]) -> str:
    return " or ".join(sorted(rooms))


def _listing(
    tree: Tree,
    counts: Mapping[str, Counter[str]],
    sources: Iterable[Source],
    owners: Mapping[str, set[str]],
) -> Iterator[str]:
    """A line a room, the highest first: the rooms it uses, and how often."""
    yield f"{tree.folder}, the highest room first: which it uses, at how many places"
    floors = [room for rooms in tree.floors for room in rooms]
    width = max(map(len, floors))
    for rooms in reversed(tree.floors):
        for room in rooms:
            used = [f"{low} {counts[room][low]}" for low in reversed(floors) if counts[room][low]]
            yield f"  {room:{width}}  {'  '.join(used) or '-'}"
    for hook in sorted(name for name in owners if name.endswith(("_hook", "_hooks"))):
        users = {source.room for source in sources if hook in source.uses} - owners[hook]
        yield f"  {hook}: {_some(owners[hook])} has it, {_some(users) or 'nobody'} sets it"
    for (name, what), why in tree.declared.items():
        yield f"  declared: {name} uses {what}: {why}"


def main(words: Sequence[str]) -> int:
    listing = "--list" in words
    roots = [Path(word) for word in words if word != "--list"] or [Path(__file__).parents[1]]
    if len(roots) > 1 or not roots[0].is_dir():
        print("usage: rooms.py [--list] [ROOT]", file=sys.stderr)
        return 2
    failed = False
    for tree in TREES:
        # A released tree may be without some of them.
        if not (roots[0] / tree.folder).is_dir():
            continue
        findings = check(roots[0], tree)
        if listing:
            print("\n".join(findings.listing))
        print("\n".join(findings.failures), end="\n" if findings.failures else "")
        failed = failed or bool(findings.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
