"""Radii of differences: an arm is dropped when another is ahead by their common width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.eliminations import drop_beaten, widest_margins, with_best
from fedbandits.rules.guarantees import Guarantee, ProofContext, keeps_best, pairs_needed
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.radii.known import (
    Dependence,
    PhaseStatistics,
    RadiusOfAverages,
    shared_log,
    unbiased_width,
)

WidthsTo: TypeAlias = Callable[[int], FloatArray]
"""From an arm to the widths between it and every arm, shape (..., arms)."""


class Pairs(RadiusOfAverages):
    """Rules that compare two estimates: k is dropped when some l is ahead by their width."""

    __slots__ = ()

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return half the width between two arms with this arm's variance."""
        variance = self._variances(known)
        return self._width(known, variance, variance) / 2

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the arms that no other active arm is ahead of by their common width."""
        return drop_beaten(known.estimate.values, self._widths_to(known), known.active)

    def margins(self, known: PhaseStatistics) -> FloatArray:
        """Return the widest of the widths between an arm and the other active ones."""
        return widest_margins(self._widths_to(known), known.active)

    def _widths_to(self, known: PhaseStatistics) -> WidthsTo:
        """Return the widths between all pairs of arms.

        If all arms have the same variance there is one array for all of them, which makes
        comparing an arm with the best one enough.
        """
        variance = self._variances(known)
        if np.ndim(variance) == 0 or variance.shape[-1] == 1:
            width = self._width(known, variance, variance)
            common = np.broadcast_to(width, known.estimate.values.shape)
            return lambda _: common
        return lambda arm: self._width(known, variance, variance[..., arm, np.newaxis])

    def _variances(self, known: PhaseStatistics) -> FloatArray:
        return known.estimate.variance

    def _width(self, known: PhaseStatistics, one: FloatArray, other: FloatArray) -> FloatArray:
        raise self._unstated("_width", "how wide the difference of two variances is")


class _SubgaussianPairs(Pairs):
    """Comparisons by σ and σ_c, subgaussian proxies that the rule is told."""

    __slots__ = ()

    known_before: ClassVar[bool] = True
    takes_contrasts: ClassVar[bool] = True

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return half the width between two arms like this one."""
        if known.within_clients is None:
            return Pairs.half_widths(self, known)
        pairs, way = known.within_clients
        return pairs.widths(way, self.log_term(known), independent=self._independent) / 2

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the arms that no other is ahead of: the leader, if clients may lie."""
        means = known.estimate.client_means
        if known.within_clients is None or means is None:
            return Pairs.stays(self, known)
        (pairs, way), values = known.within_clients, known.estimate.values
        leads = pairs.leads(
            way, means, values, known.active, self.log_term(known), independent=self._independent
        )
        return with_best(known.active & ~(leads >= 0.0), values, known.active)

    @property
    def _independent(self) -> bool:
        return self.dependence == "independent"

    def log_term(self, known: PhaseStatistics) -> FloatArray:
        """Return L such that a comparison errs with probability at most exp(-L)."""
        raise self._unstated("log_term", "how rarely a comparison errs")

    def _width(self, known: PhaseStatistics, one: FloatArray, other: FloatArray) -> FloatArray:
        """Return the width for a pair of proxies: that of the difference, times 2L, rooted."""
        apart = one + other
        difference = apart if self._independent else (np.sqrt(one) + np.sqrt(other)) ** 2
        widths = unbiased_width(difference, self.log_term(known), known, estimates=2)
        return known.widened(widths, estimates=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseRadius(_SubgaussianPairs):
    r"""Differences instead of intervals: k is dropped when best − k ≥ :math:`\sqrt{12\,v \log T}`.

    Guarantee: a comparison errs with probability at most :math:`T^{-3}`, as one of the paper's
    intervals does, so that its regret bounds hold with narrower widths.

    Derivation: the difference of two independent estimates is subgaussian with proxy
    :math:`v_k + v_l`; ahead by :math:`\sqrt{2 (v_k + v_l) \cdot 3 \log T}` in the wrong direction
    has probability at most :math:`T^{-3}`. Two intervals of half-width :math:`\sqrt{6 v \log T}`
    ask for √2 times as much.

    Parameters
    ----------
    dependence : {"independent", "any"}
        Whether the arms of a client are independent. Under arbitrary dependence the difference has
        the proxy :math:`(\sqrt{v_k} + \sqrt{v_l})^2`, and nothing is gained over `JointRadius`.
        Positive correlation of Gaussian outcomes is safe as independent.

    Examples
    --------
    >>> from fedbandits.rules.radii.known import example_statistics
    >>> float(2 * PairwiseRadius().half_widths(example_statistics()).round(4))
    0.0482
    """

    rule: ClassVar[str] = "pairwise"
    options: ClassVar[tuple[str, ...]] = ("dependence",)

    dependence: Dependence = "independent"

    def log_term(self, known: PhaseStatistics) -> FloatArray:
        """Return 3 log T."""
        return np.asarray(3.0 * known.log_horizon())

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        return Guarantee(
            claim="a comparison errs with a probability of at most 1/T³",
            conditions=pairs_needed(context, self.dependence),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedRadius(_SubgaussianPairs):
    r"""Pairwise with a stated error probability δ over all phases, however many.

    k goes when best − k ≥ :math:`w_p = \sqrt{4\,v_p \ln((K-1)\,\pi^2 p^2 / (6\delta))}`.

    Guarantee: P(the best arm is ever dropped) ≤ δ, for any number of phases, horizon or not. δ =
    1/T keeps the term of the regret that failures cause below (1 + C) · clients if no gap is above
    1, and below (Δ_max + C) · clients in general.

    Derivation: the best arm goes in phase p only if one of K − 1 rivals is ahead of it by
    :math:`w_p`. Their difference is subgaussian with proxy :math:`2 v_p` around a mean that is
    not positive, so each has probability at most :math:`\exp(-w_p^2 / (4 v_p)) = 6\delta /
    ((K-1) \pi^2 p^2)`; summed over rivals and phases, with :math:`\sum p^{-2} = \pi^2/6`, that is
    δ. It does not matter that data are reused and clients join, *if* f, g, admission and dropout
    do not depend on observations.

    Parameters
    ----------
    delta : number or expression in T
        δ, between 0 and 1; "1/T" by default.
    dependence : {"independent", "any"}
        As in `PairwiseRadius`: 8 instead of 4 under arbitrary dependence.

    Examples
    --------
    >>> from fedbandits.rules.radii.known import example_statistics
    >>> float(2 * CertifiedRadius(delta=0.05).half_widths(example_statistics()).round(4))
    0.0178
    """

    rule: ClassVar[str] = "certified"
    options: ClassVar[tuple[str, ...]] = ("delta", "dependence")
    outlives_withdrawals: ClassVar[bool] = True

    delta: LevelLike = "1/T"
    dependence: Dependence = "independent"

    def log_term(self, known: PhaseStatistics) -> FloatArray:
        """Return the logarithm, for δ shared out over rivals and phases."""
        return shared_log(known, as_level(self.delta).value(known.horizon))

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        return keeps_best(self.delta, context, *pairs_needed(context, self.dependence))
