# SPDX-License-Identifier: Apache-2.0
"""The vm engine: trials in guests of our own, one guest per kernel, all models in each.

A guest is booted at its first trial and stays up; with ``boots`` it is booted
anew for each block. While one guest is measured the others are paused.

Invariants:

- ``perform`` never raises for anything a guest does. One that panics, hangs or
  ends is a failed sample whose raw error output is the end of its console; it
  is killed, and the next trial boots another.
- Every sample says where it comes from: guest, kernel, architecture, scheduler,
  emulation or KVM, number of CPUs.
- Times are the guest's own. Under emulation they compare models inside this
  guest and say nothing about this machine.

Rejected: a boot per invocation (seconds for a trial of milliseconds), several
guests at work at the same time (they would share this machine's CPUs).
"""

from __future__ import annotations

import datetime
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from swtch.engines import Outcome, disturbance
from swtch.engines.control import control_text
from swtch.engines.native import PAD_MAX
from swtch.engines.protocol import ProbeError, Result, how_it_ended, read_result
from swtch.errors import CannotError
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Model, Sample, Scalar, Trial
from swtch.vm import cache, qemu
from swtch.vm.kvm import Asked, Choice
from swtch.vm.prepare import AGENT, PROBE, Prepared, describe
from swtch.vm.session import GuestDiedError, Ran, Session, boot

if TYPE_CHECKING:
    from swtch.engines.choice import Options

GUEST = "guest"
# The shortest sleep that is one: programming an emulated timer alone takes longer
# than the studies' 1 us, so that a thread finds it over before it has left its CPU.
EMULATED_SLEEP_NS = 500_000


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A prepared guest and how it is run; ``only`` for these experiments, None: for all;
    ``words`` are added to its kernel's command line; a ``variant`` is one of several guests
    with the same kernel and other words."""

    prepared: Prepared
    accel: Choice
    only: frozenset[str] | None = None
    words: tuple[str, ...] = ()
    variant: bool = False

    @property
    def name(self) -> str:
        """Of the guest; of one of several that are told different things, with those."""
        name = self.prepared.guest.name
        return f"{name}+{_as_name(' '.join(self.words))}" if self.variant else name


def not_loaded(hello: Mapping[str, Any]) -> str:
    """Why the guest that says `hello` has no kernel threads, and what to do; empty if it has."""
    state = str(hello.get("module"))
    if state == "loaded":
        return ""
    remedy = {
        "absent": "prepare it with headers",
        "Exec format error": "its headers are of another kernel, or configured otherwise",
        "Required key not available": "turn off CONFIG_MODULE_SIG_FORCE, or lockdown",
        "Operation not permitted": "turn off lockdown",
        "Function not implemented": "turn on CONFIG_MODULES",
        "Cannot allocate memory": "give the guest more with --memory",
    }.get(state, "its console says more")
    return f"kthread_perf does not load in this guest: {state.lower()}; {remedy}"


def _as_name(words: str) -> str:
    """Short, and good for a file's name."""
    return re.sub(r"[^\w.=,+-]+", "_", words)[:60] or "plain"


def facts_of(subject: Subject) -> dict[str, Any]:
    """For the manifest."""
    return {**describe(subject.prepared), "append": subject.words}


def digest(subjects: Sequence[Subject]) -> str:
    """Of all that is in the guests, and what their kernels are told."""
    told = [word for subject in subjects for word in subject.words]
    return cache.key_of([*(subject.prepared.digest for subject in subjects), *told])


def factors(subject: Subject, cpus: int) -> dict[str, Scalar]:
    """What a sample says of the guest it comes from."""
    told = {"append": " ".join(subject.words)} if subject.words else {}
    return {
        **told,
        GUEST: subject.name,
        "kernel": subject.prepared.kernel.release,
        "arch": subject.prepared.guest.arch.name,
        "scheduler": subject.prepared.scheduler,
        "accel": subject.accel.accel,
        "vcpus": cpus,
    }


def spread(
    trials: Sequence[Trial], subjects: Sequence[Subject], cpus: int, engine: EngineName
) -> tuple[Trial, ...]:
    """Each trial once per guest, with the guest's factors and its name in the id.

    A guest without the kernel module has no kthread trials.
    """
    return tuple(
        msgspec.structs.replace(
            trial,
            id=f"{trial.id}@{subject.name}",
            engine=engine,
            factors={**trial.factors, **factors(subject, cpus)},
        )
        for subject in subjects
        for trial in trials
        if trial.model != "kthread" or subject.prepared.has_module
        if subject.only is None or trial.experiment in subject.only
    )


def in_emulation(trial: Trial) -> Trial:
    """`trial` with sleeps that an emulated CPU can tell from none, and a note of it."""
    probe = trial.probe
    asked = probe.get("sleep_ns", EMULATED_SLEEP_NS)
    if probe.get("intervention") != "sleep" or asked >= EMULATED_SLEEP_NS:
        return trial
    note = (
        f"an emulated CPU takes longer to set a timer than the {asked / 1000:g} µs the threads"
        f" were to sleep, so they slept {EMULATED_SLEEP_NS / 1000:g} µs"
    )
    return msgspec.structs.replace(
        trial,
        probe={**probe, "sleep_ns": EMULATED_SLEEP_NS},
        note=f"{trial.note}; {note}" if trial.note else note,
    )


def request_of(trial: Trial, invocation: Invocation) -> tuple[list[str], bytes, int]:
    """What performs `trial` in a guest: program, its input, and the padding's size."""
    import random

    pad = random.Random(invocation.seed).randrange(PAD_MAX)
    probe = dict(trial.probe)
    if "seed" in probe:
        probe["seed"] = invocation.seed
    if trial.model == "kthread":
        return [AGENT, "kthread"], control_text(probe).encode(), pad
    return [PROBE], msgspec.json.encode(probe), pad


def read_ran(ran: Ran, trial: Trial) -> Result:
    """The result of a program that ran in a guest, or ProbeError."""
    if ran.failed:
        raise ProbeError(f"guest could not start the probe ({ran.failed})")
    if ran.timed_out:
        raise ProbeError(f"probe ran longer than {trial.timeout_s:g} s")
    if ran.killed_why:
        raise ProbeError(f"the guest's kernel ended the probe; {ran.killed_why}")
    try:
        return read_result(ran.stdout, ran.returncode, trial)
    except ProbeError as fault:
        if str(fault) == how_it_ended(ran.returncode) and (complaint := _last_line(ran.stderr)):
            raise ProbeError(f"{fault}: {complaint}") from None
        raise


def sample_of(
    trial: Trial,
    invocation: Invocation,
    *,
    started: datetime.datetime,
    begun_ns: int,
    elapsed_ns: int,
    result: Result | None,
    error: str,
    steal_ns: int | None = None,
    interrupts: int | None = None,
    throttled_ns: int | None = None,
) -> Sample:
    """One sample, good with `result` and failed without."""
    return Sample(
        seq=invocation.seq,
        experiment=trial.experiment,
        trial_id=trial.id,
        model=trial.model,
        engine=trial.engine,
        factors=trial.factors,
        block=invocation.block,
        seed=invocation.seed,
        started=started.isoformat(timespec="milliseconds"),
        elapsed_ns=elapsed_ns,
        status="ok" if result else "failed",
        error=error,
        values=result.values if result else {},
        threads=result.threads if result else (),
        carriers=result.carriers if result else (),
        detail=result.detail if result else {},
        steal_ns=steal_ns,
        interrupts=interrupts,
        throttled_ns=throttled_ns,
        boot=disturbance.boot(),
        begun_ns=begun_ns,
    )


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


class VmEngine:
    """Runs trials in guests. ``close`` powers them off; use as a context manager."""

    name: EngineName = "vm"

    def __init__(
        self,
        subjects: Sequence[Subject],
        *,
        cpus: int = qemu.CPUS,
        memory_mib: int = qemu.MEMORY_MIB,
        boots: bool = False,
        asked: Asked = "auto",
        pin: tuple[int, ...] = (),
        launch: Callable[[qemu.Machine], qemu.Qemu] = qemu.Qemu,
    ) -> None:
        self.cpus = cpus
        self._subjects: Mapping[str, Subject] = {subject.name: subject for subject in subjects}
        self._memory_mib = memory_mib
        self._boots = boots
        self._asked: Asked = asked
        self._pin = pin
        self._launch = launch
        self._sessions: dict[str, Session] = {}
        self._blocks: dict[str, int] = {}
        self._warm: set[tuple[str, Model]] = set()
        self._scratch = tempfile.TemporaryDirectory(prefix="swtch-vm-")
        self._logs = Path(self._scratch.name)
        self._active: Session | None = None
        self._stopped = False

    @property
    def emulated(self) -> bool:
        """Whether no guest has a processor of this machine's."""
        return all(subject.accel.accel == "tcg" for subject in self._subjects.values())

    @property
    def has_kthread(self) -> bool:
        """Some guest has the kernel module."""
        return any(subject.prepared.has_module for subject in self._subjects.values())

    def describe(self) -> dict[str, Any]:
        """The digest tells a resumed run whether guests and programs are the same."""
        subjects = list(self._subjects.values())
        return {
            "engine": self.name,
            "cpus": self.cpus,
            "memory_mib": self._memory_mib,
            "boots": self._boots,
            "accel_asked": self._asked,
            "pin": self._pin,
            "guests": [
                {
                    **facts_of(subject),
                    "accel": subject.accel.accel,
                    "why_not_kvm": subject.accel.why,
                    "qemu": qemu.version(subject.prepared.guest.arch),
                }
                for subject in subjects
            ],
            "sha256": digest(subjects),
        }

    def spread(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """The trials of a plan, each for every guest."""
        per_guest = spread(trials, list(self._subjects.values()), self.cpus, self.name)
        return tuple(in_emulation(t) if t.factors["accel"] == "tcg" else t for t in per_guest)

    def keep_logs(self, folder: Path) -> None:
        """From now on consoles are logged into `folder`."""
        self._logs = folder

    def stop(self) -> None:
        """Ends the guest that is at work. Signal-handler safe."""
        self._stopped = True
        if self._active is not None:
            self._active.stop()

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        """One program in the guest that the trial names."""
        started = datetime.datetime.now(datetime.UTC)
        before = disturbance.counters()
        begin = time.monotonic_ns()
        stdout = stderr = b""
        result, ran, error = None, None, ""
        try:
            ran = self._run(trial, invocation)
            stdout, stderr = ran.stdout, ran.stderr
            result = read_ran(ran, trial)
        except GuestDiedError as death:
            self._forget(str(trial.factors[GUEST]))
            error = str(death)
            stderr = f"{death}\nlast lines of the console:\n{death.console}\n".encode()
        except (ProbeError, CannotError) as fault:
            error = str(fault)
        after = disturbance.counters()
        sample = sample_of(
            trial,
            invocation,
            started=started,
            begun_ns=begin,
            elapsed_ns=time.monotonic_ns() - begin,
            result=result,
            error=error,
            steal_ns=disturbance.delta(before, after, "steal_ns"),
            interrupts=ran.interrupts if ran else None,
            throttled_ns=disturbance.delta(before, after, "throttled_ns"),
        )
        return Outcome(sample=sample, stdout=stdout, stderr=stderr)

    def rest(self) -> None:
        """Powers all guests off; the next trial boots one again."""
        for name in list(self._sessions):
            self._end(name)

    def close(self) -> None:
        """Powers all guests off. May be called twice."""
        self.rest()
        self._scratch.cleanup()

    def __enter__(self) -> VmEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, trial: Trial, invocation: Invocation) -> Ran:
        session = self._session(str(trial.factors[GUEST]), invocation.block)
        if trial.model == "kthread" and (why := not_loaded(session.hello)):
            raise ProbeError(why)
        argv, stdin, pad = request_of(trial, invocation)
        self._active = session
        if self._is_stopped():
            # The signal came before there was a session to end.
            session.stop()
        try:
            if self._is_cold(trial):
                session.run(argv, stdin=stdin, timeout_s=trial.timeout_s, pad=pad)
            return session.run(argv, stdin=stdin, timeout_s=trial.timeout_s, pad=pad)
        finally:
            self._active = None

    def _is_cold(self, trial: Trial) -> bool:
        """An emulator translates code when it first comes by it: the first performance of
        a model after a boot is thrown away."""
        name = str(trial.factors[GUEST])
        cold = self._subjects[name].accel.accel == "tcg" and (name, trial.model) not in self._warm
        self._warm.add((name, trial.model))
        return cold

    def _session(self, name: str, block: int) -> Session:
        for other, session in self._sessions.items():
            if other != name:
                session.pause()
        if self._boots and self._blocks.get(name, block) != block:
            self._end(name)
        self._blocks[name] = block
        if name not in self._sessions:
            if self._is_stopped():
                raise ProbeError("interrupted")
            self._warm = {(guest, model) for guest, model in self._warm if guest != name}
            self._sessions[name] = self._boot(self._subjects[name])
        return self._sessions[name]

    def _boot(self, subject: Subject) -> Session:
        machine = qemu.Machine(
            arch=subject.prepared.guest.arch,
            image=Path(subject.prepared.kernel.image),
            initramfs=subject.prepared.initramfs,
            cpus=self.cpus,
            memory_mib=self._memory_mib,
            accel=subject.accel.accel,
            words=subject.words,
            pin=self._pin,
        )
        return boot(
            machine,
            self._logs / f"guest-{subject.name}.console",
            launch=self._launch,
            publish=self._publish,
        )

    def _publish(self, session: Session) -> None:
        """The session can be stopped from now on, also while it boots."""
        self._active = session

    def _end(self, name: str) -> None:
        session = self._sessions.pop(name)
        try:
            if not self._is_stopped():
                session.power_off()
        finally:
            session.kill()

    def _forget(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            session.kill()

    def _is_stopped(self) -> bool:
        # A call, because a signal handler changes it between any two lines.
        return self._stopped


def opened(options: Options, subjects: Sequence[Subject]) -> VmEngine:
    """The engine as `options` ask for it."""
    cpus, memory = options.cpus or qemu.CPUS, options.memory_mib or qemu.MEMORY_MIB
    return VmEngine(
        subjects,
        cpus=cpus,
        memory_mib=memory,
        boots=options.boots,
        asked=options.accel,
        pin=options.pin,
    )
