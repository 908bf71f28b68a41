"""The common part of algorithms that drop arms phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from fedbandits.errors import InputError, check_not_negative, check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.estimators import Estimator, InverseVariance, Plain, Trimmed
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.phase_numbers import FirstThen, Scheduled
from fedbandits.rules.phased import PhasedRule, Weights
from fedbandits.rules.radii import Dependence, PaperRadius, Radius, with_options
from fedbandits.rules.sampling import Target
from fedbandits.rules.schedules import ScheduleLike, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Elimination(Algorithm):
    """An elimination in phases with any radius and estimator.

    Parameters
    ----------
    pulls : schedule
        f(p).
    radius : Radius
        The paper's by default.
    target : {"population", "clients"}, optional
        Whom the answer is for.
    weights : {"equal", "inverse-variance"}
        How clients' means are averaged.
    estimator : Estimator, optional
        How clients' means become one value per arm, in place of ``weights``.
    liars : int or float, optional
        How many clients may send anything: a number of clients, or a share of them. Short for the
        estimator ``Trimmed(liars=...)``; see ``docs/liars.md``.
    epsilon : float
        The tolerance: stop when all arms that are left are this close to the best.
    delta, dependence
        Those of the radius, for short. If the radius sets its own, the two must agree.
    """

    shown_in_parts: ClassVar[bool] = True

    pulls: ScheduleLike
    radius: Radius = field(default_factory=PaperRadius)
    target: Target | None = None
    weights: Weights = "equal"
    estimator: Estimator | None = None
    liars: float | None = None
    epsilon: float = 0.0
    delta: LevelLike | None = None
    dependence: Dependence | None = None

    def __post_init__(self) -> None:
        radius = with_options(self.radius, delta=self.delta, dependence=self.dependence)
        object.__setattr__(self, "radius", radius)
        check_not_negative(self.epsilon, "epsilon")
        check_word(self.weights, Weights, "weights")
        _check_estimator(self.estimator, self.weights)
        _check_liars(self.liars, self.estimator, self.weights)
        if self.target is not None:
            check_word(self.target, Target, "target")
        object.__setattr__(self, "pulls", self._schedule("pulls"))

    def _schedule(self, name: str) -> ScheduleLike:
        """Return the schedule of a field, or say what is wrong with it."""
        return as_schedule(getattr(self, name), name)

    @property
    def uses_variances(self) -> bool:
        """Whether it must be told σ and σ_c, or estimate them."""
        return self.radius.uses_noise or self.radius.uses_spread

    @property
    def uses_cost(self) -> bool:
        """Whether what it plays depends on C: schedules do not."""
        return False

    @property
    def tolerance(self) -> float:
        """How much worse than the best the arm that it settles on may be."""
        return self.epsilon

    @property
    def parts(self) -> dict[str, Any]:
        """What its rule is made of, apart from clients."""
        usual: Estimator = Plain() if self.weights == "equal" else InverseVariance()
        if self.liars is not None:
            usual = Trimmed(liars=self.liars)
        return {
            "pulls": self.pulls,
            "radius": self.radius,
            "estimator": usual if self.estimator is None else self.estimator,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "target": self.target or "clients",
        }


def _check_estimator(estimator: object, weights: Weights) -> None:
    """Refuse anything but an estimator, and one that contradicts the weights."""
    if estimator is None:
        return
    if isinstance(estimator, type) or not isinstance(estimator, Estimator):
        raise InputError(
            "estimator", f"{estimator!r} is not an estimator such as InverseVariance()"
        )
    if weights != "equal":
        raise InputError("weights", f'"{weights}", and there is an estimator; give one of the two')


def _check_liars(liars: float | None, estimator: Estimator | None, weights: Weights) -> None:
    """Refuse a number of liars that is none, and one beside an estimator or weights."""
    if liars is None:
        return
    Trimmed(liars=liars)
    if estimator is not None or weights != "equal":
        raise InputError(
            "liars",
            'is short for the estimator { name = "trimmed", liars = ... }, but there are'
            f" {'weights' if estimator is None else 'an estimator'}; give one of the two",
        )


def elimination_rule(
    beliefs: Beliefs,
    *,
    pulls: ScheduleLike | Callable[[int], int],
    radius: Radius,
    delta: LevelLike | None = None,
    **parts: Any,
) -> PhasedRule:
    """Return the rule of an elimination, or refuse parts that do not fit together.

    Parameters
    ----------
    beliefs : Beliefs
        Of the game.
    pulls : schedule, or callable
        f(p).
    radius : Radius
        With the level that holds.
    delta : number or expression in T, optional
        The level as the algorithm was given it; None if it is the radius's own, which errors then
        name.
    **parts
        Other fields of `PhasedRule`.
    """
    try:
        radius.check_horizon(beliefs.horizon)
    except InputError as error:
        if error.where == "delta" and delta is None:
            raise error.within("radius") from None
        raise
    if not callable(pulls):
        pulls = Scheduled("pulls", as_schedule(pulls), beliefs.horizon)
    rule = PhasedRule.of(beliefs, pulls=pulls, radius=radius, **parts)
    rule.check_estimates()
    return rule


def everyone_at_once(beliefs: Beliefs, *, clients: int | None, **parts: Any) -> PhasedRule:
    """Return the special case of Fed2-UCB with M clients from the start, believed to be all.

    With N = M the client-sampling term of the radius is zero, and :math:`B_{p,2}` is
    :math:`B_{p,1}`; it stays if the answer is for a population that they are a sample of.

    Parameters
    ----------
    beliefs : Beliefs
        Of the game.
    clients : int, optional
        M; the whole population by default.
    **parts
        As in `elimination_rule`.
    """
    admitted = clients_of(clients, beliefs)
    if beliefs.weighted and admitted != beliefs.population:
        raise InputError(
            "clients",
            f"{admitted} of {beliefs.population} clients, but clients with weights must all play;"
            " leave it out",
        )
    told = replace(beliefs, population=admitted)
    return elimination_rule(told, admissions=FirstThen(admitted), **parts)


def check_paper_radius(radius: object) -> None:
    """Refuse any other radius than the paper's, for the algorithms that need it."""
    if not isinstance(radius, Radius):
        raise InputError("radius", f"{radius!r} is not a radius such as PaperRadius(arm=6.0)")
    if radius.constants is None:
        raise InputError(
            "radius.rule",
            f'"{radius.rule}" goes with fed2-ucb and fed1-ucb; this one takes "paper"',
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
