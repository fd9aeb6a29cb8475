# SPDX-License-Identifier: Apache-2.0
"""Text of a run stays text: in the page, in Markdown, on the terminal.

A run is written twice, once with harmless words and once with words that try to
be tags, scripts, links, tables or terminal controls. Whatever the words are, the
page must have the same elements with the same attributes, and show the words.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import page
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console
from synthetic import Scene, failed, scenario, scenario_sample

from swtch import report
from swtch.records import Trial
from swtch.report import legible

Swtch = Callable[..., "subprocess.CompletedProcess[str]"]

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": "\"><img src=http://evil.example/x onerror=alert(1)>'><svg onload=alert(1)>",
    "end of data": "</pre></code></style></title><iframe src=//evil.example>--><!-- ]]>",
    "entity": "&lt;b&gt; &amp; &#60;i&#62; &copy",
    "template": "{{ 7 * 7 }} {% raw %} ${7*7} {# x #}",
    "picture": "![x](http://evil.example/p.png) ![y][z]",
    "link": "[x](javascript:alert(1)) <http://evil.example> https://evil.example www.evil.example",
    "definition": "[x]: http://evil.example",
    "emphasis": "**bold** _it_ __b__ ~~gone~~ *i* a_b_c `code` ``two`` $x^2$ \\* \\",
    "cells": "a | b | c || d \\| e",
    "heading": "# heading",
    "list": "- item",
    "numbered": "1. one",
    "quote": "> quote",
    "rule": "---",
    "fence": "```sh",
    "lines": "one\n# two\r\n- three\n\n<b>four</b>\n| a |\n|---|\u2028five\x85six",
    "rich": "[bold red]x[/] [link=http://evil.example]y[/link] [/nothing]",
    "colour": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://evil.example\x1b\\link\x1b[2J\x1b[H",
    "eight bits": "\x9b31m\x9d0;title\x9c \x90q\x9c",
    "bells": "\x00\x07\x08\x0b\x0c\x7f\r",
    "direction": "\u202egpj.exe\u202c \u2066x\u2069 \u200f",
    "vega": "A' || true || '\" + datum.x; {signal: 'x'}",
}
PLAIN = "words"


def with_text(text: str) -> Scene:
    """A scene that has the text wherever a run can have text."""
    odd = "B2" + text

    def named(one: Trial) -> Trial:
        return msgspec.structs.replace(one, id=one.id + text, note=f"{one.model}{text}")

    scene = Scene()
    for where in ({}, {"engine": "vm", "guest": "6.1" + text}):
        for model in ("pthread", "kthread", "uthread"):
            for again in (False, True) if model == "pthread" else (False,):
                one = named(scenario("A", model, again=again, **where))  # type: ignore[arg-type]
                scene.add(one, [scenario_sample(one)] * 2)
        one = named(scenario("B2", "uthread", **where))  # type: ignore[arg-type]
        one = msgspec.structs.replace(one, factors={**one.factors, "scenario": odd})
        scene.add(one, [scenario_sample(one)] * 2)
        scene.add(one, [failed(one, text)])
    return scene


def write(text: str, path: Path) -> Path:
    return with_text(text).write(
        path,
        run_id="run" + text,
        swtch_version="0" + text,
        created="2026" + text,
        command=("swtch", "run", text),
        environment={
            "cpu": {"model": text},
            "kernel": {"release": text},
            "cpus": {"allowed": text},
            text: [text, {text: text}],
        },
    )


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(PLAIN, tmp_path_factory.mktemp("plain") / "run")
    report.write(path)
    return path


def shape(root: page.Element) -> list[tuple[str, tuple[str, ...]]]:
    """Elements and the names of their attributes, in order, outside of pictures."""
    found = []
    for child in root.children:
        found.append((child.tag, tuple(child.attributes)))
        if child.tag != "svg":
            found += shape(child)
    return found


def rendered(text: str) -> page.Element:
    """Markdown as the strictest and the most generous reader would show it."""
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return page.read(markdown.render(text).replace("<br />", "<br>").replace("<hr />", "<hr>"))


every_text = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)


# Several at once: in HTML nothing depends on where a line begins.
TOGETHER = [" ".join(list(HOSTILE.values())[i : i + 6]) for i in range(0, len(HOSTILE), 6)]


@pytest.mark.parametrize("text", TOGETHER, ids=list(HOSTILE)[::6])
def test_the_page_is_the_same_page(text: str, harmless: Path, tmp_path: Path) -> None:
    path = write(text, tmp_path / "run")
    (file,) = report.write(path, ("html",))
    made, plain = (page.read(f.read_text()) for f in (file, harmless / "report.html"))
    assert shape(made) == shape(plain)
    tags = {element.tag for svg in made.all("svg") for element in svg.all()}
    assert tags <= {"g", "path", "text", "title", "desc", "rect", "line", "defs", "clippath"}
    for element in made.all():
        assert not any(name.startswith("on") for name in element.attributes)
        target = element.attributes.get("href", "#")
        assert re.match(r"#|data:application/(x-ndjson|gzip);base64,|data:,$", target)
    # The words are there to be read: in a title, a table, an error, the command, a picture.
    shown = " ".join(legible.text(text).split())
    assert shown in made.one("head").one("title").text
    assert f"1 failed: {shown}" in made.id("gates").text
    assert any(f"B2{shown}" in row for table in page.tables(made) for row in table)
    assert shown in made.one("footer").text
    assert any(f"uthread{shown}" in item.text for item in made.all("li"))
    assert any(shown in f.one("figcaption").text for f in made.all("figure"))
    environment = json.loads(made.one("pre").raw)
    assert environment["cpu"]["model"] == legible.text(text, "\t\n")


@every_text
def test_markdown_is_the_same_page(text: str, harmless: Path, tmp_path: Path) -> None:
    path = write(text, tmp_path / "run")
    made = rendered(report.as_markdown(path))
    assert shape(made) == shape(rendered((harmless / "report.md").read_text()))
    shown = " ".join(legible.text(text).split())
    if shown:
        assert any(f"1 failed: {shown}" in item.text for item in made.all("li"))
        assert any(f"B2{shown}" in row for table in page.tables(made) for row in table)
        assert shown in made.all("p")[-1].text
        assert shown in made.all("p")[0].text


@every_text
def test_no_address_becomes_a_link_of_markdown(text: str, tmp_path: Path) -> None:
    """GitHub makes links of bare addresses; what breaks them is the escape before them."""
    made = report.as_markdown(write(text, tmp_path / "run"))
    outside_code = re.sub(r"(`+).+?\1", "", made.rpartition("\n\n")[0])
    prose = re.sub(r"`[^`]*`", "", outside_code)
    assert not re.search(r"(?<!\\)https?://|(?<!\\)\bwww\.", "\n".join(prose.splitlines()[:-1]))


@every_text
def test_nothing_steers_the_terminal(text: str, tmp_path: Path) -> None:
    path = write(text, tmp_path / "run")
    file = io.StringIO()
    colours = Console(
        file=file, width=200, markup=False, force_terminal=True, color_system="truecolor"
    )
    report.print_run(path, colours)
    said = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())
    assert_plain(said)
    shown = " ".join(legible.text(text).split())
    assert f"1 failed: {shown}" in " ".join(said.split())


def assert_plain(text: str) -> None:
    """Letters, blanks and line ends; nothing a terminal or an eye would obey."""
    for char in set(text) - {"\n"}:
        assert unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp"), repr(char)


@pytest.mark.parametrize("form", ["table", "md", "json", "csv"])
def test_every_format_of_show_is_plain(form: str, swtch: Swtch, tmp_path: Path) -> None:
    text = "".join(HOSTILE[name] for name in ("colour", "eight bits", "bells", "direction"))
    path = write(text, tmp_path / "run")
    done = swtch("show", str(path), "--format", form)
    assert (done.returncode, done.stderr) == (0, "")
    assert_plain(done.stdout)
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert len(rows) == 22
        assert {row["error"] for row in rows} == {"", legible.text(text)}
    if form == "json":
        errors = [e for f in json.loads(done.stdout)["findings"] for e in f["errors"]]
        assert errors == [legible.text(text)] * 2


# ---- any text at all ----

PIECES = [*"ab1 _*`[]()!<>&|#-+=~\\:/.$\"'\n\t\x1b\x9b\u202e", "www", "http:"]
ODD = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(max_examples=400, deadline=None)
@given(cells=st.lists(ODD, min_size=2, max_size=2), line=ODD)
def test_any_text_in_markdown_is_shown_as_it_is(cells: list[str], line: str) -> None:
    cells, line = [legible.text(cell) for cell in cells], legible.text(line)
    table = "\n".join(report._md_table(("a", "b", "c"), [[*cells, "holds"]], strong=2))
    shown = rendered(f"{table}\n\n{report._md_line(line)}\n\n- {report._md_line(line)}\n")
    (_, row) = page.tables(shown)[0]
    assert row == [*(" ".join(cell.split()) for cell in cells), "holds"]
    assert {e.tag for e in shown.all()} <= {
        *("table", "thead", "tbody", "tr", "th", "td", "strong", "p", "ul", "li")
    }
    (item,) = shown.all("li")
    assert item.text == " ".join(line.split())
    assert [p.text for p in shown.all("p")] == [item.text] * bool(item.text)


@settings(max_examples=200, deadline=None)
@given(text=ODD)
def test_any_text_as_code_is_shown_as_it_is(text: str) -> None:
    command = f"swtch {legible.text(text)}".strip()
    shown = rendered(report._md_code(command))
    assert shown.one("code").text == " ".join(command.split())
    assert {e.tag for e in shown.all()} == {"p", "code"}


@given(text=st.text())
def test_legible_text_is_plain_and_says_it_again(text: str) -> None:
    shown = legible.text(text)
    for char in shown:
        assert unicodedata.category(char) not in ("Cc", "Zl", "Zp")
        assert unicodedata.bidirectional(char) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI")
    assert len(shown) == len(text)
    assert legible.text(shown) == shown
    if text.isprintable():
        assert shown == text


def test_legible_pictures() -> None:
    assert legible.text("a\x1b[1mb\x00\x7f\x9bc\nd\te") == "a␛[1mb␀␡�c d e"
    assert legible.text("a\nb\tc\x1b", keep="\n\t") == "a\nb\tc␛"
    assert html.escape(legible.text("ü – “x” 漢")) == "ü – “x” 漢"


def test_a_run_of_plain_text_is_not_touched(harmless: Path) -> None:
    from swtch import store

    run = store.load(harmless)
    assert legible.run(run) == run
    made: Any = legible.run(run)
    assert all(a is b for a, b in zip(made.samples, run.samples, strict=True))
