# SPDX-License-Identifier: Apache-2.0
"""The run directory: cut anywhere, it loses at most the last line and doubles nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swtch import store
from swtch.errors import CannotError, CorruptError
from swtch.own import guard
from swtch.records import Manifest, Sample
from swtch.store import Writer

MakeManifest = Callable[..., Manifest]


def sample_for(manifest: Manifest, seq: int, text: str = "") -> Sample:
    invocation = manifest.plan[seq]
    trial = next(t for t in manifest.trials if t.id == invocation.trial_id)
    return Sample(
        seq=seq,
        experiment=trial.experiment,
        trial_id=trial.id,
        model=trial.model,
        engine="native",
        factors=trial.factors,
        block=invocation.block,
        seed=invocation.seed,
        started="",
        elapsed_ns=1,
        status="ok",
        values={"wall_ns": seq + 1},
        detail={"text": text},
    )


@pytest.fixture
def run_dir(tmp_path: Path, make_manifest: MakeManifest) -> Path:
    """A run with every sample of its plan."""
    manifest = make_manifest(repeats=1)
    path = tmp_path / "run"
    with Writer.create(path, manifest) as writer:
        for seq in range(len(manifest.plan)):
            writer.add(sample_for(manifest, seq, "line\nbreak \u2028 ü"))
    return path


def test_what_was_written_is_read(run_dir: Path, make_manifest: MakeManifest) -> None:
    run = store.load(run_dir)
    assert run.manifest == make_manifest(repeats=1)
    assert run.complete
    assert [s.seq for s in run.samples] == list(range(len(run.manifest.plan)))
    assert run.samples[0] == sample_for(run.manifest, 0, "line\nbreak \u2028 ü")


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_cut_at_any_byte_and_resumed_loses_and_doubles_nothing(
    run_dir: Path, data: st.DataObject
) -> None:
    file = run_dir / store.SAMPLES
    whole = file.read_bytes()
    try:
        cut = data.draw(st.integers(0, len(whole)))
        file.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        before = store.load(run_dir)
        assert len(before.samples) == kept
        assert before.cut_bytes == cut - (whole[:cut].rfind(b"\n") + 1)
        with Writer.resume(run_dir) as writer:
            assert writer.dropped_bytes == before.cut_bytes
            assert writer.done() == frozenset(range(kept))
            for invocation in writer.manifest.plan:
                if invocation.seq not in writer.done():
                    text = "line\nbreak \u2028 ü"
                    writer.add(sample_for(writer.manifest, invocation.seq, text))
        assert file.read_bytes() == whole
    finally:
        file.write_bytes(whole)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_damaged_byte_is_noticed_or_harmless(run_dir: Path, data: st.DataObject) -> None:
    """Never an exception, never a doubled invocation, and no other line is lost."""
    file = run_dir / store.SAMPLES
    whole = file.read_bytes()
    try:
        position = data.draw(st.integers(0, len(whole) - 1))
        byte = data.draw(st.binary(min_size=1, max_size=1))
        file.write_bytes(whole[:position] + byte + whole[position + 1 :])
        try:
            run = store.load(run_dir)
        except CorruptError as error:
            assert f"{file}, line" in str(error)
            assert "has schema" in str(error)
        else:
            seqs = {s.seq for s in run.samples}
            assert len(seqs) == len(run.samples)
            # A line end that is no more takes two lines with it.
            assert len(seqs) >= len(run.manifest.plan) - 2
    finally:
        file.write_bytes(whole)


def edit(file: Path, number: int, line: bytes) -> None:
    lines = file.read_bytes().split(b"\n")
    lines[number - 1] = line
    file.write_bytes(b"\n".join(lines))


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    guard.clear()
    yield
    guard.clear()


def of(run_dir: Path, number: int) -> dict[str, Any]:
    """A line of the samples, to be written otherwise."""
    lines = (run_dir / store.SAMPLES).read_bytes().split(b"\n")
    decoded: dict[str, Any] = msgspec.json.decode(lines[number - 1])
    return decoded


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{]", "not a sample (JSON is malformed"),
        (b"", "not a sample (empty"),
        (b"\0" * 40, "filled with zero bytes by a crash"),
        (b'{"schema":1}', "not a sample (object missing required field"),
        (b'\xff{"schema":1}', "not a sample"),
        (b'{"schema":2,"detail":' + b"[" * 100_000, "not a sample (maximum recursion depth"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_kept(run_dir: Path, line: bytes, says: str) -> None:
    file = run_dir / store.SAMPLES
    edit(file, 2, line)
    run = store.load(run_dir)
    assert [s.seq for s in run.samples] == [0, *range(2, len(run.manifest.plan))]
    assert not run.complete
    (said,) = guard.notices()
    assert says in said
    assert said.startswith(f"{file}, line 2: ")
    assert f"swtch run --resume {run_dir}" in said
    with Writer.resume(run_dir) as writer:
        assert writer.done() == {s.seq for s in run.samples}
        writer.add(sample_for(run.manifest, 1))
    again = store.load(run_dir)
    assert again.complete
    # What is damaged stays to be looked at, and is said as long as it is there.
    assert guard.notices() == (said,)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model", "uthread", "is not that of the plan's invocation 1 - at `$.model`"),
        ("block", 7, "is not that of the plan's invocation 1 - at `$.block`"),
        ("factors", {}, "is not that of the plan's invocation 1 - at `$.factors`"),
        ("elapsed_ns", -1, "expected a time, got -1 - at `$.elapsed_ns`"),
        ("values", {"wall_ns": -1}, "expected a time, got -1 - at `$.values.wall_ns`"),
        ("values", {"wall_ns": 1e300}, "a number beyond 1e+30"),
        ("values", {"wall_ns": 1e-300}, "a number nearer to zero than 1e-30, and not zero"),
        ("values", {"wall_ns": 1, "x_ns": -1e-31}, "a number nearer to zero than 1e-30"),
        ("detail", {"x": [{"y": 5e-324}]}, "a number nearer to zero than 1e-30"),
        ("values", {"wall_ns": 1e-9, "x_ns": -1e-9, "y_ns": 2e-30, "z": -0.0}, ""),
        ("steal_ns", 10**40, "or a whole one beyond 64 bits"),
        ("started", "yesterday", "expected a time - at `$.started`"),
        ("detail", {"x": [[[]]] * 2}, ""),
        ("detail", {"x": "[{" * 99}, ""),
        ("detail", {"round_times_ns": ["x"]}, "expected `float`, got `str`"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(
    run_dir: Path, key: str, value: object, says: str
) -> None:
    edit(run_dir / store.SAMPLES, 2, msgspec.json.encode({**of(run_dir, 2), key: value}))
    run = store.load(run_dir)
    assert len(run.samples) == len(run.manifest.plan) - bool(says)
    assert says in "".join(guard.notices())


def test_a_tiny_number_in_any_writing_is_seen(run_dir: Path) -> None:
    """Also in one that other programs write, without a power."""
    whole = (run_dir / store.SAMPLES).read_bytes()
    for text, wrong in (("1E-300", True), (f"0.{'0' * 40}1", True), (f"0.{'0' * 40}", False)):
        line = {**of(run_dir, 2), "values": {"wall_ns": 1, "x": "here"}}
        written = msgspec.json.encode(line).replace(b'"here"', text.encode())
        edit(run_dir / store.SAMPLES, 2, written)
        guard.clear()
        store.load(run_dir)
        assert ("nearer to zero" in "".join(guard.notices())) == wrong, text
        (run_dir / store.SAMPLES).write_bytes(whole)


def test_what_is_nested_too_deeply_is_named(run_dir: Path) -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep, 1]
    edit(run_dir / store.SAMPLES, 2, msgspec.json.encode({**of(run_dir, 2), "detail": {"x": deep}}))
    store.load(run_dir)
    assert "line 2: not a sample of this run (nested more than 64 deep)" in guard.notices()[0]


def test_many_bad_lines_are_one_notice(run_dir: Path) -> None:
    file = run_dir / store.SAMPLES
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([lines[0], *[b"{"] * (len(lines) - 2), b""]))
    assert [s.seq for s in store.load(run_dir).samples] == [0]
    (said,) = guard.notices()
    assert "line 2: not a sample" in said
    assert f"so are lines 3, 4, 5, 6, 7 and {len(lines) - 2 - 6} more." in said


def test_no_good_line_at_all_is_corrupt(run_dir: Path) -> None:
    file = run_dir / store.SAMPLES
    file.write_bytes(file.read_bytes().decode().encode("utf-16"))
    with pytest.raises(CorruptError, match=r"line 1: not a sample .*; no line of it is a sample"):
        store.load(run_dir)
    with pytest.raises(CorruptError):
        Writer.resume(run_dir)


def test_a_newer_schema_is_no_damage(run_dir: Path) -> None:
    edit(run_dir / store.SAMPLES, 2, b'{"schema":9}')
    with pytest.raises(CorruptError, match="line 2: has schema 9, this swtch reads up to 2"):
        store.load(run_dir)


def test_of_a_doubled_line_the_first_counts(run_dir: Path) -> None:
    file = run_dir / store.SAMPLES
    whole = store.load(run_dir)
    lines = file.read_bytes().split(b"\n")
    other = {**of(run_dir, 2), "values": {"wall_ns": 99}}
    file.write_bytes(b"\n".join([*lines[:-1], msgspec.json.encode(other), b""]))
    assert store.load(run_dir) == whole
    (said,) = guard.notices()
    assert f"line {len(lines)}: invocation 1 was already given in line 2; it is left out" in said


def test_a_line_of_another_run_is_left_out(run_dir: Path, make_manifest: MakeManifest) -> None:
    whole = store.load(run_dir)
    other = msgspec.structs.replace(sample_for(make_manifest(repeats=1), 0), seq=999)
    with (run_dir / store.SAMPLES).open("ab") as file:
        file.write(msgspec.json.encode(other) + b"\n")
    assert store.load(run_dir) == whole
    assert "no invocation 999" in guard.notices()[0]


@pytest.mark.parametrize("name", [store.MANIFEST, store.SAMPLES])
@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_named_and_not_waited_for(run_dir: Path, name: str, kind: str) -> None:
    file = run_dir / name
    file.unlink()
    {
        "folder": lambda: file.mkdir(),
        "pipe": lambda: os.mkfifo(file),
        "device": lambda: file.symlink_to("/dev/zero"),
    }[kind]()
    with pytest.raises(CorruptError, match=rf"{name}: is no file"):
        store.load(run_dir)


def changed(manifest: dict[str, Any], path: str, value: object) -> None:
    *way, last = path.split(".")
    inner: Any = manifest
    for key in way:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[int(last) if isinstance(inner, list) else last] = value


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("environment", {"cpu": None}, "expected `object`, got `null` - at `$.environment.cpu`"),
        ("environment", {"cpu": {"allowed": 3.5}}, "at `$.environment.cpu.allowed`"),
        ("environment", {"kernel": 1}, "at `$.environment.kernel`"),
        ("environment", {"engine": {"engine": "x"}}, "at `$.environment.engine.engine`"),
        ("environment", {"engine": {"guests": [1]}}, "at `$.environment.engine.guests[0]`"),
        ("trials.1.probe.cpus", 3.5, "expected `array`, got `float` - at `$.trials[1].probe.cpus`"),
        ("trials.3.probe.threads", None, "at `$.trials[3].probe.threads`"),
        ("trials.3.probe.every", 0, "expected `int` >= 1 - at `$.trials[3].probe.every`"),
        ("trials.1.factors.scenario", 1, "at `$.trials[1].factors.scenario`"),
        ("trials.1.factors", {}, "missing required field `scenario` - at `$.trials[1].factors`"),
        ("trials.1.factors.cpus_used", -1, "at `$.trials[1].factors.cpus_used`"),
        ("trials.1.factors.x", 10**40, "a number beyond 1e+30"),
        ("trials.1.timeout_s", -1, "expected more than 0, got -1 - at `$.trials[1].timeout_s`"),
        (
            "trials.1.timeout_s",
            1e14,
            "expected at most 86400, got 1e+14 - at `$.trials[1].timeout_s`",
        ),
        ("trials", [], "there is no trial "),
        ("plan.2.seq", 7, "expected `seq` 2, got 7 - at `$.plan[2]`"),
        ("plan.2.trial_id", "x", "there is no trial x - at `$.plan[2]`"),
        (
            "spending",
            {"budget_ns": 1, "looks": {}, "phases": []},
            "not every block of the plan is in a phase",
        ),
        (
            "spending",
            {
                "budget_ns": 1,
                "looks": {"native": []},
                "phases": [{"engine": "native", "begin": 0, "end": 1, "of": "all", "until_ns": 1}],
            },
            "expected at least one look - at `$.spending.looks.native`",
        ),
    ],
)
def test_a_manifest_that_cannot_be_used_is_named(
    run_dir: Path, path: str, value: object, says: str
) -> None:
    file = run_dir / store.MANIFEST
    manifest = msgspec.json.decode(file.read_bytes())
    changed(manifest, path, value)
    file.write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(CorruptError) as caught:
        store.load(run_dir)
    assert says.lower() in str(caught.value).lower()
    assert str(file) in str(caught.value)
    assert str(caught.value).endswith("; mend that, or restore the file from a copy.")


def test_two_trials_of_one_id_are_refused(run_dir: Path) -> None:
    file = run_dir / store.MANIFEST
    manifest = msgspec.json.decode(file.read_bytes())
    manifest["trials"].append(manifest["trials"][0])
    file.write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(CorruptError, match="two of its trials have the same id"):
        store.load(run_dir)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not a manifest (empty"),
        (b'{"schema":1', "not a manifest (input data was truncated"),
        (b'{"schema":9,"x":1}', "has schema 9, this swtch reads up to 2"),
        (b"[]", "not a manifest (expected `object`"),
    ],
)
def test_a_bad_manifest_is_named(run_dir: Path, text: bytes, says: str) -> None:
    (run_dir / store.MANIFEST).write_bytes(text)
    with pytest.raises(CorruptError) as caught:
        store.load(run_dir)
    assert says in str(caught.value)
    assert store.MANIFEST in str(caught.value)


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="there is no such folder"):
        store.load(tmp_path / "absent")
    with pytest.raises(CorruptError, match=r"it has no manifest\.json"):
        store.load(tmp_path)


def test_a_folder_that_holds_anything_is_refused(
    tmp_path: Path, make_manifest: MakeManifest
) -> None:
    (tmp_path / "mine").write_text("keep me")
    with pytest.raises(CannotError, match="exists and is not empty"):
        Writer.create(tmp_path, make_manifest())
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(CannotError, match="a part of it is a file"):
        Writer.create(tmp_path / "mine" / "run", make_manifest())


def test_two_writers_exclude_each_other(run_dir: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from swtch.store import Writer\n"
        "from swtch.errors import CannotError\n"
        "try:\n    Writer.resume(pathlib.Path(sys.argv[1]))\n"
        "except CannotError as error:\n    print(error)\n    sys.exit(3)\n"
    )

    def other() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, str(run_dir)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )

    with Writer.resume(run_dir):
        refused = other()
    assert refused.returncode == 3
    assert "is in use by another swtch" in refused.stdout
    assert other().returncode == 0


def test_each_sample_is_on_disk_when_add_returns(
    tmp_path: Path, make_manifest: MakeManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = make_manifest()
    file = tmp_path / "run" / store.SAMPLES
    synced: list[int] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        fsync(descriptor)
        if os.fstat(descriptor).st_ino == file.stat().st_ino:
            synced.append(os.fstat(descriptor).st_size)

    with Writer.create(tmp_path / "run", manifest) as writer:
        monkeypatch.setattr(os, "fsync", spy)
        for seq in range(3):
            writer.add(sample_for(manifest, seq))
            assert len(store.load(tmp_path / "run").samples) == seq + 1
            assert len(synced) == seq + 1
            assert synced[-1] == file.stat().st_size


def test_a_full_disk_is_one_line_and_what_is_there_stays(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = run_dir / store.SAMPLES
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join(lines[:3]) + b"\n")
    with Writer.resume(run_dir) as writer, monkeypatch.context() as patch:
        writing = os.write
        calls = iter([10])

        def full(descriptor: int, data: bytes) -> int:
            for count in calls:
                return writing(descriptor, data[:count])
            raise OSError(28, "No space left on device")

        patch.setattr(os, "write", full)
        with pytest.raises(CannotError, match=r"no space left on device.*swtch run --resume"):
            writer.add(sample_for(writer.manifest, 3))
    run = store.load(run_dir)
    assert [s.seq for s in run.samples] == [0, 1, 2]
    assert run.cut_bytes == 10


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_samples_that_would_go_nowhere_end_the_run(
    how: str, tmp_path: Path, make_manifest: MakeManifest
) -> None:
    """An editor that saves puts another file in the place of the one that we have open."""
    run = tmp_path / "run"
    with Writer.create(run, make_manifest()) as writer:
        writer.add(sample_for(writer.manifest, 0))
        file = run / store.SAMPLES
        if how == "removed":
            file.unlink()
        elif how == "replaced":
            (tmp_path / "saved").write_bytes(file.read_bytes())
            (tmp_path / "saved").replace(file)
        else:
            run.rename(tmp_path / "elsewhere")
        with pytest.raises(CannotError, match=r"was removed, or another .* swtch run --resume"):
            writer.add(sample_for(writer.manifest, 1))
    if how != "moved":
        with Writer.resume(run) as writer:
            assert writer.done() == ({0} if how == "replaced" else set())


def test_a_log_that_cannot_be_written_is_one_line(
    tmp_path: Path, make_manifest: MakeManifest
) -> None:
    with Writer.create(tmp_path / "run", make_manifest()) as writer:
        (tmp_path / "run" / "logs").rmdir()
        with pytest.raises(CannotError, match=r"cannot add to .*logs: .*swtch run --resume"):
            writer.log("a", b"out", b"")


def test_write_atomically_replaces_no_link_and_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    store.write_atomically(tmp_path / "link", b"one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"one"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    store.write_atomically(pipe, b"two")
    assert os.read(reader, 9) == b"two"
    os.close(reader)
    assert pipe.is_fifo()


def test_write_atomically_into_a_folder_says_so() -> None:
    with pytest.raises(IsADirectoryError):
        store.write_atomically(Path("/"), b"one")


def test_write_atomically_names_the_file_that_it_cannot_make(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        store.write_atomically(tmp_path / "absent" / "report.html", b"text")
    assert raised.value.filename == str(tmp_path / "absent" / "report.html")


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "\udcff" * 250])
def test_write_atomically_takes_any_name_that_a_file_may_have(name: str, tmp_path: Path) -> None:
    try:
        (tmp_path / name).touch()
    except OSError:
        pytest.skip("not on this file system")
    store.write_atomically(tmp_path / name, b"text")
    assert (tmp_path / name).read_bytes() == b"text"
    left = tmp_path / f"{store._draft_stem(tmp_path / name)}.0123abcd.tmp"
    left.touch()
    store.write_atomically(tmp_path / name, b"anew")
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_write_atomically_leaves_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    store.write_atomically(file, b"one")
    store.write_atomically(file, b"two")
    assert file.read_bytes() == b"two"
    assert [f.name for f in tmp_path.iterdir()] == ["a.json"]


WRITES = """
import os, sys
from pathlib import Path
from swtch import store
sync = os.fsync
def meanwhile(descriptor):
    os.fsync = sync
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), 9)
    print("writing", flush=True)
    sys.stdin.read()
    sync(descriptor)
os.fsync = meanwhile
store.write_atomically(Path(sys.argv[1]), b"theirs")
"""


def test_a_draft_of_who_was_killed_is_removed_by_the_next_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    # What is called almost so is not one.
    others = {"report.html.tmp", "report.html.0123abcd.tmp2", "report.md.0123abcd.tmp"}
    for name in others:
        (tmp_path / name).write_text("another's")
    with subprocess.Popen(
        [sys.executable, "-c", WRITES, str(file), "alive"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as alive:
        assert alive.stdin is not None and alive.stdout is not None
        assert alive.stdout.readline() == b"writing\n"
        (theirs,) = {f.name for f in tmp_path.iterdir()} - others
        killed = subprocess.run(
            [sys.executable, "-c", WRITES, str(file), "killed"], cwd=tmp_path, check=False
        )
        assert killed.returncode == -9
        assert len(list(tmp_path.iterdir())) == len(others) + 2
        store.write_atomically(file, b"ours")
        assert file.read_bytes() == b"ours"
        assert {f.name for f in tmp_path.iterdir()} == {*others, theirs, "report.html"}
        alive.stdin.close()
    assert alive.returncode == 0
    assert file.read_bytes() == b"theirs"
    assert {f.name for f in tmp_path.iterdir()} == {*others, "report.html"}


def test_a_draft_that_was_taken_for_one_left_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock another may come by."""
    locking = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", locking)
        store.write_atomically(tmp_path / "report.html", b"another's")
        locking(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    store.write_atomically(tmp_path / "report.html", b"ours")
    assert [(f.name, f.read_bytes()) for f in tmp_path.iterdir()] == [("report.html", b"ours")]


def test_log_replaces_and_removes(tmp_path: Path, make_manifest: MakeManifest) -> None:
    with Writer.create(tmp_path / "run", make_manifest()) as writer:
        writer.log("a/b.good", b"out", b"err")
        writer.log("a/b.good", b"out2", b"")
        logs = tmp_path / "run" / "logs"
        assert {f.name: f.read_bytes() for f in logs.iterdir()} == {"a_b.good.stdout": b"out2"}


def test_a_log_of_any_id_is_a_file(tmp_path: Path, make_manifest: MakeManifest) -> None:
    # As an experiment of one's own may have; the parts of an id are its factors.
    ids = ("mine/" + "ä" * 300 + "/a", "mine/" + "ä" * 300 + "/b", "mine/a\0b\nc", "mine/d")
    with Writer.create(tmp_path / "run", make_manifest()) as writer:
        for one in ids:
            writer.log(f"{one}.failed-00001", one.encode(), b"")
            writer.log(f"{one}.good", one.encode(), b"")
        logs = {f.name: f.read_bytes() for f in (tmp_path / "run" / "logs").iterdir()}
    assert len(logs) == 2 * len(ids) and set(logs.values()) == {one.encode() for one in ids}
    assert logs["mine_d.good.stdout"] == b"mine/d"
    ends = sorted(name.rpartition(".")[0].rpartition(".")[2] for name in logs)
    assert ends == ["failed-00001"] * 4 + ["good"] * 4


def test_two_who_write_one_file_at_once_both_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.html"
    sync = os.fsync

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        store.write_atomically(file, b"the other's, longer")
        assert file.read_bytes() == b"the other's, longer"
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    store.write_atomically(file, b"ours")
    assert file.read_bytes() == b"ours"
    assert [f.name for f in tmp_path.iterdir()] == ["report.html"]


def test_a_run_that_found_no_room_can_begin_anew_in_its_folder(
    make_manifest: MakeManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.write_atomically

    def full(file: Path, data: bytes) -> None:
        if file.name == store.MANIFEST:
            raise OSError(28, "No space left on device")
        write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_atomically", full)
        with pytest.raises(CannotError, match="no space left"):
            Writer.create(tmp_path / "run", make_manifest(), {"source/mine.py": b"own"})
    with Writer.create(tmp_path / "run", make_manifest()):
        assert (tmp_path / "run" / store.LOGS).is_dir()


@pytest.mark.parametrize(
    "name", ["mine.txt", "source/mine.txt", "source/mine.py/mine.py", "manifest.json.old"]
)
def test_what_may_be_anothers_is_not_removed(
    name: str, make_manifest: MakeManifest, tmp_path: Path
) -> None:
    """Beside what a writer left that was killed."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    (tmp_path / "manifest.json.0123abcd.tmp").touch()
    with pytest.raises(CannotError, match="not empty; choose another folder, or empty it"):
        Writer.create(tmp_path, make_manifest())
    assert (tmp_path / name).exists()


def test_a_folder_without_a_run_is_not_said_to_have_one(
    make_manifest: MakeManifest, tmp_path: Path
) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(CannotError, match="not empty; choose another folder, or empty it"):
        Writer.create(tmp_path, make_manifest())


def test_a_run_that_came_and_went_meanwhile_is_not_written_over(
    make_manifest: MakeManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look whether the folder is empty and the lock."""
    acquire = Writer._acquire

    def late(writer: Writer) -> None:
        monkeypatch.setattr(Writer, "_acquire", acquire)
        Writer.create(tmp_path / "run", make_manifest(seed=1)).close()
        acquire(writer)

    monkeypatch.setattr(Writer, "_acquire", late)
    with pytest.raises(CannotError, match=r"not empty; .*continue the run in it"):
        Writer.create(tmp_path / "run", make_manifest(seed=2))
    assert store.load(tmp_path / "run").manifest.seed == 1
