# SPDX-License-Identifier: Apache-2.0
"""How quiet the machine was: steal, what others had, and what the gates marked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from synthetic import VM, Scene

from swtch.analysis.neighbours import Neighbours, neighbours, percent

MS = 1_000_000


def measured(steal: list[int | None], cpus: int = 1, ms: int = 100, **given: Any) -> Neighbours:
    """Samples of `ms` on so many CPUs, with so many milliseconds of steal."""
    scene = Scene()
    for part in steal:
        stolen = None if part is None else part * MS
        scene.scenario("B2", "pthread", n=1, where={"cpus": cpus}, steal_ns=stolen, **given)
    for index, one in enumerate(scene.samples):
        scene.samples[index] = msgspec.structs.replace(one, elapsed_ns=ms * MS)
    return neighbours(scene.groups(), online=4)


def test_steal_is_a_share_of_the_measured_cpus() -> None:
    """One tick in one of four samples is 2.5 % of the run, and nothing of most samples."""
    of_run = measured([0, 0, 0, 10])
    assert of_run.steal == pytest.approx(0.025)
    assert "took 2.5 % of the measured CPUs' time; " in of_run.sentence
    # Marked by the gate "steal".
    assert (of_run.marked, of_run.samples) == (1, 4)
    assert "gates marked 1 of 4 samples (25.0 %)" in of_run.sentence


def test_a_quota_that_stopped_samples_is_said() -> None:
    """It is no other program and no guest, and nothing else tells of it."""
    scene = Scene()
    for stopped in (None, 0, 90 * MS, MS // 2):
        scene.scenario("B2", "pthread", n=1, throttled_ns=stopped)
    scene.samples = [msgspec.structs.replace(s, elapsed_ns=100 * MS) for s in scene.samples]
    of_run = neighbours(scene.groups(), online=4)
    assert (of_run.throttled, of_run.marked) == (1, 1)
    assert "(cpu.max of the control group) stopped 1 of 4 samples" in of_run.sentence
    assert "cpu.max" not in measured([0, 0]).sentence


def test_of_one_sample_it_is_said_where_ticks_bear_it() -> None:
    """Of 5 ms a tick of 10 is three times the time there was, with one that came late."""
    short = measured([0, 10, 20], ms=5)
    assert short.steal == 2 and short.steal_most is None
    assert "of a sample" not in short.sentence
    long = measured([0, 10, 30], ms=200)
    assert long.steal_most == pytest.approx(0.15)
    assert "6.7 % of the measured CPUs' time (of a sample of 0.2 s or more at most 15.0 %)" in (
        long.sentence
    )
    # All of it was in short ones.
    mixed = neighbours_of(short_ms=10, long_ms=0)
    assert mixed.steal_most == 0 and "of a sample" not in mixed.sentence


def neighbours_of(short_ms: int, long_ms: int) -> Neighbours:
    """One sample of 5 ms and one of 200, with so much steal."""
    scene = Scene()
    for steal in (short_ms, long_ms):
        scene.scenario("B2", "pthread", n=1, where={"cpus": 1}, steal_ns=steal * MS)
    for index, elapsed in enumerate((5, 200)):
        sample = scene.samples[index]
        scene.samples[index] = msgspec.structs.replace(sample, elapsed_ns=elapsed * MS)
    return neighbours(scene.groups())


def test_none_is_said_once() -> None:
    sentence = measured([0, 0]).sentence
    assert "took none of the measured CPUs' time; gates marked 0 of 2 samples." in sentence


def test_of_two_cpus_it_is_half_as_much() -> None:
    scene = Scene().scenario("A", "pthread", n=2, where={"cpus": 2}, steal_ns=MS)
    (group,) = scene.groups()
    time = sum(sample.elapsed_ns for sample in group.good)
    assert neighbours([group]).steal == pytest.approx(2 * MS / (2 * time))


def test_of_a_guest_it_is_of_the_whole_machine() -> None:
    scene = Scene().scenario("B2", "pthread", n=2, where=VM, steal_ns=MS)
    (group,) = scene.groups()
    time = sum(sample.elapsed_ns for sample in group.good)
    assert neighbours([group], online=4).steal == pytest.approx(2 * MS / (4 * time))


def test_others_are_what_is_left_over_the_run() -> None:
    """Of one invocation it may be less than nothing: ticks are coarse."""
    scene = Scene()
    for busy, own in ((100, 90), (80, 90)):
        scene.scenario("B2", "pthread", n=1, busy_ns=busy * MS, own_ns=own * MS)
    assert neighbours(scene.groups()).others == 0
    scene.scenario("B2", "pthread", n=1, busy_ns=93 * MS, own_ns=90 * MS)
    time = sum(sample.elapsed_ns for sample in scene.samples)
    quiet = neighbours(scene.groups())
    assert quiet.others == pytest.approx(3 * MS / time)
    assert "other programs and interrupts had" in quiet.sentence


def test_what_nobody_counted_is_not_nothing() -> None:
    unknown = measured([None, None])
    assert (unknown.steal, unknown.steal_most, unknown.others) == (None, None, None)
    assert "steal was not counted here" in unknown.sentence
    assert "other programs" not in unknown.sentence


def test_without_samples_nothing_is_said() -> None:
    assert neighbours([]).sentence == ""


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0 %"), (0.0001, "< 0.1 %"), (0.0213, "2.1 %"), (1, "100.0 %")]
)
def test_a_share_in_words(share: float, words: str) -> None:
    assert percent(share) == words
