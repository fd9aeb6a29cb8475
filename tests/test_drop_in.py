# SPDX-License-Identifier: Apache-2.0
"""`drop-in`: its trials, its programs by their protocol in both models, and its chapter.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_beyond import measured
from probing import fails
from synthetic import Scene
from test_io_echo import echo, whole
from test_probes_003 import CPUS, Record, error, measure, probe

from swtch.analysis import effects
from swtch.claims import built_in
from swtch.experiments import Setting, drop_in, get
from swtch.records import Depth, Trial
from swtch.report.chapters import chapter
from swtch.report.chapters import sentences as sentences_of
from swtch.report.chapters.drop_in import MODELS, judged
from swtch.report.story import tell

__all__ = ["probe"]  # the fixture

BOTH = ["pthread", "uthread"]


def trials(cpus: tuple[int, ...] = (4, 7), depth: Depth = "normal") -> dict[str, Trial]:
    setting = Setting(cpus=cpus, models=drop_in.MODELS, depth=depth)
    return {one.id.removeprefix("drop-in/"): one for one in drop_in.trials(setting)}


def lock(model: str = "uthread", way: str = "queue", **given: Any) -> Record:
    base: Record = {
        "schema": 1,
        "probe": "plain",
        "model": model,
        "way": way,
        "threads": 20,
        "items": 5_000,
        "room": 4 if way == "queue" else None,
        "inside": 10 if way == "mutex" else None,
        "outside": 10 if way == "mutex" else None,
        "cpus": CPUS,
        "policy": "other",
        "seed": 7,
        **given,
    }
    return {name: value for name, value in base.items() if value is not None}


# ---- trials ----


@pytest.mark.parametrize("depth", ["quick", "normal", "paper"])
@pytest.mark.parametrize("cpus", [(3,), (4, 7), (4, 7, 9)])
def test_both_models_are_asked_the_same(cpus: tuple[int, ...], depth: Depth) -> None:
    asked: dict[str, list[Any]] = {}
    for name, one in trials(cpus, depth).items():
        case, _, model = name.rpartition("/")
        assert model == one.model == one.probe["model"]
        asked.setdefault(case, []).append(({**one.probe, "model": ""}, one.factors, one.note))
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in asked.values())


def test_each_case_is_there() -> None:
    cases = {name.rpartition("/")[0] for name in trials()}
    assert cases == {
        *(f"echo/1/{n}/{how}" for n in drop_in.CONNECTIONS for how in ("quiet", "hogs")),
        "echo/2/1000/quiet",
        *(f"{way}/{n}" for way in ("queue", "mutex") for n in drop_in.THREADS),
    }
    assert set(trials((3,))) == {name for name in trials() if not name.startswith("echo/2")}
    assert set(MODELS) == set(drop_in.MODELS) == set(BOTH)


def test_what_a_machine_lacks_is_noted() -> None:
    assert [name for name, one in trials().items() if one.note] == [
        f"echo/2/1000/quiet/{model}" for model in BOTH
    ]
    assert not any(one.note for one in trials((1, 2, 3)).values())
    alone = trials((3,))
    assert {one.note for name, one in alone.items() if name.startswith("echo")} == {
        drop_in.SHARED_NOTE
    }
    assert alone["queue/2/uthread"].note == drop_in.ONE_CPU_NOTE
    assert not alone["queue/200/uthread"].note


def test_a_quick_block_is_short_and_says_what_it_leaves_out() -> None:
    quick = trials(depth="quick")
    assert set(quick) < set(trials())
    served = [one.probe for one in quick.values() if one.probe["probe"] == "io-echo"]
    assert sum(1.25 * one["closed_ns"] + one["open_ns"] for one in served) < 1e9
    items = [one.probe["items"] for one in quick.values() if one.probe["probe"] == "plain"]
    assert sum(items) <= 200_000
    shortened = get("drop-in").shortened
    assert shortened(Setting(cpus=(1,), models=(), depth="quick"))
    assert shortened(Setting(cpus=(1,), models=(), depth="paper")) == ""


def test_no_claim_spends_a_budget_on_it() -> None:
    assert not [claim.id for claim in built_in() if claim.experiment == "drop-in"]


def test_guests_have_none() -> None:
    setting = Setting(cpus=(0, 1), models=drop_in.MODELS, engine="vm")
    assert drop_in.trials(setting) == () and get("drop-in").shortened(setting)


def test_metrics_of_either_program() -> None:
    served = {
        "closed_ns": 2_000_000_000,
        "closed_answers": 100,
        "closed_cpu_ns": 1_000_000_000,
        "latency_p99_ns": 70,
        "server_nvcsw": 30,
        "requests": 120,
        "server_threads": 5,
        "wall_ns": 9,
    }
    found = {name: metric.of(served) for name, metric in drop_in.METRICS.items()}
    assert (found["throughput_rps"], found["cpu_ns"], found["busy"]) == (50, 1e7, 0.5)
    assert (found["p99_ns"], found["kernel_threads"], found["kernel_switches"]) == (70, 5, 0.25)
    locked = {
        "wall_ns": 1_000_000,
        "items": 100,
        "cpu_ns": 5_000,
        "took_p99_ns": 7,
        "process_nvcsw": 50,
    }
    found = {name: metric.of(locked) for name, metric in drop_in.METRICS.items()}
    assert (found["items_mps"], found["cpu_ns"], found["p99_ns"]) == (0.1, 50, 7)
    assert found["kernel_switches"] == 0.5 and found["busy"] is found["kernel_threads"] is None
    # One that was not measurable has none of them.
    assert not any(metric.of({"wall_ns": 1}) for metric in drop_in.METRICS.values())


# ---- the programs ----


def test_the_program_knows_pthreads_only(probe: Path) -> None:
    needed = subprocess.run(
        ["readelf", "-d", str(probe.with_name("swtch-plain"))], capture_output=True, text=True
    ).stdout
    assert "NEEDED" in needed and "uthread" not in needed


@pytest.mark.parametrize("hogs", [0, 1])
@pytest.mark.parametrize("connections", [1, 20, 300])
@pytest.mark.parametrize("model", BOTH)
def test_every_request_is_answered(probe: Path, model: str, connections: int, hogs: int) -> None:
    made = measure(probe, echo(model, "plain", connections=connections, hogs=hogs, tick_ns=None))
    whole(made.values)
    assert made.detail["measured"] is True
    # A kernel thread for each connection, or not: what was run is what was meant.
    if model == "pthread":
        assert made.values["server_threads"] >= connections + 2
    elif connections == 300:
        assert made.values["server_threads"] < connections


@pytest.mark.parametrize("model", BOTH)
def test_servers_on_the_loads_cpu_and_on_all(probe: Path, model: str) -> None:
    whole(measure(probe, echo(model, "plain", cpus=CPUS[:1], tick_ns=None)).values)
    whole(measure(probe, echo(model, "plain", workers=len(CPUS), hogs=1, tick_ns=None)).values)


@pytest.mark.parametrize("room", [1, 16])
@pytest.mark.parametrize("threads", [2, 20, 300])
@pytest.mark.parametrize("model", BOTH)
def test_each_item_comes_out_once(probe: Path, model: str, threads: int, room: int) -> None:
    made = measure(probe, lock(model, threads=threads, room=room))
    assert made.values["counter"] == made.values["expected"] == made.values["items"] == 5_000
    assert made.values["took_n"] == 5_000
    assert 0 < made.values["took_p50_ns"] <= made.values["took_p99_ns"]
    assert made.values["took_p999_ns"] <= made.values["took_max_ns"]
    assert made.values["wall_ns"] > 0 and made.detail["measured"] is True


@pytest.mark.parametrize("cpus", [CPUS[:1], CPUS])
@pytest.mark.parametrize("threads", [1, 7, 300])
@pytest.mark.parametrize("model", BOTH)
def test_each_addition_counts(probe: Path, model: str, threads: int, cpus: list[int]) -> None:
    made = measure(probe, lock(model, "mutex", threads=threads, cpus=cpus))
    assert made.values["counter"] == made.values["expected"] == 5_000


def test_fewer_items_than_threads(probe: Path) -> None:
    for model in BOTH:
        assert measure(probe, lock(model, threads=20, items=3)).values["counter"] == 3
        assert measure(probe, lock(model, "mutex", threads=20, items=3)).values["counter"] == 3


@pytest.mark.parametrize(
    ("given", "where", "says"),
    [
        ({"model": "go"}, "model", "one of pthread, uthread"),
        ({"way": "hope"}, "way", "one of queue, mutex"),
        ({"threads": 3}, "threads", "in pairs"),
        ({"threads": 0}, "threads", ""),
        ({"items": 0}, "items", ""),
        ({"room": 0}, "room", ""),
        ({"room": None}, "room", "no room"),
    ],
)
def test_a_wrong_trial_is_one_clear_line(probe: Path, given: Record, where: str, says: str) -> None:
    fails(probe, lock(**given), where, says)


def with_others(probe: Path, folder: Path, **programs: str) -> Path:
    """The probe, with other programs beside it: what is not given is the real one."""
    made = folder / probe.name
    made.write_bytes(probe.read_bytes())
    made.chmod(0o755)
    for name in ("swtch-plain", "uthread-run", "libuthread-pthread.so"):
        if script := programs.get(name.replace("-", "_").replace(".", "_")):
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        elif name not in programs.get("missing", "").split():
            (folder / name).symlink_to(probe.with_name(name))
    return made


@pytest.mark.parametrize("name", ["swtch-plain", "uthread-run", "libuthread-pthread.so"])
def test_a_program_that_is_missing_is_named(probe: Path, tmp_path: Path, name: str) -> None:
    made = with_others(probe, tmp_path, missing=name)
    for trial in (lock(), echo("uthread", "plain", tick_ns=None)):
        failure = error(made, trial)
        assert failure["where"] == "model" and f"{name}: No such file" in failure["what"]
    if name != "swtch-plain":
        measure(made, lock("pthread"))


def test_uthreads_that_are_none_are_found_out(probe: Path, tmp_path: Path) -> None:
    """uthread-run that runs the program and does nothing to it."""
    made = with_others(probe, tmp_path, uthread_run='#!/bin/sh\nexec "$@"\n')
    failure = error(made, echo("uthread", "plain", tick_ns=None))
    assert "without libuthread-pthread.so" in failure["what"]


def test_threads_that_stay_pthreads_are_not_measured_as_uthreads(
    probe: Path, tmp_path: Path
) -> None:
    said = "uthread-run: threads are pthreads here: no such luck"
    made = with_others(probe, tmp_path, uthread_run=f'#!/bin/sh\necho "{said}" >&2\nexec "$@"\n')
    done = subprocess.run(
        [str(made)], input=json.dumps(lock()).encode(), capture_output=True, timeout=120
    )
    sample = json.loads(done.stdout.splitlines()[1])
    assert sample["measured"] is False and "no such luck" in sample["unmeasured"]
    assert said in done.stderr.decode()


@pytest.mark.parametrize("trial", [lock(), echo("uthread", "plain", tick_ns=None)])
def test_a_program_that_fails_is_quoted(probe: Path, tmp_path: Path, trial: Record) -> None:
    script = (
        "#!/bin/sh\n"
        """echo '{"kind":"error","schema":1,"errno":24,"where":"here","what":"out of luck"}'\n"""
        "exit 2\n"
    )
    failure = error(with_others(probe, tmp_path, uthread_run=script), trial)
    assert (failure["where"], failure["what"]) == ("here", "out of luck")


@pytest.mark.parametrize("trial", [lock(), echo("uthread", "plain", tick_ns=None)])
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("kill -SEGV $$", "died of signal 11"),
        ("exit 0", ""),
        ("echo no such luck >&2; exit 126", "ended with status 126"),
    ],
)
def test_a_program_that_dies_is_said(
    probe: Path, tmp_path: Path, trial: Record, script: str, says: str
) -> None:
    made = with_others(probe, tmp_path, uthread_run=f"#!/bin/sh\n{script}\n")
    what = error(made, trial)["what"]
    assert says in what and ("no such luck" in script) == what.endswith(": no such luck")


def test_more_threads_than_allowed_are_not_measurable(probe: Path) -> None:
    """With a limit of processes, which root has none of: as nobody, who may read the copy."""
    code = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))\n"
        "os.getuid() or os.setuid(65534)\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copy = Path(folder) / probe.name
        copy.write_bytes(probe.read_bytes())
        copy.chmod(0o755)
        for trial in (lock("pthread", threads=300), echo("pthread", "plain", connections=300)):
            done = subprocess.run(
                [sys.executable, "-c", code, str(copy)],
                input=json.dumps(trial).encode(),
                capture_output=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            sample = json.loads(done.stdout.splitlines()[1])
            assert sample["measured"] is False
            assert "300 threads are more than RLIMIT_NPROC" in sample["unmeasured"]


# ---- the chapter ----


def answering(ratio: float) -> Any:
    """Uthreads do `ratio` times as much, and are late by a fifth of 1 / ratio."""

    def values(one: Trial, factor: float) -> Mapping[str, float]:
        own = one.model == "uthread"
        ns = 100_000 * factor / (ratio if own else 1)
        late = ns / (5 if own else 1)
        if one.factors["way"] == "echo":
            return {
                "closed_ns": 1e9,
                "closed_answers": 1e9 / ns,
                "closed_cpu_ns": 5e8,
                "requests": 1000,
                "latency_p50_ns": late / 2,
                "latency_p99_ns": late,
                "latency_p999_ns": late * 2,
                "answer_p99_ns": late - 100,
                "server_threads": 5,
            }
        return {
            "wall_ns": 100 * ns,
            "items": 100,
            "cpu_ns": 1000,
            "took_p50_ns": late / 2,
            "took_p99_ns": late,
            "took_p999_ns": late * 2,
        }

    return values


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(2.0, "holds"), (0.5, "differs")], ids=["better", "worse"]
)
def test_the_chapter_says_whether_the_aims_are_reached(
    tmp_path: Path, ratio: float, verdict: str
) -> None:
    story = tell(measured(Scene(), "drop-in", answering(ratio)).write(tmp_path / "run"))
    assert [one.id for one in chapter("drop-in").figures(story)] == [
        "fig-drop-in",
        "fig-drop-in-items",
        "fig-drop-in-tail",
    ]
    (table,) = chapter("drop-in").tables(story)
    assert len(table.rows) == len(trials())
    said = sentences_of(story, "drop-in")
    aims = [one for one in said if one.startswith("Aim: ")]
    assert len(aims) == len(drop_in.AIMS)
    through = [one for one in aims if "the requests" in one or "the items" in one]
    assert len(through) == 3 and all(verdict in one for one in through)
    assert len(said) == len(aims) + 5
    assert "times as many as without" in said[0] and "times as long as without" in said[1]


def test_an_aim_needs_enough_blocks_and_both_models(tmp_path: Path) -> None:
    story = tell(measured(Scene(), "drop-in", answering(2.0), n=3).write(tmp_path / "run"))
    aims = [one for one in sentences_of(story, "drop-in") if one.startswith("Aim: ")]
    assert len(aims) == len(drop_in.AIMS) and all("cannot tell" in one for one in aims)
    own = [group for group in story.groups if group.trial.model == "uthread"]
    assert not any(judged(aim, own, effects.LEVEL) for aim in drop_in.AIMS)


def test_what_was_not_measurable_is_said_with_its_reason(tmp_path: Path) -> None:
    def none(one: Trial, factor: float) -> Mapping[str, float]:
        return {"wall_ns": 1}

    scene = measured(Scene(), "drop-in", none, detail={"unmeasured": "too many threads"})
    said = sentences_of(tell(scene.write(tmp_path / "run")), "drop-in")
    assert len(said) == len(trials())
    assert "Not measurable here: 10 connections, as it is: too many threads." in said
