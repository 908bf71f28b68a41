"""The grid of means that are rounded to b bits, over a declared range, and what that costs.

On a range of length r the grid of b bits has the step h = r / (2^b − 1). Nearest rounding errs by
at most h/2, always in the same direction for the same mean: a bias that never averages out.
Stochastic rounding goes up or down with the probabilities that make it unbiased; its error is in a
range of h, so it adds a variance proxy of h²/4 to one release.
"""

from __future__ import annotations

import math

from fedbandits.errors import InputError

MOST_BITS = 52
"""As many as the fraction of a double has."""


def step(bits: int, low: float, high: float) -> float:
    """Return the distance between two neighbours on the grid.

    Examples
    --------
    >>> step(8, 0.0, 1.0) == 1 / 255
    True
    """
    check_bits(bits)
    return (high - low) / float(2**bits - 1)


def bits_for(radius: float, low: float, high: float) -> int:
    r"""Return the fewest bits whose nearest rounding errs by no more than a radius.

    :math:`b = \lceil \log_2(1 + r / (2 B)) \rceil` for a range of length r: the corrected
    :math:`Q_1, Q_2` of the paper's supplement, whose printed form is negative.

    Examples
    --------
    >>> bits_for(0.01, 0.0, 1.0)
    6
    >>> step(6, 0.0, 1.0) / 2 <= 0.01 < step(5, 0.0, 1.0) / 2
    True
    """
    if not radius > 0:
        raise InputError("radius", f"{radius:g}; no number of bits has an error of 0")
    return min(MOST_BITS, max(1, math.ceil(math.log2(1.0 + (high - low) / (2.0 * radius)))))


def check_bits(bits: int) -> None:
    """Refuse an invalid number of bits."""
    if not 1 <= bits <= MOST_BITS:
        raise InputError(
            "bits",
            f"{bits} bits; a mean takes at least 1, and a double has {MOST_BITS} at most: give 8",
        )
