"""The exact model: the clients are given, and their average is the global model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fedbandits.errors import LARGEST, InputError, check_stated, check_word
from fedbandits.problems.laws import Empirical, NoiseLaw, check_means, check_rows
from fedbandits.problems.problem import (
    CohortLaw,
    LocalModels,
    PlainProblem,
    Sources,
    checked_means,
    deviations,
    no_normal_noise,
)
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Goal


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Exact(PlainProblem):
    r"""The exact model of the paper: M fixed clients, μ_k the mean of their local means.

    With weights :math:`a_m` that sum to 1 it is :math:`\mu_k = \sum_m a_m \mu_{k,m}`: what is best
    for these clients, each counted by its traffic, say. Means, gaps and regret are then of these
    μ_k; a slot still costs :math:`M (\mu_* - \mu_k)`.

    An algorithm that admits only some of them takes them in a random order, new in every
    replication.

    Parameters
    ----------
    local_means : sequence of rows
        μ_{k,m}: one row per client, one column per arm.
    noise : NoiseLaw
        How an observation scatters around a client's local mean.
    name : str
        What the random streams are keyed by.
    goal : {"max", "min"}
        Whether the best arm has the highest or the lowest mean.
    weights : sequence of float, optional
        How much each client counts, one weight per row: positive, in any unit. Equal weights are
        the same as none, and are stored as None.

    Examples
    --------
    >>> from fedbandits.problems import Gaussian, best_arm
    >>> game = Exact(local_means=[[0.2, 0.9], [0.7, 0.2]], noise=Gaussian(0.5))
    >>> game.means, best_arm(game)
    (array([0.45, 0.55]), 1)
    >>> busy = Exact(local_means=[[0.2, 0.9], [0.7, 0.2]], noise=Gaussian(0.5), weights=[1, 3])
    >>> busy.means, best_arm(busy)
    (array([0.575, 0.375]), 0)
    """

    model: ClassVar[str] = "exact"
    clients_are_given: ClassVar[bool] = True
    # Nobody knows what law the rows came from.
    arms_are_independent: ClassVar[bool] = False

    local_means: FloatArray | Sequence[Sequence[float]] | Sequence[FloatArray]
    noise: NoiseLaw
    name: str = "problem"
    goal: Goal = "max"
    weights: Sequence[float] | FloatArray | None = field(
        default=None, metadata={"key": "client_weights"}
    )

    def __post_init__(self) -> None:
        check_word(self.goal, Goal, "goal")
        check_stated(self.noise, NoiseLaw, "noise")
        rows = [np.atleast_1d(np.asarray(row, dtype=np.float64)) for row in self.local_means]
        check_rows(rows, "local_means", "one row per client")
        table = np.array([checked_means(row, f"local_means[{m}]") for m, row in enumerate(rows)])
        table.setflags(write=False)
        object.__setattr__(self, "local_means", table)
        check_means(self.noise, float(table.min()), float(table.max()), "local_means")
        if self.weights is not None:
            object.__setattr__(self, "weights", _unequal(self.weights, len(rows), "weights"))

    @classmethod
    def from_observations(
        cls,
        observations: Sequence[Sequence[Sequence[float]]],
        *,
        name: str = "problem",
        goal: Goal = "max",
        weights: Sequence[float] | FloatArray | None = None,
    ) -> Exact:
        """Return the game of clients that draw from their own lists of values.

        Parameters
        ----------
        observations : nested sequences
            Client, arm, values, e.g. a user's ratings of the movies in a group.
        name : str
            What the random streams are keyed by.
        goal : {"max", "min"}
            Whether the best arm has the highest or the lowest mean.
        weights : sequence of float, optional
            How much each client counts.
        """
        noise = Empirical.of(observations)
        rows = noise.cell_means().reshape(len(observations), -1)
        return cls(local_means=rows, noise=noise, name=name, goal=goal, weights=weights)

    @classmethod
    def reader(cls) -> Callable[..., Exact]:
        """Return what makes a problem from the keys of its table; see `PlainProblem`."""
        return cls._read

    @classmethod
    def _read(
        cls,
        *,
        local_means: list[list[float]] | None = None,
        observations: list[list[list[float]]] | None = None,
        noise: NoiseLaw | type[NoiseLaw],
        client_weights: list[float] | None = None,
        goal: Goal = "max",
        name: str = "problem",
    ) -> Exact:
        if not isinstance(noise, type):
            if observations is not None:
                raise InputError("observations", 'only goes with noise = { law = "empirical" }')
            if local_means is None:
                raise InputError("local_means", "is missing; give one row per client")
            made = cls(local_means=local_means, noise=noise, name=name, goal=goal)
        else:
            if local_means is not None:
                raise InputError("local_means", "follow from the observations here; leave it out")
            if observations is None:
                raise InputError("observations", "is missing; empirical noise draws from them")
            made = cls.from_observations(observations, name=name, goal=goal)
        if client_weights is None:
            return made
        return replace(made, weights=_unequal(client_weights, made.population, "client_weights"))

    @property
    def table(self) -> FloatArray:
        """Local means, shape (clients, arms)."""
        return np.asarray(self.local_means)

    @property
    def shares(self) -> FloatArray | None:
        """a_m: the weights, summing to 1; None if all clients count the same."""
        if self.weights is None:
            return None
        weights = np.asarray(self.weights)
        return np.asarray(weights / weights.sum())

    @property
    def means(self) -> FloatArray:
        """μ_k: the weighted average over the clients."""
        shares = self.shares
        return np.asarray(self.table.mean(axis=0) if shares is None else shares @ self.table)

    @property
    def population(self) -> int:
        """How many clients are given."""
        return int(self.table.shape[0])

    @property
    def spread_proxy(self) -> float:
        """Half of the widest range of local means of an arm."""
        return float(np.ptp(self.table, axis=0).max()) / 2

    @property
    def cohort_law(self) -> CohortLaw:
        """Of all clients together, whose average is the global mean itself: nothing is spread."""
        noise = self.noise.normal_deviation
        if noise is None:
            return CohortLaw(obstacle=no_normal_noise(self.noise))
        return CohortLaw(noise=noise, of_everyone=True)

    def sampler(self, sources: Sources) -> _InRandomOrder:
        """Return a sampler that hands out the clients in a random order."""
        return _InRandomOrder(self, sources(0))

    def at_server(self) -> Exact:
        """Return the game of one player whose local means are the global ones."""
        noise = self.noise.pooled(self.table.shape[1], self.shares)
        return Exact(local_means=[self.means], noise=noise, name=self.name, goal=self.goal)

    def described(self) -> dict[str, Any]:
        """Return the table of an experiment file."""
        table = PlainProblem.described(self)
        if self.noise.given_by_cell:
            del table["local_means"]
            table["observations"] = self.noise.observations(self.table.shape[1])
        return table

    def facts(self) -> dict[str, str]:
        """Return what the model is, and how its clients are spread."""
        return {
            "model": "exact: the clients are given, and the global means are their averages",
            "spread": f"as given; {deviations(self.table.std(axis=0))} over the clients",
        }


def _unequal(
    weights: Sequence[float] | FloatArray, n_clients: int, where: str
) -> FloatArray | None:
    """Return weights of clients as a read-only array; None if they are equal."""
    found = np.array(weights, dtype=np.float64)
    if found.shape != (n_clients,):
        raise InputError(where, f"{found.size} weights for {n_clients} clients; give one per row")
    for m, weight in enumerate(found.tolist()):
        if not 1 / LARGEST <= weight <= LARGEST:
            problem = f"{weight:g} is not a positive number; leave out clients that do not count"
            raise InputError(f"{where}[{m}]", problem)
    if (found == found[0]).all():
        return None
    found.setflags(write=False)
    return found


class _InRandomOrder:
    """Hands out the given clients in a random order."""

    def __init__(self, problem: Exact, rng: np.random.Generator) -> None:
        self.table = problem.table
        self.by_cell = problem.noise.given_by_cell
        self.order = rng.permutation(problem.population)
        self.given = 0

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        start, self.given = self.given, self.given + n_clients
        rows = self.order[start : self.given]
        means = np.ascontiguousarray(self.table[rows].T)
        if not self.by_cell:
            return LocalModels(means, rows=rows)
        n_arms = self.table.shape[1]
        return LocalModels(means, rows * n_arms + np.arange(n_arms)[:, np.newaxis], rows)
