"""The web application: runs, the laboratory, what monitors read, and the guard before all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from html import escape
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedbandits.laboratory.pool import Pool
from fedbandits.web import laboratory, shell
from fedbandits.web.guard import Access, Allowance, Guard
from fedbandits.web.live_parts import Streams
from fedbandits.web.metrics import MEDIA_TYPE, metrics_text
from fedbandits.web.run_pages import RunPages
from fedbandits.web.watched import Board


def build_app(
    source: Path, access: Access, *, limits: Mapping[str, Allowance] | None = None
) -> Starlette:
    """Return the application; its state has the board of runs, the streams and the laboratory.

    Parameters
    ----------
    source : path
        A log, or a folder with logs.
    access : Access
        Who may see and do what.
    limits : mapping of str to Allowance, optional
        Those of `fedbandits.web.guard.Guard` that are not as by default.
    """
    board, streams, workers = Board(source), Streams(), Pool()

    @asynccontextmanager
    async def watching(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(board.watch())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def health(_: Request) -> Response:
        read = sum(run.live is not None for run in board.runs.values())
        broken = sum(bool(run.problem) for run in board.runs.values())
        return JSONResponse(
            {"status": "ok", "runs": len(board.runs), "read": read, "unreadable": broken}
        )

    async def metrics(_: Request) -> Response:
        return Response(metrics_text(board.runs.values(), streams.open), media_type=MEDIA_TYPE)

    app = Starlette(
        routes=[
            *RunPages(board, access, streams).routes(),
            Route("/health", health),
            Route("/metrics", metrics),
            Route("/static/{name}", shell.static),
            *laboratory.routes(workers),
        ],
        middleware=[Middleware(Guard, access=access, **(limits or {}))],
        exception_handlers={HTTPException: _refused},
        lifespan=watching,
    )
    app.state.board, app.state.streams, app.state.laboratory = board, streams, workers
    return app


async def _refused(_: Request, error: Exception) -> Response:
    """Return a page that says what is wrong."""
    status, said = 500, "Something went wrong."
    if isinstance(error, HTTPException):
        status, said = error.status_code, error.detail
    body = '<p><a href="/">All runs</a></p>'
    return shell.served_page(
        title=str(status), byline="", sections=[(escape(said), body)], status=status
    )
