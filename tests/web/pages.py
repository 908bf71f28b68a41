"""Served pages, and requests as anybody may send them."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fedbandits.web.guard import Allowance
from fedbandits.web.serving import PageServer, access_of, bound

TOKEN = "a-token-of-26-characters.."
LONGEST = 60.0


@contextmanager
def served(
    source: Path,
    *,
    port: int = 0,
    limits: Mapping[str, Allowance] | None = None,
    **access: Any,
) -> Iterator[PageServer]:
    """Serve a log or a folder until the block ends; everything is read when it begins."""
    who = access_of(**({"host": "127.0.0.1"} | access))
    server = PageServer(source, who, bound("127.0.0.1", port), limits)
    with server.beside():
        wait_until(lambda: server.started)
        board = server.app.state.board
        wait_until(lambda: board.runs and all(run.parts.shown for run in board.runs.values()))
        yield server


def wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


@dataclass(frozen=True)
class Said:
    """What a server has answered."""

    status: int
    headers: Mapping[str, str]
    text: str


def ask(
    server: PageServer,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: Any = None,
) -> Said:
    """Send one request, exactly as it is given; the path is not tidied up."""
    with closing(connection(server)) as opened:
        opened.request(method, path, body, dict(headers or {}))
        answer = opened.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Said(answer.status, found, answer.read().decode())


def connection(server: PageServer) -> http.client.HTTPConnection:
    place = urlsplit(server.address)
    return http.client.HTTPConnection(place.hostname or "", place.port, timeout=LONGEST)


def address_of(server: PageServer, ending: str = "") -> str:
    """Return where the only run is."""
    (key,) = server.app.state.board.runs
    return f"/run/{key}{ending}"


class Viewer:
    """Somebody who has a page open: reads the stream of its news."""

    def __init__(self, server: PageServer, path: str) -> None:
        self._connection = connection(server)
        self._connection.request("GET", path)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def next(self, kind: str = "parts") -> str:
        """Return the data of the next event of a kind."""
        found = ""
        while True:
            line = self._answer.readline().decode()
            assert line, "the stream has ended"
            if line.startswith("event: "):
                found = line[7:].strip()
            elif line.startswith("data: ") and found == kind:
                return line[6:].strip()

    def close(self) -> None:
        self._answer.close()
        self._connection.close()
