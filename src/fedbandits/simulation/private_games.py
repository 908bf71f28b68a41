"""What a privacy policy does to a game: what it clips, what it spends, what it can never decide."""

from __future__ import annotations

import math

import numpy as np

from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.policy import Privacy
from fedbandits.problems.clipping import clipping
from fedbandits.problems.problem import Problem, gap, gaps
from fedbandits.rules.phased import PhasedRule


def privacy_doubts(problem: Problem, privacy: Privacy) -> list[str]:
    """Return what a policy changes about the answer to a problem, in words.

    Examples
    --------
    >>> from fedbandits import Approximate, Gaussian, Quantize
    >>> game = Approximate(means=[0.77, 0.79], noise=Gaussian(0.5), spread=Gaussian(0.02))
    >>> for doubt in privacy_doubts(game, Privacy(range=(0, 1), quantize=Quantize(bits=8))):
    ...     print(doubt)
    up to 39 % of the observations of an arm lie outside [0, 1] and are clipped: the answer is about
    means of clipped observations, whose gap is 0.01221 where it was 0.02
    """
    found = []
    low, high = privacy.range
    clipped = clipping(problem, low, high)
    gap_left = gap(problem)
    if not clipped.negligible:
        signed = clipped.means if problem.goal == "max" else -clipped.means
        best = int(signed.argmax())
        gap_left = float(signed[best] - np.sort(signed)[-2])
        what = f"whose gap is {gap_left:.4g} where it was {gap(problem):.4g}"
        if gaps(problem)[best] > 0:
            what += f", and of which arm {best} is the best, which it was not"
        found.append(
            f"up to {100 * clipped.shares.max():.2g} % of the observations of an arm lie outside"
            f" [{low:g}, {high:g}] and are clipped: the answer is about means of clipped"
            f" observations, {what}"
        )
    step = privacy.coarsest_step
    if step is not None and 2.0 * step >= gap_left > 0:
        # Two biases of half a step each, in the estimates and once more in the width.
        enough = math.ceil(math.log2(1.0 + 2.0 * (high - low) / gap_left))
        never = "are never" if step >= gap_left else "may never be"
        found.append(
            f"means are rounded to the nearest of steps of {step:.3g}, and the gap is"
            f" {gap_left:.3g}: the best two arms {never} told apart; use stochastic rounding, or"
            f" {enough} bits or more"
        )
    return found


def spent_at_most(rule: PhasedRule, privacy: Privacy, phases: int) -> Spending:
    """Return what a run of so many phases spends at most, at the policy's level.

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
