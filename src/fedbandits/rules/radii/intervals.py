"""Radii of intervals: an arm is dropped when its interval lies below another's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.errors import check_not_negative
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.eliminations import eliminate, widest_margins
from fedbandits.rules.guarantees import (
    Assumption,
    Condition,
    Guarantee,
    ProofContext,
    bounds_needed,
)
from fedbandits.rules.radii.known import PhaseStatistics, RadiusOfAverages, unbiased_width


class Intervals(RadiusOfAverages):
    """Rules that drop an arm when its interval lies below another's: Algorithm 2, line 6."""

    __slots__ = ()

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the arms whose upper end is above every lower end."""
        return eliminate(known.estimate.values, self.half_widths(known), known.active)

    def margins(self, known: PhaseStatistics) -> FloatArray:
        """Return the sum of an arm's half-width and the widest of the others."""
        widths = np.broadcast_to(self.half_widths(known), known.estimate.values.shape)
        return widest_margins(lambda arm: widths + widths[..., arm, np.newaxis], known.active)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRadius(Intervals):
    r"""Width of the paper's double confidence bound, :math:`B_{p,2}`.

    :math:`B_p = \sqrt{a\,\sigma^2 \eta_p \log T} + \sqrt{b\,\sigma_c^2 \log T / M(p)}`: the first
    term is what too few pulls leave open, the second what too few clients do. Without
    client-sampling variance the second vanishes and this is :math:`B_{p,1}` of Fed1-UCB.

    Guarantee: with the constants 6, the regret bounds of Theorems 2 and 3, for plain averages and
    any dependence between arms.

    Derivation: given the local means, the average of pulls is subgaussian with proxy
    :math:`\sigma^2 \eta_p` around the average of local means, and that with proxy
    :math:`\sigma_c^2 / M` around the global mean. Each is off by more than its term with
    probability at most :math:`2 \exp(-3 \log T) = 2 T^{-3}`, and the sum of the two by more than
    the sum of the terms with at most :math:`4 T^{-3}`.

    Parameters
    ----------
    arm, client : float, default 6.0
        Constants a and b. 6 carries the proofs of Theorems 2 and 3; smaller values, such as those
        of the authors' released scripts, eliminate sooner and lose them.

    References
    ----------
    Shi and Shen (2021), "Federated Multi-Armed Bandits", AAAI: the definition of :math:`B_{p,2}`.

    Examples
    --------
    >>> from fedbandits.rules.radii.known import example_statistics
    >>> float(PaperRadius().half_widths(example_statistics()).round(4))
    0.047
    """

    rule: ClassVar[str] = "paper"
    known_before: ClassVar[bool] = True

    arm: float = 6.0
    client: float = 6.0

    def __post_init__(self) -> None:
        for name in ("arm", "client"):
            check_not_negative(getattr(self, name), name)

    @property
    def constants(self) -> tuple[float, float]:
        """The constants of arms and clients."""
        return self.arm, self.client

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return the half-width; see `Radius`."""
        log = known.log_horizon()
        # A constant a stands for L = a/2 log T: what protects the means is bounded with the pulls.
        arms = unbiased_width(known.estimate.pull_variance, self.arm / 2.0 * log, known)
        return known.widened(arms + np.sqrt(self.client * log * known.estimate.client_variance))

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        small = [] if self.arm >= 6 else [f"{self.arm:g} for arms"]
        small += [] if self.client >= 6 or context.everyone else [f"{self.client:g} for clients"]
        few = f"its constants are below 6, which the paper's proofs need ({', '.join(small)})"
        obstacles = {
            "the paper's proofs are about plain averages": not context.plain,
            few: bool(small),
        }
        return _regret_bounds("the regret bounds of Theorems 2 and 3", context, obstacles)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRadius(Intervals):
    r"""One root instead of two: :math:`B_p = \sqrt{6\,v \log T}`, v the proxy of both parts.

    Guarantee: that of the paper's radius, with intervals up to √2 narrower.

    Derivation: a v-subgaussian estimate leaves its interval with probability at most
    :math:`2 \exp(-B^2 / (2v)) = 2 T^{-3}`, which is what the proofs of Theorems 2 and 3 use of
    :math:`B_p`; and :math:`\sqrt{x + y} \le \sqrt{x} + \sqrt{y}`. Any dependence between arms.

    Examples
    --------
    >>> from fedbandits.rules.radii.known import example_statistics
    >>> float(JointRadius().half_widths(example_statistics()).round(4))
    0.0341
    """

    rule: ClassVar[str] = "joint"
    known_before: ClassVar[bool] = True

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return the half-width; see `Radius`."""
        return known.widened(
            unbiased_width(known.estimate.variance, 3.0 * known.log_horizon(), known)
        )

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        weighted = "the paper's proofs are not about clients with weights of their own"
        claim = "the paper's regret bounds, with narrower intervals"
        return _regret_bounds(claim, context, {weighted: context.shares})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovedUcbRadius(Intervals):
    r"""Width of improved UCB, :math:`\sqrt{2\,\sigma^2 \log(T \tilde\Delta_m^2) / n_m}`.

    With :math:`\tilde\Delta_m = 2^{-m}` in the m-th phase, m from 0. Auer and Ortner state it for
    rewards in [0, 1] as :math:`\sqrt{\log(T \tilde\Delta_m^2) / (2 n_m)}`, which is σ = 1/2 here.
    A single player has no client variance.

    References
    ----------
    Auer and Ortner (2010), "UCB revisited", Periodica Mathematica Hungarica 61, figure 1.
    """

    rule: ClassVar[str] = "improved-ucb"

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return the half-width; see `Radius`."""
        log = known.log_horizon() - 2.0 * (np.asarray(known.phase) - 1) * math.log(2.0)
        return np.asarray(np.sqrt(2.0 * np.maximum(log, 0.0) * known.estimate.pull_variance))

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        if not context.one_player:
            return Guarantee.nothing(
                "none: the proof of Auer and Ortner (2010) is about one player, who sends nothing",
                *bounds_needed(context),
            )
        claim = "the regret bound of Auer and Ortner (2010), for one player"
        return Guarantee(claim=claim, conditions=bounds_needed(context))


def _regret_bounds(claim: str, context: ProofContext, obstacles: dict[str, bool]) -> Guarantee:
    """Return the promise of Theorems 2 and 3, unless one of these obstacles is there.

    A tolerance is another: what it loses would grow with T.
    """
    needed = bounds_needed(context)
    single = "the paper's regret bounds are about one option that is left, without a tolerance"
    for obstacle, there in {**obstacles, single: context.epsilon > 0}.items():
        if there:
            return Guarantee.nothing(f"none: {obstacle}", *needed)
    conditions = (*needed, Condition(Assumption.SINGLE_BEST))
    return Guarantee(claim=claim, conditions=conditions, regret=True)
