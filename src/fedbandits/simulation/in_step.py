"""Games that are played in step: which can be, the order of their rows, and whose mistake it is.

Many small games take longer to begin than to play. Those that differ only in what is an array
anyway (means, noise, spread, schedules, the cost of communication) are one array program with one
row per game and replication. They share their random draws, as they do when each is played alone,
and the numbers are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from fedbandits.errors import InputError
from fedbandits.rules.arrays import IntArray
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.game import Game
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK

# What may differ from game to game.
_OWN = ("pulls", "admissions", "max_clients", "noise", "spread", "cost")


def key_in_step(game: Game, fidelity: Fidelity) -> tuple[Any, ...] | None:
    """Return what games played in step have in common; None for a game to play alone.

    Parameters
    ----------
    game : Game
        A game.
    fidelity : Fidelity
        What is drawn of it.
    """
    rule = game.rule
    alone = fidelity is not Fidelity.COHORTS or game.privacy is not None
    # What is played without a schedule depends on what was seen, so such games share no phases.
    if alone or rule.decides_every_slot or not rule.scheduled:
        return None
    shared = [getattr(rule, field.name) for field in fields(rule) if field.name not in _OWN]
    # Values that depend on σ and σ_c do not take them as arrays.
    known = rule.noise is not None and rule.spread is not None
    beliefs = () if known and not rule.estimator.uses_variances else (rule.noise, rule.spread)
    played = game.played
    return (played.name, game.seed, played.population, *shared, *beliefs)


def rows_in_step(n_games: int, replications: IntArray) -> tuple[IntArray, IntArray]:
    """Return the game and the replication of every row.

    Replications that share a random stream stand together, those of the first game first.

    Parameters
    ----------
    n_games : int
        How many games.
    replications : array of int
        Of each of them, ascending.

    Examples
    --------
    >>> games, replications = rows_in_step(2, np.array([126, 127, 128]))
    >>> games.tolist(), replications.tolist()
    ([0, 0, 1, 1, 0, 1], [126, 127, 126, 127, 128, 128])
    """
    games = np.repeat(np.arange(n_games), replications.size)
    numbers = np.tile(replications, n_games)
    order = np.lexsort((numbers, games, numbers // REPLICATIONS_PER_BLOCK))
    return games[order], numbers[order]


def in_batches(keys: Sequence[tuple[Any, ...] | None], most: int) -> list[list[int]]:
    """Return the positions of equal keys in batches of limited size; None stays alone.

    Examples
    --------
    >>> in_batches([("a",), None, ("b",), ("a",), ("a",)], 2)
    [[0, 3], [1], [2], [4]]
    """
    groups: dict[object, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(place if key is None else key, []).append(place)
    return sorted(
        group[start : start + most]
        for group in groups.values()
        for start in range(0, len(group), most)
    )


class FailedGameError(Exception):
    """One of several games in step cannot continue; ``problem`` says why.

    Parameters
    ----------
    game : Game
        Which.
    problem : InputError
        What is wrong with it.
    """

    def __init__(self, game: Game, problem: InputError) -> None:
        super().__init__(game, problem)
        self.game = game
        self.problem = problem


@contextmanager
def mistakes_of(game: Game) -> Iterator[None]:
    """Say which game a mistake is in."""
    try:
        yield
    except InputError as error:
        raise FailedGameError(game, error) from None
