# SPDX-License-Identifier: Apache-2.0
"""The probes beyond the studies by their protocol: what they count is exact.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
from probing import fails, run
from test_probes_003 import CPUS, Record, error, measure, probe

from swtch.analysis import gates
from swtch.engines import PEERS
from swtch.engines.protocol import Result
from swtch.experiments import coroutine_io, peers, ping, producer_consumer, signal, sync, syscall
from swtch.records import Sample, Trial

__all__ = ["probe"]  # the fixture

two = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def of(base: Record, given: Record) -> Record:
    """The trial with fields replaced, or taken away by None."""
    return {name: value for name, value in {**base, **given}.items() if value is not None}


# ---- ring ----


def ring(model: str = "pthread", by: str = "futex", **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "ring",
        "model": model,
        "by": by,
        "members": 2,
        "batches": 10,
        "laps": 20,
        "cpus": CPUS[:1],
        "policy": "batch",
        "seed": 0,
    }
    return of(base, given)


def marks(trial: Record, made: Result) -> tuple[str, ...]:
    """The gates that mark what was measured."""
    own = Trial(
        id="t", experiment="x", model=trial["model"], engine="native", factors={}, probe=trial
    )
    sample = Sample(
        seq=0,
        experiment="x",
        trial_id="t",
        model=trial["model"],
        engine="native",
        factors={},
        block=0,
        seed=0,
        started="",
        elapsed_ns=10**12,
        status="ok",
        values=made.values,
        threads=made.threads,
    )
    return gates.check(own, sample)


SAME = [(model, by) for model, every in ping.SAME.items() if model != "kthread" for by in every]
TWO = [(model, by) for model, every in ping.TWO.items() for by in every]


@pytest.mark.parametrize(("model", "by"), SAME)
def test_each_hand_over_is_a_switch(probe: Path, model: str, by: str) -> None:
    trial = ring(model, by)
    made = measure(probe, trial)
    assert made.values["handovers"] == 2 * 20 * (10 + 1)
    assert 0 < made.values["each_p10_ns"] <= made.values["each_p50_ns"]
    assert made.values["each_p50_ns"] <= made.values["each_p90_ns"]
    # The wall time is that of the batches that count.
    assert made.values["wall_ns"] >= 10 * 20 * 2 * made.values["each_p10_ns"] * 0.1
    assert "switches" not in marks(trial, made)
    if model in ("process", "pthread"):
        assert len(made.threads) == 2
        assert (made.threads[0].pid == made.threads[1].pid) == (model == "pthread")
        assert {thread.cpu for thread in made.threads} == {CPUS[0]}


@two
@pytest.mark.parametrize(("model", "by"), TWO)
def test_two_cpus_pass_the_token(probe: Path, model: str, by: str) -> None:
    made = measure(probe, ring(model, by, cpus=CPUS, batches=4, laps=5))
    assert made.values["passes"] == 2 * 5 * (4 + 1)
    assert "handovers" not in made.values
    if model != "uthread":
        assert [thread.cpu for thread in made.threads] == CPUS


@pytest.mark.parametrize("model", ["process", "pthread", "uthread", "coroutine"])
def test_a_ring_of_many(probe: Path, model: str) -> None:
    by = "yield" if model == "coroutine" else "sem" if model == "uthread" else "futex"
    trial = ring(model, by, members=12, laps=5, pages=32)
    made = measure(probe, trial)
    assert made.values["handovers"] == 12 * 5 * (10 + 1)
    assert "switches" not in marks(trial, made)


def test_a_ring_that_did_not_switch_is_marked(probe: Path) -> None:
    """The gate itself: the same sample with hand-overs that nobody counted."""
    trial = ring("uthread", "yield")
    made = measure(probe, trial)
    made.values["handovers"] *= 2
    assert "switches" in marks(trial, made)


@pytest.mark.parametrize("asked", ["one", "all"])
def test_a_barrier_is_given_or_refused_with_a_reason(probe: Path, asked: str) -> None:
    made = measure(probe, ring("process", barrier=asked))
    assert made.values["handovers"] > 0
    if made.values["fence_errno"]:
        assert not int(made.values["fence_state"]) & 4 or made.values["fence_state"] < 0
    else:
        assert int(made.values["fence_state"]) & 4
    assert "fence_errno" not in measure(probe, ring("process", barrier="none")).values


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"model": "go"}, "model"),
        ({"by": "telepathy"}, "by"),
        ({"model": "uthread", "by": "pipe"}, "by"),
        ({"by": "spin"}, "by"),
        ({"members": 1}, "members"),
        ({"members": 65}, "members"),
        ({"batches": 0}, "batches"),
        ({"laps": 0}, "laps"),
        ({"pages": 2000}, "pages"),
        ({"barrier": "some"}, "barrier"),
        ({"cpus": []}, "cpus"),
        ({"policy": "idle"}, "policy"),
    ],
)
def test_a_wrong_ring_is_named(probe: Path, given: Record, where: str) -> None:
    record = error(probe, ring(**given))
    assert record["where"] == where


@two
@pytest.mark.parametrize(("model", "by"), [("uthread", "yield"), ("coroutine", "yield")])
def test_who_yields_stays_on_one_cpu(probe: Path, model: str, by: str) -> None:
    assert error(probe, ring(model, by, cpus=CPUS))["where"] == "cpus"


# ---- calls ----


def calls(kind: str, model: str = "pthread", **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "calls",
        "model": model,
        "kind": kind,
        "batches": 20,
        "calls": 10,
        "cpus": CPUS[:1],
        "policy": "batch",
        "seed": 0,
    }
    return of(base, given)


KINDS = [(kind, model) for model, kinds in syscall.KINDS.items() for kind in kinds]


@pytest.mark.parametrize(("kind", "model"), [*KINDS, *((kind, "pthread") for kind in signal.SELF)])
def test_calls_are_counted_and_switch_nobody(probe: Path, kind: str, model: str) -> None:
    made = measure(probe, calls(kind, model))
    assert made.values["calls"] == 200
    assert 0 < made.values["each_p10_ns"] <= made.values["each_p50_ns"]
    assert made.values["each_p50_ns"] <= made.values["each_p90_ns"] <= made.values["each_p99_ns"]
    (thread,) = made.threads
    # Nobody to hand over to: whatever it was, it did not sleep.
    assert thread.nvcsw == 0 and thread.cpu == CPUS[0]


@two
def test_an_interrupted_thread_handles_every_signal(probe: Path) -> None:
    made = measure(probe, calls("interrupt", cpus=CPUS))
    assert made.values["calls"] == 200


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"kind": "fork"}, "kind"),
        ({"kind": "interrupt"}, "cpus"),
        ({"kind": "uyield"}, "model"),
        ({"model": "uthread"}, "model"),
        ({"model": "process"}, "model"),
        ({"batches": 0}, "batches"),
        ({"calls": 0}, "calls"),
    ],
)
def test_a_wrong_call_is_named(probe: Path, given: Record, where: str) -> None:
    assert error(probe, calls(**{"kind": "getppid", **given}))["where"] == where


# ---- sync ----


def adding(model: str, way: str, **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "sync",
        "model": model,
        "way": way,
        "threads": 4,
        "times": 200,
        "between": 5,
        "cpus": CPUS,
        "policy": "batch",
        "seed": 0,
    }
    return of(base, given)


@pytest.mark.parametrize("way", sync.WAYS)
@pytest.mark.parametrize("model", sync.MODELS)
def test_every_way_gives_the_same_sum(probe: Path, model: str, way: str) -> None:
    trial = adding(model, way, tick_ns=100_000 if model == "uthread" else None)
    made = measure(probe, trial)
    assert made.values["counter"] == made.values["expected"] == 4 * 200
    assert "counter" not in marks(trial, made)
    assert len(made.threads) == (0 if model == "uthread" else 4)


def test_threads_that_are_stopped_with_the_lock_lose_nothing(probe: Path) -> None:
    trial = adding("uthread", "mutex", cpus=CPUS[:1], times=200_000, tick_ns=100_000)
    made = measure(probe, trial)
    assert made.values["counter"] == 800_000 and made.values["ticks"] > 0


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"model": "process"}, "model"),
        ({"way": "hope"}, "way"),
        ({"threads": 0}, "threads"),
        ({"times": 0}, "times"),
        ({"between": -1}, "between"),
    ],
)
def test_a_wrong_sum_is_named(probe: Path, given: Record, where: str) -> None:
    assert error(probe, adding(**{"model": "pthread", "way": "own", **given}))["where"] == where


# ---- queue ----


def queue(model: str, room: int, **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "queue",
        "model": model,
        "pairs": 1,
        "room": room,
        "items": 100,
        "cpus": CPUS[:1],
        "policy": "batch",
        "seed": 0,
    }
    return of(base, given)


@pytest.mark.parametrize("pairs", [1, 3])
@pytest.mark.parametrize("room", [1, 16])
@pytest.mark.parametrize("model", producer_consumer.MODELS)
def test_every_item_arrives_once(probe: Path, model: str, room: int, pairs: int) -> None:
    cpus = CPUS[:1] if model == "coroutine" else CPUS
    trial = queue(model, room, pairs=pairs, cpus=cpus)
    made = measure(probe, trial)
    all_of_them = 100 * pairs
    assert made.values["items"] == all_of_them
    assert made.values["counter"] == made.values["expected"] == all_of_them * (all_of_them + 1) / 2
    assert marks(trial, made) == ()


@pytest.mark.parametrize("model", producer_consumer.MODELS)
def test_the_time_is_that_of_the_items_alone(probe: Path, model: str) -> None:
    """Of one item, no model's creation and joining are in it: the time of a thousand is far
    more, and that of one is within the whole program's."""
    few = min(measure(probe, queue(model, 16, items=1)).values["wall_ns"] for _ in range(5))
    many = min(measure(probe, queue(model, 16, items=20_000)).values["wall_ns"] for _ in range(5))
    assert 0 < few < many


@pytest.mark.parametrize("model", producer_consumer.MODELS)
def test_room_for_one_is_two_switches_an_item(probe: Path, model: str) -> None:
    made = measure(probe, queue(model, 1, items=1000))
    kernel = [(t.nvcsw or 0) + (t.nivcsw or 0) for t in made.threads]
    assert (sum(kernel) if kernel else made.values["switches"]) >= 2 * 1000 - 20


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"model": "ucontext"}, "model"),
        ({"room": 0}, "room"),
        ({"items": 0}, "items"),
        ({"pairs": 0}, "pairs"),
    ],
)
def test_a_wrong_queue_is_named(probe: Path, given: Record, where: str) -> None:
    assert error(probe, queue(**{"model": "pthread", "room": 1, **given}))["where"] == where


# ---- wakeup ----


def wakeup(model: str, by: str, **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "wakeup",
        "model": model,
        "by": by,
        "wakes": 15,
        "apart_ns": 100_000,
        "busy": False,
        "cpus": CPUS[:1],
        "policy": "other",
        "tick_ns": 1_000_000 if model == "uthread" else None,
        "seed": 0,
    }
    return of(base, given)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("cpus", [CPUS[:1], CPUS], ids=["one", "all"])
@pytest.mark.parametrize("by", ["timer", "other"])
@pytest.mark.parametrize("model", ["pthread", "uthread"])
def test_every_sleeper_wakes(probe: Path, model: str, by: str, cpus: list[int], busy: bool) -> None:
    """Beside a loop, too, that never gives up its CPU by itself."""
    made = measure(probe, wakeup(model, by, cpus=cpus, busy=busy))
    values = made.values
    # Every moment that was meant; a sleeper that was kept waiting did not sleep for each.
    assert values["wakes"] == values["intended_late_n"] == 15 >= values["late_n"]
    for late in ("late", "intended_late") if values["late_n"] else ("intended_late",):
        assert 0 <= values[f"{late}_p50_ns"] <= values[f"{late}_p99_ns"]
        assert values[f"{late}_p99_ns"] <= values[f"{late}_max_ns"]
        assert len(made.detail[f"{late}_quantiles"]) > 10
    # The kernel thread under either model: its timers may be late by 1 ns, not by 50 us.
    assert values["timer_slack"] == 1
    assert [thread.cpu for thread in made.threads] == ([CPUS[0]] if model == "pthread" else [])


@pytest.mark.parametrize("attempt", range(6))
def test_a_sleeper_beside_a_loop_is_not_forgotten(probe: Path, attempt: int) -> None:
    """The timer comes once for it: a tick that is refused then must ask for another."""
    made = measure(probe, wakeup("uthread", "timer", busy=True, apart_ns=500_000, wakes=20))
    assert made.values["intended_late_n"] == 20


@pytest.mark.parametrize("by", ["timer", "other"])
@pytest.mark.parametrize("model", ["pthread", "uthread"])
def test_moments_stay_where_they_were_meant(probe: Path, model: str, by: str) -> None:
    """However late one was, the next is meant for as long after: so a sleeper that can come
    only every third of them is the later the longer it goes on, and a closed loop is not."""
    # A tick is ten times the distance, and a loop has the worker until a tick.
    trial = wakeup(model, by, busy=True, apart_ns=100_000, wakes=200, tick_ns=1_000_000)
    if model == "pthread":
        trial.pop("tick_ns")
    values = measure(probe, trial).values
    # The last moment is 200 periods after the first, and nobody came before his.
    assert values["wall_ns"] >= 199 * 100_000
    assert values["intended_late_n"] == 200
    if model == "uthread" and by == "timer":
        assert values["late_n"] < 200
        assert values["intended_late_p50_ns"] > 0


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"model": "process"}, "model"),
        ({"by": "magic"}, "by"),
        ({"wakes": 0}, "wakes"),
        ({"apart_ns": 10}, "apart_ns"),
    ],
)
def test_a_wrong_sleeper_is_named(probe: Path, given: Record, where: str) -> None:
    assert error(probe, wakeup(**{"model": "pthread", "by": "timer", **given}))["where"] == where


# ---- io ----


def io(model: str, by: str, **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "io",
        "model": model,
        "by": by,
        "connections": 5,
        "trips": 20,
        "bytes": 64,
        "cpus": CPUS[:1],
        "policy": "other",
        "tick_ns": 1_000_000 if model == "uthread" else None,
        "seed": 0,
    }
    return of(base, given)


CLIENTS = [*coroutine_io.ARMS, *coroutine_io.TRAPS, ("ucontext", "blocking")]


@pytest.mark.parametrize("connections", [1, 5, 300])
@pytest.mark.parametrize("cpus", [CPUS[:1], CPUS], ids=["one", "all"])
@pytest.mark.parametrize(("model", "by"), CLIENTS)
def test_every_byte_comes_back(
    probe: Path, model: str, by: str, cpus: list[int], connections: int
) -> None:
    each = 3 if connections == 300 else 20
    trial = io(model, by, connections=connections, trips=each, cpus=cpus)
    made = measure(probe, trial)
    values = made.values
    assert values["trips"] == connections * each
    assert values["counter"] == values["expected"] == connections * each * 64
    assert marks(trial, made) == ()
    assert values["client_cpu_ns"] > 0 and values["server_cpu_ns"] > 0
    assert 0 < values["server_waits"] <= values["trips"] + connections
    assert ("waits" in values) == ("parks" in values) == (by != "blocking")
    assert ("switches" in values) == (model != "pthread")


@pytest.mark.parametrize(("model", "by"), CLIENTS)
def test_one_connection_is_a_switch_to_the_server_each_trip(
    probe: Path, model: str, by: str
) -> None:
    values = measure(probe, io(model, by, connections=1, trips=50)).values
    assert values["client_nvcsw"] + values["client_nivcsw"] >= 50
    # It sends the next when it has the answer: each is a look of its own.
    assert values["server_waits"] == 50
    assert values.get("parks", 0) <= 51


@pytest.mark.parametrize("model", ["coroutine", "ucontext"])
def test_a_coroutine_is_left_when_it_waits_and_only_then(probe: Path, model: str) -> None:
    parked = measure(probe, io(model, "epoll", cpus=CPUS)).values
    assert parked["switches"] == 2 * (parked["parks"] + 5)
    asleep = measure(probe, io(model, "blocking", cpus=CPUS)).values
    assert asleep["switches"] == 2 * 5 * (20 + 1)


def test_threads_that_sleep_are_many_and_a_loop_is_one(probe: Path) -> None:
    """With all messages sent before anybody sleeps, a loop sleeps once for all of them."""
    loop = measure(probe, io("pthread", "loop", connections=64, policy="batch")).values
    threads = measure(probe, io("pthread", "blocking", connections=64, policy="batch")).values
    assert loop["client_nvcsw"] < threads["client_nvcsw"]


@pytest.mark.parametrize("size", [1, 7, 63, 65, 4096])
@pytest.mark.parametrize(("model", "by"), coroutine_io.ARMS)
def test_messages_of_any_size(probe: Path, model: str, by: str, size: int) -> None:
    values = measure(probe, io(model, by, bytes=size, cpus=CPUS)).values
    assert values["counter"] == values["expected"] == 5 * 20 * size


@pytest.mark.parametrize("tick_ns", [0, 100_000])
@pytest.mark.parametrize("by", ["epoll", "blocking"])
@pytest.mark.parametrize("cpus", [CPUS[:1], CPUS], ids=["one", "all"])
def test_ticks_lose_no_answer(probe: Path, cpus: list[int], by: str, tick_ns: int) -> None:
    trial = io("uthread", by, connections=40, trips=60, cpus=cpus, tick_ns=tick_ns)
    values = measure(probe, trial).values
    assert values["counter"] == values["expected"] == 40 * 60 * 64
    assert (values["ticks"] == 0) or tick_ns


def test_a_wrong_byte_is_marked(probe: Path) -> None:
    """The gate itself: the same sample with a byte that came back as another."""
    trial = io("pthread", "loop")
    made = measure(probe, trial)
    made.values["counter"] -= 1
    assert marks(trial, made) == ("counter",)


def descriptors(soft: int, hard: int | None = None) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most if hard is None else hard))


def test_more_descriptors_are_asked_for_and_too_few_are_said(probe: Path) -> None:
    trial = io("pthread", "loop", connections=100, trips=2)
    assert run(probe, trial, lambda: descriptors(40)).returncode == 0
    fails(probe, trial, "connections", "ulimit -n is 40", lambda: descriptors(40, 40))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"model": "process"}, "model"),
        ({"by": "magic"}, "by"),
        ({"by": "epoll"}, "by"),
        ({"model": "coroutine", "by": "loop"}, "by"),
        ({"model": "uthread", "by": "loop"}, "by"),
        ({"connections": 0}, "connections"),
        ({"connections": 5000}, "connections"),
        ({"trips": 0}, "trips"),
        ({"bytes": 0}, "bytes"),
        ({"bytes": 4097}, "bytes"),
        ({"bytes": "64"}, "bytes"),
        ({"cpus": []}, "cpus"),
        ({"cpus": [CPUS[0]] * 3}, "cpus"),
        ({"cpus": [8000]}, "cpus"),
        ({"policy": "idle"}, "policy"),
        ({"model": "uthread", "by": "epoll", "tick_ns": 5}, "tick_ns"),
    ],
)
def test_a_wrong_connection_is_named(probe: Path, given: Record, where: str) -> None:
    record = error(probe, io(**{"model": "pthread", "by": "loop", **given}))
    assert record["where"] == where


# ---- peers ----


@pytest.fixture(params=sorted(peers.OTHERS))
def peer(request: pytest.FixtureRequest, probe: Path) -> tuple[str, Path]:
    """A peer's name and its program; which of them are built is the machine's affair."""
    program = probe.with_name(PEERS[request.param])
    if not program.is_file():
        pytest.skip(f"{program.name} is not built")
    return request.param, program


@pytest.mark.parametrize("by", ["yield", "channel"])
def test_a_peer_hands_over_as_often_as_was_asked(peer: tuple[str, Path], by: str) -> None:
    model, program = peer
    made = measure(program, ring(model, by, policy="other"))
    assert made.values["passes"] == 2 * 20 * (10 + 1)
    assert "handovers" not in made.values
    assert 0 < made.values["each_p10_ns"] <= made.values["each_p50_ns"]
    assert made.values["each_p50_ns"] <= made.values["each_p90_ns"] <= made.values["each_p99_ns"]
    assert made.detail["version"]


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"schema": 2}, "schema"),
        ({"model": "pthread"}, "model"),
        ({"probe": "scenario"}, "probe"),
        ({"by": "telepathy"}, "by"),
        ({"members": 3}, "members"),
        ({"batches": 0}, "batches"),
        ({"laps": 0}, "laps"),
        ({"policy": "fifo"}, "policy"),
    ],
)
def test_a_peer_names_what_is_wrong(peer: tuple[str, Path], given: Record, where: str) -> None:
    model, program = peer
    record = error(program, ring(**{"model": model, "by": "yield", "policy": "other", **given}))
    assert record["where"] == where
