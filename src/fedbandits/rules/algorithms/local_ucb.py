"""UCB1 by each client for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedbandits.errors import check_count
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.elimination import clients_of
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import Player


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
    uses_cost: ClassVar[bool] = False

    clients: int | None = None

    def __post_init__(self) -> None:
        check_count(self.clients, "clients", optional=True)

    def rule(self, beliefs: Beliefs) -> SlotRule:
        """Return the rule for a game, given what is believed about it."""
        clients = clients_of(self.clients, beliefs)
        return SlotRule.of(beliefs, self.name, clients=clients, player=Player.CLIENTS)
