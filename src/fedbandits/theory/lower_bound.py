r"""A lower bound on regret if clients differ and reports cost.

Normal rewards with noise σ, local means that differ from client to client by σ_c, independently
for every arm and every client, as many clients as one likes, and at least C for each client that
takes part. Whatever the rule, if its regret grows more slowly than every power of T on every game,

.. math::

    \liminf_{T \to \infty} \frac{R(T)}{\log T} \ge
    \min_{m} \; m \Bigl(C + \sum_k n_k \Delta_k\Bigr), \qquad
    n_k = \frac{\sigma^2}{m \Delta_k^2 / 2 - 2 \sigma_c^2}.

The proof is on the page on the lower bound. This is a slope in the limit: at a finite T a regret
below the slope times log T contradicts nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LowerBound:
    r"""What every consistent rule pays per unit of log T, in the limit.

    Parameters
    ----------
    slope : float
        The bound on regret divided by log T.
    clients : float
        m: how many clients for each unit of log T attain it; infinite if more are always better,
        and 0 if one client is enough.
    pulls : array, shape (arms - 1,)
        :math:`n_k`: how often each of them pulls each worse arm; 0 if there are infinitely many
        clients, and infinite if there is one.
    """

    slope: float
    clients: float
    pulls: FloatArray

    def at(self, horizon: int) -> float:
        """Return the slope times log T: a yardstick at a finite horizon, not a bound."""
        return self.slope * math.log(horizon)

    def until_decision(self, delta: float) -> float:
        r"""Return what a rule pays until it decides, if it errs with probability δ at most.

        The slope times :math:`(1 - 2\delta) \log((1 - \delta)/\delta)`, the divergence of two coins
        with the probabilities δ and 1 − δ; nothing from δ = ½ on. It holds for every rule that is
        wrong with probability δ at most on every game with this noise and spread, and that finds
        the best arm of this one with probability 1 − δ.

        Examples
        --------
        >>> two_arms = lower_bound(np.array([0.1]), noise=0.5, spread=0.1, cost=1.0)
        >>> round(two_arms.slope, 2), round(two_arms.until_decision(0.05), 2)
        (17.94, 47.55)
        """
        if delta >= 0.5:
            return 0.0
        return self.slope * (1 - 2 * delta) * math.log((1 - delta) / delta)


def lower_bound(gaps: FloatArray, *, noise: float, spread: float, cost: float) -> LowerBound:
    r"""Return the lower bound for normal rewards and independent normal local means.

    For two arms it is :math:`2 (\sigma\sqrt\Delta + \sigma_c\sqrt{2C})^2 / \Delta^2`. With C = 0
    or σ_c = 0 it is the :math:`\sum_k 2\sigma^2/\Delta_k` of Lai and Robbins.

    Parameters
    ----------
    gaps : array, shape (arms - 1,)
        Δ_k of the worse arms, all positive. If several arms are the best there is no bound.
    noise : float
        σ.
    spread : float
        σ_c; 0 if clients do not differ, or if the given clients are all that the answer is for.
    cost : float
        C.

    Examples
    --------
    >>> figure_4 = np.array([9, 8, 7, 6, 5, 4, 3, 2.5, 2]) / 100
    >>> for cost in (0, 1, 10, 100, 1000):
    ...     bound = lower_bound(figure_4, noise=0.5, spread=0.02, cost=cost)
    ...     print(cost, round(bound.at(10**6)))
    0 1540
    1 1980
    10 3238
    100 10329
    1000 66209
    """
    gaps = np.asarray(gaps, dtype=np.float64)
    if gaps.size == 0 or not (np.isfinite(gaps) & (gaps > 0)).all():
        raise InputError("gaps", "must be positive numbers, one for each arm but the best")
    for name, value in {"noise": noise, "spread": spread, "cost": cost}.items():
        if not (math.isfinite(value) and value >= 0):
            raise InputError(name, f"must be a number of at least 0, not {value!r}")
    if spread == 0 or cost == 0 or noise == 0:
        return _without_trade(gaps, noise=noise, spread=spread, cost=cost)
    # Per client, an arm tells Δ² / (2 (σ²/n + 2σ_c²)): that times m must be 1, so n = σ² / room.
    needed, floor = gaps**2 / 2, 2 * spread**2
    least = floor / float(needed.min())
    # In units in which the arm with the smallest gap alone would have its optimum at √Δ.
    unit = noise * math.sqrt(floor) / math.sqrt(cost) / float(needed.min())
    start = (needed * least - floor) / (needed.min() * unit)

    def room(above: float) -> FloatArray:
        return np.asarray(needed / needed.min() * above + start)

    def rise(above: float) -> float:
        # The sign of the derivative in m of m (C + Σ n_k Δ_k), which is convex.
        return 1.0 - float((gaps / room(above) ** 2).sum())

    # That arm alone, and all arms as if they had its gap, are on either side.
    low, high = math.sqrt(gaps.min()), math.sqrt(gaps.sum())
    above = brentq(rise, low * (1 - 1e-9), high * (1 + 1e-9), xtol=1e-14 * low)
    each = noise**2 / (needed.min() * unit * room(above))
    clients = least + unit * above
    slope = clients * cost + clients * float((each * gaps).sum())
    return LowerBound(slope=slope, clients=clients, pulls=each)


def _without_trade(gaps: FloatArray, *, noise: float, spread: float, cost: float) -> LowerBound:
    """Return the bound if clients are alike, free, or tell all that they know at once."""
    if noise == 0 and spread > 0:
        clients = float((4 * spread**2 / gaps**2).max())
        return LowerBound(slope=clients * cost, clients=clients, pulls=np.zeros(gaps.size))
    return LowerBound(
        slope=float((2 * noise**2 / gaps).sum()),
        clients=math.inf if spread > 0 else 0.0,
        pulls=np.full(gaps.size, 0.0 if spread > 0 else math.inf),
    )
