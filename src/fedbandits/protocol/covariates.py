r"""Covariates: what is known of a unit before it gets an option, and outcomes adjusted by it.

An outcome Y of a unit with covariate X counts as :math:`Y - \theta (X - m)`. If θ and m do not
depend on the trial's own units, and X is known before the option, this moves the means of all
options of a client by the same amount, and takes out the part of the noise that X explains. The
theorem is in ``docs/covariates.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedbandits.errors import LARGEST, InputError, check_number
from fedbandits.protocol.outcomes import (
    COVARIATE,
    Limits,
    OutOfRangeError,
    refuse_outside,
    words_of,
)
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.guarantees import Assumption, Condition
from fedbandits.rules.radii.bounded import check_range

FEWEST_PAIRS = 30
"""From a history of fewer units no coefficient is estimated."""

# A covariate that varies by less than this share of its range does not vary.
_STEADY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariate:
    r"""What a trial says of its covariate.

    Parameters
    ----------
    name : str
        What reports call it.
    range : (float, float)
        Contains the covariate of every unit.
    coefficient : float or "history"
        θ, fixed beforehand; or each client estimates its own, with its own m, from what its
        function ``history`` returns.
    mean : float, optional
        m, with a fixed coefficient. Any number in the range is valid; with the mean of the
        covariate, estimates stay at the level of the outcomes.
    largest : float, optional
        The largest :math:`|\theta|` that a client may estimate, if outcomes have a range: it bounds
        how much wider the range of adjusted outcomes is. By default the length of the outcomes'
        range over that of the covariate's.

    Examples
    --------
    >>> visits = Covariate(name="visits before", range=(0, 40), coefficient=0.5, mean=10)
    >>> visits.adjusted_range((0.0, 30.0))
    (-15.0, 35.0)
    """

    name: str
    range: Limits
    coefficient: float | Literal["history"]
    mean: float | None = None
    largest: float | None = None

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InputError("name", "is empty; say what the covariate is")
        object.__setattr__(self, "range", check_range(self.range))
        if self.coefficient == "history":
            if self.mean is not None:
                raise InputError("mean", 'is that of the history, if coefficient = "history"')
            if self.largest is not None:
                check_number(self.largest, "largest")
                if not 0 < self.largest <= LARGEST:
                    raise InputError("largest", f"{self.largest:g} is not above 0")
            return
        check_number(self.coefficient, "coefficient")
        if not abs(self.coefficient) <= LARGEST:
            raise InputError("coefficient", f"{self.coefficient!r} is not a finite number")
        if self.largest is not None:
            raise InputError("largest", 'is only for coefficient = "history"')
        if self.mean is None:
            raise InputError("mean", "is missing; give the usual mean of the covariate")
        check_number(self.mean, "mean")
        if not self.range[0] <= self.mean <= self.range[1]:
            raise InputError("mean", f"{self.mean:g} is outside {words_of(self.range)}")
        if not abs(self.coefficient) * (self.range[1] - self.range[0]) <= LARGEST:
            raise InputError("coefficient", f"{self.coefficient:g} is too large for this range")

    @property
    def fixed(self) -> Adjustment | None:
        """What all clients adjust outcomes by; None if each estimates its own."""
        if self.coefficient == "history" or self.mean is None:
            return None
        return Adjustment(coefficient=float(self.coefficient), mean=float(self.mean))

    @property
    def condition(self) -> Condition:
        """What the means of adjusted outcomes need to differ as those of outcomes do."""
        settled = "estimated from units of" if self.fixed is None else "fixed"
        return Condition(
            Assumption.COVARIATE,
            f'"{self.name}" of a unit is known before its option (and how it adjusts outcomes was'
            f" {settled} before the trial)",
        )

    def _most(self, limits: Limits) -> float:
        """Return the largest coefficient that a client may estimate."""
        low, high = self.range
        return (limits[1] - limits[0]) / (high - low) if self.largest is None else self.largest

    def adjusted_range(self, limits: Limits) -> Limits:
        """Return the range of adjusted outcomes, for outcomes in a range.

        To twelve digits, as people write it; clients clip what its last digits leave outside.
        """
        low, high = self.range
        if self.fixed is None:  # m lies anywhere in the range
            aside = self._most(limits) * (high - low)
            ends = [-aside, aside]
        else:
            ends = [self.fixed.coefficient * (end - self.fixed.mean) for end in (low, high)]
        return float(f"{limits[0] - max(ends):.12g}"), float(f"{limits[1] - min(ends):.12g}")

    def check_held_by(self, limits: Limits | None, declared: Mapping[str, Limits | None]) -> None:
        """Refuse ranges that adjusted outcomes may leave: clipping them would change differences.

        Parameters
        ----------
        limits : (float, float), optional
            The range of outcomes.
        declared : mapping from str to (float, float) or None
            Ranges of adjusted outcomes, by their keys.
        """
        for key, given in declared.items():
            if given is None:
                continue
            if limits is None:
                raise InputError(
                    "range",
                    f"is missing, and {key} must hold adjusted outcomes; give that of outcomes",
                )
            low, high = self.adjusted_range(limits)
            if not given[0] <= low < high <= given[1]:
                raise InputError(
                    key,
                    f"{words_of(given)} does not hold all adjusted outcomes; write"
                    f" [{low!r}, {high!r}]",
                )

    def held(self, values: FloatArray, *, clips: bool, name: str = "returned[{}]") -> FloatArray:
        """Return covariates in their range: those outside are clipped, or refused.

        A clipped covariate is known as early as the covariate itself, and as valid.

        Parameters
        ----------
        values : array
            Covariates.
        clips : bool
            Whether those outside are clipped.
        name : str
            What one is called in an error, with braces for its place.

        Raises
        ------
        OutOfRangeError
            If one lies outside and is not to be clipped.
        """
        if not clips:
            try:
                refuse_outside(values, self.range, name, "covariate's")
            except OutOfRangeError as error:
                raise error.within(COVARIATE) from None
        return np.clip(values, *self.range)

    def estimated(
        self, outcomes: FloatArray, covariates: FloatArray, limits: Limits | None
    ) -> Adjustment:
        r"""Return what a client adjusts by, from the history of its units.

        :math:`\theta = \sum (X - m)(Y - \bar Y) / \sum (X - m)^2` with m the mean of X, which
        leaves the least variance of past outcomes. It is 0 if the history is too short, or its
        covariate does not vary: then outcomes count as they are.

        Parameters
        ----------
        outcomes, covariates : array
            One of each per unit.
        limits : (float, float), optional
            The range of outcomes.

        Examples
        --------
        >>> before = np.arange(40.0)
        >>> visits = Covariate(name="visits before", range=(0, 40), coefficient="history")
        >>> visits.estimated(3.0 + 0.5 * before, before, None)
        Adjustment(coefficient=0.5, mean=19.5, units=40)
        """
        units, (low, high) = len(outcomes), self.range
        mean = float(np.clip(covariates.mean(), low, high)) if units else (low + high) / 2
        apart = covariates - mean
        squares = float(apart @ apart)
        if units < FEWEST_PAIRS or squares <= units * (_STEADY * (high - low)) ** 2:
            return Adjustment(coefficient=0.0, mean=mean, units=units)
        slope = float(apart @ (outcomes - outcomes.mean())) / squares
        most = LARGEST if limits is None else self._most(limits)
        return Adjustment(coefficient=float(np.clip(slope, -most, most)), mean=mean, units=units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    r"""What a client adjusts outcomes by.

    Parameters
    ----------
    coefficient, mean : float
        θ and m.
    units : int
        Units of the history that they were estimated from; 0 if they were fixed beforehand.

    Examples
    --------
    >>> Adjustment(coefficient=0.5, mean=10.0)(np.array([3.0]), np.array([12.0]))
    array([2.])
    """

    coefficient: float
    mean: float
    units: int = 0

    def __call__(self, outcomes: FloatArray, covariates: FloatArray) -> FloatArray:
        """Return adjusted outcomes."""
        return outcomes - self.coefficient * (covariates - self.mean)


def gain_of(squares: Iterable[tuple[float, float]]) -> float:
    """Return by which share adjusting makes the variance within options smaller.

    It is rounded to hundredths, and −1 stands for anything below: it is told to the server.

    Parameters
    ----------
    squares : iterable of (float, float)
        Sums of squares around the mean of an option: of adjusted outcomes, and of outcomes.

    Examples
    --------
    >>> gain_of([(16.0, 25.0), (20.0, 75.0)])
    0.64
    """
    adjusted, plain = map(sum, zip(*squares, strict=True))
    return 0.0 if plain <= 0 else round(max(1 - adjusted / plain, -1.0), 2) + 0.0
