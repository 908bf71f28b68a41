"""The range of outcomes that a rule relies on."""

from __future__ import annotations

import math

from fedbandits.errors import InputError


def check_range(limits: tuple[float, float]) -> tuple[float, float]:
    """Return a range of outcomes as two floats; refuse one that is none.

    Examples
    --------
    >>> check_range((0, 1))
    (0.0, 1.0)
    """
    if len(limits) != 2 or not all(math.isfinite(limit) for limit in limits):
        raise InputError("range", f"{limits!r} is not a range such as [0, 1]")
    low, high = (float(limit) for limit in limits)
    if not low < high:
        raise InputError("range", f"[{low:g}, {high:g}] is empty; give the lower end first")
    return low, high
