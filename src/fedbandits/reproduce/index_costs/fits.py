"""Which power of log T regret grows as: weighted least squares, and how sure it is."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc, stdtrit

from fedbandits.report.chart import NORMAL_95
from fedbandits.rules.arrays import FloatArray


def fit_power(
    horizons: FloatArray, means: FloatArray, errors: FloatArray, power: float
) -> dict[str, float]:
    """Return the line through independent means against a power of log T, weighted by precision.

    Parameters
    ----------
    horizons, means, errors : array of shape (n,)
        T, mean regret, and its standard error; at least three.
    power : float
        Of log T.

    Returns
    -------
    dict
        ``slope`` and ``intercept``: regret per unit of that power, and at 0.

        ``sampling_margin``: half of the slope's 95 % interval from the standard errors of the
        means, that is, what other games of the same horizons would change. It takes for granted
        that the line is the right curve.

        ``residual_margin``: the same from how far the means are from the line, by Student's t. It
        is wide if the line is not the right curve, and then no interval of anything that exists.

        ``r_squared``: the part of the weighted variance of the means that the line explains.

        ``misfit``: a p-value, how likely means of games that lie on a line would be as far from
        one.

    Examples
    --------
    >>> horizons = 10.0 ** np.arange(4, 10)
    >>> found = fit_power(horizons, 7 + 3 * np.log(horizons), np.full(6, 0.1), 1.0)
    >>> [round(found[name], 6) for name in ("slope", "intercept", "misfit")]
    [3.0, 7.0, 1.0]
    """
    x, weights = np.log(horizons) ** power, errors**-2.0
    weights /= weights.sum()
    scale = float((errors**-2.0).sum())
    around, height = x - weights @ x, means - weights @ means
    spread = float(weights @ around**2)
    slope = float(weights @ (around * height)) / spread
    free = means.size - 2
    left = float(weights @ (height - slope * around) ** 2)
    error = (scale * spread) ** -0.5
    misfit = scale * left
    return {
        "slope": slope,
        "intercept": float(weights @ means) - slope * float(weights @ x),
        "sampling_margin": NORMAL_95 * error,
        "residual_margin": float(stdtrit(free, 0.975)) * error * (misfit / free) ** 0.5,
        "r_squared": 1 - left / float(weights @ height**2),
        "misfit": float(chdtrc(free, misfit)),
    }
