"""Budgets that end, and clients that keep to a policy of their own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError, ProtocolError
from fedbandits.federation.audit_file import AuditFile
from fedbandits.loopback import play
from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.mechanisms import Rounded
from fedbandits.privacy.policy import Privacy
from fedbandits.protocol import (
    AnswerRefused,
    Assignment,
    Client,
    ClientState,
    Decision,
    Reason,
    Refusal,
    RefusalError,
    Refused,
    Release,
    Server,
)
from protection import (
    FALLING,
    GAUSSIAN,
    GENEROUS,
    HEADER,
    LAPLACE,
    NEAREST,
    NOBODY,
    RADIUS,
    STOCHASTIC,
    STRICT,
    USER,
    CountingPull,
    assigned,
    client_of,
    fed1,
    policy,
    seeded,
)

# The budget --------------------------------------------------------------------------------------


def played(server: Server, privacy: Privacy | None) -> tuple[Decision | None, list[Client]]:
    """Play a game with clients of this policy to its end."""
    clients: list[Client] = []

    def admit(wanted: int) -> Sequence[Client]:
        new = [client_of(len(clients) + i, privacy) for i in range(wanted)]
        clients.extend(new)
        return new

    return play(server, admit), clients


def test_a_phase_of_fewer_pulls_that_exceeds_the_budget_is_refused_before_it_is_played() -> None:
    pull = CountingPull()
    client = Client("a", pull, privacy=STRICT, noise=seeded())
    client.play(assigned(STRICT, (80, 80, 80)))
    client.play(assigned(STRICT, (60, 60, 0), phase=2))
    # Of events the largest counts: 50/60, and what the grid may move.
    assert client.spent.pure_epsilon == pytest.approx(50 / 60, rel=1e-5)
    calls, spent = pull.calls, client.spent
    with pytest.raises(RefusalError, match=r"refuses phase 3: its privacy budget is spent") as stop:
        client.play(assigned(STRICT, (40, 40, 0), phase=3))
    assert stop.value.refusal.why is Refused.BUDGET
    assert "epsilon = 1.25 of 1" in stop.value.refusal.detail
    assert (pull.calls, client.spent) == (calls, spent)
    # It may go on with what it can afford.
    assert client.play(assigned(STRICT, (60, 60, 0), phase=3)).phase == 3
    assert client.spent == spent


def test_noise_grows_with_what_a_change_may_do() -> None:
    """An observation is in one mean, whatever the arms; a client is in all of them."""
    for law in ("gaussian", "laplace"):
        event = policy(noise=law, rho=0.1)
        assert event.noise_scale(20, 3) == event.noise_scale(20, 10)
        assert event.noise_scale(20, 3) == pytest.approx(2 * event.noise_scale(40, 3), rel=1e-12)
        person = policy(noise=law, rho=0.1, level="person", observations=4)
        assert person.noise_scale(20, 3) == pytest.approx(4 * event.noise_scale(20, 3), rel=1e-4)
        user = policy(noise=law, rho=0.1, level="user", releases=1)
        assert user.noise_scale(20, 4) == user.noise_scale(4000, 4)
        more = 2 if law == "gaussian" else 4  # √4 means in Euclidean distance, 4 in absolute
        assert user.noise_scale(20, 4) == pytest.approx(more * user.noise_scale(20, 1), rel=1e-4)
        # With the slack of the grid: never more than the budget.
        for held in (event, person, user):
            spent = held.spends(20, 4)
            assert 0.1 * (1 - 1e-9) <= spent.rho <= 0.1 * (1 + 1e-9)
            assert held.within_budget(spent)


def test_the_fewest_pulls_of_an_arm_count() -> None:
    client = Client("a", CountingPull(), privacy=STRICT, noise=seeded())
    with pytest.raises(RefusalError, match="budget"):
        client.play(assigned(STRICT, (80, 40, 80)))


@pytest.mark.parametrize("budget", [{"epsilon": 3.0}, {"rho": 0.3}, {"scale": 4.0}])
def test_at_user_level_releases_add_up_and_end(budget: dict[str, float]) -> None:
    """By what they spend, or where no budget was given by their number."""
    user = policy(level="user", releases=3, **budget)
    pull = CountingPull()
    client = Client("a", pull, privacy=user, noise=seeded())
    totals = []
    for phase in (1, 2, 3):
        client.play(assigned(user, phase=phase))
        totals.append(client.spent.rho)
    assert np.diff([0.0, *totals]) == pytest.approx(totals[0], rel=1e-9)
    assert pull.calls == 9
    with pytest.raises(RefusalError) as raised:
        client.play(assigned(user, phase=4))
    assert raised.value.refusal.why is Refused.BUDGET
    assert pull.calls == 9
    # The server's own rule stops there as well, and asks nobody in vain.
    server = Server(fed1(), privacy=user)
    decision, _ = played(server, user)
    assert decision is not None
    assert (decision.phase, decision.reason) == (3, Reason.BUDGET)
    assert not [record for record in server.log if isinstance(record, AnswerRefused)]


def test_a_refusal_ends_the_game_with_what_was_known() -> None:
    server = Server(fed1(pulls=FALLING), privacy=GENEROUS)
    last, clients = played(server, STRICT)
    assert last is not None
    assert (last.phase, last.reason, last.final) == (2, Reason.BUDGET, True)
    assert server.finished
    assert server.decision == last
    assert {client.state for client in clients} == {ClientState.FINISHED}
    assert {client.best for client in clients} == {last.best}
    # With the estimates of the phase before.
    closed = [record for record in server.log if isinstance(record, AnswerRefused)]
    assert [record.refusal.why for record in closed] == [Refused.BUDGET]
    assert [record.refusal.phase for record in closed] == [3]

    # A server that holds the clients' policy stops by itself, with the same.
    alone = Server(fed1(pulls=FALLING), privacy=STRICT)
    assert [alone.rule.spent_after(phase) for phase in (1, 2)] == [False, True]
    decision, _ = played(alone, STRICT)
    assert decision == last
    assert not [record for record in alone.log if isinstance(record, AnswerRefused)]
    assert last.active == (True, True, True)
    assert np.isfinite(last.widths).all()

    for stopped, privacy in ((server, GENEROUS), (alone, STRICT)):
        again = Server.replay(fed1(pulls=FALLING), stopped.log, privacy=privacy)
        assert again.snapshot() == stopped.snapshot()
        assert again.decision == stopped.decision
        assert again.uplink_bits == stopped.uplink_bits


@pytest.mark.parametrize("privacy", [NEAREST, STOCHASTIC, RADIUS, GAUSSIAN, LAPLACE, USER])
def test_replay_gives_every_state_back(privacy: Privacy) -> None:
    rule = fed1(noise=0.5, radius=fb.CertifiedRadius(delta=0.1), horizon=1000)
    server = Server(rule, privacy=privacy)
    played(server, privacy)
    again = Server.replay(rule, server.log, privacy=privacy)
    assert again.snapshot() == server.snapshot()
    assert server.run_state.counted.distorted.tobytes().strip(b"\0")
    assert again.decision == server.decision
    assert again.uplink_bits == server.uplink_bits


def test_a_server_whose_first_phase_is_refused_knows_nothing_and_is_finished() -> None:
    server = Server(fed1(pulls="30"), privacy=GENEROUS)
    decision, clients = played(server, STRICT)
    assert decision is None
    assert server.decision is None
    assert server.finished
    assert server.uplink_bits == dict.fromkeys(("client 0", "client 1"), 0)
    assert [client.spent for client in clients] == [Spending(), Spending()]
    again = Server.replay(fed1(pulls="30"), server.log, privacy=GENEROUS)
    assert again.snapshot() == server.snapshot()
    with pytest.raises(ProtocolError, match="finished"):
        server.open([])


def test_a_server_with_a_budget_that_no_phase_fits_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"^scale: 0.02 spends epsilon = 1.67 in the first phase"):
        Server(fed1(pulls="30"), privacy=STRICT)


def test_a_refusal_from_elsewhere_is_not_taken() -> None:
    server = Server(fed1(), privacy=LAPLACE)
    server.open(["a", "b"])
    refusal = dataclasses.replace(NOBODY, header=server.header)
    for bad in (
        dataclasses.replace(refusal, client="stranger"),
        dataclasses.replace(refusal, header=dataclasses.replace(server.header, run="x")),
    ):
        before = server.snapshot()
        with pytest.raises(ProtocolError, match="from elsewhere"):
            server.refuse(bad)
        assert server.snapshot() == before


# A client's own policy ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Asking:
    """A client's policy, and a release that a server asks for."""

    own: Privacy
    asked: Release


def rounded(**keys: Any) -> Release:
    eight: dict[str, Any] = {"low": 0.0, "high": 1.0, "bits": 8, "rounding": "stochastic"}
    return Release(mechanism=Rounded(**(eight | keys)))


def noised(own: Privacy, **keys: Any) -> Release:
    return Release(mechanism=dataclasses.replace(own.mechanism(20, 3), **keys))


SCALE = float(LAPLACE.noise_scale(20, 3))

LESS: dict[str, Asking] = {
    "no mechanism, rounding": Asking(STOCHASTIC, Release()),
    "no mechanism, noise": Asking(LAPLACE, Release()),
    "more bits": Asking(STOCHASTIC, rounded(bits=9)),
    "52 bits": Asking(STOCHASTIC, rounded(bits=52)),
    "another rounding": Asking(STOCHASTIC, rounded(rounding="nearest")),
    "rounding for noise": Asking(LAPLACE, rounded()),
    "noise for rounding": Asking(STOCHASTIC, noised(LAPLACE)),
    "a smaller scale": Asking(LAPLACE, noised(LAPLACE, scale=SCALE * 0.99)),
    "no scale": Asking(LAPLACE, noised(LAPLACE, scale=math.nan)),
    "another law": Asking(LAPLACE, noised(LAPLACE, kind="gaussian")),
    "squares, rounding": Asking(STOCHASTIC, dataclasses.replace(rounded(), squares=True)),
    "squares, noise": Asking(LAPLACE, dataclasses.replace(noised(LAPLACE), squares=True)),
    "another range, rounding": Asking(STOCHASTIC, rounded(high=2.0)),
    "another range, noise": Asking(LAPLACE, noised(LAPLACE, low=-1.0)),
    "another rounding, bits by the radius": Asking(RADIUS, rounded(rounding="nearest")),
    "another range, bits by the radius": Asking(RADIUS, rounded(low=-1.0)),
}


@pytest.mark.parametrize("name", LESS)
def test_a_server_that_asks_for_less_protection_is_refused(name: str, tmp_path: Path) -> None:
    asking, pull = LESS[name], CountingPull()
    path = tmp_path / "a.jsonl"
    client = Client("a", pull, privacy=asking.own, outbox=AuditFile(path), noise=seeded())
    assignment = Assignment(header=HEADER, phase=1, pulls=(20, 20, 20), release=asking.asked)
    with pytest.raises(RefusalError) as raised:
        client.play(assignment)
    assert raised.value.refusal.why is Refused.POLICY
    assert pull.calls == 0
    assert not path.exists()
    assert client.spent == Spending()
    _raises_at_the_server(raised.value.refusal)


ENOUGH: dict[str, Asking] = {
    "the same rounding": Asking(STOCHASTIC, rounded()),
    "bits by the radius": Asking(RADIUS, rounded(bits=5)),
    "the same noise": Asking(LAPLACE, noised(LAPLACE)),
    "a larger scale": Asking(LAPLACE, noised(LAPLACE, scale=SCALE * 2)),
    "a scale off by its last digits": Asking(LAPLACE, noised(LAPLACE, scale=SCALE * (1 - 1e-14))),
}


@pytest.mark.parametrize("name", ENOUGH)
def test_a_server_that_asks_for_as_much_is_answered(name: str) -> None:
    asking = ENOUGH[name]
    client = Client("a", CountingPull(), privacy=asking.own, noise=seeded())
    assignment = Assignment(header=HEADER, phase=1, pulls=(20, 20, 20), release=asking.asked)
    assert client.play(assignment).packed


@pytest.mark.parametrize("privacy", [STOCHASTIC, LAPLACE])
@pytest.mark.parametrize("pulls", [(9, 20, 20), (9, 0, 0), (1, 1, 1)])
def test_a_mean_of_fewer_pulls_than_the_policy_allows_is_refused(
    privacy: Privacy, pulls: tuple[int, ...]
) -> None:
    pull = CountingPull()
    client = Client("a", pull, privacy=privacy, noise=seeded())
    with pytest.raises(RefusalError, match=r"too few pulls .*\d pulls, and min_pulls is 10") as few:
        client.play(assigned(privacy, pulls))
    assert few.value.refusal.why is Refused.FEW_PULLS
    assert pull.calls == 0
    _raises_at_the_server(few.value.refusal)
    # Ten are enough.
    assert client.play(assigned(privacy, (10, 0, 20))).phase == 1


def _raises_at_the_server(refusal: Refusal) -> None:
    """Such a refusal is a mistake of whoever set the server up: it does not end the run."""
    server = Server(fed1(), privacy=LAPLACE)
    server.open(["a", "b"])
    before = server.snapshot()
    with pytest.raises(ProtocolError, match=rf"client a refuses phase 1: {refusal.why.value}"):
        server.refuse(dataclasses.replace(refusal, header=server.header))
    assert server.snapshot() == before


def test_in_the_loopback_such_a_refusal_is_an_error() -> None:
    server = Server(fed1(), privacy=STOCHASTIC)
    with pytest.raises(ProtocolError, match="less protection than its own policy"):
        played(server, LAPLACE)
