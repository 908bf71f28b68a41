"""Where the files of a HetRec archive are, and their lines: from a zip file or a folder.

Nothing is unpacked: lines are streamed out of the zip file, and what is read is bounded, so that a
file that is not what its name says (or unpacks to something enormous) ends in an error.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from fedbandits.errors import InputError

RATINGS_FILES = ("user_ratedmovies.dat", "user_ratedmovies-timestamps.dat")
MOVIES_FILE = "movies.dat"

# The original archive has 18 MB in 13 members; its ratings are 30 MB, its longest line 440 bytes.
MOST_BYTES = 2**29
MOST_MEMBERS = 10_000
LONGEST_LINE = 2**16

_CHUNK = 2**16
_NOT_HETREC = "this is not a HetRec file"


@contextmanager
def readable(where: object) -> Iterator[None]:
    """Say of what is read meanwhile, if that fails, that it cannot be read, and why."""
    try:
        yield
    except OSError as error:
        raise InputError(str(where), f"cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A text file, on its own or in a zip file.

    Parameters
    ----------
    path : Path
        The file, or the zip file that holds it.
    member : str, optional
        Its name in the zip file.
    """

    path: Path
    member: str | None = None

    def where(self, line: int | None = None) -> str:
        """Return how errors name the file, or one of its lines.

        Examples
        --------
        >>> Source(path=Path("hetrec.zip"), member="movies.dat").where(7)
        'hetrec.zip, movies.dat, line 7'
        """
        parts = [str(self.path), self.member, None if line is None else f"line {line}"]
        return ", ".join(part for part in parts if part is not None)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with their numbers, without line ends (LF or CRLF) and byte order mark.

        Raises
        ------
        InputError
            If the file cannot be read, or is larger than a file of ratings can be.
        """
        number, n_bytes, rest = 1, 0, b""
        with self._opened() as stream:
            # In chunks: reading out of a zip file line by line takes three times as long.
            while chunk := stream.read(_CHUNK):
                n_bytes += len(chunk)
                if n_bytes > MOST_BYTES:
                    raise InputError(
                        self.where(), f"has more than {MOST_BYTES // 2**20} MiB; {_NOT_HETREC}"
                    )
                if number == 1 and not rest:
                    chunk = chunk.removeprefix(b"\xef\xbb\xbf")
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield number, line.rstrip(b"\r")
                    number += 1
                if len(rest) > LONGEST_LINE:
                    raise InputError(
                        self.where(number), f"is longer than {LONGEST_LINE:,} bytes; {_NOT_HETREC}"
                    )
        if rest:
            yield number, rest.rstrip(b"\r")

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            with readable(self.where()):
                if self.member is None:
                    with self.path.open("rb") as file:
                        yield file
                    return
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as packed:
                    yield packed
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise InputError(
                self.where(), f"is damaged: {error}; get the zip file once more"
            ) from None
        except RuntimeError as error:  # it wants a password
            raise InputError(
                self.where(), f"cannot be unpacked: {error}; unpack it and give the folder"
            ) from None


def find_archive(path: Path) -> tuple[Source, Source | None]:
    """Return the file of ratings, and the list of all movies, rated or not, if there is one.

    Parameters
    ----------
    path : Path
        The zip file, the folder it was unpacked to (or one or two above it), or a file of ratings.

    Raises
    ------
    InputError
        If there are no ratings there, or two sets of them.
    """
    if path.is_dir():
        found = _in_folder(path)
    elif zipfile.is_zipfile(path):
        found = _in_zip(path)
    elif path.name in RATINGS_FILES and path.is_file():
        found = {".": {path.name: Source(path=path)}}
        if (path.parent / MOVIES_FILE).is_file():
            found["."][MOVIES_FILE] = Source(path=path.parent / MOVIES_FILE)
    elif path.suffix == ".zip" and path.is_file():
        raise InputError(str(path), "is not a zip file, or not all of one; get it once more")
    else:
        raise InputError(str(path), "is not a HetRec zip file or folder")
    sets = {place: names for place, names in found.items() if names.keys() & set(RATINGS_FILES)}
    if not sets:
        raise InputError(str(path), f"holds no {' or '.join(RATINGS_FILES)}")
    if len(sets) > 1:
        raise InputError(
            str(path), f"holds ratings in {len(sets)} folders: {', '.join(sets)}; give one of them"
        )
    (names,) = sets.values()
    ratings = next(names[name] for name in RATINGS_FILES if name in names)
    return ratings, names.get(MOVIES_FILE)


def _in_folder(path: Path) -> dict[str, dict[str, Source]]:
    """Return the sources in a folder and two levels below, by folder and name."""
    found: dict[str, dict[str, Source]] = {}
    for name in (*RATINGS_FILES, MOVIES_FILE):
        for pattern in (name, f"*/{name}", f"*/*/{name}"):
            for file in sorted(path.glob(pattern)):
                if file.is_file():
                    place = file.parent.relative_to(path).as_posix()
                    found.setdefault(place, {})[name] = Source(path=file)
    return found


def _in_zip(path: Path) -> dict[str, dict[str, Source]]:
    """Return the sources in a zip file, by folder and name."""
    try:
        with readable(path), zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(str(path), f"is damaged: {error}; get the zip file once more") from None
    if len(members) > MOST_MEMBERS:
        raise InputError(str(path), f"holds {len(members):,} files; this is not a HetRec archive")
    found: dict[str, dict[str, Source]] = {}
    for member in members:
        _refuse_outside(path, member.filename)
        inside = PurePosixPath(member.filename)
        if inside.name in (*RATINGS_FILES, MOVIES_FILE):
            source = Source(path=path, member=member.filename)
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(
                    source.where(), "is packed in an unusual way; unpack it and give the folder"
                )
            found.setdefault(str(inside.parent), {})[inside.name] = source
    return found


def _refuse_outside(path: Path, member: str) -> None:
    """Refuse names that point out of the archive.

    Nothing is unpacked here, but an archive with such names is not to be trusted.
    """
    windows = PureWindowsPath(member)  # it knows both kinds of slashes, and drives
    if windows.anchor or ".." in windows.parts:
        raise InputError(
            str(path), f"holds a file named {member!r}, outside the archive; do not trust it"
        )
