"""Who may ask for what: everything that reaches the pages passes here first.

A page about a trial is worth protecting although it holds no observation. Any site that a browser
has open can send requests to this machine, so that the address alone protects nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY = 16_384
"""Bytes that a request may carry."""

LONGEST_QUERY = 4_096
"""Characters that an address may have after its question mark."""

LEAST_TOKEN = 16
"""Characters that a token has at least."""

# Nothing may come from elsewhere, and no markup can bring a script or a style along.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With "no-referrer" browsers would not say where our own forms come from.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
"""What browsers on this machine call it."""

# A load balancer asks for the first, and a page without a token has the style of the others.
_FREE = ("/health", "/static/")
AUTHORISED = "fedbandits.authorised"
"""Key of the scope of a request: whether it came with the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may see and do what.

    Parameters
    ----------
    names : iterable of str
        Host names under which browsers ask for the pages; others are refused.
    token : str or None
        Secret of those who may act. None if nobody may.
    private : bool
        Whether the token is also needed to see anything.
    actions : bool
        Whether options can be withdrawn and runs be stopped.
    cookie : str
        Name of the cookie that stands for the token. Cookies are shared by all ports of a machine.
    """

    names: Iterable[str] = LOCAL_NAMES
    token: str | None = None
    private: bool = False
    actions: bool = False
    cookie: str = "fedbandits"

    @property
    def stamp(self) -> str:
        """What the cookie holds: it proves that the token is known, and does not reveal it."""
        return hashlib.sha256(f"fedbandits cookie {self.token}".encode()).hexdigest()

    def knows(self, headers: Headers) -> bool:
        """Return whether a request comes with the token."""
        if self.token is None:
            return False
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        scheme, _, said = headers.get("authorization", "").partition(" ")
        return _same(cookie, self.stamp) or (
            scheme.lower() == "bearer" and _same(said.strip(), self.token)
        )


def _same(said: str, secret: str) -> bool:
    return hmac.compare_digest(said.encode(errors="replace"), secret.encode())


@dataclass(slots=True)
class Allowance:
    """How often each address may do something: so many at once, and so many a second after that.

    Parameters
    ----------
    burst, rate : float
        How many at once, and per second.
    clock : callable
        In seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> allowance = Allowance(2, 1.0, clock=lambda: now[0])
    >>> [allowance.take("a") for _ in range(3)], allowance.take("b")
    ([True, True, False], True)
    >>> now[0] = 1.0
    >>> allowance.take("a")
    True
    """

    burst: float
    rate: float
    clock: Callable[[], float] = time.monotonic
    most: int = 10_000
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, address: str) -> bool:
        """Return whether it may, and count it."""
        now = self.clock()
        left, at = self._left.pop(address, (self.burst, now))
        left = min(self.burst, left + self.rate * (now - at))
        allowed = left >= 1
        self._left[address] = (left - allowed, now)
        if len(self._left) > self.most:  # those who asked longest ago are forgotten
            self._left.popitem(last=False)
        return allowed


class Guard:
    """Refuses requests that should not be answered, and tells browsers what pages may do.

    Parameters
    ----------
    app : callable
        What answers the others.
    access : Access
        Who may do what.
    requests, changes, guesses : Allowance
        How often an address may ask, ask for a change, and name a wrong token.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        *,
        requests: Allowance | None = None,
        changes: Allowance | None = None,
        guesses: Allowance | None = None,
    ) -> None:
        self.app = app
        self.access = access
        self.names = frozenset(name.lower().strip("[]") for name in access.names)
        # One address may be a reverse proxy with everybody behind it.
        self.requests = requests or Allowance(2_000, 200)
        self.changes = changes or Allowance(20, 1)
        self.guesses = guesses or Allowance(10, 0.2)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        known = scope[AUTHORISED] = self.access.knows(headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    found[name] = value
                found.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refusal(scope, headers, known=known)
        if refused is not None:
            await refused(scope, receive, guarded)
            return
        await self.app(scope, _counted(receive), guarded)

    def _refusal(self, scope: Scope, headers: Headers, *, known: bool) -> Response | None:
        """Return what a request gets that is not answered; None for one that is."""
        address = (scope.get("client") or ("",))[0]
        if len(headers.getlist("host")) != 1 or not self._is_ours(headers["host"]):
            return _said(421, "This server does not have that name; see --name.")
        if not self.requests.take(address):
            return _said(429, "Too many requests; wait a moment.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _said(405, "Only GET, HEAD and POST are answered.")
        if len(scope["query_string"]) > LONGEST_QUERY:
            return _said(414, f"The address has more than {LONGEST_QUERY:,} characters.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            return _said(413, f"The request has more than {LONGEST_BODY:,} bytes.")
        if not _from_here(scope["method"], headers):
            return _said(403, "The request was sent by another site.")
        if scope["method"] == "POST" and not self.changes.take(address):
            return _said(429, "Too many changes; wait a moment.")
        return self._entry(scope, headers, address, known=known)

    def _entry(
        self, scope: Scope, headers: Headers, address: str, *, known: bool
    ) -> Response | None:
        """Return the page that asks for the token, if it is needed; take the token if it comes."""
        path: str = scope["path"]
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        said = dict(query).get("token")
        guessed = said is not None or (not known and "authorization" in headers)
        if guessed and self.access.token is not None and not self.guesses.take(address):
            return _said(429, "Too many wrong tokens; wait a minute.")
        if said is not None and self.access.token is not None:
            if not _same(said, self.access.token):
                return _token_page("That is not the token.")
            # The token does not stay in the address, which browsers keep and people copy.
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            entered = RedirectResponse(f"{_local(path)}?{rest}" if rest else _local(path), 303)
            entered.set_cookie(
                self.access.cookie,
                self.access.stamp,
                httponly=True,
                samesite="strict",
                secure=Headers(scope=scope).get("x-forwarded-proto") == "https",
            )
            return entered
        free = path.startswith(_FREE)
        return None if known or free or not self.access.private else _token_page("")

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name in self.names


def _local(path: str) -> str:
    """Return a path that no browser takes for the address of another site."""
    return "/" + path.lstrip("/\\")


def _counted(receive: Receive) -> Receive:
    """Return what reads a request, and ends it if more comes than was announced."""
    read = 0

    async def counted() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LONGEST_BODY:
            raise HTTPException(413, f"The request has more than {LONGEST_BODY:,} bytes.")
        return message

    return counted


def _from_here(method: str, headers: Headers) -> bool:
    """Return whether a request comes from our own pages, or from somebody who types an address."""
    site = headers.get("sec-fetch-site", "none")
    if method == "POST":
        origin = headers.get("origin")
        if origin is not None:
            return origin in {f"{scheme}://{headers['host']}" for scheme in ("http", "https")}
        return site in ("same-origin", "none")  # no browser: it needs the token all the same
    return site in ("same-origin", "none") or headers.get("sec-fetch-mode") == "navigate"


def _said(status: int, words: str) -> Response:
    return PlainTextResponse(f"{words}\n", status)


def _token_page(problem: str) -> Response:
    """Return the page that asks for the token."""
    said = f'<p role="alert"><b>{escape(problem)}</b></p>' if problem else ""
    return HTMLResponse(
        f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>fedbandits</title>
<link rel="stylesheet" href="/static/chart.css"><link rel="stylesheet" href="/static/page.css">
<link rel="stylesheet" href="/static/live.css"></head>
<body><h1>fedbandits</h1>
{said}<p>This page needs a token. The command that started it has printed one.</p>
<form method="get"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" required autofocus>
<button>Enter</button></form></body></html>""",
        401,
    )
