# SPDX-License-Identifier: Apache-2.0
"""tools/coverage.py: the rule covers what it says on recorded noise, in a short form.

Seeded, so each figure here is the same each time. docs/experiments/statistics.md has what
many draws give.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built import ROOT

from swtch import spending, store
from swtch.analysis import effects

SCRIPT = ROOT / "tools/coverage.py"


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("swtch_coverage", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["swtch_coverage"] = module
    spec.loader.exec_module(module)
    return module


tool = loaded()


@pytest.fixture(scope="module")
def noise() -> Any:
    return tool.load(tool.NOISE)


def test_a_thousand_pairs_of_ten_blocks_were_recorded(noise: Any) -> None:
    assert set(noise) == set(tool.KINDS)
    assert sum(blocks.shape[1] // 2 for blocks in noise.values()) == 1000
    assert all(blocks.shape[0] == 10 and blocks.min() > 0 for blocks in noise.values())
    assert tool.NOISE.stat().st_size < 200_000


@pytest.mark.parametrize("n", [6, 8, 10])
def test_real_pairs_are_called_different_in_no_more_than_five_of_a_hundred(
    noise: Any, n: int
) -> None:
    counts = tool.pairs(noise, n)
    called, of = (sum(count[i] for count in counts.values()) for i in (0, 1))
    assert of == 1000 and 0 < called <= 50


def test_five_blocks_call_nothing(noise: Any) -> None:
    assert all(called == 0 for called, _ in tool.pairs(noise, 5).values())


@pytest.mark.parametrize("n", tool.SIZES)
def test_the_rule_covers_what_it_says(noise: Any, n: int) -> None:
    rows = tool.coverage(noise, n, 2400, tool.SEED, {"ranks": tool.by_ranks})
    assert 0.93 <= rows[:, 0, 0].mean() <= 0.97


@pytest.mark.parametrize("n", [10, 20])
def test_the_rule_is_narrower_than_the_one_before(noise: Any, n: int) -> None:
    rules = {"now": tool.by_ranks, "before": tool.by_bootstrap}
    widths = tool.coverage(noise, n, 64, tool.SEED, rules)[:, :, 1]
    assert np.median(widths[:, 0]) < np.median(widths[:, 1])
    assert (widths[:, 0] < widths[:, 1]).mean() > 0.5


def test_looks_are_paid_for_by_their_level(noise: Any) -> None:
    corrected = 1 - spending.ERROR / len(spending.LOOKS)
    often, paid = (
        tool.looks(noise, spending.LOOKS, level, 2000, tool.SEED)
        for level in (effects.LEVEL, corrected)
    )
    assert often > 0.07 and paid <= 0.05
    assert effects.least(corrected) == spending.LOOKS[0]


def test_the_same_seed_draws_the_same(noise: Any) -> None:
    one, other, third = (
        tool.coverage(noise, 6, 40, seed, {"ranks": tool.by_ranks}) for seed in (1, 1, 2)
    )
    assert (one == other).all() and (one != third).any()


def test_drift_is_of_both_sides(noise: Any) -> None:
    """The rule sees the ratio of a block and not the drift; the medians see it."""
    constant = np.ones((10, 8))
    a, b = tool.draw(np.random.default_rng(3), constant, constant, 12)
    assert a == b and max(a) > min(a)
    assert tool.by_ranks(a, b) == (1.0, 1.0)


def test_what_was_measured_is_kept_and_counted(tmp_path: Path, capsys: Any) -> None:
    """One pair of each kind and two blocks of it, on this machine."""
    run = tmp_path / "run"
    assert tool.main(["measure", str(run), "--pairs", "1", "--blocks", "2"]) == 0
    assert tool.main(["measure", str(run)]) == 0  # nothing is left
    capsys.readouterr()
    assert tool.main(["keep", str(run)]) == 0
    (tmp_path / "noise.json").write_text(capsys.readouterr().out)
    origin = json.loads((tmp_path / "noise.json").read_text())["origin"]
    assert origin["cpus"] >= 1 and 0 <= origin["steal"] < 1
    small = tool.load(tmp_path / "noise.json")
    assert {blocks.shape for blocks in small.values()} == {(2, 2)}
    # Cut in the second block, the first is kept.
    lines = (run / store.SAMPLES).read_text().splitlines(keepends=True)
    (run / store.SAMPLES).write_text("".join(lines[:-1]))
    assert tool.main(["keep", str(run)]) == 0
    (tmp_path / "cut.json").write_text(capsys.readouterr().out)
    assert {blocks.shape for blocks in tool.load(tmp_path / "cut.json").values()} == {(1, 2)}


def test_what_is_no_run_is_one_line(tmp_path: Path, capsys: Any) -> None:
    assert tool.main(["keep", str(tmp_path / "none")]) == 5
    assert capsys.readouterr().err.startswith("coverage.py: ")


@pytest.mark.parametrize("wrong", [["measure"], ["table", "RUN"], ["draw"]])
def test_a_slip_is_one_line(wrong: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.main(wrong)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
