r"""σ and σ_c from the clients' own statistics, if nobody knows them.

A one-way random-effects analysis of variance: client m's mean of :math:`n_m` pulls of an arm is
:math:`y_m = \mu + u_m + e_m`, where :math:`u_m` has the variance :math:`\sigma_c^2` between clients
and :math:`e_m` the variance :math:`\sigma^2 / n_m`. What scatters within clients gives σ, and what
their means scatter more than that gives σ_c.

**There is no finite-sample guarantee** if the estimates stand in for bounds: they come from the
data that they are to judge, and take every client and arm to have one σ, every arm one σ_c. They
are too small, and arms are dropped too soon, where

- there are few clients and the spread matters: M clients tell σ_c² to within
  :math:`\sqrt{2 / (K (M - 1))}` of itself, and often as 0 when it is below σ²/n;
- clients are skewed: an arm that is far better for one client in ten looks even, and worse, in the
  samples that miss them;
- outcomes are skewed: until a rare and large one has happened there is next to no noise to be seen;
- arms or clients differ in noise or in spread: the average is too small for the noisier ones.

References
----------
DerSimonian and Laird (1986), "Meta-analysis in clinical trials", Controlled Clinical Trials 7,
equation 8; Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance", The
American Statistician 37.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError, check_count
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.statistics import sum_groups

FEWEST_TO_ESTIMATE = 10
"""From fewer clients neither σ nor σ_c is estimated by default."""

# Of some pulls: how many, their sum, and their sum of squares around their mean.
_Moments: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceComponents:
    """What is known about the variances within and between clients; leading axes as given.

    Parameters
    ----------
    noise_variance, spread_variance : array, shape (...)
        σ² and σ_c²; infinite where nothing can be said.
    """

    noise_variance: FloatArray
    spread_variance: FloatArray


def variance_components(
    counts: npt.ArrayLike,
    means: FloatArray,
    squares: FloatArray | None,
    active: BoolArray,
    *,
    noise_variance: float | None = None,
    min_clients: int = FEWEST_TO_ESTIMATE,
) -> VarianceComponents:
    r"""Return σ² and σ_c², estimated from the statistics of every client.

    Within clients, pooled over clients m and active arms k: :math:`\hat\sigma^2 = \sum_{k,m} S_{km}
    / \sum_{k,m} (n_{km} - 1)`, S being the sum of squares around a client's own mean. Between
    clients it is `dersimonian_laird` of every arm, averaged over active arms, and 0 where that is
    negative. It is cut off at 0 after averaging: before, it would be too large on average.

    No finite-sample guarantee comes with either; see the module.

    Parameters
    ----------
    counts : array, broadcast against ``means``
        Pulls of each arm by each client.
    means : array, shape (..., arms, clients)
        The mean of these pulls; where there are none it must be finite and is not used.
    squares : array, shape (..., arms, clients), optional
        The sum of squares of these pulls around their mean; not needed if σ² is given, and not
        used where there is a single pull.
    active : array of bool, shape (..., arms)
        The arms that are looked at, at least one.
    noise_variance : float, optional
        σ², if it is known.
    min_clients : int
        If an active arm has fewer clients nothing is estimated. If σ² is to be estimated, those
        with a single pull do not count: they show nothing of it.

    Returns
    -------
    VarianceComponents
        Infinite where there are too few clients, or where all that was observed is alike: no noise
        in sight is not the same as none.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> local = rng.normal(0.5, 0.1, (2, 400, 1))
    >>> pulls = rng.normal(local, 0.3, (2, 400, 20))
    >>> means = pulls.mean(axis=-1)
    >>> squares = ((pulls - means[..., np.newaxis]) ** 2).sum(axis=-1)
    >>> found = variance_components(20, means, squares, np.array([True, True]))
    >>> float(found.noise_variance.round(4)), float(found.spread_variance.round(4))
    (0.0892, 0.0099)
    """
    check_count(min_clients, "min_clients", 2)
    counts = np.broadcast_to(np.asarray(counts, dtype=np.float64), means.shape)
    known = noise_variance is not None
    repeated = counts >= 2
    showing = sum_groups(counts > 0 if known else repeated)
    enough = np.where(active, showing >= min_clients, True).all(axis=-1)
    if noise_variance is not None:
        noise = np.full(enough.shape, float(noise_variance))
    else:
        if squares is None:
            raise InputError("squares", "are missing; they are needed to estimate σ")
        freedom, within = (
            _over_arms(np.where(active, sum_groups(np.where(repeated, each, 0.0)), 0.0))
            for each in (counts - 1.0, squares)
        )
        noise = within / np.maximum(freedom, 1.0)
        enough = enough & (noise > 0)
    between = dersimonian_laird(counts, means, noise[..., np.newaxis])
    total = _over_arms(np.where(active, between, 0.0))
    spread = np.maximum(total / active.sum(axis=-1), 0.0)
    enough = enough & (noise + spread > 0)
    return VarianceComponents(
        noise_variance=noise if known else np.where(enough, noise, np.inf),
        spread_variance=np.where(enough, spread, np.inf),
    )


def dersimonian_laird(
    counts: npt.ArrayLike, means: FloatArray, noise_variance: npt.ArrayLike
) -> FloatArray:
    r"""Return σ_c² of every arm by the method of moments; it may be below 0.

    With M clients that have pulled an arm, :math:`N = \sum_m n_m` and :math:`\bar y = \sum_m n_m
    y_m / N`,

    .. math:: \hat\sigma_c^2 = \frac{\sum_m n_m (y_m - \bar y)^2 - (M - 1)\,\sigma^2}
        {N - \sum_m n_m^2 / N}.

    Derivation: this is equation 8 of DerSimonian and Laird (1986), whose weights :math:`w_m = n_m /
    \sigma^2` are proportional to counts if clients share a σ, so that nothing is divided by it.
    By :math:`\mathrm{Var}(y_m) = \sigma_c^2 + \sigma^2 / n_m`, the sum in the numerator has the
    expectation :math:`(M - 1)\,\sigma^2 + \sigma_c^2 (N - \sum_m n_m^2 / N)`: the estimate is
    unbiased, whatever the laws, if σ² is known or estimated without bias.

    Parameters
    ----------
    counts : array, broadcast against ``means``
        Pulls of the arm by each client.
    means : array, shape (..., clients)
        The mean of these pulls; where there are none it must be finite and is not used.
    noise_variance : array, broadcast against the arms
        σ².

    Returns
    -------
    array, shape (...)
        One for every arm. Of an arm that a single client has pulled it says nothing.

    Examples
    --------
    >>> float(dersimonian_laird(1, np.array([0.0, 1.0, 2.0]), 0.1).round(3))
    0.9
    """
    # Clients with a single pull count like others. The model gives their mean the variance
    # σ_c² + σ², which is what is subtracted. Their mean is in the estimate of the arm as well, so
    # that a spread without them would be that of other clients than those it is to judge: too
    # small, and unsafe, if they stand out. Only of σ do they show nothing.
    pulls = np.broadcast_to(np.asarray(counts, dtype=np.float64), means.shape)
    total = np.maximum(sum_groups(pulls), 1.0)
    centre = sum_groups(pulls * means) / total
    around = sum_groups(pulls * (means - centre[..., np.newaxis]) ** 2)
    scale = total - sum_groups(pulls**2) / total
    degrees = np.maximum(sum_groups(pulls > 0) - 1.0, 0.0)
    noise = degrees * np.asarray(noise_variance, dtype=np.float64)
    return np.asarray((around - noise) / np.where(scale > 0, scale, 1.0))


def merged_squares(one: _Moments, other: _Moments) -> FloatArray:
    r"""Return the sum of squares around the common mean of pulls that were made in two parts.

    :math:`S = S_a + S_b + (\bar x_a - \bar x_b)^2\, n_a n_b / (n_a + n_b)` (Chan, Golub and LeVeque
    1983): all terms are positive, so that nothing cancels as it would in a sum of raw squares.

    Parameters
    ----------
    one, other : tuple of three arrays
        How many, their sum, and their sum of squares around their mean.

    Examples
    --------
    >>> parts = np.array([1.0, 2.0]), np.array([4.0, 5.0, 9.0])
    >>> one, other = ((x.size, x.sum(), ((x - x.mean()) ** 2).sum()) for x in parts)
    >>> both = np.concatenate(parts)
    >>> float(merged_squares(one, other) - ((both - both.mean()) ** 2).sum())
    0.0
    """
    n, sums, squares = (np.asarray(part, dtype=np.float64) for part in one)
    m, other_sums, other_squares = (np.asarray(part, dtype=np.float64) for part in other)
    apart = sums / np.maximum(n, 1.0) - other_sums / np.maximum(m, 1.0)
    share = n * m / np.maximum(n + m, 1.0)
    return np.asarray(squares + other_squares + share * apart**2)


def _over_arms(values: FloatArray) -> FloatArray:
    # One after the other: arms that are out, and zero, may be there or not.
    return np.asarray(np.cumsum(values, axis=-1)[..., -1])
