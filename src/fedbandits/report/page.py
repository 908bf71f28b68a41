"""The page around every report, and the charts that come alive on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, TypeAlias

from fedbandits.report.chart import Chart
from fedbandits.report.markup import data_uri, json_in_script

Views: TypeAlias = Mapping[str, Chart]
"""Charts that take turns in one place, by what their buttons say: the first is shown first."""


def live_chart(
    key: str,
    charts: Chart | Views,
    *,
    alt: str,
    caption: str,
    image: bytes | None = None,
    stills: bool = True,
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
    stills : bool
        Whether there is a still image at all. Without one, print shows the chart as it is on the
        screen: for pages that change while they are read.
    """
    views = {"": charts} if isinstance(charts, Chart) else charts
    shown, without = "", "Scripts are off, so there is no chart."
    if stills:
        from fedbandits.report.still import still  # noqa: PLC0415 - heavy, and only for reports

        image = image or still(next(iter(views.values())))
        shown = f'<img src="{data_uri(image)}" alt="{escape(alt)}">\n'
        without = "Scripts are off, so this is a still image."
    return f"""<figure id="{escape(key)}" class="chart-frame">
<div class="chart" data-alt="{escape(alt)}"></div>
{shown}<figcaption>{caption}
<noscript>{without}</noscript></figcaption>
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where a page that a server sends finds its parts: under addresses, not in itself.

    Parameters
    ----------
    at : str
        What precedes the names of the parts that all pages have.
    styles, scripts : sequence of str
        Addresses of further parts.
    """

    at: str
    styles: Sequence[str] = ()
    scripts: Sequence[str] = ()


_POLICY = """<!-- The browser itself refuses whatever would come from elsewhere. -->
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
"""


def html_page(
    *,
    title: str,
    byline: str,
    sections: Sequence[tuple[str, str]],
    notice: str = "",
    links: Links | None = None,
) -> str:
    """Return a page that needs no network; one that a server sends needs that server.

    Parameters
    ----------
    title, byline : str
        Plain text and HTML.
    sections : sequence of (heading, body)
        HTML, in order; charts in them are from `live_chart`.
    notice : str
        HTML between the title and the sections.
    links : Links, optional
        Where the page finds its parts; by default it contains them.
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
    charts = "data-figure=" in body or links is not None
    styles, scripts = ("chart", "page"), (*(["d3.min"] if charts else []), "page")
    if links is None:
        style = [f'<style id="{one}-style">\n{page_part(f"{one}.css")}</style>' for one in styles]
        script = [f"<script>\n{page_part(f'{one}.js')}</script>" for one in scripts]
    else:
        sheet, code = '<link rel="stylesheet"{} href="{}">', '<script src="{}" defer></script>'
        style = [sheet.format(f' id="{one}-style"', f"{links.at}{one}.css") for one in styles]
        style += [sheet.format("", escape(address)) for address in links.styles]
        script = [code.format(f"{links.at}{one}.js") for one in scripts]
        script += [code.format(escape(address)) for address in links.scripts]
    return Template(page_part("page.html")).substitute(
        policy=_POLICY if links is None else "",
        title=escape(title),
        byline=byline,
        notice=notice,
        contents=contents,
        body=body,
        styles="\n".join(style),
        scripts="\n".join(script),
    )


@cache
def page_part(name: str) -> str:
    """Return a style sheet, a script or the frame of all pages."""
    return (files("fedbandits.report") / name).read_text(encoding="utf-8")
