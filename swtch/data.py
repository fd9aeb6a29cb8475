# SPDX-License-Identifier: Apache-2.0
"""A run as data: the typed manifest, and polars frames of what was measured.

    import swtch

    run = swtch.load("swtch-runs/20260101T000000Z-0001")
    run.manifest.depth
    run.samples.group_by("trial").agg(pl.col("wall_ns").median())
    run.verdicts
    swtch.run("ping", depth="quick").compare(run)

A run, and what ``compare`` gives, shows itself in a notebook (report.notebook).

Frames are made when they are first asked for. In ``samples`` factors and values are
columns of their own names; ``metrics`` is long (one row a sample and metric) and has
what the report computes; ``findings`` has its intervals.

Rejected: pandas (a second frame library), one frame with nested columns (cannot be
written as CSV), lazy frames of samples.jsonl (its types differ from probe to probe).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swtch import cells, own, store, threads
from swtch.errors import RequestError
from swtch.own import guard
from swtch.records import Manifest, Sample

if TYPE_CHECKING:
    import polars as pl

    from swtch.analysis import comparison as analysis
    from swtch.report.story import Story

FRAMES = ("samples", "threads", "metrics", "findings", "verdicts")


@dataclass(frozen=True, repr=False)
class Run:
    """One run. ``stored`` is as it is on the disk; the frames are polars. What is to be said of
    it is a warning, unless the command line says it."""

    stored: store.Run
    warns: bool = True

    def __repr__(self) -> str:
        named = ", ".join(self.manifest.experiments)
        return f"<swtch run {self.manifest.run_id}: {named}; {self.stored.counted}; {self.path}>"

    def _repr_html_(self) -> str:
        from swtch.report.notebook import run_html

        return run_html(self._story)

    def frame(self, name: str = "samples") -> pl.DataFrame:
        """One of FRAMES by its name."""
        if name not in FRAMES:
            raise RequestError(f"there is no frame {name!r}; there are {', '.join(FRAMES)}.")
        frame: pl.DataFrame = getattr(self, name)
        return frame

    def compare(self, before: Run) -> Comparison:
        """How this run's costs compare with those of `before`."""
        from swtch.analysis import comparison

        a, b = before._story, self._story
        return Comparison(a.run, b.run, comparison.compare_groups(a.groups, b.groups))

    @property
    def complete(self) -> bool:
        """Every invocation of the plan was done."""
        return self.stored.complete

    @property
    def manifest(self) -> Manifest:
        return self.stored.manifest

    @property
    def path(self) -> Path:
        return self.stored.path

    @cached_property
    def samples(self) -> pl.DataFrame:
        """One row per invocation, failed ones too."""
        return _frame(sample_rows(self.stored.samples))

    @cached_property
    def threads(self) -> pl.DataFrame:
        """One row per thread of each sample, carriers too (``kind``)."""
        import msgspec

        rows = []
        for sample in self.stored.samples:
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
        for group in self._story.groups:
            units = {
                name: metric.unit
                for name, metric in findings.own_metrics(group.trial.experiment).items()
            }
            for sample in group.good:
                marks = ",".join(gates.check(group.trial, sample))
                for name, value in findings.metrics(sample).items():
                    rows.append(
                        {
                            **_place(group.trial.id, group.trial.experiment, sample),
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
            for name, interval in finding.intervals.items():
                rows.append(
                    {
                        "trial": trial.id,
                        "experiment": trial.experiment,
                        "model": trial.model,
                        "engine": trial.engine,
                        "guest": str(trial.factors.get("guest") or ""),
                        "metric": name,
                        "unit": interval.unit,
                        "estimate": interval.estimate,
                        "low": interval.low,
                        "high": interval.high,
                        "level": interval.level,
                        "n": interval.n,
                        "method": interval.method,
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

        run_story = story.tell(self.stored.path)
        if self.warns:
            _warn()
        return run_story


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two runs, as `swtch compare` has them: ``b`` against ``a``."""

    a: store.Run
    b: store.Run
    compared: analysis.Comparison

    def __repr__(self) -> str:
        calls = [row.word for row in self.compared.rows]
        tally = ", ".join(f"{calls.count(word)} {word}" for word in dict.fromkeys(calls))
        return f"<{self.b.manifest.run_id} against {self.a.manifest.run_id}: {tally or 'nothing'}>"

    def _repr_html_(self) -> str:
        from swtch.report.notebook import comparison_html

        return comparison_html(self.a, self.b, self.compared)

    def frame(self) -> pl.DataFrame:
        """One row per comparison, families first; ``ratio`` is B's cost over A's."""
        return _frame(
            [
                {
                    "name": row.name,
                    "place": str(row.place),
                    "model": row.model,
                    "metric": row.metric,
                    "unit": row.unit,
                    "a": row.a,
                    "b": row.b,
                    "ratio": row.ratio.estimate,
                    "low": row.ratio.low,
                    "high": row.ratio.high,
                    "p_adjusted": row.adjusted,
                    "called": row.word,
                }
                for row in self.compared.rows
            ]
        )


def load(path: str | Path, *, trust: bool = False) -> Run:
    """The run directory `path`; raises swtch.errors.CorruptError when it is none.

    `trust` has code run that came with it, as `swtch trust` does.
    """
    folder = Path(path)
    if trust:
        own.trust_run(folder, store.load_manifest(folder))
        guard.clear()
    run = Run(store.load(folder))
    _warn()
    return run


def _warn() -> None:
    """What there is to be said of code from outside, as warnings."""
    for line in (*guard.notices(), *guard.faults()):
        warnings.warn(line, stacklevel=3)
    guard.clear()


def sample_rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """One flat row per sample: factors and values are columns of their own names. Where such a
    name is another column's already, it has ``factor.`` or ``value.`` before it. Of a factor
    and a value with one name the value keeps it; one that says what the other says needs none."""
    unlike = {
        name
        for sample in samples
        for name in sample.factors.keys() & sample.values.keys()
        if sample.factors[name] != sample.values[name]
    }
    return [_row(sample, unlike) for sample in samples]


def _row(sample: Sample, unlike: set[str]) -> dict[str, Any]:
    """`unlike` are names that factors and values both have, and differ in."""
    head = {
        "seq": sample.seq,
        "block": sample.block,
        "experiment": sample.experiment,
        "trial": sample.trial_id,
        "model": sample.model,
        "engine": sample.engine,
    }
    state = {
        "status": sample.status,
        "error": sample.error,
        "elapsed_ns": sample.elapsed_ns,
        "steal_ns": sample.steal_ns,
        "interrupts": sample.interrupts,
        "busy_ns": sample.busy_ns,
        "own_ns": sample.own_ns,
        "throttled_ns": sample.throttled_ns,
        "elsewhere": "; ".join(f"{what}: {now}" for what, now in sample.elsewhere.items()),
    }
    fixed = head.keys() | state.keys()

    def named(kind: str, values: Mapping[str, Any], taken: set[str]) -> dict[str, Any]:
        return {f"{kind}.{k}" if k in taken else k: value for k, value in values.items()}

    factors = named("factor", sample.factors, fixed | unlike)
    return head | factors | state | named("value", sample.values, fixed)


def worded(kind: str, identity: str) -> str:
    """`identity` as text for any reader of CSV, which has no types: pandas and spreadsheets
    take 000.1 and 000.10 for one number, and study 000 for 0."""
    return identity if any(map(str.isalpha, identity)) else f"{kind} {identity}"


def for_csv(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with its ids `worded`, and without a formula (swtch.cells)."""
    import polars as pl

    kinds = [kind for kind in ("study", "claim") if kind in frame.columns]
    return cells.frame(
        frame.with_columns(
            pl.Series(kind, [worded(kind, identity) for identity in frame[kind]]) for kind in kinds
        )
    )


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
    threads.check_polars()
    import polars as pl

    columns = dict.fromkeys(key for row in rows for key in row)
    series = []
    for name in columns:
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and kinds - {int, float}:
            values = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        series.append(pl.Series(name, values, strict=False))
    return pl.DataFrame(series)
