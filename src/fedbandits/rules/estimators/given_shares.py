"""The average over clients that each have their own weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.estimators.estimator import Average, Factors
from fedbandits.rules.guarantees import Condition, ProofContext, Status
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling, Variances
from fedbandits.rules.statistics import clients_in, weighted_factors


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenShares(Average):
    r"""The average over clients by weights that are part of the question.

    With weights :math:`a_m` that sum to 1 the estimate is :math:`\sum_m a_m \bar X_m`, which aims
    at :math:`\sum_m a_m \mu_{k,m}` and has the variance proxy :math:`\sigma^2 \sum_m a_m^2 / n_m`
    once all clients are in.

    Examples
    --------
    >>> seen = Reports(
    ...     counts=np.array([[100, 100]]),
    ...     means=np.array([[0.2, 0.4]]),
    ...     active=np.array([True]),
    ...     shares=np.array([3.0, 1.0]),
    ... )
    >>> GivenShares().estimate(seen, Sampling(noise=0.5, spread=0.1, population=2)).values
    array([0.25])
    """

    name: ClassVar[str] = "given-shares"
    needs_shares: ClassVar[bool] = True
    proven: ClassVar[bool] = True

    def conditions(self, context: ProofContext) -> tuple[Condition, ...]:
        """Return that all clients must play: the error of a part of them depends on weights."""
        if context.everyone:
            return ()
        words = "all clients who have weights play from the start"
        why = "clients have weights of their own, and not all of them play from the start"
        return (Condition(words, status=Status.BROKEN, why=why),)

    def weighed(self, reports: Reports, sampling: Sampling, variances: Variances) -> FloatArray:
        """Return the clients' own weights."""
        if reports.shares is None:
            raise InputError("shares", "are missing; the rule counts every client by its weight")
        return np.where(np.asarray(reports.counts) > 0, reports.shares, 0.0)

    def factors(self, reports: Reports, sampling: Sampling, weights: FloatArray) -> Factors:
        """Return Σ a²/n, and what is open about all clients, which is nothing once they are in."""
        counts, sizes = reports.counts, reports.sizes
        pulls, _ = weighted_factors(weights, counts, sizes)
        return pulls, sampling.client_factor(clients_in(counts, sizes))
