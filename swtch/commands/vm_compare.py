# SPDX-License-Identifier: Apache-2.0
"""`swtch vm compare`: kernels against each other, in one run with interleaved boots.

Guests of one run share its blocks: each block boots every guest anew and measures every
trial in each, in an order drawn for the block. What disturbs this machine meanwhile
disturbs all of them alike, which two runs one after the other cannot have.

The first that is named is A; every other one is compared with it as by `swtch compare`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swtch.analysis import pairing
from swtch.analysis.findings import group_samples
from swtch.commands import campaign, compare, run
from swtch.engines import TRAITS, choice
from swtch.errors import EXIT_OK, EXIT_SOME_FAILED, EXIT_WORSE, CannotError, RequestError
from swtch.records import Depth
from swtch.records import Engine as EngineName
from swtch.vm import guests, own
from swtch.vm.kvm import Asked

DEFAULT = ("syscall",)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is compared, and how; ``subjects`` are names of guests and paths of kernels."""

    subjects: tuple[str, ...]
    headers: tuple[Path, ...] = ()
    append: tuple[str, ...] = ()
    experiments: tuple[str, ...] = DEFAULT
    models: str | None = None
    engine: EngineName = "vm"
    accel: Asked = "auto"
    pin: str | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    boots: bool = True
    depth: Depth = "quick"
    repeats: int | None = None
    seed: int | None = None
    out: Path | None = None
    quiet: bool = False


def split_append(texts: Sequence[str]) -> tuple[str, ...]:
    """Each of `texts`, parted at commas before a NAME=: commas also are inside of words, as
    in console=ttyS0,115200. An empty one is a guest that is told nothing."""
    parts = [part for text in texts for part in re.split(r",(?=[\w.-]+=)", text)]
    return tuple(dict.fromkeys(" ".join(choice.parse_append(part)) for part in parts))


def options_of(terms: Terms) -> choice.Options:
    """The engine with every guest; RequestError where there are fewer than two."""
    named = [word for word in terms.subjects if word in guests.GUESTS]
    paths = [Path(word) for word in terms.subjects if word not in guests.GUESTS]
    for path in paths:
        if not path.exists():
            guests.parse(str(path))
    append = split_append(terms.append)
    count = len(dict.fromkeys(terms.subjects)) * max(1, len(append))
    if count < 2:
        raise RequestError(
            "vm compare needs two kernels: name another guest, another folder that a kernel was"
            " built in, or two values of --append."
        )
    return choice.Options(
        engines=(terms.engine,),
        guests=",".join(named) or None,
        kernels=tuple(paths),
        headers=terms.headers,
        append=append,
        accel=terms.accel,
        pin=choice.parse_pin(terms.pin),
        cpus=terms.cpus,
        memory_mib=terms.memory_mib,
        boots=terms.boots and not TRAITS[terms.engine].counting,
    )


def measure(terms: Terms) -> tuple[int, Path]:
    """One run over all guests: its exit code and folder."""
    return run.measure(
        run.Request(
            experiments=terms.experiments,
            models=terms.models,
            out=terms.out,
            form="table",
            report=False,
            quiet=terms.quiet,
            terms=campaign.Terms(depth=terms.depth, repeats=terms.repeats, seed=terms.seed),
            engine=options_of(terms),
        )
    )


def against_first(folder: Path, subjects: Sequence[str]) -> list[compare.Sides]:
    """Every place of the run in `folder` with that of the first of `subjects`. Of a run that
    is the first place, unless a kernel was named before the guests, which come first in it."""
    whole = compare.read(folder)
    places = pairing.places(group_samples(whole.manifest.trials, whole.samples))
    if len(places) < 2:
        raise CannotError(f"{folder} has samples of {len(places)} kernels, and needs two.")
    mine = [place for place in places if own.is_name(place.guest)]
    first = mine[0] if mine and subjects[0] not in guests.GUESTS else places[0]
    others = [str(place) for place in places if place != first]
    return [compare.compare_runs(whole, whole, str(first), other) for other in others]


def show(terms: Terms, *, html: Path | None, fail_if_slower: str | None, every: bool) -> int:
    """Measures and compares; the worst exit code of all comparisons."""
    allowed = compare.parse_allowed(fail_if_slower)
    code, folder = measure(terms)
    if code not in (EXIT_OK, EXIT_SOME_FAILED):
        return code
    for number, sides in enumerate(against_first(folder, terms.subjects)):
        if not sides.comparison.rows:
            pairings = sides.comparison.pairings
            emulated = any(pair.clock == "emulated" for pair in pairings)
            raise CannotError(
                f"{compare.nothing(folder, folder, sides)}"
                f"{' --engine exact counts instructions.' if emulated else ''}"
            )
        print(f"A: {sides.comparison.pairings[0].a}   B: {sides.comparison.pairings[0].b}")
        compare.print_table(sides, every=every)
        if all(place.a.clock == "emulated" for place in sides.comparison.pairings):
            print("Emulated processors: only counts are compared; --engine exact has instructions.")
        if html is not None:
            page = html.with_stem(f"{html.stem}-{number + 1}") if number else html
            compare.write_page(page, sides)
        if allowed is not None and sides.comparison.slower(allowed):
            code = EXIT_WORSE
    sys.stdout.flush()
    return code
