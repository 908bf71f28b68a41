"""Fed2-UCB: Algorithms 1 and 2 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedbandits.rules.phased import Beliefs, PhasedRule, ScheduledAdmissions, ScheduledPulls
from fedbandits.rules.radii import PaperRadius
from fedbandits.rules.schedules import ScheduleLike, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed2Ucb:
    """Federated Double UCB, for the approximate model.

    Every phase admits g(p) new clients, every admitted client pulls every active arm f(p) times,
    and the server drops the arms whose interval lies below another's. The interval allows for both
    too few pulls and too few clients.

    Parameters
    ----------
    pulls : schedule
        f(p). More pulls a phase mean fewer rounds of communication and slower admission.
    admissions : schedule
        g(p). More clients resolve smaller gaps, and each costs regret.
    radius : PaperRadius
        Constants 6 and 6 by default, for which Theorem 2 holds.

    Examples
    --------
    >>> rule = Fed2Ucb(pulls="100", admissions="2^p").rule(
    ...     Beliefs(n_arms=10, horizon=10**6, noise=0.5, spread=0.02)
    ... )
    >>> rule.pulls(3), rule.admissions(3)
    (100, 8)
    """

    name: ClassVar[str] = "fed2-ucb"

    pulls: ScheduleLike
    admissions: ScheduleLike
    radius: PaperRadius = field(default_factory=PaperRadius)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pulls", as_schedule(self.pulls, "pulls"))
        object.__setattr__(self, "admissions", as_schedule(self.admissions, "admissions"))

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game of which this is believed."""
        return PhasedRule(
            n_arms=beliefs.n_arms,
            horizon=beliefs.horizon,
            noise=beliefs.noise,
            spread=beliefs.spread,
            population=beliefs.population,
            pulls=ScheduledPulls(as_schedule(self.pulls), beliefs.horizon),
            admissions=ScheduledAdmissions(as_schedule(self.admissions), beliefs.horizon),
            radius=self.radius,
        )
