# SPDX-License-Identifier: Apache-2.0
"""A run as data: the typed manifest, and polars frames of what was measured.

    import swtch

    run = swtch.load("swtch-runs/20260101T000000Z-0001")
    run.manifest.depth
    run.samples.group_by("trial").agg(pl.col("wall_ns").median())

Frames are made when they are first asked for. In ``samples`` factors and values are
columns of their own names; ``metrics`` is long (one row a sample and metric) and has
what the report computes; ``findings`` has its intervals.

Rejected: pandas (a second frame library), one frame with nested columns (cannot be
written as CSV), lazy frames of samples.jsonl (its types differ from probe to probe).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swtch import store
from swtch.records import Manifest, Sample

if TYPE_CHECKING:
    import polars as pl

    from swtch.report.story import Story

FRAMES = ("samples", "threads", "metrics", "findings", "verdicts")


@dataclass(frozen=True)
class Data:
    """One run. ``run`` is as stored; the frames are polars."""

    run: store.Run

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    @property
    def path(self) -> Path:
        return self.run.path

    @cached_property
    def samples(self) -> pl.DataFrame:
        """One row per invocation, failed ones too."""
        return _frame(sample_rows(self.run.samples))

    @cached_property
    def threads(self) -> pl.DataFrame:
        """One row per thread of each sample, carriers too (``kind``)."""
        import msgspec

        rows = []
        for sample in self.run.samples:
            for kind, records in (("thread", sample.threads), ("carrier", sample.carriers)):
                for record in records:
                    head = {"seq": sample.seq, "trial": sample.trial_id, "kind": kind}
                    rows.append({**head, **msgspec.structs.asdict(record)})
        return _frame(rows)

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """One row per good sample and metric, with the gates that mark the sample."""
        from swtch.analysis import findings, gates

        rows = []
        for one in self._story.groups:
            units = {
                name: metric.unit
                for name, metric in findings.own_metrics(one.trial.experiment).items()
            }
            for sample in one.good:
                marks = ",".join(gates.check(one.trial, sample))
                for name, value in findings.metrics(sample).items():
                    rows.append(
                        {
                            **_place(one.trial.id, one.trial.experiment, sample),
                            "seq": sample.seq,
                            "block": sample.block,
                            "metric": name,
                            "unit": {**findings.UNITS, **units}[name],
                            "value": float(value),
                            "gates": marks,
                        }
                    )
        return _frame(rows)

    @cached_property
    def findings(self) -> pl.DataFrame:
        """One row per trial and metric: the estimate and its interval."""
        rows = []
        for finding in self._story.findings:
            trial = finding.trial
            for name, made in finding.intervals.items():
                rows.append(
                    {
                        "trial": trial.id,
                        "experiment": trial.experiment,
                        "model": trial.model,
                        "engine": trial.engine,
                        "guest": str(trial.factors.get("guest") or ""),
                        "metric": name,
                        "unit": made.unit,
                        "estimate": made.estimate,
                        "low": made.low,
                        "high": made.high,
                        "level": made.level,
                        "n": made.n,
                        "method": made.method,
                    }
                )
        return _frame(rows)

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """One row per claim and place."""
        rows = []
        for verdict in self._story.verdicts:
            here = verdict.here
            rows.append(
                {
                    "study": verdict.study,
                    "claim": verdict.claim,
                    "text": verdict.text,
                    "published": verdict.published,
                    "estimate": here.estimate if here else None,
                    "low": here.low if here else None,
                    "high": here.high if here else None,
                    "unit": here.unit if here else None,
                    "n": here.n if here else None,
                    "engine": verdict.engine,
                    "guest": verdict.guest,
                    "verdict": verdict.verdict,
                    "why": verdict.why,
                }
            )
        return _frame(rows)

    @cached_property
    def _story(self) -> Story:
        from swtch.report import story

        return story.tell(self.run.path)


def load(path: str | Path) -> Data:
    """The run directory `path`; raises swtch.errors.CorruptError when it is none."""
    return Data(store.load(Path(path)))


def sample_rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """One flat row per sample. Columns without a clash of names: factors and values
    are flat."""
    return [
        {
            "seq": sample.seq,
            "block": sample.block,
            "experiment": sample.experiment,
            "trial": sample.trial_id,
            "model": sample.model,
            "engine": sample.engine,
            **sample.factors,
            "status": sample.status,
            "error": sample.error,
            "elapsed_ns": sample.elapsed_ns,
            "steal_ns": sample.steal_ns,
            "interrupts": sample.interrupts,
            **sample.values,
        }
        for sample in samples
    ]


def _place(trial: str, experiment: str, sample: Sample) -> dict[str, str]:
    return {
        "trial": trial,
        "experiment": experiment,
        "model": sample.model,
        "engine": sample.engine,
        "guest": str(sample.factors.get("guest") or ""),
    }


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A column of numbers and text (a factor of two experiments) becomes text."""
    import polars as pl

    columns = dict.fromkeys(key for row in rows for key in row)
    made = []
    for name in columns:
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and kinds - {int, float}:
            values = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        made.append(pl.Series(name, values, strict=False))
    return pl.DataFrame(made)
