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

Rejected: modprobe (would need installing the module), sudo inside (the user
decides about root, before).
"""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swtch.engines import Outcome, disturbance
from swtch.engines.control import control_text
from swtch.engines.native import NativeEngine
from swtch.engines.protocol import ProbeError, Result, read_result
from swtch.engines.vm import sample_of
from swtch.errors import CannotError, os_error_text
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Model, Trial

MODULE = "kthread_perf"
FLAG = "--native-kthread"
_LOOK_S = 0.05
_COMMAND_S = 300

# Runs a command; raises CannotError when it fails.
Run = Callable[[Sequence[str]], None]


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
        root: Path = Path("/"),
        uid: int | None = None,
        release: str = "",
    ) -> None:
        headers = check(asked=asked, root=root, uid=uid, release=release)
        self._native = native or NativeEngine()
        self._runner = runner
        self._folder = root / "proc" / MODULE
        self._module = build(headers, runner)
        self._loaded = False
        self._stopped = False

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
        """Ends what runs. Signal-handler safe: the loop that waits sees the flag."""
        self._stopped = True
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
        with _address_spaces(bool(probe.get("mm"))) as pids:
            if pids:
                probe["mm_pids"] = pids
            self._control(control_text(probe))
        deadline = time.monotonic() + trial.timeout_s
        while True:
            try:
                text = (self._folder / "samples").read_bytes()
            except OSError as error:
                raise ProbeError(f"{MODULE} gave no samples: {os_error_text(error)}") from None
            if b'"kind":"end"' in text or b'"kind":"error"' in text:
                return text
            if self._stopped or time.monotonic() > deadline:
                self._control("stop\n")
                why = "interrupted" if self._stopped else f"ran longer than {trial.timeout_s:g} s"
                raise ProbeError(f"{MODULE} {why}")
            time.sleep(_LOOK_S)

    def _control(self, text: str) -> None:
        try:
            file = os.open(self._folder / "control", os.O_WRONLY)
        except OSError as error:
            raise ProbeError(f"{MODULE} cannot be reached: {os_error_text(error)}") from None
        try:
            os.write(file, text.encode())
        except OSError as error:
            raise ProbeError(f"{MODULE} refused the trial: {os_error_text(error)}") from None
        finally:
            os.close(file)


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
