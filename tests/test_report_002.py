# SPDX-License-Identifier: Apache-2.0
"""The chapters of study 002: every kind of thread is drawn and listed, per place, in its unit;
what was not measured leaves a gap and no error."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import synthetic
from made_002 import interrupted, switched, trial
from rich.console import Console
from synthetic import Scene, failed

from swtch.experiments.pair_overhead import MOST
from swtch.records import Model
from swtch.report.chapters import chapter
from swtch.report.story import Story, tell
from swtch.report.tables import Table

PLACES: dict[str, Mapping[str, Any]] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64", "accel": "tcg"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}
KINDS: tuple[tuple[Model, str], ...] = (
    ("kthread", "none"),
    ("kthread", "own"),
    ("process", "own"),
    ("pthread", "shared"),
    ("uthread", "shared"),
    ("coroutine", "shared"),
)
PAIR, INTERRUPT = chapter("pair-overhead"), chapter("interrupt-overhead")


def both(scene: Scene, where: Mapping[str, Any], numbers: tuple[int, ...] = (39, MOST)) -> Scene:
    for pair in ("sort+deflate", "aes+crc"):
        for model, space in KINDS:
            for n in numbers:
                switched(scene, pair, n, (20.0, 40.0), model=model, space=space, where=where)
    for task in ("sort", "aes"):
        for model, _ in KINDS[1:-1]:
            for n in (24, 49):
                interrupted(scene, task, n, 15.0, model=model, where=where)
    return scene


def story(scene: Scene, tmp_path: Path) -> Story:
    return tell(scene.write(tmp_path / "run"))


def cells(table: Table, column: str) -> list[str]:
    index = table.columns.index(column)
    assert all(len(row.cells) == len(table.columns) for row in table.rows)
    return [row.cells[index] for row in table.rows]


@pytest.mark.parametrize("name", PLACES)
def test_everything_is_drawn_and_listed(name: str, tmp_path: Path) -> None:
    told = story(both(Scene(), PLACES[name]), tmp_path)
    figures = [*PAIR.figures(told), *INTERRUPT.figures(told)]
    suffix = {"native": "", "vm": "-vm-6_1-amd64", "exact": "-exact-6_1-amd64"}[name]
    assert [figure.id for figure in figures] == [
        f"fig-{what}{suffix}"
        for what in (
            "pair-cost",
            "pair-direct",
            "pair-losses",
            "interrupt-cost",
            "interrupt-methods",
        )
    ]
    unit = "instructions" if name == "exact" else "µs"
    for figure in figures:
        assert figure.svg.startswith("<svg") and f">{unit}" in figure.svg
        assert figure.title and figure.description and "nan" not in figure.svg.lower()
    results, by_n, published = PAIR.tables(told)
    kinds = ["kthread", "kthread-mm", "process", "pthread", "uthread", "coroutine"]
    assert sorted(cells(results, "thread")) == sorted(kinds * 2)
    assert unit in results.caption
    assert by_n.columns[2:] == ("n = 39", "n = 99")
    assert "–" not in "".join(cells(by_n, "n = 39"))
    assert {"48 µs", "≤ 2 000 µs", "≥ 6 000 µs"} <= set(cells(published, "figure"))
    measured, _ = INTERRUPT.tables(told)
    assert sorted(set(cells(measured, "thread"))) == ["kthread", "process", "pthread", "uthread"]
    assert "–" not in "".join(cells(measured, "by slope"))


def test_an_emulated_figure_says_that_it_has_no_caches(tmp_path: Path) -> None:
    told = story(both(both(Scene(), PLACES["native"]), PLACES["vm"]), tmp_path)
    for figure in [*PAIR.figures(told), *INTERRUPT.figures(told)]:
        assert ("Emulated" in figure.caption) == figure.id.endswith("-vm-6_1-amd64")


def test_the_subject_is_named(tmp_path: Path) -> None:
    scene = Scene()
    for n in (39, MOST):
        switched(scene, "aes+crc", n, (1.0, 2.0), model="uthread", space="shared")
    interrupted(scene, "aes", 49, 1.0, model="uthread")
    told = story(scene, tmp_path)
    assert "uthreads" in PAIR.figures(told)[0].title
    assert "signals to a uthread" in INTERRUPT.figures(told)[0].title


def test_the_slope_is_the_whole_cost_of_one(tmp_path: Path) -> None:
    """15 us lost whatever n is, and 3 us an interrupt."""
    scene = Scene()
    for n in (9, 24, 49):
        interrupted(scene, "aes", n, 15.0, direct=3.0, share=0)
    measured, _ = INTERRUPT.tables(story(scene, tmp_path))
    shown = {name: cells(measured, name)[0] for name in ("D", "by slope", "task loses")}
    assert {name: float(cell) for name, cell in shown.items()} == {
        "D": 3,
        "by slope": 3,
        "task loses": 15,
    }


def test_one_number_has_no_slope(tmp_path: Path) -> None:
    scene = interrupted(Scene(), "aes", 49, 15.0)
    measured, _ = INTERRUPT.tables(story(scene, tmp_path))
    assert cells(measured, "by slope") == ["–"]


def test_a_very_wide_interval_does_not_dwarf_the_curves(tmp_path: Path) -> None:
    scene = Scene()
    switched(scene, "aes+crc", 39, (20.0, 20.0), count=6)
    switched(scene, "aes+crc", 69, (20.0, 20.0), count=6)
    # A median of 40, and an interval of hundreds of thousands.
    switched(scene, "aes+crc", MOST, (20.0, 20.0), count=6, share=10_000)
    figure = PAIR.figures(story(scene, tmp_path))[0]
    assert "cut where it is very wide" in figure.caption
    assert "100,000" not in figure.svg and "200,000" not in figure.svg


def test_what_failed_is_counted_and_not_drawn(tmp_path: Path) -> None:
    scene = Scene()
    for one in (
        trial("pair-overhead", "process", pair="aes+crc", n=MOST),
        trial("interrupt-overhead", "process", task="aes", n=49),
    ):
        scene.add(one, [failed(one)] * 3)
    told = story(scene, tmp_path)
    assert PAIR.figures(told) == [] and INTERRUPT.figures(told) == []
    for made in (PAIR, INTERRUPT):
        assert cells(made.tables(told)[0], "n") == ["0 + 3 failed"]


def test_nothing_measured_yet(tmp_path: Path) -> None:
    scene = Scene().add(trial("pair-overhead", "process", pair="aes+crc", n=MOST))
    told = story(scene, tmp_path)
    assert PAIR.figures(told) == []
    assert PAIR.tables(told)[0].rows == ()


def test_the_terminal_has_room(tmp_path: Path) -> None:
    told = story(both(Scene(), PLACES["vm"]), tmp_path)
    console = Console(width=100, record=True, file=io.StringIO())
    for made in (*PAIR.terminal(told), *INTERRUPT.terminal(told)):
        console.print(made)
    text = console.export_text()
    assert "kthread-mm" in text and "…" not in text


# ---- how undisturbed the tasks were ----

CACHES = [{"level": 1, "type": "Data", "size": "32K"}, {"level": 3, "size": "12288K"}]


def told_of(samples: Sequence[Mapping[str, Any]], tmp_path: Path, **given: Any) -> list[str]:
    """The sentences about a pair's samples with these details; `preempted` so often."""
    scene = Scene()
    one = trial("pair-overhead", "kthread", pair="aes+crc", n=MOST, space="own", **given)
    made = []
    for detail in samples:
        threads = synthetic.threads(2, nvcsw=50, nivcsw=detail.get("preempted", 0))
        made.append(
            synthetic.sample(one, values={"wall_ns": 10**7}, detail=dict(detail), threads=threads)
        )
    scene.add(one, made)
    run_dir = scene.write(tmp_path / "run", environment={"cpu": {"caches": CACHES}})
    return PAIR.sentences(tell(run_dir))  # type: ignore[attr-defined,no-any-return]


QUIET = {"order": ["r rn", "rn r", "r rn"], "waited": True}


def test_what_held_is_said(tmp_path: Path) -> None:
    (said,) = told_of([QUIET, QUIET], tmp_path)
    assert said == (
        "How undisturbed the tasks were, native: caches evicted of code and, with 16 MiB, of data"
        " (more than the last one has, 12 MiB), R and R' in turn, each first every other time,"
        " nobody looked while kernel threads were measured, real-time tasks preempted in 0 of 2"
        " samples."
    )


@pytest.mark.parametrize(
    ("spoilt", "says"),
    [
        ({"order": ["r rn", "r rn", "r rn"]}, "in turn, not each first every other time"),
        ({"waited": False}, "somebody may have looked in 1 of 2 while"),
        ({"preempted": 3}, "preempted in 1 of 2 samples"),
    ],
)
def test_what_did_not_hold_is_said(spoilt: dict[str, Any], says: str, tmp_path: Path) -> None:
    (said,) = told_of([QUIET, {**QUIET, **spoilt}], tmp_path)
    assert says in said


def test_an_eviction_that_is_too_small_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CACHES[1], "size", "32768K")
    (said,) = told_of([QUIET], tmp_path)
    assert "with 16 MiB, of data (no more than the last one has, 32 MiB)" in said


def test_an_emulated_place_has_no_caches_to_evict(tmp_path: Path) -> None:
    (said,) = told_of([QUIET], tmp_path, **PLACES["vm"])
    assert "an emulated processor has no caches to evict" in said and "MiB" not in said


def test_older_samples_say_no_more_than_they_have(tmp_path: Path) -> None:
    (said,) = told_of([{}], tmp_path)
    assert "in turn" not in said and "looked" not in said


def test_interrupts_are_told_of_as_well(tmp_path: Path) -> None:
    scene = interrupted(Scene(), "aes", 49, 15.0, model="kthread")
    (said,) = INTERRUPT.sentences(story(scene, tmp_path))  # type: ignore[attr-defined]
    assert "how large the last one is nobody said" in said


def test_a_sample_that_lacks_one_tasks_share_is_no_end_of_the_report(tmp_path: Path) -> None:
    scene = both(Scene(), {})
    for made in scene.samples[:30:3]:
        made.values.pop("rn_b_ns", None)
        made.values.pop("indirect_b_ns", None)
    drawn = PAIR.figures(story(scene, tmp_path))
    assert "lost by the tasks" in " ".join(figure.svg for figure in drawn)
