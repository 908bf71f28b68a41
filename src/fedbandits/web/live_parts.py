"""Parts of a page that change: their versions, and the streams that tell browsers of them."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

BEAT = 10.0
"""Seconds after which a stream says that it is alive, if there is nothing else to say."""

MOST_STREAMS = 300
"""So many streams are open at once, of all viewers together."""


class LiveParts:
    """What a page shows now, and since which version each part of it.

    Everything here happens in the thread of the event loop.

    Examples
    --------
    >>> parts = LiveParts()
    >>> old = parts.version
    >>> parts.put({"verdict": "<p>red</p>", "costs": "<p>1</p>"}), parts.put({"costs": "<p>1</p>"})
    (True, False)
    >>> _ = parts.put({"costs": "<p>2</p>"})
    >>> parts.after(parts.version), parts.after(f"{old[:-1]}1"), sorted(parts.after("unknown"))
    ({}, {'costs': '<p>2</p>'}, ['costs', 'verdict'])
    """

    def __init__(self) -> None:
        self.shown: dict[str, str] = {}
        self.over = False
        self._since: dict[str, int] = {}
        self._number = 0
        # A server that was started again counts from 0 again, under another mark.
        self._mark = secrets.token_hex(4)
        self._changed = asyncio.Event()

    @property
    def version(self) -> str:
        """What a browser has that has all of it."""
        return f"{self._mark}-{self._number}"

    def put(self, parts: Mapping[str, str]) -> bool:
        """Show these parts from now on; return whether any of them is new."""
        new = {name: made for name, made in parts.items() if self.shown.get(name) != made}
        if not new:
            return False
        self._number += 1
        self.shown |= new
        self._since |= dict.fromkeys(new, self._number)
        self._wake()
        return True

    def after(self, version: str) -> dict[str, str]:
        """Return the parts that have changed since a version; all of them if it is not one."""
        mark, _, number = version.partition("-")
        known = int(number) if mark == self._mark and number.isdecimal() else -1
        return {name: made for name, made in self.shown.items() if self._since[name] > known}

    def end(self) -> None:
        """Tell all viewers that nothing more comes."""
        self.over = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def events(self, version: str) -> AsyncIterator[bytes]:
        """Yield what has changed since a version, and then what changes."""
        yield b"retry: 1000\n\n"
        while True:
            changed = self._changed
            found, version = self.after(version), self.version
            if found:
                yield _event("parts", found, version)
            if self.over:
                yield _event("over", {}, version)
                return
            try:
                await asyncio.wait_for(changed.wait(), BEAT)
            except TimeoutError:
                yield _event("beat", {}, version)


def _event(kind: str, data: Mapping[str, str], version: str) -> bytes:
    return f"event: {kind}\nid: {version}\ndata: {json.dumps(data)}\n\n".encode()


class Streams:
    """Counts the streams that are open, and opens no more than there may be."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self.most = most
        self.open = 0

    def of(self, parts: LiveParts, version: str) -> Response:
        """Return a stream of what changes, or refuse it."""
        if self.open >= self.most:
            said = f"{self.most} viewers are here already; try again later.\n"
            return Response(said, 503, {"retry-after": "10"}, media_type="text/plain")
        return _Stream(self, parts.events(version))


class _Stream(StreamingResponse):
    def __init__(self, streams: Streams, events: AsyncIterator[bytes]) -> None:
        # A reverse proxy passes every event on at once.
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.streams.open += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.streams.open -= 1
