# SPDX-License-Identifier: Apache-2.0
"""`swtch replicate`: every experiment of every study, and what became of each claim.

The machine itself measures all that it can. A guest measures the experiments that need
kernel threads, where one can be had; where none can, their claims are "not measurable
here" with the reason, and the rest is measured all the same. The exact engine counts
the experiments that ask for it at this depth.

Rejected: asking which experiments (that is `swtch run`), failing without a guest (most
claims need none).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from swtch import experiments, plan, spending
from swtch.commands import campaign, output, results
from swtch.engines import TRAITS, Engine, choice
from swtch.engines.several import SeveralEngines
from swtch.errors import EXIT_INTERRUPTED, LabError
from swtch.experiments import Experiment
from swtch.progress import Progress
from swtch.records import Depth
from swtch.records import Engine as EngineName
from swtch.store import Writer


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a new replication, as given. No engines: all that can be had."""

    out: Path | None
    form: str
    quiet: bool
    terms: campaign.Terms
    engines: tuple[EngineName, ...] | None
    guests: str | None
    cpus: int | None = None
    verbose: bool = False


def start(request: Request) -> int:
    """A new replication, to its end."""
    chosen = experiments.every()
    progress = Progress(quiet=request.quiet)
    engine = _open(request, chosen, progress)
    try:
        shares = shares_of(engine, chosen, request.terms.depth)
        planned = campaign.make(request.terms, engine, shares)
        folder = request.out or campaign.RUNS / planned.manifest.run_id
        with (
            campaign.Told(progress, "replicate") as told,
            Writer.create(folder, planned.manifest) as writer,
        ):
            told.writer = writer
            planned.announce(progress, work=f"{len(chosen)} experiments, ")
            if line := choice.left_out(shares, None):
                progress.say(line)
            finish = _finish(request.form, progress, request.verbose)
            return campaign.carry_out(writer, engine, planned.expected, progress, finish)
        return EXIT_INTERRUPTED
    finally:
        choice.close(engine)


def resume(path: Path, *, form: str, quiet: bool, verbose: bool = False) -> int:
    """Does what the replication in `path` has no sample of yet."""
    progress = Progress(quiet=quiet)
    return campaign.resume(path, progress, _finish(form, progress, verbose), "replicate")


def wanted(chosen: tuple[Experiment, ...], depth: Depth) -> tuple[EngineName, ...]:
    """The engines that these experiments have use for."""
    exact = any(depth in experiment.exact_at for experiment in chosen)
    return ("native", "vm", "exact") if exact else ("native", "vm")


def further_guests(chosen: tuple[Experiment, ...]) -> dict[str, frozenset[str]]:
    """Guests beside the default one that some experiments compare with it, and for which."""
    from swtch.vm import guests

    default = guests.default()
    by_guest: dict[str, set[str]] = {}
    for experiment in chosen:
        for series in experiment.series:
            name = f"{series}-{default.arch.name}"
            if name != default.name and name in guests.GUESTS:
                by_guest.setdefault(name, set()).add(experiment.name)
    return {name: frozenset(names) for name, names in by_guest.items()}


def shares_of(
    engine: Engine, chosen: tuple[Experiment, ...], depth: Depth
) -> tuple[choice.Share, ...]:
    """Who measures what: as for `swtch run`, and counted exactly what asks for it."""
    members = choice.members(engine)
    exact = [member for member in members if TRAITS[member.name].counting]
    others = [member for member in members if not TRAITS[member.name].counting]
    shares: list[choice.Share] = []
    if others:
        rest = others[0] if len(others) == 1 else SeveralEngines(others)
        shares += choice.shares(rest, None, plan.MODEL_NAMES, chosen)
    for member in exact:
        # Named by the user as the only one, it counts everything.
        mine = tuple(e for e in chosen if depth in e.exact_at or not others)
        shares += choice.shares(member, None, plan.MODEL_NAMES, mine) if mine else ()
    return tuple(shares)


def _open(request: Request, chosen: tuple[Experiment, ...], progress: Progress) -> Engine:
    """All engines of use; one that was not asked for by name may be missing."""
    # At quick a boot for one experiment, about which there is no claim, is too much.
    quick = request.terms.depth == "quick"
    further = {} if request.guests or quick else further_guests(chosen)
    options = choice.Options(guests=request.guests, further=further, cpus=request.cpus)
    if request.engines is not None:
        return choice.open_engine(replace(options, engines=request.engines), say=progress.say)
    names = wanted(chosen, request.terms.depth)
    lacks = {"exact": "no exact engine", "vm": "no guest, so no kernel threads"}
    while True:
        try:
            return choice.open_engine(replace(options, engines=names), say=progress.say)
        except LabError as error:
            if len(names) == 1:
                raise
            progress.warn(f"{lacks[names[-1]]}: {error}")
            names = names[:-1]
            if len(names) == 1:
                options = replace(options, guests=None, further={}, cpus=None)


def _finish(form: str, progress: Progress, verbose: bool) -> campaign.Finish:
    def finish(path: Path) -> None:
        from swtch.report import story, verdicts

        replicated = story.tell(path)
        files = results.write_all(path, replicated)
        files.append(verdicts.write(path, replicated))
        if form == "table":
            verdicts.print_story(replicated, output.console(), verbose=verbose)
        else:
            rows = verdicts.rows(replicated.verdicts)
            emit = {
                "json": lambda: output.print_json({"schema": 1, "verdicts": replicated.verdicts}),
                "csv": lambda: output.print_csv(verdicts.for_csv(rows)),
                "md": lambda: output.print_markdown(rows, {c: c for c in verdicts.COLUMNS}),
            }
            emit[form]()
        sys.stdout.flush()
        for line in spending.summary(replicated.run.manifest, replicated.run.samples):
            progress.say(line)
        for file in files:
            progress.say(f"report: {file}")

    return finish
