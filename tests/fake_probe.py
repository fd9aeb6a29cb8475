# SPDX-License-Identifier: Apache-2.0
"""Stands in for swtch-probe: follows the protocol, or breaks it as FAKE_PROBE says.

FAKE_PROBE is a mode, or ``TRIAL=MODE`` pairs separated by commas, where TRIAL
is ``model`` or ``intervention`` of the trial; a trial that is not named is
done well. FAKE_LOG names a file to which every start adds one line. FAKE_GATE is
a file of samples, a number, and a file: while the first has so many lines and the
other is there, nothing is answered.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def say(**record: object) -> None:
    print(json.dumps({"schema": 1, **record}), flush=True)


def mode_for(trial: dict[str, Any]) -> str:
    told = os.environ.get("FAKE_PROBE", "ok")
    if "=" not in told:
        return told
    modes = dict(pair.split("=") for pair in told.split(","))
    for key in ("model", "intervention"):
        if trial.get(key) in modes:
            return modes[trial[key]]
    return "ok"


def scenario(trial: dict[str, Any]) -> dict[str, Any]:
    expected = trial["threads"] * trial["iterations"]
    user_space = trial["model"] != "pthread"
    counters = ("nvcsw", "nivcsw", "utime_ns", "stime_ns", "cpu_ns")
    counts = dict.fromkeys(counters, None if user_space else 7)
    threads = [
        {
            "index": index,
            "pid": os.getpid(),
            "tid": os.getpid() + index,
            "cpu": trial["cpus"][index % len(trial["cpus"])],
            "cpu_end": 0,
            "start_ns": 1_000,
            "end_ns": 41_000_000,
            **counts,
        }
        for index in range(trial["threads"])
    ]
    carrier = {"index": 0, "tid": os.getpid(), "cpu": 0, **dict.fromkeys(counters, 3)}
    return {
        "wall_ns": 40_000_000 + trial["seed"] % 1_000_000,
        "counter": expected,
        "expected": expected,
        "pid": os.getpid(),
        "policy": trial["policy"],
        "switches": 400 if user_space else 0,
        "minflt": 1,
        "majflt": 0,
        "threads": threads,
        "carriers": [carrier] if user_space else [],
    }


def gantt(trial: dict[str, Any]) -> dict[str, Any]:
    left = list(trial["work"])
    slots: list[dict[str, int]] = []
    finished: list[int] = []
    while any(left):
        for task, work in enumerate(left):
            if work:
                iteration = trial["work"][task] - work + 1
                slots.append({"slot": len(slots), "task": task, "iteration": iteration})
                left[task] -= 1
                if not left[task]:
                    finished.append(task)
    return {
        "order": trial["order"],
        "slots": slots,
        "finished": finished,
        "switches": 2 * len(slots),
        "stacks_created": len(left),
        "stacks_reused": 0,
        "wall_ns": 20_000,
        "overflow_detected": True,
    }


def ring(trial: dict[str, Any]) -> dict[str, Any]:
    handovers = trial["members"] * trial["laps"] * (trial["batches"] + 1)
    each = {"each_p10_ns": 40.5, "each_p50_ns": 50.0, "each_p90_ns": 60.0}
    return {"wall_ns": 50 * handovers, "handovers": handovers, "switches": handovers, **each}


def token(trial: dict[str, Any]) -> dict[str, Any]:
    passes = sum(cell["passes"] for cell in trial["cells"]) * trial["rounds"]
    times = {"wall_ns": 9_000_000, "cost_ns": 300.0, "single_ns": 5.0, "switch_ns": 305.0}
    return {**times, "handovers": 2 * passes, "switches": 2 * passes, "single_switches": 0}


def io(trial: dict[str, Any]) -> dict[str, Any]:
    trips = trial["connections"] * trial["trips"]
    sent = trips * trial["bytes"]
    clients = {"client_cpu_ns": 4_000 * trips, "client_nvcsw": trips, "client_nivcsw": 0}
    server = {"server_cpu_ns": 4_000 * trips, "server_waits": trips}
    times = {"wall_ns": 9_000 * trips, **clients, **server}
    return {**times, "trips": trips, "counter": sent, "expected": sent, "switches": 2 * trips}


def lines_of(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def pass_gate() -> None:
    told = os.environ.get("FAKE_GATE")
    if told:
        samples, number, gate = json.loads(told)
        while Path(gate).exists() and lines_of(Path(samples)) >= number:
            time.sleep(0.02)


def main() -> int:
    trial = json.loads(sys.stdin.read())
    mode = mode_for(trial)
    log = os.environ.get("FAKE_LOG")
    if log:
        with Path(log).open("a") as file:
            file.write(f"{os.getpid()} {len(os.environ.get('SWTCH_PAD', ''))}\n")
    if mode == "silent":
        return 0
    if mode == "status":
        return 7
    say(kind="hello", probe="fake", version="0", pid=os.getpid())
    pass_gate()
    if mode == "error":
        say(kind="error", errno=1, where="sched_setaffinity", what="CPU 9 is not\nallowed")
        return 2
    if mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "hang":
        time.sleep(1000)
    if mode == "rubbish":
        print('{"kind":"sample", oops', flush=True)
    if mode == "list":
        print("[1]", flush=True)
    if mode == "kind":
        say(kind="greeting")
    if mode == "flood":
        while True:
            print("x" * 65536, flush=True)
    if mode == "grandchild":
        child = subprocess.Popen(["sleep", "1000"])
        Path(os.environ["FAKE_LOG"] + ".child").write_text(str(child.pid))
    sample = {"kind": "sample", "model": trial["model"]}
    known = {"scenario": scenario, "ring": ring, "token": token, "io": io}
    sample |= known.get(trial["probe"], gantt)(trial)
    if mode == "model":
        sample["model"] = "kthread"
    if mode == "wall":
        sample["wall_ns"] = 0
    if mode == "thread":
        sample["threads"][0]["tid"] = "one"
    if mode == "schema":
        sample["schema"] = 2
        print(json.dumps(sample), flush=True)
    elif mode == "torn":
        print(json.dumps({"schema": 1, **sample})[:50], end="", flush=True)
        return 0
    else:
        say(**sample)
    if mode == "twice":
        say(**sample)
    if mode != "cut":
        say(kind="end", samples={"count": 3, "twice": 2}.get(mode, 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
