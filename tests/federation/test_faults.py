"""Thousands of storms: whatever goes wrong, what must hold of a run holds.

A failing seed is in the error; ``python tests/federation/faults.py SEED`` plays it again.
"""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import faults
from fault_games import FAULTS, GAMES, WRITE_POINTS, BrokenError, FileStore
from fault_world import Mutant, World
from faults import played, undisturbed
from fedbandits.errors import InputError, ProtocolError
from fedbandits.federation.coordinator import Bulletin, Coordinator
from fedbandits.federation.durable_log import DurableLog
from fedbandits.privacy.mechanisms import Noised
from fedbandits.privacy.packing import pack
from fedbandits.privacy.policy import Privacy
from fedbandits.protocol import (
    Assignment,
    Client,
    Conclusion,
    Entry,
    Header,
    PhaseAbandoned,
    PhaseClosed,
    Quorum,
    Reason,
    Record,
    Refusal,
    Refused,
    Rejection,
    RunEnded,
    Server,
    ServerState,
    Update,
    answer_of,
)
from fedbandits.protocol.client import Slice
from fedbandits.protocol.fold import apply
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.radii import CertifiedRadius, PairedTRadius, PaperRadius, Radius
from office import Office, a_rule, coordinator

# Storms ------------------------------------------------------------------------------------------

SCHEDULES = 10_000
PARTS = 20
ON_DISK = 300
# These 3,000 are five times as many as it takes to find each of the planted mistakes below.
QUICK_PARTS = 6


@pytest.mark.parametrize(
    "part",
    [
        *range(QUICK_PARTS),
        *(pytest.param(part, marks=pytest.mark.slow) for part in range(QUICK_PARTS, PARTS)),
    ],
)
def test_what_must_hold_holds_in_every_storm(part: int) -> None:
    each = SCHEDULES // PARTS
    seen: Counter[str] = Counter()
    points: set[tuple[str, str]] = set()
    for seed in range(part * each, (part + 1) * each):
        world = played(seed)
        seen.update(world.counts.keys())
        points |= world.points
    # A storm that never comes tests nothing.
    rare = {fault: seen[fault] / each for fault in FAULTS if seen[fault] < 0.05 * each}
    assert not rare
    assert seen["compared"] > 0.1 * each
    assert points == WRITE_POINTS


@pytest.mark.parametrize("part", range(6))
def test_what_must_hold_holds_on_a_real_disk(part: int, tmp_path: Path) -> None:
    each, dropped = ON_DISK // 6, 0
    for seed in range(part * each, (part + 1) * each):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = played(seed, folder=folder)
        assert isinstance(world.store, FileStore)
        dropped += world.store.dropped
    assert dropped > 0  # torn records were found and left out


def test_a_storm_is_the_same_every_time() -> None:
    first, second = played(11), played(11)
    assert first.written == second.written
    assert first.counts == second.counts


def test_one_seed_is_played_again_by_one_line() -> None:
    script = Path(faults.__file__)
    done = subprocess.run(
        [sys.executable, str(script), "11"], capture_output=True, text=True, check=True
    )
    assert "PhaseOpened" in done.stdout


# Mistakes that must be found ---------------------------------------------------------------------


class CountsTwice(Server):
    def _rejection_of(self, update: Update) -> Rejection | None:
        fault = super()._rejection_of(update)
        return None if fault is Rejection.DUPLICATE else fault


class NeedsNobody(Server):
    @property
    def has_quorum(self) -> bool:
        return bool(len(self.run_state.reports))


class WritesLater(Server):
    """Acts on a record, and sends, before it is in the log."""

    _waiting: Record | None = None

    def _commit(self, record: Record) -> None:
        self.run_state = apply(self.run_state, record)
        waiting, self._waiting = self._waiting, record
        if waiting is not None:
            self.log.append(waiting)


class TakesLateOnes(Server):
    def _rejection_of(self, update: Update) -> Rejection | None:
        fault = super()._rejection_of(update)
        late = fault is Rejection.PHASE and self.state is ServerState.COLLECTING
        return None if late and 0 < update.phase < self.phase else fault


class TakesAnyEpoch(Server):
    def _rejection_of(self, update: Update) -> Rejection | None:
        fault = super()._rejection_of(update)
        if fault is not Rejection.HEADER:
            return fault
        header = dataclasses.replace(update.header, epoch=self.header.epoch)
        return super()._rejection_of(dataclasses.replace(update, header=header))


class StaysOnHarm(Server):
    """Takes the decision of the last phase for the last word, whatever was withdrawn since."""

    def _commit(self, record: Record) -> None:
        decisions = [each.decision for each in self.log if isinstance(each, PhaseClosed)]
        if isinstance(record, RunEnded) and decisions:
            last = dataclasses.replace(record.decision, best=decisions[-1].best)
            record = RunEnded(last)
        super()._commit(record)


class BringsBack(Server):
    """Lets an arm that was dropped play again, though nothing was withdrawn."""

    def _commit(self, record: Record) -> None:
        super()._commit(record)
        if isinstance(record, PhaseClosed) and self.state is ServerState.READY:
            active = ~np.isin(np.arange(3), list(self.withdrawn))
            self.run_state = dataclasses.replace(self.run_state, active=active)


class PullsAgain(Client):
    def _again(self, assignment: Assignment, last: Entry) -> Update:
        self._last.clear()
        return self.play(assignment)


class DrawsAgain(Client):
    def _again(self, assignment: Assignment, last: Entry) -> Update:
        update, mechanism = super()._again(assignment, last), assignment.release.mechanism
        if not isinstance(mechanism, Noised):
            return update
        means = [mean for mean, n in zip(last.means, update.counts, strict=True) if n]
        places = mechanism.places(np.array(means), self.noise)
        return dataclasses.replace(update, packed=pack(places.tolist(), mechanism.bits))


class SendsFirst(Client):
    """Answers without waiting for its outbox."""

    def play(self, assignment: Assignment, within: Slice | None = None) -> Update:
        outbox, self.outbox = self.outbox, None
        try:
            return super().play(assignment, within)
        finally:
            self.outbox = outbox


class NeverWaits(Coordinator):
    """Sends the next assignment before the phase is decided."""

    def _collect(self) -> None:
        assignment = self.server.assignment
        if assignment is not None and not self.server.missing:
            early = dataclasses.replace(assignment, phase=assignment.phase + 1)
            self.transport.send(early, self.server.clients)
        super()._collect()


MUTANTS: dict[str, tuple[Mutant, str]] = {
    "no deduplication": (Mutant(server=CountsTwice), "counted twice"),
    "quorum ignored": (Mutant(server=NeedsNobody), "decided by"),
    "send before write": (Mutant(server=WritesLater), "not in the log"),
    "next phase before the decision": (Mutant(coordinator=NeverWaits), "not in the log"),
    "late updates accepted": (Mutant(server=TakesLateOnes), "of another phase"),
    "updates of another epoch accepted": (Mutant(server=TakesAnyEpoch), "of another epoch"),
    "fresh pulls": (Mutant(client=PullsAgain), "pulled again"),
    "fresh noise": (Mutant(client=DrawsAgain), "noise again"),
    "answer before its record": (Mutant(client=SendsFirst), "not recorded"),
    "a withdrawn arm told as the best": (Mutant(server=StaysOnHarm), "withdrawn arm"),
    "dropped arms played again": (Mutant(server=BringsBack), "pulls of an arm that is out"),
}


@pytest.mark.parametrize(("mutant", "found"), MUTANTS.values(), ids=MUTANTS.keys())
def test_a_mistake_is_found_within_a_few_storms(mutant: Mutant, found: str) -> None:
    messages = []
    for seed in range(600):
        try:
            played(seed, mutant)
        except BrokenError as error:
            messages.append(str(error))
            if found in messages[-1]:
                return
        except (InputError, ProtocolError) as error:  # it has tripped over itself
            messages.append(repr(error))
    pytest.fail(f"not found: {Counter(messages).most_common(3)}")


# The coordinator ---------------------------------------------------------------------------------


def test_garbage_is_told_and_not_taken() -> None:
    office, news = Office("abc"), list[Bulletin]()
    server = Server(a_rule())
    office.answers = [None, "x", {"client": "a"}]
    decision = coordinator(server, office, news, clients=3).run()
    assert decision is not None
    assert decision.reason is Reason.LAST_PHASE
    said = [each.news for each in news if "a message does not count" in each.news]
    assert len(said) == 1
    assert said[0].endswith("(and 2 more)")


def test_the_last_word_is_sent_even_where_the_horizon_cuts_a_phase_short() -> None:
    office = Office("abc")
    coordinator(Server(a_rule(horizon=30)), office, clients=3).run()
    last, clients = office.sent[-1]
    assert isinstance(last, Conclusion)
    assert last.decision.reason is Reason.HORIZON
    assert set(clients) == set("abc")


def test_abandoned_phases_are_counted_over_restarts() -> None:
    office = Office("abc", silent="c")
    server = Server(a_rule(phases=9))
    first = coordinator(server, office, clients=3, abandoned=2)
    while not any(isinstance(record, PhaseAbandoned) for record in server.log):
        first.step()
    restarted = Server(server.rule, log=server.log)
    coordinator(restarted, office, clients=3, abandoned=2).run()
    abandoned = [r for r in restarted.log if isinstance(r, PhaseAbandoned)]
    assert (len(abandoned), restarted.finished) == (2, True)


def test_clients_with_weights_are_waited_for_and_others_left_outside() -> None:
    rule = a_rule(population=3)
    office = Office("abcd")
    office.names = ["a", "b", "d"]
    server = Server(rule, weights={"a": 1.0, "b": 2.0, "c": 1.0})
    news = list[Bulletin]()
    driver = coordinator(server, office, news)
    driver.step()
    assert server.state is ServerState.READY
    assert news[-1].news == "waiting for clients: 2 of 3 are connected"
    office.names = list("abcd")
    assert driver.run() is not None
    assert set(server.clients) == set("abc")


def test_no_phase_is_opened_while_only_strangers_are_connected() -> None:
    office = Office("abcd")
    server = Server(a_rule())
    driver = coordinator(server, office, clients=3)
    while not any(isinstance(record, PhaseClosed) for record in server.log):
        driver.step()
    inside = set(server.clients)
    office.names = [name for name in "abcd" if name not in inside]
    for _ in range(3):
        driver.step()
    assert (server.phase, server.state) == (1, ServerState.READY)
    office.names = list("abcd")
    assert driver.run() is not None


def test_weights_are_not_decided_upon_without_a_client_that_was_never_heard() -> None:
    server = Server(
        a_rule(population=3),
        weights={"a": 1.0, "b": 2.0, "c": 1.0},
        quorum=Quorum(fraction=0.5),
        quarantine_after=1,
    )
    assigned = server.open(["a", "b", "c"])
    for name, mean in (("a", 0.1), ("b", 0.1), ("c", math.nan)):
        server.receive(
            Update(
                header=server.header,
                phase=1,
                client=name,
                counts=assigned.pulls,
                means=(mean, 0.2, 0.3),
            )
        )
    assert (server.quarantined, server.missing, server.has_quorum) == (("c",), (), False)


def test_a_refusal_from_elsewhere_stops_nothing() -> None:
    office = Office("abc")
    server = Server(a_rule())
    header = Header(run="another", epoch=1, arms="x")
    office.answers = [
        Refusal(header=header, phase=1, client="a", why=Refused.BUDGET),
        Refusal(header=server.header, phase=7, client="a", why=Refused.BUDGET),
        Refusal(header=server.header, phase=1, client="x", why=Refused.BUDGET),
    ]
    decision = coordinator(server, office, clients=3).run()
    assert decision is not None
    assert decision.reason is Reason.LAST_PHASE


# The server --------------------------------------------------------------------------------------


def decided(server: Server, *phases: str) -> None:
    """Play phases in which these clients report."""
    for names in phases:
        assigned = server.open([c for c in names if c not in server.clients][: server.wanted()])
        for name in names:
            means = (0.2, 0.5, 0.8)
            sent = Update(
                header=server.header,
                phase=assigned.phase,
                client=name,
                counts=assigned.pulls,
                means=means,
            )
            assert server.receive(sent) is None
        server.close()


@pytest.mark.parametrize("state", ["ready", "collecting"])
def test_nobody_is_told_to_stay_on_an_arm_that_was_withdrawn(state: str) -> None:
    server = Server(a_rule(noise=3.0))
    decided(server, "abc")
    if state == "collecting":
        server.open([])
    assert server.decision is not None
    assert server.decision.best == 2
    server.withdraw(2, "harm")
    last = server.stop()
    assert last is not None
    assert (last.best, last.active) == (1, (True, True, False))


@pytest.mark.parametrize(
    "radius", [PaperRadius(), CertifiedRadius(delta=0.1), PairedTRadius(delta=0.1, min_clients=2)]
)
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_an_arm_that_is_withdrawn_before_anybody_pulled_it_is_known_by_nobody(
    radius: Radius, spread: float
) -> None:
    rule = Fed2Ucb(pulls=10, admissions=3, radius=radius).rule(
        Beliefs(n_arms=3, horizon=400, noise=1.0, spread=spread, population=9)
    )
    server = Server(rule)
    server.withdraw(1, "harm")
    decided(server, "abc")
    answer = answer_of(server)
    assert set(answer.survivors) <= {"0", "2"}
    assert answer.intervals["1"] == (-math.inf, math.inf)
    # These clients are all alike, from which a t-test concludes nothing.
    known = not isinstance(radius, PairedTRadius)
    assert all(math.isfinite(end) == known for end in answer.intervals["0"])
    assert Server.replay(rule, list(server.log)).snapshot() == server.snapshot()


def test_a_last_phase_that_is_abandoned_is_the_last_all_the_same() -> None:
    server = Server(a_rule(noise=3.0, phases=2), quorum=Quorum())
    decided(server, "abc")
    server.open([])
    server.abandon()
    assert server.finished
    assert server.decision is not None
    assert (server.decision.phase, server.decision.reason) == (1, Reason.LAST_PHASE)


def test_an_abandoned_phase_that_ends_with_the_last_slot_ends_the_run() -> None:
    policy = Privacy(range=(0.0, 1.0), noise="gaussian", rho=1.0, min_pulls=2)
    server = Server(a_rule(noise=3.0, horizon=12), privacy=policy)
    server.open(["a", "b", "c"])
    server.abandon()
    assert (server.finished, server.decision) == (True, None)


# Malformed updates -------------------------------------------------------------------------------

_POLICY = Privacy(range=(0.0, 1.0), noise="gaussian", scale=0.02, min_pulls=2)
_CLIENTS = ("a", "b", "c", "d")


def _collecting(folder: Path | None) -> tuple[Server, dict[str, Update]]:
    """Return a server that waits for clients, and what they would say."""
    log = None if folder is None else DurableLog(folder, {"run": "run"})
    server = Server(
        a_rule(clients=4),
        log=log,
        privacy=_POLICY,
        quorum=Quorum(fraction=0.5, least=2),
        quarantine_after=50,
    )
    assigned = server.open(_CLIENTS)

    def silence(kind: Any, scale: float, size: int) -> Any:
        return np.zeros(size, dtype=np.int64)

    honest = {
        name: Client(
            name, lambda arm, n: [0.3 + 0.2 * arm] * n, privacy=_POLICY, noise=silence
        ).play(assigned)
        for name in _CLIENTS
    }
    return server, honest


_junk: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**4000)
    | st.floats()
    | st.text(max_size=5)
    | st.just("\ud800")
    | st.binary(max_size=30)
    | st.sampled_from([*_CLIENTS, "x" * 10_000, math.nan, math.inf, Fed1Ucb, object()]),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@st.composite
def _malformed(draw: st.DrawFn, honest: Update) -> Any:
    """Return something that is nearly an update, or nothing of the sort."""
    if draw(st.booleans()) and draw(st.booleans()):
        return draw(_junk)
    names = [f.name for f in dataclasses.fields(Update)]
    changes: dict[str, Any] = draw(
        st.dictionaries(st.sampled_from(names), _junk, min_size=1, max_size=3)
    )
    if draw(st.booleans()):
        part = draw(st.sampled_from([f.name for f in dataclasses.fields(Header)]))
        changes["header"] = dataclasses.replace(honest.header, **{part: draw(_junk)})
    # Whose update it is was not checked here: the client is another matter.
    return dataclasses.replace(honest, **changes)


def _counts_as(sent: Any, server: Server) -> bool:
    """Return whether what was sent is an update that an honest client might send."""
    mechanism = None if server.assignment is None else server.assignment.release.mechanism
    return (
        isinstance(sent, Update)
        and sent.header == server.header
        and sent.phase == server.phase
        and sent.client in _CLIENTS
        and server.assignment is not None
        and sent.counts == server.assignment.pulls
        and sent.means == ()
        and sent.squares is None
        and isinstance(mechanism, Noised)
        and len(sent.packed) == 24
    )


@settings(deadline=None, derandomize=True, max_examples=200)
@given(data=st.data())
def test_a_malformed_update_raises_nothing_and_changes_no_decision(data: st.DataObject) -> None:
    server, honest = _collecting(None)
    untouched, _ = _collecting(None)
    reporting = data.draw(st.sampled_from(["ab", "abc", "abcd"]))
    for name in reporting:
        for _ in range(data.draw(st.integers(0, 2))):
            sent = data.draw(_malformed(honest[name]))
            rejection = server.receive(sent)
            assert rejection is not None or _counts_as(sent, server)
            if rejection is None:  # by chance it is what a client might say
                return
        assert server.receive(honest[name]) is None
        assert untouched.receive(honest[name]) is None
    assert server.close() == untouched.close()
    assert server.snapshot() == untouched.snapshot()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.data())
def test_what_is_rejected_can_be_kept_by_a_durable_log(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    _, honest = _collecting(None)
    messages = [data.draw(_malformed(honest[name])) for name in _CLIENTS]
    path = tmp_path_factory.mktemp("log") / "run.fedlog"
    server, _ = _collecting(path)
    for message in messages:
        server.receive(message)
    _check_kept(server, path)


@pytest.mark.parametrize(
    "changes",
    [
        {"client": "\ud800"},
        {"client": "x" * 10**7},
        {"phase": 10**5000},
        {"clipped": 10**5000},
        {"counts": (10**5000,) * 3},
        {"header": Header(run="run", epoch=10**5000, arms="x")},
    ],
    ids=[
        "half a character",
        "a long name",
        "a large phase",
        "many clipped",
        "many pulls",
        "a large epoch",
    ],
)
def test_what_no_log_could_keep_is_no_update(changes: dict[str, Any], tmp_path: Path) -> None:
    server, honest = _collecting(tmp_path / "run.fedlog")
    assert server.receive(dataclasses.replace(honest["a"], **changes)) is Rejection.FORM
    _check_kept(server, tmp_path / "run.fedlog")


def _check_kept(server: Server, path: Path) -> None:
    """Check that the file holds all of a server."""
    assert isinstance(server.log, DurableLog)
    server.log.close()
    with DurableLog(path) as log:
        again = Server(
            a_rule(clients=4),
            log=log,
            privacy=_POLICY,
            quorum=server.terms.quorum,
            quarantine_after=server.terms.quarantine_after,
        )
        assert again.snapshot() == server.snapshot()


def test_a_client_that_is_wrong_too_often_is_heard_no_more() -> None:
    server = Server(a_rule(), quorum=Quorum(fraction=0.5), quarantine_after=2)
    assigned = server.open(["a", "b", "c"])
    honest = Update(
        header=server.header, phase=1, client="a", counts=assigned.pulls, means=(0.1, 0.2, 0.3)
    )
    for _ in range(2):
        wrong = dataclasses.replace(honest, means=(math.nan, 0.2, 0.3))
        assert server.receive(wrong) is Rejection.NOT_FINITE
    assert server.quarantined == ("a",)
    assert server.receive(honest) is Rejection.QUARANTINED
    assert server.missing == ("b", "c")


def test_a_world_without_faults_is_the_loopback() -> None:
    """The undisturbed runs, which storms are compared with, are right themselves."""
    for name, game in GAMES.items():
        world = undisturbed(name, 0)
        assert isinstance(world, World)
        assert not set(world.counts) & set(FAULTS) - {"refusal", "reorder"}
        if game.mute_from is None and game.poor is None:
            assert world.server.decision is not None
            assert world.server.decision.best == 2
