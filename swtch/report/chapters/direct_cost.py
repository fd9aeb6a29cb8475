# SPDX-License-Identifier: Apache-2.0
"""The chapter of `direct-cost`: one switch, by each way to ask for it."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.direct_cost import EXPERIMENT, NAME
from swtch.experiments.pair_overhead import shown_in, unit_of
from swtch.records import Finding
from swtch.report import shapes
from swtch.report.charts import Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks


def figures(story: Story) -> list[Figure]:
    pictures = [_costs(story, place) for place in story.places_of(NAME)]
    return [picture for picture in pictures if picture is not None]


def _way(finding: Finding) -> str:
    return f"{finding.trial.model}: {finding.trial.factors['way']}"


def _costs(story: Story, place: Place) -> Figure | None:
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows: list[dict[str, Any]] = []
    lost = []
    for finding in story.findings_of(NAME, place):
        interval = finding.intervals.get(f"cost_{ends}")
        if interval is None:
            continue
        # A logarithmic scale has no place for it; the table has.
        if interval.low <= 0:
            lost.append(_way(finding))
            continue
        rows.append(shapes.of_interval(interval, case=_way(finding), series=finding.trial.model))
    if not rows:
        return None
    shown = {row["case"] for row in rows}
    published = [
        {"case": f"{model}: {way}", "value": known.value}
        for (way, model, _), known in EXPERIMENT.published.items()
        if not place.counting and f"{model}: {way}" in shown
    ]
    chart = shapes.forest(
        rows,
        f"{unit} a switch (less is better)",
        log=True,
        published=published or None,
        legend=False,
    )
    least, most = (pick(rows, key=lambda row: row["value"]) for pick in (min, max))
    caption = (
        "Dot: median over invocations, bar: its 95 % interval; what the same calls take"
        " without a switch is taken off."
    )
    if published:
        caption += " Diamond: the study's figure, of another machine."
    if lost:
        caption += f" Not drawn, because it reaches zero: {', '.join(lost)}."
    return figure(
        chart,
        "fig-direct-cost" + place_suffix(place),
        f"What one switch costs, by who does it and how it is asked for{place.beside}",
        f"From {number(least['value'])} {unit} ({least['case']}) to {number(most['value'])}"
        f" {unit} ({most['case']}).",
        caption,
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    return [*(_results(story, place) for place in story.places_of(NAME)), _published()]


def _policy(story: Story, finding: Finding) -> str:
    """What the kernel granted, over the samples."""
    (group,) = (g for g in story.groups if g.trial.id == finding.trial.id)
    return ", ".join(sorted({str(s.detail.get("policy", "–")) for s in group.good})) or "–"


def _results(story: Story, place: Place) -> Table:
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows = []
    for finding in story.findings_of(NAME, place):
        intervals = finding.intervals
        rows.append(
            Row(
                (
                    _way(finding),
                    spread(intervals.get(f"cost_{ends}")),
                    spread(intervals.get(f"switch_{ends}")),
                    spread(intervals.get(f"single_{ends}")),
                    count(finding, "nvcsw"),
                    count(finding, "nivcsw"),
                    count(finding, "user_switches"),
                    count(finding, "single_switches"),
                    _policy(story, finding),
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=finding.trial.factors["way"] in ("pipe", "yield"),
            )
        )
    return Table(
        f"Measured here, engine {place}: one switch beyond its baseline, one hand-over in all"
        " (half of a round trip), and the baseline; medians with 95 % intervals. Switches:"
        " voluntary and involuntary by the kernel, in user space, and while one was alone",
        (
            *("way", f"cost {unit}", f"switch {unit}", f"single {unit}"),
            *("vol.", "invol.", "user", "alone", "policy", "n", "gates"),
        ),
        1,
        tuple(rows),
    )


def _brief(story: Story, place: Place) -> Table:
    """What fits a terminal."""
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows = tuple(
        Row(
            (
                _way(finding),
                spread(finding.intervals.get(f"cost_{ends}")),
                count(finding, f"switch_{ends}"),
                count(finding, f"single_{ends}"),
            ),
            first=finding.trial.factors["way"] in ("pipe", "yield"),
        )
        for finding in story.findings_of(NAME, place)
    )
    return Table(
        f"What a switch costs, {place}: median [95 %]",
        ("way", f"cost {unit}", "switch", "single"),
        1,
        rows,
    )


def _published() -> Table:
    return Table(
        "Published, on a Xeon D-1541 at 2.1 GHz",
        ("way", "µs", "source"),
        1,
        tuple(
            Row((f"{model}: {way}", f"{known.value:g}", known.source))
            for (way, model, _), known in EXPERIMENT.published.items()
        ),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([_brief(story, place) for place in story.places_of(NAME)])
