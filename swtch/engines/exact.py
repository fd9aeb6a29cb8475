# SPDX-License-Identifier: Apache-2.0
"""The exact engine: an emulated CPU whose clock counts its own instructions.

One trial is one boot of one virtual CPU on which a nanosecond *is* an
instruction. Nothing from outside reaches the guest: the trial is a file in its
archive, the results go to a file here, and clock, seed and random numbers are
fixed. Two performances of one invocation therefore agree to the byte.

Invariants:

- Its figures are instructions and are named so: ``wall_ns`` of the probe
  becomes ``wall_instructions``, and so on for every value in ``_ns``. In
  ``threads`` and ``carriers`` the field names are those of the schema, and
  their unit is the instruction. Time that the CPU idles (a sleeping thread)
  counts as if it had worked.
- No pipeline, no cache, no memory latency: an instruction is an instruction. A trial
  that asks for a model of caches (``engines.caches``) is counted by one, and takes no
  longer for a miss.
- The seed of the invocation moves the stack (SWTCH_PAD) as everywhere, so
  repeats of a trial still differ; the same seed gives the same bytes.

Rejected: sending the trial over the serial line (its bytes arrive when the
host likes), several trials per boot (the second would depend on the first).
"""

from __future__ import annotations

import base64
import datetime
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from swtch.engines import Outcome, caches
from swtch.engines.pages import layout
from swtch.engines.protocol import ProbeError, Result
from swtch.engines.vm import (
    GUEST,
    Subject,
    digest,
    facts_of,
    read_ran,
    request_of,
    sample_of,
    spread,
)
from swtch.errors import CannotError
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Trial
from swtch.vm import cache, qemu
from swtch.vm.prepare import with_request
from swtch.vm.serial import Decoder
from swtch.vm.session import FATAL, Ran, ran_of, remedy, run_request

if TYPE_CHECKING:
    from swtch.engines.choice import Options

BOOT_S = 180.0
COUNTS = "counts"  # what the model of caches writes
_TAIL_LINES = 12

Start = Callable[[list[str], list[int]], "subprocess.Popen[bytes]"]


def in_instructions(result: Result) -> Result:
    """`result` with its values named for what they are."""
    values = {
        f"{key.removesuffix('_ns')}_instructions" if key.endswith("_ns") else key: value
        for key, value in result.values.items()
    }
    return msgspec.structs.replace(result, values=values)


class ExactEngine:
    """Runs each trial in a boot of its own, bit-exact."""

    name: EngineName = "exact"
    cpus = 1
    emulated = True

    def __init__(
        self,
        subjects: Sequence[Subject],
        *,
        memory_mib: int = qemu.MEMORY_MIB,
        start: Start = qemu.start,
    ) -> None:
        self._subjects = {subject.name: subject for subject in subjects}
        self._memory_mib = memory_mib
        self._start = start
        self._logs: Path | None = None
        self._running = 0
        self._stopped = False

    @property
    def has_kthread(self) -> bool:
        """Some guest has the kernel module."""
        return any(subject.prepared.has_module for subject in self._subjects.values())

    def describe(self) -> dict[str, Any]:
        """The digest tells a resumed run whether guests, programs and cache model are the same."""
        subjects = list(self._subjects.values())
        return {
            "engine": self.name,
            "unit": "instructions",
            "memory_mib": self._memory_mib,
            "guests": [
                {**facts_of(s), "qemu": qemu.version(s.prepared.guest.arch)} for s in subjects
            ],
            "sha256": cache.key_of([digest(subjects), caches.digest()]),
        }

    def spread(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """The trials of a plan, each for every guest."""
        return spread(trials, list(self._subjects.values()), self.cpus, self.name)

    def keep_logs(self, folder: Path) -> None:
        """From now on consoles are logged into `folder`."""
        self._logs = folder

    def stop(self) -> None:
        """Ends the boot that is at work. Signal-handler safe."""
        self._stopped = True
        if self._running:
            os.kill(self._running, 9)

    def close(self) -> None:
        """Nothing outlives a trial."""

    def __enter__(self) -> ExactEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        """One boot from start to power-off."""
        started = datetime.datetime.now(datetime.UTC)
        begin = time.monotonic_ns()
        stdout = stderr = b""
        result, error = None, ""
        with tempfile.TemporaryDirectory(prefix="swtch-exact-") as name:
            folder = Path(name)
            try:
                ran = self._run(trial, invocation, folder)
                stdout, stderr = ran.stdout, ran.stderr
                result = in_instructions(read_ran(ran, trial))
                result = self._with_caches(result, trial, folder)
            except (ProbeError, CannotError) as fault:
                error = str(fault)
                if not stdout and not stderr:
                    stderr = f"{error}\nlast lines of the console:\n{_tail(folder)}\n".encode()
            self._keep(trial, folder)
        sample = sample_of(
            trial,
            invocation,
            started=started,
            begun_ns=begin,
            elapsed_ns=time.monotonic_ns() - begin,
            result=result,
            error=error,
        )
        return Outcome(sample=sample, stdout=stdout, stderr=stderr)

    def _run(self, trial: Trial, invocation: Invocation, folder: Path) -> Ran:
        subject = self._subjects[str(trial.factors[GUEST])]
        argv, stdin, pad = request_of(trial, invocation)
        request = run_request(1, argv, stdin, trial.timeout_s, pad)
        machine = qemu.Machine(
            arch=subject.prepared.guest.arch,
            image=Path(subject.prepared.kernel.image),
            initramfs=with_request(subject.prepared, msgspec.json.encode(request), folder),
            memory_mib=self._memory_mib,
            exact=True,
            words=("swtch.once", *subject.words),
        )
        console, line = folder / "console", folder / "line"
        arguments = qemu.command(machine, console=f"file,path={console}", line=f"file,path={line}")
        if (wanted := trial.probe.get(caches.CACHES)) is not None:
            given = _geometry(str(wanted), subject).arguments(folder / COUNTS)
            arguments += ["-plugin", f"{_escaped(caches.plugin())},{given}"]
        complaint = self._boot(arguments, BOOT_S + trial.timeout_s)
        return _read(console if machine.one_wire else line, console, complaint)

    def _boot(self, arguments: list[str], limit_s: float) -> str:
        """Runs QEMU to its end; what it said on standard error."""
        if self._is_stopped():
            raise ProbeError("interrupted")
        process = self._start(arguments, [])
        self._running = process.pid
        if self._is_stopped():
            process.kill()
        assert process.stderr is not None
        try:
            # QEMU's end closes its standard error: one sleep, no looking.
            complaint = _read_until_end(process.stderr.fileno(), time.monotonic() + limit_s)
        finally:
            process.kill()
            self._running = 0
            process.wait()
            process.stderr.close()
        if self._is_stopped():
            raise ProbeError("interrupted")
        if complaint is None:
            raise ProbeError(f"guest did not end within {limit_s:g} s")
        return complaint

    def _with_caches(self, result: Result, trial: Trial, folder: Path) -> Result:
        wanted = trial.probe.get(caches.CACHES)
        if wanted is None:
            return result
        text = (folder / COUNTS).read_text() if (folder / COUNTS).exists() else ""
        subject = self._subjects[str(trial.factors[GUEST])]
        return caches.counted(result, trial.probe, text, _geometry(str(wanted), subject))

    def _keep(self, trial: Trial, folder: Path) -> None:
        if self._logs is None:
            return
        name = f"{trial.id.replace('/', '_')}.console"
        if (folder / "console").exists():
            (self._logs / name).write_bytes((folder / "console").read_bytes())

    def _is_stopped(self) -> bool:
        return self._stopped


def _escaped(path: Path) -> str:
    # A comma ends an argument of QEMU's, two are one.
    return str(path).replace(",", ",,")


def _geometry(name: str, subject: Subject) -> caches.Geometry:
    kernel = subject.prepared.kernel
    arch = subject.prepared.guest.arch.name
    return caches.geometry(name).of_guest(layout(arch, kernel.release, Path(kernel.image)))


def _read_until_end(file: int, deadline: float) -> str | None:
    data = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([file], [], [], left)[0]:
            return None
        piece = os.read(file, 4096)
        if not piece:
            return " ".join(data.decode(errors="replace").split())
        data = (data + piece)[-65536:]


def _read(line: Path, console: Path, complaint: str) -> Ran:
    """The result in what came over the wire."""
    decoder = Decoder()
    data = line.read_bytes() if line.exists() else b""
    frames = decoder.feed(data) + decoder.flush()
    parts: dict[tuple[str, int], bytes] = {}
    done: dict[str, Any] = {}
    for frame in frames:
        body = frame.body
        if body.get("op") == "chunk":
            piece = base64.b64decode(str(body.get("data", "")))
            parts[str(body.get("of")), int(body.get("part", -1))] = piece
        elif body.get("op") == "done":
            done = body
    ran = ran_of(done, parts) if done else None
    if ran is not None:
        return ran
    text = console.read_bytes() if console.exists() else b""
    advice = ""
    for text_line in text.splitlines():
        advice = advice or remedy(text_line)
        if FATAL.search(text_line):
            told = f"guest kernel: {text_line.decode(errors='replace').strip()}"
            raise ProbeError(f"{told}; {advice}" if advice else told)
    if decoder.damaged:
        raise ProbeError("the guest's console spoiled its answer; see its log")
    raise ProbeError(f"guest ended without an answer{f': {complaint}' if complaint else ''}")


def _tail(folder: Path) -> str:
    console = folder / "console"
    if not console.exists():
        return ""
    lines = console.read_text(errors="replace").replace("\r", "").splitlines()
    return "\n".join([line for line in lines if line.strip()][-_TAIL_LINES:])


def opened(options: Options, subjects: Sequence[Subject]) -> ExactEngine:
    """The engine as `options` ask for it."""
    return ExactEngine(subjects, memory_mib=options.memory_mib or qemu.MEMORY_MIB)
