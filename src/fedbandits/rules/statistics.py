r"""What the server computes from its clients' statistics, before any decision.

Arrays end in ``(arms, groups)``; every axis before that is free (replications, say). A *group* is
a client, or a cohort of ``size`` clients that share their pull counts, whose mean is the average
of its clients' means.

In the paper's words, with cohort :math:`q` of :math:`g(q)` clients admitted in phase :math:`q`:
:math:`M(p) = \sum_{q \le p} g(q)` clients are in, :math:`F(p) = \sum_{q \le p} f(q)` is how often
the oldest have pulled an active arm, :math:`F(p) - F(q-1)` how often cohort :math:`q` has.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedbandits.rules.arrays import FloatArray

# Of how many values a sample is taken to find one of a rank, and how large it is.
_MANY = 2_000
_SAMPLE = 500


def sum_groups(values: npt.ArrayLike) -> FloatArray:
    """Return the sums over groups, the last axis; the last bit depends on the values alone.

    NumPy's order of summation depends on nothing but the length of a contiguous last axis.
    """
    return np.asarray(np.add.reduce(np.ascontiguousarray(values, dtype=np.float64), axis=-1))[()]


def aggregate(means: FloatArray, weights: npt.ArrayLike | None = None) -> FloatArray:
    r"""Return the global estimates: the weighted average of the groups' means.

    Algorithm 2, line 5: :math:`\bar\mu_k(p) = \sum_m \bar\mu_{k,m}(p) / M(p)`. This is the only
    place where means of clients are summed, always in the order of the groups along the last axis,
    so that every driver gets the same last bit from the same means.

    Parameters
    ----------
    means : array, shape (..., groups)
        The mean of every group; where the weight is zero it must be finite and is not used.
    weights : array, shape (..., groups), optional
        Non-negative, not all zero: the clients in a group. Equal by default.

    Examples
    --------
    >>> aggregate(np.array([[0.2, 0.8], [0.5, 0.7]]))
    array([0.5, 0.6])
    >>> aggregate(np.array([0.2, 0.8]), weights=[3, 1]).round(3)
    np.float64(0.35)
    """
    if weights is None:
        return np.divide(sum_groups(means), means.shape[-1])
    weights = np.asarray(weights, dtype=np.float64)
    return sum_groups(means * weights) / sum_groups(weights)


def ranked(values: FloatArray, rank: int) -> FloatArray:
    """Return the value of a rank along the last axis; the lowest has rank 0.

    Of very many values a sample tells between which two it lies, so that few need be put in order.
    Values in an unlucky order take longer, and no more.

    Examples
    --------
    >>> ranked(np.array([[0.3, 0.1, 0.2], [5.0, 4.0, 6.0]]), 1)
    array([0.2, 5. ])
    """
    size = values.shape[-1]
    if size < _MANY:
        return np.asarray(np.partition(values, rank, axis=-1)[..., rank])
    rows = values.reshape(-1, size)
    sample = np.sort(rows[:, :: size // _SAMPLE], axis=-1)
    share, last = rank / size, sample.shape[-1] - 1
    # Three standard errors of a share in the sample, to either side.
    slack = 3.0 * math.sqrt((last + 1) * share * (1 - share))
    low = sample[:, max(math.floor(last * share - slack), 0)]
    high = sample[:, min(math.ceil(last * share + slack), last)]
    found = np.empty(len(rows))
    for place, row in enumerate(rows):
        few = row[(row >= low[place]) & (row <= high[place])]
        left = rank - int(np.count_nonzero(row < low[place]))
        if not 0 <= left < few.size:
            few, left = row, rank
        found[place] = np.partition(few, left)[left]
    return found.reshape(values.shape[:-1])


def clients_in(counts: npt.ArrayLike, sizes: npt.ArrayLike = 1) -> FloatArray:
    """Return how many clients have pulled an arm at all: M(p), in general form.

    Parameters
    ----------
    counts : array, shape (..., groups)
        Pulls of the arm by each client of the group; 0 for a group that never pulled it.
    sizes : array, optional
        Clients in each group.

    Examples
    --------
    >>> clients_in([100, 100, 0], sizes=[2, 4, 8])
    np.float64(6.0)
    """
    counts = np.asarray(counts, dtype=np.float64)
    return np.asarray(((counts > 0) * np.asarray(sizes, dtype=np.float64)).sum(axis=-1))[()]


def pulls_in_all(counts: npt.ArrayLike, sizes: npt.ArrayLike = 1) -> FloatArray:
    """Return how often all clients together have pulled an arm.

    Parameters
    ----------
    counts, sizes
        As in `clients_in`.

    Examples
    --------
    >>> pulls_in_all([[10, 0], [10, 5]], sizes=[2, 4])
    array([20., 40.])
    """
    return sum_groups(np.asarray(counts, dtype=np.float64) * np.asarray(sizes, dtype=np.float64))


def pull_factor(counts: npt.ArrayLike, sizes: npt.ArrayLike = 1) -> FloatArray:
    r"""Return η: the variance of the average of client means, for observations of variance 1.

    General form :math:`\eta = M^{-2} \sum_m 1 / n_m` over the clients that have pulled the arm;
    with cohorts it is the paper's :math:`\eta_p = M(p)^{-2} \sum_{q \le p} g(q) / (F(p) -
    F(q-1))`, and with one cohort :math:`1 / (M F(p))`, the factor in :math:`B_{p,1}`.

    Parameters
    ----------
    counts, sizes
        As in `clients_in`. Infinite where nobody has pulled the arm.

    Examples
    --------
    Two cohorts of 2 and 4 clients after two phases of 100 pulls:

    >>> float(pull_factor([200, 100], sizes=[2, 4]))
    0.001388888888888889
    """
    counts = np.asarray(counts, dtype=np.float64)
    inverse = np.asarray(sizes, dtype=np.float64) / np.where(counts > 0, counts, np.inf)
    clients = clients_in(counts, sizes)
    total = np.where(clients > 0, sum_groups(inverse), np.inf)
    return np.asarray(total / np.maximum(clients, 1.0) ** 2)[()]


def client_factor(
    clients: npt.ArrayLike, population: int | None = None, *, bounded: bool = False
) -> FloatArray:
    r"""Return the variance of the average of M local means, for local means of variance 1.

    :math:`1/M - 1/N` when M clients are drawn from a population of N without replacement; N
    unlimited gives the paper's :math:`1/M(p)` of Fed2-UCB, N = M gives 0, which is Fed1-UCB.

    Parameters
    ----------
    clients : array
        M.
    population : int, optional
        N; None is unlimited.
    bounded : bool
        Whether σ_c is half the range of local means of which nothing else is known. A variance is
        no subgaussian proxy then, and the factor is Serfling's :math:`(1 - (M-1)/N) / M`. Without
        it the N local means must themselves be like draws from a law with the proxy σ_c²: given
        such draws, the average of M of them is off that of all N with the proxy of the factor.

    References
    ----------
    Serfling (1974), "Probability inequalities for the sum in sampling without replacement", Annals
    of Statistics 2.

    Examples
    --------
    >>> float(client_factor(4)), float(client_factor(4, population=8))
    (0.25, 0.125)
    >>> float(client_factor(8, population=8)), float(client_factor(4, 8, bounded=True))
    (0.0, 0.15625)
    """
    inverse = 1.0 / np.asarray(clients, dtype=np.float64)
    if population is None:
        return inverse[()]
    left = np.maximum(inverse - 1.0 / population, 0.0)
    if bounded:
        left = np.where(left > 0, left + inverse / population, 0.0)
    return np.asarray(left)[()]


def inverse_variance_weights(
    counts: npt.ArrayLike,
    sizes: npt.ArrayLike = 1,
    *,
    noise: float | FloatArray,
    spread: float | FloatArray,
    distorted: float | FloatArray = 0.0,
) -> FloatArray:
    r"""Return the weights of groups that give the average of clients' means the least variance.

    Client m's mean has the variance :math:`\tau_m^2 = \sigma_c^2 + \sigma^2 / n_m + d_m`; weights
    proportional to :math:`1/\tau_m^2` give :math:`v = 1 / \sum_m \tau_m^{-2}`. Right for an
    unlimited population, and wrong when counts are related to outcomes.

    Parameters
    ----------
    counts, sizes
        As in `clients_in`.
    noise, spread : float or array, broadcast against ``counts``
        σ and σ_c; if both are zero all clients weigh the same.
    distorted : float or array, broadcast against ``counts``
        :math:`d_m`: what protecting a client's mean adds to its variance.

    Examples
    --------
    >>> inverse_variance_weights([200, 100], sizes=[2, 4], noise=0.5, spread=0.02).round()
    array([1212., 1379.])
    """
    counts = np.asarray(counts, dtype=np.float64)
    variance = spread**2 + noise**2 / np.where(counts > 0, counts, 1.0) + distorted
    variance = np.where(variance > 0, variance, 1.0)
    return np.where(counts > 0, np.asarray(sizes, dtype=np.float64) / variance, 0.0)


def weighted_factors(
    weights: FloatArray, counts: npt.ArrayLike, sizes: npt.ArrayLike = 1
) -> tuple[FloatArray, FloatArray]:
    r"""Return `pull_factor` and `client_factor` for weighted groups.

    With weights :math:`w_m` of clients that sum to 1 these are :math:`\sum w_m^2 / n_m` and
    :math:`\sum w_m^2`.

    Parameters
    ----------
    weights : array, shape (..., groups)
        Of all clients of a group together.
    counts, sizes
        As in `clients_in`.

    Examples
    --------
    >>> pulls, clients = weighted_factors(np.array([2.0, 4.0]), [200, 100], [2, 4])
    >>> float(pulls), float(clients)
    (0.001388888888888889, 0.16666666666666666)
    """
    counts = np.asarray(counts, dtype=np.float64)
    total = sum_groups(weights)
    # A group without clients weighs nothing.
    squares = weights**2 / np.maximum(np.asarray(sizes, dtype=np.float64), 1.0)
    known = total > 0
    whole = np.where(known, total, 1.0) ** 2
    pulls, clients = (
        np.asarray(np.where(known, sum_groups(parts) / whole, np.inf))[()]
        for parts in (squares / np.maximum(counts, 1.0), squares)
    )
    return pulls, clients


def heaviest_pull(
    weights: FloatArray, counts: npt.ArrayLike, sizes: npt.ArrayLike = 1
) -> FloatArray:
    """Return the largest weight that one pull of an arm has in its estimate.

    Parameters
    ----------
    weights, counts, sizes
        As in `weighted_factors`.

    Examples
    --------
    >>> float(heaviest_pull(np.array([2.0, 4.0]), [200, 100], [2, 4]) * 600)
    1.0
    """
    counts = np.asarray(counts, dtype=np.float64)
    total = sum_groups(weights)
    # A group without clients weighs nothing.
    clients = np.maximum(np.asarray(sizes, dtype=np.float64), 1.0)
    of_a_pull = weights / (clients * np.maximum(counts, 1.0))
    heaviest = of_a_pull.max(axis=-1) / np.where(total > 0, total, 1.0)
    return np.asarray(np.where(total > 0, heaviest, 1.0))[()]
