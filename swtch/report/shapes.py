# SPDX-License-Identifier: Apache-2.0
"""The kinds of picture that several chapters draw: a forest, curves, distributions.

Each takes rows of plain dicts and gives a chart; ``charts.figure`` makes a figure
of it. A row has ``series``, which has a colour, and what the function names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

from swtch.records import Interval, Scalar
from swtch.report.charts import APART, COLOURS, INK, WIDTH, data
from swtch.report.tables import Table

Rows = list[dict[str, Any]]

# A reader's font may be wider than the one the picture was laid out with: by so many
# units a character.
WIDER = 2
# A letter of an axis in a wide font.
LETTER = 8
# Curves of values within a factor of so much look flat.
FLAT = 4
# From so many on, rows of a case stand closer.
MANY_SLOTS = 5
LEAST_TICKS, MOST_TICKS = 3, 9

# For series that are no models, in this order; told apart by the colour-blind.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#8C7AE6")


# What a caption says where `of_interval` has marked a row so.
TOO_FEW = "Hollow, with a dotted bar: too few invocations for an interval; the range of them."


def of_interval(interval: Interval, **more: Any) -> dict[str, Any]:
    """A row with an estimate and its interval; ``few`` where that is only what was seen."""
    row = {"value": interval.estimate, "low": interval.low, "high": interval.high, **more}
    return row | {"few": True} if interval.method == "too few" else row


def colours(rows: Rows, known: Mapping[str, str] = COLOURS) -> Any:
    """A colour for each series: the known ones, then the palette in order."""
    import altair as alt

    series = list(dict.fromkeys(row["series"] for row in rows))
    spare = iter([c for c in PALETTE if c not in {known.get(name) for name in series}] * 9)
    chosen = [known.get(name) or next(spare) for name in series]
    return alt.Scale(domain=series, range=chosen)


def log_domain(rows: Rows) -> tuple[float, float]:
    """From below the least of the rows to above the greatest, on a logarithmic axis."""
    every = [row[name] for row in rows for name in ("low", "value", "high") if name in row]
    seen = [number for number in every if number > 0]
    least, most = min(seen, default=1.0), max(seen, default=1.0)
    room = max((most / least) ** 0.04, 1.04)
    return least / room, most * room


# Leading figures of the ticks of a logarithmic axis, from few to many.
_LEADING = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 6), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5))


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers within a logarithmic axis: the fewest that are at least three.

    Vega labels every whole multiple of a power of ten and drops what has no room, so that
    an axis reads 300, 500, 700, 900, 2000.
    """
    ticks: list[float] = []
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for leading in _LEADING:
        every = (float(f"{figure}e{power}") for power in powers for figure in leading)
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) >= LEAST_TICKS:
            break
    else:
        step = 10 ** math.floor(math.log10((high - low) / 2))
        step *= next(by for by in (5, 2, 1) if (high - low) / (by * step) >= 2 or by == 1)
        first = math.ceil(low / step)
        digits = max(0, -math.floor(math.log10(step)))
        ticks = [float(round(n * step, digits)) for n in range(first, math.floor(high / step) + 1)]
    # Ten powers of ten or more: every second or third is enough.
    return ticks[:: -(-len(ticks) // MOST_TICKS)]


def apart(ticks: Sequence[float], values: Sequence[float]) -> list[float]:
    """Those of the ticks of a logarithmic axis, WIDTH wide, whose labels do not touch.

    Vega's own way to leave labels out goes by the letters of another font than the reader's.
    """
    low, high = min(values), max(values)
    scale = WIDTH / math.log(high / low) if high > low else 0.0
    kept: list[float] = []
    end = -math.inf
    for tick in sorted(ticks):
        half = len(f"{tick:,.10g}") * LETTER / 2
        middle = math.log(tick / low) * scale
        if middle - half >= end + APART:
            kept.append(tick)
            end = middle + half
    return kept


def log_axis(rows: Rows, least: float = 1, most_ticks: int = MOST_TICKS) -> tuple[Any, Any]:
    """The scale and the axis for what is positive, as far as the rows reach.

    ``least``: an axis whose ends are nearer to one another than this makes hills of noise.
    """
    import altair as alt

    low, high = log_domain(rows)
    wider = max(1.0, math.sqrt(least * low / high))
    domain = [low / wider, high * wider]
    # Zero has no place on it: Vega draws it at the end of what is most.
    scale = alt.Scale(type="log", domain=domain, nice=False, clamp=True)
    ticks = log_ticks(*domain)
    return scale, alt.Axis(values=ticks[:: -(-len(ticks) // most_ticks)])


def _slots(rows: Rows) -> int:
    """Gives each row its place beside the middle of its case; how many a case has at most."""
    of: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        of.setdefault(row["case"], []).append(row)
    for own in of.values():
        for index, row in enumerate(own):
            row["slot"] = index - (len(own) - 1) / 2
    return max(map(len, of.values()), default=1)


def _by_certainty(rows: Rows) -> list[tuple[Rows, dict[str, Any], bool]]:
    """The rows with intervals and those without, each with its bar and whether dots are full:
    what is no interval does not look like one."""
    sure = [row for row in rows if not row.get("few")]
    few = [row for row in rows if row.get("few")]
    looks: list[tuple[Rows, dict[str, Any], bool]] = [
        (sure, {"strokeWidth": 3}, True),
        (few, {"strokeWidth": 2, "strokeDash": [2, 2]}, False),
    ]
    return [look for look in looks if look[0]]


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
    span: Sequence[dict[str, Any]] = (),
    width: int = WIDTH,
    values: bool = False,
    ticks_as: str = "",
    most_ticks: int = MOST_TICKS,
) -> Any:
    """One line a ``case``: a dot and its interval; ``line`` is where there is no difference.

    ``span``: rows of other charts, too, that a logarithmic axis has to reach. ``values``:
    each row's ``label`` stands at the right of it. ``ticks_as``: an expression of Vega for
    what is written at a tick.
    """
    import altair as alt

    cases = list(dict.fromkeys(row["case"] for row in rows))
    slots = _slots(rows)
    if log:
        reached = [*rows, *span, *(published or ()), *([{"value": line}] if line else ())]
        scale, ticks = log_axis(reached, most_ticks=most_ticks)
    else:
        scale, ticks = alt.Scale(zero=zero), alt.Axis(tickCount=8)
    if ticks_as:
        ticks.labelExpr = ticks_as
    x = alt.X("value:Q", title=axis, scale=scale, axis=ticks)
    y = alt.Y("case:N", title=None, sort=cases, axis=alt.Axis(labelLimit=280))
    shown = alt.Undefined if legend else None
    colour = alt.Color("series:N", scale=colours(rows, known), legend=shown)
    beside = alt.Scale(domain=[-slots / 2, slots / 2], nice=False)
    extra = {"yOffset": alt.YOffset("slot:Q", scale=beside)} if slots > 1 else {}
    here = data(rows)
    low = alt.X("low:Q", title=axis, scale=scale, axis=ticks)
    layers: list[Any] = []
    if line is not None:
        layers.append(
            alt.Chart(data([{"at": line}])).mark_rule(color=INK, opacity=0.6).encode(x="at:Q")
        )
    for some, bar, filled in _by_certainty(rows):
        seen = alt.Chart(data(some))
        dot: dict[str, Any] = {"filled": filled} | ({} if filled else {"strokeWidth": 1.5})
        layers += [
            seen.mark_rule(opacity=0.55, **bar).encode(
                x=low, x2="high:Q", y=y, color=colour, **extra
            ),
            seen.mark_point(size=70, opacity=1, **dot).encode(x=x, y=y, color=colour, **extra),
        ]
    if values:
        layers.append(
            alt.Chart(here)
            .mark_text(align="left", dx=8, fontSize=11, color=INK)
            .encode(x=alt.value(width), y=y, text="label:N")
        )
    if published:
        layers.append(
            alt.Chart(data(published))
            .mark_point(shape="diamond", size=75, strokeWidth=1.5, filled=False, color=INK)
            .encode(x=x, y=y)
        )
    each = (13 if slots < MANY_SLOTS else 9) * slots if slots > 1 else 20
    longest = max(map(len, cases), default=0)
    padding = {"left": 14 + longest * WIDER, "right": 14, "top": 14, "bottom": 14}
    if values:
        padding = {"left": 4 + longest, "right": 14, "top": 4, "bottom": 4}
    height = max(40, (each + 6) * len(cases))
    if values:
        height = 20 * len(cases)
    return alt.layer(*layers).properties(width=width, height=height, padding=padding)


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
    at: Any
    if ticks and log_x:
        at = alt.Axis(values=apart(ticks, [row["x"] for row in rows]))
    elif ticks:
        at = alt.Axis(values=list(ticks))
    else:
        at = alt.Undefined if log_x else alt.Axis(tickCount=8)
    x_scale = alt.Scale(type="log", nice=False, padding=12) if log_x else alt.Scale(zero=False)
    y_scale, y_ticks = log_axis(rows, FLAT) if log_y else (alt.Scale(zero=True), alt.Undefined)
    cut: dict[str, Any] = {"clip": True} if frame else {}
    if frame:
        y_scale = alt.Scale(domain=list(frame), nice=False)
    x = alt.X("x:Q", title=x_axis, scale=x_scale, axis=at)
    y = alt.Y("value:Q", title=y_axis, scale=y_scale, axis=y_ticks)
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
    ]
    low = alt.Y("low:Q", title=y_axis, scale=y_scale, axis=y_ticks)
    for some, bar, filled in _by_certainty(rows):
        seen = alt.Chart(data(some))
        layers += [
            seen.mark_rule(opacity=0.45, **bar, **cut).encode(
                x=x, y=low, y2="high:Q", color=colour
            ),
            seen.mark_point(filled=filled, size=55, opacity=1).encode(x=x, y=y, color=colour),
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
    """For each series the share of values above ``x``, on a scale that shows the tail.

    A row that has ``how`` is dashed by it, so that a series may have two curves.
    """
    import altair as alt

    shown = [row for row in rows if row["x"] > 0 and 0 < row["share"] < 1]
    for row in shown:
        row["beyond"] = 1 - row["share"]
    scale, ticks = log_axis([{"value": row["x"]} for row in shown])
    chart = (
        alt.Chart(data(shown))
        .mark_line(strokeWidth=2, interpolate="linear")
        .encode(
            x=alt.X("x:Q", title=x_axis, scale=scale, axis=ticks),
            y=alt.Y(
                "beyond:Q",
                title="share that took longer",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=[0.5, 0.1, 0.01, 0.001], format="~%"),
            ),
            color=alt.Color("series:N", scale=colours(shown, known)),
        )
    )
    if any("how" in row for row in shown):
        how = list(dict.fromkeys(row["how"] for row in shown))
        dash = alt.Scale(domain=how, range=[[1, 0], [5, 4], [1, 3]][: len(how)])
        chart = chart.encode(
            strokeDash=alt.StrokeDash("how:N", scale=dash, legend=alt.Legend(orient="bottom"))
        )
    return chart.properties(width=WIDTH, height=240)


def spoken(words: Mapping[str, str], factor: Scalar) -> str:
    """What people call a factor's value; one that another version has is called as it is."""
    return words.get(str(factor), str(factor))


def pooled(quantiles: Sequence[Sequence[Sequence[float]]], scale: float) -> Rows:
    """Of several invocations' [share, value] lists: the median value of each share."""
    import statistics

    by_share: dict[float, list[float]] = {}
    for curve in quantiles:
        for share, value in curve:
            by_share.setdefault(share, []).append(value * scale)
    return [{"share": s, "x": statistics.median(v)} for s, v in sorted(by_share.items())]


def terminal(tables: Sequence[Table]) -> list[RenderableType]:
    """The tables for `swtch show`."""
    return [_Shown(table) for table in tables if table.rows]


@dataclass(frozen=True)
class _Shown:
    """A table; where a terminal is too narrow for its columns, each row as lines of its own.
    Left to itself rich takes all width from the numbers, and shows none of them."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._least() <= options.max_width:
            yield self._columns()
        else:
            yield self._lines()

    def _least(self) -> int:
        """Columns with labels do not wrap, and others between words."""
        from rich.cells import cell_len

        table = self.table
        widths = []
        for index, column in enumerate(table.columns):
            cells = (column, *(row.cells[index] for row in table.rows))
            whole = index < table.labels
            parts = cells if whole else [word for cell in cells for word in cell.split()]
            widths.append(max(map(cell_len, parts), default=0))
        return sum(widths) + 3 * (len(widths) - 1)

    def _columns(self) -> RenderableType:
        from rich.table import Table as RichTable
        from rich.text import Text

        table = self.table
        rich_table = RichTable(
            title=table.caption, title_justify="left", show_edge=False, pad_edge=False
        )
        for index, column in enumerate(table.columns):
            label = index < table.labels
            rich_table.add_column(column, justify="left" if label else "right", no_wrap=label)
        for index, row in enumerate(table.rows):
            if row.first and index:
                rich_table.add_section()
            rich_table.add_row(*map(Text, row.cells))
        return rich_table

    def _lines(self) -> RenderableType:
        from rich.text import Text

        table = self.table
        lines = [table.caption, ""] if table.caption else []
        labels = [""] * table.labels
        for row in table.rows:
            # A label that is not repeated is that of the row above.
            own = row.cells[: table.labels]
            labels = [
                cell or ("" if row.first else above)
                for cell, above in zip(own, labels, strict=True)
            ]
            lines.append(", ".join(filter(None, labels)))
            values = zip(table.columns[table.labels :], row.cells[table.labels :], strict=True)
            lines += [f"  {name}: {cell}" for name, cell in values if cell]
        return Text("\n".join(lines))
