# SPDX-License-Identifier: Apache-2.0
"""The chapter of `working-set`: maps of size and stride, and the curves of figures 3 and 5."""

from __future__ import annotations

import re
from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Place
from swtch.experiments.pair_overhead import shown_in, unit_of
from swtch.experiments.working_set import EXPERIMENT, KIB, NAME
from swtch.records import Finding, Model
from swtch.report import shapes
from swtch.report.charts import INK, WIDTH, Figure, data, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, gate_marks

# From a light to a dark colour would hide the first in one of the two themes.
STRIDES = {8: "#0072B2", 16: "#56B4E9", 32: "#009E73", 64: "#D55E00", 128: "#E69F00"}
STRIDES |= {256: "#CC79A7"}
SERIES = {f"stride {stride}": colour for stride, colour in STRIDES.items()}
STUDYS = {"process": "figure 3", "uthread": "figure 5"}


def figures(story: Story) -> list[Figure]:
    pictures = []
    for place in story.places_of(NAME):
        for model in dict.fromkeys(f.trial.model for f in story.findings_of(NAME, place)):
            pictures += [_map(story, place, model), _curves(story, place, model)]
    return [picture for picture in pictures if picture is not None]


def _of(finding: Finding) -> tuple[int, int]:
    factors = finding.trial.factors
    return int(str(factors["bytes"])), int(str(factors["stride"]))


def size_name(size: int) -> str:
    return f"{size // KIB} KiB" if size else "none"


def _measured(story: Story, place: Place, model: Model) -> list[tuple[int, int, Any]]:
    """(bytes, stride, interval) of the cells with a walk."""
    ends = unit_of(place.engine)
    return [
        (*_of(finding), finding.intervals[f"cost_{ends}"])
        for finding in story.findings_of(NAME, place)
        if finding.trial.model == model and _of(finding)[1] and f"cost_{ends}" in finding.intervals
    ]


def _direct(story: Story, place: Place, model: Model) -> float | None:
    ends = unit_of(place.engine)
    for finding in story.findings_of(NAME, place):
        if finding.trial.model == model and not _of(finding)[1]:
            interval = finding.intervals.get(f"cost_{ends}")
            return interval.estimate if interval else None
    return None


def _map(story: Story, place: Place, model: Model) -> Figure | None:
    cells = _measured(story, place, model)
    if not cells:
        return None
    unit = shown_in(place.engine)
    rows = [
        {
            "x": f"{size // KIB}",
            "y": str(stride),
            "value": interval.estimate,
            "label": _short(interval.estimate),
        }
        for size, stride, interval in sorted(cells, key=lambda cell: cell[:2])
    ]
    most = max(cells, key=lambda cell: cell[2].estimate)
    without = _direct(story, place, model)
    chart = shapes.heat(rows, "array, KiB", "stride, bytes", f"{unit} a switch")
    lead = f"Without a walk a switch costs {number(without)} {unit}. " if without else ""
    return figure(
        chart,
        f"fig-working-set-map-{model}" + place_suffix(place),
        f"{model}: what a switch costs, by array and stride{place.beside}",
        f"Most: {number(most[2].estimate)} {unit} with {size_name(most[0])} and stride {most[1]}.",
        f"{lead}Medians over invocations; the table has their intervals, which are wide where"
        " one walk takes as long as many switches.",
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"


def _caches(story: Story, place: Place) -> list[dict[str, Any]]:
    """Where this machine's L1d and L2 end, if its samples tell."""
    edges = []
    for name, label in (("l1d_kib", "L1d"), ("l2_kib", "L2")):
        known = [
            interval.estimate
            for finding in story.findings_of(NAME, place)
            if (interval := finding.intervals.get(name)) is not None and interval.estimate > 0
        ]
        if known:
            edges.append({"at": max(known), "label": label})
    return edges


def _curves(story: Story, place: Place, model: Model) -> Figure | None:
    import altair as alt

    cells = _measured(story, place, model)
    if len({size for size, _, _ in cells}) < 2:
        return None
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows = [
        shapes.of_interval(interval, x=size / KIB, series=f"stride {stride}")
        for size, stride, interval in sorted(cells, key=lambda cell: (cell[1], cell[0]))
    ]
    sizes = sorted({row["x"] for row in rows})
    points = _published_points(model, {row["series"] for row in rows}) if ends == "us" else []
    shown = [row["value"] for row in (*rows, *points)]
    # Intervals of large arrays are so wide that all else would be a flat line.
    room = (max(shown) - min(0.0, *shown)) * 0.08
    chart = shapes.curves(
        rows,
        "array of each thread, KiB",
        f"{unit} a switch",
        known=SERIES,
        frame=(min(0.0, *shown) - room, max(shown) + room),
        ticks=[size for size in sizes if size != 192],
    )
    marks = [edge for edge in _caches(story, place) if sizes[0] <= edge["at"] <= sizes[-1]]
    layers = [chart]
    if marks:
        rules = alt.Chart(data(marks)).encode(x=alt.X("at:Q"))
        layers.append(rules.mark_rule(color=INK, opacity=0.45, strokeDash=[4, 4]))
        layers.append(
            rules.mark_text(color=INK, opacity=0.8, align="left", dx=4, baseline="top").encode(
                y=alt.value(2), text="label:N"
            )
        )
    if points:
        colour = alt.Color("series:N", scale=shapes.colours(rows, SERIES))
        layers.append(
            alt.Chart(data(points))
            .mark_point(shape="diamond", size=85, strokeWidth=1.8, filled=False)
            .encode(x="x:Q", y="value:Q", color=colour)
        )
    most = max(rows, key=lambda row: row["value"])
    caption = (
        "Dot: median over invocations, bar: its 95 % interval, cut where it leaves the picture."
    )
    if points:
        caption += (
            f" Diamonds: what the study's text says of its {STUDYS[model]}, on a Xeon D-1541"
            " with L1d of 32 KB and L2 of 256 KB, in the colour of the stride."
        )
    return figure(
        alt.layer(*layers).properties(width=WIDTH, height=260),
        f"fig-working-set-curves-{model}" + place_suffix(place),
        f"{model}: what a switch costs, over the size of the arrays{place.beside}",
        f"Most: {number(most['value'])} {unit} at {number(most['x'])} KiB, {most['series']}.",
        caption,
    )


def _published_points(model: Model, series: set[str]) -> list[dict[str, Any]]:
    """The study's points of the strides that are drawn."""
    points = []
    for (case, of, _), known in EXPERIMENT.published.items():
        match = re.fullmatch(r"(\d+) KiB, stride (\d+)", case)
        if match and of == model and f"stride {match[2]}" in series:
            points.append(
                {"x": int(match[1]), "series": f"stride {match[2]}", "value": known.value}
            )
    return points


# ---- tables ----


def tables(story: Story) -> list[Table]:
    return [*(_results(story, place) for place in story.places_of(NAME)), _published()]


def _results(story: Story, place: Place) -> Table:
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    rows = []
    last = None
    for finding in story.findings_of(NAME, place):
        size, stride = _of(finding)
        intervals = finding.intervals
        rows.append(
            Row(
                (
                    finding.trial.model,
                    size_name(size),
                    str(stride),
                    spread(intervals.get(f"cost_{ends}")),
                    spread(intervals.get(f"switch_{ends}")),
                    spread(intervals.get(f"single_{ends}")),
                    number(float(str(finding.trial.factors["passes"]))),
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=(finding.trial.model, size) != last,
            )
        )
        last = (finding.trial.model, size)
    return Table(
        f"Measured here, engine {place}: one switch beyond the work, one unit of work with a"
        " hand-over, and one alone; medians with 95 % intervals",
        (
            *("model", "array", "stride", f"cost {unit}", f"switch {unit}", f"single {unit}"),
            *("passes", "n", "gates"),
        ),
        3,
        tuple(rows),
    )


def _brief(story: Story, place: Place) -> Table:
    """Sizes downwards, models across: what fits a terminal."""
    ends = unit_of(place.engine)
    unit = shown_in(place.engine)
    by_case: dict[tuple[int, int], dict[str, str]] = {}
    for finding in story.findings_of(NAME, place):
        interval = finding.intervals.get(f"cost_{ends}")
        by_case.setdefault(_of(finding), {})[finding.trial.model] = spread(interval)
    models = list(dict.fromkeys(f.trial.model for f in story.findings_of(NAME, place)))
    rows = []
    last = -1
    for (size, stride), by_model in sorted(by_case.items()):
        cells = (size_name(size), str(stride), *(by_model.get(model, "–") for model in models))
        rows.append(Row(cells, first=size != last))
        last = size
    return Table(
        f"What a switch costs, {place}: {unit}, median [95 %]",
        ("array", "stride", *models),
        2,
        tuple(rows),
    )


def _published() -> Table:
    return Table(
        "Published, on a Xeon D-1541 with 32 KB of L1d and 256 KB of L2: what the text says of"
        " its figures",
        ("array and stride", "model", "µs", "source"),
        2,
        tuple(
            Row((case, model, f"{known.value:g}", known.source))
            for (case, model, _), known in EXPERIMENT.published.items()
        ),
    )


def terminal(story: Story) -> list[RenderableType]:
    return shapes.terminal([_brief(story, place) for place in story.places_of(NAME)])
