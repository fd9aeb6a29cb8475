# SPDX-License-Identifier: Apache-2.0
"""Kernel threads on this machine: the module in its own kernel, and limits of real time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swtch.engines import native_kthread, realtime
from swtch.engines.control import control_text
from swtch.engines.native_kthread import NativeKthreadEngine
from swtch.errors import CannotError
from swtch.experiments import Setting, get
from swtch.records import Invocation, Trial


class Machine:
    """A root folder that looks like a machine's, and a record of the commands run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[list[str]] = []
        (root / "proc").mkdir()
        (root / "proc/modules").write_text("other 1 0 - Live 0x0\n")
        self.headers = root / "lib/modules/6.1.0/build"
        self.headers.mkdir(parents=True)
        (self.headers / "Makefile").touch()

    def run(self, command: Sequence[str]) -> None:
        self.commands.append(list(command))
        name = Path(command[0]).name
        if name == "kmod.sh":
            out = Path(command[list(command).index("--out") + 1])
            out.mkdir()
            (out / "kthread_perf.ko").write_bytes(b"module")
        elif name == "insmod":
            folder = self.root / "proc/kthread_perf"
            folder.mkdir()
            (folder / "control").touch()
            (folder / "samples").write_text("")

    def check(self, **changes: Any) -> Path:
        told: dict[str, Any] = {"asked": True, "root": self.root, "release": "6.1.0", "uid": 0}
        return native_kthread.check(**{**told, **changes})


@pytest.fixture
def fake_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    root = tmp_path / "root"
    root.mkdir()
    programs_folder = tmp_path / "bin"
    programs_folder.mkdir()
    for name in ("insmod", "rmmod", "make"):
        (programs_folder / name).write_text("#!/bin/sh\nexit 99\n")
        (programs_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs_folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = tmp_path / "tree"
    for place in ("probes/guest/swtch-guest.c", "tools/kmod.sh", "kthread_perf/Kbuild"):
        (tree / place).parent.mkdir(parents=True)
        (tree / place).touch()
    monkeypatch.setenv("SWTCH_SOURCE", str(tree))
    return Machine(root)


ENDLESS_S = 120  # only ever reached by a run that nobody ends
LIMITS = ["950000", "50000000", "60000000"]


def real_time_limits(root: Path) -> list[Path]:
    """What a kernel with two CPUs and servers of the fair class keeps back."""
    servers = root / "sys/kernel/debug/sched/fair_server"
    files = [root / "proc/sys/kernel/sched_rt_runtime_us"]
    files += [servers / f"cpu{cpu}/runtime" for cpu in (0, 1)]
    for file, value in zip(files, LIMITS, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return files


def until(seen: Callable[[], bool]) -> None:
    """Ends when it is so, and else never."""
    while not seen():
        time.sleep(0.01)


class TestRealTime:
    def test_given_back_as_it_was(self, tmp_path: Path) -> None:
        files = real_time_limits(tmp_path)
        control = tmp_path / "control"
        control.write_text("untouched")
        with realtime.lifted(tmp_path, (0, 1, 7), control):
            assert [file.read_text().strip() for file in files] == ["-1", "0", "0"]
        assert [file.read_text().strip() for file in files] == LIMITS
        assert control.read_text() == "untouched"

    def test_a_kernel_without_servers(self, tmp_path: Path) -> None:
        (limit, *servers) = real_time_limits(tmp_path)
        for file in servers:
            file.unlink()
        with realtime.lifted(tmp_path, (0, 1), tmp_path / "control"):
            assert limit.read_text().strip() == "-1"
        assert limit.read_text().strip() == LIMITS[0]
        assert not any(file.exists() for file in servers)

    def test_what_is_killed_ends_its_run_and_gives_back(self, tmp_path: Path) -> None:
        files = real_time_limits(tmp_path)
        control = tmp_path / "control"
        control.touch()
        program = (
            "import pathlib, sys, time; from swtch.engines import realtime\n"
            "root = pathlib.Path(sys.argv[1])\n"
            "with realtime.lifted(root, (0, 1), root / 'control'):\n"
            "    print('lifted', flush=True); time.sleep(3600)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
        ) as lab:
            assert lab.stdout is not None
            assert lab.stdout.readline() == b"lifted\n"
            assert [file.read_text().strip() for file in files] == ["-1", "0", "0"]
            lab.kill()
        until(lambda: [file.read_text().strip() for file in files] == LIMITS)
        assert control.read_text() == "stop\n"

    @pytest.mark.parametrize(
        ("probe", "real_time"),
        [
            ({"probe": "scenario", "policy": "batch"}, False),
            ({"probe": "scenario"}, False),
            ({"probe": "scenario", "policy": "fifo"}, True),
            ({"probe": "pair-overhead", "policy": "fifo"}, True),
            ({"probe": "interrupt-overhead"}, True),
        ],
    )
    def test_only_for_real_time_threads(self, probe: dict[str, Any], real_time: bool) -> None:
        assert realtime.wanted(probe) == real_time


class Endless:
    """A module whose run ends when it is told to. What comes before the run has begun is not
    told to it; a late one begins only then."""

    def __init__(self, late: bool = False) -> None:
        self.written: list[str] = []
        self.started = threading.Event()
        self._late = late
        self._heard = threading.Event()
        self._stopped = threading.Event()

    def write(self, _: Path, text: bytes) -> None:
        if text.endswith(b"start wait\n"):
            if self._late:
                self._heard.wait()
            self.written.append(text.decode())
            self.started.set()
            assert self._stopped.wait(ENDLESS_S), "nobody ended the run"
        else:
            begun = self.started.is_set()
            self.written.append(text.decode())
            self._heard.set()
            if begun:
                self._stopped.set()

    def was_ended(self) -> bool:
        """After it had begun, once, and by a word of its own."""
        words = [text.split()[-1] for text in self.written]
        return words.count("wait") == 1 and {"wait", "stop"} == set(words) and words[-1] == "stop"


class TestNativeKthread:
    def test_everything_there(self, fake_machine: Machine) -> None:
        assert fake_machine.check() == fake_machine.headers

    def test_not_asked(self, fake_machine: Machine) -> None:
        with pytest.raises(CannotError, match="ask for it with --native-kthread"):
            fake_machine.check(asked=False)

    def test_not_root(self, fake_machine: Machine) -> None:
        with pytest.raises(CannotError, match="only root may"):
            fake_machine.check(uid=1000)

    def test_kernel_without_modules(self, fake_machine: Machine) -> None:
        (fake_machine.root / "proc/modules").unlink()
        with pytest.raises(CannotError, match="loads no modules"):
            fake_machine.check()

    def test_loading_disabled(self, fake_machine: Machine) -> None:
        (fake_machine.root / "proc/sys/kernel").mkdir(parents=True)
        (fake_machine.root / "proc/sys/kernel/modules_disabled").write_text("1\n")
        with pytest.raises(CannotError, match="disabled"):
            fake_machine.check()

    def test_module_of_somebody_else(self, fake_machine: Machine) -> None:
        (fake_machine.root / "proc/modules").write_text("kthread_perf 1 0 - Live 0x0\n")
        with pytest.raises(CannotError, match="loaded already"):
            fake_machine.check()

    def test_no_headers(self, fake_machine: Machine) -> None:
        with pytest.raises(CannotError, match=r"install linux-headers-6\.9"):
            fake_machine.check(release="6.9")

    def test_flag_is_refused_without_its_conditions(self, fake_machine: Machine) -> None:
        with pytest.raises(CannotError, match="only root"):
            NativeKthreadEngine(asked=True, root=fake_machine.root, uid=5, release="6.1.0")
        assert fake_machine.commands == []

    def trial(self, **changes: Any) -> Trial:
        setting = Setting(cpus=(0,), models=("pthread",), timeout_s=0.3)
        trial = get("scenarios").trials(setting)[0]
        probe = {**trial.probe, "model": "kthread"}
        return msgspec.structs.replace(trial, model="kthread", probe=probe, **changes)

    def engine(
        self,
        fake_machine: Machine,
        probe_dir: Path,
        writer: Callable[[Path, bytes], None] = native_kthread.write,
    ) -> NativeKthreadEngine:
        return NativeKthreadEngine(
            asked=True,
            runner=fake_machine.run,
            writer=writer,
            root=fake_machine.root,
            uid=0,
            release="6.1.0",
        )

    @pytest.mark.parametrize("mm", [False, True])
    def test_loads_runs_and_unloads(self, fake_machine: Machine, probe_dir: Path, mm: bool) -> None:
        lines = (
            b'{"kind":"hello","schema":1,"probe":"kthread_perf","version":"1","pid":1}\n'
            b'{"kind":"sample","schema":1,"model":"kthread","wall_ns":5,"counter":4}\n'
            b'{"kind":"end","schema":1,"samples":1}\n'
        )
        trial = self.trial()
        trial = msgspec.structs.replace(trial, probe={**trial.probe, "mm": mm})
        invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=77)
        run = fake_machine.run

        def answering(command: Sequence[str]) -> None:
            run(command)
            if command[0] == "insmod":
                (fake_machine.root / "proc/kthread_perf/samples").write_bytes(lines)

        fake_machine.run = answering  # type: ignore[method-assign]
        with self.engine(fake_machine, probe_dir) as engine:
            assert engine.has_kthread
            control = fake_machine.root / "proc/kthread_perf/control"
            first = engine.perform(trial, invocation)
            # Unlike one of /proc it keeps what a shorter line leaves: process ids wrap.
            control.write_bytes(b"")
            outcomes = [first, engine.perform(trial, invocation)]
            written = control.read_text()
        assert [outcome.sample.status for outcome in outcomes] == ["ok", "ok"]
        assert outcomes[0].sample.values["counter"] == 4
        assert "seed=77" in written and written.endswith("start wait\n")
        spaces = re.search(r" mm=1 mm_pids=(\d+),(\d+) start", written)
        assert bool(spaces) == mm
        # Whose address spaces were lent are gone again.
        assert not spaces or not any(Path(f"/proc/{pid}").exists() for pid in spaces.groups())
        names = [Path(command[0]).name for command in fake_machine.commands]
        assert names == ["kmod.sh", "insmod", "rmmod"]

    @pytest.mark.parametrize("late", [False, True])
    def test_run_without_an_end_is_stopped(
        self, fake_machine: Machine, probe_dir: Path, late: bool
    ) -> None:
        """Also one that begins after its time is up, as on a busy machine."""
        trial = self.trial()
        module = Endless(late)
        with self.engine(fake_machine, probe_dir, module.write) as engine:
            invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
            sample = engine.perform(trial, invocation).sample
        assert "ran longer than 0.3 s" in sample.error
        assert module.was_ended()
        assert Path(fake_machine.commands[-1][0]).name == "rmmod"

    def test_who_waits_for_a_run_hears_that_it_shall_end(
        self, fake_machine: Machine, probe_dir: Path
    ) -> None:
        trial = self.trial(timeout_s=3600.0)
        module = Endless()
        with self.engine(fake_machine, probe_dir, module.write) as engine:
            invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)

            def stop() -> None:
                module.started.wait()
                engine.stop()

            threading.Thread(target=stop).start()
            sample = engine.perform(trial, invocation).sample
        assert sample.error == "kthread_perf interrupted"
        assert module.was_ended()

    def test_who_is_to_end_before_the_run_has_begun_ends_it(
        self, fake_machine: Machine, probe_dir: Path
    ) -> None:
        """The signal may come just then."""
        trial = self.trial(timeout_s=3600.0)
        module = Endless(late=True)
        with self.engine(fake_machine, probe_dir, module.write) as engine:
            engine.stop()
            invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
            sample = engine.perform(trial, invocation).sample
        assert sample.error == "kthread_perf interrupted"
        assert module.was_ended()

    def test_a_refused_trial_says_so_and_gives_back(
        self, fake_machine: Machine, probe_dir: Path
    ) -> None:
        files = real_time_limits(fake_machine.root)
        seen = []

        def refuse(_: Path, text: bytes) -> None:
            seen.append([file.read_text().strip() for file in files])
            raise OSError(22, "Invalid argument")

        trial = self.trial()
        trial = msgspec.structs.replace(trial, probe={**trial.probe, "policy": "fifo"})
        with self.engine(fake_machine, probe_dir, refuse) as engine:
            invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
            sample = engine.perform(trial, invocation).sample
        assert "refused the trial: " in sample.error
        # Lifted where it is measured, on CPU 0, and nowhere else.
        assert seen == [["-1", "0", "60000000"]]
        assert [file.read_text().strip() for file in files] == LIMITS

    def test_insmod_that_fails_is_a_failed_sample(
        self, fake_machine: Machine, probe_dir: Path
    ) -> None:
        trial = self.trial()
        engine = NativeKthreadEngine(
            asked=True, runner=fake_machine.run, root=fake_machine.root, uid=0, release="6.1.0"
        )
        engine._runner = native_kthread.run  # the fake insmod fails with status 99
        invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
        assert engine.perform(trial, invocation).sample.error == "insmod failed: status 99"
        engine.close()

    def test_other_models_go_to_the_native_engine(
        self, fake_machine: Machine, probe_dir: Path
    ) -> None:
        trial = get("scenarios").trials(Setting(cpus=(0,), models=("pthread",)))[0]
        with self.engine(fake_machine, probe_dir) as engine:
            invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
            assert engine.perform(trial, invocation).sample.status == "ok"
        assert [Path(command[0]).name for command in fake_machine.commands] == ["kmod.sh"]


def test_control_text_says_the_trial() -> None:
    probe = {"schema": 1, "model": "kthread", "cold": True, "cpus": [0, 1], "probe": "scenario"}
    assert control_text(probe) == "probe=scenario cold=1 cpus=0,1 start wait\n"
