# SPDX-License-Identifier: Apache-2.0
"""The kinds of picture that several chapters draw: a forest, curves, distributions.

Each takes rows of plain dicts and gives a chart; ``charts.figure`` makes a figure
of it. A row has ``series``, which has a colour, and what the function names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from swtch.records import Interval
from swtch.report.charts import COLOURS, INK, WIDTH, data
from swtch.report.tables import Table

Rows = list[dict[str, Any]]

# A reader's font may be wider than the one the picture was laid out with: by so many
# units a character, and labels of an axis stay so far apart.
WIDER = 2
APART = 8

# For series that are no models, in this order; told apart by the colour-blind.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#8C7AE6")


def of_interval(made: Interval, **more: Any) -> dict[str, Any]:
    """A row with an estimate and its interval."""
    return {"value": made.estimate, "low": made.low, "high": made.high, **more}


def colours(rows: Rows, known: Mapping[str, str] = COLOURS) -> Any:
    """A colour for each series: the known ones, then the palette in order."""
    import altair as alt

    series = list(dict.fromkeys(row["series"] for row in rows))
    spare = iter([c for c in PALETTE if c not in {known.get(name) for name in series}] * 9)
    chosen = [known.get(name) or next(spare) for name in series]
    return alt.Scale(domain=series, range=chosen)


def forest(
    rows: Rows,
    axis: str,
    *,
    known: Mapping[str, str] = COLOURS,
    log: bool = False,
    line: float | None = None,
    zero: bool = False,
    published: Rows | None = None,
    legend: bool = True,
    tight: bool = False,
) -> Any:
    """One line a ``case``: a dot and its interval; ``line`` is where there is no difference.

    ``tight``: the axis ends where the values do, not at the next power of ten.
    """
    import altair as alt

    cases = list(dict.fromkeys(row["case"] for row in rows))
    near: dict[str, Any] = {"nice": False, "padding": 16} if tight else {}
    values = alt.Scale(type="log", **near) if log else alt.Scale(zero=False)
    ticks = alt.Axis(labelSeparation=APART)
    x = alt.X("value:Q", title=axis, scale=values, axis=ticks)
    y = alt.Y("case:N", title=None, sort=cases, axis=alt.Axis(labelLimit=280))
    shown = alt.Undefined if legend else None
    colour = alt.Color("series:N", scale=colours(rows, known), legend=shown)
    offset = alt.YOffset("series:N")
    crowded = len({(row["case"], row["series"]) for row in rows}) > len(cases)
    extra = {"yOffset": offset} if crowded else {}
    here = data(rows)
    low = alt.X("low:Q", title=axis, scale=values, axis=ticks)
    layers: list[Any] = []
    if line is not None:
        layers.append(
            alt.Chart(data([{"at": line}])).mark_rule(color=INK, opacity=0.6).encode(x="at:Q")
        )
    layers += [
        alt.Chart(here)
        .mark_rule(strokeWidth=3, opacity=0.55)
        .encode(x=low, x2="high:Q", y=y, color=colour, **extra),
        alt.Chart(here)
        .mark_point(filled=True, size=70, opacity=1)
        .encode(x=x, y=y, color=colour, **extra),
    ]
    if published:
        layers.append(
            alt.Chart(data(published))
            .mark_point(shape="diamond", size=75, strokeWidth=1.5, filled=False, color=INK)
            .encode(x=x, y=y)
        )
    each = 13 * max(1, len({row["series"] for row in rows})) if crowded else 20
    longest = max(map(len, cases), default=0)
    padding = {"left": 14 + longest * WIDER, "right": 14, "top": 14, "bottom": 14}
    height = max(40, (each + 6) * len(cases))
    return alt.layer(*layers).properties(width=WIDTH, height=height, padding=padding)


def curves(
    rows: Rows,
    x_axis: str,
    y_axis: str,
    *,
    known: Mapping[str, str] = COLOURS,
    log_x: bool = True,
    log_y: bool = False,
    line: float | None = None,
    ticks: Sequence[float] = (),
    frame: tuple[float, float] | None = None,
) -> Any:
    """A curve for each series through its points at ``x``, with their intervals.

    ``frame`` is what of the values is shown; an interval that leaves it is cut.
    """
    import altair as alt

    colour = alt.Color("series:N", scale=colours(rows, known))
    at = alt.Axis(values=list(ticks)) if ticks else alt.Undefined
    x_scale = alt.Scale(type="log", nice=False, padding=12) if log_x else alt.Scale(zero=False)
    y_scale = alt.Scale(type="log") if log_y else alt.Scale(zero=True)
    cut: dict[str, Any] = {"clip": True} if frame else {}
    if frame:
        y_scale = alt.Scale(domain=list(frame), nice=False)
    x = alt.X("x:Q", title=x_axis, scale=x_scale, axis=at)
    y = alt.Y("value:Q", title=y_axis, scale=y_scale)
    here = data(rows)
    layers: list[Any] = []
    if line is not None:
        layers.append(
            alt.Chart(data([{"at": line}])).mark_rule(color=INK, opacity=0.5).encode(y="at:Q")
        )
    layers += [
        alt.Chart(here)
        .mark_line(strokeWidth=1.5, opacity=0.7, **cut)
        .encode(x=x, y=y, color=colour),
        alt.Chart(here)
        .mark_rule(strokeWidth=3, opacity=0.45, **cut)
        .encode(x=x, y=alt.Y("low:Q", title=y_axis, scale=y_scale), y2="high:Q", color=colour),
        alt.Chart(here).mark_point(filled=True, size=55, opacity=1).encode(x=x, y=y, color=colour),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=240)


def heat(rows: Rows, x_axis: str, y_axis: str, legend: str) -> Any:
    """A cell for each ``x`` and ``y``, both names in the rows' order, coloured by its value."""
    import altair as alt

    across = list(dict.fromkeys(row["x"] for row in rows))
    upwards = list(dict.fromkeys(row["y"] for row in rows))
    values = [row["value"] for row in rows]
    middle = (min(values) + max(values)) / 2
    base = alt.Chart(data(rows)).encode(
        x=alt.X("x:O", title=x_axis, sort=across, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("y:O", title=y_axis, sort=upwards[::-1]),
    )
    # Both ends are readable on white and on black, and the label on both.
    shade = alt.Scale(range=["#FDE9C9", "#B5302A"])
    cells = base.mark_rect().encode(
        color=alt.Color("value:Q", scale=shade, legend=alt.Legend(title=legend))
    )
    label = alt.condition(f"datum.value > {middle!r}", alt.value("#FFFFFF"), alt.value("#202020"))
    text = base.mark_text(fontSize=10.5).encode(text="label:N", color=label)
    return alt.layer(cells, text).properties(width=WIDTH, height=max(60, 24 * len(upwards)))


def distributions(rows: Rows, x_axis: str, *, known: Mapping[str, str] = COLOURS) -> Any:
    """For each series the share of values not above ``x``, on a scale that shows the tail."""
    import altair as alt

    shown = [row for row in rows if row["x"] > 0 and 0 < row["share"] < 1]
    for row in shown:
        row["beyond"] = 1 - row["share"]
    chart = (
        alt.Chart(data(shown))
        .mark_line(strokeWidth=2, interpolate="linear")
        .encode(
            x=alt.X(
                "x:Q",
                title=x_axis,
                scale=alt.Scale(type="log"),
                axis=alt.Axis(labelSeparation=APART),
            ),
            y=alt.Y(
                "beyond:Q",
                title="share that took longer",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=[0.5, 0.1, 0.01, 0.001], format="~%"),
            ),
            color=alt.Color("series:N", scale=colours(shown, known)),
        )
    )
    return chart.properties(width=WIDTH, height=240)


def pooled(quantiles: Sequence[Sequence[Sequence[float]]], scale: float) -> Rows:
    """Of several invocations' [share, value] lists: the median value of each share."""
    import statistics

    by_share: dict[float, list[float]] = {}
    for one in quantiles:
        for share, value in one:
            by_share.setdefault(share, []).append(value * scale)
    return [{"share": s, "x": statistics.median(v)} for s, v in sorted(by_share.items())]


def terminal(tables: Sequence[Table]) -> list[RenderableType]:
    """The tables for `swtch show`."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown: list[RenderableType] = []
    for made in tables:
        if not made.rows:
            continue
        table = RichTable(title=made.caption, title_justify="left", show_edge=False, pad_edge=False)
        for index, column in enumerate(made.columns):
            label = index < made.labels
            table.add_column(column, justify="left" if label else "right", no_wrap=label)
        for index, row in enumerate(made.rows):
            if row.first and index:
                table.add_section()
            table.add_row(*map(Text, row.cells))
        shown.append(table)
    return shown
