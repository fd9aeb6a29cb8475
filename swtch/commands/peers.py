# SPDX-License-Identifier: Apache-2.0
"""`swtch peers`: the experiment `work`, with the libraries and the work that are asked for.

Nothing here measures: it is a `swtch run` of one experiment with fewer trials, and is
resumed as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from swtch import plan
from swtch.commands import campaign, run
from swtch.engines import choice
from swtch.engines.native import NativeEngine
from swtch.errors import CannotError, RequestError, did_you_mean
from swtch.experiments import Experiment, Setting, work
from swtch.records import Model, Trial


def parse_work(text: str | None) -> tuple[str, ...]:
    """`text` is comma-separated; None: all. RequestError: there is no such work."""
    if text is None:
        return work.WORKS
    asked = [word.strip() for word in text.split(",") if word.strip()]
    for word in asked:
        if word not in work.WORKS:
            raise RequestError(
                f"--work: there is no work {word!r}.{did_you_mean(word, work.WORKS)}"
                f" Known are {', '.join(work.WORKS)}."
            )
    if not asked:
        raise RequestError(f"--work names no work; known are {', '.join(work.WORKS)}.")
    return tuple(asked)


def parse_peers(names: Sequence[str], built: frozenset[Model]) -> tuple[Model, ...]:
    """The libraries to measure, in their order; without names all that were built.

    RequestError: there is no such peer. CannotError: it, or none at all, was built.
    """
    for name in names:
        if name not in work.MODELS:
            raise RequestError(
                f"there is no peer {name!r}.{did_you_mean(name, work.MODELS)}"
                f" Known are {', '.join(work.MODELS)}."
            )
        if name not in built:
            raise CannotError(f"{name} is not built: 'make peers' does, or says what it needs.")
    models = tuple(m for m in work.MODELS if m in built and (not names or m in names))
    if not models or (not names and not built & {"pthread", "uthread"}):
        raise CannotError("the peers are not built: run 'make peers'.")
    return models


def narrowed(works: Sequence[str], models: tuple[Model, ...]) -> Experiment:
    """The experiment with these pieces of work and libraries alone."""

    def trials(setting: Setting) -> tuple[Trial, ...]:
        return tuple(t for t in work.trials(setting) if t.factors["work"] in works)

    return replace(work.EXPERIMENT, trials=trials, models=models)


def start(
    peers: Sequence[str],
    works: str | None,
    terms: campaign.Terms,
    *,
    out: Path | None,
    form: str,
    quiet: bool,
) -> int:
    """A new comparison, to its end; gives the exit code."""
    wanted = parse_work(works)
    models = parse_peers(peers, NativeEngine().workers)
    chosen = narrowed(wanted, models)
    if not any(
        work.can(model, row)
        for row in work.rows(terms.depth)
        if row.work in wanted
        for model in models
    ):
        raise RequestError(f"{', '.join(models)}: none of them does {', '.join(wanted)}.")
    request = run.Request(
        experiments=(work.NAME,),
        models=",".join(models),
        out=out,
        form=form,
        report=True,
        quiet=quiet,
        terms=terms,
        engine=choice.Options(),
    )
    return run.carry_out(request, plan.parse_models(",".join(models)), (chosen,))[0]
