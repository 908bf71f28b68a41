"""Fed1-UCB: Fed2-UCB where the clients admitted first are the whole population."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedbandits.errors import InputError, check_not_negative, check_number, check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.estimators import Estimator, Plain
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.phased import (
    AllAtOnce,
    Beliefs,
    Charge,
    PhasedRule,
    ScheduledPulls,
    Weights,
    check_estimator,
)
from fedbandits.rules.radii import Dependence, PaperRadius, Radius, with_options
from fedbandits.rules.sampling import Target
from fedbandits.rules.schedules import ScheduleLike, as_schedule

_MOST_CLIENTS = 10**15


def everyone_at_once(
    *,
    pulls: ScheduleLike,
    clients: int | None,
    radius: Radius,
    beliefs: Beliefs,
    charge: Charge = Charge.PHASE,
    epsilon: float = 0.0,
    delta: LevelLike | None = None,
    target: Target = "clients",
    estimator: Estimator | None = None,
) -> PhasedRule:
    """Return Fed2-UCB degenerated: M clients from the start, believed to be all there are.

    With N = M the client-sampling term of the radius is zero, and :math:`B_{p,2}` is
    :math:`B_{p,1}`; it stays where the answer is for a population that they are a sample of.
    ``delta`` is the algorithm's own, if it has one, as in `check_level`.
    """
    admitted = clients_of(clients, beliefs)
    if beliefs.weighted and admitted != beliefs.population:
        raise InputError(
            "clients",
            f"{admitted} of {beliefs.population} clients, and they have weights: all of them must"
            " play; leave it out",
        )
    check_level(radius, delta, beliefs.horizon)
    estimator = Plain() if estimator is None else estimator
    check_whom(estimator, admitted, target)
    beliefs.check_estimates(radius, estimator, admitted)
    rule = PhasedRule(
        n_arms=beliefs.n_arms,
        horizon=beliefs.horizon,
        noise=beliefs.noise,
        spread=beliefs.spread,
        population=admitted,
        goal=beliefs.goal,
        bounded=beliefs.bounded,
        min_clients=beliefs.min_clients,
        pulls=ScheduledPulls(as_schedule(pulls), beliefs.horizon),
        admissions=AllAtOnce(admitted),
        radius=radius,
        estimator=estimator,
        epsilon=epsilon,
        charge=charge,
        target=target,
    )
    return rule.with_given_weights() if beliefs.weighted else rule


def check_whom(estimator: Estimator, population: int | None, target: Target) -> None:
    """Refuse to weigh clients by what is known of them where each counts the same."""
    if estimator.uses_variances and population is not None and target == "clients":
        raise InputError(
            "weights",
            f'"{estimator.name}" is for target = "population"; of {population} clients that exist'
            ' each counts the same: use "equal"',
        )


def check_level(radius: Radius, delta: LevelLike | None, horizon: int | None) -> None:
    """Refuse a horizon, or none, that does not suit a radius; an error names the key in question.

    Parameters
    ----------
    radius : Radius
        With the level that holds.
    delta : number or expression in T, optional
        The level as the algorithm was given it; None if it is the radius's own.
    horizon : int, optional
        T.
    """
    try:
        radius.check_horizon(horizon)
    except InputError as error:
        if error.where == "delta" and delta is None:
            raise error.within("radius") from None
        raise


def check_paper_radius(radius: object) -> None:
    """Refuse what is not the paper's radius, for the algorithms of the paper alone."""
    if not isinstance(radius, Radius) or radius.constants is None:
        raise InputError(
            "radius", f"{radius!r} is not the paper's; give one such as PaperRadius(arm=6.0)"
        )


def check_clients(clients: int | None) -> None:
    """Refuse a number of clients below one."""
    if clients is None:
        return
    check_number(clients, "clients", whole=True)
    if not 1 <= clients <= _MOST_CLIENTS:
        raise InputError(
            "clients", f"{clients} clients; a game needs at least 1, and 10^15 at most"
        )


def clients_of(clients: int | None, beliefs: Beliefs) -> int:
    """Return how many clients play: the number asked for, else the whole population."""
    if clients is None:
        if beliefs.population is None:
            raise InputError(
                "clients", "is missing; the population is unlimited, so say how many clients play"
            )
        return beliefs.population
    if beliefs.population is not None and clients > beliefs.population:
        raise InputError(
            "clients", f"{clients} clients of a population of {beliefs.population}; lower it"
        )
    return clients


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
