"""Imported data: checked once, kept in the user's data directory, loaded as games.

A matrix and an archive may both be imported; each replaces the former one of its kind.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Empirical, Gaussian
from fedbandits.problems.problem import best_arm, gap
from fedbandits.reproduce.movielens import container
from fedbandits.reproduce.movielens.groups import are_released
from fedbandits.reproduce.movielens.hetrec import N_LEVELS, group_ratings, read_ratings, readable
from fedbandits.reproduce.texts import fill, texts
from fedbandits.rules.arrays import FloatArray

DataKind: TypeAlias = Literal["matrix", "ratings"]
"""What was imported: a matrix of local means, or the ratings of a HetRec archive."""

DEFAULT_GROUPS = 100
"""As many as in the paper."""

MAGIC = b"\x93NUMPY"
"""How every .npy file begins."""

MOST_VALUES = 50_000_000
"""Two hundred times the authors' matrix."""

_CONTENT = {
    "matrix": "table[m, k] is the local mean of client m and arm k (a group of movies), in [0, 1]",
    "ratings": "table[m, k, j] is how often client m gave (j + 1) / 2 of 5 stars to movies of arm "
    "k (a group of movies); a client has at least one rating of every arm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import found, and where it is kept.

    Parameters
    ----------
    kind : {"matrix", "ratings"}
        A matrix of local means, or the ratings of a HetRec archive.
    source : str
        The name of the file or folder that was imported.
    file : Path
        Where it is kept.
    users, clients : int
        How many users the data has, and how many of them take part: those with a value for every
        group.
    movies, movies_rated, ratings, repeated, seed : int, optional
        How many movies were split into groups with which seed, how many of them anybody rated,
        how many ratings there are, and how many were left out because the user rated the movie
        again later. None for a matrix, which does not say.
    groups : int
        How many groups of movies there are: the arms.
    gap : float
        Δ, between the best and the second best global mean.
    spread : float
        Standard deviation of local means within a group (divisor clients − 1), averaged over the
        groups.
    best_arm : int
        The group with the highest global mean, counted from 0.
    as_released : bool
        Whether it is the matrix that the paper's authors published.
    """

    kind: DataKind
    source: str
    file: Path
    users: int
    clients: int
    movies: int | None = None
    movies_rated: int | None = None
    ratings: int | None = None
    repeated: int | None = None
    seed: int | None = None
    groups: int
    gap: float
    spread: float
    best_arm: int
    as_released: bool = False

    def report(self) -> str:
        """Return all of it in words, several lines.

        Examples
        --------
        >>> print(Imported(
        ...     kind="matrix", source="means.npy", file=Path("movielens-matrix.npz"), users=2113,
        ...     clients=2113, groups=100, gap=0.0053182, spread=0.2565, best_arm=0,
        ...     as_released=True,
        ... ).report())
        the paper's MovieLens matrix, imported from means.npy
          users     2,113
          groups    100, as they are in the matrix
          clients   2,113: all users
          gap Δ     0.005318, between arm 0 and the second best
          spread    0.2565, the standard deviation of clients within a group
          stored as movielens-matrix.npz
        """
        said = texts("movielens")["imported"]
        own = self.kind == "matrix" and not self.as_released
        values = {**asdict(self), "left_out": self.users - self.clients}
        values["who"] = fill(said["some" if values["left_out"] else "all"], values)
        values["again"] = fill(said["again"], values) if self.repeated else ""
        return fill(said["own" if own else self.kind], values)


def import_data(path: Path, *, seed: int = 0, n_groups: int | None = None) -> Imported:
    """Check MovieLens data and keep it in the user's data directory.

    Of an archive, only users who rated at least one movie of every group become clients (why is
    said in `fedbandits.reproduce.movielens.hetrec`); of a matrix, all users do.

    Parameters
    ----------
    path : Path
        The zip file or the folder of HetRec-2011, or a .npy file with one row per user and one
        column per group.
    seed : int
        Which movies are in which group. A matrix has its groups already.
    n_groups : int, optional
        How many groups the movies of an archive are split into, 100 by default. If it is given for
        a matrix, that must have as many.

    Raises
    ------
    InputError
        If the data is not as it should be (file and line are named) or cannot be stored.
    """
    kind: DataKind = "matrix" if _is_matrix(path) else "ratings"
    found: dict[str, Any]
    table: container.Table
    if kind == "matrix":
        table = read_matrix(path)
        found = {"users": len(table)}
        if n_groups not in {None, table.shape[1]}:
            raise InputError(
                "groups",
                f"is {n_groups}, but the matrix has {table.shape[1]} columns; leave it out",
            )
    else:
        found, table = _of_archive(path, DEFAULT_GROUPS if n_groups is None else n_groups, seed)
    facts = {"kind": kind, "content": _CONTENT[kind], "source": path.resolve().name, **found}
    container.write_container(_file(kind), facts, table)
    return _described(facts, table)


def imported() -> tuple[Imported, ...]:
    """Return what is imported: nothing, a matrix, ratings, or both."""
    found = map(_loaded, get_args(DataKind))
    return tuple(_described(*loaded) for loaded in found if loaded is not None)


def load_real_clients(*, kind: DataKind | None = None, noise: float = 0.2) -> Exact | None:
    """Return the game of the real clients, or None if nothing was imported.

    They are a finite population: a row of the matrix, or a user's mean ratings of the groups
    (stars / 5), are a client's local means. Observations are normal around them.

    Parameters
    ----------
    kind : {"matrix", "ratings"}, optional
        Which import to take; by default the matrix, or the ratings if there is none.
    noise : float
        σ.

    Raises
    ------
    InputError
        If what is stored is damaged.
    """
    name = "movielens-real-clients"  # random streams are keyed by it
    for wanted in get_args(DataKind) if kind is None else (kind,):
        if (loaded := _loaded(wanted)) is not None:
            return Exact(local_means=_local_means(*loaded), noise=Gaussian(noise), name=name)
    return None


def load_real_ratings() -> Exact | None:
    """Return the game in which clients observe their own ratings, or None without an archive.

    An observation is drawn from the client's ratings of the movies of a group, with replacement;
    stars / 5, so that it lies in [0, 1]. Raises what `load_real_clients` raises.
    """
    if (loaded := _loaded("ratings")) is None:
        return None
    means, noise = _local_means(*loaded), _empirical(loaded[1])
    return Exact(local_means=means, noise=noise, name="movielens-real-ratings")


def _is_matrix(path: Path) -> bool:
    with readable(path):
        if path.is_dir():
            return False
        with path.open("rb") as stream:
            start = stream.read(len(MAGIC))
    # A file that says .npy is read as one, and refused as one if it is not.
    return start == MAGIC or path.suffix == ".npy"


def read_matrix(path: Path) -> FloatArray:
    """Return the local means of a finite population of clients, from a .npy file.

    Every row takes part: unlike in the archive, a group that a user never rated cannot be told
    from one that it rated badly. In the authors' matrix a fifth of the values are 0, and every row
    is scaled so that its largest value is 1: a client's values compare groups with the client's
    own first choice, and are not stars.

    Parameters
    ----------
    path : Path
        The file: floats in [0, 1], shape (users, groups).

    Raises
    ------
    InputError
        If it is anything else; the message names the row and the column.
    """
    with readable(path):
        try:
            # Mapped, so that a header that claims a huge array is found out before memory is taken.
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(
                str(path), f"is not a plain .npy file, or not all of one: {error}"
            ) from None
    if mapped.ndim != 2 or mapped.shape[0] < 1 or mapped.shape[1] < 2:
        raise InputError(
            str(path),
            f"has shape {mapped.shape}; it needs one row per user and one column per group, "
            "at least 2 groups",
        )
    if mapped.dtype.kind != "f":
        raise InputError(str(path), f"holds {mapped.dtype}; it needs floats in [0, 1]")
    if mapped.size > MOST_VALUES:
        raise InputError(
            str(path), f"holds {mapped.size:,} values; at most {MOST_VALUES:,} are read"
        )
    means = np.array(mapped, dtype=np.float64)
    wrong = ~((means >= 0) & (means <= 1))  # also true if it is not a number
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        raise InputError(
            f"{path}, row {row}, column {column}",
            f"{means[row, column]:g} is not in [0, 1]; leave out users without a value for "
            "every group",
        )
    return means


def _of_archive(path: Path, n_groups: int, seed: int) -> tuple[dict[str, Any], container.Table]:
    ratings = read_ratings(path)
    counts = group_ratings(ratings, n_groups=n_groups, seed=seed)
    facts = {
        "users": int(np.unique(ratings.users).size),
        "movies": int(ratings.catalogue.size),
        "movies_rated": int(np.unique(ratings.movies).size),
        "ratings": int(ratings.levels.size),
        "repeated": ratings.repeated,
        "seed": seed,
    }
    return facts, counts.astype(np.uint32)


def _file(kind: DataKind) -> Path:
    return container.data_directory() / f"movielens-{kind}.npz"


def _loaded(kind: DataKind) -> tuple[dict[str, Any], npt.NDArray[Any]] | None:
    loaded = container.read_container(_file(kind))
    if loaded is not None and (holds := loaded[0].get("kind")) != kind:
        raise InputError(str(_file(kind)), f"holds a {holds}, not what it says; {container.AGAIN}")
    return loaded


def _local_means(facts: dict[str, Any], table: npt.NDArray[Any]) -> FloatArray:
    if facts["kind"] == "matrix":
        return np.asarray(table, dtype=np.float64)
    return _empirical(table).cell_means().reshape(table.shape[:2])


def _empirical(counts: npt.NDArray[Any]) -> Empirical:
    """Return the law of ratings that are counted by level, as that of their lists would be."""
    cells = counts.reshape(-1, N_LEVELS).astype(np.int64)
    occurring = np.flatnonzero(cells.any(axis=0))
    sizes = cells.sum(axis=1)
    # Level j is j / 2 of 5 stars: a tenth each.
    support = (occurring + 1) / N_LEVELS
    shares = np.ascontiguousarray(cells[:, occurring] / sizes[:, np.newaxis])  # read by rows
    return Empirical(support, shares, sizes)


def _described(facts: dict[str, Any], table: npt.NDArray[Any]) -> Imported:
    means = _local_means(facts, table)
    game = Exact(local_means=means, noise=Gaussian(0.0))
    clients, groups = means.shape
    # A container says more than what is asked for, such as what its table holds.
    known = {field.name for field in fields(Imported)}
    return Imported(
        **{name: value for name, value in facts.items() if name in known},
        file=_file(facts["kind"]),
        clients=clients,
        groups=groups,
        gap=gap(game),
        spread=float(means.std(axis=0, ddof=1).mean()) if clients > 1 else 0.0,
        best_arm=best_arm(game),
        as_released=are_released(game.means) and facts["kind"] == "matrix",
    )
