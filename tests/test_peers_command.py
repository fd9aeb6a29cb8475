# SPDX-License-Identifier: Apache-2.0
"""`swtch peers` and the experiment `work`: which rows there are, for whom, and what is said."""

from __future__ import annotations

import pytest

from swtch import experiments
from swtch.commands import peers
from swtch.errors import CannotError, RequestError
from swtch.experiments import Setting, work
from swtch.records import Depth, Trial

BUILT = frozenset(work.MODELS)


def trials(depth: Depth = "normal", cpus: tuple[int, ...] = (0, 1)) -> tuple[Trial, ...]:
    return work.trials(Setting(cpus=cpus, models=work.MODELS, depth=depth))


def test_it_runs_only_if_it_is_named() -> None:
    assert work.EXPERIMENT not in experiments.every()
    assert experiments.get("work") is work.EXPERIMENT
    assert not work.trials(Setting(cpus=(0,), models=work.MODELS, engine="vm"))


@pytest.mark.parametrize("depth", ["quick", "normal", "paper"])
def test_a_row_is_the_same_work_for_everybody(depth: Depth) -> None:
    by_row: dict[work.Row, list[Trial]] = {}
    for trial in trials(depth):
        by_row.setdefault(work.row_of(trial), []).append(trial)
    for of in by_row.values():
        for field in ("work", "threads", "size", "workers", "cpus", "span_ns"):
            assert len({str(trial.probe[field]) for trial in of}) == 1
        named = [work.series_of(trial) for trial in of]
        assert len(set(named)) == len(named)
        assert {"uthread own", "uthread shared"} <= set(named)
    assert {row.work for row in by_row} == set(work.WORKS)
    most = {"quick": 1_000, "normal": 100_000, "paper": 1_000_000}[depth]
    assert max(row.threads for row in by_row) == most


def test_nobody_is_asked_for_what_his_library_has_not() -> None:
    for trial in trials("paper"):
        row = work.row_of(trial)
        assert row.workers == 1 or trial.model in work.SEVERAL
        assert row.threads <= work.MOST.get(trial.model, row.threads)
        assert trial.model not in work.BARE or row.work in work.BARE_WORK


def test_work_and_peers_are_chosen() -> None:
    assert peers.parse_work(None) == work.WORKS
    assert peers.parse_work("mutex, yield") == ("mutex", "yield")
    assert peers.parse_peers((), BUILT) == work.MODELS
    assert peers.parse_peers(("st", "uthread"), BUILT) == ("uthread", "st")
    chosen = peers.narrowed(("mutex",), ("uthread",))
    made = chosen.trials(Setting(cpus=(0,), models=("uthread",)))
    assert [trial.id for trial in made] == [
        f"work/mutex/1/1/uthread/{m}" for m in ("own", "shared")
    ]


def test_a_slip_is_named() -> None:
    with pytest.raises(RequestError, match=r"no work 'yeild'.*Did you mean yield"):
        peers.parse_work("yeild")
    with pytest.raises(RequestError, match="names no work"):
        peers.parse_work(",")
    with pytest.raises(RequestError, match=r"no peer 'bost'.*Did you mean boost"):
        peers.parse_peers(("bost",), BUILT)
    with pytest.raises(CannotError, match=r"st is not built: 'make peers'"):
        peers.parse_peers(("st",), frozenset({"uthread"}))
    with pytest.raises(CannotError, match="run 'make peers'"):
        peers.parse_peers((), frozenset({"go"}))
