"""What theorems say of the variants of an experiment: at most, at least, or why nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedbandits.problems.problem import Problem, gaps
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule, Player
from fedbandits.simulation import Variant
from fedbandits.simulation.tables import quantity
from fedbandits.theory.lower_bound import LowerBound, lower_bound
from fedbandits.theory.regret import RegretBound, regret_bound

if TYPE_CHECKING:
    from fedbandits.experiments.experiment import Experiment

Yardstick: TypeAlias = tuple[float, float] | str
"""The slope of a lower bound and slope times log T, or why there is none."""

_LYING = "some clients lie"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantBound:
    """The bounds of a variant, or the reasons why it has none.

    Parameters
    ----------
    variant : Variant
        The variant.
    bound : RegretBound or None
        A bound on its expected total regret.
    reason : str or None
        Why no theorem covers it.
    least : LowerBound or str
        What every consistent rule pays in its game, or why nothing is proven about that.
    """

    variant: Variant
    bound: RegretBound | None
    reason: str | None
    least: LowerBound | str


def bounds_of(experiment: Experiment) -> list[VariantBound]:
    """Return what the paper's theorems promise for every variant.

    Examples
    --------
    >>> from fedbandits import Exact, Experiment, Fed1Ucb, Gaussian
    >>> game = Exact(local_means=[[0.2, 0.9], [0.7, 0.2]], noise=Gaussian(0.5))
    >>> variant = Variant(label="fed1", problem=game, algorithm=Fed1Ucb(pulls=100))
    >>> (found,) = bounds_of(Experiment(title="demo", variants=[variant], horizon=10**5))
    >>> found.bound.theorem, round(found.bound.total)
    (3, 3058)
    """
    found = []
    built = zip(experiment.variants, experiment.built, experiment.guarantees(), strict=True)
    for variant, (rule, _), proven in built:
        bound, reason = None, None
        if rule.decides_every_slot:
            reason = "no theorem of the paper is about rules that decide in every slot"
        elif not proven.regret and not proven.claim:
            reason = proven.statement().removeprefix("none: ")
        elif not proven.regret:
            reason = f'the theorems are about the paper\'s radius, and this is "{rule.radius.rule}"'
        elif not proven.holds:
            reason = "; ".join(proven.breaches)
        else:
            worse, cost = gaps(variant.problem), variant.communication_cost
            bound = regret_bound(rule, worse[worse > 0], cost=cost, privacy=variant.privacy)
        least = lower_bound_of(variant.problem, variant.communication_cost)
        least = least if variant.attack is None else _LYING
        found.append(VariantBound(variant=variant, bound=bound, reason=reason, least=least))
    return found


def lower_bound_of(problem: Problem, cost: float) -> LowerBound | str:
    """Return what every consistent rule pays per unit of log T, or why nothing is proven.

    Examples
    --------
    >>> from fedbandits import Approximate, Gaussian
    >>> game = Approximate(means=[0.5, 0.6], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> round(lower_bound_of(game, 0.0).slope, 3)
    5.0
    >>> crowd = Approximate(
    ...     means=[0.5, 0.6], noise=Gaussian(0.5), spread=Gaussian(0.1), population=50
    ... )
    >>> lower_bound_of(crowd, 1.0)
    'in a finite population all clients take part in the limit, whatever a report costs'
    """
    law, worse = problem.cohort_law, gaps(problem)
    if law.obstacle is not None:
        return (
            f"it is about normal rewards and local means, independent of each other; {law.obstacle}"
        )
    if problem.shares is not None:
        return "its clients have weights"
    if problem.population is not None and not law.of_everyone:
        return "in a finite population all clients take part in the limit, whatever a report costs"
    if (worse == 0).sum() > 1:
        return "several arms are the best"
    return _least(tuple(worse[worse > 0].tolist()), law.noise, law.spread, cost)


@lru_cache(maxsize=2**10)
def _least(worse: tuple[float, ...], noise: float, spread: float, cost: float) -> LowerBound:
    """Return the lower bound for some gaps; many settings of a sweep share it."""
    return lower_bound(np.array(worse), noise=noise, spread=spread, cost=cost)


def yardstick(variant: Variant, rule: PhasedRule | SlotRule, horizon: int | None) -> Yardstick:
    """Return the slope of the lower bound for a variant and slope times log T, or why none.

    Parameters
    ----------
    variant : Variant
        The game and what reports cost in it.
    rule : PhasedRule or SlotRule
        Who plays.
    horizon : int, optional
        T.
    """
    if rule.player is Player.SERVER:
        return "one player observes the global model and asks no clients"
    if rule.decides_every_slot:
        return "its clients report nothing, and the bound is about rules that learn from reports"
    if variant.attack is not None:
        return _LYING
    if horizon is None:
        return "without a horizon there is no log T"
    least = lower_bound_of(variant.problem, variant.communication_cost)
    if isinstance(least, str):
        return least
    return (least.slope, least.at(horizon)) if least.at(horizon) > 0 else "it is 0"


def beside_lower_bound(total: FloatArray, found: Yardstick) -> dict[str, Any]:
    """Return total regret as a multiple of slope times log T, or why there is no such bound.

    Examples
    --------
    >>> from fedbandits import Approximate, FedIndex, Gaussian, simulate
    >>> game = Approximate(means=[0.5, 0.6], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> run = simulate(game, FedIndex(), horizon=10**5, replications=50, seed=1)
    >>> found = beside_lower_bound(run.games.total, yardstick(run.variant, run.rule, 10**5))
    >>> round(found["slope"], 1), round(found["at_horizon"]), found["times"]["mean"] > 0.5
    (17.9, 207, True)
    """
    if isinstance(found, str):
        return {"slope": None, "at_horizon": None, "times": None, "reason": found}
    slope, at = found
    return {"slope": slope, "at_horizon": at, "times": quantity(total / at), "reason": None}
