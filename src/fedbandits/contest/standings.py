"""Who wins the contest: how often each entrant is first, near the first, and how far behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.experiments.tables import Table
from fedbandits.rules.arrays import FloatArray

NEAR = 1.1
"""Within so many times the least regret an entrant is near the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How an entrant stands.

    Parameters
    ----------
    entrant : str
        Its label.
    reference : bool
        Whether it is hypothetical, and not ranked.
    games : int
        That it played.
    first, near : int
        In how many it has the least regret of those who are ranked, and at most `NEAR` times it.
    median, worst : float
        Of its ratios to the least regret.
    """

    entrant: str
    reference: bool
    games: int
    first: int
    near: int
    median: float
    worst: float


def standings(table: Table) -> list[Place]:
    """Return how all entrants stand, those who are ranked first, by how often they are near.

    Examples
    --------
    >>> table = {
    ...     "game": ["a", "a", "b", "b"],
    ...     "entrant": ["x", "y", "x", "y"],
    ...     "reference": [False, False, False, False],
    ...     "ratio": [1.0, 3.0, 1.2, 1.0],
    ... }
    >>> [(place.entrant, place.first, place.near, place.worst) for place in standings(table)]
    [('x', 1, 1, 1.2), ('y', 1, 1, 3.0)]
    """
    places = []
    for entrant in dict.fromkeys(table["entrant"]):
        rows = [i for i, label in enumerate(table["entrant"]) if label == entrant]
        ratios = np.array([table["ratio"][i] for i in rows])
        places.append(
            Place(
                entrant=entrant,
                reference=bool(table["reference"][rows[0]]),
                games=len(rows),
                first=int((ratios <= 1.0).sum()),
                near=int((ratios <= NEAR).sum()),
                median=float(np.median(ratios)),
                worst=float(ratios.max()),
            )
        )
    return sorted(places, key=lambda place: (place.reference, -place.near, place.median))


def lost_games(table: Table, entrant: str) -> list[tuple[str, str, float]]:
    """Return where an entrant is not near the first: the game, who is first, and its ratio.

    Examples
    --------
    >>> table = {
    ...     "game": ["a", "a"], "entrant": ["x", "y"], "reference": [False, False],
    ...     "ratio": [1.0, 3.0],
    ... }
    >>> lost_games(table, "y")
    [('a', 'x', 3.0)]
    """
    firsts = {
        game: entrant
        for game, entrant, ratio, reference in zip(
            table["game"], table["entrant"], table["ratio"], table["reference"], strict=True
        )
        if ratio == 1.0 and not reference
    }
    return [
        (game, firsts[game], ratio)
        for game, label, ratio in zip(table["game"], table["entrant"], table["ratio"], strict=True)
        if label == entrant and ratio > NEAR
    ]


def profile(table: Table, entrant: str, factors: FloatArray) -> FloatArray:
    """Return in which share of all games an entrant is within a factor of the least regret.

    A performance profile, after Dolan and Moré (2002). A game that it did not play is not within
    any factor.

    Examples
    --------
    >>> table = {
    ...     "game": ["a", "a", "b", "b"], "entrant": ["x", "y", "x", "y"],
    ...     "ratio": [1.0, 3.0, 1.2, 1.0],
    ... }
    >>> profile(table, "x", np.array([1.0, 1.5]))
    array([0.5, 1. ])
    """
    games = len(set(table["game"]))
    ratios = np.array(
        [
            ratio
            for label, ratio in zip(table["entrant"], table["ratio"], strict=True)
            if label == entrant
        ]
    )
    return np.asarray((ratios <= factors[:, np.newaxis]).sum(axis=1) / games)
