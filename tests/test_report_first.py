# SPDX-License-Identifier: Apache-2.0
"""The first screen: what one switch costs, how the claims stand, and a line a claim."""

from __future__ import annotations

import io
import math
from itertools import pairwise
from pathlib import Path

import made_004
import msgspec
import pytest
from made_beyond import measured
from rich.cells import cell_len
from rich.console import Console
from synthetic import Scene, failed, scenario, scenario_sample, spread

from swtch import claims, experiments, report
from swtch.analysis import effects, gates
from swtch.analysis.findings import Place
from swtch.claims import Claim, Evidence
from swtch.records import Engine, Interval, Kind, Phase, Spending, Trial, Verdict, VerdictName
from swtch.report import shapes, standing, switchcost, verdicts
from swtch.report.charts import WIDTH
from swtch.report.story import Story, tell
from swtch.report.story import spread as spread_text

NAMES: tuple[VerdictName, ...] = ("holds", "differs", "cannot tell", "not measurable here")


def interval(
    estimate: float, low: float, high: float, *, unit: str = "x", n: int = 6, method: str = "ranks"
) -> Interval:
    return Interval(estimate=estimate, low=low, high=high, n=n, unit=unit, method=method)


def verdict(
    claim: str,
    name: VerdictName = "holds",
    *,
    kind: Kind = "finding",
    text: str = "One thing takes longer than another does, for every pair of them",
    here: Interval | None = None,
    why: str = "because",
    engine: Engine = "native",
) -> Verdict:
    return Verdict(
        claim=claim,
        study=claim.partition(".")[0],
        text=text,
        published="3 x (table 7)",
        here=None if name == "not measurable here" else here or interval(2, 1.5, 2.5),
        engine=engine,
        verdict=name,
        why=why,
        guest="" if engine == "native" else "6.1-amd64",
        kind=kind,
    )


# ---- what one switch costs ----


def each(one: Trial, centre: float) -> dict[str, float]:
    """A hand-over's time, in what a ring or the module's pair calls it."""
    name = "c_warm_ns" if one.model == "kthread" else "each_p50_ns"
    return {name: centre, "handovers": 100}


def handing_over(engine: Engine = "native", n: int = 6) -> Scene:
    """`ping`, where user space takes 20 ns, the kernel 2 us, and another CPU 100 us."""

    def centre(one: Trial, share: float) -> dict[str, float]:
        across = one.factors["place"] == "two"
        user = one.model in ("uthread", "coroutine")
        return each(one, share * (100_000 if across else 20 if user else 2_000))

    return measured(Scene(), "ping", centre, n=n, where={"engine": engine})


def story_of(scene: Scene, path: Path) -> Story:
    return tell(scene.write(path / "run"))


def test_every_source_is_a_metric_of_its_experiment_and_a_time() -> None:
    for source in switchcost.SOURCES:
        metric = experiments.get(source.experiment).metrics[source.metric]
        assert metric.unit in switchcost.NS, source


def test_what_the_picture_shows_is_measured_until_it_has_intervals() -> None:
    shown = {source.experiment for source in switchcost.SOURCES}
    assert {name for name in experiments.names() if experiments.get(name).pictured} == shown


def test_costs_are_ns_from_the_cheapest_to_the_dearest(tmp_path: Path) -> None:
    found = switchcost.costs(story_of(handing_over(), tmp_path), Place("native"))
    estimates = [cost.interval.estimate for cost in found]
    assert estimates == sorted(estimates)
    assert {cost.interval.unit for cost in found} == {"ns"}
    assert found[0].model in ("uthread", "coroutine")
    assert found[-1].mechanism.across
    names = {f"{cost.model}: {cost.mechanism}" for cost in found}
    assert "pthread: futex, to another CPU" in names
    assert not any("spin" in name for name in names), "looking at memory is no switch"


def test_microseconds_become_nanoseconds(tmp_path: Path) -> None:
    scene = made_004.direct(Scene(), "process", "pipe", 3.0)
    found = switchcost.costs(story_of(scene, tmp_path), Place("native"))
    by_name = {f"{c.model}: {c.mechanism}": c.interval.estimate for c in found}
    assert by_name["process: pipe"] == pytest.approx(4_000, rel=0.05)


def test_a_mechanism_of_two_experiments_is_drawn_once(tmp_path: Path) -> None:
    scene = handing_over()
    alone = {
        f"{c.model}: {c.mechanism}"
        for c in switchcost.costs(story_of(scene, tmp_path), Place("native"))
    }
    made_004.direct(scene, "process", "pipe", 3.0)
    made_004.direct(scene, "uthread", "locks", 0.1)
    found = switchcost.costs(tell(scene.write(tmp_path / "both")), Place("native"))
    names = [f"{cost.model}: {cost.mechanism}" for cost in found]
    assert len(set(names)) == len(names)
    assert set(names) - alone == {"uthread: yield under locks"}
    (pipe,) = (c for c in found if f"{c.model}: {c.mechanism}" == "process: pipe")
    assert pipe.trial_id.startswith("ping/")


def test_the_first_sentence_and_the_picture_have_one_number_a_mechanism(tmp_path: Path) -> None:
    """Also of an even number of blocks, and where another experiment has the mechanism too."""
    scene = handing_over(n=8)
    # Far apart in the middle, so that a median is neither of the two.
    for index, one in enumerate(scene.samples):
        if "yield" in one.trial_id:
            value = 10.0 if one.block % 2 else 14.0
            changed = {**one.values, "each_p50_ns": value}
            scene.samples[index] = msgspec.structs.replace(one, values=changed)
    made_004.direct(scene, "uthread", "yield", 5.0)
    named = ("ping", "direct-cost", "scenarios", "signal", "peers", "locks")
    story = tell(scene.write(tmp_path / "run", experiments=named))
    assert story.of_all_studies
    sentence = story.highlights[0]
    kernel, user = switchcost.cheapest(story) or (None, None)
    assert kernel is not None and user is not None
    (wide, _) = switchcost.figures(story)
    for cost in (kernel, user):
        words = switchcost.in_words(cost.interval.estimate)
        assert words in sentence and cost.by in sentence
        assert f">{words}<" in wide.svg and f">{cost.model}: {cost.mechanism}<" in wide.svg
    assert (user.mechanism.name, user.interval.estimate) == ("yield", 12.0)
    assert "12 ns in user space" in sentence


def test_the_first_sentence_says_nothing_of_emulated_time(tmp_path: Path) -> None:
    assert switchcost.cheapest(emulated(story_of(handing_over("vm"), tmp_path))) is None


def test_processes_are_many_in_words() -> None:
    pipe = switchcost.Mechanism("pipe")
    rows = [switchcost.Cost(model, pipe, interval(1, 1, 1), "") for model in ("process", "pthread")]
    assert [cost.by for cost in rows] == ["processes by pipe", "pthreads by pipe"]


@pytest.mark.parametrize("engine", ["exact", "vm"])
def test_neither_instructions_nor_emulated_time_is_drawn(engine: Engine, tmp_path: Path) -> None:
    story = story_of(handing_over(engine), tmp_path)
    if engine == "vm":
        story = emulated(story)
    assert story.places and not switchcost.figures(story)


def emulated(story: Story) -> Story:
    """The same as if every guest of it were emulated."""
    from dataclasses import replace

    def tcg(one: Trial) -> Trial:
        accel = {} if one.engine == "native" else {"accel": "tcg"}
        return msgspec.structs.replace(one, factors={**one.factors, **accel})

    groups = tuple(replace(g, trial=tcg(g.trial)) for g in story.groups)
    found = tuple(msgspec.structs.replace(f, trial=tcg(f.trial)) for f in story.findings)
    return replace(story, groups=groups, findings=found)


def test_the_picture_says_what_only_a_guest_measured(tmp_path: Path) -> None:
    every, guest = handing_over(), handing_over("vm")
    scene = Scene()
    for one in every.trials:
        if one.model != "kthread":
            scene.add(one, [s for s in every.samples if s.trial_id == one.id])
    for one in guest.trials:
        scene.add(one, [s for s in guest.samples if s.trial_id == one.id])
    wide, narrow = switchcost.figures(emulated(story_of(scene, tmp_path)))
    assert (wide.id, narrow.id) == ("fig-switch-cost", "fig-switch-cost-narrow")
    assert "kthread (vm 6.1-amd64)" in wide.caption
    assert ">kthread" not in wide.svg
    assert ">pthread: futex, to another CPU<" in wide.svg
    assert ">pthread: futex, 2nd CPU<" in narrow.svg


def test_without_any_there_is_no_picture(tmp_path: Path) -> None:
    story = story_of(Scene().scenario("A", "pthread"), tmp_path)
    assert switchcost.figures(story) == []


@pytest.mark.parametrize(
    ("ns", "words"),
    [(0.5, "0.500 ns"), (19.7, "19.7 ns"), (2270, "2.27 µs"), (4e6, "4 ms"), (2e9, "2 s")],
)
def test_a_time_has_the_unit_that_keeps_it_short(ns: float, words: str) -> None:
    assert switchcost.in_words(ns) == words


# ---- what is no interval ----


def test_what_is_no_interval_does_not_look_like_one(tmp_path: Path) -> None:
    few = interval(3, 2, 4, n=3, method="too few")
    assert spread_text(few) == "3 (seen 2 to 4)".replace(
        "3 ", "3.00 ", 1
    ) or "[" not in spread_text(few)
    assert "seen" in spread_text(few) and "[" not in spread_text(few)
    assert spread_text(interval(3, 2, 4)).endswith("]")
    (dotted, _) = switchcost.figures(story_of(handing_over(n=3), tmp_path))
    assert "stroke-dasharray" in dotted.svg
    assert "too few invocations for an interval" in dotted.caption
    (drawn, _) = switchcost.figures(tell(handing_over(n=8).write(tmp_path / "more")))
    assert "stroke-dasharray" not in drawn.svg
    assert "too few" not in drawn.caption


def test_labels_that_would_touch_are_left_out() -> None:
    sizes = [*(1 << power for power in range(12)), 192, 1536]
    kept = shapes.apart(sizes, sizes)
    assert kept[0] == 1 and len(kept) >= 6
    at = [math.log(tick) / math.log(2048) * WIDTH for tick in kept]
    for (a, x), (b, y) in pairwise(zip(kept, at, strict=True)):
        assert y - x >= (len(f"{a:,}") + len(f"{b:,}")) / 2 * shapes.LETTER
    assert shapes.apart([5], [5]) == [5]


# ---- how the claims stand ----


def test_checks_are_counted_apart() -> None:
    every = [
        *(verdict(f"000.{i}", name) for i, name in enumerate(NAMES)),
        verdict("000.9", kind="check"),
        verdict("000.10", kind="check"),
    ]
    assert standing.headline(every) == (
        "Of 4 findings 1 holds, 1 differs, 1 cannot be told and 1 is not measurable here;"
        " all 2 checks pass."
    )
    broken = [*every, verdict("001.9", "differs", kind="check")]
    assert standing.headline(broken).endswith("; 2 of 3 checks pass, 001.9 FAILS.")
    assert standing.headline([]) == ""
    assert standing.headline([every[-1]]) == "The check passes."


def test_the_grid_has_a_row_a_study_and_letters_for_all() -> None:
    every = [
        *(verdict(f"000.{i}", name) for i, name in enumerate(NAMES)),
        verdict("000.0", "differs", engine="vm"),
        verdict("004.VII.1"),
        verdict("000.9", kind="check"),
    ]
    rows = standing.grid(every)
    assert [row.title for row in rows] == ["000", "004", "checks"]
    assert [cell.label for cell in rows[0].cells] == ["0", "1", "2", "3"]
    assert [mark.letter for mark in rows[0].cells[0].marks] == ["H", "D"]
    assert rows[1].cells[0].label == "VII.1" and rows[2].cells[0].label == "000.9"
    letters = set(standing.LETTERS.values())
    assert len(letters) == len(NAMES) and all(len(letter) == 1 for letter in letters)
    (first, second) = rows[0].cells[0].marks
    assert "000.0 holds (native): One thing" in first.words
    assert "000.0 differs (vm 6.1-amd64)" in second.words


def test_anchors_are_safe_and_differ() -> None:
    ids = ["000.1", "000-1", "000 1", '"><b', "000.VII.1"]
    anchors = [standing.anchor(one) for one in ids]
    assert len(set(anchors)) == len(ids)
    assert all(part.isalnum() or part in "-_" for one in anchors for part in one)


def test_a_verdict_that_turns_on_gated_samples_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the registry itself writes, so that neither changes alone."""

    def check(evidence: Evidence) -> claims.Ruling:
        speeds = evidence.of("scenarios")[0].speeds()
        effect = effects.level(speeds, "Mops/s")
        assert effect is not None
        return evidence.above(effect, 50.0, "speed")

    claim = Claim("000.99", "000", "scenarios", "It is fast", "fast", check)
    monkeypatch.setattr(claims, "every", lambda: (claim,))
    one = scenario("A", "pthread")
    quiet = [scenario_sample(one, speed) for speed in spread(100, 4)]
    stolen = [scenario_sample(one, speed, steal_ns=10**9) for speed in spread(100, 4)]
    assert gates.check(one, stolen[0])
    scene = Scene().add(one, [*quiet, *stolen])
    (found,) = claims.judge(scene.groups(), ("scenarios",))
    assert found.verdict == "holds"
    assert standing.turns_on_gates(found) and standing.marked(found) == "holds*"
    few = msgspec.structs.replace(
        found, verdict="cannot tell", why="Without the 3 samples that a gate marked: cannot tell"
    )
    assert not standing.turns_on_gates(few), "too little either way is no mark"
    turned = msgspec.structs.replace(few, why="Without the 3 samples that a gate marked: differs")
    assert standing.turns_on_gates(turned)
    (clean,) = claims.judge(Scene().add(one, quiet * 2).groups(), ("scenarios",))
    assert standing.marked(clean) == "holds"


SEEN = interval(1.5, 0.5, 2.5, n=4, method="too few")


@pytest.mark.parametrize(
    ("here", "needed", "words"),
    [
        (None, 24.0, "About 18 more blocks are needed"),
        (None, 6.2, "About 1 more block is needed"),
        (None, math.inf, "too near the bound for any number of blocks"),
        (SEEN, 8.0, "At least 2 more blocks are needed"),
        (None, None, ""),
    ],
)
def test_what_would_decide_is_an_estimate_and_says_so(
    here: Interval | None, needed: float | None, words: str
) -> None:
    text = standing.to_decide(verdict("000.1", "cannot tell", here=here), needed, 6)
    assert words in text and bool(words) == bool(text)
    assert not text or "estimate" in text or "At least" in text
    assert standing.to_decide(verdict("000.1", "holds", here=here), needed, 6) == ""


def test_so_many_blocks_do_decide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As many as a report asks for, with the noise that there is."""
    noise = (0.2, -0.9, 0.6, -0.3, 1.0, -0.6, 0.4, -1.0, 0.8, -0.2)

    def check(evidence: Evidence) -> claims.Ruling:
        effect = effects.level(evidence.of("scenarios")[0].speeds(), "Mops/s")
        assert effect is not None
        return evidence.above(effect, 100.0, "speed")

    claim = Claim("000.99", "000", "scenarios", "It is fast", "fast", check)
    monkeypatch.setattr(claims, "every", lambda: (claim,))

    def story(times: int) -> Story:
        speeds = [100.3 + jitter for jitter in noise * times]
        return story_of(Scene().scenario("A", "pthread", speeds), tmp_path / str(times))

    few = story(1)
    (undecided,) = few.verdicts
    assert undecided.verdict == "cannot tell"
    words = few.to_decide(undecided).split()
    assert words[0] == "About"
    (decided,) = story(1 + math.ceil(int(words[1]) / len(noise))).verdicts
    assert decided.verdict == "holds"


def test_a_budget_is_told_with_its_level(tmp_path: Path) -> None:
    scene = Scene().scenario("A", "pthread", n=10).scenario("B2", "pthread", n=10)
    plain = story_of(scene, tmp_path)
    assert (plain.judged_at, plain.budget, plain.levels) == ("", "", {})
    until = 360 * 10**9
    every = Phase(engine="native", begin=0, end=10, of="all", until_ns=until)
    spending = Spending(budget_ns=until, looks={"native": (6, 10)}, phases=(every,))
    path = scene.write(tmp_path / "spent", spending=spending)
    story = tell(path)
    assert story.judged_at.startswith("Claims are judged at 97.5 % (native)")
    assert story.budget.startswith("Of 6 min")
    for text in (report.as_markdown(path), text_of(path, verbose=True)):
        assert "97.5 % (native)" in text


# ---- a line a claim ----


def lines(every: list[Verdict], width: int) -> list[str]:
    return [line.plain for line in verdicts.lines(every, width)]


EVERY = [
    *(verdict(f"00{study}.{i}", name) for study in (0, 1) for i, name in enumerate(NAMES)),
    verdict("000.VII.1", kind="check"),
]


@pytest.mark.parametrize("width", [200, 110, 100, 80, 60, 40, 30, 12, 1])
def test_a_verdict_is_never_cut_and_a_line_fits(width: int) -> None:
    drawn = lines(EVERY, width)
    rows = [line for line in drawn if line[:2] == "00"]
    assert len(rows) == len(EVERY)
    for one, line in zip(EVERY, rows, strict=True):
        assert line.startswith(one.claim) and one.verdict in line
        least = len("000.VII.1") + verdicts.GAP + len(one.verdict)
        assert cell_len(line) <= max(width, least)
    titles = [line for line in drawn if line[:2] != "00"]
    assert titles == ["Study 000", "Study 001", "Checks"]


def test_at_a_hundred_columns_it_has_all_of_it() -> None:
    line = lines(EVERY, 100)[1]
    assert line.startswith("000.0")
    for part in (
        "One thing takes longer",
        "…",
        "holds",
        "2.00 [1.50, 2.50] x".replace("2.00", "2"),
        "3 x",
    ):
        assert part in line
    assert "table 7" not in line


def test_places_that_disagree_have_a_line_each() -> None:
    every = [verdict("000.1"), verdict("000.1", "differs", engine="vm"), verdict("000.2")]
    every.append(verdict("000.2", engine="exact"))
    drawn = lines(every, 100)
    assert [line.split()[0] for line in drawn] == ["Study", "000.1", "(vm", "000.2"]


def test_a_terminal_that_knows_no_more_gets_ascii() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    shown = [verdict(f"000.{i}", name, text="x" * 90) for i, name in enumerate(NAMES)]
    verdicts.print_lines(shown[:3], Console(file=file, width=70))
    file.seek(0)
    assert "~" in file.read()


def whole(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A run that counts as one about all studies."""
    monkeypatch.setattr("swtch.report.story.MANY", 1)
    one = scenario("B2", "uthread")
    scene = Scene().scenario("A", "pthread").scenario("B2", "pthread")
    return scene.add(one, [failed(one)])


def text_of(path: Path, **how: bool) -> str:
    file = io.StringIO()
    report.print_run(path, Console(file=file, width=100, markup=False), **how)
    return file.getvalue()


def test_of_all_studies_it_is_a_line_a_claim_and_verbose_the_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = whole(monkeypatch).write(tmp_path / "run")
    brief, verbose = text_of(path), text_of(path, verbose=True)
    assert "-v says why" in brief and "-v says why" not in verbose
    assert len(brief.splitlines()) < len(verbose.splitlines())
    for text in (brief, verbose):
        assert "checks" in text.lower() and "000.3" in text
        assert "Of " in text and "findings" in text
        assert max(map(cell_len, text.splitlines())) <= 100


def test_the_json_counts_them_apart(tmp_path: Path) -> None:
    path = Scene().scenario("A", "pthread").write(tmp_path / "run")
    written = report.as_json(path)
    kinds = [one["kind"] for one in written["verdicts"]]
    assert {"finding", "check"} <= set(kinds)
    for kind in ("finding", "check"):
        assert sum(written["counts"][f"{kind}s"].values()) == kinds.count(kind)
    assert "checks pass" in written["headline"] or "check passes" in written["headline"]
