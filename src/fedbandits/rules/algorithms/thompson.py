"""Thompson sampling by one hypothetical player who observes the global model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fedbandits.errors import InputError, check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.draws import SlotDraws
from fedbandits.rules.guarantees import Assumption, Condition, Guarantee
from fedbandits.rules.indices import BoundedSlotRule, SlotRule
from fedbandits.rules.phased import Player
from fedbandits.rules.radii.bounded import check_range

Posterior: TypeAlias = Literal["beta", "gaussian"]
"""What is believed of an arm's mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianThompsonRule(SlotRule):
    r"""Draws a mean for every arm from :math:`N(\bar x, \sigma^2 / n)` and pulls the highest.

    Parameters
    ----------
    **slots
        As in `fedbandits.rules.indices.SlotRule`.
    """

    randomised: ClassVar[bool] = True

    def guarantee(self) -> Guarantee:
        """Return what is proven about the option it ends on, nothing, and what it assumes."""
        return SlotRule.guarantee(self).requiring(Condition(Assumption.NOISE_BOUND))

    def index(
        self,
        reward_sums: FloatArray,
        counts: FloatArray,
        slot: int,
        draws: SlotDraws | None = None,
    ) -> FloatArray:
        """Return a draw for every arm; see `fedbandits.rules.indices.SlotRule`."""
        sums = reward_sums if self.goal == "max" else -reward_sums
        normals = _given(draws)(lambda rng, rows: rng.standard_normal(counts[rows].shape))
        return np.asarray(sums / counts + self.noise / np.sqrt(counts) * normals)


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaThompsonRule(BoundedSlotRule):
    """Draws a rate for every arm from Beta(1 + successes, 1 + failures) and pulls the highest.

    Parameters
    ----------
    **bounded
        As in `fedbandits.rules.indices.BoundedSlotRule`.
    """

    randomised: ClassVar[bool] = True

    def index(
        self,
        reward_sums: FloatArray,
        counts: FloatArray,
        slot: int,
        draws: SlotDraws | None = None,
    ) -> FloatArray:
        """Return a draw for every arm; see `fedbandits.rules.indices.SlotRule`."""
        rates = np.minimum(np.maximum(self.rates(reward_sums, counts), 0.0), 1.0)
        ones = rates * counts
        zeros = counts - ones
        return _given(draws)(lambda rng, rows: rng.beta(1.0 + ones[rows], 1.0 + zeros[rows]))


def _given(draws: SlotDraws | None) -> SlotDraws:
    if draws is None:
        raise TypeError("a randomised rule needs draws")
    return draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Thompson(Algorithm):
    r"""Thompson sampling at the server: a reference for rates, or for normal outcomes.

    Every arm is pulled once. Then a mean is drawn for each arm from what is believed of it, and the
    arm with the best draw is pulled.

    It assumes that outcomes are independent and that an arm stays as good as it is; with
    ``posterior = "beta"`` also that all outcomes lie in the range, with ``posterior = "gaussian"``
    that the noise is what it is told. It sees the outcome of every pull before it chooses the next,
    so clients would have to send each one to the server: it is a reference, not a federated
    algorithm (that is `fedbandits.FedTs`). It settles on no arm and promises no error probability.
    For outcomes of 0 and 1, and for normal ones of known variance, its regret grows as slowly as is
    possible (Lai and Robbins 1985).

    Parameters
    ----------
    posterior : {"beta", "gaussian"}
        What is believed of an arm with n outcomes. "beta": Beta(1 + S, 1 + n - S), S being the sum
        of outcomes that are rescaled to [0, 1]; exact for outcomes of 0 and 1 and a uniform prior,
        while others count as parts of a success. "gaussian": normal around their average with the
        variance :math:`\sigma^2 / n`, exact for normal noise and a flat prior.
    range : (float, float), optional
        [a, b], which contains every outcome, for "beta"; [0, 1] by default.

    References
    ----------
    Thompson (1933), Biometrika 25. Kaufmann, Korda and Munos (2012), "Thompson sampling: an
    asymptotically optimal finite-time analysis", ALT. Korda, Kaufmann and Munos (2013), "Thompson
    sampling for 1-dimensional exponential family bandits", NeurIPS.

    Examples
    --------
    >>> told = Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.1)
    >>> Thompson().rule(told).randomised, Thompson(posterior="gaussian").rule(told).noise
    (True, 0.5)
    """

    name: ClassVar[str] = "thompson"
    uses_cost: ClassVar[bool] = False

    posterior: Posterior = "beta"
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_word(self.posterior, Posterior, "posterior")
        if self.range is None:
            return
        if self.posterior == "gaussian":
            raise InputError("range", 'is for posterior = "beta"; leave it out')
        object.__setattr__(self, "range", check_range(self.range))

    def rule(self, beliefs: Beliefs) -> SlotRule:
        """Return the rule for a game, given what is believed about it."""
        if self.posterior == "gaussian":
            return GaussianThompsonRule.of(beliefs, self.name, clients=1, player=Player.SERVER)
        limits = (0.0, 1.0) if self.range is None else self.range
        return BetaThompsonRule.of(
            beliefs, self.name, clients=1, player=Player.SERVER, range=limits
        )
