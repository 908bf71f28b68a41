"""Play the contest: every entrant on every game, and what came out as one table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from fedbandits.contest.distance import Distance, distance_to
from fedbandits.contest.entrants import Entrant, entrants
from fedbandits.contest.games import ContestGame, contest_games
from fedbandits.contest.standings import FIELDS
from fedbandits.errors import InputError
from fedbandits.experiments.game_means import game_mean
from fedbandits.experiments.tables import Table, chose_best
from fedbandits.rules.arrays import BoolArray
from fedbandits.simulation import Simulation, Variant, build_rules, simulate_all
from fedbandits.simulation.fidelities import Fidelity

REPLICATIONS = 200
"""Of every game, by every entrant."""

SEED = 8

END = 100
"""What is played in the last one of so many parts of the slots is what a game ends on."""

COMPARED = tuple(field.name for field in fields(Distance))
"""What is said of an entrant beside the first of a field."""

_MOST_HINTS = 6

OnGame: TypeAlias = Callable[[str, int, int], None]
"""Called with a game's name, how many games are done, and out of how many."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contest:
    """What came out of a contest, and what it was played with.

    Parameters
    ----------
    replications : int
        Of every game, by every entrant.
    seed : int
        Of all draws.
    table : Table
        A row a game and entrant; see `play_contest`.
    """

    replications: int
    seed: int
    table: Table


def chosen_games(names: Sequence[str]) -> list[ContestGame]:
    """Return the games whose names contain any of these words; all if there are no words.

    Examples
    --------
    >>> [game.name for game in chosen_games(["Figure 3"])]
    ['figure 3, M = 5', 'figure 3, M = 10']
    >>> chosen_games(["figure 3", "figre 4"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: GAME: no game's name contains "figre 4"; did you mean "figure...
    """
    games = contest_games()
    for name in names:
        if not any(_contains(game, name) for game in games):
            raise InputError("GAME", f'no game\'s name contains "{name}"; {_hint(name, games)}')
    return [game for game in games if not names or any(_contains(game, name) for name in names)]


def _hint(name: str, games: Sequence[ContestGame]) -> str:
    """Return what may have been meant, and which games that are."""
    parts = {part for game in games for part in (game.name, *game.name.split(", "))}
    for close in difflib.get_close_matches(name, sorted(parts), n=1):
        found = [f'"{game.name}"' for game in games if _contains(game, close)]
        more = f"; and {len(found) - _MOST_HINTS} more" if len(found) > _MOST_HINTS else ""
        return f'did you mean "{close}"? (games: {"; ".join(found[:_MOST_HINTS])}{more})'
    return f"fedbandits contest --list prints the names of all {len(games)} games"


def _contains(game: ContestGame, words: str) -> bool:
    return words.strip().casefold() in game.name.casefold()


def play_contest(
    games: Sequence[ContestGame],
    *,
    entering: Sequence[Entrant] | None = None,
    replications: int = REPLICATIONS,
    seed: int = SEED,
    workers: int | None = None,
    progress: OnGame | None = None,
) -> Contest:
    """Play games with all entrants, all of them as often and in the same fidelity.

    Parameters
    ----------
    games : sequence of ContestGame
        Which.
    entering : sequence of Entrant, optional
        Who plays; all by default.
    replications : int
        Of each, at least two.
    seed, workers
        As in `fedbandits.simulate_all`.
    progress : callable, optional
        Called as games are done.

    Returns
    -------
    Contest
        Its table has one row per game and entrant: mean total regret with half of its 95 % interval
        (``margin``); the columns of `fedbandits.contest.distance.Distance` with the first of
        those that must ask clients (``asking_ratio`` and so on; None for references), and with
        the first of all entrants (``all_ratio``); clients and phases; and how many replications
        were undecided, committed to another arm than the best (both None for an algorithm that
        chooses in every slot), and played another one in the last hundredth of the slots
        (``wrong_at_end``).

    Examples
    --------
    >>> table = play_contest(chosen_games(["figure 3, M = 5"]), replications=2, workers=1).table
    >>> table["entrant"][0], table["asking_ratio"][0], table["fidelity"][0]
    ('fed-index, moss', 1.0, 'cohorts')
    """
    if replications < 2:
        raise InputError("replications", f"{replications}; an interval takes at least 2")
    table: Table = {}
    for number, game in enumerate(games):
        runs = _simulated(game, entering or entrants(), replications, seed, workers)
        for row in _rows(game, runs):
            for name, value in row.items():
                table.setdefault(name, []).append(value)
        if progress is not None:
            progress(game.name, number + 1, len(games))
    return Contest(replications=replications, seed=seed, table=table)


_Runs: TypeAlias = list[tuple[Entrant, Simulation]]


def _simulated(
    game: ContestGame,
    entering: Sequence[Entrant],
    replications: int,
    seed: int,
    workers: int | None,
) -> _Runs:
    """Return what every entrant makes of a game, in their order."""
    playing = [(entrant, entrant.enter(game)) for entrant in entering]
    variants = [
        Variant(
            label=entrant.label,
            problem=game.problem,
            algorithm=algorithm,
            communication_cost=game.cost,
        )
        for entrant, algorithm in playing
        if algorithm is not None
    ]
    runs = simulate_all(
        in_one_fidelity(variants, game.horizon),
        horizon=game.horizon,
        replications=replications,
        seed=seed,
        grid_points=END,
        workers=workers,
        warn=False,
    )
    entered = [entrant for entrant, algorithm in playing if algorithm is not None]
    return list(zip(entered, runs, strict=True))


def in_one_fidelity(variants: Sequence[Variant], horizon: int) -> list[Variant]:
    """Return variants that are all played in the fastest fidelity that is valid for each of them.

    They draw the same numbers then, and pairs are pairs. Algorithms that decide in every slot have
    a fidelity of their own.
    """
    slowest_first = list(Fidelity)[::-1]
    fastest = [fidelity for _, fidelity in build_rules(variants, horizon)]
    phased = {fidelity for fidelity in fastest if fidelity is not Fidelity.SLOTS}
    common = next((fidelity for fidelity in slowest_first if fidelity in phased), Fidelity.SLOTS)
    return [
        variant if fidelity is Fidelity.SLOTS else replace(variant, fidelity=common.value)
        for variant, fidelity in zip(variants, fastest, strict=True)
    ]


def _rows(game: ContestGame, runs: _Runs) -> list[dict[str, Any]]:
    rows = [_row(game, entrant, run) for entrant, run in runs]
    for field in FIELDS:
        members = [run for entrant, run in runs if field == "all" or not entrant.reference]
        first = min(members, key=lambda run: float(run.games.total.mean()), default=None)
        for row, (_, run) in zip(rows, runs, strict=True):
            beside = (
                asdict(distance_to(run.games.total, first.games.total))
                if first is not None and run in members
                else dict.fromkeys(COMPARED)
            )
            row |= {f"{field}_{name}": value for name, value in beside.items()}
    return rows


def _row(game: ContestGame, entrant: Entrant, run: Simulation) -> dict[str, Any]:
    played = run.games
    regret = game_mean(played.total)
    decided, never = played.winner >= 0, run.fidelity is Fidelity.SLOTS
    return {
        "game": game.name,
        "group": game.group,
        "horizon": game.horizon,
        "communication_cost": game.cost,
        "entrant": entrant.label,
        "reference": entrant.reference,
        "fidelity": run.fidelity.value,
        "replications": regret.n,
        "regret": regret.value,
        "margin": regret.margin,
        "communication": float(played.communication.mean()),
        "clients": float(played.clients.mean()),
        "phases": float(played.phases.mean()),
        "undecided": None if never else int((~decided).sum()),
        "wrong_commits": None if never else int((decided & ~chose_best(run)).sum()),
        "wrong_at_end": int(_wrong_at_end(run).sum()),
    }


def _wrong_at_end(run: Simulation) -> BoolArray:
    """Return in which replications another arm than the best is played at the end.

    The games hold no arm of an undecided game; but wherever exploration regret has grown in the
    last part of the slots, some client has played another arm than the best in it.
    """
    *_, before, at_end = run.games.exploration_curves.T
    return np.asarray(at_end > before)
