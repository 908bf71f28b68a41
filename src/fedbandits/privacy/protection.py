"""Rules whose clients protect their means: what they may not do, and the bits of a phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError
from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.mechanisms import MOST_BITS, bits_for
from fedbandits.privacy.policy import Privacy
from fedbandits.rules.distortion import DistortionSums
from fedbandits.rules.phased import Charge, PhasedRule, Player
from fedbandits.rules.radii import RADII
from fedbandits.rules.reports import Reports


@dataclass(frozen=True, slots=True)
class WithinBudget:
    """Says of a phase whether the budget of a policy allows its releases.

    Parameters
    ----------
    privacy : Privacy
        The policy.
    pulls : callable
        f.
    arms : int
        Means in a release at most.
    """

    privacy: Privacy
    pulls: Callable[[int], int]
    arms: int

    def __call__(self, phase: int) -> bool:
        """Return whether clients may release the means of this phase.

        At user level what all releases spend was checked before the first; here they are counted.
        """
        if self.privacy.releases is not None:
            return phase <= self.privacy.releases
        return _affordable(self.privacy, self.pulls(phase), self.arms)


@lru_cache(maxsize=256)
def _affordable(privacy: Privacy, pulls: int, arms: int) -> bool:
    """Return whether the budget allows a release; cached, because most phases are alike."""
    return privacy.within_budget(privacy.spends(pulls, arms))


def protected(rule: PhasedRule, privacy: Privacy) -> PhasedRule:
    """Return a rule that stops when the budget of its clients is spent.

    Raises
    ------
    InputError
        If the rule asks for what the policy does not release, or no phase can be afforded.
    """
    if rule.player is not Player.CLIENTS or rule.charge is not Charge.PHASE:
        raise InputError(
            "",
            "protects what clients send at the end of a phase; this algorithm has no such"
            " messages: use fed2-ucb or fed1-ucb",
        )
    if rule.needs_squares:
        raise InputError(
            "",
            'protects means, and assume.noise = "estimate" takes sums of squares as well; give a'
            " number",
        )
    if rule.needs_components:
        raise InputError(
            "",
            'is part of what clients differ by, so that assume.spread = "estimate" would count it'
            " twice; give a number",
        )
    if privacy.bits_by_phase and rule.estimator.needs_shares:
        raise InputError(
            "quantize.bits",
            '"radius" is for clients that count the same, and these have weights; give a number of'
            " bits",
        )
    if privacy.bits_by_phase and rule.estimator.stands_liars:
        raise InputError(
            "quantize.bits",
            '"radius" is for averages, and clients that may lie are compared one by one; give a'
            " number of bits",
        )
    if privacy.bits_by_phase and not rule.radius.known_before:
        known = ", ".join(f'"{name}"' for name, radius in RADII.items() if radius.known_before)
        raise InputError(
            "quantize.bits",
            '"radius" needs a width that is known before anything is observed: use a radius of'
            f" {known}, or a number of bits",
        )
    rule.radius.check_protected()
    rule.estimator.check_protected(subgaussian=privacy.noise != "laplace")
    rule = rule.with_fewest_pulls(privacy.min_pulls)
    if privacy.noise is None or not (privacy.has_budget or privacy.releases):
        return rule
    pulls = rule.pulls(1)
    planned = privacy.planned(pulls, rule.n_arms)
    if not privacy.within_budget(planned):
        spent = f"epsilon = {planned.epsilon(privacy.delta):.3g}"
        if privacy.rho is not None:
            spent = f"rho = {planned.rho:.3g}"
        what = f"the first phase of {pulls:,} pulls"
        if privacy.releases is not None:
            what = f"{privacy.releases} releases of {rule.n_arms} means"
        raise InputError(
            "scale",
            f"{privacy.scale:g} spends {spent} in {what}, which exceeds the budget; raise either,"
            " or leave the scale out",
        )
    return replace(rule, affordable=WithinBudget(privacy, rule.pulls, rule.n_arms))


def bits_in_phase(
    rule: PhasedRule,
    privacy: Privacy,
    *,
    phase: int,
    pulls: int,
    counts: npt.ArrayLike,
    sizes: npt.ArrayLike = 1,
    sums: DistortionSums,
) -> int | None:
    r"""Return how many bits a mean takes in a phase, if the policy chooses them per phase.

    The fewest for which rounding to the nearest leaves in an estimate no more than its confidence
    radius :math:`B_p`. What earlier phases have left there stays: with shares :math:`a_m` of
    clients, :math:`n_m` pulls after this phase of n each and biases :math:`b_m` so far, the error
    :math:`e = h/2` of this phase may be as large as

    :math:`\sum_m a_m (b_m + n e) / n_m \le B_p` allows. (The paper's clients round their running
    means, for which e ≤ :math:`B_p` is enough; rounding the same observations again in every phase
    would let them be released more than once.)

    Parameters
    ----------
    rule, privacy
        What decides, and what protects.
    phase, pulls : int
        The phase that begins, and its pulls of an arm.
    counts : array, shape (groups,)
        Pulls of an active arm by each client, with this phase.
    sizes : array, optional
        Clients in each group.
    sums : DistortionSums, shape (groups,)
        What earlier phases have left.
    """
    if not privacy.bits_by_phase:
        return None
    low, high = privacy.range
    before = sums.over(counts)
    planned = Reports.planned(counts, sizes, distortion=before)
    weights = rule.estimator.weights(planned, rule.sampling)
    shares = weights / weights.sum()
    radius = float(np.max(rule.width(phase=phase, reports=Reports.planned(counts, sizes))))
    left = radius - float((shares * before.bias).sum())
    if left <= 0:  # only if the radius shrinks faster than new pulls can dilute old errors
        return MOST_BITS
    of_this_phase = float((shares * pulls / np.asarray(counts, dtype=np.float64)).sum())
    return bits_for(left / of_this_phase, low, high)


def spent_at_most(rule: PhasedRule, privacy: Privacy, phases: int) -> Spending:
    """Return the most that a run of this many phases spends, at the policy's level.

    Parameters
    ----------
    rule : PhasedRule
        With the pulls of its phases.
    privacy : Privacy
        The policy.
    phases : int
        That clients have reported in.
    """
    total = Spending()
    if privacy.level == "user":
        return privacy.spends(rule.pulls(1), rule.n_arms).times(phases) if phases else total
    for pulls in sorted({rule.pulls(phase) for phase in range(1, phases + 1)}):
        total = privacy.total(total, privacy.spends(pulls, rule.n_arms))
    return total
