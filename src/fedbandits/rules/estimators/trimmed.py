"""The trimmed mean: the lowest and the highest values of clients are left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fedbandits.errors import InputError, check_word
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.contrasts import Crowd
from fedbandits.rules.estimators.robust import Robust
from fedbandits.rules.guarantees import Assumption, Condition, ProofContext
from fedbandits.rules.statistics import ranked

Shape: TypeAlias = Literal["any", "normal"]
"""What is known of the values of honest clients: no more than proxies, or that they are normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed(Robust):
    r"""The average without the f lowest and the f highest of n values, of which f may be lies.

    Write m = n − 2f and h = n − f. What is left lies between the mean of the m lowest and that of
    the m highest honest values, so that it is off from their mean by at most
    :math:`s_H \sqrt{f/m}` with their standard deviation :math:`s_H`, and no estimator has a
    smaller bound for all data. Proofs are in ``docs/liars.md``.

    Parameters
    ----------
    liars, groups
        As in `Robust`.
    shape : {"any", "normal"}
        "normal" if outcomes and the means of clients are normal: the floor is then half as high.

    Examples
    --------
    >>> Trimmed(liars=1).middle(np.array([0.4, 0.5, 0.6, 1e9]), 1)
    array(0.55)
    """

    name: ClassVar[str] = "trimmed"
    proven: ClassVar[bool] = True
    takes_protected: ClassVar[bool] = True

    shape: Shape = "any"

    def __post_init__(self) -> None:
        Robust.__post_init__(self)
        check_word(self.shape, Shape, "shape")

    @property
    def needs_spread(self) -> bool:
        """Whether the floor is computed from σ_c alone, and not from a range or the data."""
        return self.shape == "normal"

    def conditions(self, context: ProofContext) -> tuple[Condition, ...]:
        """Return that clients differ by no more than was assumed, also if all of them play."""
        normal = (Condition(Assumption.NORMAL_LAWS),) if self.shape == "normal" else ()
        return (*normal, Condition(Assumption.SPREAD_BOUND), *Robust.conditions(self, context))

    def check_protected(self, *, subgaussian: bool) -> None:
        """Refuse errors of which Theorem 6 says nothing."""
        if self.shape == "normal":
            raise InputError(
                "estimator",
                'protected means are not normal, which shape = "normal" is proven for; use shape ='
                ' "any"',
            )
        if not subgaussian:
            raise InputError(
                "estimator",
                f'"{self.name}" is not proven for Laplace noise; use noise = "gaussian"',
            )

    def middle(self, values: FloatArray, liars: int) -> FloatArray:
        """Return the mean of the values but for the f lowest and the f highest."""
        if not liars:
            return np.asarray(values.mean(axis=-1))
        honest = values.shape[-1] - liars
        low, high = ranked(values, liars), ranked(values, honest - 1)
        kept = _sums(values, low, high) - liars * (low + high)
        return np.asarray(kept / (honest - liars))

    def excess(self, crowd: Crowd, log: FloatArray) -> FloatArray:
        r"""Return what it exceeds the truth by with probability at most :math:`e^{-L}`.

        For normal values :math:`\sqrt{v}\,\varphi(z)/q + \sqrt{2vL/m}` with q = m/h and
        :math:`\bar\Phi(z) = q`. Else, with L' = L + log 2,
        :math:`\sqrt{2vL'/h} + s \sqrt{f/m}`, where s bounds :math:`s_H`.
        """
        if not crowd.liars:
            return _by_chance(crowd, log)
        if self.shape == "normal":
            floor = np.sqrt(crowd.variance) * _mean_of_highest(crowd.kept / crowd.honest)
            return np.asarray(floor + np.sqrt(2.0 * crowd.variance * log / crowd.kept))
        log = log + math.log(2.0)
        more = 1.0 + np.sqrt(2.0 * log / crowd.honest)
        if np.isfinite(crowd.range).all():
            scatter = crowd.range / 2.0 + np.sqrt(crowd.noise) * more
        elif crowd.sampled:
            scatter = np.sqrt(crowd.variance) * more
        else:
            scatter = np.asarray(math.inf)
        return np.asarray(_by_chance(crowd, log) + scatter * math.sqrt(crowd.liars / crowd.kept))

    def lower(self, values: FloatArray, crowd: Crowd, log: FloatArray) -> FloatArray:
        r"""Return what the truth is below with probability at most :math:`e^{-L}`.

        Besides the trimmed mean less its excess, that is the mean of the h lowest values less what
        chance may add to honest ones: whoever lies, the honest values are at least h of them. It
        takes no bound on how much clients differ, and is the sharper limit unless liars send
        extremes. The other one is computed only where it may be the larger one and not below 0.
        """
        excess, log = self.excess(crowd, log), log + math.log(2.0)
        if not crowd.liars or self.shape == "normal":
            return np.asarray(self.middle(values, crowd.liars) - excess)
        high = ranked(values, crowd.honest - 1)
        lowest = _sums(values, None, high) - crowd.liars * high
        least = np.asarray(lowest / crowd.honest - _by_chance(crowd, log))
        # The trimmed mean is no larger than if all that is below it were as low as the lowest.
        most = (lowest - crowd.liars * values.min(axis=-1)) / crowd.kept - excess
        open_still = np.asarray(most >= np.maximum(least, 0.0))
        if open_still.any():
            middle = self.middle(values[open_still], crowd.liars)
            found = middle - np.broadcast_to(excess, least.shape)[open_still]
            least[open_still] = np.maximum(least[open_still], found)
        return least


def _sums(values: FloatArray, low: FloatArray | None, high: FloatArray) -> FloatArray:
    """Return sums along the last axis, of values that are brought to between two limits.

    What is left out counts as the last that is kept: lies can be far larger than all the others.
    """
    room, found = np.empty(values.shape[-1]), np.empty(high.shape)
    for place, row in enumerate(values.reshape(-1, room.size)):
        np.minimum(row, high.flat[place], out=room)
        if low is not None:
            np.maximum(room, low.flat[place], out=room)
        found.flat[place] = room.sum()
    return found


def _by_chance(crowd: Crowd, log: FloatArray) -> FloatArray:
    """Return what the mean of honest values exceeds the truth by, with probability exp(-log)."""
    variance = crowd.variance if crowd.sampled else crowd.noise
    return np.asarray(np.sqrt(2.0 * variance * log / crowd.honest))


def _mean_of_highest(share: float) -> float:
    r"""Return the mean of a standard normal value that is among the highest share of all.

    :math:`\varphi(z) / q` with :math:`\bar\Phi(z) = q`.

    Examples
    --------
    >>> round(_mean_of_highest(0.75), 3)
    0.424
    """
    # A live client that is asked for one phase is a process of its own: half a second is long.
    from scipy.special import ndtri  # noqa: PLC0415 - see above

    z = float(-ndtri(share))
    return math.exp(-(z**2) / 2.0) / (math.sqrt(2.0 * math.pi) * share)
