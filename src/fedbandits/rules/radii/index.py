r"""Widths of index rules: how far above its estimate an arm may still be.

Not for elimination: an index rule plays what may still be the best, and stops asking when its own
indices would never let another arm be played again. See `fedbandits.rules.index_rules`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fedbandits.errors import InputError, check_word
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.distortion import sub_gamma_width
from fedbandits.rules.eliminations import highest
from fedbandits.rules.guarantees import (
    Assumption,
    Condition,
    Guarantee,
    ProofContext,
    bounds_needed,
)
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.radii.intervals import Intervals
from fedbandits.rules.radii.known import PhaseStatistics, need_horizon

Index: TypeAlias = Literal["moss", "ucb2", "ucb"]
"""How much an arm is given beyond its estimate, from the least to the most."""

Commit: TypeAlias = Literal["index", "certified"]
"""When an index rule stops asking: when its indices would not change its mind, or by a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRadius(Intervals):
    r"""Width of an index, :math:`b_k = \sqrt{2 v_k L_k}`.

    With :math:`N_k = \sigma^2 / v_k`, the pulls that an estimate is worth, and :math:`n = M T`, all
    pulls that the M clients make,

    * ``ucb``: :math:`L_k = \log T`;
    * ``ucb2``: :math:`L_k = 1 + \log^+(n / N_k)`;
    * ``moss``: :math:`L_k = 1 + \log^+(n / (K N_k))`.

    The leader, the arm with the best estimate, is committed to when its lower end is above every
    other index: :math:`m_l - \sqrt{2 w_l L_l} > m_k + b_k` where :math:`w_l` is the part of
    :math:`v_l` that more pulls by the same clients would remove. From then on the rule would not
    choose another arm unless the leader's pulls deviate by more than that.

    Guarantee: none of the commitment, which is as good as the index; see the page on index rules.
    With ``commit = "certified"`` the leader must pass a sequential test against every other arm
    (`test_widths`), and the best arm is missed with probability at most δ. If all clients play from
    the start, σ may be a bound; nothing is committed to while an arm was not pulled equally often
    by all of them. If clients join, σ and σ_c must be exactly those of normal laws.

    Parameters
    ----------
    index : {"moss", "ucb2", "ucb"}
        Which.
    noise : float
        σ.
    commit : {"index", "certified"}
        When the rule stops asking.
    delta : number or expression in T
        δ, of a certified commitment.
    first_variance : float
        The variance proxy of an estimate after the first phase, at which a confidence sequence is
        about the narrowest.
    joining : bool
        Whether clients may join later; for a certified commitment.

    References
    ----------
    Auer, Cesa-Bianchi and Fischer (2002), "Finite-time analysis of the multiarmed bandit problem",
    for UCB2. Audibert and Bubeck (2009), "Minimax policies for adversarial and stochastic bandits",
    for MOSS. Robbins (1970), "Statistical methods related to the law of the iterated logarithm",
    for the confidence sequence.

    Examples
    --------
    >>> from fedbandits.rules.radii.known import example_statistics
    >>> known = example_statistics()
    >>> for index in ("moss", "ucb2", "ucb"):
    ...     width = IndexRadius(index=index, noise=0.5).half_widths(known)
    ...     print(index, float(width.max().round(4)))
    moss 0.0087
    ucb2 0.0119
    ucb 0.0197
    """

    rule: ClassVar[str] = "index"
    outlives_withdrawals: ClassVar[bool] = True

    index: Index = "moss"
    noise: float
    commit: Commit = "index"
    delta: LevelLike = "1/T"
    first_variance: float = 1.0
    joining: bool = False

    def __post_init__(self) -> None:
        check_word(self.index, Index, "index")
        check_word(self.commit, Commit, "commit")
        as_level(self.delta)

    def check_horizon(self, horizon: int | None) -> None:
        """Refuse a game without a horizon, or one for which δ is not a level."""
        need_horizon(self.rule, horizon)
        as_level(self.delta).value(horizon)

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        needed = bounds_needed(context)
        if self.commit == "index":
            return Guarantee.nothing(
                "none for the option that it settles on: it stops asking when its index would not"
                " change its mind",
                *needed,
            )
        if context.epsilon > 0 or not (context.exact if self.joining else context.everyone):
            return Guarantee.nothing(
                "none: a certified commitment is to a single option, without a tolerance, by"
                " clients who all play from the start or whose law is known exactly",
                *needed,
            )
        last = Assumption.EXACTLY_NORMAL if self.joining else Assumption.INDEPENDENT_OPTIONS
        needed = (*needed, Condition(last))
        error = as_level(self.delta).value(context.horizon)
        return Guarantee(
            claim="settles on another option than the best with a probability of at most"
            f" {error:g}",
            error=error,
            conditions=needed,
        )

    def check_protected(self) -> None:
        """Refuse protected means in the test of a certified commitment."""
        if self.commit == "certified":
            raise InputError(
                "",
                'is not in the test of commit = "certified"; use commit = "index", or leave it out',
            )

    def logs(self, known: PhaseStatistics) -> FloatArray:
        r"""Return :math:`L_k`, shape (..., arms)."""
        horizon = known.log_horizon()
        if self.index == "ucb":
            return np.full(np.shape(known.estimate.variance), horizon)
        # An estimate is worth a pull at least.
        worth = np.maximum(self.noise**2 / np.maximum(known.estimate.variance, math.ulp(0.0)), 1.0)
        log = horizon + np.log(known.estimate.clients) - np.log(worth)
        if self.index == "moss":
            log = log - math.log(known.n_arms)
        return np.asarray(1.0 + np.maximum(log, 0.0))

    def half_widths(
        self, known: PhaseStatistics, of_leader: FloatArray | float = 0.0
    ) -> FloatArray:
        """Return how far an index is above its estimate; see `fedbandits.rules.radii.Radius`.

        Parameters
        ----------
        known : PhaseStatistics
            What was observed.
        of_leader : array, broadcast against the arms
            A variance of what the arms are compared with, which counts as their own.
        """
        return self._widths(known.estimate.variance + of_leader, known)

    def _widths(self, variance: FloatArray, known: PhaseStatistics) -> FloatArray:
        """Return widths for a variance proxy, with what protects the means of the arm itself.

        Arms are pulled as differently as their indices are, so that the worst protected one says
        nothing of the others.
        """
        distortion = known.estimate.distortion
        widths = sub_gamma_width(variance + distortion.variance, distortion.scale, self.logs(known))
        bias = distortion.bias
        return np.asarray(widths + (np.maximum(widths, bias) if distortion.doubled else bias))

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the leader alone if the rule has committed to it, otherwise all arms."""
        estimate, first = known.estimate, highest(known.estimate.values, known.active)
        if self.commit == "certified":
            of_leader = np.where(first, estimate.variance, 0.0).max(axis=-1, keepdims=True)
            up, down = self.test_widths(known, of_leader), np.zeros(1)
            if not self.joining:
                even = (estimate.even | ~known.active).all(axis=-1, keepdims=True)
                up = np.where(even, up, np.inf)
        else:
            up, down = self.half_widths(known), self._widths(estimate.pull_variance, known)
        low = np.where(first, estimate.values - down, -np.inf).max(axis=-1, keepdims=True)
        rivals = known.active & ~first
        sure = np.where(rivals, estimate.values + up < low, True).all(axis=-1, keepdims=True)
        return np.asarray(np.where(sure, first, known.active))

    def test_widths(self, known: PhaseStatistics, of_leader: FloatArray) -> FloatArray:
        r"""Return how far behind the leader an arm must be for a certified commitment.

        :math:`\sqrt{(u_k + u_l) \left(2 \log\frac{K - 1}{\delta} + \log(1 + w_1/v_k)
        + \log(1 + w_1/v_l)\right)}` with :math:`u = v (1 + v/w_1)`: two of Robbins's normal
        mixtures, multiplied.

        Parameters
        ----------
        known : PhaseStatistics
            What was observed.
        of_leader : array, broadcast against the arms
            The variance of the leader's estimate.
        """
        level = as_level(self.delta).value(known.horizon) / max(known.n_arms - 1, 1)
        total, log = np.zeros(()), np.asarray(-2.0 * math.log(level))
        for variance in (known.estimate.variance, of_leader):
            ratio = variance / self.first_variance
            total = total + variance * (1.0 + ratio)
            log = log + np.log1p(1.0 / np.maximum(ratio, math.ulp(0.0)))
        return np.asarray(np.sqrt(total * log))
