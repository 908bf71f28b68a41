"""Writes the pictures of the live page that the documentation shows.

Run it by ``PYTHONPATH=tests python tests/web/screenshots.py``.

A run is staged, and Chromium shows it light and dark, wide and narrow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from browsers import started
from pages import TOKEN, served
from repository import DOCS
from staged import Staged, staged

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1180, "height": 860}
LARGEST = 150_000
BEDS = {"title": "Two beds", "arms": ["firm", "soft", "air", "water"]}


@contextmanager
def a_ward(folder: Path) -> Iterator[Staged]:
    """Yield a run in its sixth phase, in which some clients are missing."""
    with staged(folder / "run.fedlog", phases=5) as run:
        run.opened([f"clinic-{number}" for number in range(20, 24)])
        run.report(run.server.missing[:17])
        run.tell(away=["clinic-23"])
        yield run


def page_of(browser: Browser, address: str, size: dict[str, int], scheme: str) -> Page:
    page = browser.new_context(viewport=size, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.locator("#live.fresh").wait_for()
    page.wait_for_timeout(300)
    return page


def at(page: Page, heading: str) -> bytes:
    """Return the screen with a heading at its top."""
    found = page.get_by_role("heading", name=heading, exact=True)
    found.evaluate("part => scrollTo({ top: scrollY + part.getBoundingClientRect().top - 70 })")
    page.wait_for_timeout(300)
    return page.screenshot()


def write(name: str, *screens: bytes) -> None:
    """Write screens side by side, in few colours."""
    with tempfile.TemporaryDirectory() as folder:
        images = []
        for number, screen in enumerate(screens):
            file = Path(folder) / f"{number}.png"
            file.write_bytes(screen)
            images.append(Image.open(file).convert("RGB"))
    gap = 24 * (len(images) - 1)
    size = (sum(one.width for one in images) + gap, max(one.height for one in images))
    whole, left = Image.new("RGB", size, "#8a8f98"), 0
    for one in images:
        whole.paste(one, (left, 0))
        left += one.width + 24
    path = DOCS / f"{name}.png"
    whole.quantize(160).save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        raise RuntimeError(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")


def shoot(browser: Browser, base: str, run: str, beat: Callable[[], None]) -> None:
    """Take the pictures of a list of runs and of one of them, whose servers give signs of life."""
    entrance = f"?token={TOKEN}"
    for scheme in ("light", "dark"):
        beat()
        page = page_of(browser, f"{base}{run}{entrance}", WIDE, scheme)
        write(f"serve-run-{scheme}", page.screenshot())
        write(f"serve-phase-{scheme}", at(page, "How they narrowed"))
        page.context.close()
    beat()
    page = page_of(browser, f"{base}{run}{entrance}", PHONE, "light")
    screens = [page.screenshot(), at(page, "Estimates"), at(page, "The open phase")]
    page.context.close()
    page = page_of(browser, f"{base}{run}{entrance}", PHONE, "dark")
    write("serve-narrow", *screens, at(page, "Clients"), at(page, "Journal"))
    page.context.close()
    beat()
    page = page_of(browser, f"{base}/{entrance}", {"width": 1180, "height": 420}, "light")
    write("serve-list", page.screenshot())
    page.goto(f"{base}{run}")
    page.locator('select[name="arm"]').select_option("2")
    page.locator('form:has(select[name="arm"]) input[name="reason"]').fill(
        "two patients had a rash"
    )
    page.get_by_role("button", name="Withdraw an option").click()
    write("serve-confirm", page.screenshot())
    page.context.close()


def beat(*runs: Staged) -> None:
    """Let servers give a sign of life."""
    for run in runs:
        run.now.beat()


def main() -> None:
    """Write all of them."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "trials"
        (folder / "beds").mkdir(parents=True)
        with a_ward(folder) as ward, Staged(folder / "beds" / "run.fedlog", BEDS) as beds:
            beds.opened(["ward-1", "ward-2", "ward-3", "ward-4"])
            beds.report(["ward-1"])
            with served(folder, allow_actions=True, token=TOKEN) as server:
                runs = server.app.state.board.runs.values()
                (key,) = (run.key for run in runs if run.path.samefile(ward.path))
                for browser in started():
                    address = server.address.rstrip("/")
                    shoot(browser, address, f"/run/{key}", partial(beat, ward, beds))


if __name__ == "__main__":
    main()
