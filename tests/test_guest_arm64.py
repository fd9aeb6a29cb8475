# SPDX-License-Identifier: Apache-2.0
"""libuthread on arm64 under a real kernel: its C tests and storms in the arm64 guest.

`tools/test.sh arm64` runs all of them under qemu-user, which has no kernel of
that architecture below it: signal frames, futexes, forks of a process with
threads and page faults are the host's or imitated. Here they are Linux's own,
with four CPUs, so the programs are built as for a real machine (no exe_wrapper:
libuthread/tests/meson.build), with all counts and nothing left out.

The short form, which `make test` runs, is the switch and the registers.
SWTCH_KERNEL_TESTS=full or matrix (`make test-kernel`) is everything here.

Ticks come as often as the programs ask. An emulated CPU spends most of its time
in them then, so storms that need much work between two ticks have slower ones,
and all are short: a storm goes on by itself until enough was preempted, and one
with too little says so with a status that is not 0.

Not here: soak_stdio, which ended after 5 s, after 38 s, or not within a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swtch.errors import CannotError
from swtch.vm import guests, prepare, programs, qemu
from swtch.vm.session import Session, boot

pytestmark = [
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.skipif(guests.host_arch() == "arm64", reason="the native tests cover it"),
]

EVERY = os.environ.get("SWTCH_KERNEL_TESTS") in ("full", "matrix")
TREE = Path(__file__).parents[1]
TESTS = "libuthread/tests"
SOAK = f"{TESTS}/soak"
PLACE = "/swtch/uthread"
GUEST = guests.GUESTS["6.1-arm64"]
# Long enough that nothing depends on how fast the emulation is.
LIMIT_S = 900
PATIENCE_S = 600
ALWAYS = f"SOAK_SECONDS=2 SOAK_PATIENCE={PATIENCE_S}"

# Program: settings.
TEST_PROGRAMS = {
    "test_switch": "",
    "test_stack": "",
    "test_tls": "",
    "test_libc": "",
    "test_preempt": "",
    "test_vectors": "",
}
STORMS = {
    # It gives up after ten times this: 20 s were too few where much else ran.
    "soak_registers": "SOAK_SECONDS=12",
    "soak_malloc": "UTHREAD_TICK=1ms",
    "soak_exceptions": "UTHREAD_TICK=1ms",
    "soak_thread_local": "",
    "soak_process": "",
    # Uthreads of this one run alone most of the time: few ticks find another to run.
    "soak_dlopen": "SOAK_SECONDS=12 UTHREAD_TICK=1ms",
}
# Debian's kernel has no SME.
ARGUMENTS = {"test_vectors": "sve"}
MODULES = tuple(f"soak_module{number}.so" for number in range(5))
SETTINGS = TEST_PROGRAMS | STORMS
SHORT = ("test_switch", "test_tls", "test_vectors", "soak_registers")
CPUS = (4,)
PROGRAMS = tuple(SETTINGS) if EVERY else SHORT

# What the programs look for beside libraries; a test without it is skipped by itself.
LOCALE = Path("/usr/lib/locale/C.utf8")


def built(folder: Path) -> dict[str, Path]:
    """The programs and the storms' libraries, by their names."""
    cross = folder / "guest.cross"
    lines = (TREE / "tools/aarch64.cross").read_text().splitlines()
    cross.write_text("\n".join(line for line in lines if "exe_wrapper" not in line) + "\n")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    meson = shutil.which("meson", path=path)
    if meson is None:
        raise CannotError("building libuthread's tests needs meson; install it.")
    build = folder / "build"
    wanted = [f"{SOAK if name in STORMS else TESTS}/{name}" for name in PROGRAMS]
    if "soak_dlopen" in PROGRAMS:
        wanted += [f"{SOAK}/{name}" for name in MODULES]
    setup = ["setup", str(build), str(TREE), f"--cross-file={cross}", "-Dprobes=false"]
    for command in (
        [meson, *setup, "-Dman=disabled", f"-Dc_args=-DTEST_TIMEOUT_S={PATIENCE_S}"],
        [meson, "compile", "-C", str(build), "-j2", *(name.removesuffix(".so") for name in wanted)],
    ):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path},
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return {Path(name).name: build / name for name in wanted}


class Bench:
    """The guest, with so many CPUs, up as long as no program kills it."""

    def __init__(self, cpus: int, contents: dict[str, Path], folder: Path) -> None:
        prepared = prepare.prepare(GUEST, extra=contents)
        self._machine = qemu.Machine(
            arch=GUEST.arch,
            image=Path(prepared.kernel.image),
            initramfs=prepared.initramfs,
            cpus=cpus,
        )
        self._console = folder / f"console-{cpus}"
        self._session: Session | None = None

    def run(self, program: str, settings: str) -> tuple[int, str, list[str]]:
        """Status, output and the kernel's complaints meanwhile."""
        session = self._session or boot(self._machine, self._console)
        self._session = None
        known = len(session.complaints)
        words = f"export {ALWAYS} {settings}; exec {PLACE}/{program} {ARGUMENTS.get(program, '')}"
        try:
            ran = session.run(["/bin/sh", "-c", words], timeout_s=LIMIT_S)
        except BaseException:
            session.kill()
            raise
        self._session = session
        output = (ran.stdout + ran.stderr).decode(errors="replace")
        assert not ran.timed_out, f"{program} ran longer than {LIMIT_S} s: {output[-2000:]}"
        return ran.returncode, output, session.complaints[known:]

    def close(self) -> bool:
        """True when the guest went down by itself, as it should."""
        if self._session is None:
            return False
        try:
            return self._session.power_off()
        finally:
            self._session.kill()


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The guest's files beside what every guest has."""
    folder = tmp_path_factory.mktemp("uthread-arm64")
    try:
        programs.ensure([GUEST.arch])
        files = {f"{PLACE}/{name}": file for name, file in built(folder).items()}
    except CannotError as error:
        if EVERY:
            raise
        pytest.skip(str(error))
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    files["/etc/hosts"] = hosts
    # A locale's files are the same for every little-endian machine of 64 bits.
    files |= {str(file): file for file in LOCALE.rglob("*") if file.is_file()}
    return files


@pytest.fixture(scope="module", params=CPUS, ids=[f"{GUEST.name}-{cpus}cpu" for cpus in CPUS])
def bench(
    request: pytest.FixtureRequest,
    contents: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bench]:
    try:
        made = Bench(request.param, contents, tmp_path_factory.mktemp("guest"))
    except CannotError as error:
        if EVERY:
            raise
        pytest.skip(str(error))
    yield made
    assert made.close(), "the guest did not power off"


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(bench: Bench, program: str) -> None:
    status, output, complaints = bench.run(program, SETTINGS[program])
    assert status == 0, output[-4000:]
    if program in STORMS:
        assert f"soak {program.removeprefix('soak_')}: " in output.splitlines()[-1]
    else:
        assert ", 0 failed, 0 skipped" in output.splitlines()[-1], output[-4000:]
    assert not complaints


def test_every_library_of_the_storm_is_there() -> None:
    """Else it would be noticed only by who runs the long form."""
    storm = (TREE / SOAK / "storm_dlopen.c").read_text()
    assert f"#define MODULES {len(MODULES)}\n" in storm
