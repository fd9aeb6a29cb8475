#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""direct-cost's pipes beside ``perf bench sched pipe``: do both say the same?

    python peers/perf_pipe.py [--rounds N] [--loops N] [--policy fifo|batch|other]

Both pass a token between two processes, and with ``-T`` between two threads, over two
pipes, on one CPU under one policy, in turn. perf prints the time of all loops; one of its
loops (an *op*) is a round trip: two switches, two writes, two reads. The probe's turns are
the same, so its time for a pass of the token there and back is what is compared: twice
``switch``, without the baseline that ``cost`` has taken off. Both are means over all loops
of a process, and medians of those are compared.

What is left different: perf's token has 4 bytes, the probe's 1; perf also times making and
joining its two tasks, some tens of microseconds in all.

Needs perf (Debian: linux-perf). Exit status: 0 when the medians are within 10 % of one
another, 1 when they are not, 3 when something is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from swtch.analysis import effects
from swtch.engines.native import find_probe
from swtch.errors import LabError

WITHIN = 0.10
POLICIES = {"other": os.SCHED_OTHER, "batch": os.SCHED_BATCH, "fifo": os.SCHED_FIFO}
CASES = (("process", ()), ("pthread", ("-T",)))


def prepared(policy: str, cpu: int) -> Callable[[], None]:
    """What the child does before it becomes perf: the same CPU and policy as the probe."""

    def prepare() -> None:
        os.sched_setaffinity(0, {cpu})
        priority = 1 if policy == "fifo" else 0
        os.sched_setscheduler(0, POLICIES[policy], os.sched_param(priority))

    return prepare


def perf_us(perf: str, options: tuple[str, ...], loops: int, policy: str, cpu: int) -> float:
    """Microseconds of a round trip, as perf says."""
    done = subprocess.run(
        [perf, "bench", "-f", "simple", "sched", "pipe", "-l", str(loops), *options],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=prepared(policy, cpu),
    )
    return float(done.stdout.split()[-1]) * 1e6 / loops


def probe_us(model: str, loops: int, policy: str, cpu: int) -> float:
    """Microseconds of a round trip, as the probe says."""
    trial = {
        "schema": 1,
        "probe": "token",
        "model": model,
        "pass": "pipe",
        "cells": [{"bytes": 64, "stride": 0, "passes": loops}],
        "rounds": 1,
        "cpus": [cpu],
        "policy": policy,
    }
    done = subprocess.run(
        [str(find_probe())], input=json.dumps(trial).encode(), capture_output=True, check=True
    )
    records = map(json.loads, done.stdout.splitlines())
    ((_, turns),) = next(record["rounds"] for record in records if record["kind"] == "sample")
    return float(turns) / loops / 1000


def compare(
    rounds: int, measure: Callable[[], float], against: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Both in turn, the order turned round each time."""
    ours: list[float] = []
    theirs: list[float] = []
    for index in range(rounds):
        for first in (True, False) if index % 2 else (False, True):
            (ours if first else theirs).append(measure() if first else against())
    return ours, theirs


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--loops", type=int, default=20_000)
    parser.add_argument("--policy", choices=sorted(POLICIES), default="batch")
    given = parser.parse_args()
    perf = shutil.which("perf")
    if perf is None:
        print("perf_pipe: there is no perf; as root: apt-get install linux-perf", file=sys.stderr)
        return 3
    cpu = min(os.sched_getaffinity(0))
    agree = True
    print(f"us a round trip over two pipes, CPU {cpu}, policy {given.policy},", end=" ")
    print(f"{given.rounds} rounds in turn of {given.loops} loops")
    print(f"{'':10}{'perf':>9}{'probe':>9}   probe / perf [95 %]")
    for model, options in CASES:

        def ours(model: str = model) -> float:
            return probe_us(model, given.loops, given.policy, cpu)

        def theirs(options: tuple[str, ...] = options) -> float:
            return perf_us(perf, options, given.loops, given.policy, cpu)

        mine, others = compare(given.rounds, ours, theirs)
        effect = effects.paired(mine, others)
        assert effect is not None  # all times are positive
        ratio = effect.interval()
        agree = agree and abs(ratio.estimate - 1) <= WITHIN
        medians = f"{statistics.median(others):9.3f}{statistics.median(mine):9.3f}"
        print(f"{model:10}{medians}   {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
    print("within 10 %" if agree else "more than 10 % apart")
    return 0 if agree else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"perf_pipe: {error}", file=sys.stderr)
        sys.exit(3)
    except subprocess.CalledProcessError as error:
        said = error.stderr if isinstance(error.stderr, str) else error.stdout.decode()
        print(f"perf_pipe: {error.cmd[0]} failed: {said.strip()}", file=sys.stderr)
        sys.exit(3)
