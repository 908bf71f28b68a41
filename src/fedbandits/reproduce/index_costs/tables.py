"""The numbers: regret and tails beside elimination, growth with the horizon, MovieLens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.special import chdtrc, stdtrit

from fedbandits.experiments.tables import Table, arrays, as_columns, chose_best, rows_of
from fedbandits.problems.problem import Problem
from fedbandits.report.chart import NORMAL_95
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.computed import Batch, Runs, costs_of, labelled, ratio_columns
from fedbandits.reproduce.findings import share_of
from fedbandits.reproduce.movielens.groups import as_released
from fedbandits.rules.algorithms import Algorithm, FedIndex
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import CertifiedRadius
from fedbandits.simulation import Simulation, Variant
from fedbandits.theory.orders import lai_robbins_slope

Tables: TypeAlias = dict[str, Table]
"""By name: "games", "tails", "growth", "fits" and "movielens"."""

REPLICATIONS = 10_000
GROWTH_REPLICATIONS = 2_000
MOVIELENS_REPLICATIONS = 400
HORIZON = 1_000_000
HORIZONS = tuple(10**power for power in range(4, 10))
# As in the part "rules", whose columns of elimination are on the same games and draws.
SEED = 2022

MOSS, UCB2, UCB = "fed-index, moss", "fed-index, ucb2", "fed-index, ucb"
CERTIFIED, AUTHORS = "certified elimination", "authors' constants"
OURS, PAPERS = "fed-index", "Fed2-UCB, f = 200"
GROWING = ("fig3-5", "fig4")
"""The games whose horizon varies."""

POWERS = (0.5, 1.0, 1.5, 2.0)
"""Of log T, that are fitted."""

FIRST = (HORIZONS[0], HORIZONS[1])
"""From which horizon on they are fitted: the first is too short for some games."""

QUANTILES = {"median": 0.5, "q95": 0.95, "q99": 0.99}
# Curves have so many points: what is played after the last but one is the end of a game.
_GRID = 100


@dataclass(frozen=True, slots=True)
class RuledGame:
    """A game that all rules are tried on.

    Parameters
    ----------
    key, title : str
        What files and people call it.
    problem : Problem
        What is played.
    algorithms : dict
        By the name of their rule.
    """

    key: str
    title: str
    problem: Problem
    algorithms: dict[str, Algorithm]


def index_games() -> list[RuledGame]:
    """Return the paper's games with index rules and elimination, all with their defaults.

    Elimination has the authors' schedules, with the certified radius and with their own constants.
    If clients join, certified elimination weighs cohorts by their variance.
    """
    five, ten, *_ = paper_experiment("fig3").variants
    sampled = paper_experiment("fig4").variants[0]
    games = []
    for key, title, variant, settings in (
        ("fig3-5", "figure 3, 5 clients", five, {}),
        ("fig3-10", "figure 3, 10 clients", ten, {}),
        ("fig4", "figure 4", sampled, {"weights": "inverse-variance"}),
    ):
        authors: Any = variant.algorithm
        algorithms = {
            MOSS: FedIndex(index="moss"),
            UCB2: FedIndex(index="ucb2"),
            UCB: FedIndex(index="ucb"),
            CERTIFIED: replace(authors, radius=CertifiedRadius(), **settings),
            AUTHORS: authors,
        }
        games.append(RuledGame(key, title, variant.problem, algorithms))
    return games


def games_batch(
    *, rules: tuple[str, ...] = (MOSS, UCB2, UCB, CERTIFIED, AUTHORS), seed: int = SEED
) -> Batch:
    """Return rules on the paper's games; all rules of a game share its draws."""
    return Batch(
        variants=labelled(
            {
                (game.key, rule): {"problem": game.problem, "algorithm": game.algorithms[rule]}
                for game in index_games()
                for rule in rules
            }
        ),
        horizon=HORIZON,
        replications=REPLICATIONS,
        seed=seed,
        grid_points=_GRID,
    )


def growth_batches(*, seed: int = SEED) -> list[Batch]:
    """Return ``fed-index`` on two games at every horizon.

    Each horizon has its own seed, so that the means are independent, as the weights and intervals
    of a line through them assume.
    """
    return [
        Batch(
            variants=labelled(
                {
                    (key, horizon): {"problem": problem, "algorithm": FedIndex()}
                    for key, problem in _growing().items()
                }
            ),
            horizon=horizon,
            replications=GROWTH_REPLICATIONS,
            seed=seed + number,
        )
        for number, horizon in enumerate(HORIZONS, 1)
    ]


def movielens_batch() -> Batch:
    """Return ``fed-index`` and Fed2-UCB on MovieLens as its authors released it."""
    papers = paper_experiment("fig6").variants[0].algorithm
    game = as_released(spread=0.02)
    return Batch(
        variants={
            label: Variant(label=label, problem=game, algorithm=algorithm)
            for label, algorithm in ((OURS, FedIndex()), (PAPERS, papers))
        },
        horizon=HORIZON,
        replications=MOVIELENS_REPLICATIONS,
        seed=SEED,
    )


def index_costs_batches() -> list[Batch]:
    """Return everything that is played."""
    return [games_batch(), *growth_batches(), movielens_batch()]


def index_costs_tables(runs: Runs) -> Tables:
    """Return all tables.

    Returns
    -------
    dict
        "games": one row per game and rule; "tails": which share of its games has how much regret
        or more; "growth": one row per game and horizon; "fits": one row per game, first horizon
        and power of log T; "movielens": one row per algorithm.
    """

    def of(batches: list[Batch]) -> Runs:
        return {key: runs[key] for batch in batches for key in batch.variants}

    played, growth = of([games_batch()]), growth_table(of(growth_batches()))
    return {
        "games": games_table(played),
        "tails": _tails_table(played),
        "growth": growth,
        "fits": fits_table(growth),
        "movielens": movielens_table(of([movielens_batch()])),
    }


def games_table(runs: Runs) -> Table:
    """Return one row per game and rule: regret, its tail, and how the games ended.

    ``ratio`` is to the first rule of a game, over the same draws. ``wrong`` counts commitments to
    another arm than the best, ``undecided`` games without a commitment, and ``worse_at_end`` games
    in whose last hundredth a worse arm was still played, committed to or not.
    """
    rows = []
    first: dict[str, Simulation] = {}
    for (game, rule), run in runs.items():
        total = run.games.total
        wrong = (run.games.winner >= 0) & ~chose_best(run)
        rows.append(
            {
                "game": game,
                "rule": rule,
                **costs_of(run),
                **ratio_columns(run, first.setdefault(game, run)),
                **{name: float(np.quantile(total, part)) for name, part in QUANTILES.items()},
                "worst": float(total.max()),
                "wrong_high": share_of(wrong, "wrong")["high"],
                "worse_at_end": int(_worse_at_end(run).sum()),
            }
        )
    return as_columns(rows)


def _worse_at_end(run: Simulation) -> BoolArray:
    """Return in which games a worse arm is played after the last but one point of the curves."""
    curves = run.games.exploration_curves
    # If no regret was added, what is left is rounding.
    return np.asarray(curves[:, -1] - curves[:, -2] > 1e-9 * curves[:, -1])


def _tails_table(runs: Runs) -> Table:
    """Return, for each game and rule, how much regret a share of the games has at least."""
    rows = []
    for (game, rule), run in runs.items():
        ordered = np.sort(run.games.total)[::-1]
        n = ordered.size
        ranks = np.unique([*np.geomspace(1, n, 121), *np.linspace(0.8, 1.0, 41) * n]).round()
        rows += [
            {"game": game, "rule": rule, "share": rank / n, "regret": float(ordered[rank - 1])}
            for rank in sorted({max(1, int(rank)) for rank in ranks.tolist()})
        ]
    return as_columns(rows)


def growth_table(runs: Runs) -> Table:
    """Return the regret of ``fed-index`` by game and horizon."""
    rows = [
        {"game": game, "horizon": horizon, **costs_of(run)} for (game, horizon), run in runs.items()
    ]
    return as_columns(rows)


def _growing() -> dict[str, Problem]:
    return {game.key: game.problem for game in index_games() if game.key in GROWING}


def fits_table(growth: Table) -> Table:
    """Return lines through the means of `growth_table` against powers of log T.

    ``lai_robbins`` is the slope of Lai and Robbins for one player with these means and this noise:
    the least that a line against log T can have in the end.
    """
    rows = []
    for key, problem in _growing().items():
        slope = lai_robbins_slope(problem.means, noise="gaussian", sigma=problem.noise_proxy)
        for first in FIRST:
            horizons, means, errors = points(growth, key, first)
            rows += [
                {
                    "game": key,
                    "first": first,
                    "power": power,
                    **fit_power(horizons, means, errors, power),
                    "lai_robbins": slope,
                }
                for power in POWERS
            ]
    return as_columns(rows)


def fit_power(
    horizons: FloatArray, means: FloatArray, errors: FloatArray, power: float
) -> dict[str, float]:
    """Return the line through independent means against a power of log T, weighted by precision.

    Parameters
    ----------
    horizons, means, errors : array of shape (n,)
        T, mean regret, and its standard error; at least three.
    power : float
        Of log T.

    Returns
    -------
    dict
        ``slope`` and ``intercept``: regret per unit of that power, and at 0.

        ``sampling_margin``: half of the slope's 95 % interval from the standard errors of the
        means, that is, what other games of the same horizons would change. It takes for granted
        that the line is the right curve.

        ``residual_margin``: the same from how far the means are from the line, by Student's t. It
        is wide if the line is not the right curve, and then no interval of anything that exists.

        ``r_squared``: the part of the weighted variance of the means that the line explains.

        ``misfit``: a p-value, how likely means of games that lie on a line would be as far from
        one.

    Examples
    --------
    >>> horizons = 10.0 ** np.arange(4, 10)
    >>> found = fit_power(horizons, 7 + 3 * np.log(horizons), np.full(6, 0.1), 1.0)
    >>> [round(found[name], 6) for name in ("slope", "intercept", "misfit")]
    [3.0, 7.0, 1.0]
    """
    x, weights = np.log(horizons) ** power, errors**-2.0
    weights /= weights.sum()
    scale = float((errors**-2.0).sum())
    around, height = x - weights @ x, means - weights @ means
    spread = float(weights @ around**2)
    slope = float(weights @ (around * height)) / spread
    free = means.size - 2
    left = float(weights @ (height - slope * around) ** 2)
    error = (scale * spread) ** -0.5
    misfit = scale * left
    return {
        "slope": slope,
        "intercept": float(weights @ means) - slope * float(weights @ x),
        "sampling_margin": NORMAL_95 * error,
        "residual_margin": float(stdtrit(free, 0.975)) * error * (misfit / free) ** 0.5,
        "r_squared": 1 - left / float(weights @ height**2),
        "misfit": float(chdtrc(free, misfit)),
    }


def points(growth: Table, game: str, first: int) -> list[FloatArray]:
    """Return horizons from ``first`` on, mean regrets and their standard errors, of a game."""
    rows = [row for row in rows_of(growth, game=game) if row["horizon"] >= first]
    return arrays(rows, "horizon", "regret", "stderr")


def movielens_table(runs: Runs) -> Table:
    """Return what ``fed-index`` and Fed2-UCB cost on MovieLens as its authors released it.

    ``ratio`` is to that of ``fed-index``, over the same draws.
    """
    return as_columns(
        [
            {"algorithm": label, **costs_of(run), **ratio_columns(run, runs[OURS])}
            for label, run in runs.items()
        ]
    )
