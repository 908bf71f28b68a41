r"""Client sampling: how likely M clients misrank the arms (Theorem 1), and how many are enough.

The paper's :math:`P_z` (figure 7 writes :math:`P_e`) is the probability that the best arm is not
the best on average over M clients whose local means are known perfectly. Its maximum runs over
:math:`k \ne k_*`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray

_POINTS = 4001
_REACH = 40.0


def misranking_probability(
    gaps: npt.ArrayLike, spread: float, clients: npt.ArrayLike
) -> FloatArray:
    r"""Return :math:`P_z` exactly, for Gaussian spread and independent arms.

    With :math:`\tau = \sigma_c / \sqrt M` the averages are normal with deviation τ, and

    .. math:: P_z = \int \varphi(z) \Bigl(1 - \prod_{k \ne k_*} \Phi(z + \Delta_k / \tau)\Bigr) dz,

    evaluated by the trapezoidal rule, which converges geometrically for such an integrand.

    Parameters
    ----------
    gaps : array, shape (arms - 1,)
        Δ_k of the arms other than the best, all positive.
    spread : float
        σ_c.
    clients : array of int
        M, any shape.

    Examples
    --------
    >>> float(misranking_probability([0.02], spread=0.1, clients=200).round(4))
    0.0228
    """
    gaps = _checked(gaps, spread)
    scale = np.sqrt(np.asarray(clients, dtype=np.float64)) / spread
    z = np.linspace(-_REACH, _REACH, _POINTS)
    log_density = -0.5 * z**2 - 0.5 * math.log(2 * math.pi)
    shifted = z + scale[..., np.newaxis, np.newaxis] * gaps[:, np.newaxis]
    # 1 - prod Φ, without cancellation where it is tiny.
    missed = -np.expm1(log_ndtr(shifted).sum(axis=-2))
    weights = np.exp(log_density) * (z[1] - z[0])
    return np.asarray((missed * weights).sum(axis=-1))[()]


def misranking_bound(
    gaps: npt.ArrayLike,
    spread: float,
    clients: npt.ArrayLike,
    *,
    dependence: Literal["independent", "any"] = "independent",
) -> FloatArray:
    r"""Return a valid bound on :math:`P_z` for any σ_c-subgaussian spread.

    For arms that are independent the difference of two averages is subgaussian with proxy
    :math:`2\sigma_c^2/M`, which gives :math:`\sum_k \exp(-M\Delta_k^2/(4\sigma_c^2))`. The paper's
    proof ends with :math:`2\sum_k \exp(-M\Delta_k^2/(8\sigma_c^2))`, which holds under any
    dependence.

    Examples
    --------
    >>> float(misranking_bound([0.02], spread=0.1, clients=200).round(4))
    0.1353
    """
    factor, rate = {"independent": (1.0, 4.0), "any": (2.0, 8.0)}[dependence]
    return factor * _exponentials(gaps, spread, clients, rate)


def misranking_as_printed(gaps: npt.ArrayLike, spread: float, clients: npt.ArrayLike) -> FloatArray:
    r"""Return what Theorem 1 prints, :math:`\sum_k \exp(-M\Delta_k^2/\sigma_c^2)`: not a bound.

    The O(·) there swallows a factor of 8 in the *exponent* of the proof.

    Examples
    --------
    >>> float(misranking_as_printed([0.02], spread=0.1, clients=200).round(6))
    0.000335
    """
    return _exponentials(gaps, spread, clients, 1.0)


def clients_needed(*, gap: float, spread: float, n_arms: int, horizon: int) -> int:
    r"""Return how many clients make :math:`P_z \le 1/T`: :math:`4\sigma_c^2\Delta^{-2}\log(KT)`.

    The paper's Eqn. for M without the constant that its O(·) hides; independent arms.

    Examples
    --------
    >>> clients_needed(gap=0.02, spread=0.02, n_arms=10, horizon=10**6)
    65
    """
    _checked([gap], spread)
    return math.ceil(4 * spread**2 / gap**2 * math.log(n_arms * horizon))


def clients_as_printed(*, gap: float, spread: float, n_arms: int, horizon: int) -> int:
    r"""Return the number that Eqn. (5) prints, :math:`\sigma_c^2\Delta^{-2}\log(KT)`: too few.

    It follows from the form that Theorem 1 prints, and lacks its factor of 4.

    Examples
    --------
    >>> clients_as_printed(gap=0.02, spread=0.02, n_arms=10, horizon=10**6)
    17
    """
    _checked([gap], spread)
    return math.ceil(spread**2 / gap**2 * math.log(n_arms * horizon))


def clients_for_error(gaps: npt.ArrayLike, spread: float, *, error: float) -> int:
    r"""Return the fewest clients with :math:`P_z \le` ``error``, by the exact integral.

    Parameters
    ----------
    gaps, spread
        As in `misranking_probability`.
    error : float
        Between 0 and 1.

    Examples
    --------
    >>> clients_for_error([0.02], spread=0.1, error=0.01)
    271
    """
    gaps = _checked(gaps, spread)
    if not 0 < error < 1:
        raise InputError("error", f"{error} is not a probability between 0 and 1")
    # If the corrected bound is as small as the error, the probability is smaller.
    ratio = spread / float(gaps.min())
    fewer = range(1, math.ceil(4 * ratio**2 * math.log(gaps.size / error)))
    enough = bisect_left(
        fewer, True, key=lambda m: bool(misranking_probability(gaps, spread, m) <= error)
    )
    return 1 + enough


def _exponentials(
    gaps: npt.ArrayLike, spread: float, clients: npt.ArrayLike, rate: float
) -> FloatArray:
    gaps = _checked(gaps, spread)
    m = np.asarray(clients, dtype=np.float64)[..., np.newaxis]
    return np.asarray(np.exp(-m * gaps**2 / (rate * spread**2)).sum(axis=-1))[()]


def _checked(gaps: npt.ArrayLike, spread: float) -> FloatArray:
    gaps = np.asarray(gaps, dtype=np.float64)
    if gaps.ndim != 1 or gaps.size == 0 or not (np.isfinite(gaps) & (gaps > 0)).all():
        raise InputError("gaps", f"{gaps.tolist()} is not a list of positive finite numbers")
    if not (math.isfinite(spread) and spread > 0):
        raise InputError("spread", f"{spread} is not a positive finite number")
    return gaps
