"""UCB1 by one hypothetical player who observes the global model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import Player


@dataclass(frozen=True, slots=True, kw_only=True)
class Ucb1(Algorithm):
    """UCB1 at the server: what a player could do who saw the global model in every slot."""

    name: ClassVar[str] = "ucb1"
    uses_cost: ClassVar[bool] = False

    def rule(self, beliefs: Beliefs) -> SlotRule:
        """Return the rule for a game, given what is believed about it."""
        return SlotRule.of(beliefs, self.name, clients=1, player=Player.SERVER)
