# SPDX-License-Identifier: Apache-2.0
"""A run as files people read: HTML, Markdown and JSON.

``story``     what is said, computed once     ``chapters``  how each experiment is shown
``charts``    how a figure is made            ``tables``    what a table is
``switchcost`` the picture on top             ``standing``  how the claims stand
``terminal``  the run in a terminal           ``templates`` the page
``legible``   what text of a run may hold

The HTML is one file under a content-security policy that allows no request and
no script; a report is a file to send on, and must open the same anywhere.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swtch.store import SAMPLES, write_atomically

if TYPE_CHECKING:
    from rich.console import Console

    from swtch.records import Verdict
    from swtch.report.story import Story
    from swtch.report.tables import Table

SCHEMA = 1
# Base64 makes a third more of it; a report stays under 6 MB, to be sent by mail. Data
# are in it twice, whole and by experiment; packed it is a tenth.
DATA_MAX_BYTES = 3 << 19
DATA_PLAIN_BYTES = 1 << 19
NAMES = {"html": "report.html", "md": "report.md", "json": "report.json"}


def write(
    run_dir: Path,
    formats: Sequence[str] = ("html", "md", "json"),
    out: Path | None = None,
    story: Story | None = None,
) -> list[Path]:
    """Writes the report of the run in `run_dir` there, or into `out`; returns the files.

    All forms are made before the first is written, and each replaces an old one at once.
    ``story`` is that of the run, where it has been told already.
    """
    from swtch.report.story import tell

    story = story or tell(run_dir)
    folder = out or run_dir
    makers = {"html": _html, "md": _markdown, "json": _json}
    texts = {folder / NAMES[form]: makers[form](story, run_dir) for form in formats}
    for file, text in texts.items():
        write_atomically(file, text.encode())
    return list(texts)


def write_figures(run_dir: Path, form: str, folder: Path) -> list[Path]:
    """Every figure of the run as a file of its own: svg, png or pdf."""
    from swtch import own
    from swtch.report import charts, switchcost
    from swtch.report.chapters import figures
    from swtch.report.story import tell

    charts.need(charts.REPORT_WITHOUT)
    story = tell(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    made = [(figure.id, charts.as_file(figure, form)) for figure in switchcost.figures(story)[:1]]
    for experiment in story.experiments:
        outside = own.chapter(experiment.name)
        as_file = outside.file if outside is not None else charts.as_file
        every = figures(story, experiment.name)
        made += [(f.id, data) for f in every if (data := as_file(f, form)) is not None]
    files = []
    for name, data in made:
        file = folder / f"{name}.{form}"
        write_atomically(file, data)
        files.append(file)
    return files


def print_run(run_dir: Path, console: Console, *, verbose: bool = False) -> None:
    """Prints the run in `run_dir`: tables, charts of text, verdicts; of one about all studies
    a line a claim, unless `verbose`."""
    from swtch.report.terminal import print_run

    print_run(run_dir, console, verbose=verbose)


def as_json(run_dir: Path) -> dict[str, Any]:
    """The JSON report: findings, verdicts, controls, environment."""
    from swtch.report.story import tell

    return _as_json(tell(run_dir))


def as_markdown(run_dir: Path) -> str:
    """The Markdown report."""
    from swtch.report.story import tell

    return _markdown(tell(run_dir), run_dir)


def _as_json(story: Story) -> dict[str, Any]:
    import msgspec

    from swtch.claims.contradictions import judged
    from swtch.report import standing
    from swtch.report.chapters import sentences

    manifest = story.run.manifest
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "run_id": manifest.run_id,
        "created": manifest.created,
        "swtch_version": manifest.swtch_version,
        "engine": manifest.engine,
        "seed": manifest.seed,
        "complete": story.run.complete,
        "elsewhere": story.elsewhere,
        "headline": story.headline,
        "highlights": story.highlights,
        "counts": {
            "findings": standing.counts(standing.findings_of(story.verdicts)),
            "checks": standing.counts(standing.checks_of(story.verdicts)),
        },
        "levels": dict(story.levels),
        "verdicts": msgspec.to_builtins(story.verdicts),
        "contradictions": [
            {
                "about": shown.about,
                "because": shown.because,
                "left": [v.claim for v in shown.left],
                "right": [v.claim for v in shown.right],
            }
            for shown in judged(story.verdicts)
        ],
        "findings": msgspec.to_builtins(story.findings),
        "said": {
            experiment.name: lines
            for experiment in story.experiments
            if (lines := sentences(story, experiment.name))
        },
        "controls": [
            {
                "a": control.a.trial.id,
                "b": control.b.trial.id,
                "ratio": msgspec.to_builtins(control.ratio),
                "differs": control.differs,
            }
            for control in story.controls
        ],
        "false_positives": {
            "called": story.false_positives.called,
            "of": story.false_positives.of,
        },
        "neighbours": msgspec.to_builtins(story.neighbours),
        "notes": story.notes,
        "environment": manifest.environment,
    }
    return report


def _json(story: Story, _: Path) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(_as_json(story)), indent=2).decode() + "\n"


def _html(story: Story, run_dir: Path) -> str:
    from importlib import resources

    import jinja2
    import msgspec

    from swtch.claims.contradictions import judged
    from swtch.report import charts, standing, switchcost
    from swtch.report.chapters import chapter, figures, sentences
    from swtch.report.story import spread, where

    charts.need(charts.REPORT_WITHOUT)

    templates = resources.files("swtch.report") / "templates"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=unbroken
    )
    environment.filters["whole"] = whole
    template = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8"))
    file = run_dir / SAMPLES
    data = file.read_bytes() if file.exists() else b""
    packed = len(data) > DATA_PLAIN_BYTES
    link = _data_link(data, packed)
    by_experiment = _lines_by_experiment(data)
    chapters = [
        {
            "experiment": experiment,
            "notes": [n for n in story.notes if n.startswith(f"{experiment.name}/")],
            "said": sentences(story, experiment.name),
            "shortened": story.shortened(experiment),
            "figures": figures(story, experiment.name),
            "tables": filled(chapter(experiment.name).tables(story)),
            "data": _data_link(by_experiment.get(experiment.name, b""), True),
        }
        for experiment in story.experiments
    ]
    shown = msgspec.json.format(msgspec.json.encode(story.run.manifest.environment), indent=2)
    return template.render(
        story=story,
        css=(templates / "report.css").read_text(encoding="utf-8"),
        chapters=chapters,
        environment=shown.decode(),
        data_link=link,
        packed=packed,
        contradictions=judged(story.verdicts),
        spread=spread,
        where=where,
        first_figures=switchcost.figures(story),
        findings=standing.findings_of(story.verdicts),
        checks=standing.checks_of(story.verdicts),
        counts=standing.counts(standing.findings_of(story.verdicts)),
        grid=standing.grid(story.verdicts),
        letters=standing.LETTERS,
        anchor=standing.anchor,
        gated=any(map(standing.turns_on_gates, story.verdicts)),
        turns_on_gates=standing.turns_on_gates,
        mark_meaning=standing.MARK_MEANING,
    )


# Between the thousands of a number, and before its per cent, no line ends.
_THOUSANDS = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")
_PER_CENT = re.compile(r"(?<=\d) (?=%)")


def unbroken(value: Any) -> Any:
    """Text as a page shows it; what is copied out, the environment, stays as it is."""
    if type(value) is not str or "\n" in value or value.startswith("data:"):
        return value
    return _PER_CENT.sub("\u00a0", _THOUSANDS.sub("\u202f", value))


# What a line must not end within: it is typed as it stands.
_TYPED = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*|\b\d+\.\d+-(?:amd64|arm64)\b")


def whole(value: str) -> Any:
    """A sentence with its options, and guests' names, each in one piece."""
    from markupsafe import Markup, escape

    return Markup(_TYPED.sub(r'<span class="whole">\g<0></span>', str(escape(unbroken(value)))))


def _data_link(data: bytes, packed: bool) -> str:
    """`data` as a link that downloads it; none of nothing, or of what is too much."""
    import base64
    import gzip

    if not data:
        return ""
    kind = "application/gzip" if packed else "application/x-ndjson"
    # Without a time of day in it, so that the same run makes the same page.
    data = gzip.compress(data, mtime=0) if packed else data
    if len(data) > DATA_MAX_BYTES:
        return ""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _lines_by_experiment(data: bytes) -> dict[str, bytes]:
    """The complete lines of a samples file, as they are, by experiment; without damaged ones,
    which the store left out, too."""
    import msgspec

    class Named(msgspec.Struct):
        experiment: str

    by_experiment: dict[str, list[bytes]] = {}
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            continue
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            name = msgspec.json.decode(line, type=Named).experiment
            by_experiment.setdefault(name, []).append(line)
    return {name: b"".join(lines) for name, lines in by_experiment.items()}


def _markdown(story: Story, _: Path) -> str:
    from swtch.claims.contradictions import judged
    from swtch.report import standing
    from swtch.report.chapters import chapter, sentences
    from swtch.report.story import spread

    manifest = story.run.manifest
    counted = story.run.counted
    lines = [
        "# What switching threads costs here",
        "",
        f"{_md_line(story.machine)}  ",
        _md_line(f"{counted}, {story.created}, engine {story.engines}"),
        "",
    ]
    if story.headline:
        lines += [f"**{_md(story.headline)}**", ""]
    if story.neighbours.sentence:
        lines += [_md_line(story.neighbours.sentence), ""]
    if story.elsewhere:
        lines += [_md_line(story.elsewhere), ""]
    lines += [f"- {_md_line(sentence)}" for sentence in story.highlights]
    lines += ["", "## Claims", ""]
    for sentence in filter(None, (story.judged_at, story.budget)):
        lines += [_md_line(sentence), ""]
    findings, checks = standing.findings_of(story.verdicts), standing.checks_of(story.verdicts)
    if findings or not checks:
        lines += _md_verdicts(story, findings)
    if checks:
        lines += ["", "### Checks", "", *_md_verdicts(story, checks)]
    contradictions = judged(story.verdicts)
    if contradictions:
        lines += ["", "## Where the studies contradict each other", ""]
        rows = [
            (f"{shown.about} {shown.because}", *map(_sides, (shown.left, shown.right)))
            for shown in contradictions
        ]
        lines += _md_table(("The question", "One says", "Another says"), rows)
    for experiment in story.experiments:
        lines += ["", f"## {experiment.title}", "", experiment.question, ""]
        lines += [f"- {_md_line(sentence)}" for sentence in sentences(story, experiment.name)]
        lines += [f"- {_md_line(line)}" for line in story.shortened(experiment)]
        lines += [f"- {_md_line(n)}" for n in story.notes if n.startswith(f"{experiment.name}/")]
        for table in filled(chapter(experiment.name).tables(story)):
            lines += ["", _md_line(table.caption), ""]
            lines += _md_table(table.columns, [row.cells for row in table.rows])
    lines += ["", "## Validity", ""]
    lines += _md_table(
        ("Gate", "A sample is marked when", "Marked"),
        [(name, meaning, f"{n} of {total}") for name, meaning, n, total in story.gate_rows],
    )
    if story.controls:
        lines += ["", _md_line(story.controls_summary), ""]
        lines += _md_table(
            ("Trial", "Ratio to its copy", "p", "Called"),
            [
                (
                    control.a.trial.id,
                    f"{spread(control.ratio)} x",
                    f"{control.p:.2g}",
                    "different" if control.differs else "no difference",
                )
                for control in story.controls
            ],
        )
    if story.courses:
        lines += ["", _md_line(story.courses)]
    if story.target:
        lines += ["", _md_line(story.target)]
    if story.errors:
        lines += ["", "Failed invocations:", ""]
        lines += [f"- {_md_line(error)}" for error in story.errors]
    made_by = f"swtch {manifest.swtch_version}, run {manifest.run_id}, seed {manifest.seed}"
    lines += ["", f"{_md(made_by)}: {_md_code(' '.join(manifest.command))}", ""]
    return "\n".join(lines)


def _md_verdicts(story: Story, verdicts: Sequence[Verdict]) -> list[str]:
    """A table of verdicts, with what would decide those that are open."""
    from swtch.report import standing
    from swtch.report.story import spread, where

    return _md_table(
        ("Claim", "What it says", "Published", "Here", "Verdict", "Why"),
        [
            (
                verdict.claim,
                verdict.text,
                verdict.published,
                f"{spread(verdict.here)} {verdict.here.unit} ({where(verdict)})"
                if verdict.here
                else "–",
                standing.marked(verdict),
                ". ".join(filter(None, (verdict.why, story.to_decide(verdict)))),
            )
            for verdict in verdicts
        ],
        strong=4,
    )


def _sides(verdicts: Sequence[Verdict]) -> str:
    from swtch.report.story import spread, where

    return "; ".join(
        f"{v.claim}: {v.text} (published: {v.published}; here:"
        f" {spread(v.here) + ' ' + v.here.unit if v.here else '–'}, {where(v)}, {v.verdict})"
        for v in verdicts
    )


def filled(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


# What begins something other than text: code, emphasis, a tag, a cell; a link or a
# picture by its `](`, an entity, an underscore that is not within a word, an address.
_MD_INLINE = re.compile(
    r"[\\`*<|~$]|\](?=[\[(:])|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|(?<=:)/(?=/)|(?<=www)\."
)


def _md(text: str) -> str:
    """`text` within a line of Markdown, or a cell, that says just that."""
    return _MD_INLINE.sub(lambda m: "&lt;" if m[0] == "<" else "\\" + m[0], text.strip())


def _md_line(text: str) -> str:
    """The same where a line or an item of a list begins."""
    safe = _md(text)
    if re.match(r"[#>+=\[-]", safe):
        return "\\" + safe
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", safe)


def _md_code(text: str) -> str:
    """`text` as code: between more backticks than it has in a row."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"{fence}{text}{fence}"


def _md_table(columns: Sequence[str], rows: Sequence[Sequence[str]], strong: int = -1) -> list[str]:
    """A table; the cells of column `strong` are emphasised."""

    def cell(index: int, text: str) -> str:
        return f"**{_md(text)}**" if index == strong else _md(text)

    lines = ["| " + " | ".join(map(_md, columns)) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(*c) for c in enumerate(row)) + " |" for row in rows]
    return lines
