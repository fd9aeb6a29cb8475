# SPDX-License-Identifier: Apache-2.0
"""Reads a page as a browser would, as far as the tests of reports ask about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parts: list[str | Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it, with white space as one blank."""
        return " ".join(self.raw.split())

    @property
    def raw(self) -> str:
        return "".join(part if isinstance(part, str) else part.raw for part in self.parts)

    @property
    def children(self) -> list[Element]:
        return [part for part in self.parts if isinstance(part, Element)]

    def all(self, *tags: str) -> list[Element]:
        """Every element of these tags in it, in the page's order; all without tags."""
        found: list[Element] = []
        for child in self.children:
            if not tags or child.tag in tags:
                found.append(child)
            found += child.all(*tags)
        return found

    def one(self, tag: str) -> Element:
        (found,) = self.all(tag)
        return found

    def id(self, name: str) -> Element:
        (found,) = (e for e in self.all() if e.attributes.get("id") == name)
        return found


class _Reader(HTMLParser):
    """Builds the tree; a tag that closes another than the last opened is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice: {names}"
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:80]}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data[:80]}")


def read(text: str) -> Element:
    """The tree of a page; fails where tags are not balanced."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], f"never closed: {[e.tag for e in reader.open[1:]]}"
    return reader.root


def tables(root: Element) -> list[list[list[str]]]:
    """The cells of every table, row by row with its head."""
    return [
        [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]
        for table in root.all("table")
    ]
