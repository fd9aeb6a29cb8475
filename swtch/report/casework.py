# SPDX-License-Identifier: Apache-2.0
"""A chapter of cases: one number for each, in a forest and in a table.

Most experiments beyond the studies ask the same of every case: how long does one
of it take? ``Cases`` is that chapter; what an experiment adds is what its cases
are called, which columns its table has, and what is to be said of it in a
sentence. A time's unit is its place's: where a name has ``{unit}``, that stands
for ``ns``, or for ``instructions`` where the engine counts those.

Rejected: a chapter that guesses columns from the metrics (a reader wants five of
them, in an order), sentences made from templates alone (each finding has its own
"why").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType

from swtch.analysis import stats
from swtch.analysis.findings import Group, Place, ratio_interval
from swtch.records import Finding, Interval, Trial
from swtch.report import shapes
from swtch.report.charts import COLOURS, Figure, figure, place_suffix
from swtch.report.story import Story, number, spread
from swtch.report.tables import Row, Table, count, gate_marks

Cell = Callable[[Finding, Place], str]


def at(text: str, place: Place) -> str:
    """`text` with the place's unit."""
    return text.replace("{unit}", place.unit())


def n_of(finding: Finding) -> str:
    """How many invocations were good, and how many were not."""
    return f"{finding.n}" + (f" + {finding.failed} failed" if finding.failed else "")


def median_cell(metric: str) -> Cell:
    """A column of medians with their intervals."""
    return lambda finding, place: spread(finding.intervals.get(at(metric, place)))


def count_cell(metric: str) -> Cell:
    """A column of medians alone."""
    return lambda finding, place: count(finding, at(metric, place))


def switches_for(things: str) -> Cell:
    """Switches the kernel counted, or the runtime, for each of what `things` counts."""

    def cell(finding: Finding, _: Place) -> str:
        intervals = finding.intervals
        kernel = [intervals[name].estimate for name in ("nvcsw", "nivcsw") if name in intervals]
        runtime = intervals.get("user_switches")
        of = intervals.get(things)
        if of is None or not of.estimate or not (kernel or runtime):
            return "–"
        total = sum(kernel) if kernel else runtime.estimate if runtime else 0.0
        return number(total / of.estimate)

    return cell


# ---- sentences ----


def ratio_between(a: Group | None, b: Group | None, metric: str) -> Interval | None:
    """How many times b's median a's is; None where either was not measured."""
    if a is None or b is None or not a.good or not b.good:
        return None
    return ratio_interval(a, b, at(metric, a.place))


def median_of(group: Group | None, metric: str, unit: str = "{unit}") -> Interval | None:
    """The group's median; None where it was not measured."""
    if group is None:
        return None
    return stats.median_interval(group.values(at(metric, group.place)), at(unit, group.place))


def phrase(interval: Interval, unit: str | None = None) -> str:
    """An interval within a sentence; of too few values it is only what was seen."""
    unit = interval.unit if unit is None else unit
    if interval.n >= stats.LEAST and interval.method != "too few":
        return f"{spread(interval)} {unit}".rstrip()
    seen = f"seen in {interval.n} invocation{'' if interval.n == 1 else 's'}, no interval"
    if interval.low != interval.high:
        seen = f"{number(interval.low)} to {number(interval.high)} {seen}"
    return f"{number(interval.estimate)} {unit}".rstrip() + f" ({seen})"


def times(ratio: Interval, than: str) -> str:
    """A ratio within a sentence: "3 [2, 4] times as long", and when it may be none."""
    text = f"{phrase(ratio, 'times')} {than}"
    return f"{text} (which may be no difference)" if ratio.low <= 1 <= ratio.high else text


def first_group(
    groups: Iterable[Group], model: str | None = None, **factors: object
) -> Group | None:
    """The first group with samples that has these factors."""
    for group in groups:
        own = {"model": group.trial.model, **group.trial.factors}
        asked = factors if model is None else {"model": model, **factors}
        if group.good and all(own.get(name) == wanted for name, wanted in asked.items()):
            return group
    return None


# ---- the chapter ----


@dataclass(frozen=True, kw_only=True)
class Cases:
    """The chapter of `experiment`; `metric` is what its forest shows."""

    experiment: str
    title: str
    axis: str
    metric: str
    caption: str
    table: str
    case: Callable[[Trial], str]
    series: Callable[[Trial], str]
    labels: tuple[str, str]
    columns: Mapping[str, Cell]
    says: Callable[[Place, Sequence[Group]], Iterable[str]]
    part: str = ""  # what tells a second picture of the same cases from the first
    brief: int = 2  # so many of the columns fit a terminal
    log: bool = True
    known: Mapping[str, str] = field(default_factory=lambda: COLOURS)

    def figures(self, story: Story) -> list[Figure]:
        pictures = [self._forest(story, place) for place in story.places_of(self.experiment)]
        return [picture for picture in pictures if picture is not None]

    def tables(self, story: Story) -> list[Table]:
        return [self._table(story, place) for place in story.places_of(self.experiment)]

    def terminal(self, story: Story) -> list[RenderableType]:
        keep = 2 + self.brief
        return shapes.terminal(
            [
                Table(
                    wide.caption,
                    wide.columns[:keep],
                    2,
                    tuple(Row(row.cells[:keep], row.first) for row in wide.rows),
                )
                for wide in self.tables(story)
            ]
        )

    def sentences(self, story: Story) -> list[str]:
        """One sentence or two for each place, whose name they begin with."""
        return [
            sentence if place.home else f"On {place}: {sentence}"
            for place in story.places_of(self.experiment)
            for sentence in self.says(place, story.groups_of(self.experiment, place))
        ]

    def _forest(self, story: Story, place: Place) -> Figure | None:
        rows = []
        for finding in story.findings_of(self.experiment, place):
            interval = finding.intervals.get(at(self.metric, place))
            if interval is not None and (interval.low > 0 or not self.log):
                row = shapes.of_interval(
                    interval, case=self.case(finding.trial), series=self.series(finding.trial)
                )
                rows.append(row)
        if not rows:
            return None
        # Cases of one name stand together, whatever their series.
        order = list(dict.fromkeys(row["case"] for row in rows))
        rows.sort(key=lambda row: order.index(row["case"]))
        least = min(rows, key=lambda row: row["value"])
        most = max(rows, key=lambda row: row["value"])
        return figure(
            shapes.forest(rows, at(self.axis, place), known=self.known, log=self.log),
            f"fig-{self.experiment}" + (self.part and f"-{self.part}") + place_suffix(place),
            self.title + place.beside,
            f"Least: {least['case']}, {least['series']}, {number(least['value'])}."
            f" Most: {most['case']}, {most['series']}, {number(most['value'])}.",
            self.caption,
        )

    def _table(self, story: Story, place: Place) -> Table:
        rows = []
        before = ""
        findings = story.findings_of(self.experiment, place)
        # Each model's rows together, as the figure has each case's.
        known = list(dict.fromkeys(self.series(finding.trial) for finding in findings))
        for finding in sorted(
            findings, key=lambda finding: known.index(self.series(finding.trial))
        ):
            series, case = self.series(finding.trial), self.case(finding.trial)
            cells = (cell(finding, place) for cell in self.columns.values())
            rows.append(
                Row(
                    (series, case, *cells, n_of(finding), gate_marks(finding)),
                    first=series != before,
                )
            )
            before = series
        return Table(
            f"Measured here, engine {place}: {self.table}",
            (*self.labels, *(at(title, place) for title in self.columns), "n", "gates"),
            2,
            tuple(rows),
        )
