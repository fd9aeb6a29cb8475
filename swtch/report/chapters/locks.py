# SPDX-License-Identifier: Apache-2.0
"""The chapter of `locks`: what waiting for a stopped owner costs, and how locks do under load."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.locks import HOLD_NS, NAME, TICK_NS
from swtch.records import Finding, Trial
from swtch.report import shapes
from swtch.report.charts import Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

_PLACES = {"same": "owner's worker", "other": "another worker"}
_LOCKS = {
    "mutex": "mutex",
    "inherit": "mutex, inherits",
    "spin": "spin lock",
    "naive": "exchange loop",
    "pthread": "pthread's mutex",
}


def name_of(trial: Trial) -> str:
    """Model and lock, in words."""
    return f"{trial.model}: {shapes.spoken(_LOCKS, trial.factors['lock'])}"


def _of(story: Story, place: Place, *modes: str) -> list[Finding]:
    return [f for f in story.findings_of(NAME, place) if f.trial.factors["mode"] in modes]


# ---- figures ----


def figures(story: Story) -> list[Figure]:
    makers = (_waste, _inversion, _contention)
    pictures = [maker(story, place) for place in story.places_of(NAME) for maker in makers]
    return [picture for picture in pictures if picture is not None]


def _rows(findings: Iterable[Finding], metric: str, *, placed: bool = True) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for finding in findings:
        interval = finding.intervals.get(metric)
        if interval is not None:
            series = (
                shapes.spoken(_PLACES, finding.trial.factors["place"])
                if placed
                else finding.trial.model
            )
            rows.append(shapes.of_interval(interval, case=name_of(finding.trial), series=series))
    # By lock, so that the two places stand side by side.
    order = list(dict.fromkeys(row["case"] for row in rows))
    return sorted(rows, key=lambda row: order.index(row["case"]))


def _waste(story: Story, place: Place) -> Figure | None:
    rows = _rows(_of(story, place, "handover"), "waste_ticks")
    if not rows:
        return None
    most = max(rows, key=lambda row: row["value"])
    return figure(
        shapes.forest(rows, "CPU time beyond the owner's work, in ticks (less is better)"),
        "fig-locks-waste" + place_suffix(place),
        f"What it takes to hand over a lock whose owner is stopped{place.beside}",
        f"Most: {most['case']}, {most['series']}, {number(most['value'])} ticks.",
        f"The owner works for {HOLD_NS / TICK_NS:g} ticks with the lock. What was spent beyond"
        " that until the waiter had it, median with its 95 % interval: turns of a waiter that"
        " spins, and the ticks themselves.",
    )


def _inversion(story: Story, place: Place) -> Figure | None:
    rows = _rows(_of(story, place, "inversion"), "wait_ticks", placed=False)
    if not rows:
        return None
    most = max(rows, key=lambda row: row["value"])
    return figure(
        shapes.forest(rows, "ticks until it had the lock (less is better)", legend=False),
        "fig-locks-inversion" + place_suffix(place),
        f"A waiter of high priority, its owner of low, four between them{place.beside}",
        f"Most: {most['case']}, {number(most['value'])} ticks.",
        "The four work twice as long as the owner each. Who inherits the waiter's priority comes"
        " before them, and gives the lock back after its own work.",
    )


def _contention(story: Story, place: Place) -> Figure | None:
    rows = _rows(_of(story, place, "contend"), "takes_m")
    for row in rows:
        row["series"] = shapes.spoken(
            {"owner's worker": "all on one worker", "another worker": "two on each of two"},
            row["series"],
        )
    rows = [row for row in rows if row["low"] > 0]
    if not rows:
        return None
    best = max(rows, key=lambda row: row["value"])
    unit = "a thousand instructions" if place.counting else "a microsecond"
    return figure(
        shapes.forest(rows, f"times taken {unit} (more is better)", log=True),
        "fig-locks-contend" + place_suffix(place),
        f"Four threads that do little else than lock{place.beside}",
        f"Most: {best['case']}, {best['series']}, {number(best['value'])}.",
        "Twenty additions with the lock, a hundred without. A mutex that is handed to the first"
        " waiter is fair, and slow where that waiter's worker has to wake up first.",
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    return [
        table
        for place in story.places_of(NAME)
        for table in (_handover(story, place), _contend(story, place))
    ]


def _n(finding: Finding) -> str:
    return f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else "")


def _pair(place: Place) -> str:
    return f"pair_{place.suffix()}"


def _handover(story: Story, place: Place) -> Table:
    rows = []
    before = ""
    for finding in _of(story, place, "handover", "inversion"):
        factors = finding.trial.factors
        inverted = factors["mode"] == "inversion"
        where = "inversion" if inverted else shapes.spoken(_PLACES, factors["place"])
        rows.append(
            Row(
                (
                    where,
                    name_of(finding.trial),
                    "–" if inverted else spread(finding.intervals.get("waste_ticks")),
                    "–" if inverted else count(finding, "waste_p90_ticks"),
                    spread(finding.intervals.get("wait_ticks")),
                    count(finding, _pair(place)),
                    count(finding, "donated"),
                    count(finding, "blocked"),
                    _n(finding),
                    gate_marks(finding),
                ),
                first=where != before,
            )
        )
        before = where
    unit = place.unit()
    return Table(
        f"Measured here, engine {place}: an owner that works for {HOLD_NS / TICK_NS:g} ticks of"
        f" {TICK_NS / 1e6:g} ms with the lock; CPU time beyond that, and the waiter's wait, medians"
        " with 95 % intervals; pair: take and give, alone",
        (
            *("waiter on", "lock", "beyond, ticks", "p90", "wait, ticks", f"pair, {unit}"),
            *("turns given", "workers asleep", "n", "gates"),
        ),
        2,
        tuple(rows),
    )


def _contend(story: Story, place: Place) -> Table:
    rows = []
    before = ""
    for finding in _of(story, place, "contend"):
        where = "one worker" if finding.trial.factors["place"] == "same" else "two workers"
        rows.append(
            Row(
                (
                    where,
                    name_of(finding.trial),
                    spread(finding.intervals.get("takes_m")),
                    spread(finding.intervals.get("take_cpu_ns")),
                    count(finding, "donated"),
                    count(finding, "preempted"),
                    _n(finding),
                    gate_marks(finding),
                ),
                first=where != before,
            )
        )
        before = where
    exact = place.counting
    return Table(
        f"Four threads that do little else than lock, engine {place}",
        (
            *("on", "lock", "taken a 1000 instructions" if exact else "taken a µs"),
            *("instructions of one" if exact else "CPU ns of one", "turns given", "preempted"),
            *("n", "gates"),
        ),
        2,
        tuple(rows),
    )


def _brief(story: Story, place: Place) -> list[Table]:
    """What fits a terminal."""
    wide, load = _handover(story, place), _contend(story, place)
    return [
        Table(
            f"An owner that is stopped with the lock, {place}: median [95 %]",
            wide.columns[:5],
            2,
            tuple(Row(row.cells[:5], row.first) for row in wide.rows),
        ),
        Table(
            load.caption, load.columns[:4], 2, tuple(Row(r.cells[:4], r.first) for r in load.rows)
        ),
    ]


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([t for place in story.places_of(NAME) for t in _brief(story, place)])
