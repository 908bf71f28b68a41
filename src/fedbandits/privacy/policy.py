r"""What a client may send, and at what price: a privacy policy.

The same policy is held by clients, which obey it, and by the server or the simulator, which widens
the rule's widths by exactly what it costs. Observations lie in a declared range [a, b]; what lies
outside is clipped. What is released is the mean of the *fresh* pulls of a phase, never a running
mean, so that an observation enters one release only.

A release of K' means of n pulls each changes by at most Δ if

* one observation changes (event level): Δ = (b − a)/n, in one mean;
* c observations of one person do: Δ = c (b − a)/n, at worst all in one mean of one phase;
* a whole client does (user level): √K' (b − a) in Euclidean, K' (b − a) in absolute distance. Noise
  is scaled for all K arms, whatever is left of them.

Over phases events and persons spend the most that any one release does, because their observations
are not in the others, or are so many fewer; of a user all releases add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from fedbandits.errors import (
    LARGEST,
    InputError,
    check_count,
    check_positive,
    check_word,
    is_number,
)
from fedbandits.privacy.accounting import Spending, check_delta, laplace_epsilon_for, rho_of
from fedbandits.privacy.mechanisms import PLACES_PER_SCALE, Mechanism, Noised, Rounded, Rounding
from fedbandits.privacy.sampling import NoiseKind
from fedbandits.rules.radii.bounded import check_range

PrivacyLevel: TypeAlias = Literal["event", "person", "user"]
"""Who is protected: one observation, a person with a few, or all that a client has."""

Bits: TypeAlias = int | Literal["radius"]
"""Bits of a mean, or so many in each phase that rounding errs by no more than the radius."""

Widening: TypeAlias = Literal["exact", "paper"]
"""Widths are widened by what rounding costs, or doubled as in the paper."""

FEWEST_PULLS = 10
"""Pulls behind a released mean, at least, by default: a mean of one pull is the observation."""

# Rounding to a grid, and summing up in floating point, may move a mean by this many steps of the
# noise's grid beyond what changed observations do.
_STEPS_ASIDE = 2.0

# There is no less noise than this share of the range, because its grid must fit; and ranges further
# from 0 than their length times the second number have no digits left for the grid.
_LEAST_SCALE = 2.0**-40
_FURTHEST_OUT = 1e4

# What has to be known about who is protected, by level.
_ADDED_UP = {
    "person": (
        "observations",
        "all observations of a person are protected together, so say how many there are at most",
    ),
    "user": (
        "releases",
        "all releases of a client add up, so say how many there are at most (the run stops after"
        " them)",
    ),
}

# Larger budgets are mistakes.
_LARGEST_BUDGET = 1e6

# A budget is not exceeded by what root finding leaves open.
_TOLERANCE = 1.0 + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize:
    r"""Means rounded to a grid over the range, and sent in few bits.

    Parameters
    ----------
    bits : int or "radius"
        Bits of a mean: 2^b places on the grid. With "radius" they are the fewest, in each phase,
        for which rounding to the nearest errs by no more than the confidence radius: the paper's
        :math:`Q_1, Q_2`, whose printed form is negative.
    rounding : {"stochastic", "nearest"}
        Stochastic rounding is right on average and so averages out; nearest rounding is a bias.
    widening : {"exact", "paper"}
        How intervals allow for it: by exactly what it costs, or as in the paper, which doubles
        them, :math:`B' = 2B`. The latter needs ``bits = "radius"``, for which it is enough.
    """

    bits: Bits = 8
    rounding: Rounding = "stochastic"
    widening: Widening = "exact"

    def __post_init__(self) -> None:
        check_word(self.rounding, Rounding, "rounding")
        check_word(self.widening, Widening, "widening")
        if self.bits == "radius":
            return
        if isinstance(self.bits, str) or not is_number(self.bits, whole=True):
            raise InputError("bits", f'{self.bits!r} is not a whole number such as 8, or "radius"')
        Rounded(low=0.0, high=1.0, bits=self.bits, rounding=self.rounding)  # refuses other bits
        if self.widening == "paper":
            raise InputError(
                "widening",
                '"paper" doubles the radius, which is enough only if rounding errs by no more;'
                ' give bits = "radius", or leave it out',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """How the means of clients are protected.

    Parameters
    ----------
    range : (float, float)
        [a, b]: observations outside are clipped to it, which changes what is estimated.
    quantize : Quantize, optional
        Rounding. It saves bits and blurs, and is not differential privacy.
    noise : {"gaussian", "laplace"}, optional
        Noise on every released mean; not together with rounding.
    epsilon, delta : float, optional
        The budget: (ε, δ)-differential privacy in total, at the level. Laplace noise needs no δ.
    rho : float, optional
        The budget as zero-concentrated differential privacy, in place of ε.
    scale : float, optional
        The scale of the noise, if it is given: a standard deviation, or a Laplace scale. With a
        budget, a release that would exceed it is refused.
    level : {"event", "person", "user"}
        What the budget protects.
    observations : int, optional
        c: how many observations a person has at most, for level "person".
    releases : int, optional
        How many releases a client makes at most, for level "user", at which they add up.
    min_pulls : int
        A mean of fewer pulls is never released.

    Examples
    --------
    >>> policy = Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
    >>> round(policy.noise_scale(100, 10), 4)
    0.0238
    >>> Privacy(range=(0, 1), noise="gaussian", rho=0.1, level="user")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: releases: is missing; at level "user" all releases of a client add
    up, so say how many there are at most (the run stops after them)
    """

    range: tuple[float, float]
    quantize: Quantize | None = None
    noise: NoiseKind | None = None
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    scale: float | None = None
    level: PrivacyLevel = "event"
    observations: int | None = None
    releases: int | None = None
    min_pulls: int = FEWEST_PULLS

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", check_range(self.range))
        self._check_range()
        check_word(self.level, PrivacyLevel, "level")
        check_count(self.min_pulls, "min_pulls")
        if (self.quantize is None) == (self.noise is None):
            raise InputError(
                "noise",
                "or quantize must be given, but not both: noise is sent on a fine grid anyway, and"
                " rounding it to a few bits of the range would cut it off",
            )
        if self.noise is None:
            self._refuse_budget()
            return
        check_word(self.noise, NoiseKind, "noise")
        self._check_level()
        self._check_budget()

    def _check_range(self) -> None:
        low, high = self.range
        if not 1 / LARGEST <= self.length <= LARGEST:
            raise InputError("range", f"[{low:g}, {high:g}] is no range that a mean can be told in")
        if max(abs(low), abs(high)) > _FURTHEST_OUT * self.length:
            raise InputError(
                "range",
                f"[{low:g}, {high:g}] is short and far from 0, so that digits are lost; subtract"
                f" {low:g} from all outcomes",
            )

    def _refuse_budget(self) -> None:
        for name in ("epsilon", "delta", "rho", "scale", "observations", "releases"):
            if getattr(self, name) is not None:
                raise InputError(
                    name,
                    "goes with noise; rounding alone is not differential privacy and has no budget:"
                    " leave it out, or give noise in place of quantize",
                )
        if self.level != "event":
            raise InputError(
                "level", "needs noise; rounding alone protects at no level: leave it out"
            )

    def _check_level(self) -> None:
        for level, (name, why) in _ADDED_UP.items():
            value = getattr(self, name)
            if self.level == level:
                if value is None:
                    raise InputError(name, f'is missing; at level "{level}" {why}')
                check_count(value, name)
            elif value is not None:
                raise InputError(
                    name, f'goes with level = "{level}", and it is "{self.level}"; leave it out'
                )

    def _check_budget(self) -> None:
        for name, example in (("epsilon", 2), ("rho", 0.1), ("scale", 0.1)):
            value = getattr(self, name)
            if value is not None:
                check_positive(value, name, example)
                if name != "scale" and value > _LARGEST_BUDGET:
                    raise InputError(name, f"{value:g} protects nobody; give one such as {example}")
        if self.delta is not None:
            check_delta(self.delta)
        if self.scale is not None and not (
            _LEAST_SCALE <= self.scale / self.length <= 1 / _LEAST_SCALE
        ):
            raise InputError(
                "scale",
                f"{self.scale:g} is far too large or small for the range; give one such as"
                f" {0.1 * self.length:g}",
            )
        if self.epsilon is not None and self.rho is not None:
            raise InputError("rho", "and epsilon are both budgets; give only one")
        if self.epsilon is None and self.rho is None and self.scale is None:
            raise InputError(
                "epsilon", "is missing; give epsilon and delta, or rho, or the scale of the noise"
            )
        if self.noise == "gaussian" and self.epsilon is not None and self.delta is None:
            raise InputError("delta", "is missing; gaussian noise needs one, such as 1e-6")
        if self.scale is None:
            _allowance(self)  # a budget that no scale can meet is refused at once

    @property
    def length(self) -> float:
        """The length of the range, b − a."""
        low, high = self.range
        return high - low

    @property
    def doubled(self) -> bool:
        """Whether widths are widened as the paper does it: B' = 2B."""
        return self.quantize is not None and self.quantize.widening == "paper"

    @property
    def bits_by_phase(self) -> bool:
        """Whether the bits of a mean are chosen in each phase, by the radius."""
        return self.quantize is not None and self.quantize.bits == "radius"

    @property
    def random_by_phase(self) -> bool:
        """Whether the size of random errors is chosen in each phase, with the bits."""
        found = self.quantize
        return found is not None and (found.bits, found.rounding) == ("radius", "stochastic")

    @property
    def has_budget(self) -> bool:
        """Whether a release can be refused for what it spends."""
        return self.epsilon is not None or self.rho is not None

    def _sensitivity(self, pulls: int, arms: int, kind: NoiseKind) -> float:
        """Return Δ over b − a, in the distance that the noise needs."""
        if self.level == "user":
            return math.sqrt(arms) if kind == "gaussian" else float(arms)
        return (self.observations or 1) / pulls

    def _slack(self, arms: int, kind: NoiseKind) -> float:
        """Return how many scales beyond its sensitivity the grid may move a release."""
        moved = arms if self.level == "user" else min(arms, self.observations or 1)
        steps = math.sqrt(moved) if kind == "gaussian" else moved
        return steps * (_STEPS_ASIDE / PLACES_PER_SCALE)

    def noise_scale(self, pulls: int, arms: int) -> float:
        """Return the scale of the noise on means, given the numbers of pulls and of arms.

        Parameters
        ----------
        pulls : int
            Behind each mean.
        arms : int
            Means in a release, at most: all arms of the game. Noise that shrank as arms are dropped
            would depend on what was observed, and no width allows for that.
        """
        if self.noise is None:
            raise InputError("noise", "is missing; rounding has no scale")
        if self.scale is not None:
            return self.scale
        left = _allowance(self) - self._slack(arms, self.noise)
        if not left > 0:
            raise InputError(
                "epsilon" if self.rho is None else "rho",
                "is too small for any noise on this grid; raise it, or ask for fewer releases",
            )
        scale = self._sensitivity(pulls, arms, self.noise) * self.length / left
        return max(scale, self.length * _LEAST_SCALE)

    def spends(self, pulls: int, arms: int, made: Noised | None = None) -> Spending:
        """Return what one release of means spends, given the numbers of pulls and of arms.

        Parameters
        ----------
        pulls, arms
            As in `noise_scale`.
        made : Noised, optional
            How the release was noised; as the policy would by default.
        """
        if self.noise is None:
            return Spending()
        made = made or self._noised(self.noise, pulls, arms)
        # Of the range that it was clipped to, and in the distance of its own noise.
        changed = self._sensitivity(pulls, arms, made.kind) * (made.high - made.low)
        ratio = changed / made.scale + self._slack(arms, made.kind)
        if made.kind == "gaussian":
            return Spending.gaussian(ratio**2 / 2.0)
        return Spending.laplace(ratio)

    def planned(self, pulls: int, arms: int) -> Spending:
        """Return what all releases of a run spend if it never pulls less than this in a phase."""
        return self.spends(pulls, arms).times(self.releases or 1)

    def total(self, before: Spending, release: Spending) -> Spending:
        """Return what is spent after one more release, at the level.

        Of users they add up. An event, or a person at worst, is in one release: the larger
        divergence counts, at every order.
        """
        return before.plus(release) if self.level == "user" else before.worst(release)

    def in_words(self, total: Spending) -> str:
        """Return what was spent in total, out of which budget, at which level."""
        if self.noise is None:
            return "rounded; no differential privacy, and no budget"
        whom = {
            "event": "one observation",
            "person": f"a person with at most {self.observations} observations",
            "user": "all that the client has",
        }[self.level]
        spent = [f"rho = {total.rho:.4g}"]
        if self.rho is not None:
            spent[0] += f" of {self.rho:g}"
        epsilon = total.epsilon(self.delta)
        if math.isfinite(epsilon):
            of_budget = "" if self.epsilon is None else f" of {self.epsilon:g}"
            at = "" if self.delta is None else f" at delta = {self.delta:g}"
            spent.append(f"epsilon = {epsilon:.4g}{of_budget}{at}")
        return f"{', '.join(spent)}, for {whom}"

    def within_budget(self, total: Spending) -> bool:
        """Return whether the budget allows this total."""
        if self.rho is not None:
            return total.rho <= self.rho * _TOLERANCE
        if self.epsilon is not None:
            return total.epsilon(self.delta) <= self.epsilon * _TOLERANCE
        return True

    def mechanism(self, pulls: int, arms: int, bits: int | None = None) -> Mechanism:
        """Return how means are released, given the numbers of pulls and of arms.

        Parameters
        ----------
        pulls, arms
            As in `noise_scale`.
        bits : int, optional
            Of this phase, if the policy leaves them to each phase.
        """
        if self.noise is not None:
            return self._noised(self.noise, pulls, arms)
        quantize = self.quantize or Quantize()
        chosen = bits if quantize.bits == "radius" else quantize.bits
        if chosen is None:
            raise InputError("bits", 'are chosen in each phase ("radius"), and none were')
        low, high = self.range
        return Rounded(low=low, high=high, bits=chosen, rounding=quantize.rounding)

    def _noised(self, kind: NoiseKind, pulls: int, arms: int) -> Noised:
        low, high = self.range
        return Noised(low=low, high=high, kind=kind, scale=self.noise_scale(pulls, arms))

    def check_pulls(self, pulls: int, phase: int) -> None:
        """Refuse a phase whose means have too few pulls to be released."""
        if pulls < self.min_pulls:
            raise InputError(
                "pulls",
                f"{pulls} in phase {phase}, and privacy.min_pulls is {self.min_pulls}: a mean of"
                " so few gives observations away; pull more, or lower min_pulls",
            )

    @property
    def coarsest_step(self) -> float | None:
        """The step of nearest rounding to a given number of bits; no smaller gap is decided."""
        quantize = self.quantize
        if quantize is None or quantize.rounding != "nearest" or quantize.bits == "radius":
            return None
        return self.mechanism(pulls=1, arms=1).step


@lru_cache(maxsize=256)
def _allowance(privacy: Privacy) -> float:
    """Return what one release may spend: √(2ρ) with Gaussian noise, ε₀ with Laplace noise."""
    epsilon, delta, releases = privacy.epsilon, privacy.delta, privacy.releases or 1
    if privacy.rho is not None:
        return math.sqrt(2.0 * privacy.rho / releases)
    if epsilon is None:
        raise InputError("epsilon", "is missing; it determines the scale of the noise")
    if delta is None:  # Laplace noise
        return epsilon / releases
    if privacy.noise == "gaussian":
        return math.sqrt(2.0 * rho_of(epsilon, delta) / releases)
    return laplace_epsilon_for(epsilon, delta, releases)
