"""The command ``serve``: pages for a browser."""

from __future__ import annotations

import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.printing import interruptible
from fedbandits.errors import InputError


def has_web() -> bool:
    """Return whether what serves pages is installed."""
    return all(find_spec(name) is not None for name in ("starlette", "uvicorn"))


def require_web() -> None:
    """Refuse a command that serves pages if what serves them is not installed."""
    if not has_web():
        raise InputError("Starlette", 'is not installed; pip install "fedbandits[web]"')


def serve(  # noqa: PLR0917 - options of a command, all of them named
    source: Annotated[Path, typer.Argument(metavar="LOG|FOLDER")],
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8765,
    host: str = "127.0.0.1",
    name: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    token: Annotated[str | None, typer.Option(envvar="FEDBANDITS_TOKEN")] = None,
    allow_actions: Annotated[bool, typer.Option("--allow-actions")] = False,
    open_: Annotated[bool, typer.Option("--open/--no-open")] = True,
) -> None:
    """Show runs in a browser while they go on; nothing is ever written into their logs.

    Parameters
    ----------
    source
        Log of a run, or a folder with logs.
    port
        Port to listen on; 0 for any that is free.
    host
        Address to listen on. Any but that of this machine makes a token necessary.
    name
        Further host name of the pages, such as that of a reverse proxy; may be repeated.
    token
        Secret that browsers must know; at least 16 characters. By default one is made if it is
        needed.
    allow_actions
        Let those with the token withdraw options and stop runs.
    open_
        Open the page in a browser.
    """
    require_web()
    from fedbandits.web.serving import PageServer, access_of, bound  # noqa: PLC0415 - heavy

    if not source.exists():
        raise InputError(str(source), "is not there; name the log of a run, or a folder with logs")
    access = access_of(host=host, token=token, allow_actions=allow_actions, names=name or ())
    server = PageServer(source, access, bound(host, port))
    typer.echo(f"page: {server.entrance}")
    if open_:
        webbrowser.open(server.entrance)
    with interruptible("the page has ended"):
        server.run()
