"""The range of outcomes that a rule relies on."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fedbandits.errors import InputError, is_number


def check_range(limits: tuple[float, float]) -> tuple[float, float]:
    """Return a range of outcomes as two floats; refuse one that is none.

    Examples
    --------
    >>> check_range((0, 1))
    (0.0, 1.0)
    """
    ends = list(limits) if isinstance(limits, Iterable) else []
    if len(ends) != 2 or not all(is_number(end) and math.isfinite(end) for end in ends):
        raise InputError("range", f"{limits!r} is not a range such as [0, 1]")
    low, high = (float(end) for end in ends)
    if not low < high:
        raise InputError("range", f"[{low:g}, {high:g}] is empty; give the lower end first")
    return low, high
