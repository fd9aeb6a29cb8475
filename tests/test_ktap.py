# SPDX-License-Identifier: Apache-2.0
"""The module's test scripts say KTAP, and who reads it believes nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from test_kernel import SOURCE, results

SHELL = """
PROC=/nowhere
. "$1"
unload() { :; }
dmesg() { :; }
%s
finish script
"""


def script(body: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """lib.sh with tests of our own, without a kernel."""
    shell = [shutil.which("busybox") or "", "sh"] if shutil.which("busybox") else ["sh"]
    return subprocess.run(
        [*shell, "-c", SHELL % body, "script", str(SOURCE / "lib.sh")],
        capture_output=True,
        text=True,
        timeout=60,
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )


def test_results_are_numbered_and_the_totals_are_theirs(tmp_path: Path) -> None:
    done = script("same one 1 1; ok two 'some more'; check three true", tmp_path)
    assert done.stdout.splitlines() == [
        "KTAP version 1",
        "ok 1 one",
        "# two: some more",
        "ok 2 two",
        "ok 3 three",
        "ok 4 script_log_is_clean",
        "# Totals: pass:4 fail:0 xfail:0 xpass:0 skip:0 error:0",
    ]
    assert done.returncode == 0
    assert results(done.stdout) == dict.fromkeys(("one", "two", "three", "script_log_is_clean"), "")


def test_a_failure_says_why_in_one_line_before(tmp_path: Path) -> None:
    done = script("same one 1 '2\n3'; same two 1 1", tmp_path)
    assert done.returncode == 1
    found = results(done.stdout)
    assert found["one"].startswith("one: want 1, got 2 3")
    assert found["two"] == ""


@pytest.mark.parametrize(
    "output",
    [
        "",
        "ok 1 one\n",
        "KTAP version 1\nok 1 one\n",
        "KTAP version 1\nok 2 one\n# Totals: pass:1 fail:0 xfail:0 xpass:0 skip:0 error:0\n",
        "KTAP version 1\nok 1 one\n# Totals: pass:2 fail:0 xfail:0 xpass:0 skip:0 error:0\n",
        "KTAP version 1\nsh: what?\n# Totals: pass:0 fail:0 xfail:0 xpass:0 skip:0 error:0\n",
        (
            "KTAP version 1\nok 1 one\nnot ok 2 one\n"
            "# Totals: pass:1 fail:1 xfail:0 xpass:0 skip:0 error:0\n"
        ),
    ],
)
def test_what_is_no_ktap_or_was_cut_short_is_a_fault(output: str) -> None:
    with pytest.raises(AssertionError):
        results(output)
