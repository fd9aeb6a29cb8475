# SPDX-License-Identifier: Apache-2.0
"""The swtch lab: what does it cost to switch threads here, and why?

    import swtch

    run = swtch.run("ping", depth="quick")     # or "./mine.py", or nothing for all
    run.findings, run.verdicts, run.frame()    # polars frames; a notebook shows `run` itself
    run.compare(swtch.load("swtch-runs/before"))

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from swtch.data import Run

__version__ = "0.1.0"


def load(path: str | Path, *, trust: bool = False) -> Run:
    """The run directory `path` as data: its manifest, and polars frames (swtch.data).

    Code that came with somebody else's run is not run, unless you `trust` it.
    """
    from swtch.data import load

    return load(path, trust=trust)


def run(*experiments: str | Path, **options: Any) -> Run:
    """Measures the experiments, by name or by file, with the options of `swtch run` as
    swtch.api.run has them: depth ("quick" here), models, repeats, seed, policy, until, engine,
    guest, time_limit, out, quiet."""
    from swtch.api import run

    return run(*experiments, **options)
