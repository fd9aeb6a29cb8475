# SPDX-License-Identifier: Apache-2.0
"""The trial `work`: every piece of it is done right, by each peer that a build here has.

peers/cpp is compiled for pthreads, for ucontext and for libuthread, and peers/cpp20, which need
nothing that the build does not; Go's program is beside the probe where Go is. Of the others those
are asked that `make peers` has built from these sources.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swtch.engines import PEERS
from swtch.experiments import work as experiment

ROOT = Path(__file__).resolve().parent.parent
COMPILED = ("pthread", "ucontext", "uthread", "cpp20")

# Of each piece: threads, size, and whether contexts and a queue are enough for it.
PIECES = {
    "yield": (3, 0, True),
    "create": (1, 0, True),
    "batch": (20, 0, True),
    "skynet": (100, 0, True),
    "fibonacci": (1, 6, True),
    "queens": (1, 6, True),
    "increments": (5, 100, True),
    "channel": (4, 0, False),
    "condition": (4, 0, False),
    "mutex": (1, 0, False),
    "contended": (4, 0, False),
    "sleep": (5, 20, False),
    "requests": (1, 20, False),
    "parked": (50, 0, False),
}


@pytest.fixture(scope="session")
def programs(
    probe: Path, libuthread_build: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """By model, the programs that can be had here."""
    folder = tmp_path_factory.mktemp("peers")
    compiler = os.environ.get("CXX", "c++")
    for model in COMPILED:
        library = [str(libuthread_build / "libuthread.a")] if model == "uthread" else []
        # Without the optimizer a coroutine calls the next instead of becoming it.
        cpp20 = model == "cpp20"
        subprocess.run(
            [
                *(*compiler.split(), "-std=c++20" if cpp20 else "-std=c++17"),
                *("-O2" if cpp20 else "-Og", "-Wall", "-Wextra", "-Werror", "-pthread"),
                *(f'-DRUNTIME="runtime/{model}.hpp"', '-DPEER_VERSION="tested"'),
                *("-I", str(ROOT / "libuthread/include"), "-o", str(folder / model)),
                str(ROOT / "peers" / ("cpp20" if cpp20 else "cpp") / "main.cpp"),
                *(*library, "-ljansson"),
            ],
            check=True,
            timeout=300,
        )
    made = {model: folder / model for model in COMPILED}
    if (go := probe.with_name(PEERS["go"])).is_file():
        made["go"] = go
    sources = [*(ROOT / "peers").rglob("*.*"), ROOT / "tools/peers.sh"]
    newest = max(one.stat().st_mtime for one in sources)
    for model, name in PEERS.items():
        built = ROOT / "build/probes" / name
        if model not in made and built.is_file() and built.stat().st_mtime > newest:
            made[model] = built
    return made


def ask(program: Path, **given: object) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the records of a trial; 1 ms is enough for a batch here."""
    trial = {
        "schema": 1,
        "probe": "work",
        "work": "create",
        "threads": 2,
        "size": 0,
        "span_ns": 1_000_000,
        "workers": 1,
        "tls": "own",
        "policy": "other",
        "seed": 1,
        "cpus": [min(os.sched_getaffinity(0))],
        **given,
    }
    done = subprocess.run(
        [program], input=json.dumps(trial).encode(), stdout=subprocess.PIPE, timeout=120
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def sample(program: Path, **given: object) -> dict[str, Any]:
    status, records = ask(program, **given)
    assert (status, [one["kind"] for one in records]) == (0, ["hello", "sample", "end"]), records
    return records[1]


@pytest.mark.parametrize("work", PIECES)
def test_the_sum_is_right_and_says_how_much_was_done(programs: dict[str, Path], work: str) -> None:
    threads, size, contexts = PIECES[work]
    for model, program in programs.items():
        made = sample(program, model=model, work=work, threads=threads, size=size)
        assert made["model"] == model and made["version"] and "built" in made
        without = model == "tokio" and work == "condition"
        if without or (model in experiment.BARE and not contexts):
            assert work in made["unmeasured"] and "operations" not in made
            continue
        assert made["counter"] == made["expected"] and made["operations"] > 0
        assert made["wall_ns"] > 0
        assert ("bytes" in made) == (work == "parked")
        late = work in ("sleep", "requests")
        assert ("late_p99_ns" in made) == late
        if late:
            assert 0 <= made["late_p50_ns"] <= made["late_p99_ns"] <= made["late_max_ns"]
        elif work != "parked":
            assert made["wall_ns"] >= 1_000_000


@pytest.mark.parametrize("tls", ["own", "shared"])
@pytest.mark.parametrize("work", ["create-main", "batch-main"])
def test_main_creates_where_it_is_no_thread(programs: dict[str, Path], work: str, tls: str) -> None:
    for model, program in programs.items():
        made = sample(program, model=model, work=work, threads=20, tls=tls)
        assert ("unmeasured" in made) == (model not in experiment.MAIN), model


def test_several_workers_are_had_or_refused(programs: dict[str, Path]) -> None:
    for model, program in programs.items():
        made = sample(program, model=model, work="yield", threads=8, workers=2)
        several = model in experiment.SEVERAL
        assert made.get("unmeasured", "") == ("" if several else "it has one worker"), model


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"schema": 2}, "schema"),
        ({"probe": "scenario"}, "probe"),
        ({"model": "kthread"}, "model"),
        ({"policy": "fifo"}, "policy"),
        ({"threads": 0}, "threads"),
        ({"size": -1}, "size"),
        ({"span_ns": 0}, "span_ns"),
        ({"workers": 0}, "workers"),
        ({"tls": "none"}, "tls"),
        ({"cpus": []}, "cpus"),
    ],
)
def test_what_is_wrong_is_named(
    programs: dict[str, Path], given: dict[str, object], where: str
) -> None:
    for model, program in programs.items():
        status, records = ask(program, **{"model": model, **given})
        assert (status, records[-1]["kind"], records[-1]["where"]) == (2, "error", where), model
