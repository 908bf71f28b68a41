r"""Thompson sampling in batches: each phase pulls arms in proportion to their chances.

After a phase, arm k is believed to be normal around its estimate :math:`m_k` with the variance
:math:`v_k` of that. Many sets of means are drawn from that belief. An arm gets as large a share of
the next phase's pulls as the share of draws in which it is the best one. Phases grow, so that there
are about :math:`\log T` of them. An arm that no draw shows as the best gets the probability with
which it is believed to be better than the leader, if that is a pull or more of all clients' batch.

An arm that is the best in some draw, and whose variance is more for want of clients than of pulls,
asks for clients: as many join as there are already, as in `fedbandits.rules.index_rules`.

Nothing is proven about it here. Kalkanli and Özgür (2021), "Batched Thompson sampling", NeurIPS,
show for one player that of the order of log T batches are enough for a regret of that order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedbandits.errors import check_count, check_positive
from fedbandits.rules.adaptive import AdaptiveRule
from fedbandits.rules.algorithms.adaptive_algorithm import AdaptiveAlgorithm
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.eliminations import highest
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.guarantees import Guarantee
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.rules.radii.intervals import Intervals
from fedbandits.rules.radii.known import PhaseStatistics, need_horizon


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorRadius(Intervals):
    """When a belief is sure: another arm is better with at most this probability.

    Parameters
    ----------
    level : number or expression in T
        The probability.
    """

    rule: ClassVar[str] = "posterior"

    level: LevelLike

    def check_horizon(self, horizon: int | None) -> None:
        """Refuse a game without a horizon, or one for which the level is invalid."""
        need_horizon(self.rule, horizon)
        as_level(self.level).value(horizon)

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return by how much an arm exceeds its estimate with the probability of the level."""
        from scipy import special  # noqa: PLC0415 - slow to import, and rarely needed

        level = as_level(self.level).value(known.horizon)
        return np.asarray(-special.ndtri(level) * deviations(known.estimate))

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the leader alone if the belief is sure of it, otherwise all arms."""
        leader = highest(known.estimate.values, known.active)
        doubts = np.where(known.active & ~leader, better_than(known.estimate, leader), 0.0)
        sure = doubts.sum(axis=-1, keepdims=True) <= as_level(self.level).value(known.horizon)
        return np.where(sure, leader, known.active)


def deviations(estimate: Estimate) -> FloatArray:
    """Return the standard deviations of the beliefs about the arms."""
    return np.asarray(np.sqrt(estimate.variance + estimate.distortion.variance))


def better_than(estimate: Estimate, leader: BoolArray) -> FloatArray:
    """Return the believed probability that each arm is better than the leader."""
    from scipy import special  # noqa: PLC0415 - slow to import, and rarely needed

    values = estimate.values
    variance = np.broadcast_to(deviations(estimate) ** 2, values.shape)
    ahead, of_leader = (
        np.where(leader, each, 0.0).sum(axis=-1, keepdims=True) for each in (values, variance)
    )
    both = np.maximum(np.sqrt(variance + of_leader), math.ulp(0.0))
    return np.asarray(special.ndtr((values - ahead) / both))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThompsonRule(AdaptiveRule):
    """Pulls in proportion to how often an arm is the best in draws from the belief.

    Parameters
    ----------
    **adaptive
        As in `fedbandits.rules.adaptive.AdaptiveRule`, with a `PosteriorRadius`.
    samples : int
        How many draws.
    growth : float
        α: a phase makes so many times as many pulls as all phases before.
    admit_when : float
        An arm asks for clients when its client variance exceeds so many times its pull variance.
    """

    randomised: ClassVar[bool] = True

    samples: int = 100
    growth: float = 1.0
    admit_when: float = 1.0

    def guarantee(self) -> Guarantee:
        """Return what is proven about the option it settles on: nothing."""
        none = Guarantee.nothing(
            "none: nothing is proven about Thompson sampling in batches with several clients",
            *self.grounds(),
        )
        return replace(none, whom=self.whom)

    # Nothing is proven about intervals: pulls follow observations.
    interval_guarantee = PhasedRule.interval_guarantee

    def plan(self, state: State) -> PhasePlan:
        """Return who joins and what is pulled: see the module."""
        estimate = state.estimate
        if estimate is None:
            return PhasedRule.plan(self, state)
        if self.goal == "min":
            estimate = estimate.mirrored()
        seen = state.active & (estimate.pulls > 0)
        leader = highest(estimate.values, seen)
        so_far = estimate.pulls.sum(axis=-1, keepdims=True)
        shares = self._shares(state, estimate, seen)
        # Too rare for the draws to show, but not for a batch whose pulls are drawn one by one.
        rare = np.where(seen & ~leader, better_than(estimate, leader), 0.0)
        rare = np.where(self.growth * so_far * rare >= 1.0, rare, 0.0)
        shares = np.where(shares > 0, shares, rare)
        of_pulls = estimate.pull_variance + estimate.distortion.variance
        short = self.client_floor(state.clients) > self.admit_when * of_pulls
        asks = ((shares > 0) & ~leader & short).any(axis=-1)
        newcomers, capped = self.doubling(state, asks)
        joined = newcomers if state.joined is None else np.asarray(state.joined, dtype=np.int64)
        clients = (np.asarray(state.clients, dtype=np.int64) + joined)[..., np.newaxis]
        batch = np.minimum(
            self.growth * so_far / clients, np.asarray(state.slots_left)[..., np.newaxis]
        )
        pulls = np.ceil(shares * batch).astype(np.int64)
        pulls = np.where(state.active & ~seen, self.pulls(1), pulls)
        return PhasePlan(
            newcomers=newcomers, pulls=self.fitting(state, pulls, leader), capped=capped
        )

    def client_floor(self, clients: int | IntArray) -> FloatArray:
        """Return the client variance that is left when all admitted clients have pulled an arm."""
        factor = self.sampling.client_factor(np.maximum(clients, 1))
        return np.asarray((self.spread or 0.0) ** 2 * factor)[..., np.newaxis]

    def doubling(self, state: State, asks: np.bool_ | BoolArray) -> tuple[IntArray, BoolArray]:
        """Return as many newcomers as there are clients, if newcomers are asked for.

        Parameters
        ----------
        state : State
            With the clients that are in.
        asks : bool or array of bool, shape (...)
            Where more are asked for.

        Returns
        -------
        newcomers : array of int, shape (...)
            How many join.
        capped : array of bool, shape (...)
            Whether the cap has ever cut them short.
        """
        clients = np.asarray(state.clients, dtype=np.int64)
        capped = np.asarray(state.capped)
        wanted = np.where(asks & ~capped, clients, 0)
        for most in (self.population, self.most_clients):
            if most is not None:
                wanted = np.minimum(wanted, np.maximum(most - clients, 0))
        if self.max_clients is None:
            return wanted, capped
        room = self.max_clients - clients
        return np.minimum(wanted, room), np.asarray(capped | (wanted > room))

    def _shares(self, state: State, estimate: Estimate, seen: BoolArray) -> FloatArray:
        """Return the share of draws in which each arm is the best one."""
        normals = state.drawn(
            lambda rng, games: rng.standard_normal((games, self.samples, self.n_arms))
        )
        values = np.where(seen, estimate.values, -np.inf)[..., np.newaxis, :]
        drawn = values + deviations(estimate)[..., np.newaxis, :] * normals
        best: IntArray = drawn.argmax(axis=-1)
        won = best[..., np.newaxis] == np.arange(self.n_arms)
        return np.where(seen, won.mean(axis=-2), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedTs(AdaptiveAlgorithm):
    """Federated Thompson sampling in batches, for the exact and the approximate model.

    Parameters
    ----------
    growth : float
        α: a phase makes α times as many pulls as all phases before. A larger α saves rounds of
        communication and costs pulls.
    samples : int
        Draws from what is believed, before every phase. Fewer let chance decide more.
    first_pulls : int
        Pulls of every arm by all clients together in the first phase.
    initial_clients : int
        How many clients play the first phase at most; see `fedbandits.FedIndex`.
    admit_when : float
        An arm asks for clients when its client variance is above this many times its pull variance.
    commit : number or expression in T
        The rule stops asking when it believes that another arm is better with at most this
        probability; "1/T" by default. A larger one stops sooner and settles on a wrong arm more
        often, at a price that grows with T.

    Examples
    --------
    >>> rule = FedTs().rule(Beliefs(n_arms=10, horizon=10**6, noise=0.5, spread=0.02))
    >>> rule.admissions(1), rule.pulls(1), rule.randomised
    (16, 2, True)
    """

    name: ClassVar[str] = "fed-ts"
    uses_cost: ClassVar[bool] = False

    growth: float = 1.0
    admit_when: float = 1.0
    samples: int = 100
    commit: LevelLike = "1/T"

    def __post_init__(self) -> None:
        AdaptiveAlgorithm.__post_init__(self)
        for name in ("growth", "admit_when"):
            check_positive(getattr(self, name), name)
        check_count(self.samples, "samples")
        object.__setattr__(self, "commit", as_level(self.commit, "commit"))

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        beliefs.horizon_for(self.name)
        radius = PosteriorRadius(level=self.commit)
        return self._rule(
            beliefs,
            ThompsonRule,
            radius,
            samples=self.samples,
            growth=self.growth,
            admit_when=self.admit_when,
        )
