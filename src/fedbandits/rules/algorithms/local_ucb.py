"""UCB1 by every client for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.everyone_at_once import check_clients, clients_of
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import Beliefs, Player


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalUcb(Algorithm):
    """Every client alone on its own observations, no communication.

    Each finds its own best arm, which need not be the global one: the linear regret that federation
    removes.

    Parameters
    ----------
    clients : int, optional
        M; the whole population by default.
    """

    name: ClassVar[str] = "local-ucb"

    clients: int | None = None

    def __post_init__(self) -> None:
        check_clients(self.clients)

    def rule(self, beliefs: Beliefs) -> SlotRule:
        """Return the rule for a game of which this is believed."""
        return SlotRule(
            n_arms=beliefs.n_arms,
            horizon=beliefs.horizon_for(self.name),
            goal=beliefs.goal,
            noise=beliefs.noise_for(self.name),
            clients=clients_of(self.clients, beliefs),
            player=Player.CLIENTS,
        )
