"""Where a client keeps what must outlast its process: one folder, files by the client's name."""

from __future__ import annotations

import os
from pathlib import Path

from fedbandits.errors import InputError


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
    """Return a name that any file system takes, and no other client has."""
    plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    return plain if plain == name else f"{plain}-{name.encode().hex()}"


def written_whole(path: Path, text: str) -> None:
    """Write a file so that at any time there is the old one or the new one, and all of it.

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
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(str(path), f"cannot be written: {error.strerror}") from None
