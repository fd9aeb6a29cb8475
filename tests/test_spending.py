# SPDX-License-Identifier: Apache-2.0
"""Where a budget goes, on samples that are made up: who is measured how often, and why."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import synthetic

from swtch import claims, course, plan, spending, store
from swtch.analysis import effects, findings
from swtch.claims import Claim, Evidence, Ruling, missing
from swtch.claims.rules import Question
from swtch.claims.uses import Use, blocks_needed, uses
from swtch.errors import RequestError
from swtch.records import Manifest, Model, Sample, Trial

CASES = ("A", "B1", "B2", "C1")
MODELS: tuple[Model, ...] = ("pthread", "uthread")
TOOK_NS = 100_000_000
# Of each of the looks.
LEVEL = 1 - spending.ERROR / len(spending.LOOKS)


def compares(case: str, threshold: float) -> Callable[[Evidence], Ruling]:
    """A check: uthreads over pthreads in a scenario."""

    def check(evidence: Evidence) -> Ruling:
        # Whether there is any at all is asked of all of them, as real claims do.
        if not evidence.of("scenarios", "uthread"):
            return missing("no uthread")
        a = evidence.group("scenarios", "uthread", scenario=case)
        b = evidence.group("scenarios", "pthread", scenario=case)
        effect = findings.effect(a, b) if a and b else None
        return evidence.above(effect, threshold) if effect else missing("no samples")

    return check


def claim(name: str, check: Callable[[Evidence], Ruling], **given: Any) -> Claim:
    return Claim(name, "000", "scenarios", name, "1 x", check, **given)


@pytest.fixture(autouse=True)
def three_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that are easy, one that is hard; nobody asks for C1."""
    made = (
        claim("easy", compares("A", 1.0)),
        claim("hard", compares("B1", 1.0)),
        claim("other", compares("B2", 1.0), about="counts"),
    )
    monkeypatch.setattr(claims, "every", lambda: made)


def trials(**where: Any) -> list[Trial]:
    made = [synthetic.scenario(case, model, **where) for case in CASES for model in MODELS]
    return [*plan.with_control(made)]


def manifest(
    budget_s: float = 1000.0, own: Sequence[Trial] | None = None, seed: int = 7
) -> Manifest:
    own = trials() if own is None else own
    engines = dict.fromkeys(one.engine for one in own)
    expected = {engine: 6 * sum(t.engine == engine for t in own) * 0.1 for engine in engines}
    scheme = spending.schedule(budget_s, expected)
    most = {phase.engine: phase.end for phase in scheme.phases}
    repeats = {(one.engine, one.experiment): most[one.engine] for one in own}
    scene = synthetic.Scene()
    scene.trials = list(own)
    return scene.manifest(
        seed=seed, plan=plan.make_plan(own, repeats, seed, scheme.phases), spending=scheme
    )


def speed(trial: Trial, rng: random.Random) -> float:
    """Uthreads are faster by half in A and B2, in B1 by less than the noise; all by block."""
    case, faster = trial.factors["scenario"], trial.model == "uthread"
    gain = {"A": 1.5, "B1": 1.02, "B2": 1.5, "C1": 1.0}[str(case)] if faster else 1.0
    return 100 * gain * math.exp(rng.gauss(0, 0.05))


def sample(made: Manifest, seq: int, took_ns: int = TOOK_NS) -> Sample:
    """The one that this invocation gives, whoever asks and when."""
    invocation = made.plan[seq]
    trial = next(one for one in made.trials if one.id == invocation.trial_id)
    rng = random.Random(f"{made.seed}/{seq}")
    one = synthetic.scenario_sample(trial, speed(trial, rng))
    return msgspec.structs.replace(
        one, seq=seq, block=invocation.block, elapsed_ns=took_ns, started=""
    )


def measured(made: Manifest, before: Sequence[Sample] = (), stop: int = 10**9) -> list[Sample]:
    """What the runner does: pass by pass what is needed, up to `stop` samples."""
    found = list(before)
    way = course.of(made)
    done = {one.seq for one in found}
    for one in plan.passes(made):
        undone = [i.seq for i in one.invocations if i.seq not in done]
        needed = way.needed(one, found) if undone else frozenset()
        for seq in undone:
            if len(found) == stop:
                return found
            if seq in needed:
                found.append(sample(made, seq))
    return found


def counts(samples: Sequence[Sample]) -> Counter[str]:
    return Counter(one.trial_id for one in samples)


def of_case(found: Counter[str], case: str) -> set[int]:
    return {n for name, n in found.items() if name.startswith(f"scenarios/{case}/")}


# ---- where it goes ----


def test_a_trial_that_no_claim_reads_stays_at_the_first_blocks() -> None:
    found = counts(measured(manifest()))
    assert of_case(found, "C1") == {spending.FIRST}


def test_what_the_first_picture_shows_goes_on_until_it_has_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spending, "_in_picture", lambda name: name == "scenarios")
    found = counts(measured(manifest()))
    assert of_case(found, "C1") == {effects.LEAST}
    assert of_case(found, "A") == {spending.LOOKS[0]}


def test_a_check_that_holds_asks_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(evidence: Evidence) -> Ruling:
        groups = evidence.of("scenarios", scenario="A")
        return Ruling("holds", f"{sum(len(group.good) for group in groups)} invocations")

    made = (claim("exact", check, about="counts", kind="check"), *claims.every()[1:])
    monkeypatch.setattr(claims, "every", lambda: made)
    found = counts(measured(manifest()))
    assert of_case(found, "A") == of_case(found, "C1") == {spending.FIRST}
    assert of_case(found, "B2") == {spending.LOOKS[0]}


def test_decided_claims_cost_no_more_than_the_first_look() -> None:
    found = counts(measured(manifest()))
    assert of_case(found, "A") == of_case(found, "B2") == {spending.LOOKS[0]}


def test_the_rest_goes_to_who_is_undecided() -> None:
    made = manifest()
    samples = measured(made)
    (most,) = of_case(counts(samples), "B1")
    assert most in spending.LOOKS[1:]
    assert course.of(made).left_out(samples) == {i.seq for i in made.plan} - {
        one.seq for one in samples
    }


def test_a_copy_goes_where_its_trial_goes() -> None:
    """The A/A control of `easy`, and the pair has as many blocks as the claim."""
    found = counts(measured(manifest()))
    (copy,) = [name for name in found if name.endswith("/again")]
    assert found[copy] == found[copy.removesuffix("/again")] == spending.LOOKS[0]


@pytest.mark.parametrize("budget_s", [4.0, 6.0, 7.5, 9.0, 20.0])
def test_it_stays_within_the_budget(budget_s: float) -> None:
    samples = measured(manifest(budget_s))
    assert sum(one.elapsed_ns for one in samples) <= budget_s * 1e9


def test_of_a_budget_for_one_block_every_trial_has_one() -> None:
    found = counts(measured(manifest(0.01)))
    assert set(found.values()) == {1}
    assert len(found) == len(trials())


def test_what_cannot_be_paid_waits_and_cheap_claims_come_first() -> None:
    """After a block of 9 trials, there is enough for the first look of two claims' trials."""
    made = manifest(0.9 + (spending.LOOKS[0] - 1) * 0.4 + 0.05)
    way = spending.Spender(made)
    samples: list[Sample] = []
    rounds = []
    for one in plan.passes(made)[: spending.LOOKS[0]]:
        samples += [sample(made, seq) for seq in sorted(way.needed(one, samples))]
        rounds.append(way.round)
    for screening in rounds[1:]:
        assert screening is not None
        assert [use.claim for use in screening.claims] == ["hard", "other"]
        assert [use.claim for use in screening.waiting] == ["easy"]  # its control makes it dearer
        assert "for 1 more there is no time" in screening.text
    assert of_case(counts(samples), "B1") == of_case(counts(samples), "B2") == {spending.LOOKS[0]}
    assert of_case(counts(samples), "C1") == {1}, "no time for what no claim reads"


def test_what_no_claim_reads_does_not_spend_what_claims_may_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For all claims and the rest it would be just enough: the rest waits."""
    claimed, rest = (spending.LOOKS[0] - 1) * 0.7, 2 * 0.2
    for more, blocks in ((0.02, 1), (spending.MARGIN * claimed + 0.1, spending.FIRST)):
        monkeypatch.setattr(spending, "REST", 1.0)
        found = counts(measured(manifest(0.9 + claimed + rest + more)))
        assert of_case(found, "C1") == {blocks}
        assert of_case(found, "A") == {spending.LOOKS[0]}


def test_what_no_claim_reads_has_a_small_part_of_the_budget_the_cheapest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two blocks of two trials cost 0.4 s, of one 0.2 s."""
    for part, trials_of_it in ((0.5, 2), (0.3, 1), (0.1, 0)):
        monkeypatch.setattr(spending, "REST", part / 1000)
        found = counts(measured(manifest()))
        more = [name for name in found if "/C1/" in name and found[name] == spending.FIRST]
        assert len(more) == trials_of_it
        assert of_case(found, "C1") <= {1, spending.FIRST}


def test_who_can_be_decided_keeps_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last look or the budget would not decide is paid from what is left."""
    made = manifest(10.0)
    way = spending.Spender(made)
    (phase,) = [p for p in way._spending.phases if p.begin == spending.LOOKS[0]]
    monkeypatch.setattr(way, "_cost", lambda name: 0.1e9)
    near, dear, hopeless = (
        Use(name, findings.Place("native"), "cannot tell", frozenset(names), blocks)
        for name, names, blocks in (
            ("near", "ab", 20.0),
            ("dear", "cdefghijkl", 27.0),
            ("hopeless", "m", 4000.0),
        )
    )
    way._wanted = (hopeless, dear, near)
    ahead = {
        # Of near 13 blocks of two trials, and of hopeless seven of one.
        3.4e9: (["near", "hopeless"], ["dear"]),
        3.2e9: (["near"], ["dear", "hopeless"]),
        1.5e9: (["near"], ["dear", "hopeless"]),
        100e9: (["near", "dear", "hopeless"], []),
    }
    for left, (chosen, waiting) in ahead.items():
        way._clock.spent_ns = round(phase.until_ns - left)
        fitted = way._fit(phase, spending.LOOKS[0])
        assert [use.claim for use in fitted.claims] == chosen, left
        assert sorted(use.claim for use in fitted.waiting) == sorted(waiting), left


def test_what_becomes_dearer_is_dropped_before_the_budget_is() -> None:
    """Each invocation takes longer than the last: fewer claims, but those to their look."""
    made = manifest(12.0)
    way = spending.Spender(made)
    samples: list[Sample] = []
    for one in plan.passes(made):
        took = round(TOOK_NS * (1 + one.begin / 20))
        samples += [sample(made, seq, took) for seq in sorted(way.needed(one, samples))]
    found = counts(samples)
    assert sum(one.elapsed_ns for one in samples) <= 13e9
    assert max(found.values()) >= spending.LOOKS[0]


def test_what_no_budget_would_decide_comes_last() -> None:
    spender = spending.Spender(manifest())
    near, far, unknown = (
        Use(name, findings.Place("native"), "cannot tell", frozenset({"x"}), blocks)
        for name, blocks in (("near", 20.0), ("far", 4000.0), ("unknown", None))
    )
    assert spender._price(near, 8) < spender._price(far, 8)
    assert spender._price(unknown, 8) < spender._price(far, 8)


# ---- engines ----


def both() -> list[Trial]:
    """Here, and in a guest whose processor is emulated."""
    guest = trials(**synthetic.VM)
    emulated = [
        msgspec.structs.replace(one, factors={**one.factors, "accel": "tcg"}) for one in guest
    ]
    return [*trials(), *emulated]


def test_guests_are_measured_between_screening_and_refinement() -> None:
    made = manifest(own=both())
    order = [(one.engine, one.block) for one in plan.passes(made)]
    screening = [("native", block) for block in range(spending.LOOKS[0])]
    guest = [("vm", block) for block in range(spending.ONE_LOOK[-1])]
    assert order[: len(screening) + len(guest)] == screening + guest
    assert {engine for engine, _ in order[len(screening) + len(guest) :]} == {"native"}
    assert sorted(i.seq for i in made.plan) == list(range(len(made.plan)))


def test_an_emulated_guest_goes_on_only_for_what_it_may_answer() -> None:
    found = counts([one for one in measured(manifest(own=both())) if one.engine == "vm"])
    assert of_case(found, "B2") == {spending.ONE_LOOK[-1]}
    assert of_case(found, "A") == of_case(found, "C1") == {1}


def test_a_guest_keeps_its_share() -> None:
    made = manifest(5.0, own=both())
    found = measured(made)
    assert made.spending is not None
    native = [p.until_ns for p in made.spending.phases if p.engine == "native"]
    vm = [p.until_ns for p in made.spending.phases if p.engine == "vm"]
    assert native[0] == round((1 - spending.SHARE) * 5e9)
    assert vm == [5_000_000_000] * 2
    assert set(counts([one for one in found if one.engine == "vm"]).values()) >= {1}


# ---- looks ----


def test_the_level_is_that_of_several_looks() -> None:
    made = manifest(own=both())
    levels = spending.level(made)
    assert levels == pytest.approx({"native": 1 - 0.05 / 3, "vm": 0.95})
    assert effects.least(levels["native"]) == spending.LOOKS[0]
    assert effects.least(levels["vm"]) == spending.ONE_LOOK[0]
    assert spending.level(synthetic.Scene().manifest()) == {}


def test_several_looks_find_nothing_in_noise_more_often_than_one() -> None:
    """Of 2000 series of noise at most 5 % are called at any of the looks; at 0.95, more are."""
    rng = random.Random(11)
    called = Counter[float]()
    for _ in range(2000):
        values = [rng.gauss(0, 1) for _ in range(spending.LOOKS[-1])]
        for level in (0.95, LEVEL):
            looks = (effects.level(values[:n], "x") for n in spending.LOOKS)
            ends = [one.interval(level) for one in looks if one]
            called[level] += any(end.low > 0 or end.high < 0 for end in ends)
    plain, corrected = called[0.95], called[LEVEL]
    assert corrected <= 100 < plain


def test_verdicts_are_judged_at_that_level() -> None:
    made = manifest()
    groups = findings.group_samples(made.trials, measured(made))
    found = {v.claim: v for v in claims.judge(groups, made.experiments, spending.level(made))}
    assert found["easy"].verdict == "holds"
    assert found["easy"].here is not None
    assert found["easy"].here.level >= 1 - 0.05 / 3


# ---- the same again ----


def test_a_run_that_was_cut_goes_on_as_it_would_have() -> None:
    made = manifest(9.0, own=both())
    whole = measured(made)
    for stop in range(0, len(whole), 5):
        assert measured(made, measured(made, stop=stop)) == whole


def test_the_same_seed_and_data_give_the_same_verdicts() -> None:
    one, other = (measured(manifest()) for _ in range(2))
    verdicts = [
        claims.judge(findings.group_samples(manifest().trials, found), ("scenarios",), LEVEL)
        for found in (one, other)
    ]
    assert one == other
    assert verdicts[0] == verdicts[1]


def test_whether_a_run_is_complete_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = manifest()
    samples = tuple(measured(made))
    run, cut = (
        store.Run(path=Path("x"), manifest=made, samples=found) for found in (samples, samples[:-1])
    )
    asked: list[int] = []
    real = spending.Spender.left_out

    def left_out(way: spending.Spender, found: Sequence[Sample]) -> frozenset[int]:
        asked.append(len(found))
        return real(way, found)

    monkeypatch.setattr(spending.Spender, "left_out", left_out)
    assert (run.complete, run.complete, cut.complete, run.complete) == (True, True, False, True)
    assert asked == [len(samples), len(samples) - 1, len(samples)]


def test_the_clock_is_that_of_the_samples() -> None:
    """A gap counts, an interruption does not, nor what was never started."""
    clock = spending.Clock()
    one = msgspec.structs.replace(sample(manifest(), 0), started="2026-01-01T00:00:00.000+00:00")
    for second in ("00.000", "00.150", "10.150"):
        clock.add(msgspec.structs.replace(one, started=f"2026-01-01T00:00:{second}+00:00"))
    assert clock.spent_ns == pytest.approx(3 * TOOK_NS + 50e6 + 9.9e9, rel=1e-6)
    clock.add(msgspec.structs.replace(one, started="2026-01-02T00:00:00.000+00:00"))
    clock.add(msgspec.structs.replace(one, started="", elapsed_ns=0))
    assert clock.spent_ns == pytest.approx(4 * TOOK_NS + 50e6 + 9.9e9, rel=1e-6)


def test_a_clock_that_is_set_spends_nothing() -> None:
    """An hour or a second on, or back: what counts is the clock of the boot."""
    clock = spending.Clock()
    one = sample(manifest(), 0)
    walls = ("00:00:00", "01:00:00", "01:00:20", "00:59:00")
    for index, wall in enumerate(walls):
        # A millisecond after the one before.
        begun = index * (TOOK_NS + 1_000_000)
        started = f"2026-01-01T{wall}.000+00:00"
        clock.add(msgspec.structs.replace(one, started=started, boot="a", begun_ns=begun))
    assert clock.spent_ns == len(walls) * TOOK_NS + (len(walls) - 1) * 1_000_000


@pytest.mark.parametrize(("boot", "gap"), [("a", 10**9), ("b", 0)])
def test_a_gap_is_within_a_boot(boot: str, gap: int) -> None:
    """Two boots' clocks have nothing to do with one another, however near they seem."""
    clock = spending.Clock()
    one = msgspec.structs.replace(
        sample(manifest(), 0), started="2026-01-01T00:00:00.000+00:00", boot="a", begun_ns=5
    )
    clock.add(one)
    clock.add(msgspec.structs.replace(one, boot=boot, begun_ns=5 + TOOK_NS + 10**9))
    assert clock.spent_ns == 2 * TOOK_NS + gap


def test_a_run_begun_by_an_older_version_goes_on() -> None:
    """Its last sample has the wall's time alone: the gap to the next is unknown."""
    clock = spending.Clock()
    old = msgspec.structs.replace(sample(manifest(), 0), started="2026-01-01T00:00:00.000+00:00")
    clock.add(old)
    clock.add(msgspec.structs.replace(old, boot="a", begun_ns=1))
    assert clock.spent_ns == 2 * TOOK_NS


# ---- what a claim uses ----


def test_a_claim_uses_what_it_reads_not_what_it_could_have() -> None:
    made = manifest()
    groups = findings.group_samples(made.trials, measured(made))
    found = {use.claim: use for use in uses(groups, made.experiments, LEVEL)}
    assert found["easy"].trials == {"scenarios/A/uthread", "scenarios/A/pthread"}
    assert found["easy"].verdict == "holds"
    assert found["hard"].trials == {"scenarios/B1/uthread", "scenarios/B1/pthread"}


def test_uses_and_verdicts_agree() -> None:
    made = manifest(own=both())
    groups = findings.group_samples(made.trials, measured(made))
    level = spending.level(made)
    verdicts = {(v.claim, v.engine): v.verdict for v in claims.judge(groups, ["scenarios"], level)}
    for use in uses(groups, ["scenarios"], level):
        known = verdicts.get((use.claim, use.place.engine), "not measurable here")
        assert use.verdict == known


def question(centre: float, n: int = 8, **bounds: Any) -> Question:
    values = tuple(centre + 0.1 * (i - (n - 1) / 2) for i in range(n))
    return Question(effects.Effect(values, "x"), **bounds)


def test_how_many_blocks_it_takes_grows_with_the_square_of_the_distance() -> None:
    near, far = (blocks_needed([question(x, low=0.0)], 0.95) for x in (0.2, 0.1))
    assert near is not None
    assert far == pytest.approx(4 * near)
    assert blocks_needed([question(0.1, n=3, low=0.0)], 0.95) == effects.LEAST
    assert blocks_needed([question(0.0, low=0.0)], 0.95) == math.inf
    assert blocks_needed([question(5.0, low=0.0)], 0.95) is None
    assert blocks_needed([], 0.95) is None


def test_the_slowest_of_several_counts_but_one_outside_decides() -> None:
    slow, fast = question(0.1, low=0.0), question(0.2, low=0.0)
    outside = question(-0.15, low=0.0)
    assert blocks_needed([fast, slow], 0.95) == blocks_needed([slow], 0.95)
    assert blocks_needed([fast, slow, outside], 0.95) == blocks_needed([outside], 0.95)


# ---- what is said ----


def test_the_end_says_how_it_was_spent_and_what_is_left() -> None:
    made = manifest(8.0)
    said = spending.summary(made, measured(made))
    assert said[0].startswith("Of 8 s for measuring, ")
    assert "screening (native)" in said[0]
    assert said[1].startswith("native: 2 of 3 claims are decided at a level of 0.983; undecided:")
    assert "hard (" in said[1]
    assert " blocks more, " in said[1]
    assert spending.summary(synthetic.Scene().manifest(), []) == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("6min", 360), ("6 m", 360), ("1h", 3600), ("1h30min", 5400), ("0.5H", 1800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert spending.parse_budget(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "6", "-6min", "six", "6min!", "1e3s", "nan", "0s", "999999h", "min", "6 minutes"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(RequestError, match="--budget: "):
        spending.parse_budget(text)
