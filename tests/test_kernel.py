# SPDX-License-Identifier: Apache-2.0
"""The kernel module in guests: kthread_perf/tests/*.sh, each judged line by line.

The short form, which `make test` runs, is one guest per architecture and small
counts. SWTCH_KERNEL_TESTS=full (`make test-kernel`) is every guest with the
scripts' own counts, among them a hundred loads and a hundred thousand writes of
the fuzzer, with four CPUs and with one. SWTCH_KERNEL_TESTS=matrix is every guest with
the small counts. Both also take the kernels of ``standing.py``: PREEMPT_RT, the newest that
Debian packages, and those with the kernel's own checkers; one that is not there is skipped,
and pytest says why.

The guests' kernels watch every object of their heap (slub_debug, page_poison).
A script looks at the kernel's log when it is done; the session looks at the
console all the time.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import standing

from swtch.errors import CannotError
from swtch.vm import build, guests, prepare, programs, qemu
from swtch.vm.guests import Arch
from swtch.vm.session import Session, boot

pytestmark = [pytest.mark.vm, pytest.mark.slow]

FULL = os.environ.get("SWTCH_KERNEL_TESTS") == "full"
EVERY = FULL or os.environ.get("SWTCH_KERNEL_TESTS") == "matrix"
SOURCE = Path(__file__).parents[1] / "kthread_perf/tests"
# With PREEMPT_RT no CPU goes away under threads that come before RCU's (lifecycle.sh says why).
BEFORE_RUNS = ("rcutree.kthread_prio=60",)
WATCHED = ("slub_debug=FZPU", "page_poison=1", "kunit.enable=1")
RESULT = re.compile(r"(ok|not ok) (\d+) (\S+)")
TOTALS = re.compile(r"# Totals: pass:(\d+) fail:(\d+) xfail:0 xpass:0 skip:0 error:0")

# Script: how many results it has at least, its counts in the short form.
SCRIPTS = {
    "scenarios": (40, ""),
    "control": (200, ""),
    "overhead": (70, ""),
    "realtime": (10, ""),
    "access": (16, ""),
    "trace": (14, ""),
    "debugfs": (8, ""),
    "kunit": (2, ""),
    "lifecycle": (30, "ROUNDS=5 CROWD=2"),
    "memory": (11, "ROUNDS=4"),
    "fuzz": (7, "WRITES=2000"),
}
# What they need: root with few capabilities, and random bytes.
PROGRAMS = ("caps", "fuzz")
# Where nothing depends on the architecture, the short form runs on one.
ONCE = ("control", "memory", "trace", "debugfs", "kunit")
# Results that a kernel with KUnit has of that script.
KUNIT_LEAST = 12

if EVERY:
    CASES = [(guest, cpus) for guest in guests.GUESTS for cpus in (4, 1)]
    CASES += [(kernel, 4) for kernel in standing.KERNELS]
else:
    CASES = [("6.1-amd64", 4), ("6.1-arm64", 4)]


class Bench:
    """One guest with the tests in it; booted anew when a script has killed it."""

    def __init__(self, name: str, cpus: int, folder: Path) -> None:
        beside = standing.KERNELS.get(name)
        own = standing.own(beside) if beside else None
        guest = beside.guest if beside else guests.GUESTS[name]
        extra = {f"/swtch/tests/{script.name}": script for script in SOURCE.glob("*.sh")}
        for program in PROGRAMS:
            extra[f"/swtch/{program}"] = compiled(guest.arch, folder, program)
        headers = prepare.prepare(guest, own=own).kernel.headers
        extra["/swtch/debugfs.ko"] = module_with("DEBUGFS", guest.arch, headers, folder)
        self.has_kunit = "CONFIG_KUNIT=y\n" in Path(headers, "include/config/auto.conf").read_text()
        if self.has_kunit:
            extra["/swtch/kunit.ko"] = module_with("KUNIT", guest.arch, headers, folder)
        prepared = prepare.prepare(guest, own=own, extra=extra)
        assert prepared.has_module
        self._machine = qemu.Machine(
            arch=guest.arch,
            image=Path(prepared.kernel.image),
            initramfs=prepared.initramfs,
            cpus=cpus,
            words=WATCHED + (BEFORE_RUNS if beside and beside.flavour == "rt-" else ()),
        )
        self.console = folder / "console"
        self._session: Session | None = None

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The guest, which is up."""
        session = self._session or boot(self._machine, self.console)
        self._session = None
        try:
            yield session
        except BaseException:
            session.kill()
            raise
        self._session = session

    def run(self, script: str, words: str, timeout_s: float) -> tuple[int, str, list[str]]:
        """Status, output and the kernel's complaints meanwhile."""
        with self.session() as session:
            known = len(session.complaints)
            ran = session.run(
                ["/bin/sh", "-c", f"{words} exec sh /swtch/tests/{script}.sh"], timeout_s=timeout_s
            )
        output = (ran.stdout + ran.stderr).decode(errors="replace")
        # What it had said by then tells whether it was slow or hung.
        assert not ran.timed_out, f"{script} ran longer than {timeout_s:g} s:\n{output}"
        return ran.returncode, output, session.complaints[known:]

    def close(self) -> bool:
        """True when the guest went down by itself, as it should."""
        if self._session is None:
            return False
        try:
            return self._session.power_off()
        finally:
            self._session.kill()


def module_with(option: str, arch: Arch, headers: str, folder: Path) -> Path:
    """The module, built with that option."""
    out = folder / option.lower()
    command = [str(SOURCE.parents[1] / "tools/kmod.sh"), "--headers", headers]
    command += ["--arch", arch.name, "--out", str(out)]
    subprocess.run(command, check=True, env={**os.environ, option: "1"}, capture_output=True)
    return out / "kthread_perf.ko"


def compiled(arch: Arch, folder: Path, name: str) -> Path:
    program = folder / name
    command = [build.compiler(arch), "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
    subprocess.run([*command, "-o", str(program), str(SOURCE / f"{name}.c")], check=True)
    return program


@pytest.fixture(scope="module", params=CASES, ids=[f"{guest}-{cpus}cpu" for guest, cpus in CASES])
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    name, cpus = request.param
    try:
        beside = standing.KERNELS.get(name)
        arch = beside.guest.arch if beside else guests.GUESTS[name].arch
        programs.ensure([arch])
        made = Bench(name, cpus, tmp_path_factory.mktemp(name))
    except CannotError as error:
        if EVERY and name not in standing.KERNELS:
            raise
        pytest.skip(str(error))
    yield made
    assert made.close(), "the guest did not power off"


def results(output: str) -> dict[str, str]:
    """What KTAP says: for each result "", or why it failed. A line that is none, a number
    out of order, a failure beside another result of its name, or totals that are missing or
    wrong is a fault."""
    version, *lines = output.splitlines() or [""]
    assert version == "KTAP version 1", f"no KTAP: {output[:200]!r}"
    found: dict[str, str] = {}
    why, number = "", 0
    totals: tuple[int, ...] = ()
    counts = {"ok": 0, "not ok": 0}
    for line in lines:
        assert not totals, f"behind the totals: {line!r}"
        if match := TOTALS.fullmatch(line):
            totals = (int(match[1]), int(match[2]))
        elif line.startswith("# "):
            why = line[2:]
        else:
            result = RESULT.fullmatch(line)
            assert result, f"not KTAP: {line!r}"
            verdict, name = result[1], result[3]
            number += 1
            assert int(result[2]) == number, line
            counts[verdict] += 1
            reason = (why or "it does not say why") if verdict == "not ok" else ""
            assert name not in found or not (reason or found[name]), line
            found[name] = reason
            why = ""
    assert totals == tuple(counts.values()), "the script ended early"
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_module(bench: Bench, script: str, request: pytest.FixtureRequest) -> None:
    least, words = SCRIPTS[script]
    case = request.node.callspec.params["bench"]
    if not EVERY and script in ONCE and case != CASES[0]:
        pytest.skip("once is enough in the short form")
    # Where every access is looked at, an emulated guest takes some times as long.
    checked = case[0] in standing.KERNELS and not standing.KERNELS[case[0]].suite
    limit_s = (1800 if FULL else 120) * (5 if checked else 1)
    status, output, complaints = bench.run(script, "" if FULL else words, limit_s)
    found = results(output)
    failed = {name: why for name, why in found.items() if why}
    assert not failed
    assert status == 0
    assert f"{script}_log_is_clean" in found, "the script ended early"
    if script == "kunit" and bench.has_kunit:
        least = KUNIT_LEAST
    assert len(found) >= (least if case[1] > 1 else least // 2)
    assert not complaints


LIMITS = "cat /proc/sys/kernel/sched_rt_runtime_us /sys/kernel/debug/sched/fair_server/*/runtime"


def test_a_trial_that_never_ends_is_ended_and_takes_no_limit_with_it(
    bench: Bench, request: pytest.FixtureRequest
) -> None:
    # On an only CPU nobody else would ever run.
    last = request.node.callspec.params["bench"][1] - 1
    endless = (
        "probe=scenario thread_count=1 work_target=1000000000 work_mode=sched_yield"
        f" yield_interval=1 cpus={last} policy={'fifo' if last else 'batch'} start wait"
    )
    with bench.session() as session:
        before = session.run(["/bin/sh", "-c", LIMITS]).stdout
        session.run(["/bin/sh", "-c", "insmod /swtch/kthread_perf.ko"])
        for limit_s in (3, 15, 75):  # an emulated guest is that slow to begin on a busy machine
            agent = [prepare.AGENT, "kthread"]
            ran = session.run(agent, stdin=endless.encode(), timeout_s=limit_s)
            after = session.run(["/bin/sh", "-c", LIMITS]).stdout
            state = session.run(["/bin/sh", "-c", "cat /proc/kthread_perf/control"]).stdout
            assert ran.timed_out
            assert before
            assert after == before
            if b"state idle\n" not in state:
                break
    assert b"state done\nerror 125\n" in state


def test_every_script_is_run() -> None:
    assert {script.stem for script in SOURCE.glob("*.sh")} == {*SCRIPTS, "lib"}
