"""What clipping observations to a range does to a game: how many are clipped, and their means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from fedbandits.problems.approximate import Approximate
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import Bernoulli, Empirical, Gaussian, NoiseLaw, Uniform
from fedbandits.problems.problem import Problem
from fedbandits.rules.arrays import FloatArray, IntArray

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
        """Whether nothing is clipped that anybody would see."""
        return bool(self.shares.max() < NEGLIGIBLE)


def clipping(problem: Problem, low: float, high: float) -> Clipping:
    """Return what clipping to a range does to the observations of a problem.

    Where clients are drawn from a law that is not normal, it is an average over 20,000 of them.

    Examples
    --------
    Figure 4's noise, of which [0, 1] holds two thirds:

    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.02))
    >>> found = clipping(game, 0.0, 1.0)
    >>> found.shares.round(3), found.means.round(3)
    (array([0.318, 0.457]), array([0.5  , 0.754]))
    """
    noise, means, cells = problem.noise, problem.means[:, np.newaxis], None
    weights: FloatArray | None = None
    spread = problem.spread if isinstance(problem, Approximate) else None
    if isinstance(noise, Gaussian) and isinstance(spread, Gaussian):
        # An observation of a client at random is normal, too.
        offset = problem.offset if isinstance(problem, Approximate) else 0.0
        noise = Gaussian(float(np.sqrt(noise.sigma**2 + spread.sigma**2 + offset**2)))
    else:
        clients = _CLIENTS if problem.population is None else min(_CLIENTS, problem.population)
        if isinstance(problem, Exact):
            clients = problem.population
        rngs: dict[int, np.random.Generator] = {}
        drawn = problem.sampler(
            lambda number: rngs.setdefault(number, np.random.default_rng([number]))
        ).draw(clients)
        means, cells = drawn.means, drawn.cells
        if isinstance(problem, Exact) and problem.shares is not None and drawn.rows is not None:
            weights = problem.shares[drawn.rows]
    shares, clipped = _outside(noise, means, cells, low, high)
    return Clipping(
        shares=np.average(shares, axis=1, weights=weights),
        means=np.average(clipped, axis=1, weights=weights),
    )


def _outside(
    noise: NoiseLaw, means: FloatArray, cells: IntArray | None, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """Return for every local mean the share outside, and the mean of what is clipped."""
    match noise:
        case Bernoulli():
            ends = np.clip([0.0, 1.0], low, high)
            outside = (1 - means) * (ends[0] != 0.0) + means * (ends[1] != 1.0)
            return outside, (1 - means) * ends[0] + means * ends[1]
        case Empirical():
            probabilities = noise.probabilities[cells]
            inside = np.clip(noise.support, low, high)
            return probabilities @ (inside != noise.support), probabilities @ inside
        case Gaussian(sigma=sigma) if sigma > 0:
            below, above = (low - means) / sigma, (high - means) / sigma
            under, over = stats.norm.cdf(below), stats.norm.sf(above)
            middle = means * (1 - under - over)
            middle += sigma * (stats.norm.pdf(below) - stats.norm.pdf(above))
            return under + over, low * under + high * over + middle
        case Uniform(sigma=sigma) if sigma > 0:
            half = np.sqrt(3.0) * sigma
            ends = np.clip([means - half, means + half], low, high)
            inside = (ends[1] - ends[0]) / (2 * half)
            under = np.clip((low - means + half) / (2 * half), 0.0, 1.0)
            over = np.clip((means + half - high) / (2 * half), 0.0, 1.0)
            middle = inside * (ends[0] + ends[1]) / 2
            return under + over, low * under + high * over + middle
    clipped = np.clip(means, low, high)
    return (clipped != means).astype(np.float64), clipped
