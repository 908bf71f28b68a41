"""Clients in one room, who answer at once, and what drives a server that they are asked by."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fedbandits.federation.coordinator import Bulletin, Coordinator, Patience, Sent
from fedbandits.protocol import Assignment, Client, Server
from fedbandits.rules.algorithms import Fed1Ucb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule


def a_rule(*, clients: int = 3, phases: int = 3, **told: Any) -> PhasedRule:
    beliefs: dict[str, Any] = {"horizon": 400, "noise": 0.3, "spread": 0.0, **told}
    rule = Fed1Ucb(pulls="4", clients=clients).rule(Beliefs(n_arms=3, **beliefs))
    return dataclasses.replace(rule, max_phases=phases)


class Office:
    """Clients in the same room, who answer at once; and a clock."""

    def __init__(self, names: Sequence[str], *, silent: Sequence[str] = ()) -> None:
        self.names = list(names)
        self.silent = set(silent)
        self.now = 0.0
        self.answers: list[Any] = []
        self.sent: list[tuple[Sent, tuple[str, ...]]] = []
        self.clients = {
            name: Client(name, lambda arm, n: [0.2 + 0.1 * arm + 0.01 * i for i in range(n)])
            for name in names
        }

    def connected(self) -> list[str]:
        return self.names

    def flush(self, timeout: float) -> None:
        pass

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        self.sent.append((message, tuple(clients)))
        if isinstance(message, Assignment):
            awake = [name for name in clients if name not in self.silent]
            self.answers += [self.clients[name].play(message) for name in awake]

    def receive(self, timeout: float) -> list[Any]:
        answers, self.answers = self.answers, []
        if not answers:
            self.now += timeout
        return answers


def coordinator(
    server: Server, office: Office, news: list[Bulletin] | None = None, **patience: Any
) -> Coordinator:
    watch = (lambda _: None) if news is None else news.append
    return Coordinator(
        server, office, clock=lambda: office.now, patience=Patience(**patience), watch=watch
    )
