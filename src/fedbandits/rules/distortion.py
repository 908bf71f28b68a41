r"""What protecting a client's means does to them, as far as a rule has to know.

A client that rounds its means or adds noise to them releases, for its pulls of a phase, the mean
plus an error. Whatever the scheme, three numbers of a release say what a width needs: with error e,

* a bias :math:`b` of at most so much, which never averages out (nearest rounding);
* around it a *sub-gamma* law with variance proxy :math:`d` and scale :math:`c`:
  :math:`\log E e^{\lambda (e - b)} \le \lambda^2 d / (2 (1 - \lambda c))` for
  :math:`0 \le \lambda < 1/c`, on either side. A subgaussian error has c = 0. A sum of weight
  :math:`w_i` has :math:`\sum w_i^2 d_i` and :math:`\max w_i c_i`, and with L = log(1/p) it exceeds
  :math:`\sqrt{2 d L} + c L` with probability at most p.

Errors of clients, phases and arms are independent of each other whatever the observations are.

After Boucheron, Lugosi and Massart (2013), "Concentration Inequalities", section 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.statistics import sum_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseError:
    """The possible error of one released mean.

    Parameters
    ----------
    variance, scale, bias : float or array
        d, c and b; arrays broadcast against groups.
    """

    variance: float | FloatArray = 0.0
    scale: float | FloatArray = 0.0
    bias: float | FloatArray = 0.0

    @classmethod
    def several(cls, errors: Iterable[ReleaseError], shape: tuple[int, ...]) -> ReleaseError:
        """Return the errors of several means as one, with arrays of a shape."""
        table = np.array([(one.variance, one.scale, one.bias) for one in errors])
        variance, scale, bias = (column.reshape(shape) for column in table.T)
        return cls(variance=variance, scale=scale, bias=bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distortion:
    """The errors of all its releases in a client's mean, or in an estimate.

    Parameters
    ----------
    variance, scale, bias : array
        d, c and b; of clients they are broadcast against their counts, (..., arms, groups).
    doubled : bool
        Whether widths are widened as the paper does, by themselves, where that is no less than the
        bias: :math:`B' = 2B`.
    """

    variance: FloatArray
    scale: FloatArray
    bias: FloatArray
    doubled: bool = False

    @staticmethod
    def merged(
        several: Sequence[Distortion], merge: Callable[[list[FloatArray]], FloatArray]
    ) -> Distortion:
        """Return several that are alike as one, given what merges their arrays."""
        first = several[0]
        if first is UNDISTORTED:
            return first
        triples = zip(*((each.variance, each.scale, each.bias) for each in several), strict=True)
        variance, scale, bias = (merge(list(arrays)) for arrays in triples)
        return replace(first, variance=variance, scale=scale, bias=bias)

    def largest(self) -> Distortion:
        """Return the error in the mean of any client, at most."""
        return Distortion.merged([self], lambda values: values[0].max(axis=-1))

    def averaged(self, weights: FloatArray, sizes: npt.ArrayLike = 1) -> Distortion:
        """Return the error in the average over clients.

        Parameters
        ----------
        weights : array, shape (..., groups)
            Of all clients of a group together.
        sizes : array, optional
            Clients in each group.

        Examples
        --------
        >>> four = Distortion(
        ...     variance=np.full(4, 0.04), scale=np.full(4, 0.1), bias=np.full(4, 0.001)
        ... )
        >>> of_estimate = four.averaged(np.ones(4))
        >>> [round(float(x), 4) for x in (of_estimate.variance, of_estimate.scale)]
        [0.01, 0.025]
        >>> round(float(of_estimate.bias), 6)
        0.001
        """
        total = sum_groups(weights)
        shares = weights / np.where(total > 0, total, 1.0)[..., np.newaxis]
        # A group without clients weighs nothing.
        of_a_client = shares / np.maximum(np.asarray(sizes, dtype=np.float64), 1.0)
        return Distortion(
            variance=sum_groups(shares * of_a_client * self.variance),
            scale=np.asarray(of_a_client * self.scale).max(axis=-1),
            bias=sum_groups(shares * self.bias),
            doubled=self.doubled,
        )


UNDISTORTED = Distortion(variance=np.zeros(()), scale=np.zeros(()), bias=np.zeros(()))
"""Of means that are sent as they are."""


def sub_gamma_width(variance: FloatArray, scale: FloatArray, log: float | FloatArray) -> FloatArray:
    r"""Return what a sub-gamma value exceeds with probability at most :math:`e^{-L}`.

    :math:`\sqrt{2 d L} + c L`, by Chernoff's bound.

    Examples
    --------
    >>> float(sub_gamma_width(np.array(0.02), np.array(0.1), 9.0).round(6))
    1.5
    """
    return np.asarray(np.sqrt(2.0 * log * variance) + scale * log)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistortionSums:
    r"""The errors of all releases so far, of every group of clients.

    The mean of n pulls over phases q is :math:`\sum_q n_q X_q / n`, so that its error has
    :math:`d = \sum_q n_q^2 d_q / n^2`, :math:`c = \max_q n_q c_q / n` and :math:`b = \sum_q n_q
    b_q / n`.

    Parameters
    ----------
    variance_sums, scales, bias_sums : array, shape (..., groups)
        The three without their divisors.

    Examples
    --------
    >>> sums = DistortionSums.nothing((2,))
    >>> sums = sums.released(100, ReleaseError(variance=0.01)).admitted(1)
    >>> sums = sums.released(100, ReleaseError(variance=0.01))
    >>> sums.over(np.array([200, 200, 100])).variance
    array([0.005, 0.005, 0.01 ])
    """

    variance_sums: FloatArray
    scales: FloatArray
    bias_sums: FloatArray

    @classmethod
    def nothing(cls, shape: tuple[int, ...]) -> DistortionSums:
        """Return the sums before the first release."""
        return cls(variance_sums=np.zeros(shape), scales=np.zeros(shape), bias_sums=np.zeros(shape))

    def _arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.variance_sums, self.scales, self.bias_sums

    def tobytes(self) -> bytes:
        """Return all of it, to be compared bit for bit."""
        return b"".join(values.tobytes() for values in self._arrays())

    def admitted(self, groups: int) -> DistortionSums:
        """Return the sums with new groups of clients that have released nothing."""
        none = np.zeros((*self.scales.shape[:-1], groups))
        padded = [np.concatenate([values, none], axis=-1) for values in self._arrays()]
        return DistortionSums(variance_sums=padded[0], scales=padded[1], bias_sums=padded[2])

    def kept(self, rows: BoolArray | IntArray | tuple[int, ...]) -> DistortionSums:
        """Return the sums of some of the first axis, or at one place of the first axes."""
        variances, scales, biases = (values[rows] for values in self._arrays())
        return DistortionSums(variance_sums=variances, scales=scales, bias_sums=biases)

    def released(self, pulls: npt.ArrayLike, error: ReleaseError) -> DistortionSums:
        """Return the sums after one more release, of a mean of this many pulls.

        Parameters
        ----------
        pulls : int or array, broadcast against groups
            How many; 0 where nothing was released.
        error : ReleaseError
            Of the released mean.
        """
        n = np.asarray(pulls, dtype=np.float64)
        return DistortionSums(
            variance_sums=self.variance_sums + n**2 * error.variance,
            scales=np.maximum(self.scales, n * error.scale),
            bias_sums=self.bias_sums + n * error.bias,
        )

    def over(self, counts: npt.ArrayLike, *, doubled: bool = False) -> Distortion:
        """Return the errors in clients' means of this many pulls; see `Distortion`."""
        n = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
        return Distortion(
            variance=self.variance_sums / n**2,
            scale=self.scales / n,
            bias=self.bias_sums / n,
            doubled=doubled,
        )
