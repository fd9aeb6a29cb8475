# SPDX-License-Identifier: Apache-2.0
"""`swtch show` and `swtch report`: a run directory as text or as files.

Both validate the directory first, so that what is corrupt is named by file and
line instead of surfacing somewhere inside the analysis.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swtch import data, store
from swtch.commands import output
from swtch.errors import EXIT_OK, CannotError, RequestError, did_you_mean, os_error_text

if TYPE_CHECKING:
    from swtch.report.story import Story

REPORT_FORMATS = ("html", "md", "json")


def show(path: Path, form: str, *, verbose: bool = False) -> int:
    """Prints the run in `path`."""
    validated(path)
    emit(path, form, verbose=verbose)
    return EXIT_OK


def write_report(path: Path, forms: str, out: Path | None, *, verbose: bool = False) -> int:
    """Writes the report files of the run in `path`, into `out` if given.

    Who looks on is told what became of the claims, too; a pipe gets the files' names alone.
    """
    from swtch.report import story, verdicts

    chosen = _formats(forms)
    validated(path)
    content = story.tell(path)
    files = write(path, chosen, out, content)
    if content.of_all_studies and (verbose or sys.stdout.isatty()):
        verdicts.print_story(content, output.console(), verbose=verbose)
    for file in files:
        print(file)
    return EXIT_OK


def write_figures(path: Path, form: str, out: Path | None) -> int:
    """Writes the figures of the run in `path` as files of their own."""
    from swtch import report

    validated(path)
    folder = (out or path) / "figures"
    try:
        files = report.write_figures(path, form, folder)
    except OSError as error:
        raise CannotError(
            f"cannot write figures to {error.filename or folder}: {os_error_text(error)};"
            f" choose another folder: swtch report {shlex.quote(str(path))} --figures {form} -o DIR"
        ) from None
    for file in files:
        print(file)
    return EXIT_OK


def emit(path: Path, form: str, *, verbose: bool = False) -> None:
    """The results of the run in `path` on standard output."""
    from swtch import report

    if form == "json":
        output.print_json(report.as_json(path))
    elif form == "csv":
        from swtch.report import legible

        output.print_csv(data.sample_rows(legible.run(store.load(path)).samples))
    elif form == "md":
        sys.stdout.write(report.as_markdown(path))
    else:
        report.print_run(path, output.console(), verbose=verbose)


def write(
    path: Path, formats: Sequence[str], out: Path | None = None, story: Story | None = None
) -> list[Path]:
    """Report files of the run in `path`, there or in `out`."""
    from swtch import report

    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        return report.write(path, tuple(formats), out, story)
    except OSError as error:
        where = error.filename or out or path
        raise CannotError(
            f"cannot write the report to {where}: {os_error_text(error)};"
            f" choose another folder: swtch report {shlex.quote(str(path))} -o DIR"
        ) from None


def write_all(path: Path, story: Story | None = None) -> list[Path]:
    """Every form that this machine can make: what was just measured is reported in any case."""
    from swtch.report import charts

    wrong = charts.lack()
    if wrong:
        print(f"swtch: there is no report.html: {wrong}.", file=sys.stderr)
    return write(path, [f for f in REPORT_FORMATS if f != "html" or not wrong], story=story)


def trust(path: Path) -> int:
    """Has the code that came with the run in `path` run from now on."""
    from swtch import own
    from swtch.own import guard

    manifest = store.load_manifest(path)
    guard.clear()
    files = own.trust_run(path, manifest)
    for source in files:
        print(f"{path / source.copy} (sha256 {source.sha256}), from {source.path}")
    if not files:
        print(f"swtch: {path} has no code of its own.", file=sys.stderr)
    return EXIT_OK


def _formats(forms: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(word.strip() for word in forms.split(",") if word.strip()))
    for word in chosen:
        if word not in REPORT_FORMATS:
            raise RequestError(
                f"--format: a report cannot be {word!r}.{did_you_mean(word, REPORT_FORMATS)}"
                f" Any of {', '.join(REPORT_FORMATS)} can be given, with commas between."
            )
    if not chosen:
        raise RequestError(f"--format names nothing; give any of {', '.join(REPORT_FORMATS)}.")
    return chosen


def validated(path: Path) -> store.Run:
    run = store.load(path)
    if not run.complete:
        cut = ", and an incomplete last line is left out" if run.cut_bytes else ""
        print(
            f"swtch: this run is not complete: {run.counted}{cut}."
            f" To continue it: swtch run --resume {shlex.quote(str(path))}",
            file=sys.stderr,
        )
    return run
