# SPDX-License-Identifier: Apache-2.0
"""Runs of older schemas: what swtch wrote once it reads for good.

``data/run-schema-N`` is a run directory as the swtch of that schema wrote it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from swtch import store, upgrade
from swtch.records import SCHEMA, Manifest
from swtch.report import story

DATA = Path(__file__).parent / "data"
OLD = sorted(DATA.glob("run-schema-*"))


def test_there_is_a_run_of_every_older_schema() -> None:
    assert [int(path.name.rpartition("-")[2]) for path in OLD] == list(range(1, SCHEMA))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_an_old_run_is_read_whole(path: Path) -> None:
    run = store.load(path)
    assert run.complete
    assert run.manifest.schema == SCHEMA
    assert {sample.schema for sample in run.samples} == {SCHEMA}
    told = story.tell(path)
    assert told.findings[0].intervals["throughput_mops"].n == 5
    assert any(verdict.verdict == "holds" for verdict in told.verdicts)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_an_old_run_is_resumed_and_its_lines_stay(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(path, copy)
    before = (copy / store.SAMPLES).read_bytes()
    lines = before.splitlines(keepends=True)
    (copy / store.SAMPLES).write_bytes(b"".join(lines[:-1]))
    last = store.load(path).samples[-1]
    with store.Writer.resume(copy) as writer:
        writer.add(last)
    after = (copy / store.SAMPLES).read_bytes()
    assert after.startswith(b"".join(lines[:-1]))
    assert store.load(copy).samples[-1] == last


@pytest.mark.parametrize(("quick", "depth"), [(True, "quick"), (False, "normal")])
def test_quick_became_depth(quick: bool, depth: str) -> None:
    assert upgrade.record({"schema": 1, "quick": quick}, Manifest) == {
        "schema": SCHEMA,
        "depth": depth,
    }


def test_a_broken_old_manifest_is_told_as_any_other(tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(OLD[0], copy)
    broken = msgspec.json.decode((copy / store.MANIFEST).read_bytes())
    del broken["quick"]
    (copy / store.MANIFEST).write_bytes(msgspec.json.encode(broken))
    with pytest.raises(store.CorruptError, match="missing required field `depth`"):
        store.load(copy)
