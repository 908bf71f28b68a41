"""Rules that decide in every slot: an index for each arm, the highest one is pulled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.beliefs import Beliefs, Goal
from fedbandits.rules.draws import SlotDraws
from fedbandits.rules.guarantees import Assumption, Condition, Guarantee, within
from fedbandits.rules.phased import Player


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRule:
    r"""UCB1, for one player or for many that never communicate.

    Every arm is pulled once, then the arm with the highest
    :math:`\bar x_k + \sqrt{8 \sigma^2 \log t / n_k}` (the lowest index on ties), which for rewards
    in [0, 1], i.e. σ = 1/2, is the :math:`\sqrt{2 \log t / n_k}` of the original.

    Parameters
    ----------
    n_arms, horizon, noise, goal
        As in `fedbandits.rules.beliefs.Beliefs`.
    clients : int
        How many players there are.
    player : Player
        Whether they observe their own local models or the global one.

    References
    ----------
    Auer, Cesa-Bianchi and Fischer (2002), "Finite-time analysis of the multiarmed bandit problem".
    """

    decides_every_slot: ClassVar[Literal[True]] = True
    uses_noise: ClassVar[bool] = True
    """Whether its indices depend on σ."""
    randomised: ClassVar[bool] = False
    """Whether its indices are drawn at random."""

    n_arms: int
    horizon: int
    noise: float
    clients: int
    player: Player
    goal: Goal = "max"

    @classmethod
    def of(
        cls, beliefs: Beliefs, algorithm: str, *, clients: int, player: Player, **own: Any
    ) -> Self:
        """Return the rule of a game of which this is believed, for an algorithm of a name."""
        if beliefs.noise is None and not cls.uses_noise:
            unused = f'"estimate", and {algorithm} does not use it; leave it out'
            raise InputError("assume.noise", unused)
        return cls(
            n_arms=beliefs.n_arms,
            horizon=beliefs.horizon_for(algorithm),
            goal=beliefs.goal,
            noise=beliefs.noise_for(algorithm),
            clients=clients,
            player=player,
            **own,
        )

    def guarantee(self) -> Guarantee:
        """Return what is proven about the option it ends on: nothing."""
        return Guarantee.nothing(
            "none: it goes on choosing in every slot and settles on no option",
            Condition(Assumption.NO_DRIFT),
        )

    def index(
        self,
        reward_sums: FloatArray,
        counts: FloatArray,
        slot: int,
        draws: SlotDraws | None = None,
    ) -> FloatArray:
        """Return the index of every arm, shape (..., arms), when slot ``slot`` (from 1) begins.

        Parameters
        ----------
        reward_sums, counts : array, shape (..., arms)
            The sum of what was observed of each arm, and how often it was pulled.
        slot : int
            From 1.
        draws : callable, optional
            What a randomised rule draws from in this slot.
        """
        log = np.log(max(slot, 1))
        sums = reward_sums if self.goal == "max" else -reward_sums
        return np.asarray(sums / counts + np.sqrt(8.0 * self.noise**2 * log / counts))

    def choose(
        self,
        reward_sums: FloatArray,
        counts: FloatArray,
        slot: int,
        draws: SlotDraws | None = None,
    ) -> IntArray:
        """Return the arm that slot ``slot`` (from 1) pulls, shape (...).

        Examples
        --------
        >>> rule = SlotRule(n_arms=2, horizon=100, noise=0.5, clients=1, player=Player.SERVER)
        >>> int(rule.choose(np.array([3.0, 1.0]), np.array([5.0, 1.0]), slot=7))
        1
        """
        if slot <= self.n_arms:
            return np.full(counts.shape[:-1], slot - 1)
        return np.asarray(self.index(reward_sums, counts, slot, draws).argmax(axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedSlotRule(SlotRule):
    """A slot rule for outcomes in a known range.

    Parameters
    ----------
    **slots
        As in `SlotRule`; σ is not used.
    range : (float, float)
        [a, b], which contains every outcome.
    """

    uses_noise: ClassVar[bool] = False

    range: tuple[float, float] = (0.0, 1.0)

    def guarantee(self) -> Guarantee:
        """Return what is proven about the option it ends on, nothing, and what it assumes."""
        return SlotRule.guarantee(self).requiring(within(self.range))

    def rates(self, reward_sums: FloatArray, counts: FloatArray) -> FloatArray:
        """Return the averages of outcomes that are rescaled to [0, 1], 1 being the best.

        If outcomes lie outside the range, so may these.
        """
        means, (low, high) = reward_sums / counts, self.range
        if self.goal == "min":
            return np.asarray((high - means) / (high - low))
        return means if self.range == (0.0, 1.0) else np.asarray((means - low) / (high - low))
