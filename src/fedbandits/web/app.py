"""The web application: runs, the laboratory, what monitors read, and the guard before all of it."""

from __future__ import annotations

from html import escape
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedbandits.web import laboratory, shell
from fedbandits.web.guard import Access, Guard


def build_app(source: Path, access: Access) -> Starlette:
    """Return the application.

    Parameters
    ----------
    source : path
        A log, or a folder with logs.
    access : Access
        Who may see and do what.
    """

    async def runs(_: Request) -> Response:
        return shell.served_page(
            title="Runs", byline=escape(str(source)), sections=[("Runs", "<p>Soon.</p>")]
        )

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/", runs),
            Route("/health", health),
            Route("/static/{name}", shell.static),
            *laboratory.routes(),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _not_found},
    )


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = error.detail if isinstance(error, HTTPException) else "Something went wrong."
    body = f'<p>{escape(said)}</p>\n<p><a href="/">All runs</a></p>'
    return shell.served_page(
        title=str(status), byline="", sections=[(escape(said), body)], status=status
    )
