"""Noise in whole numbers: from a discrete law if deployed, from a seed if simulated.

A floating-point number with floating-point noise on it gives the number away in its last bits. On a
lattice there are no such bits: the noise is a whole number of steps, from the discrete Gaussian law
with probabilities proportional to exp(−x² / 2s²), or the discrete Laplace law with exp(−|x| / β).
OpenDP samples both exactly, from the operating system's randomness, which nobody can seed. A
simulation has nothing to hide and needs a seed: it rounds continuous noise, which at a scale of
many steps is the same law.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np

from fedbandits.errors import InputError, check_count, check_number, check_word
from fedbandits.rules.arrays import IntArray

if TYPE_CHECKING:
    from opendp.mod import Measurement

NoiseKind: TypeAlias = Literal["gaussian", "laplace"]
"""Which law noise is from."""

LARGEST_SCALE = 2.0**50
"""Thousands of scales fit into a whole number of 64 bits; what does not would be cut off."""


class Noise(Protocol):
    """Draws noise.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    scale : float
        Its standard deviation, or the scale of a Laplace law, in steps of the lattice.
    size : int
        How many to draw.
    """

    def __call__(self, kind: NoiseKind, scale: float, size: int) -> IntArray:
        """Return this many independent whole numbers."""


def discrete_noise(kind: NoiseKind, scale: float, size: int) -> IntArray:
    """Return noise from a discrete law that protects data: a `Noise` for deployed clients.

    Needs OpenDP, the extra ``privacy``, and turns on OpenDP's feature "contrib".

    Examples
    --------
    >>> noise = discrete_noise("gaussian", 2.0**20, 1000)
    >>> noise.dtype, bool(np.abs(noise).max() < 10 * 2**20)
    (dtype('int64'), True)
    """
    _check(kind, scale, size)
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    return np.array(_measurement(kind, float(scale))([0] * size), dtype=np.int64)


def seeded_noise(rng: np.random.Generator) -> Noise:
    """Return a `Noise` for simulations, which draws from a generator; it protects nothing.

    Examples
    --------
    >>> seeded_noise(np.random.default_rng(1))("laplace", 1000.0, 3)
    array([   24,  2312, -1244])
    """

    def noise(kind: NoiseKind, scale: float, size: int) -> IntArray:
        _check(kind, scale, size)
        draw = rng.normal if kind == "gaussian" else rng.laplace
        return np.rint(draw(0.0, scale, size)).astype(np.int64)

    return noise


@lru_cache(maxsize=64)
def _measurement(kind: NoiseKind, scale: float) -> Measurement:
    """Return OpenDP's mechanism, cached because building it takes longer than using it."""
    try:
        import opendp.prelude as dp  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise InputError(
            "noise",
            "a client's noise is drawn by OpenDP, which is not installed; run"
            ' pip install "fedbandits[privacy]"',
        ) from error
    dp.enable_features("contrib")
    whole_numbers = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "gaussian":
        return dp.m.make_gaussian(whole_numbers, dp.l2_distance(T="f64"), scale=scale)
    return dp.m.make_laplace(whole_numbers, dp.l1_distance(T="f64"), scale=scale)


def _check(kind: NoiseKind, scale: float, size: int) -> None:
    """Refuse an impossible scale or size."""
    check_word(kind, NoiseKind, "noise")
    check_number(scale, "scale")
    if not (0 < scale <= LARGEST_SCALE):
        raise InputError(
            "scale",
            f"{scale:g} is not a positive number of steps up to 2^50; give one such as 2^20",
        )
    check_count(size, "size", 0)
