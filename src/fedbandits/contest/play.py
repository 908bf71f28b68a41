"""Play the contest: every entrant on every game, and what came out as one table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from fedbandits.contest.distance import Distance, distance_to
from fedbandits.contest.entrants import Entrant, entrants, guests
from fedbandits.contest.games import ContestGame, contest_games
from fedbandits.contest.standings import FIELDS
from fedbandits.errors import InputError
from fedbandits.experiments.bounds import lower_bound_of, yardstick
from fedbandits.experiments.game_means import game_mean
from fedbandits.plugins import Plugin, plugins_in_use
from fedbandits.rules.arrays import BoolArray
from fedbandits.simulation import Simulation, Variant, build_rules, simulate_all
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.tables import Table, as_columns, chose_best

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
        One row per game and entrant; see `play_contest`.
    absent : list of dict
        Who did not play which game, and the reason: ``entrant``, ``game``, ``reason``.
    plugins : tuple of Plugin
        The files that guests are from.
    """

    replications: int
    seed: int
    table: Table
    absent: list[dict[str, str]]
    plugins: tuple[Plugin, ...] = ()


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
    plugins: Sequence[Plugin] = (),
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
        Who plays; all of the package by default.
    plugins : sequence of Plugin
        Files whose algorithms play, too. What the others draw does not depend on them.
    replications : int
        Of each, at least two.
    seed, workers
        As in `fedbandits.simulate_all`.
    progress : callable, optional
        Called as games are done.

    Returns
    -------
    Contest
        Its table has one row per game and entrant: the lower bound of the game (``lower_bound``,
        its slope times log T) or why none is proven (``no_bound``); mean total regret with half of
        its 95 % interval (``margin``), and as a multiple of the bound (``times_bound``; None for
        those who learn from no reports, whom the bound is not about); the columns of
        `fedbandits.contest.distance.Distance` with the first of those that must ask clients
        (``asking_ratio`` and so on; None for references), and with the first of all entrants
        (``all_ratio``); regret per client (``per_client``), clients and phases; and how many
        replications were undecided, committed to another arm than the best (both None for an
        algorithm that chooses in every slot), and played another one in the last hundredth of the
        slots (``wrong_at_end``).

    Examples
    --------
    >>> table = play_contest(chosen_games(["figure 3, M = 5"]), replications=2, workers=1).table
    >>> table["entrant"][0], table["asking_ratio"][0], table["fidelity"][0]
    ('fed-index, moss', 1.0, 'cohorts')
    """
    if replications < 2:
        raise InputError("replications", f"{replications}; an interval takes at least 2")
    rows: list[dict[str, Any]] = []
    with plugins_in_use(plugins):
        entered, absent = _entered(
            games, [*(entrants() if entering is None else entering), *guests(plugins)]
        )
        for number, (game, playing) in enumerate(zip(games, entered, strict=True)):
            runs = simulate_all(
                in_one_fidelity(
                    list(playing.values()),
                    game.horizon,
                    guests={entrant.label for entrant in playing if entrant.guest},
                ),
                horizon=game.horizon,
                replications=replications,
                seed=seed,
                grid_points=END,
                progress=False,
                workers=workers,
                warn=False,
            )
            rows += _rows(game, list(zip(playing, runs, strict=True)))
            if progress is not None:
                progress(game.name, number + 1, len(games))
    return Contest(
        replications=replications,
        seed=seed,
        table=as_columns(rows),
        absent=absent,
        plugins=tuple(plugins),
    )


def _entered(
    games: Sequence[ContestGame], entering: Sequence[Entrant]
) -> tuple[list[dict[Entrant, Variant]], list[dict[str, str]]]:
    """Return who plays every game, with what, and who does not, with the reason."""
    entered: list[dict[Entrant, Variant]] = [{} for _ in games]
    absent: list[dict[str, str]] = []
    for entrant in entering:
        reasons: list[str] = []
        for game, playing in zip(games, entered, strict=True):
            found = entrant.variant(game)
            if isinstance(found, str):
                reasons.append(found)
                absent.append({"entrant": entrant.label, "game": game.name, "reason": found})
            else:
                playing[entrant] = found
        if entrant.guest and len(reasons) == len(games):
            said = "; ".join(dict.fromkeys(reasons))
            raise InputError(f'"{entrant.label}"', f"can play none of the chosen games: {said}")
    return entered, absent


_Runs: TypeAlias = list[tuple[Entrant, Simulation]]


def in_one_fidelity(
    variants: Sequence[Variant], horizon: int, *, guests: Collection[str] = ()
) -> list[Variant]:
    """Return variants that are all played in the fastest fidelity that is valid for each of them.

    They draw the same numbers then, and pairs are pairs. Algorithms that decide in every slot have
    a fidelity of their own, and so do guests for whom that of the others is not valid.

    Parameters
    ----------
    variants : sequence of Variant
        Of one game.
    horizon : int
        T.
    guests : collection of str
        Labels of those that the others do not wait for.
    """
    order = list(Fidelity)
    fastest = [order.index(fidelity) for _, fidelity in build_rules(variants, horizon)]
    slots = order.index(Fidelity.SLOTS)
    common = max(
        (
            place
            for place, variant in zip(fastest, variants, strict=True)
            if place != slots and variant.label not in guests
        ),
        default=0,
    )
    return [
        variant if place == slots else replace(variant, fidelity=order[max(place, common)].value)
        for variant, place in zip(variants, fastest, strict=True)
    ]


def _rows(game: ContestGame, runs: _Runs) -> list[dict[str, Any]]:
    least = lower_bound_of(game.problem, game.cost)
    bound = None if isinstance(least, str) else least.at(game.horizon)
    reason = least if isinstance(least, str) else None
    rows = [
        {"game": game.name, "lower_bound": bound, "no_bound": reason} | _row(game, entrant, run)
        for entrant, run in runs
    ]
    for row, (_, run) in zip(rows, runs, strict=True):
        found = yardstick(run.variant, run.rule, game.horizon)
        row["times_bound"] = None if isinstance(found, str) else row["regret"] / found[1]
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
        "per_client": float((played.total / np.maximum(played.clients, 1)).mean()),
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
