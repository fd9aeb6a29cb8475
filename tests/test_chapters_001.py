# SPDX-License-Identifier: Apache-2.0
"""The chapters of study 001: figures, tables and terminal of samples made for them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from made_001 import NAMES, Where, speed
from rich.console import Console
from synthetic import Scene, failed, placed, spread

from swtch.experiments import Setting, get
from swtch.records import Trial
from swtch.report.chapters import chapter
from swtch.report.story import Story, tell
from swtch.report.tables import Table

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}
# Too few for an interval, which takes its time: what is tested is what is shown.
N = 3
# Of each experiment: the figures of a place, and those drawn from the study's tables.
FIGURES: dict[str, tuple[list[str], list[str]]] = {
    "yield-modes": (["", "-ratio"], ["-published"]),
    "yield-sweep": (["", "-efficiency"], ["-published", "-efficiency-published"]),
    "binding": ([""], ["-published"]),
    "work-scaling": ([""], ["-published"]),
    "thread-count": ([""], ["-published"]),
    "coroutine": ([""], ["-published"]),
    "aligned": (["", "-ratio"], []),
}


def all_of(name: str, where: Where) -> list[Trial]:
    setting = Setting(cpus=(0, 1, 2, 3), models=get(name).models)
    return [placed(one, **where) for one in get(name).trials(setting)]


def scene_of(name: str, where: Where) -> Scene:
    """Every trial of the experiment, each a little faster than the one before."""
    scene = Scene()
    for index, one in enumerate(all_of(name, where), start=1):
        efficiency = 10.0 + index
        made = [speed(one, mops, efficiency=efficiency) for mops in spread(10.0 * index, N)]
        scene.add(one, made)
    return scene


def told(scene: Scene, path: Path) -> Story:
    return tell(scene.write(path / "run"))


def measured(name: str, story: Story) -> list[Table]:
    return [one for one in chapter(name).tables(story) if one.caption.startswith("Throughput and")]


def shown(name: str, story: Story) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    for one in chapter(name).terminal(story):
        console.print(one)
    return console.export_text()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_everything_measured_is_shown(name: str, place: str, tmp_path: Path) -> None:
    scene = scene_of(name, PLACES[place])
    story = told(scene, tmp_path)
    figures = chapter(name).figures(story)
    own, published = FIGURES[name]
    # Instructions have no CPU time, so no efficiency either.
    parts = [part for part in own if place != "exact" or part != "-efficiency"]
    suffix = {"native": "", "vm": "-vm-6_1-amd64", "exact": "-exact-6_1-amd64"}[place]
    expected = [f"fig-{name}{part}{suffix}" for part in parts]
    drawn = [f"fig-{name}{part}" for part in published]
    assert [one.id for one in figures] == [*expected[:1], *drawn, *expected[1:]]
    for one in figures:
        assert one.svg.startswith("<svg") and one.title and one.caption
        assert "NaN" not in one.svg and "nan" not in one.description
        if one.id in drawn:
            assert one.title.startswith("Published: ") and "another machine" in one.caption
        else:
            assert (place == "native") == ("6.1-amd64" not in one.title)
    tables = measured(name, story)
    assert sum(len(one.rows) for one in tables) == len(scene.trials)
    for table in chapter(name).tables(story):
        assert all(len(row.cells) == len(table.columns) for row in table.rows)
    times = [one for one in chapter(name).tables(story) if one.caption.startswith("Time,")]
    assert len(times) == (0 if place == "exact" else 1)
    for arm in {str(one.factors["arm"]) for one in scene.trials}:
        assert any(arm in row.cells for table in tables for row in table.rows)
        assert arm in shown(name, story)


@pytest.mark.parametrize("name", NAMES)
def test_the_published_table_has_every_figure(name: str, tmp_path: Path) -> None:
    story = told(scene_of(name, {}), tmp_path)
    last = chapter(name).tables(story)[-1]
    assert last.caption.startswith("Published")
    cells = [cell for row in last.rows for cell in row.cells[2:-1] if cell != "–"]
    assert len(cells) == len(get(name).published)
    assert all("study 001, table" in row.cells[-1] for row in last.rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_without_good_samples_has_no_figure(name: str, tmp_path: Path) -> None:
    scene = Scene()
    for one in all_of(name, {}):
        scene.add(one, [failed(one)] * 3)
    story = told(scene, tmp_path)
    assert chapter(name).figures(story) == []
    (table,) = measured(name, story)
    assert all(any("3 failed" in cell for cell in row.cells) for row in table.rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_nothing_is_shown_as_such(name: str, tmp_path: Path) -> None:
    story = told(Scene(), tmp_path)
    assert chapter(name).figures(story) == []
    assert shown(name, story).strip() == ""


def test_a_thread_that_never_runs_has_no_place_on_a_logarithmic_scale(tmp_path: Path) -> None:
    scene = Scene()
    for one in all_of("yield-sweep", {}):
        scene.add(one, [speed(one, 5.0, efficiency=0.0)] * 5)
    figures = chapter("yield-sweep").figures(told(scene, tmp_path))
    assert figures
    assert all("NaN" not in one.svg and "Infinity" not in one.svg for one in figures)


def contradiction(story: Story) -> list[tuple[str, ...]]:
    (table,) = (t for t in chapter("binding").tables(story) if t.caption.startswith("Two studies"))
    return [row.cells for row in table.rows]


def test_what_both_studies_say_of_more_cpus_stands_side_by_side(tmp_path: Path) -> None:
    scene = scene_of("binding", {})
    alone = contradiction(told(scene, tmp_path / "alone"))
    assert ("study 000", "scenarios, A over B2", "4", "0.348") in alone
    assert ("study 001", "binding, normal", "4", "1.03") in alone
    assert [row[:3] for row in alone[-2:]] == [
        ("here, native", "binding, normal", "2"),
        ("here, native", "binding, normal", "4"),
    ]
    scene.scenario("A", "pthread", 87.0, n=N).scenario("B2", "pthread", 250.0, n=N)
    both = contradiction(told(scene, tmp_path / "both"))
    assert both[:-1] == alone
    assert both[-1][:3] == ("here, native", "scenarios, A over B2", "4")
    assert both[-1][3].startswith("0.348 (seen ")


def test_a_note_names_some_trials_and_counts_the_rest(tmp_path: Path) -> None:
    """Of each experiment for itself, as its chapter shows them."""
    setting = Setting(cpus=(0, 1), models=get("yield-modes").models)
    scene = Scene()
    for name in ("yield-modes", "yield-sweep"):
        for one in get(name).trials(setting):
            scene.add(one, [speed(one, 5.0)] * N)
    notes = [note for note in told(scene, tmp_path).notes if "2 are allowed here" in note]
    assert {note.partition("/")[0] for note in notes} == {"yield-modes", "yield-sweep"}
    assert any("yield-modes/normal/pthread and " in note and " more: " in note for note in notes)
