"""The games of the contest: easy and hard, small and large, with cheap and expensive reports.

Gaps are from 0.5 to 0.005, arms from 2 to 100, the spread from 0 to ten times the gap, a report
costs from 0 to 3,000, and there are 10⁴ to 10⁸ slots. The parameters of ``fed-index`` were chosen
on the paper's means and on random games; the length of its first phase with a look at some of the
others. Nothing was tuned on the games with expensive reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedbandits.problems.approximate import Approximate
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Bernoulli, Beta, Gaussian
from fedbandits.problems.problem import Problem

NOISE = 0.5
"""σ of all games that are not of rates."""

PAPER_MEANS = (0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79)
"""The means of figures 3 and 4."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContestGame:
    """A game of the contest.

    Parameters
    ----------
    problem : Problem
        What is played; its name is the game's.
    horizon : int
        T.
    cost : float
        C.
    group : str
        What it has in common with its neighbours.
    """

    problem: Problem
    horizon: int
    cost: float
    group: str

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.problem.name


def equal_gaps(n_arms: int, gap: float, best: float = 0.7) -> list[float]:
    """Return means of which one is the best and all others are one gap below.

    Examples
    --------
    >>> [round(mean, 3) for mean in equal_gaps(3, 0.1)]
    [0.6, 0.6, 0.7]
    """
    return [best - gap] * (n_arms - 1) + [best]


def evenly_spaced(n_arms: int, gap: float, last: float, best: float = 0.7) -> list[float]:
    """Return means from ``last`` below the best to one gap below it, and the best.

    Examples
    --------
    >>> [round(mean, 3) for mean in evenly_spaced(4, 0.1, 0.3)]
    [0.4, 0.5, 0.6, 0.7]
    """
    below = np.linspace(last, gap, n_arms - 1)
    return [*(best - below).tolist(), best]


def contest_games() -> list[ContestGame]:
    """Return all games.

    Examples
    --------
    >>> games = contest_games()
    >>> len(games) >= 40, len({game.name for game in games}) == len(games)
    (True, True)
    """
    return [
        *_of_the_paper(),
        *_few_arms(),
        *_many_arms(),
        *_expensive_reports(),
        *_given_clients(),
        *_rates(),
    ]


def _approximate(
    name: str, means: list[float], spread: float, population: int | None = None
) -> Approximate:
    return Approximate(
        means=means,
        noise=Gaussian(NOISE),
        spread=Gaussian(spread),
        population=population,
        name=name,
    )


def _rest(spread: float, horizon: int, cost: float) -> str:
    return f", spread {spread:g}, T = 10^{len(str(horizon)) - 1}, C = {cost:g}"


def _game(
    name: str, means: list[float], settings: tuple[float, int, float], group: str
) -> ContestGame:
    """Return a game with a spread, a horizon and a cost, which its name ends with."""
    spread, horizon, cost = settings
    problem = _approximate(f"{name}{_rest(*settings)}", means, spread)
    return ContestGame(problem=problem, horizon=horizon, cost=cost, group=group)


def _of_the_paper() -> list[ContestGame]:
    group = "the paper's means"

    def game(
        name: str, *, spread: float = 0.02, horizon: int = 10**6, cost: float = 1.0
    ) -> ContestGame:
        problem = _approximate(f"figure 4{name}", list(PAPER_MEANS), spread)
        return ContestGame(problem=problem, horizon=horizon, cost=cost, group=group)

    return [
        *(
            ContestGame(problem=_figure_3(clients), horizon=10**6, cost=1.0, group=group)
            for clients in (5, 10)
        ),
        game(""),
        game(", C = 0", cost=0.0),
        game(", C = 10", cost=10.0),
        game(", C = 100", cost=100.0),
        game(", T = 10^4", horizon=10**4),
        game(", T = 10^5", horizon=10**5),
        game(", T = 10^8", horizon=10**8),
        game(", spread 0", spread=0.0),
        game(", spread 0.005", spread=0.005),
        game(", spread 0.1", spread=0.1),
    ]


def _figure_3(clients: int) -> Exact:
    """Return figure 3's game: local mean = global mean × weight."""
    few = clients == 5
    weights = np.full((clients, 10), 0.2 if few else 0.1)
    for client in range(clients):
        weights[client, [client, 9 - client] if few else client] = 4.2 if few else 9.1
    return Exact(
        local_means=weights * np.array(PAPER_MEANS),
        noise=Gaussian(NOISE),
        name=f"figure 3, M = {clients}",
    )


def _few_arms() -> list[ContestGame]:
    rows = [
        # arms, gap, spread, T, C
        (2, 0.5, 0.1, 10**4, 1.0),
        (2, 0.1, 0.0, 10**5, 100.0),
        (2, 0.1, 0.1, 10**4, 1.0),
        (2, 0.02, 0.02, 10**6, 1.0),
        (2, 0.005, 0.0, 10**7, 10.0),
        (2, 0.005, 0.005, 10**8, 1.0),
        (5, 0.2, 0.2, 10**5, 1.0),
        (5, 0.2, 0.05, 10**6, 0.0),
        (5, 0.05, 0.2, 10**6, 1.0),
        (10, 0.2, 0.05, 10**5, 1.0),
        (10, 0.1, 0.05, 10**6, 0.0),
        (10, 0.1, 0.05, 10**6, 10.0),
        (10, 0.1, 0.05, 10**6, 100.0),
        (10, 0.05, 0.05, 10**7, 1.0),
        (10, 0.02, 0.1, 10**7, 1.0),
        (10, 0.02, 0.0, 10**8, 1.0),
    ]
    return _with_equal_gaps(rows, "equal gaps")


def _expensive_reports() -> list[ContestGame]:
    """Return games in which clients differ far more than arms do, or reports cost far more."""
    rows = [
        # arms, gap, spread, T, C
        (2, 0.05, 0.1, 10**6, 100.0),
        (2, 0.1, 0.05, 10**6, 1000.0),
        (2, 0.02, 0.2, 10**7, 300.0),
        (3, 0.1, 0.3, 10**6, 3000.0),
        (5, 0.1, 0.3, 10**6, 100.0),
        (5, 0.05, 0.05, 10**6, 1000.0),
        (10, 0.1, 0.5, 10**6, 1000.0),
        (10, 0.05, 0.2, 10**7, 300.0),
        (10, 0.02, 0.02, 10**7, 3000.0),
        (20, 0.1, 0.1, 10**6, 300.0),
        (20, 0.05, 0.25, 10**7, 100.0),
        (50, 0.1, 0.1, 10**6, 1000.0),
        (100, 0.2, 0.1, 10**6, 3000.0),
    ]
    return _with_equal_gaps(rows, "expensive reports")


def _with_equal_gaps(
    rows: Sequence[tuple[int, float, float, int, float]], group: str
) -> list[ContestGame]:
    return [
        _game(f"K = {arms}, gap {gap:g}", equal_gaps(arms, gap), (spread, horizon, cost), group)
        for arms, gap, spread, horizon, cost in rows
    ]


def _many_arms() -> list[ContestGame]:
    rows = [
        # arms, gap, largest gap, spread, T, C
        (20, 0.05, 0.4, 0.05, 10**6, 1.0),
        (20, 0.02, 0.2, 0.02, 10**8, 0.0),
        (30, 0.1, 0.6, 0.1, 10**5, 1.0),
        (30, 0.01, 0.3, 0.01, 10**8, 1.0),
        (50, 0.05, 0.5, 0.1, 10**7, 10.0),
        (100, 0.1, 0.6, 0.0, 10**5, 1.0),
        (100, 0.05, 0.3, 0.05, 10**6, 1.0),
        (100, 0.02, 0.5, 0.02, 10**8, 100.0),
    ]
    return [
        _game(
            f"K = {arms}, gaps {gap:g} to {last:g}",
            evenly_spaced(arms, gap, last),
            (spread, horizon, cost),
            "many arms",
        )
        for arms, gap, last, spread, horizon, cost in rows
    ]


def _given_clients() -> list[ContestGame]:
    """Return games of the exact model, and of finite populations between the two models."""
    rows = [
        # clients, arms, gap, spread, T, C
        (3, 5, 0.1, 0.3, 10**5, 1.0),
        (20, 10, 0.05, 0.2, 10**6, 1.0),
        (20, 10, 0.05, 0.2, 10**6, 100.0),
        (50, 4, 0.02, 0.1, 10**6, 0.0),
        (10, 30, 0.02, 0.3, 10**7, 10.0),
    ]
    rng = np.random.default_rng(2021)
    found = []
    for clients, arms, gap, spread, horizon, cost in rows:
        apart = spread * rng.standard_normal((clients, arms))
        means = np.array(evenly_spaced(arms, gap, 5 * gap)) + apart - apart.mean(axis=0)
        name = f"{clients} given clients, K = {arms}, gap {gap:g}{_rest(spread, horizon, cost)}"
        problem = Exact(local_means=means, noise=Gaussian(NOISE), name=name)
        found.append(ContestGame(problem=problem, horizon=horizon, cost=cost, group="given"))
    for population, gap, spread, cost in ((100, 0.05, 0.1, 1.0), (1000, 0.02, 0.1, 1.0)):
        name = f"population {population}, K = 10, gap {gap:g}, spread {spread:g}, T = 10^6"
        problem_of_all = _approximate(name, equal_gaps(10, gap), spread, population)
        found.append(
            ContestGame(problem=problem_of_all, horizon=10**6, cost=cost, group="finite population")
        )
    return found


def _rates() -> list[ContestGame]:
    rows: list[tuple[str, list[float], float, int, float]] = [
        ("rates 0.3 to 0.6", [0.3, 0.4, 0.5, 0.6], 0.05, 10**5, 1.0),
        ("rates 0.3 to 0.6, C = 10", [0.3, 0.4, 0.5, 0.6], 0.05, 10**5, 10.0),
        ("rates 0.02 to 0.04", [0.02, 0.022, 0.025, 0.04], 0.005, 10**6, 1.0),
        ("20 rates, gap 0.1", equal_gaps(20, 0.1, 0.5), 0.05, 10**5, 1.0),
        ("2 rates, gap 0.02", [0.5, 0.52], 0.02, 10**6, 1.0),
    ]
    found = [
        ContestGame(
            problem=Approximate(
                means=means, noise=Bernoulli(), spread=Beta(spread), population=500, name=name
            ),
            horizon=horizon,
            cost=cost,
            group="rates",
        )
        for name, means, spread, horizon, cost in rows
    ]
    given = Exact(
        local_means=[[(0.5 + m / 19) * rate for rate in (0.2, 0.25, 0.3)] for m in range(20)],
        noise=Bernoulli(),
        name="rates of 20 given clients",
    )
    return [*found, ContestGame(problem=given, horizon=10**5, cost=1.0, group="rates")]
