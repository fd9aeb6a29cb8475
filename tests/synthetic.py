# SPDX-License-Identifier: Apache-2.0
"""Made-up trials and samples: what analysis, claims and reports are tested on.

A ``Scene`` collects trials with their samples and is used either as groups
(``groups``, ``verdicts``) or as a run directory (``write``). Trials of the
lab's own experiments come from their definitions, so that a scene has the
factors and ids a real run has; ``trial`` makes any other.

Numbers are spread about a centre in a fixed pattern, never drawn at random, so
that the same scene gives the same intervals for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from swtch import claims, store
from swtch.analysis.findings import Group, group_samples
from swtch.engines.exact import in_instructions
from swtch.engines.protocol import Result
from swtch.experiments import Setting, get
from swtch.experiments.coroutine_gantt import FINISHED, SLOTS
from swtch.records import (
    CarrierRecord,
    Engine,
    Invocation,
    Manifest,
    Model,
    Sample,
    ThreadRecord,
    Trial,
    Verdict,
)
from swtch.store import Writer

GUEST = "6.1-amd64"
VM: Mapping[str, Any] = {"engine": "vm", "guest": GUEST}
CASES = ("A", "B1", "B2", "C1", "C2")
USER_MODELS: tuple[Model, ...] = ("pthread", "uthread", "coroutine", "ucontext")
KERNEL_MODELS = ("kthread", "pthread", "process")
# Not monotonic, and not in step with its own reverse: two groups that are
# spread in opposite directions do not move together from block to block.
_PATTERN = (0.2, -0.9, 0.6, -0.3, 1.0, -0.6, 0.4, -1.0, 0.8, -0.1)


def spread(centre: float, n: int = 10, share: float = 0.01) -> list[float]:
    """`n` numbers within `share` of `centre` on either side; negative turns them round."""
    return [centre * (1 + share * _PATTERN[i % len(_PATTERN)]) for i in range(n)]


# ---- trials ----


def trial(
    experiment: str,
    model: Model,
    name: str = "",
    *,
    engine: Engine = "native",
    guest: str = "",
    probe: Mapping[str, Any] | None = None,
    note: str = "",
    **factors: Any,
) -> Trial:
    """Any trial; `name` is the middle of its id, by default its factors."""
    middle = name or "-".join(str(value) for value in factors.values())
    return placed(
        Trial(
            id="/".join(part for part in (experiment, middle, model) if part),
            experiment=experiment,
            model=model,
            engine="native",
            factors=factors,
            probe=dict(probe or {}),
            note=note,
        ),
        engine,
        guest,
    )


def placed(one: Trial, engine: Engine = "native", guest: str = "") -> Trial:
    """The trial as an engine other than native has it: with the guest in id and factors."""
    if engine == "native":
        return one
    guest = guest or GUEST
    factors = {**one.factors, "guest": guest, "kernel": "6.1.0", "scheduler": "CFS"}
    return msgspec.structs.replace(one, id=f"{one.id}@{guest}", engine=engine, factors=factors)


def scenario(
    case: str,
    model: Model,
    *,
    cpus: int = 4,
    engine: Engine = "native",
    guest: str = "",
    again: bool = False,
) -> Trial:
    """A trial of `scenarios`; `again` is the copy of the A/A control."""
    own: Model = model if model in get("scenarios").models else "pthread"
    # The first model is the one that has a copy, and in a run that is the pthread.
    models: tuple[Model, ...] = (own,) if again else ("pthread", own)
    planned = get("scenarios").trials(Setting(cpus=tuple(range(cpus)), models=models))
    (found,) = (
        one
        for one in planned
        if one.factors["scenario"] == case
        and one.model == own
        and (one.factors["control"] == "b") == again
    )
    if model != own:
        found = msgspec.structs.replace(
            found,
            id=found.id.replace(own, model),
            model=model,
            probe={**found.probe, "model": model},
            factors={**found.factors, "control": None},
        )
    return placed(found, engine, guest)


def gantt(
    order: str = "round-robin",
    model: Model = "coroutine",
    *,
    pool: bool = True,
    engine: Engine = "native",
    guest: str = "",
) -> Trial:
    """A trial of `coroutine-gantt`."""
    planned = get("coroutine-gantt").trials(Setting(cpus=(0,), models=(model,)))
    (found,) = (
        one for one in planned if one.factors["order"] == order and one.factors["pool"] == pool
    )
    return placed(found, engine, guest)


# ---- samples ----


def sample(one: Trial, **given: Any) -> Sample:
    """A good sample of the trial; a Scene numbers it. An exact engine's has instructions."""
    if one.engine == "exact" and "values" in given:
        result = Result(values=given["values"], threads=(), carriers=(), detail={})
        given["values"] = in_instructions(result).values
    fields: dict[str, Any] = {
        "seq": 0,
        "experiment": one.experiment,
        "trial_id": one.id,
        "model": one.model,
        "engine": one.engine,
        "factors": one.factors,
        "block": 0,
        "seed": 1,
        "started": "2026-01-01T00:00:00.000+00:00",
        "elapsed_ns": 50_000_000,
        "status": "ok",
        "steal_ns": 0,
        "interrupts": 40,
    }
    return Sample(**{**fields, **given})


def failed(one: Trial, error: str = "probe died of SIGSEGV") -> Sample:
    """A failed sample of the trial."""
    return sample(one, status="failed", error=error, elapsed_ns=0, steal_ns=None, interrupts=None)


def threads(
    n: int = 4,
    *,
    nvcsw: Sequence[int | None] | int | None = 0,
    nivcsw: int | None = 3,
    pids: Sequence[int] = (),
    tids: Sequence[int] = (),
    starts: Sequence[int] = (),
    cpus: int = 4,
    ends_on: int | None = None,
    wall_ns: int = 40_000_000,
) -> tuple[ThreadRecord, ...]:
    """`n` thread records of one process; a count is each thread's, or one per thread."""
    each = [nvcsw] * n if nvcsw is None or isinstance(nvcsw, int) else list(nvcsw)
    return tuple(
        ThreadRecord(
            index=i,
            pid=pids[i] if pids else 1401,
            tid=tids[i] if tids else 1402 + i,
            cpu=i % cpus,
            cpu_end=i % cpus if ends_on is None else ends_on,
            start_ns=starts[i] if starts else 1000,
            end_ns=1000 + wall_ns,
            nvcsw=each[i],
            nivcsw=nivcsw,
            utime_ns=None if nivcsw is None else wall_ns,
            stime_ns=None if nivcsw is None else 0,
            cpu_ns=None if nivcsw is None else wall_ns,
        )
        for i in range(n)
    )


def scenario_sample(
    one: Trial,
    mops: float = 100.0,
    *,
    values: Mapping[str, float] | None = None,
    threads_of: Mapping[str, Any] | None = None,
    cv: float | None = None,
    **given: Any,
) -> Sample:
    """A good sample of a scenario at a speed, with the switches that belong to it.

    `values` and `threads_of` (arguments of ``threads``) change what is given; `cv` is that
    of the invocation's five runs, in percent, and None of a single run.
    """
    counter = int(one.probe["threads"]) * int(one.probe["iterations"])
    wall_ns = round(counter * 1e3 / mops)
    kernel = one.model in KERNEL_MODELS
    sleeps = one.factors["intervention"] == "sleep"
    used = int(str(one.factors["cpus_used"]))
    told: dict[str, Any] = {
        "n": int(one.probe["threads"]),
        "nvcsw": (100 if sleeps else 0) if kernel else None,
        "nivcsw": _involuntary(one) if kernel else None,
        "cpus": used,
        "wall_ns": wall_ns,
    }
    if one.model == "kthread":
        told |= {"pids": range(1767, 1771), "tids": range(1767, 1771)}
    elif not kernel:
        told |= {"tids": range(4)}
    carrier = CarrierRecord(
        index=0, tid=1402, cpu=0, nvcsw=1, nivcsw=2, utime_ns=wall_ns, stime_ns=0, cpu_ns=wall_ns
    )
    return sample(
        one,
        values={
            "wall_ns": wall_ns,
            "counter": counter,
            "expected": counter,
            "pid": 1401,
            "switches": 0 if kernel else 4 if one.factors["intervention"] == "none" else 800,
            "minflt": 5,
            "majflt": 0,
            **(values or {}),
        },
        threads=threads(**{**told, **(threads_of or {})}),
        carriers=() if kernel else (carrier,),
        detail={"policy": one.probe["policy"], "round_times_ns": _rounds(wall_ns, cv)},
        elapsed_ns=wall_ns + 10_000_000,
        **given,
    )


def _involuntary(one: Trial) -> int:
    """Of each thread, about as the study has it, but that all yields switch."""
    if one.factors["intervention"] == "yield":
        return 100 if one.factors["scenario"] == "B2" or one.model == "kthread" else 95
    return 25 if one.factors["scenario"] == "C1" and one.model == "pthread" else 3


def _rounds(wall_ns: int, cv: float | None) -> list[float]:
    """Times about `wall_ns` whose speeds have this coefficient of variation."""
    if cv is None:
        return [wall_ns]
    return [wall_ns / (1 + cv / 100 * step) for step in (0.6325, -1.2649, 0.0, 1.2649, -0.6325)]


def gantt_sample(
    one: Trial,
    *,
    slots: Sequence[int] = SLOTS,
    finished: Sequence[int] = FINISHED,
    overflow: bool = True,
    **given: Any,
) -> Sample:
    """A good sample of `coroutine-gantt`: by default the published chart."""
    done: dict[int, int] = {}
    drawn = []
    for slot, task in enumerate(slots):
        done[task] = done.get(task, 0) + 1
        drawn.append({"slot": slot, "task": task, "iteration": done[task]})
    detail = {
        "order": one.factors["order"],
        "slots": drawn,
        "finished": list(finished),
        "overflow_detected": overflow,
    }
    values = {"wall_ns": 20_000, "switches": 32, "stacks_created": 5, "stacks_reused": 5}
    return sample(one, values=values, detail=detail, **given)


# ---- scenes ----


class Scene:
    """Trials and their samples, numbered in the order they are added."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.samples: list[Sample] = []
        self.planned: list[tuple[Trial, int]] = []

    def add(self, one: Trial, samples: Iterable[Sample] = (), *, missing: int = 0) -> Scene:
        """The trial with its samples, one a block; `missing` more are planned only."""
        if all(known.id != one.id for known in self.trials):
            self.trials.append(one)
        before = sum(planned.id == one.id for planned, _ in self.planned)
        for block, made in enumerate(samples, start=before):
            seq = len(self.planned)
            self.samples.append(msgspec.structs.replace(made, seq=seq, block=block))
            self.planned.append((one, block))
        self.planned += [(one, 0)] * missing
        return self

    def scenario(
        self,
        case: str,
        model: Model,
        mops: float | Sequence[float] = 100.0,
        *,
        n: int = 10,
        where: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Scene:
        """A trial of `scenarios` with samples about a speed, or at these speeds.

        `where` goes to ``scenario``, the rest to ``scenario_sample``.
        """
        one = scenario(case, model, **(where or {}))
        speeds = spread(mops, n) if isinstance(mops, (int, float)) else mops
        return self.add(one, [scenario_sample(one, speed, **given) for speed in speeds])

    def gantt(
        self,
        order: str = "round-robin",
        model: Model = "coroutine",
        *,
        n: int = 5,
        where: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Scene:
        """A trial of `coroutine-gantt` with `n` samples; `where` as in ``scenario``."""
        one = gantt(order, model, **(where or {}))
        return self.add(one, [gantt_sample(one, **given) for _ in range(n)])

    def groups(self) -> tuple[Group, ...]:
        return group_samples(self.trials, self.samples)

    def experiments(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.experiment for one in self.trials))

    def verdicts(self, claim: str) -> list[Verdict]:
        """What became of the claim, one verdict per place that measured it."""
        return [v for v in claims.judge(self.groups(), self.experiments()) if v.claim == claim]

    def verdict(self, claim: str) -> Verdict:
        """The one verdict on the claim."""
        (found,) = self.verdicts(claim)
        return found

    def manifest(self, **given: Any) -> Manifest:
        engines: list[Engine] = [one.engine for one in self.trials]
        fields: dict[str, Any] = {
            "run_id": "20260101T000000Z-made",
            "created": "2026-01-01T00:00:00+00:00",
            "swtch_version": "0",
            "command": ("swtch", "run"),
            "seed": 1,
            "depth": "normal",
            "repeats": 10,
            "experiments": self.experiments(),
            "models": tuple(dict.fromkeys(one.model for one in self.trials)),
            "engine": engines[0] if engines else "native",
            "trials": tuple(self.trials),
            "plan": tuple(
                Invocation(seq=seq, block=block, trial_id=one.id, seed=1)
                for seq, (one, block) in enumerate(self.planned)
            ),
            "environment": {"cpu": {"model": "Made-up CPU"}, "kernel": {"release": "6.1.0"}},
        }
        return Manifest(**{**fields, **given})

    def write(self, path: Path, **given: Any) -> Path:
        """The scene as a run directory; `given` are fields of its manifest."""
        with Writer.create(path, self.manifest(**given)):
            pass
        lines = [msgspec.json.encode(made) + b"\n" for made in self.samples]
        (path / store.SAMPLES).write_bytes(b"".join(lines))
        return path


def everything(where: Mapping[str, Any], models: tuple[Model, ...], n: int = 6) -> Scene:
    """All scenarios with these models at one place, and the A/A control."""
    scene = Scene()
    for i, case in enumerate(CASES):
        for j, model in enumerate(models):
            speeds = spread(80.0 + 30 * i + 7 * j, n, 0.02 if j % 2 else -0.03)
            scene.scenario(case, model, speeds, where=where)
    return scene.scenario("A", "pthread", spread(80.0, n, 0.03), where={**where, "again": True})


def full() -> Scene:
    """The machine itself and a guest with kthreads, charts, and some that failed."""
    scene = everything({}, USER_MODELS)
    guest = everything(VM, ("pthread", "kthread", "uthread"))
    for one in guest.trials:
        scene.add(one, [s for s in guest.samples if s.trial_id == one.id])
    for order in ("round-robin", "priority", "time-slice"):
        for model in ("coroutine", "ucontext"):
            scene.gantt(order, model, n=3)
    broken = scenario("B2", "pthread")
    return scene.add(broken, [failed(broken), failed(broken), failed(broken, "out of memory")])
