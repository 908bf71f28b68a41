"""Differences of two arms within each client, in which what a client adds to all cancels."""

from __future__ import annotations

import numpy as np

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.radii.known import PhaseStatistics


def paired_variances(known: PhaseStatistics, rule: str) -> tuple[FloatArray, int]:
    """Return the sample variances of clients' differences, shape (..., arms, arms), and M.

    The divisor is M − 1.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fedbandits.rules.radii.known import example_statistics
    >>> known = example_statistics()
    >>> means = np.array([[0.1, 0.2, 0.6], [0.2, 0.4, 0.6]])
    >>> variances, clients = paired_variances(
    ...     replace(known, estimate=replace(known.estimate, client_means=means)), "paired-t"
    ... )
    >>> variances.round(4), clients
    (array([[0.  , 0.01],
           [0.01, 0.  ]]), 3)
    """
    means = known.estimate.client_means
    if means is None:
        raise InputError(
            "radius.rule",
            f'"{rule}" needs the mean of every client, but only averages are known here',
        )
    clients = means.shape[-1]
    if clients < 2:
        n_arms = means.shape[-2]
        return np.full((*means.shape[:-1], n_arms), np.inf), clients
    # Contiguous, as in `aggregate`: every driver gets the same last bit from the same means.
    means = np.ascontiguousarray(means)
    centred = means - means.mean(axis=-1, keepdims=True)
    products = centred @ np.swapaxes(centred, -1, -2) / (clients - 1)
    own = np.diagonal(products, axis1=-2, axis2=-1)
    both = own[..., :, np.newaxis] + own[..., np.newaxis, :]
    variances = both - 2.0 * products
    # What is left of a cancellation is no variance.
    return np.where(variances > 1e-12 * both, variances, 0.0), clients
