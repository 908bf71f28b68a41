r"""Which gaps can be told apart: the certified rule's width, turned into sample sizes.

With M clients who have pulled each arm n times an estimate has the variance

.. math:: v = \sigma_c^2 \left(\frac1M - \frac1N\right) + \frac{\sigma^2}{n M},

N the population, :math:`1/N = 0` if it is unlimited. The certified rule drops an arm that is behind
by :math:`w = \sqrt{4 v L}`, :math:`L = \ln((K-1) \pi^2 p^2 / (6 \delta))`. An arm that is worse by
Δ is behind by Δ on average, with the variance 2 v; all K − 1 are dropped with probability at least
``power`` once :math:`\Delta \ge w + z \sqrt{2 v}`, z the normal quantile of 1 − (1 − power)/(K −
1). Everything here is that inequality, solved for one of its terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from fedbandits.errors import InputError
from fedbandits.experiments.tables import Table
from fedbandits.planning.question import Question
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.phased import Beliefs
from fedbandits.rules.radii import CertifiedRadius
from fedbandits.rules.statistics import client_factor

POWER = 0.9
"""How likely a gap is to be found where it is said to be detectable."""

NEARLY_ALL = 0.9
"""The part of a population from which on it is nearly all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """What a sample of clients and pulls can tell apart, in one look.

    Parameters
    ----------
    n_arms : int
        K.
    noise, spread : float
        σ and σ_c.
    delta : float
        δ.
    population : int, optional
        N; unlimited by default.
    power : float
        How likely all other arms are to be dropped.
    phase : int
        In which phase the look is: δ is shared out over all of them, so later ones are wider.

    Examples
    --------
    >>> detector = Detector(n_arms=10, noise=0.5, spread=0.02, delta=0.05)
    >>> detector.fewest_clients(0.02), detector.fewest_clients(0.02, pulls=100)
    (65, 465)
    >>> float(detector.smallest_gap(465, pulls=100).round(4))
    0.02
    """

    n_arms: int
    noise: float
    spread: float
    delta: float
    population: int | None = None
    power: float = POWER
    phase: int = 1

    def __post_init__(self) -> None:
        if not 0.5 <= self.power < 1.0:
            raise InputError("power", f"{self.power:g} is not a probability from 0.5 to below 1")

    @classmethod
    def of(cls, question: Question, *, population: int | None) -> Detector:
        """Return the detector for a question, about a population of this size."""
        return cls(
            n_arms=question.n_arms,
            noise=question.noise,
            spread=question.spread,
            delta=question.delta,
            population=population,
        )

    @property
    def multiplier(self) -> float:
        """How many √v a gap must be."""
        # The width that the rule itself has where v = 1.
        beliefs = Beliefs(n_arms=self.n_arms, horizon=1, noise=1.0, spread=0.0)
        certified = CertifiedRadius(delta=self.delta)
        rule = Fed2Ucb(pulls=1, admissions=1, radius=certified).rule(beliefs)
        width = 2.0 * float(rule.width(phase=self.phase, counts=[1.0]))
        missed = (1.0 - self.power) / (self.n_arms - 1)
        return width + math.sqrt(2.0) * float(stats.norm.isf(missed))

    def variance(self, clients: npt.ArrayLike, pulls: npt.ArrayLike = math.inf) -> FloatArray:
        """Return v; infinitely many pulls leave the client term alone."""
        clients = np.asarray(clients, dtype=np.float64)
        sampled = self.spread**2 * client_factor(clients, self.population)
        return np.asarray(sampled + self.noise**2 / (np.asarray(pulls, dtype=np.float64) * clients))

    def smallest_gap(self, clients: npt.ArrayLike, pulls: npt.ArrayLike = math.inf) -> FloatArray:
        """Return the smallest gap that so many clients with so many pulls of each arm detect."""
        return np.asarray(self.multiplier * np.sqrt(self.variance(clients, pulls)))

    def fewest_clients(self, gap: float, pulls: float = math.inf) -> int | None:
        """Return how many clients with so many pulls of each arm detect a gap; None if too few.

        The answer is None only in a finite population, where pulls are what is missing.
        """
        variance = (gap / self.multiplier) ** 2
        of_one = self.spread**2 + self.noise**2 / pulls
        rest = 0.0 if self.population is None else self.spread**2 / self.population
        # Equal on paper is enough.
        found = max(1, math.ceil(of_one / (variance + rest) * (1.0 - 1e-12)))
        return None if self.population is not None and found > self.population else found

    def fewest_pulls(self, gap: float, clients: int) -> int | None:
        """Return how many pulls of each arm so many clients need; None if none are enough."""
        left = (gap / self.multiplier) ** 2 - float(self.variance(clients))
        if left <= 0:
            return None
        return max(1, math.ceil(self.noise**2 / (clients * left) * (1.0 - 1e-12)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """Whether a gap can be found, for everyone and for the clients that there are.

    Parameters
    ----------
    clients_unlimited : int
        The fewest clients, however much each pulls, for an answer that holds for an unlimited
        population.
    within_reach : bool
        Whether there are so many.
    clients_finite : int, optional
        The fewest of the N clients for an answer that holds for these N.
    pulls_of_all : int, optional
        Pulls of each arm by each client with all N in.
    gap_unlimited : float, optional
        The smallest gap that all N clients detect for an unlimited population.
    gap_finite : float, optional
        The smallest gap that they detect for themselves within the horizon; 0 without one.
    fits : bool
        Whether the horizon leaves room for the pulls that it takes.
    """

    clients_unlimited: int
    within_reach: bool
    clients_finite: int | None
    pulls_of_all: int | None
    gap_unlimited: float | None
    gap_finite: float | None
    fits: bool

    def needs_nearly_all(self, population: int | None) -> bool:
        """Return whether the finite answer takes nearly all clients."""
        if population is None or self.clients_finite is None:
            return False
        return self.clients_finite >= NEARLY_ALL * population

    def as_dict(self, population: int | None) -> dict[str, Any]:
        """Return it ready for JSON."""
        unlimited = {
            "fewest_clients": self.clients_unlimited,
            "within_reach": self.within_reach,
            "smallest_gap": self.gap_unlimited,
        }
        if population is None:
            return {"unlimited_population": unlimited, "finite_population": None}
        return {
            "unlimited_population": unlimited,
            "finite_population": {
                "clients": population,
                "fewest_clients": self.clients_finite,
                "share": None if self.clients_finite is None else self.clients_finite / population,
                "nearly_all": self.needs_nearly_all(population),
                "pulls_of_each_arm_by_all": self.pulls_of_all,
                "smallest_gap": self.gap_finite,
                "within_horizon": self.fits,
            },
        }


def feasibility(question: Question) -> Feasibility:
    """Return whether the gap can be found at all.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> found = feasibility(
    ...     least_favourable(n_arms=2, gap=0.01, noise=0.5, spread=0.2, population=500)
    ... )
    >>> found.clients_unlimited, found.within_reach, found.clients_finite
    (12324, False, 481)
    """
    everyone = Detector.of(question, population=None)
    unlimited = everyone.fewest_clients(question.gap) or 1
    n = question.population
    if n is None:
        return Feasibility(
            clients_unlimited=unlimited,
            within_reach=True,
            clients_finite=None,
            pulls_of_all=None,
            gap_unlimited=None,
            gap_finite=None,
            fits=question.horizon is None or question.horizon >= question.n_arms,
        )
    these = Detector.of(question, population=n)
    pulls = these.fewest_pulls(question.gap, n)
    room = math.inf if question.horizon is None else question.horizon // question.n_arms
    return Feasibility(
        clients_unlimited=unlimited,
        within_reach=unlimited <= n,
        clients_finite=these.fewest_clients(question.gap),
        pulls_of_all=pulls,
        gap_unlimited=float(everyone.smallest_gap(n)),
        gap_finite=float(these.smallest_gap(n, room)) if room >= 1 else None,
        fits=pulls is not None and pulls <= room,
    )


def gap_table(question: Question, pulls: float) -> Table:
    """Return the smallest detectable gap against the number of clients: a row a point.

    Parameters
    ----------
    question : Question
        Which arms, noise, spread and population.
    pulls : float
        Of each arm by each client; how far more pulls would get is told, too.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> game = least_favourable(n_arms=2, gap=0.1, noise=0.5, spread=0.2, population=50)
    >>> table = gap_table(game, 10)
    >>> sorted(set(table["population"])), sorted(set(table["pulls"]), key=str)
    (['finite', 'unlimited'], ['10', 'any'])
    """
    n = question.population
    everyone = Detector.of(question, population=None)
    enough = everyone.fewest_clients(question.gap, pulls) or 1
    most = 10.0 ** math.ceil(math.log10(4.0 * max(enough, n or 1, 10)))
    unlimited = np.geomspace(1.0, most, 200)
    table: Table = {key: [] for key in ("population", "pulls", "clients", "gap")}
    kinds = [("unlimited", everyone, unlimited)]
    if n is not None:
        # Densely where nobody is left.
        left = np.geomspace(max(n - 1.0, 1e-3), 1e-3, 200)
        kinds.append(("finite", Detector.of(question, population=n), np.append(n - left, n)))
    for (kind, detector, clients), many in product(kinds, (False, True)):
        gaps = detector.smallest_gap(clients, math.inf if many else pulls)
        table["population"] += [kind] * clients.size
        table["pulls"] += ["any" if many else f"{pulls:.0f}"] * clients.size
        table["clients"] += clients.tolist()
        table["gap"] += gaps.tolist()
    return table
