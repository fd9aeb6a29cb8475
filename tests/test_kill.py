# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the lab at random moments: no sample is lost, none doubled."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swtch import claims, plan, spending, store
from swtch.records import Manifest

KILLS = 20
# With pauses of this length in all, kills fall into starting, probing and writing alike.
PAUSE_S = 0.12
RUN = ("run", "scenarios", "--models", "ucontext,coroutine", "--repeats", "8", "--no-report")
LAST = 8 * 11 - 1  # samples that are there when the last is missing


def hold(monkeypatch: pytest.MonkeyPatch, samples: Path, number: int) -> Path:
    """From so many samples on no probe answers until the file is gone: however late a kill
    comes, the run is not over."""
    gate = samples.parents[1] / "gate"
    gate.touch()
    monkeypatch.setenv("FAKE_GATE", json.dumps([str(samples), number, str(gate)]))
    return gate


class Lab:
    """A lab that is killed and comes back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.samples = folder / "run" / store.SAMPLES

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "swtch", *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def written(self) -> bytes:
        return self.samples.read_bytes() if self.samples.exists() else b""

    def whole(self) -> bytes:
        """The complete lines."""
        text = self.written()
        return text[: text.rfind(b"\n") + 1]


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_double_nothing(
    probe_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "starts"))
    rng = random.Random(20261121)
    lab = Lab(tmp_path)
    gate = hold(monkeypatch, lab.samples, LAST)
    process = lab.start(*RUN, "--seed", "4", "--out", "run")
    before = b""
    killed = 0
    while killed < KILLS:
        # Until a few more lines are there than before, then at any moment after.
        goal = min(LAST, before.count(b"\n") + rng.randrange(4))
        while process.poll() is None and lab.written().count(b"\n") < goal:
            time.sleep(0.002)
        # Without a manifest there is no run yet that could be resumed.
        while process.poll() is None and not (tmp_path / "run" / store.MANIFEST).exists():
            time.sleep(0.002)
        time.sleep(rng.random() * PAUSE_S)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "the run was over before the last kill"
        killed += 1
        after = lab.whole()
        assert after.startswith(before), "a sample that was there is gone"
        before = after
        process = lab.start("run", "--resume", "run", "--no-report")
    gate.unlink()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert lab.whole().startswith(before)
    run = store.load(tmp_path / "run")
    assert run.complete and len(run.samples) == LAST + 1
    assert sorted(s.seq for s in run.samples) == [i.seq for i in run.manifest.plan]
    assert {s.status for s in run.samples} == {"ok"}


def test_a_half_written_line_is_measured_again(probe_dir: Path, tmp_path: Path) -> None:
    """What a kill in the middle of write() leaves, cut at every place of the line."""
    lab = Lab(tmp_path)
    arguments = ("run", "coroutine-gantt", "--models", "ucontext", "--repeats", "1", "--no-report")
    assert lab.start(*arguments, "--out", "run").wait(60) == 0
    whole = lab.written()
    lines = whole.splitlines(keepends=True)
    for cut in (1, len(lines[-1]) // 2, len(lines[-1]) - 1):
        lab.samples.write_bytes(b"".join(lines[:-1]) + lines[-1][:cut])
        assert lab.start("run", "--resume", "run", "--no-report").wait(60) == 0
        assert lab.whole().startswith(b"".join(lines[:-1]))
        run = store.load(tmp_path / "run")
        assert [s.seq for s in run.samples] == [i.seq for i in run.manifest.plan]


# `swtch replicate` of the one experiment that the fake probe does in a wink. Its claims
# are checks, for which nothing is measured again: here they are findings.
REPLICATE = """
import dataclasses
import sys
from swtch import claims, cli, experiments
chosen = (experiments.get("coroutine-gantt"),)
experiments.every = lambda: chosen
findings = tuple(dataclasses.replace(claim, kind="finding") for claim in claims.every())
claims.every = lambda: findings
sys.exit(cli.main(["replicate", *sys.argv[1:]]))
"""


def test_a_budget_survives_kills(
    probe_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost or doubled, and what is left out is what one go would leave out."""
    rng = random.Random(20261122)
    folder = tmp_path / "run"
    samples = folder / store.SAMPLES

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", REPLICATE, *arguments, "--format", "csv"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)

    def lines() -> int:
        return samples.read_bytes().count(b"\n") if samples.exists() else 0

    gate = hold(monkeypatch, samples, 60)
    given = ("--quick", "--engine", "native", "--budget", "10min", "--seed", "4")
    process = start(*given, "--out", str(folder))
    for kill in range(5):
        goal = 12 * kill + rng.randrange(12)
        while process.poll() is None and lines() < max(1, goal):
            time.sleep(0.002)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was over before the kill"
        process = start("--resume", str(folder))
    gate.unlink()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    run = store.load(folder)
    assert run.complete
    assert {s.status for s in run.samples} == {"ok"}
    assert [s.seq for s in run.samples] == sorted({s.seq for s in run.samples})
    findings = tuple(dataclasses.replace(claim, kind="finding") for claim in claims.every())
    monkeypatch.setattr(claims, "every", lambda: findings)
    whole = spending.Spender(run.manifest)
    needed = [whole.needed(one, run.samples) for one in plan.passes(run.manifest)]
    assert {s.seq for s in run.samples} == frozenset().union(*needed)
    assert b"claims are decided at a level of 0.983" in said


# Begins a run and is killed at the first, second, ... thing that it does to a file, until one
# lives to the end; says what each left.
KILLED = """
import itertools, os, pathlib, signal, sys
import msgspec
from swtch.records import Manifest
from swtch.store import MANIFEST, Writer

folder = pathlib.Path(sys.argv[1])
manifest = msgspec.json.decode(sys.stdin.buffer.read(), type=Manifest)
DOES = {"open", "os.mkdir", "os.rename", "os.remove", "os.listdir", "os.scandir", "fcntl.flock"}


def begin(number):
    count = iter(range(number))

    def hook(event, arguments):
        if event in DOES and next(count, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    Writer.create(folder, manifest, {"source/mine-0123abcd.py": b"a", "source/b.py": b"b"})
    os._exit(0)


for number in itertools.count():
    child = os.fork() or begin(number)
    if os.WIFEXITED(os.waitpid(child, 0)[1]):
        break
    print(*sorted(str(one.relative_to(folder)) for one in folder.rglob("*")), sep="\t")
    if (folder / MANIFEST).exists():
        break
"""


def test_who_is_killed_before_there_is_a_run_can_begin_anew(
    make_manifest: Callable[[], Manifest], tmp_path: Path
) -> None:
    """Each begins in what the one before it left."""
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(run)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        input=msgspec.json.encode(make_manifest()),
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    left = done.stdout.decode().splitlines()
    assert any("source/b.py" in each and "manifest.json." in each for each in left), left
    with store.Writer.resume(run) as writer:
        assert writer.manifest == make_manifest()
    names = {str(one.relative_to(run)) for one in run.rglob("*") if one.is_file()}
    assert names == {"manifest.json", "samples.jsonl", "source/mine-0123abcd.py", "source/b.py"}
