# SPDX-License-Identifier: Apache-2.0
"""Two runs, or a series of them, as one HTML page: under the same policy as a report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from swtch.analysis.comparison import LEVEL, Compared, Comparison
from swtch.report import shapes, unbroken
from swtch.report.charts import Figure, figure, need
from swtch.report.story import machine_line, number, spread, when

if TYPE_CHECKING:
    from swtch.analysis.pairing import Pairing
    from swtch.analysis.series import Series
    from swtch.commands.compare import Sides
    from swtch.store import Run

# Of each call: the colour in a picture, and the class of a badge.
COLOURS = {
    "slower": "#D55E00",
    "faster": "#009E73",
    "more": "#0072B2",
    "fewer": "#0072B2",
    "in part": "#CC79A7",
    "no difference": "#8A8F98",
    "too few": "#8A8F98",
}
LOOKS = {"slower": "differs", "faster": "holds"}
# So many lines of a forest are still a picture.
MOST_LINES = 40
MOST_SERIES = 24
# Dates of so many runs fit below an axis.
MOST_LEVEL = 5
# How to do without figures.
WITHOUT = "leave --html out"


def page(sides: Sides) -> str:
    """The page of `swtch compare`."""
    need(WITHOUT)
    return render(
        "compare.html.j2",
        sides=sides,
        a=sides.a,
        b=sides.b,
        comparison=sides.comparison,
        machines=[machine_line(run.manifest.environment) for run in (sides.a, sides.b)],
        looks=LOOKS,
        figures=_forests(sides.comparison),
        level=LEVEL,
        spread=spread,
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", text)


def render(template: str, **values: object) -> str:
    """A page of this package's templates."""
    from importlib import resources

    import jinja2

    templates = resources.files("swtch.report") / "templates"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=unbroken
    )
    css = (templates / "report.css").read_text(encoding="utf-8")
    text = (templates / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(
        css=css, when=when, number=number, measure=_measure, **values
    )


def _measure(metric: str, unit: str) -> str:
    """A metric and its unit in words; its name ends with the unit, and says it twice."""
    end = unit.lower().removesuffix("/s").replace("µ", "u")
    name = metric.removesuffix(f"_{end}").replace("_", " ")
    return f"{name}, {unit}" if unit else name


def _forests(comparison: Comparison) -> list[Figure]:
    """One picture a place: the families, and the trials that are called different."""
    families = comparison.families
    rows = [*families, *(row for row in comparison.trials if row.differs or not families)]
    places: dict[Pairing, list[Compared]] = {}
    for row in rows:
        places.setdefault(row.place, []).append(row)
    figures = []
    for place, own in places.items():
        lines = [
            shapes.of_interval(row.ratio, case=row.name, series=row.word)
            for row in own[:MOST_LINES]
        ]
        counts = all(row.better == "neither" for row in own)
        title = "B's count over A's" if counts else "B's cost over A's"
        right = "B counts more" if counts else "B is slower"
        chart = shapes.forest(lines, title, known=COLOURS, line=1, log=True)
        figures.append(
            figure(
                chart,
                f"fig-compare-{_slug(str(place))}",
                f"B over A: {place}",
                f"Ratios with their 95 % intervals; right of the line {right}.",
                f"Ratios with 95 % intervals; right of 1 {right}. The colour says what is called"
                " after adjustment for the number of comparisons.",
            )
        )
    return figures


def history(
    runs: Sequence[Run], traced: Sequence[Series], conditions: Mapping[str, str] | None = None
) -> str:
    """The page of `swtch history`; `conditions` are by run what was not as in the one before."""
    need(WITHOUT)
    marked = [
        series
        for series in traced
        if series.levels or any(point.changed is not None for point in series.points)
    ]
    return render(
        "history.html.j2",
        runs=runs,
        traced=traced,
        conditions=conditions or {},
        figures=[
            _course(series, index) for index, series in enumerate((marked or traced)[:MOST_SERIES])
        ],
        changes=sum(point.changed is not None for series in traced for point in series.points),
    )


def _course(series: Series, index: int) -> Figure:
    """One series over its runs: medians with the range of the invocations, changes marked."""
    import altair as alt

    from swtch.report.charts import INK, WIDTH, data

    rows = [
        {
            "run": f"{number_} · {when(point.created)[:10]}",
            "value": point.median,
            "low": min(point.values),
            "high": max(point.values),
            "changed": point.changed is not None,
        }
        for number_, point in enumerate(series.points, start=1)
    ]
    order = [str(row["run"]) for row in rows]
    angle = 0 if len(order) <= MOST_LEVEL else -40
    x = alt.X("run:N", title=None, sort=order, axis=alt.Axis(labelAngle=angle))
    y = alt.Y("value:Q", title=series.unit, scale=alt.Scale(zero=False))
    here = alt.Chart(data(rows))
    low = alt.Y("low:Q", title=series.unit, scale=alt.Scale(zero=False))
    marks = [row for row in rows if row["changed"]]
    layers = [
        here.mark_rule(strokeWidth=3, opacity=0.35, color="#0072B2").encode(
            x=x, y=low, y2="high:Q"
        ),
        here.mark_line(strokeWidth=1.5, color="#0072B2").encode(x=x, y=y),
        here.mark_point(filled=True, size=50, opacity=1, color="#0072B2").encode(x=x, y=y),
    ]
    if marks:
        layers.append(
            alt.Chart(data(marks))
            .mark_point(shape="diamond", size=190, filled=False, strokeWidth=2, color=INK)
            .encode(x=x, y=y)
        )
    return figure(
        alt.layer(*layers).properties(width=WIDTH, height=180),
        f"fig-history-{index}",
        f"{series.name}, engine {series.place}",
        f"{_measure(series.metric, series.unit)}, of each run.",
        f"Medians of {_measure(series.metric, series.unit)}, with the range of the invocations."
        + (" A diamond differs from the run before it." if marks else ""),
    )
