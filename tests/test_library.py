# SPDX-License-Identifier: Apache-2.0
"""libuthread from outside: its headers stand alone, and no name of its inside is seen."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from built import INCLUDE, LIBRARY, declared

HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))
C = ("c99", "c11", "c17", "gnu11", "c2x")
CXX = ("c++11", "c++14", "c++17", "c++20", "c++23")


def compiler(language: str) -> list[str]:
    variable, usual = ("CC", "gcc") if language == "c" else ("CXX", "g++")
    return shlex.split(os.environ.get(variable) or usual)


def run(command: list[str], source: str = "") -> str:
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- headers ----


@pytest.mark.parametrize("standard", [*C, *CXX])
@pytest.mark.parametrize("header", HEADERS)
def test_header_stands_alone(header: str, standard: str) -> None:
    """First in a file, twice, in every standard, with every warning an error."""
    language = "c++" if standard in CXX else "c"
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Werror"]
    flags += ["-Wold-style-cast"] if language == "c++" else ["-Wstrict-prototypes"]
    command = [*compiler(language), *flags, "-fsyntax-only", "-I", str(INCLUDE), "-x", language]
    # Behind the headers: a file that is otherwise empty is not C.
    source = f"#include <{header}>\n#include <{header}>\nint the_end;\n"
    run([*command, "-"], source=source)


def test_static_initialisers_are_constant_in_both_languages() -> None:
    found = [
        match
        for header in INCLUDE.rglob("*.h")
        for match in re.findall(r"#define (UTHREAD_\w+_INITIALIZER)(\()?", header.read_text())
    ]
    assert len(found) >= 4
    source = "#include <uthread.h>\n"
    for name, arguments in found:
        kind = "uthread_" + name.removeprefix("UTHREAD_").partition("_INITIALIZER")[0].lower()
        kind = kind if not kind.endswith("_mutex") else "uthread_mutex"
        value = f"{name}(3)" if arguments else name
        source += f"extern {kind}_t a_{name}; {kind}_t a_{name} = {value};\n"
    for language in ("c", "c++"):
        flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(INCLUDE)]
        run([*compiler(language), *flags, "-x", language, "-"], source=source)


# ---- names ----


def interposed() -> set[str]:
    """The names of libc's that the map lists one by one."""
    listed = re.findall(r"^\t([A-Za-z0-9_]+);$", (LIBRARY / "src/libuthread.map").read_text(), re.M)
    return {name for name in listed if not name.startswith(("uthread_", "coroutine_"))}


# For debuggers (thread/debug.c), no header has it.
FOR_DEBUGGERS = {"uthread_debug"}


def defined(*options: str) -> set[str]:
    lines = run(["nm", "--defined-only", *options]).splitlines()
    return {fields[2] for fields in map(str.split, lines) if len(fields) == 3}


def test_shared_library_has_the_headers_functions_and_no_more(libuthread_build: Path) -> None:
    expected = declared() | interposed() | FOR_DEBUGGERS
    assert defined("-D", str(libuthread_build / "libuthread.so")) == expected


def test_static_library_has_the_headers_functions_and_no_more(libuthread_build: Path) -> None:
    expected = declared() | interposed() | FOR_DEBUGGERS
    assert defined("-g", str(libuthread_build / "libuthread.a")) == expected


@pytest.mark.parametrize("name", ["libuthread.so", "preload/libuthread-pthread.so"])
def test_small_variables_lie_together(libuthread_build: Path, name: str) -> None:
    """On few pages, each of which a process and the child of a fork take a fault for."""
    sizes = {}
    for line in run(["nm", "-S", "--defined-only", str(libuthread_build / name)]).splitlines():
        address, size, kind, *_ = [*line.split(), ""]
        if kind in ("b", "B") and int(address, 16) > 4096:  # not thread-local ones
            sizes[int(address, 16)] = int(size, 16)
    large = {address for address, size in sizes.items() if size >= 4096}
    small = sizes.keys() - large
    assert large and max(small) - min(small) < 64 * 1024
    assert not [hex(address) for address in large if min(small) < address < max(small)]


def test_static_library_leaves_names_to_the_program(libuthread_build: Path, tmp_path: Path) -> None:
    """Names that are global between the library's own files."""
    source = tmp_path / "names.c"
    source.write_text(
        """#include <uthread.h>
int rt = 1;
long now_ns(void) { return 2; }
int global_push(void) { return 3; }
static void *fn(void *arg) { return arg; }
int main(void)
{
	uthread_t t;
	void *value = 0;

	uthread_create(&t, 0, fn, &rt);
	uthread_join(t, &value);
	return !(value == &rt && rt == 1 && now_ns() == 2 && global_push() == 3);
}
"""
    )
    program = tmp_path / "names"
    static = [str(libuthread_build / "libuthread.a"), "-pthread", "-ldl"]
    run([*compiler("c"), "-I", str(INCLUDE), "-o", str(program), str(source), *static])
    run([str(program)])


CLEANUP = r"""
#include <fcntl.h>
#include <uthread.h>
static int cleaned, file;
static void clean(void *arg) { *(int *)arg = 1; }
static void *reads(void *arg)
{
	char buf[1];

	uthread_cleanup_push(clean, &cleaned);
	while (uthread_read(file, buf, 1) >= 0)
		;
	uthread_cleanup_pop(0);
	return arg;
}
int main(void)
{
	uthread_t t;
	void *value;

	file = open("/proc/self/exe", O_RDONLY);
	if (uthread_create(&t, NULL, reads, NULL) || uthread_cancel(t) || uthread_join(t, &value))
		return 1;
	return value != UTHREAD_CANCELED || !cleaned;
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_static_library_unwinds_beside_handlers_of_the_program(
    libuthread_build: Path, tmp_path: Path, language: str
) -> None:
    """Both have a personality routine, and each must find it."""
    program = tmp_path / "program"
    archive = libuthread_build / "libuthread.a"
    command = [*compiler(language), "-fexceptions", "-I", str(INCLUDE), "-x", language, "-"]
    links = ["-x", "none", str(archive), "-pthread", "-ldl", "-o", str(program)]
    run([*command, *links], source=CLEANUP)
    run([str(program)])


def test_wholly_static_program_is_told_so(libuthread_build: Path, tmp_path: Path) -> None:
    """By a line before it begins: it crashed in the first function that stands before libc's."""
    program = tmp_path / "program"
    command = [*compiler("c"), "-static", "-I", str(INCLUDE), "-x", "c", "-"]
    links = ["-x", "none", str(libuthread_build / "libuthread.a"), "-pthread", "-ldl"]
    run([*command, *links, "-o", str(program)], source=CLEANUP)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    assert done.stderr.startswith("uthread: a program that is wholly static is not supported")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 127
