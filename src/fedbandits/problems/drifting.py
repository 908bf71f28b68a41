"""The drifting model: clients as in the approximate model, with means that change over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError, check_count, check_stated, check_word
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import NoiseLaw, SpreadLaw
from fedbandits.problems.problem import (
    ClientSampler,
    CohortLaw,
    LocalModels,
    PlainProblem,
    Sources,
    checked_means,
    set_fields,
)
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.beliefs import Goal


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Drifting(PlainProblem):
    r"""Arms whose means change while the game is played: at once, or on a straight line.

    In slot t the global means are :math:`\mu_k + s(t) (\mu'_k - \mu_k)`, μ being the first and μ′
    the last ones, with :math:`s(t)` = 0 up to slot ``begin``, 1 from slot ``end`` on and linear
    between them. The means of all clients change by as much. Regret is measured against the arm
    that is the best in each slot; the option that a rule settles on counts as right if it is the
    best of the last means. Every proof assumes that this does not happen: rules that play such a
    game are warned.

    Parameters
    ----------
    first_means, means : sequence of float
        Global means at the beginning and in the end.
    begin : int
        The last slot with the first means.
    end : int, optional
        The first slot with the last means; the next one by default, which is a step.
    noise : NoiseLaw
        How an observation scatters around a client's local mean.
    spread : SpreadLaw, optional
        How local means scatter around the first global ones; not at all by default.
    population, name, goal
        As in `fedbandits.Approximate`.

    Examples
    --------
    >>> from fedbandits.problems import Gaussian
    >>> game = Drifting(
    ...     first_means=[0.5, 0.6], means=[0.7, 0.6], begin=100, end=200, noise=Gaussian(0.5)
    ... )
    >>> game.means_at(np.array([1, 150, 200])).tolist()
    [[0.5, 0.6], [0.6, 0.6], [0.7, 0.6]]
    >>> game.drift
    'the mean of arm 0 changes by 0.2 between slots 100 and 200'
    """

    model: ClassVar[str] = "drifting"
    clients_are_like_draws: ClassVar[bool] = True

    first_means: FloatArray
    means: FloatArray
    begin: int
    end: int
    noise: NoiseLaw
    spread: SpreadLaw | None
    population: int | None
    name: str
    goal: Goal

    # Written out because it takes any sequence of means, and stores an array.
    def __init__(
        self,
        *,
        first_means: FloatArray | Sequence[float],
        means: FloatArray | Sequence[float],
        begin: int,
        end: int | None = None,
        noise: NoiseLaw,
        spread: SpreadLaw | None = None,
        population: int | None = None,
        name: str = "problem",
        goal: Goal = "max",
    ) -> None:
        check_count(begin, "begin", 0)
        check_count(end, "end", begin + 1, optional=True)
        set_fields(self, first_means=checked_means(first_means, "first_means"))
        set_fields(
            self, means=checked_means(means), begin=begin, end=begin + 1 if end is None else end
        )
        set_fields(self, noise=noise, spread=spread, population=population, name=name, goal=goal)
        check_word(goal, Goal, "goal")
        check_stated(noise, NoiseLaw, "noise")
        check_count(population, "population", optional=True)
        if self.means.shape != self.first_means.shape:
            sizes = f"{self.means.size} arms, and first_means has {self.first_means.size}"
            raise InputError("means", f"has {sizes}; give one mean per arm in both")
        if (self.means == self.first_means).all():
            raise InputError("means", 'are the first_means; use model = "approximate" instead')
        if noise.given_by_cell:
            raise InputError(
                "noise.law", f'{noise.law} noise needs given clients; use model = "exact"'
            )
        if spread is not None:
            _ = self.at_first  # checks the spread, and the population with it
        supports = [
            (mean, mean) if spread is None else spread.support(mean)
            for mean in self.first_means.tolist()
        ]
        moved = np.array(supports) + (self.means - self.first_means)[:, np.newaxis]
        reached = np.concatenate((supports, moved))
        low, high = noise.mean_range
        if reached.min() < low or reached.max() > high:
            raise InputError(
                "means",
                f"local means from {reached.min():.4g} to {reached.max():.4g}, and {noise.law}"
                f" noise needs them in [{low:g}, {high:g}] in every slot; use a uniform spread with"
                " a small sigma, smaller changes, or gaussian noise",
            )

    @property
    def at_first(self) -> Approximate | None:
        """The game as it would go on if nothing changed; None if all clients are alike."""
        if self.spread is None:
            return None
        return Approximate(
            means=self.first_means,
            noise=self.noise,
            spread=self.spread,
            population=self.population,
            name=self.name,
            goal=self.goal,
        )

    @property
    def drift(self) -> str:
        """Which means change, by how much and when."""
        moved = (self.means - self.first_means).round(12)
        by = [f"arm {arm} changes by {moved[arm]:.4g}" for arm in np.flatnonzero(moved).tolist()]
        when = (
            f"after slot {self.begin:,}"
            if self.end == self.begin + 1
            else f"between slots {self.begin:,} and {self.end:,}"
        )
        return f"the mean of {', that of '.join(by)} {when}"

    def means_at(self, slots: IntArray) -> FloatArray:
        """Return the global means in some slots, from 1, shape (slots, arms)."""
        share = np.clip((slots - self.begin) / (self.end - self.begin), 0.0, 1.0)
        first = self.first_means
        return np.asarray(first + share[:, np.newaxis] * (self.means - first))

    @property
    def arms_are_independent(self) -> bool:
        """Whether they are: every arm is drawn by itself."""
        return True

    @property
    def spread_proxy(self) -> float:
        """σ_c of the spread law."""
        return 0.0 if self.spread is None else self.spread.proxy(self.first_means)

    @property
    def cohort_law(self) -> CohortLaw:
        """None: what a cohort reports depends on when it pulled."""
        return CohortLaw(obstacle=self.drift)

    def sampler(self, sources: Sources) -> ClientSampler:
        """Return a sampler of clients as they are at the beginning."""
        start = self.at_first
        return _Alike(self.first_means) if start is None else start.sampler(sources)

    def at_server(self) -> Drifting:
        """Return the game of one player who observes the changing global means."""
        return Drifting(
            first_means=self.first_means,
            means=self.means,
            begin=self.begin,
            end=self.end,
            noise=self.noise,
            population=1,
            name=self.name,
            goal=self.goal,
        )

    def facts(self) -> dict[str, str]:
        """Return what the model is, how its means change, and which arm is the best when."""
        ordered = [
            means if self.goal == "max" else -means for means in (self.first_means, self.means)
        ]
        first, last = (int(means.argmax()) for means in ordered)
        spread = (
            "none: all clients have the global means"
            if self.spread is None
            else f"{self.spread.in_words('σ_c')}: clients' means around the global ones"
        )
        return {
            "model": "drifting: clients are drawn at random, and their means change over time",
            "drift": self.drift,
            "best arm": f"arm {first} at first with mean {self.first_means[first]:.4g}, arm {last}"
            f" in the end with mean {self.means[last]:.4g}",
            "regret": "against the best arm of each slot",
            "spread": spread,
        }


@dataclass(frozen=True, slots=True)
class _Alike:
    """Clients that all have the global means."""

    means: FloatArray

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        return LocalModels(np.repeat(self.means[:, np.newaxis], n_clients, axis=1))
