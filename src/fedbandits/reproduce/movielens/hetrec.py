"""Ratings of the HetRec-2011 MovieLens archive: found, read, split into groups, counted.

The archive is ``hetrec2011-movielens-2k-v2.zip`` of GroupLens (non-commercial use;
https://grouplens.org/datasets/hetrec-2011/): tab separated, with or without a header, CRLF or LF.
Nothing is unpacked: lines are streamed out of the zip file, and what is read is bounded, so that a
file that is not what its name says (or unpacks to something enormous) ends in an error.

**Groups that a client never rated.** A game needs a local mean for every arm of every client, so a
user takes part as a client only if it rated at least one movie of *every* group. Nothing is made
up for the others: zero would say that they disliked what they never saw, and their own average
that all groups are alike to them. The price is that with 100 groups only users with some 500
ratings and more remain: keen ones, not a random sample of all. Fewer groups keep more users.
"""

from __future__ import annotations

import codecs
import io
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from fedbandits.errors import InputError, file_errors
from fedbandits.rules.arrays import IntArray

RATINGS_FILES = ("user_ratedmovies.dat", "user_ratedmovies-timestamps.dat")
MOVIES_FILE = "movies.dat"
_FILES = (*RATINGS_FILES, MOVIES_FILE)

# The original archive has 18 MB in 13 members; its ratings are 30 MB, its longest line 440 bytes.
MOST_BYTES = 2**29
MOST_MEMBERS = 10_000
LONGEST_LINE = 2**16

MOST_RATINGS = 10_000_000
"""Twelve times the original: what is held in memory stays bounded, whatever the file says."""

N_LEVELS = 10
"""Ratings go from 0.5 to 5 stars in steps of 0.5: a level is a number of half stars, 1 to 10."""

_NOT_HETREC = "this is not a HetRec file"
_LEVEL_OF = {
    text.encode(): level
    for level in range(1, N_LEVELS + 1)
    for text in {f"{level / 2:g}", f"{level / 2:.1f}"}
}
_TAB = b"\t"
_LONGEST_NUMBER = 18  # digits that certainly fit into 64 bits
_HEADERS = {"ratings": [b"userid", b"movieid", b"rating"], "movies": [b"id"]}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratings:
    """Who rated what, and how.

    Parameters
    ----------
    users, movies, levels : array of int, shape (ratings,)
        The user, the movie and the number of half stars (1 to 10); each movie at
        most once per user.
    catalogue : array of int
        All movies, rated or not, ascending.
    repeated : int
        How many ratings were left out because the same user rated the same movie again later in
        the file.
    """

    users: IntArray
    movies: IntArray
    levels: IntArray
    catalogue: IntArray
    repeated: int = 0


def read_ratings(path: Path) -> Ratings:
    """Return the ratings of a HetRec archive.

    If ``movies.dat`` is there, its movies are the catalogue; else the rated ones are. Of the two
    files of ratings, which say the same, ``user_ratedmovies.dat`` is read if both are there.

    Parameters
    ----------
    path : Path
        The zip file, the folder it was unpacked to (or one or two above it), or a file of ratings.

    Raises
    ------
    InputError
        If something is missing or wrong; the message names the file and the line.
    """
    found = _find_files(path)
    columns = _read_table(next(found[name] for name in RATINGS_FILES if name in found))
    last = _last_of_each(*columns[:2])
    users, movies, levels = (column[last] for column in columns)
    listed = _read_catalogue(found[MOVIES_FILE]) if MOVIES_FILE in found else movies
    return Ratings(
        users=users,
        movies=movies,
        levels=levels,
        catalogue=np.union1d(listed, movies),
        repeated=columns[0].size - last.size,
    )


def split_movies(n_movies: int, *, n_groups: int, seed: int) -> IntArray:
    """Return a random group for every movie; the sizes of the groups differ by at most one.

    Examples
    --------
    >>> groups = split_movies(7, n_groups=3, seed=0)
    >>> np.bincount(groups)
    array([3, 2, 2])
    """
    if n_groups < 2:
        raise InputError("groups", f"{n_groups} is no game; it needs at least 2")
    if n_groups > n_movies:
        raise InputError("groups", f"{n_groups:,} groups of {n_movies:,} movies; ask for fewer")
    if seed < 0:
        raise InputError("seed", f"{seed} is negative; give a number >= 0")
    return np.random.default_rng(seed).permutation(n_movies) % n_groups


def group_ratings(ratings: Ratings, *, n_groups: int, seed: int) -> IntArray:
    """Count the ratings of the users who rated a movie of every group, in ascending user number.

    Parameters
    ----------
    ratings : Ratings
        Who rated what.
    n_groups : int
        How many groups the movies are split into: the arms.
    seed : int
        Which movies are in which group.

    Returns
    -------
    array of int, shape (clients, groups, 10)
        How often the client gave 0.5, 1, …, 5 stars to a movie of the group: at least one rating
        in every group.

    Raises
    ------
    InputError
        If no user rated all groups.

    Examples
    --------
    >>> ratings = Ratings(
    ...     users=np.array([7, 7, 8]),
    ...     movies=np.array([1, 2, 1]),
    ...     levels=np.array([9, 3, 10]),
    ...     catalogue=np.array([1, 2]),
    ... )
    >>> counts = group_ratings(ratings, n_groups=2, seed=0)
    >>> counts.shape, counts.sum()
    ((1, 2, 10), np.int64(2))
    """
    group_of = split_movies(ratings.catalogue.size, n_groups=n_groups, seed=seed)
    groups = group_of[np.searchsorted(ratings.catalogue, ratings.movies)]
    numbers, rows = np.unique(ratings.users, return_inverse=True)
    rated = np.unique(rows * n_groups + groups)
    n_rated = np.bincount(rated // n_groups, minlength=numbers.size)
    takes_part = n_rated == n_groups
    if not takes_part.any():
        raise InputError(
            "groups",
            f"no user rated a movie of each of the {n_groups} groups (at most {n_rated.max()} of "
            "them); ask for fewer groups",
        )
    client_of = np.cumsum(takes_part) - 1
    kept = takes_part[rows]
    cells = client_of[rows[kept]] * n_groups + groups[kept]
    # A client has at least one rating in each cell, so there are no more cells than ratings.
    shape = (int(takes_part.sum()), n_groups, N_LEVELS)
    places = cells * N_LEVELS + ratings.levels[kept] - 1
    counts = np.bincount(places, minlength=shape[0] * shape[1] * shape[2])
    return counts.astype(np.int64).reshape(shape)


def _read_table(source: Source) -> list[IntArray]:
    """Return the first three columns of a file of ratings, the third in half stars."""
    users, movies, levels = array("q"), array("q"), array("b")
    n_fields = 0
    for number, fields in _rows(source, "ratings"):
        n_fields = n_fields or max(len(fields), 3)
        if len(fields) != n_fields:
            found = f"{_quoted(_TAB.join(fields))} has {len(fields)} fields separated by tabs"
            raise source.error(f"{found} where {n_fields} belong", number)
        level = _LEVEL_OF.get(fields[2])
        if level is None:
            found = f"rating {_quoted(fields[2])}"
            raise source.error(f"{found}; ratings go from 0.5 to 5 in steps of 0.5", number)
        users.append(_whole_number(fields[0], "user", source, number))
        movies.append(_whole_number(fields[1], "movie", source, number))
        levels.append(level)
    if not users:
        raise source.error("holds no ratings")
    return [np.array(column, dtype=np.int64) for column in (users, movies, levels)]


def _read_catalogue(source: Source) -> IntArray:
    """Return the movies of ``movies.dat``: its first column.

    Its titles are in ISO-8859-1 and are not looked at, so nothing needs to be decoded.
    """
    movies = array("q")
    for number, fields in _rows(source, "movies"):
        movies.append(_whole_number(fields[0], "movie", source, number))
    return np.array(movies, dtype=np.int64)


def _rows(source: Source, table: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the fields of each line that is neither empty nor a header, with its number."""
    names, found = _HEADERS[table], 0
    for number, line in source.lines():
        fields = line.split(_TAB)
        if not line:
            continue
        if number == 1 and [field.strip().lower() for field in fields[: len(names)]] == names:
            continue
        found += 1
        if found > MOST_RATINGS:
            raise source.error(
                f"more than {MOST_RATINGS:,} {table}; the original has fewer", number
            )
        yield number, fields


def _last_of_each(users: IntArray, movies: IntArray) -> IntArray:
    """Return where each pair of user and movie stands last."""
    order = np.lexsort((movies, users))  # stable: ratings of one pair stay in the file's order
    changes = (np.diff(users[order]) != 0) | (np.diff(movies[order]) != 0)
    return np.asarray(order[np.append(changes, True)])


def _whole_number(field: bytes, what: str, source: Source, number: int) -> int:
    if not field.isdigit() or len(field) > _LONGEST_NUMBER:
        raise source.error(f"{what} {_quoted(field)} is not the number of a {what}", number)
    return int(field)


def _quoted(text: bytes) -> str:
    """Return the beginning of something unexpected, safe to print."""
    shown = text[:40].decode("iso-8859-1")
    return repr(shown if len(text) <= 40 else f"{shown}…")


# Files --------------------------------------------------------------------------------------------


@contextmanager
def readable(where: object) -> Iterator[None]:
    """Say of what is read meanwhile, if that fails, why it cannot be read."""
    try:
        with file_errors(where, "cannot be read"):
            yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(str(where), f"is damaged: {error}; get the zip file once more") from None
    except RuntimeError as error:  # it wants a password, say
        raise InputError(
            str(where), f"cannot be unpacked: {error}; unpack it and give the folder"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A text file, on its own or in a zip file.

    Parameters
    ----------
    path : Path
        The file, or the zip file that holds it.
    member : str
        Its name in the zip file.
    """

    path: Path
    member: str = ""

    def where(self, line: int | None = None) -> str:
        """Return how errors name the file, or one of its lines.

        Examples
        --------
        >>> Source(path=Path("hetrec.zip"), member="movies.dat").where(7)
        'hetrec.zip, movies.dat, line 7'
        """
        parts = [str(self.path), self.member, "" if line is None else f"line {line}"]
        return ", ".join(filter(None, parts))

    def error(self, problem: str, line: int | None = None) -> InputError:
        """Return what is raised if something is wrong with the file, or with one of its lines."""
        return InputError(self.where(line), problem)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with their numbers, without line ends (LF or CRLF) and byte order mark.

        Raises
        ------
        InputError
            If the file cannot be read, or is larger than a file of ratings can be.
        """
        n_bytes = 0
        # Buffered: a zip file by itself takes five times as long for its lines.
        with readable(self.where()), self._opened() as file, io.BufferedReader(file) as stream:
            if stream.peek().startswith(codecs.BOM_UTF8):
                stream.read(len(codecs.BOM_UTF8))
            read = partial(stream.readline, LONGEST_LINE + 1)
            for number, line in enumerate(iter(read, b""), start=1):
                n_bytes += len(line)
                if n_bytes > MOST_BYTES:
                    raise self.error(f"has more than {MOST_BYTES // 2**20} MiB; {_NOT_HETREC}")
                if len(line) > LONGEST_LINE:
                    raise self.error(
                        f"is longer than {LONGEST_LINE:,} bytes; {_NOT_HETREC}", number
                    )
                yield number, line.rstrip(b"\r\n")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        if self.member:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as packed:
                yield packed
        else:
            with self.path.open("rb") as file:
                yield file


def _find_files(path: Path) -> dict[str, Source]:
    """Return the file of ratings, and the list of all movies if there is one, by name.

    Raises
    ------
    InputError
        If there are no ratings there, or two sets of them.
    """
    sources: dict[PurePath, Source]
    if path.is_dir():
        places = (path.glob(f"{above}{name}") for name in _FILES for above in ("", "*/", "*/*/"))
        found = sorted(file for files in places for file in files if file.is_file())
        sources = {file.relative_to(path): Source(path=file) for file in found}
    elif zipfile.is_zipfile(path):
        sources = {PurePosixPath(name): Source(path=path, member=name) for name in _members(path)}
    elif path.name in RATINGS_FILES and path.is_file():
        beside = path.with_name(MOVIES_FILE)
        sources = {
            PurePath(file.name): Source(path=file) for file in (path, beside) if file.is_file()
        }
    elif path.suffix == ".zip" and path.is_file():
        raise InputError(str(path), "is not a zip file, or not all of one; get it once more")
    else:
        raise InputError(str(path), "is not a HetRec zip file or folder")
    sets: dict[str, dict[str, Source]] = {}
    for place, source in sources.items():
        sets.setdefault(place.parent.as_posix(), {})[place.name] = source
    rated = {place: names for place, names in sets.items() if names.keys() & set(RATINGS_FILES)}
    if not rated:
        raise InputError(str(path), f"holds no {' or '.join(RATINGS_FILES)}")
    if len(rated) > 1:
        raise InputError(
            str(path),
            f"holds ratings in {len(rated)} folders: {', '.join(rated)}; give one of them",
        )
    return rated.popitem()[1]


def _members(path: Path) -> list[str]:
    """Return the names of the HetRec files in a zip file, if that can be trusted."""
    with readable(path), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
    if len(members) > MOST_MEMBERS:
        raise InputError(str(path), f"holds {len(members):,} files; this is not a HetRec archive")
    for member in members:
        # Nothing is unpacked here, but an archive with names that point out of it is suspect.
        inside = PureWindowsPath(member.filename)  # it knows both kinds of slashes, and drives
        if inside.anchor or ".." in inside.parts:
            raise InputError(
                str(path),
                f"holds a file named {member.filename!r}, outside the archive; do not trust it",
            )
    found = [member for member in members if PurePosixPath(member.filename).name in _FILES]
    for member in found:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(
                f"{path}, {member.filename}",
                "is packed in an unusual way; unpack it and give the folder",
            )
    return [member.filename for member in found]
