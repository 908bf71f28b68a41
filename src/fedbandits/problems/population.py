"""A finite population: clients drawn at once, and recentred on the global means."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedbandits.problems.problem import ClientSampler, LocalModels
from fedbandits.rules.arrays import FloatArray


class Recentred:
    r"""Draws a whole population at once, recentres it, and hands it out in order.

    Recentring shifts all clients alike, so that they average to the global mean. A shift may carry
    some of them out of the range that local means can have, e.g. a probability above 1. Such
    clients stop at the end of the range and all others are shifted a little further: client m of
    drawn mean :math:`x_m` gets

    .. math:: \min(\max(x_m + c, \text{low}), \text{high}), \quad
        c \text{ such that they average to the global mean.}

    There is exactly one such shift, as the global mean lies in the range. The clients then have
    the law they were drawn from, given their average and up to a shift of the order
    :math:`\sigma_c / \sqrt{N}`, except that the few who stopped stand at the very end of the range.
    What some of them leave open about all is no more than for independent draws: see "A simulated
    population is like draws" in the theory pages.

    Parameters
    ----------
    unlimited : ClientSampler
        Where the clients come from.
    global_means : array, shape (arms,)
        What they average to.
    population : int
        How many there are.
    low, high : float
        The range of local means.

    Examples
    --------
    >>> class Twins:
    ...     def draw(self, n_clients, arms=None):
    ...         return LocalModels(np.tile([0.2, 0.4], (2, n_clients // 2)))
    >>> everyone = Recentred(Twins(), np.array([0.5, 0.6]), population=2)
    >>> everyone.draw(2).means.round(3)
    array([[0.4, 0.6],
           [0.5, 0.7]])
    >>> Recentred(Twins(), np.array([0.5, 0.6]), population=2, high=0.65).draw(2).means.round(3)
    array([[0.4 , 0.6 ],
           [0.55, 0.65]])
    """

    def __init__(
        self,
        unlimited: ClientSampler,
        global_means: FloatArray,
        population: int,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> None:
        drawn = unlimited.draw(population).means
        self.means = drawn + (global_means - drawn.mean(axis=1))[:, None]
        for row, mean in zip(self.means, global_means.tolist(), strict=True):
            _keep_within(row, mean, low, high)
        self.given = 0

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        """Return the next clients."""
        start, self.given = self.given, self.given + n_clients
        return LocalModels(self.means[:, start : self.given])


def _keep_within(values: FloatArray, mean: float, low: float, high: float) -> None:
    """Move values, in place, into a range without moving their mean."""
    free = np.ones(values.shape, dtype=np.bool_)
    while values.min() < low or values.max() > high:
        np.clip(values, low, high, out=values)
        # A client at an end of the range stays there: each round stops at least one more.
        free &= (values > low) & (values < high)
        if not free.any():
            return
        values[free] += (mean - values.mean()) * values.size / int(free.sum())
