"""The approximate model: local means are drawn around hidden global means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError, check_not_negative
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Empirical, NoiseLaw, SpreadLaw
from fedbandits.problems.population import Recentred
from fedbandits.problems.problem import LocalModels, Sources, as_goal, checked_means
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.phased import Goal


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Approximate:
    """The approximate model of the paper, with an unlimited or a finite population.

    Parameters
    ----------
    means : sequence of float
        Global means μ_k.
    noise : NoiseLaw
        How an observation scatters around a client's local mean.
    spread : SpreadLaw
        How local means scatter around the global mean, independently between arms.
    offset : float
        Standard deviation of a normal offset that a client adds to all its arms alike.
    population : int, optional
        N clients whose local means are drawn anew in every replication and recentred, so that they
        average to the global means exactly. Unlimited by default.
    name : str
        What the random streams are keyed by.
    goal : {"max", "min"}
        Whether the best arm has the highest or the lowest mean.

    Examples
    --------
    >>> from fedbandits.problems import Gaussian, gap
    >>> game = Approximate(means=[0.7, 0.75, 0.79], noise=Gaussian(0.5), spread=Gaussian(0.02))
    >>> round(gap(game), 3), game.spread_proxy
    (0.04, 0.02)
    """

    model: ClassVar[str] = "approximate"

    means: FloatArray
    noise: NoiseLaw
    spread: SpreadLaw
    offset: float
    population: int | None
    name: str
    goal: Goal

    # Written out because it takes any sequence of means, while whoever reads them gets an array.
    def __init__(
        self,
        *,
        means: FloatArray | Sequence[float],
        noise: NoiseLaw,
        spread: SpreadLaw,
        offset: float = 0.0,
        population: int | None = None,
        name: str = "problem",
        goal: Goal = "max",
    ) -> None:
        object.__setattr__(self, "means", checked_means(means))
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "spread", spread)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "population", population)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "goal", goal)
        self._check()

    def _check(self) -> None:
        as_goal(self.goal)
        if isinstance(self.noise, Empirical):
            raise InputError(
                "noise.law", 'empirical noise needs given clients; use model = "exact"'
            )
        check_not_negative(self.offset, "spread.offset")
        if self.population is not None and self.population < 1:
            raise InputError("population", f"{self.population} clients; a game needs at least 1")
        lows, highs = zip(*(self.spread.support(float(mean)) for mean in self.means), strict=True)
        reach = math.inf if self.offset > 0 else 0.0
        self.noise.check_means(min(lows) - reach, max(highs) + reach, "spread")

    @property
    def arms_are_independent(self) -> bool:
        """Whether clients add no offset to all their arms."""
        return self.offset == 0

    @property
    def noise_proxy(self) -> float:
        """σ of the noise law."""
        return self.noise.proxy(self.means)

    @property
    def spread_proxy(self) -> float:
        """σ_c of the spread law and the offset together."""
        return math.hypot(self.spread.proxy(self.means), self.offset)

    def sampler(self, sources: Sources) -> _Unlimited | Recentred:
        """Return a sampler of clients."""
        unlimited = _Unlimited(self, sources)
        if self.population is None:
            return unlimited
        everyone = Recentred(unlimited, self.means, self.population)
        lowest, highest = float(everyone.means.min()), float(everyone.means.max())
        self.noise.check_means(lowest, highest, "population")
        return everyone

    def at_server(self) -> Exact:
        """Return the game of one player whose local means are the global ones."""
        return Exact(local_means=[self.means], noise=self.noise, name=self.name, goal=self.goal)


class _Unlimited:
    """Draws clients independently of each other."""

    def __init__(self, problem: Approximate, sources: Sources) -> None:
        self.problem = problem
        self.sources = sources

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        game = self.problem
        means = np.zeros((game.means.size, n_clients))
        for arm in range(game.means.size) if arms is None else arms:
            means[arm] = game.spread.draw(self.sources(arm), float(game.means[arm]), n_clients)
        if game.offset > 0:
            means += game.offset * self.sources(len(game.means)).standard_normal(n_clients)
        return LocalModels(means)
