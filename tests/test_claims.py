# SPDX-License-Identifier: Apache-2.0
"""Study 000's claims: each verdict from samples made for it, at every place, never across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
import synthetic
from synthetic import Scene, failed, scenario, scenario_sample, spread
from verdicts import ALL_FOUR, Make, Row, Where, by_claim, checked, name_of

from swtch import claims
from swtch.claims import rules, study_000
from swtch.records import Model, VerdictName

PLACES: dict[str, Where] = {
    "native": {},
    "vm": {"engine": "vm", "guest": "6.1-amd64"},
    "exact": {"engine": "exact", "guest": "6.1-amd64"},
}


# ---- scenes ----


def pthreads(where: Where, cases: str = "A B1 B2 C1 C2", n: int = 10, **given: Any) -> Scene:
    """pthread samples of these scenarios, alike unless `given` says otherwise."""
    scene = Scene()
    for case in cases.split():
        scene.scenario(case, "pthread", n=n, where=where, **{"cv": 1.0, **given})
    return scene


def pair(
    where: Where,
    a: tuple[str, Model, float],
    b: tuple[str, Model, float],
    share: float = 0.01,
    n: int = 10,
) -> Scene:
    """Two trials at these speeds; `share` is how far they spread, against each other."""
    scene = Scene()
    for (case, model, mops), sign in ((a, 1), (b, -1)):
        scene.scenario(case, model, spread(mops, n, sign * share), where=where)
    return scene


def with_kthread(where: Where, b2: float, a: float, kthread_b2: float, kthread_a: float) -> Scene:
    """Both models' B2 and A at these speeds."""
    scene = pair(where, ("B2", "pthread", b2), ("A", "pthread", a))
    for case, mops, share in (("B2", kthread_b2, 0.01), ("A", kthread_a, -0.01)):
        scene.scenario(case, "kthread", spread(mops, 10, share), where=where)
    return scene


def kthreads(where: Where, gains: Mapping[str, float], share: float = 0.01, n: int = 10) -> Scene:
    """pthreads at 100 and kthreads at 100 times the gain, by scenario."""
    scene = Scene()
    for case, gain in gains.items():
        scene.scenario(case, "pthread", spread(100.0, n, share), where=where)
        scene.scenario(case, "kthread", spread(100.0 * gain, n, -share), where=where)
    return scene


def only_failed(experiment: str, model: Model) -> Make:
    def make(where: Where) -> Scene:
        if experiment == "scenarios":
            trials = [scenario(case, model, **where) for case in ("A", "B1", "B2", "C1", "C2")]
        else:
            trials = [synthetic.gantt("round-robin", model, **where)]
        scene = Scene()
        for one in trials:
            scene.add(one, [synthetic.failed(one)] * 10)
        return scene

    return make


def with_involuntary(where: Where, of: Mapping[str, int], n: int = 10) -> Scene:
    """pthreads and kernel threads as the study's, but for these: switches of each thread."""
    scene = Scene()
    for model in ("pthread", "kthread"):
        for case in ("A", "B1", "B2", "C1", "C2"):
            each = of.get(f"{model} {case}")
            given = {} if each is None else {"threads_of": {"nivcsw": each}}
            scene.scenario(case, model, n=n, where=where, **given)
    return scene


def mixed(where: Where, case: str, model: Model, counts: Sequence[int], **of: int) -> Scene:
    """As above, with one configuration whose threads are switched as often as these."""
    scene = with_involuntary(where, of)
    one = scenario(case, model, **where)
    kept = [s for s in scene.samples if s.trial_id != one.id]
    made = Scene()
    for trial in scene.trials:
        if trial.id != one.id:
            made.add(trial, [s for s in kept if s.trial_id == trial.id])
    return made.add(one, [scenario_sample(one, threads_of={"nivcsw": n}) for n in counts])


def with_voluntary(share: float) -> Make:
    """pthreads of which this share of the invocations was switched voluntarily."""

    def make(where: Where) -> Scene:
        scene = Scene()
        for case in ("A", "B1", "B2"):
            one = scenario(case, "pthread", **where)
            some = [scenario_sample(one, threads_of={"nvcsw": [0, 0, 2, 0]})] * round(10 * share)
            scene.add(one, [*some, *[scenario_sample(one)] * (10 - len(some))])
        return scene

    return make


def with_cv(
    where: Where, *percent: float, case: str = "B2", model: Model = "pthread", n: int = 10
) -> Scene:
    """Quiet runs but for kernel threads in C1, and for one scenario that varies by these."""
    scene = Scene()
    for one in ("pthread", "kthread"):
        for each in ("A", "B1", "B2", "C1", "C2"):
            usual = 9.0 if (one, each) == ("kthread", "C1") else 2.0
            cvs = percent if percent and (one, each) == (model, case) else (usual,)
            trial = scenario(each, one, **where)
            scene.add(trial, [scenario_sample(trial, cv=cvs[i % len(cvs)]) for i in range(n)])
    return scene


def napping(where: Where, counts: Sequence[int]) -> Scene:
    one = scenario("C1", "pthread", **where)
    return Scene().add(one, [scenario_sample(one, threads_of={"nvcsw": n}) for n in counts])


def losing(where: Where) -> Scene:
    one = scenario("B1", "uthread", **where)
    lost = scenario_sample(one, values={"counter": 3_999_990})
    return pthreads(where).add(one, [scenario_sample(one), lost])


def nothing_counted(where: Where) -> Scene:
    """As a probe says that was asked for no work."""
    one = scenario("B1", "pthread", **where)
    return Scene().add(one, [scenario_sample(one, values={"counter": 0, "expected": 0})] * 6)


def unlooked(where: Where) -> Scene:
    scene = charts(where)
    for made in scene.samples:
        made.detail.pop("overflow_detected")
    return scene


def who(where: Where, kthread: bool = True, **threads_of: Any) -> Scene:
    """Threads with these numbers of their own; `kthread` says whose."""
    scene = Scene().scenario("A", "pthread", where=where)
    model: Model = "kthread" if kthread else "pthread"
    return scene.scenario("B2", model, n=1, where=where, threads_of=threads_of)


SLOW_FIRST = (0, 1, 2, 3, 4, 0, 1, 2, 4, 3, 0, 1, 2, 3, 3, 3)


def charts(where: Where, **given: Any) -> Scene:
    """Both models' charts in every order; `given` changes the ucontexts' round robin."""
    scene = Scene()
    for order in ("priority", "time-slice", "round-robin"):
        scene.gantt(order, "coroutine", where=where)
    return scene.gantt("round-robin", "ucontext", where=where, **given)


# What each claim can become, and the samples of which it becomes that.
VERDICTS: list[Row] = [
    ("1", "holds", "", pthreads),
    ("1", "holds", "kthreads", lambda w: kthreads(w, {"A": 1, "B1": 1, "B2": 1})),
    ("1", "differs", "", with_voluntary(0.6)),
    ("1", "cannot tell", "some", with_voluntary(0.5)),
    ("1", "cannot tell", "too few", lambda w: pthreads(w, "A B1", n=2)),
    ("1", "not measurable here", "sleepers", lambda w: pthreads(w, "C1 C2")),
    ("1", "not measurable here", "failed", only_failed("scenarios", "pthread")),
    ("1", "not measurable here", "", lambda w: Scene().scenario("A", "uthread", where=w)),
    ("2", "holds", "", pthreads),
    ("2", "holds", "nearly", lambda w: pthreads(w, threads_of={"nvcsw": [99, 100, 101, 98]})),
    ("2", "differs", "fewer", lambda w: pthreads(w, threads_of={"nvcsw": 60})),
    ("2", "differs", "more", lambda w: pthreads(w, threads_of={"nvcsw": 130})),
    (
        "2",
        "differs",
        "one of two",
        lambda w: pthreads(w, "C1", threads_of={"nvcsw": 90}).scenario("C2", "pthread", where=w),
    ),
    ("2", "cannot tell", "straddles", lambda w: napping(w, [80, 100, 120] * 4)),
    ("2", "cannot tell", "too few", lambda w: pthreads(w, "C1 C2", n=2)),
    ("2", "not measurable here", "no sleepers", lambda w: pthreads(w, "A B1 B2")),
    ("2", "not measurable here", "", lambda w: Scene().scenario("C1", "coroutine", where=w)),
    ("3", "holds", "", pthreads),
    ("3", "differs", "", losing),
    ("3", "differs", "nothing counted", nothing_counted),
    ("3", "not measurable here", "", only_failed("scenarios", "pthread")),
    ("4", "holds", "", lambda w: pair(w, ("B2", "pthread", 250), ("A", "pthread", 87))),
    ("4", "differs", "", lambda w: pair(w, ("B2", "pthread", 87), ("A", "pthread", 250))),
    ("4", "differs", "kthread", lambda w: with_kthread(w, 250, 87, 87, 250)),
    ("4", "cannot tell", "kthread", lambda w: with_kthread(w, 250, 87, 105, 100)),
    ("4", "cannot tell", "", lambda w: pair(w, ("B2", "pthread", 105), ("A", "pthread", 100))),
    ("4", "differs", "equal", lambda w: pair(w, ("B2", "pthread", 100), ("A", "pthread", 100))),
    (
        "4",
        "cannot tell",
        "too few",
        lambda w: pair(w, ("B2", "pthread", 250), ("A", "pthread", 87), n=4),
    ),
    ("4", "not measurable here", "one CPU", lambda w: pthreads({**w, "cpus": 1})),
    ("4", "not measurable here", "no A", lambda w: pthreads(w, "B1 B2")),
    ("4", "not measurable here", "failed", only_failed("scenarios", "pthread")),
    ("5", "holds", "", lambda w: kthreads(w, {"A": 1.25})),
    ("5", "differs", "", lambda w: kthreads(w, {"A": 0.8})),
    ("5", "cannot tell", "", lambda w: kthreads(w, {"A": 1.05})),
    ("5", "differs", "equal", lambda w: kthreads(w, {"A": 1.0})),
    ("5", "cannot tell", "too few", lambda w: kthreads(w, {"A": 1.25}, n=4)),
    ("5", "not measurable here", "", pthreads),
    ("5", "not measurable here", "other case", lambda w: kthreads(w, {"B2": 1.25})),
    ("6", "holds", "", lambda w: kthreads(w, {"B1": 1.8, "B2": 1.4, "C1": 1.3})),
    ("6", "differs", "", lambda w: kthreads(w, {"B1": 1.8, "B2": 0.9, "C1": 1.3})),
    ("6", "cannot tell", "", lambda w: kthreads(w, {"B1": 1.8, "B2": 1.05, "C1": 1.3})),
    (
        "6",
        "cannot tell",
        "too few",
        lambda w: kthreads(w, {"B1": 1.8, "B2": 1.4, "C1": 1.3}, n=3),
    ),
    ("6", "not measurable here", "", pthreads),
    ("7", "holds", "", lambda w: kthreads(w, {"C2": 0.985})),
    ("7", "differs", "faster", lambda w: kthreads(w, {"C2": 1.2})),
    ("7", "differs", "slower", lambda w: kthreads(w, {"C2": 0.8})),
    ("7", "cannot tell", "", lambda w: kthreads(w, {"C2": 1.05})),
    ("7", "cannot tell", "wide", lambda w: kthreads(w, {"C2": 1.0}, share=0.1)),
    ("7", "cannot tell", "too few", lambda w: kthreads(w, {"C2": 1.0}, n=2)),
    ("7", "not measurable here", "", pthreads),
    ("8", "holds", "", with_cv),
    ("8", "holds", "pthreads", pthreads),
    ("8", "holds", "just", lambda w: with_cv(w, 4.9)),
    ("8", "differs", "", lambda w: with_cv(w, 20.0)),
    ("8", "differs", "just", lambda w: with_cv(w, 5.1)),
    ("8", "differs", "a kthread's", lambda w: with_cv(w, 9.0, case="A", model="kthread")),
    ("8", "differs", "a quiet C1", lambda w: with_cv(w, 2.0, case="C1", model="kthread")),
    ("8", "cannot tell", "", lambda w: with_cv(w, 2.0, 12.0)),
    ("8", "cannot tell", "too few", lambda w: with_cv(w, n=5)),
    ("8", "not measurable here", "one run", lambda w: pthreads(w, cv=None)),
    ("8", "not measurable here", "", lambda w: Scene().scenario("A", "uthread", where=w)),
    ("9", "holds", "", pthreads),
    ("9", "holds", "kthreads", lambda w: kthreads(w, {"A": 1.25})),
    ("9", "differs", "PIDs", lambda w: who(w, False, pids=[1, 1, 2, 1])),
    ("9", "differs", "TIDs", lambda w: who(w, False, tids=[5, 6, 6, 7])),
    ("9", "differs", "kthread", lambda w: who(w, True, pids=[7, 8, 9, 10], tids=[7, 8, 9, 11])),
    ("9", "not measurable here", "", lambda w: Scene().scenario("A", "coroutine", where=w)),
    ("10", "holds", "", lambda w: with_involuntary(w, {})),
    ("10", "holds", "pthreads", pthreads),
    ("10", "differs", "yields", lambda w: with_involuntary(w, {"pthread B1": 20})),
    ("10", "differs", "kthreads", lambda w: with_involuntary(w, {"kthread B2": 45})),
    ("10", "differs", "idle", lambda w: with_involuntary(w, {"pthread A": 11})),
    ("10", "cannot tell", "", lambda w: mixed(w, "B1", "pthread", [20, 80] * 5)),
    ("10", "cannot tell", "too few", lambda w: with_involuntary(w, {}, n=5)),
    ("10", "not measurable here", "sleepers", lambda w: pthreads(w, "C1 C2")),
    ("10", "not measurable here", "", lambda w: Scene().scenario("B1", "uthread", where=w)),
    ("11", "holds", "", lambda w: with_involuntary(w, {})),
    ("11", "holds", "pthreads", pthreads),
    ("11", "differs", "batch", lambda w: with_involuntary(w, {"pthread C1": 1})),
    ("11", "differs", "kthreads", lambda w: with_involuntary(w, {"kthread C1": 25})),
    ("11", "differs", "one CPU", lambda w: with_involuntary(w, {"pthread C2": 25})),
    ("11", "cannot tell", "", lambda w: mixed(w, "C1", "pthread", [1, 25] * 5)),
    ("11", "cannot tell", "too few", lambda w: with_involuntary(w, {}, n=5)),
    ("11", "not measurable here", "no sleepers", lambda w: pthreads(w, "A B1 B2")),
    ("11", "not measurable here", "", lambda w: Scene().scenario("C1", "uthread", where=w)),
    ("12", "holds", "", pthreads),
    ("12", "differs", "", lambda w: with_involuntary(w, {"pthread B1": 110})),
    ("12", "holds", "a block without any", lambda w: mixed(w, "B1", "pthread", [0, 40] * 5)),
    (
        "12",
        "differs",
        "none at all",
        lambda w: with_involuntary(w, {"pthread B1": 0, "pthread B2": 0}),
    ),
    ("12", "cannot tell", "", lambda w: mixed(w, "B1", "pthread", [90, 110] * 5)),
    ("12", "cannot tell", "too few", lambda w: pthreads(w, n=5)),
    ("12", "not measurable here", "", lambda w: pthreads(w, "A B2")),
    ("VII.1", "holds", "", charts),
    ("VII.1", "differs", "", lambda w: charts(w, slots=SLOW_FIRST)),
    ("VII.1", "not measurable here", "", lambda w: Scene().gantt("priority", where=w)),
    ("VII.2", "holds", "", charts),
    ("VII.2", "differs", "first", lambda w: charts(w, finished=(0, 4, 1, 2, 3))),
    ("VII.2", "differs", "last", lambda w: charts(w, finished=(4, 0, 1, 3, 2))),
    ("VII.2", "differs", "nobody", lambda w: charts(w, finished=())),
    ("VII.2", "not measurable here", "", only_failed("coroutine-gantt", "ucontext")),
    ("VII.3", "holds", "", charts),
    ("VII.3", "differs", "", lambda w: charts(w, overflow=False)),
    ("VII.3", "not measurable here", "nobody looked", unlooked),
    ("VII.3", "not measurable here", "", only_failed("coroutine-gantt", "coroutine")),
]


# Where only instructions are counted.
AT_EXACT: Mapping[str, VerdictName] = {"7": "not measurable here", "8": "not measurable here"}


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("row", VERDICTS, ids=name_of)
def test_verdict(row: Row, where: Where) -> None:
    number, expected, _, make = row
    if where.get("engine") == "exact":
        expected = AT_EXACT.get(number, expected)
    verdict = checked(make, where, f"000.{number}", expected)
    if expected == "not measurable here":
        assert verdict.here is None
    here, threshold = verdict.here, verdict.threshold
    if here is not None and number in ("4", "5", "6") and expected != "cannot tell":
        assert threshold == rules.MORE
        assert here.low > threshold if expected == "holds" else here.high < threshold


def test_every_claim_has_its_verdicts_here() -> None:
    """Claims that are about exact facts cannot be undecided; all others can."""
    given = by_claim("000", VERDICTS)
    assert list(given) == [claim.id for claim in study_000.CLAIMS]
    exact = {"000.3", "000.9", "000.VII.1", "000.VII.2", "000.VII.3"}
    for claim, verdicts in given.items():
        assert verdicts == ALL_FOUR - ({"cannot tell"} if claim in exact else set()), claim


def test_claims_are_unique_and_about_experiments_there_are() -> None:
    every = claims.every()
    assert len({claim.id for claim in every}) == len(every)
    assert {c.experiment for c in study_000.CLAIMS} == {"scenarios", "coroutine-gantt"}
    assert all(claim.id.startswith(f"{claim.study}.") for claim in every)


def test_only_claims_about_the_experiments_of_a_run_are_judged() -> None:
    groups = Scene().gantt().groups()
    judged = claims.judge(groups, ["coroutine-gantt"])
    assert [v.claim for v in judged if v.study == "000"] == ["000.VII.1", "000.VII.2", "000.VII.3"]
    assert claims.judge(groups, []) == ()


# ---- which samples count ----


@pytest.mark.parametrize(
    ("case", "claim", "each", "expected"),
    [("A", "10", 30, "differs"), ("A", "10", 3, "holds"), ("C1", "11", 25, "holds")],
)
def test_beside_others_switches_are_not_theirs(
    case: str, claim: str, each: int, expected: VerdictName
) -> None:
    """The kernel does not say for whom a thread was switched."""

    def judged(others: float) -> claims.Verdict:
        scene = pthreads({}, " ".join({"A", "B1", "B2", "C1", "C2"} - {case}))
        one = scenario(case, "pthread")
        samples = [scenario_sample(one, threads_of={"nivcsw": each}) for _ in range(10)]
        for i, sample in enumerate(samples):
            busy, cpus = sample.elapsed_ns, len(one.probe["cpus"])
            had = round(others * busy * max(1, cpus))
            samples[i] = msgspec.structs.replace(sample, busy_ns=busy, own_ns=busy - had)
        return scene.add(one, samples).verdict(f"000.{claim}")

    assert judged(0.03).verdict == expected
    crowded = judged(0.3)
    if (case, expected) == ("A", "holds"):
        assert crowded.verdict == "holds", "few, though others were there"
    else:
        assert crowded.verdict == "cannot tell"
        assert "others had 30.0 % of its CPUs" in crowded.why


@pytest.mark.parametrize("case", ["A", "B1", "B2"])
@pytest.mark.parametrize("model", ["pthread", "kthread"])
def test_one_looks_at_each_of_its_scenarios(case: str, model: Model) -> None:
    scene = pthreads({})
    assert scene.verdict("000.1").verdict == "holds"
    scene.scenario(case, model, threads_of={"nvcsw": 1})
    # Half of the pthreads', and all of the kernel threads': each configuration for itself.
    expected = "cannot tell" if model == "pthread" else "differs"
    assert scene.verdict("000.1").verdict == expected
    assert f"{model} {case}: 4 at most" in scene.verdict("000.1").why


@pytest.mark.parametrize("case", ["C1", "C2"])
@pytest.mark.parametrize("model", ["pthread", "kthread"])
def test_two_looks_at_each_of_its_scenarios(case: str, model: Model) -> None:
    scene = Scene().scenario(case, model, threads_of={"nvcsw": 10})
    assert scene.verdict("000.2").verdict == "differs"


@pytest.mark.parametrize(
    ("each", "verdict"), [(94, "differs"), (95, "holds"), (105, "holds"), (106, "differs")]
)
def test_about_a_hundred_is_within_five_percent(each: int, verdict: str) -> None:
    assert pthreads({}, threads_of={"nvcsw": each}).verdict("000.2").verdict == verdict


# ---- what a verdict says ----


def test_the_reason_names_what_was_compared() -> None:
    here = pair({}, ("B2", "pthread", 250), ("A", "pthread", 87)).verdict("000.4")
    assert "pthread: 2.87 x" in here.why and "contention is less" not in here.why
    assert "half needs the module" in here.why
    fewer = pair({"cpus": 2}, ("B2", "pthread", 250), ("A", "pthread", 87)).verdict("000.4")
    assert "A of pthreads ran on 2 CPUs instead of 4, so the contention is less" in fewer.why
    assert "--engine vm" in pthreads({"cpus": 1}).verdict("000.4").why
    assert "vm engine" in pthreads({}).verdict("000.5").why
    lost = losing({}).verdict("000.3").why
    assert "1 of 52 invocations" in lost and "scenarios/B1/uthread with 3 999 990" in lost
    assert "pthread A: 0 switches, holds" in pthreads({}).verdict("000.1").why


@pytest.mark.parametrize(
    ("claim", "without", "said"),
    [("000.10", ("B1", "B2"), "pthread B1 or pthread B2"), ("000.11", ("C1",), "of pthread C1,")],
)
@pytest.mark.parametrize("how", ["not measured", "failed"])
def test_few_switches_are_half_of_a_signature(
    claim: str, without: tuple[str, ...], said: str, how: str
) -> None:
    """That idle threads are not switched says nothing of those that yield, or are woken."""
    scene = pthreads({})
    assert scene.verdict(claim).verdict == "holds"
    lost = {s.trial_id for s in scene.samples if s.factors["scenario"] in without}
    kept = [s for s in scene.samples if s.trial_id not in lost]
    if how == "failed":
        kept += [failed(one) for one in scene.trials if one.id in lost]
    scene.samples = kept
    verdict = scene.verdict(claim)
    assert verdict.verdict == "cannot tell" and said in verdict.why


@pytest.mark.parametrize(
    ("samples", "said"),
    [(10, "Every invocation failed of"), (0, "Nothing was measured of")],
)
def test_a_claim_does_not_hold_where_a_case_was_never_measured(samples: int, said: str) -> None:
    """What always failed, or was planned and not reached, is no case that held."""
    scene = kthreads({}, {"B1": 1.8, "B2": 1.4})
    assert scene.verdict("000.6").verdict == "holds"
    one = scenario("C1", "kthread")
    scene.add(one, [failed(one)] * samples)
    verdict = scene.verdict("000.6")
    assert verdict.verdict == "cannot tell"
    assert verdict.why.endswith(f". {said} scenarios/C1/kthread")
    # One that differs decides, whatever became of the others.
    scene = kthreads({}, {"B1": 1.8, "B2": 0.7}).add(one, [failed(one)] * samples)
    verdict = scene.verdict("000.6")
    assert verdict.verdict == "differs" and said in verdict.why


def test_a_case_whose_samples_are_all_marked_is_none_without_them() -> None:
    scene = kthreads({}, {"B1": 1.8, "B2": 1.4, "C1": 1.3})
    for index, made in enumerate(scene.samples):
        if made.trial_id == "scenarios/C1/kthread":
            scene.samples[index] = msgspec.structs.replace(made, steal_ns=made.elapsed_ns)
    verdict = scene.verdict("000.6")
    assert verdict.verdict == "holds"
    assert verdict.why.endswith("Without the 10 samples that a gate marked: cannot tell")


def test_a_case_that_failed_is_named() -> None:
    """What always failed is no case that held."""
    scene = kthreads({}, {"B1": 1.8, "B2": 1.4})
    assert "failed" not in scene.verdict("000.6").why
    one = scenario("C1", "kthread")
    scene.add(one, [failed(one)] * 10)
    # Nobody asks for it here.
    assert "failed" not in scene.verdict("000.5").why
    for case in ("A", "B1", "B2", "C2"):
        other = scenario(case, "uthread")
        scene.add(other, [failed(other)])
    verdict = scene.verdict("000.3")
    assert verdict.why.endswith("kthread, scenarios/A/uthread, scenarios/B1/uthread and 2 more")


@pytest.mark.parametrize("blocks", [(3,), range(10)])
def test_a_case_in_which_nothing_was_done_does_not_hold(blocks: Sequence[int]) -> None:
    """Of a throughput of zero there is no ratio; the claim is about that case, too."""
    scene = kthreads({}, {"B1": 1.8, "B2": 1.4, "C1": 1.3})
    assert scene.verdict("000.6").verdict == "holds"
    for index, made in enumerate(scene.samples):
        if made.trial_id == "scenarios/B1/kthread" and made.block in blocks:
            values = {**made.values, "counter": 0}
            scene.samples[index] = msgspec.structs.replace(made, values=values)
    verdict = scene.verdict("000.6")
    assert verdict.verdict == "cannot tell"
    assert f"{len(blocks)} of 10 invocations of scenarios/B1/kthread" in verdict.why


def test_one_cpu_is_not_compared_with_itself() -> None:
    """B1 has one CPU where there is but one, and is B2 by another name."""
    scene = pair({"cpus": 1}, ("B2", "pthread", 250), ("B1", "pthread", 250))
    verdict = scene.verdict("000.12")
    assert verdict.verdict == "not measurable here"
    assert "B1 needs two CPUs" in verdict.why and "--engine vm" in verdict.why


def test_six_shows_the_scenario_that_is_worst() -> None:
    verdict = kthreads({}, {"B1": 1.8, "B2": 1.2, "C1": 1.3}).verdict("000.6")
    assert verdict.here is not None and verdict.here.estimate == pytest.approx(1.2, rel=0.05)
    assert "B1: 1.8 x, holds" in verdict.why


# ---- the copy of an A/A pair ----


def test_the_copy_is_not_evidence() -> None:
    """A copy that contradicts everything changes nothing, wherever it stands."""
    twin = scenario("A", "pthread", again=True)
    wild = [
        scenario_sample(
            twin,
            10_000.0,
            values={"counter": 17},
            threads_of={"nvcsw": 50, "pids": [1, 2, 3, 4]},
        )
    ] * 10
    alone = kthreads({}, {"A": 1.25, "B2": 1.4, "C2": 1.0})
    first = Scene().add(twin, wild)
    for one in alone.trials:
        first.add(one, [s for s in alone.samples if s.trial_id == one.id])
    last = kthreads({}, {"A": 1.25, "B2": 1.4, "C2": 1.0}).add(twin, wild)
    expected = claims.judge(alone.groups(), ["scenarios"])
    assert claims.judge(first.groups(), ["scenarios"]) == expected
    assert claims.judge(last.groups(), ["scenarios"]) == expected


def test_a_copy_alone_measures_nothing() -> None:
    scene = Scene().scenario("A", "pthread", where={"again": True})
    for verdict in claims.judge(scene.groups(), ["scenarios"]):
        assert verdict.verdict == "not measurable here", verdict.claim


# ---- places ----


def everywhere(native: Scene, *others: Scene) -> Scene:
    """Several scenes as one run."""
    joined = Scene()
    for scene in (native, *others):
        for one in scene.trials:
            joined.add(one, [s for s in scene.samples if s.trial_id == one.id])
    return joined


def test_each_place_has_its_own_verdict() -> None:
    slower = pair(PLACES["vm"], ("B2", "pthread", 50), ("A", "pthread", 100))
    faster = pair({}, ("B2", "pthread", 250), ("A", "pthread", 100))
    other = {"engine": "vm", "guest": "6.12-amd64"}
    like = pair(other, ("B2", "pthread", 105), ("A", "pthread", 100))
    verdicts = everywhere(faster, slower, like).verdicts("000.4")
    assert [(v.engine, v.guest, v.verdict) for v in verdicts] == [
        ("native", "", "holds"),
        ("vm", "6.1-amd64", "differs"),
        ("vm", "6.12-amd64", "cannot tell"),
    ]


def test_a_place_that_cannot_measure_is_not_named_when_another_can() -> None:
    guest = kthreads(PLACES["vm"], {"A": 1.25})
    (only,) = everywhere(pthreads({}), guest).verdicts("000.5")
    assert (only.engine, only.guest, only.verdict) == ("vm", "6.1-amd64", "holds")


def test_nothing_is_compared_across_places() -> None:
    """kthreads of a guest against pthreads of the machine, or of another guest: no verdict."""
    fast = Scene()
    for case in ("A", "B1", "B2", "C1", "C2"):
        fast.scenario(case, "kthread", 1000.0, where=PLACES["vm"])
    other = pthreads({"engine": "vm", "guest": "6.12-amd64"})
    for base in (pthreads({}), other, pthreads(PLACES["exact"])):
        for claim in ("000.5", "000.6", "000.7"):
            for v in everywhere(base, fast).verdicts(claim):
                assert v.verdict == "not measurable here", (claim, v.why)


def test_a_guests_kthreads_are_judged_by_the_guests_pthreads() -> None:
    """Those of the machine are ten times faster, and do not matter."""
    native = pthreads({}, "A", mops=1000.0)
    (only,) = everywhere(native, kthreads(PLACES["vm"], {"A": 1.25})).verdicts("000.5")
    assert only.verdict == "holds"
    assert only.here is not None and only.here.estimate == pytest.approx(1.25, rel=0.03)


# ---- figures in sentences ----


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0000855, "0.0000855"),
        (999.7, "1 000"),
        (1234567.0, "1 234 567"),
        (0.5, "0.5"),
        (-12.34, "-12.3"),
    ],
)
def test_a_figure_within_a_sentence_has_no_exponent(value: float, text: str) -> None:
    assert claims.plain(value) == text


def test_longer_sleeps_are_not_the_studys() -> None:
    """As an emulated guest has them: who wakes then is another question."""
    scene = Scene()
    for case in ("C1", "C2"):
        one = scenario(case, "pthread", engine="vm")
        long = msgspec.structs.replace(one, probe={**one.probe, "sleep_ns": 500_000})
        scene.add(long, [scenario_sample(long)] * 10)
    verdict = scene.verdict("000.11")
    assert verdict.verdict == "not measurable here" and "slept 500 µs instead of 1" in verdict.why
    assert scene.verdict("000.2").verdict == "holds"
