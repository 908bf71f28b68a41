"""Policies by what they do to means, and claims that are wrong on purpose."""

from __future__ import annotations

import pytest

import fedbandits as fb
from fedbandits.privacy.mechanisms import Rounded, Rounding, noise_error
from fedbandits.privacy.sampling import NoiseKind
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.distortion import (
    ReleaseError,
)

UNIT = (0.0, 1.0)
# So wide that no normal observation of these games ever leaves it.
WIDE = (-15.0, 16.0)


def rounded(bits: int, rounding: Rounding = "stochastic") -> fb.Privacy:
    """Return rounding of means in [0, 1], whatever they are of."""
    return fb.Privacy(range=UNIT, quantize=fb.Quantize(bits=bits, rounding=rounding), min_pulls=1)


def noised(noise: NoiseKind, scale: float, limits: tuple[float, float] = UNIT) -> fb.Privacy:
    """Return noise of a given scale."""
    return fb.Privacy(range=limits, noise=noise, scale=scale, min_pulls=1)


def claim(patch: pytest.MonkeyPatch, by: float) -> None:
    """Plant an error: the simulator tells its rules another scale of the noise than it draws."""

    def wrong(kind: NoiseKind, scale: float | FloatArray) -> ReleaseError:
        return noise_error(kind, by * scale)

    patch.setattr("fedbandits.privacy.mechanisms.noise_error", wrong)


def claim_of_rounding(
    patch: pytest.MonkeyPatch, *, variance: float = 0.0, bias: float = 0.0
) -> None:
    """Plant an error: rounding is said to do so many times what it does."""

    def error(grid: Rounded) -> ReleaseError:
        return ReleaseError(variance=variance * grid.step**2 / 4, bias=bias * grid.step / 2)

    patch.setattr(Rounded, "error", property(error))


_LENGTH = WIDE[1] - WIDE[0]
