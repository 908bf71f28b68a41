"""What the rule of a variant promises, in one sentence; the words are `fedbandits.rules`'."""

from __future__ import annotations

from fedbandits.rules.guarantees import ALWAYS, BOUNDS_HOLD, for_whom, listed, promise_of
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule

IF = f"if {listed((BOUNDS_HOLD, *ALWAYS))}"
"""What every stated error probability rests on."""


def guarantee(rule: PhasedRule | SlotRule) -> str:
    """Return what a rule promises, and whom its answer is for.

    Examples
    --------
    >>> from fedbandits import CertifiedRadius, Fed2Ucb
    >>> from fedbandits.rules.phased import Beliefs
    >>> told = Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
    >>> radius = CertifiedRadius(delta=0.05, dependence="any")
    >>> guarantee(Fed2Ucb(pulls=10, admissions="2^p", radius=radius).rule(told))
    'drops the best option with a probability of at most 0.05; the answer is for future clients
    like these'
    """
    if rule.decides_every_slot:
        return "none about the option it ends on; its regret grows as the logarithm of the horizon"
    promise = promise_of(rule)
    also = f", if {listed(promise.conditions)}" if promise.conditions else ""
    return f"{promise.words}{also}; the answer is for {for_whom(rule)}"
