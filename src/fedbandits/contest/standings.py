"""Who wins the contest: how often each entrant is first, near the first, and how far behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.tables import Table, arrays, rows_of

NEAR = 1.1
"""Within so many times the least regret an entrant is near the first."""

CHAMPION = "fed-index, moss"
"""Whose losses are explained."""

Field: TypeAlias = Literal["asking", "all"]
"""Among whom an entrant is ranked."""

FIELDS: dict[Field, str] = {
    "asking": "algorithms that must ask clients",
    "all": "all entrants, references included",
}
"""What pages call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """How an entrant stands in a field.

    Parameters
    ----------
    first : int
        In how many games it has the least regret.
    told_apart : int
        In how many of them its paired interval with every other of the field is above 0.
    near : int
        In how many games its regret is at most `NEAR` times the least.
    median, worst : float
        Of its ratios to the least regret.
    """

    first: int
    told_apart: int
    near: int
    median: float
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrantRecord:
    """How an entrant stands.

    Parameters
    ----------
    entrant : str
        Its label.
    reference : bool
        Whether it is hypothetical.
    games, replications : int
        That it played, and how many replications that is in all.
    asking : Rank, optional
        Among algorithms that must ask clients; None for a reference.
    all : Rank
        Among all entrants, references included.
    bounded_games : int
        That it played and for which a lower bound is proven; 0 for a reference.
    times_bound : float, optional
        The geometric mean, over these games, of its mean regret as a multiple of the bound.
    undecided, wrong_commits, wrong_at_end : int
        In how many replications, as in `fedbandits.contest.play.play_contest`.
    """

    entrant: str
    reference: bool
    games: int
    replications: int
    asking: Rank | None
    all: Rank
    bounded_games: int
    times_bound: float | None
    undecided: int | None
    wrong_commits: int | None
    wrong_at_end: int | None


def standings(table: Table) -> list[EntrantRecord]:
    """Return how all entrants stand, those that ask clients first, by how often they are near."""
    clear = {field: told_apart(table, field) for field in FIELDS}
    places = []
    for entrant in dict.fromkeys(table["entrant"]):
        rows = rows_of(table, entrant=entrant)
        reference = bool(rows[0]["reference"])
        bounded = [row["times_bound"] for row in rows if row["times_bound"] is not None]
        places.append(
            EntrantRecord(
                entrant=entrant,
                reference=reference,
                games=len(rows),
                replications=sum(row["replications"] for row in rows),
                asking=None if reference else _rank(rows, "asking", clear["asking"]),
                all=_rank(rows, "all", clear["all"]),
                bounded_games=len(bounded),
                times_bound=float(np.exp(np.log(bounded).mean())) if bounded else None,
                **{name: _sum([row[name] for row in rows]) for name in COUNTS},
            )
        )
    return sorted(places, key=_order)


COUNTS = ("undecided", "wrong_commits", "wrong_at_end")
"""What is counted of the replications of an entrant."""


def _sum(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(filter(None, counts))


def _order(place: EntrantRecord) -> tuple[bool, int, float]:
    rank = place.all if place.asking is None else place.asking
    return place.reference, -rank.near, rank.median


def _rank(rows: list[dict[str, Any]], field: Field, clear: dict[str, bool]) -> Rank:
    ratios = np.array([row[f"{field}_ratio"] for row in rows])
    first = [row["game"] for row in rows if row[f"{field}_ratio"] == 1.0]
    return Rank(
        first=len(first),
        told_apart=sum(clear[game] for game in first),
        near=int((ratios <= NEAR).sum()),
        median=float(np.median(ratios)),
        worst=float(ratios.max()),
    )


def told_apart(table: Table, field: Field) -> dict[str, bool]:
    """Return of every game whether its first is told apart from all others of the field.

    It is if the interval of every other's difference to it is above 0.

    Examples
    --------
    >>> told_apart(
    ...     {
    ...         "game": ["a", "a", "b", "b"],
    ...         "all_above": [0.0, 20.0, 2.0, 0.0],
    ...         "all_above_margin": [0.0, 4.0, 5.0, 0.0],
    ...     },
    ...     "all",
    ... )
    {'a': True, 'b': False}
    """
    like_the_first = dict.fromkeys(table["game"], 0)
    columns = (table["game"], table[f"{field}_above"], table[f"{field}_above_margin"])
    for game, above, margin in zip(*columns, strict=True):
        like_the_first[game] += above is not None and above <= margin
    # The first is one of them.
    return {game: number <= 1 for game, number in like_the_first.items()}


def firsts(table: Table, field: Field) -> dict[str, dict[str, Any]]:
    """Return the row of every game's first; of several with the same regret, the first row.

    Examples
    --------
    >>> firsts({"game": ["a", "a"], "all_ratio": [3.0, 1.0]}, "all")
    {'a': {'game': 'a', 'all_ratio': 1.0}}
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows_of(table, **{f"{field}_ratio": 1.0}):
        found.setdefault(row["game"], row)
    return found


def lost_games(
    table: Table, entrant: str, field: Field
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return where an entrant is not near the first of a field: its row, and that of the first.

    Examples
    --------
    >>> table = {"game": ["a", "a"], "entrant": ["x", "y"], "all_ratio": [1.0, 3.0]}
    >>> [(own["all_ratio"], first["entrant"]) for own, first in lost_games(table, "y", "all")]
    [(3.0, 'x')]
    """
    first, ratio = firsts(table, field), f"{field}_ratio"
    rows = [row for row in rows_of(table, entrant=entrant) if row[ratio] is not None]
    return [(row, first[row["game"]]) for row in rows if row[ratio] > NEAR]


def profile(table: Table, entrant: str, field: Field, factors: FloatArray) -> FloatArray:
    """Return in which share of all games an entrant is within a factor of the least regret.

    A performance profile, after Dolan and Moré (2002). A game that it did not play is not within
    any factor.

    Examples
    --------
    >>> table = {
    ...     "game": ["a", "a", "b", "b"], "entrant": ["x", "y", "x", "y"],
    ...     "all_ratio": [1.0, 3.0, 1.2, 1.0],
    ... }
    >>> profile(table, "x", "all", np.array([1.0, 1.5]))
    array([0.5, 1. ])
    """
    (ratios,) = arrays(rows_of(table, entrant=entrant), f"{field}_ratio")
    return np.asarray((ratios <= factors[:, np.newaxis]).sum(axis=1) / len(set(table["game"])))
