"""The log of a live run, in SQLite: on disk before anything is sent because of it.

Every record is a row with a checksum over itself and the checksum before it. A crash may leave a
damaged tail: the run continues from the last good record. Damage before a good record has another
cause, and is refused. One process at a time writes a log, and holds a lock while it does.

The checksums show damage. Whoever can write the file can make them anew, so if the server has a key
it signs the checksum at every decision; `fedbandits.federation.verification` checks that.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    ExitStack,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TypeAlias

from pydantic_core import from_json  # three times as fast as the standard library's

from fedbandits.errors import FedbanditsError, InputError, ProtocolError, file_errors
from fedbandits.federation import state_files
from fedbandits.federation.signing import Sign
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.records import HeadSigned, PhaseClosed, Record, RunEnded

FORMAT = 2
"""Version 0.1.0 wrote format 1, in which the end of a run was not a record."""

_MAGIC = b"SQLite format 3\0"

# An error of SQLite may quote what is damaged, and then not be text.
_UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)

# Errors of SQLite about a file that is whole and cannot be opened.
_CLOSED = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_BUSY")

# Errors of SQLite about the disk that a copy is written to.
_FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE")

# A log that is being written is copied at most this often.
_COPIES = 20

_SCHEMA = (
    "CREATE TABLE header (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "CREATE TABLE records (number INTEGER PRIMARY KEY, at TEXT NOT NULL, body TEXT NOT NULL,"
    " checksum TEXT NOT NULL) STRICT",
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Up to where a log was read.

    Parameters
    ----------
    run : str
        Checksum of what the log says of its run.
    number : int
        Of the last record that was read.
    checksum : str
        Of that record, and through it of all before it.
    """

    run: str
    number: int
    checksum: str


class DurableLog(state_files.Closing):
    """A log that outlasts the process; a `fedbandits.protocol.log.Log`.

    Parameters
    ----------
    path : path
        Of the file; made if it is not there.
    header : dict, optional
        What the run is, in JSON; required for a new log, and must be the same for an old one.

    Raises
    ------
    InputError
        If it is not there, empty, of another run, or no log at all.
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
        self.path = Path(path).resolve()
        if header is None:
            _check_there(self.path)
        with ExitStack() as opened:  # if anything goes wrong, all of it is closed again
            with file_errors(self.path, "cannot be written"):
                opened.enter_context(locked(self.path))
            if not self.path.exists():
                state_files.private_database(self.path)
            self._database = opened.enter_context(closing(_connected(self.path, "rwc")))
            _prepare(self._database, self.path)
            self.header = self._begin(header)
            rows = _Rows(self.path)
            for _ in rows.after(self._database):
                pass
            if rows.dropped:
                with self._database:
                    self._database.execute("DELETE FROM records WHERE number > ?", (rows.number,))
            self._opened = opened.pop_all()
        self.dropped, self._number, self._checksum = rows.dropped, rows.number, rows.checksum
        self._sign: Sign | None = None
        self._over = False

    def sign_with(self, sign: Sign, *, over: bool) -> None:
        """Sign every decision from now on, and every record once the run is over.

        If a crash has cost the last record its signature, it is signed again.
        """
        self._sign, self._over = sign, over
        rows = self._database.execute(f"{_ALL_ROWS} WHERE number = ?", (self._number,))
        last = [_record(row, self.path) for row in rows]
        if last and self._is_signed_for(last[0]):
            self._write([self._signature(_now(), self._number, self._checksum)])

    def _is_signed_for(self, record: Record) -> bool:
        """Return whether a signature follows a record."""
        if isinstance(record, HeadSigned):
            return False
        return self._over or isinstance(record, PhaseClosed | RunEnded)

    def _begin(self, header: dict[str, Any] | None) -> dict[str, Any]:
        """Return what the run is. A new log gets its tables and says it first: all or nothing."""
        if header is not None and not _tables(self._database, self.path):
            text = json.dumps(header, sort_keys=True)
            with self._writing() as database:
                database.execute("BEGIN")
                for table in _SCHEMA:
                    database.execute(table)
                rows = _header_rows(text).items()
                database.executemany("INSERT INTO header VALUES (?, ?)", rows)
        found = _header(self._database, self.path)
        if header is not None and found != json.loads(json.dumps(header)):
            raise InputError(str(self.path), "is another run's log; name another, or resume it")
        return found

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database for one change, which is on disk when this returns."""
        try:
            with self._database:
                yield self._database
        except sqlite3.Error as error:
            raise InputError(
                str(self.path), f"cannot be written: {error}; nothing was sent because of it"
            ) from None

    def append(self, record: Record) -> None:
        """Add a record; when this returns it is on disk, with the server's signature if it decides.

        Raises
        ------
        InputError
            If it cannot be written, for instance because the disk is full. It may be there or
            not: open the log again to find out.
        """
        at = _now()
        rows = [self._row(record, at, self._number, self._checksum)]
        self._over |= isinstance(record, RunEnded)
        if self._sign is not None and self._is_signed_for(record):
            number, _, _, checksum = rows[0]
            rows.append(self._signature(at, number, checksum))
        self._write(rows)

    def _write(self, rows: Sequence[_Row]) -> None:
        """Add rows: all of them or none."""
        with self._writing() as database:
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        self._number, _, _, self._checksum = rows[-1]

    def _signature(self, at: str, number: int, checksum: str) -> _Row:
        """Return the row that signs all records up to the one of a number and checksum."""
        if self._sign is None:
            raise ProtocolError("a log without a key cannot be signed")
        signature = self._sign(head_bytes(self.header, checksum, at))
        record = HeadSigned(checksum=checksum, at=at, signature=signature)
        return self._row(record, at, number, checksum)

    @staticmethod
    def _row(record: Record, at: str, number: int, before: str) -> _Row:
        """Return the row of a record that follows the one of a number and checksum."""
        body = record_body(record)
        return number + 1, at, body, _digest(before, f"{at} {body}")

    def __iter__(self) -> Iterator[Record]:
        rows = _Rows(self.path)
        return (_record(row, self.path) for row in rows.after(self._database))

    def __len__(self) -> int:
        return self._number

    def reader(self, after: Place | None = None) -> LogReader:
        """Return a reader for this process, which has the log open already; see `LogReader`."""
        return LogReader(self.path, after, self._database)

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()


def has_begun(path: Path) -> bool:
    """Return whether the run of a log has begun; if not, a run can begin with it.

    Raises
    ------
    InputError
        If it is something else.
    """
    try:
        _check_there(path)
    except InputError:
        return path.is_dir()
    with _reading(path) as database:
        return bool(_tables(database, path))


_Row: TypeAlias = tuple[int, str, str, str]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def record_body(record: Record) -> str:
    """Return a record as a log has it: there is one way to write it."""
    return json.dumps(encode(record))


def head_bytes(header: dict[str, Any], checksum: str, at: str) -> bytes:
    """Return what a server signs: what the run is, the checksum of all records so far, the time."""
    return f"fedbandits log\n{header_digest(header)}\n{checksum}\n{at}".encode()


def _header_rows(text: str) -> dict[str, str]:
    """Return the table that says what a run is."""
    return {"format": str(FORMAT), "run": text, "checksum": _digest("", text)}


def header_digest(header: dict[str, Any]) -> str:
    """Return the checksum of what a log says of its run."""
    return _digest("", json.dumps(header, sort_keys=True))


_ALL_ROWS = "SELECT number, at, body, checksum FROM records"


OnRead: TypeAlias = Callable[[int, int], None]
"""Told now and then how many of all records were read."""

_TOLD_EVERY = 5_000


class _Rows:
    """The rows of a log as far as they were read, each checked against the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.checksum = ""
        self.dropped = 0

    def after(self, database: sqlite3.Connection) -> Iterator[_Row]:
        """Yield the rows that follow those that were read; leave out a damaged tail."""
        self.dropped = 0
        with _sqlite_errors(self.path):
            self._check_unchanged(database)
            after = f"{_ALL_ROWS} WHERE number > ? ORDER BY number"
            for row in database.execute(after, (self.number,)):
                if row[0] != self.number + 1 or row[3] != _checksum(row, self.checksum):
                    every = database.execute(f"{_ALL_ROWS} ORDER BY number").fetchall()
                    _check_tail(every, self.number, self.path)
                    self.dropped = len(every) - self.number
                    return
                self.number, self.checksum = row[0], row[3]
                yield row

    def _check_unchanged(self, database: sqlite3.Connection) -> None:
        """Refuse to continue in a log that no longer holds what was read from it."""
        last_read = "SELECT checksum FROM records WHERE number = ?"
        last = database.execute(last_read, (self.number,)).fetchone()
        if self.number and (last is None or last[0] != self.checksum):
            raise DamagedLogError(f"{self.path}: record {self.number} has changed; read it again")


class LogReader(_Rows):
    """Reads a log while it may be written: first all of it, and then what is new.

    Parameters
    ----------
    path : path
        Of the log.
    after : Place, optional
        Where to begin, if that place is in the log; the part before it is not checked then.
    database : Connection, optional
        Of the log, in the process that writes it; by default the file is opened for each reading.

    Raises
    ------
    InputError
        If there is no log, or it is something else.
    DamagedLogError
        If it cannot be trusted.
    """

    def __init__(
        self,
        path: str | Path,
        after: Place | None = None,
        database: sqlite3.Connection | None = None,
    ) -> None:
        super().__init__(Path(path))
        self._database = database
        with _reading(self.path, database) as opened:
            self.header = _header(opened, self.path)
            self._run = header_digest(self.header)
            with _sqlite_errors(self.path):
                (last,) = opened.execute("SELECT max(number) FROM records").fetchone()
                if after is not None and after.run == self._run and _holds(opened, after):
                    self.number, self.checksum = after.number, after.checksum
        self.length = last or 0

    @property
    def place(self) -> Place:
        """Up to where it was read."""
        return Place(run=self._run, number=self.number, checksum=self.checksum)

    def begin_again(self) -> None:
        """Read from the first record on."""
        self.number, self.checksum = 0, ""

    def new(self, progress: OnRead | None = None) -> Iterator[tuple[Record, str]]:
        """Yield the records that were written since the last call, each with its time."""
        with _reading(self.path, self._database) as database:
            for row in self._told(database, progress):
                yield _record(row, self.path), row[1]

    def read_all(self, progress: OnRead | None = None) -> None:
        """Check the records that were written since the last call."""
        for _ in self.new(progress):
            pass

    def _told(self, database: sqlite3.Connection, progress: OnRead | None) -> Iterator[_Row]:
        for row in self.after(database):
            yield row
            if progress is not None and self.number % _TOLD_EVERY == 0:
                progress(self.number, self.length)

    def every(self, progress: OnRead | None = None) -> Iterator[tuple[Record, str, str]]:
        """Yield all records, each with its time and checksum, and tolerate nothing.

        Raises
        ------
        DamagedLogError
            If the end is damaged, or anything is written in another way than this program writes.
        """
        self.begin_again()
        with _reading(self.path, self._database) as database:
            with _sqlite_errors(self.path):
                said = dict(database.execute("SELECT key, value FROM header").fetchall())
            text = json.dumps(self.header, sort_keys=True)
            if said != _header_rows(text):
                raise DamagedLogError(f"{self.path}: its header is not as it was written")
            for row in self._told(database, progress):
                record = _record(row, self.path)
                if record_body(record) != row[2]:
                    raise DamagedLogError(f"{self.path}: record {row[0]} is not as it was written")
                yield record, row[1], row[3]
        if self.dropped:
            raise DamagedLogError(f"{self.path}: record {self.number + 1} is damaged")


def _holds(database: sqlite3.Connection, place: Place) -> bool:
    """Return whether the last record of a place is in a log, and follows the one before it."""
    two = f"{_ALL_ROWS} WHERE number IN (?, ?) ORDER BY number"
    rows = database.execute(two, (place.number - 1, place.number)).fetchall()
    if [row[0] for row in rows] != list(range(max(1, place.number - 1), place.number + 1)):
        return False
    before = rows[-2][3] if rows[1:] else ""
    return bool(rows) and rows[-1][3] == place.checksum == _checksum(rows[-1], before)


def read_log(path: str | Path) -> LogContent:
    """Return all that a log holds; errors are those of `LogReader`."""
    reader = LogReader(path)
    found = list(reader.new())
    return LogContent(
        header=reader.header,
        records=tuple(record for record, _ in found),
        times=tuple(at for _, at in found),
        dropped=reader.dropped,
    )


def copy_log(path: Path, to: Path, progress: OnRead | None = None) -> LogReader:
    """Copy a log as it is at one moment, while a server may write it.

    Parameters
    ----------
    path, to : path
        The log, and the file to make.
    progress : callable, optional
        Told now and then how many records are checked.

    Returns
    -------
    LogReader
        It has read and checked the copy to its end.

    Raises
    ------
    InputError
        If there is no log, or it is something else, or the copy cannot be written.
    DamagedLogError
        If it cannot be trusted.
    """
    with _reading(path) as database, closing(_connected(to, "rwc")) as copy:
        _header(database, path)
        try:
            database.backup(copy)  # in one step, which reads one state of the database
            copy.execute("PRAGMA journal_mode = DELETE")  # the copy is one file
        except sqlite3.Error as error:
            if error.sqlite_errorname in _FULL:
                raise InputError(str(to.parent), f"cannot be written: {error}") from None
            raise _unreadable(path, error) from None
        reader = LogReader(path, database=copy)
        reader.read_all(progress)
    return reader


def _check_there(path: Path) -> None:
    """Refuse a log that is not there, or empty."""
    with file_errors(path, "cannot be opened"):
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is not there"
            raise InputError(str(path), f"{what}; name the log of a run")
        newest, _ = _beside(path)
        if path.stat().st_size == 0 and not (newest.is_file() and newest.stat().st_size):
            raise InputError(str(path), "is empty; name the log of a run")


def _beside(path: Path) -> tuple[Path, Path]:
    """Return SQLite's files beside a log: the newest changes, and their index."""
    return state_files.beside(path, "-wal"), state_files.beside(path, "-shm")


@contextmanager
def _reading(path: Path, held: sqlite3.Connection | None = None) -> Iterator[sqlite3.Connection]:
    """Yield the database of a log for reading; no file is made or changed.

    SQLite writes an index beside a log that it reads. While a server writes, the index is there
    already, and if all is in the log itself it is not needed. Otherwise a copy is read, as from a
    read-only disk or under another account. A process that has the log open reads what it holds.
    """
    if held is not None:
        yield held
        return
    _check_there(path)
    newest, index = _beside(path)
    with ExitStack() as stack:
        mode = "ro"
        if not newest.exists():
            mode = "ro&immutable=1"
        elif not os.access(index, os.W_OK):
            room = "; make room, or set TMPDIR to a folder that has some"
            with file_errors(path, "cannot be copied to be read", room):
                folder = stack.enter_context(TemporaryDirectory(prefix="fedbandits-"))
            path = _copied(path, Path(folder))
        before = _signature(path)
        database = stack.enter_context(closing(_connected(path, mode)))
        try:
            yield database
        except DamagedLogError:
            if _signature(path) == before:
                raise
            raise InputError(str(path), "changed while it was being read; read it again") from None


def _copied(path: Path, folder: Path) -> Path:
    """Return a copy of a log and its newest changes, both of the same moment."""
    newest, _ = _beside(path)
    copy = folder / path.name
    for _attempt in range(_COPIES):
        before = _signature(path)
        with file_errors(path, "cannot be read"):
            shutil.copyfile(path, copy)
            if newest.exists():
                shutil.copyfile(newest, _beside(copy)[0])
        if _signature(path) == before:
            return copy
    raise InputError(str(path), "is written faster than it can be read; read a backup of it")


def _signature(path: Path) -> list[tuple[int, int]]:
    """Return what changes whenever a log is written."""
    found = [file.stat() for file in (path, _beside(path)[0]) if file.exists()]
    return [(one.st_size, one.st_mtime_ns) for one in found]


def _check_kind(path: Path) -> None:
    """Refuse a file that is not a database: SQLite takes a short one for an empty database."""
    with file_errors(path, "cannot be opened"):
        begins = b""
        with suppress(FileNotFoundError), path.open("rb") as file:
            begins = file.read(len(_MAGIC))
    if begins not in (b"", _MAGIC):
        raise _unreadable(path, "it is no database")


def _tables(database: sqlite3.Connection, path: Path) -> set[str]:
    """Return the tables of a log; none if it is new. Refuse a database of another program."""
    with _sqlite_errors(path):
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {str(name) for (name,) in rows}
    if tables not in (set(), {"header", "records"}):
        raise InputError(str(path), "is a database, and not the log of a run; name another file")
    return tables


def _header(database: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return what a log says of its run."""
    if not _tables(database, path):
        raise InputError(str(path), "is empty; name the log of a run")
    with _sqlite_errors(path):
        header = dict(database.execute("SELECT key, value FROM header").fetchall())
    if header.get("format") != str(FORMAT) or "run" not in header:
        raise DamagedLogError(
            f"{path}: is a log of format {header.get('format')}, and this version of fedbandits"
            f" reads format {FORMAT}; use the version that began the run"
        )
    if header.get("checksum") != _digest("", header["run"]):
        raise DamagedLogError(f"{path}: what the run is was changed; restore it from a copy")
    try:
        found = json.loads(header["run"])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DamagedLogError(f"{path}: does not say what the run is; restore it from a copy")
    return found


def _check_tail(rows: list[_Row], good: int, path: Path) -> None:
    """Refuse a log in which a whole record follows the first damaged one.

    A crash damages at most the end. A whole row behind a damaged one, or in its place, was written
    while what is missing now was still there.
    """
    tail = rows[good:]
    numbers = [row[0] for row in rows]
    whole = numbers != list(range(1, len(rows) + 1))
    whole = whole or any(row[3] == _checksum(row, before[3]) for before, row in pairwise(tail))
    if tail and not whole:
        checksums = {"", *(row[3] for row in rows)}
        before = rows[good - 1][3] if good else ""
        for row in tail:  # the checksum alone may be what is damaged
            before = _checksum(row, before)
            checksums.add(before)
        whole = any(row[3] == _checksum(row, before) for row in tail for before in checksums)
    if whole:
        raise DamagedLogError(
            f"{path}: record {good + 1} is damaged or missing, and others follow it; restore the"
            " log from a copy: it cannot be trusted"
        )


def _record(row: _Row, path: Path) -> Record:
    """Return the record in a row that was found unchanged."""
    try:
        found: Record = decode(Record, from_json(row[2]), "record")
    except (TypeError, ValueError) as error:  # an InputError is one; TypeError if it is no text
        raise DamagedLogError(
            f"{path}: record {row[0]} is not one of this version ({error}); use the version that"
            " began the run"
        ) from None
    return found


def _checksum(row: _Row, before: str) -> str:
    # The number of a row is left out: a row that was moved still shows that it is whole.
    _, at, body, _ = row
    return _digest(before, f"{at} {body}")


def _digest(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    """Set up a log to be written; a file that is something else is refused, and left as it is."""
    _tables(database, path)
    state_files.private_database(path)
    with _sqlite_errors(path):
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    _check_kind(path)
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
    except sqlite3.Error as error:
        raise InputError(str(path), f"cannot be opened: {error}") from None
    # Damaged text is no reason to stop reading.
    database.text_factory = lambda data: data.decode(errors="replace")
    return database


def _unreadable(path: Path, error: Exception | str) -> FedbanditsError:
    if getattr(error, "sqlite_errorname", "").startswith(_CLOSED):
        return InputError(str(path), f"cannot be read: {error}; is it yours to read?")
    return DamagedLogError(f"{path}: is damaged, or not a log ({error}); restore it from a copy")


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """Say what is wrong with a log if SQLite cannot read it."""
    try:
        yield
    except _UNREADABLE as error:
        raise _unreadable(path, error) from None


def is_held(path: Path) -> bool | None:
    """Return whether a process writes a log now; None if that cannot be found out."""
    return state_files.is_locked(_lock_path(path))


def _lock_path(path: Path) -> Path:
    return state_files.beside(path, ".lock")


# A process that checks whether a log is held has its lock for a moment.
_TRIES = 5
_BETWEEN_TRIES = 0.02


def locked(path: Path) -> BinaryIO:
    """Return the lock of a log: a file beside it, unlocked by the system when the process ends.

    Raises
    ------
    LogInUseError
        If another process writes the log.
    """
    file = state_files.open_private(_lock_path(path), "ab")
    for _ in range(_TRIES):
        try:
            state_files.lock_file(file, wait=False)
        except OSError:
            time.sleep(_BETWEEN_TRIES)
        else:
            return file
    file.close()
    raise LogInUseError(f"{path}: another server writes this log; stop it, or wait until it ends")
