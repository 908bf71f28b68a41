"""The table behind the section: facts of what is imported, and the games on it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedbandits.experiments.game_means import game_mean
from fedbandits.experiments.tables import chose_best
from fedbandits.problems.exact import Exact
from fedbandits.reproduce.computed import Batch, Runs
from fedbandits.reproduce.findings import share_of
from fedbandits.reproduce.movielens.store import (
    Imported,
    imported,
    load_real_clients,
    load_real_ratings,
)
from fedbandits.reproduce.real_data.facts import RESAMPLED, facts_of, matrix_facts
from fedbandits.reproduce.texts import fill, texts
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation import Assume, Simulation, Variant

SEED = 2021
HORIZON = 1_000_000
NOISE = 0.2
"""σ of observations around the real clients' means, as in the authors' script."""

RELEASED_SPREAD = 0.02
"""σ_c that the authors' script tells Fed2-UCB."""

SAMPLE = 200
"""As many clients as figure 6 gives Fed1-UCB."""

MORE_PHASES = 4
"""After so many with everyone in, a rule that takes the users for a sample is ended."""

MOST_VALUES = 1_000_000
"""Data with more clients × groups is described and not played: that would take too long."""

REPLICATIONS = {"real clients": 100, "real ratings": 10}
"""Ratings are drawn from ten levels one by one, which takes long."""

_PULLS = 200
_FED1 = Fed1Ucb(pulls="floor(10*log(T))", radius=PaperRadius(arm=1.0))
_FED2 = Fed2Ucb(
    pulls=str(_PULLS), admissions="2^p", radius=PaperRadius(arm=1.0, client=0.25)
)  # constants as in figure 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A variant on real data.

    Parameters
    ----------
    key : str
        What the section knows it by.
    told : str
        What the rule believes, in plain words.
    variant : Variant
        What is simulated.
    """

    key: str
    told: str
    variant: Variant


def plays_of(game: Exact, spread: float) -> list[Play]:
    """Return the variants that are played on given clients.

    Parameters
    ----------
    game : Exact
        The clients.
    spread : float
        σ_c, as it is.
    """
    n = game.population
    sample = min(SAMPLE, (n + 1) // 2)
    real = Assume(spread=spread)
    sampled = replace(_FED2, target="population")
    # 2 + 4 + … + 2^p is n or more.
    last = math.ceil(math.log2(n + 2)) - 1 + MORE_PHASES
    words = {"n": n, "sample": sample, "spread": spread, "released_spread": RELEASED_SPREAD}
    settings: dict[str, dict[str, Any]] = {
        "all": {"algorithm": _FED1},
        "some": {"algorithm": replace(_FED1, clients=sample)},
        "finite": {"algorithm": _FED2, "assume": real},
        "finite-theory": {"algorithm": replace(_FED2, radius=PaperRadius()), "assume": real},
        "unlimited": {"algorithm": sampled, "assume": real, "max_phases": last},
        "released": {
            "algorithm": sampled,
            "assume": Assume(spread=RELEASED_SPREAD),
            "max_phases": last,
        },
    }
    found = []
    for key, setting in settings.items():
        words_of = texts("movielens")["plays"][key]
        variant = Variant(label=fill(words_of["label"], words), problem=game, **setting)
        found.append(Play(key=key, told=fill(words_of["told"], words), variant=variant))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RealGame:
    """A game on imported data.

    Parameters
    ----------
    data : Imported
        Where the clients come from.
    name : {"real clients", "real ratings"}
        What they observe.
    problem : Exact
        What is played.
    """

    data: Imported
    name: str
    problem: Exact

    @property
    def horizon(self) -> int:
        """Room for 20 phases with all groups, however many there are."""
        return max(HORIZON, 20 * _PULLS * self.problem.means.size)

    def plays(self) -> dict[tuple[str, str, str], Play]:
        """Return what is played, by the keys of its runs; nothing on data that is too large."""
        if self.problem.table.size > MOST_VALUES:
            return {}
        plays = plays_of(self.problem, self.data.spread)
        return {(self.data.kind, self.name, play.key): play for play in plays}


def real_games() -> list[RealGame]:
    """Return the games on everything that is imported."""
    found = []
    for data in imported():
        problems = {"real clients": load_real_clients(kind=data.kind, noise=NOISE)}
        if data.kind == "ratings":
            problems["real ratings"] = load_real_ratings()
        for name, problem in problems.items():
            if problem is not None:
                found.append(RealGame(data=data, name=name, problem=problem))
    return found


def real_data_batches() -> list[Batch]:
    """Return what is played on everything that is imported."""
    return [
        Batch(
            variants={key: play.variant for key, play in game.plays().items()},
            horizon=game.horizon,
            replications=REPLICATIONS[game.name],
            seed=SEED,
        )
        for game in real_games()
        if game.plays()
    ]


def real_data_inputs() -> list[object]:
    """Return what the table depends on besides the package: the data itself, and the settings."""
    contents = [
        (data.kind, hashlib.sha256(data.file.read_bytes()).hexdigest()) for data in imported()
    ]
    return [contents, SEED, HORIZON, NOISE, SAMPLE, MOST_VALUES, RESAMPLED]


def real_data_table(runs: Runs) -> dict[str, Any]:
    """Return the facts of everything that is imported and the results of the games on it.

    Returns
    -------
    dict
        ``data``, the facts of each import, and ``games``; both empty if nothing is imported.
    """
    games = real_games()
    return {
        "data": [_facts(game, games) for game in games if game.name == "real clients"],
        "games": [
            {
                "kind": game.data.kind,
                "game": game.name,
                "horizon": game.horizon,
                "noise": game.problem.noise_proxy,
                "replications": min(
                    (runs[key].games.total.size for key in game.plays()), default=0
                ),
                "variants": [_row(play, runs[key]) for key, play in game.plays().items()],
            }
            for game in games
        ],
    }


def _facts(clients: RealGame, games: Sequence[RealGame]) -> dict[str, Any]:
    data, means = clients.data, clients.problem.table
    few = means.size <= MOST_VALUES
    found = facts_of(data, means, horizon=HORIZON, seed=SEED, resampled=RESAMPLED if few else 0)
    if data.kind == "matrix":
        found["rows"] = matrix_facts(means)
    for game in games:
        noise = game.problem.noise
        if game.data is data and noise.given_by_cell:
            lists = noise.observations(game.problem.means.size)
            lengths = [len(part) for row in lists for part in row]
            found |= {"ratings": data.ratings, "ratings_in_group": float(np.median(lengths))}
    return found


def _row(play: Play, run: Simulation) -> dict[str, Any]:
    played, mean = run.games, game_mean(run.games.total)
    undecided = played.winner < 0
    wrong = ~chose_best(run) & ~undecided
    return {
        "key": play.key,
        "label": play.variant.label,
        "told": play.told,
        "regret": {"mean": mean.value, "margin": mean.margin},
        "wrong": share_of(wrong, "wrong"),
        "undecided": share_of(undecided, "undecided"),
        "clients": float(played.clients.mean()),
        "phases": float(played.phases.mean()),
    }
