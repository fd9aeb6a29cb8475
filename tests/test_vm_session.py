# SPDX-License-Identifier: Apache-2.0
"""A guest that answers, lies, panics or hangs: sessions and engines over a fake QEMU."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from vm_guests import FakeQemu, subject_of, use_fake_qemu

from swtch.engines import caches, exact
from swtch.engines.exact import ExactEngine, in_instructions
from swtch.engines.native import PROBE, PROBE_DIR
from swtch.engines.protocol import Result
from swtch.engines.vm import EMULATED_SLEEP_NS, Subject, VmEngine, not_loaded
from swtch.errors import CannotError
from swtch.experiments import Setting, get
from swtch.records import Invocation, Trial
from swtch.vm import cache, guests, kvm, qemu, session
from swtch.vm.kvm import Choice
from swtch.vm.session import GuestDiedError, Session


@pytest.fixture
def fake_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return use_fake_qemu(tmp_path, monkeypatch)


def machine(tmp_path: Path, arch: str) -> qemu.Machine:
    archive = tmp_path / "initramfs"
    archive.write_bytes(b"")
    return qemu.Machine(arch=guests.ARCHES[arch], image=archive, initramfs=archive)


@pytest.fixture(params=["amd64", "arm64"])
def boot(
    request: pytest.FixtureRequest, tmp_path: Path, fake_qemu: Callable[[str], None]
) -> Callable[..., Session]:
    """Boots the fake guest, with two wires (amd64) and with one (arm64)."""

    def start(mode: str = "ok", boot_s: float = session.BOOT_S) -> Session:
        fake_qemu(mode)
        return Session(machine(tmp_path, request.param), tmp_path / "console", boot_s=boot_s)

    return start


Boot = Callable[..., Session]


class TestSession:
    def test_runs_programs_one_after_the_other(self, boot: Boot, tmp_path: Path) -> None:
        with boot() as guest:
            assert guest.hello["op"] == "hello"
            for text in (b"", b"one", b"two\n@@SWTCH 1 2 3\n", bytes(range(256)) * 9):
                ran = guest.run(["/bin/cat"], stdin=text)
                assert (ran.stdout, ran.returncode) == (text, 0)
            assert guest.run(["/bin/false"]).returncode == 1
        assert b"Linux version 0" in (tmp_path / "console").read_bytes()

    @pytest.mark.parametrize("mode", ["lossy", "noisy"])
    def test_bad_lines_lose_nothing(self, boot: Boot, mode: str) -> None:
        with boot(mode) as guest:
            for text in (b"short", b"long" * 600):
                assert guest.run(["/bin/cat"], stdin=text).stdout == text

    def test_no_boot_within_the_limit(self, boot: Boot) -> None:
        begin = time.monotonic()
        with pytest.raises(GuestDiedError, match=r"did not boot within 0\.5 s"):
            boot("hang", boot_s=0.5)
        assert time.monotonic() - begin < 300  # what hangs does so for 600

    def test_a_silent_guest_is_booted_once_more(self, fake_qemu: FakeQemu, tmp_path: Path) -> None:
        made = []

        def launch(machine: qemu.Machine) -> session.Qemu:
            fake_qemu("ok" if made else "hang")
            made.append(machine)
            return session.Qemu(machine)

        log = tmp_path / "console"
        with session.boot(machine(tmp_path, "amd64"), log, first_s=0.5, launch=launch) as guest:
            assert guest.hello["op"] == "hello"
        assert len(made) == 2

    def test_one_that_says_why_is_not(self, fake_qemu: FakeQemu, tmp_path: Path) -> None:
        made = []

        def launch(machine: qemu.Machine) -> session.Qemu:
            made.append(machine)
            return session.Qemu(machine)

        fake_qemu("dies")
        with pytest.raises(GuestDiedError, match="no such machine"):
            session.boot(machine(tmp_path, "amd64"), tmp_path / "console", launch=launch)
        assert len(made) == 1

    @pytest.mark.parametrize(
        ("mode", "told"),
        [
            ("noinit", r"^guest kernel: .*Failed to execute /init .*; turn on CONFIG_BINFMT_ELF"),
            ("oneport", r"one serial port and needs two; let CONFIG_SERIAL_8250_NR_UARTS"),
            ("rdinit", r"check access for rdinit.*; turn on CONFIG_BLK_DEV_INITRD"),
            ("noline", r"swtch-guest: no line .*; turn on .*CONFIG_SERIAL_8250_NR_UARTS"),
        ],
    )
    def test_what_a_kernel_lacks_ends_a_boot_at_once(
        self, fake_qemu: FakeQemu, tmp_path: Path, mode: str, told: str
    ) -> None:
        """It would stand still for ten minutes and then be gone, for another reason."""
        fake_qemu(mode)
        made = []

        def launch(machine: qemu.Machine) -> qemu.Qemu:
            made.append(machine)
            return qemu.Qemu(machine)

        log = tmp_path / "console"
        with pytest.raises(GuestDiedError, match=told):
            session.boot(machine(tmp_path, "amd64"), log, first_s=3600, launch=launch)
        assert len(made) == 1

    def test_a_damaged_greeting_on_the_only_wire_is_noise(
        self, fake_qemu: FakeQemu, tmp_path: Path
    ) -> None:
        fake_qemu("torn")
        with Session(machine(tmp_path, "arm64"), tmp_path / "console") as guest:
            assert guest.run(["/bin/cat"], stdin=b"x").stdout == b"x"
        assert b'{"op":"hello"' in (tmp_path / "console").read_bytes()

    def test_a_kernel_that_dies_is_booted_once_more(
        self, fake_qemu: FakeQemu, tmp_path: Path
    ) -> None:
        made: list[qemu.Machine] = []

        def launch(machine: qemu.Machine, then: str = "ok") -> qemu.Qemu:
            fake_qemu(then if made else "oops")
            made.append(machine)
            return qemu.Qemu(machine)

        given, log = machine(tmp_path, "amd64"), tmp_path / "console"
        with session.boot(given, log, first_s=3600, launch=launch) as guest:
            assert guest.hello["op"] == "hello"
        assert len(made) == 2
        made.clear()
        with pytest.raises(GuestDiedError, match=r"^guest kernel: .*Oops"):
            session.boot(given, log, first_s=3600, launch=lambda m: launch(m, "oops"))
        assert len(made) == 2

    def test_a_kernel_that_says_nothing(self, boot: Boot) -> None:
        with pytest.raises(GuestDiedError, match=r"needs CONFIG_SERIAL_\w+ and CONFIG_SERIAL_"):
            boot("hang", boot_s=0.5)

    def test_out_of_memory(self, boot: Boot) -> None:
        with boot("oom") as guest:
            ran = guest.run(["/bin/cat"])
            assert (ran.returncode, ran.killed_why) == (-9, "give the guest more with --memory")

    @pytest.mark.parametrize(
        ("line", "pattern"),
        [
            (b"WARNING: possible circular locking dependency detected", session.COMPLAINT),
            (b"INFO: trying to register non-static key.", session.COMPLAINT),
            (b"INFO: task kperf/0:91 blocked for more than 120 seconds.", session.COMPLAINT),
            (b"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", session.COMPLAINT),
            (b"UBSAN: shift-out-of-bounds in kthread_perf/run.c:9:9", session.COMPLAINT),
            (b"BUG: KASAN: slab-out-of-bounds in kperf_run_put+0x1/0x2", session.FATAL),
            (b"BUG: KCSAN: data-race in kperf_a / kperf_b", session.FATAL),
            (b"BUG: sleeping function called from invalid context at a.c:1", session.FATAL),
        ],
    )
    def test_what_a_kernel_s_checkers_say_is_heard(
        self, line: bytes, pattern: re.Pattern[bytes]
    ) -> None:
        assert pattern.search(b"[    7.123456] " + line)

    def test_full_disk_ends_the_log_alone(self, fake_qemu: FakeQemu, tmp_path: Path) -> None:
        with Session(machine(tmp_path, "amd64"), Path("/dev/full")) as guest:
            assert guest.run(["/bin/cat"], stdin=b"x").stdout == b"x"

    def test_rubbish_is_no_boot(self, boot: Boot) -> None:
        with pytest.raises(GuestDiedError, match="did not boot"):
            boot("rubbish", boot_s=0.5)

    def test_what_qemu_says_is_told(self, boot: Boot) -> None:
        with pytest.raises(GuestDiedError, match="no such machine"):
            boot("dies")

    def test_panic_is_told_with_the_console(
        self, boot: Boot, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All of it: this one ends when it has said it, however long that takes."""
        monkeypatch.setattr(session, "_GRACE_S", 60.0)
        guest = boot("panic")
        with pytest.raises(GuestDiedError, match="Kernel panic - not syncing: x") as death:
            guest.run(["/bin/cat"])
        assert "Call Trace:" in death.value.console
        guest.kill()

    def test_program_without_an_end(self, boot: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
        guest = boot("silent")
        ask = guest._ask

        def accepted(request: dict[str, Any]) -> dict[str, Any]:
            """It is, as soon as that may be; from then on nothing comes."""
            answer = ask(request)
            monkeypatch.setattr(session, "SLACK_S", 0.5)
            return answer

        monkeypatch.setattr(guest, "_ask", accepted)
        begin = time.monotonic()
        with pytest.raises(GuestDiedError, match="guest hangs"):
            guest.run(["/bin/cat"], timeout_s=0.2)
        assert time.monotonic() - begin < 300
        guest.kill()

    def test_stop_ends_what_waits(self, boot: Boot) -> None:
        guest = boot("silent")
        guest.stop()
        with pytest.raises(GuestDiedError, match=r"interrupted|gone"):
            guest.run(["/bin/cat"])
        guest.kill()
        guest.kill()


ENDS = ("@6.1-amd64", "@6.12-amd64")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return subject_of(tmp_path)


def trial_of(engine: VmEngine | ExactEngine, **changes: Any) -> Trial:
    setting = Setting(cpus=(0,), models=("pthread",), engine=engine.name, timeout_s=1)
    trial = engine.spread(get("scenarios").trials(setting))[0]
    return msgspec.structs.replace(trial, **changes)


def invocation(trial: Trial, seq: int = 0, block: int = 0) -> Invocation:
    return Invocation(seq=seq, block=block, trial_id=trial.id, seed=9)


class TestVmEngine:
    def test_sample_says_where_it_is_from(self, fake_qemu: FakeQemu, subject: Subject) -> None:
        with VmEngine([subject]) as engine:
            trial = trial_of(engine)
            sample = engine.perform(trial, invocation(trial)).sample
        assert (sample.status, sample.error) == ("ok", "")
        assert sample.engine == "vm" and sample.trial_id.endswith("@6.1-amd64")
        wanted = {"guest": "6.1-amd64", "scheduler": "CFS", "accel": "tcg", "vcpus": 4}
        assert wanted.items() <= sample.factors.items()
        assert sample.interrupts == 3

    def test_dead_guest_is_a_failed_sample_and_the_next_boots_anew(
        self,
        fake_qemu: FakeQemu,
        subject: Subject,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(session, "_GRACE_S", 60.0)  # it ends when it has said all
        with VmEngine([subject]) as engine:
            engine.keep_logs(tmp_path)
            trial = trial_of(engine)
            fake_qemu("panic")
            outcome = engine.perform(trial, invocation(trial))
            assert outcome.sample.status == "failed"
            assert "Kernel panic" in outcome.sample.error
            assert b"Call Trace:" in outcome.stderr
            fake_qemu("ok")
            assert engine.perform(trial, invocation(trial, 1)).sample.status == "ok"
        text = (tmp_path / "guest-6.1-amd64.console").read_text()
        assert text.count("Linux version 0") == 2

    def test_module_that_does_not_load_is_told_for_its_trials(
        self, fake_qemu: FakeQemu, subject: Subject
    ) -> None:
        with_module = replace(subject, prepared=replace(subject.prepared, has_module=True))
        with VmEngine([with_module]) as engine:
            for model, error in (("kthread", "kthread_perf does not load"), ("pthread", "")):
                trial = trial_of(engine, model=model)
                sample = engine.perform(trial, invocation(trial)).sample
                assert sample.error.startswith(error) and bool(sample.error) == bool(error)

    @pytest.mark.parametrize(
        ("state", "told"),
        [
            ("loaded", r"^$"),
            ("Exec format error", "exec format error; its headers are of another kernel"),
            ("Required key not available", "turn off CONFIG_MODULE_SIG_FORCE"),
            ("whatever", "whatever; its console says more"),
        ],
    )
    def test_what_to_do_about_a_module(self, state: str, told: str) -> None:
        assert re.search(told, not_loaded({"module": state}))

    def test_probe_that_the_kernel_ended(self, fake_qemu: FakeQemu, subject: Subject) -> None:
        fake_qemu("oom")
        with VmEngine([subject]) as engine:
            trial = trial_of(engine)
            error = engine.perform(trial, invocation(trial)).sample.error
        assert error == "the guest's kernel ended the probe; give the guest more with --memory"

    @pytest.mark.parametrize("mode", ["dies", "silent"])
    def test_other_deaths(
        self,
        fake_qemu: FakeQemu,
        subject: Subject,
        mode: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(session, "SLACK_S", 0.5)
        fake_qemu(mode)
        with VmEngine([subject]) as engine:
            trial = trial_of(engine, timeout_s=0.2)
            sample = engine.perform(trial, invocation(trial)).sample
        assert sample.status == "failed" and "\n" not in sample.error and sample.error

    def test_boots_anew_for_each_block_when_asked(
        self, fake_qemu: FakeQemu, subject: Subject, tmp_path: Path
    ) -> None:
        with VmEngine([subject], boots=True) as engine:
            engine.keep_logs(tmp_path)
            trial = trial_of(engine)
            for seq, block in enumerate((0, 0, 1)):
                assert engine.perform(trial, invocation(trial, seq, block)).sample.status == "ok"
        text = (tmp_path / "guest-6.1-amd64.console").read_text()
        assert text.count("Linux version 0") == 2

    def test_stopped_engine_starts_nothing(self, fake_qemu: FakeQemu, subject: Subject) -> None:
        with VmEngine([subject]) as engine:
            engine.stop()
            trial = trial_of(engine)
            assert engine.perform(trial, invocation(trial)).sample.error == "interrupted"

    def test_description_identifies_it(self, fake_qemu: FakeQemu, subject: Subject) -> None:
        with VmEngine([subject]) as engine:
            facts = engine.describe()
        assert facts["guests"][0]["why_not_kvm"] == "test"
        assert "fake" in facts["guests"][0]["qemu"] and facts["sha256"]
        msgspec.json.encode(facts)

    @pytest.mark.usefixtures("fake_qemu")
    def test_another_cache_model_is_another_engine(
        self, subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / PROBE).touch(0o755)
        monkeypatch.setenv(PROBE_DIR, str(tmp_path))
        digests = set()
        for contents in (None, b"one", b"two"):
            if contents:
                (tmp_path / caches.PLUGIN).write_bytes(contents)
            digests.add(ExactEngine([subject]).describe()["sha256"])
        assert len(digests) == 3

    def test_emulated_sleeps_are_long_enough_to_be_sleeps(self, subject: Subject) -> None:
        trials = get("scenarios").trials(Setting(cpus=(0, 1, 2, 3), models=("pthread",)))
        with_kvm = Subject(prepared=subject.prepared, accel=Choice("kvm", ""))
        for given, sleep_ns in ((subject, EMULATED_SLEEP_NS), (with_kvm, 1000)):
            with VmEngine([given]) as engine:
                for trial in engine.spread(trials):
                    sleeps = trial.probe["intervention"] == "sleep"
                    assert trial.probe["sleep_ns"] == (sleep_ns if sleeps else 1000)
                    told = "slept 500 µs" in trial.note
                    assert told == (sleeps and given is subject)
        with ExactEngine([subject]) as exact:
            assert not any(trial.note.endswith("slept 500 µs") for trial in exact.spread(trials))

    def test_a_guest_for_some_experiments_only(self, subject: Subject) -> None:
        setting = Setting(cpus=(0, 1, 2, 3), models=("pthread",))
        trials = get("eevdf-yield").trials(setting) + get("scenarios").trials(setting)
        newer = replace(subject.prepared, guest=guests.GUESTS["6.12-amd64"])
        other = Subject(prepared=newer, accel=subject.accel, only=frozenset({"eevdf-yield"}))
        with VmEngine([subject, other]) as engine:
            made = engine.spread(trials)
        names = {name: {t.experiment for t in made if t.id.endswith(name)} for name in ENDS}
        assert names == {"@6.1-amd64": {"eevdf-yield", "scenarios"}, "@6.12-amd64": {"eevdf-yield"}}

    def test_no_kthread_without_a_module(self, subject: Subject) -> None:
        with VmEngine([subject]) as engine:
            trial = trial_of(engine, model="kthread")
            assert not engine.has_kthread
            assert engine.spread([trial]) == ()

    def test_what_the_kernel_is_told_is_a_factor_and_another_engine(
        self, fake_qemu: FakeQemu, subject: Subject, tmp_path: Path
    ) -> None:
        told = replace(subject, words=("preempt=full",))
        made: list[qemu.Machine] = []

        def launch(machine: qemu.Machine) -> qemu.Qemu:
            made.append(machine)
            return qemu.Qemu(machine)

        pin = (max(os.sched_getaffinity(0)),)
        with VmEngine([told], pin=pin, launch=launch) as engine:
            trial = trial_of(engine)
            sample = engine.perform(trial, invocation(trial)).sample
            facts = engine.describe()
        assert sample.factors["append"] == "preempt=full"
        assert (made[0].words, made[0].pin) == (told.words, pin)
        with VmEngine([subject]) as plain:
            assert plain.describe()["sha256"] != facts["sha256"]
            assert "append" not in trial_of(plain).factors
        for other in (told, subject):
            engine_facts = ExactEngine([other]).describe()["guests"][0]
            assert engine_facts["append"] == other.words


class TestExactEngine:
    def test_figures_are_instructions(self, fake_qemu: FakeQemu, subject: Subject) -> None:
        engine = ExactEngine([subject])
        trial = trial_of(engine)
        outcomes = [engine.perform(trial, invocation(trial)) for _ in range(2)]
        sample = outcomes[0].sample
        assert sample.status == "ok", sample.error
        assert sample.engine == "exact" and sample.factors["vcpus"] == 1
        assert sample.values["wall_instructions"] > 0
        assert not any(key.endswith("_ns") for key in sample.values)

    def test_panic(self, fake_qemu: FakeQemu, subject: Subject) -> None:
        fake_qemu("panic")
        engine = ExactEngine([subject])
        trial = trial_of(engine)
        outcome = engine.perform(trial, invocation(trial))
        assert "Kernel panic" in outcome.sample.error
        assert b"not syncing" in outcome.stderr

    def test_time_limit(
        self, fake_qemu: FakeQemu, subject: Subject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_qemu("hang")
        monkeypatch.setattr(exact, "BOOT_S", 0.3)
        engine = ExactEngine([subject])
        trial = trial_of(engine, timeout_s=0.2)
        assert "did not end within" in engine.perform(trial, invocation(trial)).sample.error

    def test_qemu_that_fails(self, fake_qemu: FakeQemu, subject: Subject) -> None:
        fake_qemu("dies")
        engine = ExactEngine([subject])
        trial = trial_of(engine)
        assert "no such machine" in engine.perform(trial, invocation(trial)).sample.error

    def test_only_times_are_renamed(self) -> None:
        result = Result(values={"wall_ns": 5, "counter": 4}, threads=(), carriers=(), detail={})
        assert in_instructions(result).values == {"wall_instructions": 5, "counter": 4}


class TestCommandLine:
    def test_exact_takes_nothing_from_outside(self, fake_qemu: FakeQemu, tmp_path: Path) -> None:
        made = machine(tmp_path, "amd64")
        made = qemu.Machine(
            arch=made.arch, image=made.image, initramfs=made.initramfs, exact=True, cpus=4
        )
        words = " ".join(qemu.command(made, console="file,path=c", line="file,path=l"))
        for part in ("-smp 1", "shift=0,sleep=off,align=off", "clock=vm", "-seed 7", "-rdrand"):
            assert part in words
        assert "nokaslr" in words and "socket" not in words

    def test_arm64_has_one_wire(self, fake_qemu: FakeQemu, tmp_path: Path) -> None:
        words = qemu.command(machine(tmp_path, "arm64"), console="null", line="null")
        assert words.count("-serial") == 1
        words = qemu.command(machine(tmp_path, "amd64"), console="null", line="null")
        assert words.count("-serial") == 2

    def test_missing_emulator_names_its_package(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(qemu.CannotError, match="apt-get install qemu-system-arm"):
            qemu.emulator(guests.ARCHES["arm64"])

    def test_words_are_added_and_not_cut_off(self, fake_qemu: FakeQemu, tmp_path: Path) -> None:
        made = replace(machine(tmp_path, "amd64"), words=('dyndbg="file a.c +p" quiet',))
        line = qemu.append(made)
        assert line.endswith(' dyndbg="file a.c +p" quiet')
        with pytest.raises(CannotError, match="make --append shorter"):
            qemu.append(replace(made, words=("x" * 2000,)))

    def test_sandbox_where_there_is_one(
        self, fake_qemu: FakeQemu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for there in (False, True):
            qemu._has_sandbox.cache_clear()
            if there:
                monkeypatch.setenv("FAKE_QEMU_SANDBOX", "1")
            words = qemu.command(machine(tmp_path, "amd64"), console="null", line="null")
            assert ("-sandbox" in words) == there
        assert words[words.index("-sandbox") + 1].startswith("on,")
        assert "spawn=deny" in words[words.index("-sandbox") + 1]


class TestPin:
    def test_virtual_cpus_stay_where_they_are_put(
        self, fake_qemu: FakeQemu, tmp_path: Path
    ) -> None:
        last = max(os.sched_getaffinity(0))
        made = replace(machine(tmp_path, "amd64"), pin=(last,))
        with Session(made, tmp_path / "console") as guest:
            assert os.sched_getaffinity(guest._qemu._process.pid) == {last}

    def test_a_cpu_that_is_not_there(self, fake_qemu: FakeQemu, tmp_path: Path) -> None:
        made = replace(machine(tmp_path, "amd64"), pin=(1023,))
        with pytest.raises(CannotError, match="no virtual CPU can be on CPU 1023: "):
            Session(made, tmp_path / "console")


class TestKvm:
    @pytest.fixture
    def device(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        device = tmp_path / "kvm"
        device.touch()
        monkeypatch.setattr(kvm, "DEVICE", device)
        monkeypatch.setattr(qemu, "same_arch", lambda _arch: True)
        return device

    def test_only_a_boot_proves_it_and_is_remembered(
        self, fake_qemu: FakeQemu, subject: Subject, device: Path
    ) -> None:
        boots: list[qemu.Machine] = []
        for _ in range(2):
            assert kvm.choose(subject.prepared, boot=boots.append) == Choice("kvm")
        assert [made.accel for made in boots] == ["kvm"]

    def test_boot_that_fails_is_emulation_with_a_reason(
        self, fake_qemu: FakeQemu, subject: Subject, device: Path
    ) -> None:
        fake_qemu("dies")
        choice = kvm.choose(subject.prepared)
        assert choice.accel == "tcg" and "no such machine" in choice.why

    def test_a_refusal_is_tried_again_after_a_while(
        self, fake_qemu: FakeQemu, subject: Subject, device: Path
    ) -> None:
        fake_qemu("dies")
        refused = kvm.choose(subject.prepared)
        boots: list[qemu.Machine] = []
        assert kvm.choose(subject.prepared, boot=boots.append) == refused
        (note,) = cache.room("kvm").iterdir()
        past = time.time() - kvm.RETRY_S - 1
        os.utime(note, (past, past))
        assert kvm.choose(subject.prepared, boot=boots.append) == Choice("kvm")
        # What has worked is not asked again.
        os.utime(note, (past, past))
        assert kvm.choose(subject.prepared, boot=boots.append) == Choice("kvm")
        assert len(boots) == 1

    def test_who_asks_gets_what_he_asks_for(
        self, fake_qemu: FakeQemu, subject: Subject, device: Path
    ) -> None:
        boots: list[qemu.Machine] = []
        choice = kvm.choose(subject.prepared, asked="tcg", boot=boots.append)
        assert choice == Choice("tcg", "as asked")
        assert kvm.choose(subject.prepared, asked="kvm", boot=boots.append) == Choice("kvm")
        device.unlink()
        with pytest.raises(CannotError, match=r"--accel kvm: there is no .*kvm here"):
            kvm.choose(subject.prepared, asked="kvm", boot=boots.append)
        assert not boots

    def test_no_device(self, subject: Subject, device: Path) -> None:
        device.unlink()
        assert "there is no" in kvm.choose(subject.prepared).why

    def test_foreign_guest(self, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(qemu, "same_arch", lambda _arch: False)
        assert kvm.choose(subject.prepared) == Choice("tcg", "this machine is no amd64")
