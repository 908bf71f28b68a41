"""Pages that are open in a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fedbandits.web.serving import PageServer
from pages import LONGEST

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

DESKTOP: ViewportSize = {"width": 1280, "height": 900}


@dataclass(frozen=True)
class Visit:
    """A page that is open, and what it asked for or said that it should not have."""

    page: Page
    complaints: list[str]

    def text(self, part: str) -> str:
        return self.page.locator(f'[data-part="{part}"]').inner_text()

    def wait_until(self, true: Callable[[], object], longest: float = LONGEST) -> None:
        end = time.monotonic() + longest
        while not true():
            assert time.monotonic() < end, self.complaints or "it never came true"
            self.page.wait_for_timeout(50)

    def close(self) -> None:
        assert self.complaints == []
        self.page.context.close()


def visit(browser: Browser, server: PageServer, path: str, **settings: Any) -> Visit:
    """Open a page of a server; see `open_page`."""
    return open_page(browser, f"{server.address.rstrip('/')}{path}", **settings)


def open_page(browser: Browser, address: str, **settings: Any) -> Visit:
    """Open a page, and note each request that leaves for another place than its server."""
    context = browser.new_context(**({"viewport": DESKTOP} | settings))
    page = context.new_page()
    found = Visit(page, [])
    ours = urlsplit(address).netloc

    def note(url: str) -> None:
        if urlsplit(url).netloc != ours and not url.startswith(("data:", "blob:")):
            found.complaints.append(f"request: {url[:200]}")

    page.on("request", lambda request: note(request.url))
    page.on("console", lambda said: found.complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: found.complaints.append(f"error: {error}"))
    page.goto(address)
    if settings.get("java_script_enabled", True):
        page.locator("#live.fresh").wait_for()
    return found
