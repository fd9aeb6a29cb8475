# SPDX-License-Identifier: Apache-2.0
"""`io-echo`: its trials, its servers and the load by their protocol, and its chapter.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_beyond import measured
from probing import fails
from synthetic import Scene
from test_probes_003 import CPUS, Record, error, measure, probe

from swtch.engines import PEERS, native
from swtch.experiments import Setting, get, io_echo
from swtch.records import Depth, Invocation, Trial
from swtch.report.chapters import chapter
from swtch.report.chapters import sentences as sentences_of
from swtch.report.chapters.io_echo import SERVERS
from swtch.report.story import tell

__all__ = ["probe"]  # the fixture

# Of the probe itself: no peer has to be built, and no kernel has to allow io_uring.
OWN = [("pthread", "loop"), ("pthread", "threads"), ("uthread", "epoll")]


def trials(cpus: tuple[int, ...] = (4, 7), depth: Depth = "normal") -> dict[str, Trial]:
    setting = Setting(cpus=cpus, models=io_echo.MODELS, depth=depth)
    return {one.id.removeprefix("io-echo/"): one for one in io_echo.trials(setting)}


def echo(model: str = "uthread", by: str = "epoll", **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "io-echo",
        "model": model,
        "by": by,
        "connections": 20,
        "bytes": 64,
        "workers": 1,
        "hogs": 0,
        "closed_ns": 20_000_000,
        "open_ns": 50_000_000,
        "rate": 4000,
        "cpus": CPUS,
        "policy": "other",
        "tick_ns": 1_000_000,
        "seed": 7,
        **given,
    }
    return {name: value for name, value in base.items() if value is not None}


def whole(values: Mapping[str, float | int]) -> None:
    """Every request was answered, once and as it was sent."""
    assert values["counter"] == values["expected"] == values["requests"] * 64
    assert values["open_unanswered"] == 0
    assert values["latency_n"] == values["open_requests"] > 0
    assert values["late_n"] == values["answer_n"] == values["open_requests"]
    assert values["answer_max_ns"] <= values["latency_max_ns"]
    assert 0 <= values["closed_least"] <= values["closed_most"]
    assert 0 < values["latency_p50_ns"] <= values["latency_p99_ns"] <= values["latency_max_ns"]


# ---- trials ----


def test_each_server_has_each_case_quiet_and_beside_hogs() -> None:
    cases = {(1, number, io_echo.LIGHT) for number in io_echo.CONNECTIONS}
    cases |= {(1, io_echo.MOST, io_echo.HEAVY), (2, io_echo.MOST, io_echo.LIGHT)}
    assert set(trials()) == {
        f"{workers}/{number}/{rate}/{how}/{by}/{model}"
        for workers, number, rate in cases
        for how in ("quiet", "hogs")
        for model, by in io_echo.ARMS
    }
    assert set(io_echo.ARMS) == set(SERVERS)


def test_load_and_server_are_apart_where_there_are_cpus() -> None:
    for cpus in ((4, 7), (4, 7, 9)):
        for one in trials(cpus).values():
            apart = len(one.probe["cpus"]) > one.probe["workers"]
            assert apart == (one.note == ""), one.id
            assert apart or len(cpus) == 2 == one.probe["workers"]
            assert one.factors["cpus_used"] == len(one.probe["cpus"])
    alone = trials((3,))
    assert {one.probe["workers"] for one in alone.values()} == {1}
    assert all(one.note == io_echo.SHARED_NOTE for one in alone.values())


def test_who_is_compared_is_asked_the_same() -> None:
    for depth in ("quick", "normal", "paper"):
        asked: dict[str, list[Any]] = {}
        for name, one in trials(depth=depth).items():
            same = {**one.probe, "model": "", "by": "", "tick_ns": 0}
            asked.setdefault(name.rsplit("/", 2)[0], []).append(same)
        for every in asked.values():
            assert len(every) == len(io_echo.ARMS) and all(one == every[0] for one in every)


def test_a_quick_block_is_short_and_has_what_is_said() -> None:
    quick = trials(depth="quick")
    lasts = sum(1.25 * one.probe["closed_ns"] + one.probe["open_ns"] for one in quick.values())
    assert lasts < 2.5e9
    assert all(one.probe["connections"] == io_echo.MOST for one in quick.values())
    shortened = get("io-echo").shortened
    assert shortened(Setting(cpus=(1,), models=(), depth="quick"))
    assert shortened(Setting(cpus=(1,), models=(), depth="paper")) == ""


def test_guests_have_none() -> None:
    setting = Setting(cpus=(0, 1), models=io_echo.MODELS, engine="vm")
    assert io_echo.trials(setting) == () and get("io-echo").shortened(setting)


def test_metrics_of_what_the_probe_says() -> None:
    values = {
        "closed_ns": 2_000_000_000,
        "closed_answers": 100,
        "closed_cpu_ns": 1_000_000_000,
        "closed_least": 1,
        "closed_most": 4,
        "server_nvcsw": 30,
        "requests": 120,
        "latency_p99_ns": 70,
    }
    found = {name: metric.of(values) for name, metric in io_echo.METRICS.items()}
    assert found["throughput_rps"] == 50 and found["cpu_ns"] == 1e7 and found["busy"] == 0.5
    assert found["least_served"] == found["kernel_switches"] == 0.25
    assert found["p99_ns"] == 70 and found["own_switches"] is None
    # One that was not measurable has none of them.
    assert not any(metric.of({"wall_ns": 1}) for metric in io_echo.METRICS.values())


# ---- the probe ----


@pytest.mark.parametrize("hogs", [0, 1])
@pytest.mark.parametrize("connections", [1, 20, 300])
@pytest.mark.parametrize(("model", "by"), OWN)
def test_every_request_is_answered(
    probe: Path, model: str, by: str, connections: int, hogs: int
) -> None:
    made = measure(probe, echo(model, by, connections=connections, hogs=hogs))
    whole(made.values)
    assert made.values["connections"] == connections
    assert made.detail["measured"] is True
    assert made.detail["load_apart"] == (len(CPUS) > 1)
    assert ("switches" in made.values) == (model == "uthread")


@pytest.mark.parametrize(("model", "by"), OWN)
def test_servers_on_the_loads_cpu_and_on_all(probe: Path, model: str, by: str) -> None:
    whole(measure(probe, echo(model, by, cpus=CPUS[:1])).values)
    made = measure(probe, echo(model, by, workers=len(CPUS), hogs=1))
    whole(made.values)
    assert made.values["server_cpus"] == len(CPUS) and made.detail["load_apart"] is False


@pytest.mark.parametrize("size", [16, 63, 65, 4096])
@pytest.mark.parametrize(("model", "by"), OWN)
def test_requests_of_any_size(probe: Path, model: str, by: str, size: int) -> None:
    values = measure(probe, echo(model, by, bytes=size)).values
    assert values["counter"] == values["expected"] == values["requests"] * size


def test_what_was_meant_at_a_moment_is_asked_whatever_became_of_the_rest(probe: Path) -> None:
    """More than any server can: all are asked, and all answered in the end, late."""
    trial = echo(connections=2, rate=2_000_000, open_ns=20_000_000)
    values = measure(probe, trial).values
    whole(values)
    # A Poisson number about 40 000.
    assert 38_000 < values["open_requests"] < 42_000
    assert measure(probe, trial).values["open_requests"] == values["open_requests"]
    other = measure(probe, {**trial, "seed": 8}).values["open_requests"]
    assert other != values["open_requests"]


@pytest.mark.parametrize("model", ["go", "tokio"])
@pytest.mark.parametrize("hogs", [0, 1])
def test_peers_serve_the_same_load(probe: Path, model: str, hogs: int) -> None:
    program = probe.with_name(PEERS[model])  # type: ignore[index]
    if not program.is_file():
        pytest.skip(f"{program.name} is not built")
    made = measure(probe, echo(model, "net", hogs=hogs, connections=200, tick_ns=None))
    whole(made.values)
    assert made.detail["version"] and made.values["procs"] == 1


def test_io_uring_is_measured_or_the_reason_is_said(probe: Path) -> None:
    made = measure(probe, echo(by="uring"))
    if made.detail["measured"]:
        whole(made.values)
    else:
        assert "io_uring" in made.detail["unmeasured"] and "requests" not in made.values


def test_more_connections_than_descriptors_are_not_measurable(probe: Path) -> None:
    code = (
        "import ctypes, os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "ctypes.CDLL(None).prctl(24, 24, 0, 0, 0)\n"  # CAP_SYS_RESOURCE, gone with the exec
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(probe)],
        input=json.dumps(echo(connections=300)).encode(),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    sample = json.loads(done.stdout.splitlines()[1])
    assert sample["measured"] is False
    assert "300 connections need 364 descriptors, and the limit is 256" in sample["unmeasured"]


@pytest.mark.parametrize(
    ("given", "where", "says"),
    [
        ({"by": "telepathy"}, "by", "one of threads, loop, epoll, uring, net"),
        ({"by": "net"}, "by", "there is no server net of model uthread"),
        ({"model": "pthread"}, "by", "there is no server epoll of model pthread"),
        ({"model": "java"}, "model", "one of pthread, uthread, go, tokio"),
        ({"connections": 0}, "connections", ""),
        ({"connections": 20_001}, "connections", ""),
        ({"bytes": 15}, "bytes", ""),
        ({"rate": 10_000_000, "open_ns": 10**10}, "open_ns", "more than"),
        ({"workers": 65}, "workers", ""),
        ({"workers": 64}, "workers", "64 workers and"),
        ({"hogs": -1}, "hogs", ""),
        ({"closed_ns": None}, "closed_ns", "no closed_ns"),
        ({"tick_ns": 1}, "tick_ns", "at least"),
    ],
)
def test_a_wrong_trial_is_one_clear_line(probe: Path, given: Record, where: str, says: str) -> None:
    fails(probe, echo(**given), where, says)


def test_a_peer_that_is_missing_is_named(probe: Path, tmp_path: Path) -> None:
    copy = tmp_path / probe.name
    copy.write_bytes(probe.read_bytes())
    copy.chmod(0o755)
    failure = error(copy, echo("go", "net", tick_ns=None))
    assert failure["where"] == "model" and "swtch-probe-go: No such file" in failure["what"]


def test_a_server_that_fails_is_quoted(probe: Path, tmp_path: Path) -> None:
    copy = tmp_path / probe.name
    copy.write_bytes(probe.read_bytes())
    peer = tmp_path / "swtch-probe-go"
    peer.write_text(
        "#!/bin/sh\ncat >/dev/null\n"
        """echo '{"kind":"error","schema":1,"errno":24,"where":"here","what":"out of luck"}'\n"""
        "exit 2\n"
    )
    for program in (copy, peer):
        program.chmod(0o755)
    failure = error(copy, echo("go", "net", tick_ns=None))
    assert (failure["where"], failure["what"]) == ("here", "out of luck")


def test_a_server_that_says_something_else_is_found_out(probe: Path, tmp_path: Path) -> None:
    copy = tmp_path / probe.name
    copy.write_bytes(probe.read_bytes())
    peer = tmp_path / "swtch-probe-go"
    # Takes the connections, and answers each with as many other bytes.
    peer.write_text(
        "#!/usr/bin/env python3\n"
        "import json, os, socket, sys, threading\n"
        "trial = json.load(sys.stdin)\n"
        "listener = socket.socket(fileno=trial['listen'])\n"
        "listener.setblocking(True)\n"
        "def serve(c):\n"
        "    while data := c.recv(4096):\n"
        "        c.sendall(bytes(b ^ 1 for b in data))\n"
        "def accept():\n"
        "    while True:\n"
        "        c = listener.accept()[0]\n"
        "        threading.Thread(target=serve, args=(c,), daemon=True).start()\n"
        "threading.Thread(target=accept, daemon=True).start()\n"
        "while os.read(trial['control'], 1):\n"
        "    pass\n"
        'print(\'{"kind":"sample"}\', flush=True)\n'
        "os._exit(0)\n"
    )
    for program in (copy, peer):
        program.chmod(0o755)
    values = measure(copy, echo("go", "net", tick_ns=None, rate=200)).values
    assert values["counter"] == 0 < values["expected"]


# ---- the engine ----


def test_whoever_serves_the_probe_is_asked(tmp_path: Path) -> None:
    """A peer's trial is performed by swtch-probe; it starts the peer itself."""
    program = tmp_path / "swtch-probe"
    program.write_text(
        "#!/bin/sh\ncat >/dev/null\n"
        """echo '{"kind":"hello","schema":1}'\n"""
        """echo '{"kind":"sample","schema":1,"model":"go","wall_ns":5,"who":"the probe"}'\n"""
        """echo '{"kind":"end","schema":1,"samples":1}'\n"""
    )
    program.chmod(0o755)
    engine = native.NativeEngine(program)
    one = msgspec.structs.replace(trials((CPUS[0],))["1/10/10000/quiet/net/go"])
    outcome = engine.perform(one, Invocation(seq=0, trial_id=one.id, block=0, seed=1))
    assert outcome.sample.error == "" and outcome.sample.detail["who"] == "the probe"


# ---- the chapter ----

NS = {
    "epoll loop": 100_000,
    "pthreads": 400_000,
    "uthreads, epoll": 120_000,
    "uthreads, io_uring": 60_000,
    "Go": 800_000,
    "tokio": 240_000,
}


def answering(one: Trial, factor: float) -> Mapping[str, float]:
    ns = NS[SERVERS[one.model, str(one.factors["by"])]] * factor
    late = ns * (10 if one.factors["hogs"] else 1)
    return {
        "closed_ns": 1e9,
        "closed_answers": 1e9 / ns,
        "closed_cpu_ns": 5e8,
        "closed_least": 1,
        "closed_most": 2,
        "requests": 1000,
        "latency_p50_ns": late / 2,
        "latency_p99_ns": late,
        "latency_p999_ns": late * 2,
        "answer_p99_ns": late - 100,
        "late_p99_ns": 100,
    }


def test_the_chapter_compares_with_the_loop_and_beside_hogs(tmp_path: Path) -> None:
    scene = measured(Scene(), "io-echo", answering)
    story = tell(scene.write(tmp_path / "run"))
    assert [one.id for one in chapter("io-echo").figures(story)] == [
        "fig-io-echo",
        "fig-io-echo-tail",
    ]
    (table,) = chapter("io-echo").tables(story)
    assert len(table.rows) == len(trials())
    quiet, cost, tail, hogs, *ring = sentences_of(story, "io-echo")
    assert "a uthread for each (uthreads, epoll) answers 8 3" in quiet
    assert "0.83" in quiet and "as many as epoll loop" in quiet and "as many as tokio" in quiet
    assert "as much as the loop's" in cost and "1.2" in tail
    assert "Beside a hog on its CPU" in hogs and "0.15" in hogs and "as long as Go" in hogs
    assert len(ring) == 4 and all("io_uring" in one or "loop" in one for one in ring)


def test_what_was_not_measurable_is_said_with_its_reason(tmp_path: Path) -> None:
    scene, every = Scene(), measured(Scene(), "io-echo", answering)
    for one in every.trials:
        samples = [s for s in every.samples if s.trial_id == one.id]
        if one.factors["by"] == "uring":
            samples = [
                msgspec.structs.replace(
                    s, values={"wall_ns": 1}, detail={"unmeasured": "the kernel refuses it"}
                )
                for s in samples
            ]
        if one.model != "tokio":
            scene.add(one, samples)
    story = tell(scene.write(tmp_path / "run"))
    said = sentences_of(story, "io-echo")
    assert "Not measurable here: uthreads, io_uring: the kernel refuses it." in said
    assert any(one.startswith("Not measured here: tokio: once cargo") for one in said)
    assert not any("(uthreads, io_uring)" in one for one in said)
    assert all("NaN" not in one.svg for one in chapter("io-echo").figures(story))
