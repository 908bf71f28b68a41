"""The question that a plan answers: which game, and how sure the answer must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.errors import LARGEST, InputError, check_count, check_not_negative, check_number
from fedbandits.experiments.describe import describe_privacy
from fedbandits.planning.protection import fewest_pulls
from fedbandits.privacy.policy import Privacy
from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Gaussian
from fedbandits.problems.problem import checked_means
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.estimators import Trimmed
from fedbandits.rules.phased import LONGEST_HORIZON, Weights
from fedbandits.rules.radii import CertifiedRadius

MOST_ARMS = 2000
MOST_CLIENTS = 10**9
MOST_LISTED = 10**5
"""The most clients of games in which some may lie: every client is simulated, not cohorts."""
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
    privacy : Privacy, optional
        How clients protect the means that they send.
    liars : int or float
        How many clients may lie: a share, or a number of the population. With 0, clients are
        averaged; otherwise their trimmed mean is compared.

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
    privacy: Privacy | None = None
    liars: float = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", _as_means(self.means))
        _check_arms(len(self.means))
        checked_means(self.means, "means")
        if not self.gap >= _SMALLEST:
            raise InputError(
                "means",
                f"the best is {self.gap:g} above the next; a plan needs at least {_SMALLEST:g}",
            )
        check_not_negative(self.noise, "noise")
        check_not_negative(self.spread, "spread")
        check_not_negative(self.communication_cost, "cost")
        if not self.noise >= _SMALLEST:
            raise InputError("noise", f"{self.noise:g} is too small; give at least {_SMALLEST:g}")
        check_count(self.horizon, "horizon", 2, optional=True)
        check_count(self.population, "clients", optional=True)
        if (self.population or 1) > MOST_CLIENTS:
            raise InputError("clients", f"{self.population:,}; a plan has {MOST_CLIENTS:,} at most")
        check_number(self.delta, "delta")
        if not 0.0 < self.delta < 1.0:
            raise InputError("delta", f"{self.delta:g} is not an error probability: 0 < δ < 1")
        if self.privacy is not None:
            self._check_privacy(self.privacy)
        self._check_liars()

    def _check_privacy(self, privacy: Privacy) -> None:
        if not isinstance(privacy, Privacy):
            example = "Privacy(range=(0, 1), quantize=Quantize())"
            raise InputError("privacy", f"{privacy!r} is not a policy such as {example}")
        low, high = privacy.range
        # The hardest case has a gap and no level, so its means may be moved anywhere.
        means = () if self.least_favourable else self.means
        problems = [f"does not hold a mean of {x:g}" for x in means if not low <= x <= high]
        if self.gap > privacy.length:
            problems.append(f"is narrower than the gap of {self.gap:g}")
        if problems:
            raise InputError("privacy.range", f"[{low:g}, {high:g}] {problems[0]}; widen it")
        fewest_pulls(privacy, self.n_arms)  # refuses a budget that allows no release

    def _check_liars(self) -> None:
        Trimmed(liars=self.liars)  # refuses what is neither a share nor a number
        if self.liars and self.privacy is not None:
            raise InputError(
                "liars",
                "no plan is made for protected means of clients that may lie, though some rules"
                " allow for both; leave out one of liars and privacy",
            )
        if self.liars < 1:
            return
        if self.population is None:
            raise InputError(
                "liars",
                f"{self.liars:g} is a number of clients, and how many there are is not given; give"
                " a share, such as 0.1, or the number of clients",
            )
        if 2 * self.liars >= self.population:
            raise InputError(
                "liars",
                f"{self.liars:g} of {self.population:,} clients are half of them or more; an answer"
                " takes more honest clients than liars",
            )

    @property
    def share_of_liars(self) -> float:
        """Which share of all clients may lie."""
        return self.liars / self.population if self.liars >= 1 and self.population else self.liars

    @property
    def fewest_pulls(self) -> int:
        """The fewest pulls of an arm in a phase."""
        return fewest_pulls(self.privacy, self.n_arms)

    @property
    def most_releases(self) -> int | None:
        """After how many phases the clients' privacy budget is spent; None is never."""
        return None if self.privacy is None else self.privacy.releases

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
        """The largest number of slots."""
        return LONGEST_HORIZON if self.horizon is None else self.horizon

    @property
    def most_pulls(self) -> int:
        """How many pulls of each arm the slots hold."""
        return self.slots // self.n_arms

    @property
    def most_clients(self) -> int:
        """The largest number of clients that a plan considers."""
        most = MOST_LISTED if self.liars else MOST_CLIENTS
        return min(self.population or most, most)

    @property
    def radius(self) -> CertifiedRadius:
        """The rule that carries δ."""
        return CertifiedRadius(delta=self.delta)

    @property
    def weights(self) -> Weights:
        """How clients are averaged: in a finite population, or if some may lie, all count alike."""
        return "equal" if self.liars or self.population is not None else "inverse-variance"

    @property
    def beliefs(self) -> Beliefs:
        """What a rule is told; it plays until it decides."""
        return Beliefs(
            n_arms=self.n_arms,
            horizon=None,
            noise=self.noise,
            spread=self.spread,
            population=self.population,
        )

    def problem(self, name: str = "plan") -> Approximate:
        """Return the game; its name selects the random streams."""
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
            "privacy": None if self.privacy is None else describe_privacy(self.privacy),
            "liars": self.liars or None,
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
    _check_arms(n_arms)
    if not _SMALLEST <= gap <= LARGEST:
        raise InputError("gap", f"{gap:g} is not a difference from {_SMALLEST:g} to {LARGEST:g}")
    return Question(means=(gap, *[0.0] * (n_arms - 1)), least_favourable=True, **others)


def _check_arms(n_arms: int) -> None:
    if not 2 <= n_arms <= MOST_ARMS:
        raise InputError("arms", f"{n_arms}; a comparison has 2 to {MOST_ARMS:,}")


def _as_means(means: Sequence[float] | FloatArray) -> tuple[float, ...]:
    """Return means as plain numbers; refuse anything else.

    Examples
    --------
    >>> _as_means([0.7, "x"])
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: means[1]: 'x' is not a number such as 0.5
    """
    if isinstance(means, str) or not isinstance(means, Sequence | np.ndarray):
        raise InputError("means", f"{means!r} is not a list of numbers such as [0.7, 0.75]")
    for arm, mean in enumerate(means):
        check_number(mean, f"means[{arm}]")
    return tuple(float(mean) for mean in means)
