# SPDX-License-Identifier: Apache-2.0
"""The documentation against the tree: programs run, links lead somewhere, names agree.

- Every C and C++ program printed on a page or in the manual compiles as printed, with warnings
  as errors, and ends with status 0 when it is linked with the static library.
- Every relative link and anchor points at something.
- What the code can be told (environment, commands, options) and what it says
  (exit codes, verdicts, gates) is what the manual and the pages say it is.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import click
import pytest
from built import LIBRARY, ROOT, declared, macros

from swtch import errors, experiments
from swtch.analysis import gates
from swtch.cli import cli
from swtch.commands import vm
from swtch.records import VerdictName

DOCS = ROOT / "docs"
MAN = DOCS / "man"

# Named one by one, so that a page that went missing is a failure.
NAMED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "kthread_perf/README.md")
PAGES = (*NAMED, *sorted(str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md")))
MANUAL = tuple(sorted(str(page.relative_to(ROOT)) for page in MAN.glob("*.scd")))

# Set by people and systems for many programs; not ours to document.
CONVENTIONAL = {"COLUMNS", "LD_LIBRARY_PATH", "PATH"}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# ---- programs ----


@dataclass(frozen=True)
class Program:
    page: str
    line: int
    language: str
    source: str


def blocks(page: str) -> Iterator[Program]:
    """The fenced blocks of `page`, as a reader sees them; those of the manual, where a
    backslash is written twice, name no language, and are C if they are code."""
    path = ROOT / page
    if not path.is_file():
        return  # test_page_is_there says so
    content = path.read_text(encoding="utf-8")
    languages = {"": "c"} if path.suffix == ".scd" else {"cpp": "c++"}
    for found in re.finditer(r"^```(\S*)\n(.*?)^```$", content, re.DOTALL | re.MULTILINE):
        line = content.count("\n", 0, found.start()) + 1
        source = re.sub(r"\\(.)", r"\1", found[2]) if path.suffix == ".scd" else found[2]
        yield Program(page, line, languages.get(found[1], found[1]), source)


def programs(page: str) -> Iterator[Program]:
    """The fenced blocks of `page` that are whole programs."""
    for block in blocks(page):
        if block.language in ("c", "c++") and "int main" in block.source:
            yield block


PROGRAMS = [program for page in (*PAGES, *MANUAL) for program in programs(page)]


def test_pages_have_programs() -> None:
    """Guards the search itself: these pages promise a program each."""
    promised = {"README.md", *(f"docs/runtime/{page}.md" for page in ("README", "porting", "sync"))}
    promised.add("docs/man/uthread.7.scd")
    assert promised <= {program.page for program in PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p.page}:{p.line}")
def test_program_compiles_as_printed_and_runs(
    program: Program, libuthread_build: Path, tmp_path: Path
) -> None:
    if program.language == "c":
        compiler = shlex.split(os.environ.get("CC") or "gcc")
    else:
        compiler = shlex.split(os.environ.get("CXX") or "g++")
    source = tmp_path / ("program.c" if program.language == "c" else "program.cc")
    source.write_text(program.source)
    output = tmp_path / "program"
    flags = ["-Wall", "-Wextra", "-Werror", "-I", str(LIBRARY / "include"), "-o", str(output)]
    libraries = [str(libuthread_build / "libuthread.a"), "-pthread", "-ldl"]
    made = subprocess.run(
        [*compiler, *flags, str(source), *libraries], capture_output=True, text=True, timeout=120
    )
    assert made.returncode == 0, made.stderr
    for workers in ({}, {"UTHREAD_WORKERS": "1"}):
        ran = subprocess.run(
            [str(output)],
            env={**os.environ, **workers},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr


# ---- links ----


def prose(content: str) -> str:
    """`content` without code: fenced, indented and inline."""
    content = re.sub(r"^```.*?^```$", "", content, flags=re.DOTALL | re.MULTILINE)
    content = re.sub(r"(?<=\n)\n(?: {4,}|\t)\S.*(?:\n(?: {4,}|\t)?.*)*?(?=\n\S|\Z)", "\n", content)
    return re.sub(r"`[^`\n]+`", "`code`", content)


def slug(heading: str) -> str:
    """The anchor that code hosts give a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(content: str) -> set[str]:
    """All anchors of a page; equal headings are numbered."""
    content = re.sub(r"^```.*?^```$", "", content, flags=re.DOTALL | re.MULTILINE)
    seen: dict[str, int] = {}
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", content, flags=re.MULTILINE):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", content))


def links(content: str) -> list[str]:
    found = re.findall(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)", content)
    found += re.findall(r"^\[[^\]]+\]:\s*(\S+)", content, flags=re.MULTILINE)
    return found + re.findall(r"<(?:img|a)\s[^>]*(?:src|href)=\"([^\"]+)\"", content)


def broken(page: str, content: str) -> list[str]:
    """What is wrong with the links of `content`, the text of `page`."""
    wrong = []
    for link in links(prose(content)):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # another site's, or mail
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if path.startswith("/") or not target.resolve().is_relative_to(ROOT):
            wrong.append(f"{link}: leads out of the tree")
        elif not target.exists():
            wrong.append(f"{link}: there is no such file")
        elif anchor:
            own = content if not path else target.read_text(encoding="utf-8")
            if target.suffix != ".md" or anchor not in anchors(own):
                wrong.append(f"{link}: there is no such heading")
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_page_is_there(page: str) -> None:
    assert text(page).startswith("# ")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert broken(page, text(page)) == []


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("[a](README.md) [b](../docs/architecture.md#words)", 0),
        ("[a](#here)\n\n## Here\n", 0),
        ("[a](#here-1)\n\n## Here\n\n## Here\n", 0),
        ("[two\nlines](nowhere.md)", 1),
        ("![picture](nowhere.png)", 1),
        ('<img src="nowhere.png">', 1),
        ("[a]\n\n[a]: nowhere.md\n", 1),
        ("[a](../docs/architecture.md#no-such-heading)", 1),
        ("[a](../../elsewhere.md)", 1),
        ("`[a](nowhere.md)` [b](https://example.org/#x)", 0),
        ("```\n[a](nowhere.md)\n```\n", 0),
        ("text\n\n    [a](nowhere.md)\n\n[b](gone.md)\n", 1),
    ],
)
def test_broken_links_are_found(content: str, count: int) -> None:
    assert len(broken("kthread_perf/README.md", content)) == count


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What works, and how", "what-works-and-how"),
        ("Trial `scenario`", "trial-scenario"),
        ("The probe protocol (schema 1)", "the-probe-protocol-schema-1"),
        ("scenarios: four threads", "scenarios-four-threads"),
    ],
)
def test_slug(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


# ---- names ----


def section(content: str, title: str) -> str:
    """The part of a manual page under `title`."""
    found = re.search(rf"^# {title}\n(.*?)(?=^# |\Z)", content, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]


def man(page: str) -> str:
    return (MAN / f"{page}.scd").read_text(encoding="utf-8")


def unmarked(scdoc: str) -> str:
    return re.sub(r"[*\\_]", "", scdoc)


def manual_environment() -> set[str]:
    names: set[str] = set()
    for page in MAN.glob("*.scd"):
        content = page.read_text(encoding="utf-8")
        if "\n# ENVIRONMENT\n" in content:
            entries = section(content, "ENVIRONMENT")
            names |= set(re.findall(r"^\*([A-Z][A-Z0-9_]*)\*", entries, re.MULTILINE))
    return names


def c_environment(*folders: str) -> set[str]:
    names: set[str] = set()
    for folder in folders:
        for source in (ROOT / folder).rglob("*.c"):
            names |= set(
                re.findall(
                    r"\b(?:secure_)?getenv\(\s*\"(\w+)\"", source.read_text(encoding="utf-8")
                )
            )
    return names


def python_environment(source: str) -> set[str]:
    """What a module reads from os.environ, also by a constant of its own."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def name(node: ast.expr) -> str | None:
        value = constants.get(node.id) if isinstance(node, ast.Name) else None
        value = node.value if isinstance(node, ast.Constant) else value
        return value if isinstance(value, str) else None

    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            if ast.unparse(node.func) in ("os.environ.get", "os.getenv"):
                found.add(name(node.args[0]))
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            found.add(name(node.slice))
    assert None not in found, "an environment variable whose name is computed"
    return {each for each in found if each}


def code_environment() -> set[str]:
    names = c_environment("libuthread/src", "probes", "workloads")
    for source in (ROOT / "swtch").rglob("*.py"):
        names |= python_environment(source.read_text(encoding="utf-8"))
    return names - CONVENTIONAL


def test_environment_is_found_in_code() -> None:
    """Guards the search itself."""
    source = 'A = "X"\nimport os\nos.environ.get(A)\nos.environ["Y"]\nos.getenv("Z")\n'
    assert python_environment(source) == {"X", "Y", "Z"}
    assert {"UTHREAD_TLS", "SWTCH_PROBE_DIR", "XDG_CACHE_HOME"} <= code_environment()


def test_environment_is_in_the_manual_and_in_code() -> None:
    assert manual_environment() == code_environment()


def test_environment_of_the_runtime_is_the_same_everywhere() -> None:
    there = c_environment("libuthread/src") - CONVENTIONAL
    listed = re.compile(r"^(?:\| `| \*   )(UTHREAD_[A-Z_]+)\b", re.MULTILINE)
    for page in ("libuthread/include/uthread.h", "docs/runtime/README.md"):
        assert set(listed.findall(text(page))) == there, page


def options(command: click.Command) -> set[str]:
    found = {word for param in command.params for word in param.opts if word.startswith("--")}
    if isinstance(command, click.Group):
        found = found.union(*(options(each) for each in command.commands.values()))
    return found


@pytest.mark.parametrize(
    ("page", "group", "others"), [("swtch.1", cli, ()), ("swtch-vm.1", vm.group, (cli,))]
)
def test_commands_and_options_are_in_the_manual(
    page: str, group: click.Group, others: tuple[click.Group, ...]
) -> None:
    """``others``: groups whose options the page may speak of, too."""
    content = man(page)
    told = set(re.findall(r"^\*(\w+)\*$", section(content, "COMMANDS"), re.MULTILINE))
    assert told == set(group.commands)
    spoken = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", unmarked(content)))
    assert options(group) <= spoken
    assert spoken <= options(group).union({"--help"}, *(options(other) for other in others))


def test_exit_codes_are_the_same_everywhere() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    table = text("docs/architecture.md").partition("## Exit codes of `swtch`")[2]
    status = section(man("swtch.1"), "EXIT STATUS")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == codes
    assert {int(code) for code in re.findall(r"^\*(\d+)\*$", status, re.MULTILINE)} == codes


def first_column(page: str, heading: str) -> set[str]:
    """The first cells of the first table behind `heading`, without marks."""
    rest = text(page).partition(heading)[2]
    table = re.search(r"^\|[-| ]+\|\n((?:\|.*\n)+)", rest, re.MULTILINE)
    assert table, f"{page}: no table behind {heading}"
    return {row.split("|")[1].strip(" `") for row in table[1].splitlines()}


def test_verdicts_and_gates_are_explained() -> None:
    page = "docs/experiments/README.md"
    assert first_column(page, "## Verdicts") == set(get_args(VerdictName))
    assert first_column(page, "A **gate**") == {gate.name for gate in gates.GATES}


def test_every_experiment_has_a_page() -> None:
    """One that repeats a study is in the index, too; another is one file and one page."""
    index = text("docs/experiments/README.md")
    for name in experiments.names():
        assert (DOCS / "experiments" / f"{name}.md").is_file(), name
        repeats = experiments.get(name).study != experiments.BEYOND
        assert f"[{name}]({name}.md)" in index or not repeats


# ---- functions ----


def test_every_function_has_a_manual_page() -> None:
    listed: set[str] = set()
    for page in MAN.glob("*.3.scd"):
        names = section(page.read_text(encoding="utf-8"), "NAME").partition(" - ")[0]
        listed |= set(re.findall(r"[a-z_0-9]+", names.replace("\\", "")))
    assert listed == declared() | macros()


def test_every_function_is_found_by_man() -> None:
    """By a page of its name, or by a link that is installed."""
    built = set(re.findall(r"'([a-z_0-9]+)(?:\.3)?'", (MAN / "meson.build").read_text()))
    assert declared() | macros() <= built


@pytest.mark.parametrize("page", PAGES)
def test_functions_that_are_named_exist(page: str) -> None:
    named = set(re.findall(r"`((?:uthread|coroutine)_\w+)\([^)`]*\)`", text(page)))
    assert named <= declared() | macros()
