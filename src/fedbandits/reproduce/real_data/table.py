"""The table behind the section: facts of what is imported, and the games on it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from fedbandits.experiments.game_means import game_mean
from fedbandits.problems.exact import Exact
from fedbandits.reproduce.findings import share_of
from fedbandits.reproduce.movielens import store
from fedbandits.reproduce.movielens.groups import are_released
from fedbandits.reproduce.part import Batch, Runs, chose_wrong
from fedbandits.reproduce.texts import fill, texts
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation import Assume, Simulation, Variant
from fedbandits.theory.sampling import clients_needed

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

SURE = 0.99
"""In such a share of samples the two best groups are to stand in the right order."""

RESAMPLED = 2_000
"""How often as many clients are drawn again, with replacement."""

LARGEST_TOTAL = 200
"""Up to which n the values of a row are tried as multiples of 1/n."""

_AT_ONCE = 100

_PULLS = 200
_FED1 = Fed1Ucb(pulls="floor(10*log(T))", radius=PaperRadius(arm=1.0))
_FED2 = Fed2Ucb(
    pulls=str(_PULLS), admissions="2^p", radius=PaperRadius(arm=1.0, client=0.25)
)  # constants as in figure 6


def plays_of(game: Exact, spread: float) -> dict[str, Variant]:
    """Return the variants that are played on given clients, by what the section knows them by.

    Parameters
    ----------
    game : Exact
        The clients.
    spread : float
        σ_c, as it is.
    """
    sample = _words(game, spread)["sample"]
    real = Assume(spread=spread)
    # 2 + 4 + … + 2^p is n or more.
    last = math.ceil(math.log2(game.population + 2)) - 1 + MORE_PHASES
    sampled = {"algorithm": replace(_FED2, target="population"), "max_phases": last}
    settings: dict[str, dict[str, Any]] = {
        "all": {"algorithm": _FED1},
        "some": {"algorithm": replace(_FED1, clients=sample)},
        "finite": {"algorithm": _FED2, "assume": real},
        "finite-theory": {"algorithm": replace(_FED2, radius=PaperRadius()), "assume": real},
        "unlimited": {**sampled, "assume": real},
        "released": {**sampled, "assume": Assume(spread=RELEASED_SPREAD)},
    }
    return {
        key: Variant(label=_said(key, "label", game, spread), problem=game, **setting)
        for key, setting in settings.items()
    }


def _words(game: Exact, spread: float) -> dict[str, Any]:
    n = game.population
    sample = min(SAMPLE, (n + 1) // 2)
    return {"n": n, "sample": sample, "spread": spread, "released_spread": RELEASED_SPREAD}


def _said(play: str, what: str, game: Exact, spread: float) -> str:
    """Return the label of a variant, or what its rule believes, in plain words."""
    return fill(texts("movielens")["plays"][play][what], _words(game, spread))


@dataclass(frozen=True, slots=True)
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

    data: store.Imported
    name: str
    problem: Exact

    @property
    def horizon(self) -> int:
        """Room for 20 phases with all groups, however many there are."""
        return max(HORIZON, 20 * _PULLS * self.problem.means.size)

    def plays(self) -> dict[tuple[str, str, str], Variant]:
        """Return what is played, by the keys of its runs; nothing on data that is too large."""
        if self.problem.table.size > MOST_VALUES:
            return {}
        plays = plays_of(self.problem, self.data.spread)
        return {(self.data.kind, self.name, key): variant for key, variant in plays.items()}

    def results(self, runs: Runs) -> dict[str, Any]:
        """Return what was found in it, ready for JSON."""
        played = [(key[-1], runs[key]) for key in self.plays()]
        return {
            "kind": self.data.kind,
            "game": self.name,
            "horizon": self.horizon,
            "noise": self.problem.noise_proxy,
            "replications": min((run.games.total.size for _, run in played), default=0),
            "variants": [self._row(key, run) for key, run in played],
        }

    def _row(self, key: str, run: Simulation) -> dict[str, Any]:
        played, mean = run.games, game_mean(run.games.total)
        return {
            "key": key,
            "label": run.variant.label,
            "told": _said(key, "told", self.problem, self.data.spread),
            "regret": {"mean": mean.value, "margin": mean.margin},
            "wrong": share_of(chose_wrong(run), "wrong"),
            "undecided": share_of(played.winner < 0, "undecided"),
            "clients": float(played.clients.mean()),
            "phases": float(played.phases.mean()),
        }


def real_games() -> list[RealGame]:
    """Return the games on everything that is imported."""
    found = []
    for data in store.imported():
        problems = {"real clients": store.load_real_clients(kind=data.kind, noise=NOISE)}
        if data.kind == "ratings":
            problems["real ratings"] = store.load_real_ratings()
        found += [RealGame(data, name, game) for name, game in problems.items() if game is not None]
    return found


def real_data_batches() -> list[Batch]:
    """Return what is played on everything that is imported."""
    return [
        Batch(plays, game.horizon, REPLICATIONS[game.name], SEED)
        for game in real_games()
        if (plays := game.plays())
    ]


def real_data_inputs() -> list[object]:
    """Return what the table depends on besides the package: the data itself, and the settings."""
    contents = [
        (data.kind, hashlib.sha256(data.file.read_bytes()).hexdigest()) for data in store.imported()
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
        "games": [game.results(runs) for game in games],
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


# What imported data says by itself ----------------------------------------------------------------


def facts_of(
    data: store.Imported, means: FloatArray, *, horizon: int, seed: int, resampled: int
) -> dict[str, Any]:
    """Return what the local means of all clients say, ready for JSON.

    Parameters
    ----------
    data : Imported
        Where they come from.
    means : array, shape (clients, groups)
        Local means.
    horizon : int
        T, for the number of clients by Theorem 1.
    seed : int
        Of the resampling.
    resampled : int
        How often as many clients are drawn again; 0 leaves that out.
    """
    averages = means.mean(axis=0)
    # The lower index on ties, as everywhere.
    best, second = np.argsort(-averages, kind="stable")[:2].tolist()
    by_theorem = None
    if data.gap > 0 and data.spread > 0:
        game: Any = {"gap": data.gap, "spread": data.spread, "n_arms": data.groups}
        by_theorem = clients_needed(**game, horizon=horizon)
    known = ("kind", "source", "users", "clients", "groups", "gap", "spread")
    return {
        **{name: getattr(data, name) for name in known},
        "best_group": best,
        "best_mean": float(averages[best]),
        "second_group": second,
        "second_mean": float(averages[second]),
        **pair_facts(means[:, best] - means[:, second]),
        "first_again": first_again(means, seed=seed, times=resampled) if resampled else None,
        "clients_by_theorem": by_theorem,
    }


def pair_facts(differences: FloatArray) -> dict[str, Any]:
    """Return what clients say of two groups, from the difference of each client.

    Normal calculation, client by client, so that whatever a client adds to both groups cancels. In
    a sample of M clients of an unlimited population the mean difference has deviation sd / √M, in
    one of M among N clients sd √(1/M − 1/N).

    Parameters
    ----------
    differences : array, shape (clients,)
        Best minus second best, a client's own.

    Examples
    --------
    >>> found = pair_facts(np.array([0.5, -0.3, 0.1, 0.1]))
    >>> round(found["z"], 3), found["higher"], found["lower"]
    (0.612, 0.75, 0.25)
    >>> found["clients_unlimited"], found["clients_of_these"]
    (58, 4)
    """
    n = differences.size
    mean = float(differences.mean())
    deviation = float(differences.std(ddof=1)) if n > 1 else 0.0
    z = unlimited = of_these = None
    if mean > 0 and deviation > 0:
        z = mean / deviation * math.sqrt(n)
        enough = (float(stats.norm.ppf(SURE)) * deviation / mean) ** 2
        unlimited = math.ceil(enough)
        of_these = math.ceil(1 / (1 / enough + 1 / n))
    return {
        "difference_deviation": deviation,
        "z": z,
        "higher": float((differences > 0).mean()),
        "lower": float((differences < 0).mean()),
        "clients_unlimited": unlimited,
        "clients_of_these": of_these,
    }


def first_again(means: FloatArray, *, seed: int, times: int = RESAMPLED) -> float:
    """Return how often the best group is first again if as many clients are drawn again.

    Clients are drawn with replacement, as from an unlimited population of clients like these.

    Examples
    --------
    >>> first_again(np.array([[0.9, 0.1], [0.8, 0.2], [0.9, 0.3]]), seed=1, times=50)
    1.0
    """
    n = len(means)
    best = int(means.mean(axis=0).argmax())
    rng = np.random.default_rng(np.random.SeedSequence([seed, 6]))
    first = 0
    for start in range(0, times, _AT_ONCE):
        weights = rng.multinomial(n, np.full(n, 1 / n), size=min(_AT_ONCE, times - start))
        first += int(((weights @ means).argmax(axis=1) == best).sum())
    return first / times


def matrix_facts(matrix: FloatArray) -> dict[str, Any]:
    """Return what kind of numbers the rows of a matrix are made of.

    A user's *totals* of the groups, divided by the largest of them, n, are multiples of 1/n with a
    largest value of 1. Means of ratings are not: those of different groups have different
    denominators.

    Parameters
    ----------
    matrix : array, shape (users, groups)
        Values in [0, 1].

    Examples
    --------
    >>> matrix_facts(np.array([[1.0, 0.5, 0.0], [0.75, 1.0, 0.25]]))["denominators"]
    [2, 3.0, 4]
    >>> matrix_facts(np.array([[1.0, 1 / np.pi], [0.25, 1.0]]))["denominators"] is None
    True
    """
    denominators = np.zeros(len(matrix), dtype=np.int64)
    for n in range(1, LARGEST_TOTAL + 1):
        left = np.flatnonzero(denominators == 0)
        if not left.size:
            break
        scaled = matrix[left] * n
        whole = (np.abs(scaled - np.rint(scaled)) < 1e-9).all(axis=1)
        denominators[left[whole]] = n
    found = None
    if denominators.all():
        found = [int(denominators.min()), float(np.median(denominators)), int(denominators.max())]
    return {
        "zeros": float((matrix == 0).mean()),
        "largest_is_one": float((matrix.max(axis=1) == 1).mean()),
        "denominators": found,
        "as_released": are_released(matrix.mean(axis=0)),
    }
