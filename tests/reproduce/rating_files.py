"""Ratings as MovieLens ships them, made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedbandits.reproduce.movielens import hetrec

DATED, STAMPED = hetrec.RATINGS_FILES
HEADERS = {
    DATED: "userID movieID rating date_day date_month date_year date_hour date_minute date_second",
    STAMPED: "userID movieID rating timestamp",
}
REST = {DATED: ["29", "10", "2006", "23", "17", "16"], STAMPED: ["1162160236000"]}
MOVIES = "id\ttitle\timdbID\n" + "".join(f"{m}\tLos niños, ¿qué?\t01\n" for m in range(1, 13))


def some_ratings() -> list[tuple[int, int, float]]:
    """Return ratings of 9 users for 12 movies: users rate more movies the higher their number."""
    rng = np.random.default_rng(7)
    return [
        (user * 10, int(movie) + 1, int(rng.integers(1, 11)) / 2)
        for user in range(1, 10)
        for movie in rng.permutation(11)[: user + 2]  # nobody rates movie 12
    ]


RATINGS = some_ratings()


def table(
    ratings: list[tuple[int, int, float]] = RATINGS,
    name: str = DATED,
    *,
    header: bool = True,
    end: str = "\n",
) -> bytes:
    lines = ["\t".join(HEADERS[name].split())] if header else []
    lines += ["\t".join([str(u), str(m), f"{r:g}", *REST[name]]) for u, m, r in ratings]
    return "".join(line + end for line in lines).encode("iso-8859-1")


def folder(path: Path, content: bytes | None = None, name: str = DATED) -> Path:
    path.mkdir(parents=True)
    (path / name).write_bytes(table(name=name) if content is None else content)
    (path / hetrec.MOVIES_FILE).write_bytes(MOVIES.encode("iso-8859-1"))
    return path


# A matrix


def matrix(path: Path, values: object = None) -> Path:
    default = np.array([[0.0, 0.5, 1.0], [0.25, 0.75, 0.5], [0.5, 0.25, 0.75], [0.2, 0.4, 0.1]])
    np.save(path, default if values is None else np.asarray(values))
    return path
