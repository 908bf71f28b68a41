"""What a game with a privacy policy spends."""

from __future__ import annotations

from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.policy import Privacy
from fedbandits.rules.phased import PhasedRule


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
