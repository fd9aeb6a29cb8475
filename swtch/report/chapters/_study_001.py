# SPDX-License-Identifier: Apache-2.0
"""What the chapters of study 001 share: its experiments have the same arms and metrics.

Two kinds of picture: ``bars``, a panel for each mode with a line for each arm, and
``steps``, an arm's curve over what the experiment varies. Each is drawn from this run's
samples, per place, and once from the study's table (``published``), never in one: the
study's machine is another, and a guest is emulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Group, Place, ratio_interval
from swtch.experiments import Experiment, get
from swtch.records import Finding, Trial
from swtch.report import shapes
from swtch.report.charts import COLOURS, INK, WIDTH, Figure, data, figure, place_suffix
from swtch.report.shapes import Rows
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

SPEEDS = {
    "throughput_mops": "Mops/s",
    "throughput_opki": "increments per 1000 instructions",
}
CAPTION = "Dot: median over invocations, bar: its 95 % interval. The scale is logarithmic."
# A model's arms are shades of its colour, told apart on white and on near-black.
ARMS: Mapping[str, str] = {
    **COLOURS,
    "pthread own counter": "#56B4E9",
    "kthread instrumented": COLOURS["kthread"],
    "kthread bare": "#F0A35E",
    "kthread bare, sched_yield": "#A9746E",
    "kthread instrumented, sched_yield": "#8F6B4E",
    "coroutine own counter": "#C7A008",
    "ucontext own counter": "#B9A7F5",
}


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What an experiment varies: the axis, and a trial's place on it, in words."""

    axis: str
    step: Callable[[Trial], str]
    order: tuple[str, ...]


def arm_of(trial: Trial) -> str:
    return str(trial.factors["arm"])


def mode_of(trial: Trial) -> str:
    return str(trial.factors["mode"])


def _figure_id(experiment: str, *parts: str) -> str:
    return "-".join(("fig", experiment, *parts))


def _speed_rows(story: Story, name: str, place: Place, metric: str) -> Rows:
    rows: Rows = []
    for finding in story.findings_of(name, place):
        interval = finding.intervals.get(metric)
        # A rate of nothing has no place on a logarithmic scale.
        if interval is not None and interval.estimate > 0:
            trial = finding.trial
            more = {"panel": mode_of(trial), "case": arm_of(trial), "series": trial.model}
            floor = {"low": max(interval.low, interval.estimate / 1e6)}
            rows.append(shapes.of_interval(interval, trial=trial, **more) | floor)
    return rows


def _plain(rows: Rows) -> Rows:
    """Without what only Python reads."""
    return [{name: value for name, value in row.items() if name != "trial"} for row in rows]


def _titled(chart: Any, title: str) -> Any:
    import altair as alt

    return chart.properties(title=alt.TitleParams(title, anchor="start", color=INK, fontSize=13))


# ---- bars ----


def _bars(rows: Rows, axis: str, line: float | None = None) -> Any:
    """A forest for each panel, on one axis."""
    import altair as alt

    charts = []
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    for panel in panels:
        own = [row for row in _plain(rows) if row["panel"] == panel]
        title = axis if panel == panels[-1] else ""
        chart = shapes.forest(
            own, title, log=True, line=line, legend=False, known=ARMS, span=_plain(rows)
        )
        # Only the outermost chart may have padding of its own.
        chart.padding = alt.Undefined
        charts.append(_titled(chart, MODES.get(panel, panel)))
    longest = max(len(row["case"]) for row in rows)
    room = {"left": 14 + longest * shapes.WIDER, "right": 20, "top": 14, "bottom": 14}
    stacked = alt.vconcat(*charts, spacing=10).resolve_scale(x="shared", color="shared")
    return stacked.properties(padding=room)


MODES = {"normal": "Normal: work without yields", "yield": "Yield: after every 1000 additions"}


def bars(story: Story, name: str, place: Place, title: str, caption: str = "") -> Figure | None:
    """Throughput by mode and arm."""
    rows = _speed_rows(story, name, place, place.speed)
    if not rows:
        return None
    best = max(rows, key=lambda row: row["value"])
    return figure(
        _bars(rows, f"{SPEEDS[place.speed]} (more is better)"),
        _figure_id(name) + place_suffix(place),
        title + place.beside,
        f"Most: {best['case']} in {best['panel']} mode with {number(best['value'])}"
        f" {SPEEDS[place.speed]}.",
        " ".join(filter(None, (CAPTION, caption))),
    )


def ratios(
    story: Story, name: str, place: Place, base: str, title: str, caption: str
) -> Figure | None:
    """Each arm's throughput over that of the arm called `base`, in the same case."""
    groups = [g for g in story.groups_of(name, place) if g.good]
    bases = {g.trial.factors["case"]: g for g in groups if arm_of(g.trial) == base}
    rows: Rows = []
    for group in groups:
        under = bases.get(group.trial.factors["case"])
        if under is None or under is group:
            continue
        interval = ratio_interval(group, under)
        if interval is not None and interval.low > 0:
            trial = group.trial
            more = {"panel": mode_of(trial), "case": arm_of(trial), "series": trial.model}
            rows.append(shapes.of_interval(interval, **more))
    if not rows:
        return None
    least, most = (f(rows, key=lambda row: row["value"]) for f in (min, max))
    return figure(
        _bars(rows, f"throughput over that of {base}", line=1.0),
        _figure_id(name, "ratio") + place_suffix(place),
        title + place.beside,
        f"From {number(least['value'])} x ({least['case']}, {least['panel']}) to"
        f" {number(most['value'])} x ({most['case']}, {most['panel']}).",
        "Ratio of medians, compared block by block, with its 95 % interval. " + caption,
    )


# ---- steps ----


def _curves(rows: Rows, steps: Steps, axis: str) -> Any:
    """A panel for each mode: an arm's curve over the steps there are."""
    import altair as alt

    charts = []
    order = [step for step in steps.order if any(row["step"] == step for row in rows)]
    legend = alt.Legend(columnPadding=44)
    colour = alt.Color("series:N", scale=shapes.colours(rows, ARMS), legend=legend)
    x = alt.X("step:O", title=steps.axis, sort=order, axis=alt.Axis(labelAngle=0))
    for panel in dict.fromkeys(row["panel"] for row in rows):
        inside = [row for row in _plain(rows) if row["panel"] == panel]
        own = data(inside)
        scale, ticks = shapes.log_axis(inside, shapes.FLAT)
        y = alt.Y("value:Q", title=axis, scale=scale, axis=ticks)
        low = alt.Y("low:Q", title=axis, scale=scale, axis=ticks)
        layers = [
            alt.Chart(own).mark_line(strokeWidth=1.5, opacity=0.7).encode(x=x, y=y, color=colour),
            alt.Chart(own)
            .mark_rule(strokeWidth=3, opacity=0.45)
            .encode(x=x, y=low, y2="high:Q", color=colour),
            alt.Chart(own)
            .mark_point(filled=True, size=60, opacity=1)
            .encode(x=x, y=y, color=colour),
        ]
        chart = alt.layer(*layers).properties(width=WIDTH, height=200)
        charts.append(_titled(chart, MODES.get(panel, panel)) if panel else chart)
    if len(charts) == 1:
        return charts[0]
    return alt.vconcat(*charts, spacing=8).resolve_scale(color="shared")


def curves(
    story: Story,
    name: str,
    place: Place,
    steps: Steps,
    title: str,
    *,
    metric: str = "",
    axis: str = "",
    part: str = "",
    caption: str = "",
    panel: str | None = None,
) -> Figure | None:
    """A metric, by default throughput, over what the experiment varies.

    ``panel`` puts all of it into one panel of that title.
    """
    rows = _speed_rows(story, name, place, metric or place.speed)
    for row in rows:
        row["step"], row["series"] = steps.step(row["trial"]), row["case"]
        row["panel"] = row["panel"] if panel is None else panel
    if not rows:
        return None
    unit = axis or f"{SPEEDS[place.speed]} (more is better)"
    shown = ", ".join(dict.fromkeys(row["series"] for row in rows))
    parts = (part,) if part else ()
    return figure(
        _curves(rows, steps, unit),
        _figure_id(name, *parts) + place_suffix(place),
        title + place.beside,
        f"{len(rows)} medians of {shown}.",
        " ".join(filter(None, (CAPTION, caption))),
    )


# ---- the published figure ----


def published(
    name: str,
    number_of: int,
    title: str,
    *,
    steps: Steps | None = None,
    metric: str = "throughput_mops",
    axis: str = "Mops/s (more is better)",
    part: str = "",
    panel: str | None = None,
) -> Figure:
    """The study's figure, drawn anew from the table it was made of."""
    experiment = get(name)
    rows: Rows = []
    for (case, model, known_metric), known in experiment.published.items():
        if known_metric != metric or known.value <= 0:
            continue
        mode = "yield" if case.startswith("yield") else "normal"
        arm = f"{model} instrumented" if model == "kthread" else model
        if model == "ucontext":
            arm = "ucontext own counter"
        row = {"value": known.value, "low": known.value, "high": known.value, "case": arm}
        row |= {"panel": mode if panel is None else panel, "series": arm if steps else model}
        if steps:
            row["step"] = _step_of_case(experiment, steps, case)
        rows.append(row)
    chart = _curves(rows, steps, axis) if steps else _bars(rows, axis)
    sources = dict.fromkeys(
        known.source
        for (_, _, known_metric), known in experiment.published.items()
        if known_metric == metric
    )
    tables = " and ".join(source.removeprefix("study 001, ") for source in sources)
    parts = (part,) if part else ()
    return figure(
        chart,
        _figure_id(name, *parts, "published"),
        f"Published: {title}",
        f"{len(rows)} figures of study 001.",
        f"Figure {number_of} of study 001, drawn anew from its {tables}: means of three runs on"
        " another machine. Compare the pattern, not the height.",
    )


def _step_of_case(experiment: Experiment, steps: Steps, case: str) -> str:
    """Published cases have the names of trials' cases, so that a step is in their last word."""
    return next(
        step
        for step in sorted(steps.order, key=len, reverse=True)
        if case.replace(" threads", "").endswith(step) or case == step
    )


# ---- tables ----


def _n(finding: Finding) -> str:
    return f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else "")


def _operation(trial: Trial) -> str:
    operation = str(trial.factors["operation"])
    return "–" if operation == "none" else operation


def results(story: Story, name: str, place: Place) -> Table:
    rows = []
    last = None
    for finding in story.findings_of(name, place):
        factors = finding.trial.factors
        case = str(factors["case"])
        rows.append(
            Row(
                (
                    case,
                    arm_of(finding.trial),
                    _operation(finding.trial),
                    f"{factors['cpus_used']} of {factors['cpus_asked']}",
                    spread(finding.intervals.get(place.speed)),
                    count(finding, "nvcsw"),
                    count(finding, "nivcsw"),
                    count(finding, "voluntary_per_million"),
                    count(finding, "logical_switches" if _logical(finding) else "user_switches"),
                    _n(finding),
                    gate_marks(finding),
                ),
                first=case != last,
            )
        )
        last = case
    return Table(
        f"Throughput and switches, engine {place}: medians over invocations with 95 % intervals,"
        " switches of all threads",
        (
            *("case", "threads", "yields by", "CPUs", SPEEDS[place.speed]),
            *("voluntary", "involuntary", "vol. per million", "logical", "n", "gates"),
        ),
        3,
        tuple(rows),
    )


def _logical(finding: Finding) -> bool:
    return "logical_switches" in finding.intervals


def usage(story: Story, name: str, place: Place) -> Table:
    """Where the time went, and how long one addition and one yield took."""
    metrics = (
        *("mops_by_runtimes", "user_ms", "system_ms", "cpu_ms", "cpu_efficiency"),
        *("runtime_ms", "thread_cpu_ms"),
        *("op_p50_ns", "op_p99_ns", "pause_p50_us", "pause_p99_us"),
    )
    rows = []
    last = None
    for finding in story.findings_of(name, place):
        case = str(finding.trial.factors["case"])
        if not finding.intervals:
            continue
        rows.append(
            Row(
                (
                    case,
                    arm_of(finding.trial),
                    number(float(str(finding.trial.factors["work"]))),
                    *(count(finding, metric) for metric in metrics),
                ),
                first=case != last,
            )
        )
        last = case
    return Table(
        f"Time, engine {place}, medians: of all threads, then of one, then latencies of the loop"
        " with accounts",
        (
            *("case", "threads", "additions each", "Mops/s by runtimes"),
            *("user ms", "system ms", "CPU ms", "CPU %"),
            *("runtime ms", "CPU ms each", "add p50 ns", "p99", "yield p50 µs", "p99"),
        ),
        2,
        tuple(rows),
    )


def published_table(name: str) -> Table:
    """Everything the study printed of this: a column for each metric that it has."""
    experiment = get(name)
    known = experiment.published
    metrics = [metric for metric in _PRINTED if any(key[2] == metric for key in known)]
    rows = []
    last = None
    pairs = dict.fromkeys((case, model) for case, model, _ in known)
    for case, model in sorted(pairs, key=lambda pair: _order(experiment, pair[0])):
        own = {
            metric: known[case, model, metric]
            for metric in metrics
            if (case, model, metric) in known
        }
        cells = [number(own[metric].value) if metric in own else "–" for metric in metrics]
        source = next(iter(own.values())).source
        rows.append(Row((case, model, *cells, source), first=case != last))
        last = case
    return Table(
        "Published, on another machine: means of three runs",
        ("case", "model", *(_PRINTED[metric] for metric in metrics), "source"),
        2,
        tuple(rows),
    )


_PRINTED = {
    "throughput_mops": "Mops/s",
    "throughput_ratio": "throughput ratio",
    "cpu_efficiency": "CPU %",
    "nvcsw": "voluntary",
    "nivcsw": "involuntary",
    "logical_switches": "coroutine switches",
    "os_switches": "switches by the kernel",
    "user_ms": "user ms",
    "system_ms": "system ms",
}


def _order(experiment: Experiment, case: str) -> int:
    return list(dict.fromkeys(key[0] for key in experiment.published)).index(case)


def tables(story: Story, name: str, *more: Table) -> list[Table]:
    place_tables: list[Table] = []
    for place in story.places_of(name):
        place_tables.append(results(story, name, place))
        used = usage(story, name, place)
        if used.rows and not place.counting:
            place_tables.append(used)
    return [*place_tables, *more, published_table(name)]


def terminal(story: Story, name: str) -> list[RenderableType]:
    """What fits a terminal: throughput, switches and efficiency."""
    return shapes.terminal([_brief(story, name, place) for place in story.places_of(name)])


def _brief(story: Story, name: str, place: Place) -> Table:
    rows = []
    last = None
    for finding in story.findings_of(name, place):
        case = str(finding.trial.factors["case"])
        rows.append(
            Row(
                (
                    case,
                    arm_of(finding.trial),
                    spread(finding.intervals.get(place.speed)),
                    count(finding, "nvcsw"),
                    count(finding, "nivcsw"),
                    count(finding, "cpu_efficiency"),
                ),
                first=case != last,
            )
        )
        last = case
    return Table(
        f"{get(name).title}, {place}: median [95 %]",
        ("case", "threads", SPEEDS[place.speed], "vol.", "invol.", "CPU %"),
        2,
        tuple(rows),
    )


def has_kthreads(story: Story, name: str, place: Place) -> bool:
    return any(g.good and g.trial.model == "kthread" for g in story.groups_of(name, place))


def per_place(
    story: Story, name: str, makers: Sequence[Callable[[Story, Place], Figure | None]]
) -> list[Figure]:
    """Each maker's figure of each place, without those of nothing."""
    pictures = [maker(story, place) for place in story.places_of(name) for maker in makers]
    return [picture for picture in pictures if picture is not None]


def beside(measured: list[Figure], *known: Figure) -> list[Figure]:
    """The study's figures after the first of this run; none where nothing was measured."""
    return [*measured[:1], *known, *measured[1:]] if measured else []


def good(groups: Sequence[Group], arm: str, **factors: object) -> Group | None:
    """The group of an arm that has samples and these factors."""
    for group in groups:
        own = group.trial.factors
        if group.good and own.get("arm") == arm and all(own[k] == v for k, v in factors.items()):
            return group
    return None
