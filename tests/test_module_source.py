# SPDX-License-Identifier: Apache-2.0
"""What a kernel maintainer would say of the module's sources, as rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE = sorted((ROOT / "kthread_perf").glob("*.c"))
# What of the workloads compiles in the kernel, too: the Makefile of the module copies it.
WORKLOADS = [
    path
    for path in sorted((ROOT / "workloads").glob("*.[ch]"))
    if not path.name.startswith(("test_", "digest"))
]

FUNCTION = re.compile(
    r"^(?!#|typedef|struct \w+ \{|extern)[a-z][\w \t*]*?\b(\w+)\([^;{]*\)\s*\{", re.M
)


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def for_the_kernel(text: str) -> str:
    """What the preprocessor leaves of it there, as far as __KERNEL__ decides."""
    kept, stack = [], []
    for line in without_comments(text).splitlines():
        word = line.replace(" ", "")
        if word.startswith("#if"):
            known = {"#ifdef__KERNEL__": True, "#ifndef__KERNEL__": False}
            stack.append(known.get(word))
        elif word.startswith("#else"):
            stack[-1] = None if stack[-1] is None else not stack[-1]
        elif word.startswith("#endif"):
            stack.pop()
        elif False not in stack:
            kept.append(line)
    return "\n".join(kept)


@pytest.mark.parametrize("path", MODULE, ids=lambda path: path.name)
def test_every_function_has_a_name_that_a_stack_trace_can_show(path: Path) -> None:
    names = FUNCTION.findall(without_comments(path.read_text()))
    assert names or path.name == "trace.c"
    assert [name for name in names if not name.startswith("kperf_")] == []


@pytest.mark.parametrize("path", [*MODULE, *WORKLOADS], ids=lambda path: path.name)
def test_in_the_kernel_atomics_are_the_kernels(path: Path) -> None:
    assert not re.search(r"\b__(atomic|sync)_", for_the_kernel(path.read_text()))


@pytest.mark.parametrize("path", MODULE, ids=lambda path: path.name)
def test_json_is_written_in_one_place(path: Path) -> None:
    quoted = re.findall(r'"(?:[^"\\\n]|\\.)*"', without_comments(path.read_text()))
    keys = [text for text in quoted if re.search(r'\\":|\\",|[{,]\\"', text)]
    assert bool(keys) == (path.name == "json.c"), keys


def test_what_is_left_for_the_kernel() -> None:
    text = "a\n#ifdef __KERNEL__\nb\n#ifdef X\nc\n#else\nd\n#endif\n#else\ne\n#endif\nf // g\n"
    assert for_the_kernel(text).split() == ["a", "b", "c", "d", "f"]
    assert for_the_kernel("#ifndef __KERNEL__\na\n#else\nb\n#endif").split() == ["b"]
