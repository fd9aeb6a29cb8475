# SPDX-License-Identifier: Apache-2.0
"""The native engine with kthreads: the module in this very kernel, for who asks and is root.

Loading a module is the one thing of the lab that can harm a machine, so it
takes a flag *and* root, and everything is checked before anything is loaded:
headers of the running kernel, a kernel that loads modules, a module that
builds. All other models go to the native engine unchanged.

Invariants:

- The module is loaded at the first kthread trial and unloaded by ``close``,
  also after a trial that failed or was interrupted.
- A module that was already there is not ours: it is refused, not reused.
- A trial that runs longer than allowed is stopped through ``control``.
- Nobody looks while the module measures: one write starts the run and sleeps until it has
  ended, on a thread of its own, because ``stop`` and the limit of time have to be heard.
- What the kernel keeps back from real-time threads is lifted for a trial with such
  (``engines.realtime``), and given back whatever becomes of it.

Rejected: modprobe (would need installing the module), sudo inside (the user
decides about root, before).
"""

from __future__ import annotations

import datetime
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from swtch.engines import Outcome, disturbance, realtime
from swtch.engines.control import control_text
from swtch.engines.native import NativeEngine
from swtch.engines.protocol import ProbeError, Result, read_result
from swtch.engines.vm import sample_of
from swtch.errors import CannotError, os_error_text
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Model, Trial

MODULE = "kthread_perf"
FLAG = "--native-kthread"
_COMMAND_S = 300
_STOP_AGAIN_S = 0.2

# Runs a command; raises CannotError when it fails.
Run = Callable[[Sequence[str]], None]
# Writes a text to a file, whole or not at all.
Write = Callable[[Path, bytes], None]


def check(
    *, asked: bool, root: Path = Path("/"), release: str = "", uid: int | None = None
) -> Path:
    """The headers' folder, or the one line that says why it cannot be done here."""
    release = release or os.uname().release
    if not asked:
        raise CannotError(
            f"kthreads on this kernel need its own module loaded; ask for it with {FLAG},"
            " or use --engine vm, which loads nothing here."
        )
    if (os.geteuid() if uid is None else uid) != 0:
        raise CannotError(f"{FLAG} loads a kernel module, which only root may; see --engine vm.")
    modules = root / "proc/modules"
    if not modules.exists():
        raise CannotError("this kernel loads no modules; use --engine vm.")
    if any(line.split()[:1] == [MODULE] for line in modules.read_text().splitlines()):
        raise CannotError(f"{MODULE} is loaded already, not by this run; unload it: rmmod {MODULE}")
    if _is_set(root / "proc/sys/kernel/modules_disabled"):
        raise CannotError("loading modules is disabled on this kernel; use --engine vm.")
    headers = root / "lib/modules" / release / "build"
    if not (headers / "Makefile").is_file():
        raise CannotError(
            f"building {MODULE} needs the headers of this kernel in {headers};"
            f" install linux-headers-{release}, or use --engine vm."
        )
    for program in ("insmod", "rmmod", "make"):
        if shutil.which(program) is None:
            raise CannotError(f"{FLAG} needs the program {program}; install it.")
    return headers


def run(command: Sequence[str]) -> None:
    """Runs a command to its end."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotError(f"{command[0]} failed: {error}.") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else f"status {done.returncode}"
        raise CannotError(f"{Path(command[0]).name} failed: {reason}")


def build(headers: Path, runner: Run) -> Path:
    """The module for the running kernel, from the source tree."""
    from swtch.vm import cache
    from swtch.vm.build import source_tree
    from swtch.vm.guests import host_arch

    tree = source_tree()
    script = tree / "tools/kmod.sh"
    if not script.is_file():
        raise CannotError(f"the source tree has no {script.name}, which builds {MODULE}.")

    def make(draft: Path, _final: Path) -> None:
        out = draft / "out"
        command = [str(script), "--headers", str(headers.resolve()), "--arch", host_arch()]
        runner([*command, "--out", str(out)])
        modules = sorted(out.rglob(f"{MODULE}.ko"))
        if not modules:
            raise CannotError(f"{script.name} made no {MODULE}.ko.")
        modules[0].rename(draft / f"{MODULE}.ko")
        shutil.rmtree(out)

    release = os.uname().release
    sources = [tree / name for name in (MODULE, "workloads")]
    key = cache.key_of(["native", release, str(headers.resolve()), script, *sources])
    return cache.entry("module", key, make) / f"{MODULE}.ko"


def write(file: Path, text: bytes) -> None:
    """One write: to the module, a transaction."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


class NativeKthreadEngine:
    """NativeEngine, and kthreads by a module that this engine loads and unloads."""

    name: EngineName = "native"
    has_kthread = True

    def __init__(
        self,
        *,
        asked: bool,
        native: NativeEngine | None = None,
        runner: Run = run,
        writer: Write = write,
        root: Path = Path("/"),
        uid: int | None = None,
        release: str = "",
    ) -> None:
        headers = check(asked=asked, root=root, uid=uid, release=release)
        self._native = native or NativeEngine()
        self._runner = runner
        self._writer = writer
        self._root = root
        self._folder = root / "proc" / MODULE
        self._module = build(headers, runner)
        self._loaded = False
        self._stopped = False
        # Counted up when a run has ended, or shall.
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def peers(self) -> frozenset[Model]:
        return self._native.peers

    def describe(self) -> dict[str, Any]:
        """As the native engine, and the module's digest."""
        from swtch.vm import cache

        return {
            **self._native.describe(),
            "native_kthread": True,
            "module_sha256": cache.sha256(self._module),
        }

    def stop(self) -> None:
        """Ends what runs. Signal-handler safe: who waits is woken, and sees the flag."""
        self._stopped = True
        os.eventfd_write(self._wake, 1)
        self._native.stop()

    def close(self) -> None:
        """Unloads the module, if it was loaded."""
        if self._loaded:
            self._loaded = False
            self._runner(["rmmod", MODULE])

    def __enter__(self) -> NativeKthreadEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        """A kthread trial by the module, any other by the native engine."""
        if trial.model != "kthread":
            return self._native.perform(trial, invocation)
        started = datetime.datetime.now(datetime.UTC)
        measured = tuple(trial.probe.get("cpus", ()))
        before = disturbance.counters(measured)
        begin = time.monotonic_ns()
        stdout, error = b"", ""
        result: Result | None = None
        try:
            stdout = self._measure(trial, invocation)
            result = read_result(stdout, 0, trial)
        except (ProbeError, CannotError) as fault:
            error = str(fault)
        after = disturbance.counters(measured)
        sample = sample_of(
            trial,
            invocation,
            started=started,
            begun_ns=begin,
            elapsed_ns=time.monotonic_ns() - begin,
            result=result,
            error=error,
            steal_ns=disturbance.delta(before, after, "steal_ns"),
            interrupts=disturbance.delta(before, after, "interrupts"),
        )
        return Outcome(sample=sample, stdout=stdout, stderr=b"")

    def _measure(self, trial: Trial, invocation: Invocation) -> bytes:
        if not self._loaded:
            self._runner(["insmod", str(self._module)])
            self._loaded = True
        probe = dict(trial.probe)
        if "seed" in probe:
            probe["seed"] = invocation.seed
        cpus = tuple(map(int, probe.get("cpus", ())))
        control = self._folder / "control"
        real_time = realtime.wanted(probe)
        with (
            _address_spaces(bool(probe.get("mm"))) as pids,
            realtime.lifted(self._root, cpus, control) if real_time else nullcontext(),
        ):
            if pids:
                probe["mm_pids"] = pids
            self._run(control_text(probe), trial.timeout_s)
        try:
            return (self._folder / "samples").read_bytes()
        except OSError as error:
            raise ProbeError(f"{MODULE} gave no samples: {os_error_text(error)}") from None

    def _run(self, text: str, limit_s: float) -> None:
        """Starts a run and waits for its end, or ends it."""
        faults: list[ProbeError | None] = []

        def wait() -> None:
            # A signal would interrupt the write, and Python would start a second run.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._control(text)
                faults.append(None)
            except ProbeError as fault:
                faults.append(fault)
            os.eventfd_write(self._wake, 1)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        deadline = time.monotonic() + limit_s
        while not faults and not self._stopped and time.monotonic() < deadline:
            left = max(0.0, deadline - time.monotonic())
            if select.select([self._wake], [], [], left)[0]:
                os.eventfd_read(self._wake)
        ended = bool(faults)
        # One that comes before the run has begun ends nothing, and nobody tells which was first.
        while not ended and waiting.is_alive():
            self._control("stop\n")
            waiting.join(_STOP_AGAIN_S)
        waiting.join()
        if faults[0] is not None:
            raise faults[0]
        if not ended:
            why = "interrupted" if self._stopped else f"ran longer than {limit_s:g} s"
            raise ProbeError(f"{MODULE} {why}")

    def _control(self, text: str) -> None:
        try:
            self._writer(self._folder / "control", text.encode())
        except FileNotFoundError as error:
            raise ProbeError(f"{MODULE} cannot be reached: {os_error_text(error)}") from None
        except OSError as error:
            raise ProbeError(f"{MODULE} refused the trial: {os_error_text(error)}") from None


@contextmanager
def _address_spaces(wanted: bool) -> Iterator[list[int]]:
    """Two processes whose address spaces a run takes hold of when it starts."""
    lenders = [subprocess.Popen(["sleep", "infinity"]) for _ in range(2 if wanted else 0)]
    try:
        yield [lender.pid for lender in lenders]
    finally:
        for lender in lenders:
            lender.kill()
            lender.wait()


def _is_set(file: Path) -> bool:
    try:
        return file.read_text().strip() == "1"
    except OSError:
        return False
