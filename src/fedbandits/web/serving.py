"""The process that serves pages: its socket, its token, its address, its end."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from fedbandits.errors import InputError
from fedbandits.web.app import build_app
from fedbandits.web.guard import LEAST_TOKEN, LOCAL_NAMES, Access, Allowance

PORT = 8765
"""Where the pages are, unless another port is asked for."""

# Seconds that open streams get to send their last words.
_GRACE = 2


def access_of(
    *,
    host: str,
    token: str | None = None,
    allow_actions: bool = False,
    names: Sequence[str] = (),
) -> Access:
    """Return who may see and do what.

    Pages that only this machine can reach need no token to be seen. Everything else does.

    Parameters
    ----------
    host : str
        Address that the server listens on.
    token : str or None
        As given; if one is needed and none is given, it is drawn at random.
    allow_actions : bool
        Whether those with the token may withdraw options and stop runs.
    names : sequence of str
        Further names of the server, such as that of its reverse proxy.

    Raises
    ------
    InputError
        If the token is too short.

    Examples
    --------
    >>> access_of(host="127.0.0.1").token is None
    True
    >>> access_of(host="0.0.0.0").private
    True
    """
    if token is not None and len(token) < LEAST_TOKEN:
        raise InputError(
            "--token",
            f"has {len(token)} characters; use at least {LEAST_TOKEN}, or none to have one made",
        )
    private = token is not None or not _is_local(host) or bool(names)
    if token is None and (private or allow_actions):
        token = secrets.token_urlsafe(24)
    ours = [] if _is_any(host) else [host]
    return Access(
        names=(*LOCAL_NAMES, *ours, *names), token=token, private=private, actions=allow_actions
    )


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_any(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")


@contextmanager
def page_beside(log: Path, port: int = PORT) -> Iterator[str]:
    """Serve the page of a log on this machine while something else goes on; yield its address.

    Parameters
    ----------
    log : path
        Need not exist yet.
    port : int
        Where to listen; if it is taken, any other port is.
    """
    try:
        listening = bound("127.0.0.1", port)
    except InputError:
        listening = bound("127.0.0.1", 0)
    server = PageServer(log, access_of(host="127.0.0.1"), listening)
    with server.beside():
        yield server.address


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises
    ------
    InputError
        If it cannot, for instance because the port is taken.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, proto)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(address)
            found.listen(128)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise InputError(
            f"{host}:{port}",
            f"cannot be listened on: {error.strerror or error}; choose another --port or --host",
        ) from None
    return found


class PageServer(uvicorn.Server):
    """Serves an application on a socket.

    Parameters
    ----------
    source : path
        A log, or a folder with logs.
    access : Access
        Who may do what.
    listening : socket
        From `bound`.
    limits : mapping of str to Allowance, optional
        As for `fedbandits.web.app.build_app`.
    """

    def __init__(
        self,
        source: Path,
        access: Access,
        listening: socket.socket,
        limits: Mapping[str, Allowance] | None = None,
    ) -> None:
        host, port = listening.getsockname()[:2]
        self.access = replace(access, cookie=f"{access.cookie}-{port}")
        self.app: Starlette = build_app(source, self.access, limits=limits)
        self.listening = listening
        name = "127.0.0.1" if _is_any(host) else host
        self.address = f"http://{f'[{name}]' if ':' in name else name}:{port}/"
        super().__init__(
            uvicorn.Config(
                self.app,
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_graceful_shutdown=_GRACE,
            )
        )

    @property
    def entrance(self) -> str:
        """The address to open, with the token if there is one."""
        token = self.access.token
        return self.address if token is None else f"{self.address}?token={token}"

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes."""
        super().run(sockets or [self.listening])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send what is known by then to all viewers, and that it was the last; then end."""
        await self.app.state.board.end()
        await super().shutdown(sockets)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Serve in a thread while something else goes on."""
        thread = threading.Thread(target=self.run, name="fedbandits-pages", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.should_exit = True
            thread.join(_GRACE + 3)
