"""The laboratory in a browser, and as anybody may ask for it."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from fedbandits.laboratory.designs import INDEX, LABELS, OWN
from fedbandits.laboratory.presets import presets
from fedbandits.laboratory.setting import FIELDS, Setting
from fedbandits.web.serving import PageServer, access_of, bound
from fedbandits.web.shell import parts
from pages import connection, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

LONGEST = 120.0
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
SMALL = "options=3&gap=0.1&horizon=20000"
ENDLESS = "pulls=1&admissions=1&horizon=10000000&gap=0.000001"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Serve a folder without runs: the laboratory needs none."""
    listening = bound("127.0.0.1", 0)
    serving = PageServer(tmp_path_factory.mktemp("runs"), access_of(host="127.0.0.1"), listening)
    with serving.beside():
        wait_until(lambda: serving.started)
        yield serving


def opened(server: PageServer, path: str) -> http.client.HTTPConnection:
    begun = connection(server)
    begun.request("GET", path)
    return begun


def asked(server: PageServer, query: str) -> list[dict[str, Any]]:
    """Return all that is answered to a question."""
    with closing(opened(server, f"/lab/answer?{query}")) as begun:
        answer = begun.getresponse()
        assert answer.status == 200
        return [json.loads(line) for line in answer.read().decode().splitlines()]


# As anybody may ask


def test_a_mistake_is_answered_without_a_process(server: PageServer) -> None:
    (message,) = asked(server, "options=1&gap=x")
    assert message["kind"] == "refused"
    assert [one["field"] for one in message["errors"]] == ["options", "gap"]
    (unknown,) = asked(server, "nothing=1")
    assert "is not a field" in unknown["errors"][0]["problem"]


def test_an_answer_is_a_stream_that_ends(server: PageServer) -> None:
    kinds = [one["kind"] for one in asked(server, SMALL)]
    assert kinds[0] == "outlook"
    assert kinds[-1] == "done"
    assert kinds.count("games") == 5


def test_the_work_for_somebody_who_has_left_is_ended(server: PageServer) -> None:
    pool = server.app.state.laboratory
    before = pool.running
    begun = opened(server, f"/lab/answer?{ENDLESS}&viewer=somebody")
    answer = begun.getresponse()
    assert json.loads(answer.readline())["kind"] == "outlook"
    wait_until(lambda: pool.running - before)
    answer.close()
    begun.close()
    wait_until(lambda: not pool.running - before)


def test_a_newer_question_ends_the_older_one(server: PageServer) -> None:
    with closing(opened(server, f"/lab/answer?{ENDLESS}&viewer=me")) as begun:
        answer = begun.getresponse()
        assert json.loads(answer.readline())["kind"] == "outlook"
        assert asked(server, f"{SMALL}&viewer=me")[-1]["kind"] == "done"
        assert json.loads(answer.read().decode().splitlines()[-1]) == {"kind": "superseded"}


def test_hostile_text_is_never_markup(server: PageServer) -> None:
    hostile = quote('"><script>alert(1)</script>')
    (message,) = asked(server, f"options={hostile}")
    assert "script" in message["errors"][0]["problem"]
    with closing(opened(server, f"/lab?options={hostile}")) as begun:
        answer = begun.getresponse()
        page = answer.read().decode()
    assert "alert(1)" not in page
    assert answer.getheader("content-type", "").startswith("text/html")
    assert "script-src 'self'" in answer.getheader("content-security-policy", "")


def test_the_whole_page_is_small(server: PageServer) -> None:
    with closing(opened(server, "/lab")) as begun:
        page = begun.getresponse().read().decode()
    names = re.findall(r"/static/([\w.]+)", page)
    assert {"laboratory.css", "laboratory.js", "playback.js", "d3.min.js"} <= set(names)
    streamed = sum(len(json.dumps(one)) for one in asked(server, SMALL))
    games = sum(len(json.dumps(one)) for one in asked(server, f"{SMALL}&game=0&left={quote(OWN)}"))
    assert len(page) + sum(len(parts()[name].content) for name in names) + streamed + games < 600e3


# In a browser


@dataclass(frozen=True)
class Visit:
    """The laboratory in a browser, and what it asked for or said that it should not have."""

    page: Page
    complaints: list[str]

    def wait_until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + LONGEST
        while not true():
            assert time.monotonic() < end, self.complaints or "it never came true"
            self.page.wait_for_timeout(30)

    def text(self, where: str) -> str:
        return self.page.locator(where).inner_text()

    def finished(self) -> None:
        """Wait until all games are played."""
        self.wait_until(lambda: re.match(r"[\d,]+ games of each", self.text("#lab-status")))

    def regret(self, label: str) -> str:
        return self.text(f'[data-design="{label}"] [data-row=regret] .number')

    def leads_to(self, setting: Setting) -> None:
        """Wait until the address restores a setting."""

        def restored() -> bool:
            return Setting.read(dict(parse_qsl(urlsplit(self.page.url).query))) == setting

        self.wait_until(restored)

    def set(self, name: str, value: str) -> None:
        self.page.locator(f"#lab-{name}").fill(value)


def visit(browser: Browser, server: PageServer, query: str = "", **settings: Any) -> Visit:
    context = browser.new_context(**({"viewport": DESKTOP} | settings))
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    complaints: list[str] = []

    def note(url: str) -> None:
        if not url.startswith((server.address, "data:", "blob:")):
            complaints.append(f"request: {url[:200]}")

    page.on("request", lambda request: note(request.url))
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.goto(f"{server.address}lab?{query}")
    return Visit(page, complaints)


@pytest.fixture(scope="module")
def lab(browser: Browser, server: PageServer) -> Visit:
    """Return the laboratory on a large screen, with all games of a small setting played."""
    found = visit(browser, server, SMALL)
    found.finished()
    return found


def test_a_slider_changes_the_numbers_and_the_address(lab: Visit) -> None:
    before = {label: lab.regret(label) for label in LABELS}
    assert all("±" in one for one in before.values())
    slider = lab.page.locator("input[data-for=gap]")
    slider.focus()
    for _ in range(40):
        lab.page.keyboard.press("ArrowRight")
    value = lab.page.locator("#lab-gap").input_value()
    assert float(value) > 0.1
    lab.wait_until(lambda: f"gap={value}" in lab.page.url)
    lab.finished()
    after = {label: lab.regret(label) for label in LABELS}
    assert all(before[label] != after[label] for label in LABELS)
    # What is shown is what the core says of the same setting.
    assert lab.page.locator(".card.least").count() == 1
    lab.set("gap", "0.1")
    lab.wait_until(lambda: "gap=0.1&" in lab.page.url)
    lab.finished()
    assert {label: lab.regret(label) for label in LABELS} == before
    assert lab.complaints == []


def test_the_page_shows_what_the_server_says(lab: Visit, server: PageServer) -> None:
    final = [one for one in asked(server, SMALL) if one["kind"] == "games"][-1]
    for label in LABELS:
        for row in ("regret", "clients", "pulls", "phases"):
            shown = lab.text(f'[data-design="{label}"] [data-row={row}] .number')
            assert shown == final["designs"][label][row]["text"]
    assert lab.page.locator("#regret svg .series").count() == 4  # three designs, and the bound
    assert "Feasible with a guarantee." in lab.text("#verdict")
    assert "Lower bound" in lab.text("#bound")


def test_copies_hold_the_file_the_command_and_a_link_that_restores(
    lab: Visit, browser: Browser, server: PageServer
) -> None:
    def copied(button: str) -> str:
        lab.page.locator(button).click()
        lab.wait_until(lambda: lab.text("#copied").endswith("copied."))
        return str(lab.page.evaluate("navigator.clipboard.readText()"))

    final = [one for one in asked(server, SMALL) if one["kind"] == "games"][-1]
    assert copied("#copy-file") == final["file"]
    assert copied("#copy-command") == final["command"]
    link = copied("#copy-link")
    assert link == f"{server.address}lab?{SMALL}"
    again = visit(browser, server, urlsplit(link).query)
    again.finished()
    assert {one: again.regret(one) for one in LABELS} == {one: lab.regret(one) for one in LABELS}
    again.page.context.close()


def test_presets_fill_the_form(lab: Visit, browser: Browser, server: PageServer) -> None:
    found = visit(browser, server, SMALL)
    for preset in presets():
        found.page.locator(f'[data-preset="{preset.key}"]').click()
        for name, value in preset.setting.as_text().items():
            assert found.page.locator(f"#lab-{name}").input_value() == value
        assert found.text("#preset-words") == preset.words
        found.leads_to(preset.setting)
    assert found.complaints == []
    found.page.context.close()


def test_a_mistake_stands_beside_its_field(browser: Browser, server: PageServer) -> None:
    found = visit(browser, server, SMALL)
    found.finished()
    found.set("horizon", "soon")
    where = "#lab-horizon-mistake"
    found.wait_until(lambda: '"soon" is not a number; give a whole number' in found.text(where))
    assert found.page.locator("#lab-horizon").get_attribute("aria-invalid") == "true"
    assert "Mend the marked field" in found.text("#lab-status")
    found.set("horizon", "20000")
    found.finished()
    assert found.page.locator("#lab [aria-invalid]").count() == 0
    # One that only the designs can tell.
    found.set("pulls", "100/")
    found.wait_until(lambda: found.text("#lab-pulls-mistake"))
    assert "Cannot be played" in found.text(f'[data-design="{OWN}"]')
    assert found.complaints == []
    found.page.context.close()


def test_a_long_computation_can_be_cancelled_and_started_again(
    browser: Browser, server: PageServer
) -> None:
    pool = server.app.state.laboratory
    found = visit(browser, server, ENDLESS)
    found.wait_until(lambda: "your design" in found.text("#lab-status"))
    busy = pool.running
    found.page.locator("#lab-cancel").click()
    assert "Cancelled" in found.text("#lab-status")
    wait_until(lambda: not (busy & pool.running))
    assert found.text("#lab-cancel") == "Start again"
    found.set("gap", "0.1")
    found.set("pulls", "100")
    found.set("horizon", "20000")
    found.finished()
    found.page.context.close()


def test_a_game_is_played_step_by_step_with_the_keyboard(lab: Visit) -> None:
    page = lab.page
    page.locator("#playback").scroll_into_view_if_needed()
    lab.wait_until(lambda: page.locator(".side svg .arm").count() == 6)
    page.locator("#playback").focus()
    assert [lab.text(f'[data-side="{label}"] .now') for label in (OWN, INDEX)] == [
        "Nothing is known yet."
    ] * 2
    seen = []
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        seen.append(lab.text(f'[data-side="{OWN}"] .now'))
    assert seen[0] == "Phase 1: 2 clients join."
    assert seen[1] == "Phase 1: each client pulls all options 100 times, and reports."
    assert seen[2].startswith("Phase 1: ")
    assert page.locator(f'[data-side="{OWN}"] .dots circle').count() == 2
    page.keyboard.press("ArrowLeft")
    assert lab.text(f'[data-side="{OWN}"] .now') == seen[1]
    page.keyboard.press("End")
    lab.wait_until(lambda: lab.text(f'[data-side="{OWN}"] .now') == "Decided: option 1.")
    assert page.locator(f'[data-side="{OWN}"] .arm.out').count() == 2
    assert "of its pulls until then with the best option" in lab.text("#play-moral")
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    assert page.locator('[data-play="play"]').get_attribute("aria-pressed") == "true"
    lab.wait_until(lambda: int(page.locator("#play-at").input_value()) > 2)
    page.keyboard.press(" ")
    assert page.locator('[data-play="play"]').get_attribute("aria-pressed") == "false"
    page.keyboard.press("+")
    assert page.locator("#play-speed").input_value() == "2"
    assert lab.complaints == []


def test_frames_on_the_page_are_those_of_the_simulator(lab: Visit, server: PageServer) -> None:
    page = lab.page
    (game,) = asked(server, f"{SMALL}&game=0&left={quote(OWN)}")
    page.locator("#playback").focus()
    page.keyboard.press("End")
    for side in game["sides"]:
        total = sum(one["exploration"] + one["communication"] for one in side["frames"])
        drawn = page.locator(f'[data-side="{side["label"]}"] .total')
        assert drawn.text_content() == f"Regret so far: {total:,.0f}"


def test_reduced_motion_is_respected(browser: Browser, server: PageServer) -> None:
    found = visit(browser, server, SMALL, reduced_motion="reduce")
    found.finished()
    found.page.locator("#playback").scroll_into_view_if_needed()
    found.wait_until(lambda: found.page.locator(".side svg .arm").count() == 6)
    found.page.locator("#playback").focus()
    places = []
    for _ in range(2):
        found.page.keyboard.press("ArrowRight")
        # Drawn at once, not on the way somewhere.
        mark = found.page.locator(".side svg .mark").first
        first = mark.get_attribute("cx")
        found.page.wait_for_timeout(150)
        places.append((first, mark.get_attribute("cx")))
    assert all(now == later for now, later in places)
    found.page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser: Browser, server: PageServer, scheme: str) -> None:
    found = visit(
        browser,
        server,
        SMALL,
        viewport=PHONE,
        is_mobile=True,
        has_touch=True,
        color_scheme=scheme,
    )
    found.finished()
    found.page.locator("#playback").scroll_into_view_if_needed()
    found.wait_until(lambda: found.page.locator(".side svg .arm").count() == 6)
    assert found.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert found.page.locator("#lab-brief").is_visible()
    assert found.page.evaluate(CONTRASTS) == []
    assert found.complaints == []
    found.page.context.close()


def test_every_control_has_a_name(lab: Visit) -> None:
    for one in FIELDS:
        assert lab.page.locator(f'label[for="lab-{one.name}"]').count() == 1
    sliders = lab.page.locator("#lab input[type=range]").all()
    assert all(slider.get_attribute("aria-label") for slider in sliders)
    usual = Setting().as_text()
    assert {name for name in usual if lab.page.locator(f"#lab-{name}").count() != 1} == set()


# Text that has less contrast with what is behind it than AA asks for.
CONTRASTS = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parts = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found[3] > 250) return found;
    }
    return parts(getComputedStyle(document.body).backgroundColor);
  };
  const found = [];
  for (const one of document.querySelectorAll("main *, header *, .brief *")) {
    const own = [...one.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !one.checkVisibility() || one.matches(":disabled, option, script")) continue;
    const style = getComputedStyle(one), drawn = one instanceof SVGElement;
    const ink = light(parts(drawn ? style.fill : style.color)), ground = light(behind(one));
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (ratio < 4.5) found.push(`${one.outerHTML.slice(0, 80)}: ${ratio.toFixed(2)}`);
  }
  return found;
}"""
