# SPDX-License-Identifier: Apache-2.0
"""The verdicts of all claims: what `swtch replicate` is for.

Brief, a claim is one line of a terminal: id, sentence, verdict, here against published.
The sentence is cut to what there is room for, the verdict never. At length, a claim is a
row with its reason, and behind it stand the contradictions between the studies, side by
side. Either way named checks come after the findings. The same rows are written as CSV
and laid out by the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swtch.claims.contradictions import SideBySide, judged
from swtch.records import Verdict
from swtch.report.standing import (
    MARK,
    MARK_MEANING,
    checks_of,
    findings_of,
    marked,
    turns_on_gates,
)
from swtch.report.story import Story, number, spread, where

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLUMNS = ("study", "claim", "kind", "text", "published", "here", "engine", "verdict", "why")
NAME = "verdicts.csv"
STYLES = {
    "holds": "green",
    "differs": "red",
    "cannot tell": "yellow",
    "not measurable here": "dim",
}
# Of a line: the most that figures take, the least that is left of a sentence, and between
# two columns.
HERE_MOST, PUBLISHED_MOST = 22, 16
SENTENCE_LEAST = 24
GAP = 2
# Where a study has a figure from is for the long table.
_SOURCE = re.compile(r"\s*\((?:table|figure|section)[^)]*\)")


def here(verdict: Verdict) -> str:
    """The interval with its unit; a dash where there is none."""
    return f"{spread(verdict.here)} {verdict.here.unit}" if verdict.here else "–"


def _brief(verdict: Verdict) -> str:
    """The same in a line; of too few for an interval no more than what they centre on."""
    interval = verdict.here
    if interval is None or interval.method != "too few":
        return here(verdict)
    return f"{number(interval.estimate)} {interval.unit}, n = {interval.n}"


def rows(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    """The table as text, one row a verdict."""
    return [
        {
            "study": verdict.study,
            "claim": verdict.claim,
            "kind": verdict.kind,
            "text": verdict.text,
            "published": verdict.published,
            "here": here(verdict),
            "engine": where(verdict),
            "verdict": verdict.verdict,
            "why": verdict.why,
        }
        for verdict in verdicts
    ]


def for_csv(table: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """`table` with ids that stay text in a reader that guesses (swtch.data.worded)."""
    from swtch.data import worded

    return [
        {**row, "study": worded("study", row["study"]), "claim": worded("claim", row["claim"])}
        for row in table
    ]


def write(run_dir: Path, story: Story) -> Path:
    """Writes the table as CSV into the run; gives the file."""
    import io

    from swtch import cells
    from swtch.store import write_atomically

    text = io.StringIO()
    cells.write(text, for_csv(rows(story.verdicts)), COLUMNS)
    file = run_dir / NAME
    write_atomically(file, text.getvalue().encode())
    return file


def print_story(story: Story, console: Console, *, verbose: bool = False) -> None:
    """What became of each claim: a line each, or a row with the reason."""
    if verbose:
        _print_tables(story, console)
    else:
        print_lines(story.verdicts, console)
    for sentence in story.highlights:
        console.print(f"- {sentence}", highlight=False, markup=False)
    print_standing(story, console)
    if not verbose and story.verdicts:
        more = "-v says why, claim by claim, and where the studies contradict each other"
        console.print(more, highlight=False, markup=False, style="dim")
    for error in story.errors:
        console.print(error, markup=False, highlight=False, style="red")


def print_standing(story: Story, console: Console) -> None:
    """The headline, at which level it was judged, what the mark means, and how quiet it was."""
    if any(map(turns_on_gates, story.verdicts)):
        console.print(f"{MARK} {MARK_MEANING}", highlight=False, markup=False)
    claims = len({verdict.claim for verdict in story.verdicts})
    counted = f"{claims} claims, by engine {len(story.verdicts)} verdicts"
    if not story.verdicts:
        counted = "No claim is about the experiments of this run"
    sentences = [f"{counted}.", story.headline, story.judged_at]
    console.print("\n" + " ".join(filter(None, sentences)), highlight=False, markup=False)
    for sentence in filter(None, (story.neighbours.sentence, story.elsewhere)):
        console.print(sentence, highlight=False, markup=False)


# ---- one line a claim ----


def print_lines(verdicts: Sequence[Verdict], console: Console) -> None:
    """Findings by study, then checks, each in a line as wide as the terminal."""
    for line in lines(verdicts, console.width, utf=console.encoding.lower().startswith("utf")):
        console.print(line, no_wrap=True, overflow="ignore", crop=False, highlight=False)


def lines(verdicts: Sequence[Verdict], width: int, *, utf: bool = True) -> list[Text]:
    """One a claim, and one more for each place that does not agree with the first; none is
    wider than `width` unless an id and a verdict are."""
    from rich.text import Text

    shown = [
        [_Parts(places, again) for places, again in _by_verdict(kind)]
        for kind in (findings_of(verdicts), checks_of(verdicts))
    ]
    every = [parts for kind in shown for parts in kind]
    if not every:
        return []
    room = _Room(every, width, "…" if utf else "~")
    drawn: list[Text] = []
    before = ""
    for heading, kind in zip(("", "Checks"), shown, strict=True):
        for parts in kind:
            title = heading or _title(parts.study)
            if title != before:
                drawn.append(Text(title, style="bold"))
            before = title
            drawn.append(room.line(parts))
    return drawn


def _title(study: str) -> str:
    return f"Study {study}" if study.isdigit() else study.capitalize()


class _Parts:
    """A line's cells. The verdict has its style."""

    def __init__(self, places: Sequence[Verdict], again: bool) -> None:
        first = places[0]
        self.study = first.study
        self.claim = "" if again else first.claim
        self.sentence = f"({', '.join(map(where, places))})" if again else first.text
        self.verdict = marked(first)
        self.style = STYLES[first.verdict]
        self.here = "" if first.verdict == "not measurable here" else _brief(first)
        self.published = "" if again else _SOURCE.sub("", first.published)


class _Room:
    """The columns of all lines: the figures as wide as they need and may be, the sentence
    takes what is left; where that is too little the figures go, the published first."""

    def __init__(self, every: Sequence[_Parts], width: int, cut: str) -> None:
        self.cut = cut
        self.claim = max(len(parts.claim) for parts in every)
        # What was not measured has no figure, so that its verdict may stand in the figure's place.
        figured = [parts for parts in every if parts.here]
        self.verdict = max(len(parts.verdict) for parts in figured or every)
        self.here = min(HERE_MOST, max(len(parts.here) for parts in every))
        self.published = min(PUBLISHED_MOST, max(len(parts.published) for parts in every))
        left = width - self.claim - self.verdict - GAP
        self.sentence = left - self.here - self.published - 3 * GAP
        if self.sentence < SENTENCE_LEAST:
            self.published = 0
            self.sentence = left - self.here - 2 * GAP
        if self.sentence < SENTENCE_LEAST:
            self.here = 0
            longest = max(len(parts.verdict) for parts in every)
            self.sentence = width - self.claim - longest - 2 * GAP
        if self.sentence < GAP + 2:
            self.sentence = 0

    def line(self, parts: _Parts) -> Text:
        from rich.text import Text

        gap = " " * GAP
        line = Text(self._fit(parts.claim, self.claim) + gap)
        if self.sentence:
            line.append(self._fit(parts.sentence, self.sentence) + gap)
        line.append(parts.verdict, style=parts.style)
        used = len(parts.verdict)
        if self.here and used <= self.verdict:
            line.append(" " * (self.verdict - used) + gap + self._fit(parts.here, self.here))
        elif self.here:
            line.append(" " * (self.verdict + GAP + self.here - used))
        if self.published:
            line.append(gap + self._fit(parts.published, self.published), style="dim")
        line.rstrip()
        return line

    def _fit(self, text: str, width: int) -> str:
        from rich.cells import cell_len, set_cell_size

        if cell_len(text) <= width:
            return set_cell_size(text, width)
        return set_cell_size(text, width - 1) + self.cut


def _by_verdict(verdicts: Iterable[Verdict]) -> list[tuple[list[Verdict], bool]]:
    """The places of each claim that agree, and whether others of the same claim came before."""
    by_claim: dict[str, dict[str, list[Verdict]]] = {}
    for verdict in verdicts:
        by_claim.setdefault(verdict.claim, {}).setdefault(verdict.verdict, []).append(verdict)
    return [
        (places, index > 0)
        for by_name in by_claim.values()
        for index, places in enumerate(by_name.values())
    ]


# ---- a row a verdict ----


def _print_tables(story: Story, console: Console) -> None:
    """By study; what is said of a claim stands below it, dim."""
    findings, checks = findings_of(story.verdicts), checks_of(story.verdicts)
    for study in dict.fromkeys(verdict.study for verdict in findings):
        own = [verdict for verdict in findings if verdict.study == study]
        _print_table(_title(study), own, story, console)
    if checks:
        _print_table("Checks", checks, story, console)
    _contradictions(judged(story.verdicts), console)


def _print_table(title: str, own: Sequence[Verdict], story: Story, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", expand=True, show_edge=False)
    table.add_column("claim", no_wrap=True, min_width=5)
    table.add_column("what it says, and why the verdict", ratio=5)
    table.add_column("published", ratio=2)
    table.add_column("here", ratio=2)
    table.add_column("verdict", min_width=11, max_width=12)
    before = ""
    for verdict in own:
        again = verdict.claim == before
        before = verdict.claim
        if not again:
            table.add_section()
        why = Text(". ".join(filter(None, (verdict.why, story.to_decide(verdict)))), style="dim")
        table.add_row(
            "" if again else verdict.claim,
            why if again else Text.assemble(verdict.text, "\n", why),
            Text("" if again else verdict.published),
            Text(f"{here(verdict)}\n({where(verdict)})"),
            Text(marked(verdict), style=STYLES[verdict.verdict]),
        )
    console.print(table)


def side(verdicts: Sequence[Verdict]) -> str:
    """One side of a contradiction: each claim with its verdict and figure."""
    return "\n".join(
        f"{v.claim}: {v.text}\n  published: {v.published}\n  here: {here(v)}"
        f" ({where(v)}), {v.verdict}"
        for v in verdicts
    )


def _contradictions(contradictions: Sequence[SideBySide], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    if not contradictions:
        return
    table = Table(
        title="Where the studies contradict each other",
        title_justify="left",
        show_lines=True,
        show_edge=False,
        expand=True,
    )
    for heading, ratio in (("the question", 3), ("one says", 4), ("another says", 4)):
        table.add_column(heading, ratio=ratio)
    for contradiction in contradictions:
        question = Text.assemble(contradiction.about, "\n", (contradiction.because, "dim"))
        table.add_row(question, Text(side(contradiction.left)), Text(side(contradiction.right)))
    console.print(table)
