"""Writes the pictures of the laboratory that the documentation shows.

Run it by ``PYTHONPATH=tests:tests/web python tests/web/laboratory_pictures.py``.
"""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from browsers import started
from fedbandits.web.serving import PageServer, access_of, bound
from pages import wait_until
from repository import DOCS
from screenshots import PHONE, write

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDE = {"width": 1280, "height": 1000}
LARGEST = 600_000
# In milliseconds: the first frame, each step, and the end.
FIRST, STEP, LAST = 900, 650, 4000
STILL = 17


def opened(browser: Browser, address: str, preset: str, **settings: Any) -> Page:
    """Return the laboratory with all games of a preset played."""
    page = browser.new_context(**({"viewport": WIDE} | settings)).new_page()
    page.goto(f"{address}lab")
    page.locator(f'[data-preset="{preset}"]').click()
    page.get_by_text("1,000 games of each design", exact=True).wait_for(timeout=120_000)
    return page


def shoot(browser: Browser, address: str) -> None:
    """Take all pictures."""
    write("lab-light", opened(browser, address, "hospital").screenshot())
    write("lab-dark", opened(browser, address, "figure4", color_scheme="dark").screenshot())
    phone = opened(browser, address, "stations", viewport=PHONE, is_mobile=True, has_touch=True)
    phone.locator("#designs").evaluate("part => { part.scrollIntoView(); scrollBy(0, -120); }")
    phone.wait_for_timeout(300)
    write("lab-narrow", phone.screenshot())
    film(opened(browser, address, "figure4", reduced_motion="reduce"))


def film(page: Page) -> None:
    """Write a game as an animation, and one of its steps as a still."""
    sides, place = page.locator("#play-sides"), page.locator("#play-at")
    page.locator("#playback").scroll_into_view_if_needed()
    sides.locator(".arm").first.wait_for(timeout=120_000)
    steps = int(place.get_attribute("max") or 0)
    frames = []
    for step in range(steps + 1):
        place.fill(str(step))
        page.wait_for_timeout(80)
        screen = sides.screenshot()
        frames.append(Image.open(BytesIO(screen)).convert("RGB"))
        if step == STILL:
            write("lab-game", screen)
    path = DOCS / "lab-game.webp"
    times = [FIRST, *[STEP] * (steps - 1), LAST]
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=times,
        loop=0,
        quality=55,
        method=6,
        minimize_size=True,
    )
    if path.stat().st_size > LARGEST:
        raise RuntimeError(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")


def main() -> None:
    """Write all of them."""
    with tempfile.TemporaryDirectory() as folder:
        listening = bound("127.0.0.1", 0)
        server = PageServer(Path(folder), access_of(host="127.0.0.1"), listening)
        with server.beside():
            wait_until(lambda: server.started)
            for browser in started():
                shoot(browser, server.address)


if __name__ == "__main__":
    main()
