# SPDX-License-Identifier: Apache-2.0
"""`swtch vm bisect`: which commit made a kernel slower, by `git bisect run`.

Each step boots the good kernel beside the one in question, in one run (commands.vm_compare):
what is compared was measured by the same machine in the same minutes, however long the
bisection takes.

The cost that is watched is that of one trial, the one by which bad is slowest of what is
called slower; half of the way there, in ratios, is the limit. A step is bad when its whole
interval is above the limit, good when it is all below, and otherwise measured again with
more blocks; what then still is on both sides is "cannot tell", which git skips. So is a
commit that does not build or boot.

Invariants:

- Nothing begins in a tree with changes, and it ends on the commit it began on.
- Good and bad are measured with blocks enough to call a trial slower that is so alone: of
  nine trials that is six, and with four nothing is ever called. A step has as many as were
  asked for: its trial is known before it is measured, one, and nothing is adjusted.
- A step is in the tree, not where it all began: what it is told is absolute.
- A step has exit code 0, 1 or 125; what is above 127 ends the bisection.
- Ended by SIGTERM or SIGHUP it leaves no more than by SIGINT: git and builds have sessions of
  their own, which are ended whole before the tree is put back, and that is not interrupted.

Rejected: the median against a limit (a step that is decided by noise sends a bisection the
wrong way, and nobody notices), a reference measured once (days are unlike each other).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from swtch import own as plugins
from swtch import plan
from swtch.analysis.comparison import Compared, blocks_for_one
from swtch.commands import vm_compare
from swtch.engines import TRAITS
from swtch.errors import EXIT_INTERRUPTED, EXIT_OK, CannotError, LabError, os_error_text
from swtch.experiments import Setting
from swtch.records import Engine as EngineName
from swtch.records import Interval, Model
from swtch.store import write_atomically
from swtch.vm import build, own, qemu
from swtch.vm.kvm import Asked

GOOD: Final = 0
BAD: Final = 1
CANNOT_TELL: Final = 125
END: Final = 255
TERMS: Final = "bisect.json"
REFERENCE: Final = "good"
_GIT_ONLY_SKIPPED: Final = 2  # of `git bisect run`, whatever told it to skip
_MORE: Final = 2  # so many times the blocks, when a step cannot be told
_TRIES: Final = 2
_GRACE_S: Final = 30.0  # for what is ended to end by itself: a step powers its guest off
_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a step is judged. ``limit`` is of the ratio of costs, of the trial ``name`` and
    its ``model``; both are empty until good and bad were measured."""

    tree: str
    build: tuple[str, ...]
    experiments: tuple[str, ...]
    models: str | None = None
    engine: EngineName = "vm"
    accel: Asked = "auto"
    pin: str | None = None
    cpus: int | None = None
    repeats: int = 10
    name: str = ""
    limit: float = 0.0


def verdict(ratio: Interval, limit: float) -> int:
    """GOOD, BAD or CANNOT_TELL, by where all of the interval of `ratio` is."""
    if ratio.method == "too few":
        return CANNOT_TELL
    if ratio.low > limit:
        return BAD
    return GOOD if ratio.high < limit else CANNOT_TELL


def watched(rows: Sequence[Compared]) -> Compared:
    """The trial that is slowest of those that are called slower; CannotError if none is."""
    slower = [row for row in rows if row.trials == 1 and row.word == "slower"]
    if not slower:
        raise CannotError(
            "bad is not slower than good by anything that was measured; name other"
            " --experiments, or more --repeats."
        )
    return max(slower, key=lambda row: row.ratio.low)


def blocks_to_choose(terms: Terms) -> int:
    """The fewest blocks of good and bad that call any trial by which alone bad is slower."""
    models = plan.parse_models(terms.models) if terms.models is not None else None
    chosen = plan.choose(plugins.resolve(terms.experiments), models)
    setting = Setting(
        cpus=tuple(range(1 if TRAITS[terms.engine].counting else terms.cpus or qemu.CPUS)),
        models=models or plan.MODEL_NAMES,
        engine=terms.engine,
        depth="quick",
    )
    counts: dict[str, Counter[Model]] = {}
    for trial in plan.make_trials(chosen, setting):
        if trial.factors.get("control") != "b":
            counts.setdefault(trial.experiment, Counter())[trial.model] += 1
    return blocks_for_one([tuple(of.values()) for of in counts.values()])


def default_build(tree: Path) -> tuple[str, ...]:
    """What makes the image of the kernel configured in `tree`."""
    config = (tree / ".config").read_text(errors="replace") if (tree / ".config").exists() else ""
    image = "Image" if "CONFIG_ARM64=y" in config else "bzImage"
    return ("make", "-s", f"-j{len(os.sched_getaffinity(0))}", "olddefconfig", image)


def start(
    terms: Terms, good: str, bad: str, folder: Path, judge: Sequence[str] | None = None
) -> int:
    """From `good` and `bad`, commits of the tree, to the first bad one. ``judge`` is what git
    runs at each commit instead of ``step``."""
    tree = Path(terms.tree)
    began = _began(tree)
    repeats = max(terms.repeats, enough := blocks_to_choose(terms))
    _make(folder)
    with _ending.handled(), _left_as_it_was(tree, began):
        _build_at(tree, good, terms)
        shutil.copyfile(own.found(tree).kernel, folder / REFERENCE)
        _build_at(tree, bad, terms)
        if repeats > terms.repeats:
            _say(f"{enough} blocks of good and bad: with fewer none of so many trials is called")
        row = watched(_rows(terms, folder, "bad", repeats))
        told = msgspec.structs.replace(terms, name=row.name, limit=row.ratio.estimate**0.5)
        write_atomically(folder / TERMS, msgspec.json.format(msgspec.json.encode(told)))
        _say(f"bad is {row.ratio.estimate:.3g} times good by {row.name}; limit {told.limit:.3g}")
        _git(tree, "bisect", "start", bad, good)
        words = judge or (sys.executable, "-P", "-m", "swtch", "vm", "bisect", "--step")
        if judge is None:
            words = (*words, str(folder.resolve()))
        status, _ = _run(
            ("git", "bisect", "run", *words),
            tree,
            {**os.environ, build.SOURCE_ENV: str(build.source_tree())},
        )
        write_atomically(folder / "log", _git(tree, "bisect", "log").encode())
    _say(f"what was measured and git's log: {folder}")
    if status == _GIT_ONLY_SKIPPED:
        raise CannotError(
            "which of these commits it was cannot be told, for all that could be measured were"
            " skipped; give more --repeats, or a BUILD that builds them."
        )
    return EXIT_OK if status == 0 else status


def step(folder: Path) -> int:
    """The verdict of the commit that the tree is on, as `git bisect run` wants it. What is
    wrong with the folder or with git is no verdict: it ends the bisection."""
    with _ending.handled():
        return _step(folder)


def _step(folder: Path) -> int:
    try:
        terms = msgspec.json.decode((folder / TERMS).read_bytes(), type=Terms)
        tree = Path(terms.tree)
        commit = _git(tree, "rev-parse", "--short=12", "HEAD").strip()
    except (OSError, msgspec.DecodeError, CannotError) as error:
        _say(f"no bisection of 'swtch vm bisect' in {folder}: {error}")
        return END
    try:
        _build(tree, terms)
        for number in range(_TRIES):
            repeats = terms.repeats * _MORE**number
            rows = _rows(terms, folder, f"{commit}-{number + 1}", repeats)
            row = next((row for row in rows if row.trials == 1 and row.name == terms.name), None)
            code = CANNOT_TELL if row is None else verdict(row.ratio, terms.limit)
            if row is not None:
                _say(
                    f"{commit}: {row.ratio.estimate:.3g} ({row.ratio.low:.3g} to"
                    f" {row.ratio.high:.3g}), limit {terms.limit:.3g}: {_WORDS[code]}"
                )
            if code != CANNOT_TELL:
                return code
    except LabError as error:
        _say(f"{commit}: skipped: {error}")
    return CANNOT_TELL


_WORDS: Final = {GOOD: "good", BAD: "bad", CANNOT_TELL: "cannot tell"}


def _rows(terms: Terms, folder: Path, name: str, repeats: int) -> tuple[Compared, ...]:
    """The kernel in the tree against the good one, in a new run of that name."""
    asked = vm_compare.Terms(
        subjects=(str(folder / REFERENCE), str(own.found(Path(terms.tree)).kernel)),
        experiments=terms.experiments,
        models=terms.models,
        engine=terms.engine,
        accel=terms.accel,
        pin=terms.pin,
        cpus=terms.cpus,
        repeats=repeats,
        out=_free(folder / name),
        quiet=True,
    )
    with _ending.allowed():
        code, run = vm_compare.measure(asked)
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    (sides,) = vm_compare.against_first(run, asked.subjects)
    return tuple(sides.comparison.rows)


def _free(folder: Path) -> Path:
    """`folder`, or the first with a number that is not there: git may ask twice."""
    candidates = (folder.with_name(f"{folder.name}.{number}") for number in range(2, 1000))
    return folder if not folder.exists() else next(one for one in candidates if not one.exists())


def _began(tree: Path) -> str:
    """The branch or commit that `tree` is on, in which nothing is changed."""
    if changed := _git(tree, "status", "--porcelain", "--untracked-files=no").splitlines():
        raise CannotError(
            f"{tree} has changes ({changed[0][3:]}"
            f"{' and more' if len(changed) > 1 else ''}); commit or stash them."
        )
    branch = _git(tree, "rev-parse", "--abbrev-ref", "HEAD").strip()
    return branch if branch != "HEAD" else _git(tree, "rev-parse", "HEAD").strip()


def _build_at(tree: Path, commit: str, terms: Terms) -> None:
    _git(tree, "checkout", "-q", "--detach", commit)
    _say(f"building {commit}")
    _build(tree, terms)


def _build(tree: Path, terms: Terms) -> None:
    status, told = _run(terms.build, tree)
    if status:
        lines = [line for line in told if "error" in line.lower()]
        why = (lines or told or [f"status {status}"])[0]
        raise CannotError(f"{' '.join(terms.build)} failed: {why}")


class _Ending:
    """Signals that end us. They are a KeyboardInterrupt where that is allowed, and elsewhere as
    soon as it is: what is begun is also kept to be ended, and what is put back is put back."""

    def __init__(self) -> None:
        self._asked = self._allowed = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Meanwhile SIGTERM and SIGHUP are what SIGINT is, but for those nohup ignores."""
        self._asked = self._allowed = False
        before = {number: signal.getsignal(number) for number in _ENDS}
        try:
            for number, old in before.items():
                if old is not signal.SIG_IGN:
                    signal.signal(number, self._hear)
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """A part that may be left in the middle; not even begun if it was asked before."""
        self._allowed = True
        try:
            if self._asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        if self._allowed:
            self._allowed = False
            raise KeyboardInterrupt


_ending: Final = _Ending()


@contextmanager
def _left_as_it_was(tree: Path, began: str) -> Iterator[None]:
    """Behind it, `tree` is on `began` and not bisecting, whatever came."""
    try:
        yield
    finally:
        for command in (("bisect", "reset"), ("checkout", "-q", began)):
            subprocess.run(
                ["git", "-C", str(tree), *command],
                capture_output=True,
                start_new_session=True,
                check=False,
            )


def _run(
    words: Sequence[str], tree: Path, environment: Mapping[str, str] | None = None
) -> tuple[int, list[str]]:
    """Status of a program in `tree`, and, unless an environment is given, the lines of its
    standard error; with one, what it says is for the user. Interrupted, it is ended with all
    that it has begun: `make` alone leaves its compilers at work in a tree that is put back."""
    quiet = environment is None
    try:
        process = subprocess.Popen(
            words,
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet else None,
            stderr=subprocess.PIPE if quiet else None,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CannotError(f"{words[0]} does not run: {os_error_text(error)}.") from None
    with process:
        try:
            with _ending.allowed():
                _, told = process.communicate()
        except BaseException:
            _end(process)
            raise
    return process.returncode, (told or "").splitlines()


def _end(process: subprocess.Popen[str]) -> None:
    """Ends all of the group of `process`: first asked to, after a while not."""
    deadline = time.monotonic() + _GRACE_S
    try:
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            process.poll()  # a dead one that nobody has waited for is of the group, too
            os.killpg(process.pid, 0)
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _git(tree: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(tree), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        why = (done.stderr.splitlines() or ["no reason given"])[0]
        raise CannotError(f"git {words[0]} in {tree}: {why}")
    return done.stdout


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise CannotError(f"cannot make {folder}: {os_error_text(error)}.") from None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
