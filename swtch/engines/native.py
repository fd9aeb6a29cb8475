# SPDX-License-Identifier: Apache-2.0
"""The native engine: one process of swtch-probe on this kernel per invocation.

While a probe runs, this process must not exist as far as the machine can tell:

- it is pinned off the measured CPUs when there is a spare one (the probe is
  started with the full set again, so it may use any CPU that is allowed);
- it sleeps in one poll() on a pidfd until the probe ends or time is up: no
  pipe to drain, no timer of its own;
- the probe's input and output are anonymous files in memory, which also means
  that no grandchild that holds a pipe open can hang us, and none that fills a
  pipe can hang itself.

Invariants:

- The probe leads its own session, so Ctrl-C reaches only us; its process group
  is ended with it. Only groups that this file started are ever signalled, and
  always before the leader is reaped, when its number cannot be another's yet.
- The size of the environment is drawn from the invocation's seed (SWTCH_PAD):
  it moves the initial stack, which alone can shift a result by some percent.

Rejected: subprocess pipes with communicate() (wakes up for each line and may
wait for grandchildren), Popen.wait(timeout) (polls every 50 ms), preexec_fn
for pinning (runs Python between fork and exec).
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import random
import resource
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from swtch import own
from swtch.engines import PEERS, SERVED, WORKERS, Engine, Outcome, disturbance
from swtch.engines.protocol import ProbeError, read_result
from swtch.errors import CannotError, os_error_text
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Model, Sample, Trial

if TYPE_CHECKING:
    from swtch.engines.choice import Options
    from swtch.engines.vm import Subject

PROBE = "swtch-probe"
PROBE_DIR = "SWTCH_PROBE_DIR"
PAD = "SWTCH_PAD"
PAD_MAX = 4096
OUTPUT_MAX = 16 << 20


def find_probe() -> Path:
    """The probe program; raises CannotError with the one line that says what to do."""
    configured = os.environ.get(PROBE_DIR)
    if configured:
        candidates = [Path(configured) / PROBE]
    else:
        checkout = Path(__file__).parents[2]
        candidates = [
            Path(str(resources.files("swtch") / "_bin" / PROBE)),
            checkout / "build" / "probes" / PROBE,
        ]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    if configured:
        raise CannotError(
            f"{PROBE_DIR} is {configured}, and there is no program {PROBE} in it;"
            " point it at the folder that holds the built probes, or unset it."
        )
    raise CannotError(
        f"the measuring program {PROBE} is missing; build it with 'make'"
        f" or set {PROBE_DIR} to the folder that holds it."
    )


class NativeEngine:
    """Runs trials as processes on this kernel."""

    name: EngineName = "native"

    def __init__(self, probe: Path | None = None) -> None:
        self.probe = probe or find_probe()
        self._allowed = frozenset(os.sched_getaffinity(0))
        self._running = 0
        self._stopped = False

    @property
    def peers(self) -> frozenset[Model]:
        """The peers that were built, each of which needs a compiler of its own."""
        there = (m for m, name in PEERS.items() if os.access(self.probe.with_name(name), os.X_OK))
        return frozenset(there)

    @property
    def workers(self) -> frozenset[Model]:
        """Everybody whose program of the trial `work` was built."""
        found = {**PEERS, **WORKERS}
        return frozenset(
            m for m, name in found.items() if os.access(self.probe.with_name(name), os.X_OK)
        )

    def describe(self) -> dict[str, Any]:
        """The program's digest tells a resumed run whether it is still the same one."""
        try:
            digest = hashlib.sha256(self.probe.read_bytes()).hexdigest()
        except OSError as error:
            raise CannotError(f"{self.probe} cannot be read: {os_error_text(error)}.") from None
        return {"engine": self.name, "probe": self.probe.name, "sha256": digest}

    def stop(self) -> None:
        """Ends the running probe and refuses to start another. Signal-handler safe."""
        self._stopped = True
        if self._running:
            _end_group(self._running)

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        """One process from start to end; see the module's head."""
        started = datetime.datetime.now(datetime.UTC)
        measured = tuple(trial.probe.get("cpus", ()))
        before = disturbance.counters(measured)
        begin = time.monotonic_ns()
        stdout = stderr = b""
        error = ""
        result = None
        try:
            stdout, stderr, returncode = self._run(trial, invocation)
            elapsed = time.monotonic_ns() - begin
            result = read_result(stdout, returncode, trial)
        except ProbeError as fault:
            elapsed = time.monotonic_ns() - begin
            error = str(fault)
            if isinstance(fault, _EndedProbeError):
                stdout, stderr = fault.stdout, fault.stderr
        after = disturbance.counters(measured)
        sample = Sample(
            seq=invocation.seq,
            experiment=trial.experiment,
            trial_id=trial.id,
            model=trial.model,
            engine=self.name,
            factors=trial.factors,
            block=invocation.block,
            seed=invocation.seed,
            started=started.isoformat(timespec="milliseconds"),
            elapsed_ns=elapsed,
            status="ok" if result else "failed",
            error=error,
            values=result.values if result else {},
            threads=result.threads if result else (),
            carriers=result.carriers if result else (),
            detail=result.detail if result else {},
            steal_ns=disturbance.delta(before, after, "steal_ns"),
            interrupts=disturbance.delta(before, after, "interrupts"),
            busy_ns=disturbance.delta(before, after, "busy_ns"),
            own_ns=disturbance.delta(before, after, "own_ns"),
            throttled_ns=disturbance.delta(before, after, "throttled_ns"),
            boot=disturbance.boot(),
            begun_ns=begin,
        )
        return Outcome(sample=sample, stdout=stdout, stderr=stderr)

    def _run(self, trial: Trial, invocation: Invocation) -> tuple[bytes, bytes, int]:
        request = dict(trial.probe)
        if "seed" in request:
            request["seed"] = invocation.seed
        files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        try:
            os.write(files[0], msgspec.json.encode(request))
            os.lseek(files[0], 0, os.SEEK_SET)
            served = trial.probe.get("probe") in SERVED
            programs = {**PEERS, **WORKERS} if trial.probe.get("probe") == "work" else PEERS
            peer = None if served else programs.get(trial.model)
            probe = str(self.probe.with_name(peer) if peer else self.probe)
            program = own.program(trial.experiment) or (probe,)
            process = self._start(program, files, invocation.seed)
            try:
                self._bound(process.pid, trial.timeout_s)
                self._stay_away(trial.probe.get("cpus", ()))
                timely = _wait(process.pid, trial.timeout_s)
            finally:
                # The leader is not reaped yet: its group is certainly ours.
                _end_group(process.pid)
                self._running = 0
                returncode = process.wait()
                self._move(self._allowed)
            stdout, stderr = _content(files[1]), _content(files[2])
        finally:
            for file in files:
                os.close(file)
        if not timely:
            raise _EndedProbeError(f"probe ran longer than {trial.timeout_s:g} s", stdout, stderr)
        if OUTPUT_MAX in (len(stdout), len(stderr)):
            line = f"probe printed more than {OUTPUT_MAX >> 20} MiB"
            raise _EndedProbeError(line, stdout, stderr)
        return stdout, stderr, returncode

    def _start(
        self, program: Sequence[str], files: list[int], seed: int
    ) -> subprocess.Popen[bytes]:
        environment = dict(os.environ)
        environment[PAD] = "x" * random.Random(seed).randrange(PAD_MAX)
        if self._is_stopped():
            raise ProbeError("interrupted")
        try:
            process = subprocess.Popen(
                program,
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise ProbeError(f"probe could not be started: {os_error_text(error)}") from None
        self._running = process.pid
        if self._is_stopped():
            # The signal came while the process was being made: the handler could not know it.
            _end_group(process.pid)
        return process

    def _bound(self, pid: int, timeout_s: float) -> None:
        # The kernel's bounds hold also when this process is killed and cannot
        # end the probe: it fills no memory with output and spins no CPU for ever.
        cpu_s = int(timeout_s * len(self._allowed)) + 2
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (OUTPUT_MAX, OUTPUT_MAX))
            resource.prlimit(pid, resource.RLIMIT_CPU, (cpu_s, cpu_s))

    def _is_stopped(self) -> bool:
        # A call, because a signal handler changes it between any two lines.
        return self._stopped

    def _stay_away(self, measured: Iterable[int]) -> None:
        spare = self._allowed - set(measured)
        if spare:
            self._move(spare)

    def _move(self, cpus: Iterable[int]) -> None:
        # None of them may be there any more: taken offline, or by the cpuset. We are where we
        # may be then, and the probe says of its own CPUs what it cannot do.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cpus)


class _EndedProbeError(ProbeError):
    def __init__(self, line: str, stdout: bytes, stderr: bytes) -> None:
        super().__init__(line)
        self.stdout = stdout
        self.stderr = stderr


def _wait(pid: int, timeout_s: float) -> bool:
    """Sleeps until child `pid` has ended (True) or time is up (False); does not reap it."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # a kernel before 5.3, or a sandbox
        return _wait_by_looking(pid, timeout_s)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(pidfd)


def _wait_by_looking(pid: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while True:
        # Before the look: a lab that was stopped in between looks once more.
        late = time.monotonic() > deadline
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            return True
        if late:
            return False
        time.sleep(0.02)


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _content(file: int) -> bytes:
    return os.pread(file, OUTPUT_MAX, 0)


def opened(options: Options, _: Sequence[Subject]) -> Engine:
    """The engine as `options` ask for it."""
    if not options.native_kthread:
        return NativeEngine()
    from swtch.engines.native_kthread import NativeKthreadEngine

    return NativeKthreadEngine(asked=True)
