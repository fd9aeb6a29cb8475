# SPDX-License-Identifier: Apache-2.0
"""Real guests: boot to result to power-off in time, a panic told, exact to the byte.

These fetch kernels the first time. Where the emulators are not installed or
no kernel can be had they are skipped, with the reason.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swtch.engines.exact import ExactEngine
from swtch.engines.vm import Subject, VmEngine
from swtch.errors import CannotError
from swtch.experiments import Setting, get
from swtch.records import Invocation, Trial
from swtch.vm import guests, prepare, programs, qemu
from swtch.vm.kvm import Choice
from swtch.vm.prepare import Prepared
from swtch.vm.session import GuestDiedError, boot

pytestmark = [pytest.mark.vm, pytest.mark.slow]

# CPU time of the emulator, of two CPUs: what else the machine does makes it hardly longer.
LIMITS_S = {"amd64": 30.0, "arm64": 40.0}
TCG = Choice("tcg", "test")


@pytest.fixture(scope="module", params=["6.1-amd64", "6.1-arm64"])
def prepared(request: pytest.FixtureRequest) -> Prepared:
    guest = guests.GUESTS[request.param]
    try:
        programs.ensure([guest.arch])
        return prepare.prepare(guest)
    except CannotError as error:
        pytest.skip(str(error))


def machine(prepared: Prepared) -> qemu.Machine:
    return qemu.Machine(
        arch=prepared.guest.arch,
        image=Path(prepared.kernel.image),
        initramfs=prepared.initramfs,
    )


def cpu_of_children() -> float:
    """Of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_trial(engine: VmEngine | ExactEngine) -> Trial:
    setting = Setting(cpus=tuple(range(engine.cpus)), models=("pthread",), engine=engine.name)
    trials = engine.spread(get("scenarios").trials(setting))
    return next(trial for trial in trials if trial.factors["scenario"] == "B2")


def test_boot_to_result_to_power_off_in_time(prepared: Prepared) -> None:
    # A boot that stands still is given up and repeated (session.boot); what is in time is
    # the one that answers. The other has ended, and is counted, before this one begins.
    before: list[float] = []

    def launch(machine: qemu.Machine) -> qemu.Qemu:
        before.append(cpu_of_children())
        return qemu.Qemu(machine)

    with VmEngine([Subject(prepared=prepared, accel=TCG)], launch=launch) as engine:
        trial = first_trial(engine)
        outcome = engine.perform(trial, Invocation(seq=0, block=0, trial_id=trial.id, seed=1))
    sample = outcome.sample
    assert (sample.status, sample.error) == ("ok", "")
    assert sample.values["counter"] == 4_000_000
    assert sum(thread.nvcsw or 0 for thread in sample.threads) == 0
    used = cpu_of_children() - before[-1]
    assert 0 < used < LIMITS_S[prepared.guest.arch.name]


def test_input_output_and_limits_of_programs(prepared: Prepared, tmp_path: Path) -> None:
    with boot(machine(prepared), tmp_path / "console") as guest:
        assert guest.hello["cpus"] == 4
        data = bytes(range(256)) * 200
        for size in (len(data), 5000, 5):
            assert guest.run(["/bin/cat"], stdin=data[:size]).stdout == data[:size]
        assert guest.run(["/bin/sh", "-c", "echo no >&2; exit 3"]).stderr == b"no\n"
        for limit_s in (1, 5, 25):  # an emulated guest is that slow to begin on a busy machine
            words = "echo begun; sleep 600 & sleep 600"
            ran = guest.run(["/bin/sh", "-c", words], timeout_s=limit_s)
            assert ran.timed_out and ran.returncode == -9
            if ran.stdout:
                break
        assert ran.stdout == b"begun\n"
        left = guest.run(["/bin/sh", "-c", "ps | grep -c '[s]leep 600'"])
        assert left.stdout == b"0\n", "what a program left behind is still there"
        assert guest.run(["/nowhere"]).returncode == 127
        guest.pause()
        guest.proceed()
        trial = {"schema": 1, "probe": "scenario", "model": "nothing"}
        bad = guest.run([prepare.PROBE], stdin=json.dumps(trial).encode())
        assert bad.returncode == 2 and b'"kind":"error"' in bad.stdout
        assert guest.power_off()


def test_crash_of_the_kernel_is_told_and_ends_the_guest(prepared: Prepared, tmp_path: Path) -> None:
    guest = boot(machine(prepared), tmp_path / "console")
    with pytest.raises(GuestDiedError, match=r"^guest kernel: ") as death:
        guest.run(["/bin/sh", "-c", "echo c > /proc/sysrq-trigger"])
    guest.kill()
    assert "sysrq" in (tmp_path / "console").read_text(errors="replace")
    assert death.value.console


def counted_trial(engine: ExactEngine) -> Trial:
    """The smallest that the model of caches counts: processes, whose page tables change."""
    setting = Setting(cpus=(0,), models=("process",), engine="exact", depth="quick")
    (trial,) = engine.spread(get("counters").trials(setting))
    cells = [{"bytes": 16384, "stride": 64, "passes": 3}]
    return msgspec.structs.replace(trial, probe={**trial.probe, "cells": cells, "rounds": 1})


@pytest.mark.parametrize("with_model", [False, True], ids=["plain", "cachemodel"])
def test_exact_trial_twice_is_identical_to_the_byte(prepared: Prepared, with_model: bool) -> None:
    engine = ExactEngine([Subject(prepared=prepared, accel=TCG)])
    trial = counted_trial(engine) if with_model else first_trial(engine)
    trial = msgspec.structs.replace(trial, timeout_s=120)
    invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
    first, second = (engine.perform(trial, invocation) for _ in range(2))
    assert (first.sample.status, first.sample.error) == ("ok", "")
    assert first.stdout == second.stdout
    assert first.sample.values["wall_instructions"] > 0
    changing = {"started": "", "elapsed_ns": 0, "begun_ns": None}
    one, two = (msgspec.structs.replace(o.sample, **changing) for o in (first, second))
    assert msgspec.json.encode(one) == msgspec.json.encode(two)
    if with_model:
        values = first.sample.values
        assert values["switch_page_tables"] >= 1 and values["switch_flushes"] >= 1
        assert 0 < values["switch_dtlb"] < values["switch_dtlb_4k"]


def test_command_boots_runs_and_powers_off(
    prepared: Prepared, swtch: Callable[..., Any], tmp_path: Path
) -> None:
    extra = tmp_path / "extra"
    extra.write_text("from outside\n")
    done = swtch(
        *("vm", "boot", prepared.guest.name, "--cpus", "2", "--add", f"{extra}:/tmp-extra"),
        *("--console", str(tmp_path / "console"), "--", "/bin/cat", "/tmp-extra"),
    )
    assert (done.returncode, done.stdout) == (0, "from outside\n"), done.stderr
    assert "2 CPUs" in done.stderr and "off after" in done.stderr
    assert b"Power down" in (tmp_path / "console").read_bytes()
