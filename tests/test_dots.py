# SPDX-License-Identifier: Apache-2.0
"""The small charts of `swtch show`: every dot between its ends, all on one scale, and what
may not share a scale does not."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from synthetic import VM, Scene

from swtch.records import Interval
from swtch.report import dots
from swtch.report.dots import Chart, Line, draw
from swtch.report.story import tell
from swtch.report.terminal import print_run


def made(low: float, estimate: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high, n=5, unit="ns")


def chart(*intervals: Interval) -> Chart:
    return Chart("x", tuple(Line(f"case {i}", one) for i, one in enumerate(intervals)))


def columns(drawn: list[str]) -> list[tuple[int, int, int]]:
    """Of each line: where the interval begins, its dot, where it ends."""
    found = []
    for line in drawn[1:-1]:
        marks = [i for i, sign in enumerate(line) if sign in "├─●┤"]
        found.append((marks[0], line.index("●"), marks[-1]))
    return found


finite = st.floats(min_value=1e-3, max_value=1e12)


@given(st.lists(st.tuples(finite, finite, finite), min_size=2, max_size=24), st.integers(70, 200))
def test_dots_lie_in_their_intervals_and_in_their_order(
    rows: list[tuple[float, float, float]], width: int
) -> None:
    intervals = [made(*sorted(row)) for row in rows]
    drawn = draw(chart(*intervals), width)
    assert len(drawn) == len(rows) + 2
    assert all(len(line) <= width for line in drawn)
    places = columns(drawn)
    assert all(low <= dot <= high for low, dot, high in places)
    by_value = sorted(zip((i.estimate for i in intervals), places, strict=True))
    at = [dot for _, (_, dot, _) in by_value]
    assert at == sorted(at)


def test_the_scale_is_the_values_own() -> None:
    drawn = draw(chart(made(100, 120, 140), made(260, 280, 300)), 60)
    assert drawn[-1].split() == ["100", "300"]
    (low, _, _), (_, _, high) = columns(drawn)
    assert low == drawn[-1].index("100") and high == len(drawn[-1]) - 1


def test_far_apart_is_drawn_by_ratios_and_says_so() -> None:
    drawn = draw(chart(made(1, 1, 1), made(10, 10, 10), made(100, 100, 100)), 70)
    assert "(log)" in drawn[-1]
    one, ten, hundred = (dot for _, dot, _ in columns(drawn))
    assert abs((ten - one) - (hundred - ten)) <= 1


@pytest.mark.parametrize("low", [0.0, -5.0])
def test_no_ratios_from_nothing(low: float) -> None:
    assert "(log)" not in draw(chart(made(low, 1, 1), made(50, 99, 100)), 70)[-1]


def test_all_the_same_is_no_division_by_nothing() -> None:
    assert len(draw(chart(made(7, 7, 7), made(7, 7, 7)), 60)) == 4


def test_no_room_no_chart() -> None:
    assert draw(chart(made(1, 2, 3), made(2, 3, 4)), 20) == []


def test_ascii_for_a_terminal_that_has_no_more() -> None:
    assert all(line.isascii() for line in draw(chart(made(1, 2, 3)), 60, dots.ASCII))


def trials() -> Scene:
    scene = Scene()
    for case in ("A", "B2"):
        scene.scenario(case, "pthread", n=5)
    return scene


def test_two_places_are_two_charts(tmp_path: Path) -> None:
    scene = trials()
    for case in ("A", "B2"):
        scene.scenario(case, "pthread", n=5, where=VM)
    native, vm = dots.charts(tell(scene.write(tmp_path / "run")), "scenarios")
    assert native.title.startswith("scenarios, native: ")
    assert vm.title.startswith("scenarios, vm 6.1-amd64: ")
    labels = [line.label for line in native.lines]
    assert labels == [line.label for line in vm.lines] == ["A/pthread", "B2/pthread"]


def shown(path: Path, file: TextIO) -> None:
    print_run(path, Console(file=file, width=80, markup=False))


def test_show_draws_them(tmp_path: Path) -> None:
    path = trials().write(tmp_path / "run")
    file = io.StringIO()
    shown(path, file)
    assert "├" in file.getvalue() and "●" in file.getvalue()
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    shown(path, narrow)
    narrow.seek(0)
    line = next(line for line in narrow if line.startswith("A/pthread "))
    assert "|" in line and "o" in line
