"""Play the contest: every entrant on every game, and what came out as one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fedbandits.contest.entrants import Entrant, entrants
from fedbandits.contest.games import ContestGame, contest_games
from fedbandits.errors import InputError
from fedbandits.experiments.figures.curves import NORMAL_95
from fedbandits.experiments.tables import Table
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.simulator import Simulation, Variant, build_rules, simulate_all

REPLICATIONS = 400
"""Of every game, unless it takes long: then as `replications_of` says."""

SEED = 2023

CHAMPION = "fed-index, moss"
"""Whom all others are compared with, replication by replication."""

_FEWER = 4
"""Games that draw clients one by one, and algorithms that decide in every slot, are played so many
times fewer."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a game's name, how many games are done, and out of how many."""


def replications_of(asked: int, *, slow: bool) -> int:
    """Return how many replications are played; a standard error takes two.

    Examples
    --------
    >>> replications_of(400, slow=False), replications_of(400, slow=True)
    (400, 100)
    """
    return max(2, asked // _FEWER if slow else asked)


def chosen_games(names: Sequence[str]) -> list[ContestGame]:
    """Return the games whose names contain any of these words; all where there is none.

    Examples
    --------
    >>> [game.name for game in chosen_games(["figure 3"])]
    ['figure 3, M = 5', 'figure 3, M = 10']
    """
    games = contest_games()
    found = [game for game in games if not names or any(name in game.name for name in names)]
    if not found:
        raise InputError("games", f'no game is called "{names[0]}"; the first is "{games[0].name}"')
    return found


def play_contest(
    games: Sequence[ContestGame],
    *,
    replications: int = REPLICATIONS,
    seed: int = SEED,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Table:
    """Play games with all entrants.

    Parameters
    ----------
    games : sequence of ContestGame
        Which.
    replications : int
        Of each; fewer where it takes long.
    seed, workers
        As in `fedbandits.simulate_all`.
    progress : callable, optional
        Called as games are done.

    Returns
    -------
    Table
        A row a game and entrant: mean total regret with its standard error; ``ratio`` to the least
        of those who have to ask clients; ``behind`` the champion, with a 95 % interval from the
        differences within replications; clients, phases, and how often another arm than the best
        was committed to.

    Examples
    --------
    >>> table = play_contest(chosen_games(["figure 3, M = 5"]), replications=2, workers=1)
    >>> table["entrant"][0], table["ratio"][0]
    ('fed-index, moss', 1.0)
    """
    table: Table = {name: [] for name in _COLUMNS}
    for number, game in enumerate(games):
        for row in _rows(game, replications, seed, workers):
            for name in _COLUMNS:
                table[name].append(row[name])
        if progress is not None:
            progress(game.name, number + 1, len(games))
    return table


_COLUMNS = (
    *("game", "group", "entrant", "reference", "replications", "regret", "stderr", "ratio"),
    *("behind", "behind_low", "behind_high", "communication", "clients", "phases", "wrong"),
)


def _rows(
    game: ContestGame, replications: int, seed: int, workers: int | None
) -> list[dict[str, object]]:
    runs = _simulated(game, replications, seed, workers)
    champion = next(run for entrant, run in runs if entrant.label == CHAMPION).outcome.total
    least = min(float(run.outcome.total.mean()) for entrant, run in runs if not entrant.reference)
    best = int(np.argmax(game.problem.means))
    rows = []
    for entrant, run in runs:
        outcome = run.outcome
        n = outcome.total.size
        behind, half = _paired(outcome.total, champion)
        regret = float(outcome.total.mean())
        rows.append(
            {
                "game": game.name,
                "group": game.group,
                "entrant": entrant.label,
                "reference": entrant.reference,
                "replications": n,
                "regret": regret,
                "stderr": float(outcome.total.std(ddof=1) / math.sqrt(n)),
                "ratio": regret / least,
                "behind": behind,
                "behind_low": behind - half,
                "behind_high": behind + half,
                "communication": float(outcome.communication.mean()),
                "clients": float(outcome.clients.mean()),
                "phases": float(outcome.phases.mean()),
                "wrong": int(((outcome.winner >= 0) & (outcome.winner != best)).sum()),
            }
        )
    return rows


def _paired(totals: FloatArray, champion: FloatArray) -> tuple[float, float]:
    """Return the mean difference over the replications that both have played, and its ±."""
    n = min(totals.size, champion.size)
    apart = totals[:n] - champion[:n]
    return float(apart.mean()), float(NORMAL_95 * apart.std(ddof=1) / math.sqrt(n))


def _simulated(
    game: ContestGame, replications: int, seed: int, workers: int | None
) -> list[tuple[Entrant, Simulation]]:
    """Return what every entrant makes of a game, in their order."""
    found = []
    for entrant in entrants():
        algorithm = entrant.enter(game)
        if algorithm is None:
            continue
        variant = Variant(
            label=entrant.label,
            problem=game.problem,
            algorithm=algorithm,
            communication_cost=game.cost,
        )
        ((_, fidelity),) = build_rules([variant], game.horizon)
        slow = fidelity is not Fidelity.COHORTS
        (run,) = simulate_all(
            [variant],
            horizon=game.horizon,
            replications=replications_of(replications, slow=slow),
            seed=seed,
            grid_points=1,
            workers=workers,
            warn=False,
        )
        found.append((entrant, run))
    return found
