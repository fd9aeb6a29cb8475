# SPDX-License-Identifier: Apache-2.0
"""The processor's counters by perf_event_open: groups, scaled counts and refusals.

This machine may have none (most clouds, and where CI runs). The emulated processor of the
exact arm64 guest has: its kernel counts cycles and instructions, to the instruction, with
six counters and no event of caches. So what `probes/measure/events.c` does is compared
there with a loop whose instructions are known, and the probe's own samples as well.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swtch.errors import CannotError
from swtch.experiments import Setting, get
from swtch.vm import guests, prepare, programs, qemu
from swtch.vm.session import Session, boot

TREE = Path(__file__).parents[1]
GUEST = guests.GUESTS["6.1-arm64"]
CROSS = "aarch64-linux-gnu-gcc"
PLACE = "/swtch/events"
LIMIT_S = 600
TURNS = 1_000_000


def compiled(compiler: str, out: Path, *options: str) -> Path:
    """probes/tests/events.c with the source that it tests."""
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"{compiler} is needed")
    sources = [str(TREE / "probes" / file) for file in ("tests/events.c", "measure/events.c")]
    folders = [f"-I{TREE / name}" for name in ("probes", "workloads")]
    command = [path, "-O2", "-Wall", "-Wextra", "-Werror", *options, *folders]
    done = subprocess.run(
        [*command, "-o", str(out), *sources], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_kernels_own_events_need_no_counters(tmp_path: Path) -> None:
    program = compiled("gcc", tmp_path / "events")
    done = subprocess.run(
        [program, "software"], capture_output=True, text=True, timeout=60, check=False
    )
    if done.stdout.startswith("skip"):
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0 and done.stdout.startswith("ok software faults="), done.stdout


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("events")
    program = compiled(CROSS, folder / "events", "-static")
    try:
        programs.ensure([GUEST.arch])
        prepared = prepare.prepare(GUEST, extra={PLACE: program})
    except CannotError as error:
        pytest.skip(str(error))
    machine = qemu.Machine(
        arch=GUEST.arch,
        image=Path(prepared.kernel.image),
        initramfs=prepared.initramfs,
        cpus=1,
        exact=True,
    )
    guest = boot(machine, folder / "console")
    yield guest
    try:
        assert not guest.complaints
        assert guest.power_off(), "the guest did not power off"
    finally:
        guest.kill()


def answer(session: Session, case: str) -> dict[str, float]:
    """What a case of the program saw, which must be good."""
    ran = session.run([PLACE, case], timeout_s=LIMIT_S)
    words = ran.stdout.decode().split()
    assert ran.returncode == 0 and words[:2] == ["ok", case], ran
    return {name: float(number) for name, _, number in (w.partition("=") for w in words[2:])}


def sample_of(session: Session, request: dict[str, Any]) -> dict[str, Any]:
    """The first sample of a trial, run in the guest."""
    ran = session.run([prepare.PROBE], stdin=json.dumps(request).encode(), timeout_s=LIMIT_S)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    sample: dict[str, Any] | None = next((x for x in lines if x["kind"] == "sample"), None)
    assert sample is not None, ran
    return sample


@pytest.mark.vm
@pytest.mark.slow
class TestInAGuest:
    def test_a_group_counts_each_event_in_its_own_place(self, session: Session) -> None:
        counts = answer(session, "group")
        assert counts["faults"] >= 3 * 64 and counts["cycles"] > 0

    def test_without_the_kernel_a_loop_is_counted_to_some_instructions(
        self, session: Session
    ) -> None:
        assert 2 * TURNS <= answer(session, "user")["instructions"] < 2 * TURNS + 1000

    def test_groups_that_share_the_counters_are_scaled(self, session: Session) -> None:
        counts = answer(session, "scaled")
        assert counts["shared"] > counts["groups"] / 2 and 0 < counts["least"] < 0.9

    def test_a_group_that_was_never_on_says_so(self, session: Session) -> None:
        answer(session, "never")

    def test_a_user_who_may_not_count_is_told_and_goes_on(self, session: Session) -> None:
        answer(session, "refused")

    def test_what_the_processor_has_not_is_left_out(self, session: Session) -> None:
        """Of the lab's own events it has instructions alone."""
        assert set(answer(session, "own")) == {"instructions"}

    @pytest.mark.parametrize("model", ["pthread", "process", "uthread"])
    def test_a_probes_sample_has_what_was_counted(self, session: Session, model: str) -> None:
        """The same trial twice, with arrays of two sizes: more work, more instructions.

        The kernel's are counted too, and an interrupt in a part of a millisecond is more
        than a uthread's switch: so the least of several runs, to which they only add.
        """
        setting = Setting(cpus=(0,), models=("process", "pthread", "uthread"), depth="quick")
        (trial,) = (t for t in get("counters").trials(setting) if t.model == model)
        cells = [{"bytes": size, "stride": 64, "passes": 10} for size in (4096, 65536)]
        request = {**trial.probe, "cells": cells, "rounds": 2, "count": True}
        samples = [sample_of(session, request) for _ in range(7)]
        for sample in samples:
            assert sample["counted"] is True and sample["kernel_counted"] is True
            for size in (4096, 65536):
                assert sample[f"running_{size}_64"] == 1
                assert f"single_l1d_{size}_64" not in sample

        def least(mode: str, size: int) -> float:
            return min(sample[f"{mode}_instructions_{size}_64"] for sample in samples)

        # Each element of a walk is some instructions; a pass is thousands of them.
        assert 512 < least("single", 4096) < least("single", 65536) < 40 * least("single", 4096)
        for size in (4096, 65536):
            assert least("switch", size) > least("single", size)
