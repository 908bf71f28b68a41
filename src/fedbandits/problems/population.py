"""A finite population: clients drawn at once, and recentred on the global means."""

from __future__ import annotations

from collections.abc import Sequence

from fedbandits.problems.problem import ClientSampler, LocalModels
from fedbandits.rules.arrays import FloatArray


class Recentred:
    """Draws a whole population at once, recentres it, and hands it out in order.

    Recentring shifts all clients alike, so it may carry a local mean out of a law's range, e.g. a
    probability above 1. Whoever makes one checks ``means``.

    Parameters
    ----------
    unlimited : ClientSampler
        Where the clients come from.
    global_means : array, shape (arms,)
        What they average to.
    population : int
        How many there are.

    Examples
    --------
    >>> import numpy as np
    >>> class Twins:
    ...     def draw(self, n_clients, arms=None):
    ...         return LocalModels(np.tile([0.2, 0.4], (2, n_clients // 2)))
    >>> everyone = Recentred(Twins(), np.array([0.5, 0.6]), population=2)
    >>> everyone.draw(2).means.round(3)
    array([[0.4, 0.6],
           [0.5, 0.7]])
    """

    def __init__(self, unlimited: ClientSampler, global_means: FloatArray, population: int) -> None:
        drawn = unlimited.draw(population).means
        self.means = drawn + (global_means - drawn.mean(axis=1))[:, None]
        self.given = 0

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        """Return the next clients."""
        start, self.given = self.given, self.given + n_clients
        return LocalModels(self.means[:, start : self.given])
