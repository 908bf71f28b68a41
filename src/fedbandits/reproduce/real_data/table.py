"""The table behind the section: facts of what is imported, and the games on it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.tables import chose_best
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Gaussian
from fedbandits.reproduce.movielens.store import (
    Imported,
    imported,
    load_real_clients,
    load_real_ratings,
)
from fedbandits.reproduce.real_data.facts import RESAMPLED, facts_of, matrix_facts
from fedbandits.reproduce.run import at_most
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation.simulator import Assume, Progress, Simulation, Variant, simulate_all

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
    real, released = Assume(spread=spread), Assume(spread=RELEASED_SPREAD)
    sampled = replace(_FED2, target="population")
    # 2 + 4 + … + 2^p is n or more.
    last = math.ceil(math.log2(n + 2)) - 1 + MORE_PHASES
    unlimited = "takes them for a sample of an unlimited population, σ_c = "
    return [
        Play(
            key="all",
            told="nobody is left out: their average is the question itself",
            variant=Variant(label=f"Fed1-UCB, all {n:,} clients", problem=game, algorithm=_FED1),
        ),
        Play(
            key="some",
            told="drawn at random, and taken for everybody",
            variant=Variant(
                label=f"Fed1-UCB, {sample:,} of them",
                problem=game,
                algorithm=replace(_FED1, clients=sample),
            ),
        ),
        Play(
            key="finite",
            told=f"lets clients in, knows that there are {n:,}, σ_c = {spread:.4f}",
            variant=Variant(label="Fed2-UCB", problem=game, algorithm=_FED2, assume=real),
        ),
        Play(
            key="finite-theory",
            told="the same with the theory's constants 6 and 6",
            variant=Variant(
                label="Fed2-UCB, constants 6 and 6",
                problem=game,
                algorithm=replace(_FED2, radius=PaperRadius()),
                assume=real,
            ),
        ),
        Play(
            key="unlimited",
            told=f"{unlimited}{spread:.4f}",
            variant=Variant(
                label="Fed2-UCB, unlimited population",
                problem=game,
                algorithm=sampled,
                assume=real,
                max_phases=last,
            ),
        ),
        Play(
            key="released",
            told=f"{unlimited}{RELEASED_SPREAD}",
            variant=Variant(
                label="Fed2-UCB as in figure 6",
                problem=game,
                algorithm=sampled,
                assume=released,
                max_phases=last,
            ),
        ),
    ]


def real_data_table(
    *, games: int | None = None, workers: int | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Return the facts of everything that is imported and the results of the games on it.

    Parameters
    ----------
    games : int, optional
        At most so many replications of each game, for a quick look.
    workers : int, optional
        Processes; all cores by default.
    progress : callable, optional
        Called as replications are done.

    Returns
    -------
    dict
        ``data``, the facts of each import, and ``games``; both empty if nothing is imported.
    """
    facts: list[dict[str, Any]] = []
    played: list[dict[str, Any]] = []
    for data in imported():
        clients = load_real_clients(kind=data.kind, noise=NOISE)
        ratings = load_real_ratings() if data.kind == "ratings" else None
        if clients is None:
            continue  # removed since it was listed
        facts.append(_facts(data, clients.table, ratings))
        for name, game in (("real clients", clients), ("real ratings", ratings)):
            if game is not None:
                rows = _play(
                    game,
                    data.spread,
                    replications=at_most(games, REPLICATIONS[name]),
                    workers=workers,
                    progress=progress,
                )
                played.append({"kind": data.kind, "game": name, **rows})
    return {"data": facts, "games": played}


def real_data_replications(games: int | None) -> int:
    """Return how many replications `real_data_table` simulates; 0 if nothing is imported."""
    names = [
        name
        for data in imported()
        for name in REPLICATIONS
        if name == "real clients" or data.kind == "ratings"
    ]
    return len(_plays_of_an_example()) * sum(at_most(games, REPLICATIONS[name]) for name in names)


def real_data_fingerprint(games: int | None) -> str:
    """Return what the table depends on, as a hash: the data itself and the settings."""
    contents = [
        (data.kind, hashlib.sha256(data.file.read_bytes()).hexdigest()) for data in imported()
    ]
    plays = [
        (
            play.variant.label,
            play.told,
            repr(play.variant.algorithm),
            repr(play.variant.assume),
            play.variant.max_phases,
        )
        for play in _plays_of_an_example()
    ]
    settings = [SEED, HORIZON, NOISE, SAMPLE, MOST_VALUES, RESAMPLED]
    counts = {name: at_most(games, usual) for name, usual in REPLICATIONS.items()}
    return hashed([contents, plays, settings, counts])


def _plays_of_an_example() -> list[Play]:
    return plays_of(Exact(local_means=np.eye(3), noise=Gaussian(NOISE)), 0.5)


def _facts(data: Imported, means: FloatArray, ratings: Exact | None) -> dict[str, Any]:
    few = means.size <= MOST_VALUES
    found = facts_of(data, means, horizon=HORIZON, seed=SEED, resampled=RESAMPLED if few else 0)
    if data.kind == "matrix":
        found["rows"] = matrix_facts(means)
    if ratings is not None:
        lists = ratings.noise.observations(ratings.means.size)
        found["ratings"] = data.ratings
        found["ratings_in_group"] = float(np.median([len(group) for row in lists for group in row]))
    return found


def _play(
    game: Exact,
    spread: float,
    *,
    replications: int,
    workers: int | None,
    progress: Progress | None,
) -> dict[str, Any]:
    # Room for 20 phases with all groups, however many there are.
    horizon = max(HORIZON, 20 * _PULLS * game.table.shape[1])
    rows: list[dict[str, Any]] = []
    if game.table.size <= MOST_VALUES:
        plays = plays_of(game, spread)
        runs = simulate_all(
            [play.variant for play in plays],
            horizon=horizon,
            replications=replications,
            seed=SEED,
            grid_points=1,
            workers=workers,
            progress=progress,
            warn=False,
        )
        rows = [_row(play, run) for play, run in zip(plays, runs, strict=True)]
    return {
        "horizon": horizon,
        "noise": game.noise_proxy,
        "replications": replications,
        "variants": rows,
    }


def _row(play: Play, run: Simulation) -> dict[str, Any]:
    outcome = run.outcome
    undecided: BoolArray = outcome.winner < 0
    wrong: BoolArray = ~chose_best(run) & ~undecided
    return {
        "key": play.key,
        "label": play.variant.label,
        "told": play.told,
        "regret": _mean_and_margin(outcome.total),
        "wrong": _share(wrong),
        "undecided": _share(undecided),
        "clients": float(outcome.clients.mean()),
        "phases": float(outcome.phases.mean()),
    }


def _mean_and_margin(values: FloatArray) -> dict[str, float]:
    """Return the mean and half of its 95 % interval."""
    quantile = float(stats.t.ppf(0.975, values.size - 1))
    error = float(values.std(ddof=1)) / values.size**0.5
    return {"mean": float(values.mean()), "margin": quantile * error}


def _share(happened: BoolArray) -> dict[str, float]:
    """Return how often something happened, with an exact 95 % interval."""
    k, n = int(happened.sum()), happened.size
    interval = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    return {"share": k / n, "low": float(interval.low), "high": float(interval.high)}
