r"""Which gaps can be told apart: the certified rule's width, turned into sample sizes.

With M clients that have pulled each arm n times, an estimate has the variance

.. math:: v = \sigma_c^2 \left(\frac1M - \frac1N\right) + \frac{\sigma^2}{n M},

N the population, :math:`1/N = 0` if it is unlimited. The certified rule drops an arm that is behind
by :math:`w = \sqrt{4 v L}`, :math:`L = \ln((K-1) \pi^2 p^2 / (6 \delta))`. An arm that is worse by
:math:`\Delta_k` is behind by that on average, with the variance 2 v, so all are dropped with a
probability of at least ``power`` once :math:`\sum_k P(Z > (\Delta_k - w) / \sqrt{2 v})` is no more
than 1 − power, Z standard normal. If all K − 1 are worse by the same Δ, that is :math:`\Delta \ge
w + z \sqrt{2 v}`, z the quantile of 1 − (1 − power)/(K − 1). Everything here is that inequality,
solved for one of its terms. What protects the means of clients adds to w and to v.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from fedbandits.errors import InputError
from fedbandits.planning.protection import MOST, first_enough, radii_apart, release_error
from fedbandits.planning.question import Question
from fedbandits.privacy.policy import Privacy
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.distortion import Distortion
from fedbandits.rules.radii import CertifiedRadius
from fedbandits.rules.reports import Reports
from fedbandits.rules.statistics import client_factor
from fedbandits.simulation.tables import Table

POWER = 0.9
"""The probability with which a detectable gap is found."""

NEARLY_ALL = 0.9
"""From this share on, clients are called nearly all of a population."""

# Releases to average errors over, at most; later ones cost more than they gain.
_MOST_LOOKS = 32
_HALVINGS = 50
# Clients to show if no number of them is enough.
_SHOWN = 10_000


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
        The phase of the look: δ is shared out over all phases, so later widths are larger.
    ratios : tuple of float
        How far every other arm is behind the best one, in multiples of the smallest gap. By default
        all are 1, which is the hardest case.
    privacy : Privacy, optional
        How means are protected. The look is then after the best number of releases: several of
        them average out errors that do not shrink with the pulls behind a mean.

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
    ratios: tuple[float, ...] = ()
    privacy: Privacy | None = None

    def __post_init__(self) -> None:
        if not 0.5 <= self.power < 1.0:
            raise InputError("power", f"{self.power:g} is not a probability from 0.5 to below 1")

    @classmethod
    def of(cls, question: Question, *, population: int | None) -> Detector:
        """Return the detector for a question, about a population of this size."""
        gaps = np.sort(question.gaps)[1:]
        return cls(
            n_arms=question.n_arms,
            noise=question.noise,
            spread=question.spread,
            delta=question.delta,
            population=population,
            ratios=tuple((gaps / question.gap).tolist()),
            privacy=question.privacy,
        )

    def variance(self, clients: npt.ArrayLike, pulls: float = math.inf) -> FloatArray:
        """Return v; infinitely many pulls leave the client term alone."""
        clients = np.asarray(clients, dtype=np.float64)
        sampled = self.spread**2 * client_factor(clients, self.population)
        return np.asarray(sampled + self.noise**2 / (pulls * clients))

    def smallest_gap(self, clients: npt.ArrayLike, pulls: float = math.inf) -> FloatArray:
        """Return the smallest gap that so many clients with so many pulls of each arm detect.

        The other gaps are in proportion to it, as the ratios say.
        """
        looks = self._looks(np.asarray(clients, dtype=np.float64), pulls)
        return np.asarray(np.min([self._detected(*look) for look in looks], axis=0))

    def chance(self, gap: float, clients: int, pulls: float = math.inf) -> float:
        """Return the least probability with which one look of so many clients finds a gap.

        Examples
        --------
        >>> detector = Detector(n_arms=10, noise=0.5, spread=0.02, delta=0.05)
        >>> round(detector.chance(0.02, 65), 2), round(detector.chance(0.02, 50), 2)
        (0.91, 0.53)
        """
        looks = self._looks(np.asarray(clients), pulls)
        missed = min(float(self._missed(np.asarray(gap), *look)) for look in looks)
        return max(0.0, 1.0 - missed)

    def fewest_clients(self, gap: float, pulls: float = math.inf) -> int | None:
        """Return how many clients with so many pulls of each arm detect a gap; None if too few.

        Of an unlimited population the answer is None only if means are rounded too coarsely;
        otherwise pulls are what is missing.
        """
        most = MOST if self.population is None else self.population
        return first_enough(lambda clients: self._finds(gap, clients, pulls), most)

    def fewest_pulls(self, gap: float, clients: int) -> int | None:
        """Return how many pulls of each arm so many clients need; None if none are enough."""
        return first_enough(lambda pulls: self._finds(gap, clients, pulls), MOST)

    def fewest_if_all(self, gap: float, pulls: float = math.inf) -> int | None:
        """Return how many clients there have to be, if all of them play, to detect a gap."""
        return first_enough(lambda n: replace(self, population=n)._finds(gap, n, pulls), MOST)

    def _finds(self, gap: float, clients: int, pulls: float) -> bool:
        # Equal on paper is enough.
        at = np.asarray(gap * (1.0 + 1e-12))
        looks = self._looks(np.asarray(clients, dtype=np.float64), pulls)
        return any(float(self._missed(at, *look)) <= 1.0 - self.power for look in looks)

    def _phases(self, pulls: float) -> list[int]:
        """Return the phases in which a look may be best."""
        if self.privacy is None:
            return [self.phase]
        last = min(
            self.privacy.releases or _MOST_LOOKS, _MOST_LOOKS, pulls / self.privacy.min_pulls
        )
        found = (self.phase * 2**i for i in range(_MOST_LOOKS.bit_length()))
        return [phase for phase in found if phase <= last] or [self.phase]

    def _looks(self, clients: FloatArray, pulls: float) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield, for each such phase, the width between two arms and how their gap scatters."""
        beliefs = Beliefs(
            n_arms=self.n_arms,
            horizon=1,
            noise=self.noise,
            spread=self.spread,
            population=self.population,
        )
        certified = CertifiedRadius(delta=self.delta)
        rule = Fed2Ucb(pulls=1, admissions=1, radius=certified).rule(beliefs)
        for phase in self._phases(pulls):
            # Every phase so far has released a mean of as many pulls.
            error = release_error(self.privacy, pulls / phase, self.n_arms)
            left = Distortion(
                variance=np.atleast_1d(error.variance) / phase,
                scale=np.atleast_1d(error.scale) / phase,
                bias=np.atleast_1d(error.bias),
            )
            reports = Reports.planned([pulls], clients[..., np.newaxis], distortion=left)
            width = radii_apart(self.privacy) * rule.width(phase=phase, reports=reports)
            variance = self.variance(clients, pulls) + left.variance[0] / clients
            yield np.asarray(width), np.sqrt(2.0 * variance)

    def _detected(self, width: FloatArray, scatter: FloatArray) -> FloatArray:
        """Return the smallest gap of which no more than a share is missed."""
        missed = 1.0 - self.power
        quantile = -special.ndtri(missed / (self.n_arms - 1))
        high = np.asarray(width + quantile * scatter)
        if len(set(self.ratios)) <= 1:
            return high
        # Arms that are farther behind are missed less often: the nearest alone is the other end.
        low = np.asarray(width - special.ndtri(missed) * scatter)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            enough = self._missed(middle, width, scatter) <= missed
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _missed(self, gap: FloatArray, width: FloatArray, scatter: FloatArray) -> FloatArray:
        """Return how likely one of the other arms is to stay, at most."""
        ratios, copies = np.unique(self.ratios or (1.0,) * (self.n_arms - 1), return_counts=True)
        ahead = gap[..., np.newaxis] * ratios - width[..., np.newaxis]
        deviations = ahead / np.maximum(scatter, 1e-300)[..., np.newaxis]
        return np.asarray((copies * special.ndtr(-deviations)).sum(axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """Whether a gap can be found, for everyone and for the clients that there are.

    Always in one look with a probability of `POWER`, every client pulling every arm as often as
    the horizon allows, or very often without one.

    Parameters
    ----------
    pulls : int, optional
        How often that is; None is as often as one likes.
    clients_unlimited : int, optional
        The fewest clients for an answer that holds for an unlimited population; None if no number
        of them is enough.
    within_reach : bool
        Whether there are that many.
    chance_unlimited : float, optional
        The probability that all N clients find the gap for an unlimited population.
    clients_finite : int, optional
        The fewest of the N clients for an answer that holds for these N.
    pulls_of_all : int, optional
        Pulls of each arm by each client with all N in.
    gap_unlimited : float, optional
        The smallest gap that all N clients detect for an unlimited population.
    gap_finite : float, optional
        The smallest gap that they detect for themselves.
    all_needed : int, optional
        How many clients are needed if all of them play, in case N are too few.
    fits : bool
        Whether the pulls that are needed fit into the horizon.
    """

    pulls: int | None
    clients_unlimited: int | None
    within_reach: bool
    fits: bool
    chance_unlimited: float | None = None
    clients_finite: int | None = None
    pulls_of_all: int | None = None
    gap_unlimited: float | None = None
    gap_finite: float | None = None
    all_needed: int | None = None

    def needs_nearly_all(self, population: int | None) -> bool:
        """Return whether the finite answer takes nearly all clients."""
        if population is None or self.clients_finite is None:
            return False
        return self.clients_finite >= NEARLY_ALL * population

    def as_dict(self, population: int | None) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "unlimited_population": {
                "fewest_clients": self.clients_unlimited,
                "pulls_of_each_arm": self.pulls,
                "within_reach": self.within_reach,
                "chance": self.chance_unlimited,
                "smallest_gap": self.gap_unlimited,
            },
            "finite_population": None
            if population is None
            else {
                "clients": population,
                "fewest_clients": self.clients_finite,
                "share": None if self.clients_finite is None else self.clients_finite / population,
                "nearly_all": self.needs_nearly_all(population),
                "pulls_of_each_arm_by_all": self.pulls_of_all,
                "smallest_gap": self.gap_finite,
                "clients_needed_if_all_play": self.all_needed,
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
    everyone, n, gap = Detector.of(question, population=None), question.population, question.gap
    most = None if question.horizon is None else question.most_pulls
    room = math.inf if most is None else most
    fits = room >= question.fewest_pulls
    unlimited = everyone.fewest_clients(gap, room) if fits else None
    found = Feasibility(
        pulls=most,
        clients_unlimited=unlimited,
        within_reach=unlimited is not None and unlimited <= (n or unlimited),
        fits=fits,
    )
    if n is None:
        return found
    these = Detector.of(question, population=n)
    pulls = these.fewest_pulls(gap, n)
    if pulls is not None:
        pulls = max(pulls, question.fewest_pulls)
    few = these.fewest_clients(gap, room) if fits else None
    return replace(
        found,
        chance_unlimited=everyone.chance(gap, n, room) if fits else 0.0,
        clients_finite=few,
        pulls_of_all=pulls,
        gap_unlimited=float(everyone.smallest_gap(n, room)) if fits else None,
        gap_finite=float(these.smallest_gap(n, room)) if fits else None,
        all_needed=these.fewest_if_all(gap, room) if fits and few is None else None,
        fits=pulls is not None and pulls <= room,
    )


def gap_curves(
    question: Question, pulls: float
) -> Iterator[tuple[int | None, float, FloatArray, FloatArray]]:
    """Yield curves of the smallest detectable gap against the number of clients.

    Each curve is a population (None if it is unlimited), pulls, clients and gaps.

    Parameters
    ----------
    question : Question
        Which arms, noise, spread and population.
    pulls : float
        Of each arm by each client; each population also has a curve for infinitely many.
    """
    n = question.population
    enough = Detector.of(question, population=None).fewest_clients(question.gap, pulls) or _SHOWN
    most = 10.0 ** math.ceil(math.log10(4.0 * max(enough, n or 1, 10)))
    points: list[tuple[int | None, FloatArray]] = [(None, np.geomspace(1.0, most, 200))]
    if n is not None:
        # More points where nearly all clients are in.
        points.append((n, np.append(n - np.geomspace(max(n - 1.0, 1e-3), 1e-3, 200), n)))
    for (who, clients), many in product(points, (pulls, math.inf)):
        yield who, many, clients, Detector.of(question, population=who).smallest_gap(clients, many)


def gap_table(question: Question, pulls: float) -> Table:
    """Return these curves as a table, one row per point.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> game = least_favourable(n_arms=2, gap=0.1, noise=0.5, spread=0.2, population=50)
    >>> table = gap_table(game, 10)
    >>> sorted(set(table["population"])), sorted(set(table["pulls"]), key=str)
    (['finite', 'unlimited'], ['10', 'any'])
    """
    table: Table = {key: [] for key in ("population", "pulls", "clients", "gap")}
    for n, many, clients, gaps in gap_curves(question, pulls):
        table["population"] += ["unlimited" if n is None else "finite"] * clients.size
        table["pulls"] += ["any" if math.isinf(many) else f"{many:.0f}"] * clients.size
        table["clients"] += clients.tolist()
        table["gap"] += gaps.tolist()
    return table
