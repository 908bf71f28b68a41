"""What imported data says by itself: the gap, the spread, and how many clients tell them apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from fedbandits.reproduce.movielens.groups import are_released
from fedbandits.reproduce.movielens.store import Imported
from fedbandits.rules.arrays import FloatArray
from fedbandits.theory.sampling import clients_needed

SURE = 0.99
"""In such a share of samples the two best groups are to stand in the right order."""

RESAMPLED = 2_000
"""How often as many clients are drawn again, with replacement."""

LARGEST_TOTAL = 200
"""Up to which n the values of a row are tried as multiples of 1/n."""

_AT_ONCE = 100


def facts_of(
    data: Imported, means: FloatArray, *, horizon: int, seed: int, resampled: int
) -> dict[str, Any]:
    """Return what the local means of all clients say, ready for JSON.

    Parameters
    ----------
    data : Imported
        Where they come from.
    means : array, shape (clients, groups)
        Local means.
    horizon : int
        T, for the number of clients by Theorem 1.
    seed : int
        Of the resampling.
    resampled : int
        How often as many clients are drawn again; 0 leaves that out.
    """
    n, groups = means.shape
    averages = means.mean(axis=0)
    # The lower index on ties, as everywhere.
    best, second = np.argsort(-averages, kind="stable")[:2].tolist()
    apart = pair_facts(means[:, best] - means[:, second])
    by_theorem = None
    if data.gap > 0 and data.spread > 0:
        by_theorem = clients_needed(
            gap=data.gap, spread=data.spread, n_arms=groups, horizon=horizon
        )
    return {
        "kind": data.kind,
        "source": data.source,
        "users": data.users,
        "clients": n,
        "groups": groups,
        "best_group": best,
        "best_mean": float(averages[best]),
        "second_group": second,
        "second_mean": float(averages[second]),
        "gap": data.gap,
        "spread": data.spread,
        **apart,
        "first_again": first_again(means, seed=seed, times=resampled) if resampled else None,
        "clients_by_theorem": by_theorem,
    }


def pair_facts(differences: FloatArray) -> dict[str, Any]:
    """Return what clients say of two groups, from the difference of each client.

    Normal calculation, client by client, so that whatever a client adds to both groups cancels. In
    a sample of M clients of an unlimited population the mean difference has deviation sd / √M, in
    one of M among N clients sd √(1/M − 1/N).

    Parameters
    ----------
    differences : array, shape (clients,)
        Best minus second best, a client's own.

    Examples
    --------
    >>> found = pair_facts(np.array([0.5, -0.3, 0.1, 0.1]))
    >>> round(found["z"], 3), found["higher"], found["lower"]
    (0.612, 0.75, 0.25)
    >>> found["clients_unlimited"], found["clients_of_these"]
    (58, 4)
    """
    n = differences.size
    mean = float(differences.mean())
    deviation = float(differences.std(ddof=1)) if n > 1 else 0.0
    z = unlimited = of_these = None
    if mean > 0 and deviation > 0:
        z = mean / deviation * math.sqrt(n)
        enough = (float(stats.norm.ppf(SURE)) * deviation / mean) ** 2
        unlimited = math.ceil(enough)
        of_these = math.ceil(1 / (1 / enough + 1 / n))
    return {
        "difference_deviation": deviation,
        "z": z,
        "higher": float((differences > 0).mean()),
        "lower": float((differences < 0).mean()),
        "clients_unlimited": unlimited,
        "clients_of_these": of_these,
    }


def first_again(means: FloatArray, *, seed: int, times: int = RESAMPLED) -> float:
    """Return how often the best group is first again if as many clients are drawn again.

    Clients are drawn with replacement, as from an unlimited population of clients like these.

    Examples
    --------
    >>> first_again(np.array([[0.9, 0.1], [0.8, 0.2], [0.9, 0.3]]), seed=1, times=50)
    1.0
    """
    n = len(means)
    best = int(means.mean(axis=0).argmax())
    rng = np.random.default_rng(np.random.SeedSequence([seed, 6]))
    first = 0
    for start in range(0, times, _AT_ONCE):
        weights = rng.multinomial(n, np.full(n, 1 / n), size=min(_AT_ONCE, times - start))
        first += int(((weights @ means).argmax(axis=1) == best).sum())
    return first / times


def matrix_facts(matrix: FloatArray) -> dict[str, Any]:
    """Return what kind of numbers the rows of a matrix are made of.

    A user's *totals* of the groups, divided by the largest of them, n, are multiples of 1/n with a
    largest value of 1. Means of ratings are not: those of different groups have different
    denominators.

    Parameters
    ----------
    matrix : array, shape (users, groups)
        Values in [0, 1].

    Examples
    --------
    >>> matrix_facts(np.array([[1.0, 0.5, 0.0], [0.75, 1.0, 0.25]]))["denominators"]
    [2, 3.0, 4]
    >>> matrix_facts(np.array([[1.0, 1 / np.pi], [0.25, 1.0]]))["denominators"] is None
    True
    """
    denominators = np.zeros(len(matrix), dtype=np.int64)
    for n in range(1, LARGEST_TOTAL + 1):
        left = np.flatnonzero(denominators == 0)
        if not left.size:
            break
        scaled = matrix[left] * n
        whole = (np.abs(scaled - np.rint(scaled)) < 1e-9).all(axis=1)
        denominators[left[whole]] = n
    found = None
    if denominators.all():
        found = [int(denominators.min()), float(np.median(denominators)), int(denominators.max())]
    return {
        "zeros": float((matrix == 0).mean()),
        "largest_is_one": float((matrix.max(axis=1) == 1).mean()),
        "denominators": found,
        "as_released": are_released(matrix.mean(axis=0)),
    }
