"""The frame of every page that is served: the one of all reports, with its parts as files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fedbandits.report.page import Links, html_page

AT = "/static/"
"""Where the parts of pages are."""

_TYPES = {".css": "text/css", ".js": "text/javascript"}
_OF_REPORTS = ("chart.css", "page.css", "page.js", "d3.min.js")


class Part(NamedTuple):
    """A style sheet or a script."""

    content: bytes
    kind: str
    tag: str
    """Changes with the content: browsers ask whether theirs is still the same."""


@cache
def parts() -> dict[str, Part]:
    """Return all parts by their names; nothing else can be asked for.

    Examples
    --------
    >>> sorted({"page.css", "d3.min.js", "live.js"} - set(parts()))
    []
    """
    ours, reports = files("fedbandits.web"), files("fedbandits.report")
    found = [reports / name for name in _OF_REPORTS]
    found += [one for one in ours.iterdir() if one.name.endswith((".css", ".js"))]
    made = {}
    for one in found:
        content = one.read_bytes()
        kind = _TYPES[one.name[one.name.rindex(".") :]]
        made[one.name] = Part(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return made


async def static(request: Request) -> Response:
    """Answer with a part."""
    part = parts().get(request.path_params["name"])
    if part is None:
        raise HTTPException(404)
    headers = {"etag": part.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == part.tag:
        return Response(status_code=304, headers=headers)
    return Response(part.content, media_type=part.kind, headers=headers)


def served_page(
    *,
    title: str,
    byline: str,
    sections: Sequence[tuple[str, str]],
    notice: str = "",
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    status: int = 200,
) -> HTMLResponse:
    """Return a page whose parts the server has.

    Parameters
    ----------
    title, byline, sections, notice
        As for `fedbandits.report.page.html_page`; no markup may have a style or a script in it.
    styles, scripts : sequence of str
        Names of further parts, from this package.
    status : int
        Of the answer.
    """
    links = Links(
        at=AT,
        styles=[f"{AT}{name}" for name in ("live.css", *styles)],
        scripts=[f"{AT}{name}" for name in scripts],
    )
    page = html_page(title=title, byline=byline, sections=sections, notice=notice, links=links)
    return HTMLResponse(page, status)
