# SPDX-License-Identifier: Apache-2.0
"""`swtch compare` and `swtch history`: what is called different, what is not, what is said."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swtch import cli, store
from swtch.analysis import changes, comparison, conditions
from swtch.analysis.comparison import Comparison
from swtch.analysis.findings import group_samples
from swtch.commands import compare, history, output
from swtch.errors import RequestError
from swtch.records import Manifest, Sample, Trial

MakeManifest = Callable[..., Manifest]
WORK = 4_000_000


def sample(trial: Trial, seq: int, block: int, wall_ns: float) -> Sample:
    made = {
        "seq": seq,
        "experiment": trial.experiment,
        "trial_id": trial.id,
        "model": trial.model,
        "engine": trial.engine,
        "factors": trial.factors,
        "block": block,
        "seed": 1,
        "started": "",
        "elapsed_ns": 1,
        "status": "ok",
        "values": {"wall_ns": wall_ns, "counter": WORK, "expected": WORK},
    }
    return msgspec.convert(made, Sample)


def noise(rng: random.Random) -> float:
    """A tail to one side, as timings have."""
    return 1 + 0.01 * rng.gauss(0, 1) + (rng.expovariate(10) if rng.random() < 0.1 else 0)


def write(
    folder: Path,
    manifest: Manifest,
    slower: Callable[[Trial], float] = lambda trial: 1.0,
    seed: int = 1,
    **environment: object,
) -> Path:
    """A complete run with made up samples."""
    rng = random.Random(seed)
    manifest = msgspec.structs.replace(
        manifest, run_id=folder.name, environment={"kernel": {"release": "6.1"}, **environment}
    )
    trials = {trial.id: trial for trial in manifest.trials}
    with store.Writer.create(folder, manifest) as writer:
        for one in manifest.plan:
            trial = trials[one.trial_id]
            wall = round(40e6 * noise(rng) * slower(trial))
            writer.add(sample(trial, one.seq, one.block, wall))
    return folder


def coroutines_slower(share: float) -> Callable[[Trial], float]:
    return lambda trial: 1 + share if trial.model == "coroutine" else 1.0


@pytest.fixture
def pair(tmp_path: Path, make_manifest: MakeManifest) -> tuple[str, str]:
    """Two runs; in the second coroutines are 20 % slower."""
    manifest = make_manifest(repeats=10)
    a = write(tmp_path / "a", manifest)
    b = write(tmp_path / "b", manifest, coroutines_slower(0.2), 2, kernel={"release": "6.12"})
    return str(a), str(b)


def of(a: str, b: str) -> Comparison:
    return compare.compare_runs(compare.read(Path(a)), compare.read(Path(b))).comparison


# ---- what is called ----


def test_a_slower_model_is_called_and_nothing_else(pair: tuple[str, str]) -> None:
    made = of(*pair)
    # All models together are called, too: a part of them did change.
    assert {row.model for row in made.rows if row.differs} == {"coroutine", None}
    (family,) = [row for row in made.families if row.model == "coroutine"]
    assert family.word == "slower"
    assert family.ratio.low < 1.2 < family.ratio.high
    assert family.trials == 5
    called = [row for row in made.trials if row.differs]
    assert len(called) == 5
    assert all(1.1 < row.ratio.estimate < 1.3 for row in called)


def test_the_other_way_round_it_is_faster(pair: tuple[str, str]) -> None:
    made = of(*reversed(pair))
    assert {row.word for row in made.rows if row.model == "coroutine"} == {"faster"}


def test_a_run_against_itself_is_the_same(pair: tuple[str, str]) -> None:
    made = of(pair[0], pair[0])
    assert {row.word for row in made.rows} == {"no difference"}
    assert {row.ratio.estimate for row in made.rows} == {1.0}


def test_a_family_is_no_finer_than_the_clock_of_its_trials(
    tmp_path: Path, make_manifest: MakeManifest
) -> None:
    """Ten times of 4 ms and ten of 5 ms, of a clock of 1 ms: which is more cannot be told."""
    manifest = make_manifest(repeats=10)
    for name, milliseconds in (("a", 4), ("b", 5), ("c", 40)):
        with store.Writer.create(tmp_path / name, manifest) as writer:
            trials = {trial.id: trial for trial in manifest.trials}
            for one in manifest.plan:
                wall = milliseconds * 1_000_000
                writer.add(sample(trials[one.trial_id], one.seq, one.block, wall))
    made = of(str(tmp_path / "a"), str(tmp_path / "b"))
    assert made.families and {row.word for row in made.rows} == {"no difference"}
    made = of(str(tmp_path / "a"), str(tmp_path / "c"))
    assert {row.word for row in made.rows} == {"slower"}


def test_the_copy_of_a_control_is_no_trial(pair: tuple[str, str]) -> None:
    assert not any("/again" in row.name for row in of(*pair).rows)


def test_other_work_of_the_same_name_is_not_compared(
    tmp_path: Path, make_manifest: MakeManifest
) -> None:
    manifest = make_manifest(repeats=5)
    trials = tuple(
        msgspec.structs.replace(trial, probe={**trial.probe, "iterations": 7})
        if trial.factors["scenario"] == "A"
        else trial
        for trial in manifest.trials
    )
    a = write(tmp_path / "a", manifest)
    b = write(tmp_path / "b", msgspec.structs.replace(manifest, trials=trials))
    made = of(str(a), str(b))
    reasons = {one.name: one.reason for one in made.apart}
    assert set(reasons) == {"scenarios/A/pthread", "scenarios/A/coroutine"}
    assert set(reasons.values()) == {
        "its work is not the same in A and B: iterations 1000000 and 7"
    }
    assert not made.only_a
    assert not made.only_b
    assert not any(row.name.startswith("scenarios/A/") for row in made.trials)


def test_simes_is_no_less_than_the_least_and_no_more_than_bonferroni() -> None:
    assert comparison.simes([0.01, 0.5, 0.9]) == pytest.approx(0.03)
    assert comparison.simes([0.04, 0.04, 0.04]) == pytest.approx(0.04)
    assert comparison.simes([0.2]) == 0.2


def test_a_single_trial_that_changed_is_found_among_many(
    tmp_path: Path, make_manifest: MakeManifest
) -> None:
    manifest = make_manifest(repeats=10)
    one = "scenarios/B2/pthread"
    a = write(tmp_path / "a", manifest)
    b = write(tmp_path / "b", manifest, lambda trial: 1.5 if trial.id == one else 1.0, 2)
    made = of(str(a), str(b))
    assert {row.name for row in made.trials if row.differs} == {one}
    families = {row.name: row.word for row in made.families if row.differs}
    assert set(families) == {"scenarios, all models", "scenarios, all pthread"}
    # What one of ten did is not what all have in common.
    assert families["scenarios, all models"] == "in part"


@pytest.mark.parametrize(
    ("models", "blocks"),
    [
        ({"pthread": 1}, 4),
        ({"pthread": 2}, 5),
        ({"pthread": 9}, 6),
        ({"pthread": 3, "kthread": 3}, 7),
    ],
)
def test_so_many_blocks_call_one_trial_alone_and_fewer_do_not(
    make_manifest: MakeManifest, models: dict[str, int], blocks: int
) -> None:
    trial = next(t for t in make_manifest().trials if t.factors.get("control") is None)
    trials = [
        msgspec.structs.replace(trial, id=f"scenarios/{number}/{model}", model=model)
        for model, count in models.items()
        for number in range(count)
    ]

    def called(count: int) -> set[str]:
        """Of runs of so many blocks, of which the last trial of B takes twice as long."""
        sides = [
            [
                sample(one, 0, block, (2 if slow and one is trials[-1] else 1) * 1e6 + block)
                for one in trials
                for block in range(count)
            ]
            for slow in (False, True)
        ]
        a, b = (group_samples(tuple(trials), samples) for samples in sides)
        made = comparison.compare_groups(a, b)
        return {row.name for row in made.trials if row.word == "slower"}

    assert comparison.blocks_for_one([tuple(models.values())]) == blocks
    assert called(blocks) == {trials[-1].id}
    assert called(blocks - 1) == set()


@pytest.mark.parametrize(("few", "many"), [(1, 60), (2, 50), (3, 40)])
@pytest.mark.parametrize("turned", [False, True])
def test_one_to_three_invocations_beside_many_call_nothing(
    few: int, many: int, turned: bool, make_manifest: MakeManifest
) -> None:
    """Their ranks are rare enough, but the interval says that it is none."""
    trial = next(t for t in make_manifest().trials if t.factors.get("control") is None)
    sides = [
        group_samples((trial,), [sample(trial, 0, b, times * 1e6 + 100 * b) for b in range(count)])
        for times, count in ((1, few), (2, many))
    ]
    made = comparison.compare_groups(*(sides[::-1] if turned else sides))
    (row,) = made.trials
    assert (row.ratio.method, row.word, row.p) == ("too few", "too few", 1.0)
    assert not made.slower(0.05)


# ---- environments ----


def test_environment_differences_come_without_what_is_restless() -> None:
    a = {"kernel": {"release": "6.1", "hz": 250}, "host": {"load": [1, 2, 3]}, "cpu": {"x": [0, 1]}}
    b = {"kernel": {"release": "6.12", "hz": 250}, "host": {"load": [3]}, "cpu": {"x": [0]}}
    assert [(d.fact, d.a, d.b) for d in conditions.of_environments(a, b)] == [
        ("kernel.release", "6.1", "6.12"),
        ("cpu.x", "0 1", "0"),
    ]
    assert conditions.of_environments({"a": 1}, {})[0].b == "–"


# ---- the command ----


def test_compare_tells_the_environment_first(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", *pair]) == 0
    said = capsys.readouterr().out
    assert said.index("kernel.release") < said.index("scenarios, all")
    assert "13 comparisons: 7 slower, 6 no difference." in said
    assert "5 trials without a difference are not listed; --all lists them." in said


def test_compare_in_other_forms(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["compare", *pair, "--format", "json", "--html", str(page)]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["environment"] == [{"fact": "kernel.release", "a": "6.1", "b": "6.12"}]
    assert {row["called"] for row in made["families"]} == {"slower", "no difference"}
    assert cli.main(["compare", *pair, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 13
    assert {row["called"] for row in rows if row["model"] == "coroutine"} == {"slower"}
    assert cli.main(["compare", *pair, "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith("| what | place |")
    html = page.read_text()
    assert html.index('id="environment"') < html.index('id="differences"')
    assert "default-src 'none'" in html
    assert "<svg" in html
    assert "<td>throughput, Mops/s</td>" in html
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", html)
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", html)


@pytest.mark.parametrize(
    ("share", "code"), [("5%", 1), ("0.05", 1), ("19%", 1), ("30%", 0), ("1", 0)]
)
def test_fail_if_slower_has_its_own_exit_code(
    pair: tuple[str, str], share: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", *pair, "--fail-if-slower", share]) == code
    said = capsys.readouterr().err
    assert ("slower (as a share): worst is scenarios" in said) == (code == 1)
    assert cli.main(["compare", *reversed(pair), "--fail-if-slower", share]) == 0


@pytest.mark.parametrize("text", ["", "five", "-1%", "5 percent", "nan", "1e9"])
def test_a_share_that_is_none(text: str) -> None:
    with pytest.raises(RequestError, match="--fail-if-slower"):
        output.parse_share("--fail-if-slower", text)


def test_runs_without_anything_in_common(
    tmp_path: Path, make_manifest: MakeManifest, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = make_manifest(repeats=2)
    a = write(tmp_path / "a", manifest)
    empty = tmp_path / "b"
    store.Writer.create(empty, manifest).close()
    assert cli.main(["compare", str(a), str(empty)]) == 3
    assert "have no trial in common" in capsys.readouterr().err
    assert cli.main(["compare", str(a), str(tmp_path / "none")]) == 5


# ---- over time ----


@pytest.fixture
def series(tmp_path: Path, make_manifest: MakeManifest) -> Path:
    """Nine runs; from the sixth on coroutines are slower."""
    folder = tmp_path / "runs"
    for number in range(9):
        manifest = msgspec.structs.replace(
            make_manifest(repeats=10), created=f"2026-01-0{number + 1}T00:00:00+00:00"
        )
        slower = coroutines_slower(0.25 if number >= 5 else 0.0)
        # Not in the order of their names.
        write(folder / f"run-{9 - number}", manifest, slower, number)
    return folder


def test_history_marks_the_run_that_changed(
    series: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["history", str(series), "--format", "csv", "--html", str(page)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    marked = [row for row in rows if row["cost_change"]]
    assert {row["run"] for row in marked} == {"run-4"}
    assert {row["trial"].rpartition("/")[2] for row in marked} == {"coroutine"}
    assert all(0.15 < float(row["cost_change"]) < 0.35 for row in marked)
    assert len(marked) >= 4  # one may drown in the noise of ten invocations
    assert "<svg" in page.read_text()
    assert cli.main(["history", str(series)]) == 0
    assert f"{len(marked)} changes from one run to the next" in capsys.readouterr().out
    assert cli.main(["history", str(series), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 9


def test_history_leaves_out_what_is_broken_and_says_so(
    series: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (series / "run-1" / store.MANIFEST).write_text("{")
    shutil.rmtree(series / "run-2" / store.LOGS)
    (series / "notes").mkdir()
    assert cli.main(["history", str(series), "--format", "md"]) == 0
    said = capsys.readouterr()
    assert "left out: " in said.err
    assert "run-1" in said.err
    assert said.out.startswith("| trial | engine |")


def test_history_is_in_the_order_of_time_in_any_zone(
    tmp_path: Path, make_manifest: MakeManifest, capsys: pytest.CaptureFixture[str]
) -> None:
    made = (
        ("none", "some day"),
        ("second", "2026-01-02T00:30:00+02:00"),
        ("fourth", "2026-01-01T23:00:00.5Z"),
        ("third", "2026-01-01T23:00:00"),
        ("first", "2026-01-01T20:00:00.000001-01:00"),
    )
    for name, created in made:
        manifest = msgspec.structs.replace(make_manifest(repeats=5), created=created, run_id=name)
        write(tmp_path / name, manifest)
    found = [run.path.name for run in history.runs_in(tmp_path)]
    assert found == ["none", "first", "second", "third", "fourth"]
    (tmp_path / "none" / store.MANIFEST).unlink()
    assert cli.main(["history", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("4 runs, 2026-01-01 21:00 UTC to 2026-01-01 23:00 UTC\n")


def test_history_of_one_run_or_none(
    tmp_path: Path, make_manifest: MakeManifest, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "runs" / "one", make_manifest(repeats=5))
    assert cli.main(["history", str(tmp_path / "runs")]) == 3
    assert "holds 1 runs, and a history needs two" in capsys.readouterr().err
    assert cli.main(["history", str(tmp_path / "none")]) == 5


# ---- changes of level ----


def steps(*levels: tuple[float, int], seed: int = 1, spread: float = 0.01) -> list[float]:
    rng = random.Random(seed)
    return [level * (1 + spread * rng.gauss(0, 1)) for level, n in levels for _ in range(n)]


@pytest.mark.parametrize(
    ("values", "points"),
    [
        (steps((10, 20)), ()),
        (steps((10, 10), (12, 10)), (10,)),
        (steps((10, 10), (12, 10), (9, 10)), (10, 20)),
        ([5.0] * 30, ()),
        ([1.0, 2.0], ()),
        ([], ()),
        ([10.0] * 9 + [1000.0] + [10.0] * 10, ()),
    ],
)
def test_changepoints(values: list[float], points: tuple[int, ...]) -> None:
    assert changes.changepoints(values) == points


def test_noise_is_rarely_a_change() -> None:
    found = sum(bool(changes.changepoints(steps((10, 20), seed=seed))) for seed in range(200))
    assert found <= 6  # 1 % of 200, give or take


@pytest.mark.parametrize(
    ("values", "course"),
    [
        (steps((10, 20)), "steady"),
        (steps((10, 10), (13, 10)), "slows down"),
        (steps((13, 10), (10, 10)), "speeds up"),
        (steps((10, 10), (13, 10), (10, 10)), "no steady state"),
        (steps((10, 10), (10.1, 10), spread=0.001), "steady"),
        (steps((10, 3), (20, 4)), "too short to tell"),
    ],
)
def test_course(values: list[float], course: str) -> None:
    assert changes.course(values) == course
