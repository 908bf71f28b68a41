"""The baseline of the paper's figures, as its authors ran it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.elimination import check_paper_radius, everyone_at_once
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import Charge, PhasedRule, Player
from fedbandits.rules.radii import PaperRadius, Radius
from fedbandits.rules.schedules import ScheduleLike, as_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsBaseline(Algorithm):
    """Fed1-UCB with one player who observes the global model, and free communication.

    The paper words its baseline as improved UCB (`ImprovedUcb`), which is another algorithm.

    Parameters
    ----------
    pulls : schedule
        f(p).
    radius : PaperRadius
        As in Fed1-UCB.
    """

    name: ClassVar[str] = "authors-baseline"
    uses_cost: ClassVar[bool] = False

    pulls: ScheduleLike
    radius: Radius = field(default_factory=PaperRadius)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pulls", as_schedule(self.pulls, "pulls"))
        check_paper_radius(self.radius)

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        # One player sees no spread, and of weights only what they make of the global model.
        spread = 0.0 if beliefs.spread is None else beliefs.spread
        noise = beliefs.noise_for(self.name)
        return everyone_at_once(
            replace(beliefs, noise=noise, spread=spread, weighted=False),
            pulls=self.pulls,
            clients=1,
            radius=self.radius,
            player=Player.SERVER,
            charge=Charge.NOTHING,
        )
