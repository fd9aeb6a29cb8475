# SPDX-License-Identifier: Apache-2.0
"""What several test files share: the fake probe, small manifests, the command line."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from built import find_build
from hypothesis import HealthCheck, settings

from swtch import own, plan
from swtch.engines.native import find_probe
from swtch.experiments import Setting, get
from swtch.own import trust
from swtch.records import Manifest, Trial

FAKE_PROBE = Path(__file__).parent / "fake_probe.py"
# How long one example takes says what else the machine does.
settings.register_profile("swtch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("swtch")
# A script's background jobs ignore SIGINT, nohup's SIGHUP, and so would all programs
# under test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
# Guests are built from the source tree, and the commands under test run elsewhere.
# What fakes took must not become what real trials are expected to take.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="swtch-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
os.environ.setdefault("SWTCH_SOURCE", str(Path(__file__).parents[1]))


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """What a test has read or registered is neither said to the next one nor known to it."""
    yield
    own.forget()
    trust.forget()


@pytest.fixture(scope="session")
def probe() -> Path:
    """The measuring program; without it there is nothing to test, which is a failure."""
    return find_probe()


@pytest.fixture(scope="session")
def libuthread_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with libuthread.a and libuthread.so."""
    return find_build(tmp_path_factory.mktemp("libuthread"))


@pytest.fixture(scope="session")
def fake_probe_in() -> Callable[[Path], Path]:
    """Makes a folder, below the one it is given, with a swtch-probe that is the fake one."""

    def make(parent: Path) -> Path:
        folder = parent / "probes"
        folder.mkdir()
        program = folder / "swtch-probe"
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S -E '{FAKE_PROBE}'\n")
        program.chmod(0o755)
        return folder

    return make


@pytest.fixture
def probe_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_probe_in: Callable[[Path], Path]
) -> Path:
    """The same for one test; the lab is pointed at it."""
    folder = fake_probe_in(tmp_path)
    monkeypatch.setenv("SWTCH_PROBE_DIR", str(folder))
    monkeypatch.setenv("FAKE_PROBE", "ok")
    return folder


@pytest.fixture
def make_manifest() -> Callable[..., Manifest]:
    """Makes a manifest of `scenarios` with two models on CPU 0."""

    def make(repeats: int = 2, seed: int = 1, timeout_s: float = 30.0) -> Manifest:
        setting = Setting(cpus=(0,), models=("pthread", "coroutine"), timeout_s=timeout_s)
        trials: tuple[Trial, ...] = get("scenarios").trials(setting)
        return Manifest(
            run_id="test",
            created="2026-01-01T00:00:00+00:00",
            swtch_version="0",
            command=("swtch", "run"),
            seed=seed,
            depth="normal",
            repeats=repeats,
            experiments=("scenarios",),
            models=("pthread", "coroutine"),
            engine="native",
            trials=trials,
            plan=plan.make_plan(trials, repeats, seed),
            environment={},
        )

    return make


Swtch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def swtch(tmp_path: Path) -> Swtch:
    """Runs the command line in a process of its own, in an empty folder."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "cwd"
        folder.mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "swtch", *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture
def one_line() -> Callable[[str], str]:
    """Asserts that standard error is exactly one line for people, and gives it."""

    def check(text: str) -> str:
        lines = text.splitlines()
        assert len(lines) == 1, text
        assert "Traceback" not in text
        assert lines[0].startswith("swtch: ")
        return lines[0]

    return check
