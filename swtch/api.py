# SPDX-License-Identifier: Apache-2.0
"""`swtch run` for Python: measures, and gives the run as data.

The run directory is the same as that of the command, and is written as it is there: a
kernel that dies loses the invocation that was being measured.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from swtch import data
from swtch.commands import campaign, output
from swtch.commands import run as command
from swtch.engines import choice
from swtch.errors import EXIT_INTERRUPTED, RequestError
from swtch.plan import DEPTHS


def run(
    *experiments: str | os.PathLike[str],
    depth: str = "quick",
    models: Sequence[str] | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    policy: str | None = None,
    until: str | float | None = None,
    engine: str = "native",
    guest: str | None = None,
    time_limit: float = 60.0,
    out: str | os.PathLike[str] | None = None,
    quiet: bool = True,
) -> data.Run:
    """Measures the experiments, by name or by file; none means all there are.

    The options are those of `swtch run`. What the command line says in a line is raised as
    swtch.errors.LabError; Ctrl-C keeps what was measured and raises KeyboardInterrupt.
    """
    if depth not in DEPTHS:
        raise RequestError(f"there is no depth {depth!r}; there are {', '.join(DEPTHS)}.")
    if policy not in (None, "other", "batch", "fifo"):
        raise RequestError(f"there is no policy {policy!r}; there are other, batch, fifo.")
    if out is not None and not os.fspath(out):
        raise RequestError("out is empty; give a path, '.' for the folder where you are.")
    if isinstance(models, str):
        models = [models]
    request = command.Request(
        experiments=tuple(os.fspath(word) for word in experiments),
        models=",".join(models) if models is not None else None,
        out=Path(out) if out is not None else None,
        form="table",
        report=False,
        quiet=quiet,
        terms=campaign.Terms(
            depth=depth,
            repeats=repeats,
            seed=seed,
            policy=policy,
            time_limit_s=time_limit,
            target=None if until is None else output.parse_share("until", str(until)),
        ),
        engine=choice.Options(engines=choice.parse_engines(engine), guests=guest),
    )
    code, folder = command.measure(request)
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt(
            f"what was measured is kept; swtch run --resume {shlex.quote(str(folder))}"
        )
    return data.load(folder)
