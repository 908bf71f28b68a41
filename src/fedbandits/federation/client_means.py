"""The mean of every client and option, as the server knows it, and which are outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedbandits.protocol import RunState
from fedbandits.rules.outliers import outliers


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMeans:
    """What is known of one client.

    Parameters
    ----------
    client : str
        Its name.
    means : tuple of float or None
        By arm, over all finished phases; rounded or noised if clients protect them. None if it
        has reported nothing.
    unlike : tuple of bool
        By arm, whether the mean is far from those of the others; see
        `fedbandits.rules.outliers.outliers`.
    """

    client: str
    means: tuple[float | None, ...]
    unlike: tuple[bool, ...]


def client_means(state: RunState) -> tuple[ClientMeans, ...]:
    """Return the means of all clients, in the order in which they joined."""
    tally = state.counted
    known = tally.pulled
    far = outliers(tally.means, known)
    shown = np.where(known, tally.means, np.nan)
    return tuple(
        ClientMeans(
            client=client,
            means=tuple(None if math.isnan(mean) else mean for mean in shown[:, column].tolist()),
            unlike=tuple(far[:, column].tolist()),
        )
        for client, column in state.columns.items()
    )
