# SPDX-License-Identifier: Apache-2.0
"""An experiment from outside the package and what its tests share: the file, a run of it, and
the command line beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swtch import cli, own, store
from swtch.own import trust

Swtch = Callable[..., "subprocess.CompletedProcess[str]"]
OneLine = Callable[[str], str]

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
