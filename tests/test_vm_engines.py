# SPDX-License-Identifier: Apache-2.0
"""Choosing an engine, and what is refused: options, the native module, missing programs."""

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

from swtch import cli
from swtch.commands import vm
from swtch.engines import PEERS, Outcome, choice, native_kthread, realtime
from swtch.engines.control import control_text
from swtch.engines.native import NativeEngine
from swtch.engines.native_kthread import NativeKthreadEngine
from swtch.engines.several import SeveralEngines
from swtch.errors import CannotError, RequestError
from swtch.experiments import Setting, get
from swtch.plan import MODEL_NAMES, make_plan
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Manifest, Model, Trial
from swtch.vm import build, cache, guests, programs


def options(**changes: Any) -> choice.Options:
    return choice.Options(**changes)


class FakeEngine:
    """An engine that only knows what it can do, and what it was asked."""

    def __init__(
        self, name: EngineName, *, has_kthread: bool = False, peers: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.has_kthread = has_kthread
        self.peers = peers
        self.said: list[str] = []

    def describe(self) -> dict[str, Any]:
        return {"engine": self.name, "sha256": f"of {self.name}", "has": self.name}

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        self.said.append(trial.id)
        raise NotImplementedError(self.name)

    def stop(self) -> None:
        self.said.append("stop")

    def close(self) -> None:
        self.said.append("close")


class TestShares:
    """Which engine of a run measures what."""

    def shares(
        self, *engines: FakeEngine, models: tuple[Model, ...] | None = None
    ) -> dict[str, tuple[set[str], list[str]]]:
        engine = SeveralEngines(engines) if len(engines) > 1 else engines[0]
        chosen = (get("scenarios"), get("coroutine-gantt"))
        made = choice.shares(engine, models, MODEL_NAMES, chosen)
        return {
            share.engine.name: (set(share.models), [e.name for e in share.experiments])
            for share in made
        }

    def test_native_alone_has_all_but_kthread(self) -> None:
        models, experiments = self.shares(FakeEngine("native"))["native"]
        assert models == set(MODEL_NAMES) - {"kthread", *PEERS}
        assert experiments == ["scenarios", "coroutine-gantt"]

    def test_guest_beside_native_has_what_native_lacks_and_its_company(self) -> None:
        shares = self.shares(FakeEngine("native"), FakeEngine("vm", has_kthread=True))
        assert shares["native"][1] == ["scenarios", "coroutine-gantt"]
        assert shares["vm"] == (set(MODEL_NAMES) - set(PEERS), ["scenarios"])

    def test_guest_alone_has_everything(self) -> None:
        shares = self.shares(FakeEngine("vm", has_kthread=True))
        assert shares == {"vm": (set(MODEL_NAMES) - set(PEERS), ["scenarios", "coroutine-gantt"])}

    def test_two_kinds_of_guest_each_have_everything(self) -> None:
        both = (FakeEngine("vm", has_kthread=True), FakeEngine("exact", has_kthread=True))
        assert {names[1][-1] for names in self.shares(*both).values()} == {"coroutine-gantt"}

    def test_only_kthread_leaves_native_without_work(self) -> None:
        engines = (FakeEngine("native"), FakeEngine("vm", has_kthread=True))
        assert list(self.shares(*engines, models=("kthread",))) == ["vm"]

    def test_engine_without_work_is_refused(self) -> None:
        engines = (FakeEngine("native"), FakeEngine("vm", has_kthread=True))
        with pytest.raises(RequestError, match="vm measures nothing that native does not"):
            self.shares(*engines, models=("pthread", "uthread"))

    def test_kthread_that_cannot_be_is_refused(self) -> None:
        with pytest.raises(CannotError, match="--engine vm"):
            self.shares(FakeEngine("native"), models=("kthread", "pthread"))
        with pytest.raises(CannotError, match="none could be built"):
            self.shares(FakeEngine("vm"), models=("kthread", "pthread"))

    def test_go_that_was_not_built_is_refused_or_left_out(self) -> None:
        chosen = (get("starvation"),)
        with pytest.raises(CannotError, match="golang-go"):
            choice.shares(FakeEngine("native"), ("go", "pthread"), MODEL_NAMES, chosen)
        for engine, lacks in (
            (FakeEngine("native"), True),
            (FakeEngine("native", peers=("go",)), False),
        ):
            made = choice.shares(engine, None, MODEL_NAMES, chosen)
            assert ("go" in made[0].models) != lacks
            assert ("golang-go" in choice.left_out(made, None)) == lacks

    def test_other_peers_say_how_they_are_built(self) -> None:
        chosen = (get("peers"),)
        with pytest.raises(CannotError, match=r"tokio needs .*tools/peers\.sh"):
            choice.shares(FakeEngine("native"), ("tokio", "pthread"), MODEL_NAMES, chosen)
        made = choice.shares(FakeEngine("native", peers=("tokio",)), None, MODEL_NAMES, chosen)
        assert "tokio" in made[0].models
        assert not {"boost", "java", "go"} & set(made[0].models)
        left = choice.left_out(made, None)
        assert "boost is not measured" in left and "tokio" not in left

    def test_what_is_left_out_is_said_unless_it_was_asked_so(self) -> None:
        def said(engine: FakeEngine, asked: tuple[Model, ...] | None = None) -> str:
            chosen = (get("scenarios"),)
            return choice.left_out(choice.shares(engine, asked, MODEL_NAMES, chosen), asked)

        assert "--engine native,vm" in said(FakeEngine("native"))
        assert "no kernel module" in said(FakeEngine("vm"))
        assert said(FakeEngine("vm", has_kthread=True)) == ""
        assert said(FakeEngine("native"), ("pthread",)) == ""


class TestSeveralEngines:
    def test_each_trial_goes_to_its_engine(self) -> None:
        native, vm = FakeEngine("native"), FakeEngine("vm")
        both = SeveralEngines([native, vm])
        for name in ("native", "vm"):
            trial = msgspec.structs.replace(pthread_trial(), id=f"on {name}", engine=name)
            with pytest.raises(NotImplementedError, match=name):
                both.perform(trial, Invocation(seq=0, block=0, trial_id=trial.id, seed=1))
        both.stop()
        both.close()
        assert native.said == ["on native", "stop", "close"]
        assert vm.said == ["on vm", "stop", "close"]

    def test_digest_changes_with_either(self) -> None:
        native, vm = FakeEngine("native"), FakeEngine("vm")
        facts = SeveralEngines([native, vm]).describe()
        assert [one["engine"] for one in facts["engines"]] == ["native", "vm"]
        assert facts["sha256"] != SeveralEngines([native, native]).describe()["sha256"]

    def test_guests_are_off_when_the_machine_is_measured_again(self) -> None:
        """The plan of a budget comes back to the first engine."""
        native, vm = FakeEngine("native"), FakeEngine("vm")
        rests: list[str] = []
        vm.rest = lambda: rests.append("vm")  # type: ignore[attr-defined]
        engine = SeveralEngines([native, vm])
        seen = []
        names: tuple[EngineName, ...] = ("native", "vm", "vm", "native", "native")
        for name in names:
            trial = msgspec.structs.replace(pthread_trial(), engine=name)
            with pytest.raises(NotImplementedError):
                engine.perform(trial, Invocation(seq=0, block=0, trial_id=trial.id, seed=1))
            seen.append(len(rests))
        assert seen == [0, 0, 0, 1, 1]

    def test_manifest_brings_them_back(
        self, make_manifest: Callable[..., Manifest], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[choice.Options] = []
        monkeypatch.setattr(choice, "open_engine", lambda given, say: asked.append(given))
        guest: dict[str, Any] = {"engine": "vm", "cpus": 3, "boots": True, "memory_mib": 512}
        guest["guests"] = [{"guest": "6.1-amd64", "append": ["preempt=full"]}]
        guest |= {"accel_asked": "tcg", "pin": [1]}
        native = {"engine": "native", "probe": "swtch-probe"}
        for facts, engines in (
            ({**native, "engines": [native, guest]}, ("native", "vm")),
            (guest, ("vm",)),
        ):
            manifest = msgspec.structs.replace(
                make_manifest(), engine=engines[0], environment={"engine": facts}
            )
            choice.reopen(manifest, say=print)
            assert asked.pop() == options(
                engines=engines,
                guests="6.1-amd64",
                boots=True,
                cpus=3,
                memory_mib=512,
                append=("preempt=full",),
                accel="tcg",
                pin=(1,),
            )

    def test_plan_finishes_one_engine_before_the_next(self) -> None:
        native = get("scenarios").trials(Setting(cpus=(0,), models=("pthread", "uthread")))
        vm = tuple(msgspec.structs.replace(t, id=f"{t.id}@x", engine="vm") for t in native)
        planned = make_plan((*native, *vm), 3, 7)
        guests_of_plan = [i.trial_id.endswith("@x") for i in planned]
        assert guests_of_plan == sorted(guests_of_plan)
        assert [i.seq for i in planned] == list(range(len(planned)))
        alone = make_plan(native, 3, 7)
        assert planned[: len(alone)] == alone


def pthread_trial() -> Trial:
    return get("scenarios").trials(Setting(cpus=(0,), models=("pthread",)))[0]


class TestOptions:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"guests": "6.1-amd64"}, "--guest belongs to --engine vm"),
            ({"boots": True}, "--boots belongs to"),
            ({"cpus": 2}, "--cpus belongs to"),
            ({"engines": ("vm",), "native_kthread": True}, "--native-kthread belongs to"),
            ({"engines": ("exact",), "cpus": 2}, "one CPU"),
            ({"engines": ("vm", "exact"), "boots": True}, "one CPU"),
            ({"engines": ("exact",), "boots": True}, "boots for each trial"),
            ({"append": ("quiet",)}, "--append belongs to --engine vm"),
            ({"accel": "kvm"}, "--accel belongs to"),
            ({"engines": ("exact",), "pin": (0,)}, "leave --accel and --pin out"),
            ({"engines": ("exact",), "accel": "tcg"}, "leave --accel and --pin out"),
            ({"engines": ("vm",), "headers": (Path("x"),)}, "--headers belongs to --kernel"),
            ({"kernels": (Path("x"),)}, "--kernel belongs to --engine vm"),
            (
                {"engines": ("vm",), "kernels": (Path("x"),), "headers": (Path("y"),) * 2},
                "1 --kernel and 2 --headers",
            ),
        ],
    )
    def test_what_does_not_belong_together(self, given: dict[str, Any], told: str) -> None:
        with pytest.raises(RequestError, match=told):
            choice.check(options(**given))

    def test_words_for_the_kernel_and_cpus_to_run_on(self) -> None:
        assert choice.parse_append(' preempt=full dyndbg="a b" ') == ('preempt=full dyndbg="a b"',)
        assert choice.parse_append(None) == choice.parse_append(" ") == ()
        with pytest.raises(RequestError, match="one line"):
            choice.parse_append("a\nb")
        with pytest.raises(RequestError, match="leave rdinit= out"):
            choice.parse_append("quiet rdinit=/bin/sh")
        cpus = sorted(os.sched_getaffinity(0))
        assert choice.parse_pin(",".join(map(str, cpus))) == tuple(cpus)
        assert choice.parse_pin(None) == ()
        for text, told in (("", "names no CPUs"), ("0,x", "names no CPUs"), ("1023", "CPU 1023")):
            with pytest.raises(RequestError, match=told):
                choice.parse_pin(text)

    def test_beside_vm_the_cpus_are_those_of_its_guests(self) -> None:
        """A run of all engines is resumed with what its manifest says of vm."""
        choice.check(options(engines=("native", "vm", "exact"), cpus=4))

    def test_native_is_the_default(self, probe_dir: Path) -> None:
        engine = choice.open_engine(options(), say=print)
        assert isinstance(engine, NativeEngine)
        assert choice.cpus_of(engine, (3, 1)) == (3, 1)

    @pytest.mark.parametrize("given", [{"guests": "6.1-amd64"}, {"cpus": 2}, {"boots": True}])
    def test_guests_beside_native_take_their_options(self, given: dict[str, Any]) -> None:
        choice.check(options(engines=("native", "vm"), **given))

    def test_parse_engines(self) -> None:
        assert choice.parse_engines("native, vm,native") == ("native", "vm")
        with pytest.raises(RequestError, match="Did you mean exact"):
            choice.parse_engines("native,exakt")
        with pytest.raises(RequestError, match="names no engine"):
            choice.parse_engines(" ,")

    def test_run_with_a_kernel_of_the_user_is_not_resumed(
        self, make_manifest: Callable[..., Manifest]
    ) -> None:
        manifest = msgspec.structs.replace(
            make_manifest(),
            engine="vm",
            environment={"engine": {"guests": [{"guest": "own-amd64"}]}},
        )
        with pytest.raises(CannotError, match="start a new run"):
            choice.reopen(manifest, say=print)

    def test_run_with_kernels_of_the_user_is_resumed_with_them(
        self,
        make_manifest: Callable[..., Manifest],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        asked: list[choice.Options] = []
        monkeypatch.setattr(choice, "open_engine", lambda given, say: asked.append(given))
        images = [tmp_path / "one", tmp_path / "two"]
        for image in images:
            image.write_bytes(image.name.encode())
        mine = [
            {
                "guest": f"own{number}-amd64",
                "given": [str(image)],
                "kernel": [cache.sha256(image)],
            }
            for number, image in enumerate(images, 1)
        ]
        facts = {"guests": [{"guest": "6.1-amd64"}, *mine]}
        manifest = msgspec.structs.replace(
            make_manifest(), engine="vm", environment={"engine": facts}
        )
        choice.reopen(manifest, say=print)
        assert asked.pop() == options(
            engines=("vm",), guests="6.1-amd64", kernels=tuple(images), headers=()
        )
        images[1].write_bytes(b"built again")
        with pytest.raises(CannotError, match="two, which is not there any more or another one"):
            choice.reopen(manifest, say=print)
        for number, image in enumerate(images):
            image.write_bytes(image.name.encode())
            mine[number]["given"] = [str(image), str(tmp_path / f"headers{number}")]
        choice.reopen(manifest, say=print)
        assert asked.pop().headers == (tmp_path / "headers0", tmp_path / "headers1")

    def test_command_line_refuses_in_one_line(
        self, swtch: Callable[..., Any], one_line: Callable[[str], str]
    ) -> None:
        done = swtch("run", "scenarios", "--guest", "6.1-amd64")
        assert done.returncode == 2
        assert "--engine vm" in one_line(done.stderr)
        done = swtch("run", "scenarios", "--engine", "vm", "--guest", "6.1-amd46")
        assert done.returncode == 2
        assert "Did you mean 6.1-amd64?" in one_line(done.stderr)
        done = swtch("run", "scenarios", "--engine", "vm", "--kernel", "/nowhere")
        assert done.returncode == 3
        assert "/nowhere is not a file" in one_line(done.stderr)


class TestVmCommand:
    def test_help_names_every_command(self, swtch: Callable[..., Any]) -> None:
        done = swtch("vm", "--help")
        assert done.returncode == 0
        for name in ("list", "prepare", "boot", "shell"):
            assert name in done.stdout

    def test_list_shows_what_is_prepared(self, swtch: Callable[..., Any], tmp_path: Path) -> None:
        done = swtch("vm", "list", "--format", "json", XDG_CACHE_HOME=str(tmp_path))
        rows = msgspec.json.decode(done.stdout)["guests"]
        assert [row["guest"] for row in rows] == list(guests.GUESTS)
        assert not any(row["prepared"] for row in rows)

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (("boot", "6.9-amd64"), 2, "there is no guest '6.9-amd64'"),
            (("boot", "--kernel", "x", "6.1-amd64"), 2, "leave the name out"),
            (("boot", "--headers", "x"), 2, "--headers belongs to --kernel"),
            (("boot", "--kernel", "/nowhere", "--", "6.1-amd64"), 3, "/nowhere is not a file"),
            (("boot", "--kernel", "/nowhere", "/bin/cat", "x"), 3, "/nowhere is not a file"),
            (("boot", "--pin", "x", "--", "/bin/cat"), 2, "--pin: 'x' names no CPUs"),
            (("boot", "/bin/cat"), 2, "there is no guest '/bin/cat'"),
            (("shell", "--accel", "x"), 2, "is not one of 'auto', 'kvm', 'tcg'"),
            (("boot", "--add", "nothing"), 2, "FILE:/PLACE"),
            (("prepare", "--all", "6.1-amd64"), 2, "--all takes no names"),
            (("nonsense",), 2, "nonsense"),
        ],
    )
    def test_refusals(
        self,
        swtch: Callable[..., Any],
        one_line: Callable[[str], str],
        arguments: Sequence[str],
        code: int,
        told: str,
    ) -> None:
        done = swtch("vm", *arguments)
        assert done.returncode == code, done.stderr
        assert told in one_line(done.stderr)


class TestBootWords:
    @pytest.mark.parametrize(
        ("words", "after", "own", "name", "program"),
        [
            ((), (), False, None, ()),
            (("6.1-amd64",), (), False, "6.1-amd64", ()),
            (("6.1-amd64", "/bin/ls", "-l"), (), False, "6.1-amd64", ("/bin/ls", "-l")),
            ((), ("/bin/ls", "--", "-l"), False, None, ("/bin/ls", "--", "-l")),
            (("6.1-amd64",), ("6.1-amd64",), False, "6.1-amd64", ("6.1-amd64",)),
            (("/bin/ls", "-l"), (), True, None, ("/bin/ls", "-l")),
            (("/bin/ls",), ("-l",), True, None, ("/bin/ls", "-l")),
            ((), ("6.1-amd64",), True, None, ("6.1-amd64",)),
            (("6.1-amd64",), (), True, "6.1-amd64", ()),
        ],
    )
    def test_guest_and_program(
        self,
        words: tuple[str, ...],
        after: tuple[str, ...],
        own: bool,
        name: str | None,
        program: tuple[str, ...],
    ) -> None:
        assert vm._guest_and_program(words, after, own=own) == (name, program)

    def test_two_dashes_come_through_both_command_lines(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []

        def split(*given: Any, own: bool) -> None:
            seen.append((*given, own))
            raise RequestError("seen")

        monkeypatch.setattr(vm, "_guest_and_program", split)
        for arguments in (
            ["boot", "--", "prog", "--cpus", "9"],
            ["boot", "--cpus", "2", "6.1-amd64", "prog", "-l", "--", "--pin"],
            ["boot", "--kernel", "x", "prog"],
        ):
            assert cli.main(["vm", *arguments]) == 2
        assert seen == [
            ((), ("prog", "--cpus", "9"), False),
            (("6.1-amd64", "prog", "-l"), ("--pin",), False),
            (("prog",), (), True),
        ]


class TestPrograms:
    @pytest.fixture
    def nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

    def test_all_missing_are_named_at_once(self, nothing: None) -> None:
        with pytest.raises(CannotError) as refusal:
            programs.ensure(list(guests.ARCHES.values()))
        line = str(refusal.value)
        for name in ("qemu-system-x86", "qemu-system-arm", "make", "apt-get install"):
            assert name in line
        assert refusal.value.exit_code == 3

    def test_nothing_is_installed_not_even_by_root(
        self, nothing: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = tmp_path / "apt-get"
        program.write_text(f"#!/bin/sh\n: >{tmp_path}/called\n")
        program.chmod(0o755)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        with pytest.raises(CannotError, match="as root run: apt-get install qemu-system-x86"):
            programs.ensure([guests.ARCHES["amd64"]])
        assert not (tmp_path / "called").exists()

    def test_compiler_is_named_with_its_packages(self, nothing: None) -> None:
        with pytest.raises(CannotError, match="install the packages"):
            build.compiler(guests.ARCHES["arm64"])

    def test_source_tree_that_is_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SWTCH_SOURCE", str(tmp_path))
        with pytest.raises(CannotError, match="SWTCH_SOURCE"):
            build.source_tree()


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
    """A module whose run ends when it is told to."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.started = threading.Event()
        self._stopped = threading.Event()

    def write(self, _: Path, text: bytes) -> None:
        self.written.append(text.decode())
        if text.endswith(b"start wait\n"):
            self.started.set()
            self._stopped.wait()
        else:
            self._stopped.set()


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

    def test_run_without_an_end_is_stopped(self, fake_machine: Machine, probe_dir: Path) -> None:
        trial = self.trial()
        module = Endless()
        with self.engine(fake_machine, probe_dir, module.write) as engine:
            invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
            sample = engine.perform(trial, invocation).sample
        assert "ran longer than 0.3 s" in sample.error
        assert [text.split()[-1] for text in module.written] == ["wait", "stop"]
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
        assert [text.split()[-1] for text in module.written] == ["wait", "stop"]

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
