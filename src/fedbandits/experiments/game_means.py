"""Means of independent games with their 95 % intervals, by Student's t."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from fedbandits.report.wording import to_digits
from fedbandits.rules.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class GameMean:
    """A mean over ``n`` independent games, with its standard error."""

    value: float
    error: float
    n: int

    @property
    def margin(self) -> float:
        """Half of the 95 % interval."""
        return float(stdtrit(self.n - 1, 0.975)) * self.error

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95 % interval."""
        return self.value - self.margin, self.value + self.margin

    def tails(self) -> tuple[float, float]:
        """Return p-values for the value being above 0, and below."""
        t = self.value / self.error if self.error else math.copysign(math.inf, self.value)
        if not self.value:
            t = 0.0
        return float(stdtr(self.n - 1, -t)), float(stdtr(self.n - 1, t))

    def shown(self, *, sign: bool = False) -> str:
        """Return value ± margin, with the digits that the margin leaves meaningful."""
        mean, margin = to_digits(self.value, self.margin)
        return f"{'+' if sign and self.value > 0 else ''}{mean} ± {margin}"


def game_mean(values: FloatArray) -> GameMean:
    """Return the mean of at least two terms, with its standard error.

    Of pairs, give the differences: what two games share then cancels.

    Examples
    --------
    >>> import numpy as np
    >>> game_mean(np.array([1.0, 2.0, 3.0, 4.0])).shown()
    '2.5 ± 2.1'
    """
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    # Of equal numbers, what is left is rounding.
    value = float(values.mean())
    return GameMean(value, 0.0 if error <= 1e-12 * abs(value) else error, values.size)


def ratio_of(a: FloatArray, b: FloatArray) -> GameMean:
    r"""Return the ratio of the means of pairs, by the delta method.

    With R for the ratio, its standard error is R times that of
    :math:`a / \bar a - b / \bar b`, to first order. What the two share cancels in it.

    Examples
    --------
    >>> import numpy as np
    >>> ratio_of(np.array([2.0, 4.0, 7.0]), np.array([1.0, 2.0, 3.0])).shown()
    '2.17 ± 0.55'
    """
    ratio = float(a.mean() / b.mean())
    return GameMean(ratio, ratio * game_mean(a / a.mean() - b / b.mean()).error, a.size)
