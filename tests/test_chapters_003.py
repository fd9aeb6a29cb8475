# SPDX-License-Identifier: Apache-2.0
"""The chapters of study 003: figures, tables and terminal of samples made for them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_003 import contending, handing, ticking, timed, waking
from rich.console import Console
from synthetic import Scene, failed

from swtch.experiments import get
from swtch.report.chapters import chapter
from swtch.report.story import Story, tell
from swtch.report.tables import Table

Where = Mapping[str, Any]

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}


def scaling(where: Where) -> Scene:
    scene = Scene()
    for kind, ms in (("pthread", 110), ("uthread", 55), ("alone", 50)):
        for threads in (10_000, 20_000):
            timed(scene, kind, threads, 1, ms * threads / 10_000, n=6, where=where)
    return scene


def preemption(where: Where) -> Scene:
    scene = Scene()
    for us in (1000, 10_000):
        for source in ("worker", "process"):
            ticking(scene, us, source, 0.98, n=6, where=where)
    return scene


def starvation(where: Where) -> Scene:
    scene = Scene()
    for loops in (1, 8):
        for case, ms in (("pthread", 1.0), ("uthread", 2.0), ("go", 20.0)):
            waking(scene, case, ms, loops=loops, n=6, where=where)
    for case in ("nobody", "many pthreads", "many uthreads"):
        waking(scene, case, 1.0, part="neighbours", n=6, where=where)
    return scene


def locks(where: Where) -> Scene:
    scene = Scene()
    for lock, waste in (("mutex", 0.1), ("naive", 2.0)):
        for place in ("same", "other"):
            handing(scene, lock, waste, place=place, n=6, where=where)
    for lock in ("mutex", "inherit"):
        handing(scene, lock, 0.0, mode="inversion", n=6, where=where)
    for place in ("same", "other"):
        contending(scene, "mutex", 9.0, place=place, n=6, where=where)
    return scene


# Of each experiment: its samples, the figures they make, and what its table says.
CHAPTERS: dict[str, tuple[Callable[[Where], Scene], list[str], str]] = {
    "uthread-scaling": (scaling, ["fig-scaling-time", "fig-scaling-overhead"], "10 000 x 100 000"),
    "preemption": (
        preemption,
        [
            "fig-preemption-gap",
            "fig-preemption-tail",
            "fig-preemption-overhead",
            "fig-preemption-period",
        ],
        "chain",
    ),
    "starvation": (
        starvation,
        ["fig-starvation-main-1", "fig-starvation-main-8", "fig-starvation-neighbours"],
        "20 000 pthreads",
    ),
    "locks": (
        locks,
        ["fig-locks-waste", "fig-locks-inversion", "fig-locks-contend"],
        "uthread: exchange loop",
    ),
}


def told(scene: Scene, path: Path) -> Story:
    return tell(scene.write(path / "run"))


def tables(name: str, story: Story, scene: Scene) -> list[Table]:
    """Those of what was measured; each trial is in one of them, once."""
    made = [one for one in chapter(name).tables(story) if not one.caption.startswith("Published")]
    rows = [row for one in made for row in one.rows if not row.cells[0].startswith("go: not")]
    assert len(rows) == len(scene.trials)
    return made


def shown(name: str, story: Story) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    for one in chapter(name).terminal(story):
        console.print(one)
    return console.export_text()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", CHAPTERS)
def test_everything_measured_is_shown(name: str, place: str, tmp_path: Path) -> None:
    make, ids, said = CHAPTERS[name]
    scene = make(PLACES[place])
    story = told(scene, tmp_path)
    figures = chapter(name).figures(story)
    suffix = {"native": "", "vm": "-vm-6_1-amd64", "exact": "-exact-6_1-amd64"}[place]
    assert [one.id for one in figures] == [known + suffix for known in ids]
    for one in figures:
        assert one.svg.startswith("<svg") and one.title and one.caption
        assert "NaN" not in one.svg and "nan" not in one.description
        assert (place == "native") == ("6.1-amd64" not in one.title)
    measured = tables(name, story, scene)
    assert any(said in cell for table in measured for row in table.rows for cell in row.cells)
    for table in measured:
        assert all(len(row.cells) == len(table.columns) for row in table.rows)
        unit = "instructions" if place == "exact" else "s"
        assert any(unit in column for column in table.columns)
    assert said in shown(name, story)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_run_without_good_samples_has_no_figure(name: str, tmp_path: Path) -> None:
    scene = Scene()
    for one in CHAPTERS[name][0]({}).trials:
        scene.add(one, [failed(one)] * 3)
    story = told(scene, tmp_path)
    assert chapter(name).figures(story) == []
    for table in tables(name, story, scene):
        assert all(any("3 failed" in cell for cell in row.cells) for row in table.rows)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_run_of_nothing_is_shown_as_such(name: str, tmp_path: Path) -> None:
    assert get(name).name == name
    story = told(Scene(), tmp_path)
    assert chapter(name).figures(story) == []
    assert shown(name, story).strip() == ""


def test_a_run_without_go_says_so(tmp_path: Path) -> None:
    scene = waking(Scene(), "pthread", 1.0, loops=1)
    story = told(scene, tmp_path)
    *rows, last = chapter("starvation").tables(story)[0].rows
    assert len(rows) == 1 and last.cells[0].startswith("go: not measured")
    assert "golang-go" in last.cells[0]
    assert "go: not measured" in shown("starvation", story)
    guest = told(waking(Scene(), "pthread", 1.0, loops=1, where=PLACES["vm"]), tmp_path / "vm")
    assert len(chapter("starvation").tables(guest)[0].rows) == 1
