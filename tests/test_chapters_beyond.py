# SPDX-License-Identifier: Apache-2.0
"""The chapters beyond the studies: figures, tables, and what is said in a sentence."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import page
import pytest
from made_beyond import measured
from rich.console import Console
from synthetic import Scene, failed

from swtch import report
from swtch.experiments import eevdf_yield, get
from swtch.records import Trial
from swtch.report.chapters import chapter
from swtch.report.chapters import sentences as sentences_of
from swtch.report.chapters.mitigation import state_of
from swtch.report.story import Story, tell

Where = Mapping[str, Any]
Values = Callable[[Trial, float], Mapping[str, float]]

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64", "cpus": (0,)},
}


def each(ns: float, **more: float) -> dict[str, float]:
    """Batches of a ring."""
    return {
        "each_p10_ns": ns * 0.9,
        "each_p50_ns": ns,
        "each_p90_ns": ns * 1.5,
        "handovers": 200,
        **more,
    }


def handing(one: Trial, factor: float) -> Mapping[str, float]:
    if one.model == "kthread":
        return {"c_warm_ns": 900 * factor, "handovers": 200}
    ns = {"process": 1300.0, "pthread": 1000.0}.get(one.model, 50.0)
    return each(ns * factor * (5 if one.factors["place"] == "two" else 1))


def ringing(processes: float, pthreads: float) -> Values:
    """Rings whose step beyond the kernel's marks is so large."""

    def values(one: Trial, factor: float) -> Mapping[str, float]:
        step = processes if one.model == "process" else pthreads
        return each(1000 * factor * (step if int(str(one.factors["members"])) > 6 else 1))

    return values


def fenced(one: Trial, factor: float) -> Mapping[str, float]:
    asked = one.factors["barrier"] != "none"
    dear = 3 if asked and one.model == "process" else 1
    return each(1000 * factor * dear, **({"fence_errno": 0, "fence_state": 5} if asked else {}))


def refused(one: Trial, factor: float) -> Mapping[str, float]:
    asked = one.factors["barrier"] != "none"
    return each(1000 * factor, **({"fence_errno": 1, "fence_state": 2} if asked else {}))


def calling(one: Trial, factor: float) -> Mapping[str, float]:
    ns = {"function": 2, "vdso": 30, "getppid": 120, "pipe": 480, "uyield": 6}
    return {**each(ns.get(str(one.factors["kind"]), 200) * factor), "calls": 10_000}


def signalling(one: Trial, factor: float) -> Mapping[str, float]:
    ns = {"ignored": 300, "handler": 1500, "interrupt": 6000}
    return each(ns.get(str(one.factors["kind"]), 900) * factor)


def adding(one: Trial, factor: float) -> Mapping[str, float]:
    ns = {"own": 10, "packed": 20, "shared": 30, "spin": 50, "mutex": 80}
    wall = ns[str(one.factors["way"])] * 1000 * factor
    return {"wall_ns": round(wall), "counter": 1000, "expected": 1000}


def producing(one: Trial, factor: float) -> Mapping[str, float]:
    ns = 5000 if one.factors["room"] == 1 else 100
    if one.model in ("uthread", "coroutine"):
        ns //= 50
    return {"wall_ns": round(ns * 100 * factor), "items": 100, "counter": 5050, "expected": 5050}


def answering(one: Trial, factor: float) -> Mapping[str, float]:
    ns = {"loop": 4000, "epoll": 5000, "blocking": 8000}[str(one.factors["by"])]
    if one.model == "coroutine" and one.factors["by"] == "blocking":
        ns *= 4
    return {
        "wall_ns": round(ns * 200 * factor),
        "client_cpu_ns": round(ns * 100 * factor),
        "client_nvcsw": 90,
        "client_nivcsw": 10,
        "trips": 100,
        "counter": 6400,
        "expected": 6400,
        "server_waits": 50,
        **({} if one.factors["by"] == "blocking" else {"waits": 25}),
    }


def waking(one: Trial, factor: float) -> Mapping[str, float]:
    busy = 4 if one.factors["busy"] else 1
    ns = {"uthread": 500, "pthread": 5000}[one.model] * factor * busy
    return {
        "late_n": 40,
        "late_p50_ns": ns,
        "late_p90_ns": 2 * ns,
        "late_p99_ns": 3 * ns,
        "late_max_ns": 4 * ns,
        "intended_late_n": 40,
        "intended_late_p50_ns": 2 * ns,
        "intended_late_p90_ns": 4 * ns,
        "intended_late_p99_ns": 6 * ns,
        "intended_late_max_ns": 8 * ns,
        "wakes": 40,
    }


def peering(one: Trial, factor: float) -> Mapping[str, float]:
    ns = {"pthread": 1000, "uthread": 20, "go": 80, "boost": 60, "tokio": 40, "java": 500}
    return each(ns[one.model] * factor)


QUANTILES = {
    f"{late}_quantiles": [[0.0, 400], [0.5, 500], [0.9, 900], [0.99, 9000], [1.0, 9500]]
    for late in ("late", "intended_late")
}

# Of each experiment: values, the figures they make, and what is said of them.
CHAPTERS: dict[str, tuple[Values, list[str], list[str]]] = {
    "ping": (
        handing,
        ["fig-ping"],
        ["hands over to the next in 50", "times as much", "adds the switch of address spaces: 1.3"],
    ),
    "asid-cliff": (
        ringing(1.5, 1.0),
        ["fig-asid-cliff"],
        ["1.5", "processes pay for their number and pthreads do not"],
    ),
    "syscall": (calling, ["fig-syscall"], ["back takes 1", "getppid", "times as long"]),
    "signal": (
        signalling,
        ["fig-signal"],
        ["empty handler takes 1", "as long as one that is dropped"],
    ),
    "wakeup-latency": (
        waking,
        ["fig-wakeup-latency", "fig-wakeup-latency-tail"],
        ["beside a loop that is 4", "10.0 ", "as long as a uthread"],
    ),
    "peers": (
        peering,
        ["fig-peers"],
        ["takes 20.0 [", "Go 4", "Boost.Fiber 3", "tokio 2", "Java's virtual threads 25"],
    ),
    "sync": (adding, ["fig-sync"], ["with a counter each", "atomic counter takes"]),
    "producer-consumer": (
        producing,
        ["fig-producer-consumer"],
        ["each item two switches, ", "as long as it does as uthreads"],
    ),
    "coroutine-io": (
        answering,
        ["fig-coroutine-io", "fig-coroutine-io-cpu"],
        [
            "an epoll loop without threads 3 998",
            "as coroutines it costs 1.2",
            "A pthread for each connection costs 1.",
            "Coroutines that sleep in read(), and all others with them, need 6.",
            "With the server on another CPU, coroutines that sleep",
            "as long as parked ones",
        ],
    ),
    "mitigation": (fenced, ["fig-mitigation"], ["3", "times as long", "Between pthreads"]),
}


def scene_of(name: str, place: str = "native", n: int = 6) -> Scene:
    values = CHAPTERS[name][0]
    return measured(Scene(), name, values, where=PLACES[place], n=n, detail=QUANTILES)


def told(scene: Scene, path: Path) -> Story:
    return tell(scene.write(path / "run"))


def shown(name: str, story: Story) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    for one in chapter(name).terminal(story):
        console.print(one)
    return console.export_text()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", CHAPTERS)
def test_everything_measured_is_shown(name: str, place: str, tmp_path: Path) -> None:
    _, ids, _ = CHAPTERS[name]
    scene = scene_of(name, place)
    story = told(scene, tmp_path)
    figures = chapter(name).figures(story)
    suffix = {"native": "", "vm": "-vm-6_1-amd64", "exact": "-exact-6_1-amd64"}[place]
    assert [one.id for one in figures] == [known + suffix for known in ids]
    for one in figures:
        assert one.svg.startswith("<svg") and one.title and one.caption
        assert "NaN" not in one.svg and "{" not in one.description + one.caption
        assert (place == "native") == ("6.1-amd64" not in one.title)
    rows = [row for table in chapter(name).tables(story) for row in table.rows]
    assert len(rows) == len(scene.trials)
    for table in chapter(name).tables(story):
        assert all(len(row.cells) == len(table.columns) for row in table.rows)
        assert ("instructions" in " ".join(table.columns)) == (place == "exact")
        assert "{" not in " ".join(table.columns)
    assert all(row.cells[0] in shown(name, story) for row in rows)


@pytest.mark.parametrize("name", CHAPTERS)
def test_what_was_found_is_said_with_its_interval(name: str, tmp_path: Path) -> None:
    story = told(scene_of(name), tmp_path)
    text = " ".join(sentences_of(story, name))
    for part in CHAPTERS[name][2]:
        assert part in text, text
    assert "[" in text and "]" in text
    # The same in every form.
    (html, markdown, data) = report.write(tmp_path / "run")
    # Blanks that end no line are blanks to who reads them.
    shown_by_browsers = page.read(html.read_text(encoding="utf-8")).text
    for sentence in sentences_of(story, name):
        assert sentence in shown_by_browsers
        assert sentence.split("[")[0] in markdown.read_text(encoding="utf-8")
    assert json.loads(data.read_text(encoding="utf-8"))["said"] == {name: sentences_of(story, name)}
    console = Console(width=400, record=True, file=io.StringIO())
    report.print_run(tmp_path / "run", console)
    assert sentences_of(story, name)[0] in console.export_text()


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_guest_is_named_in_what_is_said(name: str, tmp_path: Path) -> None:
    sentences = sentences_of(told(scene_of(name, "vm"), tmp_path), name)
    assert all(sentence.startswith("On vm 6.1-amd64: ") for sentence in sentences)


@pytest.mark.parametrize("name", CHAPTERS)
def test_too_few_are_said_to_be_no_interval(name: str, tmp_path: Path) -> None:
    text = " ".join(sentences_of(told(scene_of(name, n=2), tmp_path), name))
    assert "no interval" in text


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_run_without_good_samples_says_nothing(name: str, tmp_path: Path) -> None:
    scene = Scene()
    for one in scene_of(name).trials:
        scene.add(one, [failed(one)] * 3)
    story = told(scene, tmp_path)
    assert chapter(name).figures(story) == [] and sentences_of(story, name) == []
    for table in chapter(name).tables(story):
        assert all(any("3 failed" in cell for cell in row.cells) for row in table.rows)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_run_of_nothing_is_shown_as_such(name: str, tmp_path: Path) -> None:
    assert get(name).name == name
    story = told(Scene(), tmp_path)
    assert chapter(name).figures(story) == [] and sentences_of(story, name) == []
    assert shown(name, story).strip() == ""


def test_experiments_with_claims_say_nothing_of_their_own(tmp_path: Path) -> None:
    assert sentences_of(told(Scene(), tmp_path), "locks") == []


# ---- each one's own ----


@pytest.mark.parametrize(
    ("processes", "pthreads", "verdict"),
    [
        (1.5, 1.0, "so processes pay for their number"),
        (1.0, 1.5, "it is not the number of address spaces"),
        (1.2, 1.2, "no cost of many address spaces can be told"),
    ],
)
def test_the_control_decides_about_the_step(
    processes: float, pthreads: float, verdict: str, tmp_path: Path
) -> None:
    scene = measured(Scene(), "asid-cliff", ringing(processes, pthreads))
    (sentence,) = sentences_of(told(scene, tmp_path), "asid-cliff")
    assert verdict in sentence


def test_a_refused_barrier_is_not_measurable(tmp_path: Path) -> None:
    story = told(measured(Scene(), "mitigation", refused), tmp_path)
    (sentence,) = sentences_of(story, "mitigation")
    assert sentence.startswith("Not measurable here: ") and "EPERM" in sentence
    (table,) = chapter("mitigation").tables(story)
    asked = [row.cells for row in table.rows if row.cells[1] != "nobody asks"]
    assert asked and all(cells[2] == "–" for cells in asked)
    assert all(cells[3] == "no barrier, for all" for cells in asked)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (-22, "EINVAL"),
        (0, "not affected"),
        (2, "no barrier, for all"),
        (3, "no barrier, by task"),
        (5, "barrier, by task"),
        (8, "barrier, for all"),
    ],
)
def test_the_kernels_state_in_words(state: int, words: str) -> None:
    assert state_of(state) == words


def yielding(scheduler_switches: Mapping[str, int], n: int = 6) -> Scene:
    """Two guests whose threads were switched to so often."""
    scene = Scene()
    asked = {"expected": 2 * eevdf_yield.YIELDS}
    for guest, switches in scheduler_switches.items():
        where = {"engine": "vm", "guest": guest}
        measured(scene, "eevdf-yield", lambda *_: asked, n=n, where=where, switches=switches)
    for index, one in enumerate(scene.trials):
        scheduler = "EEVDF" if "6.12" in one.id else "CFS"
        changed = msgspec.structs.replace(one, factors={**one.factors, "scheduler": scheduler})
        scene.trials[index] = changed
    factors = {one.id: one.factors for one in scene.trials}
    scene.samples = [msgspec.structs.replace(s, factors=factors[s.trial_id]) for s in scene.samples]
    return scene


def test_the_share_of_yields_is_the_kernels_count(tmp_path: Path) -> None:
    scene = yielding({"6.1-amd64": 20_000, "6.12-amd64": 1_000})
    story = told(scene, tmp_path)
    (figure,) = chapter("eevdf-yield").figures(story)
    assert figure.id == "fig-eevdf-yield" and "5 of 100" in figure.description
    (table,) = chapter("eevdf-yield").tables(story)
    shares = {(row.cells[0], row.cells[3]) for row in table.rows}
    assert shares == {("vm 6.1-amd64 (CFS)", "100"), ("vm 6.12-amd64 (EEVDF)", "5")}
    # What is no switch is marked, and only that.
    assert {row.cells[0] for row in table.rows if "switches" in row.cells[-1]} == {
        "vm 6.12-amd64 (EEVDF)"
    }
    sentences = sentences_of(story, "eevdf-yield")
    assert len(sentences) == 2
    assert "100 on vm 6.1-amd64 (CFS), 5 on vm 6.12-amd64 (EEVDF)" in sentences[0]
    assert "schedule()" in sentences[0] and "sched_yield()" in sentences[1]
    assert "vm 6.12-amd64 (EEVDF)" in shown("eevdf-yield", story)


def test_one_kernel_alone_says_how_to_get_the_other(tmp_path: Path) -> None:
    *_, last = sentences_of(told(yielding({"6.1-amd64": 20_000}), tmp_path), "eevdf-yield")
    assert "--guest 6.1-amd64,6.12-amd64" in last


def test_yields_of_nobody_are_no_share(tmp_path: Path) -> None:
    scene = Scene()
    for one in yielding({"6.1-amd64": 1}).trials:
        scene.add(one, [failed(one)] * 3)
    story = told(scene, tmp_path)
    assert chapter("eevdf-yield").figures(story) == [] and sentences_of(story, "eevdf-yield") == []
    (table,) = chapter("eevdf-yield").tables(story)
    assert all("3 failed" in row.cells[-2] for row in table.rows)


def test_what_has_no_threads_is_a_series_of_its_own(tmp_path: Path) -> None:
    story = told(scene_of("coroutine-io"), tmp_path)
    (table,) = chapter("coroutine-io").tables(story)
    rows = [row.cells for row in table.rows]
    assert {cells[0] for cells in rows} == {
        "no threads",
        "coroutine",
        "ucontext",
        "uthread",
        "pthread",
    }
    asleep = [cells for cells in rows if "asleep in read()" in cells[1]]
    assert {cells[0] for cells in asleep} == {"coroutine", "uthread"}
    waits = table.columns.index("epoll_wait")
    assert all(cells[waits] == "–" for cells in (*asleep, *(c for c in rows if c[0] == "pthread")))
    assert {c[waits] for c in rows if c[0] == "no threads"} == {"0.250"}
    for figure in chapter("coroutine-io").figures(story):
        assert "no threads" in figure.svg and "asleep in read()" in figure.svg


def test_one_cpu_says_nothing_of_two(tmp_path: Path) -> None:
    scene = measured(Scene(), "coroutine-io", answering, where={"cpus": (0,)})
    assert not any(
        "another CPU" in one for one in sentences_of(told(scene, tmp_path), "coroutine-io")
    )


def test_peers_that_were_not_built_are_named(tmp_path: Path) -> None:
    scene = Scene()
    whole = measured(Scene(), "peers", peering)
    for one in whole.trials:
        if one.model not in ("tokio", "java"):
            scene.add(one, [s for s in whole.samples if s.trial_id == one.id])
    found, missing = sentences_of(told(scene, tmp_path), "peers")
    assert "Go 4" in found and "tokio" not in found
    assert missing.startswith("Not measured here: tokio: once cargo is installed")
    assert "JDK of at least 21" in missing and "Boost" not in missing
