# SPDX-License-Identifier: Apache-2.0
"""Engine and runner against a probe that misbehaves in every way the protocol knows."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from swtch import store
from swtch.engines import Outcome, native
from swtch.engines.native import NativeEngine, find_probe
from swtch.engines.protocol import ProbeError, read_result
from swtch.errors import CannotError
from swtch.experiments import Setting, get
from swtch.progress import Progress
from swtch.records import Manifest, Trial
from swtch.runner import GIVE_UP_AFTER, Ending, Runner
from swtch.store import Writer

MakeManifest = Callable[..., Manifest]
# Less than what hangs would take, and more than any machine needs.
HANGS_S = 300


def trial_named(name: str, timeout_s: float = 30.0) -> Trial:
    setting = Setting(cpus=(0,), models=("pthread", "uthread", "ucontext"), timeout_s=timeout_s)
    trials = get(name.split("/")[0]).trials(setting)
    return next(trial for trial in trials if trial.id == name)


def perform(name: str, timeout_s: float = 30.0, seed: int = 12345) -> Outcome:
    from swtch.records import Invocation

    trial = trial_named(name, timeout_s)
    invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=seed)
    return NativeEngine().perform(trial, invocation)


def test_a_good_invocation_is_a_sample(probe_dir: Path) -> None:
    sample = perform("scenarios/B1/pthread").sample
    assert (sample.status, sample.error) == ("ok", "")
    assert sample.values["counter"] == sample.values["expected"] == 4_000_000
    assert sample.values["wall_ns"] == 40_012_345  # the invocation's seed reached the probe
    assert sample.detail == {"policy": "other"}
    assert [thread.nvcsw for thread in sample.threads] == [7, 7, 7, 7]
    assert sample.elapsed_ns > 0
    assert sample.interrupts is None or sample.interrupts >= 0


def test_user_space_threads_have_null_counters(probe_dir: Path) -> None:
    sample = perform("scenarios/B1/uthread").sample
    assert {thread.nvcsw for thread in sample.threads} == {None}
    assert [carrier.nvcsw for carrier in sample.carriers] == [3]


def test_gantt_slots_are_kept(probe_dir: Path) -> None:
    sample = perform("coroutine-gantt/round-robin/ucontext").sample
    assert sample.error == ""
    assert len(sample.detail["slots"]) == 16
    assert sample.detail["overflow_detected"] is True


FAULTS = {
    "silent": "probe printed nothing",
    "status": "probe ended with status 7 and no error record",
    "error": "probe reports: CPU 9 is not allowed (in sched_setaffinity)",
    "crash": "probe died of SIGSEGV",
    "rubbish": "probe output line 2, column 19: not JSON",
    "list": "probe output line 2, column 1: not a JSON object",
    "kind": "probe output line 2: unknown kind 'greeting'",
    "schema": "probe output line 2: schema 2, this swtch speaks 1;"
    " probe and swtch are of different versions",
    "cut": "probe output was cut short after line 2: it has no end",
    "torn": "probe output was cut short in line 2",
    "count": "probe output was cut short: it announces 3 samples and holds 1",
    "twice": "probe printed 2 samples where one was expected",
    "model": "probe measured 'kthread' where pthread was asked",
    "wall": "probe sample has no valid wall_ns: 0",
    "thread": "probe sample does not follow the schema: Expected `int`, got `str` - at `$[0].tid`",
    "flood": "probe printed more than 16 MiB",
}


@pytest.mark.parametrize("mode", FAULTS)
def test_each_fault_is_one_line(
    mode: str, probe_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROBE", mode)
    sample = perform("scenarios/A/pthread").sample
    assert sample.status == "failed"
    assert sample.error == FAULTS[mode]
    assert (sample.values, sample.threads, sample.detail) == ({}, (), {})


def test_a_hang_is_ended_in_time(probe_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROBE", "hang")
    for limit_s in (0.5, 2.5, 12.5):  # a busy machine is that slow to start it
        begin = time.monotonic()
        outcome = perform("scenarios/A/pthread", timeout_s=limit_s)
        assert outcome.sample.error == f"probe ran longer than {limit_s} s"
        assert time.monotonic() - begin < HANGS_S
        if b'"hello"' in outcome.stdout:
            return
    raise AssertionError("what it said is lost")


def test_waiting_works_without_pidfd(probe_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert perform("scenarios/A/pthread").sample.status == "ok"
    monkeypatch.setenv("FAKE_PROBE", "hang")
    sample = perform("scenarios/A/pthread", timeout_s=0.3).sample
    assert sample.error == "probe ran longer than 0.3 s"


def test_who_ended_in_time_is_in_time_however_late_it_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lab is stopped after its first look, as a laptop is that sleeps; meanwhile it ends."""
    looks: list[bool] = []

    def look(*_: object) -> bool:
        looks.append(bool(looks))
        return looks[-1]

    def clock() -> float:
        return 100.0 if looks else 0.0

    time_of_it = SimpleNamespace(monotonic=clock, sleep=lambda _: None)
    monkeypatch.setattr(os, "waitid", look)
    monkeypatch.setattr(native, "time", time_of_it)
    assert native._wait_by_looking(1, 1.0)
    assert looks == [False, True]


def test_what_a_probe_leaves_behind_is_ended(
    probe_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROBE", "grandchild")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    begin = time.monotonic()
    assert perform("scenarios/A/pthread").sample.status == "ok"
    assert time.monotonic() - begin < HANGS_S
    child = Path(f"/proc/{(tmp_path / 'log.child').read_text()}/stat")
    deadline = time.monotonic() + HANGS_S
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < deadline, "the grandchild still runs"
        time.sleep(0.01)


def test_a_program_that_cannot_start(tmp_path: Path) -> None:
    broken = tmp_path / "swtch-probe"
    broken.write_text("no program")
    broken.chmod(0o755)
    from swtch.records import Invocation

    trial = trial_named("scenarios/A/pthread")
    invocation = Invocation(seq=0, block=0, trial_id=trial.id, seed=1)
    sample = NativeEngine(broken).perform(trial, invocation).sample
    assert sample.error == "probe could not be started: exec format error"


def test_padding_varies_and_follows_the_seed(
    probe_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    for seed in (1, 2, 1):
        perform("scenarios/A/pthread", seed=seed)
    first, second, again = (line.split()[1] for line in log.read_text().splitlines())
    assert first == again != second


def test_affinity_is_as_before(probe_dir: Path) -> None:
    before = os.sched_getaffinity(0)
    perform("scenarios/A/pthread")
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_the_lab_stays_off_the_measured_cpu(
    probe_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []
    wait = native._wait

    def spy(pid: int, timeout_s: float) -> bool:
        seen.append(os.sched_getaffinity(0))
        return wait(pid, timeout_s)

    monkeypatch.setattr(native, "_wait", spy)
    perform("scenarios/B2/pthread")
    assert len(seen) == 1
    assert seen[0] == os.sched_getaffinity(0) - {0}


def test_cpus_that_went_away_meanwhile_end_no_run(
    probe_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are spare, and then those that were allowed at first: a cpuset that shrinks."""
    refused: list[object] = []

    def refuse(_pid: int, cpus: object) -> None:
        refused.append(cpus)
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert perform("scenarios/B2/pthread").sample.status == "ok"
    assert refused == [{1}, {0, 1}]


def test_find_probe_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWTCH_PROBE_DIR", str(tmp_path))
    with pytest.raises(CannotError, match=f"SWTCH_PROBE_DIR is {tmp_path}.*no program"):
        find_probe()


@pytest.mark.parametrize(
    ("stdout", "says"),
    [
        (b'{"kind":"end","schema":1,"samples":0}\n', "line 1: expected hello, got end"),
        (b"\xff\n", "line 1, column 1: not JSON"),
        (b'{"kind":"hello","schema":1}\n{"kind":', "cut short in line 2"),
        (b'{"kind":"hello","schema":1}\n{"a":\n', "line 2, column 6: not JSON"),
        (b'{"kind":"hello","schema":1}\n' + b"[" * 100_000 + b"\n", "line 2: nested too deeply"),
    ],
)
def test_protocol_corner_cases(stdout: bytes, says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        read_result(stdout, 0, trial_named("scenarios/A/pthread"))


@pytest.mark.parametrize("number", [str(10**400), "1e308", str(-(10**31)), "1e-300", "-1e-31"])
@pytest.mark.parametrize(
    "where", ['"counter":{}', '"round_times_ns":[1,{}]', '"threads":[{{"a":{}}}]']
)
def test_a_number_out_of_all_bounds_is_refused(number: str, where: str) -> None:
    sample = '{"kind":"sample","schema":1,"model":"pthread","wall_ns":5,' + where.format(number)
    lines = ('{"kind":"hello","schema":1}', sample + "}", '{"kind":"end","schema":1,"samples":1}')
    says = "nearer to zero than 1e-30" if "e-" in number else r"beyond 1e\+30"
    with pytest.raises(ProbeError, match=f"probe sample has a number {says}"):
        read_result(
            "".join(f"{line}\n" for line in lines).encode(), 0, trial_named("scenarios/A/pthread")
        )


def run_all(path: Path, manifest: Manifest) -> Ending:
    with Writer.create(path, manifest) as writer:
        return Runner(writer, NativeEngine(), Progress(quiet=True)).run()


def test_a_run_gives_every_invocation_one_sample(
    probe_dir: Path, tmp_path: Path, make_manifest: MakeManifest
) -> None:
    manifest = make_manifest(repeats=2)
    assert run_all(tmp_path / "run", manifest) == Ending(len(manifest.plan), 0, False)
    run = store.load(tmp_path / "run")
    assert run.complete
    assert [s.seq for s in run.samples] == [i.seq for i in manifest.plan]
    names = {file.name for file in (tmp_path / "run" / "logs").iterdir()}
    assert names == {f"{t.id.replace('/', '_')}.good.stdout" for t in manifest.trials}


def test_a_trial_that_always_fails_is_given_up_and_others_go_on(
    probe_dir: Path,
    tmp_path: Path,
    make_manifest: MakeManifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_PROBE", "coroutine=crash")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "starts"))
    repeats = GIVE_UP_AFTER + 2
    manifest = make_manifest(repeats=repeats)
    ending = run_all(tmp_path / "run", manifest)
    bad = [trial.id for trial in manifest.trials if trial.model == "coroutine"]
    assert ending.failed == repeats * len(bad)
    run = store.load(tmp_path / "run")
    for name in bad:
        errors = [s.error for s in run.samples if s.trial_id == name]
        assert errors == ["probe died of SIGSEGV"] * 3 + ["given up after 3 failures"] * 2
    starts = len((tmp_path / "starts").read_text().splitlines())
    assert starts == len(manifest.plan) - 2 * len(bad)
    logs = {file.name for file in (tmp_path / "run" / "logs").iterdir()}
    assert sum(".failed-" in name for name in logs) == GIVE_UP_AFTER * len(bad)


def test_a_success_forgives_failures_before_it(
    probe_dir: Path, tmp_path: Path, make_manifest: MakeManifest
) -> None:
    manifest = make_manifest(repeats=6)
    engine = NativeEngine()
    perform_well = engine.perform
    turns: dict[str, int] = {}

    def sometimes(trial: Trial, invocation: object) -> Outcome:
        turns[trial.id] = turns.get(trial.id, 0) + 1
        outcome = perform_well(trial, invocation)  # type: ignore[arg-type]
        if turns[trial.id] % 3:
            failed = msgspec.structs.replace(outcome.sample, status="failed", error="made to")
            return Outcome(failed, b"", b"")
        return outcome

    engine.perform = sometimes  # type: ignore[method-assign]
    with Writer.create(tmp_path / "run", manifest) as writer:
        ending = Runner(writer, engine, Progress(quiet=True)).run()
    assert set(turns.values()) == {6}
    assert ending.failed == 4 * len(manifest.trials)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_what_is_done_and_restores_handlers(
    number: signal.Signals,
    probe_dir: Path,
    tmp_path: Path,
    make_manifest: MakeManifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_PROBE", "uthread=ok,coroutine=hang")
    log = tmp_path / "starts"
    monkeypatch.setenv("FAKE_LOG", str(log))
    before = signal.getsignal(number)
    manifest = make_manifest(repeats=2, seed=4)
    first_hang = next(
        invocation.seq for invocation in manifest.plan if invocation.trial_id.endswith("coroutine")
    )
    assert first_hang > 0, "nothing would be done before"

    def interrupt() -> None:
        """When the one that hangs has begun: whoever has begun it hears signals."""
        while not log.exists() or log.read_bytes().count(b"\n") <= first_hang:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    begin = time.monotonic()
    ending = run_all(tmp_path / "run", manifest)
    thread.join()
    assert ending == Ending(first_hang, 0, True)
    assert time.monotonic() - begin < HANGS_S
    assert signal.getsignal(number) == before
    assert [s.seq for s in store.load(tmp_path / "run").samples] == list(range(first_hang))
