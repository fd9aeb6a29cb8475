# SPDX-License-Identifier: Apache-2.0
"""The cache model's plugin in a QEMU of our own making: every access is the test's.

``plugin/fake_qemu.c`` has the plugin interface of each version of QEMU's, and a guest that is
lines of text. What the plugin must count of them is known beforehand, to the miss, and is
the same by every version.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from swtch.engines import caches
from swtch.errors import CannotError

SOURCE = Path(__file__).parent / "plugin/fake_qemu.c"
# What the plugin asks each for: never more than it speaks, and nothing it has outgrown.
ASKED = {1: 1, 2: 2, 3: 2, 4: 4, 5: 5, 6: 5}
SMALL = "l1i=1024:2:64,l1d=1024:2:64,l2=4096:4:64,tlb=8:2,tlb2m=4:2,tlb1g=2:2"

TEXT = 0x401000
KERNEL_TEXT = 0xFFFF_FFFF_8100_0000
DIRECT = 0xFFFF_8880_0000_0000
STACKS = 0xFFFF_C900_0000_0000
LARGE = f"pages={DIRECT:x}-{DIRECT + (1 << 40) - 1:x}:21"

Fake = Callable[[int, str, Sequence[str]], list[dict[str, int]]]


@pytest.fixture(scope="module")
def plugin() -> Path:
    try:
        return caches.plugin()
    except CannotError as missing:
        pytest.skip(str(missing))  # a build with sanitizers has none


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("fakes")
    made = {}
    for version in (*ASKED, 7):
        made[version] = folder / f"fake{version}"
        flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic", f"-DVERSION={version}"]
        command = [compiler, *flags, str(SOURCE), "-o", str(made[version]), "-ldl"]
        subprocess.run(command, check=True, timeout=120)
    return made


@pytest.fixture
def fake(plugin: Path, fakes: dict[int, Path], tmp_path: Path) -> Fake:
    """Counts of each region of `lines`, in a QEMU of that version with these arguments."""

    def run(version: int, given: str, lines: Sequence[str]) -> list[dict[str, int]]:
        out = tmp_path / "counts"
        done = subprocess.run(
            [str(fakes[version]), str(plugin), f"out={out}", *SMALL.split(","), *given.split(",")],
            input="\n".join([mark(1), *lines]) + "\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == ASKED[version]
        columns, *regions = out.read_text().splitlines()
        return [
            dict(zip(columns.split(), map(int, region.split()), strict=True)) for region in regions
        ]

    return run


def mark(n: int) -> str:
    """A no-op that is a mark of measure/roi.h."""
    return f"{TEXT:x} 0f1f8400{n:02x}005753"


def region(*lines: str) -> list[str]:
    return [mark(2), *lines, mark(3)]


def touch(
    vaddr: int,
    phys: int = -1,
    *,
    shift: int = 3,
    store: bool = False,
    at: int = TEXT,
    beyond: int = 0,
) -> str:
    """A mov with one access; where `phys` is not said it is the low bits of the address."""
    phys = vaddr & 0xFFFFFFFF if phys < 0 else phys
    return f"{at:x} 488b00 {'w' if store else 'r'}:{vaddr:x}:{phys:x}:{shift}:{beyond:x}"


def kernel(vaddr: int, phys: int = -1) -> str:
    return touch(vaddr, phys, at=KERNEL_TEXT)


def switch_to(task: int) -> list[str]:
    """Another page table, and then a push on the kernel stack of that task."""
    stack = STACKS + task * 0x8000 + 0x3F00
    load = f"{KERNEL_TEXT:x} 0f22d8"
    push = f"{KERNEL_TEXT:x} 50 w:{stack:x}:{0x700000 + task * 0x8000:x}:3:0"
    return [load, push]


# ---- versions of the interface ----


@pytest.mark.parametrize("version", ASKED)
def test_every_version_of_the_interface_has_the_same_counts(fake: Fake, version: int) -> None:
    lines = [touch(0x10000 + 64 * n) for n in range(8)]
    kernels = [kernel(DIRECT + 4096 * n) for n in range(6)]
    (counts,) = fake(version, f"{LARGE},spaces=2", region(*lines, *switch_to(1), *kernels, *lines))
    assert counts == {
        "user_instructions": 17,  # and the mark that ends the region
        "kernel_instructions": 8,
        "l1i": 2,
        "l1d": 8 + 6 + 1,  # six lines of the kernel's are where the first of the user's was
        "l1d_stores": 1,
        "dtlb": 1 + 1,
        "dtlb_stores": 1,
        "l2": 2 + 8 + 6 + 1 + 1,
        "page_tables": 1,
        "dtlb_4k": 1 + 6 + 1,  # as six pages are where the user's was
        "splits": 0,
        "flushes": 0,
        "prefetches": 0,
    }


def test_a_version_that_nobody_has_seen_is_refused_in_one_line(
    plugin: Path, fakes: dict[int, Path], tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(fakes[7]), str(plugin), f"out={tmp_path / 'counts'}", *SMALL.split(",")],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == "cachemodel: this QEMU's plugin interface is 7, the last known is 6\n"


# ---- pages ----


def test_a_large_page_is_one_entry_and_small_ones_are_many(fake: Fake) -> None:
    lines = region(*(kernel(DIRECT + 4096 * n) for n in range(6)))
    (large,) = fake(1, LARGE, lines)
    (small,) = fake(1, "spaces=0", lines)
    assert (large["dtlb"], large["dtlb_4k"]) == (1, 6)
    assert (small["dtlb"], small["dtlb_4k"]) == (6, 6)


def test_large_pages_have_entries_of_their_own(fake: Fake) -> None:
    """Eight small pages fill the other entries; the large one has stayed."""
    small = [kernel(STACKS + 4096 * n) for n in range(8)]
    lines = region(kernel(DIRECT), *small, kernel(DIRECT + (1 << 20)))
    (counts,) = fake(1, LARGE, lines)
    assert counts["dtlb"] == 9


def test_pages_of_a_gibibyte(fake: Fake) -> None:
    given = f"pages={DIRECT:x}-{DIRECT + (1 << 40) - 1:x}:30"
    (counts,) = fake(1, given, region(*(kernel(DIRECT + (n << 21)) for n in range(6))))
    assert counts["dtlb"] == 1


# ---- accesses that straddle ----


def test_an_access_across_lines_touches_both(fake: Fake) -> None:
    lines = region(touch(0x1003C), touch(0x10000), touch(0x10040))
    (counts,) = fake(1, "spaces=0", lines)
    assert (counts["splits"], counts["l1d"], counts["dtlb"]) == (1, 2, 1)


@pytest.mark.parametrize(("offset", "shift", "splits"), [(0x38, 3, 0), (0x3F, 0, 0), (0x3F, 1, 1)])
def test_what_ends_with_the_line_does_not_straddle(
    fake: Fake, offset: int, shift: int, splits: int
) -> None:
    (counts,) = fake(1, "spaces=0", region(touch(0x10000 + offset, shift=shift)))
    assert (counts["splits"], counts["l1d"]) == (splits, 1 + splits)


def test_an_access_across_pages_needs_both_and_the_second_is_elsewhere(fake: Fake) -> None:
    across = touch(0x10FFC, 0x50FFC, beyond=0x90000, store=True)
    lines = region(across, touch(0x11000, 0x90000), touch(0x10FC0, 0x50FC0))
    (counts,) = fake(1, "spaces=0", lines)
    assert (counts["splits"], counts["l1d_stores"], counts["dtlb_stores"]) == (1, 2, 2)
    assert (counts["l1d"], counts["dtlb"]) == (0, 0)


def test_an_instruction_across_lines_is_fetched_from_both(fake: Fake) -> None:
    across = f"{TEXT + 0xFE:x} 488b00"
    (counts,) = fake(1, "spaces=0", region(across))
    assert counts["l1i"] == 1 + 2  # and the line of the marks


def test_what_goes_to_a_device_touches_nothing(fake: Fake) -> None:
    (counts,) = fake(1, "spaces=0", region(touch(0x10000, 1 << 41)))
    assert (counts["l1d"], counts["dtlb"]) == (0, 0)


# ---- address spaces ----


def visits(*tasks: int) -> list[str]:
    """Each task in turn touches its page."""
    lines = []
    for task in tasks:
        lines += [*switch_to(task), touch(0xF000 + task * 4096)]
    return lines


def test_without_pcid_a_page_table_empties_the_tlb_of_user_pages_only(fake: Fake) -> None:
    """The first turns warm; then every switch costs the page again, and no kernel's."""
    lines = [*visits(1, 2), *region(*visits(1, 2, 1, 2))]
    (counts,) = fake(1, "spaces=0", lines)
    assert (counts["flushes"], counts["dtlb"], counts["dtlb_stores"]) == (4, 4, 0)


def test_with_pcid_pages_stay(fake: Fake) -> None:
    lines = [*visits(1, 2), *region(*visits(1, 2, 1, 2))]
    (counts,) = fake(1, "spaces=2", lines)
    assert (counts["flushes"], counts["dtlb"], counts["page_tables"]) == (0, 0, 4)


def test_of_more_spaces_than_there_are_ids_the_oldest_goes(fake: Fake) -> None:
    lines = [*visits(1, 2, 3), *region(*visits(1, 2, 3))]
    (two,) = fake(1, "spaces=2", lines)
    (three,) = fake(1, "spaces=3", lines)
    assert (two["flushes"], two["dtlb"]) == (3, 3)
    assert (three["flushes"], three["dtlb"]) == (0, 0)


def test_a_page_that_two_have_in_common_is_an_entry_of_each(fake: Fake) -> None:
    shared = touch(0x10000, 0x100000)
    lines = region(*switch_to(1), shared, *switch_to(2), shared, *switch_to(1), shared)
    (counts,) = fake(1, "spaces=2", lines)
    assert counts["dtlb"] == 2


def test_the_stack_by_which_all_leave_the_kernel_is_nobodys(fake: Fake) -> None:
    leave = f"{KERNEL_TEXT:x} 50 w:{0xFFFFFE0000002F00:x}:600000:3:0"
    shared = touch(0x10000, 0x100000)
    lines = region(*switch_to(1), leave, shared, *switch_to(2), leave, shared)
    (counts,) = fake(1, "spaces=2", lines)
    assert counts["dtlb"] == 2


# ---- the prefetcher ----


def test_a_prefetcher_brings_the_next_line_of_the_page(fake: Fake) -> None:
    walk = [touch(0x10000 + 64 * n) for n in range(8)]
    (without,) = fake(1, "prefetch=none", region(*walk))
    (counts,) = fake(1, "prefetch=next", region(*walk))
    assert (without["l1d"], without["prefetches"]) == (8, 0)
    assert (counts["l1d"], counts["prefetches"]) == (4, 4)


def test_it_stops_at_the_page_and_follows_no_stores(fake: Fake) -> None:
    (end,) = fake(1, "prefetch=next", region(touch(0x10FC0), touch(0x11000)))
    (stores,) = fake(
        1, "prefetch=next", region(*(touch(0x10000 + 64 * n, store=True) for n in range(4)))
    )
    assert (end["l1d"], end["prefetches"]) == (2, 1)
    assert (stores["l1d_stores"], stores["prefetches"]) == (4, 0)


# ---- arguments ----


@pytest.mark.parametrize(
    "bad",
    [
        "tlb=8:2",  # twice
        "tlb4k=8:2",
        "l1d=1024:2:64:1",
        "spaces=-1",
        "spaces=many",
        "prefetch=all",
        "pages=1000-2000:21",  # a user's
        f"pages={DIRECT + 4096:x}-{DIRECT:x}:21",
        f"pages={DIRECT:x}-{DIRECT + 4096:x}:22",
    ],
)
def test_an_argument_that_is_none_is_one_line(
    plugin: Path, fakes: dict[int, Path], tmp_path: Path, bad: str
) -> None:
    done = subprocess.run(
        [str(fakes[1]), str(plugin), f"out={tmp_path / 'counts'}", *SMALL.split(","), bad],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == f"cachemodel: not understood: {bad}\n"
