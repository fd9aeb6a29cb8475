# SPDX-License-Identifier: Apache-2.0
"""A run that went on under other conditions: said everywhere, and never mixed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec
import pytest
from synthetic import Scene

import swtch as lab
from swtch import cli, elsewhere, store
from swtch.analysis import adaptive
from swtch.analysis.findings import group_samples
from swtch.own import guard
from swtch.records import Interval, Sample
from swtch.report import as_json, as_markdown, write
from swtch.report.notebook import run_html
from swtch.report.story import tell

NEWER = {"the kernel": "6.12.0"}
Swtch = Callable[..., CompletedProcess[str]]


def resumed(begins: Iterable[int], there: dict[str, str] = NEWER, n: int = 20) -> Scene:
    """B2 is 1.5 times as fast as A before, and there A is the faster; from which block on each
    model went on there."""
    scene = Scene().scenario("A", "pthread", [100.0] * n).scenario("B2", "pthread", [150.0] * n)
    moved = []
    for sample in scene.samples:
        first = dict(zip(("A", "B2"), begins, strict=True))[str(sample.factors["scenario"])]
        if sample.block >= first:
            values = dict(sample.values)
            values["wall_ns"] *= 1 if sample.factors["scenario"] == "A" else 4
            sample = msgspec.structs.replace(sample, elsewhere=there, values=values)
        moved.append(sample)
    scene.samples = moved
    return scene


def blocks(samples: Iterable[Sample], case: str) -> list[int]:
    return [s.block for s in samples if s.factors.get("scenario") == case]


@pytest.fixture(autouse=True)
def nothing_noticed() -> Iterator[None]:
    guard.clear()
    yield
    guard.clear()


# ---- what is computed ----


@pytest.mark.parametrize(
    ("begins", "verdict", "used"),
    [
        # The machine as it is now, as soon as that can be judged.
        ((14, 14), "differs", range(14, 20)),
        ((8, 8), "differs", range(8, 20)),
        # A few blocks of it take no verdict away.
        ((15, 15), "holds", range(15)),
    ],
)
def test_claims_and_numbers_are_of_the_newest_that_can_be_judged(
    begins: tuple[int, int], verdict: str, used: range
) -> None:
    scene = resumed(begins)
    judged = scene.verdict("000.4")
    assert judged.verdict == verdict and judged.here is not None
    assert narrow(judged.here) and judged.here.n == len(used)
    for group in scene.groups():
        assert [sample.block for sample in group.good] == list(used)


def narrow(here: Interval) -> bool:
    """All blocks alike, but for what a clock of whole milliseconds does not tell: those of the
    two machines are four times apart."""
    return here.high < 1.06 * here.low


def test_an_interrupted_block_has_no_pair_of_two_machines() -> None:
    """Of block 15 A was measured before, and B2 after."""
    scene = resumed((16, 15))
    here = scene.verdict("000.4").here
    assert here is not None and here.n == 15 and narrow(here)


def test_many_samples_of_few_trials_take_no_verdict_of_others_away() -> None:
    """As in a run with a target: what had enough before was not measured there."""
    scene = resumed((8, 20), n=30)
    scene.samples = [s for s in scene.samples if s.factors["scenario"] == "A" or s.block < 8]
    used = elsewhere.alike(scene.samples)
    assert blocks(used, "A") == blocks(used, "B2") == list(range(8))


@pytest.mark.parametrize(("begin", "used"), [(3, range(3)), (2, range(2, 5))])
def test_where_nothing_can_be_judged_the_larger_part_counts(begin: int, used: range) -> None:
    assert blocks(elsewhere.alike(resumed((begin, begin), n=5).samples), "A") == list(used)


def test_of_as_many_that_decide_nothing_the_newest_count() -> None:
    assert blocks(elsewhere.alike(resumed((2, 2), n=4).samples), "A") == [2, 3]


def test_who_comes_back_is_where_he_began() -> None:
    """Seven blocks, seven elsewhere, and six as the first again."""
    scene = resumed((7, 7))
    scene.samples = [
        msgspec.structs.replace(s, elsewhere={}) if s.block >= 14 else s for s in scene.samples
    ]
    used = elsewhere.alike(scene.samples)
    assert blocks(used, "A") == [*range(7), *range(14, 20)]


def test_failed_samples_can_not_be_judged() -> None:
    scene = resumed((8, 8))
    scene.samples = [
        msgspec.structs.replace(s, status="failed", error="x", values={}) if s.block > 12 else s
        for s in scene.samples
    ]
    assert blocks(elsewhere.alike(scene.samples), "A") == list(range(8))


def test_a_users_program_is_another_for_its_own_experiment_alone() -> None:
    scene = resumed((15, 15), {"the probe program of scenarios": "0a"})
    scene.gantt(n=20)
    used = elsewhere.alike(scene.samples)
    assert len([s for s in used if s.experiment == "coroutine-gantt"]) == 20
    assert blocks(used, "A") == list(range(15))


def test_a_run_in_one_place_is_left_as_it_is() -> None:
    scene = resumed((20, 20))
    assert elsewhere.alike(scene.samples) == tuple(scene.samples)
    assert elsewhere.sentence(scene.manifest(), scene.samples) == ""


def test_a_target_is_met_under_one_condition() -> None:
    """Ten blocks here and ten there are not twenty of one kind."""
    scene = resumed((8, 8))
    manifest = scene.manifest(target=0.02)
    groups = group_samples(scene.trials, scene.samples)
    assert {group.trial.id for group in groups} == {one.id for one in scene.trials}
    before = [s for s in scene.samples if s.block < 8]
    there = [s for s in scene.samples if 8 <= s.block < 17]
    assert len(adaptive.Target(manifest).missed(before + there)) == 2
    whole = [s for s in scene.samples if s.block < 18]
    assert not adaptive.Target(manifest).missed(whole)


# ---- which facts ----


def machine(**kernel: Any) -> dict[str, Any]:
    return {
        "kernel": {"release": "6.1.0", "cmdline": "quiet", **kernel},
        "cpu": {"model": "Made-up", "vulnerabilities": {"spectre_v2": "Mitigation: IBRS"}},
        "engine": {
            "sha256": "both",
            "engines": [{"engine": "native", "sha256": "a"}, {"engine": "exact", "sha256": "b"}],
        },
    }


def test_instructions_do_not_care_for_the_machine() -> None:
    before, now = machine(), machine(release="6.12.0", cmdline="quiet mitigations=off")
    now["cpu"] = {"model": "Made-up", "vulnerabilities": {"spectre_v2": "Vulnerable"}}
    native = elsewhere.changes(*(elsewhere.facts(m, "native") for m in (before, now)))
    assert native == {
        "the kernel": "6.12.0",
        "the kernel's command line": "quiet mitigations=off",
        "the mitigation of spectre_v2": "Vulnerable",
    }
    exact = [elsewhere.facts(m, "exact") for m in (before, now)]
    assert exact == [{"the probe program": "b"}] * 2


@pytest.mark.parametrize("facts", [{}, {"kernel": None, "cpu": 7, "engine": "x"}])
def test_what_is_not_known_is_no_difference(facts: dict[str, Any]) -> None:
    assert elsewhere.facts(facts, "native") == {}
    assert elsewhere.changes({}, elsewhere.facts(machine(), "native")) == {}
    assert elsewhere.changes(elsewhere.facts(machine(), "native"), {}) == {}


# ---- where it is said ----

SAID = "This run went on under other conditions than it began with (the kernel 6.1.0, then 6.12.0)"


def test_every_form_of_the_report_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = resumed((15, 15)).write(tmp_path / "run")
    story = tell(folder)
    assert story.elsewhere.startswith(SAID)
    assert "of 30 of its 40 samples, those from before (the newest" in story.elsewhere
    for file in write(folder, story=story):
        assert SAID in file.read_text()
    assert SAID in as_markdown(folder) and as_json(folder)["elsewhere"] == story.elsewhere
    assert SAID in run_html(story)
    assert cli.main(["show", str(folder)]) == 0
    said = capsys.readouterr()
    assert SAID in " ".join(said.out.split()) and SAID in " ".join(said.err.split())


@pytest.mark.parametrize(
    ("begins", "ends"), [((8, 8), "those from there"), ((0, 0), "all its 40 samples")]
)
def test_it_is_said_of_whom_the_numbers_are(begins: tuple[int, int], ends: str) -> None:
    scene = resumed(begins)
    said = elsewhere.sentence(scene.manifest(), scene.samples)
    assert ends in said and said.endswith("What is said of the machine is of where it began.")


def test_a_long_fact_is_named_and_not_shown() -> None:
    scene = resumed((12, 12), {"the kernel's command line": "x" * 400, **NEWER})
    said = elsewhere.sentence(scene.manifest(), scene.samples)
    assert "the kernel's command line is not the same" in said and "xxx" not in said


def test_compare_and_history_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = resumed((12, 12)).write(tmp_path / "a")
    b = resumed((20, 20)).write(tmp_path / "b", created="2026-01-02T00:00:00+00:00")
    for words in (["compare", str(a), str(b)], ["history", str(tmp_path)]):
        assert cli.main(words) == 0
        assert capsys.readouterr().err.count("went on under other conditions") == 1


def test_history_says_what_was_not_as_in_the_run_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By where what is computed was measured: the second run's larger part was there."""
    runs = tmp_path / "runs"
    for number, begins in enumerate((20, 8, 20), start=1):
        at = f"2026-01-0{number}T00:00:00+00:00"
        resumed((begins, begins)).write(runs / f"{number}", created=at, run_id=f"run-{number}")
    page = tmp_path / "page.html"
    assert cli.main(["history", str(runs), "--html", str(page)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    told = "was measured under other conditions than the run before: "
    assert f"run-2 {told}the kernel 6.1.0, then 6.12.0." in said
    assert f"run-3 {told}the kernel 6.12.0, then 6.1.0." in said
    assert said.count(told) == page.read_text().count(told) == 2
    assert cli.main(["history", str(runs), "--format", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["conditions"]) == {"run-2", "run-3"}


@pytest.mark.filterwarnings("ignore:.*went on under other conditions")
def test_python_is_warned_and_has_all_samples(tmp_path: Path) -> None:
    folder = resumed((15, 15)).write(tmp_path / "run")
    with pytest.warns(UserWarning, match="went on under other conditions"):
        run = lab.load(folder)
    assert run.samples.height == 40
    assert run.samples["elsewhere"].to_list().count("the kernel: 6.12.0") == 10
    assert set(run.metrics["block"]) == set(range(15))
    assert run.verdicts.filter(claim="000.4")["n"].to_list() == [15]


# ---- where it is noted ----


def test_a_resumed_run_notes_what_changed(probe_dir: Path, swtch: Swtch, tmp_path: Path) -> None:
    command = ("run", "coroutine-gantt", "--repeats", "2", "--seed", "7", "--no-report")
    assert swtch(*command, "--out", "here").returncode == 0
    folder = tmp_path / "cwd" / "here"
    file, manifest = folder / "samples.jsonl", folder / "manifest.json"
    lines = file.read_bytes().splitlines(keepends=True)
    assert all(not sample.elsewhere for sample in store.load(folder).samples)
    half = len(lines) // 2
    file.write_bytes(b"".join(lines[: half + 1]))
    facts = json.loads(manifest.read_bytes())
    facts["environment"]["kernel"]["release"] = "5.0-old"
    manifest.write_text(json.dumps(facts))
    done = swtch("run", "--resume", "here", "--no-report")
    assert done.returncode == 0
    assert "the kernel is not the one this run began with (5.0-old, now " in done.stderr
    # As the report says it later.
    assert f"numbers and verdicts will be of {elsewhere.WHICH}" in done.stderr
    samples = sorted(store.load(folder).samples, key=lambda sample: sample.seq)
    noted = [sample.elsewhere for sample in samples]
    assert noted[: half + 1] == [{}] * (half + 1)
    assert {tuple(there) for there in noted[half + 1 :]} == {("the kernel",)}
    shown = swtch("show", "here")
    assert "went on under other conditions" in shown.stdout
