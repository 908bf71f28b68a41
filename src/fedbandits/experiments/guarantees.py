"""What the rule of a variant promises, in words that a non-statistician can repeat."""

from __future__ import annotations

from fedbandits.rules.indices import SlotRule
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.radii import (
    BernsteinRadius,
    CertifiedRadius,
    ChernoffRadius,
    ImprovedUcbRadius,
    JointRadius,
    PairedTRadius,
    PairwiseRadius,
    PaperRadius,
)

IF = (
    "if noise and spread are no larger than it is told, clients are a random sample of those the"
    " answer is for, outcomes do not drift, and nobody drops out because of what was observed"
)
"""What every stated error probability rests on."""


def guarantee(rule: PhasedRule | SlotRule) -> str:
    """Return what a rule promises.

    Examples
    --------
    >>> from fedbandits import CertifiedRadius, Fed2Ucb
    >>> from fedbandits.rules.phased import Beliefs
    >>> told = Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
    >>> algorithm = Fed2Ucb(pulls=10, admissions="2^p", radius=CertifiedRadius(delta=0.05))
    >>> guarantee(algorithm.rule(told))
    'drops the best arm with a probability of at most 0.05, if arms are independent'
    """
    if isinstance(rule, SlotRule):
        return "none about the arm it ends on; its regret grows as the logarithm of the horizon"
    if rule.noise is None or rule.spread is None:
        return "none in finite samples: it estimates noise or spread from what it decides on"
    radius, arms = rule.radius, ""
    if getattr(radius, "dependence", "any") == "independent":
        arms = ", if arms are independent"
    match radius:
        case PaperRadius(arm=arm, client=client):
            everyone = rule.population == rule.admissions(1)
            proven = arm >= 6 and (client >= 6 or everyone) and rule.weights == "equal"
            found = (
                "the regret bounds of Theorems 2 and 3"
                if proven
                else "none: the paper's proofs are about plain averages"
                if rule.weights != "equal"
                else "none: its constants are below the 6 that carries the paper's proofs"
            )
        case JointRadius():
            found = "the paper's regret bounds, with narrower intervals"
        case PairwiseRadius():
            found = f"a comparison errs with a probability of at most 1/T³{arms}"
        case CertifiedRadius() | BernsteinRadius() | ChernoffRadius():
            found = f"{_at_most(radius.delta, rule.horizon)}{arms}"
        case PairedTRadius():
            found = (
                f"{_at_most(radius.delta, rule.horizon)} for normal clients with equal counts, and"
                " nothing in general"
            )
        case ImprovedUcbRadius():
            found = "the regret bound of Auer and Ortner (2010), for one player"
        case _:
            found = f"what its rule, {radius.rule}, promises"
    return found


def _at_most(delta: LevelLike, horizon: int | None) -> str:
    level = as_level(delta)
    value = f"{level.value(horizon):g}"
    named = f" ({level})" if level.expression.depends_on_horizon else ""
    return f"drops the best arm with a probability of at most {value}{named}"
