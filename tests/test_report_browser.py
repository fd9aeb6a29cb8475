# SPDX-License-Identifier: Apache-2.0
"""The report as people see it: in Chromium, without network, on a phone, at a desk, on paper.

Needs Chromium and playwright and fails where they are missing: `make test`
installs both, and a report nobody looked at is not tested.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from made_beyond import measured
from synthetic import USER_MODELS, Scene, everything, full

from swtch import report
from swtch.records import Trial

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
OWN = ("fig-throughput", "fig-ratios", "fig-switches", "fig-sequence", "fig-gantt")
GUEST = tuple(f"{name}-vm-6_1-amd64" for name in OWN[:4])
PHONE, TABLET, DESK, PAPER = 390, 800, 1280, 794
MIN_CONTRAST = 4.5  # WCAG 2, level AA


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of the machine itself and a guest, and one of instructions."""
    folder = tmp_path_factory.mktemp("browser")
    exact = everything({"engine": "exact"}, ("pthread", "uthread"), n=2)
    scenes = {"full": full(), "exact": exact, "first": first()}
    runs = {name: scene.write(folder / name) for name, scene in scenes.items()}
    runs["late"] = late(folder / "late")
    return {name: report.write(run, ("html",))[0] for name, run in runs.items()}


def first() -> Scene:
    """With what a switch costs by every model and mechanism, and with claims of study 000."""

    def centre(one: Trial, share: float) -> dict[str, float]:
        across = one.factors["place"] == "two"
        ns = share * (180_000 if across else 21 if one.model == "uthread" else 1_900)
        return {"c_warm_ns" if one.model == "kthread" else "each_p50_ns": ns, "handovers": 100}

    return measured(everything({}, USER_MODELS), "ping", centre)


LATE = 118_000


def late(path: Path) -> Path:
    """The last invocations of a run of many: long numbers on the axis of their order."""
    scene = everything({}, USER_MODELS, n=12)
    plan = tuple(msgspec.structs.replace(one, seq=LATE + one.seq) for one in scene.manifest().plan)
    scene.samples = [msgspec.structs.replace(one, seq=LATE + one.seq) for one in scene.samples]
    return scene.write(path, plan=plan)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    assert Path(CHROMIUM).exists(), f"{CHROMIUM} is missing: make test installs it"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM)
        yield launched
        launched.close()


class Seen:
    """A report in a window, with all it said and asked for."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("requestfailed", lambda request: self.said.append(f"failed: {request.url}"))
        page.goto(file.as_uri(), wait_until="load")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.type}: {message.text}")

    def ask(self, script: str, given: Any = None) -> Any:
        return self.page.evaluate(script, given)


@pytest.fixture(params=[PHONE, DESK], ids=["phone", "desk"])
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def look(browser: Browser, file: Path, width: int, scheme: Any = "light") -> Seen:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    return Seen(context.new_page(), file)


@pytest.fixture
def seen(browser: Browser, files: dict[str, Path], width: int, scheme: str) -> Iterator[Seen]:
    made = look(browser, files["full"], width, scheme)
    yield made
    made.page.context.close()


BOX = """name => {
    const e = document.getElementById(name), plot = e.closest('.plot');
    const style = getComputedStyle(plot), box = e.getBoundingClientRect();
    const frame = plot.getBoundingClientRect();
    return {
        box: [box.left, box.top, box.right, box.bottom],
        frame: [frame.left, frame.top, frame.left + plot.scrollWidth, frame.bottom],
        shown: frame.right - frame.left,
        texts: [...e.querySelectorAll('text')].filter(t => t.textContent.trim()).map(t => {
            const r = t.getBoundingClientRect();
            return [t.textContent, r.left, r.top, r.right, r.bottom];
        }),
        visible: e.checkVisibility({opacityProperty: true, visibilityProperty: true}),
    };
}"""


def check_figure(seen: Seen, name: str) -> None:
    told = seen.ask(BOX, name)
    assert told["visible"], name
    left, top, right, bottom = told["box"]
    assert right - left >= 300 and bottom - top >= 100, (name, told["box"])
    assert (right - left) / (bottom - top) < 8, (name, told["box"])
    frame = told["frame"]
    assert frame[0] <= left and right <= frame[2] + 1, (name, told["box"], frame)
    assert frame[1] <= top and bottom <= frame[3] + 1, (name, told["box"], frame)
    assert len(told["texts"]) >= 5, name
    for text, x0, y0, x1, y1 in told["texts"]:
        assert left - 1 <= x0 < x1 <= right + 1, (name, text, x0, x1, left, right)
        assert top - 1 <= y0 < y1 <= bottom + 1, (name, text, y0, y1, top, bottom)
    for i, (text, x0, y0, x1, y1) in enumerate(told["texts"]):
        for other, u0, v0, u1, v1 in told["texts"][i + 1 :]:
            # In one line there is a blank between them; lines may be set close.
            apart = min(x1, u1) - max(x0, u0) < -2 or min(y1, v1) - max(y0, v0) < 4
            assert apart, f"{name}: {text!r} is written over {other!r}"


def test_it_says_nothing_and_asks_for_nothing(seen: Seen, files: dict[str, Path]) -> None:
    seen.page.locator("#environment summary").click()
    seen.page.wait_for_load_state("networkidle")
    assert seen.said == []
    others = [url for url in seen.asked if not url.startswith("data:")]
    assert others == [files["full"].as_uri()]
    assert seen.ask("document.scripts.length") == 0


def test_every_figure_is_seen_and_stays_in_its_frame(seen: Seen) -> None:
    for name in (*OWN, *GUEST):
        check_figure(seen, name)


def test_figures_of_instructions_are_seen_too(browser: Browser, files: dict[str, Path]) -> None:
    seen = look(browser, files["exact"], DESK)
    for name in OWN[:4]:
        check_figure(seen, f"{name}-exact-6_1-amd64")
    seen.page.context.close()


def test_the_page_does_not_scroll_sideways(seen: Seen, width: int) -> None:
    seen.page.locator("#environment summary").click()
    told = seen.ask("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]")
    assert told == [width, width, width]
    wider = seen.ask(
        """width => [...document.querySelectorAll('body *')].filter(e => {
            if (e.closest('.scroll, .plot, pre') && !e.matches('.scroll, .plot, pre')) return false;
            const r = e.getBoundingClientRect();
            return r.width && (r.right > width + 0.5 || r.left < -0.5);
        }).map(e => e.outerHTML.slice(0, 80))""",
        width,
    )
    assert wider == []


def test_what_scrolls_in_itself_can_be_reached_by_keyboard(seen: Seen) -> None:
    hidden, looked = seen.ask(
        """() => {
            // What a reader opens scrolls, too.
            document.querySelectorAll('details').forEach(e => { e.open = true; });
            const scroll = [...document.querySelectorAll('body *')].filter(
                e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
            );
            const silent = e => !e.hasAttribute('tabindex') || !e.getAttribute('aria-label');
            return [scroll.filter(silent).map(e => e.outerHTML.slice(0, 80)), scroll.length];
        }"""
    )
    assert hidden == []
    assert looked > 5


CONTRAST = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const rgb = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data;
    };
    const light = c => {
        const part = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
    };
    const ground = e => {
        for (; e; e = e.parentElement) {
            const c = rgb(getComputedStyle(e).backgroundColor);
            if (c[3] === 255) return c;
        }
        return rgb('Canvas');
    };
    const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const bad = [];
    let looked = 0;
    for (const e of document.querySelectorAll('body *')) {
        if (!own(e) || ['TITLE', 'DESC'].includes(e.tagName.toUpperCase())) continue;
        if (!e.checkVisibility() || (e.matches('svg *') && e.closest('.mark-text'))) continue;
        const style = getComputedStyle(e);
        const ink = rgb(e.matches('svg *') ? style.fill : style.color);
        const a = light(ink), b = light(ground(e));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        looked++;
        if (ratio < MIN) bad.push([e.textContent.slice(0, 40), style.color, ratio]);
    }
    return {bad, looked};
}"""


def test_text_can_be_read_in_light_and_dark(seen: Seen) -> None:
    told = seen.ask(CONTRAST.replace("MIN", str(MIN_CONTRAST)))
    assert told["bad"] == []
    assert told["looked"] > 300


def test_light_and_dark_are_two(browser: Browser, files: dict[str, Path]) -> None:
    ground = {}
    for scheme in ("light", "dark"):
        seen = look(browser, files["full"], DESK, scheme)
        ground[scheme] = seen.ask(
            """() => [getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.querySelector('#fig-ratios text')).fill]"""
        )
        seen.page.context.close()
    assert ground["light"][0] != ground["dark"][0]
    assert ground["light"][1] != ground["dark"][1]


@pytest.mark.parametrize("wide", [PHONE, TABLET, DESK])
def test_every_verdict_and_its_reason_are_in_sight(
    browser: Browser, files: dict[str, Path], wide: int
) -> None:
    seen = look(browser, files["full"], wide)
    for part in (".badge", "td:last-child"):
        shown = seen.ask(
            """part => [...document.querySelectorAll('.verdicts tbody ' + part)].map(e => {
                const r = e.getBoundingClientRect();
                return [r.left, r.right, e.checkVisibility()];
            })""",
            part,
        )
        assert len(shown) >= 15
        assert all(left >= 0 and right <= wide and visible for left, right, visible in shown)
    seen.page.context.close()


def test_an_option_is_in_one_line(browser: Browser, files: dict[str, Path]) -> None:
    """Wherever it stands in its sentence: who types it needs it as it is."""
    seen = look(browser, files["full"], PHONE)
    script = """() => [...document.querySelectorAll('.verdicts td:last-child')].flatMap(cell => {
            const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
            for (let node; (node = walk.nextNode());)
                for (const match of node.data.matchAll(/--[a-z][a-z0-9-]*/g)) {
                    const range = document.createRange();
                    range.setStart(node, match.index);
                    range.setEnd(node, match.index + match[0].length);
                    found.push([match[0], range.getClientRects().length]);
                }
            return found;
        })"""
    for wide in range(320, 440, 10):
        seen.page.set_viewport_size({"width": wide, "height": 900})
        pieces = seen.ask(script)
        assert "--native-kthread" in {option for option, _ in pieces}
        assert all(lines == 1 for _, lines in pieces), (wide, pieces)
    seen.page.context.close()


def test_contents_lead_to_their_sections(browser: Browser, files: dict[str, Path]) -> None:
    seen = look(browser, files["full"], DESK)
    links = seen.page.locator("nav a")
    assert links.count() == 6
    for index in range(links.count()):
        links.nth(index).click()
        target = seen.ask("location.hash.slice(1)")
        top = seen.ask("id => document.getElementById(id).getBoundingClientRect().top", target)
        assert -1 <= top < 900, target
    assert not seen.page.locator("pre").is_visible()
    seen.page.locator("#environment summary").click()
    assert seen.page.locator("pre").is_visible()
    seen.page.context.close()


def test_the_samples_can_be_saved(browser: Browser, files: dict[str, Path]) -> None:
    seen = look(browser, files["full"], DESK)
    with seen.page.expect_download() as download:
        seen.page.locator("a[download$='-samples.jsonl']").click()
    saved = Path(download.value.path())
    assert saved.read_bytes() == (files["full"].parent / "samples.jsonl").read_bytes()
    assert download.value.suggested_filename.endswith("-samples.jsonl")
    seen.page.context.close()


def test_on_paper(browser: Browser, files: dict[str, Path], scheme: str, tmp_path: Path) -> None:
    """Black on white even in the dark, no navigation, nothing cut off at the side."""
    seen = look(browser, files["full"], PAPER, scheme)
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("nav").is_visible()
    assert seen.page.locator(".verdicts thead").first.is_visible()
    for name in (*OWN, *GUEST):
        check_figure(seen, name)
    told = seen.ask(CONTRAST.replace("MIN", str(MIN_CONTRAST)))
    assert told["bad"] == []
    ground = seen.ask("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(253, 253, 252)"
    paper = seen.page.pdf(format="A4")
    assert paper.startswith(b"%PDF-") and len(paper) > 50_000
    assert seen.said == []
    seen.page.context.close()


# ---- the first screen ----

WIDTHS = {"desk": 1280, "laptop": 1100, "phone": 400}


def boxes(seen: Seen, selector: str) -> list[list[float]]:
    """Where what is visible of these lies: left, top, right, bottom."""
    script = """selector => [...document.querySelectorAll(selector)]
        .filter(e => e.checkVisibility()).map(e => {
            const r = e.getBoundingClientRect();
            return [r.left, r.top, r.right, r.bottom];
        })"""
    return list(seen.ask(script, selector))


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_screen_is_a_picture_and_a_grid(
    browser: Browser, files: dict[str, Path], name: str, scheme: str
) -> None:
    width = WIDTHS[name]
    seen = look(browser, files["first"], width, scheme)
    (picture,) = boxes(seen, ".first figure")
    (grid,) = boxes(seen, ".first .grid")
    (table, *_) = boxes(seen, "table")
    assert picture[1] < 420 and max(picture[3], grid[3]) <= table[1]
    beside = grid[0] >= picture[2]
    assert beside == (name != "phone")
    assert not beside or abs(grid[1] - picture[1]) < 2
    for left, _, right, _ in (picture, grid, *boxes(seen, ".grid li")):
        assert 0 <= left < right <= width
    shown = "fig-switch-cost" + ("-narrow" if name == "phone" else "")
    check_figure(seen, shown)
    # A row of a table that begins a group is a row, and no grid as the first screen is.
    begins = (
        "() => [...document.querySelectorAll('tr.first')].map(e => getComputedStyle(e).display)"
    )
    assert set(seen.ask(begins)) == {"table-row"}
    # All of it is seen without scrolling, on a phone too.
    assert seen.ask(
        "() => [...document.querySelectorAll('.first .plot')].every("
        "e => !e.checkVisibility() || e.scrollWidth <= e.clientWidth + 1)"
    )
    assert seen.ask("document.documentElement.scrollWidth") == width
    result = seen.ask(CONTRAST.replace("MIN", str(MIN_CONTRAST)))
    assert result["bad"] == []
    assert seen.said == []
    seen.page.context.close()


def test_a_letter_says_its_sentence_to_who_points_tabs_or_listens(
    browser: Browser, files: dict[str, Path]
) -> None:
    for width in WIDTHS.values():
        seen = look(browser, files["first"], width)
        links = seen.page.locator(".grid a")
        assert links.count() >= 6
        for index in range(links.count()):
            link = links.nth(index)
            words = link.get_attribute("aria-label") or ""
            assert words.split()[0].startswith("000.") and len(words) > 25
            assert (link.text_content() or "").strip("*") in ("H", "D", "?", "–")
        link = links.last
        link.focus()
        seen.page.keyboard.press("Shift+Tab")
        seen.page.keyboard.press("Tab")
        words = link.get_attribute("aria-label") or ""
        after = seen.ask(
            """() => {
                const e = document.activeElement, s = getComputedStyle(e, '::after');
                return [e.getAttribute('aria-label'), s.content, s.position,
                        document.documentElement.scrollWidth];
            }"""
        )
        assert after[0] == words and words in after[1].replace('\\"', '"')
        assert after[2] == "absolute" and after[3] == width
        link.press("Enter")
        row = seen.ask("() => document.querySelector(':target th').textContent")
        assert words.startswith(f"{row} ")
        seen.page.context.close()


def test_the_grid_is_read_without_its_colours(browser: Browser, files: dict[str, Path]) -> None:
    """Verdicts of two colours never have the same letter, and the key says which is which."""
    seen = look(browser, files["first"], DESK)
    pairs = seen.ask(
        """() => [...document.querySelectorAll('.grid dl a')].map(
            e => [e.className, e.textContent.replace('*', '')])"""
    )
    key = seen.ask(
        """() => [...document.querySelectorAll('.grid .tally li')].map(
            e => [e.className, e.querySelector('i').textContent])"""
    )
    checks = dict(pairs)
    assert len(set(checks.values())) == len(checks)
    assert all(checks[style] == letter for style, letter in key)
    seen.page.context.close()


def test_the_first_screen_is_printed(browser: Browser, files: dict[str, Path]) -> None:
    seen = look(browser, files["first"], PAPER)
    seen.page.emulate_media(media="print")
    check_figure(seen, "fig-switch-cost")
    assert boxes(seen, ".first .narrow") == []
    (grid,) = boxes(seen, ".first .grid")
    assert 0 <= grid[0] < grid[2] <= PAPER
    assert all(box[2] <= grid[2] for box in boxes(seen, ".grid li"))
    seen.page.context.close()


@pytest.mark.parametrize("name", WIDTHS)
def test_labels_of_an_axis_stay_apart(browser: Browser, files: dict[str, Path], name: str) -> None:
    """Also where numbers are long: in the order of a run of many thousand invocations."""
    seen = look(browser, files["late"], WIDTHS[name])
    for figure in OWN[:4]:
        check_figure(seen, figure)
    labels = seen.ask(
        """() => [...document.querySelectorAll('#fig-sequence text')].map(t => t.textContent)"""
    )
    assert any(label.startswith("118") for label in labels), labels
    seen.page.context.close()
