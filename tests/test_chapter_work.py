# SPDX-License-Identifier: Apache-2.0
"""The chapter of `work`: who the best peer is, losses beside wins, and both growths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from made_beyond import measured
from synthetic import Scene

from swtch.experiments import work
from swtch.records import Trial
from swtch.report.chapters import chapter
from swtch.report.chapters import sentences as sentences_of
from swtch.report.story import tell

NS = {"uthread": 30.0, "go": 60.0, "cpp20": 5.0, "context": 40.0, "tokio": 50.0}


def working(one: Trial, factor: float) -> Mapping[str, float]:
    row = work.row_of(one)
    slow = 4 if (row.work, one.model) == ("mutex", "uthread") else 1
    ns = NS.get(one.model, 500.0) * factor * slow
    more = {"bytes": 4096.0} if row.work == "parked" else {}
    if row.work in work.LATE:
        return {"operations": 100, "late_p50_ns": ns, "late_p99_ns": 2 * ns, "late_max_ns": 3 * ns}
    return {"wall_ns": ns * 1000, "operations": 1000, "counter": 5, "expected": 5, **more}


def test_the_best_peer_has_a_stack_and_losses_are_said(tmp_path: Path) -> None:
    told = {"version": "1.2", "built": "cc -O2"}
    story = tell(measured(Scene(), "work", working, detail=told).write(tmp_path / "run"))
    said = {one.split(":")[0]: one for one in sentences_of(story, "work")}
    # Coroutines without a stack are faster in every row, and nobody's measure.
    assert not [one for one in said.values() if "best peer is C++20" in one]
    both = [one for one in said if one.startswith("uthread ")]
    assert len(both) == 2 and all(" rows, behind in 1, and in 0 " in one for one in both)
    assert "best peer is Boost.Context, 40.0" in said["yield, 2 threads"]
    assert "0.75" in said["yield, 2 threads"] and "behind" not in said["yield, 2 threads"]
    # Contexts alone have no mutex: the next best is compared with, and is ahead.
    assert "best peer is tokio, 50.0" in said["mutex"] and said["mutex"].count("behind") == 2
    table, versions = chapter("work").tables(story)
    assert ("GNU Pth", "1.2", "cc -O2") in [row.cells for row in versions.rows]
    first = [row.cells for row in table.rows if row.cells[0] == "mutex"]
    assert [cells[1] for cells in first][:2] == ["C++20 coroutine", "tokio"]


def test_growth_is_drawn_by_threads_and_by_workers(tmp_path: Path) -> None:
    story = tell(measured(Scene(), "work", working).write(tmp_path / "run"))
    drawn = [one.id for one in chapter("work").figures(story)]
    assert drawn[0] == "fig-work"
    for name in ("yield", "batch", "parked", "yield-workers", "create-workers", "channel-workers"):
        assert f"fig-work-{name}" in drawn
    assert {"fig-work-fibonacci-workers", "fig-work-contended-workers"} <= set(drawn)
