# SPDX-License-Identifier: Apache-2.0
"""Records of older schemas as those of this one: a run stays readable for good.

A step takes a record of one schema to the next; a record goes through all steps
that lie between its own and ours. Old files are never rewritten.

    1 -> 2   a manifest's ``quick`` became ``depth``

Rejected: one reader per schema (each would have to be kept in step with all of the
analysis), rewriting on first use (a run may be on a medium that cannot be written).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from swtch.records import SCHEMA, Manifest

Record = dict[str, Any]


def record(old: Record, kind: type) -> Record:
    """`old`, decoded and not yet checked, in the form that `kind` has today."""
    new = dict(old)
    for schema in range(max(1, int(new.get("schema", 1))), SCHEMA):
        step = _STEPS.get((schema, kind))
        if step is not None:
            new = step(new)
    return new | {"schema": SCHEMA}


def _depth_for_quick(old: Record) -> Record:
    if "quick" not in old:
        return old
    new = {name: value for name, value in old.items() if name != "quick"}
    return {**new, "depth": "quick" if old["quick"] else "normal"}


_STEPS: Mapping[tuple[int, type], Callable[[Record], Record]] = {
    (1, Manifest): _depth_for_quick,
}
