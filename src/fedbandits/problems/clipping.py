"""What clipping observations to a range does to a game: how many are clipped, and their means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.problems.problem import Problem
from fedbandits.rules.arrays import FloatArray

NEGLIGIBLE = 1e-9
"""A smaller share of observations is never clipped, as far as a simulation can tell."""

# Clients that an average over a population is taken over.
_CLIENTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping:
    """What is left of a game's observations in a range.

    Parameters
    ----------
    shares : array, shape (arms,)
        The share of observations of an arm that lie outside.
    means : array, shape (arms,)
        The means of clipped observations: what is estimated from them.
    """

    shares: FloatArray
    means: FloatArray

    @property
    def negligible(self) -> bool:
        """Whether too little is clipped for anybody to see."""
        return bool(self.shares.max() < NEGLIGIBLE)


def clipping(problem: Problem, low: float, high: float) -> Clipping:
    """Return what clipping to a range does to the observations of a problem.

    If clients are drawn from a law that is not normal, it is an average over 20,000 of them.

    Examples
    --------
    Figure 4's noise, of which [0, 1] holds two thirds:

    >>> from fedbandits.problems import Approximate, Gaussian
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.02))
    >>> found = clipping(game, 0.0, 1.0)
    >>> found.shares.round(3), found.means.round(3)
    (array([0.318, 0.457]), array([0.5  , 0.754]))
    """
    law, means, cells = problem.observation_law, problem.means[:, np.newaxis], None
    weights: FloatArray | None = None
    if law is None:
        law, clients = problem.noise, problem.population or _CLIENTS
        if not problem.clients_are_given:
            clients = min(_CLIENTS, clients)
        rngs: dict[int, np.random.Generator] = {}
        drawn = problem.sampler(
            lambda number: rngs.setdefault(number, np.random.default_rng([number]))
        ).draw(clients)
        means, cells = drawn.means, drawn.cells
        if problem.shares is not None and drawn.rows is not None:
            weights = problem.shares[drawn.rows]
    shares, clipped = law.clipped(means, cells, low, high)
    return Clipping(
        shares=np.average(shares, axis=1, weights=weights),
        means=np.average(clipped, axis=1, weights=weights),
    )
