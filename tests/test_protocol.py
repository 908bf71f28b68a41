"""The protocol: machines that keep to their table, a log that is the state, the loopback."""

from __future__ import annotations

import dataclasses
import math
import pickle
import statistics
import struct
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.errors import InputError, ProtocolError
from fedbandits.loopback import play
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.protocol import (
    AnswerRefused,
    ArmWithdrawn,
    Assignment,
    Client,
    ClientState,
    Decision,
    Header,
    MemoryLog,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    Pull,
    Quorum,
    Reason,
    Record,
    Refusal,
    Refused,
    Rejection,
    Release,
    RunEnded,
    Server,
    ServerSnapshot,
    ServerStarted,
    ServerState,
    Update,
    UpdateAccepted,
    UpdateRejected,
    answer_of,
    arms_hash,
    conclusion_of,
)
from fedbandits.protocol.client import MOST_AT_ONCE
from fedbandits.protocol.decisions import decided
from fedbandits.protocol.tally import means_of
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb, ImprovedUcb
from fedbandits.rules.phased import Beliefs, PhasedRule
from fedbandits.rules.radii import BernsteinRadius, ChernoffRadius, PaperRadius

modest = settings(deadline=None, derandomize=True, max_examples=60)
seeds = st.integers(0, 2**32 - 1)

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


# A whole random game -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Setting:
    """A small game: what decides, and the seed of its clients."""

    rule: PhasedRule
    seed: int


@st.composite
def small_games(draw: st.DrawFn) -> Setting:
    algorithm = Fed2Ucb(
        pulls=draw(st.sampled_from(["3", "p", "2^p", "ceil(log(T))"])),
        admissions=draw(st.sampled_from(["1", "2", "p", "2^p", "max(1, 3 - p)", "max(0, 2 - p)"])),
        radius=PaperRadius(arm=draw(st.floats(0.1, 6.0)), client=1.0),
    )
    rule = algorithm.rule(
        Beliefs(
            n_arms=draw(st.integers(2, 4)),
            horizon=draw(st.integers(2, 120)),
            noise=draw(st.sampled_from([0.05, 0.3])),
            spread=draw(st.sampled_from([0.0, 0.1])),
            population=draw(st.none() | st.integers(1, 12)),
        )
    )
    rule = dataclasses.replace(
        rule,
        max_clients=draw(st.integers(1, 20)),
        max_phases=draw(st.none() | st.integers(1, 4)),
    )
    return Setting(rule, draw(seeds))


def drawn_client(setting: Setting, number: int) -> Client:
    """Return a client who draws from a stream of its own."""
    rng = np.random.default_rng([setting.seed, number])
    means = rng.random(setting.rule.n_arms)
    return Client(f"client {number}", lambda arm, n: rng.normal(means[arm], 0.1, size=n))


def bad_updates(good: Update) -> list[Update]:
    """Return updates like this one, none of which counts."""
    return [
        dataclasses.replace(good, header=dataclasses.replace(good.header, run="another")),
        dataclasses.replace(good, client="stranger"),
        dataclasses.replace(good, phase=good.phase + 1),
        dataclasses.replace(good, means=(*good.means, 0.5)),
        dataclasses.replace(good, counts=tuple(n + 1 for n in good.counts)),
        dataclasses.replace(good, means=tuple(math.nan for _ in good.means)),
    ]


@dataclasses.dataclass(frozen=True)
class Played:
    """A finished game, and the server's snapshot after every record of its log."""

    server: Server
    snapshots: list[ServerSnapshot]


def play_watched(
    setting: Setting, order: Callable[[list[Update]], Sequence[Update]], noise: bool = False
) -> Played:
    """Play a game message by message, and look at the server before every record."""
    snapshots: list[ServerSnapshot] = []

    class Watching(MemoryLog):
        def append(self, record: Record) -> None:
            snapshots.append(server.snapshot())
            super().append(record)

    server = Server(setting.rule, log=Watching())
    clients: list[Client] = []
    rng = np.random.default_rng(setting.seed)

    def disturb(good: Update) -> None:
        if noise and rng.random() < 0.5:
            bad = bad_updates(good)
            assert server.receive(bad[int(rng.integers(len(bad)))]) is not None

    while not server.finished:
        newcomers = [drawn_client(setting, len(clients) + i) for i in range(server.wanted())]
        clients += newcomers
        assignment = server.open([client.name for client in newcomers])
        if server.finished:
            break
        updates = [client.play(assignment) for client in clients]
        for message in order(updates):
            disturb(message)
            assert server.receive(message) is None
        disturb(updates[0])
        server.close()
        disturb(updates[0])
    return Played(server, [*snapshots, server.snapshot()])


@modest
@given(setting=small_games())
def test_replaying_any_prefix_of_a_log_gives_the_live_server_of_that_moment(
    setting: Setting,
) -> None:
    game = play_watched(setting, order=list, noise=True)
    records = records_of(game.server)
    assert len(game.snapshots) == len(records) + 1
    for length, snapshot in enumerate(game.snapshots):
        replayed = Server.replay(setting.rule, records[:length])
        assert replayed.snapshot() == snapshot
        assert records_of(replayed) == records[:length]
    assert replayed.decision == game.server.decision
    assert replayed.assignment == game.server.assignment


@modest
@given(setting=small_games(), data=st.data())
def test_a_replayed_server_goes_on_as_the_live_one_did(
    setting: Setting, data: st.DataObject
) -> None:
    records = records_of(play_watched(setting, order=list).server)
    length = data.draw(st.integers(0, len(records)))
    server = Server.replay(setting.rule, records[:length])
    for record in records[length:]:
        match record:
            case PhaseOpened(admitted=admitted, assignment=assignment):
                assert server.wanted() == len(admitted)
                assert server.open(admitted) == assignment
            case UpdateAccepted(update=message):
                assert server.receive(message) is None
            case PhaseClosed(decision=decision):
                assert server.close() == decision
            case RunEnded():
                server.end()
            case _:
                raise AssertionError(record)
    assert records_of(server) == records
    assert server.finished


def test_a_replayed_server_asks_for_the_same_release_as_the_live_one() -> None:
    rule = Fed2Ucb(pulls=10, admissions=1).rule(
        Beliefs(n_arms=3, horizon=1000, noise=9.0, spread=0.0)
    )
    live = Server(rule, release=Release(squares=True))
    live.open(["a"])
    live.receive(update(squares=(0.25, 0.1, 0.6)))
    live.close()
    replayed = Server.replay(rule, records_of(live))
    assert replayed.snapshot() == live.snapshot()
    assert replayed.open(["b"]) == live.open(["b"])


@modest
@given(setting=small_games(), shuffle=st.randoms(use_true_random=False))
def test_the_order_of_replies_changes_nothing(setting: Setting, shuffle: Any) -> None:
    def shuffled(updates: list[Update]) -> list[Update]:
        mixed = list(updates)
        shuffle.shuffle(mixed)
        return mixed

    in_order, mixed = play_watched(setting, order=list), play_watched(setting, order=shuffled)
    assert mixed.server.snapshot() == in_order.server.snapshot()
    decisions = [
        [record for record in records_of(game.server) if isinstance(record, PhaseClosed)]
        for game in (in_order, mixed)
    ]
    assert decisions[0] == decisions[1]


@modest
@given(setting=small_games())
def test_rejected_messages_change_no_decision(setting: Setting) -> None:
    clean, noisy = (play_watched(setting, order=list, noise=noise) for noise in (False, True))
    assert noisy.server.snapshot() == clean.server.snapshot()
    kept = [record for record in records_of(noisy.server) if not isinstance(record, UpdateRejected)]
    assert kept == records_of(clean.server)


@modest
@given(setting=small_games())
def test_a_game_keeps_the_promises_of_its_phases(setting: Setting) -> None:
    rule = setting.rule
    active, slots, clients = [True] * rule.n_arms, 0, 0
    sums: dict[tuple[str, int], float] = {}
    counts: dict[tuple[str, int], int] = {}
    decisions: list[Decision] = []
    records = records_of(play_watched(setting, order=list).server)
    for number, record in enumerate(records):
        match record:
            case PhaseOpened(admitted=admitted, assignment=assignment, complete=complete):
                assert assignment.phase == len(decisions) + 1
                assert assignment.previous == (decisions[-1] if decisions else None)
                clients += len(admitted)
                full = [rule.pulls(assignment.phase) if a else 0 for a in active]
                if complete:
                    assert list(assignment.pulls) == full
                else:
                    assert number == len(records) - 2
                    assert sum(full) > rule.slots - slots > 0
                    assert sum(assignment.pulls) == rule.slots - slots
                slots += sum(assignment.pulls)
                assert slots <= rule.slots
            case UpdateAccepted(update=message):
                for arm, (n, mean) in enumerate(zip(message.counts, message.means, strict=True)):
                    key = message.client, arm
                    counts[key] = counts.get(key, 0) + n
                    sums[key] = sums.get(key, 0.0) + n * mean
            case PhaseClosed(decision=decision):
                decisions.append(decision)
                names = {client for client, _ in counts}
                assert len(names) == clients
                for arm in [arm for arm, a in enumerate(active) if a]:
                    means = [sums[name, arm] / counts[name, arm] for name in names]
                    mean = math.fsum(means) / clients
                    assert decision.estimates[arm] == pytest.approx(mean, abs=1e-12)
                # A dropped arm keeps the estimate and the width of when it was dropped.
                if len(decisions) > 1:
                    before = decisions[-2]
                    for arm in [arm for arm, a in enumerate(active) if not a]:
                        assert decision.estimates[arm] == before.estimates[arm]
                        assert decision.widths[arm] == before.widths[arm]
                assert all(a or not b for a, b in zip(active, decision.active, strict=True))
                active = list(decision.active)
                left = [arm for arm, a in enumerate(active) if a]
                assert decision.best == max(left, key=lambda arm: (decision.estimates[arm], -arm))
                assert decision.winner == (left[0] if len(left) == 1 else None)
                # No phase follows a winner, the last phase, or the last slot.
                assert decision.final == (
                    len(left) == 1 or decision.phase == rule.max_phases or slots == rule.horizon
                )
                assert decision.final == (number == len(records) - 2)
            case _:
                assert number == len(records) - 1
    ended = records[-1]
    assert isinstance(ended, RunEnded)
    assert ended.decision.final
    for decision in decisions[-1:]:
        reason = decision.reason if decision.final else ended.decision.reason
        assert ended.decision == dataclasses.replace(decision, reason=reason)


@pytest.mark.parametrize("seed", range(5))
def test_a_dropped_arm_keeps_its_estimate_and_width_to_the_last_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rule = Fed2Ucb(pulls=5, admissions=30).rule(
        Beliefs(n_arms=3, horizon=10_000, noise=0.1, spread=0.1)
    )
    server = Server(rule)
    decisions: list[Decision] = []
    for _ in range(4):
        first = len(server.clients)
        assigned = server.open([str(first + i) for i in range(30)])
        for client in server.clients:
            means = tuple(rng.normal([0.1, 0.9, 0.9], 0.1).tolist())
            sent = update(phase=assigned.phase, client=client, counts=assigned.pulls, means=means)
            assert server.receive(sent) is None
        decisions.append(server.close())
    assert [decision.active for decision in decisions] == [(False, True, True)] * 4
    assert {decision.estimates[0] for decision in decisions} == {decisions[0].estimates[0]}
    assert len({decision.estimates[1] for decision in decisions}) == 4


def test_a_width_that_shrinks_with_the_phase_stays_as_it_was_for_a_dropped_arm() -> None:
    rule = ImprovedUcb().rule(Beliefs(n_arms=3, horizon=10**4, noise=0.5, spread=0.0))
    server = Server(rule)
    play(server, lambda wanted: [Client("a", steady(0.0, 0.9, 1.0))][:wanted])
    decisions = [r.decision for r in records_of(server) if isinstance(r, PhaseClosed)]
    assert decisions[0].active == (False, True, True)
    assert len(decisions) >= 3
    assert {decision.widths[0] for decision in decisions} == {decisions[0].widths[0]}
    assert decisions[1].widths[1] < decisions[0].widths[1]


# The server's table ------------------------------------------------------------------------------


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


def a_phase(*, complete: bool) -> PhaseOpened:
    return PhaseOpened(
        admitted=("c",),
        assignment=Assignment(header=HEADER, phase=1, pulls=(10, 10, 10)),
        complete=complete,
        capped=False,
    )


EVENTS: dict[str, Record] = {
    "phase opened": a_phase(complete=True),
    "phase played out": a_phase(complete=False),
    "update accepted": UpdateAccepted(update()),
    "update rejected": UpdateRejected(client="a", phase=1, rejection=Rejection.DUPLICATE),
    "phase decided": PhaseClosed(a_decision(Reason.OPEN)),
    "one arm left": PhaseClosed(a_decision(Reason.ONE_ARM_LEFT)),
    "last phase decided": PhaseClosed(a_decision(Reason.LAST_PHASE)),
    "answer refused": AnswerRefused(
        Refusal(header=HEADER, phase=1, client="a", why=Refused.FAILED)
    ),
    "phase abandoned": PhaseAbandoned(phase=1, reported=0, expected=2),
    "arm withdrawn": ArmWithdrawn(arm=0, reason="harm"),
    "server started": ServerStarted(epoch=2),
    "run ended": RunEnded(a_decision(Reason.STOPPED)),
}
LEGAL = {
    (ServerState.READY, "phase opened"): ServerState.COLLECTING,
    (ServerState.READY, "phase played out"): ServerState.ENDING,
    (ServerState.READY, "update rejected"): ServerState.READY,
    (ServerState.READY, "arm withdrawn"): ServerState.READY,
    (ServerState.READY, "server started"): ServerState.READY,
    (ServerState.READY, "run ended"): ServerState.FINISHED,
    (ServerState.COLLECTING, "update accepted"): ServerState.COLLECTING,
    (ServerState.COLLECTING, "update rejected"): ServerState.COLLECTING,
    (ServerState.COLLECTING, "phase decided"): ServerState.READY,
    (ServerState.COLLECTING, "one arm left"): ServerState.ENDING,
    (ServerState.COLLECTING, "last phase decided"): ServerState.ENDING,
    (ServerState.COLLECTING, "answer refused"): ServerState.COLLECTING,
    (ServerState.COLLECTING, "phase abandoned"): ServerState.READY,
    (ServerState.COLLECTING, "arm withdrawn"): ServerState.COLLECTING,
    (ServerState.COLLECTING, "server started"): ServerState.COLLECTING,
    (ServerState.COLLECTING, "run ended"): ServerState.FINISHED,
    (ServerState.ENDING, "update rejected"): ServerState.ENDING,
    (ServerState.ENDING, "server started"): ServerState.ENDING,
    (ServerState.ENDING, "run ended"): ServerState.FINISHED,
    (ServerState.FINISHED, "update rejected"): ServerState.FINISHED,
    (ServerState.FINISHED, "server started"): ServerState.FINISHED,
}


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


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", ServerState)
def test_a_server_takes_an_event_exactly_when_its_table_says_so(
    state: ServerState, event: str
) -> None:
    server = server_in(state)
    records, before = records_of(server), server.snapshot()
    if (state, event) in LEGAL:
        server._commit(EVENTS[event])
        assert server.state is LEGAL[state, event]
        assert records_of(server) == [*records, EVENTS[event]]
    else:
        with pytest.raises(ProtocolError):
            server._commit(EVENTS[event])
        assert server.snapshot() == before
        assert records_of(server) == records
        with pytest.raises(ProtocolError):
            Server.replay(server.rule, [*records, EVENTS[event]])


@pytest.mark.parametrize("state", [s for s in ServerState if s is not ServerState.READY])
def test_a_phase_is_opened_only_between_phases(state: ServerState) -> None:
    server = server_in(state)
    records, before = records_of(server), server.snapshot()
    with pytest.raises(ProtocolError, match=f"cannot open a phase while {state.value}"):
        server.open([])
    assert (records_of(server), server.snapshot()) == (records, before)


@pytest.mark.parametrize("state", [s for s in ServerState if s is not ServerState.COLLECTING])
def test_a_phase_is_closed_only_while_it_is_open(state: ServerState) -> None:
    server = server_in(state)
    records, before = records_of(server), server.snapshot()
    with pytest.raises(ProtocolError, match=f"cannot close a phase while {state.value}"):
        server.close()
    assert (records_of(server), server.snapshot()) == (records, before)


def test_a_phase_is_not_closed_before_everyone_has_reported() -> None:
    server = collecting()
    server.receive(update())
    records, before = records_of(server), server.snapshot()
    with pytest.raises(ProtocolError, match="1 of 2 clients have not reported"):
        server.close()
    assert (records_of(server), server.snapshot()) == (records, before)


@pytest.mark.parametrize(
    ("admitted", "problem"),
    [
        (["a", "a"], "admitted twice: a"),
        (["a", "b", "c"], "3 new clients where the phase wants 2"),
        ([], "at least one client"),
    ],
)
def test_a_first_phase_admits_only_who_is_wanted(admitted: list[str], problem: str) -> None:
    server = Server(fed1())
    before = server.snapshot()
    with pytest.raises(ProtocolError, match=problem):
        server.open(admitted)
    assert (records_of(server), server.snapshot()) == ([], before)


def test_a_client_is_admitted_once_in_a_game() -> None:
    rule = Fed2Ucb(pulls=10, admissions=1).rule(
        Beliefs(n_arms=3, horizon=1000, noise=9.0, spread=0.0)
    )
    server = Server(rule)
    server.open(["a"])
    server.receive(update())
    server.close()
    records, before = records_of(server), server.snapshot()
    with pytest.raises(ProtocolError, match="admitted twice: a"):
        server.open(["a"])
    assert (records_of(server), server.snapshot()) == (records, before)


def test_fewer_clients_than_wanted_may_be_admitted() -> None:
    server = Server(fed1(clients=5))
    assert server.wanted() == 5
    server.open(["a"])
    assert server.clients == ("a",)


def test_a_server_needs_a_name_for_every_arm() -> None:
    with pytest.raises(ProtocolError, match="2 arm names for a rule of 3 arms"):
        Server(fed1(), arms=["red", "blue"])


def test_a_record_is_in_the_log_before_it_is_applied() -> None:
    seen: list[tuple[ServerState, int]] = []

    class Watching(MemoryLog):
        def append(self, record: Record) -> None:
            seen.append((server.state, server.phase))
            super().append(record)

    server = Server(fed1(), log=Watching())
    server.open(["a", "b"])
    for client in "ab":
        server.receive(update(client=client))
    server.close()
    collects = (ServerState.COLLECTING, 1)
    ends = (ServerState.ENDING, 1)
    assert seen == [(ServerState.READY, 0), collects, collects, collects, ends]


def test_a_log_that_fails_leaves_the_server_as_it_was() -> None:
    class Full(MemoryLog):
        def append(self, record: Record) -> None:
            raise OSError("no space left")

    server = Server(fed1(), log=Full())
    before = server.snapshot()
    with pytest.raises(OSError, match="no space left"):
        server.open(["a"])
    assert server.snapshot() == before


# Rejections --------------------------------------------------------------------------------------

REJECTED: list[tuple[str, dict[str, Any], Rejection]] = [
    ("run", {"header": dataclasses.replace(HEADER, run="another")}, Rejection.HEADER),
    ("epoch", {"header": dataclasses.replace(HEADER, epoch=2)}, Rejection.HEADER),
    ("arms", {"header": dataclasses.replace(HEADER, arms="0" * 16)}, Rejection.HEADER),
    ("version", {"header": dataclasses.replace(HEADER, version=2)}, Rejection.HEADER),
    ("unknown client", {"client": "c"}, Rejection.CLIENT),
    ("nameless client", {"client": ""}, Rejection.CLIENT),
    ("phase to come", {"phase": 2}, Rejection.PHASE),
    ("phase before", {"phase": 0}, Rejection.PHASE),
    ("too few means", {"means": (0.5, 0.25)}, Rejection.SHAPE),
    ("too many means", {"means": (0.5, 0.25, 0.75, 0.1)}, Rejection.SHAPE),
    ("no means", {"means": ()}, Rejection.SHAPE),
    ("squares unasked", {"squares": (0.25, 0.1, 0.6)}, Rejection.SHAPE),
    ("too few pulls", {"counts": (10, 10, 9)}, Rejection.COUNTS),
    ("too many pulls", {"counts": (10, 10, 11)}, Rejection.COUNTS),
    ("negative pulls", {"counts": (10, 10, -10)}, Rejection.COUNTS),
    ("pulls of too many arms", {"counts": (10, 10, 10, 0)}, Rejection.COUNTS),
    ("NaN", {"means": (0.5, math.nan, 0.75)}, Rejection.NOT_FINITE),
    ("infinity", {"means": (math.inf, 0.25, 0.75)}, Rejection.NOT_FINITE),
    ("minus infinity", {"means": (0.5, 0.25, -math.inf)}, Rejection.NOT_FINITE),
    ("beyond floating point", {"means": (0.5, 0.25, 10**400)}, Rejection.NOT_FINITE),
    ("a word", {"means": (0.5, 0.25, "high")}, Rejection.FORM),
    ("means in a list", {"means": [0.5, 0.25, 0.75]}, Rejection.FORM),
    ("means missing", {"means": None}, Rejection.FORM),
    ("squares in a list", {"squares": []}, Rejection.FORM),
    ("pulls missing", {"counts": None}, Rejection.FORM),
    ("a client of no name", {"client": ["a"]}, Rejection.FORM),
]


@pytest.mark.parametrize(
    ("changes", "why"), [row[1:] for row in REJECTED], ids=[r[0] for r in REJECTED]
)
def test_an_update_that_does_not_count_is_rejected_logged_and_without_effect(
    changes: dict[str, Any], why: Rejection
) -> None:
    server, untouched = collecting(), collecting()
    server.receive(update(client="b"))
    untouched.receive(update(client="b"))
    records, before = records_of(server), server.snapshot()
    bad = update(**changes)
    assert server.receive(bad) is why
    assert server.snapshot() == before
    # Nothing of a message without form is taken into the log.
    formed = why is not Rejection.FORM
    rejected = UpdateRejected(
        client=bad.client if formed else "", phase=bad.phase if formed else 0, rejection=why
    )
    assert records_of(server) == [*records, rejected]
    for each in (server, untouched):
        assert each.receive(update()) is None
    assert server.close() == untouched.close()


def test_a_second_update_of_a_client_is_a_duplicate_even_if_it_differs() -> None:
    server, untouched = collecting(), collecting()
    assert server.receive(update()) is None
    assert untouched.receive(update()) is None
    before = server.snapshot()
    for again in (update(), update(means=(9.0, 9.0, 9.0))):
        assert server.receive(again) is Rejection.DUPLICATE
        assert server.snapshot() == before
        assert records_of(server)[-1] == UpdateRejected(
            client="a", phase=1, rejection=Rejection.DUPLICATE
        )
    for each in (server, untouched):
        each.receive(update(client="b"))
    assert server.close() == untouched.close()


def test_before_the_first_phase_every_client_is_unknown() -> None:
    server = Server(fed1())
    assert server.receive(update()) is Rejection.CLIENT
    assert server.state is ServerState.READY


def test_a_late_update_is_of_a_phase_that_is_not_open() -> None:
    server = server_in(ServerState.FINISHED)
    before = server.snapshot()
    assert server.receive(update()) is Rejection.PHASE
    assert server.snapshot() == before
    between = Server(fed1(noise=9.0))
    between.open(["a", "b"])
    for client in "ab":
        between.receive(update(client=client))
    between.close()
    assert between.state is ServerState.READY
    assert between.receive(update()) is Rejection.PHASE


def test_squares_that_were_asked_for_are_needed_and_must_be_finite() -> None:
    server = Server(fed1(), release=Release(squares=True))
    assert server.open(["a", "b"]).release.squares
    assert server.receive(update()) is Rejection.SHAPE
    assert server.receive(update(squares=(0.5, 0.5))) is Rejection.SHAPE
    assert server.receive(update(squares=(0.5, 0.5, math.inf))) is Rejection.NOT_FINITE
    assert server.receive(update(squares=(0.5, 0.5, -0.1))) is Rejection.NOT_FINITE
    assert server.receive(update(squares=(0.5, 0.5, 0.6))) is None


@pytest.mark.parametrize("radius", [ChernoffRadius, BernsteinRadius])
@pytest.mark.parametrize("goal", ["max", "min"])
def test_a_mean_that_disproves_the_range_of_a_rule_is_rejected(radius: Any, goal: Any) -> None:
    told = Beliefs(n_arms=3, horizon=1000, noise=0.1, spread=0.0, goal=goal)
    limits = (0.1, 0.3)
    rule = Fed1Ucb(pulls=10, clients=2, radius=radius(range=limits)).rule(told)
    server = Server(rule)
    server.open(["a", "b"])
    for wrong in (37.0, 0.31, 0.09, -0.2):
        assert server.receive(update(means=(0.2, wrong, 0.3))) is Rejection.RANGE
    # Ten times 0.3 over ten is more than 0.3 in the last digit.
    assert sum([0.1] * 3) > limits[1]
    assert server.receive(update(means=(0.1, 0.2, sum([0.1] * 3)))) is None


def test_an_arm_that_is_not_pulled_has_no_mean_to_be_in_the_range() -> None:
    told = Beliefs(n_arms=3, horizon=10**6, noise=0.1, spread=0.0)
    rule = Fed1Ucb(pulls=100, clients=1, radius=ChernoffRadius(range=(1, 2))).rule(told)
    server = Server(rule)
    client = Client("a", steady(1.1, 1.5, 1.6))
    assert server.receive(client.play(server.open(["a"]))) is None
    while server.close().active != (False, True, True):
        assert server.receive(client.play(server.open([]))) is None
    later = client.play(server.open([]))
    assert later.means[0] == 0.0
    assert server.receive(later) is None


@pytest.mark.parametrize(
    "protection",
    [{"quantize": Quantize(bits=2)}, {"noise": "gaussian", "rho": 0.1}],
    ids=["rounded", "noised"],
)
def test_protection_that_moves_means_out_of_the_range_is_no_lie(
    protection: dict[str, Any],
) -> None:
    told = Beliefs(n_arms=2, horizon=10**6, noise=0.1, spread=0.0)
    rule = Fed1Ucb(pulls=100, clients=20, radius=ChernoffRadius(range=(0, 1))).rule(told)
    server = Server(rule, privacy=Privacy(range=(-0.4, 1.4), **protection))
    rng = np.random.default_rng(8)
    clients = [
        Client(f"c{m}", steady(0.0, 1.0), noise=seeded_noise(rng), rng=rng) for m in range(20)
    ]
    assignment = server.open([client.name for client in clients])
    assert [server.receive(client.play(assignment)) for client in clients] == [None] * 20
    means = np.array(
        [means_of(report, server.run_state.mechanism) for _, report in server.run_state.reports]
    )
    assert ((means < 0) | (means > 1)).any()


# The client --------------------------------------------------------------------------------------


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


# The end of the horizon --------------------------------------------------------------------------


def test_a_phase_that_ends_exactly_at_the_horizon_decides() -> None:
    server = Server(fed1(horizon=30))
    assert server.open(["a", "b"]).pulls == (10, 10, 10)
    assert server.state is ServerState.COLLECTING
    for client in "ab":
        assert server.receive(update(client=client)) is None
    assert server.close().winner == 2
    assert (server.finished, server.slots_played) == (True, 30)


@pytest.mark.parametrize(
    ("horizon", "pulls"), [(29, (10, 10, 9)), (20, (10, 10, 0)), (13, (10, 3, 0)), (1, (1, 0, 0))]
)
def test_a_phase_that_does_not_fit_is_cut_and_nobody_reports(
    horizon: int, pulls: tuple[int, ...]
) -> None:
    server = Server(fed1(horizon=horizon))
    opened = server.open(["a", "b"])
    assert opened.pulls == pulls
    assert (server.finished, server.slots_played, server.phase) == (True, horizon, 1)
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


# Messages ----------------------------------------------------------------------------------------


def test_the_arm_hash_tells_names_and_order_apart() -> None:
    lists = [["red", "blue"], ["blue", "red"], ["red", "blue", ""], ["red,blue"], ["redblue"]]
    assert len({arms_hash(arms) for arms in lists}) == len(lists)
    assert arms_hash(["red", "blue"]) == arms_hash(("red", "blue"))


def test_servers_of_other_arms_or_runs_do_not_understand_each_other() -> None:
    servers = [
        Server(fed1()),
        Server(fed1(), arms=["x", "y", "z"]),
        Server(fed1(), run="another"),
        Server(fed1(), epoch=2),
    ]
    assert len({server.header for server in servers}) == 4


@pytest.mark.parametrize(
    "message",
    [HEADER, assignment(), update(), a_decision(Reason.OPEN), a_phase(complete=True)],
    ids=lambda message: type(message).__name__,
)
def test_messages_are_frozen_values(message: Any) -> None:
    name = dataclasses.fields(message)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(message, name, None)
    assert pickle.loads(pickle.dumps(message)) == message
    assert hash(message) == hash(pickle.loads(pickle.dumps(message)))


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
    assert server.slots_played == 30 + 3 * 20
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
        def play(self, assignment: Assignment) -> Update:
            return dataclasses.replace(super().play(assignment), phase=99)

    with pytest.raises(ProtocolError, match="update of client a rejected: not the phase"):
        play(Server(fed1(clients=1)), lambda _: [Liar("a", steady(0.1, 0.2, 0.3))])


ODD: dict[str, Any] = {"epoch": np.array([1, 2])}


@pytest.mark.parametrize(
    "changes",
    [
        {"means": ("0.5", "0.1", "0.2")},
        {"means": (Fraction(1, 2), 0.1, 0.2)},
        {"means": (True, 0.1, 0.2)},
        {"means": [0.5, 0.1, 0.2]},
        {"counts": (True, 10, 10)},
        {"counts": (np.array([10]), 10, 10)},
        {"phase": True},
        {"phase": np.array([1, 1])},
        {"client": ["a"]},
        {"clipped": -5},
        {"clipped": "x"},
        {"header": None},
        {"header": dataclasses.replace(Header(run="run", epoch=1, arms="x"), **ODD)},
    ],
    ids=str,
)
def test_an_update_of_the_wrong_types_is_rejected_and_blocks_nothing(
    changes: dict[str, Any],
) -> None:
    rule = Fed2Ucb(pulls=10, admissions=1).rule(
        Beliefs(n_arms=3, horizon=1000, noise=9.0, spread=0.0)
    )
    server = Server(rule)
    server.open(["a"])
    before = server.snapshot()
    assert server.receive(dataclasses.replace(update(), **changes)) is Rejection.FORM
    assert server.snapshot() == before
    assert server.receive(update()) is None
    server.close()


@pytest.mark.parametrize("message", [None, "x", {}, 3])
def test_what_is_no_update_at_all_is_rejected(message: Any) -> None:
    server = Server(two_arm_rule())
    assert server.receive(message) is Rejection.FORM


def two_arm_rule() -> PhasedRule:
    return Fed2Ucb(pulls=10, admissions=1).rule(
        Beliefs(n_arms=2, horizon=1000, noise=1.0, spread=0.0)
    )


def test_another_assignment_of_a_phase_that_was_played_is_refused() -> None:
    header = Header(run="run", epoch=1, arms="x")
    client = Client("a", lambda _, n: [0.5] * n)
    first = Assignment(header=header, phase=1, pulls=(10, 10))
    assert client.play(first) == client.play(first)
    with pytest.raises(ProtocolError, match="phase 1 after phase 1"):
        client.play(Assignment(header=header, phase=1, pulls=(20, 20)))


def test_an_arm_withdrawn_in_an_open_phase_keeps_the_interval_of_its_estimate() -> None:
    def played(*, withdrawn: bool) -> Server:
        server = Server(_game_of_three(), arms=["a", "b", "c"])
        for phase in (1, 2):
            assignment = server.open(["x"] if phase == 1 else [])
            means = (0.5, 0.52, 0.54)
            if phase == 2 and withdrawn:
                server.withdraw(0, "harm")
            update = Update(
                header=server.header,
                phase=phase,
                client="x",
                counts=assignment.pulls,
                means=means,
            )
            assert server.receive(update) is None
            server.close()
        return server

    plain, without = played(withdrawn=False), played(withdrawn=True)
    widths, narrower = without.interval_widths(0.05), plain.interval_widths(0.05)
    assert widths[0] > narrower[0]
    assert widths[1:].tolist() == narrower[1:].tolist()
    assert without.snapshot().counts != plain.snapshot().counts


def test_an_abandoned_phase_does_not_narrow_the_intervals_of_the_decision_before_it() -> None:
    server = Server(_game_of_three(), quorum=Quorum(fraction=1.0))
    rule_pulls = server.open(["x"]).pulls
    header = server.header
    server.receive(
        Update(header=header, phase=1, client="x", counts=rule_pulls, means=(0.5, 0.52, 0.54))
    )
    server.close()
    before = answer_of(server)
    server.open([])
    server.abandon()
    after = answer_of(server)
    assert after.intervals == before.intervals
    assert after.clients == before.clients


def test_one_arm_left_before_anything_was_measured_is_an_answer_without_a_number() -> None:
    server = Server(_game_of_three(), arms=["a", "b", "c"])
    server.open(["x"])
    server.withdraw(0, "harm")
    server.withdraw(1, "harm")
    server.abandon()
    said = answer_of(server).words()
    assert "The answer is c: the only one left" in said
    assert conclusion_of(server).high == (math.inf,) * 3


def _game_of_three() -> PhasedRule:
    return Fed1Ucb(pulls="10", clients=1).rule(
        Beliefs(n_arms=3, horizon=10_000, noise=1.0, spread=0.0)
    )
