"""What is asked of a plan: the game in mind, and how sure the answer has to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.errors import InputError, check_not_negative, check_number
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Gaussian
from fedbandits.problems.problem import checked_means
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.phased import LONGEST_HORIZON, Weights
from fedbandits.rules.radii import CertifiedRadius

MOST_ARMS = 2000
MOST_CLIENTS = 10**9
_SMALLEST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The game that is planned for.

    Parameters
    ----------
    means : tuple of float
        Global means, the best one above all others.
    noise, spread : float
        σ and σ_c, as true bounds.
    population : int, optional
        N, if the answer is for these clients alone; None is unlimited.
    communication_cost : float
        C.
    delta : float
        δ, the error probability.
    horizon : int, optional
        T; without one the game ends with the decision.
    least_favourable : bool
        Whether the means are the hardest ones that a gap allows.

    Examples
    --------
    >>> question = least_favourable(n_arms=3, gap=0.02, noise=0.5, spread=0.02, delta=0.05)
    >>> question.means, question.gap
    ((0.02, 0.0, 0.0), 0.02)
    """

    means: tuple[float, ...]
    noise: float
    spread: float
    population: int | None = None
    communication_cost: float = 1.0
    delta: float = 0.05
    horizon: int | None = None
    least_favourable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", as_means(self.means))
        if not 2 <= len(self.means) <= MOST_ARMS:
            raise InputError(
                "arms", f"{len(self.means)} arms; a comparison has 2, and {MOST_ARMS:,} at most"
            )
        checked_means(self.means, "means")
        above = self.gap
        if not above >= _SMALLEST:
            raise InputError(
                "means",
                f"the best is {above:g} above the next, and a plan needs a gap of at least "
                f"{_SMALLEST:g}; which of two equal arms is best cannot be found out",
            )
        check_not_negative(self.noise, "noise")
        check_not_negative(self.spread, "spread")
        if not self.noise >= _SMALLEST:
            raise InputError(
                "noise", f"{self.noise:g} is too small; observations scatter: give {_SMALLEST:g}"
            )
        check_not_negative(self.communication_cost, "cost")
        for name, value in (("clients", self.population), ("horizon", self.horizon)):
            if value is not None:
                check_number(value, name, whole=True)
        check_number(self.delta, "delta")
        if self.population is not None and not 1 <= self.population <= MOST_CLIENTS:
            raise InputError(
                "clients", f"{self.population} clients; there are 1, and {MOST_CLIENTS:,} at most"
            )
        if not 0.0 < self.delta < 1.0:
            raise InputError("delta", f"{self.delta:g} is not an error probability: 0 < δ < 1")
        if self.horizon is not None and not 2 <= self.horizon <= LONGEST_HORIZON:
            raise InputError("horizon", f"{self.horizon} slots; it must be from 2 to 10^15")

    @property
    def n_arms(self) -> int:
        """K."""
        return len(self.means)

    @property
    def gaps(self) -> FloatArray:
        """How far every arm is below the best one, shape (arms,)."""
        means = np.array(self.means)
        return np.asarray(means.max() - means)

    @property
    def gap(self) -> float:
        """Δ, from the best mean to the next."""
        first, second = sorted(self.means, reverse=True)[:2]
        return first - second

    @property
    def slots(self) -> int:
        """How many slots there are at most."""
        return LONGEST_HORIZON if self.horizon is None else self.horizon

    @property
    def radius(self) -> CertifiedRadius:
        """The rule that carries δ."""
        return CertifiedRadius(delta=self.delta)

    @property
    def weights(self) -> Weights:
        """How clients are averaged: in a finite population each counts the same."""
        return "inverse-variance" if self.population is None else "equal"

    def problem(self, name: str = "plan") -> Approximate:
        """Return the game, under the name that its random streams have."""
        return Approximate(
            means=self.means,
            noise=Gaussian(self.noise),
            spread=Gaussian(self.spread),
            population=self.population,
            name=name,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "arms": self.n_arms,
            "gap": self.gap,
            "means": list(self.means),
            "least_favourable": self.least_favourable,
            "noise": self.noise,
            "spread": self.spread,
            "clients": self.population,
            "communication_cost": self.communication_cost,
            "delta": self.delta,
            "horizon": self.horizon,
        }


def least_favourable(*, n_arms: int, gap: float, **others: Any) -> Question:
    """Return the hardest game that a gap allows: all other arms exactly that far below the best.

    Parameters
    ----------
    n_arms : int
        K.
    gap : float
        Δ, the smallest difference that matters.
    **others
        As in `Question`.
    """
    check_number(n_arms, "arms", whole=True)
    check_number(gap, "gap")
    if not 2 <= n_arms <= MOST_ARMS:
        raise InputError("arms", f"{n_arms} arms; a comparison has 2, and {MOST_ARMS:,} at most")
    if not (math.isfinite(gap) and gap >= _SMALLEST):
        raise InputError("gap", f"{gap:g} is not a difference of at least {_SMALLEST:g}")
    check_not_negative(gap, "gap")
    means = (gap, *[0.0] * (n_arms - 1))
    return Question(means=means, least_favourable=True, **others)


def as_means(means: Sequence[float] | FloatArray) -> tuple[float, ...]:
    """Return means as plain numbers; refuse what are none.

    Examples
    --------
    >>> as_means([0.7, "x"])
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: means[1]: 'x' is not a number such as 0.5
    """
    if isinstance(means, str) or not isinstance(means, Sequence | np.ndarray):
        raise InputError("means", f"{means!r} is not a list of numbers such as [0.7, 0.75]")
    for arm, mean in enumerate(means):
        check_number(mean, f"means[{arm}]")
    return tuple(float(mean) for mean in means)


def with_means(means: Sequence[float], **others: Any) -> Question:
    """Return the game with these means.

    Examples
    --------
    >>> question = with_means([0.7, 0.75, 0.79], noise=0.5, spread=0.02)
    >>> round(question.gap, 3), question.least_favourable
    (0.04, False)
    """
    return Question(means=as_means(means), **others)
