"""Imported data on disk: where it is kept, and a checked file of facts about a table and the table.

The file is a NumPy archive (.npz) without pickles: ``facts`` is JSON, ``table`` the array,
``sha256`` the hash over both. It says itself what it is (``format``, ``version``), and it is
written whole or not at all.
"""

import hashlib
import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError, file_errors

FORMAT = "fedbandits-movielens"
VERSION = 1
AGAIN = "import the data once more: fedbandits data import PATH"
VARIABLE = "FEDBANDITS_DATA"
"""The environment variable that names another directory."""

Table: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.uint32]


def data_directory(
    *, environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Path:
    """Return the directory of imported data; it need not exist.

    ``FEDBANDITS_DATA`` if it is set. Else ``fedbandits`` in the place that the system has for the
    data of programs: ``XDG_DATA_HOME`` or ``~/.local/share`` on Linux, ``~/Library/Application
    Support`` on macOS, ``LOCALAPPDATA`` on Windows.

    Parameters
    ----------
    environ : mapping
        The environment; this process's by default.
    platform : str
        As ``sys.platform``, which it is by default.

    Examples
    --------
    >>> data_directory(environ={"FEDBANDITS_DATA": "data"}).as_posix()
    'data'
    >>> data_directory(environ={"XDG_DATA_HOME": "/srv/data"}, platform="linux").as_posix()
    '/srv/data/fedbandits'
    """
    if environ.get(VARIABLE):
        return Path(environ[VARIABLE])
    named, usual = {
        "win32": ("LOCALAPPDATA", "AppData/Local"),
        "darwin": ("", "Library/Application Support"),
    }.get(platform, ("XDG_DATA_HOME", ".local/share"))
    # The XDG rules say that a relative path is to be ignored.
    shared = Path(environ.get(named, ""))
    try:
        return (shared if shared.is_absolute() else Path.home() / usual) / "fedbandits"
    except RuntimeError:
        raise InputError(VARIABLE, "is not set, and there is no home directory; set it") from None


def write_container(file: Path, facts: Mapping[str, Any], table: Table) -> None:
    """Write a file in one step: a reader finds either the old file or all of the new one.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    described = {"format": FORMAT, "version": VERSION, **facts}
    text = json.dumps(described, sort_keys=True, ensure_ascii=True).encode("ascii")
    # One byte order, so that the same import has the same hash on every machine.
    stored = np.ascontiguousarray(table, dtype=table.dtype.newbyteorder("<"))
    with file_errors(file, "cannot be written", f"; set {VARIABLE} to another directory"):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
            staged = Path(folder) / file.name
            with staged.open("wb") as stream:
                np.savez_compressed(
                    stream,
                    facts=np.frombuffer(text, dtype=np.uint8),
                    table=stored,
                    sha256=np.frombuffer(_digest(text, stored), dtype=np.uint8),
                )
                stream.flush()
                os.fsync(stream.fileno())
            staged.replace(file)


def read_container(file: Path) -> tuple[dict[str, Any], npt.NDArray[Any]] | None:
    """Return the facts and the table of a file, or None if there is no such file.

    Raises
    ------
    InputError
        If it is damaged, or of another version.
    """
    with file_errors(file, "cannot be read"):
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as members:
            # Member by member rather than `np.load` of the whole: that guesses what the file is.
            parts = {name: _member(members, name) for name in ("facts", "table", "sha256")}
        text = parts["facts"].tobytes()
        facts = json.loads(text)
    except Exception as error:
        # Of bytes that are not what they were, readers of zip, .npy and JSON raise all sorts of
        # errors: a flipped bit can ask for a password, or for more memory than there is.
        raise InputError(str(file), f"is damaged ({error}); {AGAIN}") from None
    # The version first: the hash of another version may be over something else.
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise InputError(str(file), f"is not a file of imported MovieLens data; {AGAIN}")
    if facts.get("version") != VERSION:
        raise InputError(
            str(file), f"has version {facts.get('version')!r} where {VERSION} is known; {AGAIN}"
        )
    if parts["sha256"].tobytes() != _digest(text, parts["table"]):
        raise InputError(str(file), f"is damaged (its hash is another one); {AGAIN}")
    parts["table"].setflags(write=False)
    return facts, parts["table"]


def _member(members: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    with members.open(f"{name}.npy") as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _digest(text: bytes, table: npt.NDArray[Any]) -> bytes:
    """Return the hash over the facts and over shape, type and values of the table."""
    shape = f"{table.dtype.str} {table.shape}".encode("ascii")
    content = hashlib.sha256()
    for part in (text, shape, np.ascontiguousarray(table).tobytes()):
        # Lengths, so that nothing can move from one part to the next.
        content.update(len(part).to_bytes(8, "little"))
        content.update(part)
    return content.digest()
