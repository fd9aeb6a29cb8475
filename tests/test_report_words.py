# SPDX-License-Identifier: Apache-2.0
"""Numbers, axes and sentences of a report: as people read them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_002
import made_004
import pytest
import synthetic
from rich.console import Console
from synthetic import (
    Scene,
    spread,
)
from written import Written, terminal

from swtch import claims, experiments, report
from swtch.claims.contradictions import CONTRADICTIONS
from swtch.experiments import Metric
from swtch.report import charts, shapes, story
from swtch.report.chapters import scenarios
from swtch.report.chapters.plain import Plain
from swtch.report.story import number, tell
from swtch.report.tables import Row, Table


def test_the_machine_says_how_many_cpus_it_may_use() -> None:
    known = {"cpu": {"model": "A CPU", "allowed": [0, 2]}, "kernel": {"release": "6.1"}}
    assert story.machine_line(known) == "A CPU · 2 CPUs · Linux 6.1"
    one = {"cpu": {"model": "A CPU", "allowed": [3]}}
    assert story.machine_line(one) == "A CPU · 1 CPU"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 234 567 ns, 5 %", "1\u202f234\u202f567 ns, 5\u00a0%"),
        ("4 0 1 2 3 and 12 3456", "4 0 1 2 3 and 12 3456"),
        ('{\n "a": 1 000\n}', '{\n "a": 1 000\n}'),
    ],
)
def test_no_line_ends_within_a_number(text: str, shown: str) -> None:
    assert report.unbroken(text) == shown


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.06, 13, [0.1, 1, 10]),
        (200, 3200, [300, 1000, 3000]),
        (150, 430, [200, 300, 400]),
        (65, 260, [70, 100, 150, 200]),
        (96, 104, [96, 98, 100, 102, 104]),
        (1e-9, 1e9, [1e-9, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9]),
    ],
)
def test_a_logarithmic_axis_has_few_round_ticks(
    low: float, high: float, ticks: list[float]
) -> None:
    assert shapes.log_ticks(low, high) == pytest.approx(ticks)


def test_a_logarithmic_axis_ends_where_its_values_do() -> None:
    rows = [{"value": 5.0, "low": -1.0, "high": 7.0}, {"value": 0.5}]
    low, high = shapes.log_domain(rows)
    assert 0.4 < low < 0.5 and 7 < high < 9
    scale, _ = shapes.log_axis([{"value": 100.0}, {"value": 101.0}], shapes.FLAT)
    low, high = scale.to_dict()["domain"]
    assert high / low == pytest.approx(shapes.FLAT)


def test_what_is_zero_is_at_the_low_end_of_a_logarithmic_axis() -> None:
    """Its place there is nowhere; drawn as it is, Vega put it where the greatest are."""
    values = {1: 0.0, 2: -3.0, 3: 5.0, 4: 50.0}
    rows = [
        {"series": "a", "x": x, "value": value, "low": min(value, 0), "high": value + 9}
        for x, value in values.items()
    ]
    svg = charts.render(shapes.curves(rows, "x", "y", log_y=True), "fig", "title", "what it shows")
    marks = re.findall(r'<path aria-label="x: (\d)[^>]* transform="translate\([^,]*,([^)]*)\)', svg)
    heights = {int(x): float(down) for x, down in marks}
    assert heights.keys() == values.keys()
    assert heights[1] == heights[2] == 240 > heights[3] > heights[4]


def test_an_axis_parts_thousands_as_the_text_does(tmp_path: Path) -> None:
    scene = Scene().scenario("A", "pthread", [5000.0, 5100.0, 5200.0, 5300.0, 5400.0])
    made = Written(scene.write(tmp_path / "run"))
    texts = [text.raw for text in made.page.id("fig-throughput").all("text")]
    assert "4\u202f000" in texts and not any("," in text for text in texts if text[:1].isdigit())


# ---- sentences ----


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.0, "0"),
        (1, "1"),
        (100, "100"),
        (1.0, "1"),
        (1.5, "1.50"),
        (99.96, "100"),
        (123.4, "123"),
        (1234567.8, "1 234 568"),
        (0.01234, "0.0123"),
        (-2.5, "-2.50"),
        (1e-9, "0.000000"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value).replace("\u202f", " ").replace("\u2009", " ") == text


def told() -> Iterator[tuple[str, str]]:
    """What is said of times before anything was measured, and where."""
    for claim in claims.every():
        yield claim.id, f"{claim.text} {claim.published}"
    for side in CONTRADICTIONS:
        yield side.about, side.because
    for one in experiments.every():
        for name, metric in one.metrics.items():
            yield f"{one.name} {name}", metric.unit
        for key, figure in one.published.items():
            yield f"{one.name} {key}", f"{figure.unit} {figure.source}"


def spelled_otherwise(text: str) -> list[str]:
    """Microseconds as a micro sign and an s, no other way."""
    return re.findall(r".{0,30}(?<![\w/.-])us(?![\w-]).{0,10}|.{0,30}\u03bcs", text)


def test_microseconds_are_spelled_in_one_way(tmp_path: Path) -> None:
    assert not [(where, wrong) for where, text in told() if (wrong := spelled_otherwise(text))]
    assert Metric(unit="us").unit == "µs" and Metric(unit="us a turn").unit == "µs a turn"
    assert Metric(unit="users").unit == "users"


def test_a_report_spells_microseconds_in_one_way(tmp_path: Path) -> None:
    """With what has times of that order: studies 002 and 004."""
    scene = synthetic.full()
    for n in (39, 99):
        made_002.switched(scene, "sort+deflate", n, (20.0, 40.0), model="process", space="own")
    made_002.interrupted(scene, "aes", 49, 15.0, model="process")
    for model, way, cost in (("process", "pipe", 1.6), ("uthread", "locks", 0.3)):
        made_004.direct(scene, model, way, cost, n=6, where={})
        made_004.walking(scene, model, lambda size, _: 1.6 + size / 1e5, n=3, where={})
    made = Written(scene.write(tmp_path / "run"))
    for text in (made.page.text, made.md, terminal(made.path, 200)):
        assert spelled_otherwise(text) == []


def test_highlights_are_of_this_run(tmp_path: Path) -> None:
    scene = Scene().scenario("A", "pthread", 100.0).scenario("B2", "pthread", 250.0)
    scene.scenario("B2", "uthread", 300.0)
    first, second, *_ = tell(scene.write(tmp_path / "run")).highlights
    assert "get through 2.50 times as much on one CPU as on 4" in first
    assert "uthreads get through 1.20 times as much as pthreads" in second
    other = Scene().scenario("A", "pthread", 200.0).scenario("B2", "pthread", 100.0)
    first = tell(other.write(tmp_path / "other")).highlights[0]
    assert "get through 0.500 times as much on one CPU" in first


def test_highlights_say_no_more_than_the_interval_allows(tmp_path: Path) -> None:
    scene = Scene().scenario("A", "pthread", spread(100.0, share=0.5))
    scene.scenario("B2", "pthread", spread(110.0, share=-0.5))
    (sentence, *_) = tell(scene.write(tmp_path / "run")).highlights
    assert "get through as much, within the noise, on one CPU as on 4" in sentence


@pytest.mark.parametrize(("blocks", "said"), [(1, "1 block, too few"), (5, "5 blocks, too few")])
def test_what_a_few_blocks_say_is_no_interval(tmp_path: Path, blocks: int, said: str) -> None:
    scene = Scene().scenario("A", "pthread", spread(100.0, blocks))
    scene.scenario("B2", "pthread", spread(250.0, blocks, -0.01))
    (sentence, *_) = tell(scene.write(tmp_path / "run")).highlights
    assert f"({said} for an interval; the study" in sentence and "95 %" not in sentence


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_number_is_lost_in_a_narrow_terminal(width: int) -> None:
    """Left to itself rich gives the labels all the width, and the numbers none."""
    rows = (
        Row(("pthread", "condition variable", "2 801 [2 568, 3 033]", "10 386"), first=True),
        Row(("", "futex", "5 306", "–"), first=False),
    )
    (shown,) = shapes.terminal([Table("Measured here", ("model", "by", "ns", "p90"), 2, rows)])
    file = io.StringIO()
    Console(file=file, width=width).print(shown)
    said = file.getvalue()
    for cell in ("2 801", "[2 568,", "3 033]", "10 386", "5 306"):
        assert " ".join(cell.split()) in " ".join(said.split()), said
    assert max(map(len, said.splitlines())) <= width
    if width < 40:
        assert "pthread, futex" in said and "  ns: 5 306" in said


@pytest.mark.parametrize("width", [20, 40, 60, 80])
@pytest.mark.parametrize("of", [scenarios, Plain("scenarios")], ids=["scenarios", "plain"])
def test_no_table_of_a_chapter_is_cut(of: Any, width: int, tmp_path: Path) -> None:
    """At 20 columns half of the digits were missing, at 80 the names of gates."""
    scene = Scene()
    # Of few invocations, so that the spread is in words; with a gate.
    scene.scenario("C2", "pthread", [37.9, 33.1, 41.2], interrupts=10**9)
    scene.scenario("C2", "uthread", [123.0, 111.0, 134.0], interrupts=10**9)
    file = io.StringIO()
    for shown in of.terminal(tell(scene.write(tmp_path / "run"))):
        Console(file=file, width=width, markup=False).print(shown)
    said = file.getvalue()
    assert "…" not in said
    for words in ("pthread", "uthread", "37.9", "123"):
        assert words in said
    assert "interrupts 3" in " ".join(said.split())
