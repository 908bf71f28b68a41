"""KL-UCB by one hypothetical player who observes the global model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.errors import check_not_negative
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.draws import SlotDraws
from fedbandits.rules.indices import BoundedSlotRule
from fedbandits.rules.phased import Player
from fedbandits.rules.radii.bounded import check_range

# Rates are kept this far from 0 and 1, which moves an index by less than 1e-10.
_EDGE = 1e-12
_LEAST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class KlUcbRule(BoundedSlotRule):
    r"""Pulls the arm with the highest rate that its outcomes do not contradict.

    Every arm is pulled once. Then the index of an arm that was pulled n times with the average x
    is the largest q with :math:`n\,\mathrm{kl}(x, q) \le \log t + c \log\log t`, for outcomes
    rescaled to [0, 1].

    Parameters
    ----------
    **bounded
        As in `fedbandits.rules.indices.BoundedSlotRule`.
    loglog : float
        c.
    """

    loglog: float = 0.0

    def index(
        self,
        reward_sums: FloatArray,
        counts: FloatArray,
        slot: int,
        draws: SlotDraws | None = None,
    ) -> FloatArray:
        """Return the index of every arm, on [0, 1]; see `fedbandits.rules.indices.SlotRule`."""
        log = math.log(max(slot, 2))
        level = max(log + self.loglog * math.log(max(log, 1.0)), 0.0)
        return furthest_rate(self.rates(reward_sums, counts), level / counts)


def furthest_rate(rates: FloatArray, most: FloatArray) -> FloatArray:
    r"""Return the largest q with kl(rate, q) ≤ most; its distance from the rate is 0.02 % off.

    That is at most, if q is nearly 1; else it is right to six digits or more. A first guess is the
    root of :math:`(q - x)^2 = 2 m w (1 - w)`, with w on the way from the rate x to q: kl is the
    integral of :math:`(v - x) / (v (1 - v))`, whose centroid lies there. One step of Halley's
    method follows, for :math:`y = -\log(1 - q)`, in which kl is convex and nearly linear where q is
    near 1.

    Examples
    --------
    >>> furthest_rate(np.array([0.0, 0.02, 1.0]), np.array([0.1, 0.001, 0.5])).round(4)
    array([0.0952, 0.0269, 1.    ])
    """
    rates = np.minimum(np.maximum(rates, _EDGE), 1.0 - _EDGE)
    rest = 1.0 - rates
    # Two thirds of the way, and half of it if q is many times the rate.
    way = 2.0 / 3.0 - most / (6.0 * most + 24.0 * rates)
    linear = way * most
    square = 1.0 + 2.0 * (linear * way)
    linear *= rest - rates
    product = rates * rest
    product *= most
    product *= square
    product *= 2.0
    product += linear * linear
    guess = (linear + np.sqrt(product)) / square
    missing = rates * np.log(rates) + rest * np.log(rest) - most
    # 1 - q is no less than exp(missing / rest), because log q is at most 0.
    left = np.maximum(rest - guess, np.maximum(np.exp(missing / rest), _LEAST))
    y = np.log(left)
    q = 1.0 - left
    ahead = (q - rates) / q
    newton = (missing - rates * np.log(q) - rest * y) / ahead
    left *= rates
    left *= newton
    bend = left / (ahead * (q * q))
    y += newton / np.maximum(1.0 - 0.5 * bend, 0.5)
    return np.asarray(1.0 - np.exp(y))


@dataclass(frozen=True, slots=True, kw_only=True)
class KlUcb(Algorithm):
    r"""KL-UCB at the server: a reference for outcomes in a known range, such as successes.

    It assumes that all outcomes lie in the range, that they are independent, and that an arm stays
    as good as it is. It sees the outcome of every pull before it chooses the next, so clients would
    have to send each one to the server: it is a reference, not a federated algorithm. It settles on
    no arm and promises no error probability. For outcomes of 0 and 1 its regret grows like
    :math:`\sum_k \Delta_k / \mathrm{kl}(\mu_k, \mu_*) \log t`, the least that is possible (Lai and
    Robbins 1985), which the theorem proves for ``loglog = 3``.

    Parameters
    ----------
    range : (float, float)
        [a, b], which contains every outcome; [0, 1] by default.
    loglog : float
        c of the exploration :math:`\log t + c \log\log t`. The theorem has 3; the paper
        recommends 0, which is the default and explores less.

    References
    ----------
    Garivier and Cappé (2011), "The KL-UCB algorithm for bounded stochastic bandits and beyond",
    COLT.

    Examples
    --------
    >>> rule = KlUcb().rule(Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.1))
    >>> rule.index(np.array([8.0, 1.0]), np.array([10.0, 2.0]), slot=13).round(3)
    array([0.975, 0.98 ])
    """

    name: ClassVar[str] = "kl-ucb"
    uses_cost: ClassVar[bool] = False

    range: tuple[float, float] = (0.0, 1.0)
    loglog: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", check_range(self.range))
        check_not_negative(self.loglog, "loglog")

    def rule(self, beliefs: Beliefs) -> KlUcbRule:
        """Return the rule for a game, given what is believed about it."""
        return KlUcbRule.of(
            beliefs,
            self.name,
            clients=1,
            player=Player.SERVER,
            range=self.range,
            loglog=self.loglog,
        )
