"""Whole games in the loop, and how they end."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fedbandits.errors import ProtocolError
from fedbandits.loopback import play
from fedbandits.protocol import (
    Assignment,
    Client,
    ClientState,
    PhaseOpened,
    Reason,
    Rejection,
    RunEnded,
    Server,
    ServerState,
    Update,
    UpdateRejected,
)
from fedbandits.protocol.client import Slice
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.beliefs import Beliefs
from small_server import Counting, fed1, records_of, steady, update

# The end of the horizon --------------------------------------------------------------------------


def test_a_phase_that_ends_exactly_at_the_horizon_decides() -> None:
    server = Server(fed1(horizon=30))
    assert server.open(["a", "b"]).pulls == (10, 10, 10)
    assert server.state is ServerState.COLLECTING
    for client in "ab":
        assert server.receive(update(client=client)) is None
    assert server.close().winner == 2
    assert (server.finished, server.run_state.slots_played) == (True, 30)


@pytest.mark.parametrize(
    ("horizon", "pulls"), [(29, (10, 10, 9)), (20, (10, 10, 0)), (13, (10, 3, 0)), (1, (1, 0, 0))]
)
def test_a_phase_that_does_not_fit_is_cut_and_nobody_reports(
    horizon: int, pulls: tuple[int, ...]
) -> None:
    server = Server(fed1(horizon=horizon))
    opened = server.open(["a", "b"])
    assert opened.pulls == pulls
    assert (server.finished, server.run_state.slots_played, server.phase) == (True, horizon, 1)
    assert server.clients == ("a", "b")
    assert server.decision is None
    assert server.receive(update(counts=pulls)) is Rejection.PHASE
    with pytest.raises(ProtocolError):
        server.close()
    (first, ended, rejected) = records_of(server)
    assert isinstance(first, PhaseOpened)
    assert not first.complete
    assert isinstance(ended, RunEnded)
    assert (ended.decision.reason, ended.decision.winner) == (Reason.HORIZON, None)
    assert isinstance(rejected, UpdateRejected)


def test_a_second_phase_that_does_not_fit_leaves_the_first_decision() -> None:
    rule = fed1(horizon=45, noise=0.4)
    server = Server(rule)
    server.open(["a", "b"])
    for client in "ab":
        server.receive(update(client=client, means=(0.0, 1.0, 0.9)))
    decision = server.close()
    assert decision.reason is Reason.OPEN
    last = server.open([])
    assert sum(last.pulls) == 15
    assert last.previous == decision
    assert server.finished
    assert server.decision == dataclasses.replace(decision, reason=Reason.HORIZON)
    assert records_of(server)[-1] == RunEnded(server.decision)


def test_a_cap_on_phases_ends_the_game_undecided_on_the_best_estimate() -> None:
    rule = dataclasses.replace(fed1(noise=9.0), max_phases=1)
    server = Server(rule)
    server.open(["a", "b"])
    for client in "ab":
        server.receive(update(client=client))
    decision = server.close()
    assert (decision.reason, decision.winner, decision.best) == (Reason.LAST_PHASE, None, 2)
    assert decision.active == (True, True, True)
    assert server.finished


# The loopback ------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [0, 1, 2, 3])
def test_the_loopback_plays_fed1_ucb_to_the_right_winner(best: int) -> None:
    means = [0.5] * 4
    means[best] = 0.7
    # No client's own best arm is the global one, as in the exact model of the paper.
    tilted = [
        [m + (0.4 if k == (best + i) % 4 else -0.4 / 3) for k, m in enumerate(means)]
        for i in range(4)
    ]
    clients = [Client(str(i), steady(*row)) for i, row in enumerate(tilted)]
    server = Server(fed1(n_arms=4, clients=4, noise=0.05))
    decision = play(server, lambda wanted: clients[:wanted])
    assert decision is not None
    assert decision.winner == best
    assert server.finished
    assert all(client.state is ClientState.FINISHED for client in clients)
    assert {client.best for client in clients} == {best}


@pytest.mark.parametrize("seed", range(5))
def test_the_loopback_plays_fed2_ucb_to_the_right_winner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rule = Fed2Ucb(pulls="20", admissions="2^p").rule(
        Beliefs(n_arms=3, horizon=100_000, noise=0.1, spread=0.05)
    )
    clients: list[Client] = []

    def admit(wanted: int) -> list[Client]:
        first = len(clients)
        clients.extend(client(number) for number in range(first, first + wanted))
        return clients[first:]

    def client(number: int) -> Client:
        means = rng.normal([0.4, 0.8, 0.6], 0.05)
        return Client(str(number), lambda arm, n: rng.normal(means[arm], 0.1, size=n))

    server = Server(rule)
    decision = play(server, admit)
    assert decision is not None
    assert (decision.winner, decision.reason) == (1, Reason.ONE_ARM_LEFT)
    assert len(clients) == 2 ** (server.phase + 1) - 2
    assert server.clients == tuple(client.name for client in clients)


def test_the_loopback_ends_undecided_after_an_algorithm_s_last_phase() -> None:
    rule = dataclasses.replace(fed1(clients=1), last_phase=4)
    client = Client("a", steady(0.25, 0.5, 0.5))
    server = Server(rule)
    decision = play(server, lambda wanted: [client][:wanted])
    assert decision is not None
    assert (decision.phase, decision.reason) == (4, Reason.LAST_PHASE)
    assert (decision.winner, decision.best) == (None, 1)
    assert server.run_state.slots_played == 30 + 3 * 20
    assert (client.state, client.best) == (ClientState.FINISHED, 1)


def test_the_loopback_pulls_nothing_in_a_phase_that_is_cut_short() -> None:
    pull = Counting()
    server = Server(fed1(horizon=29, clients=1))
    assert play(server, lambda wanted: [Client("a", pull)][:wanted]) is None
    assert pull.calls == []
    assert server.finished


def test_the_loopback_plays_on_when_there_are_no_more_clients() -> None:
    rule = Fed2Ucb(pulls="10", admissions="2^p").rule(
        Beliefs(n_arms=2, horizon=10_000, noise=0.2, spread=0.0)
    )
    waiting = [Client(name, steady(0.4, 0.6)) for name in "abc"]

    def admit(wanted: int) -> list[Client]:
        newcomers = waiting[:wanted]
        del waiting[:wanted]
        return newcomers

    server = Server(rule)
    decision = play(server, admit)
    assert decision is not None
    assert decision.winner == 1
    assert server.clients == ("a", "b", "c")


def test_the_loopback_says_when_an_update_is_rejected() -> None:
    class Liar(Client):
        def play(self, assignment: Assignment, within: Slice | None = None) -> Update:
            return dataclasses.replace(super().play(assignment, within), phase=99)

    with pytest.raises(ProtocolError, match="update of client a rejected: not the phase"):
        play(Server(fed1(clients=1)), lambda _: [Liar("a", steady(0.1, 0.2, 0.3))])
