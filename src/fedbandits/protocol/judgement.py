"""What a rule is shown when it decides a phase."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.rules.arrays import BoolArray
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.phased import PhasedRule, Verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """The estimate that a phase was decided by, kept for as long as an arm is out because of it.

    Parameters
    ----------
    phase : int
        Which.
    looks : int
        Its number as far as error probabilities are shared out; see
        `fedbandits.protocol.decisions.looks`.
    active : array of bool
        The arms that were in the game.
    estimate : Estimate
        What was known of them.
    """

    phase: int
    looks: int
    active: BoolArray
    estimate: Estimate

    def verdict(self, rule: PhasedRule, active: BoolArray) -> Verdict:
        """Return what a rule decides if only these arms are in the game."""
        return rule.decide(phase=self.looks, active=active, estimate=self.estimate)
