"""The browser that tests drive, and how colours look in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REQUIRED = os.environ.get("FEDBANDITS_REQUIRE_BROWSER") == "1"


def chromium() -> str | None:
    """Return where an installed Chromium is: where CHROMIUM says, or else on the path."""
    named = os.environ.get("CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next(filter(None, map(shutil.which, [named] if named else names)), None)


def started() -> Iterator[Browser]:
    """Yield a browser; skip the test if there is none, unless one is required."""
    if not REQUIRED:
        pytest.importorskip(
            "playwright.sync_api", reason="no playwright: install it to run the browser tests"
        )
    path = chromium()
    if path is None:
        missing = (
            "no Chromium found: install it (apt-get install chromium) or set CHROMIUM"
            " to run the browser tests"
        )
        pytest.fail(missing) if REQUIRED else pytest.skip(missing)
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Return the contrast ratio of two colours, as WCAG has it."""

    def light(colour: tuple[int, ...]) -> float:
        parts = [part / 255 for part in colour]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


# Whatever form the browser gives a colour: as red, green and blue of a pixel.
COLOURS = """([selector, property]) => [...document.querySelectorAll(selector)].map(part => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.fillStyle = getComputedStyle(part)[property];
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
})"""
