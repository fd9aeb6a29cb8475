# SPDX-License-Identifier: Apache-2.0
"""Code that is printed and is no whole program (those are ``test_docs.py``'s).

- A part of a program compiles where a reader would put it, with warnings as errors.
- A structure in the manual has the members of the header's, in their order.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass

import pytest
from built import INCLUDE
from test_docs import MANUAL, PAGES, blocks

C_LINE = re.compile(r"[;{]$", re.MULTILINE)  # no output has one


@dataclass(frozen=True)
class Around:
    """What a reader has around the part."""

    before: str
    after: str = ""


AROUND = {
    "docs/runtime/channels.md": Around(
        """#include <errno.h>
#include <poll.h>
#include <uthread.h>
void part(uthread_chan_t requests, uthread_chan_t log, uthread_chan_t done, int signal_fd,
          void *request, void *line, struct timespec deadline);
void part(uthread_chan_t requests, uthread_chan_t log, uthread_chan_t done, int signal_fd,
          void *request, void *line, struct timespec deadline)
{
""",
        "}\n",
    ),
    "docs/runtime/cxx.md": Around(
        """#include <optional>
#include <poll.h>
#include <string>
#include <uthread.hpp>
namespace ut = uthreads;
struct request {};
void part(ut::channel<request> &requests, ut::channel<std::string> &log, std::string line, int fd);
void part(ut::channel<request> &requests, ut::channel<std::string> &log, std::string line, int fd)
{
""",
        "}\n",
    ),
    "docs/man/uthread_cond.3.scd": Around(
        """#include <uthread.h>
extern int ready;
extern uthread_mutex_t lock;
extern uthread_cond_t changed;
void part(void);
void part(void)
{
""",
        "}\n",
    ),
    "docs/man/uthread_dump.3.scd": Around(
        """#include <signal.h>
#include <unistd.h>
#include <uthread.h>
""",
        "void (*const used)(int) = on_abort;\n",
    ),
}

PRINTED = [
    (page, block.language, block.source)
    for page in (*PAGES, *MANUAL)
    for block in blocks(page)
    if "int main" not in block.source
    and (block.language in ("c", "c++") if page in PAGES else C_LINE.search(block.source))
]
STRUCTS = [(page, source) for page, _, source in PRINTED if re.match(r"struct \w+ \{", source)]
PARTS = [each for each in PRINTED if (each[0], each[2]) not in STRUCTS]


def members(code: str) -> list[str]:
    """The words of a structure, without comments."""
    return re.findall(r"\w+|[^\w\s]", re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL))


def test_parts_and_structures_are_found() -> None:
    """Guards the search itself."""
    assert {page for page, _, _ in PARTS} == set(AROUND)
    assert len(STRUCTS) >= 5


@pytest.mark.parametrize(("page", "language", "source"), PARTS, ids=[page for page, _, _ in PARTS])
def test_part_compiles_as_printed(page: str, language: str, source: str) -> None:
    variable, usual = ("CC", "gcc") if language == "c" else ("CXX", "g++")
    compiler = shlex.split(os.environ.get(variable) or usual)
    flags = ["-Wall", "-Werror", "-fsyntax-only", "-I", str(INCLUDE), "-x", language, "-"]
    around = AROUND[page]
    done = subprocess.run(
        [*compiler, *flags],
        input=around.before + source + around.after,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("page", "source"), STRUCTS, ids=[f"{page}:{source.split()[1]}" for page, source in STRUCTS]
)
def test_structure_is_the_header_s(page: str, source: str) -> None:
    name = source.split()[1]
    for header in INCLUDE.rglob("*.h"):
        found = re.search(
            rf"^struct {name} \{{.*?^\}};$", header.read_text(), re.DOTALL | re.MULTILINE
        )
        if found:
            assert members(source) == members(found[0]), page
            return
    raise AssertionError(f"{page}: no header has struct {name}")
