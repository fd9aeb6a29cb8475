# SPDX-License-Identifier: Apache-2.0
"""The probe of study 004 by its protocol: what it counts is exact, what is wrong is said.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swtch.analysis import gates
from swtch.engines.native import find_probe
from swtch.engines.protocol import Result, read_result
from swtch.experiments import Setting, get
from swtch.experiments.direct_cost import WAYS
from swtch.records import Sample, Trial

LIMIT_S = 120  # only ever reached by a probe that hangs
CPUS = sorted(os.sched_getaffinity(0))[:1]
KERNEL = [way for way in WAYS if way.by in ("pipe", "futex")]
USER = [way for way in WAYS if way not in KERNEL]

Record = dict[str, Any]


@pytest.fixture(scope="session")
def probe() -> Path:
    """The measuring program; without it there is nothing to test, which is a failure."""
    return find_probe()


def token(model: str = "process", by: str = "pipe", **given: Any) -> Record:
    """A small trial; `given` replaces fields, None removes them."""
    trial: Record = {
        "schema": 1,
        "probe": "token",
        "model": model,
        "pass": by,
        "cells": [{"bytes": 4096, "stride": 64, "passes": 300}],
        "rounds": 3,
        "cpus": CPUS,
        "policy": "batch",
        **given,
    }
    return {name: value for name, value in trial.items() if value is not None}


def perform(probe: Path, trial: Record) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(probe)], input=json.dumps(trial).encode(), capture_output=True, timeout=LIMIT_S
    )


def as_trial(request: Record) -> Trial:
    return Trial(
        id="t", experiment="x", model=request["model"], engine="native", factors={}, probe=request
    )


def measure(probe: Path, trial: Record) -> Result:
    """What the lab makes of the trial."""
    done = perform(probe, trial)
    return read_result(done.stdout, done.returncode, as_trial(trial))


def error(probe: Path, trial: Record) -> Record:
    """The one error record of a trial that cannot be."""
    done = perform(probe, trial)
    assert done.returncode == 2, done.stdout
    hello, record = map(json.loads, done.stdout.splitlines())
    assert (hello["kind"], record["kind"]) == ("hello", "error")
    assert record["where"] and "\n" not in record["what"]
    return dict(record)


def sample(request: Record, result: Result) -> Sample:
    return Sample(
        seq=0,
        experiment="x",
        trial_id="t",
        model=request["model"],
        engine="native",
        factors={},
        block=0,
        seed=0,
        started="",
        elapsed_ns=1,
        status="ok",
        values=result.values,
        threads=result.threads,
        carriers=result.carriers,
        detail=result.detail,
    )


# ---- switches ----


@pytest.mark.parametrize("way", KERNEL, ids=lambda way: way.name)
def test_every_hand_over_is_a_switch_of_the_kernels(probe: Path, way: Any) -> None:
    request = token(way.model, way.by)
    result = measure(probe, request)
    assert result.values["handovers"] == 2 * 300 * 3
    assert result.detail["correct"] is True
    assert len(result.threads) == 2
    # Others may come between; a hand-over without a switch may not be.
    counted = gates.counted_switches(sample(request, result))
    assert counted >= result.values["handovers"] * 0.9
    assert "switches" not in gates.check(as_trial(request), sample(request, result))
    pids = {thread.pid for thread in result.threads}
    assert len(pids) == (2 if way.model == "process" else 1)


@pytest.mark.parametrize("way", USER, ids=lambda way: way.name)
def test_every_hand_over_is_counted_in_user_space(probe: Path, way: Any) -> None:
    request = token(way.model, way.by)
    result = measure(probe, request)
    assert result.detail["correct"] is True
    handovers = 2 * 300 * 3
    assert handovers <= result.values["switches"] <= handovers * 1.1
    assert all(thread.nvcsw is None for thread in result.threads)
    assert "switches" not in gates.check(as_trial(request), sample(request, result))


def test_the_gate_marks_hand_overs_that_did_not_switch(probe: Path) -> None:
    request = token("coroutine", "yield")
    result = measure(probe, request)
    values = {**result.values, "switches": result.values["handovers"] * 0.8}
    short = msgspec.structs.replace(result, values=values)
    assert "switches" in gates.check(as_trial(request), sample(request, short))


def test_alone_there_is_nobody_to_switch_to(probe: Path) -> None:
    result = measure(probe, token("uthread", "yield"))
    # Of the carrier alone: another program's turn on its CPU, at most.
    assert result.values["single_switches"] < result.values["handovers"] / 10


# ---- times ----


def test_the_cost_is_the_median_of_the_rounds_differences(probe: Path) -> None:
    result = measure(probe, token())
    rounds = result.detail["rounds"]
    assert len(rounds) == 3 and all(single > 0 and both > 0 for single, both in rounds)
    costs = sorted(both / 300 / 2 - single / 300 for single, both in rounds)
    assert result.values["cost_ns"] == pytest.approx(costs[1])
    assert result.values["single_ns"] == pytest.approx(sorted(s for s, _ in rounds)[1] / 300)
    assert result.values["switch_ns"] == pytest.approx(sorted(b for _, b in rounds)[1] / 600)


def test_several_cells_have_their_sizes_in_their_names(probe: Path) -> None:
    cells = [
        {"bytes": 1024, "stride": 0, "passes": 50},
        {"bytes": 8192, "stride": 8, "passes": 20},
    ]
    result = measure(probe, token("pthread", "pipe", cells=cells))
    assert result.values["handovers"] == 2 * 3 * (50 + 20)
    for name in ("cost_ns", "single_ns", "switch_ns"):
        assert f"{name}_1024_0" in result.values and f"{name}_8192_8" in result.values
        assert name not in result.values


def test_fifo_is_used_where_it_is_allowed(probe: Path) -> None:
    detail = measure(probe, token(policy="batch", fifo_if_allowed=True)).detail
    allowed = perform(probe, token(policy="fifo")).returncode == 0
    assert detail["policy"] == ("fifo" if allowed else "batch")
    assert measure(probe, token(policy="batch")).detail["policy"] == "batch"


# ---- counters ----


def test_counters_or_the_reason_why_not(probe: Path) -> None:
    result = measure(probe, token(count=True, rounds=2))
    if not result.detail["counted"]:
        assert "perf_event_open" in result.detail["uncounted"]
        assert "single_instructions" not in result.values
        return
    # A unit of work is a walk of 512 elements, and passing the token.
    assert result.values["single_instructions"] > 512
    assert result.values["switch_instructions"] > result.values["single_instructions"]
    assert 0 < result.values["running"] <= 1


def test_nobody_counts_unasked(probe: Path) -> None:
    detail = measure(probe, token()).detail
    assert detail["counted"] is False and "uncounted" not in detail


# ---- what is wrong is said ----


@pytest.mark.parametrize(
    ("given", "where", "what"),
    [
        ({"model": "kthread"}, "model", "unknown model 'kthread'"),
        ({"model": "uthread"}, "pass", "a uthread passes no token by 'pipe'"),
        ({"pass": "smoke"}, "pass", "'smoke'"),
        ({"cells": []}, "cells", "1 to"),
        ({"cells": [7]}, "cells", "cell 0 is not an object"),
        ({"cells": [{"bytes": 100, "stride": 8, "passes": 1}]}, "cells", "multiples of 8"),
        ({"cells": [{"bytes": 64, "stride": 128, "passes": 1}]}, "cells", "at most the bytes"),
        ({"cells": [{"bytes": 64, "stride": 8, "passes": 0}]}, "passes", "passes is 0"),
        ({"rounds": 0}, "rounds", "rounds is 0"),
        ({"rounds": 1000}, "rounds", "rounds is 1000"),
        ({"cpus": [9999]}, "cpus", "9999"),
        ({"policy": "idle"}, "policy", "unknown policy 'idle'"),
    ],
)
def test_a_wrong_trial(probe: Path, given: Record, where: str, what: str) -> None:
    record = error(probe, token(**given))
    assert record["where"] == where and what in record["what"]


@pytest.mark.parametrize("name", ["direct-cost", "working-set", "counters"])
def test_the_definitions_ask_for_what_the_probe_knows(probe: Path, name: str) -> None:
    """One trial of each model, with little work."""
    setting = Setting(cpus=tuple(CPUS), models=get(name).models, depth="normal")
    seen = set()
    for one in get(name).trials(setting):
        if (one.model, one.factors["way"]) in seen:
            continue
        seen.add((one.model, one.factors["way"]))
        cells = [{**cell, "passes": 3} for cell in one.probe["cells"]]
        result = measure(probe, {**one.probe, "cells": cells, "rounds": 1})
        assert result.detail["correct"] is True
        for known in get(name).metrics.values():
            known.of(result.values)
    assert len(seen) >= 3
