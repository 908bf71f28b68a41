"""The 100 groups of movies of the paper, and the game that its authors played on them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Gaussian
from fedbandits.rules.arrays import FloatArray


@cache
def group_means() -> FloatArray:
    """Return the global means of the 100 groups of movies, in the authors' order.

    They are the column means of the pre-processed HetRec-2011 MovieLens data (2113 users × 100
    groups, values in [0, 1]) that the paper's authors published with their code. Only these means
    ship, as a table of facts (``group_means.csv``); the data itself is not ours to pass on.

    Examples
    --------
    >>> means = group_means()
    >>> means.size, means.argmax(), means.max().round(5), means.min().round(5)
    (100, np.int64(0), np.float64(0.36397), np.float64(0.33671))
    """
    text = files(__package__).joinpath("group_means.csv").read_text(encoding="ascii")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    means = np.array([float(mean) for _, mean in rows])
    means.setflags(write=False)  # everyone gets the same array
    return means


def are_released(means: FloatArray) -> bool:
    """Return whether the means of arms are those of the authors' groups of movies.

    Examples
    --------
    >>> are_released(group_means()), are_released(np.array([0.3, 0.5]))
    (True, False)
    """
    released = group_means()
    return means.shape == released.shape and np.allclose(means, released, rtol=0, atol=1e-6)


def as_released(*, spread: float, noise: float = 0.2, name: str = "movielens") -> Approximate:
    """Return the game of figure 6 as the authors' code plays it.

    Local means are drawn N(group mean, spread²) and observations N(local mean, noise²): the users
    themselves do not appear in it. Their real spread is about 0.26.

    Parameters
    ----------
    spread : float
        σ_c. The authors' code has 0.02 for Fed2-UCB and 0.1 for Fed1-UCB.
    noise : float
        σ. The authors' code has 0.2.
    name : str
        What the random streams are keyed by.

    Examples
    --------
    >>> from fedbandits.problems import gap
    >>> game = as_released(spread=0.02)
    >>> round(gap(game), 4), game.spread_proxy, game.noise_proxy
    (0.0053, 0.02, 0.2)
    """
    return Approximate(
        means=group_means(), noise=Gaussian(noise), spread=Gaussian(spread), name=name
    )
