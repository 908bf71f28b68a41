"""The average over clients, weighted by how much is known about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.estimators.estimator import Average, Factors
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling, Variances
from fedbandits.rules.statistics import inverse_variance_weights, weighted_factors


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseVariance(Average):
    r"""The average over clients with the least variance.

    Weights proportional to :math:`1 / (\sigma_c^2 + \sigma^2 / n_m + d_m)`, see
    `fedbandits.rules.statistics.inverse_variance_weights`. For future clients, not for a finite
    number of clients who each count the same.

    Examples
    --------
    >>> seen = Reports(
    ...     counts=np.array([[100, 300]]),
    ...     means=np.array([[0.2, 0.4]]),
    ...     active=np.array([True]),
    ... )
    >>> InverseVariance().estimate(seen, Sampling(noise=0.5, spread=0.0)).values
    array([0.35])
    """

    name: ClassVar[str] = "inverse-variance"
    uses_variances: ClassVar[bool] = True
    most_likely: ClassVar[bool] = True
    proven: ClassVar[bool] = True

    def weighed(self, reports: Reports, sampling: Sampling, variances: Variances) -> FloatArray:
        """Return the inverse of every client's variance, times the clients of a group."""
        noise, spread = sampling.noise, sampling.spread
        if noise is None or spread is None:
            # If nothing is known of the variances, all clients weigh the same.
            found = [np.asarray(variance)[..., np.newaxis] for variance in variances]
            known = np.isfinite(found[0]) & np.isfinite(found[1]) & (found[0] + found[1] > 0)
            noise = np.sqrt(np.where(known, found[0], 0.0))
            spread = np.sqrt(np.where(known, found[1], 1.0))
        return inverse_variance_weights(
            reports.counts,
            reports.sizes,
            noise=noise,
            spread=spread,
            distorted=reports.distortion.variance,
        )

    def factors(self, reports: Reports, sampling: Sampling, weights: FloatArray) -> Factors:
        """Return Σ w²/n and Σ w², for weights that sum to 1."""
        return weighted_factors(weights, reports.counts, reports.sizes)
