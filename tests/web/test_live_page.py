"""The live page in a browser: it follows a run by itself, and whoever reads it can use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from browsers import COLOURS, contrast
from fedbandits.federation.requests import requests_left
from fedbandits.protocol import ArmWithdrawn
from fedbandits.web.serving import PageServer
from logged_runs import eventful
from pages import address_of, served
from staged import Staged, staged
from visits import visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Staged]:
    with staged(tmp_path / "run.fedlog", phases=2) as found:
        found.opened([f"clinic-{number}" for number in range(8, 12)])
        yield found


@pytest.fixture
def server(run: Staged) -> Iterator[PageServer]:
    with served(run.path.parent) as found:
        yield found


def test_a_run_is_watched_from_its_first_phase_to_its_verdict(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "run.fedlog"
    with served(path) as server:
        seen = visit(browser, server, "/")
        seen.wait_until(lambda: "The run has not begun yet" in seen.text("notice"))
        with Staged(path, {"pulls": "200"}) as run:
            seen.wait_until(lambda: "no phase was opened" in seen.text("phase"))
            run.opened([f"clinic-{number}" for number in range(4)])
            seen.wait_until(lambda: "0 of 4 clients have reported" in seen.text("phase"))
            assert "nothing is known of the options" in seen.text("verdict")
            run.report(["clinic-0"])
            seen.wait_until(lambda: "1 of 4 clients has reported" in seen.text("phase"))
            assert "decided as soon as all have reported, and in 2" in seen.text("phase")
            assert "The server is running" in seen.text("server")
            run.report(run.server.missing)
            run.server.close()
            run.tell()
            seen.wait_until(lambda: "After 1 phase with 4 clients" in seen.text("verdict"))
            charts = seen.page.locator("#estimates svg.drawing, #eliminations svg.drawing")
            seen.wait_until(lambda: charts.count() == 2)
            number = 4
            while not run.server.finished:
                run.phase([f"clinic-{number}"])
                number += 1
            seen.wait_until(lambda: "The answer is honey" in seen.text("verdict"))
            seen.wait_until(lambda: "The run is over" in seen.text("server"))
            assert seen.page.locator('[data-part="left"] tbody tr').count() == 3
        assert seen.page.title() == "run.fedlog"  # of the page as it was loaded
        seen.close()


def test_a_chart_keeps_what_a_reader_has_chosen(
    browser: Browser, run: Staged, server: PageServer
) -> None:
    seen = visit(browser, server, address_of(server))
    legend = seen.page.locator("#eliminations .legend button")
    legend.first.click()
    assert legend.first.get_attribute("aria-pressed") == "false"
    before = seen.page.locator("#eliminations .interval").count()
    run.report(run.server.missing)
    run.server.close()
    run.tell()
    seen.wait_until(lambda: "After 3 phases" in seen.text("verdict"))
    seen.wait_until(lambda: seen.page.locator("#eliminations .interval").count() > before)
    assert legend.first.get_attribute("aria-pressed") == "false"
    seen.close()


def test_focus_and_what_was_typed_stay_when_the_page_changes(
    browser: Browser, run: Staged, server: PageServer
) -> None:
    seen = visit(browser, server, address_of(server))
    search = seen.page.locator('input[name="q"]')
    search.focus()
    seen.page.keyboard.type("clinic-1")
    rows = seen.page.locator("#clients tbody tr")
    seen.wait_until(lambda: rows.count() == 3)  # 1, 10 and 11
    region = seen.page.locator('[data-part="estimates"] [role=region]')
    region.focus()
    run.report(["clinic-1"])
    seen.wait_until(lambda: "1 of 12 clients has reported" in seen.text("phase"))
    seen.wait_until(lambda: "reported" in rows.first.inner_text())
    assert rows.count() == 3
    assert search.input_value() == "clinic-1"
    assert region.evaluate("part => part === document.activeElement")
    seen.close()


def test_clients_are_paged_and_filtered_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    with staged(tmp_path / "run.fedlog", changes={"admissions": "120"}) as run:
        run.opened([f"clinic-{number}" for number in range(120)])
        run.report(["clinic-7"])
        with served(tmp_path) as server:
            seen = visit(browser, server, address_of(server))
            names = seen.page.locator("#clients tbody th")
            assert names.count() == 50
            seen.page.locator("#clients a").last.focus()
            seen.page.keyboard.press("Enter")
            seen.wait_until(lambda: names.first.inner_text().startswith("clinic-50"))
            seen.page.locator("select[name=state]").select_option("reported")
            seen.wait_until(lambda: names.count() == 1)
            assert names.first.inner_text().startswith("clinic-7")
            seen.close()


def test_a_lost_connection_is_said_and_comes_back(browser: Browser, run: Staged) -> None:
    with served(run.path) as server:
        port = int(urlsplit(server.address).port or 0)
        seen = visit(browser, server, address_of(server))
    seen.wait_until(lambda: seen.page.locator("#live.over, #live.lost").count())
    assert "What you see is as of" in seen.page.locator("#live").inner_text()
    run.report(["clinic-0", "clinic-1"])  # while nobody can tell the page
    seen.complaints.clear()  # a browser notes that it is refused
    with served(run.path, port=port):
        seen.wait_until(lambda: "2 of 12 clients have reported" in seen.text("phase"))
        seen.page.locator("#live.fresh").wait_for()
        assert not [one for one in seen.complaints if "ERR_CONNECTION" not in one]
        seen.complaints.clear()
        seen.close()


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    eventful(tmp_path / "run.fedlog")
    dialogs: list[str] = []
    with served(tmp_path) as server:
        for path in ("/", address_of(server)):
            seen = visit(browser, server, path)
            seen.page.on("dialog", lambda one: dialogs.append(one.message))
            assert seen.page.locator("img").count() == 0
            seen.page.wait_for_timeout(100)
            assert dialogs == []
            seen.close()


def test_an_option_is_withdrawn_by_hand_after_a_question(browser: Browser, run: Staged) -> None:
    """In a browser, which says where a form comes from."""
    with served(run.path, allow_actions=True) as server:
        seen = visit(browser, server, f"{address_of(server)}?token={server.access.token}")
        assert "token" not in seen.page.url
        form = seen.page.locator('form:has(select[name="arm"])')
        form.locator("select").select_option(label="film")
        form.locator('input[name="reason"]').fill("a rash")
        form.get_by_role("button").click()
        assert "to withdraw film (a rash)" in seen.page.locator("main").inner_text()
        assert requests_left(run.path) == []
        seen.page.get_by_role("button", name="Yes, do it").click()
        seen.wait_until(lambda: "asked to withdraw film (a rash)" in seen.text("verdict"))
        assert requests_left(run.path) == [ArmWithdrawn(arm=3, reason="a rash")]
        seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out(browser: Browser, server: PageServer, scheme: Any) -> None:
    seen = visit(browser, server, address_of(server), color_scheme=scheme)
    (ground,) = seen.page.evaluate(COLOURS, ["body", "backgroundColor"])
    assert (sum(ground) < 120) == (scheme == "dark")
    for selector in ("p", "li", "li b", "li span", "td", "th", "time", "label", "input", "#live"):
        colours = seen.page.evaluate(COLOURS, [selector, "color"])
        assert colours, selector
        assert all(contrast(one, ground) > 4.5 for one in colours), selector
    seen.page.locator("#live").evaluate("sign => { sign.className = 'lost'; }")
    (words,) = seen.page.evaluate(COLOURS, ["#live", "color"])
    (alarm,) = seen.page.evaluate(COLOURS, ["#live", "backgroundColor"])
    assert contrast(words, alarm) > 4.5
    seen.close()


@pytest.mark.parametrize("path", ["list", "run"])
def test_a_phone_needs_no_sideways_scrolling(
    browser: Browser, server: PageServer, path: str
) -> None:
    where = "/" if path == "list" else address_of(server)
    seen = visit(browser, server, where, viewport=PHONE)
    width = seen.page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]
    seen.close()


def test_everything_can_be_reached_by_keyboard(browser: Browser, server: PageServer) -> None:
    seen = visit(browser, server, address_of(server))
    seen.page.locator("h1").click()
    reached = set()
    for _ in range(60):
        seen.page.keyboard.press("Tab")
        found = seen.page.evaluate(
            "() => { const one = document.activeElement; const shown = getComputedStyle(one);"
            " return [one.tagName + (one.name ?? ''), shown.outlineStyle]; }"
        )
        reached.add(found[0])
        if found[0] == "BODY":
            break
        assert found[1] != "none"
    assert reached >= {"A", "BUTTON", "INPUTq", "SELECTstate", "DIV"}
    seen.close()


def test_a_printed_page_has_its_charts_and_no_forms(browser: Browser, server: PageServer) -> None:
    seen = visit(browser, server, address_of(server))
    seen.page.emulate_media(media="print")
    assert seen.page.locator("#eliminations svg.drawing").is_visible()
    for hidden in ("#live", "nav", ".search", ".tools"):
        assert not seen.page.locator(hidden).first.is_visible()
    width = seen.page.locator("#eliminations svg.drawing").bounding_box()
    assert width is not None
    seen.page.set_viewport_size({"width": 1031, "height": 702})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 1031
    seen.close()


def test_without_scripts_the_page_is_as_of_now(browser: Browser, server: PageServer) -> None:
    seen = visit(browser, server, address_of(server), java_script_enabled=False)
    assert "After 2 phases" in seen.page.locator("main").inner_text()
    assert "load it again for news" in seen.page.locator("#live").inner_text()
    seen.page.locator('input[name="q"]').fill("clinic-1")
    seen.page.locator("form[role=search] button").click()
    assert seen.page.locator("#clients tbody tr").count() == 3
    seen.close()
