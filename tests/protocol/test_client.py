"""The client: what it reports, repeats, refuses, and never says."""

from __future__ import annotations

import dataclasses
import math
import pickle
import statistics
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fedbandits.errors import InputError, ProtocolError
from fedbandits.loopback import play
from fedbandits.protocol import (
    Client,
    ClientState,
    Reason,
    Release,
    Server,
)
from fedbandits.protocol.client import MOST_AT_ONCE
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.beliefs import Beliefs
from small_server import HEADER, Counting, a_decision, assignment, records_of, steady

# The client --------------------------------------------------------------------------------------


def test_a_client_reports_counts_and_means_of_its_pulls() -> None:
    pull = Counting()
    sent = Client("alice", pull).play(assignment())
    assert pull.calls == [(0, 10), (2, 4)]
    assert (sent.client, sent.phase, sent.header) == ("alice", 1, HEADER)
    assert sent.counts == (10, 0, 4)
    first, last = pull.given[:10], pull.given[10:]
    wanted = [math.fsum(first) / 10, 0.0, math.fsum(last) / 4]
    assert sent.means == pytest.approx(wanted, rel=1e-14)
    assert sent.squares is None


def test_a_client_reports_squares_when_asked_to() -> None:
    pull = Counting()
    sent = Client("alice", pull).play(assignment(release=Release(squares=True)))
    first, last = pull.given[:10], pull.given[10:]
    wanted = [9 * statistics.variance(first), 0.0, 3 * statistics.variance(last)]
    assert sent.squares == pytest.approx(wanted, rel=1e-13)
    plain = Client("alice", Counting()).play(assignment())
    assert plain.means == sent.means


def test_squares_do_not_cancel_far_from_zero_nor_over_many_pieces() -> None:
    total = 2 * MOST_AT_ONCE + 5
    sent = Client("alice", lambda _, n: [1e8 + i % 2 for i in range(n)]).play(
        assignment(pulls=(total, 0, 1), release=Release(squares=True))
    )
    ones = total // 2
    wanted = (ones * (total - ones) / total, 0.0, 0.0)
    assert sent.squares == pytest.approx(wanted, rel=1e-7)


def test_a_client_asked_again_repeats_its_update_without_pulling() -> None:
    pull = Counting()
    client = Client("alice", pull)
    first = client.play(assignment())
    calls = list(pull.calls)
    again = client.play(assignment())
    assert again == first
    assert pickle.dumps(again) == pickle.dumps(first)
    assert pull.calls == calls
    later = client.play(assignment(phase=2))
    assert later.phase == 2
    assert later.means != first.means
    assert client.play(assignment(phase=2)) == later
    assert len(pull.calls) == 2 * len(calls)


def walk(value: object) -> Iterator[object]:
    """Yield everything that a message holds, at any depth."""
    yield value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from walk(getattr(value, field.name))
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from walk(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from walk(key)
            yield from walk(item)


@pytest.mark.parametrize("squares", [False, True])
def test_no_message_holds_an_observation(squares: bool) -> None:
    rule = Fed2Ucb(pulls="3*p", admissions="p").rule(
        Beliefs(n_arms=3, horizon=400, noise=0.5, spread=0.1)
    )
    server = Server(rule, release=Release(squares=squares))
    pulls: list[Counting] = []

    def admit(wanted: int) -> list[Client]:
        first = len(pulls)
        pulls.extend(Counting(first + i) for i in range(wanted))
        return [Client(str(first + i), pulls[first + i]) for i in range(wanted)]

    play(server, admit)
    secrets = {observation for pull in pulls for observation in pull.given}
    assert len(secrets) > 100
    records = records_of(server)
    assert len(records) > 10
    # Every message is in the log: assignments, updates and decisions.
    numbers = [item for record in records for item in walk(record) if isinstance(item, float)]
    assert len(numbers) > 50
    assert not secrets & set(numbers)
    sent = pickle.dumps(records)
    assert struct.pack(">d", numbers[-1]) in sent
    assert not any(struct.pack(">d", secret) in sent for secret in secrets)
    # Nor are they there in disguise: a message has a few numbers for each arm, none for each pull.
    for record in records:
        for item in walk(record):
            assert not isinstance(item, list | dict | set | np.ndarray)
            assert not isinstance(item, bytes) or len(item) <= 3 * 8
            if isinstance(item, tuple) and not all(isinstance(part, str) for part in item):
                assert len(item) == 3


@pytest.mark.parametrize("n_parts", [1, 2, 3])
@pytest.mark.parametrize("rest", [-1, 0, 1])
def test_many_pulls_are_asked_for_in_bounded_pieces(n_parts: int, rest: int) -> None:
    total = n_parts * MOST_AT_ONCE + rest
    asked: list[int] = []

    def pull(arm: int, n: int) -> list[float]:
        asked.append(n)
        first = sum(asked[:-1])
        return [float((first + i) % 2) for i in range(n)]

    sent = Client("alice", pull).play(
        assignment(pulls=(0, total, 0), release=Release(squares=True))
    )
    assert sum(asked) == total
    assert max(asked) <= MOST_AT_ONCE
    assert len(asked) == n_parts + (rest > 0)
    assert sent.counts == (0, total, 0)
    assert sent.means == (0.0, (total // 2) / total, 0.0)
    ones = total // 2
    assert sent.squares == pytest.approx((0.0, ones * (total - ones) / total, 0.0), rel=1e-9)


BAD_PULLS: dict[str, Callable[[int], Any]] = {
    "one too few": lambda n: [0.5] * (n - 1),
    "one too many": lambda n: [0.5] * (n + 1),
    "none": lambda _: [],
    "nothing": lambda _: None,
    "a number": lambda _: 0.5,
    "NaN": lambda n: [0.5] * (n - 1) + [math.nan],
    "infinity": lambda n: [math.inf] + [0.5] * (n - 1),
    "minus infinity": lambda n: [-math.inf] * n,
    "both infinities": lambda n: [math.inf, -math.inf] + [0.5] * (n - 2),
    "nested": lambda n: [[0.5]] * n,
    "nested the other way": lambda n: [[0.5] * n],
    "ragged": lambda n: [[0.5], [0.5, 0.5]] + [[0.5]] * (n - 2),
    "words": lambda n: ["high"] * n,
    "objects": lambda n: [object()] * n,
    "a dictionary": lambda _: {"mean": 0.5},
    "a generator": lambda n: (0.5 for _ in range(n)),
    "an array of two axes": lambda n: np.full((n, 1), 0.5),
}


@pytest.mark.parametrize("pull", BAD_PULLS.values(), ids=BAD_PULLS.keys())
def test_a_pull_that_does_not_return_its_observations_is_named(
    pull: Callable[[int], Any],
) -> None:
    def bad_for_the_last_arm(arm: int, n: int) -> Any:
        return pull(n) if arm == 2 else [0.5] * n

    client = Client("alice", bad_for_the_last_arm)
    with pytest.raises(InputError) as caught:
        client.play(assignment())
    assert caught.value.where == "pull(arm=2, n=4)"
    assert client.state is ClientState.WAITING


def test_a_client_whose_pull_failed_can_play_the_phase_again() -> None:
    answers = iter([[0.5], [0.25] * 10, [0.75] * 4])
    client = Client("alice", lambda _arm, _n: next(answers))
    with pytest.raises(InputError):
        client.play(assignment())
    assert client.play(assignment()).means == (0.25, 0.0, 0.75)


def client_in(state: ClientState) -> Client:
    client = Client("alice", steady(0.1, 0.2, 0.3))
    if state is not ClientState.WAITING:
        client.play(assignment())
    if state is ClientState.FINISHED:
        client.conclude(a_decision(Reason.ONE_ARM_LEFT))
    assert client.state is state
    return client


@pytest.mark.parametrize("state", [ClientState.WAITING, ClientState.REPORTED])
def test_a_client_takes_an_assignment_until_it_is_finished(state: ClientState) -> None:
    client = client_in(state)
    client.play(assignment(phase=5))
    assert client.state is ClientState.REPORTED


@pytest.mark.parametrize("phase", [1, 2])
def test_a_finished_client_takes_no_assignment(phase: int) -> None:
    client = client_in(ClientState.FINISHED)
    with pytest.raises(ProtocolError):
        client.play(assignment(phase=phase))
    assert (client.state, client.best) == (ClientState.FINISHED, 2)


def test_a_client_that_never_played_can_be_told_the_result_and_then_plays_no_more() -> None:
    client = client_in(ClientState.WAITING)
    client.conclude(a_decision(Reason.ONE_ARM_LEFT))
    assert client.best == 2
    with pytest.raises(ProtocolError, match="client alice is finished"):
        client.play(assignment())


@pytest.mark.parametrize("reason", [Reason.ONE_ARM_LEFT, Reason.LAST_PHASE])
@pytest.mark.parametrize("state", ClientState)
def test_a_client_takes_the_last_decision_in_every_state(
    state: ClientState, reason: Reason
) -> None:
    client = client_in(state)
    client.conclude(a_decision(reason))
    assert (client.state, client.best) == (ClientState.FINISHED, 2)


@pytest.mark.parametrize("state", ClientState)
def test_a_client_refuses_a_decision_that_is_not_the_last(state: ClientState) -> None:
    client = client_in(state)
    best = client.best
    with pytest.raises(ProtocolError, match="phase 1 is not the last"):
        client.conclude(a_decision(Reason.OPEN, best=0))
    assert (client.state, client.best) == (state, best)


@pytest.mark.parametrize("field", ["run", "epoch", "arms", "version"])
def test_a_client_keeps_to_the_header_of_its_first_assignment(field: str) -> None:
    client = client_in(ClientState.REPORTED)
    value: Any = {"run": "other", "epoch": 0, "arms": "x", "version": 9}[field]
    other = dataclasses.replace(HEADER, **{field: value})
    with pytest.raises(ProtocolError):
        client.play(assignment(header=other, phase=2))
    with pytest.raises(ProtocolError):
        client.conclude(a_decision(Reason.ONE_ARM_LEFT, header=other))
    assert (client.state, client.best) == (ClientState.REPORTED, None)
    assert client.play(assignment(phase=2)).phase == 2


def test_a_client_follows_a_server_that_was_restarted() -> None:
    client = client_in(ClientState.REPORTED)
    first = client.play(assignment(phase=1))
    restarted = dataclasses.replace(HEADER, epoch=2)
    again = client.play(assignment(header=restarted, phase=1))
    assert again == dataclasses.replace(first, header=restarted)
    assert client.play(assignment(header=restarted, phase=2)).header == restarted
    with pytest.raises(ProtocolError):
        client.play(assignment(phase=3))


def test_a_client_plays_no_earlier_phase() -> None:
    client = client_in(ClientState.WAITING)
    client.play(assignment(phase=3))
    with pytest.raises(ProtocolError, match="phase 2 after phase 3"):
        client.play(assignment(phase=2))
    assert client.play(assignment(phase=3)).phase == 3
