"""The protocol: machines that keep to their table, a log that is the state, the loopback."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.errors import ProtocolError
from fedbandits.loopback import play
from fedbandits.protocol import (
    AnswerRefused,
    ArmWithdrawn,
    Assignment,
    ClaimRefused,
    Client,
    ClientsBound,
    Decision,
    Header,
    MemoryLog,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
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
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb, ImprovedUcb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.radii import PaperRadius
from small_server import (
    HEADER,
    a_decision,
    assignment,
    collecting,
    fed1,
    records_of,
    server_in,
    steady,
    update,
)

modest = settings(deadline=None, derandomize=True, max_examples=60)
seeds = st.integers(0, 2**32 - 1)


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
    "clients bound": ClientsBound(node="SHA256:x", clients=("a",)),
    "claim refused": ClaimRefused(node="SHA256:y", clients=("a",)),
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
    **{(state, "clients bound"): state for state in ServerState},
    **{(state, "claim refused"): state for state in ServerState},
}


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
        (["a", "b", "c"], "3 new clients, but the phase wants 2"),
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
    # An arm might have been dropped in the one phase that was over, or not, and come back: phase 2
    # has the share of the error that phase 4 would have.
    logs = [np.log(2 * 3 * np.pi**2 * phase**2 / (6 * 0.05)) for phase in (2, 4)]
    assert widths[1:] == pytest.approx(narrower[1:] * np.sqrt(logs[1] / logs[0]))
    assert without.snapshot()["counted"] != plain.snapshot()["counted"]


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
