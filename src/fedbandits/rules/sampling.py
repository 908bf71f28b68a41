"""What a rule is told about the game that its clients are sampled from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.reports import Reports
from fedbandits.rules.statistics import client_factor
from fedbandits.rules.variance_components import FEWEST_TO_ESTIMATE, variance_components

Target: TypeAlias = Literal["population", "clients"]
"""Whom the answer is for: future clients like these, or these clients, each the same."""

Variance: TypeAlias = float | FloatArray
"""One for all, or with an axis for the arms if games or replications differ in it."""

# σ² and σ_c².
Variances: TypeAlias = tuple[Variance, Variance]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampling:
    """What a rule is told about noise, spread and population, and whom the answer is for.

    Parameters
    ----------
    noise, spread : float, array or None
        σ and σ_c; None if they are estimated from the reports. Games that are played in step may
        be told different values: an array with one entry per row.
    population : int, optional
        How many clients exist at all, N; None is unlimited.
    target : {"population", "clients"}
        Whom the answer is for.
    bounded : bool
        Whether σ_c is half the range of the local means, of which nothing else is known.
    min_clients : int
        From fewer clients neither σ nor σ_c is estimated.
    """

    noise: Variance | None
    spread: Variance | None
    population: int | None = None
    target: Target = "clients"
    bounded: bool = False
    min_clients: int = FEWEST_TO_ESTIMATE
    _known: tuple[Variance | None, Variance | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", (_squared(self.noise), _squared(self.spread)))

    @property
    def independent_clients(self) -> bool:
        """Whether clients are drawn independently of each other, as not from a finite number."""
        return self.population is None or self.target == "population"

    def at(self, rows: IntArray | BoolArray) -> Sampling:
        """Return what is told in some of the rows."""
        noise, spread = (
            told[rows] if isinstance(told, np.ndarray) else told
            for told in (self.noise, self.spread)
        )
        return replace(self, noise=noise, spread=spread)

    def variances(self, reports: Reports) -> Variances:
        """Return σ² and σ_c²: as they were told, or estimated from the reports.

        Estimates are infinite where nothing can be said; see
        `fedbandits.rules.variance_components`.
        """
        noise, spread = self._known
        if noise is not None and spread is not None:
            return noise, spread
        found = variance_components(
            reports.counts,
            reports.each_mean(absent=0.0),
            reports.squares,
            reports.active,
            noise_variance=None if noise is None else float(noise),
            min_clients=self.min_clients,
        )
        if spread is None:
            spread = found.spread_variance[..., np.newaxis]
        return found.noise_variance[..., np.newaxis], spread

    def client_factor(self, clients: npt.ArrayLike) -> FloatArray:
        """Return the variance of the average of M local means, for local means of variance 1.

        See `fedbandits.rules.statistics.client_factor`.
        """
        among = self.population if self.target == "clients" else None
        return client_factor(clients, among, bounded=self.bounded)


def _squared(deviation: Variance | None) -> Variance | None:
    if isinstance(deviation, np.ndarray):
        # As single numbers are squared: an array's square may differ in the last bit.
        numbers, places = np.unique(deviation, return_inverse=True)
        squares = np.array([number**2 for number in numbers.tolist()])
        return np.asarray(squares[places.reshape(deviation.shape)])[..., np.newaxis]
    return None if deviation is None else deviation**2
