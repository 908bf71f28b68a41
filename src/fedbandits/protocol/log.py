"""The server's log: records in order. The server's state is a function of this sequence alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from fedbandits.protocol.records import Record


class Log(Protocol):
    """An append-only sequence of records.

    A record is in it before anything is sent because of it.
    """

    def append(self, record: Record) -> None:
        """Add a record; when this returns it is as safe as the log can make it."""
        ...

    def __iter__(self) -> Iterator[Record]: ...


class MemoryLog:
    """A log that lasts as long as the process.

    Parameters
    ----------
    records : iterable of Record
        What it holds already.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: list[Record] = list(records)

    def append(self, record: Record) -> None:
        """Add a record."""
        self._records.append(record)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)
