# SPDX-License-Identifier: Apache-2.0
"""`swtch run`: plan, measure, report; or continue what was interrupted."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from swtch import own, plan
from swtch.commands import campaign, results
from swtch.engines import choice
from swtch.errors import EXIT_INTERRUPTED
from swtch.experiments import Experiment
from swtch.progress import Progress
from swtch.records import Model
from swtch.store import Writer


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a new run, as given."""

    experiments: tuple[str, ...]
    models: str | None
    out: Path | None
    form: str
    report: bool
    quiet: bool
    terms: campaign.Terms
    engine: choice.Options


def start(request: Request) -> int:
    """A new run from `request`, to its end."""
    return measure(request)[0]


def measure(request: Request) -> tuple[int, Path]:
    """The same, with the run directory."""
    models = plan.parse_models(request.models) if request.models is not None else None
    return carry_out(request, models, plan.choose(own.resolve(request.experiments), models))


def carry_out(
    request: Request, models: tuple[Model, ...] | None, chosen: tuple[Experiment, ...]
) -> tuple[int, Path]:
    """A new run of what was chosen."""
    progress = Progress(quiet=request.quiet)
    engine = choice.open_engine(request.engine, say=progress.say)
    shares = choice.shares(engine, models, plan.MODEL_NAMES, chosen)
    planned = campaign.make(request.terms, engine, shares)
    folder = request.out or campaign.RUNS / planned.manifest.run_id
    with (
        campaign.Told(progress, "run") as told,
        Writer.create(folder, planned.manifest, own.copies(planned.manifest)) as writer,
    ):
        told.writer = writer
        planned.announce(progress)
        if line := choice.left_out(shares, models):
            progress.say(line)
        finish = _finish(request.form, request.report, progress)
        return campaign.carry_out(writer, engine, planned.expected, progress, finish), folder
    return EXIT_INTERRUPTED, folder


def resume(path: Path, *, form: str, report: bool, quiet: bool) -> int:
    """Does what the run in `path` has no sample of yet."""
    progress = Progress(quiet=quiet)
    return campaign.resume(path, progress, _finish(form, report, progress), "run")


def _finish(form: str, report: bool, progress: Progress) -> campaign.Finish | None:
    if not report:
        return None

    def finish(path: Path) -> None:
        files = results.write_all(path)
        results.emit(path, form)
        sys.stdout.flush()
        for file in files:
            progress.say(f"report: {file}")

    return finish
