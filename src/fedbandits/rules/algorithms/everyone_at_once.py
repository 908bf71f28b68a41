"""The rule of algorithms whose clients all play from the start."""

from __future__ import annotations

from fedbandits.errors import InputError, check_number
from fedbandits.rules.algorithms.checks import check_level, check_whom
from fedbandits.rules.estimators import Estimator, Plain
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.phased import AllAtOnce, Beliefs, Charge, PhasedRule, ScheduledPulls
from fedbandits.rules.radii import Radius
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
