"""Where a client keeps what must outlast its process; how files are made, locked and written.

All files of a federation are made here, for the account that makes them and nobody else, whatever
the umask: files 0600, folders 0700. If a service under another account is to use the same files,
its operator makes the folder with the setgid bit (``install -d -m 2770 -g GROUP FOLDER``): files in
such a folder are shared with the folder's group, as far as the folder itself is.
"""

import hashlib
import logging
import os
import re
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self, cast

from fedbandits.errors import InputError, file_errors

_LOG = logging.getLogger("flwr.fedbandits")

LONGEST_NAME = 80
"""Of a client: its files are named after it."""


def check_name(name: str, where: str) -> None:
    """Refuse a name that a client cannot have, because files and pages could not show it.

    Raises
    ------
    InputError
        If it is empty, too long, or has characters that cannot be seen.
    """
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        said = f"use 1 to {LONGEST_NAME} characters that can be seen"
        raise InputError(where, f"{name[:100]!r} is not a name; {said}")


def audit_file(folder: Path, client: str) -> Path:
    """Return where a client keeps what it has sent."""
    return folder / f"{_file_name(client)}.jsonl"


def last_word_file(folder: Path, client: str) -> Path:
    """Return where a client keeps what a run has found."""
    return folder / f"{_file_name(client)}.answer.json"


def live_file(folder: Path, client: str) -> Path:
    """Return where a client keeps who got which option in live traffic, and what came of it."""
    return folder / f"{_file_name(client)}.live.sqlite"


def workbench_file(folder: Path, client: str) -> Path:
    """Return where a client keeps the phase that it has not finished."""
    return folder / f"{_file_name(client)}.phase.json"


def recalls_file(folder: Path, client: str) -> Path:
    """Return where a client keeps which options were withdrawn, as far as it was told."""
    return folder / f"{_file_name(client)}.recall.json"


def adjustments_file(folder: Path, client: str) -> Path:
    """Return where a client keeps what it adjusts outcomes by."""
    return folder / f"{_file_name(client)}.covariate.json"


def key_file(folder: Path, client: str) -> Path:
    """Return where a client keeps the key that it signs with; the public half ends in .pub."""
    return folder / f"{_file_name(client)}.key"


def letter_file(folder: Path, client: str, ending: str) -> Path:
    """Return the file of a letter to a client, or of a copy of its reply."""
    return folder / f"{_file_name(client)}-{ending}"


def halts_file(folder: Path) -> Path:
    """Return the file that says what is halted at the clients of a folder."""
    return folder / "halts.json"


def is_known_client(folder: Path, client: str) -> bool:
    """Return whether a client has files in a folder."""
    return any(file(folder, client).exists() for file in (audit_file, live_file, workbench_file))


def has_clients(folder: Path) -> bool:
    """Return whether any client has files in a folder."""
    kinds = ("*.jsonl", "*.live.sqlite", "*.phase.json", "*.recall.json", "*.answer.json")
    return any(next(folder.glob(kind), None) is not None for kind in kinds)


def _file_name(name: str) -> str:
    """Return a name for any file system that no other client has, even if case is ignored."""
    plain = re.sub(r"[^a-z0-9._-]", "_", name.lower())
    own = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return plain if plain == name else f"{plain}-{own}"


def private_folder(folder: Path) -> Path:
    """Make a folder, and missing ones above it, that only the owner may enter; return it.

    One that is there already is left as it is, and one in a shared folder is shared as well.
    """
    for missing in reversed([folder, *folder.parents]):
        if not missing.exists():
            above = missing.parent.stat().st_mode
            # Not by chmod: a hardened service may not set the bit that new folders inherit.
            before = os.umask(0)
            try:
                missing.mkdir(mode=0o700 | _shared(above, 0o070), exist_ok=True)
            finally:
                os.umask(before)
            give_to_owner_of(missing.parent, missing)
    return folder


def open_private(path: Path, mode: str) -> BinaryIO:
    """Open a file, as ``open`` does, that only its owner can use, or the group of its folder.

    A link in its place is refused: whoever may write into the folder could name any file by it.

    Parameters
    ----------
    path : path
        Of the file.
    mode : str
        As of ``open``, for bytes.
    """

    def opener(name: str, flags: int) -> int:
        if flags & os.O_CREAT:
            try:
                made = os.open(name, flags | os.O_EXCL, 0o600)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
            else:
                give_to_owner_of(path.parent, made)
                return made
        return os.open(name, flags & ~os.O_CREAT | getattr(os, "O_NOFOLLOW", 0))

    file = open(path, mode, opener=opener)  # noqa: SIM115 - a path's own has no opener
    close_to_others(path)
    return cast("BinaryIO", file)


def beside(path: Path, ending: str) -> Path:
    """Return what lies beside a file, under its name with an ending.

    A link to a file leads to the same locks and notes as the file itself.
    """
    real = path.resolve()
    return real.with_name(f"{real.name}{ending}")


def private_database(path: Path) -> None:
    """Make an empty file for SQLite, which gives what it writes beside it the same mode.

    One that is there is closed to others, and never opened: SQLite would lose its locks.
    """
    with suppress(FileExistsError):
        open_private(path, "xb").close()
    for file in (path, beside(path, "-wal"), beside(path, "-shm")):
        close_to_others(file)


def close_to_others(path: Path) -> None:
    """Give a file the mode that its folder asks for; warn if only others may change it."""
    if sys.platform == "win32" or not path.is_file() or path.is_symlink():
        return
    found, folder = path.stat(), path.parent.stat()
    wanted = 0o600 | _shared(folder.st_mode, 0o060)
    if stat.S_IMODE(found.st_mode) == wanted:
        return
    # In another user's folder, root does not know what the change would affect.
    if found.st_uid == os.geteuid() and (found.st_uid or not folder.st_uid):
        path.chmod(wanted)
    elif found.st_mode & 0o777 & ~wanted:
        _LOG.warning(
            "%s can be read by others than it should; let its owner run: chmod %o %s",
            *(path, wanted, path),
        )


def warn_of_others(path: Path, letter: str, problem: str) -> None:
    """Warn if every account of this machine may read (r) or write (w) a file of the operator."""
    bit = {"r": stat.S_IROTH, "w": stat.S_IWOTH}[letter]
    if sys.platform != "win32" and path.exists() and path.stat().st_mode & bit:
        _LOG.warning("%s %s; let its owner run: chmod o-%s %s", path, problem, letter, path)


def _shared(folder: int, bits: int) -> int:
    """Return which of these bits a folder of this mode has for its group, if it is shared."""
    return folder & bits if folder & stat.S_ISGID else 0


def give_to_owner_of(folder: Path, made: Path | int) -> None:
    """Give what root has just made in a user's folder to that user, who has to read it."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return
    owner = folder.stat()
    if owner.st_uid:
        os.chown(made, owner.st_uid, owner.st_gid)


def write_whole(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write a file so that at any time there is the whole old one or the whole new one.

    Parameters
    ----------
    path : path
        Of the file.
    content : str or bytes
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
        beside.unlink(missing_ok=True)
        with open_private(beside, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
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
        Whether to wait until it is free; if not, an OSError is raised.
    """
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - there alone

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl  # noqa: PLC0415 - not there

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


class Closing(ABC):
    """Is closed at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Let one process at a time do something with a file, by the lock of a file beside it."""
    with file_errors(path, "cannot be written"):
        lock = open_private(path.with_name(f"{path.name}.lock"), "ab")
    with lock:
        lock_file(lock)
        yield


def is_locked(path: Path) -> bool | None:
    """Return whether a process holds the lock of a file; None if that cannot be found out.

    The file is only read.
    """
    if sys.platform == "win32":  # trying a lock there means writing
        return None
    import fcntl  # noqa: PLC0415 - not on Windows

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:  # another user's file
        return None
    return False


def sync_folder(folder: Path) -> None:
    """Wait until a new file is in its folder on disk, if the system can open folders."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
