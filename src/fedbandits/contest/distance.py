"""How far an entrant is from the first: pairs of replications, with 95 % intervals."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.experiments.game_means import game_mean, ratio_of
from fedbandits.rules.arrays import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """An entrant beside the first of a field.

    Parameters
    ----------
    ratio, ratio_margin : float
        Of the mean regrets, and half of its 95 % interval.
    above, above_margin : float
        The mean difference within replications, and half of its 95 % interval.
    """

    ratio: float
    ratio_margin: float
    above: float
    above_margin: float


def distance_to(totals: FloatArray, first: FloatArray) -> Distance:
    """Compare the regrets of an entrant with those of the first, replication by replication.

    Examples
    --------
    >>> import numpy as np
    >>> found = distance_to(np.array([2.0, 4.0, 7.0]), np.array([1.0, 2.0, 3.0]))
    >>> round(found.ratio, 2), round(found.ratio_margin, 2)
    (2.17, 0.55)
    """
    ratio, above = ratio_of(totals, first), game_mean(totals - first)
    return Distance(
        ratio=ratio.value,
        ratio_margin=ratio.margin,
        above=above.value,
        above_margin=above.margin,
    )
