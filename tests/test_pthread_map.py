# SPDX-License-Identifier: Apache-2.0
"""docs/runtime/pthread-map.md: each function of glibc's threads has its line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from built import ROOT

TOOL = ROOT / "tools" / "pthread_map.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pthread_map", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_table_and_page_are_whole(libuthread_build: Path) -> None:
    library = str(libuthread_build / "libuthread.so")
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check", "--library", library], capture_output=True, text=True
    )
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def failures(tool: ModuleType, table: str, libc: set[str], library: set[str]) -> list[str]:
    rows = [item for item in tool.parse(table) if isinstance(item, tool.Row)]
    return list(tool.failures(rows, libc, library))


EXPORTED = {"uthread_create", "uthread_sem_wait", "uthread_self"}


@pytest.mark.parametrize(
    ("table", "libc", "part"),
    [
        ("pthread_create | = |", {"pthread_create", "pthread_new_np"}, "no line for pthread_new"),
        ("pthread_create | uthread_make |", {"pthread_create"}, "in no public header"),
        ("pthread_create | uthread_detach |", {"pthread_create"}, "not exported"),
        ("pthread_create | - |", {"pthread_create"}, "say why"),
        ("pthread_create | = |\npthread_create | = |", set(), "another line"),
    ],
)
def test_what_is_wrong_is_said(tool: ModuleType, table: str, libc: set[str], part: str) -> None:
    found = failures(tool, table, libc, EXPORTED)
    assert len(found) == 1, found
    assert part in found[0]


def test_what_is_right_is_left_alone(tool: ModuleType) -> None:
    table = "# a comment\n\n## Threads\n\nA sentence.\n\npthread_create | = | differs\n"
    libc = {"pthread_create", "malloc", "__pthread_key_create"}
    assert failures(tool, table, libc, EXPORTED) == []
    page = tool.page(list(tool.parse(table)))
    assert "| `pthread_create` | `uthread_create` | differs |" in page
    assert "A sentence.\n\n| glibc |" in page


def test_a_line_of_another_form_is_an_error(tool: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"pthread-map.txt:1: "):
        list(tool.parse("pthread_create | ="))
