# SPDX-License-Identifier: Apache-2.0
"""Reports of every kind of run: whole, sparse, of several places; the three forms agree."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import page
import pytest
import synthetic
from synthetic import (
    CASES,
    USER_MODELS,
    VM,
    Scene,
    everything,
    failed,
    full,
    gantt,
    scenario,
    scenario_sample,
)
from written import Report, Written, terminal

from swtch import experiments, plan, report, store
from swtch.analysis import effects
from swtch.records import Verdict
from swtch.report import chapters, standing
from swtch.report.story import spread as spread_text
from swtch.report.story import where

Swtch = Callable[..., "subprocess.CompletedProcess[str]"]

MIB = 1_000_000
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
FIGURES = ("fig-throughput", "fig-ratios", "fig-switches", "fig-sequence")
# What is a link and asks for nothing.
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


# ---- runs ----


def none_yet() -> Scene:
    scene = Scene()
    for case in CASES:
        scene.add(scenario(case, "pthread"), missing=5)
    return scene.add(gantt(), missing=5)


def only_failed() -> Scene:
    scene = Scene()
    for one in (*(scenario(case, "pthread") for case in CASES), gantt()):
        scene.add(one, [failed(one), failed(one), failed(one, "given up after 3 failures")])
    return scene


def interrupted() -> Scene:
    scene = Scene()
    for case in CASES[:2]:
        one = scenario(case, "pthread")
        scene.add(one, [scenario_sample(one)] * 2, missing=8)
    return scene.add(scenario("B2", "uthread"), missing=10)


RUNS: dict[str, Callable[[], Scene]] = {
    "full": full,
    "none planned": Scene,
    "none yet": none_yet,
    "one pthread": lambda: Scene().scenario("A", "pthread", n=1),
    "one of each": lambda: everything({}, USER_MODELS, n=1).gantt(n=1),
    "one chart": lambda: Scene().gantt(n=1),
    "one coroutine": lambda: Scene().scenario("B2", "coroutine", n=1),
    "only failed": only_failed,
    "interrupted": interrupted,
    "exact": lambda: everything({"engine": "exact"}, ("pthread", "kthread", "uthread")),
    "a guest alone": lambda: everything(VM, ("pthread", "kthread")).gantt(where=VM),
    "too short for the clock": lambda: Scene().scenario("A", "pthread", values={"wall_ns": 0}),
    "no threads": lambda: Scene().scenario("A", "pthread", threads_of={"n": 0}),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Written]:
    """The report of a run of RUNS, made once."""
    made: dict[str, Written] = {}

    def get(name: str) -> Written:
        if name not in made:
            made[name] = Written(RUNS[name]().write(tmp_path_factory.mktemp("run") / "run"))
        return made[name]

    return get


Get = Callable[[str], Written]
every_run = pytest.mark.parametrize("name", RUNS)


# ---- what holds for every report ----


@every_run
def test_the_page_asks_for_nothing_and_runs_nothing(written: Get, name: str) -> None:
    root = written(name).page
    (policy,) = (m for m in root.all("meta") if "http-equiv" in m.attributes)
    assert policy.attributes == {"http-equiv": "Content-Security-Policy", "content": CSP}
    tags = {element.tag for element in root.all()}
    assert not tags & {"script", "iframe", "object", "embed", "img", "image", "base", "form"}
    for element in root.all():
        for attribute, value in element.attributes.items():
            assert not attribute.startswith("on"), element.attributes
            if attribute.startswith("xmlns"):
                assert value in NAMESPACES
                continue
            if attribute in ("href", "src", "xlink:href"):
                assert re.match(r"#|data:application/(x-ndjson|gzip);base64,|data:,$", value), value
            assert "//" not in value or value.startswith("data:application/"), value
            assert "javascript:" not in value.lower()
    for style in root.all("style"):
        assert "@import" not in style.raw and "url(" not in style.raw
    assert not re.search(r"url\((?!['\"]?#)", written(name).html)


@every_run
def test_ids_are_unique_and_what_names_one_finds_it(written: Get, name: str) -> None:
    root = written(name).page
    ids = [e.attributes["id"] for e in root.all() if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    for element in root.all():
        wanted = element.attributes.get("aria-labelledby", "").split()
        if element.attributes.get("href", "").startswith("#"):
            wanted.append(element.attributes["href"][1:])
        wanted += [
            url for v in element.attributes.values() for url in re.findall(r"url\(#(.*?)\)", v)
        ]
        assert set(wanted) <= set(ids)


@every_run
def test_the_page_is_well_formed_and_not_large(written: Get, name: str) -> None:
    made = written(name)
    assert len(made.html.encode()) < 6 * MIB
    html = made.page.one("html")
    assert html.attributes["lang"] == "en"
    assert "width=device-width" in made.html
    assert made.page.one("head").one("title").text.startswith("swtch: ")
    assert len(made.page.all("h1")) == 1
    for table in made.page.all("table"):
        widths = {
            sum(int(c.attributes.get("colspan", 1)) for c in row.all("th", "td"))
            for row in table.all("tr")
        }
        assert len(widths) == 1, widths
        assert table.one("caption").text


@every_run
def test_nothing_is_undefined(written: Get, name: str) -> None:
    """Neither a number that is none nor a value of Python."""
    made = written(name)
    texts = [made.page.text, made.md, terminal(made.path)]
    for text in texts:
        assert not re.search(r"\b(nan|inf|None|Undefined|True|False|NaN)\b", text)
        assert "Traceback" not in text and "{{" not in text and "()" not in text


@every_run
def test_the_json_is_what_was_found(written: Get, name: str) -> None:
    made = written(name)
    assert made.report.schema == report.SCHEMA
    assert made.report.complete == made.run.complete
    assert made.report.environment == made.run.manifest.environment
    assert [f.trial.id for f in made.report.findings] == [t.id for t in made.run.manifest.trials]
    statuses = [sample.status for sample in made.run.samples]
    assert sum(f.n for f in made.report.findings) == statuses.count("ok")
    assert sum(f.failed for f in made.report.findings) == statuses.count("failed")
    assert json.loads(made.json) == json.loads(msgspec.json.encode(report.as_json(made.path)))
    for finding in made.report.findings:
        for interval in finding.intervals.values():
            assert interval.low <= interval.estimate <= interval.high


@every_run
def test_verdicts_are_the_same_in_every_form(written: Get, name: str) -> None:
    made = written(name)
    kinds = [
        own
        for kind in ("finding", "check")
        if (own := [v for v in made.report.verdicts if v.kind == kind])
    ]
    if not kinds:
        assert page.tables(made.page)[0][1:] == [["No claim is about the experiments of this run."]]
    for own, in_md, in_html in zip(
        kinds, page.tables(made.from_md), page.tables(made.page), strict=False
    ):
        for verdict, row, html in zip(own, in_md[1:], in_html[1:], strict=True):
            check_verdict(verdict, made.story.to_decide(verdict), row, html)


def check_verdict(verdict: Verdict, more: str, row: list[str], html: list[str]) -> None:
    here = f"{spread_text(verdict.here)} {verdict.here.unit}" if verdict.here else ""
    # Two sentences.
    why = " ".join((f"{verdict.why}. {more}" if more else verdict.why).split())
    assert row == [
        verdict.claim,
        verdict.text,
        verdict.published,
        f"{here} ({where(verdict)})" if here else "–",
        standing.marked(verdict),
        why,
    ]
    assert (html[0], html[4].replace(" *", "*"), html[5]) == (verdict.claim, row[4], why)
    assert str(where(verdict)) in html[3]
    if verdict.here:
        assert html[3].startswith(here)
        assert html[3].endswith(f"n = {verdict.here.n}")


@every_run
def test_tables_are_the_same_in_html_and_markdown(written: Get, name: str) -> None:
    made = written(name)
    verdict_tables = len({verdict.kind for verdict in made.report.verdicts}) or 1
    assert page.tables(made.page)[verdict_tables:] == page.tables(made.from_md)[verdict_tables:]


@every_run
def test_sentences_are_the_same_in_every_form(written: Get, name: str) -> None:
    made = written(name)
    in_md = [item.text for item in made.from_md.all("li")]
    in_html = [item.text for item in made.page.all("li")]
    for sentence in (*made.report.highlights, *made.report.notes):
        assert sentence in in_md
        assert sentence in in_html
    assert len(made.report.highlights) <= 3


@every_run
def test_the_terminal_shows_every_verdict(written: Get, name: str) -> None:
    made = written(name)
    text = terminal(made.path, width=200)
    for verdict in made.report.verdicts:
        assert re.search(rf"{re.escape(verdict.claim)} .* {verdict.verdict}\b", text)


# ---- a whole run ----


def test_every_figure_is_there_once_a_place(written: Get) -> None:
    root = written("full").page
    expected = [*FIGURES, *(f"{name}-vm-6_1-amd64" for name in FIGURES), "fig-gantt"]
    figures = [figure.one("svg") for figure in root.all("figure")]
    assert [svg.attributes["id"] for svg in figures] == expected
    for svg in figures:
        assert svg.attributes["role"] == "img"
        assert svg.attributes["viewbox"] and "width" not in svg.attributes
        title, description = svg.children[0], svg.children[1]
        assert (title.tag, description.tag) == ("title", "desc")
        assert title.text and description.text
        assert svg.all("path")
    for figure in root.all("figure"):
        assert figure.one("figcaption").text.startswith(figure.one("svg").children[0].text)
    assert "currentColor" in written("full").html
    assert "#010203" not in written("full").html


def test_experiments_are_in_the_order_to_read_them() -> None:
    """As their studies tell them, and those beyond at the end; none is forgotten."""
    every = [experiments.get(name) for name in experiments.names()]
    names = [one.name for one in chapters.in_reading_order(reversed(every))]
    assert set(chapters.READING) <= set(names)
    assert names[:4] == ["scenarios", "coroutine-gantt", "yield-modes", "yield-sweep"]
    assert [one for one in names if one in chapters.READING] == list(chapters.READING)


def test_the_contents_lead_to_every_chapter_by_study(written: Get) -> None:
    nav = written("full").page.one("nav")
    groups = {
        item.one("b").text: [a.attributes["href"] for a in item.all("a")] for item in nav.all("li")
    }
    assert groups["Study 000"] == ["#scenarios", "#coroutine-gantt"]
    assert groups["In all"][0] == "#claims"


def test_the_band_of_the_ratios_is_the_noise_of_these_trials(tmp_path: Path) -> None:
    """Not that of another experiment, whose control comes first."""
    scene = Scene()
    for one in plan.with_control((synthetic.gantt(),)):
        scene.add(one, [synthetic.gantt_sample(one) for _ in range(5)])
    for again in (False, True):
        scene.scenario("A", "pthread", [100.0, 101.0, 102.0, 103.0, 104.0], where={"again": again})
    scene.scenario("A", "process", [90.0, 91.0, 92.0, 93.0, 94.0])
    made = Written(scene.write(tmp_path / "run"))
    caption = next(
        figure.one("figcaption").text
        for figure in made.page.all("figure")
        if figure.one("svg").attributes["id"] == "fig-ratios"
    )
    assert "The grey band is a pthread trial against its own copy" in caption


def test_published_figures_stand_beside_the_machines_own_only(written: Get) -> None:
    root = written("full").page
    captions = {f.one("svg").attributes["id"]: f.one("figcaption").text for f in root.all("figure")}
    assert "another machine" in captions["fig-throughput"]
    assert "another machine" not in captions["fig-throughput-vm-6_1-amd64"]
    assert "(vm 6.1-amd64)" in captions["fig-throughput-vm-6_1-amd64"]


def test_each_place_has_a_table_of_its_own(written: Get) -> None:
    captions = [table.one("caption").text for table in written("full").page.all("table")]
    (native,) = (c for c in captions if c.startswith("Measured here, engine native:"))
    (guest,) = (c for c in captions if c.startswith("Measured here, engine vm 6.1-amd64:"))
    tables = page.tables(written("full").page)
    models = {at: {row[1] for row in tables[captions.index(at)][1:]} for at in (native, guest)}
    assert "kthread" in models[guest] and "kthread" not in models[native]
    assert "coroutine" in models[native] and "coroutine" not in models[guest]


def test_a_claim_two_places_measured_has_two_verdicts(written: Get) -> None:
    verdicts = [v for v in written("full").report.verdicts if v.claim == "000.4"]
    assert [(v.engine, v.guest) for v in verdicts] == [("native", ""), ("vm", "6.1-amd64")]
    (kthread,) = (v for v in written("full").report.verdicts if v.claim == "000.5")
    assert (kthread.engine, kthread.guest) == ("vm", "6.1-amd64")


def test_failures_are_told(written: Get) -> None:
    made = written("full")
    line = "scenarios/B2/pthread: 3 failed: probe died of SIGSEGV"
    for text in (made.page.text, made.from_md.text, terminal(made.path, 200)):
        assert line in text
        assert "scenarios/B2/pthread: 3 failed: out of memory" in text
    (row,) = (row for row in page.tables(made.page)[2] if row[:2] == ["B2", "pthread"])
    assert row[-2] == "6 + 3 failed"


def test_notes_say_what_was_done_instead(tmp_path: Path) -> None:
    scene = Scene().scenario("A", "pthread", where={"cpus": 2})
    made = Written(scene.write(tmp_path / "run"))
    assert any("the scenario asks for 4 CPUs and 2 are" in note for note in made.report.notes)
    assert "Done instead of what the study did" in made.page.text


def test_the_samples_are_in_the_page(written: Get) -> None:
    made = written("full")
    *chapters, link = (a for a in made.page.all("a") if "download" in a.attributes)
    kind, _, data = link.attributes["href"].partition(",")
    assert kind == "data:application/x-ndjson;base64"
    whole = (made.path / store.SAMPLES).read_bytes()
    assert base64.b64decode(data) == whole
    assert link.attributes["download"] == f"{made.run.manifest.run_id}-samples.jsonl"
    # And those of each experiment with its figures, packed.
    parts = b""
    for one, name in zip(chapters, made.run.manifest.experiments, strict=True):
        assert one.attributes["download"] == f"{name}.jsonl.gz"
        kind, _, data = one.attributes["href"].partition(",")
        assert kind == "data:application/gzip;base64"
        parts += gzip.decompress(base64.b64decode(data))
    assert sorted(parts.splitlines()) == sorted(whole.splitlines())


def test_it_fits_a_terminal_of_eighty_columns(written: Get) -> None:
    text = terminal(written("full").path)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text


def test_gates_are_told_with_their_counts(tmp_path: Path) -> None:
    scene = Scene().scenario("B2", "pthread", n=5)
    scene.scenario("B1", "pthread", n=2, values={"majflt": 3, "counter": 1})
    made = Written(scene.write(tmp_path / "run"))
    rows = {row[0]: row[2] for row in page.tables(made.page)[-1][1:]}
    assert (rows["counter"], rows["faults"], rows["steal"]) == ("2 of 7", "2 of 7", "0 of 7")
    assert "counter 2, faults 2" in made.page.text
    assert "counter 2, faults 2" in made.md


def test_every_form_says_how_quiet_the_machine_was(tmp_path: Path) -> None:
    scene = Scene().scenario("B2", "pthread", n=4, steal_ns=1_000_000)
    made = Written(scene.write(tmp_path / "run"))
    words = "the hypervisor took 2"
    shown = " ".join(terminal(made.path).split())
    for text in (shown, " ".join(made.page.text.split()), made.md):
        assert words in text, text[:400]
        assert "gates marked 4 of 4 samples" in text
    quiet = msgspec.json.decode(made.json, type=Report).neighbours
    assert quiet["steal"] == pytest.approx(0.02, rel=0.1)
    assert (quiet["marked"], quiet["samples"]) == (4, 4)


@pytest.mark.parametrize("blocks", [5, 6])
def test_a_control_is_judged_as_a_verdict_is(tmp_path: Path, blocks: int) -> None:
    """Each copy a tenth faster in its block: of six blocks that is a difference."""
    speeds = [100.0, 150.0, 200.0, 250.0, 300.0, 350.0][:blocks]
    scene = Scene().scenario("A", "pthread", speeds)
    scene.scenario("A", "pthread", [speed * 1.1 for speed in speeds], where={"again": True})
    made = Written(scene.write(tmp_path / "run"))
    (control,) = made.report.controls
    called = blocks >= effects.LEAST
    assert control.differs == called and control.ratio.high < 1
    (row,) = page.tables(made.page)[-1][1:]
    assert row[0] == "scenarios/A/pthread"
    assert row[-1] == ("different" if called else "no difference")
    for text in (made.page.text, made.from_md.text):
        assert "1 trial was measured twice" in text
        assert (
            "1 of 1 (100.0 %) is called different by the rule of the verdicts" in text
        ) == called
        assert ("up to 0 of as many; repeat this run on a quieter machine." in text) == called
        assert ("6 blocks of both are needed to call any different." in text) != called


def test_an_incomplete_run_says_so(written: Get) -> None:
    assert "This run is not complete." in written("interrupted").page.text
    assert "4 of 30 invocations" in written("interrupted").md
    assert "This run is not complete." not in written("full").page.text


def test_a_run_without_a_file_of_samples_is_a_run_without_samples(tmp_path: Path) -> None:
    path = none_yet().write(tmp_path / "run")
    (path / store.SAMPLES).unlink()
    assert Written(path).report.complete is False


def test_exact_is_never_a_time(written: Get) -> None:
    made = written("exact")
    shown = made.page.id("scenarios")
    here = [table for table in shown.all("table") if "exact" in table.one("caption").text]
    assert "increments per 1000 instructions" in here[0].text
    assert "Mops/s" not in here[0].text
    for svg in shown.all("svg"):
        assert "Mops/s" not in svg.raw
    text = terminal(made.path)
    assert "op/ki" in text and "Mops/s" not in text.partition("Claims")[0]
    metrics = {m for f in made.report.findings for m in f.intervals}
    assert {"throughput_opki", "wall_mi"} <= metrics
    assert not metrics & {"throughput_mops", "wall_ms"}
