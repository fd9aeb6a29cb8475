# SPDX-License-Identifier: Apache-2.0
"""Reports of runs too large for a page, and of experiments that have no chapter."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import page
import pytest
import synthetic
from synthetic import (
    Scene,
    everything,
    gantt,
    spread,
)
from written import Written, terminal

from swtch import report, store
from swtch.experiments import Experiment
from swtch.report import story
from swtch.report.chapters import chapter, coroutine_gantt, scenarios
from swtch.report.chapters.plain import Plain
from swtch.report.story import tell

MIB = 1_000_000


# ---- size ----


def test_samples_too_many_for_a_page_stay_in_their_folder(tmp_path: Path) -> None:
    one = gantt()
    padded = [synthetic.gantt_sample(one)] * 5
    # What cannot be packed to less than half.
    texts = [random.Random(n).randbytes(report.DATA_MAX_BYTES // 5).hex() for n in range(5)]
    details = [{**padded[0].detail, "text": text} for text in texts]
    pairs = zip(padded, details, strict=True)
    scene = Scene().add(one, [msgspec.structs.replace(s, detail=d) for s, d in pairs])
    made = Written(scene.write(tmp_path / "run"))
    assert not any("download" in a.attributes for a in made.page.all("a"))
    assert "too many to carry in this page" in made.page.text
    # As many as just fit.
    lines = (made.path / store.SAMPLES).read_bytes().splitlines(keepends=True)
    (made.path / store.SAMPLES).write_bytes(b"".join(lines[:4]))
    again = Written(made.path)
    assert any("download" in a.attributes for a in again.page.all("a"))
    # Twice as much as may be packed, whole and of its experiment.
    most = len(again.html) + report.DATA_MAX_BYTES * 0.2 * 2 * 4 / 3
    assert most + 350 * scenarios.POINTS_MAX < 6 * MIB


def test_a_very_long_run_is_drawn_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = everything({}, ("pthread", "uthread"), n=10)
    told = tell(scene.write(tmp_path / "run"))

    def sequence() -> tuple[int, str, int]:
        (drawn,) = (f for f in scenarios.figures(told) if f.id == "fig-sequence")
        points = [p for p in page.read(drawn.svg).all("path") if "aria-label" in p.attributes]
        return len(points), drawn.caption, len(drawn.svg)

    count, caption, size = sequence()
    assert count == 110 and "Drawn is" not in caption
    monkeypatch.setattr(scenarios, "POINTS_MAX", 30)
    fewer, caption, smaller = sequence()
    assert 20 <= fewer <= 30 and "Drawn is one in 4." in caption
    assert (size - smaller) / (count - fewer) < 450


# ---- chapters ----


def made_up(name: str = "made-up") -> Experiment:
    return Experiment(
        name=name,
        title="An experiment nobody wrote a chapter for",
        study="999",
        question="Is it shown?",
        models=("pthread",),
        seconds=1.0,
        trials=lambda _: (),
    )


def test_an_experiment_without_a_chapter_gets_the_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(chapter("made-up"), Plain)
    assert chapter("scenarios") is scenarios
    assert chapter("coroutine-gantt") is coroutine_gantt
    monkeypatch.setattr(story, "get", lambda name: made_up(name))
    scene = Scene()
    for engine, guest in (("native", ""), ("vm", "6.1-amd64")):
        one = synthetic.trial("made-up", "pthread", "size-1", engine=engine, guest=guest)  # type: ignore[arg-type]
        wall = spread(2e6, 6)
        scene.add(one, [synthetic.sample(one, values={"wall_ns": ns}) for ns in wall])
    made = Written(scene.write(tmp_path / "run"))
    section = made.page.id("made-up")
    assert section.all("figure") == []
    native, guest_table = page.tables(section)
    assert native == [
        ["trial", "metric", "median", "unit", "n", "gates"],
        ["size-1/pthread", "wall_ms", native[1][2], "ms", "6", "–"],
    ]
    assert native[1][2].startswith("2.0")
    assert guest_table[1][0] == "size-1/pthread@6.1-amd64"
    assert page.tables(made.page)[1:] == page.tables(made.from_md)[1:]
    assert "wall_ms" in terminal(made.path)
    assert "No claim is about the experiments of this run." in made.page.text
