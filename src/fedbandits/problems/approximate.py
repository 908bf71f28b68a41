"""The approximate model: local means are drawn around hidden global means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError, check_count, check_not_negative, check_stated, check_word
from fedbandits.problems.laws import Gaussian, NoiseLaw, SpreadLaw, check_means
from fedbandits.problems.population import Recentred
from fedbandits.problems.problem import (
    CohortLaw,
    LocalModels,
    PlainProblem,
    Sources,
    checked_means,
    no_normal_noise,
    set_fields,
)
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Goal


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Approximate(PlainProblem):
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
        N clients whose local means are drawn again in every replication and recentred, so that they
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
    clients_are_like_draws: ClassVar[bool] = True

    means: FloatArray
    noise: NoiseLaw
    spread: SpreadLaw
    offset: float = field(metadata={"key": "spread.offset"})
    population: int | None
    name: str
    goal: Goal

    # Written out because it takes any sequence of means, and stores an array.
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
        set_fields(self, means=checked_means(means), noise=noise, spread=spread, offset=offset)
        set_fields(self, population=population, name=name, goal=goal)
        check_word(self.goal, Goal, "goal")
        check_stated(self.noise, NoiseLaw, "noise")
        check_stated(self.spread, SpreadLaw, "spread")
        if self.noise.given_by_cell:
            needs = f"{self.noise.law} noise needs given clients"
            raise InputError("noise.law", f'{needs}; use model = "exact"')
        check_not_negative(self.offset, "spread.offset")
        check_count(self.population, "population", optional=True)
        lows, highs = zip(*(self.spread.support(float(mean)) for mean in self.means), strict=True)
        reach = math.inf if self.offset > 0 else 0.0
        check_means(self.noise, min(lows) - reach, max(highs) + reach, "spread")

    @property
    def arms_are_independent(self) -> bool:
        """Whether clients add no offset to all their arms."""
        return self.offset == 0

    @property
    def arms_compare_as_independent(self) -> bool:
        """Whether they are, or share only a normal offset, which cancels in differences."""
        return self.arms_are_independent or self.spread.normal_deviation is not None

    @property
    def spread_proxy(self) -> float:
        """σ_c of the spread law and the offset together."""
        return math.hypot(self.spread.proxy(self.means), self.offset)

    @property
    def cohort_law(self) -> CohortLaw:
        """Normal, if noise and spread are normal and the arms of a client are independent."""
        noise, spread = self.noise.normal_deviation, self.spread.normal_deviation
        if noise is None:
            return CohortLaw(obstacle=no_normal_noise(self.noise))
        if spread is None:
            return CohortLaw(obstacle=f"it needs a gaussian spread, and this is {self.spread.law}")
        if self.offset > 0:
            return CohortLaw(obstacle="the arms of a client share an offset")
        return CohortLaw(noise=noise, spread=self.spread_proxy)

    @property
    def observation_law(self) -> NoiseLaw | None:
        """Normal, if noise and spread are normal."""
        noise, spread = self.noise.normal_deviation, self.spread.normal_deviation
        if noise is None or spread is None:
            return None
        return Gaussian(math.sqrt(noise**2 + spread**2 + self.offset**2))

    def sampler(self, sources: Sources) -> _Unlimited | Recentred:
        """Return a sampler of clients."""
        unlimited = _Unlimited(self, sources)
        if self.population is None:
            return unlimited
        return Recentred(unlimited, self.means, self.population, *self.noise.mean_range)

    def facts(self) -> dict[str, str]:
        """Return what the model is, and how its clients are spread."""
        spread = f"{self.spread.in_words('σ_c')}: clients' means around the global ones"
        if self.offset:
            spread += f", and an offset that all arms of a client share, σ = {self.offset:.4g}"
        model = "approximate: clients are drawn at random around the global means"
        return {"model": model, "spread": spread}


@dataclass(frozen=True, slots=True)
class _Unlimited:
    """Draws clients independently of each other."""

    problem: Approximate
    sources: Sources

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        game = self.problem
        means = np.zeros((game.means.size, n_clients))
        for arm in range(game.means.size) if arms is None else arms:
            means[arm] = game.spread.draw(self.sources(arm), float(game.means[arm]), n_clients)
        if game.offset > 0:
            means += game.offset * self.sources(len(game.means)).standard_normal(n_clients)
        return LocalModels(means)
