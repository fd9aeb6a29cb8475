# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of every record that is written: docs/schema.json is this, printed.

    python -m swtch.schema > docs/schema.json

A test fails when the two differ. ``manifest.json`` is a Manifest, a line of
``samples.jsonl`` a Sample; findings and verdicts are in ``report.json``.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from swtch import records

TYPES = (
    records.Manifest,
    records.Sample,
    records.Finding,
    records.Verdict,
    records.Published,
)


def document() -> dict[str, Any]:
    """The schema of all records, by name below ``$defs``."""
    _, components = msgspec.json.schema_components(TYPES, ref_template="#/$defs/{name}")
    for schema in components.values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The records of swtch, schema {records.SCHEMA}",
        "$defs": dict(sorted(components.items())),
    }


def text() -> str:
    """As it stands in the file."""
    encoded = msgspec.json.encode(document())
    return msgspec.json.format(encoded, indent=1).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
