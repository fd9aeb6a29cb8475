# SPDX-License-Identifier: Apache-2.0
"""`swtch replicate`: what it measures where, what it says, and how it goes on."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
import synthetic

from swtch import claims, cli, experiments, report, spending, store
from swtch.claims import contradictions, every
from swtch.commands import campaign, replicate
from swtch.engines import Engine, choice
from swtch.engines.several import SeveralEngines
from swtch.errors import CannotError
from swtch.experiments import Experiment
from swtch.progress import duration
from swtch.records import Interval, Verdict, VerdictName
from swtch.report import chapters, story, verdicts

SMALL = ("replicate", "--depth", "quick", "--engine", "native", "--seed", "3")


def engine(*names: str) -> Engine:
    made = [SimpleNamespace(name=name, has_kthread=name != "native") for name in names]
    several = SeveralEngines(cast("list[Engine]", made))
    return several if len(made) > 1 else cast(Engine, made[0])


def verdict(
    claim: str, name: VerdictName = "holds", text: str = "It is so", guest: str = ""
) -> Verdict:
    here = Interval(estimate=2, low=1.5, high=2.5, n=5, unit="x")
    return Verdict(
        claim=claim,
        study=claim.partition(".")[0],
        text=text,
        published="3 x",
        here=None if name == "not measurable here" else here,
        engine="vm" if guest else "native",
        verdict=name,
        why="because",
        guest=guest,
    )


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> tuple[Experiment, ...]:
    """The two experiments that the fake probe can do."""
    chosen = (experiments.get("coroutine-gantt"),)
    monkeypatch.setattr(experiments, "every", lambda: chosen)
    return chosen


# ---- who measures what ----


def test_native_measures_all_and_a_guest_what_needs_kernel_threads() -> None:
    chosen = experiments.every()
    native, vm = replicate.shares_of(engine("native", "vm"), chosen, "quick")
    assert native.experiments == chosen
    assert "kthread" not in native.models
    assert all("kthread" in experiment.models for experiment in vm.experiments)
    assert {"scenarios", "pair-overhead"} <= {experiment.name for experiment in vm.experiments}


def test_the_exact_engine_counts_what_asks_for_it() -> None:
    asking = replace(experiments.get("scenarios"), exact_at=("normal", "paper"))
    chosen = (asking, experiments.get("coroutine-gantt"))
    assert replicate.wanted(chosen, "quick") == ("native", "vm")
    assert replicate.wanted(chosen, "normal") == ("native", "vm", "exact")
    shares = replicate.shares_of(engine("native", "vm", "exact"), chosen, "normal")
    assert [share.engine.name for share in shares] == ["native", "vm", "exact"]
    assert shares[2].experiments == (asking,)
    shares = replicate.shares_of(engine("native", "vm", "exact"), chosen, "quick")
    assert [share.engine.name for share in shares] == ["native", "vm"]


def test_a_guest_more_for_who_compares_kernels() -> None:
    found = replicate.further_guests(experiments.every())
    (name,) = found
    assert name.startswith("6.12-") and found[name] == {"eevdf-yield"}
    assert not replicate.further_guests((experiments.get("scenarios"),))


def test_without_a_guest_the_rest_is_measured(
    few: object,
    probe_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = choice.open_engine

    def refuse(options: choice.Options, *, say: Callable[[str], None]) -> Engine:
        if options.engines != ("native",):
            raise CannotError("QEMU is not installed.")
        return real(options, say=say)

    monkeypatch.setattr(choice, "open_engine", refuse)
    code = cli.main(["replicate", "--depth", "quick", "--out", str(tmp_path / "r")])
    assert code == 0
    said = capsys.readouterr().err
    assert "no guest, so no kernel threads: QEMU is not installed." in said
    assert store.load(tmp_path / "r").complete


# ---- the whole way ----


def test_it_says_how_long_measures_and_judges(
    few: object, probe_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "r"
    assert cli.main([*SMALL, "--out", str(folder)]) == 0
    said = capsys.readouterr()
    first = said.err.splitlines()[0]
    assert "1 experiments, 9 trials, at most " in first
    assert "a block of all, 7 of those that claims use, then up to 28" in first
    printed = " ".join(said.out.split())
    assert "were spent: " in said.err
    assert "Claims are judged at 98.3 % (native): the data were looked at" in printed
    assert "native: 3 of 3 claims are decided at a level of 0.983." in said.err
    assert said.out.startswith("Checks\n000.VII.1")
    assert "claims, by engine" in said.out
    with (folder / "verdicts.csv").open() as file:
        written = list(csv.DictReader(file))
    told = {claim.id for claim in every() if claim.experiment == "coroutine-gantt"}
    assert {row["claim"] for row in written} == told  # VII has letters
    assert {row["study"] for row in written} == {"study 000"}
    assert {row["verdict"] for row in written} <= {"holds", "differs", "cannot tell"}
    assert all(row["why"] and row["published"] and row["engine"] for row in written)
    assert (folder / "report.html").exists()
    # The second time it knows, and with --repeats it does what it is told.
    fixed = ("--repeats", "6", "--out", str(tmp_path / "again"))
    assert cli.main([*SMALL, *fixed, "--format", "json"]) == 0
    said = capsys.readouterr()
    first = said.err.splitlines()[0]
    assert "1 experiments, 9 trials x 6 repeats = 54 invocations, about" in first
    assert "as timed here before" in first
    assert {v["claim"] for v in json.loads(said.out)["verdicts"]} == told


def test_with_a_budget_it_goes_on_where_it_was_interrupted(
    few: object,
    probe_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Its claims are checks, for which nothing is measured again: here they are findings.
    findings = tuple(dataclasses.replace(claim, kind="finding") for claim in claims.every())
    monkeypatch.setattr(claims, "every", lambda: findings)
    folder = tmp_path / "r"
    # Far more than it takes on any machine: what is measured is what is undecided, not what
    # there was time for, which would be another each time.
    assert cli.main([*SMALL, "--budget", "10h", "--out", str(folder)]) == 0
    run = store.load(folder)
    assert run.complete
    assert run.manifest.spending is not None
    assert len(run.samples) < len(run.manifest.plan)
    lines = (folder / store.SAMPLES).read_bytes().splitlines(keepends=True)
    (folder / store.SAMPLES).write_bytes(b"".join(lines[:31]) + b'{"cut')
    part = store.load(folder)
    assert not part.complete
    left = spending.Spender(part.manifest).seconds_left(part.samples)
    assert left is not None and left < run.manifest.spending.budget_ns / 1e9
    capsys.readouterr()
    assert cli.main(["replicate", "--resume", str(folder)]) == 0
    said = f"31 invocations are there, at most {duration(left)} of the budget are left"
    assert said in capsys.readouterr().err
    again = store.load(folder)
    assert again.complete
    assert {one.seq for one in again.samples} == {one.seq for one in run.samples}
    assert cli.main(["replicate", "--resume", str(folder)]) == 0
    assert "nothing is left to do" in capsys.readouterr().err


def test_it_goes_on_where_it_was_interrupted(
    few: object, probe_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "r"
    assert cli.main([*SMALL, "--repeats", "6", "--out", str(folder)]) == 0
    lines = (folder / store.SAMPLES).read_bytes().splitlines(keepends=True)
    (folder / store.SAMPLES).write_bytes(b"".join(lines[:10]) + b'{"cut')
    (folder / verdicts.NAME).unlink()
    capsys.readouterr()
    assert cli.main(["replicate", "--resume", str(folder), "--format", "csv"]) == 0
    said = capsys.readouterr()
    assert "44 of 54 are left, about" in said.err
    assert said.out.startswith("study,claim,kind,text,published,here,engine,verdict,why\n")
    after = (folder / store.SAMPLES).read_bytes()
    assert after.startswith(b"".join(lines[:10]))
    assert store.load(folder).complete
    assert (folder / verdicts.NAME).exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--resume", "x", "--depth", "quick"), "--resume continues the plan as it was made"),
        (("--depth", "deep"), "'deep' is not one of"),
        (("--engine", "bare"), "there is no engine 'bare'"),
        (("--quick", "--depth", "paper"), "--quick is --depth quick, and --depth paper"),
        (("--resume", "x", "--repeats", "7"), "--resume continues the plan as it was made"),
        (("--resume", "x", "--quick"), "--resume continues the plan as it was made"),
        (("--repeats", "0"), "0 is not in the range"),
        (("--until", "much"), "--until: 'much' is no share"),
        (("--budget", "long"), "--budget: 'long' is no duration; give one like 90s, 6min or 1h."),
        (("--budget", "-1h"), "--budget: '-1h' is no duration"),
        (("--budget", "0s"), "--budget: '0s' is not between one second and thirty days"),
        (("--budget", "9999h"), "--budget: '9999h' is not between"),
        (("--budget", "0.9s"), "--budget: '0.9s' is not between one second and thirty days"),
        (("--budget", "1h", "--repeats", "7"), "--budget says how long, --repeats how often"),
        (("--budget", "1h", "--until", "2%"), "--budget says how long, --until how often"),
        (("--resume", "x", "--budget", "1h"), "--resume continues the plan as it was made"),
        (("--policy", "nice"), "'nice' is not one of"),
        (("--cpus", "65"), "65 is not in the range"),
        (("--engine", "native", "--cpus", "2"), "--cpus belongs to --engine vm"),
        (("scenarios",), "unexpected extra argument"),
    ],
)
def test_what_cannot_be_asked(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replicate", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_terms_are_those_of_run() -> None:
    assert campaign.Terms(depth="normal") == campaign.Terms(depth="normal", policy=None)


def test_a_budget_too_short_for_one_block_is_refused(
    few: object,
    probe_dir: Path,
    tmp_path: Path,
    one_line: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is written; but a budget that nobody asked for is made long enough."""
    folder = tmp_path / "r"
    code = cli.main([*SMALL, "--budget", "2s", "--out", str(folder)])
    assert code == 2
    said = one_line(capsys.readouterr().err)
    assert "--budget: 2 s is too short: one block of all 9 trials takes about" in said
    assert not folder.exists()


def test_quick_and_normal_have_budgets_and_paper_has_blocks() -> None:
    assert spending.DEFAULT_S == {"quick": 360, "normal": 3600, "paper": None}


def test_it_takes_the_options_of_run(
    few: object, probe_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan that `swtch run` makes of them."""
    given = ("--quick", "--repeats", "7", "--policy", "other", "--seed", "3", "--until", "50%")
    made = []
    for command in (("replicate", "--engine", "native"), ("run", "coroutine-gantt")):
        folder = tmp_path / command[0]
        assert cli.main([*command, *given, "--out", str(folder)]) == 0
        made.append(store.load_manifest(folder))
    one, other = made
    assert one.repeats == 7
    assert one.target == 0.5
    assert {trial.probe["policy"] for trial in one.trials if "policy" in trial.probe} <= {"other"}
    assert (one.trials, one.plan, one.target) == (other.trials, other.plan, other.target)


# ---- the table ----


def test_rows_have_everything() -> None:
    (row,) = verdicts.rows([verdict("000.4", "differs", guest="6.1-amd64")])
    assert tuple(row) == verdicts.COLUMNS
    assert row["here"] == "2 [1.50, 2.50] x"
    assert row["engine"] == "vm 6.1-amd64"
    assert verdicts.rows([verdict("000.4", "not measurable here")])[0]["here"] == "–"


def test_in_csv_no_two_claims_are_one_number() -> None:
    table = verdicts.rows([verdict(claim) for claim in ("000.1", "000.10", "000.VII.1")])
    written = [row["claim"] for row in verdicts.for_csv(table)]
    assert written == ["claim 000.1", "claim 000.10", "000.VII.1"]


def test_contradictions_stand_side_by_side() -> None:
    one, other = verdict("000.4"), verdict("001.4", "differs")
    (found,) = contradictions.judged([one, other, verdict("003.2")])
    assert (found.left, found.right) == ((one,), (other,))
    assert verdicts.side(found.right).endswith("here: 2 [1.50, 2.50] x (native), differs")


def test_a_contradiction_needs_both_sides() -> None:
    assert contradictions.judged([verdict("000.4")]) == ()


def test_contradictions_name_claims_of_the_studies() -> None:
    """Of those studies that have claims: no slip in an id."""
    known = {claim.id for claim in every()}
    studies = {claim.study for claim in every()}
    for one in contradictions.CONTRADICTIONS:
        for claim in (*one.left, *one.right):
            assert claim in known or claim.partition(".")[0] not in studies, claim


# ---- chapters ----


@pytest.mark.parametrize("name", experiments.names())
def test_what_a_chapter_says_is_said_of_a_story(name: str) -> None:
    """Not of a place: a text taken for sentences is a page of a hundred megabytes."""
    says = getattr(chapters.chapter(name), "sentences", None)
    if says is not None:
        assert list(inspect.signature(says).parameters) == ["story"]


# ---- the page ----


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of both kinds of claims of study 000."""
    scene = synthetic.everything({}, ("pthread", "uthread"), n=6)
    return scene.write(tmp_path_factory.mktemp("full") / "run")


@pytest.mark.parametrize(
    ("form", "begins"), [("svg", b"<svg "), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_figures_are_files_for_a_paper(
    form: str, begins: bytes, full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(full), "--figures", form, "-o", str(tmp_path)]) == 0
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert files
    assert {file.parent for file in files} == {tmp_path / "figures"}
    for file in files:
        assert file.suffix == f".{form}"
        assert file.read_bytes().startswith(begins)
        if form == "svg":
            assert b"currentColor" not in file.read_bytes()


def test_contradictions_are_in_every_form(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = contradictions.Contradiction("Which is it?", ("000.1",), ("000.2",), "They differ.")
    monkeypatch.setattr(contradictions, "CONTRADICTIONS", (pair,))
    html, markdown, made = (file.read_text() for file in report.write(full, ("html", "md", "json")))
    for text in (html, markdown):
        assert "Where the studies contradict each other" in text
        assert "Which is it? " in text.replace("<br>", " ").replace("?<", "? <")
    assert json.loads(made)["contradictions"] == [
        {"about": "Which is it?", "because": "They differ.", "left": ["000.1"], "right": ["000.2"]}
    ]


def test_a_contradiction_that_is_decided_is_a_finding() -> None:
    (said,) = story._contradiction_sentence([verdict("000.4"), verdict("001.4", "differs")])
    assert "claim 000.4 holds" in said
    assert story._contradiction_sentence([verdict("000.4"), verdict("001.4")]) == []


def test_the_claim_that_differs_by_most_is_a_finding() -> None:
    near, far = (
        msgspec.structs.replace(verdict(name, "differs"), threshold=threshold)
        for name, threshold in (("000.4", 1.9), ("003.2", 100.0))
    )
    (said,) = story._surprise_sentence([near, far, verdict("000.1")])
    assert said.startswith("Claim 003.2, “It is so”, differs here")
    assert story._surprise_sentence([verdict("000.1")]) == []


def test_trials_that_change_while_they_are_measured_are_named(tmp_path: Path) -> None:
    scene = synthetic.Scene()
    calm = [100 + 0.1 * (number % 3) for number in range(12)]
    scene.scenario("A", "pthread", calm)
    scene.scenario("B1", "pthread", [*calm[:6], *(value / 2 for value in calm[6:])])
    told = story.tell(scene.write(tmp_path / "run"))
    said = "Over the blocks of the run, by changepoints: 1 steady; 1 slows down"
    assert told.courses == f"{said} (scenarios/B1/pthread)."
    short = synthetic.Scene()
    short.scenario("A", "pthread", calm[:5])
    assert story.tell(short.write(tmp_path / "short")).courses == ""
