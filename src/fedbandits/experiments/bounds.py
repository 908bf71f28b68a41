"""What the theorems promise for the variants of an experiment, or why they promise nothing."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.experiments.experiment import Experiment
from fedbandits.problems.problem import gaps
from fedbandits.simulation.simulator import Variant, build_rules
from fedbandits.theory.regret import RegretBound, obstacle_to_bound, regret_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantBound:
    """The bound of a variant, or the reason why it has none.

    Parameters
    ----------
    variant : Variant
        Of which this is said.
    bound : RegretBound or None
        A bound on its expected total regret.
    reason : str or None
        Why no theorem covers it.
    """

    variant: Variant
    bound: RegretBound | None
    reason: str | None


def bounds_of(experiment: Experiment) -> list[VariantBound]:
    """Return what the paper's theorems promise for every variant.

    Examples
    --------
    >>> from fedbandits import Exact, Fed1Ucb, Gaussian
    >>> game = Exact(local_means=[[0.2, 0.9], [0.7, 0.2]], noise=Gaussian(0.5))
    >>> variant = Variant(label="fed1", problem=game, algorithm=Fed1Ucb(pulls=100))
    >>> (found,) = bounds_of(Experiment(title="demo", variants=[variant], horizon=10**5))
    >>> found.bound.theorem, round(found.bound.total)
    (3, 3058)
    """
    found = []
    rules = build_rules(experiment.variants, experiment.horizon)
    for variant, (rule, _) in zip(experiment.variants, rules, strict=True):
        problem = variant.problem
        worse = gaps(problem)
        others = worse[worse > 0] if (worse == 0).sum() == 1 else worse
        reason: str | None = "no theorem of the paper is about rules that decide in every slot"
        if not rule.decides_every_slot:
            reason = obstacle_to_bound(
                rule,
                others,
                true_noise=problem.noise_proxy,
                true_spread=problem.spread_proxy,
                true_population=problem.population,
            )
        bound = None
        if reason is None and not rule.decides_every_slot:
            bound = regret_bound(rule, others, cost=variant.communication_cost)
        found.append(VariantBound(variant=variant, bound=bound, reason=reason))
    return found
