# SPDX-License-Identifier: Apache-2.0
"""Experiments from outside the package: programs, packages, and the registry of them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from outside import WHOLE, OneLine, Swtch, anew, measured, mine, nothing_registered, run

from swtch import claims, experiments, own, store
from swtch.engines import PROBES
from swtch.errors import RequestError
from swtch.own import guard, loading

__all__ = ["anew", "measured", "mine", "nothing_registered", "run"]  # the fixtures

# ---- a program of one's own ----

PROGRAM = """\
#!{python}
import json, sys, time
trial = json.load(sys.stdin)
begin = time.perf_counter_ns()
for _ in range(trial["times"]):
    pass
wall = time.perf_counter_ns() - begin
for line in (
    {{"kind": "hello", "probe": "mine", "version": "1", "pid": 1}},
    {{"kind": "sample", "model": trial["model"], "wall_ns": wall, "argument": int(sys.argv[1])}},
    {{"kind": "end", "samples": 1}},
):
    print(json.dumps({{"schema": 1, **line}}), flush=True)
"""

WITH_PROGRAM = """\
from swtch.experiments import Experiment, Main, value


def trials(setting):
    return [
        setting.trial("empty-loop", str(n), setting.probe("loop", "own", times=n), {"times": n})
        for n in (10, 1000)
    ]


EXPERIMENT = Experiment(
    name="empty-loop",
    title="An empty loop",
    study="mine",
    question="What does a turn take?",
    models=("own",),
    seconds=0.1,
    trials=trials,
    program=("./probe", "7"),
    metrics={"argument": value("argument", "")},
    main={"time": Main("wall_ms")},
)
"""


@pytest.fixture
def with_program(mine: Path) -> Path:
    probe = mine.with_name("probe")
    probe.write_text(PROGRAM.format(python=sys.executable))
    probe.chmod(0o755)
    mine.write_text(WITH_PROGRAM)
    return mine


def test_a_program_speaks_the_protocol(with_program: Path, anew: Swtch, probe_dir: Path) -> None:
    few = ("--repeats", "2", "--quiet")
    arguments = ("./mine.py", "--quick", "--out", "run", *few, "--format", "json")
    done = anew("run", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)["findings"]
    assert {one["trial"]["model"] for one in found} == {"own"}
    assert [one["intervals"]["argument"]["estimate"] for one in found] == [7, 7, 7]
    (source,) = store.load_manifest(with_program.parent / "run").sources
    assert source.experiments[0].program == ("./probe", "7")
    assert source.experiments[0].program_sha256


def test_a_program_that_came_with_a_run_is_not_started(
    with_program: Path, anew: Swtch, one_line: OneLine, probe_dir: Path, tmp_path: Path
) -> None:
    few = ("--repeats", "2", "--no-report")
    assert anew("run", "./mine.py", "--quick", *few, "--out", "run", "--quiet").returncode == 0
    samples = with_program.parent / "run" / "samples.jsonl"
    samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:3]))
    stranger = {"XDG_STATE_HOME": str(tmp_path / "stranger")}
    refused = anew("run", "--resume", "run", "--quiet", **stranger)
    assert refused.returncode == 3
    assert "only started when you trust it" in refused.stderr.splitlines()[0] + refused.stderr
    assert len(samples.read_bytes().splitlines()) == 3

    program = with_program.with_name("probe")
    program.write_text(program.read_text() + "# another by now\n")
    went_on = anew("run", "--resume", "run", "--quiet", "--no-report")
    assert went_on.returncode == 0
    assert "the probe program of empty-loop is not the one" in went_on.stderr

    samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:3]))
    program.unlink()
    gone = anew("run", "--resume", "run", "--quiet")
    assert gone.returncode == 3
    assert "which is not there" in one_line(gone.stderr)


def test_a_great_program_is_not_read_into_memory(tmp_path: Path) -> None:
    program = tmp_path / "great"
    with program.open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        named = loading.digest((str(program),))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert named == loading.hashlib.sha256(bytes(64 << 20)).hexdigest()
    assert most < 4 << 20
    assert loading.digest((str(tmp_path),)) == loading.digest(()) == ""


def test_a_program_stays_on_the_machine(
    with_program: Path, probe_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from swtch.engines import choice

    class Guest:
        name = "vm"

    monkeypatch.chdir(with_program.parent)
    (name,) = own.resolve(["./mine.py"])
    with pytest.raises(RequestError, match="runs on the machine itself"):
        choice.shares(Guest(), None, ("own", "pthread"), [experiments.get(name)])  # type: ignore[arg-type]


# ---- packages ----


@pytest.fixture
def package(tmp_path: Path) -> dict[str, str]:
    """An installed package with an entry point, and another that does not import."""
    site = tmp_path / "site"
    info = site / "their_lab-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-lab\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[swtch.experiments]\npipes = their_lab\nzbroken = their_broken\n"
    )
    (site / "their_lab.py").write_text(WHOLE)
    (site / "their_broken.py").write_text("\nimport nothing_of_that_name\n")
    return {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


def test_packages_are_listed_with_where_they_come_from(
    package: dict[str, str], swtch: Swtch, probe_dir: Path
) -> None:
    done = swtch("list", "--format", "json", **package)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "their_broken), line 2: import: ModuleNotFoundError" in done.stderr
    listed = {one["experiment"]: one for one in json.loads(done.stdout)["experiments"]}
    assert listed["pipe-or-futex"]["from"] == "their-lab 1.2 (their_lab)"
    assert listed["ping"]["from"] == "swtch"
    assert "their-lab 1.2" in swtch("list", "--format", "md", **package).stdout


def test_a_packages_experiment_is_run_by_name(
    package: dict[str, str], swtch: Swtch, probe_dir: Path, tmp_path: Path
) -> None:
    few = ("--repeats", "2", "--no-report")
    arguments = ("run", "pipe-or-futex", "--quick", *few, "--out", "run", "--quiet")
    assert swtch(*arguments, **package).returncode == 0
    (source,) = store.load_manifest(tmp_path / "cwd" / "run").sources
    assert (source.package, source.path, source.copy) == ("their-lab 1.2", "their_lab", "")
    with_it = swtch("show", "run", **package)
    assert "mine.1" in with_it.stdout
    without = swtch("show", "run")
    assert without.returncode == 0 and "mine.1" not in without.stdout
    assert "their-lab 1.2 is not installed here" in without.stderr


# ---- the registry ----


def test_nothing_named_is_swtchs_own(mine: Path) -> None:
    before = experiments.every(), claims.every()
    own.resolve([str(mine)])
    assert experiments.find("pipe-or-futex") is not None
    assert experiments.every() == before[0]
    assert {one.id for one in claims.every()} - {one.id for one in before[1]} == {"mine.1"}


def test_a_file_named_again_replaces_itself(mine: Path) -> None:
    own.resolve([str(mine)])
    mine.write_text(WHOLE.replace("Pipe or futex", "Another title"))
    own.resolve([str(mine)])
    assert experiments.get("pipe-or-futex").title == "Another title"
    assert [one.id for one in claims.every()].count("mine.1") == 1


def test_the_probes_are_those_of_the_program(probe: Path) -> None:
    done = subprocess.run(
        [probe], input=b'{"schema":1,"probe":"none","model":"pthread"}', capture_output=True
    )
    error = json.loads(done.stdout.splitlines()[-1])
    assert error["what"].partition("one of ")[2].split(", ") == list(PROBES)


def test_the_fault_of_one_file_is_not_anothers(mine: Path) -> None:
    (mine.parent / "bad.py").write_text("1 / 0\n")
    with pytest.raises(RequestError, match=r"bad\.py, line 1: does not import: ZeroDivision"):
        own.resolve([str(mine.parent / "bad.py")])
    assert own.resolve([str(mine)]) == ("pipe-or-futex",)
    assert guard.faults() == ()


def test_two_versions_are_read_by_the_second(run: Path, mine: Path, anew: Swtch) -> None:
    mine.write_text(WHOLE.replace("Pipe or futex", "Another title"))
    second = ("--out", "second", "--no-report")
    assert anew("run", "./mine.py", "--quick", *second, "--quiet").returncode == 0
    done = anew("compare", "run", "second")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "different versions of it; both are read by that of second" in done.stderr


def test_a_stranger_resumes_what_needs_no_code(
    run: Path, anew: Swtch, probe_dir: Path, tmp_path: Path
) -> None:
    """What is left is in the manifest, and the probe is swtch's own."""
    samples = run / "samples.jsonl"
    samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:9]))
    stranger = {"XDG_STATE_HOME": str(tmp_path / "stranger")}
    done = anew("run", "--resume", "run", "--quiet", **stranger)
    assert done.returncode == 0
    assert len(samples.read_bytes().splitlines()) == 18
    assert "each_ns" in done.stdout and "mine.1" not in done.stdout
    assert "which was not run" in done.stderr
