"""The Chernoff (KL) bound: outcomes in a known range, sharp if rates are near its ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.distortion import UNDISTORTED
from fedbandits.rules.eliminations import drop_below, widest_margins
from fedbandits.rules.guarantees import Guarantee, ProofContext, bounds_needed, keeps_best, within
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.radii.bounded import BoundedRadius
from fedbandits.rules.radii.known import PhaseStatistics, unbiased_width

_HALVINGS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ChernoffRadius(BoundedRadius):
    r"""Intervals by the Kullback-Leibler divergence, for outcomes in a known range.

    On [0, 1] the interval around an estimate x that is worth n pulls holds the q with
    :math:`n\,\mathrm{kl}(x, q) \le L`, :math:`L = \ln(2 K \pi^2 p^2 / (6 \delta))`, and is
    widened on both sides by :math:`\sqrt{2 v_c L}` for too few clients (:math:`v_c` their part of
    the variance; 0 in the exact model). k goes when its upper end is below a lower end. At a rate
    of 2 % an interval for a σ of 1/2 wastes a factor 12.8 of pulls.

    Guarantee: P(the best arm is ever dropped) ≤ δ, for any number of phases and any dependence
    between arms, if outcomes lie in the range and clients are drawn at random with a spread of at
    most σ_c. Who they are does not matter if all that exist play from the start.

    Derivation: given the local means, the estimate is :math:`\sum w_i X_i` over independent pulls
    with :math:`w_i \le 1/n`, n being M · (the fewest pulls of a client) with equal weights. As
    :math:`\log(1 - q + q e^{\lambda w})` is convex in w and zero at 0, and concave in q, its
    moment generating function is at most that of n pulls of the average rate: Hoeffding's (1963)
    Theorem 1 with the divergence. So it is outside by more than kl allows with probability at most
    :math:`\exp(-L)` on either side; the average local mean is off the global one by
    :math:`\sqrt{2 v_c L}` with probability at most :math:`\exp(-L)`. For the best arm to go, one
    of 2 K such events must happen in some phase; of 3 K where means are protected, whose errors
    are a third event per arm.

    Parameters
    ----------
    range, delta
        As in `BernsteinRadius`.

    References
    ----------
    Hoeffding (1963), "Probability inequalities for sums of bounded random variables", JASA 58.
    """

    rule: ClassVar[str] = "chernoff"
    options: ClassVar[tuple[str, ...]] = ("delta",)
    outlives_withdrawals: ClassVar[bool] = True

    range: tuple[float, float] = (0.0, 1.0)
    delta: LevelLike = "1/T"

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        needed = bounds_needed(context, noise=False)
        return keeps_best(self.delta, context, within(self.range), *needed)

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return half the length of each interval."""
        lower, upper = self._ends(known)
        return (upper - lower) / 2

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the arms whose upper end is above every lower end."""
        lower, upper = self._ends(known)
        return drop_below(lower, upper, known.estimate.values, known.active)

    def margins(self, known: PhaseStatistics) -> FloatArray:
        """Return the parts of two intervals that point towards each other, for the worst pair."""
        lower, upper = self._ends(known)
        below, above = known.estimate.values - lower, upper - known.estimate.values
        return widest_margins(lambda arm: below + above[..., arm, np.newaxis], known.active)

    def _ends(self, known: PhaseStatistics) -> tuple[FloatArray, FloatArray]:
        low, high = self.range
        protected = known.estimate.distortion is not UNDISTORTED
        log = self._log(known, (3 if protected else 2) * known.n_arms)
        clients = np.sqrt(2.0 * known.estimate.client_variance * log)
        off = known.widened(unbiased_width(np.zeros(()), log, known)) if protected else 0.0
        most = log * known.estimate.heaviest_pull
        # An end moves by more than the rate does, so what protects the rate is allowed for first.
        lowest, highest = (
            np.clip((known.estimate.values + aside - low) / (high - low), 0.0, 1.0)
            for aside in (-off, off)
        )
        lower, upper = divergence_end(lowest, most, 0.0), divergence_end(highest, most, 1.0)
        return low + (high - low) * lower - clients, low + (high - low) * upper + clients


def divergence_end(rates: FloatArray, most: FloatArray, towards: float) -> FloatArray:
    """Return the last q from a rate towards 0 or 1 with kl(rate, q) ≤ most, by halving.

    It is rounded outwards, so that an interval is never too short.

    Examples
    --------
    >>> rate, most = np.array([0.02]), np.array([0.001])
    >>> divergence_end(rate, most, 0.0).round(4), divergence_end(rate, most, 1.0).round(4)
    (array([0.0144]), array([0.0269]))
    """
    rates, most = np.broadcast_arrays(rates, most)
    inside, outside = rates.astype(np.float64), np.full(rates.shape, towards)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        from scipy import special  # noqa: PLC0415 - slow to import, and rarely needed

        divergence = special.rel_entr(rates, middle) + special.rel_entr(1 - rates, 1 - middle)
        fits = divergence <= most
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return outside
