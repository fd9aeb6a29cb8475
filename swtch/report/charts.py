# SPDX-License-Identifier: Apache-2.0
"""The figures: Altair charts rendered to SVG by vl-convert, without network.

SVG inside the page, not a scripted chart: it opens under a policy that forbids
all scripts, prints, and can be cut out. Text and axes take the page's colour
(``currentColor``), so one picture serves light and dark.

Rejected: Vega in the page (needs ``unsafe-eval``), PNG (blurred on a phone and
in print, two of each for light and dark).
"""

from __future__ import annotations

import importlib
import os
import re
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swtch import threads
from swtch.analysis.findings import Place
from swtch.errors import CannotError

if TYPE_CHECKING:
    import altair as alt

# Readable on white and on near-black; told apart by the colour-blind (Okabe-Ito).
COLOURS = {
    "pthread": "#0072B2",
    "kthread": "#D55E00",
    "process": "#CC79A7",
    "uthread": "#009E73",
    "coroutine": "#E69F00",
    "ucontext": "#8C7AE6",
    "go": "#56B4E9",
    "boost": "#A6761D",
    "tokio": "#C0392B",
    "java": "#7F8C8D",
    "own": "#4E5D9C",
    "context": "#D4AC0D",
    "pth": "#884EA0",
    "st": "#34495E",
    "may": "#E67E22",
    "cpp20": "#16A085",
    "argobots": "#2E86C1",
    "photon": "#B9770E",
    "uthread own": "#009E73",
    "uthread shared": "#58D68D",
}
INK = "#010203"  # stands for currentColor until the SVG is made
WIDTH = 560
# What the engine that draws reserves: addresses, not memory. With fewer it ends the process.
ADDRESSES = 68 << 30
# It opens and starts so many, and two for each CPU; where it may not, it ends the process, too.
DESCRIPTORS = 16
THREADS = 2
# How to do without figures.
REPORT_WITHOUT = "swtch report --format md,json"
# So far apart are labels of an axis from one another, and from the axis' title.
APART = 12
# Numbers of an axis as those of the text: thousands apart by a narrow blank, no comma.
LOCALE = {"decimal": ".", "thousands": "\u202f", "grouping": [3], "currency": ["", ""]}


@dataclass(frozen=True)
class Figure:
    """One picture. ``title`` and ``description`` are for who cannot see it, too."""

    id: str
    title: str
    description: str
    caption: str
    svg: str


def render(chart: alt.TopLevelMixin, name: str, title: str, description: str) -> str:
    from altair.utils import schemapi

    vl_convert = _converter()

    spec = chart.to_dict(validate=schemapi.DEBUG_MODE)
    _dress(spec)
    svg: str = vl_convert.vegalite_to_svg(spec, format_locale=LOCALE)
    svg = svg.replace(INK, "currentColor")
    # A fixed size would overflow a phone; the viewBox keeps the proportions, and the page
    # is told the width at which text has the same size in every picture.
    svg = re.sub(
        r"<svg ([^>]*?)width=\"([\d.]+)\" height=\"[\d.]+\"",
        r'<svg \1style="--w:\2"',
        svg,
        count=1,
    )
    head = f'<svg role="img" aria-labelledby="{name}-t {name}-d" id="{name}" '
    svg = svg.replace("<svg ", head, 1)
    # Names inside a picture are unique in the whole page.
    svg = re.sub(r'(\bid="|url\(#)(clip|gradient)', rf"\1{name}-\2", svg)
    inside = svg.index(">") + 1
    labels = f'<title id="{name}-t">{escape(title)}</title>'
    labels += f'<desc id="{name}-d">{escape(description)}</desc>'
    return svg[:inside] + labels + svg[inside:]


def as_file(picture: Figure, form: str) -> bytes:
    """The figure for a paper: black on white, as svg, png (300 dpi) or pdf."""
    vl_convert = _converter()
    svg = picture.svg.replace("currentColor", "#000")
    # In a file of its own it has a size, and a ground.
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if box:
        svg = re.sub(r'style="--w:[\d.]+"', f'width="{box[1]}" height="{box[2]}"', svg, count=1)
    if form == "svg":
        return svg.encode()
    if form == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=300 / 72, ppi=300))
    return bytes(vl_convert.svg_to_pdf(svg))


def lack() -> str:
    """Why no figure can be drawn here; empty where one can."""
    if sys.flags.optimize > 1:
        return "figures take docstrings, and 'python -OO' or PYTHONOPTIMIZE=2 leaves those out"
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY and allowed < ADDRESSES:
        return (
            f"figures take {ADDRESSES >> 30} GiB of addresses, though little memory, and"
            f" 'ulimit -v' allows {allowed / (1 << 30):.3g}"
        )
    if not _may_open(DESCRIPTORS):
        return f"figures take {DESCRIPTORS} open files, and 'ulimit -n' does not allow as many more"
    wrong = threads.lack("figures", THREADS + 2 * (os.cpu_count() or 1))
    if not wrong:
        _load_without_home()
    return wrong


@cache
def _load_without_home() -> None:
    """Altair asks where the home is as it is loaded, for data that nobody here looks at, and
    does not load for who has none."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = "/"
        try:
            importlib.import_module("altair")
        finally:
            del os.environ["HOME"]


@cache
def _may_open(count: int) -> bool:
    """Asked once: the engine keeps what it opened, and its threads."""
    opened: list[int] = []
    try:
        while len(opened) < count:
            # There is one in every place, as there need not be a device.
            opened.append(os.open(os.sep, os.O_RDONLY))
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True


def need(without: str) -> None:
    """CannotError where no figure can be drawn, which says how to do `without`. To be asked
    before the first chart is made: what charts are made with may not even be imported."""
    if wrong := lack():
        raise CannotError(f"{wrong}; mend that, or do without: {without}")


def _converter() -> Any:
    """vl_convert, where it does not end us."""
    need(REPORT_WITHOUT)
    import vl_convert

    return vl_convert


def _dress(spec: dict[str, Any]) -> None:
    """Gives a chart's spec our look. Done here, not by the chart's own methods: each of
    these copies the whole chart.
    """
    font = "system-ui, -apple-system, 'Segoe UI', sans-serif"
    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.12,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "labelFont": font,
        "titleFont": font,
        "labelFontSize": 12,
        "labelOverlap": True,
        "labelFlush": False,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    # The width of a label is guessed, so that the next one needs some room.
    legend = {"labelFontSize": 12, "orient": "top", "symbolSize": 90, "columnPadding": 18}
    legend["symbolOpacity"] = 1
    label = {"labelColor": INK, "titleColor": INK, "labelFont": font, "titleFont": font}
    config = spec.setdefault("config", {})
    # At the right the last label of an axis reaches beyond it, in a wider font still further.
    padding = {"left": 14, "right": 14 + APART, "top": 14, "bottom": 14}
    config.update(background="transparent", font=font, padding=padding)
    looks: dict[str, dict[str, Any]] = {
        "axis": axis,
        # A reader's font may be wider than the one that labels were laid out with.
        "axisX": {"labelSeparation": APART},
        "axisY": {"titlePadding": APART},
        "legend": {**label, **legend, "title": None},
        "header": {**label, "labelFontSize": 13, "labelFontWeight": "bold"},
        "view": {"stroke": None},
    }
    for part, look in looks.items():
        config[part] = {**config.get(part, {}), **look}


def scale(models: Sequence[str]) -> Any:
    import altair as alt

    known = [model for model in COLOURS if model in models]
    return alt.Scale(domain=known, range=[COLOURS[model] for model in known])


def data(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.InlineData(values=rows)


def figure(
    chart: alt.TopLevelMixin, name: str, title: str, description: str, caption: str
) -> Figure:
    """The chart as a figure; `name` becomes its id, unique in the page."""
    return Figure(name, title, description, caption, render(chart, name, title, description))


def place_suffix(place: Place) -> str:
    """What makes a figure's id unique among places; nothing on the machine itself."""
    if place.home:
        return ""

    # A guest's name comes from the run; in an id it must be neither markup nor ambiguous.
    def plain(match: re.Match[str]) -> str:
        return {" ": "-", ".": "_"}.get(match[0], f"_{ord(match[0]):x}_")

    return "-" + re.sub(r"[^A-Za-z0-9-]", plain, str(place))


def models_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [model for model in COLOURS if any(row["model"] == model for row in rows)]
