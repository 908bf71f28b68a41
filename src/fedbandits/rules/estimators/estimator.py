"""What an estimator is, and the common part of all weighted averages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError, UnstatedError
from fedbandits.rules.abilities import Judge, Statement, unstated
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.contrasts import StandsLiars
from fedbandits.rules.distortion import UNDISTORTED
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.guarantees import Assumption, Condition, ProofContext
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling, Variances
from fedbandits.rules.statistics import clients_in, heaviest_pull, pulls_in_all

# The variance of an average for observations, and for local means, of variance 1.
Factors: TypeAlias = tuple[FloatArray, FloatArray]

# A class that replaces a method states what is proven, or is taken for unproven.
_JUDGE = Judge(
    {
        "proven": Statement(),
        "equal_weights": Statement(),
        "takes_protected": Statement(about=("estimate",)),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """How often a decision has left a client out because it is among the lowest or the highest.

    Parameters
    ----------
    clients : array of bool, shape (clients,)
        Who was compared.
    times : array of int, shape (clients,)
        In how many comparisons of two arms a client was left out.
    comparisons : int
        How many there were.
    share : float
        Which share of clients is left out of a comparison if no two are equal: what to expect of a
        client like the others.
    """

    clients: BoolArray
    times: IntArray
    comparisons: int
    share: float


class Estimator:
    """How the means of clients become one value per arm: a frozen dataclass.

    A class of your own states `name` and `needs_each_client` and defines `estimate`. Whatever
    else it is asked and does not say is an error that names what to write. A class whose values are
    proven says so (`proven`), and what else the proof rests on (`conditions`).
    """

    __slots__ = ()

    name: ClassVar[str] = unstated("what it is called in files")
    needs_each_client: ClassVar[bool] = unstated(
        "whether it needs the mean of every client, and not just averages over clients"
    )
    takes_protected: ClassVar[bool] = unstated(
        "whether what it says of its values allows for protected means (Reports.distortion)"
    )
    needs_squares: ClassVar[bool] = False
    """Whether clients must send sums of squares for it, beside those that estimate σ."""
    needs_shares: ClassVar[bool] = False
    """Whether it counts every client by a weight of its own."""
    uses_variances: ClassVar[bool] = False
    """Whether its values depend on what is known of σ and σ_c."""
    equal_weights: ClassVar[bool] = False
    """Whether it is the plain average, which the paper's proofs are about."""
    most_likely: ClassVar[bool] = False
    """Whether its values are the most likely means of normal clients with known σ and σ_c."""
    stands_liars: ClassVar[bool] = False
    """Whether it stands clients that send anything, and arms are compared by `Contrasts`."""
    proven: ClassVar[bool] = False
    """Whether its values are proven to scatter no more than it says, which every proof rests on."""

    def __init_subclass__(cls) -> None:
        """Note what a class states: it is judged when it is asked for."""
        _JUDGE.hear(cls)

    def conditions(self, context: ProofContext) -> tuple[Condition, ...]:
        """Return what the proof of its values assumes, in addition to what the radius needs.

        A condition may be of a kind of its own: ``Condition("few liars", "at most 3 of 40 clients
        lie")``.
        """
        return ()

    @property
    def needs_spread(self) -> bool:
        """Whether it must be told by how much clients differ, also if all of them play."""
        return False

    @property
    def way(self) -> StandsLiars | None:
        """How arms are compared within clients; None if averages are compared."""
        return None

    def liars_among(self, clients: int) -> int:
        """Return how many of this many clients may lie without harm: none by default."""
        return 0

    def floor(
        self, spread: float, *, half_range: float = math.inf, exist: int | None = None
    ) -> float:
        """Return by how much liars that it allows for can move a comparison, at most."""
        return 0.0

    def bearable(self, gap: float, spread: float, *, half_range: float = math.inf) -> float:
        """Return the largest share of liars with which a gap can be resolved: none by default."""
        return 0.0

    def left_out(self, reports: Reports, leader: int) -> LeftOut | None:
        """Return whose differences of an arm to another are left out; None if all count."""
        return None

    def honesty(self) -> tuple[Condition, ...]:
        """Return what it needs to be true of liars: that there are none, by default."""
        return (Condition(Assumption.HONEST),)

    def check_protected(self, *, subgaussian: bool) -> None:
        """Refuse means that are protected, unless it allows for that.

        Parameters
        ----------
        subgaussian : bool
            Whether their errors have tails like normal ones: rounding and Gaussian noise have.
        """
        if not self.takes_protected:
            raise InputError(
                "estimator",
                f'"{self.name}" does not allow for protected means (its takes_protected is False);'
                " use the plain average",
            )

    def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
        """Return one value per arm, and how far it may be off."""
        raise UnstatedError(type(self).__name__, "estimate", "how it estimates")

    def weights(self, reports: Reports, sampling: Sampling) -> FloatArray:
        """Return the weight of every group, for an estimator that is an average over groups."""
        raise UnstatedError(type(self).__name__, "weights", "how it weighs clients")


class Average(Estimator):
    """An average over groups whose weights do not depend on their means of single arms."""

    __slots__ = ()

    needs_each_client: ClassVar[bool] = False
    takes_protected: ClassVar[bool] = True

    def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
        """Return the averages, and how far they may be off."""
        counts, sizes = np.asarray(reports.counts, dtype=np.float64), reports.sizes
        pulls = pulls_in_all(counts, sizes)
        noise, spread = variances = sampling.variances(reports)
        if not np.all(pulls):
            # As if pulled once: nobody asks for that width, which would be a division by zero.
            counts = np.where((counts > 0).any(axis=-1, keepdims=True), counts, 1)
            reports = replace(reports, counts=counts)
        weights = self.weighed(reports, sampling, variances)
        of_pulls, of_clients = self.factors(reports, sampling, weights)
        if not (isinstance(spread, float) and math.isfinite(spread)):
            # Unknown, and of no consequence if all clients are in.
            spread = np.where(of_clients > 0, spread, 0.0)
        return Estimate(
            values=reports.averaged(None if (weights == 1.0).all() else weights),
            pull_variance=np.asarray(noise * of_pulls),
            client_variance=np.asarray(spread * of_clients),
            pull_factor=np.asarray(of_pulls),
            heaviest_pull=np.asarray(heaviest_pull(weights, counts, sizes)),
            pulls=np.asarray(pulls),
            clients=np.asarray(_clients_of_any_arm(counts, sizes)),
            even=_even(counts, sizes, sampling.population),
            independent_clients=sampling.independent_clients,
            distortion=UNDISTORTED
            if reports.distortion is UNDISTORTED
            else reports.distortion.averaged(weights, sizes),
        )

    def weights(self, reports: Reports, sampling: Sampling) -> FloatArray:
        """Return the weight of every group."""
        return self.weighed(reports, sampling, sampling.variances(reports))

    def weighed(self, reports: Reports, sampling: Sampling, variances: Variances) -> FloatArray:
        """Return the weight of every group, for σ² and σ_c²."""
        raise UnstatedError(type(self).__name__, "weighed", "how it weighs clients")

    def factors(self, reports: Reports, sampling: Sampling, weights: FloatArray) -> Factors:
        """Return the variance of an average for observations, and for local means, of variance 1.

        See `fedbandits.rules.statistics.pull_factor` and `client_factor`.
        """
        raise UnstatedError(type(self).__name__, "factors", "what its variance is")


def _clients_of_any_arm(counts: FloatArray, sizes: npt.ArrayLike) -> FloatArray:
    """Return how many clients have pulled any arm, with an axis of length 1 for the arms."""
    some = counts > 0
    apart = some.ndim > 1 and some.shape[-2] > 1
    return pulls_in_all(some.any(axis=-2, keepdims=True) if apart else some, sizes)


def _even(counts: FloatArray, sizes: npt.ArrayLike, population: int | None) -> BoolArray:
    """Return whether all clients that exist have pulled an arm, and equally often."""
    if population is None:
        return np.zeros(1, dtype=np.bool_)
    # Groups without clients have no counts.
    least = np.where(np.asarray(sizes) > 0, counts, np.inf).min(axis=-1)
    everyone = clients_in(counts, sizes) == population
    return np.asarray((least == counts.max(axis=-1)) & everyone)
