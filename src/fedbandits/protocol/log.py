"""The server's log: records in order. The server's state is a function of this sequence alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fedbandits.protocol.records import Record


class Log(Protocol):
    """An append-only sequence of records.

    A record is in it before anything is sent because of it.
    """

    def append(self, record: Record, /) -> None:
        """Add a record; when this returns it is as safe as the log can make it."""

    def __iter__(self) -> Iterator[Record]: ...


class MemoryLog(list[Record]):
    """A log that lasts as long as the process."""
