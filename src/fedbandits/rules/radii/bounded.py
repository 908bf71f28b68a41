"""The range of outcomes that a rule relies on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from fedbandits.errors import InputError, as_pair
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.levels import as_level
from fedbandits.rules.radii.known import PhaseStatistics, RadiusOfAverages


def check_range(limits: tuple[float, float]) -> tuple[float, float]:
    """Return a range of outcomes as two floats; refuse an invalid one.

    Examples
    --------
    >>> check_range((0, 1))
    (0.0, 1.0)
    """
    low, high = as_pair(limits, "range")
    if not low < high:
        raise InputError("range", f"[{low:g}, {high:g}] is empty; give the lower end first")
    return low, high


class BoundedRadius(RadiusOfAverages):
    """Rules that hold with probability 1 − δ for outcomes in a known range."""

    __slots__ = ()

    uses_noise: ClassVar[bool] = False

    range: tuple[float, float]

    def __post_init__(self) -> None:
        RadiusOfAverages.__post_init__(self)
        object.__setattr__(self, "range", check_range(self.range))

    def _log(self, known: PhaseStatistics, events: int) -> FloatArray:
        """Return the logarithm, for δ shared out over this many events and all phases."""
        delta = as_level(self.delta).value(known.horizon)
        phase = np.asarray(known.phase, dtype=np.float64)
        return np.asarray(math.log(events * math.pi**2 / (6 * delta)) + 2.0 * np.log(phase))

    @property
    def limits(self) -> tuple[float, float]:
        """The range that contains every outcome."""
        return self.range

    def mirrored(self) -> Self:
        """Return the radius for outcomes times −1, whose range is mirrored."""
        low, high = self.range
        return replace(self, range=(-high, -low))
