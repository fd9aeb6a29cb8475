# SPDX-License-Identifier: Apache-2.0
"""Experiments from outside the package: files, packages, programs, and what is wrong with them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from swtch import claims, cli, experiments, own, store
from swtch.engines import PROBES
from swtch.errors import RequestError
from swtch.experiments import Setting
from swtch.own import guard, loading, trust

Swtch = Callable[..., "subprocess.CompletedProcess[str]"]
OneLine = Callable[[str], str]

SETTING = Setting(cpus=(0, 1), models=("pthread", "uthread", "own"))

WHOLE = '''\
"""Is a hand-over by pipe dearer than by futex?"""

from swtch.analysis.findings import effect
from swtch.claims import Claim, missing
from swtch.experiments import BEYOND, EACH, Experiment, Metric, timed

NAME = "pipe-or-futex"


def trials(setting):
    return tuple(
        setting.trial(
            NAME,
            f"{by}/pthread",
            setting.probe("ring", "pthread", by=by, members=2, batches=5, laps=5),
            {"by": by},
        )
        for by in ("pipe", "futex")
        if "pthread" in setting.models
    )


def dearer(evidence):
    pipe, futex = (evidence.group(NAME, "pthread", by=by) for by in ("pipe", "futex"))
    here = effect(pipe, futex, "each_ns") if pipe and futex else None
    if here is None:
        return missing("hand-overs by pipe and futex are needed")
    return evidence.above(here, 1.0, "by pipe over by futex")


class Chapter:
    def sentences(self, story):
        return ["Said by the file."]


EXPERIMENT = Experiment(
    name=NAME,
    title="Pipe or futex",
    study=BEYOND,
    question="Is a pipe dearer than a futex?",
    models=("pthread",),
    seconds=0.05,
    trials=trials,
    metrics={
        **timed(each="each_p50"),
        "twice": Metric(unit="ns", of=lambda v: 2 * v["each_p50_ns"]),
    },
    main=EACH,
)
CLAIMS = (
    Claim(
        id="mine.1",
        study="mine",
        experiment=NAME,
        text="A pipe is dearer than a futex",
        published="nowhere",
        check=dearer,
    ),
)
CHAPTER = Chapter()
'''


@pytest.fixture(autouse=True)
def nothing_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    own.forget()
    trust.forget()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "cwd"
    folder.mkdir(exist_ok=True)
    file = folder / "mine.py"
    file.write_text(WHOLE)
    return file


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, fake_probe_in: Callable[[Path], Path]
) -> Path:
    """The file and a run of it, measured once, in a process of its own, by the fake probe."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "mine.py").write_text(WHOLE)
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder / "state"),
        "SWTCH_PROBE_DIR": str(fake_probe_in(folder)),
        "FAKE_PROBE": "ok",
    }
    arguments = ("./mine.py", "--quick", "--out", "run", "--quiet", "--seed", "1")
    done = subprocess.run(
        [sys.executable, "-m", "swtch", "run", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (folder / "state" / "swtch" / "trusted").read_text().splitlines()
    assert line.endswith(ascii(str((folder / "mine.py").resolve())))
    return folder


@pytest.fixture
def run(measured: Path, mine: Path, probe_dir: Path) -> Path:
    """That run as if it had been measured beside this test's file by its user."""
    folder = mine.parent / "run"
    shutil.copytree(measured / "run", folder)
    manifest = folder / "manifest.json"
    there, here = str((measured / "mine.py").resolve()), str(mine.resolve())
    text = manifest.read_text()
    assert there in text
    manifest.write_text(text.replace(there, here))
    for source in store.load_manifest(folder).sources:
        trust.add(source.sha256, source.path)
    trust.forget()  # what the file of the user's state says stays
    return folder


@pytest.fixture
def anew(mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Swtch:
    """The command line as `swtch` runs it, without the second that a process needs to load:
    nothing is registered or trusted but by what lies on the disk."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own.forget()
        trust.forget()
        capsys.readouterr()
        with monkeypatch.context() as within:
            within.chdir(mine.parent)
            for name, value in environment.items():
                within.setenv(name, value)
            code = cli.main(arguments)
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


Inside = Callable[..., tuple[int, str, str]]


@pytest.fixture
def inside(
    mine: Path, probe_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Inside:
    """The command line within this process, beside the file: code and both outputs."""
    monkeypatch.chdir(mine.parent)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        return (code, *capsys.readouterr())

    return run


def line_of(text: str, word: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if word in line)


# ---- a file ----


def test_a_file_is_run_judged_and_shown(mine: Path, swtch: Swtch, probe_dir: Path) -> None:
    done = swtch("run", "./mine.py", "--quick", "--out", "run", "--quiet", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert [verdict["claim"] for verdict in report["verdicts"]] == ["mine.1"]
    assert report["verdicts"][0]["verdict"] != "not measurable here"
    assert report["said"] == {"pipe-or-futex": ["Said by the file."]}
    found = {one["trial"]["id"]: one["intervals"] for one in report["findings"]}
    assert found["pipe-or-futex/pipe/pthread"]["twice"]["estimate"] == 100
    page = (mine.parent / "run" / "report.html").read_text()
    assert "Pipe or futex" in page and "A pipe is dearer" in page


def test_the_run_keeps_the_file(run: Path, mine: Path) -> None:
    (source,) = store.load_manifest(run).sources
    assert source.path == str(mine.resolve())
    assert (run / source.copy).read_bytes() == mine.read_bytes()
    (outline,) = source.experiments
    assert (outline.name, outline.models) == ("pipe-or-futex", ("pthread",))
    assert outline.main["time"] == ("each_ns", "less")
    # A function's metric cannot be told without running it.
    assert set(outline.metrics) == {"each_ns", "each_instructions"}


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_a_run_is_read_as_it_was_measured(change: str, run: Path, mine: Path, anew: Swtch) -> None:
    if change == "gone":
        mine.unlink()
    else:
        mine.write_text("raise SystemExit(9)\n")
    done = anew("show", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "mine.1" in done.stdout and "Said by the file." in done.stdout
    other = anew("compare", "run", "run")
    assert (other.returncode, other.stderr) == (0, "")
    assert "pipe-or-futex" in other.stdout


def test_a_run_of_a_file_is_resumed(run: Path, mine: Path, anew: Swtch) -> None:
    mine.unlink()
    samples = run / "samples.jsonl"
    lines = samples.read_bytes().splitlines(keepends=True)
    samples.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    done = anew("run", "--resume", "run", "--quiet")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "incomplete last line" in done.stderr
    assert len(samples.read_bytes().splitlines()) == len(lines)
    assert "mine.1" in done.stdout


# ---- whose code runs ----


def test_code_that_came_with_a_run_is_not_executed(run: Path, mine: Path, anew: Swtch) -> None:
    mine.unlink()
    trace = mine.parent / "executed"
    (source,) = store.load_manifest(run).sources
    # Somebody else's run: a file that this user never named.
    kept = run / source.copy
    kept.write_text(f"open({str(trace)!r}, 'w')\n" + WHOLE)
    text = (run / "manifest.json").read_text()
    (run / "manifest.json").write_text(
        text.replace(source.sha256, loading.hashlib.sha256(kept.read_bytes()).hexdigest())
    )
    for command in (("show", "run"), ("report", "run"), ("compare", "run", "run")):
        done = anew(*command)
        assert done.returncode == 0
        assert not trace.exists()
        assert done.stderr.count("\n") == 1
        assert "brings code of its own" in done.stderr and "swtch trust run" in done.stderr
    shown = anew("show", "run", "--format", "json")
    report = json.loads(shown.stdout)
    assert report["verdicts"] == []
    intervals = report["findings"][0]["intervals"]
    assert "each_ns" in intervals and "twice" not in intervals

    asked = anew("trust", "run")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert str(source.copy) in asked.stdout and not trace.exists()
    done = anew("show", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert trace.exists() and "mine.1" in done.stdout


def test_a_copy_that_was_changed_is_not_executed(run: Path, anew: Swtch) -> None:
    (source,) = store.load_manifest(run).sources
    (run / source.copy).write_text("raise SystemExit(9)\n")
    done = anew("show", "run")
    assert done.returncode == 0
    assert "is not the file that the run was measured with" in done.stderr
    refused = anew("trust", "run")
    assert refused.returncode == 5


def test_a_copy_that_is_a_pipe_is_not_waited_for(run: Path, anew: Swtch) -> None:
    (source,) = store.load_manifest(run).sources
    (run / source.copy).unlink()
    os.mkfifo(run / source.copy)
    refused = anew("trust", "run")
    assert refused.returncode == 5
    assert f"{source.copy}: is no file" in refused.stderr


def test_a_copy_is_only_looked_for_in_the_run(run: Path) -> None:
    manifest = store.load_manifest(run)
    wrong = msgspec.structs.replace(manifest.sources[0], copy="../mine.py")
    with pytest.raises(Exception, match="which is none"):
        loading.read_kept(run, wrong)


def test_trust_of_a_run_without_code(run: Path, anew: Swtch) -> None:
    text = json.loads((run / "manifest.json").read_text())
    text["sources"] = []
    (run / "manifest.json").write_text(json.dumps(text))
    done = anew("trust", "run")
    assert (done.returncode, done.stdout) == (0, "")
    assert "has no code of its own" in done.stderr


def test_an_outline_takes_no_name_of_swtch(run: Path) -> None:
    (source,) = store.load_manifest(run).sources
    outline = msgspec.structs.replace(source.experiments[0], name="ping")
    forged = msgspec.structs.replace(source, experiments=(outline,))
    assert loading.outline(forged).experiments == {}


# ---- what is wrong with a file ----


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("import BEYOND", "import BEYOND, Nothing"), "line 5: does not import: ImportError"),
        (('NAME = "pipe', 'import helper\nNAME = "pipe'), "an experiment is one file"),
        (("def trials(setting):", "def trials(setting:"), "does not import: SyntaxError"),
        (("NAME = ", "raise SystemExit(3)\nNAME = "), "line 7: does not import: SystemExit: 3"),
        (("EXPERIMENT = Exp", "SOMETHING = Exp"), "defines no experiment"),
        (("EXPERIMENT = Exp", "EXPERIMENTS = 3\nSOMETHING = Exp"), "EXPERIMENTS is 3"),
        (("EXPERIMENT = Exp", "EXPERIMENT = dict\nSOMETHING = Exp"), "is no swtch.experiments"),
        (('"pipe-or-futex"', '"ping"'), "'ping' is one of swtch's own"),
        (('"pipe-or-futex"', '"Pipe or futex"'), "a name has small letters"),
        (('models=("pthread",)', 'models=("thread",)'), "there is no model 'thread'"),
        (('models=("pthread",)', 'models="pthread"'), "it has no models"),
        (("seconds=0.05", "seconds=0"), "seconds is 0"),
        (("trials=trials", "trials=3"), "its trials is no function"),
        (('"twice": Metric', '"twice": dict'), "metrics is no mapping"),
        (("main=EACH", "main=3"), "main is neither"),
        (('probe("ring"', 'probe("rings"'), "there is no probe 'rings'; known are scenario"),
        (("(NAME,", "(by,"), "RequestError"),
        (('f"{by}/pthread"', '"same/pthread"'), "is there twice"),
        (('for by in ("pipe"', 'for by in (1 / 0, "pipe"'), "ZeroDivisionError: division by zero"),
        (("members=2", "members=print"), "unsupported"),
        (('id="mine.1"', 'id="000.1"'), "claim '000.1' is one of swtch's own"),
        (("experiment=NAME", 'experiment="ping"'), "which the file does not define"),
        (("CLAIMS = (", "CLAIMS = (3, "), "3 is no swtch.claims.Claim"),
        (("CHAPTER = C", 'CHAPTERS = {"other": 1}\nOTHER = C'), "CHAPTERS has 'other'"),
        (("main=EACH", 'main=EACH, program=("./gone",)'), "is not there or is no program"),
        (("main=EACH", 'main=EACH, program=("./a\\0",)'), "program is no tuple of a program"),
        (("main=EACH", 'main=EACH, repeats={"quick": 0}'), "repeats has 0, and not how often"),
        (("main=EACH", 'main=EACH, repeats={"quick": 10**9}'), "and not how often: from 1 to"),
        (("main=EACH", "main=EACH, repeats=5"), "repeats is no mapping of quick, normal, paper"),
        (('title="', 'title="\\ud800'), "its title is no text"),
        (('{"by": by}', '{"by": by + "\\ud800"}'), "surrogates not allowed"),
        (('{"by": by}', '{"by": 10**30}'), "a number beyond 1e+30"),
        (
            ("def trials(setting):", "def trials(setting):\n    raise SystemExit(3)"),
            "SystemExit: 3",
        ),
        (('id="mine.1"', "id=1"), "claim 1: its id is no text"),
        (('published="', 'kind="guess", published="'), "kind of finding, check"),
        (("check=dearer", "check=3"), "claim 'mine.1': its check is no function"),
        (("CHAPTER = C", "CHAPTERS = [1]\nOTHER = C"), "CHAPTERS is [1], and no mapping"),
    ],
)
def test_a_wrong_file_is_one_line(
    change: tuple[str, str], says: str, mine: Path, inside: Inside, one_line: OneLine
) -> None:
    if change[0] == "(NAME,":
        change = ("            NAME,\n", "            by,\n")
        says = "must be of experiment 'pipe-or-futex'"
    assert change[0] in WHOLE
    mine.write_text(WHOLE.replace(*change, 1))
    code, _, stderr = inside("run", "./mine.py", "--quick", "--out", "run")
    line = one_line(stderr.splitlines(keepends=True)[-1])
    assert code == 2, line
    assert line.startswith("swtch: mine.py") and says in line
    assert not (mine.parent / "run").exists()


def test_what_trials_raise_names_its_line(mine: Path, inside: Inside) -> None:
    text = WHOLE.replace("    return tuple(", "    setting.nothing\n    return tuple(")
    mine.write_text(text)
    _, _, stderr = inside("run", "./mine.py", "--quick", "--quiet")
    number = line_of(text, "setting.nothing")
    assert f"mine.py, line {number}: trials() of pipe-or-futex: AttributeError" in stderr


@pytest.mark.parametrize("name", ["gone.py", "./gone.py", "gone/"])
def test_a_file_that_is_not_there(name: str, anew: Swtch, one_line: OneLine) -> None:
    done = anew("run", name)
    assert done.returncode == 2
    assert "cannot be read" in one_line(done.stderr)


def test_a_file_without_an_end_is_not_read_to_it(one_line: OneLine) -> None:
    most = 8 << 30  # of addresses, lest it takes the machine's memory
    done = subprocess.run(
        [sys.executable, "-m", "swtch", "run", "/dev/zero"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert done.returncode == 2
    assert "more than 1 MiB is no experiment" in one_line(done.stderr)


def test_two_files_of_one_name(mine: Path, anew: Swtch, one_line: OneLine) -> None:
    shutil.copy(mine, mine.with_name("other.py"))
    done = anew("run", "./mine.py", "./other.py")
    assert done.returncode == 2
    assert "'pipe-or-futex' is defined by two files" in one_line(done.stderr)


# ---- what goes wrong in the middle ----


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("if here is None:", "if 1 / 0:"), "check of claim mine.1: ZeroDivisionError"),
        (('return evidence.above(here, 1.0, "by pipe over by futex")', "return 1"), "no Ruling"),
        (('["Said by the file."]', "story.nothing"), "sentences() of the chapter of pipe-or-futex"),
        (('["Said by the file."]', "[1]"), "sentences() of the chapter"),
        (("def sentences", "def figures"), "figures() of the chapter"),
        (("def sentences", "def tables"), "tables() of the chapter"),
        (("def sentences(self", "def tables(self, a"), "TypeError"),
        (('2 * v["each_p50_ns"]', 'v["nothing"]'), "metric twice of pipe-or-futex: KeyError"),
        (('2 * v["each_p50_ns"]', '"much"'), "gave 'much', which is no number"),
        (('2 * v["each_p50_ns"]', "exit(3)"), "metric twice of pipe-or-futex: SystemExit: 3"),
        (("if here is None:", "if exit(3):"), "check of claim mine.1: SystemExit: 3"),
        (
            ("def dearer(evidence):", 'def dearer(evidence):\n    raise ValueError("\\ud800")'),
            "check of claim mine.1: ValueError: ?",
        ),
        (('["Said by the file."]', '["\\ud800"]'), "sentences() of the chapter"),
    ],
)
def test_what_raises_later_costs_nothing_measured(
    change: tuple[str, str], says: str, mine: Path, inside: Inside
) -> None:
    assert change[0] in WHOLE
    mine.write_text(WHOLE.replace(*change, 1))
    few = ("--repeats", "2", "--quiet")
    arguments = ("./mine.py", "--quick", "--out", "run", *few, "--format", "json")
    code, stdout, stderr = inside("run", *arguments)
    lines = stderr.splitlines()
    assert all(line.startswith("swtch: mine.py") for line in lines)
    assert code == 4
    assert says in lines[0]
    report = json.loads(stdout)
    assert report["complete"] and len(report["findings"]) == 3
    assert (mine.parent / "run" / "report.html").exists()
    (verdict,) = report["verdicts"]
    if "claim" in says or "Ruling" in says:
        assert verdict["verdict"] == "not measurable here"
        assert "mine.py, line" in verdict["why"] or "gave" in verdict["why"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("main=EACH", "main=lambda trial: 1 / 0"), "main() of pipe-or-futex: ZeroDivision"),
        (("main=EACH", "main=lambda trial: {'time': 1}"), "gave 1, which is no Main"),
        (("main=EACH", "shortened=lambda s: 1 / 0"), "shortened() of pipe-or-futex: Zero"),
    ],
)
def test_what_is_only_asked_now_and_then(change: tuple[str, str], says: str, mine: Path) -> None:
    mine.write_text(WHOLE.replace(*change, 1))
    own.resolve([str(mine)])
    one = experiments.get("pipe-or-futex")
    (trial, _) = one.trials(SETTING)
    if "main" in says or "Main" in says:
        assert one.main_of(trial, "time") is None
    assert one.shortened(SETTING) == ""
    (line,) = guard.faults()
    assert says in line


@pytest.mark.parametrize(
    ("gives", "number"),
    [
        ("numpy.int64(5)", 5),
        ("numpy.float32(0.5)", 0.5),
        ("fractions.Fraction(1, 4)", 0.25),
        ("numpy.float32('nan')", None),
        ("numpy.bool_(True)", None),
        ("True", None),
    ],
)
def test_a_metric_is_a_number_of_any_kind(gives: str, number: float | None, mine: Path) -> None:
    mine.write_text("import fractions, numpy\n" + WHOLE.replace('2 * v["each_p50_ns"]', gives, 1))
    own.resolve([str(mine)])
    found = experiments.get("pipe-or-futex").metrics["twice"].of({})
    assert (found, type(found)) == (number, type(number))
    assert bool(guard.faults()) == (number is None)


def test_faults_of_many_samples_are_few_lines() -> None:
    where = guard.Where("mine.py", "mine.py")
    for number in range(100):
        where.fault("metric", ValueError(str(number)))
    assert len(guard.faults()) == guard.MOST


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
