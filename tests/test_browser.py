"""The pages in a browser: drawn, alive, self-contained, and readable on a phone and on paper."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fedbandits.experiments.files import load_experiment
from fedbandits.reproduce.catalogue import COMPUTED, MOVIELENS
from fedbandits.reproduce.claims import CLAIMS
from fedbandits.reproduce.reproduction import reproduce_paper

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

REQUIRED = os.environ.get("FEDBANDITS_REQUIRE_BROWSER") == "1"
if not REQUIRED:
    pytest.importorskip(
        "playwright.sync_api", reason="no playwright: install it to run the browser tests"
    )
sync_playwright = import_module("playwright.sync_api").sync_playwright

# What its tests share is made once.
pytestmark = pytest.mark.xdist_group("pages")

EXAMPLES = Path(__file__).parents[1] / "examples"
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# What is left of A4 landscape within margins of 12 mm, at 96 pixels an inch.
PAPER: ViewportSize = {"width": 1031, "height": 702}
PAGES = ("experiment", "radio", "reproduction")


def chromium() -> str | None:
    """Return where an installed Chromium is: where CHROMIUM says, or else on the path."""
    named = os.environ.get("CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next(filter(None, map(shutil.which, [named] if named else names)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        missing = (
            "no Chromium found: install it (apt-get install chromium) or set CHROMIUM"
            " to run the browser tests"
        )
        pytest.fail(missing) if REQUIRED else pytest.skip(missing)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


# The browser comes first: without one, nothing need be simulated.
@pytest.fixture(scope="module")
def files(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    for name, file, horizon in (
        ("experiment", "figure-4", 1_000_000),
        ("radio", "cognitive-radio", 5_000),
    ):
        experiment = load_experiment(EXAMPLES / f"{file}.toml")
        replace(experiment, horizon=horizon, replications=4).run(workers=1).write(folder / name)
    # Whether MovieLens is there depends on the machine.
    parts = ["fig5", *(part for part in COMPUTED if part != MOVIELENS)]
    reproduce_paper(parts, folder / "reproduction", replications=2, workers=1)
    return {name: folder / name / "report.html" for name in PAGES}


@dataclass(frozen=True)
class Visit:
    """A page that is open, and what it asked for or said that it should not have."""

    page: Page
    complaints: list[str]

    def figures(self) -> dict[str, Any]:
        """Return the figures that the page declares, as they are to be drawn."""
        return {
            str(block.get_attribute("data-figure")): json.loads(block.text_content() or "")
            for block in self.page.locator("script[data-figure]").all()
        }

    def wait_until(self, check: Callable[[], bool]) -> None:
        """Wait for something to be true; the page's own policy forbids to wait for it there."""
        end = time.monotonic() + 20
        while not check():
            assert time.monotonic() < end, self.complaints or "it never came true"
            self.page.wait_for_timeout(50)


def visit(browser: Browser, file: Path, **settings: Any) -> Visit:
    """Open a page without a network, and wait for its figures."""
    context = browser.new_context(**({"viewport": DESKTOP} | settings))
    context.set_offline(True)
    page = context.new_page()
    complaints: list[str] = []
    address = file.as_uri()

    def note_request(url: str) -> None:
        if url != address and not url.startswith(("data:", "blob:")):
            complaints.append(f"request: {url[:200]}")

    page.on("request", lambda request: note_request(request.url))
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.goto(address)
    opened = Visit(page, complaints)
    if settings.get("java_script_enabled", True):
        n_charts = page.locator(".chart").count()
        opened.wait_until(lambda: page.locator(".chart:has(.xtick)").count() == n_charts)
    return opened


@pytest.fixture(scope="module")
def on_desktop(browser: Browser, files: dict[str, Path]) -> dict[str, Visit]:
    """Return the pages on a large screen; tests leave them as they were."""
    return {name: visit(browser, file) for name, file in files.items()}


@pytest.fixture(scope="module")
def on_phone(browser: Browser, files: dict[str, Path]) -> dict[str, Visit]:
    """Return the pages on a small one."""
    settings = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    return {name: visit(browser, file, **settings) for name, file in files.items()}


# On a screen

DRAWN = """chart => [...chart.querySelectorAll(".scatterlayer .trace")].filter(trace =>
  [...trace.querySelectorAll("path")].some(path => {
    const box = path.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  })).length"""


def drawn(page: Page, key: str) -> int:
    """Return how many traces of a figure are drawn with any size."""
    return int(page.locator(f"#{key} .chart").evaluate(DRAWN))


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_drawn_and_takes_the_place_of_its_image(
    on_desktop: dict[str, Visit], name: str
) -> None:
    page, figures = on_desktop[name].page, on_desktop[name].figures()
    assert figures
    assert page.locator("figure.chart-frame").count() == len(figures)
    assert page.locator("figure.chart-frame.live").count() == len(figures)
    for key, figure in figures.items():
        assert drawn(page, key) == sum(bool(trace["x"]) for trace in figure["data"]), key
        box = page.locator(f"#{key} .main-svg").first.bounding_box()
        assert box is not None
        assert box["width"] > 600
        assert box["height"] > 300
        assert page.locator(f"#{key} img").is_hidden()
    assert on_desktop[name].complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_every_image_can_be_shown(on_desktop: dict[str, Visit], name: str) -> None:
    found = on_desktop[name]
    widths = found.page.locator("img").evaluate_all("all => all.map(i => i.naturalWidth)")
    assert len(widths) >= len(found.figures())
    assert min(widths) > 0


def test_the_map_of_a_radio_problem_is_shown(on_desktop: dict[str, Visit]) -> None:
    images = on_desktop["radio"].page.locator("img").all()
    (shown,) = (image for image in images if image.is_visible())
    assert shown.get_attribute("alt") == "Maps of the availability of 4 channels."


def test_the_reproduction_has_a_row_for_every_claim(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["reproduction"]
    rows = found.page.locator("table.claims tbody tr")
    assert rows.count() == len(CLAIMS)
    assert all(row.is_visible() for row in rows.all())
    assert {"fig5", "fig5-theory", "fig7", "scaling"} <= set(found.figures())


def test_a_click_on_a_label_hides_its_curve_in_every_view(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["experiment"]
    page, title = found.page, found.page.locator("#regret .ytitle")
    label = page.locator("#regret .legendtoggle").first
    buttons = page.locator("#regret .updatemenu-button")
    before = drawn(page, "regret")
    # Dashed, beside the totals alone.
    parts = sum("dash" in trace["line"] for trace in found.figures()["regret"]["data"])
    assert parts == 2
    label.click()
    # The line and its band.
    found.wait_until(lambda: drawn(page, "regret") == before - 2)
    assert title.text_content() == "regret (total over clients)"
    buttons.filter(has_text="exploration").click()
    found.wait_until(lambda: (title.text_content() or "").startswith("exploration regret"))
    found.wait_until(lambda: drawn(page, "regret") == before - 2 - parts)
    label.click()
    found.wait_until(lambda: drawn(page, "regret") == before - parts)
    buttons.filter(has_text="total").click()
    found.wait_until(lambda: drawn(page, "regret") == before)
    found.wait_until(lambda: title.text_content() == "regret (total over clients)")
    assert found.complaints == []


def test_pointing_at_a_curve_shows_values(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["experiment"]
    page, plot = found.page, found.page.locator("#regret .nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown = page.locator("#regret .hoverlayer .legend")
    shown.wait_for()
    text = shown.text_content() or ""
    assert re.match(r"slot [45]\d\d,\d\d\d", text), text
    for line in found.figures()["regret"]["data"]:
        if line.get("hoverinfo") == "skip":
            continue
        assert re.search(
            re.escape(line["name"].replace("<br>", "")) + r" : \d[\d,]+ ± [\d,]+", text
        ), text
    page.mouse.move(0, 0)


def test_a_figure_can_be_saved(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["experiment"]
    found.page.locator("#regret .nsewdrag").hover()
    with found.page.expect_download() as saved:
        found.page.locator("#regret .modebar-btn").first.click()
    assert saved.value.suggested_filename == "regret.svg"
    assert saved.value.path().read_bytes().startswith(b"<svg")
    assert found.complaints == []


def test_a_dark_screen_leaves_the_page_readable(on_desktop: dict[str, Visit]) -> None:
    """Figures have a white ground, and so has everything around them."""
    page = on_desktop["experiment"].page
    page.emulate_media(color_scheme="dark")
    style = page.locator("body").evaluate(
        "body => [getComputedStyle(body).backgroundColor, getComputedStyle(body).color]"
    )
    assert style == ["rgb(255, 255, 255)", "rgb(34, 34, 34)"]
    page.emulate_media(color_scheme="null")


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_images_are_shown(
    browser: Browser, files: dict[str, Path], name: str
) -> None:
    found = visit(browser, files[name], java_script_enabled=False)
    frames = found.page.locator("figure.chart-frame").all()
    assert len(frames) == found.page.locator("script[data-figure]").count() > 0
    for frame in frames:
        box = frame.locator("img").bounding_box()
        assert box is not None
        assert box["width"] > 600
        assert box["height"] > 200
        assert frame.locator("noscript").is_visible()
        assert all(part.is_hidden() for part in frame.locator(".screen").all())
    assert found.complaints == []
    found.page.context.close()


# On a phone

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
STANDING_OUT = """([width, within]) => [...document.querySelectorAll("body *")].filter(part =>
  !part.closest(within) && part.getBoundingClientRect().right > width + 1
).map(part => part.tagName + " " + part.className)"""


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_needs_no_sideways_scrolling(on_phone: dict[str, Visit], name: str) -> None:
    found = on_phone[name]
    assert found.page.evaluate("innerWidth") == PHONE["width"]
    assert found.page.evaluate(OVERFLOW) == 0
    # Wide tables are scrolled within frames of their own.
    assert found.page.evaluate(STANDING_OUT, [PHONE["width"], ".scroll, svg"]) == []
    assert found.complaints == []


TEXTS = """all => all.map(text => [text.textContent, text.getBoundingClientRect()])
  .filter(([text, box]) => text && box.width > 0)
  .map(([text, box]) => [text, box.left, box.top, box.right, box.bottom])"""


# For every figure, what of its layout shows which width it is laid out for, and some of its texts.
FIGURES = {
    ("experiment", "regret"): (
        "layout.xaxis.nticks",
        "xaxis.nticks",
        {"slot t", "0", "1,000,000", "total", "communication"},
    ),
    ("reproduction", "fig7"): (
        "layout.height",
        "height",
        {"clients M", "0", "Δ = 0.02", "Δ = 0.01", "as printed: no bound"},
    ),
    ("reproduction", "scaling"): (
        "layout.height",
        "height",
        {"Fed2-UCB (Table 2)", "Fed1-UCB (Table 3)", "horizon T (slots)", "total regret / log T"},
    ),
}


@pytest.mark.parametrize(("name", "key"), FIGURES)
@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_texts_of_a_figure_are_whole_and_apart(
    on_desktop: dict[str, Visit], on_phone: dict[str, Visit], device: str, name: str, key: str
) -> None:
    found = (on_desktop if device == "desktop" else on_phone)[name]
    where, change, expected = FIGURES[name, key]
    fitting = found.figures()[key]["wide" if device == "desktop" else "narrow"][change]
    figure = found.page.locator(f"#{key} .chart")
    found.wait_until(lambda: figure.evaluate(f"chart => chart.{where}") == fitting)
    frame = figure.bounding_box()
    assert frame is not None
    texts = figure.locator(".main-svg text").evaluate_all(TEXTS)
    assert expected <= {text for text, *_ in texts}
    for number, (text, left, top, right, bottom) in enumerate(texts):
        assert frame["x"] <= left < right <= frame["x"] + frame["width"], text
        for other, its_left, its_top, its_right, its_bottom in texts[:number]:
            apart = right <= its_left or its_right <= left or bottom <= its_top or its_bottom <= top
            # The zeros of both axes stand in one corner.
            assert apart or text == other == "0", (text, other)


@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_panels_are_large_enough_to_read(
    on_desktop: dict[str, Visit], on_phone: dict[str, Visit], device: str
) -> None:
    found = (on_desktop if device == "desktop" else on_phone)["reproduction"]
    layout = found.figures()["scaling"]["wide" if device == "desktop" else "narrow"]
    chart = found.page.locator("#scaling .chart")
    found.wait_until(lambda: chart.evaluate("chart => chart.layout.height") == layout["height"])
    boxes = [panel.bounding_box() for panel in chart.locator(".nsewdrag").all()]
    assert len(boxes) == 2
    for box in boxes:
        assert box is not None
        assert box["width"] > 240
        assert box["height"] > 240


def test_a_phone_that_is_turned_has_a_figure_that_fits(
    browser: Browser, files: dict[str, Path]
) -> None:
    found = visit(browser, files["experiment"], viewport=PHONE)
    page, chart = found.page, found.page.locator("#regret .chart")
    found.wait_until(lambda: chart.evaluate("chart => chart.layout.xaxis.nticks") == 3)
    page.set_viewport_size({"width": 844, "height": 390})
    found.wait_until(lambda: chart.evaluate("chart => chart.layout.xaxis.nticks") == 6)
    drawing = chart.locator(".main-svg").first
    found.wait_until(lambda: drawing.evaluate("svg => svg.clientWidth") > 700)
    assert page.evaluate(OVERFLOW) == 0
    assert found.complaints == []
    page.context.close()


# On paper


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_or_higher_than_the_paper(on_desktop: dict[str, Visit], name: str) -> None:
    found, page = on_desktop[name], on_desktop[name].page
    page.set_viewport_size(PAPER)
    page.emulate_media(media="print")
    assert page.evaluate(OVERFLOW) == 0
    assert page.evaluate(STANDING_OUT, [PAPER["width"], "svg"]) == []
    for frame in page.locator("figure.chart-frame").all():
        assert frame.locator("img").is_visible()
        assert frame.locator(".chart").is_hidden()
        assert all(part.is_hidden() for part in frame.locator(".screen").all())
    heights = page.locator("figure").evaluate_all("all => all.map(f => f.clientHeight)")
    assert max(heights) < PAPER["height"]
    assert all(toggle.is_hidden() for toggle in page.locator("summary").all())
    page.emulate_media(media="null")
    page.set_viewport_size(DESKTOP)
    assert all(chart.is_visible() for chart in page.locator(".chart").all())
    assert found.complaints == []


@pytest.mark.parametrize(("name", "least", "most"), [("experiment", 2, 5), ("reproduction", 6, 25)])
def test_a_printed_page_has_its_figures(
    on_desktop: dict[str, Visit], name: str, least: int, most: int
) -> None:
    found = on_desktop[name]
    pdf = found.page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert least <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= most
    sizes = re.findall(rb"/MediaBox\s*\[0 0 (\S+) (\S+)\]", pdf)
    # In mm: A4, landscape.
    assert {tuple(round(float(side) / 72 * 25.4) for side in size) for size in sizes} == {
        (297, 210)
    }
    assert len(re.findall(rb"/Subtype\s*/Image\b", pdf)) >= len(found.figures())
    assert found.complaints == []
