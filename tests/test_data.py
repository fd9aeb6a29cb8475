# SPDX-License-Identifier: Apache-2.0
"""A run as data: frames, files for other programs, and the schema that describes them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

import swtch
from swtch import cli, data, google_benchmark, records, schema, store
from swtch.errors import CorruptError

ROOT = Path(__file__).parents[1]
OLD = Path(__file__).parent / "data" / "run-schema-1"


@pytest.fixture
def run() -> data.Run:
    return swtch.load(OLD)


# ---- frames ----


def test_load_gives_a_typed_manifest(run: data.Run) -> None:
    assert isinstance(run.manifest, records.Manifest)
    assert run.manifest.depth == "normal"
    assert run.path == OLD


def test_samples_are_a_row_each(run: data.Run) -> None:
    frame = run.samples
    assert frame.height == len(run.stored.samples) == 30
    assert frame["counter"].dtype == pl.Int64
    assert set(frame["scenario"]) == {"A", "B1", "B2", "C1", "C2"}
    assert frame["wall_ns"].to_list() == [s.values["wall_ns"] for s in run.stored.samples]


def test_no_column_is_another_ones(run: data.Run) -> None:
    """A probe of one's own may call its values, and who plans a trial its factors, anything."""
    one, other = run.stored.samples[:2]
    one = msgspec.structs.replace(
        one,
        factors={"status": "frozen", "turns": "many", "size": 8},
        values={"seq": 77, "error": 5, "turns": 9, "size": 8, "wall_ns": 3},
    )
    other = msgspec.structs.replace(other, factors={"turns": 4}, values={"turns": 4})
    rows = data.sample_rows([one, other])
    assert (rows[0]["seq"], rows[0]["status"], rows[0]["error"]) == (one.seq, "ok", "")
    assert (rows[0]["value.seq"], rows[0]["factor.status"], rows[0]["value.error"]) == (
        77,
        "frozen",
        5,
    )
    assert (rows[0]["factor.turns"], rows[0]["turns"], rows[0]["size"]) == ("many", 9, 8)
    assert (rows[1]["factor.turns"], rows[1]["turns"]) == (4, 4)
    assert "factor.size" not in rows[0]


def test_threads_are_a_row_each(run: data.Run) -> None:
    assert run.threads.height == sum(len(s.threads) for s in run.stored.samples)
    assert set(run.threads["kind"]) == {"thread"}
    assert run.threads["nvcsw"].dtype == pl.Int64


def test_metrics_and_findings_agree(run: data.Run) -> None:
    of = (pl.col("trial") == "scenarios/B2/pthread") & (pl.col("metric") == "throughput_mops")
    values = run.metrics.filter(of)
    (found,) = run.findings.filter(of).rows(named=True)
    assert (values.height, found["n"], found["unit"]) == (5, 5, "Mops/s")
    assert values["value"].median() == pytest.approx(found["estimate"])
    assert found["low"] <= found["estimate"] <= found["high"]


def test_verdicts_are_a_row_each(run: data.Run) -> None:
    assert {"000.1", "000.3"} <= set(run.verdicts["claim"])
    assert set(run.verdicts["verdict"]) <= {
        "holds",
        "differs",
        "cannot tell",
        "not measurable here",
    }


def test_a_column_of_numbers_and_text_is_text() -> None:
    frame = data._frame([{"n": 1, "x": 1}, {"n": "many", "x": 2.5}, {"y": True}])
    assert frame["n"].to_list() == ["1", "many", None]
    assert frame["x"].to_list() == [1.0, 2.5, None]
    assert frame["y"].to_list() == [None, None, True]
    assert data._frame([]).width == 0


def test_what_is_no_run_is_told() -> None:
    with pytest.raises(CorruptError, match="is not a run directory"):
        swtch.load("/nowhere")


# ---- files ----


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_export_writes_every_frame(
    form: str, run: data.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["export", str(OLD), "--format", form, "--out", str(out)]) == 0
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [file.name for file in files] == [f"{name}.{form}" for name in data.FRAMES]
    read = pl.read_csv if form == "csv" else pl.read_parquet
    for file in files:
        assert read(file).shape == getattr(run, file.stem).shape
    assert sorted(out.iterdir()) == sorted(files)


def test_ids_are_text_for_who_guesses(run: data.Run, tmp_path: Path) -> None:
    assert cli.main(["export", str(OLD), "--out", str(tmp_path)]) == 0
    read = pl.read_csv(tmp_path / "verdicts.csv")
    of_study = set(run.verdicts.filter(pl.col("study") == "000")["claim"])
    assert {f"claim {claim}" for claim in of_study} <= set(read["claim"])
    assert "study 000" in set(read["study"])
    # As they are where columns have types.
    assert cli.main(["export", str(OLD), "--format", "parquet", "--out", str(tmp_path)]) == 0
    assert pl.read_parquet(tmp_path / "verdicts.parquet").equals(run.verdicts)


def test_studies_in_a_list_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--format", "csv"]) == 0
    read = pl.read_csv(io.StringIO(capsys.readouterr().out))
    assert {"study 000", "study 004"} <= set(read["study"])


def test_google_benchmark_has_what_its_tools_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(OLD), "--format", "google-benchmark"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert {"date", "num_cpus", "library_build_type", "caches"} <= set(made["context"])
    rows = [row for row in made["benchmarks"] if row["name"] == "scenarios/B2/pthread"]
    assert [row["repetition_index"] for row in rows] == [0, 1, 2, 3, 4]
    samples = [s for s in store.load(OLD).samples if s.trial_id == "scenarios/B2/pthread"]
    for row, sample in zip(rows, samples, strict=True):
        wall = sample.values["wall_ns"]
        assert row["real_time"] == pytest.approx(wall / 4_000_000)
        cpu = sum(thread.cpu_ns or 0 for thread in sample.threads)
        assert row["cpu_time"] == pytest.approx(cpu / 4_000_000)
        assert (row["time_unit"], row["run_type"], row["threads"]) == ("ns", "iteration", 4)


@pytest.mark.parametrize(
    ("value", "unit", "ns"),
    [(2.0, "us", 2000.0), (4.0, "Mops/s", 250.0), (2.0, "ms", 2e6), (5.0, "instructions", None)],
)
def test_what_is_no_time_is_left_out(value: float, unit: str, ns: float | None) -> None:
    assert google_benchmark._nanoseconds(value, unit) == ns


def test_export_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(OLD), "--out", "/proc/none"]) == 3
    assert "choose another folder with --out" in capsys.readouterr().err
    arguments = ["--format", "google-benchmark", "--out", "/proc/none/x"]
    assert cli.main(["export", str(OLD), *arguments]) == 3
    assert "choose another file with --out" in capsys.readouterr().err


# ---- schema ----


def test_the_schema_in_the_docs_is_that_of_the_code() -> None:
    there = (ROOT / "docs" / "schema.json").read_text(encoding="utf-8")
    assert there == schema.text(), "python -m swtch.schema > docs/schema.json"


def test_every_record_is_in_the_schema() -> None:
    structs = {
        name
        for name, value in vars(records).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
        if value.__module__ == records.__name__
    }
    assert set(schema.document()["$defs"]) == structs


def wrong(value: Any, about: dict[str, Any], where: str = "") -> Iterator[str]:
    """What of `value` is not as `about` says: the part of JSON Schema that is used."""
    definitions = schema.document()["$defs"]
    if "$ref" in about:
        about = definitions[about["$ref"].rpartition("/")[2]]
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    if "anyOf" in about:
        if all(list(wrong(value, one)) for one in about["anyOf"]):
            yield f"{where}: {value!r} is none of the allowed"
        return
    if "enum" in about and value not in about["enum"]:
        yield f"{where}: {value!r}"
    if "type" in about and not isinstance(value, kinds[about["type"]]):
        yield f"{where}: {value!r} is no {about['type']}"
        return
    if isinstance(value, dict):
        for name in about.get("required", ()):
            if name not in value:
                yield f"{where}.{name} is missing"
        for name, inner in value.items():
            known = about.get("properties", {}).get(name, about.get("additionalProperties", {}))
            if isinstance(known, dict):
                yield from wrong(inner, known, f"{where}.{name}")
    if isinstance(value, list) and isinstance(about.get("items"), dict):
        for index, inner in enumerate(value):
            yield from wrong(inner, about["items"], f"{where}[{index}]")


def test_what_is_written_follows_the_schema(run: data.Run) -> None:
    definitions = schema.document()["$defs"]
    manifest = msgspec.json.decode(msgspec.json.encode(run.manifest))
    assert list(wrong(manifest, definitions["Manifest"])) == []
    for sample in run.stored.samples:
        written = msgspec.json.decode(msgspec.json.encode(sample))
        assert list(wrong(written, definitions["Sample"])) == []
    assert list(wrong({**manifest, "depth": "deep"}, definitions["Manifest"])) == [".depth: 'deep'"]
    del manifest["plan"]
    assert list(wrong(manifest, definitions["Manifest"])) == [".plan is missing"]
