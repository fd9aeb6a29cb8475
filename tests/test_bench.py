# SPDX-License-Identifier: Apache-2.0
"""The comparison: its statistics on invented rows, and the command on fake programs.

Nothing here is a test of speed: that is what `make bench` is for.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "peers"

FAKE = """#!/bin/sh
[ "$1" = --cpu ] && shift 2
case "{program} $1 $2" in
"uthread-bench yield own") ns=10 ;;
"uthread-bench bare own") ns=8 ;;
"uthread-bench create own") echo "no room here" >&2; exit 1 ;;
"uthread-bench park shared") ns=1; more=',"bytes":4000,"asked":20,"create_ns":1,"wake_ns":1' ;;
"uthread-bench park own") ns=1; more=',"bytes":10000,"asked":10,"create_ns":9000,"wake_ns":1' ;;
"uthread-bench pages own") ns=6000; more=',"walk_ns":100' ;;
"uthread-bench pages shared") ns=2000; more=',"walk_ns":5' ;;
"uthread-bench yield shared") ns=5; [ "$3" = 2 ] || ns=25 ;;
"pthread-bench yield ") ns=800 ;;
*) ns=5 ;;
esac
[ -z "$more" ] || more="$more,\\"table_bytes\\":512,\\"guard\\":\\"madvise\\",\\"vmas\\":2"
[ -z "$more" ] || more="$more,\\"guards_tried\\":10,\\"guards_held\\":10"
echo "{{\\"name\\":\\"$1\\",\\"ns\\":$ns,\\"n\\":10$more}}"
"""


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PEERS))
    return importlib.import_module("bench_cases")


@pytest.fixture
def stats(cases: Any) -> Any:
    return importlib.import_module("bench_stats")


@pytest.fixture
def bench(stats: Any) -> Any:
    return importlib.import_module("bench")


@pytest.fixture
def build_dir(tmp_path: Path) -> Path:
    """A build of fake programs; Boost.Fiber is not installed there."""
    folder = tmp_path / "build" / "peers"
    folder.mkdir(parents=True)
    for program in ("uthread-bench", "pthread-bench", "go-bench"):
        path = folder / program
        path.write_text(FAKE.format(program=program))
        path.chmod(0o755)
    return folder.parent


def run(build_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PEERS / "bench.py"), "--build-dir", str(build_dir), *arguments],
        cwd=build_dir,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def row_of(stats: Any, name: str, *values: float | None) -> Any:
    return stats.Row(name, name, "ns", list(values))


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 3.0, 4.0, 5.0],
        [1.0] * 9 + [1000.0],
        [1.0, 1.0, 1.0, 1.0, 2.0, 50.0, 51.0],
        [3.5] * 12,
        [float(n * n) for n in range(30)],
    ],
)
def test_estimate_interval_contains_the_median(stats: Any, values: list[float]) -> None:
    found = stats.estimate(values)
    assert found.median == statistics.median(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert (found.kind, found.n) == ("bca", len(values))


def test_estimate_of_few_values_is_their_range(stats: Any) -> None:
    found = stats.estimate([4.0, None, 2.0, 3.0])
    assert (found.low, found.median, found.high) == (2.0, 3.0, 4.0)
    assert (found.kind, found.n) == ("range", 3)
    assert stats.estimate([None, None]) is None


def test_ratio_is_taken_by_round(stats: Any) -> None:
    # The machine was ten times slower in the second half; the ratio was not.
    ours = [10.0, 10.0, 10.0, 100.0, 100.0, 100.0]
    theirs = [50.0, 50.0, 50.0, 500.0, 500.0, 500.0]
    found = stats.estimate(stats.paired(theirs, ours))
    assert (found.low, found.median, found.high) == (5.0, 5.0, 5.0)
    assert stats.paired([1.0, None, 3.0], [2.0, 2.0, None]) == [0.5, None, None]


def test_target_is_met_by_any_of_its_checks(stats: Any, cases: Any) -> None:
    target = cases.Target(
        "fast", (cases.Check("ours", 20.0), cases.Check("ours", 2.5, versus="bare"))
    )
    rows = {"ours": row_of(stats, "ours", 30.0, 30.0), "bare": row_of(stats, "bare", 15.0, 15.0)}
    assert stats.judge(target, rows).verdict == "met"
    assert [words for _, _, words in stats.judge(target, rows).checks] == ["missed", "met"]
    rows["bare"] = row_of(stats, "bare", 10.0, 10.0)
    assert stats.judge(target, rows).verdict == "missed"
    del rows["bare"]
    assert stats.judge(target, rows).verdict == "not measured"
    assert stats.judge(target, {}).verdict == "not measured"


def test_target_of_a_peer_is_a_least_ratio(stats: Any, cases: Any) -> None:
    target = cases.Target("wide", (cases.Check("peer", 5.0, versus="ours", at_least=True),))
    rows = {"ours": row_of(stats, "ours", 10.0), "peer": row_of(stats, "peer", 51.0)}
    assert stats.judge(target, rows).verdict == "met"
    rows["peer"] = row_of(stats, "peer", 49.0)
    assert stats.judge(target, rows).verdict == "missed"


def test_tables_name_only_rows_there_are(cases: Any) -> None:
    names = [case.name for case in cases.CASES]
    assert len(set(names)) == len(names)
    many = [f"{row}-{mode}" for row in ("park", "pages", "walk") for mode in ("own", "shared")]
    known = {*names, *cases.MANY_VERSUS, *many, "help"}
    assert {case.versus for case in cases.CASES} <= {*known, ""}
    assert set(cases.MANY_VERSUS.values()) <= known
    assert {case.group for case in cases.CASES} <= set(cases.GROUPS)
    for target in cases.TARGETS:
        for check in target.any_of:
            assert {check.case, check.versus} <= {*known, ""}


@pytest.mark.parametrize("output", ["", "Segmentation fault", "[1]", '{"n":1}', '{"ns":1}\n{}'])
def test_program_output_without_a_number_is_one_line(bench: Any, output: str) -> None:
    with pytest.raises(bench.FailedError) as error:
        bench.parse(output)
    assert "\n" not in str(error.value)


def test_bench_survives_a_missing_peer_and_a_failing_program(build_dir: Path) -> None:
    done = run(build_dir, "--quick", "--rounds", "6", "--park", "20")
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert sum("boost-bench is not built" in line for line in said) == 1
    assert sum(line.startswith("bench: create-own: ") for line in said) == 1
    assert "bench: create-own: ended with status 1: no room here" in said
    assert any("memory for 10 of 20" in line for line in said)
    assert "Traceback" not in done.stderr

    result = json.loads((build_dir / "bench.json").read_text())
    rows = {row["name"]: row for row in result["rows"]}
    assert result["missing"] == ["boost-bench"]
    assert not [name for name in rows if "boost" in name]
    assert rows["yield-own"]["values"] == [10.0] * 6
    assert rows["create-own"]["estimate"] is None
    assert rows["park-shared"]["values"] == [4000.0]
    targets = {target["name"]: target for target in result["targets"]}
    verdicts = {name: target["verdict"] for name, target in targets.items()}
    assert verdicts["yield, own TLS: sched_yield takes >= 40 x as long"] == "met"
    assert verdicts["yield, own TLS: Boost.Fiber takes >= 5 x as long"] == "not measured"
    assert verdicts["create + join, own TLS, 1 worker: <= 250 ns"] == "not measured"
    assert verdicts["parked, own TLS: <= 9.0 KB each"] == "missed"
    assert verdicts["parked, shared TLS: <= 4.5 KB each"] == "met"
    made = "created, {} TLS, by main: <= 5 us, or <= 1.3 x the pages alone"
    assert verdicts[made.format("own")] == "missed"  # 9 us, 1.5 x
    assert verdicts[made.format("shared")] == "met"
    many = "yield among very many, {} TLS: <= 4 x two, or 1.3 x the lines alone"
    assert verdicts[many.format("own")] == "met"
    assert verdicts[many.format("shared")] == "missed"  # 5 x both
    assert rows["make-own-main"]["values"] == [9000.0]
    name, found, words = targets["yield, own TLS: sched_yield takes >= 40 x as long"]["checks"][0]
    assert (name, found["median"], words) == ("x yield-own", 80.0, "met")
    for row in rows.values():
        found = row["estimate"]
        assert found is None or found["low"] <= found["median"] <= found["high"]
    assert "missed" in done.stdout


def test_bench_check_fails_when_a_target_is_missed(build_dir: Path) -> None:
    quick = ("--quick", "--rounds", "1")
    assert run(build_dir, *quick, "--only", "park", "--check").returncode == 1
    assert run(build_dir, *quick, "--only", "yield", "--check").returncode == 0
    assert run(build_dir, "--only", "nonsense").returncode == 2


def test_bench_without_any_program_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "switch,yield")
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 3
    assert all("is not built" in line for line in done.stderr.splitlines())


@pytest.mark.skipif(
    not os.access(ROOT / "build-bench/peers/uthread-bench", os.X_OK), reason="not built"
)
def test_bench_runs_the_real_programs(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    only = "naked,bare-shared,yield-shared,create-shared,park"
    done = run(
        ROOT / "build-bench",
        *("--quick", "--rounds", "1", "--park", "1000", "--only", only, "--json", str(out)),
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows["yield-shared"]["detail"]["switches_per_yield"] == pytest.approx(1, abs=0.01)
    park = rows["park-shared"]["detail"]
    assert park["guards_tried"] == park["guards_held"] > 0
