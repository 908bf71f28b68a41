"""Improved UCB: the single-player algorithm that the paper cites as its baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from fedbandits.errors import InputError
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phase_numbers import FirstThen
from fedbandits.rules.phased import Charge, PhasedRule, Player
from fedbandits.rules.radii import ImprovedUcbRadius


def phases(horizon: int) -> int:
    r"""Return how many phases there are: m = 0, …, ⌊½ log₂(T/e)⌋.

    Examples
    --------
    >>> phases(10**6)
    10
    """
    return math.floor(0.5 * math.log2(horizon / math.e)) + 1


@dataclass(frozen=True, slots=True)
class ImprovedUcbPulls:
    r"""f(p) of improved UCB: what is missing to the pulls that resolve the present guess.

    Phase p = m + 1 brings every active arm to
    :math:`n_m = \lceil 2 \log(T \tilde\Delta_m^2) / \tilde\Delta_m^2 \rceil` pulls in all, with
    :math:`\tilde\Delta_m = 2^{-m}`, scaled by (2σ)² for noise other than σ = 1/2. Every phase pulls
    at least once.

    Examples
    --------
    >>> ImprovedUcbPulls(horizon=10**6, noise=0.5)(1)
    28
    """

    horizon: int
    noise: float

    def __call__(self, phase: int) -> int:
        """Return f(p)."""
        total, previous = 0, 0
        for m in range(phase):
            log = math.log(self.horizon) - 2 * m * math.log(2)
            target = math.ceil((2 * self.noise) ** 2 * 2 * log * 4**m)
            total, previous = max(target, total + 1), total
        return total - previous


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovedUcb(Algorithm):
    """Improved UCB by one hypothetical player who observes the global model.

    It halves its guess of the gap in every phase and brings every active arm to the pulls that
    resolve it. After the last phase the best estimate is played on.

    References
    ----------
    Auer and Ortner (2010), "UCB revisited: improved regret bounds for the stochastic multi-armed
    bandit problem", Periodica Mathematica Hungarica 61, figure 1.
    """

    name: ClassVar[str] = "improved-ucb"
    uses_cost: ClassVar[bool] = False

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        horizon = beliefs.horizon_for(self.name)
        noise = beliefs.noise_for(self.name)
        if horizon < 3:
            raise InputError("horizon", f"{horizon} slots; improved-ucb needs at least 3")
        return PhasedRule.of(
            replace(beliefs, spread=0.0, population=1, bounded=False, weighted=False),
            pulls=ImprovedUcbPulls(horizon, noise),
            admissions=FirstThen(1),
            radius=ImprovedUcbRadius(),
            player=Player.SERVER,
            charge=Charge.NOTHING,
            last_phase=phases(horizon),
        )
