# SPDX-License-Identifier: Apache-2.0
"""The chapter of `counters`: misses alone and in turns, by a processor or by a model."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Group, Place
from swtch.experiments.counters import EVENTS, KIB, MODES, NAME, SIZES, STRIDE, STRIDES, metric
from swtch.records import Finding
from swtch.report import shapes
from swtch.report.charts import COLOURS, INK, WIDTH, Figure, data, figure, place_suffix
from swtch.report.story import Story, number
from swtch.report.tables import Row, Table, gate_marks

CELLS = ((KIB, 0), *((size, stride) for stride in STRIDES for size in SIZES))
HOW = {"single": "alone", "switch": "in turns"}
SOURCES = {
    "paper": "the study's caches",
    "here": "this machine's caches",
    "prefetch": "this machine's caches with a prefetcher",
}


def figures(story: Story) -> list[Figure]:
    pictures = [
        _panels(story, place, geometry)
        for place in story.places_of(NAME)
        for geometry in _geometries(story, place)
    ]
    return [picture for picture in pictures if picture is not None]


def _geometries(story: Story, place: Place) -> list[str]:
    """Of the models that counted; an empty one for a processor's counters."""
    geometries = (str(g.trial.factors.get("geometry", "")) for g in story.groups_of(NAME, place))
    return list(dict.fromkeys(geometries))


def _geometry(finding: Finding) -> str:
    return str(finding.trial.factors.get("geometry", ""))


def _counted_by(place: Place, geometry: str) -> str:
    """Whose counts they are, in every title: a model's are never taken for a processor's."""
    if geometry:
        return f"a model of {SOURCES[geometry]}, {place}"
    return f"the processor's counters, {place}"


def _panels(story: Story, place: Place, geometry: str) -> Figure | None:
    import altair as alt

    panels = []
    for event, label in EVENTS.items():
        if event == "instructions":
            continue
        rows = []
        for finding in story.findings_of(NAME, place):
            if _geometry(finding) != geometry:
                continue
            for size in SIZES:
                for mode in MODES:
                    interval = finding.intervals.get(metric(mode, event, size, STRIDE))
                    if interval is not None:
                        more = {"x": size / KIB, "series": finding.trial.model}
                        rows.append(shapes.of_interval(interval, how=HOW[mode], **more))
        if rows:
            panels.append(_panel(rows, label))
    if not panels:
        return None
    by = _counted_by(place, geometry)
    return figure(
        alt.vconcat(*panels, spacing=14).resolve_scale(color="shared", strokeDash="shared"),
        f"fig-counters{'-' + geometry if geometry else ''}" + place_suffix(place),
        f"Misses of one unit of work, alone and in turns ({by})",
        "Load misses of L1i, L1d and dTLB over the size of each thread's array, stride"
        f" {STRIDE} bytes.",
        f"Counted by {by}. Dashed: one thread alone; solid: two in turns, which is one switch"
        " for each unit of work. The distance is what the switch adds. Both scales are"
        " logarithmic; one is added to each count, so that zero has a place too.",
    )


def _panel(rows: list[dict[str, Any]], label: str) -> Any:
    import altair as alt

    for row in rows:
        row["shown"] = 1 + max(0.0, row["value"])
    models = list(dict.fromkeys(row["series"] for row in rows))
    ticks = sorted({row["x"] for row in rows})
    dash = alt.Scale(domain=["in turns", "alone"], range=[[1, 0], [5, 4]])
    base = alt.Chart(data(rows)).encode(
        x=alt.X(
            "x:Q",
            title="array of each thread, KiB",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(values=ticks),
        ),
        y=alt.Y(
            "shown:Q",
            title="1 + misses a unit of work",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(tickCount=5, format="~s"),
        ),
        color=alt.Color(
            "series:N",
            scale=alt.Scale(domain=models, range=[COLOURS[model] for model in models]),
        ),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=alt.StrokeDash("how:N", scale=dash))
    dots = base.mark_point(filled=True, size=35, opacity=1)
    title = alt.TitleParams(label, anchor="start", color=INK, fontSize=13)
    return alt.layer(lines, dots).properties(width=WIDTH, height=170, title=title)


# ---- tables ----


def tables(story: Story) -> list[Table]:
    place_tables = []
    for place in story.places_of(NAME):
        for geometry in _geometries(story, place):
            place_tables.append(_results(story, place, geometry))
            counted = _cells(story, place, geometry)
            if counted.rows:
                place_tables.append(counted)
    return place_tables


def _group(story: Story, finding: Finding) -> Group:
    (group,) = (g for g in story.groups if g.trial.id == finding.trial.id)
    return group


def _by(story: Story, finding: Finding) -> str:
    """What counted, or why nothing did."""
    sources = []
    for sample in _group(story, finding).good:
        detail = sample.detail
        model = detail.get("model")
        if isinstance(model, dict):
            sources.append(_described(model))
        elif detail.get("counted"):
            kernel = "" if detail.get("kernel_counted") else ", without the kernel's share"
            share = min((v for k, v in sample.values.items() if k.startswith("running")), default=1)
            scaled = f", scaled up from {share:.0%} of the time" if share < 0.999 else ""
            sources.append(f"the processor{kernel}{scaled}")
        else:
            sources.append(f"nothing: {detail.get('uncounted', 'not asked')}")
    return "; ".join(dict.fromkeys(sources)) or "–"


def _described(model: dict[str, Any]) -> str:
    l1i, l1d, l2 = (f"{model[name][0] // KIB} KiB x {model[name][1]}" for name in _LEVELS)
    tlb = f"{model['tlb'][0]} x {model['tlb'][1]}"
    # Older runs knew no large pages.
    if "tlb2m" in model:
        tlb += f" and {model['tlb2m'][0]} x {model['tlb2m'][1]} for 2 MiB"
    if model.get("prefetch"):
        tlb += ", next-line prefetcher"
    left = "emptied" if model["flush"] else "kept"
    text = f"model: L1i {l1i}, L1d {l1d}, L2 {l2}, dTLB {tlb}, {left} at a switch of page tables"
    return f"{text} ({model['note']})" if model["note"] else text


_LEVELS = ("l1i", "l1d", "l2")


def _results(story: Story, place: Place, geometry: str) -> Table:
    """One row a trial: who counted, and whether the hand-overs were switches."""
    unit = "instructions" if place.counting else "µs"
    rows = []
    for finding in story.findings_of(NAME, place):
        if _geometry(finding) != geometry:
            continue
        wall = finding.intervals.get("wall_mi" if unit == "instructions" else "wall_ms")
        took = wall.estimate * (1e6 if unit == "instructions" else 1e3) if wall else None
        rows.append(
            Row(
                (
                    finding.trial.model,
                    _by(story, finding),
                    number(took) if took is not None else "–",
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=True,
            )
        )
    return Table(
        f"What counted, engine {place}" + (f", {SOURCES[geometry]}" if geometry else ""),
        ("model", "counted by", f"the trial took, {unit}", "n", "gates"),
        2,
        tuple(rows),
    )


def _pair(finding: Finding, event: str, size: int, stride: int) -> str:
    """Alone, in turns."""
    both = (finding.intervals.get(metric(mode, event, size, stride)) for mode in MODES)
    return ", ".join(number(round(interval.estimate, 1)) if interval else "–" for interval in both)


def _cells(story: Story, place: Place, geometry: str) -> Table:
    rows = []
    for finding in story.findings_of(NAME, place):
        if _geometry(finding) != geometry:
            continue
        first = True
        for size, stride in CELLS:
            if metric("single", "instructions", size, stride) not in finding.intervals:
                continue
            name = f"{size // KIB} KiB" if stride else "none"
            cells = [_pair(finding, event, size, stride) for event in EVENTS]
            interval = finding.intervals.get(
                metric("switch", "l1d", size, stride, per_thousand=True)
            )
            thousand = number(interval.estimate) if interval else "–"
            rows.append(
                Row((finding.trial.model, name, str(stride), *cells, thousand), first=first)
            )
            first = False
    return Table(
        f"For one unit of work, alone and in turns: {_counted_by(place, geometry)}; medians",
        ("model", "array", "stride", *EVENTS.values(), "L1d/1000 in turns"),
        3,
        tuple(rows),
    )


def _brief(story: Story, place: Place, geometry: str) -> Table:
    """What fits a terminal: the claims' stride."""
    table = _cells(story, place, geometry)
    rows = [row for row in table.rows if row.cells[2] in ("0", str(STRIDE))]
    kept = []
    last = ""
    for row in rows:
        kept.append(Row(row.cells[:-1], first=row.cells[0] != last))
        last = row.cells[0]
    names = ("L1i", "L1d", "dTLB", "instructions")
    title = f"Misses of one unit of work, {_counted_by(place, geometry)}: alone, in turns"
    return Table(title, ("model", "array", "stride", *names), 3, tuple(kept))


def terminal(story: Story) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for place in story.places_of(NAME):
        for geometry in _geometries(story, place):
            brief = _brief(story, place, geometry)
            shown += shapes.terminal([brief if brief.rows else _results(story, place, geometry)])
    return shown
