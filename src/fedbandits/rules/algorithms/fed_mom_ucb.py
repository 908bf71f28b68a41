"""Fed-MoM-UCB: a published rule for clients that lie, as a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError, check_not_negative, is_number
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.contrasts import grouped
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators import Estimator, Plain
from fedbandits.rules.phase_numbers import FirstThen, Scheduled
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.radii.intervals import Intervals
from fedbandits.rules.radii.known import PhaseStatistics
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling
from fedbandits.rules.schedules import ScheduleLike, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianOfGroups(Estimator):
    """The median over groups of B clients of their average means, arm by arm."""

    name: ClassVar[str] = "median-of-groups"
    needs_each_client: ClassVar[bool] = True
    takes_protected: ClassVar[bool] = False

    groups: int = 1

    def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
        """Return the medians, with the variances of a plain average."""
        plain = Plain().estimate(reports, sampling)
        if reports.means is None:
            return plain
        averages = grouped(reports.complete_means(), self.groups)
        return replace(plain, values=np.asarray(np.median(averages, axis=-1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FedMomUcbRadius(Intervals):
    r"""The width of Fed-MoM-UCB, :math:`E = 2 (\sigma/\sqrt{s} + \sigma_c)\, c` after s pulls."""

    rule: ClassVar[str] = "fed-mom-ucb"
    needs_each_client: ClassVar[bool] = True

    factor: float

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return the half-width; see `Radius`."""
        estimate = known.estimate
        deviations = np.sqrt(estimate.pull_variance) + np.sqrt(estimate.client_variance)
        return np.asarray(2.0 * self.factor * np.sqrt(estimate.clients) * deviations)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedMomUcb(Algorithm):
    r"""Fed-MoM-UCB: elimination by medians of group means, among clients of whom a share λ lies.

    All M clients play from the start; a phase drops arms whose interval lies below another's, and
    the last phase is the one whose width is β/4, with :math:`\beta = \omega + \epsilon`: arms that
    are within β of the best count as good enough, and its regret is counted above β alone. With
    :math:`\alpha = (1 + 2\lambda)/2` and :math:`\eta = (\alpha - \lambda)/\alpha`,

    .. math:: M = \left\lceil \frac{4 \ln(KT/\delta)}{\alpha (4\eta - 1) \ln 2} \right\rceil, \quad
       E_p = 2 \left(\frac{\sigma}{\sqrt{s_p}} + \sigma_c\right) c, \quad
       c^2 = \frac{(4\eta - 1) \ln 2}{(2\eta - 1) B}, \quad \omega = 8 \sigma_c c.

    It is here for comparison, as its authors' scripts have it. Nothing is proven about it here.
    These scripts draw the liars with replacement, so that there are fewer than λM of them.

    Parameters
    ----------
    liars : float
        λ: the share of clients that may lie, below one half.
    pulls : schedule
        f(p) = s(p) − s(p − 1); 10 by default.
    epsilon : float
        ε.
    delta : float
        δ.

    References
    ----------
    Demirel, Yildirim and Tekin (2022), "Federated multi-armed bandits under Byzantine attacks".

    Examples
    --------
    >>> told = Beliefs(n_arms=10, horizon=50_000, noise=0.5, spread=0.01)
    >>> algorithm = FedMomUcb(liars=0.2)
    >>> algorithm.rule(told).admissions(1), round(algorithm.good_enough(told), 3)
    (89, 0.189)
    """

    name: ClassVar[str] = "fed-mom-ucb"
    uses_cost: ClassVar[bool] = False
    uses_variances: ClassVar[bool] = True
    all_clients_from_start: ClassVar[bool] = False

    liars: float
    pulls: ScheduleLike = 10
    epsilon: float = 0.05
    delta: float = 0.001

    def __post_init__(self) -> None:
        if not is_number(self.liars) or not 0 <= self.liars < 0.5:
            raise InputError("liars", f"{self.liars!r} is not a share below 0.5, such as 0.2")
        if not is_number(self.delta) or not 0 < self.delta < 1:
            raise InputError("delta", f"{self.delta!r} is not a number between 0 and 1")
        check_not_negative(self.epsilon, "epsilon")
        object.__setattr__(self, "pulls", as_schedule(self.pulls, "pulls"))

    def _constants(self, beliefs: Beliefs) -> tuple[int, int, float]:
        """Return M, B and c."""
        alpha = (1 + 2 * self.liars) / 2
        eta = (alpha - self.liars) / alpha
        log = math.log(beliefs.n_arms * beliefs.horizon_for(self.name) / self.delta)
        clients = math.ceil(4 * log / (math.log(2) * (4 * eta - 1) * alpha))
        group = math.floor(clients / math.ceil(clients * alpha))
        factor = math.sqrt((4 * eta - 1) * math.log(2) / ((2 * eta - 1) * group))
        return clients, group, factor

    def good_enough(self, beliefs: Beliefs) -> float:
        """Return β: arms that are worse by no more are good enough."""
        factor = self._constants(beliefs)[2]
        return 8 * beliefs.spread_for(self.name) * factor + self.epsilon

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        clients, group, factor = self._constants(beliefs)
        pulls = Scheduled("pulls", as_schedule(self.pulls), beliefs.horizon)
        radius = FedMomUcbRadius(factor=factor)
        noise, spread = beliefs.noise_for(self.name), beliefs.spread_for(self.name)
        # The first phase after which its width is β/4 or less.
        last, pulled, width = 0, 0, math.inf
        while pulled < beliefs.horizon_for(self.name) and width > self.good_enough(beliefs) / 4:
            last += 1
            pulled += pulls(last)
            width = 2 * factor * (noise / math.sqrt(pulled) + spread)
        return PhasedRule.of(
            beliefs,
            pulls=pulls,
            admissions=FirstThen(clients),
            radius=radius,
            estimator=MedianOfGroups(groups=group),
            target="population",
            last_phase=last,
        )
