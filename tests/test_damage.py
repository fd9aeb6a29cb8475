# SPDX-License-Identifier: Apache-2.0
"""Runs that were damaged or edited by hand, key by key: a line that names the key, or a
result; never a traceback.

The draws are seeded: a case that failed is found again by its number.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_002
import made_003
import msgspec
import pytest
from synthetic import Scene

from swtch import cli, own, store
from swtch.analysis import findings
from swtch.errors import EXIT_CORRUPT, EXIT_OK

OLD = Path(__file__).parent / "data" / "run-schema-1" / store.MANIFEST
GONE = object()
# What may stand where something else belongs.
WRONG: tuple[Any, ...] = (
    *(GONE, None, True, -1, 0, 3.5, -5.5, 1e29, 1e308, 2**62, 2**70, 10**400),
    *("", "x", "[x]", "9" * 50, [], [1], [None], ["x"], {}, {"a": 1}, [[1, [2]]]),
)
Place = tuple[str | int, ...]
CASES = 12
EACH = 12


def walk(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every key and index in there."""
    if not isinstance(value, (dict, list)):
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*place, key)
        yield from walk(inner, (*place, key))


def put(value: Any, place: Place, wrong: Any) -> None:
    *way, last = place
    for key in way:
        value = value[key]
    if wrong is GONE:
        del value[last]
    else:
        value[last] = copy.deepcopy(wrong)


def by_key(value: Any) -> list[list[Place]]:
    """The places by what is in them: of lists all elements are alike."""
    alike: dict[tuple[str, ...], list[Place]] = {}
    for place in walk(value):
        key = tuple("*" if isinstance(part, int) else part for part in place)
        alike.setdefault(key, []).append(place)
    return list(alike.values())


def damage(rng: random.Random, value: Any) -> str:
    """Puts what is wrong at one place, or at all that are alike; says what."""
    places, wrong = rng.choice(by_key(value)), rng.choice(WRONG)
    chosen = places if rng.random() < 0.5 else [rng.choice(places)]
    # From the last: a list whose elements go would be another beneath us.
    for place in reversed(chosen):
        put(value, place, wrong)
    text = "nothing" if wrong is GONE else json.dumps(wrong)[:60]
    return f"{text} at {'.'.join(map(str, chosen[0]))}, {len(chosen)} times"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with something of every kind, and the environment of a real one."""
    scene = Scene()
    for model in ("pthread", "uthread"):
        for case in ("A", "B1", "C1"):
            scene.scenario(case, model, 100.0, n=2)
    scene.gantt(n=2)
    made_002.switched(scene, "aes+crc", 99, (20.0, 20.0), count=2)
    made_003.ticking(scene, 1000, "worker", 0.98, n=2)
    made_003.waking(scene, "uthread", 2.0, loops=1, n=2)
    environment = json.loads(OLD.read_text())["environment"]
    return scene.write(tmp_path_factory.mktemp("whole") / "run", environment=environment)


def commands(run: Path, other: Path, out: Path, number: int) -> list[list[str]]:
    """What reads a run; of those that take long one each time."""
    further = (
        ["report", str(run), "--format", "md,json", "-o", str(out)],
        ["compare", str(run), str(other)],
        ["compare", str(other), str(run)],
        ["export", str(run), "-o", str(out)],
        ["export", str(run), "--format", "google-benchmark", "-o", str(out / "gb.json")],
        ["show", str(run), "--format", "csv"],
    )
    return [["show", str(run), "-v"], further[number % len(further)]]


# What is to be said is said by the command line, in its own form.
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", range(CASES))
def test_damage_is_a_line_or_nothing(
    case: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((whole / store.MANIFEST).read_text())
    samples = [json.loads(line) for line in (whole / store.SAMPLES).read_text().splitlines()]
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    out.mkdir()
    for number in range(EACH):
        rng = random.Random(f"{case}/{number}")
        damaged, lines = copy.deepcopy(manifest), copy.deepcopy(samples)
        # Most of a manifest is its environment, and most that breaks is in the trials.
        part = rng.choice([damaged, damaged["trials"], damaged["environment"], lines, lines])
        what = damage(rng, part)
        (run / store.MANIFEST).write_text(json.dumps(damaged))
        (run / store.SAMPLES).write_text("".join(json.dumps(line) + "\n" for line in lines))
        for command in commands(run, whole, out, number):
            own.forget()
            try:
                code = cli.main(command)
            except Exception as error:
                raise AssertionError(f"case {number}, {command[0]}: {what}") from error
            said = capsys.readouterr().err.splitlines()
            assert "Traceback" not in "".join(said)
            # Refused is one line that names the file; what goes on may say a little.
            if code == EXIT_CORRUPT:
                (line,) = said
                assert store.MANIFEST in line or store.SAMPLES in line, what
                break
            assert code == EXIT_OK or len(said) == 1, (what, command, said)


def test_what_is_whole_is_told_as_it_is(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(whole), "-v"]) == EXIT_OK
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("wrong", [b"}{", b'"\xff"', b"", b"[]"])
def test_a_page_is_made_of_the_lines_that_are_whole(
    wrong: bytes, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which a page has packed, by experiment."""
    lines = (whole / store.SAMPLES).read_bytes().splitlines(keepends=True)
    middle = len(lines[1]) // 2
    lines[1] = lines[1][:middle] + wrong + (lines[1][middle + 3 :] or b"\n")
    run = tmp_path / "run"
    run.mkdir()
    (run / store.MANIFEST).write_bytes((whole / store.MANIFEST).read_bytes())
    (run / store.SAMPLES).write_bytes(b"".join([*lines, b"[]\n"]))
    assert cli.main(["report", str(run)]) == EXIT_OK
    assert "left out" in capsys.readouterr().err
    assert (run / "report.html").stat().st_size > 10_000


def test_what_was_said_of_a_run_is_not_said_of_the_next(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a program that has the lab in it, one command after the other."""
    cut = shutil.copytree(whole, tmp_path / "cut")
    with (cut / store.SAMPLES).open("ab") as file:
        file.write(b"[]\n")
    for run, lines in ((cut, 1), (whole, 0), (cut, 1)):
        assert cli.main(["show", str(run)]) == EXIT_OK
        assert len(capsys.readouterr().err.splitlines()) == lines


def test_values_that_are_missing_are_no_metric() -> None:
    """Each value of a sample of study 002's may be absent; no metric asks for it then."""
    scene = Scene()
    made_002.switched(scene, "aes+crc", 99, (20.0, 20.0), count=1)
    made_002.interrupted(scene, "aes", 49, 20.0, count=1)
    for sample in scene.samples:
        for name in sample.values:
            values = {key: value for key, value in sample.values.items() if key != name}
            findings.metrics(msgspec.structs.replace(sample, values=values))


def test_a_task_that_the_study_has_not_is_no_evidence() -> None:
    scene = Scene()
    made_002.interrupted(scene, "aes", 49, 20.0, count=6)
    scene.trials = [
        msgspec.structs.replace(one, factors={**one.factors, "task": "x"}) for one in scene.trials
    ]
    assert scene.verdict("002.7").verdict == "not measurable here"


def test_a_scenario_in_which_nothing_was_done_has_no_course(tmp_path: Path) -> None:
    scene = Scene().scenario("A", "pthread", n=2, values={"counter": 0})
    run = scene.scenario("B2", "pthread", n=2).write(tmp_path / "run")
    assert cli.main(["report", str(run), "--format", "html"]) == EXIT_OK
