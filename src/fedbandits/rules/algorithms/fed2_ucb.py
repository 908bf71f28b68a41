"""Fed2-UCB: Algorithms 1 and 2 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedbandits.errors import InputError, check_not_negative, check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.checks import check_level, check_whom
from fedbandits.rules.estimators import Estimator, InverseVariance, Plain
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.phased import (
    Beliefs,
    PhasedRule,
    ScheduledAdmissions,
    ScheduledPulls,
    Weights,
    check_estimator,
)
from fedbandits.rules.radii import Dependence, PaperRadius, Radius, with_options
from fedbandits.rules.sampling import Target
from fedbandits.rules.schedules import ScheduleLike, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed2Ucb(Algorithm):
    """Federated Double UCB, for the approximate model.

    Every phase admits g(p) new clients, every admitted client pulls every active arm f(p) times,
    and the server drops the arms whose interval lies below another's. The interval allows for both
    too few pulls and too few clients.

    Parameters
    ----------
    pulls : schedule
        f(p). More pulls a phase mean fewer rounds of communication and slower admission.
    admissions : schedule
        g(p). More clients resolve smaller gaps, and each costs regret.
    radius : Radius
        The paper's with constants 6 and 6 by default, for which Theorem 2 holds.
    target : {"population", "clients"}, optional
        Whom the answer is for: future clients like these, or the clients that exist. By default
        the clients where their number is finite, else the population.
    weights : {"equal", "inverse-variance"}
        How clients' means are averaged. The second is sharper where cohorts differ in pulls; it
        needs an unlimited population.
    estimator : Estimator, optional
        How clients' means become one value per arm, in place of ``weights``.
    delta, dependence
        Those of the radius, for short. Where the radius sets its own the two must agree.
    epsilon : float
        The tolerance: stop when all arms that are left are this close to the best.

    Examples
    --------
    >>> rule = Fed2Ucb(pulls="100", admissions="2^p").rule(
    ...     Beliefs(n_arms=10, horizon=10**6, noise=0.5, spread=0.02)
    ... )
    >>> rule.pulls(3), rule.admissions(3)
    (100, 8)
    """

    name: ClassVar[str] = "fed2-ucb"
    all_clients_from_start: ClassVar[bool] = False

    pulls: ScheduleLike
    admissions: ScheduleLike
    radius: Radius = field(default_factory=PaperRadius)
    target: Target | None = None
    weights: Weights = "equal"
    estimator: Estimator | None = None
    epsilon: float = 0.0
    delta: LevelLike | None = None
    dependence: Dependence | None = None

    def __post_init__(self) -> None:
        radius = with_options(self.radius, delta=self.delta, dependence=self.dependence)
        object.__setattr__(self, "radius", radius)
        check_not_negative(self.epsilon, "epsilon")
        check_word(self.weights, Weights, "weights")
        check_estimator(self.estimator, self.weights)
        if self.target is not None:
            check_word(self.target, Target, "target")
        object.__setattr__(self, "pulls", as_schedule(self.pulls, "pulls"))
        object.__setattr__(self, "admissions", as_schedule(self.admissions, "admissions"))

    @property
    def uses_variances(self) -> bool:
        """Whether it must be told σ and σ_c, or estimate them."""
        return self.radius.uses_noise or self.radius.uses_spread

    @property
    def tolerance(self) -> float:
        """By how much the arm that it settles on may be worse than the best."""
        return self.epsilon

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game of which this is believed."""
        if beliefs.weighted:
            raise InputError(
                "algorithm",
                f'"{self.name}" takes clients in by and by, and client weights are of all clients'
                ' of an exact model from the start; use "fed1-ucb", or leave the weights out',
            )
        if self.target == "clients" and beliefs.population is None:
            raise InputError(
                "target",
                '"clients" are all that exist, and the population is unlimited; give it a size, or '
                'use "population"',
            )
        target = self.target or "clients"
        by_weights = Plain() if self.weights == "equal" else InverseVariance()
        estimator = by_weights if self.estimator is None else self.estimator
        check_whom(estimator, beliefs.population, target)
        check_level(self.radius, self.delta, beliefs.horizon)
        beliefs.check_estimates(self.radius, estimator, beliefs.population)
        return PhasedRule(
            n_arms=beliefs.n_arms,
            horizon=beliefs.horizon,
            noise=beliefs.noise,
            spread=beliefs.spread,
            population=beliefs.population,
            goal=beliefs.goal,
            bounded=beliefs.bounded,
            min_clients=beliefs.min_clients,
            pulls=ScheduledPulls(as_schedule(self.pulls), beliefs.horizon),
            admissions=ScheduledAdmissions(as_schedule(self.admissions), beliefs.horizon),
            radius=self.radius,
            target=target,
            estimator=estimator,
            epsilon=self.epsilon,
        )
