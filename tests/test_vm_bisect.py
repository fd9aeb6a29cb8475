# SPDX-License-Identifier: Apache-2.0
"""`swtch vm bisect`: verdicts that know noise, and what git makes of them."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swtch.analysis.comparison import Compared
from swtch.analysis.findings import Place
from swtch.analysis.pairing import Pairing
from swtch.commands import vm_bisect
from swtch.commands.vm_bisect import BAD, CANNOT_TELL, END, GOOD, TERMS, Terms, verdict, watched
from swtch.errors import EXIT_INTERRUPTED, CannotError, RequestError
from swtch.records import Interval


def interval(low: float, high: float, method: str = "ranks") -> Interval:
    middle = (low * high) ** 0.5
    fields = {"estimate": middle, "low": low, "high": high, "n": 10, "unit": "x", "method": method}
    return msgspec.convert(fields, Interval)


def row(low: float, high: float, name: str = "syscall/x/pthread", **changes: Any) -> Compared:
    made: dict[str, Any] = {
        "name": name,
        "experiment": "syscall",
        "place": Pairing(Place("vm", "own1-amd64"), Place("vm", "own2-amd64")),
        "model": "pthread",
        "metric": "call_ns",
        "unit": "ns",
        "better": "less",
        "n": (10, 10),
        "a": 1.0,
        "b": low,
        "ratio": interval(low, high),
        "p": 0.001,
        "own": 0.001,
        "adjusted": 0.001,
    }
    return Compared(**{**made, **changes})


@pytest.mark.parametrize(
    ("low", "high", "method", "code"),
    [
        (1.11, 1.2, "ranks", BAD),
        (0.9, 1.09, "ranks", GOOD),
        (1.05, 1.15, "ranks", CANNOT_TELL),
        (1.1, 1.2, "ranks", CANNOT_TELL),
        (0.9, 1.1, "ranks", CANNOT_TELL),
        (1.0, 1.0, "constant", GOOD),
        (1.2, 1.2, "constant", BAD),
        (1.11, 1.2, "too few", CANNOT_TELL),
    ],
)
def test_verdict_is_of_the_whole_interval(low: float, high: float, method: str, code: int) -> None:
    assert verdict(interval(low, high, method), 1.1) == code


def test_what_is_watched_is_surely_slower() -> None:
    rows = [
        row(1.5, 1.6, "family", trials=4),
        row(1.3, 1.4, "much"),
        row(1.1, 1.9, "perhaps more"),
        row(2.0, 2.1, "not called", adjusted=0.5),
        row(0.5, 0.6, "faster"),
    ]
    assert watched(rows).name == "much"
    with pytest.raises(CannotError, match="not slower than good by anything"):
        watched(rows[3:])


class Tree:
    """A repository of ten commits, whose kernel is a file; from the sixth on it is slow."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "linux"
        self.path.mkdir()
        self.git("init", "-q", "-b", "trunk")
        (self.path / ".gitignore").write_text("arch\n.config\n")
        (self.path / ".config").write_text("CONFIG_X86_64=y\n")
        for number in range(10):
            (self.path / "speed").write_text("slow" if number >= 5 else "fast")
            (self.path / "number").write_text(str(number))
            self.git("add", ".")
            self.git("commit", "-q", "-m", f"number {number}")
        self.commits = self.git("rev-list", "--reverse", "HEAD").split()

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
        done = subprocess.run(
            ["git", "-C", str(self.path), *who, *words],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def build(self, text: str = "") -> tuple[str, ...]:
        """Makes an "image" that is what the tree's files say."""
        image = "mkdir -p arch/x86/boot && cat speed number >arch/x86/boot/bzImage"
        return ("sh", "-c", f"{text}\n{image}")

    def terms(self, **changes: Any) -> Terms:
        made = {"tree": str(self.path), "build": self.build(), "experiments": ("syscall",)}
        return Terms(**{**made, **changes})


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    return Tree(tmp_path)


Rows = Callable[[Sequence[tuple[float, float]]], list[int]]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """What the runs from now on measure; gives the repeats they had."""

    def use(intervals: Sequence[tuple[float, float]]) -> list[int]:
        waiting, asked = list(intervals), list[int]()

        def measured(_terms: Terms, _folder: Path, _name: str, repeats: int) -> tuple[Compared]:
            asked.append(repeats)
            return (row(*waiting.pop(0)),)

        monkeypatch.setattr(vm_bisect, "_rows", measured)
        return asked

    return use


class TestStep:
    def folder(self, tmp_path: Path, tree: Tree, **changes: Any) -> Path:
        terms = tree.terms(name="syscall/x/pthread", limit=1.1, repeats=8, **changes)
        folder = tmp_path / "out"
        folder.mkdir()
        (folder / TERMS).write_bytes(msgspec.json.encode(terms))
        return folder

    @pytest.mark.parametrize(
        ("intervals", "code", "repeats"),
        [
            ([(1.2, 1.3)], BAD, [8]),
            ([(0.9, 1.0)], GOOD, [8]),
            ([(1.0, 1.2), (1.15, 1.2)], BAD, [8, 16]),
            ([(1.0, 1.2), (1.0, 1.05)], GOOD, [8, 16]),
            ([(1.0, 1.2), (1.05, 1.15)], CANNOT_TELL, [8, 16]),
        ],
    )
    def test_measured_again_while_it_cannot_be_told(
        self,
        tmp_path: Path,
        tree: Tree,
        rows: Rows,
        intervals: list[tuple[float, float]],
        code: int,
        repeats: list[int],
    ) -> None:
        asked = rows(intervals)
        assert vm_bisect.step(self.folder(tmp_path, tree)) == code
        assert asked == repeats

    def test_what_does_not_build_is_skipped(
        self, tmp_path: Path, tree: Tree, rows: Rows, capsys: pytest.CaptureFixture[str]
    ) -> None:
        asked = rows([])
        build = tree.build("echo 'a.c:1: error: no such thing' >&2; exit 2")
        assert vm_bisect.step(self.folder(tmp_path, tree, build=build)) == CANNOT_TELL
        assert not asked
        assert "skipped: sh -c" in (told := capsys.readouterr().err)
        assert "failed: a.c:1: error: no such thing" in told

    def test_a_folder_that_is_none_ends_the_bisection(self, tmp_path: Path) -> None:
        """Any status below 128 would be taken for a verdict."""
        assert vm_bisect.step(tmp_path) == END > 127


class TestBlocksOfGoodAndBad:
    """As few as --repeats says may be too few for a call, whatever was measured."""

    def test_are_enough_to_choose_among_all_trials(
        self, tmp_path: Path, tree: Tree, rows: Rows, capsys: pytest.CaptureFixture[str]
    ) -> None:
        asked = rows([(1.44, 1.44)])
        terms = tree.terms(models="pthread", repeats=4)
        good, bad = tree.commits[0], tree.commits[9]
        assert vm_bisect.start(terms, good, bad, tmp_path / "out", ("false",)) == 0
        assert asked == [6]
        assert "6 blocks of good and bad: with fewer none" in capsys.readouterr().err
        told = msgspec.json.decode((tmp_path / "out" / TERMS).read_bytes(), type=Terms)
        assert told.repeats == 4, "a step has one trial"

    def test_are_as_many_as_asked_for_when_that_is_enough(
        self, tmp_path: Path, tree: Tree, rows: Rows
    ) -> None:
        asked = rows([(1.44, 1.44)])
        terms = tree.terms(models="pthread", repeats=8)
        good, bad = tree.commits[0], tree.commits[9]
        assert vm_bisect.start(terms, good, bad, tmp_path / "out", ("false",)) == 0
        assert asked == [8]

    def test_what_is_not_known_is_said_before_anything_is_built(
        self, tmp_path: Path, tree: Tree, rows: Rows
    ) -> None:
        rows([])
        terms = tree.terms(experiments=("syscal",), build=("false",))
        with pytest.raises(RequestError, match="Did you mean syscall"):
            vm_bisect.start(terms, tree.commits[0], "trunk", tmp_path / "out")
        assert not (tmp_path / "out").exists()


class TestStart:
    def judge(self, tmp_path: Path, cannot: str = "none") -> tuple[str, ...]:
        """Knows without measuring; cannot tell of the commit with that number."""
        text = f"[ $(cat number) != {cannot} ] || exit 125; grep -q fast speed"
        return ("sh", "-c", text)

    def test_finds_the_commit_and_leaves_the_tree_as_it_was(
        self, tmp_path: Path, tree: Tree, rows: Rows, capfd: pytest.CaptureFixture[str]
    ) -> None:
        rows([(1.44, 1.44)])
        out = tmp_path / "out"
        good, bad = tree.commits[0], tree.commits[9]
        assert vm_bisect.start(tree.terms(), good, bad, out, self.judge(tmp_path)) == 0
        assert f"{tree.commits[5]} is the first bad commit" in capfd.readouterr().out
        assert tree.git("rev-parse", "--abbrev-ref", "HEAD").strip() == "trunk"
        assert (out / "good").read_text() == "fast0"
        terms = msgspec.json.decode((out / TERMS).read_bytes(), type=Terms)
        assert terms.name == "syscall/x/pthread"
        assert terms.limit == pytest.approx(1.2)
        assert "git bisect start" in (out / "log").read_text()

    def test_a_commit_that_cannot_be_told_is_stepped_around(
        self, tmp_path: Path, tree: Tree, rows: Rows, capfd: pytest.CaptureFixture[str]
    ) -> None:
        rows([(1.4, 1.6)])
        judge = self.judge(tmp_path, cannot="7")
        good, bad = tree.commits[0], tree.commits[9]
        assert vm_bisect.start(tree.terms(), good, bad, tmp_path / "out", judge) == 0
        assert f"{tree.commits[5]} is the first bad commit" in capfd.readouterr().out

    def test_where_the_first_bad_one_cannot_be_told_that_is_said(
        self, tmp_path: Path, tree: Tree, rows: Rows, capfd: pytest.CaptureFixture[str]
    ) -> None:
        rows([(1.4, 1.6)])
        judge = self.judge(tmp_path, cannot="5")
        good, bad = tree.commits[0], tree.commits[9]
        out = tmp_path / "out"
        with pytest.raises(CannotError, match="more --repeats"):
            vm_bisect.start(tree.terms(), good, bad, out, judge)
        assert tree.commits[5] in capfd.readouterr().out
        assert "git bisect skip" in (out / "log").read_text()
        assert tree.git("rev-parse", "--abbrev-ref", "HEAD").strip() == "trunk"

    def test_bad_that_is_not_slower_is_refused_and_the_tree_is_as_it_was(
        self, tmp_path: Path, tree: Tree, rows: Rows
    ) -> None:
        rows([(0.9, 1.0)])
        with pytest.raises(CannotError, match="not slower"):
            vm_bisect.start(tree.terms(), tree.commits[0], "trunk", tmp_path / "out")
        assert tree.git("rev-parse", "--abbrev-ref", "HEAD").strip() == "trunk"

    def test_tree_with_changes_and_unknown_commits(
        self, tmp_path: Path, tree: Tree, rows: Rows
    ) -> None:
        rows([])
        with pytest.raises(CannotError, match=r"git checkout in .*nowhere"):
            vm_bisect.start(tree.terms(), "nowhere", "trunk", tmp_path / "out")
        (tree.path / "speed").write_text("changed")
        with pytest.raises(CannotError, match=r"has changes .speed.; commit or stash"):
            vm_bisect.start(tree.terms(), tree.commits[0], "trunk", tmp_path / "out2")
        assert not (tmp_path / "out2").exists()
        with pytest.raises(CannotError, match="git status in"):
            vm_bisect.start(tree.terms(tree=str(tmp_path)), "a", "b", tmp_path / "out3")


class TestEnded:
    """By a signal to it alone, as a service manager or a build server sends it. Whoever waits
    for the end of the pipe waits for all that were begun."""

    def ended(
        self, tmp_path: Path, call: Callable[[tuple[str, ...]], object], name: str, text: str = ""
    ) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)

        def body() -> None:
            last = f"(exec sleep 1000) & kill -{name} {os.getpid()}; wait"
            try:
                call(("sh", "-c", f"{text} exec 3>'{pipe}'; {last}"))
            except KeyboardInterrupt:
                os._exit(EXIT_INTERRUPTED)

        process = multiprocessing.get_context("fork").Process(target=body)
        process.start()
        with pipe.open("rb") as stream:
            assert stream.read() == b""
        process.join()
        assert process.exitcode == EXIT_INTERRUPTED

    def whole(self, tree: Tree) -> None:
        assert tree.git("rev-parse", "--abbrev-ref", "HEAD").strip() == "trunk"
        assert tree.git("status", "--porcelain") == ""
        assert not [path.name for path in (tree.path / ".git").glob("BISECT_*")]

    @pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
    def test_bisection_leaves_the_tree_as_it_was(
        self, tmp_path: Path, tree: Tree, rows: Rows, name: str
    ) -> None:
        rows([(1.44, 1.44)])
        good, bad = tree.commits[0], tree.commits[9]

        def call(judge: tuple[str, ...]) -> None:
            vm_bisect.start(tree.terms(), good, bad, tmp_path / "out", judge)

        self.ended(tmp_path, call, name)
        self.whole(tree)

    def test_what_does_not_want_to_end_is_killed(
        self, tmp_path: Path, tree: Tree, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vm_bisect, "_GRACE_S", 0.2)
        rows([(1.44, 1.44)])
        good, bad = tree.commits[0], tree.commits[9]

        def call(judge: tuple[str, ...]) -> None:
            vm_bisect.start(tree.terms(), good, bad, tmp_path / "out", judge)

        self.ended(tmp_path, call, "TERM", "trap '' TERM;")
        self.whole(tree)

    def test_build_of_good_is_ended_with_what_it_began(self, tmp_path: Path, tree: Tree) -> None:
        def call(build: tuple[str, ...]) -> None:
            terms = tree.terms(build=build)
            vm_bisect.start(terms, tree.commits[0], tree.commits[9], tmp_path / "out")

        self.ended(tmp_path, call, "TERM")
        self.whole(tree)

    def test_step_gives_no_verdict(self, tmp_path: Path, tree: Tree) -> None:
        def call(build: tuple[str, ...]) -> None:
            folder = tmp_path / "out"
            folder.mkdir()
            terms = tree.terms(build=build, name="syscall/x/pthread", limit=1.1)
            (folder / TERMS).write_bytes(msgspec.json.encode(terms))
            vm_bisect.step(folder)

        self.ended(tmp_path, call, "TERM")


def test_default_build_is_of_the_architecture(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text("CONFIG_ARM64=y\n")
    assert vm_bisect.default_build(tmp_path)[-1] == "Image"
    assert vm_bisect.default_build(tmp_path / "none")[-1] == "bzImage"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tree",), "give TREE, GOOD and BAD"),
        (("tree", "a", "b", "c"), "give TREE, GOOD and BAD"),
        (("tree", "a", "b", "--step", "x"), "--step takes nothing else"),
    ],
)
def test_command_line(
    swtch: Callable[..., Any],
    one_line: Callable[[str], str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    done = swtch("vm", "bisect", *arguments)
    assert done.returncode == 2
    assert told in one_line(done.stderr)
