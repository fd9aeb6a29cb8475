# SPDX-License-Identifier: Apache-2.0
"""swtch from Python: run, load, compare, what a notebook shows, and the pages that show it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import notebook
import polars as pl
import pytest
from outside import nothing_registered

import swtch
from swtch import own, store
from swtch.errors import RequestError
from swtch.own import trust
from swtch.report import story
from swtch.report.notebook import run_html

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "experiments" / "own.md"
NOTEBOOK = ROOT / "docs" / "experiments" / "own.ipynb"
__all__ = ["nothing_registered"]  # the fixture
OLD = Path(__file__).parent / "data" / "run-schema-1"


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page prints, as printed."""
    folder = tmp_path / "printed"
    folder.mkdir()
    page = PAGE.read_text(encoding="utf-8")
    for name, source in re.findall(r"^```python\n# (\S+)\n(.*?)^```$", page, re.S | re.M):
        (folder / name).write_text(source)
        (folder / name).chmod(0o755)
    monkeypatch.chdir(folder)
    return folder


# ---- the page and the notebook ----


def test_the_page_prints_whole_files(printed: Path) -> None:
    assert {file.name for file in printed.iterdir()} == {"mine.py", "loop.py", "loops.py"}


def test_the_experiment_on_the_page_runs_as_printed(printed: Path, probe: Path) -> None:
    run = swtch.run("./mine.py", depth="quick", seed=1)
    assert run.complete and not [s for s in run.stored.samples if s.status != "ok"]
    assert run.verdicts["claim"].to_list() == ["mine.1"]
    assert run.verdicts["verdict"][0] != "not measurable here"
    told = story.tell(run.path)
    from swtch.report.chapters import figures
    from swtch.report.chapters import sentences as sentences_of

    assert len(figures(told, "pipe-or-futex")) == 1
    assert sentences_of(told, "pipe-or-futex")[0].startswith("A hand-over by pipe takes")


def test_the_program_on_the_page_is_a_probe(printed: Path, probe_dir: Path) -> None:
    run = swtch.run("./loops.py", depth="quick", repeats=2)
    assert run.complete and run.samples["status"].unique().to_list() == ["ok"]
    assert "turn_ns" in run.findings["metric"].to_list()


def test_the_notebook_runs_and_shows_what_it_shows(printed: Path, probe: Path) -> None:
    there = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = notebook.code_cells(there)
    for cell, now in zip(cells, notebook.execute(there), strict=True):
        shown = [sorted(one["data"]) for one in cell["outputs"]]
        assert [sorted(one["data"]) for one in now] == shown, cell["source"]
    html = "".join(cells[0]["outputs"][0]["data"]["text/html"])
    assert "mine.1" in html and "<svg" in html


def test_the_notebook_has_nothing_of_the_machine_it_was_made_on() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|work)\b", text)


# ---- run and load ----


def test_run_takes_the_options_of_the_command(printed: Path, probe_dir: Path) -> None:
    run = swtch.run("ping", models=["coroutine"], repeats=7, seed=3, policy="other", out="here")
    assert run.path == Path("here")
    manifest = run.manifest
    assert (manifest.repeats, manifest.seed, manifest.depth) == (7, 3, "quick")
    assert manifest.models == ("coroutine",)
    assert {trial.probe["policy"] for trial in manifest.trials} == {"other"}
    assert repr(run).startswith("<swtch run ") and "ping" in repr(run)


def test_run_outside_of_the_first_thread(printed: Path, probe_dir: Path) -> None:
    made: list[swtch.data.Run] = []
    thread = threading.Thread(
        target=lambda: made.append(swtch.run("ping", models="coroutine", repeats=1))
    )
    thread.start()
    thread.join()
    assert made[0].complete


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"depth": "deep"}, "no depth 'deep'"),
        ({"policy": "idle"}, "no policy 'idle'"),
        ({"engine": "cloud"}, "no engine 'cloud'"),
        ({"models": ["thread"]}, "no model 'thread'"),
        ({"until": "much"}, "is no share"),
        ({"out": ""}, "out is empty"),
    ],
)
def test_what_cannot_be_asked_for(options: dict[str, object], says: str, probe_dir: Path) -> None:
    with pytest.raises(RequestError, match=says):
        swtch.run("ping", **options)


def test_code_of_another_is_only_run_when_trusted(
    printed: Path, probe_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swtch.run("./mine.py", out="run")
    own.forget()
    trust.forget()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "stranger"))
    with pytest.warns(UserWarning, match="brings code of its own"):
        run = swtch.load("run")
    assert run.verdicts.height == 0
    assert swtch.load("run", trust=True).verdicts.height == 1


def test_frames_by_name(probe_dir: Path) -> None:
    run = swtch.load(OLD)
    assert run.frame().equals(run.samples)
    assert run.frame("findings").equals(run.findings)
    with pytest.raises(RequestError, match="there is no frame 'sample'"):
        run.frame("sample")


# ---- what is shown ----


def test_a_run_shows_itself() -> None:
    html = swtch.load(OLD)._repr_html_()
    assert html.count("<div") == html.count("</div>") == 1
    assert "Claims: " in html and "<svg" in html
    assert "<script" not in html and "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", html)


def test_text_of_a_run_is_no_markup(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(OLD, folder)
    told = story.tell(folder)
    verdicts = tuple(
        msgspec.structs.replace(v, text="<b>bold</b>", why="&", claim="<i>") for v in told.verdicts
    )
    import dataclasses

    html = run_html(dataclasses.replace(told, verdicts=verdicts))
    assert "<b>" not in html and "&lt;b&gt;bold" in html and "<i>" not in html


def test_a_comparison_shows_itself() -> None:
    a, b = swtch.load(OLD), swtch.load(OLD)
    comparison = b.compare(a)
    frame = comparison.frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.height == len(comparison.compared.rows)
    assert "against" in repr(comparison)
    html = comparison._repr_html_()
    assert "against" in html and "<script" not in html


def test_a_run_that_was_cut_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(OLD, folder)
    samples = folder / store.SAMPLES
    samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:7]))
    run = swtch.load(folder)
    assert not run.complete
    assert "Not complete" in run._repr_html_()


def test_import_is_light() -> None:
    program = (
        "import sys, swtch\n"
        "heavy = {'numpy', 'scipy', 'polars', 'altair', 'rich', 'jinja2', 'msgspec', 'click'}\n"
        "assert callable(swtch.run) and callable(swtch.load)\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
