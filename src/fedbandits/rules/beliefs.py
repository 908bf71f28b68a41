"""What a rule is told about the game before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fedbandits.errors import InputError, check_count, check_not_negative, check_word
from fedbandits.rules.variance_components import FEWEST_TO_ESTIMATE

Goal: TypeAlias = Literal["max", "min"]
"""Whether the best arm has the highest or the lowest mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """What an algorithm is told about the game before it starts; it may differ from the truth.

    Parameters
    ----------
    n_arms : int
        K.
    horizon : int, optional
        T; None where the game is only to be decided, with error probability δ.
    noise, spread : float or None
        σ and σ_c, as bounds: subgaussian variance proxies. None where they are not known, and are
        to be estimated from the clients' statistics; both None for a radius that uses neither.
    population : int, optional
        How many clients exist at all, N; None is unlimited. Where some of them are asked before
        the others, the widths rest on what ``bounded`` says of the N local means.
    cost : float
        C: what a report of one client costs, in units of the outcome.
    goal : {"max", "min"}
        Whether the best arm has the highest or the lowest mean.
    min_clients : int
        With fewer clients nothing is estimated, and nothing decided.
    weighted : bool
        Whether the answer is for all clients that exist, each counted by a weight of its own. The
        weights themselves are given to the code that drives the rule.
    bounded : bool
        Whether σ_c is half the range of the local means, of which nothing else is known: with a
        finite population that needs no more. Without it the N local means must themselves be like
        draws from a law with spread σ_c. Their standard deviation is not enough: of 3,000 clients
        who all have 0 but for one who has 1, hardly any sample shows that one.
    exact : bool
        Whether noise and spread are not bounds but the standard deviations themselves, of normal
        laws, with arms of a client that are independent of each other.
    """

    n_arms: int
    horizon: int | None
    noise: float | None
    spread: float | None
    population: int | None = None
    cost: float = 1.0
    goal: Goal = "max"
    min_clients: int = FEWEST_TO_ESTIMATE
    weighted: bool = False
    bounded: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        for name in ("noise", "spread", "cost"):
            value = getattr(self, name)
            if value is not None:
                check_not_negative(value, name)
        for name, least in (("n_arms", 2), ("horizon", 1), ("population", 1), ("min_clients", 2)):
            value = getattr(self, name)
            check_count(value, name, least, optional=name in ("horizon", "population"))
            if value is not None:
                object.__setattr__(self, name, int(value))  # a NumPy integer would overflow
        check_word(self.goal, Goal, "goal")

    def horizon_for(self, algorithm: str) -> int:
        """Return T, which an algorithm needs."""
        if self.horizon is None:
            raise InputError(
                "horizon",
                f"is missing, and {algorithm} needs one; without it use fed2-ucb or "
                'fed1-ucb with radius = { rule = "certified", delta = 0.05 }',
            )
        return self.horizon

    def noise_for(self, algorithm: str) -> float:
        """Return σ, which an algorithm needs."""
        return _given(self.noise, "noise", algorithm)

    def spread_for(self, algorithm: str) -> float:
        """Return σ_c, which an algorithm needs."""
        return _given(self.spread, "spread", algorithm)


def _given(value: float | None, name: str, algorithm: str) -> float:
    """Return σ or σ_c for an algorithm that needs it."""
    if value is None:
        raise InputError(
            f"assume.{name}",
            f'"estimate" is not for {algorithm}, which must know it from the start; give a number',
        )
    return value
