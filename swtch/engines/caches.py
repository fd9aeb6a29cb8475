# SPDX-License-Identifier: Apache-2.0
"""Caches and a TLB for the exact engine: their geometry, and what a trial's regions missed.

A trial that asks for it (``"caches": "here"`` or ``"paper"`` in its probe's request) is
emulated with ``probes/plugin/cachemodel.c`` in QEMU. The plugin writes one line for each region
of interest that the probe marks: for each cell of the trial, round by round, one of a
thread alone and one of two in turns. This module names the counts as the probe names
those of a processor's own counters, and so analysis reads one name for both; that they
are a model's stays visible: the engine is exact, and the geometry is with the sample.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from swtch.engines.native import PROBE_DIR, find_probe
from swtch.engines.pages import SMALL_PAGES, Layout
from swtch.engines.protocol import ProbeError, Result
from swtch.errors import CannotError

CACHES = "caches"  # the field of a trial's probe
PLUGIN = "swtch-cachemodel.so"
SYSFS = Path("/sys/devices/system/cpu")
MODES = ("single", "switch")
# What the probe counts with a processor's counters, and what only the model knows.
EVENTS = (
    *("instructions", "l1i", "l1d", "dtlb", "kernel_instructions", "l2", "page_tables"),
    *("dtlb_4k", "splits", "flushes", "prefetches"),
)

Cache = tuple[int, int, int]  # bytes, ways, bytes of a line
_SIZE_FIELDS = ("level", "type", "size")


@dataclass(frozen=True)
class Geometry:
    """``flush``: the page table's change empties the TLB of user pages. ``prefetch``: a load
    that misses brings the next line. ``layout`` is the guest's, whose TLB it is."""

    name: Literal["here", "paper", "prefetch"]
    l1i: Cache
    l1d: Cache
    l2: Cache
    tlb: tuple[int, int] = (64, 4)  # entries, ways
    tlb2m: tuple[int, int] = (32, 4)  # of large pages
    tlb1g: tuple[int, int] = (4, 4)
    flush: bool = False
    prefetch: bool = False
    note: str = ""
    layout: Layout = SMALL_PAGES

    @property
    def spaces(self) -> int:
        """Whose pages stay when the page table changes: so many address spaces'."""
        return 0 if self.flush else self.layout.spaces

    def of_guest(self, layout: Layout) -> Geometry:
        """The same caches under another kernel."""
        return replace(self, layout=layout)

    def arguments(self, out: Path) -> str:
        """As -plugin takes them."""
        caches = (f"{n}={':'.join(map(str, getattr(self, n)))}" for n in ("l1i", "l1d", "l2"))
        tlbs = (f"{n}={':'.join(map(str, getattr(self, n)))}" for n in ("tlb", "tlb2m", "tlb1g"))
        pages = (f"pages={first:x}-{last:x}:{bits}" for first, last, bits in self.layout.regions)
        prefetch = f"prefetch={'next' if self.prefetch else 'none'}"
        # A comma ends an argument of QEMU's, two are one.
        path = str(out).replace(",", ",,")
        words = [f"out={path}", *caches, *tlbs, *pages, f"spaces={self.spaces}", prefetch]
        return ",".join(words)

    def described(self) -> dict[str, Any]:
        return {
            "geometry": self.name,
            "l1i": list(self.l1i),
            "l1d": list(self.l1d),
            "l2": list(self.l2),
            "tlb": list(self.tlb),
            "tlb2m": list(self.tlb2m),
            "tlb1g": list(self.tlb1g),
            "flush": self.flush,
            "spaces": self.spaces,
            "prefetch": self.prefetch,
            "large_pages": [f"{first:x}-{last:x}" for first, last, _ in self.layout.regions],
            "note": self.note,
        }


# Table I: a Xeon D-1541. How many ways its caches have is Intel's to say, and so are the
# entries for large pages; Linux of its time changed the page table without PCID.
PAPER = Geometry(
    "paper", (32 << 10, 8, 64), (32 << 10, 8, 64), (256 << 10, 8, 64), (64, 4), flush=True
)


def geometry(name: str, sysfs: Path = SYSFS, cpuinfo: Path = Path("/proc/cpuinfo")) -> Geometry:
    """The geometry called `name`: the study's, or this machine's as its kernel tells it, and
    that with a prefetcher, which no kernel tells of."""
    if name == "paper":
        return PAPER
    caches = _own_caches(sysfs)
    try:
        flags = cpuinfo.read_text()
    except OSError:
        flags = ""
    # No kernel tells the first TLB's size.
    notes = ["the TLB's size is the study's, no kernel tells this machine's"]
    missing = [n for n in ("l1i", "l1d", "l2") if n not in caches]
    if missing:
        notes.append(f"this machine does not tell its {', '.join(missing)}: the study's instead")
    return Geometry(
        "prefetch" if name == "prefetch" else "here",
        caches.get("l1i", PAPER.l1i),
        caches.get("l1d", PAPER.l1d),
        caches.get("l2", PAPER.l2),
        flush="flags" in flags and " pcid" not in flags,
        prefetch=name == "prefetch",
        note="; ".join(notes),
    )


def sizes(cpu: int, sysfs: Path = SYSFS) -> tuple[int, int]:
    """What the first cache of data of `cpu` and its last cache hold; 0 where it does not say."""
    l1d = last = 0
    deepest = (0, 0)
    for folder in (sysfs / f"cpu{cpu}" / "cache").glob("index*"):
        try:
            level, kind, size = ((folder / f).read_text().strip() for f in _SIZE_FIELDS)
            level_size = int(level), _bytes(size)
        except (OSError, ValueError):
            continue
        if kind == "Instruction":
            continue
        if level_size[0] == 1:
            l1d = level_size[1]
        if level_size > deepest:
            deepest, last = level_size, level_size[1]
    return l1d, last


def _own_caches(sysfs: Path) -> dict[str, Cache]:
    names = {("1", "Instruction"): "l1i", ("1", "Data"): "l1d", ("2", "Unified"): "l2"}
    caches: dict[str, Cache] = {}
    for folder in sorted(sysfs.glob("cpu[0-9]*/cache/index*")):
        texts = {}
        for field in ("level", "type", "size", "ways_of_associativity", "coherency_line_size"):
            try:
                texts[field] = (folder / field).read_text().strip()
            except OSError:
                break
        name = names.get((texts.get("level", ""), texts.get("type", "")))
        if name is None or name in caches or len(texts) < 5:
            continue
        ways, line = int(texts["ways_of_associativity"]), int(texts["coherency_line_size"])
        size = _bytes(texts["size"])
        if ways > 0 and line > 0 and size % (ways * line) == 0:
            caches[name] = (size, ways, line)
    return caches


def _bytes(text: str) -> int:
    """As sysfs has it: 32K, 1M, or plain."""
    shift = {"K": 10, "M": 20}.get(text[-1:], 0)
    return int(text.rstrip("KM")) << shift


def plugin() -> Path:
    """The plugin, beside the probe; raises CannotError with the line that says what to do."""
    path = find_probe().with_name(PLUGIN)
    if os.access(path, os.R_OK):
        return path
    raise CannotError(
        f"the cache model {PLUGIN} is not in {path.parent}; build it with 'make'"
        f" or set {PROBE_DIR} to the folder that holds it."
    )


def digest() -> str:
    """Of the plugin's contents; "" where there is none, which no run without it minds."""
    try:
        return hashlib.sha256(plugin().read_bytes()).hexdigest()
    except (CannotError, OSError):
        return ""


def counted(result: Result, probe: Mapping[str, Any], text: str, of: Geometry) -> Result:
    """`result` with what the model counted for each cell of the trial."""
    lines = text.splitlines()
    columns = lines[0].split() if lines else []
    regions = [dict(zip(columns, map(int, line.split()), strict=True)) for line in lines[1:]]
    cells: Sequence[Mapping[str, int]] = probe["cells"]
    rounds = int(probe["rounds"])
    if len(regions) != len(cells) * rounds * len(MODES):
        raise ProbeError(
            f"the cache model saw {len(regions)} regions of interest,"
            f" not {len(cells) * rounds * len(MODES)}"
        )
    values: dict[str, float | int] = dict(result.values)
    for index, cell in enumerate(cells):
        own = regions[index * rounds * len(MODES) : (index + 1) * rounds * len(MODES)]
        name = "" if len(cells) == 1 else f"_{cell['bytes']}_{cell['stride']}"
        for mode, label in enumerate(MODES):
            units = cell["passes"] * rounds * (mode + 1)
            for event in EVENTS:
                total = sum(_count(region, event) for region in own[mode :: len(MODES)])
                values[f"{label}_{event}{name}"] = total / units
    # A region is a unit of work's many times over: the share of counters that were on is all.
    detail = {**result.detail, "counted": True, "kernel_counted": True, "model": of.described()}
    return msgspec.structs.replace(result, values=values, detail=detail)


def _count(region: Mapping[str, int], event: str) -> int:
    if event == "instructions":
        return region["user_instructions"] + region["kernel_instructions"]
    return region[event]
