# SPDX-License-Identifier: Apache-2.0
"""The model of caches: its geometry, its counts, and the plugin on a program alone.

The plugin is tried on the probe itself in user-mode emulation: the same marks, the same
model, no kernel. What it counts there is known beforehand to the line.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from swtch.engines import caches
from swtch.engines.caches import PAPER, counted, geometry
from swtch.engines.native import PROBE_DIR, find_probe
from swtch.engines.pages import layout
from swtch.engines.protocol import ProbeError, Result
from swtch.errors import CannotError

COLUMNS = (
    "user_instructions kernel_instructions l1i l1d l1d_stores dtlb dtlb_stores l2 page_tables"
    " dtlb_4k splits flushes prefetches"
)
KIB = 1024


def machine(path: Path, *indexes: tuple[str, str, str, str, str]) -> Path:
    """A sysfs with these caches: level, type, size, ways, line."""
    fields = ("level", "type", "size", "ways_of_associativity", "coherency_line_size")
    for index, values in enumerate(indexes):
        folder = path / "cpu0" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for field, value in zip(fields, values, strict=True):
            (folder / field).write_text(f"{value}\n")
    return path


# ---- geometry ----


def test_the_papers_is_its_table() -> None:
    assert geometry("paper") is PAPER
    assert (PAPER.l1d[0], PAPER.l2[0], PAPER.tlb) == (32 * KIB, 256 * KIB, (64, 4))
    assert PAPER.flush


def test_this_machines_is_what_its_kernel_tells(tmp_path: Path) -> None:
    sysfs = machine(
        tmp_path,
        ("1", "Data", "48K", "12", "64"),
        ("1", "Instruction", "32K", "8", "64"),
        ("2", "Unified", "2048K", "16", "64"),
        ("3", "Unified", "99M", "16", "64"),
    )
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags\t\t: fpu pcid sse\n")
    made = geometry("here", sysfs, cpuinfo)
    assert (made.l1i, made.l1d, made.l2) == (
        (32 * KIB, 8, 64),
        (48 * KIB, 12, 64),
        (2048 * KIB, 16, 64),
    )
    assert not made.flush and "TLB" in made.note and "instead" not in made.note
    cpuinfo.write_text("flags\t\t: fpu sse\n")
    assert geometry("here", sysfs, cpuinfo).flush


def test_what_a_machine_does_not_tell_is_the_papers_and_said(tmp_path: Path) -> None:
    sysfs = machine(tmp_path, ("1", "Data", "48K", "12", "64"), ("2", "Unified", "1M", "0", "64"))
    made = geometry("here", sysfs, tmp_path / "none")
    assert made.l1d == (48 * KIB, 12, 64)
    assert (made.l1i, made.l2) == (PAPER.l1i, PAPER.l2)
    assert "l1i, l2" in made.note


def test_sizes_are_those_of_the_first_of_data_and_of_the_last(tmp_path: Path) -> None:
    sysfs = machine(
        tmp_path,
        ("1", "Instruction", "64K", "8", "64"),
        ("3", "Unified", "260M", "16", "64"),
        ("1", "Data", "48K", "12", "64"),
        ("2", "Unified", "2048K", "16", "64"),
    )
    assert caches.sizes(0, sysfs) == (48 << 10, 260 << 20)
    assert caches.sizes(1, sysfs) == (0, 0)


def test_an_emulated_processor_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace
    from typing import cast

    from swtch.engines import Engine, choice

    monkeypatch.setattr(caches, "sizes", lambda cpu: (48 << 10, 32 << 20))
    for emulated, sizes in ((True, (0, 0)), (False, (48 << 10, 32 << 20))):
        engine = cast(Engine, SimpleNamespace(emulated=emulated))
        assert choice.caches_of(engine, 0) == sizes
    assert choice.caches_of(cast(Engine, SimpleNamespace()), 0) == (48 << 10, 32 << 20)


def test_a_size_that_is_no_number_is_none(tmp_path: Path) -> None:
    sysfs = machine(tmp_path, ("1", "Data", "much", "12", "64"))
    assert caches.sizes(0, sysfs) == (0, 0)


def test_a_path_with_a_comma_is_one_argument() -> None:
    given = PAPER.arguments(Path("/a,b/counts"))
    assert given.startswith("out=/a,,b/counts,l1i=32768:8:64,")
    assert given.endswith("tlb=64:4,tlb2m=32:4,tlb1g=4:4,spaces=0,prefetch=none")


def test_what_a_guests_kernel_has_large_is_told_and_so_is_whose_pages_stay(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(16) + (0x200_0000).to_bytes(8, "little") + bytes(32) + b"ARMd")
    for arch, release, pages, spaces in (
        (
            "amd64",
            "6.1.0-56-amd64",
            (
                "pages=ffff888000000000-ffffc87fffffffff:21,pages=ffffea0000000000-ffffeaffffffffff:21"
                ",pages=ffffffff80000000-ffffffffbfffffff:21"
            ),
            6,
        ),
        (
            "arm64",
            "6.1.0-56-arm64",
            "pages=ffff800008000000-ffff800009ffffff:21,pages=fffffc0000000000-fffffdffffffffff:21",
            4096,
        ),
        (
            "arm64",
            "6.12.95+deb12-arm64",
            "pages=ffff800080000000-ffff800081ffffff:21,pages=fffffdffc0000000-ffffffffbfffffff:21",
            4096,
        ),
    ):
        guests = layout(cast(Any, arch), release, image)
        made = PAPER.of_guest(guests)
        assert f",{pages},spaces=0," in made.arguments(tmp_path)
        kept = replace(made, flush=False)
        assert f",spaces={spaces}," in kept.arguments(tmp_path)
        assert kept.described()["spaces"] == spaces
        assert len(kept.described()["large_pages"]) == pages.count("pages=")


def test_an_image_that_does_not_tell_its_size_is_taken_to_be_usual(tmp_path: Path) -> None:
    image = tmp_path / "image"
    for content in (None, b"", bytes(64)):
        if content is not None:
            image.write_bytes(content)
        (first, last, _), _ = layout("arm64", "6.6", image).regions
        assert last - first + 1 == 32 << 20


def test_a_prefetcher_is_this_machines_caches_and_one_more(tmp_path: Path) -> None:
    made = geometry("prefetch", tmp_path, tmp_path / "none")
    assert (made.name, made.prefetch) == ("prefetch", True)
    assert made.arguments(tmp_path).endswith("prefetch=next")
    assert made.l1d == geometry("here", tmp_path, tmp_path / "none").l1d


# ---- counts ----


def probe_of(cells: list[tuple[int, int, int]], rounds: int = 1) -> dict[str, Any]:
    names = ("bytes", "stride", "passes")
    return {"cells": [dict(zip(names, cell, strict=True)) for cell in cells], "rounds": rounds}


def plain(values: dict[str, float | int], detail: dict[str, Any]) -> Result:
    return Result(values=values, threads=(), carriers=(), detail=detail)


def result() -> Result:
    return plain({"wall_instructions": 7}, {"model": "x", "counted": False})


def test_counts_are_of_one_unit_of_work() -> None:
    text = f"{COLUMNS}\n100 0 10 20 9 30 9 5 0 40 0 0 0\n300 100 20 60 9 90 9 8 40 800 3 40 7\n"
    made = counted(result(), probe_of([(64, 8, 10)]), text, PAPER)
    assert made.values["wall_instructions"] == 7
    assert made.values["single_instructions"] == 10
    assert made.values["single_l1d"] == 2
    # Two units for each pass: one of each thread.
    assert made.values["switch_instructions"] == 20
    assert made.values["switch_kernel_instructions"] == 5
    assert made.values["switch_dtlb"] == 4.5
    assert made.values["switch_page_tables"] == 2
    assert made.values["switch_dtlb_4k"] == 40
    assert made.values["switch_flushes"] == 2
    assert made.detail["counted"] is True
    assert made.detail["model"]["geometry"] == "paper"


def test_rounds_are_added_and_cells_told_apart() -> None:
    lines = [f"{n} 0 0 {n} 0 0 0 0 0 0 0 0 0" for n in (10, 40, 30, 80, 1, 2, 3, 4)]
    made = counted(
        result(), probe_of([(64, 8, 1), (128, 8, 1)], 2), "\n".join([COLUMNS, *lines]), PAPER
    )
    assert made.values["single_l1d_64_8"] == 20
    assert made.values["switch_l1d_64_8"] == 30
    assert made.values["single_l1d_128_8"] == 2
    assert made.values["switch_instructions_128_8"] == 1.5


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_a_region_too_few_or_too_many_fails_the_sample(lines: int) -> None:
    text = "\n".join([COLUMNS, *["1" + " 1" * 12] * lines])
    with pytest.raises(ProbeError, match=f"saw {lines} regions of interest, not 2"):
        counted(result(), probe_of([(64, 8, 1)]), text, PAPER)
    with pytest.raises(ProbeError, match="saw 0 regions"):
        counted(result(), probe_of([(64, 8, 1)]), "", PAPER)


def test_a_missing_plugin_is_one_line(monkeypatch: Any, tmp_path: Path) -> None:
    probe = tmp_path / "swtch-probe"
    probe.write_text("#!/bin/sh\n")
    probe.chmod(0o755)
    monkeypatch.setenv(PROBE_DIR, str(tmp_path))
    with pytest.raises(CannotError, match=r"build it with 'make'"):
        caches.plugin()


# ---- the plugin ----


PAD = 2048


def emulated(cells: list[tuple[int, int, int]], path: Path, arguments: str = "") -> Result:
    """The probe with coroutines, alone in an emulator with the plugin."""
    emulator = shutil.which(f"qemu-{platform.machine()}")
    if emulator is None:
        pytest.skip(f"qemu-{platform.machine()} is not installed (apt-get install qemu-user)")
    trial = {
        "schema": 1,
        "probe": "token",
        "model": "coroutine",
        "pass": "yield",
        "cpus": [0],
        "policy": "other",
        **probe_of(cells),
    }
    out = path / "counts"
    try:
        plugin = caches.plugin()
    except CannotError as missing:
        pytest.skip(str(missing))  # a build with sanitizers has none
    given = arguments or PAPER.arguments(out)
    probe = str(find_probe())
    done = subprocess.run(
        [emulator, "-plugin", f"{plugin},{given}", probe],
        input=json.dumps(trial).encode(),
        capture_output=True,
        timeout=120,
        # As long everywhere: where the stack begins, and with it which pages a walk
        # needs, is a matter of the environment and the program's name.
        env={"PATH": os.defpath, "PAD": "x" * (PAD - 2 * len(probe))},
    )
    if arguments:
        return plain({"status": done.returncode}, {"said": done.stderr.decode()})
    assert done.returncode == 0, done.stdout + done.stderr
    return counted(result(), trial, out.read_text(), PAPER)


def test_what_fits_misses_nothing_and_what_does_not_misses_every_line(tmp_path: Path) -> None:
    """32 KiB of L1d: two arrays of 8 KiB stay, of one of 64 KiB every access is a miss."""
    made = emulated([(8 * KIB, 64, 10), (64 * KIB, 64, 4)], tmp_path).values
    elements = 64 * KIB // 8
    for mode in caches.MODES:
        assert made[f"{mode}_l1d_8192_64"] < 8
        assert made[f"{mode}_l1d_65536_64"] == pytest.approx(elements, rel=0.05)
        assert made[f"{mode}_instructions_65536_64"] > 3 * elements
        assert made[f"{mode}_kernel_instructions_65536_64"] == 0
        assert made[f"{mode}_dtlb_8192_64"] < 1


def test_two_arrays_need_twice_the_room(tmp_path: Path) -> None:
    """24 KiB each: one stays in 32 KiB, and of two every line is a miss once a walk."""
    made = emulated([(24 * KIB, 64, 10)], tmp_path).values
    lines = 24 * KIB // 64
    assert made["single_l1d"] < lines / 8
    assert made["switch_l1d"] > lines / 2


def test_pages_beyond_the_tlb_miss(tmp_path: Path) -> None:
    """64 entries hold 256 KiB; a walk of 1 MiB in leaps of a page comes to each anew."""
    made = emulated([(1024 * KIB, 4096, 1)], tmp_path).values
    assert made["single_dtlb"] == pytest.approx(1024 * KIB // 8, rel=0.05)


def test_the_same_counts_every_time(tmp_path: Path) -> None:
    cells = [(16 * KIB, 64, 5)]
    first, again = (emulated(cells, tmp_path).values for _ in range(2))
    assert first["single_instructions"] == again["single_instructions"]
    assert first["single_instructions"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("size=3", "not understood: size=3"),
        ("l1d=100:3:64", "not understood"),
        ("flush=1", "not understood: flush=1"),
        ("spaces=1", "needs out="),
    ],
)
def test_the_plugin_says_what_it_needs(arguments: str, said: str, tmp_path: Path) -> None:
    made = emulated([(64, 8, 1)], tmp_path, arguments)
    assert made.values["status"] != 0 and said in made.detail["said"]
