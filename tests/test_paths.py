# SPDX-License-Identifier: Apache-2.0
"""How many instructions the hot paths take: `swtch-paths`, counted one by one.

The bounds are of one compiler and processor. Instructions repeat where time does not, so a
path that grows by some is seen on the busiest machine; one that is to grow gets a new bound
here, with the reason in the commit.
"""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swtch.engines.native import find_probe

# (path, TLS): instructions of one operation, by gcc 12 -O2, as the package is built, on x86-64.
BOUNDS = {
    ("empty", "own"): 2.1,
    ("yield", "own"): 176.1,
    ("yield", "shared"): 180.1,
    ("create", "own"): 1355.8,
    ("create", "shared"): 1074.8,
    ("mutex", "own"): 27.1,
    ("sem", "own"): 1141.6,
    ("sem", "shared"): 1149.6,
    ("chan", "own"): 1409.6,
    ("chan", "shared"): 1417.6,
    ("chan-room", "own"): 240.1,
    ("tick", "own"): 716.0,
    ("tick", "shared"): 718.0,
}
TREE = Path(__file__).parents[1]
SLACK = 1.01
SKIPPED = 77


def program() -> Path:
    return find_probe().with_name("swtch-paths")


def run(*paths: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), *paths], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def counted() -> dict[tuple[str, str], dict[str, Any]]:
    done = run()
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(line["path"], line["tls"]): line for line in lines}


def test_each_path_is_counted_in_both_modes(
    counted: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert set(counted) == set(BOUNDS)
    for (path, _), line in counted.items():
        assert 0 < line["instructions"] <= line["middle"] <= line["most"], path


def test_no_path_has_grown(counted: dict[tuple[str, str], dict[str, Any]]) -> None:
    compiler = next(iter(counted.values()))["compiler"]
    if platform.machine() != "x86_64" or not compiler.startswith("12."):
        pytest.skip(f"the bounds are of gcc 12 on x86-64, this is {compiler}")
    grown = {
        key: (line["instructions"], BOUNDS[key])
        for key, line in counted.items()
        if line["instructions"] > BOUNDS[key] * SLACK
    }
    assert not grown


def test_a_tick_is_counted_without_the_way_back(
    counted: dict[tuple[str, str], dict[str, Any]],
) -> None:
    # Which is as long as the way there; one that comes while another is stepped through and
    # finds that it has nothing to do is half of that, and seldom.
    for tls in ("own", "shared"):
        line = counted["tick", tls]
        assert line["most"] < 1.9 * line["instructions"]
        assert line["middle"] <= SLACK * line["instructions"]


def test_a_count_repeats(counted: dict[tuple[str, str], dict[str, Any]]) -> None:
    again = json.loads(run("mutex").stdout)
    assert again["instructions"] == counted["mutex", "own"]["instructions"]


def test_who_comes_to_a_mark_while_another_is_stepped_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "steps"
    sources = [TREE / "probes" / name for name in ("tests/steps.c", "paths/steps.c")]
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{TREE / 'probes'}"]
    built = subprocess.run(
        [*command, "-o", str(program), *map(str, sources), "-pthread"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == SKIPPED:
        pytest.skip("nothing is counted here")
    assert done.stdout == "0 1\n"


def test_a_path_that_is_none_is_refused() -> None:
    done = run("yeild")
    assert done.returncode == 2
    assert "'yeild' is no path; there are empty, yield, create" in done.stderr
