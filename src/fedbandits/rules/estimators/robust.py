"""The common part of estimators that stand clients who send anything they like."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError, UnstatedError, check_count, is_number
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.contrasts import Contrasts, Crowd, StandsLiars, grouped, share_of
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators.estimator import Estimator, LeftOut
from fedbandits.rules.estimators.plain import Plain
from fedbandits.rules.guarantees import Assumption, Condition, ProofContext, Status
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling

_PLAIN = Plain()


@dataclass(frozen=True, slots=True, kw_only=True)
class Robust(Estimator):
    """One value per arm although some clients send anything; arms are compared within clients.

    Parameters
    ----------
    liars : int or float
        How many clients may lie: a number of clients, or a share of those that were admitted,
        below one half. Of n clients a share s are at most ⌊s n⌋.
    groups : int
        How many clients are averaged before they are compared; 1 by default. One liar spoils a
        whole group, but a server needs to see no more than the sums of groups.
    """

    needs_each_client: ClassVar[bool] = True
    takes_protected: ClassVar[bool] = False
    stands_liars: ClassVar[bool] = True

    liars: float
    groups: int = 1

    def __post_init__(self) -> None:
        if not is_number(self.liars) or not (
            0 <= self.liars < 0.5 or (self.liars >= 1 and float(self.liars).is_integer())
        ):
            raise InputError(
                "liars",
                f"{self.liars!r} is neither a share below 0.5, such as 0.1, nor a number of"
                " clients, such as 3",
            )
        check_count(self.groups, "groups")

    @property
    def way(self) -> StandsLiars:
        """Itself: it says how arms are compared within clients."""
        return self

    def liars_among(self, clients: int) -> int:
        """Return f: how many of this many clients may lie, those included that were never heard.

        Examples
        --------
        >>> from fedbandits.rules.estimators import Trimmed
        >>> Trimmed(liars=0.1).liars_among(39), Trimmed(liars=3).liars_among(39)
        (3, 3)
        """
        return int(self.liars) if self.liars >= 1 else int(share_of(self.liars, clients))

    def conditions(self, context: ProofContext) -> tuple[Condition, ...]:
        """Return that groups are of clients in a random order, and not of all that exist."""
        if self.groups == 1 or not context.everyone:
            return ()
        why = (
            "honest clients that share a group with a liar are left out, and the answer is for all"
            " that are honest: use groups = 1"
        )
        return (Condition("groups are of clients drawn at random", status=Status.BROKEN, why=why),)

    def honesty(self) -> tuple[Condition, ...]:
        """Return what it needs to be true of liars."""
        many = (
            f"{100 * self.liars:g} % of the clients that play lie, in every phase"
            if self.liars < 1
            else f"{self.liars:.0f} of the clients lie"
        )
        return (
            Condition(Assumption.FEW_LIARS, f"at most {many}"),
            Condition(Assumption.LIARS_ANYWAY),
        )

    def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
        """Return one value per arm, and what arms are compared by."""
        base = _PLAIN.estimate(reports, sampling)
        counts = np.asarray(reports.counts, dtype=np.float64)
        sizes = np.asarray(reports.sizes)
        planned = reports.means is None
        admitted = int(np.broadcast_to(sizes, counts.shape[-1:]).sum())
        means = None if planned else reports.complete_means(self.groups)
        clients = admitted if means is None else means.shape[-1]
        liars = self.liars_among(admitted)
        values = base.values
        if means is not None and clients // self.groups > 2 * liars:
            values = self.middle(grouped(means, self.groups), liars)
        noise, spread = sampling.variances(reports)
        fewest = np.where(counts > 0, counts, np.inf).min(axis=-1)
        # Whoever lies, the error of an honest mean is no larger than that of any mean.
        left = reports.distortion.largest()
        noise = noise / np.where(np.isfinite(fewest), fewest, 1.0) + left.variance
        exist = sampling.population if sampling.target == "clients" else None
        half = math.sqrt(float(np.max(spread))) if exist and sampling.bounded else math.inf
        return replace(
            base,
            values=np.asarray(values),
            client_means=means,
            contrasts=Contrasts(
                clients=clients,
                groups=self.groups,
                liars=liars,
                noise=np.asarray(noise),
                spread=np.asarray(spread, dtype=np.float64),
                # What clients leave open that were never heard is open about all. So is what
                # clients do that are in no group, or in one with a liar.
                sampled=exist is None or clients < exist or self.groups > 1,
                # A spread of zero says that nobody knows it.
                half_range=half or math.inf,
                bias=left.bias,
            ),
        )

    def floor(
        self, spread: float, *, half_range: float = math.inf, exist: int | None = None
    ) -> float:
        """Return by how much liars can move the difference of two arms, whatever is pulled.

        That of very many clients with very many pulls, whose arms are independent of each other.

        Parameters
        ----------
        spread : float
            σ_c, of one arm.
        half_range : float
            Of given clients: half of the range of their local means of an arm.
        exist : int, optional
            How many clients there are at most. A number of liars is a share of these; it is nothing
            among ever more clients.

        Examples
        --------
        >>> from fedbandits.rules.estimators import Median, Trimmed
        >>> for way in (Trimmed(liars=0.2), Median(liars=0.2)):
        ...     print(f"{way.floor(1.0) / 2**0.5:.2f}")
        0.58
        0.32
        """
        if self.liars >= 1 and exist is None:
            return 0.0
        many = 10**9
        share = self.liars if exist is None else self.liars_among(exist) / exist
        pairs = Contrasts(
            clients=many * self.groups,
            groups=self.groups,
            liars=int(share_of(share, many * self.groups)),
            noise=np.zeros(1),
            spread=np.array([spread**2]),
            sampled=not math.isfinite(half_range),
            half_range=half_range,
            bias=np.zeros(1),
        )
        return float(pairs.widths(self, np.ones(1), independent=True).max())

    def bearable(self, gap: float, spread: float, *, half_range: float = math.inf) -> float:
        """Return the largest share of liars with which a gap can be resolved at all.

        Twice the floor must stay below it: liars take one away, and the width has the other.

        Parameters
        ----------
        gap : float
            Between the two best arms.
        spread, half_range
            As in `floor`.

        Examples
        --------
        >>> from fedbandits.rules.estimators import Median
        >>> round(Median(liars=0.2).bearable(0.1, 0.1), 3)
        0.216
        """
        low, high = 0.0, 0.5
        for _ in range(40):
            middle = (low + high) / 2
            enough = 2 * replace(self, liars=middle).floor(spread, half_range=half_range) < gap
            low, high = (middle, high) if enough else (low, middle)
        return low

    def left_out(self, reports: Reports, leader: int) -> LeftOut | None:
        """Return whose differences to the leading arm are outside the middle ones.

        These are the f lowest and the f highest, but for those that equal one in the middle. A
        median has no use for most of the others either; whoever is farther out is counted here.
        """
        compared = reports.complete(self.groups)
        liars = self.liars_among(compared.size)
        rivals = np.flatnonzero(reports.active & (np.arange(reports.active.size) != leader))
        means = reports.each_mean(absent=0.0)[..., compared]
        values = grouped(means[leader] - means[rivals], self.groups)
        units = values.shape[-1]
        if units <= 2 * liars or not rivals.size:
            return None
        ends = (liars, units - liars - 1)
        low, high = np.moveaxis(np.partition(values, ends, axis=-1)[..., ends], -1, 0)
        outside = (values < low[:, np.newaxis]) | (values > high[:, np.newaxis])
        times = np.zeros(compared.size, dtype=np.int64)
        times[compared] = np.repeat(outside.sum(axis=0), self.groups)
        return LeftOut(
            clients=compared, times=times, comparisons=rivals.size, share=2 * liars / units
        )

    def middle(self, values: FloatArray, liars: int) -> FloatArray:
        """Return one value of those along the last axis, of which some may be anything."""
        raise UnstatedError(type(self).__name__, "middle", "what it makes of the values of clients")

    def excess(self, crowd: Crowd, log: FloatArray) -> FloatArray:
        """Return what the middle exceeds the truth by with probability at most exp(-log)."""
        raise UnstatedError(type(self).__name__, "excess", "how far it may be off")

    def lower(self, values: FloatArray, crowd: Crowd, log: FloatArray) -> FloatArray:
        """Return what the truth is below with probability at most exp(-log)."""
        return np.asarray(self.middle(values, crowd.liars) - self.excess(crowd, log))
