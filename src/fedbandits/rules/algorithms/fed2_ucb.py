"""Fed2-UCB: Algorithms 1 and 2 of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedbandits.errors import InputError
from fedbandits.rules.algorithms.elimination import Elimination, elimination_rule
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.optimal_phases import OPTIMAL, Optimal, OptimalPhases
from fedbandits.rules.phase_numbers import Scheduled
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.schedules import ScheduleLike, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed2Ucb(Elimination):
    """Federated Double UCB, for the approximate model.

    Every phase admits g(p) new clients, every admitted client pulls every active arm f(p) times,
    and the server drops the arms whose interval lies below another's. The interval allows for both
    too few pulls and too few clients.

    Parameters
    ----------
    pulls : schedule
        f(p). More pulls per phase mean fewer rounds of communication and slower admission. With
        "optimal" f and g follow from what a report costs: `fedbandits.rules.optimal_phases`.
    admissions : schedule
        g(p). More clients resolve smaller gaps, and each costs regret.
    radius : Radius
        The paper's with constants 6 and 6 by default, for which Theorem 2 holds.
    target : {"population", "clients"}, optional
        Whom the answer is for: future clients like these, or the clients that exist. By default
        the clients if their number is finite, else the population.
    weights : {"equal", "inverse-variance"}
        How clients' means are averaged. The second is sharper if cohorts differ in pulls; it
        needs an unlimited population.
    estimator : Estimator, optional
        How clients' means become one value per arm, in place of ``weights``.
    liars : int or float, optional
        How many clients may send anything; short for the estimator ``Trimmed(liars=...)``.
    delta, dependence
        Those of the radius, for short. If the radius sets its own, the two must agree.
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

    pulls: ScheduleLike | Optimal
    admissions: ScheduleLike | Optimal

    def __post_init__(self) -> None:
        Elimination.__post_init__(self)
        object.__setattr__(self, "admissions", self._schedule("admissions"))

    def _schedule(self, name: str) -> ScheduleLike:
        if OPTIMAL not in (self.pulls, self.admissions):
            return Elimination._schedule(self, name)
        if self.pulls != self.admissions:
            raise InputError(
                name, f'"{OPTIMAL}" is for pulls and admissions together; give both, or neither'
            )
        return OPTIMAL

    @property
    def uses_cost(self) -> bool:
        """Whether what it plays depends on C: optimal schedules do."""
        return self.pulls == OPTIMAL

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        if beliefs.weighted:
            raise InputError(
                "algorithm",
                f'"{self.name}" admits clients gradually, but client weights need all clients of'
                ' an exact model from the start; use "fed1-ucb", or leave the weights out',
            )
        if self.target == "clients" and beliefs.population is None:
            raise InputError(
                "target",
                '"clients" are all that exist, but the population is unlimited; give it a size, or '
                'use "population"',
            )
        if self.uses_cost:
            phases = OptimalPhases(
                n_arms=beliefs.n_arms,
                horizon=beliefs.horizon_for(f'pulls = "{OPTIMAL}"'),
                noise=beliefs.noise_for(f'pulls = "{OPTIMAL}"'),
                spread=beliefs.spread_for(f'pulls = "{OPTIMAL}"'),
                cost=beliefs.cost,
            )
            parts = self.parts | {"pulls": phases.pulls}
            return elimination_rule(beliefs, admissions=phases.admissions, **parts)
        admissions = Scheduled("admissions", as_schedule(self.admissions), beliefs.horizon)
        return elimination_rule(beliefs, admissions=admissions, **self.parts)
