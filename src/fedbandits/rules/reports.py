"""What clients have reported so far: everything that an estimate is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion
from fedbandits.rules.statistics import aggregate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reports:
    """What clients have reported so far; leading axes are free.

    A *group* is a client, or a cohort of clients that share their pull counts and of which only
    the average is known.

    Parameters
    ----------
    counts : array, shape (..., arms, groups)
        Pulls so far of each arm by each client of a group; axes of length 1 are broadcast.
    active : array of bool, shape (..., arms)
        The arms that are left.
    means : array, shape (..., arms, groups), optional
        The mean of every group; 0 where there are no pulls. None if only averages are
        available, and before anything is observed.
    sizes : array, broadcast against ``counts``, optional
        Clients in each group; 1 by default.
    squares : array, shape (..., arms, groups), optional
        Sums of squares of every client around its own mean.
    shares : array, broadcast against ``counts``, optional
        The weight of every client, if they have weights of their own.
    distortion : Distortion, optional
        What protecting their means leaves in those of the groups.
    averages : callable, optional
        From weights of groups to the averages of their means, from a driver that does not hold
        all means at once. It is called once.

    Examples
    --------
    >>> seen = Reports(
    ...     counts=np.array([[10, 10], [10, 0]]),
    ...     means=np.array([[0.2, 0.4], [0.5, 0.0]]),
    ...     active=np.array([True, True]),
    ... )
    >>> seen.averaged(seen.counts > 0)
    array([0.3, 0.5])
    """

    counts: FloatArray | IntArray
    active: BoolArray
    means: FloatArray | None = None
    sizes: npt.ArrayLike = 1
    squares: FloatArray | None = None
    shares: FloatArray | None = None
    distortion: Distortion = UNDISTORTED
    averages: Callable[[FloatArray | None], FloatArray] | None = None

    @classmethod
    def planned(
        cls,
        counts: npt.ArrayLike,
        sizes: npt.ArrayLike = 1,
        *,
        shares: FloatArray | None = None,
        distortion: Distortion = UNDISTORTED,
    ) -> Reports:
        """Return reports of planned pulls before anything is observed: only for widths."""
        return cls(
            counts=np.asarray(counts),
            active=np.zeros(1, dtype=np.bool_),
            sizes=sizes,
            shares=shares,
            distortion=distortion,
        )

    def averaged(self, weights: npt.ArrayLike | None) -> FloatArray:
        """Return the average of the groups' means, shape (..., arms); see `aggregate`.

        Parameters
        ----------
        weights : array, broadcast against ``counts``, or None
            Of groups; None if all count the same.
        """
        if self.averages is not None:
            return self.averages(None if weights is None else np.asarray(weights, np.float64))
        if self.means is None:
            return np.zeros(np.shape(self.counts)[:-1])
        return aggregate(self.means, weights)

    def each_mean(self, absent: float = math.nan) -> FloatArray:
        """Return the mean of every client, or refuse if only averages are known.

        Parameters
        ----------
        absent : float
            What stands for the mean of a client without pulls of an arm that others have pulled:
            one that has not been heard, or does not exist in this replication. NaN by default, so
            that nobody takes it for a mean: leave it out, as `numpy.nanmedian` does. An arm that
            nobody has pulled has zeros.
        """
        if self.means is None:
            raise InputError(
                "estimator", "needs the mean of every client, but only averages are known here"
            )
        pulled = np.asarray(self.counts) > 0
        if absent == 0.0 or pulled.all():
            return self.means
        return np.where(~pulled & pulled.any(axis=-1, keepdims=True), absent, self.means)

    def complete_means(self, groups: int = 1) -> FloatArray:
        """Return the means of the clients that have pulled every active arm: those of `complete`.

        Parameters
        ----------
        groups : int
            As in `complete`.
        """
        means, complete = self.each_mean(absent=0.0), self.complete(groups)
        return means if complete.all() else means[..., complete]

    def complete(self, groups: int = 1) -> BoolArray:
        """Return which clients have pulled every active arm.

        Where leading axes differ in who has, those who have everywhere.

        Parameters
        ----------
        groups : int
            Only clients whose whole group has, if so many make a group, in the order of their
            admission. Who is in a group does not depend on who reports.
        """
        inside = (np.asarray(self.counts) > 0) | ~self.active[..., np.newaxis]
        complete = inside.reshape(-1, inside.shape[-1]).all(axis=0)
        if groups > 1:
            complete = np.broadcast_to(complete, self.each_mean(absent=0.0).shape[-1:])
            full = complete.size // groups * groups
            whole = complete[:full].reshape(-1, groups).all(axis=-1)
            complete = np.append(np.repeat(whole, groups), np.zeros(complete.size - full, np.bool_))
        return np.asarray(complete)
