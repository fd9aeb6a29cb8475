# SPDX-License-Identifier: Apache-2.0
"""A run's report in all its forms, as a test reads them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import page
from markdown_it import MarkdownIt
from rich.console import Console

from swtch import report, store
from swtch.records import Finding, Interval, Verdict
from swtch.report.story import tell


class Control(msgspec.Struct, forbid_unknown_fields=True):
    a: str
    b: str
    ratio: Interval
    differs: bool


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """report.json, field by field: also what may not be null."""

    schema: int
    run_id: str
    created: str
    swtch_version: str
    engine: str
    seed: int
    complete: bool
    elsewhere: str
    headline: str
    levels: dict[str, float]
    counts: dict[str, dict[str, int]]
    highlights: list[str]
    verdicts: list[Verdict]
    findings: list[Finding]
    said: dict[str, list[str]]
    controls: list[Control]
    false_positives: dict[str, int]
    contradictions: list[dict[str, Any]]
    neighbours: dict[str, float | None]
    notes: list[str]
    environment: dict[str, Any]


class Written:
    """A run and its report in all forms, each read by a program."""

    def __init__(self, path: Path) -> None:
        self.path = path
        files = report.write(path)
        assert [file.name for file in files] == ["report.html", "report.md", "report.json"]
        self.html, self.md, self.json = (file.read_text(encoding="utf-8") for file in files)
        self.page = page.read(self.html)
        markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self.from_md = page.read(markdown.render(self.md).replace("<br />", "<br>"))
        self.report = msgspec.json.decode(self.json, type=Report)
        self.run = store.load(path)
        self.story = tell(path)


def terminal(path: Path, width: int = 80) -> str:
    file = io.StringIO()
    report.print_run(path, Console(file=file, width=width, markup=False))
    return file.getvalue()
