"""The plain average: every client counts the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.estimators.estimator import Average, Factors
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling, Variances
from fedbandits.rules.statistics import clients_in, pull_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain(Average):
    r"""The average over clients of their means: Algorithm 2, line 5, of the paper.

    :math:`\bar\mu_k = \sum_m \bar\mu_{k,m} / M` over the M clients that have pulled arm k, with the
    variance proxy :math:`\sigma^2 \eta + \sigma_c^2 (1/M - 1/N)`.

    Examples
    --------
    >>> seen = Reports(
    ...     counts=np.array([[100, 200], [100, 200]]),
    ...     means=np.array([[0.2, 0.4], [0.5, 0.9]]),
    ...     active=np.array([True, True]),
    ... )
    >>> found = Plain().estimate(seen, Sampling(noise=0.5, spread=0.1))
    >>> found.values, found.variance.round(6)
    (array([0.3, 0.7]), array([0.005938, 0.005938]))
    """

    name: ClassVar[str] = "plain"
    equal_weights: ClassVar[bool] = True
    proven: ClassVar[bool] = True

    def weighed(self, reports: Reports, sampling: Sampling, variances: Variances) -> FloatArray:
        """Return how many clients are in each group."""
        sizes = np.asarray(reports.sizes, dtype=np.float64)
        return np.asarray((np.asarray(reports.counts) > 0) * sizes)

    def factors(self, reports: Reports, sampling: Sampling, weights: FloatArray) -> Factors:
        """Return η and the error that M of N clients leave."""
        counts, sizes = reports.counts, reports.sizes
        return pull_factor(counts, sizes), sampling.client_factor(clients_in(counts, sizes))
