# SPDX-License-Identifier: Apache-2.0
"""The chapter of `scenarios`: throughput, ratios, switches, run sequence, per place."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from swtch.analysis import stats
from swtch.analysis.findings import Place, metrics, ratio_interval
from swtch.experiments.scenarios import EXPERIMENT, RUN_CV
from swtch.records import Finding
from swtch.report import shapes
from swtch.report.charts import INK, WIDTH, Figure, data, figure, models_of, place_suffix, scale
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

SPEEDS = {
    "throughput_mops": "Mops/s",
    "throughput_opki": "increments per 1000 instructions",
}

# Of the run sequence in one page; each is 350 bytes of SVG.
POINTS_MAX = 3000


def figures(story: Story) -> list[Figure]:
    makers = (_throughput, _ratios, _switches, _sequence)
    pictures = [maker(story, place) for place in story.places_of("scenarios") for maker in makers]
    return [picture for picture in pictures if picture is not None]


def _originals(story: Story, place: Place) -> list[Finding]:
    """The findings of one place without the copy of the A/A pair."""
    return [
        finding
        for finding in story.findings_of("scenarios", place)
        if finding.trial.factors.get("control") != "b"
    ]


def _interval_rows(story: Story, place: Place) -> list[dict[str, Any]]:
    rows = []
    for finding in _originals(story, place):
        interval = finding.intervals.get(place.speed)
        if interval is not None:
            rows.append(
                {
                    "scenario": finding.trial.factors["scenario"],
                    "model": finding.trial.model,
                    "value": interval.estimate,
                    "low": interval.low,
                    "high": interval.high,
                }
            )
    return rows


def _throughput(story: Story, place: Place) -> Figure | None:
    import altair as alt

    rows = _interval_rows(story, place)
    if not rows:
        return None
    # The study's figures stand beside our own clock's, not beside an emulated one's.
    published = [
        {"scenario": case, "model": model, "value": known.value}
        for (case, model, metric), known in EXPERIMENT.published.items()
        if metric == "throughput_mops" and place.home
    ]
    models = models_of(rows + published)
    axis = f"{SPEEDS[place.speed]} (more is better)"
    cases = list(dict.fromkeys(row["scenario"] for row in rows))
    y = alt.Y("model:N", title=None, sort=models)
    colour = alt.Color("model:N", scale=scale(models), legend=None)

    def panel(case: str) -> Any:
        # What the axis is stands below the last of them.
        title = axis if case == cases[-1] else ""
        x = alt.X("value:Q", title=title, scale=alt.Scale(zero=True))
        here = alt.Chart(data([row for row in rows if row["scenario"] == case]))
        low = alt.X("low:Q", title=title)
        layers: list[Any] = [
            here.mark_rule(strokeWidth=3, opacity=0.55).encode(
                x=low, x2="high:Q", y=y, color=colour
            ),
            here.mark_point(filled=True, size=75, opacity=1).encode(x=x, y=y, color=colour),
        ]
        known = [row for row in published if row["scenario"] == case]
        if known:
            layers.append(
                alt.Chart(data(known))
                .mark_point(shape="diamond", size=75, strokeWidth=1.5, filled=False)
                .encode(x=x, y=y, color=colour)
            )
        return alt.layer(*layers).properties(
            width=WIDTH,
            height=21 * len(models),
            title=alt.TitleParams(case, anchor="start", color=INK, fontSize=13),
        )

    chart = alt.vconcat(*map(panel, cases), spacing=6).resolve_scale(x="shared", color="shared")
    best = max(rows, key=lambda row: row["value"])
    caption = "Dot: median over invocations here, bar: its 95 % interval."
    if published:
        caption += (
            " Hollow diamond: the study's figure, from another machine (ARM64, 4 vCPUs);"
            " compare the pattern, not the height."
        )
    return figure(
        chart,
        "fig-throughput" + place_suffix(place),
        f"Throughput by scenario and model{place.beside}",
        f"Highest here: {best['model']} in {best['scenario']} with {number(best['value'])}"
        f" {SPEEDS[place.speed]}.",
        caption,
    )


def _ratios(story: Story, place: Place) -> Figure | None:
    import altair as alt

    groups = [g for g in story.groups_of("scenarios", place) if g.good]
    base = {
        g.trial.factors["scenario"]: g
        for g in groups
        if g.trial.model == "pthread" and g.trial.factors.get("control") != "b"
    }
    rows: list[dict[str, Any]] = []
    for group in groups:
        case = group.trial.factors["scenario"]
        if group.trial.model == "pthread" or case not in base:
            continue
        ratio = ratio_interval(group, base[case])
        if ratio is not None:
            rows.append(
                {
                    "case": f"{case} {group.trial.model}",
                    "model": group.trial.model,
                    "value": ratio.estimate,
                    "low": ratio.low,
                    "high": ratio.high,
                }
            )
    if not rows:
        return None
    layers: list[Any] = []
    # Of these trials: another experiment's noise is another.
    own = (c for c in story.controls if c.a.trial.experiment == "scenarios")
    control = next((c for c in own if c.a.place == place), None)
    caption = (
        "Ratio of medians, compared block by block, with its 95 % interval. Right of the line:"
        " faster than pthreads. The scale is logarithmic."
    )
    band: list[dict[str, Any]] = []
    if control:
        band = [{"low": min(control.ratio.low, 1), "high": max(control.ratio.high, 1)}]
        layers.append(
            alt.Chart(data(band)).mark_rect(opacity=0.10, color=INK).encode(x="low:Q", x2="high:Q")
        )
        caption += (
            f" The grey band is a {control.a.trial.model} trial against its own copy: what this"
            " run cannot tell from noise."
        )
    axis = "throughput relative to pthread in the same scenario"
    y = alt.Y("case:N", title=None, sort=[row["case"] for row in rows])
    colour = alt.Color("model:N", scale=scale(models_of(rows)), legend=None)
    reached = [*rows, {"value": 1.0}, *band]
    ratios, ticks = shapes.log_axis(reached)
    layers += [
        alt.Chart(data([{"one": 1}])).mark_rule(color=INK, opacity=0.6).encode(x="one:Q"),
        alt.Chart(data(rows))
        .mark_rule(strokeWidth=3, opacity=0.55)
        .encode(
            x=alt.X("low:Q", title=axis, scale=ratios, axis=ticks), x2="high:Q", y=y, color=colour
        ),
        alt.Chart(data(rows))
        .mark_point(filled=True, size=75, opacity=1)
        .encode(x=alt.X("value:Q", title=axis, scale=ratios, axis=ticks), y=y, color=colour),
    ]
    clear = sum(row["low"] > 1 or row["high"] < 1 for row in rows)
    return figure(
        alt.layer(*layers).properties(width=WIDTH, height=19 * len(rows)),
        "fig-ratios" + place_suffix(place),
        f"Each model against pthread{place.beside}",
        f"{clear} of {len(rows)} ratios have an interval that excludes 1.",
        caption,
    )


def _switches(story: Story, place: Place) -> Figure | None:
    import altair as alt

    names = {"nvcsw": "voluntary", "nivcsw": "involuntary", "user_switches": "in user space"}
    rows: list[dict[str, Any]] = []
    for finding in _originals(story, place):
        for metric, kind in names.items():
            interval = finding.intervals.get(metric)
            if interval is not None and interval.estimate > 0:
                rows.append(
                    {
                        "case": f"{finding.trial.factors['scenario']} {finding.trial.model}",
                        "kind": kind,
                        "value": interval.estimate,
                    }
                )
    if not rows:
        return None
    order = list(dict.fromkeys(row["case"] for row in rows))
    tints = {"voluntary": "#0072B2", "involuntary": "#E69F00", "in user space": "#009E73"}
    seen = [kind for kind in tints if any(row["kind"] == kind for row in rows)]
    kinds = alt.Scale(domain=seen, range=[tints[kind] for kind in seen])
    chart = (
        alt.Chart(data(rows))
        .mark_bar(height=11)
        .encode(
            x=alt.X(
                "value:Q",
                title="switches in one invocation (median)",
                axis=alt.Axis(tickCount=6),
            ),
            y=alt.Y("case:N", title=None, sort=order),
            color=alt.Color("kind:N", scale=kinds),
        )
        .properties(width=WIDTH, height=17 * len(order))
    )
    return figure(
        chart,
        "fig-switches" + place_suffix(place),
        f"Switches in one invocation{place.beside}",
        "Voluntary and involuntary as the kernel counts them, and those in user space.",
        "400 interventions are asked for in B and C. The kernel counts a yield as involuntary,"
        " because the thread stays runnable; a sleep as voluntary. Models in user space switch"
        " without the kernel; a coroutine's round trip through its scheduler counts twice.",
    )


def _sequence(story: Story, place: Place) -> Figure | None:
    import altair as alt

    rows: list[dict[str, Any]] = []
    for group in story.groups_of("scenarios", place):
        values = group.speeds()
        centre = float(stats.median(values)) if values else 0.0
        if centre <= 0:
            continue
        rows += [
            {
                "seq": sample.seq,
                "model": group.trial.model,
                "value": metrics(sample)[place.speed] / centre,
            }
            for sample in group.good
            if place.speed in metrics(sample)
        ]
    if not rows:
        return None
    every = -(-len(rows) * len(story.places_of("scenarios")) // POINTS_MAX)
    chart = (
        alt.Chart(data(rows[::every]))
        .mark_circle(size=26, opacity=0.75)
        .encode(
            x=alt.X(
                "seq:Q",
                title="order in which the run did them",
                scale=alt.Scale(zero=False),
                axis=alt.Axis(tickCount=6),
            ),
            y=alt.Y("value:Q", title="relative to the trial's median", scale=alt.Scale(zero=False)),
            color=alt.Color("model:N", scale=scale(models_of(rows))),
        )
        .properties(width=WIDTH, height=190)
    )
    low, high = min(r["value"] for r in rows), max(r["value"] for r in rows)
    caption = (
        "Trials are interleaved in random order, so a drift or a disturbance of the machine shows"
        " as a slope or a cluster here and not as a difference between models."
    )
    if every > 1:
        caption += f" Drawn is one in {every}."
    return figure(
        chart,
        "fig-sequence" + place_suffix(place),
        f"Every invocation in the order it ran{place.beside}",
        f"{len(rows)} invocations, from {number(low)} to {number(high)} of their median.",
        caption,
    )


# ---- tables ----


def tables(story: Story) -> list[Table]:
    measured = [_results(story, place) for place in story.places_of("scenarios")]
    return [*measured, _published()]


def _results(story: Story, place: Place) -> Table:
    rows = []
    last = None
    for finding in story.findings_of("scenarios", place):
        factors = finding.trial.factors
        case = str(factors["scenario"])
        model = finding.trial.model + (" (again)" if factors.get("control") == "b" else "")
        spread_of = finding.dispersion.get(place.speed, {})
        rows.append(
            Row(
                (
                    case,
                    model,
                    f"{factors['cpus_used']} of {factors['cpus_asked']}",
                    spread(finding.intervals.get(place.speed)),
                    f"{number(spread_of.get('mean'))} ± {number(spread_of.get('sd'))}",
                    f"{spread_of['cv']:.1f} %" if "cv" in spread_of else "–",
                    _cv_of_runs(finding),
                    count(finding, "nvcsw"),
                    count(finding, "nivcsw"),
                    count(finding, "user_switches"),
                    f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else ""),
                    gate_marks(finding),
                ),
                first=case != last,
            )
        )
        last = case
    return Table(
        f"Measured here, engine {place}: {SPEEDS[place.speed]} is the median over invocations"
        " with its 95 % interval; switches are medians of totals over the four threads",
        (
            *("Scenario", "Model", "CPUs", SPEEDS[place.speed], "mean ± SD", "CV"),
            *("CV of 5 runs", "voluntary", "involuntary", "in user space", "n", "gates"),
        ),
        2,
        tuple(rows),
    )


def _cv_of_runs(finding: Finding) -> str:
    """Of those in a row that an invocation has, where they are as many as the study's."""
    interval = finding.intervals.get(RUN_CV)
    return f"{interval.estimate:.1f} %" if interval else "–"


def _published() -> Table:
    figures = EXPERIMENT.published
    rows = []
    for (case, model, metric), known in figures.items():
        if metric != "throughput_mops":
            continue

        def with_sd(name: str, case: str = case, model: str = model) -> str:
            # As printed: more digits would be none of the study's.
            other = figures[case, model, name]
            return f"{other.value:g}" + (f" ± {other.sd:g}" if other.sd else "")

        rows.append(
            Row(
                (
                    case,
                    model,
                    with_sd("throughput_mops"),
                    f"{figures[case, model, 'throughput_cv'].value:g} %",
                    with_sd("nvcsw"),
                    with_sd("nivcsw"),
                    known.source,
                ),
                first=case == "A",
            )
        )
    return Table(
        "Published, on another machine (ARM64, Linux 6.8, 4 vCPUs): mean ± SD of five runs",
        ("Scenario", "Model", "Mops/s", "CV", "voluntary", "involuntary", "source"),
        2,
        tuple(rows),
    )


# ---- terminal ----


def terminal(story: Story) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for place in story.places_of("scenarios"):
        shown += [
            f"\nFour threads on one counter, {place}: medians, {SPEEDS[place.speed]}",
            *shapes.terminal([_matrix(story, place)]),
            f"\nThe same in detail, {place}: median [95 %], switches a run",
            *shapes.terminal([_details(story, place)]),
        ]
    if any(map(_fewer_cpus, story.findings_of("scenarios"))):
        shown.append("* on fewer CPUs than the scenario has: with less contention")
    return shown


def _fewer_cpus(finding: Finding) -> bool:
    factors = finding.trial.factors
    return factors["cpus_used"] != factors["cpus_asked"]


def _matrix(story: Story, place: Place) -> Table:
    """Scenarios down, models across: the one table to remember."""
    findings = _originals(story, place)
    models = models_of([{"model": finding.trial.model} for finding in findings])
    rows = []
    for case in dict.fromkeys(str(f.trial.factors["scenario"]) for f in findings):
        row = {f.trial.model: f for f in findings if f.trial.factors["scenario"] == case}
        cells = []
        for model in models:
            interval = row[model].intervals.get(place.speed) if model in row else None
            mark = "*" if model in row and _fewer_cpus(row[model]) else ""
            cells.append(number(interval.estimate) + mark if interval else "–")
        rows.append(Row((case, *cells)))
    # The caption, which would be no wider than the few columns, is the line above.
    return Table("", ("", *models), 1, tuple(rows))


def _details(story: Story, place: Place) -> Table:
    rows = []
    last = None
    for finding in _originals(story, place):
        factors = finding.trial.factors
        case = str(factors["scenario"])
        speed = finding.dispersion.get(place.speed, {})
        cells = (
            case if case != last else "",
            finding.trial.model,
            f"{factors['cpus_used']}{'*' if _fewer_cpus(finding) else ''}",
            spread(finding.intervals.get(place.speed)),
            f"{speed['cv']:.1f}" if "cv" in speed else "–",
            *(count(finding, name) for name in ("nvcsw", "nivcsw", "user_switches")),
            gate_marks(finding),
        )
        rows.append(Row(cells, first=case != last))
        last = case
    speeds = "op/ki" if place.counting else "Mops/s"
    return Table(
        "",
        ("", "model", "CPUs", speeds, "CV %", "vol", "invol", "user", "gates"),
        2,
        tuple(rows),
    )
