"""The log of a live run, in SQLite: on disk before anything is sent because of it.

Every record is a row with a checksum over itself and the checksum before it. A damaged tail is what
a crash may leave: the run goes on from the last good record. Damage before a good record is
something else, and refused. One process at a time writes a log, which holds a lock while it does.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.log import Record

FORMAT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS header (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS records (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    body TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT;
"""


class DamagedLogError(FedbanditsError):
    """A log cannot be trusted: something before its last record is not what was written."""


class LogInUseError(FedbanditsError):
    """Another process is writing this log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContent:
    """What a log holds.

    Parameters
    ----------
    header : dict
        What the run is: its specification, arms and versions.
    records : tuple of Record
        All good ones, in order.
    times : tuple of str
        When each was written.
    dropped : int
        Damaged records at the end, which are as if they had never been written.
    """

    header: dict[str, Any]
    records: tuple[Record, ...]
    times: tuple[str, ...]
    dropped: int = 0


class DurableLog:
    """A log that outlasts the process; a `fedbandits.protocol.Log`.

    Parameters
    ----------
    path : path
        Of the file; made if it is not there.
    header : dict, optional
        What the run is, in JSON; required for a new log, and must be the same for an old one.

    Raises
    ------
    LogInUseError
        If another process writes it.
    DamagedLogError
        If it cannot be trusted.

    Examples
    --------
    >>> import tempfile
    >>> from fedbandits.protocol import Rejection, UpdateRejected
    >>> path = Path(tempfile.mkdtemp()) / "run.fedlog"
    >>> with DurableLog(path, {"run": "demo"}) as log:
    ...     log.append(UpdateRejected(client="a", phase=1, rejection=Rejection.PHASE))
    >>> [type(record).__name__ for record in read_log(path).records]
    ['UpdateRejected']
    """

    def __init__(self, path: str | Path, header: dict[str, Any] | None = None) -> None:
        self.path = Path(path)
        is_new = not self.path.exists()
        if is_new and header is None:
            raise InputError(str(self.path), "is not there; name the log of a run")
        try:
            self._lock = _locked(self.path)
        except OSError as error:
            raise InputError(str(self.path), f"cannot be written: {error.strerror}") from None
        try:
            self._database = _opened(self.path)
            content = self._begin(header)
        except BaseException:
            self._lock.close()
            raise
        self.header, self.dropped = content.header, content.dropped
        self._records = list(content.records)
        self._number, self._checksum = self._last()

    def _begin(self, header: dict[str, Any] | None) -> LogContent:
        with self._database:
            self._database.executescript(_SCHEMA)
            if header is not None and not self._database.execute("SELECT 1 FROM header").fetchone():
                text = json.dumps(header, ensure_ascii=False, sort_keys=True)
                self._database.executemany(
                    "INSERT INTO header VALUES (?, ?)",
                    [("format", str(FORMAT)), ("run", text), ("checksum", _digest("", text))],
                )
        content = _content(self._database, self.path)
        if header is not None and content.header != json.loads(json.dumps(header)):
            raise InputError(
                str(self.path),
                "is the log of another run; name another file, or resume that run",
            )
        if content.dropped:
            with self._database:
                self._database.execute(
                    "DELETE FROM records WHERE number > ?", (len(content.records),)
                )
        return content

    def _last(self) -> tuple[int, str]:
        row = self._database.execute(
            "SELECT number, checksum FROM records ORDER BY number DESC LIMIT 1"
        ).fetchone()
        return (0, "") if row is None else (int(row[0]), str(row[1]))

    def append(self, record: Record) -> None:
        """Add a record; when this returns it is on disk."""
        body = json.dumps(encode(record), ensure_ascii=False)
        number, checksum = self._number + 1, _digest(self._checksum, body)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._database:
            self._database.execute(
                "INSERT INTO records VALUES (?, ?, ?, ?)", (number, now, body, checksum)
            )
        self._number, self._checksum = number, checksum
        self._records.append(record)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_log(path: str | Path) -> LogContent:
    """Return what a log holds; it may be written meanwhile.

    Raises
    ------
    InputError
        If there is no log.
    DamagedLogError
        If it cannot be trusted.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(str(path), "is not there; name the log of a run")
    database = sqlite3.connect(f"file:{path.absolute().as_posix()}?mode=ro", uri=True)
    try:
        return _content(database, path)
    finally:
        database.close()


def _content(database: sqlite3.Connection, path: Path) -> LogContent:
    try:
        header = dict(database.execute("SELECT key, value FROM header").fetchall())
        rows = database.execute(
            "SELECT number, at, body, checksum FROM records ORDER BY number"
        ).fetchall()
    except sqlite3.DatabaseError as error:
        raise DamagedLogError(
            f"{path}: is damaged, or not a log of a run ({error}); restore it from a copy"
        ) from None
    if header.get("format") != str(FORMAT) or "run" not in header:
        raise DamagedLogError(f"{path}: is not a log of a run of this version")
    if header.get("checksum") != _digest("", header["run"]):
        raise DamagedLogError(f"{path}: what the run is was changed; restore it from a copy")
    records: list[Record] = []
    bad: list[int] = []
    before = ""
    for expected, (number, _, body, checksum) in enumerate(rows, start=1):
        good = number == expected and checksum == _digest(before, body)
        record = _record(body) if good else None
        if record is None:
            bad.append(expected)
        elif bad:
            raise DamagedLogError(
                f"{path}: record {bad[0]} is damaged, and {len(rows) - bad[0]} follow it; restore"
                " the log from a copy: it cannot be trusted"
            )
        else:
            records.append(record)
        before = checksum
    return LogContent(
        header=json.loads(header["run"]),
        records=tuple(records),
        times=tuple(str(at) for _, at, _, _ in rows[: len(records)]),
        dropped=len(bad),
    )


def _record(body: str) -> Record | None:
    try:
        found: Record = decode(Record, json.loads(body), "record")
    except ValueError:  # an InputError is one
        return None
    return found


def _digest(before: str, body: str) -> str:
    return hashlib.sha256(f"{before}\n{body}".encode()).hexdigest()


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
    except sqlite3.DatabaseError as error:
        database.close()
        raise DamagedLogError(
            f"{path}: is damaged, or not a log of a run ({error}); restore it from a copy"
        ) from None
    return database


def _locked(path: Path) -> IO[bytes]:
    """Return the lock of a log: a file beside it, unlocked by the system when the process ends."""
    file = path.with_name(path.name + ".lock").open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - there alone

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - not there

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise LogInUseError(
            f"{path}: another server writes this log; there is one at a time (stop the other, or"
            " wait for it)"
        ) from None
    return file
