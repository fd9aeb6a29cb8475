# SPDX-License-Identifier: Apache-2.0
"""Text of a run as people may see it: nothing in it steers a terminal or turns a line round.

A run directory is a file from somewhere else: errors come from programs, ids and
notes from whoever wrote the manifest. ``run`` is applied once, where a story begins,
so that no form of report has to think of it; the samples a report carries as data
stay as they are.

Rejected: cleaning where text is printed (each new table would be a new hole).
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from swtch.store import Run

T = TypeVar("T", bound=msgspec.Struct)

_LINE_ENDS = "\t\n\v\f\r\x85\u2028\u2029"
# Controls (C0, DEL, C1) and what reorders a line of text.
_UNSEEN = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_BAD = re.compile(f"[{_UNSEEN}]")
# The same in JSON, where C0 is written with a backslash.
_BAD_IN_JSON = re.compile(rf"\\[bfnrt]|\\u00[01]|[{_UNSEEN}]")


def text(line: str, keep: str = "") -> str:
    """`line` with controls as pictures (ESC is ␛) and line ends as spaces, but for `keep`."""

    def picture(match: re.Match[str]) -> str:
        char = match[0]
        if char in keep:
            return char
        if char in _LINE_ENDS:
            return " "
        if char == "\x7f":
            return "\u2421"
        return chr(0x2400 + ord(char)) if char < " " else "\ufffd"

    return _BAD.sub(picture, line)


def run(stored: Run) -> Run:
    """`one` with all its text legible; the environment keeps its line ends."""
    manifest = stored.manifest
    return msgspec.structs.replace(
        stored,
        manifest=msgspec.structs.replace(
            manifest,
            run_id=text(manifest.run_id),
            created=text(manifest.created),
            swtch_version=text(manifest.swtch_version),
            command=tuple(map(text, manifest.command)),
            trials=tuple(map(_struct, manifest.trials)),
            environment=_value(manifest.environment, "\t\n"),
        ),
        samples=tuple(map(_struct, stored.samples)),
    )


def _struct(struct: T) -> T:
    if not _BAD_IN_JSON.search(msgspec.json.encode(struct).decode()):
        return struct
    return msgspec.convert(_value(msgspec.to_builtins(struct)), type(struct))


def _value(value: Any, keep: str = "") -> Any:
    if isinstance(value, str):
        return text(value, keep)
    if isinstance(value, dict):
        return {text(str(key)): _value(inner, keep) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(inner, keep) for inner in value]
    return value
