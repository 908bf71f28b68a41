r"""Whether some options lose more units than others: a test of a client on its own traffic.

Options are given in blocks that are drawn at random. If losing a unit has nothing to do with its
option, the lost ones of an option are a random part of all lost ones. With n units of an option, of
which x are lost, and q the share that all options of the same phases lose on average,
:math:`n \cdot \mathrm{kl}(x/n, q) \ge L` has a probability of at most :math:`2 e^{-L}`, kl the
relative entropy of coins. ``docs/health.md`` has the proof.
"""

from __future__ import annotations

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.levels import simultaneous_log

LEVEL = 1e-5
"""How likely a client that loses units of all options alike suspects any, at most.

Of a thousand such clients at most 1 % of all runs have one that does.
"""


def uneven(assigned: IntArray, lost: IntArray, level: float = LEVEL) -> BoolArray:
    """Return of which options more units are lost than of others, if that is suspicious.

    Phases in which options did not get equally many units are left out.

    Parameters
    ----------
    assigned, lost : array of int, shape (..., phases, arms)
        Units that got an option in a phase, 0 if it had none, and those without an outcome.
    level : float
        How likely any option is suspected in any phase though all are alike, at most.

    Examples
    --------
    >>> uneven(np.array([[300, 300]]), np.array([[30, 0]])).tolist()
    [True, False]
    >>> uneven(np.array([[300, 300]]), np.array([[30, 20]])).tolist()
    [False, False]
    """
    phases, arms = assigned.shape[-2:]
    most = assigned.max(axis=-1, keepdims=True)
    even = ((assigned == 0) | (assigned == most)).all(axis=-1, keepdims=True)
    assigned, lost = np.where(even, assigned, 0), np.where(even, lost, 0)
    units = assigned.sum(axis=-1, keepdims=True)
    shares = lost.sum(axis=-1, keepdims=True) / np.maximum(units, 1)
    n = np.maximum(assigned.sum(axis=-2), 1)
    common = (assigned * shares).sum(axis=-2) / n
    own = lost.sum(axis=-2) / n
    apart = _part(own, common) + _part(1 - own, 1 - common)
    log = simultaneous_log(2 * arms, level, max(phases, 1))
    suspicious = (n * apart > log).any(axis=-1, keepdims=True)
    return np.asarray(suspicious & (own > common))


def _part(own: FloatArray, common: FloatArray) -> FloatArray:
    """Return x log(x/q), 0 for x = 0; q is not 0 unless x is."""
    some = own > 0
    return np.asarray(own * np.log(np.where(some, own, 1.0) / np.where(some, common, 1.0)))
