# SPDX-License-Identifier: Apache-2.0
"""The chapter of `coroutine-gantt`: who ran when, as a picture and as text."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from swtch.analysis.findings import Group, Place
from swtch.report.charts import INK, WIDTH, Figure, data, figure, place_suffix
from swtch.report.story import Story, number
from swtch.report.tables import Row, Table


def figures(story: Story) -> list[Figure]:
    pictures = [_gantt(story, place) for place in story.places_of("coroutine-gantt")]
    return [picture for picture in pictures if picture is not None]


def _gantt(story: Story, place: Place) -> Figure | None:
    import altair as alt

    charts: dict[str, list[dict[str, Any]]] = {}
    for group in story.groups_of("coroutine-gantt", place):
        order = str(group.trial.factors["order"])
        if group.good and order not in charts:
            charts[order] = [
                {
                    "slot": slot["slot"],
                    "end": slot["slot"] + 1,
                    "task": f"coroutine {slot['task']}",
                    "iteration": slot["iteration"],
                }
                for slot in group.good[0].detail.get("slots", ())
            ]
    if not charts:
        return None
    drawn = []
    for order, rows in charts.items():
        tasks = sorted({row["task"] for row in rows})
        base = alt.Chart(data(rows)).encode(y=alt.Y("task:N", title=None, sort=tasks))
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
        # White on the dark ones, and what is nearly black on the orange one.
        written = alt.condition(
            f"datum.task === {tasks[1]!r}" if len(tasks) > 1 else "false",
            alt.value("#1c2024"),
            alt.value("white"),
        )
        text = (
            base.transform_calculate(mid="datum.slot + 0.5")
            .mark_text(fontSize=11, fontWeight="bold")
            .encode(x="mid:Q", text="iteration:N", color=written)
        )
        drawn.append(
            (bars + text).properties(
                width=WIDTH,
                height=23 * len(tasks),
                title=alt.TitleParams(order, anchor="start", color=INK, fontSize=13),
            )
        )
    chart = alt.vconcat(*drawn, spacing=14).resolve_scale(color="shared")
    description = "; ".join(
        f"{order}: " + " ".join(row["task"].rpartition(" ")[2] for row in rows)
        for order, rows in charts.items()
    )
    return figure(
        chart,
        "fig-gantt" + place_suffix(place),
        "Who ran when" + place.beside,
        description,
        "One box is one iteration of one coroutine, numbered. Round robin is the study's figure 3,"
        " slot for slot; priority and time-slice scheduling are its future work.",
    )


def tables(story: Story) -> list[Table]:
    return [_results(story, place) for place in story.places_of("coroutine-gantt")]


def _results(story: Story, place: Place) -> Table:
    rows = []
    for group in story.groups_of("coroutine-gantt", place):
        if not group.good:
            continue
        sample = group.good[0]
        orders = {tuple(s.detail.get("finished", ())) for s in group.good}
        rows.append(
            Row(
                (
                    str(group.trial.factors["order"]),
                    group.trial.model,
                    "yes" if group.trial.factors["pool"] else "no",
                    str(len(sample.detail.get("slots", ()))),
                    " ".join(str(task) for task in sample.detail.get("finished", ()))
                    if len(orders) == 1
                    else "differs between invocations",
                    " / ".join(
                        number(sample.values.get(f"stacks_{what}"))
                        for what in ("created", "reused")
                    ),
                    "yes" if sample.detail.get("overflow_detected") else "no",
                    str(len(group.good)),
                )
            )
        )
    return Table(
        "Five coroutines of 3, 3, 3, 5 and 2 iterations",
        (
            "order",
            "model",
            "pool",
            "slots",
            "finished",
            "stacks made / reused",
            "overflow detected",
            "n",
        ),
        2,
        tuple(rows),
    )


def terminal(story: Story) -> list[RenderableType]:
    from rich.text import Text

    shown: dict[str, Text] = {}
    for group in story.groups_of("coroutine-gantt"):
        order = str(group.trial.factors["order"])
        if order not in shown and group.good:
            shown[order] = Text(_drawing(order, group))
    return list(shown.values())


def _drawing(order: str, group: Group) -> str:
    slots = group.good[0].detail.get("slots", ())
    finished = " ".join(str(task) for task in group.good[0].detail.get("finished", ()))
    lines = ["", f"{order}: {len(slots)} slots, finished {finished}"]
    for task in sorted({slot["task"] for slot in slots}):
        boxes = "".join("██" if slot["task"] == task else "· " for slot in slots)
        lines.append(f"  coroutine {task}  {boxes}")
    return "\n".join(lines)
