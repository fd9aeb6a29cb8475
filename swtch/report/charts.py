# SPDX-License-Identifier: Apache-2.0
"""The figures: Altair charts rendered to SVG by vl-convert, without network.

SVG inside the page, not a scripted chart: it opens under a policy that forbids
all scripts, prints, and can be cut out. Text and axes take the page's colour
(``currentColor``), so one picture serves light and dark.

Rejected: Vega in the page (needs ``unsafe-eval``), PNG (blurred on a phone and
in print, two of each for light and dark).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from swtch.analysis import stats
from swtch.analysis.findings import metrics
from swtch.report.story import Story, number

if TYPE_CHECKING:
    import altair as alt

# Readable on white and on near-black; told apart by the colour-blind (Okabe-Ito).
COLOURS = {
    "pthread": "#0072B2",
    "kthread": "#D55E00",
    "process": "#CC79A7",
    "uthread": "#009E73",
    "coroutine": "#E69F00",
    "ucontext": "#8C7AE6",
}
INK = "#010203"  # stands for currentColor until the SVG is made
WIDTH = 560


@dataclass(frozen=True)
class Figure:
    """One picture. ``title`` and ``description`` are for who cannot see it, too."""

    id: str
    title: str
    description: str
    caption: str
    svg: str


def figures(story: Story, experiment: str) -> list[Figure]:
    """The figures of one experiment; those without data are left out."""
    makers = {
        "scenarios": (_throughput, _ratios, _switches, _sequence),
        "coroutine-gantt": (_gantt,),
    }
    made = [maker(story) for maker in makers.get(experiment, ())]
    return [figure for figure in made if figure is not None]


# ---- rendering ----


def _render(chart: alt.TopLevelMixin, name: str, title: str, description: str) -> str:
    import vl_convert

    spec = chart.to_dict()
    svg: str = vl_convert.vegalite_to_svg(spec)
    svg = svg.replace(INK, "currentColor")
    # A fixed size would overflow a phone; the viewBox keeps the proportions.
    svg = re.sub(r"<svg ([^>]*?)width=\"[\d.]+\" height=\"[\d.]+\"", r"<svg \1", svg, count=1)
    head = f'<svg role="img" aria-labelledby="{name}-t {name}-d" id="{name}" '
    svg = svg.replace("<svg ", head, 1)
    inside = svg.index(">") + 1
    labels = f'<title id="{name}-t">{escape(title)}</title>'
    labels += f'<desc id="{name}-d">{escape(description)}</desc>'
    return svg[:inside] + labels + svg[inside:]


def _themed(chart: Any) -> Any:
    font = "system-ui, -apple-system, 'Segoe UI', sans-serif"
    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.12,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "labelFont": font,
        "titleFont": font,
        "labelFontSize": 12,
        "labelOverlap": True,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    label = {"labelColor": INK, "titleColor": INK, "labelFont": font, "titleFont": font}
    return (
        chart.configure(background="transparent", font=font)
        .configure_axis(**axis)
        .configure_legend(**label, labelFontSize=12, orient="top", title=None, symbolSize=90)
        .configure_header(**label, labelFontSize=13, labelFontWeight="bold")
        .configure_view(stroke=None)
    )


def _scale(models: Sequence[str]) -> Any:
    import altair as alt

    known = [model for model in COLOURS if model in models]
    return alt.Scale(domain=known, range=[COLOURS[model] for model in known])


def _data(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.InlineData(values=rows)


def _scenario_rows(story: Story, metric: str) -> list[dict[str, Any]]:
    rows = []
    for finding in story.findings_of("scenarios"):
        made = finding.intervals.get(metric)
        if made is None or finding.trial.factors.get("control") == "b":
            continue
        rows.append(
            {
                "scenario": finding.trial.factors["scenario"],
                "model": finding.trial.model,
                "value": made.estimate,
                "low": made.low,
                "high": made.high,
            }
        )
    return rows


def _models(rows: list[dict[str, Any]]) -> list[str]:
    return [model for model in COLOURS if any(row["model"] == model for row in rows)]


# ---- scenarios ----


def _throughput(story: Story) -> Figure | None:
    import altair as alt

    rows = _scenario_rows(story, "throughput_mops")
    if not rows:
        return None
    models = _models(rows)
    experiment = next(e for e in story.experiments if e.name == "scenarios")
    published = [
        {"scenario": case, "model": model, "value": figure.value, "who": f"published, {model}"}
        for (case, model, metric), figure in experiment.published.items()
        if metric == "throughput_mops"
    ]
    x = alt.X("value:Q", title="Mops/s (more is better)", scale=alt.Scale(zero=True))
    y = alt.Y("model:N", title=None, sort=[*models, "kthread"])
    here = _data(rows)
    rules = (
        alt.Chart(here)
        .mark_rule(strokeWidth=3, opacity=0.55)
        .encode(
            x=alt.X("low:Q", title="Mops/s (more is better)"),
            x2="high:Q",
            y=y,
            color=alt.Color("model:N", scale=_scale([*models, "kthread"]), legend=None),
        )
    )
    points = (
        alt.Chart(here)
        .mark_point(filled=True, size=75, opacity=1)
        .encode(
            x=x, y=y, color=alt.Color("model:N", scale=_scale([*models, "kthread"]), legend=None)
        )
    )
    theirs = (
        alt.Chart(_data(published))
        .mark_point(shape="diamond", size=75, strokeWidth=1.5, filled=False)
        .encode(
            x=x, y=y, color=alt.Color("model:N", scale=_scale([*models, "kthread"]), legend=None)
        )
    )
    layers = (rules, points, theirs)
    chart = alt.vconcat(
        *[
            alt.layer(
                *(layer.transform_filter(f"datum.scenario == '{case}'") for layer in layers)
            ).properties(
                width=WIDTH,
                height=21 * (len(models) + 1),
                title=alt.TitleParams(case, anchor="start", color=INK, fontSize=13),
            )
            for case in dict.fromkeys(row["scenario"] for row in rows)
        ],
        spacing=6,
    ).resolve_scale(x="shared", color="shared")
    title = "Throughput by scenario and model"
    best = max(rows, key=lambda row: row["value"])
    description = (
        f"Highest here: {best['model']} in {best['scenario']} with {number(best['value'])} Mops/s."
    )
    return Figure(
        "fig-throughput",
        title,
        description,
        "Dot: median over invocations here, bar: its 95 % interval. Hollow diamond: the study's"
        " figure, from another machine (ARM64, 4 vCPUs); compare the pattern, not the height.",
        _render(_themed(chart), "fig-throughput", title, description),
    )


def _ratios(story: Story) -> Figure | None:
    import altair as alt

    from swtch.analysis.findings import compare

    groups = [g for g in story.groups_of("scenarios") if g.good]
    base = {
        g.trial.factors["scenario"]: g
        for g in groups
        if g.trial.model == "pthread" and g.trial.factors.get("control") != "b"
    }
    rows: list[dict[str, Any]] = []
    for one in groups:
        case = one.trial.factors["scenario"]
        if one.trial.model == "pthread" or case not in base:
            continue
        ratio = compare(one, base[case])
        if ratio is not None:
            rows.append(
                {
                    "case": f"{case} {one.trial.model}",
                    "model": one.trial.model,
                    "value": ratio.estimate,
                    "low": ratio.low,
                    "high": ratio.high,
                }
            )
    if not rows:
        return None
    order = [row["case"] for row in rows]
    models = _models(rows)
    layers = []
    if story.controls:
        control = story.controls[0].ratio
        band = [{"low": min(control.low, 1), "high": max(control.high, 1)}]
        layers.append(
            alt.Chart(_data(band)).mark_rect(opacity=0.10, color=INK).encode(x="low:Q", x2="high:Q")
        )
    layers.append(
        alt.Chart(_data([{"one": 1}])).mark_rule(color=INK, opacity=0.6).encode(x="one:Q")
    )
    y = alt.Y("case:N", title=None, sort=order)
    colour = alt.Color("model:N", scale=_scale(models), legend=None)
    x = alt.X(
        "value:Q",
        title="throughput relative to pthread in the same scenario",
        scale=alt.Scale(zero=False),
    )
    layers.append(
        alt.Chart(_data(rows))
        .mark_rule(strokeWidth=3, opacity=0.55)
        .encode(
            x=alt.X(
                "low:Q",
                title="throughput relative to pthread in the same scenario",
                scale=alt.Scale(zero=False),
            ),
            x2="high:Q",
            y=y,
            color=colour,
        )
    )
    layers.append(
        alt.Chart(_data(rows))
        .mark_point(filled=True, size=75, opacity=1)
        .encode(x=x, y=y, color=colour)
    )
    chart = alt.layer(*layers).properties(width=WIDTH, height=19 * len(rows))
    title = "Each model against pthread"
    clear = sum(row["low"] > 1 or row["high"] < 1 for row in rows)
    description = f"{clear} of {len(rows)} ratios have an interval that excludes 1."
    return Figure(
        "fig-ratios",
        title,
        description,
        "Ratio of medians, compared block by block, with its 95 % interval. Right of the line:"
        " faster than pthreads. The grey band is a pthread trial against its own copy: what this"
        " run cannot tell from noise.",
        _render(_themed(chart), "fig-ratios", title, description),
    )


def _switches(story: Story) -> Figure | None:
    import altair as alt

    names = {"nvcsw": "voluntary", "nivcsw": "involuntary", "user_switches": "in user space"}
    rows: list[dict[str, Any]] = []
    for finding in story.findings_of("scenarios"):
        if finding.trial.factors.get("control") == "b":
            continue
        for metric, kind in names.items():
            made = finding.intervals.get(metric)
            if made is not None and made.estimate > 0:
                rows.append(
                    {
                        "case": f"{finding.trial.factors['scenario']} {finding.trial.model}",
                        "kind": kind,
                        "value": made.estimate,
                    }
                )
    if not rows:
        return None
    order = list(dict.fromkeys(row["case"] for row in rows))
    chart = (
        alt.Chart(_data(rows))
        .mark_bar(height=11)
        .encode(
            x=alt.X(
                "value:Q",
                title="switches in one invocation (median)",
                axis=alt.Axis(tickCount=6),
            ),
            y=alt.Y("case:N", title=None, sort=order),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(
                    domain=list(names.values()), range=["#0072B2", "#E69F00", "#009E73"]
                ),
            ),
        )
        .properties(width=WIDTH, height=17 * len(order))
    )
    title = "Switches in one invocation"
    description = "Voluntary and involuntary as the kernel counts them, and those in user space."
    return Figure(
        "fig-switches",
        title,
        description,
        "400 interventions are asked for in B and C. The kernel counts a yield as involuntary,"
        " because the thread stays runnable; a sleep as voluntary. Models in user space switch"
        " without the kernel; a coroutine's round trip through its scheduler counts twice.",
        _render(_themed(chart), "fig-switches", title, description),
    )


def _sequence(story: Story) -> Figure | None:
    import altair as alt

    rows: list[dict[str, Any]] = []
    for one in story.groups_of("scenarios"):
        values = one.values("throughput_mops")
        if not values:
            continue
        centre = float(stats.median(values))
        rows += [
            {
                "seq": sample.seq,
                "model": one.trial.model,
                "value": metrics(sample)["throughput_mops"] / centre,
            }
            for sample in one.good
        ]
    if not rows:
        return None
    chart = (
        alt.Chart(_data(rows))
        .mark_circle(size=26, opacity=0.75)
        .encode(
            x=alt.X("seq:Q", title="order in which the run did them"),
            y=alt.Y("value:Q", title="relative to the trial's median", scale=alt.Scale(zero=False)),
            color=alt.Color("model:N", scale=_scale(_models(rows))),
        )
        .properties(width=WIDTH, height=190)
    )
    title = "Every invocation in the order it ran"
    low, high = min(r["value"] for r in rows), max(r["value"] for r in rows)
    description = f"{len(rows)} invocations, from {number(low)} to {number(high)} of their median."
    return Figure(
        "fig-sequence",
        title,
        description,
        "Trials are interleaved in random order, so a drift or a disturbance of the machine shows"
        " as a slope or a cluster here and not as a difference between models.",
        _render(_themed(chart), "fig-sequence", title, description),
    )


# ---- coroutine-gantt ----


def _gantt(story: Story) -> Figure | None:
    import altair as alt

    charts: dict[str, list[dict[str, Any]]] = {}
    for one in story.groups_of("coroutine-gantt"):
        order = str(one.trial.factors["order"])
        if one.good and order not in charts:
            charts[order] = [
                {
                    "slot": slot["slot"],
                    "end": slot["slot"] + 1,
                    "task": f"coroutine {slot['task']}",
                    "iteration": slot["iteration"],
                }
                for slot in one.good[0].detail["slots"]
            ]
    if not charts:
        return None
    drawn = []
    for order, rows in charts.items():
        tasks = sorted({row["task"] for row in rows})
        base = alt.Chart(_data(rows)).encode(y=alt.Y("task:N", title=None, sort=tasks))
        bars = base.mark_bar(height=17, cornerRadius=2).encode(
            x=alt.X(
                "slot:Q",
                title="slot",
                scale=alt.Scale(domain=[0, len(rows)], nice=False),
                axis=alt.Axis(tickMinStep=1, grid=True),
            ),
            x2="end:Q",
            color=alt.Color(
                "task:N",
                legend=None,
                scale=alt.Scale(
                    domain=tasks, range=["#0072B2", "#E69F00", "#009E73", "#D55E00", "#8C7AE6"]
                ),
            ),
        )
        text = (
            base.transform_calculate(mid="datum.slot + 0.5")
            .mark_text(fontSize=11, color="white")
            .encode(x="mid:Q", text="iteration:N")
        )
        drawn.append(
            (bars + text).properties(
                width=WIDTH,
                height=23 * len(tasks),
                title=alt.TitleParams(order, anchor="start", color=INK, fontSize=13),
            )
        )
    chart = alt.vconcat(*drawn, spacing=14).resolve_scale(color="shared")
    title = "Who ran when"
    description = "; ".join(
        f"{order}: " + " ".join(row["task"].rpartition(" ")[2] for row in rows)
        for order, rows in charts.items()
    )
    return Figure(
        "fig-gantt",
        title,
        description,
        "One box is one iteration of one coroutine, numbered. Round robin is the study's figure 3,"
        " slot for slot; priority and time-slice scheduling are its future work.",
        _render(_themed(chart), "fig-gantt", title, description),
    )
