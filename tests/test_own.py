# SPDX-License-Identifier: Apache-2.0
"""Experiments from outside the package: a file, its run, and what is wrong with it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from outside import WHOLE, OneLine, Swtch, anew, measured, mine, nothing_registered, run

from swtch import cli, experiments, own, store
from swtch.experiments import Setting
from swtch.own import guard, loading

__all__ = ["anew", "measured", "mine", "nothing_registered", "run"]  # the fixtures

SETTING = Setting(cpus=(0, 1), models=("pthread", "uthread", "own"))

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


def timed_out(seconds: str) -> str:
    return f"""import msgspec
    return tuple(msgspec.structs.replace(one, timeout_s={seconds}) for one in plain(setting))


def plain(setting):
    return tuple("""


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
        (("members=2", 'members=2, evict_bytes="much"'), "expected `int | null`, got `str`"),
        (("return tuple(", timed_out("0")), "expected more than 0, got 0 - at `$.timeout_s`"),
        (("return tuple(", timed_out("float('inf')")), "expected at most 86400, got inf"),
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


RULED = 'return evidence.above(here, 1.0, "by pipe over by futex")'


def by_hand(part: str) -> str:
    return f'from dataclasses import replace; return replace(missing("x"), {part})'


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
        (
            (RULED, by_hand('verdict="perhaps"')),
            "claim mine.1: NotAsExpectedError: gave the verdict",
        ),
        ((RULED, by_hand("here=5")), "claim mine.1: NotAsExpectedError: gave 5 as what is here"),
        ((RULED, by_hand('threshold="five"')), "NotAsExpectedError: gave the threshold 'five'"),
        ((RULED, by_hand("questions=(1,)")), "NotAsExpectedError: gave (1,) as its questions"),
        (
            (
                "def dearer(evidence):",
                "class Odd(Exception): __str__ = None\n\n\ndef dearer(evidence):\n    raise Odd",
            ),
            "check of claim mine.1: Odd",
        ),
        (('2 * v["each_p50_ns"]', "1e300"), "gave 1e+300, which is beyond what is measured"),
        (('2 * v["each_p50_ns"]', "1e-300"), "gave 1e-300, which is beyond what is measured"),
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


def test_what_it_prints_is_no_data_and_where_it_goes_is_not_where_we_are(
    mine: Path, inside: Inside
) -> None:
    aside = "import os; os.chdir('/'); print('said')\n"
    text = aside + WHOLE
    for begins in ("def trials(setting):", "def dearer(evidence):", "def sentences(self, story):"):
        deep = "        " if "self" in begins else "    "
        assert begins in text
        text = text.replace(begins, f"{begins}\n{deep}{aside}", 1)
    mine.write_text(text)
    few = ("--repeats", "2", "--quiet")
    code, stdout, stderr = inside(
        "run", "./mine.py", "--quick", "--out", "run", *few, "--format", "json"
    )
    assert code == 0
    assert json.loads(stdout)["complete"]
    assert set(stderr.split()) == {"said"}
    assert (mine.parent / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("main=EACH", "main=lambda trial: 1 / 0"), "main() of pipe-or-futex: ZeroDivision"),
        (("main=EACH", "main=lambda trial: {'time': 1}"), "gave 1, which is no Main"),
        (("main=EACH", "shortened=lambda s: 1 / 0"), "shortened() of pipe-or-futex: Zero"),
        (("main=EACH", "shortened=lambda s: '\\ud800'"), "shortened() of pipe-or-futex: NotAs"),
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
