# SPDX-License-Identifier: Apache-2.0
"""`swtch export`: a run for other programs."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from swtch import data, store
from swtch.commands import output, results
from swtch.errors import EXIT_OK, CannotError, RequestError, os_error_text


def export(path: Path, form: str, out: Path | None) -> int:
    """Writes the run in `path` as `form` into `out`; Google Benchmark's also to a pipe."""
    stored = results.validated(path)
    if form == "google-benchmark":
        return _google_benchmark(data.Run(stored, warns=False), out)
    folder = out or path / "export"
    run = data.Run(stored, warns=False)
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in data.FRAMES:
            frame = getattr(run, name)
            if frame.width == 0:
                continue
            # Into memory first: polars takes no name that is not UTF-8.
            text = io.BytesIO()
            if form == "parquet":
                frame.write_parquet(text)
            else:
                data.for_csv(frame).write_csv(text)
            files.append(folder / f"{name}.{form}")
            store.write_atomically(files[-1], text.getvalue())
    except OSError as error:
        raise CannotError(
            f"cannot write to {error.filename or folder}: {os_error_text(error)};"
            " choose another folder with --out."
        ) from None
    # Not before: a standard output that is closed is no folder that cannot be written to.
    for file in files:
        print(file)
    return EXIT_OK


def _google_benchmark(run: data.Run, out: Path | None) -> int:
    import msgspec

    from swtch import google_benchmark

    document = google_benchmark.of(run.stored)
    if not document["benchmarks"]:
        raise RequestError("this run has no times; Google Benchmark's form knows nothing else.")
    if out is None:
        output.print_json(document)
        return EXIT_OK
    text = msgspec.json.format(msgspec.json.encode(document)) + b"\n"
    try:
        store.write_atomically(out, text)
    except OSError as error:
        raise CannotError(
            f"cannot write {out}: {os_error_text(error)}; choose another file with --out."
        ) from None
    print(out)
    sys.stdout.flush()
    return EXIT_OK
