# SPDX-License-Identifier: Apache-2.0
"""The chapters of study 004: figures, tables and terminal of samples made for them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_004 import counting, direct, trials, uncounted, walking
from rich.console import Console
from synthetic import Scene, failed

from swtch.experiments import get
from swtch.report.chapters import chapter
from swtch.report.story import Story, tell
from swtch.report.tables import Table

Where = Mapping[str, Any]
NAMES = ("direct-cost", "working-set", "counters")

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}


def costs(where: Where) -> Scene:
    scene = Scene()
    for model, way, us in (
        ("process", "pipe", 1.6),
        ("pthread", "futex", 1.2),
        ("uthread", "locks", 0.03),
        ("coroutine", "yield", 0.02),
    ):
        direct(scene, model, way, us, n=6, where=where)
    return scene


def walks(where: Where) -> Scene:
    scene = Scene()
    for model, us in (("process", 1.6), ("uthread", 0.1)):

        def cost(size: int, _: int, us: float = us) -> float:
            return us + size / 1e5

        walking(scene, model, cost, n=5, where=where)
    return scene


def counts(where: Where) -> Scene:
    scene = Scene()
    for model, more in (("process", 40.0), ("uthread", 1.0)):

        def misses(mode: str, event: str, size: int, more: float = more) -> float:
            return size / 100 + (more if mode == "switch" else 0) + len(event)

        counting(scene, model, misses, n=5, where=where)
    return scene


# Of each experiment: its samples, the figures they make, and what its table says.
CHAPTERS: dict[str, tuple[Callable[[Where], Scene], list[str], str]] = {
    "direct-cost": (costs, ["fig-direct-cost"], "uthread: locks"),
    "working-set": (
        walks,
        [
            f"fig-working-set-{kind}-{model}"
            for model in ("process", "uthread")
            for kind in ("map", "curves")
        ],
        "32 KiB",
    ),
    "counters": (counts, ["fig-counters"], "32 KiB"),
}


def told(scene: Scene, path: Path) -> Story:
    return tell(scene.write(path / "run"))


def shown(name: str, story: Story) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    for one in chapter(name).terminal(story):
        console.print(one)
    return console.export_text()


def measured(name: str, story: Story) -> list[Table]:
    return [one for one in chapter(name).tables(story) if not one.caption.startswith("Published")]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", CHAPTERS)
def test_everything_measured_is_shown(name: str, place: str, tmp_path: Path) -> None:
    make, ids, said = CHAPTERS[name]
    scene = make(PLACES[place])
    story = told(scene, tmp_path)
    figures = chapter(name).figures(story)
    suffix = {"native": "", "vm": "-vm-6_1-amd64", "exact": "-exact-6_1-amd64"}[place]
    if name == "counters" and place == "exact":
        ids = [f"{known}-paper" for known in ids]
    assert [one.id for one in figures] == [known + suffix for known in ids]
    for one in figures:
        assert one.svg.startswith("<svg") and one.title and one.caption
        assert "NaN" not in one.svg and "nan" not in one.description
        assert (place == "native") == ("6.1-amd64" not in one.title)
    tables = measured(name, story)
    rows = [row for table in tables for row in table.rows]
    if name == "counters":
        # One row for each trial, and one for each of its cells.
        assert len(rows) == len(scene.trials) * (1 + 8)
    else:
        assert len(rows) == len(scene.trials)
    assert any(said in cell for row in rows for cell in row.cells)
    for table in tables:
        assert all(len(row.cells) == len(table.columns) for row in table.rows)
        unit = "instructions" if place == "exact" else "µs"
        assert any(unit in column for column in table.columns) or name == "counters"
    assert said in shown(name, story)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_run_without_good_samples_has_no_figure(name: str, tmp_path: Path) -> None:
    scene = Scene()
    for one in CHAPTERS[name][0]({}).trials:
        scene.add(one, [failed(one)] * 3)
    story = told(scene, tmp_path)
    assert chapter(name).figures(story) == []
    tables = measured(name, story)
    assert sum(len(table.rows) for table in tables) == len(scene.trials)
    for table in tables:
        assert all(any("3 failed" in cell for cell in row.cells) for row in table.rows)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_run_of_nothing_is_shown_as_such(name: str, tmp_path: Path) -> None:
    assert get(name).name == name
    story = told(Scene(), tmp_path)
    assert chapter(name).figures(story) == []
    assert shown(name, story).strip() == ""


# ---- the studys figures, and what has no place in a picture ----


def test_the_studys_costs_are_marked_and_only_among_times(tmp_path: Path) -> None:
    (figure,) = chapter("direct-cost").figures(told(costs({}), tmp_path))
    assert "Diamond" in figure.caption
    (figure,) = chapter("direct-cost").figures(told(costs(PLACES["exact"]), tmp_path / "exact"))
    assert "Diamond" not in figure.caption and "instructions" in figure.svg
    published = chapter("direct-cost").tables(told(costs({}), tmp_path / "again"))[-1]
    assert [row.cells[1] for row in published.rows] == ["0.62", "1.18"]


def test_a_cost_that_reaches_zero_is_named_not_drawn(tmp_path: Path) -> None:
    scene = direct(costs({}), "uthread", "yield", 0.001, share=3.0)
    story = told(scene, tmp_path)
    (figure,) = chapter("direct-cost").figures(story)
    assert "reaches zero: uthread: yield" in figure.caption
    assert any(row.cells[0] == "uthread: yield" for row in measured("direct-cost", story)[0].rows)


def test_the_curves_have_the_studys_points_and_the_machines_caches(tmp_path: Path) -> None:
    figures = {one.id: one for one in chapter("working-set").figures(told(walks({}), tmp_path))}
    for model, number in (("process", "figure 3"), ("uthread", "figure 5")):
        one = figures[f"fig-working-set-curves-{model}"]
        assert number in one.caption and "L1d" in one.svg and "L2" in one.svg


def test_every_cell_of_the_map_has_its_number(tmp_path: Path) -> None:
    figures = {one.id: one for one in chapter("working-set").figures(told(walks({}), tmp_path))}
    svg = figures["fig-working-set-map-process"].svg
    cells = len(trials("working-set", model="process", quick=True)) - 1
    # 1.6 us and a hundred thousandth of the bytes.
    assert svg.count(">1.6<") >= 2 and svg.count(">12<") >= 2
    assert cells == 50


# ---- who counted ----


def test_a_machine_without_counters_says_so(tmp_path: Path) -> None:
    scene = uncounted(uncounted(Scene(), "process"), "uthread")
    story = told(scene, tmp_path)
    assert chapter("counters").figures(story) == []
    (table,) = chapter("counters").tables(story)
    assert all("nothing: perf_event_open: No such file" in row.cells[1] for row in table.rows)
    assert "nothing: perf_event_open" in shown("counters", story)


def test_a_models_counts_are_never_taken_for_a_processors(tmp_path: Path) -> None:
    story = told(counts(PLACES["exact"]), tmp_path)
    (figure,) = chapter("counters").figures(story)
    for said in (figure.title, figure.caption, shown("counters", story)):
        assert "model of the study's caches" in said
    what, cells = chapter("counters").tables(story)
    assert "32 KiB x 8" in what.rows[0].cells[1] and "emptied" in what.rows[0].cells[1]
    assert "model of the study's caches" in cells.caption
    native = told(counts({}), tmp_path / "native")
    (figure,) = chapter("counters").figures(native)
    assert "the processor's counters" in figure.title and "model" not in figure.caption


def test_scaled_counts_are_marked(tmp_path: Path) -> None:
    scene = Scene()
    counting(scene, "process", lambda mode, event, size: 1.0, n=5)
    story = told(scene, tmp_path)
    assert "scaled" not in chapter("counters").tables(story)[0].rows[0].cells[1]
    scene.samples = [
        one if index else type(one)(**{**_fields(one), "values": {**one.values, "running": 0.5}})
        for index, one in enumerate(scene.samples)
    ]
    story = told(scene, tmp_path / "scaled")
    assert "scaled up from 50%" in chapter("counters").tables(story)[0].rows[0].cells[1]


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}
