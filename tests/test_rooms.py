# SPDX-License-Identifier: Apache-2.0
"""tools/rooms.py: this tree's calls go one way, and it would notice if they did not."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from built import ROOT

SCRIPT = ROOT / "tools/rooms.py"


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("rooms", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rooms"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


rooms = loaded()

# Two rooms that are right: low offers a function, an object, a hook and a macro.
GOOD = {
    "low/low.h": """\
int low_get(void);
extern int low_count;
extern void (*low_hook)(void);
#define LOW_TWICE() (low_get() + low_get())
""",
    "low/low.c": """\
#include "low/low.h"

int low_count;
void (*low_hook)(void);

static int help(int high_value)
{
	/* high_set() is above; "high_set" too. */
	const char *name = "high_set(1)";

	return name[high_value];
}

int low_get(void)
{
	if (low_hook)
		low_hook();
	return help(low_count);
}
""",
    "high/high.h": """\
#include "low/low.h"

void high_set(int value);
extern int high_value;
""",
    "high/high.c": """\
#include "high/high.h"

int high_value;

static void help(void)
{
	high_set(LOW_TWICE());
}

__attribute__((noinline)) void
high_set(int value)
{
	low_count = value;
	low_hook = help;
	high_value = low_get();
}
""",
}

Checker = Callable[..., Any]


@pytest.fixture
def checked(tmp_path: Path) -> Checker:
    """What is found in a tree of two rooms with some files changed or added."""

    def check(changes: dict[str, str] | None = None, **options: Any) -> Any:
        for name, text in {**GOOD, **(changes or {})}.items():
            path = tmp_path / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        options.setdefault("floors", (("low",), ("high",)))
        return rooms.check(tmp_path, rooms.Tree("tree", **options))

    return check


def test_this_tree() -> None:
    ran = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_listing() -> None:
    command = [sys.executable, SCRIPT, "--list", ROOT]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    for tree in rooms.TREES:
        assert f"{tree.folder}, the highest room first" in ran.stdout
        for room in (room for floor in tree.floors for room in floor):
            assert f"\n  {room} " in ran.stdout


@pytest.mark.parametrize("folder", ["probes", "kthread_perf"])
def test_the_page_shows_the_listing(folder: str) -> None:
    """Who uses whom, without how often."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    (tree,) = (tree for tree in rooms.TREES if tree.folder == folder)
    listing = "".join(f"  {line}\n" for line in rooms.check(ROOT, tree).listing[1:])
    assert re.sub(r" \d+", "", listing) in page


def test_good(checked: Checker) -> None:
    found = checked()
    assert found.failures == []
    assert found.listing[1:] == [
        "  high  low 3",
        "  low   -",
        "  low_hook: low has it, high sets it",
    ]


UP = {
    "call": "int low_up(void)\n{\n\thigh_set(1);\n\treturn 0;\n}\n",
    "address": "int low_up(void)\n{\n\tlow_hook = (void *)high_set;\n\treturn 0;\n}\n",
    "table": "void (*const table[])(int) = {\n\thigh_set,\n};\n",
    "declared on the spot": "void high_set(int);\n",
    "macro": "#define UP() \\\n\thigh_set(1)\n",
}


@pytest.mark.parametrize("how", UP)
def test_up(checked: Checker, how: str) -> None:
    (failure,) = checked({"low/up.c": "\n" + UP[how]}).failures
    line = 1 + next(n for n, text in enumerate(UP[how].split("\n"), 1) if "high_set" in text)
    expected = "low uses high_set, and high, where it is, is not below"
    assert failure == f"tree/low/up.c:{line}: {expected}"


def test_up_to_an_object(checked: Checker) -> None:
    changes = {"low/up.c": "int low_up(void)\n{\n\treturn high_value + 1;\n}\n"}
    assert "low uses high_value" in "".join(checked(changes).failures)


def test_up_from_a_header(checked: Checker) -> None:
    inline = "static inline void low_up(void)\n{\n\thigh_set(1);\n}\n"
    assert "low/up.h:3: low uses high_set" in "".join(checked({"low/up.h": inline}).failures)


def test_up_from_assembly(checked: Checker) -> None:
    assert "low uses high_set" in "".join(checked({"low/up.S": "\tcall\thigh_set\n"}).failures)


def test_down_to_assembly(checked: Checker) -> None:
    changes = {"low/up.S": "\t.globl\tlow_asm\nlow_asm:\n\tret\n"}
    changes["high/asm.c"] = "void high_asm(void)\n{\n\tlow_asm();\n}\n"
    found = checked(changes)
    assert (found.failures, found.listing[1]) == ([], "  high  low 4")


def test_up_by_an_include(checked: Checker) -> None:
    changes = {"low/up.h": '\n#include "high/high.h"\n'}
    (failure,) = checked(changes).failures
    assert failure == "tree/low/up.h:2: low includes high/high.h, and high is not below"


def test_a_header_speaks_for_its_own_room(checked: Checker) -> None:
    (failure,) = checked({"low/up.h": "void\nhigh_set(int value);\n"}).failures
    assert failure == "tree/low/up.h:2: low declares high_set, which high defines"


def test_on_one_floor_they_do_not_know_each_other(checked: Checker) -> None:
    failures = checked(floors=(("low", "high"),)).failures
    assert any("high uses low_get" in failure for failure in failures)
    assert any("high includes low/low.h" in failure for failure in failures)


def test_declared(checked: Checker) -> None:
    changes = {"low/up.c": UP["call"]}
    found = checked(changes, declared={("low/up.c", "high_set"): "for a test"})
    assert found.failures == []
    assert "  declared: low/up.c uses high_set: for a test" in found.listing


def test_declared_for_nothing(checked: Checker) -> None:
    (failure,) = checked(declared={("low/low.c", "high_set"): "for a test"}).failures
    assert failure == "tree/low/low.c: need not be declared any more: high_set"


def test_a_file_in_no_room(checked: Checker) -> None:
    changes = {"cellar/rat.c": "", "stray.c": ""}
    assert checked(changes).failures == [
        "tree/cellar/rat.c: it is in none of the tree's rooms",
        "tree/stray.c: it is in none of the tree's rooms",
    ]
    assert (
        checked(changes, floors=(("low",), ("high",), ("stray",)), apart=("cellar",)).failures == []
    )


def test_a_room_that_is_gone(checked: Checker) -> None:
    assert checked(floors=(("low",), ("high",), ("attic",))).failures == [
        "tree: it has no room attic"
    ]


def test_names_that_are_not_calls(checked: Checker) -> None:
    source = """\
struct high_set {
	int high_value;
};

static struct {
	int high_value;
} mine;

static void high_get(void)
{
}

int low_more(struct high_set *p, int high_set)
{
	high_get();
	return p->high_value + mine.high_value + high_set;
}
"""
    changes = {"low/more.c": source, "high/more.c": "void high_get(void)\n{\n}\n"}
    assert checked(changes).failures == []


def test_status(tmp_path: Path) -> None:
    """Without any of the trees there is nothing to say; wrong words are 2."""
    run = [sys.executable, SCRIPT]
    empty = subprocess.run([*run, tmp_path], capture_output=True, text=True, check=False)
    assert (empty.returncode, empty.stdout) == (0, "")
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes/stray.c").touch()
    bad = subprocess.run([*run, tmp_path], capture_output=True, text=True, check=False)
    assert bad.returncode == 1
    assert "probes/stray.c: it is in none of the tree's rooms" in bad.stdout
    wrong = subprocess.run([*run, "a", "b"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
