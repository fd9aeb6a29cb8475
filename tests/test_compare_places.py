# SPDX-License-Identifier: Apache-2.0
"""`swtch compare` across kernels, guests and machines: what is paired, and what is not and why."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from test_compare import sample

from swtch import cli, experiments, plan, store
from swtch.analysis import pairing
from swtch.analysis.comparison import Comparison
from swtch.analysis.findings import Place
from swtch.commands import compare
from swtch.errors import RequestError
from swtch.experiments import Setting
from swtch.records import Manifest, Model, Sample, Scalar, Trial

OLD = Path(__file__).parent / "data" / "run-schema-1"
MODELS: tuple[Model, ...] = ("pthread", "coroutine")


def native(name: str = "scenarios", cpus: tuple[int, ...] = (0, 1)) -> list[Trial]:
    return list(experiments.get(name).trials(Setting(cpus=cpus, models=MODELS)))


def guest(
    name: str, accel: str = "kvm", experiment: str = "scenarios", **more: Scalar
) -> list[Trial]:
    """The same trials in a guest, as the vm engine has them."""
    placed: dict[str, Scalar] = {"guest": name, "accel": accel, "arch": "amd64", **more}
    return [
        msgspec.structs.replace(
            trial, id=f"{trial.id}@{name}", engine="vm", factors={**trial.factors, **placed}
        )
        for trial in native(experiment)
    ]


def exact(name: str) -> list[Trial]:
    return [msgspec.structs.replace(trial, engine="exact") for trial in guest(name, "tcg")]


Change = Callable[[Trial, Sample], Sample]


def write(
    folder: Path,
    trials: Sequence[Trial],
    *,
    slower: float = 1.0,
    change: Change = lambda trial, one: one,
    repeats: int = 8,
    seed: int = 1,
    machine: str = "x86_64",
) -> str:
    """A complete run of `trials`; throughput of all is the same but for noise."""
    rng = random.Random(f"{seed}/{folder.name}")
    manifest = Manifest(
        run_id=folder.name,
        created="2026-01-01T00:00:00+00:00",
        swtch_version="0",
        command=("swtch", "run"),
        seed=seed,
        depth="normal",
        repeats=repeats,
        experiments=tuple(dict.fromkeys(trial.experiment for trial in trials)),
        models=MODELS,
        engine="native",
        trials=tuple(trials),
        plan=plan.make_plan(trials, repeats, seed),
        environment={"host": {"machine": machine}, "kernel": {"release": folder.name}},
    )
    by_id = {trial.id: trial for trial in trials}
    with store.Writer.create(folder, manifest) as writer:
        for one in manifest.plan:
            trial = by_id[one.trial_id]
            wall = round(40e6 * slower * (1 + 0.01 * rng.gauss(0, 1)))
            made = sample(trial, one.seq, one.block, wall)
            if trial.engine == "exact":
                values = {"wall_instructions": wall, **made.values}
                made = msgspec.structs.replace(made, values=values)
            writer.add(change(trial, made))
    return str(folder)


def of(a: str, b: str, *places: str | None) -> Comparison:
    return compare.compare_runs(compare.read(Path(a)), compare.read(Path(b)), *places).comparison


def pairings(made: Comparison) -> list[str]:
    return [str(one) for one in made.pairings]


# ---- places ----


def test_one_place_in_each_is_paired_silently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two guests of two kernels: the same work, other ids, and the kernels come first."""
    a = write(tmp_path / "a", guest("6.1-amd64", kernel="6.1.0"))
    b = write(tmp_path / "b", guest("6.12-amd64", kernel="6.12.0"), slower=1.3)
    made = of(a, b)
    assert pairings(made) == ["vm 6.1-amd64 against vm 6.12-amd64"]
    assert {row.word for row in made.rows} == {"slower"}
    assert len(made.trials) == 10
    assert not (made.apart or made.only_a or made.only_b)
    assert cli.main(["compare", a, b, "--fail-if-slower", "10%"]) == 1
    output = capsys.readouterr().out
    assert output.index("vm 6.12-amd64: kernel") < output.index("scenarios, all")
    assert cli.main(["compare", b, a, "--fail-if-slower", "10%"]) == 0


def test_the_same_places_are_compared_each_with_its_own(tmp_path: Path) -> None:
    both = [*native(), *guest("6.1-amd64")]
    made = of(write(tmp_path / "a", both), write(tmp_path / "b", both))
    assert pairings(made) == ["native", "vm 6.1-amd64"]
    assert {str(row.place) for row in made.rows} == {"native", "vm 6.1-amd64"}


def test_what_is_left_of_an_engine_is_paired(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [*native(), *guest("6.1-amd64")])
    b = write(tmp_path / "b", [*native(), *guest("6.12-amd64")])
    assert pairings(of(a, b)) == ["native", "vm 6.1-amd64 against vm 6.12-amd64"]


def test_a_place_that_only_one_has_is_only_in_that_one(tmp_path: Path) -> None:
    a = write(tmp_path / "a", native())
    made = of(a, write(tmp_path / "b", [*native(), *guest("6.1-amd64")]))
    assert pairings(made) == ["native"]
    assert not made.only_a
    assert "scenarios/B1/pthread, vm 6.1-amd64" in made.only_b


@pytest.mark.parametrize(
    ("a_place", "b_place", "paired"),
    [
        ("native", "native", "native"),
        ("6.1-amd64", "6.12-amd64", "vm 6.1-amd64 against vm 6.12-amd64"),
        ("native", "vm 6.12-amd64", "native against vm 6.12-amd64"),
        ("native", None, "native"),
    ],
)
def test_the_user_names_places(
    tmp_path: Path, a_place: str, b_place: str | None, paired: str
) -> None:
    many = [*native(), *guest("6.1-amd64"), *guest("6.12-amd64")]
    a, b = write(tmp_path / "a", many), write(tmp_path / "b", many)
    made = of(a, b, a_place, b_place)
    assert pairings(made) == [paired]
    assert len(made.trials) == 10
    assert not (made.only_a or made.only_b)


def test_two_guests_of_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "run", [*guest("6.1-amd64"), *guest("6.12-amd64")])
    options = ["--a-place", "6.1-amd64", "--b-place", "6.12-amd64", "--format", "json"]
    assert cli.main(["compare", run, run, *options]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["places"] == [{"a": "vm 6.1-amd64", "b": "vm 6.12-amd64"}]
    assert made["environment"][0] == {"fact": "place", "a": "vm 6.1-amd64", "b": "vm 6.12-amd64"}


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (
            (),
            "A was measured at vm 6.1-amd64, vm 6.6-amd64, B at native; say which to compare",
        ),
        (("vm",), "--a-place: A has several places 'vm': vm 6.1-amd64, vm 6.6-amd64."),
        (("6.5",), "--a-place: A has no place '6.5'; it has vm 6.1-amd64, vm 6.6-amd64."),
        ((None, ""), "--b-place: B has no place ''; it has native."),
        ((None, "native"), "A was measured at vm 6.1-amd64, vm 6.6-amd64; say which to compare"),
    ],
)
def test_places_that_are_not_clear(
    tmp_path: Path,
    places: tuple[str | None, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a = write(tmp_path / "a", [*guest("6.1-amd64"), *guest("6.6-amd64")])
    b = write(tmp_path / "b", native())
    options = zip(("--a-place", "--b-place"), places, strict=False)
    words = [word for name, value in options if value is not None for word in (name, value)]
    assert cli.main(["compare", a, b, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_run_without_samples_has_no_places() -> None:
    assert pairing.pair_places((), (Place("native"),), None, None) == ()
    with pytest.raises(RequestError, match="A has no place 'x'"):
        pairing.pair_places((Place("native"),), (Place("native"),), "x", None)


# ---- clocks ----


def counted(trial: Trial, one: Sample) -> Sample:
    """With the kernel's counts, of which pthreads' yields are twice as many in b."""
    switches = 400 + one.block
    if trial.model == "coroutine":
        return msgspec.structs.replace(one, values={**one.values, "switches": switches})
    made = {"index": 0, "pid": 1, "tid": 1, "cpu": 0, "start_ns": 0, "end_ns": 1}
    counts = {"nvcsw": switches, "nivcsw": switches * (2 if trial.factors.get("more") else 1)}
    return msgspec.convert({**msgspec.to_builtins(one), "threads": [{**made, **counts}]}, Sample)


def test_emulated_times_are_not_compared(tmp_path: Path) -> None:
    """Even of one guest in two runs: its counts are, where a trial has any."""
    a = write(tmp_path / "a", guest("6.1-amd64", "tcg"), change=counted)
    more = guest("6.1-amd64", "tcg", more=True)
    made = of(a, write(tmp_path / "b", more, slower=3.0, change=counted))
    assert {row.metric for row in made.trials} == {"nvcsw", "nivcsw", "user_switches"}
    called = {row.name: row.word for row in made.trials if row.differs}
    assert called == {"scenarios/B1/pthread": "more", "scenarios/B2/pthread": "more"}
    assert not made.slower(0.0)
    reasons = {one.name: one.reason for one in made.apart}
    assert set(reasons) == {"scenarios/A/pthread", "scenarios/A/coroutine"}
    assert set(reasons.values()) == {
        "an emulated processor's time is none, and it has no count to compare"
    }


def test_time_against_emulated_time_is_counts(tmp_path: Path) -> None:
    a = write(tmp_path / "a", native(), change=counted)
    made = of(a, write(tmp_path / "b", guest("6.1-amd64", "tcg"), slower=9.0, change=counted))
    assert pairings(made) == ["native against vm 6.1-amd64"]
    assert {row.better for row in made.rows} == {"neither"}
    assert "A's clock tells time, B's an emulated processor's time" in made.apart[0].reason


def test_instructions_are_compared_with_instructions(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", exact("6.1-amd64")), write(tmp_path / "b", exact("6.12-amd64"))
    assert {row.metric for row in of(a, b).trials} == {"throughput_opki"}
    made = of(a, write(tmp_path / "c", native()))
    assert not made.rows
    assert {one.reason for one in made.apart if "/A/" in one.name} == {
        "A's clock tells instructions, B's time, and it has no count to compare"
    }


def test_nothing_comparable_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write(tmp_path / "a", guest("6.1-amd64", "tcg", "ping"))
    assert cli.main(["compare", a, a]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "no trial can be compared" in line
    assert "an emulated processor's time is none" in line


def test_history_follows_no_emulated_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        write(tmp_path / "runs" / f"{number}", guest("6.1-amd64", "tcg"), change=counted)
    assert cli.main(["history", str(tmp_path / "runs"), "--format", "csv"]) == 0
    output = capsys.readouterr().out
    assert "nivcsw" in output
    assert "throughput_mops" not in output


# ---- trials ----


def test_a_count_that_is_zero_in_both_has_no_ratio(tmp_path: Path) -> None:
    def asleep(trial: Trial, one: Sample) -> Sample:
        values = {**one.values, "switches": 0}
        return msgspec.structs.replace(one, values=values)

    a = write(tmp_path / "a", guest("6.1-amd64", "tcg"), change=asleep)
    assert {one.reason for one in of(a, a).apart if one.name == "scenarios/B1/coroutine"} == {
        "user_switches is 0 in all of A's 8 and 0 in all of B's 8 samples: no ratio"
    }


def test_runs_of_few_invocations_say_how_many_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", native(), repeats=3)
    b = write(tmp_path / "b", native(), repeats=3, slower=3.0)
    assert cli.main(["compare", a, b, "--fail-if-slower", "1%"]) == 3
    captured = capsys.readouterr()
    assert "13 have too few invocations to tell: 4 of each run is the least." in captured.out
    (line,) = captured.err.splitlines()
    assert line.startswith("swtch: --fail-if-slower decides nothing: none of 13 comparisons has")
    assert "--repeats 4 or more" in line
    assert cli.main(["compare", a, b]) == 0


def test_a_threshold_needs_a_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of what an emulated guest counts nothing can be called slower."""
    trials = guest("6.1-amd64", "tcg")
    a, b = (write(tmp_path / name, trials, change=counted) for name in "ab")
    assert cli.main(["compare", a, b, "--fail-if-slower", "1%"]) == 3
    assert "comparisons is of a cost; compare places with a clock" in capsys.readouterr().err


def test_a_cost_that_is_not_positive_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is neither compared by something else nor missing on both sides."""

    def cost(trial: Trial, one: Sample) -> Sample:
        values = {"cost_ns": 90 - 30 * one.block, "single_ns": 500 + one.block, "wall_ns": 1}
        if not trial.factors["bytes"]:
            values["cost_ns"] = 90 + one.block
        return msgspec.structs.replace(one, values=values)

    setting = Setting(cpus=(0,), models=("uthread",), depth="quick")
    trials = experiments.get("working-set").trials(setting)[:3]
    a = write(tmp_path / "a", trials, change=cost)
    made = of(a, write(tmp_path / "b", trials, change=cost))
    assert {row.metric for row in made.trials} == {"cost_us"}
    assert len(made.trials) == 1
    assert {one.reason for one in made.apart} == {
        "cost_us is not above 0 in 5 of A's 8 and not above 0 in 5 of B's 8 samples: no ratio"
    }
    assert not (made.only_a or made.only_b)
    assert cli.main(["compare", a, a]) == 0
    assert "Not comparable: working-set/1024x8/uthread and 1 more:" in capsys.readouterr().out


def test_what_only_one_measured_well_is_said(tmp_path: Path) -> None:
    def broken(trial: Trial, one: Sample) -> Sample:
        bad = trial.id == "scenarios/C1/pthread"
        changed = msgspec.structs.replace(one, status="failed", error="hung", values={})
        return changed if bad else one

    a = write(tmp_path / "a", native())
    made = of(a, write(tmp_path / "b", native(), change=broken))
    assert [(one.name, one.reason) for one in made.apart] == [
        ("scenarios/C1/pthread", "B has no good sample of it")
    ]


def test_another_number_of_cpus_is_other_work_and_other_cpus_are_not(tmp_path: Path) -> None:
    a = write(tmp_path / "a", native(cpus=(0, 1)))
    assert len(of(a, write(tmp_path / "b", native(cpus=(2, 3)))).trials) == 10
    made = of(a, write(tmp_path / "c", native(cpus=(0,))))
    (reason,) = {one.reason for one in made.apart}
    assert reason == "its work is not the same in A and B: number of CPUs 2 and 1"


def test_no_trial_is_in_two_lists(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [*native(), *native("ping")[:1], *guest("6.1-amd64")])
    other = [*native(cpus=(0,)), *native("ping")[1:2], *guest("6.6-amd64", "tcg")]
    b = write(tmp_path / "b", other)
    made = of(a, b)
    assert not set(made.only_a) & set(made.only_b)
    pairs = [(row.name, str(row.place)) for row in made.trials]
    apart = [(one.name, one.place) for one in made.apart]
    assert len({*pairs, *apart}) == len(pairs) + len(apart)
    assert not {f"{name}, {place}" for name, place in apart} & {*made.only_a, *made.only_b}
    assert made.only_a == ("ping/same/pthread-pipe, native",)
    assert made.only_b == ("ping/same/pthread-socket, native",)


# ---- machines and versions ----


def test_runs_of_two_architectures_are_compared_and_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", native())
    b = write(tmp_path / "b", native(), machine="aarch64")
    page = tmp_path / "page.html"
    assert cli.main(["compare", a, b, "--html", str(page)]) == 0
    sentence = "A and B ran on processors of different architectures (native: amd64 and arm64)."
    output = capsys.readouterr().out
    assert output.index(sentence) < output.index("Not the same in both environments")
    html = page.read_text()
    assert html.index(sentence) < html.index('id="environment"')
    assert cli.main(["compare", a, a]) == 0
    assert "architectures" not in capsys.readouterr().out


def test_a_run_of_an_older_schema_is_compared_with_one_of_today(tmp_path: Path) -> None:
    old = store.load(OLD)
    today = tmp_path / "today"
    with store.Writer.create(today, old.manifest) as writer:
        for one in old.samples:
            writer.add(one)
    made = of(str(OLD), str(today))
    assert len(made.trials) == 5
    assert {row.ratio.estimate for row in made.trials} == {1.0}
    assert not (made.apart or made.only_a or made.only_b)


def test_a_run_of_a_newer_schema_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", native())
    path = Path(write(tmp_path / "b", native())) / store.MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "schema": 99}))
    assert cli.main(["compare", a, str(path.parent)]) == 5
    (line,) = capsys.readouterr().err.splitlines()
    assert "schema 99" in line
