r"""What options are like for some of the clients: means over segments, with intervals.

The mean of an option over the clients of a segment that have tried it, for these clients alone.
With :math:`n_m` tries of client m of M, it has the proxy :math:`v = \sigma^2 \sum_m 1/(n_m M^2)`,
however much clients differ. ``docs/health.md`` has the proof.
"""

from __future__ import annotations

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import Distortion, sub_gamma_width
from fedbandits.rules.levels import simultaneous_log


def segment_means(
    counts: IntArray,
    means: FloatArray,
    members: BoolArray,
    *,
    noise: float,
    distortion: Distortion,
    looks: int,
    level: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of every option in every segment, and the half-widths of their intervals.

    All of them hold in all phases, with probability 1 − ``level``. A mean of nothing is 0, and its
    interval infinite.

    Parameters
    ----------
    counts, means : array, shape (arms, clients)
        How often clients have tried options, and what they report.
    members : array of bool, shape (segments, clients)
        Who is in which segment.
    noise : float
        σ.
    distortion : Distortion
        What the protection of means leaves in those of clients.
    looks : int
        How many phases are over.
    level : float
        How likely any interval misses, at most.

    Examples
    --------
    >>> from fedbandits.rules.distortion import UNDISTORTED
    >>> found, widths = segment_means(
    ...     np.array([[100, 100, 100]]), np.array([[0.2, 0.4, 0.9]]),
    ...     np.array([[True, True, False], [False, False, True]]),
    ...     noise=0.5, distortion=UNDISTORTED, looks=1, level=0.05,
    ... )
    >>> found.round(3).tolist(), widths.round(3).tolist()
    ([[0.3], [0.9]], [[0.11], [0.156]])
    """
    weights = (members[:, np.newaxis, :] & (counts > 0)).astype(np.float64)
    clients = weights.sum(axis=-1)
    shares = weights / np.maximum(clients, 1.0)[..., np.newaxis]
    proxies = noise**2 * (shares**2 / np.maximum(counts, 1)).sum(axis=-1)
    left = distortion.averaged(weights)
    log = simultaneous_log(2 * clients.size, level, looks)
    widths = sub_gamma_width(proxies + left.variance, left.scale, log) + left.bias
    return (shares * means).sum(axis=-1), np.where(clients > 0, widths, np.inf)
