"""What every page has around its sections: head, style, and the figures that come alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from plotly.offline import get_plotlyjs

from fedbandits.experiments.report.markup import data_uri, json_in_script

# The browser itself refuses whatever would come from elsewhere.
_POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)


def live_figure(key: str, png: bytes, *, alt: str, caption: str) -> str:
    """Return a still image that the figure of this key takes the place of.

    Parameters
    ----------
    key : str
        Its name on the page.
    png : bytes
        The still image.
    alt : str
        What it shows, for those who do not see it.
    caption : str
        HTML below it.
    """
    return f"""<figure id="{escape(key)}" class="chart-frame">
<div class="chart"></div>
<img src="{data_uri(png)}" alt="{escape(alt)}">
<figcaption>{caption}
<noscript>Scripts are off, so this is a still image.</noscript></figcaption>
</figure>"""


def html_page(
    *,
    title: str,
    byline: str,
    sections: Sequence[tuple[str, str]],
    figures: Mapping[str, Any],
    contents: bool = False,
) -> str:
    """Return a page that needs no network.

    Parameters
    ----------
    title, byline : str
        Plain text and HTML.
    sections : sequence of (heading, body)
        HTML, in order.
    figures : mapping
        Plotly figures by the keys of `live_figure`. What of its layout differs on a narrow screen
        may stand in ``narrow``, and how it is otherwise in ``wide``.
    contents : bool
        Whether a table of contents stands above the sections.
    """
    body = "\n".join(
        f'<section id="section-{number}">\n<h2>{head}</h2>\n{text}\n</section>'
        for number, (head, text) in enumerate(sections, start=1)
    )
    if contents:
        body = f"{_contents([head for head, _ in sections])}\n{body}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>
{_part("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="byline">{byline}</p>
</header>
<main>
{body}
</main>
{_scripts(figures)}</body>
</html>
"""


@cache
def _part(name: str) -> str:
    """Return the style sheet or the script of all pages."""
    return (files("fedbandits.experiments.report") / name).read_text(encoding="utf-8")


def _scripts(figures: Mapping[str, Any]) -> str:
    """Return what draws figures; nothing, which is four megabytes less, where there are none."""
    if not figures:
        return ""
    data = "\n".join(
        f'<script type="application/json" data-figure="{escape(key)}">'
        f"{json_in_script(figure)}</script>"
        for key, figure in figures.items()
    )
    script = f"<script>\n{_part('page.js')}</script>"
    return f"<script>{get_plotlyjs()}</script>\n{data}\n{script}\n"


def _contents(headings: Sequence[str]) -> str:
    """Return links to the sections of these headings."""
    lines = "\n".join(
        f'<li><a href="#section-{number}">{head}</a></li>'
        for number, head in enumerate(headings, start=1)
    )
    return f'<nav aria-label="Contents">\n<ol>\n{lines}\n</ol>\n</nav>'
