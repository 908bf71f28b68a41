"""A server of three arms, its updates and its records."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.protocol import (
    Assignment,
    Decision,
    Header,
    PhaseClosed,
    Pull,
    Reason,
    Record,
    Server,
    ServerState,
    Update,
    arms_hash,
)
from fedbandits.protocol.decisions import decided
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule

HEADER = Header(run="run", epoch=1, arms=arms_hash(["0", "1", "2"]))


def fed1(*, n_arms: int = 3, clients: int = 2, pulls: str = "10", **beliefs: Any) -> PhasedRule:
    """Return Fed1-UCB with little noise: gaps of a tenth are seen at once."""
    told: dict[str, Any] = {"horizon": 1000, "noise": 0.01, "spread": 0.0, **beliefs}
    return Fed1Ucb(pulls=pulls, clients=clients).rule(Beliefs(n_arms=n_arms, **told))


def steady(*means: float) -> Pull:
    """Return a pull whose observations are always the mean."""
    return lambda arm, n: [means[arm]] * n


def update(**changes: Any) -> Update:
    """Return what client a sends after 10 pulls of 3 arms, but for these changes."""
    honest: dict[str, Any] = {
        "header": HEADER,
        "phase": 1,
        "client": "a",
        "counts": (10, 10, 10),
        "means": (0.5, 0.25, 0.75),
    }
    return Update(**(honest | changes))


def records_of(server: Server) -> list[Record]:
    return list(server.log)


def collecting(rule: PhasedRule | None = None) -> Server:
    """Return a server whose first phase is open, with clients a and b."""
    server = Server(fed1() if rule is None else rule)
    server.open(["a", "b"])
    return server


def a_decision(reason: Reason, **changes: Any) -> Decision:
    last = reason is not Reason.OPEN
    values: dict[str, Any] = {
        "header": HEADER,
        "phase": 1,
        "active": (False, False, True) if last else (True, False, True),
        "estimates": (0.5, 0.25, 0.75),
        "widths": (0.1, 0.1, 0.1),
        "best": 2,
        "winner": 2 if reason is Reason.ONE_ARM_LEFT else None,
        "reason": reason,
    }
    return Decision(**(values | changes))


def server_in(state: ServerState) -> Server:
    server = Server(fed1())
    if state is not ServerState.READY:
        server.open(["a", "b"])
    if state in (ServerState.ENDING, ServerState.FINISHED):
        for client in "ab":
            server.receive(update(client=client))
        server._commit(PhaseClosed(decided(server.run_state)))
    if state is ServerState.FINISHED:
        server.end()
    assert server.state is state
    return server


def assignment(**changes: Any) -> Assignment:
    values: dict[str, Any] = {"header": HEADER, "phase": 1, "pulls": (10, 0, 4)}
    return Assignment(**(values | changes))


class Counting:
    """A pull that remembers how it was called, and gives numbers nobody else would."""

    def __init__(self, seed: int = 0) -> None:
        self.calls: list[tuple[int, int]] = []
        self.given: list[float] = []
        self._rng = np.random.default_rng([2021, seed])

    def __call__(self, arm: int, n: int) -> list[float]:
        self.calls.append((arm, n))
        drawn: list[float] = self._rng.normal(arm, 1.0, size=n).tolist()
        self.given += drawn
        return drawn


def two_arm_rule() -> PhasedRule:
    return Fed2Ucb(pulls=10, admissions=1).rule(
        Beliefs(n_arms=2, horizon=1000, noise=1.0, spread=0.0)
    )
