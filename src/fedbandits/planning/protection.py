"""What a privacy policy does to a plan: the errors of releases, and the pulls that it allows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from fedbandits.errors import InputError
from fedbandits.privacy.mechanisms import noise_error
from fedbandits.privacy.policy import Privacy
from fedbandits.rules.distortion import ReleaseError

MOST = 10**15
"""No more clients or pulls than this are considered."""


def release_error(privacy: Privacy | None, pulls: float, arms: int) -> ReleaseError:
    """Return the error of a mean of so many pulls that is released with those of all arms.

    Bits that are left to each phase (``bits = "radius"``) depend on more than that and count as
    none; see `radii_apart`.

    Parameters
    ----------
    privacy : Privacy, optional
        The policy; without one there is no error.
    pulls : float
        Behind the mean; may be infinite.
    arms : int
        Means in the release.

    Examples
    --------
    >>> events = Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    >>> [round(float(release_error(events, n, 10).scale), 4) for n in (10, 100, math.inf)]
    [0.1, 0.01, 0.0]
    """
    if privacy is None or privacy.bits_by_phase:
        return ReleaseError()
    if privacy.noise is None:
        return privacy.mechanism(privacy.min_pulls, arms).error
    # Noise that hides all of a client, or has a given scale, does not shrink with more pulls.
    if math.isinf(pulls):
        if privacy.level != "user" and privacy.scale is None:
            return ReleaseError()
        pulls = MOST
    return noise_error(privacy.noise, float(privacy.noise_scale(max(1, int(pulls)), arms)))


def radii_apart(privacy: Privacy | None) -> float:
    """Return how many radii two arms must be apart.

    There are two, and four if rounding may err by as much as the radius.
    """
    if privacy is None or privacy.quantize is None or not privacy.bits_by_phase:
        return 2.0
    quantize = privacy.quantize
    return 4.0 if quantize.rounding == "nearest" or quantize.widening == "paper" else 2.0


def fewest_pulls(privacy: Privacy | None, arms: int) -> int:
    """Return the fewest pulls whose means a policy lets clients release.

    Raises
    ------
    InputError
        If its budget allows no release at all.

    Examples
    --------
    >>> fewest_pulls(Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6), 10)
    10
    >>> small = Privacy(range=(0, 1), noise="gaussian", scale=0.01, epsilon=1.0, delta=1e-6)
    >>> fewest_pulls(small, 10)
    454
    """
    if privacy is None:
        return 1

    def affords(pulls: int) -> bool:
        return privacy.within_budget(privacy.planned(pulls, arms))

    try:
        found = first_enough(affords, MOST, privacy.min_pulls)
    except InputError as error:
        raise error.within("privacy") from None
    if found is None:
        raise InputError(
            "privacy.scale",
            f"{privacy.scale} spends more than the budget on means of {arms} arms, however many"
            " pulls are behind them; raise either, or leave the scale out",
        )
    return found


def first_enough(enough: Callable[[int], bool], most: int, least: int = 1) -> int | None:
    """Return the first whole number that is enough, if all after it are; None if there is none.

    Examples
    --------
    >>> first_enough(lambda n: n * n >= 50, 100), first_enough(lambda n: n * n >= 50, 7)
    (8, None)
    """
    low, high = least - 1, least
    while not enough(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    left = range(low + 1, high)
    return left.start + bisect_left(left, True, key=enough)
