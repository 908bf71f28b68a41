"""Backups of a run: its log and what belongs to it, in one file, made while a server writes.

A backup begins with two lines of text. The first has a checksum of all that follows, the second
says what the backup holds. The rest is a compressed tar archive (``tail -n +3 FILE | tar -tz``).
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from gzip import BadGzipFile
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from fedbandits.errors import InputError, file_errors
from fedbandits.federation.durable_log import (
    DamagedLogError,
    LogReader,
    OnRead,
    Place,
    copy_log,
    locked,
)
from fedbandits.federation.run import keys_in_header, plan_path
from fedbandits.federation.signing import server_key_path
from fedbandits.federation.state_files import beside, give_to_owner_of, open_private, sync_folder
from fedbandits.protocol.codec import decode, encode

FORMAT = 1

_MAGIC = b"fedbandits backup "
_LOG = "run.fedlog"
_KEY = "fedbandits-server.key"
_PIECE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds.

    Parameters
    ----------
    run : str
        The name of the run.
    place : Place
        Its last record: number and checksum, which is one over all records before it.
    dropped : int
        Damaged records at the end of the log, which the next server drops.
    at : str
        When the backup was made.
    files : tuple of str
        What is in the archive.
    signed : bool
        Whether the run is signed, so that no server can continue it without its key.
    fedbandits : str
        The version that made it.
    format : int
        Of the backup.
    """

    run: str
    place: Place
    dropped: int
    at: str
    files: tuple[str, ...]
    signed: bool
    fedbandits: str
    format: int = FORMAT

    def words(self) -> str:
        """Return what it holds, line by line."""
        key = "the run is not signed and needs none"
        if self.signed:
            key = "included: keep this file as safe as the server itself"
        if self.signed and _KEY not in self.files:
            key = "MISSING beside the log; without it nobody can continue this run"
        lines = {
            "run": self.run,
            "records": f"{self.place.number:,}",
            "made": self.at,
            "checksum of the log": self.place.checksum or "none: it has no record yet",
            "server's key": key,
        }
        if self.dropped:
            lines["damaged"] = f"{self.dropped} records at the end, which the next server drops"
        return "\n".join(f"{name}: {value}" for name, value in lines.items())


def _beside_log(log: Path) -> dict[str, Path]:
    """Return the files of a run beside its log, by their names in a backup."""
    key = server_key_path(log)
    return {_KEY: key, "fedbandits-server.pub": key.with_suffix(".pub"), "up.json": plan_path(log)}


def make_backup(log: Path, out: Path, progress: OnRead | None = None) -> Backup:
    """Write a backup of a run, which may be going on, for the account that makes it alone.

    It holds the log as it was at one moment, the server's key if the run is signed, and the plan of
    ``fedbandits up``. The checkpoint and requests to the server are left out.

    Raises
    ------
    InputError
        If there is no such log, or the backup is there already or cannot be written.
    DamagedLogError
        If the log cannot be trusted.
    """
    _check_free(out, "name another: a backup is never replaced")
    with _new_folder_beside(out) as folder:
        reader = copy_log(log, folder / _LOG, progress)
        signed = keys_in_header(reader.header, log) is not None
        found = {name: path for name, path in _beside_log(log).items() if path.exists()}
        if not signed:  # the key is of other runs of that folder
            found = {name: path for name, path in found.items() if path == plan_path(log)}
        made = Backup(
            run=str(reader.header.get("run", "")),
            place=reader.place,
            dropped=reader.dropped,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            files=(_LOG, *found),
            signed=signed,
            fedbandits=version("fedbandits"),
        )
        new = folder / "backup"
        for name, path in found.items():
            with file_errors(path, "cannot be read"):
                (folder / name).write_bytes(path.read_bytes())
        with file_errors(out, "cannot be written"):
            with open_private(new, "x+b") as file:
                _write(file, made, folder)
            new.rename(out)
            sync_folder(out.parent)
    return made


def _write(file: BinaryIO, made: Backup, folder: Path) -> None:
    file.write(_first_line(hashlib.sha256().hexdigest()))
    begin = file.tell()
    file.write(json.dumps(encode(made)).encode() + b"\n")
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
        for name in made.files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = (folder / name).stat().st_size, 0o600
            with (folder / name).open("rb") as content:
                archive.addfile(entry, content)
    file.seek(begin)
    checksum = _checksum(file)
    file.seek(0)
    file.write(_first_line(checksum))
    file.flush()
    os.fsync(file.fileno())


def _first_line(checksum: str) -> bytes:
    return _MAGIC + checksum.encode() + b"\n"


def _checksum(file: BinaryIO) -> str:
    """Return the checksum of the rest of a file."""
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def restore_backup(backup: Path, log: Path, progress: OnRead | None = None) -> Backup:
    """Write the log of a backup, and what belongs to it, where there is none: all or nothing.

    Raises
    ------
    InputError
        If the backup is damaged or something else, or files are there already.
    LogInUseError
        If a server is about to begin a run with this log.
    """
    if not log.parent.is_dir():
        raise InputError(str(log.parent), "is not a folder; make it, or name another log")
    _check_no_log(log)
    with file_errors(backup, "cannot be read"):
        opened = backup.open("rb")
    with opened as file:
        made = _read_head(file, backup)
        with _new_folder_beside(log) as folder:
            _unpack(file, made, backup, folder)
            try:
                reader = LogReader(folder / _LOG)
                reader.read_all(progress)
            except DamagedLogError as error:
                raise _damaged(backup, f"its log cannot be read: {error}") from None
            if (reader.place, reader.dropped) != (made.place, made.dropped):
                raise _damaged(backup, "its log is not the one that it describes")
            with locked(log):
                _check_no_log(log)
                _put(folder, made, log)
    return made


def _read_head(file: BinaryIO, path: Path) -> Backup:
    """Return what a backup says that it holds, if it is whole; the archive follows."""
    first = file.readline(len(_first_line("0" * 64)))
    if not first.startswith(_MAGIC):
        raise InputError(str(path), "is not a backup; name a file of fedbandits backup")
    begin = file.tell()
    if first != _first_line(_checksum(file)):
        raise _damaged(path, "its checksum is another one")
    file.seek(begin)
    try:
        said = json.loads(file.readline())
        if said["format"] == FORMAT:
            made: Backup = decode(Backup, said)
            return made
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"it does not say what it holds: {error}") from None
    raise InputError(
        str(path),
        f"is a backup of format {said['format']}, and this version reads {FORMAT}; restore it with"
        f" the version that made it, {said.get('fedbandits')}",
    )


def _unpack(file: BinaryIO, made: Backup, path: Path, folder: Path) -> None:
    if made.files[:1] != (_LOG,) or not {*made.files[1:]} <= {*_beside_log(path)}:
        raise _damaged(path, "it names files that no backup has")
    try:
        with tarfile.open(fileobj=file, mode="r|gz") as archive:
            for name in made.files:
                entry = archive.next()
                content = None if entry is None else archive.extractfile(entry)
                if entry is None or entry.name != name or content is None:
                    raise _damaged(path, f"{name} is not where it should be")
                with open_private(folder / name, "xb") as to:
                    while piece := content.read(_PIECE):
                        to.write(piece)
                    to.flush()
                    os.fsync(to.fileno())
    except (tarfile.TarError, BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(path, f"its archive cannot be read: {error}") from None


def _put(folder: Path, made: Backup, log: Path) -> None:
    """Move restored files to their places, the log last: without it there is no run."""
    places = {name: path for name, path in _beside_log(log).items() if name in made.files}
    for name, path in list(places.items()):
        if path.exists():
            with file_errors(path, "cannot be read"):
                same = path.read_bytes() == (folder / name).read_bytes()
            if not same:
                raise InputError(
                    str(path), f"is of another run than {made.run}; restore into another folder"
                )
            del places[name]
    moved = []
    try:
        with file_errors(log, "cannot be written"):
            for name, path in (*places.items(), (_LOG, log)):
                (folder / name).rename(path)
                moved.append(path)
            sync_folder(log.parent)
    except BaseException:
        for path in moved:
            path.unlink(missing_ok=True)
        raise


def _check_no_log(log: Path) -> None:
    for path in (log, beside(log, "-wal")):  # SQLite would add the changes of another log
        _check_free(path, "name another log, or move it away")


def _check_free(path: Path, way_out: str) -> None:
    if path.exists() or path.is_symlink():
        raise InputError(str(path), f"is there already; {way_out}")


@contextmanager
def _new_folder_beside(path: Path) -> Iterator[Path]:
    """Yield a folder for this account alone on the disk of a file, and remove it in the end."""
    with file_errors(path, "cannot be written"):
        made = TemporaryDirectory(prefix=".fedbandits-", dir=path.absolute().parent)
    with made as folder:
        give_to_owner_of(path.absolute().parent, Path(folder))
        yield Path(folder)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(str(path), f"is damaged ({why}); nothing was restored: use another backup")
