# SPDX-License-Identifier: Apache-2.0
"""Which of a guest kernel's pages are large, as a rule on addresses; and whose entries stay.

A plugin of QEMU sees the address of an access and nothing of the page table that led there.
What large pages there are, Linux decides at boot and by one rule for each architecture; the
exact engine's guests boot with ``nokaslr``, so that each region has one place:

- x86-64 (4-level): the direct map, the kernel's image and vmemmap are 2 MiB pages. Debian's
  6.1 keeps to it but for 14 pieces of both that it splits because their protection differs
  (``info tlb`` of QEMU's monitor, 1 GiB of memory). It has no 1 GiB pages in a guest of up to
  4 GiB.
- arm64 (4 KiB granule, 48 bits): the image and vmemmap are 2 MiB blocks. The direct map is
  4 KiB pages, because ``rodata=full``, the default, may have to change the protection of each.
- Modules, vmalloc with the stacks of tasks, per-CPU entry areas and fixmaps: 4 KiB.
- User pages: 4 KiB. A transparent huge page of a program counts as 512 pages.

Rejected: a page-table dump of the guest (Debian's kernels have no CONFIG_PTDUMP_DEBUGFS),
the monitor's ``info tlb`` before each trial (x86 only, and a wire into an exact guest),
/proc/iomem (physical addresses, which say nothing of the pages over them).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swtch.vm.guests import ArchName

Region = tuple[int, int, int]  # first and last address, bits of a page

LARGE: Final = 21
_X86: Final[tuple[Region, ...]] = (
    (0xFFFF_8880_0000_0000, 0xFFFF_C87F_FFFF_FFFF, LARGE),  # the direct map
    (0xFFFF_EA00_0000_0000, 0xFFFF_EAFF_FFFF_FFFF, LARGE),  # vmemmap
    (0xFFFF_FFFF_8000_0000, 0xFFFF_FFFF_BFFF_FFFF, LARGE),  # the image
)
# What arm64's layout was before Linux 6.5 and 6.9, and has been since.
_IMAGE: Final = (0xFFFF_8000_0800_0000, 0xFFFF_8000_8000_0000)
_VMEMMAP: Final[tuple[Region, Region]] = (
    (0xFFFF_FC00_0000_0000, 0xFFFF_FDFF_FFFF_FFFF, LARGE),
    (0xFFFF_FDFF_C000_0000, 0xFFFF_FFFF_BFFF_FFFF, LARGE),
)
_IMAGE_SIZE: Final = 32 << 20  # of one that does not tell

# Linux on x86 keeps the pages of six address spaces on each CPU (TLB_NR_DYN_ASIDS); arm64
# has more ASIDs than there are processes, of which the model tells so many apart.
_SPACES: Final[dict[ArchName, int]] = {"amd64": 6, "arm64": 4096}


@dataclass(frozen=True)
class Layout:
    """``regions`` are all pages that are not 4 KiB; ``spaces``: so many address spaces have
    entries at a time, where entries tell them apart."""

    regions: tuple[Region, ...] = ()
    spaces: int = 0


SMALL_PAGES: Final = Layout()  # and nobody's stay


def layout(arch: ArchName, release: str, image: Path) -> Layout:
    """Of a guest's kernel, whose ``release`` is as uname has it."""
    if arch == "amd64":
        return Layout(_X86, _SPACES[arch])
    version = _version(release)
    start = _IMAGE[version >= (6, 5)]
    kernel = (start, start + _image_size(image) - 1, LARGE)
    return Layout((kernel, _VMEMMAP[version >= (6, 9)]), _SPACES[arch])


def _version(release: str) -> tuple[int, ...]:
    numbers = release.split("-")[0].split("+")[0].split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)


def _image_size(image: Path) -> int:
    """As the header of arm64's boot image has it (Documentation/arch/arm64/booting.rst)."""
    try:
        with image.open("rb") as file:
            head = file.read(64)
    except OSError:
        return _IMAGE_SIZE
    size = int.from_bytes(head[16:24], "little")
    return size if head[56:60] == b"ARMd" and 0 < size < 1 << 30 else _IMAGE_SIZE
