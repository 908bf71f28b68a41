"""Fed1-UCB: Fed2-UCB where the clients admitted first are the whole population."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedbandits.errors import InputError, check_not_negative, check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.everyone_at_once import check_clients, everyone_at_once
from fedbandits.rules.estimators import Estimator
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.phased import (
    Beliefs,
    PhasedRule,
    Weights,
    check_estimator,
)
from fedbandits.rules.radii import Dependence, PaperRadius, Radius, with_options
from fedbandits.rules.sampling import Target
from fedbandits.rules.schedules import ScheduleLike, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed1Ucb(Algorithm):
    """Fed1-UCB, for the exact model: all clients from the start, no client-sampling term.

    On clients that are only a sample (figure 6 of the paper) it takes them for the whole
    population, and may settle on an arm that is best for them alone.

    Parameters
    ----------
    pulls : schedule
        f(p).
    clients : int, optional
        M; the whole population by default.
    radius : Radius
        The paper's with constant 6 by default, for which Theorem 3 holds; its client constant has
        no effect on an answer for these clients.
    target : {"clients", "population"}, optional
        Whom the answer is for: these clients, by default, or future clients like these, of which M
        leave σ_c²/M open however often they pull.
    weights : {"equal"}
        How clients' means are averaged. All are in from the start and pull alike, so that equal
        weights have the least variance, and no others are taken.
    estimator : Estimator, optional
        How clients' means become one value per arm; the plain average by default.
    delta, dependence
        Those of the radius, for short. Where the radius sets its own the two must agree.
    epsilon : float
        The tolerance: stop when all arms that are left are this close to the best.

    Examples
    --------
    >>> from fedbandits.rules.reports import Reports
    >>> told = Beliefs(n_arms=2, horizon=10**6, noise=0.5, spread=0.1)
    >>> planned = Reports.planned([100], sizes=[50])
    >>> for target in ("clients", "population"):
    ...     rule = Fed1Ucb(pulls=100, clients=50, target=target).rule(told)
    ...     print(rule.width(phase=1, reports=planned).round(4))
    0.0644
    0.1931
    """

    name: ClassVar[str] = "fed1-ucb"
    all_clients_from_start: ClassVar[bool] = True

    pulls: ScheduleLike
    clients: int | None = None
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
        if self.weights != "equal":
            raise InputError(
                "weights",
                f'"{self.weights}", and with {self.name} all clients are in from the start and pull'
                ' alike, so that equal weights are the best; use "equal"',
            )
        check_estimator(self.estimator)
        if self.target is not None:
            check_word(self.target, Target, "target")
        object.__setattr__(self, "pulls", as_schedule(self.pulls, "pulls"))
        check_clients(self.clients)

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
        return everyone_at_once(
            pulls=self.pulls,
            clients=self.clients,
            radius=self.radius,
            estimator=self.estimator,
            epsilon=self.epsilon,
            delta=self.delta,
            target=self.target or "clients",
            beliefs=beliefs,
        )
