#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py measure|keep|pairs|table|looks: whether the verdicts' intervals keep their word.

  measure RUN        identical trials, two by two, once a block: a run of this machine
  keep RUN           its values, to stdout, as `--noise` has them
  pairs              of its pairs, how many the rule of the verdicts calls different
  table              how often the interval of a rule holds the truth, on that noise
  looks              how often any of several looks at a growing run misses the truth

`measure` goes on with a run that was interrupted, and `keep` takes its whole blocks. The
rest is a function of the noise, of --draws and of --seed: docs/experiments/statistics.md
has what it printed. Run it with the package's own Python, once tools/wheel.sh has made it:

  .venv/bin/python tools/coverage.py table

A simulated block is one that was recorded, drawn anew for each: two of its values are the
two sides. On top comes a drift that is the same for both: a random walk, and a neighbour
who stays for some blocks. The truth of a like pair is a ratio of 1. Of an unlike pair
(two kinds of trials) each rule is asked for its own: the pseudo-median of the log-ratios,
or the ratio of medians, found from many draws.

The rule that verdicts had before (BCa of the ratio of medians) is kept here and nowhere
else, to be compared with. Rejected: invented laws of noise (they are as the author likes
them), one law fitted to the values (loses the tails, which are the point).
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from swtch import __version__, environment, experiments, plan, spending, store
from swtch.analysis import effects, findings, stats
from swtch.engines.native import NativeEngine
from swtch.errors import LabError
from swtch.experiments import Setting
from swtch.progress import Progress
from swtch.records import Manifest, Trial
from swtch.runner import Runner

NOISE = Path(__file__).resolve().parents[1] / "docs/experiments/noise.json"
SEED = 19450623
SIZES = (5, 10, 20)

# What is measured: trials of the lab, by their metric, the scenarios shortened to some
# ten milliseconds.
SHORT = {"iterations": 100_000, "every": 10_000}
KINDS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "scenarios/A/pthread": ("throughput_mops", SHORT),
    "scenarios/B2/coroutine": ("throughput_mops", SHORT),
    "scenarios/C1/pthread": ("throughput_mops", SHORT),
    "ping/same/pthread-yield": ("each_ns", {}),
    "ping/same/pthread-futex": ("each_ns", {}),
    "sync/2/mutex/pthread": ("each_ns", {}),
    "syscall/pipe/pthread": ("each_ns", {}),
    "syscall/uyield/uthread": ("each_ns", {}),
}
# Two kinds each whose noise is not alike.
UNLIKE = (
    ("scenarios/A/pthread", "scenarios/B2/coroutine"),
    ("scenarios/C1/pthread", "scenarios/A/pthread"),
    ("ping/same/pthread-futex", "syscall/uyield/uthread"),
    ("sync/2/mutex/pthread", "syscall/pipe/pthread"),
)


# ---- measuring ----


def trials(pairs: int) -> Iterator[Trial]:
    """`pairs` pairs of each kind that there is with these CPUs; the two of a pair are the
    same but for their names."""
    for name in KINDS:
        experiment = experiments.get(name.partition("/")[0])
        setting = Setting(cpus=environment.allowed_cpus(), models=experiment.models, depth="quick")
        for one in experiment.trials(setting):
            if one.id != name:
                continue
            probe = {**one.probe, **KINDS[name][1]}
            for pair, side in itertools.product(range(pairs), "ab"):
                factors = {**one.factors, "control": side, "pair": pair}
                yield msgspec.structs.replace(
                    one, id=f"{name}/{pair:03d}{side}", factors=factors, probe=probe
                )


def measure(folder: Path, pairs: int, blocks: int) -> int:
    """Measures what is left of the run in `folder`, or begins it."""
    engine = NativeEngine()
    if folder.exists():
        writer = store.Writer.resume(folder)
    else:
        planned = tuple(trials(pairs))
        manifest = Manifest(
            run_id=folder.name,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            swtch_version=__version__,
            command=("tools/coverage.py", "measure"),
            seed=SEED,
            depth="quick",
            repeats=blocks,
            experiments=tuple(dict.fromkeys(trial.experiment for trial in planned)),
            models=tuple(dict.fromkeys(trial.model for trial in planned)),
            engine="native",
            trials=planned,
            plan=plan.make_plan(planned, blocks, SEED),
            environment={**environment.collect(), "engine": engine.describe()},
        )
        writer = store.Writer.create(folder, manifest)
    with writer:
        ending = Runner(writer, engine, Progress(quiet=False)).run()
    return 1 if ending.interrupted or ending.failed else 0


def keep(folder: Path) -> str:
    """The values of the run in `folder`: of each kind its blocks, each pair after pair."""
    run = store.load(folder)
    kinds: dict[str, list[dict[int, float]]] = {}
    for group in findings.group_samples(run.manifest.trials, run.samples):
        kind = group.trial.id.rpartition("/")[0]
        kinds.setdefault(kind, []).append(group.by_block(KINDS[kind][0]))
    whole = [
        block
        for block in range(run.manifest.repeats)
        if all(block in trial for of in kinds.values() for trial in of)
    ]
    facts = run.manifest.environment
    stolen = sum(sample.steal_ns or 0 for sample in run.samples)
    lines = [
        f'  {json.dumps(kind)}: {{"metric": "{KINDS[kind][0]}", "blocks": [\n    '
        + ",\n    ".join(
            "[" + ", ".join(f"{trial[block]:.4g}" for trial in of) + "]" for block in whole
        )
        + "]}"
        for kind, of in kinds.items()
    ]
    origin = {
        "created": run.manifest.created,
        "minutes": round(_minutes(run), 1),
        "cpu": facts.get("cpu", {}).get("model", ""),
        "cpus": len(environment.allowed_cpus()),
        "kernel": facts.get("kernel", {}).get("release", ""),
        "steal": round(stolen / sum(sample.elapsed_ns for sample in run.samples), 4),
    }
    return f'{{"origin": {json.dumps(origin)},\n "kinds": {{\n' + ",\n".join(lines) + "}}"


def _minutes(run: store.Run) -> float:
    first, last = (datetime.datetime.fromisoformat(run.samples[i].started) for i in (0, -1))
    return (last - first).total_seconds() / 60


# ---- the noise, and what is drawn from it ----

Noise = Mapping[str, Any]  # of each kind its values, by block and invocation


def load(file: Path) -> Noise:
    kinds = json.loads(file.read_text())["kinds"]
    return {name: np.array(kind["blocks"], dtype=float) for name, kind in kinds.items()}


def drift(rng: np.random.Generator, n: int) -> Any:
    """Of each block the factor by which all of it is slower."""
    walk = np.cumsum(rng.normal(0, 0.03, n))
    begin, stays = rng.integers(0, n), rng.integers(1, n + 1)
    walk[begin : begin + stays] += rng.exponential(0.2)
    return np.exp(walk)


def draw(
    rng: np.random.Generator, a: Any, b: Any, n: int, moved: bool = True
) -> tuple[list[float], list[float]]:
    """`n` blocks of two trials whose noise is as that of the kinds `a` and `b`."""
    blocks = rng.integers(0, a.shape[0], n)
    first = rng.integers(0, a.shape[1], n)
    # Not the same invocation on both sides.
    second = (first + rng.integers(1, a.shape[1], n)) % a.shape[1]
    factor = drift(rng, n) if moved else np.ones(n)
    return list(a[blocks, first] * factor), list(b[blocks, second] * factor)


# ---- the rules ----

Limits = tuple[float, float]
Rule = Callable[[Sequence[float], Sequence[float]], Limits]


def by_ranks(a: Sequence[float], b: Sequence[float]) -> Limits:
    """The rule: Hodges-Lehmann and the signed-rank test, on log-ratios."""
    return _limits(effects.paired(a, b))


def _limits(effect: effects.Effect | None) -> Limits:
    assert effect is not None  # all values are positive
    made = effect.interval()
    return made.low, made.high


def by_t(a: Sequence[float], b: Sequence[float]) -> Limits:
    """Student's t on log-ratios."""
    from scipy.stats import t

    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    reach = t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    centre = statistics.fmean(logs)
    return math.exp(centre - reach), math.exp(centre + reach)


def by_signs(a: Sequence[float], b: Sequence[float]) -> Limits:
    """The sign test's: the order-statistic interval of the median ratio."""
    made = stats.median_interval([x / y for x, y in zip(a, b, strict=True)], "x")
    assert made is not None
    return made.low, made.high


def by_bootstrap(a: Sequence[float], b: Sequence[float]) -> Limits:
    """What verdicts had before: BCa of the ratio of medians, blocks resampled."""
    from scipy.stats import bootstrap

    def ratio(x: Any, y: Any, axis: int = -1) -> Any:
        return np.median(x, axis=axis) / np.median(y, axis=axis)

    estimate = statistics.median(a) / statistics.median(b)
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = bootstrap(
                (np.array(a), np.array(b)),
                ratio,
                n_resamples=9999,
                method=method,
                paired=True,
                vectorized=True,
                rng=np.random.default_rng(20070613),
            ).confidence_interval
        if math.isfinite(made.low) and math.isfinite(made.high):
            return min(float(made.low), estimate), max(float(made.high), estimate)
    return estimate, estimate


RULES: Mapping[str, Rule] = {
    "ranks (the rule)": by_ranks,
    "BCa of medians (before)": by_bootstrap,
    "t on log-ratios": by_t,
    "sign test": by_signs,
}


# ---- what is found ----


def coverage(noise: Noise, n: int, draws: int, seed: int, rules: Mapping[str, Rule]) -> Any:
    """Of like pairs of every kind: for each rule a row a draw, whether it holds 1, how wide
    its interval is (of the logarithm)."""
    rng = np.random.default_rng([seed, n])
    kinds = list(noise.values())
    rows = []
    for number in range(draws):
        kind = kinds[number % len(kinds)]
        a, b = draw(rng, kind, kind, n)
        limits = [rule(a, b) for rule in rules.values()]
        rows.append([(low <= 1 <= high, math.log(high / low)) for low, high in limits])
    return np.array(rows, dtype=float)


def truth(noise: Noise, one: str, other: str, seed: int) -> tuple[float, float]:
    """Of an unlike pair: the pseudo-median of its ratios, and the ratio of its medians."""
    rng = np.random.default_rng([seed, 1])
    a, b = draw(rng, noise[one], noise[other], 3000, moved=False)
    many = effects.paired(a, b)
    assert many is not None
    return many.estimate, float(np.median(noise[one]) / np.median(noise[other]))


def table(noise: Noise, draws: int, seed: int, dear: int) -> Iterator[str]:
    """`dear` draws of the bootstrap, which takes a hundred times as long."""
    yield "like pairs, block drift"
    yield f"{'rule':26}{'n':>3}{'draws':>8}{'covers':>9}{'width':>8}  narrower than the rule"
    for n in SIZES:
        full = coverage(noise, n, dear, seed, RULES)
        cheap = {name: rule for name, rule in RULES.items() if rule is not by_bootstrap}
        more = dict(
            zip(cheap, coverage(noise, n, draws, seed + 1, cheap).swapaxes(0, 1), strict=True)
        )
        for index, name in enumerate(RULES):
            rows = more.get(name, full[:, index])
            narrower = (full[:, index, 1] < full[:, 0, 1]).mean()
            yield (
                f"{name:26}{n:3}{len(rows):8}{rows[:, 0].mean():9.1%}"
                f"{np.median(rows[:, 1]):8.1%}"
                + (f"  in {narrower:.0%} of the same draws" if index else "")
            )
    yield ""
    yield "unlike pairs, block drift: ranks for the pseudo-median, BCa for the ratio of medians"
    for one, other in UNLIKE:
        own = truth(noise, one, other, seed)
        for n in SIZES:
            rng = np.random.default_rng([seed, n, 2])
            held = np.zeros(2)
            for number in range(draws // 4):
                a, b = draw(rng, noise[one], noise[other], n)
                low, high = by_ranks(a, b)
                held[0] += low <= own[0] <= high
                if number < dear // 4:
                    low, high = by_bootstrap(a, b)
                    held[1] += low <= own[1] <= high
            shares = held / (draws // 4, max(1, dear // 4))
            yield f"{one} over {other}, n = {n}: ranks {shares[0]:.1%}, BCa {shares[1]:.1%}"


def pairs(noise: Noise, n: int, level: float = effects.LEVEL) -> dict[str, tuple[int, int]]:
    """Of each kind: how many recorded pairs are called different in their first `n` blocks,
    and how many there are."""
    counts = {}
    for name, blocks in noise.items():
        called = 0
        for index in range(0, blocks.shape[1], 2):
            effect = effects.paired(list(blocks[:n, index]), list(blocks[:n, index + 1]))
            assert effect is not None
            here = effect.interval(level)
            called += effect.decides(level) and not here.low <= 1 <= here.high
        counts[name] = called, blocks.shape[1] // 2
    return counts


BEFORE = (8, 12, 18, 27, 40)


def looks(noise: Noise, at: Sequence[int], level: float, draws: int, seed: int) -> float:
    """Of like pairs that grow and are looked at so often, the share that is ever called."""
    rng = np.random.default_rng([seed, len(at)])
    kinds = list(noise.values())
    missed = 0
    for number in range(draws):
        kind = kinds[number % len(kinds)]
        a, b = draw(rng, kind, kind, at[-1])
        for n in at:
            effect = effects.paired(a[:n], b[:n])
            assert effect is not None
            here = effect.interval(level)
            if effect.decides(level) and not here.low <= 1 <= here.high:
                missed += 1
                break
    return missed / draws


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "keep", "pairs", "table", "looks"))
    parser.add_argument("run", type=Path, nargs="?", help="the run's folder")
    parser.add_argument("--pairs", type=int, default=125, help="of each kind, to measure")
    parser.add_argument("--blocks", type=int, default=10, help="to measure")
    parser.add_argument("--noise", type=Path, default=NOISE, help="what `keep` printed")
    parser.add_argument("--draws", type=int, default=8000)
    parser.add_argument("--dear", type=int, default=2000, help="draws of the bootstrap")
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args(arguments)
    if (asked.what in ("measure", "keep")) != (asked.run is not None):
        parser.error(f"{asked.what}: a run's folder is for measure and keep")
    try:
        if asked.what == "measure":
            return measure(asked.run, asked.pairs, asked.blocks)
        if asked.what == "keep":
            print(keep(asked.run))
            return 0
    except LabError as error:
        print(f"coverage.py: {error}", file=sys.stderr)
        return error.exit_code
    noise = load(asked.noise)
    if asked.what == "table":
        for line in table(noise, asked.draws, asked.seed, asked.dear):
            print(line, flush=True)
    elif asked.what == "pairs":
        for n in range(effects.LEAST, 11):
            counts = pairs(noise, n)
            called, of = (sum(count[i] for count in counts.values()) for i in (0, 1))
            each = ", ".join(f"{name} {count[0]}" for name, count in counts.items())
            print(f"{n} blocks: {called} of {of} ({called / of:.1%}): {each}", flush=True)
    else:
        for at in (spending.LOOKS[-1:], spending.LOOKS, BEFORE):
            for level in dict.fromkeys((effects.LEVEL, 1 - spending.ERROR / len(at))):
                share = looks(noise, at, level, asked.draws, asked.seed)
                print(
                    f"{len(at)} looks at n = {at}, each at {level:.3f}: {share:.1%} miss",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
