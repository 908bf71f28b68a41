"""Values that are unlike the others: a hint where to look; they affect no decision."""

from __future__ import annotations

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray

THRESHOLD = 3.5
"""Robust standard deviations from the median, as Iglewicz and Hoaglin (1993) recommend."""

FEWEST = 5
"""Among fewer values nothing can be said to be unlike the others."""

# What makes these deviations estimates of the standard deviation of normal values.
_OF_MEDIAN = 1.4826
_OF_MEAN = 1.2533


def outliers(values: FloatArray, known: BoolArray) -> BoolArray:
    r"""Return which values lie far from the median of their row.

    A value is an outlier if :math:`|x - \operatorname{med}| > 3.5\, s`, where s is 1.4826 times the
    median absolute deviation, which half of the values cannot spoil. If more than half of them
    are equal, so that it is 0, s is 1.2533 times the mean absolute deviation.

    Parameters
    ----------
    values : array, shape (..., n)
        Values to compare along the last axis.
    known : array of bool, shape (..., n)
        Which of them count; the others are never outliers.

    Examples
    --------
    >>> row = np.array([0.5, 0.52, 0.48, 0.51, 0.95])
    >>> outliers(row, np.ones(5, dtype=bool)).tolist()
    [False, False, False, False, True]
    """
    enough = known.sum(axis=-1, keepdims=True) >= FEWEST
    if not enough.any():
        return np.zeros_like(known)
    shown = np.where(known & enough, values, np.nan)
    shown = np.where(enough, shown, 0.0)  # a row of nothing but NaN has no median
    apart = np.abs(shown - np.nanmedian(shown, axis=-1, keepdims=True))
    middle = _OF_MEDIAN * np.nanmedian(apart, axis=-1, keepdims=True)
    scale = np.where(middle > 0, middle, _OF_MEAN * np.nanmean(apart, axis=-1, keepdims=True))
    found: BoolArray = known & enough & (apart > THRESHOLD * scale)
    return found
