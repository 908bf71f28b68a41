"""Where a client keeps what must outlast its process, and how files are locked and written."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import BinaryIO

from fedbandits.errors import InputError

LONGEST_NAME = 80
"""Of a client: its files are named after it."""


def check_name(name: str, where: str) -> None:
    """Refuse a name of a client that is none, or that files and pages could not bear.

    Raises
    ------
    InputError
        If it is empty, too long, or has characters that cannot be seen.
    """
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(
            where, f"{name[:100]!r} is no name; use 1 to {LONGEST_NAME} characters that can be seen"
        )


def audit_file(folder: Path, client: str) -> Path:
    """Return where a client keeps what it has sent."""
    return folder / f"{_file_name(client)}.jsonl"


def last_word_file(folder: Path, client: str) -> Path:
    """Return where a client keeps what a run has found."""
    return folder / f"{_file_name(client)}.answer.json"


def live_file(folder: Path, client: str) -> Path:
    """Return where a client keeps who got which option in live traffic, and what came of it."""
    return folder / f"{_file_name(client)}.live.sqlite"


def _file_name(name: str) -> str:
    """Return a name that any file system takes, and no other client has, whatever its case."""
    plain = re.sub(r"[^a-z0-9._-]", "_", name.lower())
    own = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return plain if plain == name else f"{plain}-{own}"


def written_whole(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a file so that at any time there is the old one or the new one, and all of it.

    Parameters
    ----------
    path : path
        Of the file.
    text : str
        What is to be in it.
    durable : bool
        Whether to wait until it is on disk.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(str(path), f"cannot be written: {error.strerror}") from None


def lock_file(file: BinaryIO, *, wait: bool = True) -> None:
    """Take the lock of an open file, which the system lets go when the file closes.

    Parameters
    ----------
    file : file
        Open for writing.
    wait : bool
        Whether to wait for whoever holds it; else there is an OSError.
    """
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - there alone

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl  # noqa: PLC0415 - not there

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync_folder(folder: Path) -> None:
    """Wait until a new file is in its folder on disk; where folders can be opened at all."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
