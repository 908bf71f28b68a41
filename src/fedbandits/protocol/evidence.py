"""What a rule is shown when it decides a phase."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import Distortion
from fedbandits.rules.phased import PhasedRule, Verdict
from fedbandits.rules.variance_components import VarianceComponents


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Reports and estimates of a phase, kept for as long as an arm is out because of them.

    Parameters
    ----------
    phase : int
        Which.
    active : array of bool
        The arms that were in the game.
    estimates, counts, client_means, components, shares, distortion
        As in `fedbandits.rules.phased.PhasedRule.decide`.
    """

    phase: int
    active: BoolArray
    estimates: FloatArray
    counts: IntArray
    client_means: FloatArray | None
    components: VarianceComponents | None
    shares: FloatArray | None
    distortion: Distortion

    def verdict(self, rule: PhasedRule, active: BoolArray) -> Verdict:
        """Return what a rule decides if only these arms are in the game."""
        return rule.decide(
            phase=self.phase,
            active=active,
            estimates=self.estimates,
            counts=self.counts,
            client_means=self.client_means,
            components=self.components,
            shares=self.shares,
            distortion=self.distortion,
        )
