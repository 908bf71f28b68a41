"""Eliminations: which active arms a phase leaves in the game."""

from __future__ import annotations

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray


def best_active(estimates: FloatArray, active: BoolArray) -> IntArray:
    """Return the active arm with the highest estimate, the lowest index on ties.

    Examples
    --------
    >>> int(best_active(np.array([0.9, 0.7, 0.7]), np.array([False, True, True])))
    1
    """
    return np.asarray(np.where(active, estimates, -np.inf).argmax(axis=-1))[()]


def eliminate(estimates: FloatArray, widths: FloatArray, active: BoolArray) -> BoolArray:
    r"""Return the arms that stay active.

    Algorithm 2, line 6: an active arm k goes when
    :math:`\bar\mu_k + B_k \le \max_l (\bar\mu_l - B_l)` over the active arms l. The arm with the
    highest estimate always stays (the lowest index on ties), whatever the widths.

    Parameters
    ----------
    estimates : array, shape (..., arms)
        Global estimates.
    widths : array, broadcast against ``estimates``
        Half-widths of their intervals.
    active : array of bool, shape (..., arms)
        The arms still in the game, at least one.

    Examples
    --------
    >>> eliminate(np.array([0.5, 0.7, 0.9]), np.array([0.1]), np.array([True, True, True]))
    array([False, False,  True])
    """
    lower = np.where(active, estimates - widths, -np.inf).max(axis=-1, keepdims=True)
    stays = active & ~(estimates + widths <= lower)
    best = best_active(estimates, active)
    return np.asarray(stays | (np.arange(estimates.shape[-1]) == best[..., np.newaxis]))
