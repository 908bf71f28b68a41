"""What is known about every arm after a phase: one value, and how far it may be off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.contrasts import Contrasts
from fedbandits.rules.distortion import UNDISTORTED, Distortion


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """Global estimates, and what tells how far off they may be.

    Leading axes are free, and axes of length 1 stand for all. Of an arm that nobody has pulled
    ``pulls`` is 0, and the rest may be anything finite.

    Parameters
    ----------
    values : array, shape (..., arms)
        The estimates.
    pull_variance, client_variance : array, shape (..., arms)
        The two parts of an estimate's variance proxy: what too few pulls and what too few clients
        leave open.
    pull_factor : array, shape (..., arms)
        η: ``pull_variance`` for outcomes of variance 1.
    heaviest_pull : array, shape (..., arms)
        The largest weight that a single pull has in an estimate: 1 over all pulls if they are
        spread evenly over clients.
    pulls : array, shape (..., arms)
        How often all clients together have pulled an arm.
    clients : array, shape (..., 1)
        How many have pulled any arm.
    even : array of bool, shape (..., arms)
        Whether all clients that exist have pulled an arm, and equally often.
    independent_clients : bool
        Whether clients are drawn independently of each other; not so from a finite population.
    distortion : Distortion
        What the protection of clients' means leaves in an estimate; nothing by default.
    client_means : array, shape (..., arms, clients), optional
        The means of clients that have pulled every active arm, if arms are compared within
        clients.
    contrasts : Contrasts, optional
        How arms are compared within clients in place of variances, if some clients may lie.
    """

    values: FloatArray
    pull_variance: FloatArray
    client_variance: FloatArray
    pull_factor: FloatArray
    heaviest_pull: FloatArray
    pulls: FloatArray
    clients: FloatArray
    even: BoolArray
    independent_clients: bool = False
    distortion: Distortion = UNDISTORTED
    client_means: FloatArray | None = None
    contrasts: Contrasts | None = None

    @property
    def variance(self) -> FloatArray:
        """v, the variance proxy of an estimate, before means were protected."""
        return np.asarray(self.pull_variance + self.client_variance)

    def mirrored(self) -> Estimate:
        """Return estimates of outcomes times −1: the lowest of these is the highest of those."""
        means = self.client_means
        return replace(self, values=-self.values, client_means=None if means is None else -means)

    def at(self, rows: IntArray | BoolArray, arms: IntArray | None = None) -> Estimate:
        """Return the estimates of some rows, the axis before the arms, and of some arms."""
        means = self.client_means
        if means is not None:
            # All of them is the usual case, and a copy of every client's mean takes long.
            if means.ndim > 2 and not _is_all(rows, means.shape[-3]):
                means = means[..., rows, :, :]
            if arms is not None and not _is_all(arms, means.shape[-2]):
                means = means[..., arms, :]
        return self._changed(lambda values: _taken(values, rows, arms), means)

    def last(self) -> Estimate:
        """Return the estimates after the last of several phases, which are the first axis."""
        means = self.client_means
        return self._changed(
            lambda values: values[-1] if values.ndim > 2 else values,
            None if means is None else means[-1],
        )

    def _changed(
        self, change: Callable[[FloatArray], FloatArray], means: FloatArray | None
    ) -> Estimate:
        """Return the estimate with a change of all that belongs to arms, and other means."""
        parts: dict[str, Any] = {name: change(getattr(self, name)) for name in _OF_ARMS}
        left = Distortion.merged([self.distortion], lambda values: change(values[0]))
        pairs = None if self.contrasts is None else self.contrasts.changed(change)
        return replace(self, **parts, distortion=left, client_means=means, contrasts=pairs)

    @staticmethod
    def joined(parts: Sequence[Estimate]) -> Estimate:
        """Return estimates of some rows and of others as one, in this order."""
        first = parts[0]
        if len(parts) == 1:
            return first
        joined: dict[str, Any] = {
            name: _joined([getattr(part, name) for part in parts]) for name in _OF_ARMS
        }
        joined["values"] = np.concatenate([part.values for part in parts], axis=-2)
        means = [part.client_means for part in parts if part.client_means is not None]
        return replace(
            first,
            **joined,
            distortion=Distortion.merged([part.distortion for part in parts], _joined),
            client_means=np.concatenate(means, axis=-3) if means else None,
        )


# The arrays that every estimate has: the last axis is of arms, or of length 1 for all of them.
_OF_ARMS = [one.name for one in fields(Estimate) if one.default is MISSING]


def _is_all(places: IntArray | BoolArray, size: int) -> bool:
    """Return whether places, in ascending order, are all there are."""
    return bool(places.all()) if places.dtype == np.bool_ else places.size == size


def _taken(values: FloatArray, rows: IntArray | BoolArray, arms: IntArray | None) -> FloatArray:
    if values.ndim > 1 and values.shape[-2] > 1:
        values = values[..., rows, :]
    if arms is not None and values.ndim and values.shape[-1] > 1:
        values = values[..., arms]
    return values


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the parts one after the other; what is the same for all rows stays as it is."""
    first = parts[0]
    if first.ndim < 2 or (
        first.shape[-2] == 1 and all(np.array_equal(first, part) for part in parts)
    ):
        return first
    return np.concatenate(parts, axis=-2)
