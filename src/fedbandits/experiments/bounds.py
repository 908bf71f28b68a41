"""What the theorems promise for the variants of an experiment, or why they promise nothing."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.experiments.experiment import Experiment
from fedbandits.problems.problem import gaps
from fedbandits.simulation import Variant
from fedbandits.theory.regret import RegretBound, regret_bound


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
        found.append(VariantBound(variant=variant, bound=bound, reason=reason))
    return found
