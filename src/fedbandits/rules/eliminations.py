"""Eliminations: which active arms a phase leaves in the game."""

from __future__ import annotations

from collections.abc import Callable

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


def highest(values: FloatArray, among: BoolArray) -> BoolArray:
    """Return where the highest value among some arms is: nowhere if there are no arms."""
    place = np.asarray(best_active(values, among))[..., np.newaxis]
    return np.asarray((np.arange(among.shape[-1]) == place) & among)


def eliminate(estimates: FloatArray, widths: FloatArray, active: BoolArray) -> BoolArray:
    r"""Return the arms that stay active when intervals are compared.

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
    return drop_below(estimates - widths, estimates + widths, estimates, active)


def drop_below(
    lower: FloatArray, upper: FloatArray, estimates: FloatArray, active: BoolArray
) -> BoolArray:
    """Return the arms whose upper end is above the highest lower end, and the best estimate's.

    Examples
    --------
    >>> lower, upper = np.array([0.1, 0.6]), np.array([0.7, 0.8])
    >>> drop_below(lower, upper, np.array([0.2, 0.7]), np.array([True, True]))
    array([ True,  True])
    """
    highest = np.where(active, lower, -np.inf).max(axis=-1, keepdims=True)
    return with_best(active & ~(upper <= highest), estimates, active)


def drop_beaten(
    estimates: FloatArray, widths_to: Callable[[int], FloatArray], active: BoolArray
) -> BoolArray:
    r"""Return the arms that stay active when arms are compared in pairs.

    k goes when :math:`\bar\mu_l - \bar\mu_k \ge w_{kl}` for an active arm l.

    Parameters
    ----------
    estimates : array, shape (..., arms)
        Global estimates.
    widths_to : callable
        From an arm l to the widths :math:`w_{kl}` of all arms, shape (..., arms). One that returns
        the same array for every l is asked only once.
    active : array of bool, shape (..., arms)
        The arms still in the game, at least one.

    Examples
    --------
    >>> width = np.full(3, 0.2)
    >>> drop_beaten(np.array([0.5, 0.8, 0.9]), lambda _: width, np.array([True, True, True]))
    array([False,  True,  True])
    """
    first = widths_to(0)
    if widths_to(estimates.shape[-1] - 1) is first:
        ahead = np.where(active, estimates, -np.inf).max(axis=-1, keepdims=True) - estimates
        return with_best(active & ~(ahead >= first), estimates, active)
    beaten = np.zeros(estimates.shape, dtype=np.bool_)
    arms = np.arange(estimates.shape[-1])
    for arm in arms.tolist():
        ahead = estimates[..., arm, np.newaxis] - estimates
        # No arm beats itself, even by a width of zero.
        rival = active[..., arm, np.newaxis] & (arms != arm)
        beaten |= rival & (ahead >= widths_to(arm))
    return with_best(active & ~beaten, estimates, active)


def widest_margins(widths_to: Callable[[int], FloatArray], active: BoolArray) -> FloatArray:
    """Return for every arm the widest of its widths to the other active arms; 0 without others.

    Examples
    --------
    >>> widths = np.array([[0.0, 0.1], [0.1, 0.0]])
    >>> widest_margins(lambda arm: widths[arm], np.array([True, True]))
    array([0.1, 0.1])
    """
    margins = np.zeros(active.shape)
    for arm in range(active.shape[-1]):
        other = active & active[..., arm, np.newaxis]
        other[..., arm] = False
        margins = np.maximum(margins, np.where(other, widths_to(arm), 0.0))
    return margins


def with_best(stays: BoolArray, estimates: FloatArray, active: BoolArray) -> BoolArray:
    """Return the arms that stay and the one with the highest estimate, whatever the widths."""
    return np.asarray(stays | highest(estimates, active))
