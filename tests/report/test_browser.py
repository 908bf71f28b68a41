"""The pages in a browser: drawn, alive, self-contained, and readable on a phone and on paper."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from browsers import COLOURS, contrast
from every_chart import KINDS, LINE
from fedbandits.experiments.files import load_experiment
from fedbandits.report.chart import Axis, Chart, Heat, Plot
from fedbandits.report.markup import row, swatch, table
from fedbandits.report.page import html_page, live_chart
from fedbandits.reproduce.claims import claims
from fedbandits.reproduce.parts import SECTIONS
from fedbandits.reproduce.reproduction import reproduce_paper
from repository import EXAMPLES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, ViewportSize

DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# What is left of A4 landscape within margins of 12 mm, at 96 pixels an inch.
PAPER: ViewportSize = {"width": 1031, "height": 702}
PAGES = ("experiment", "radio", "reproduction", "kinds")
# In bytes.
LARGEST = {"reproduction": 3_000_000}


# The browser comes first: without one, nothing need be simulated.
@pytest.fixture(scope="module")
def files(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    for name, file, horizon in (
        ("experiment", "figure-4", 100_000),
        ("radio", "cognitive-radio", 5_000),
    ):
        experiment = load_experiment(EXAMPLES / f"{file}.toml")
        replace(experiment, horizon=horizon, replications=4).run(workers=1).write(folder / name)
    # Whether MovieLens is there depends on the machine.
    alone = [key for key, parts in SECTIONS.items() if len(parts) == 1 and key != "movielens"]
    asked = ["fig5", *alone]
    reproduce_paper(asked, folder / "reproduction", replications=2, workers=1)
    sections = [
        (kind, live_chart(kind, chart, alt=f"A {kind}.", caption=f"A {kind}."))
        for kind, chart in KINDS.items()
    ]
    page = html_page(title="Every kind of chart", byline="", sections=sections)
    (folder / "kinds").mkdir()
    (folder / "kinds" / "report.html").write_text(page, encoding="utf-8")
    return {name: folder / name / "report.html" for name in PAGES}


@dataclass(frozen=True)
class Visit:
    """A page that is open, and what it asked for or said that it should not have."""

    page: Page
    complaints: list[str]

    def figures(self) -> dict[str, Any]:
        """Return the charts that the page declares, as they are drawn at first."""
        found = {}
        for block in self.page.locator("script[data-figure]").all():
            views = json.loads(block.text_content() or "")["views"]
            found[str(block.get_attribute("data-figure"))] = next(iter(views.values()))
        return found

    def wait_until(self, check: Callable[[], bool]) -> None:
        """Wait for something to be true; the page's own policy forbids to wait for it there."""
        end = time.monotonic() + 300
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
        opened.wait_until(lambda: page.locator(".chart:has(svg .tick)").count() == n_charts)
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

DRAWN = """chart => [...chart.querySelectorAll("svg .series, svg .cell")].filter(one =>
  [one, ...one.querySelectorAll("path, circle, rect, line")].some(part => {
    const box = part.getBoundingClientRect();
    return box.width + box.height > 0;
  })).length"""


def drawn(page: Page, key: str) -> int:
    """Return how many series, rows or cells of a chart are drawn with any size."""
    return int(page.locator(f"#{key} .panels").evaluate(DRAWN))


def held(chart: dict[str, Any]) -> int:
    """Return how many series, rows or cells a chart holds that can be seen."""
    found = 0
    for panel in chart["panels"]:
        found += len(panel.get("rows", ()))
        found += sum(len(line) for line in panel.get("values", ()))
        found += sum(
            any(value is not None for value in one["y"]) for one in panel.get("series", ())
        )
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_drawn_and_takes_the_place_of_its_image(
    on_desktop: dict[str, Visit], name: str
) -> None:
    page, figures = on_desktop[name].page, on_desktop[name].figures()
    assert figures
    assert page.locator("figure.chart-frame").count() == len(figures)
    assert page.locator("figure.chart-frame.live").count() == len(figures)
    for key, figure in figures.items():
        assert drawn(page, key) == held(figure), key
        panels = page.locator(f"#{key} svg.drawing").all()
        assert len(panels) == len(figure["panels"])
        for panel, held_in in zip(panels, figure["panels"], strict=True):
            box = panel.bounding_box()
            assert box is not None
            assert box["width"] * figure.get("columns", 1) > 600
            # Few rows are low.
            assert box["height"] > (60 if "rows" in held_in else 300)
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
    assert rows.count() == len(claims())
    assert all(row.is_visible() for row in rows.all())
    assert {"fig5", "fig5-theory", "fig7", "scaling"} <= set(found.figures())


def button(page: Page, key: str, text: str) -> Locator:
    return page.locator(f"#{key} .tools button", has_text=re.compile(f"^{text}$"))


def test_a_click_on_a_label_hides_its_curve_in_every_view(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["experiment"]
    page, title = found.page, found.page.locator("#regret .ytitle")
    label = page.locator("#regret .legend button").first
    before = drawn(page, "regret")
    # Dashed, beside the totals alone.
    (panel,) = found.figures()["regret"]["panels"]
    parts = sum("dash" in one for one in panel["series"])
    assert parts == 3  # two parts of totals, and the lower bound
    name = label.text_content()
    label.click()
    found.wait_until(lambda: drawn(page, "regret") == before - 1)
    assert page.locator(f"#regret svg .series[data-label={json.dumps(name)}]").count() == 0
    assert title.text_content() == "regret (total over clients)"
    button(page, "regret", "exploration").click()
    found.wait_until(lambda: (title.text_content() or "").startswith("exploration regret"))
    assert drawn(page, "regret") == before - 1 - parts
    label.click()
    found.wait_until(lambda: drawn(page, "regret") == before - parts)
    button(page, "regret", "total").click()
    found.wait_until(lambda: drawn(page, "regret") == before)
    assert title.text_content() == "regret (total over clients)"
    label.dblclick()
    found.wait_until(lambda: drawn(page, "regret") == 1)
    for one in page.locator("#regret .legend button").all()[1:]:
        one.click()
    found.wait_until(lambda: drawn(page, "regret") == before)
    assert found.complaints == []


def point_at(found: Visit, key: str, across: float, up: float) -> str:
    """Return what a chart says where it is pointed at, in parts of its first drawing."""
    plot = found.page.locator(f"#{key} svg.drawing").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    found.page.mouse.move(box["x"] + across * box["width"], box["y"] + up * box["height"])
    shown = found.page.locator(f"#{key} .tip")
    shown.wait_for()
    text = shown.inner_text()
    found.page.mouse.move(0, 0)
    return text


def test_pointing_at_a_curve_shows_values(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["experiment"]
    text = point_at(found, "regret", 0.5, 0.5)
    assert re.match(r"slot t: [45]\d,\d\d\d", text), text
    (panel,) = found.figures()["regret"]["panels"]
    for line in panel["series"]:
        # ± is half of a 95 % interval, where there is one.
        half = r" ± \d[\d,]*" if "half" in line else ""
        assert re.search(re.escape(line["label"]) + rf": \d[\d,]+{half}\n", text + "\n"), text


def test_pointing_at_rows_and_cells_shows_values(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["kinds"]
    assert point_at(found, "rows", 0.5, 0.1) == "arm 0\nleft: 0, between -1 and 2"
    said = point_at(found, "heat", 0.15, 0.7).splitlines()
    assert said == ["across: a", "up: 1", "regret: 1"]
    assert "chance" not in point_at(found, "plot", 0.9, 0.5)


def test_a_button_makes_an_axis_logarithmic_and_back(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["experiment"]
    page = found.page
    ticks = page.locator("#regret svg.drawing .tick")
    before = ticks.all_text_contents()
    for axis in ("log x", "log y"):
        pressed = button(page, "regret", axis)
        assert pressed.get_attribute("aria-pressed") == "false"
        pressed.click()
        found.wait_until(lambda: ticks.all_text_contents() != before)
        assert pressed.get_attribute("aria-pressed") == "true"
        numbers = [float(text.replace(",", "")) for text in ticks.all_text_contents()]
        # Nothing is 0 there, and powers of ten are labelled.
        assert numbers.count(0.0) == before.count("0") - 1
        assert sum(number in {10.0**e for e in range(1, 7)} for number in numbers) >= 2
        assert drawn(page, "regret") == held(found.figures()["regret"])
        pressed.click()
        found.wait_until(lambda: ticks.all_text_contents() == before)
    # Names are no numbers.
    assert button(on_desktop["kinds"].page, "heat", "log x").count() == 0
    assert found.complaints == []


def test_the_label_of_an_axis_says_whether_it_is_logarithmic_now(
    on_desktop: dict[str, Visit],
) -> None:
    found = on_desktop["kinds"]
    across = found.page.locator("#plot svg.drawing .name").first
    up = found.page.locator("#plot .ytitle")
    assert [across.text_content(), up.text_content()] == ["clients, logarithmic", "chance"]
    # The value itself is not logarithmic.
    assert point_at(found, "plot", 0.5, 0.5).startswith("clients: 10\n")
    assert found.page.locator("#heat .key .name").text_content() == "regret, logarithmic"
    for axis in ("log x", "log y"):
        button(found.page, "plot", axis).click()
    assert [across.text_content(), up.text_content()] == ["clients", "chance, logarithmic"]
    for axis in ("log x", "log y"):
        button(found.page, "plot", axis).click()
    assert found.complaints == []


def one_chart(
    browser: Browser, folder: Path, charts: Chart | dict[str, Chart], **settings: Any
) -> Visit:
    """Open a page with a chart or with its views."""
    body = live_chart("chart", charts, alt="A chart.", caption="A chart.")
    file = folder / "report.html"
    file.write_text(html_page(title="One", byline="", sections=[("One", body)]), encoding="utf-8")
    return visit(browser, file, **settings)


def test_a_scale_that_was_chosen_stays_in_every_view(browser: Browser, tmp_path: Path) -> None:
    found = one_chart(browser, tmp_path, {"total": KINDS["plot"], "part": KINDS["plot"]})
    pressed = button(found.page, "chart", "log x")
    assert pressed.get_attribute("aria-pressed") == "true"
    pressed.click()
    button(found.page, "chart", "part").click()
    assert button(found.page, "chart", "part").get_attribute("aria-pressed") == "true"
    assert pressed.get_attribute("aria-pressed") == "false"
    found.page.context.close()


def test_a_place_is_said_in_three_digits_or_as_its_tick_says(
    browser: Browser, tmp_path: Path
) -> None:
    series = [replace(LINE, x=[1.0, 62.2257, 1e5], y=[0.1, 0.2, 0.3])]
    plot = Plot(Axis("clients", log=True, ticks={1e5: "all"}), Axis("gap"), series)
    found = one_chart(browser, tmp_path, Chart("one", [plot]))
    assert point_at(found, "chart", 0.4, 0.5) == "clients: 62.2\nline: 0.2"
    assert point_at(found, "chart", 0.97, 0.5) == "clients: all\nline: 0.3"
    found.page.context.close()


def test_numbers_of_a_colour_key_are_apart(browser: Browser, tmp_path: Path) -> None:
    (heat,) = KINDS["heat"].panels
    assert isinstance(heat, Heat)
    made = replace(heat, limits=(1550.0, 9000.0), values=[[1550.0, 9000.0, 2e3], [3e3] * 3])
    found = one_chart(browser, tmp_path, Chart("map", [made]))
    texts = found.page.locator(".key .tick").evaluate_all(TEXTS)
    assert len(texts) > 2
    for (_, *before), (text, *after) in pairwise(texts):
        assert before[2] < after[0], text
    found.page.context.close()


def test_a_long_title_of_an_axis_is_broken_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    (heat,) = KINDS["heat"].panels
    assert isinstance(heat, Heat)
    title = "pulls of each arm by each client in phase 1, f(p): doubled from phase to phase"
    made = replace(heat, y=replace(heat.y, label=title), title="")
    found = one_chart(browser, tmp_path, Chart("map", [made]), viewport=PHONE)
    lines = found.page.locator(".ytitle").evaluate_all(TEXTS)
    assert " ".join(text for text, *_ in lines) == title
    assert len(lines) == 2
    assert lines[0][2] >= 0
    assert lines[0][4] <= lines[1][4] - 12
    assert max(right for _, _, _, right, _ in lines) < PHONE["width"]
    found.page.context.close()


def test_names_of_rows_stand_below_their_heading(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    tables = [
        table("Games", ["game", "first"], [row(f"{before}figure 4", "fed-ts")], kind=kind)
        for kind in ("", "plain")
        for before in ("", swatch("#0072B2"))
    ]
    page = html_page(title="Tables", byline="", sections=[("Tables", "".join(tables))])
    file.write_text(page, encoding="utf-8")
    found = visit(browser, file)
    begins = found.page.locator("th:first-child").evaluate_all(
        """all => all.map(cell => {
          const range = document.createRange();
          range.selectNodeContents(cell.lastChild);
          return Math.round(range.getBoundingClientRect().left);
        })"""
    )
    assert len(begins) == 8
    assert begins[::2] == begins[1::2]
    found.page.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_tables_fit_on_a_large_screen(browser: Browser, files: dict[str, Path], name: str) -> None:
    found = visit(browser, files[name], viewport={"width": 1400, "height": 900})
    hidden = found.page.locator(".scroll").evaluate_all(
        "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"
    )
    assert hidden == []
    found.page.context.close()


def test_dragging_zooms_and_a_double_click_shows_all(on_desktop: dict[str, Visit]) -> None:
    found = on_desktop["experiment"]
    page = found.page
    ticks = page.locator("#regret svg.drawing .tick")
    before = ticks.all_text_contents()
    plot = page.locator("#regret svg.drawing")
    plot.scroll_into_view_if_needed()
    for back in ("button", "double-click"):
        box = plot.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.4 * box["width"], middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.5 * box["width"], middle + 2, steps=5)
        page.mouse.up()
        found.wait_until(lambda: ticks.all_text_contents() != before)
        slots = [float(text.replace(",", "")) for text in ticks.all_text_contents()]
        assert any(30_000 < slot < 60_000 for slot in slots)
        assert 100_000 not in slots
        if back == "button":
            button(page, "regret", "show all").click()
        else:
            page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
        found.wait_until(lambda: ticks.all_text_contents() == before)
    page.mouse.move(0, 0)
    assert found.complaints == []


@pytest.mark.parametrize(("name", "key"), [("experiment", "regret"), ("kinds", "heat")])
def test_a_figure_can_be_saved(on_desktop: dict[str, Visit], name: str, key: str) -> None:
    found = on_desktop[name]
    with found.page.expect_download() as saved:
        button(found.page, key, "save").click()
    assert saved.value.suggested_filename == f"{key}.svg"
    text = saved.value.path().read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert found.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_words_and_curves_stand_out_on_light_and_dark_screens(
    browser: Browser, files: dict[str, Path], name: str, scheme: str
) -> None:
    found = visit(browser, files[name], color_scheme=scheme)

    def colours(selector: str, which: str) -> list[tuple[int, ...]]:
        return [tuple(one) for one in found.page.evaluate(COLOURS, [selector, which])]

    (ground,) = colours("body", "backgroundColor")
    assert (sum(ground) < 120) == (scheme == "dark")
    for selector in ("body", "figcaption", "nav a", "p", "h2"):
        assert all(contrast(one, ground) > 4.5 for one in colours(selector, "color")), selector
    assert all(
        contrast(one, ground) > 4.5 for one in colours("svg.drawing text:not(.value)", "fill")
    )
    lines = colours("svg.drawing .line, svg.drawing .interval", "stroke")
    assert all(contrast(one, ground) > 3 for one in lines)
    assert found.complaints == []
    found.page.context.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_contents_lead_to_every_section_and_stay_in_sight(
    browser: Browser, files: dict[str, Path], name: str, device: ViewportSize
) -> None:
    found = visit(browser, files[name], viewport=device)
    page = found.page
    links = page.locator("nav a")
    assert links.count() == page.locator("main h2").count() > 2
    links.last.scroll_into_view_if_needed()
    links.last.click()
    heading = page.locator("main section").last.locator("h2")
    found.wait_until(lambda: in_sight(heading, device))
    # However far down one is.
    assert in_sight(page.locator("nav"), device)
    found.wait_until(lambda: page.locator("nav a[aria-current]").count() == 1)
    assert found.complaints == []
    page.context.close()


def in_sight(part: Locator, device: ViewportSize) -> bool:
    box = part.bounding_box()
    return box is not None and box["y"] + box["height"] > 0 and box["y"] < device["height"]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_small(files: dict[str, Path], name: str) -> None:
    assert files[name].stat().st_size < LARGEST.get(name, 1_500_000)


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
    # Wide tables, and the contents, are scrolled within frames of their own.
    assert found.page.evaluate(STANDING_OUT, [PHONE["width"], ".scroll, svg, nav"]) == []
    assert found.complaints == []


TEXTS = """all => all.map(text => [text.textContent, text.getBoundingClientRect()])
  .filter(([text, box]) => text && box.width > 0)
  .map(([text, box]) => [text, box.left, box.top, box.right, box.bottom])"""


# For some charts of every kind, some of their texts.
TEXTS_OF = {
    ("experiment", "regret"): {"slot t", "0", "100,000"},
    ("reproduction", "fig7"): {"clients M", "0", "10⁰"},
    ("reproduction", "scaling"): {
        "Fed2-UCB (Table 2)", "Fed1-UCB (Table 3)",
        "horizon T (slots), logarithmic", "total regret / log T",
    },
    ("reproduction", "rules"): {"paper", "certified", "0"},
    ("kinds", "rows"): {"arm 0", "left", "mean"},
    ("kinds", "heat"): {"a", "b", "c", "1", "2", "across", "up"},
}  # fmt: skip


@pytest.mark.parametrize(("name", "key"), TEXTS_OF)
@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_texts_of_a_figure_are_whole_and_apart(
    on_desktop: dict[str, Visit], on_phone: dict[str, Visit], device: str, name: str, key: str
) -> None:
    found = (on_desktop if device == "desktop" else on_phone)[name]
    chart = found.page.locator(f"#{key} .chart")
    frame = chart.bounding_box()
    assert frame is not None
    every = set()
    for drawing in chart.locator("svg.drawing").all():
        texts = drawing.locator("text").evaluate_all(TEXTS)
        every |= {text for text, *_ in texts}
        for number, (text, left, top, right, bottom) in enumerate(texts):
            # What browsers measure differs by a pixel.
            assert frame["x"] <= left < right <= frame["x"] + frame["width"] + 1, text
            for other, its_left, its_top, its_right, its_bottom in texts[:number]:
                beside = right <= its_left or its_right <= left
                apart = beside or bottom <= its_top or its_bottom <= top
                # The zeros of both axes stand in one corner.
                assert apart or text == other == "0", (text, other)
    assert TEXTS_OF[name, key] <= every


@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_panels_are_large_enough_to_read(
    on_desktop: dict[str, Visit], on_phone: dict[str, Visit], device: str
) -> None:
    found = (on_desktop if device == "desktop" else on_phone)["reproduction"]
    chart = found.page.locator("#scaling .chart")
    boxes = [panel.bounding_box() for panel in chart.locator("svg.drawing").all()]
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
    drawing = chart.locator("svg.drawing").first
    found.wait_until(lambda: drawing.evaluate("svg => svg.clientWidth") < 390)
    page.set_viewport_size({"width": 844, "height": 390})
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
