r"""How a client sends the mean of a phase: on a grid, rounded or with noise.

Either way what is sent is a whole number, the place on a grid of step h over the declared range
[a, b], which stands for a + h · place:

* *rounded* to b bits, h = (b − a) / (2^b − 1). Nearest rounding errs by at most h/2, always in the
  same direction for the same mean: a bias that never averages out. Stochastic rounding goes up or
  down with the probabilities that make it unbiased; its error is in a range of h, so it adds a
  variance proxy of h²/4 to one release;
* *noised*: h is 2⁻²⁰ times the scale of the noise; the nearest place plus noise from a discrete law
  of scale 2²⁰, which unlike a floating-point number of noise gives nothing away in its last bits.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fedbandits.errors import InputError
from fedbandits.privacy.sampling import Noise, NoiseKind
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.distortion import ReleaseError

Rounding: TypeAlias = Literal["nearest", "stochastic"]
"""To the nearest place on the grid, or to one of its two neighbours at random."""

MOST_BITS = 52
"""Of a rounded mean: as many as the fraction of a double has."""

PLACES_PER_SCALE = 2**20
"""Places on the grid to one scale of noise."""

UNPROTECTED_BITS = 64
"""Bits of a mean that is sent as it is, and of a place with noise on it."""


def bits_for(radius: float, low: float, high: float) -> int:
    r"""Return the fewest bits whose nearest rounding errs by no more than a radius.

    :math:`b = \lceil \log_2(1 + r / (2 B)) \rceil` for a range of length r: the corrected
    :math:`Q_1, Q_2` of the paper's supplement, whose printed form is negative.

    Examples
    --------
    >>> bits_for(0.01, 0.0, 1.0)
    6
    """
    if not radius > 0:
        raise InputError("radius", f"{radius:g}; no number of bits has an error of 0")
    return min(MOST_BITS, max(1, math.ceil(math.log2(1.0 + (high - low) / (2.0 * radius)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """Means rounded to b bits.

    Parameters
    ----------
    low, high : float
        The range.
    bits : int
        b.
    rounding : {"nearest", "stochastic"}
        How.

    Examples
    --------
    >>> eight = Rounded(low=0.0, high=1.0, bits=8, rounding="nearest")
    >>> eight.values(eight.places(np.array([0.5]), np.random.default_rng(1)))
    array([0.50196078])
    """

    low: float
    high: float
    bits: int
    rounding: Rounding

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS:
            raise InputError(
                "bits",
                f"{self.bits} bits; a mean takes at least 1, and a double has {MOST_BITS} at most:"
                " give 8",
            )

    @property
    def step(self) -> float:
        """The step of the grid."""
        return (self.high - self.low) / float(2**self.bits - 1)

    @property
    def error(self) -> ReleaseError:
        r"""What a release may be off by.

        Nearest: at most h/2, a bias. Stochastic: unbiased and in a range of h, so by Hoeffding's
        lemma subgaussian with proxy h²/4, given the observations.
        """
        if self.rounding == "nearest":
            return ReleaseError(bias=self.step / 2)
        return ReleaseError(variance=self.step**2 / 4)

    def places(self, means: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return the grid points that means are rounded to; what lies outside goes to the ends.

        Nearest rounding uses no randomness.
        """
        top = float(2**self.bits - 1)
        exact = np.clip((means - self.low) * (top / (self.high - self.low)), 0.0, top)
        if self.rounding == "nearest":
            return np.floor(exact + 0.5).astype(np.int64)
        below = np.floor(exact)
        return (below + (rng.random(means.shape) < exact - below)).astype(np.int64)

    def values(self, places: IntArray) -> FloatArray:
        """Return the means at these grid points."""
        return np.asarray(self.low + places * self.step)

    @property
    def deviation(self) -> float:
        """The standard deviation of the error of a mean that may lie anywhere between two places.

        The root of h²/6 for stochastic and of h²/12 for nearest rounding.
        """
        return self.step / math.sqrt(6.0 if self.rounding == "stochastic" else 12.0)

    def simulated(self, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return what simulated clients release of their means, from the exact law."""
        return self.values(self.places(means, rng))


@dataclass(frozen=True, slots=True, kw_only=True)
class Noised:
    """Means with noise.

    Parameters
    ----------
    low, high : float
        The range.
    kind : {"gaussian", "laplace"}
        The law of the noise.
    scale : float
        Its standard deviation, or the scale of a Laplace law.
    """

    low: float
    high: float
    kind: NoiseKind
    scale: float

    bits: ClassVar[int] = UNPROTECTED_BITS
    """Of a place."""

    @property
    def step(self) -> float:
        """The step of the grid."""
        return self.scale / PLACES_PER_SCALE

    @property
    def error(self) -> ReleaseError:
        """What a release may be off by; see `noise_error`."""
        return noise_error(self.kind, self.scale)

    def places(self, means: FloatArray, noise: Noise) -> IntArray:
        """Return the grid points of means, with noise from a discrete law."""
        exact = np.floor((means - self.low) / self.step + 0.5).astype(np.int64)
        drawn = noise(self.kind, float(PLACES_PER_SCALE), means.size)
        return np.asarray(exact + drawn.reshape(means.shape), dtype=np.int64)

    def values(self, places: IntArray) -> FloatArray:
        """Return the means at these grid points."""
        return np.asarray(self.low + places * self.step)

    @property
    def deviation(self) -> float:
        """The standard deviation of the error."""
        return self.scale * math.sqrt(2.0) if self.kind == "laplace" else self.scale

    def simulated(self, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return what simulated clients release of their means.

        Noise is continuous here: on its grid of 2²⁰ places to a scale it would be the same.
        """
        draw = rng.normal if self.kind == "gaussian" else rng.laplace
        return np.asarray(means + draw(0.0, self.scale, means.shape))


Mechanism: TypeAlias = Rounded | Noised


def noise_error(kind: NoiseKind, scale: float | FloatArray) -> ReleaseError:
    r"""Return what noise of a scale does to a mean.

    Gaussian noise of standard deviation s is subgaussian with proxy s². Laplace noise of scale β
    has the logarithm :math:`-\log(1 - \lambda^2 \beta^2) \le \lambda^2 \beta^2 / (1 - \lambda^2
    \beta^2) \le \lambda^2 \cdot 2 \beta^2 / (2 (1 - \lambda \beta))` of its moment generating
    function: sub-gamma with its own variance 2β² and scale β. The discrete laws on a grid are
    bounded by the same functions (Canonne, Kamath and Steinke 2020, for the Gaussian; for Laplace
    because (cosh x − 1)/x² grows with x). The nearest place is off by half a step.

    Examples
    --------
    >>> noise_error("laplace", 0.1).scale, round(noise_error("laplace", 0.1).variance, 9)
    (0.1, 0.02)
    """
    half_a_step = scale * (0.5 / PLACES_PER_SCALE)
    if kind == "gaussian":
        return ReleaseError(variance=scale**2, bias=half_a_step)
    return ReleaseError(variance=2.0 * scale**2, scale=scale, bias=half_a_step)
