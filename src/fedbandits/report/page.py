"""The page around every report, and the charts that come alive on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, TypeAlias

from fedbandits.report.chart import Chart
from fedbandits.report.markup import data_uri, json_in_script
from fedbandits.report.still import still

Views: TypeAlias = Mapping[str, Chart]
"""Charts that take turns in one place, by what their buttons say: the first is shown first."""


def live_chart(
    key: str, charts: Chart | Views, *, alt: str, caption: str, image: bytes | None = None
) -> str:
    """Return a chart that can be pointed at and zoomed into; a still image in print.

    Parameters
    ----------
    key : str
        Its name on the page.
    charts : Chart or mapping of str to Chart
        What it shows, or what buttons choose from; print shows the first.
    alt : str
        What it shows, for those who do not see it.
    caption : str
        HTML below it.
    image : bytes, optional
        The first as PNG, if it was drawn already.
    """
    views = {"": charts} if isinstance(charts, Chart) else charts
    image = image or still(next(iter(views.values())))
    return f"""<figure id="{escape(key)}" class="chart-frame">
<div class="chart"></div>
<img src="{data_uri(image)}" alt="{escape(alt)}">
<figcaption>{caption}
<noscript>Scripts are off, so this is a still image.</noscript></figcaption>
<script type="application/json" data-figure="{escape(key)}">{json_in_script(chart_data(views))}\
</script>
</figure>"""


def chart_data(views: Views) -> dict[str, Any]:
    """Return charts as what JSON can hold: only what differs from a default, and each x once.

    Examples
    --------
    >>> from fedbandits.report.chart import Axis, Plot, Series
    >>> line = Series(label="a", x=[1, 2], y=[0.1, float("nan")], colour="#000000")
    >>> plot = Plot(x=Axis(label="slot"), y=Axis(log=True), series=[line])
    >>> made = chart_data({"": Chart(name="demo", panels=[plot])})
    >>> made["xs"], made["views"][""]["panels"][0]["series"]
    ([[1, 2]], [{'label': 'a', 'x': 0, 'y': [0.1, None], 'colour': '#000000'}])
    """
    places: dict[tuple[Any, ...], int] = {}

    def plain(value: Any) -> Any:
        if is_dataclass(value):
            found = {}
            for one in fields(value):
                part = getattr(value, one.name)
                usual = one.default if one.init else MISSING
                if not (part is usual or (type(part) is type(usual) and part == usual)):
                    found[one.name] = plain(part)
            if "colour" in found and "x" in found and isinstance(found["x"], list):
                found["x"] = places.setdefault(tuple(found["x"]), len(places))
            return found
        if isinstance(value, Mapping):
            return [[key, plain(part)] for key, part in value.items()]
        if isinstance(value, float):
            return _brief(value)
        if isinstance(value, str | int | None):
            return value
        return [plain(part) for part in value]

    shown = {name: plain(chart) for name, chart in views.items()}
    return {"views": shown, "xs": [list(one) for one in places]}


def _brief(value: float) -> float | int | None:
    """Return a number to six digits, more than a screen shows; whole ones as they are."""
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.6g}")


def html_page(*, title: str, byline: str, sections: Sequence[tuple[str, str]]) -> str:
    """Return a page that needs no network.

    Parameters
    ----------
    title, byline : str
        Plain text and HTML.
    sections : sequence of (heading, body)
        HTML, in order; charts in them are from `live_chart`.
    """
    body = "\n".join(
        f'<section id="section-{number}">\n<h2>{head}</h2>\n{text}\n</section>'
        for number, (head, text) in enumerate(sections, start=1)
    )
    contents = "\n".join(
        f'<li><a href="#section-{number}">{head}</a></li>'
        for number, (head, _) in enumerate(sections, start=1)
    )
    # Without a chart, the page needs no library to draw it.
    library = f"<script>{_part('d3.min.js')}</script>\n" if "data-figure=" in body else ""
    return Template(_part("page.html")).substitute(
        title=escape(title),
        byline=byline,
        contents=contents,
        body=body,
        library=library,
        chart_style=_part("chart.css"),
        page_style=_part("page.css"),
        script=_part("page.js"),
    )


@cache
def _part(name: str) -> str:
    """Return a style sheet or a script of all pages."""
    return (files("fedbandits.report") / name).read_text(encoding="utf-8")
