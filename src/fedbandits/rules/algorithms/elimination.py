"""The common part of algorithms that drop arms phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedbandits.errors import InputError, check_not_negative, check_word
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.estimators import Estimator, InverseVariance, Plain
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.phase_numbers import Scheduled
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
    epsilon : float
        The tolerance: stop when all arms that are left are this close to the best.
    delta, dependence
        Those of the radius, for short. Where the radius sets its own the two must agree.
    """

    shown_in_parts: ClassVar[bool] = True
    uses_cost: ClassVar[bool] = False

    pulls: ScheduleLike
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
        _check_estimator(self.estimator, self.weights)
        if self.target is not None:
            check_word(self.target, Target, "target")
        object.__setattr__(self, "pulls", as_schedule(self.pulls, "pulls"))

    @property
    def uses_variances(self) -> bool:
        """Whether it must be told σ and σ_c, or estimate them."""
        return self.radius.uses_noise or self.radius.uses_spread

    @property
    def tolerance(self) -> float:
        """How much worse than the best the arm that it settles on may be."""
        return self.epsilon

    @property
    def parts(self) -> dict[str, Any]:
        """What its rule is made of, apart from clients."""
        by_weights = None if self.weights == "equal" else InverseVariance()
        return {
            "pulls": self.pulls,
            "radius": self.radius,
            "estimator": by_weights if self.estimator is None else self.estimator,
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


def elimination_rule(
    beliefs: Beliefs,
    *,
    pulls: ScheduleLike,
    admissions: Callable[[int], int],
    radius: Radius,
    estimator: Estimator | None = None,
    delta: LevelLike | None = None,
    target: Target = "clients",
    **parts: Any,
) -> PhasedRule:
    """Return the rule of an elimination, or refuse parts that do not fit together.

    Parameters
    ----------
    beliefs : Beliefs
        Of the game.
    pulls : schedule
        f(p).
    admissions : callable
        g: phase to new clients.
    radius : Radius
        With the level that holds.
    estimator : Estimator, optional
        The plain average by default.
    delta : number or expression in T, optional
        The level as the algorithm was given it; None if it is the radius's own, which errors then
        name.
    target : {"clients", "population"}
        Whom the answer is for.
    **parts
        Other fields of `PhasedRule`.
    """
    horizon, population = beliefs.horizon, beliefs.population
    try:
        radius.check_horizon(horizon)
    except InputError as error:
        if error.where == "delta" and delta is None:
            raise error.within("radius") from None
        raise
    estimator = Plain() if estimator is None else estimator
    if estimator.uses_variances and population is not None and target == "clients":
        raise InputError(
            "weights",
            f'"{estimator.name}" is for target = "population"; if {population} clients exist, all'
            ' count the same: use "equal"',
        )
    rule = PhasedRule.of(
        beliefs,
        pulls=Scheduled("pulls", as_schedule(pulls), horizon),
        admissions=admissions,
        radius=radius,
        estimator=estimator,
        target=target,
        **parts,
    )
    rule.check_estimates()
    return rule
