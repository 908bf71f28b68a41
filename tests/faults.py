"""A world in which everything goes wrong, on purpose and by a seed.

A `World` drives a coordinator with its server and a few clients through crashes, lost and late
messages, partitions, failing disks, lies, refusals and withdrawals. Its time is simulated, its
faults come from one seed, and they stop some time; then the run must end. What must hold at any
time is checked at any time, the rest by `checked` at the end.

Run one seed again with ``python tests/faults.py 1234``.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast, get_args

import numpy as np

from fedbandits.errors import ProtocolError
from fedbandits.federation.audit_file import AuditFile
from fedbandits.federation.coordinator import Coordinator, Patience
from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import Law
from fedbandits.protocol import (
    ArmWithdrawn,
    Assignment,
    Client,
    Conclusion,
    Decision,
    Entry,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    Quorum,
    Reason,
    Record,
    Refusal,
    RefusalError,
    Rejection,
    RunEnded,
    Server,
    ServerSnapshot,
    ServerStarted,
    ServerState,
    Update,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.codec import encode
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb, FedIndex
from fedbandits.rules.arrays import IntArray
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.phased import Beliefs, PhasedRule
from fedbandits.rules.radii import PaperRadius

RUN = "storm"
PATIENCE = Patience(deadline=10.0, grace=6.0, resend=2.5, abandoned=2)

FAULTS = (
    "server crash",
    "client crash",
    "crash at a write of the server",
    "crash at a write of a client",
    "torn record",
    "torn entry",
    "failing disk",
    "failing disk of a client",
    "loss",
    "duplicate",
    "delay",
    "reorder",
    "partition",
    "malformed update",
    "refusal",
    "withdrawal",
)
"""Every kind of fault, as counted."""

RECORDS: tuple[type[Record], ...] = get_args(Record)
MOMENTS = ("before", "torn", "after", "disk")
WRITE_POINTS = frozenset((kind.__name__, moment) for kind in RECORDS for moment in MOMENTS)
"""Where a write of the server may go wrong."""


class CrashError(Exception):
    """A process has ended here."""


class DiskError(Exception):
    """A disk does not take what is written."""


class BrokenError(AssertionError):
    """Something that must hold does not."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenError(what)


# The games ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Game:
    """What is played: small enough for thousands of them."""

    rule: PhasedRule
    clients: int
    quorum: Quorum = field(default_factory=Quorum)
    quarantine_after: int | None = None
    privacy: Privacy | None = None
    poor: Privacy | None = None
    """The policy of the first client, where it is another."""
    mute_from: int | None = None
    """The phase from which on the last client does not answer."""


def _rule(algorithm: Fed1Ucb | Fed2Ucb | FedIndex, *, phases: int = 3, **told: Any) -> PhasedRule:
    beliefs: dict[str, Any] = {"horizon": 400, "noise": 0.1, "spread": 0.0, **told}
    rule = algorithm.rule(Beliefs(n_arms=3, **beliefs))
    if isinstance(rule, IndexRule):
        rule = rule.with_fewest_pulls(2)  # the mean of one pull is an observation
    return replace(rule, max_phases=phases)


def _poorer(policy: Privacy, releases: float) -> Privacy:
    """Return a policy whose budget is that of so many releases."""
    return replace(policy, rho=1.01 * releases * policy.spends(4, 3).rho)


_NOISED = Privacy(range=(0.0, 1.0), noise="gaussian", scale=0.02, min_pulls=2)
_USERS = replace(_NOISED, level="user", releases=9)
_EASY = Quorum(fraction=0.5, least=2)

GAMES: dict[str, Game] = {
    "all": Game(rule=_rule(Fed1Ucb(pulls="4", clients=4), phases=4), clients=4),
    "quorum": Game(
        rule=_rule(Fed1Ucb(pulls="3", clients=5)), clients=5, quorum=_EASY, quarantine_after=2
    ),
    "admissions": Game(
        rule=_rule(
            Fed2Ucb(pulls="3", admissions="2", radius=PaperRadius(arm=1.0, client=1.0)),
            spread=0.02,
            population=5,
        ),
        clients=5,
        quorum=Quorum(fraction=0.6),
    ),
    "index": Game(
        rule=_rule(FedIndex(initial_clients=2, first_pulls=6), spread=0.1, population=5, phases=4),
        clients=5,
        quorum=Quorum(fraction=0.6),
    ),
    "index, noised": Game(
        rule=_rule(FedIndex(first_pulls=12), population=3, phases=4),
        clients=3,
        quorum=_EASY,
        privacy=_NOISED,
    ),
    "noised": Game(
        rule=_rule(Fed1Ucb(pulls="4", clients=3)),
        clients=3,
        quorum=_EASY,
        privacy=_NOISED,
        quarantine_after=3,
    ),
    "rounded": Game(
        rule=_rule(Fed1Ucb(pulls="4", clients=3)),
        clients=3,
        privacy=Privacy(
            range=(0.0, 1.0), quantize=Quantize(bits=6, rounding="nearest"), min_pulls=2
        ),
    ),
    "squares": Game(
        rule=_rule(Fed1Ucb(pulls="4", clients=4), noise=None, min_clients=2), clients=4
    ),
    "horizon": Game(rule=_rule(Fed1Ucb(pulls="4", clients=3), horizon=26), clients=3),
    "budget": Game(
        rule=_rule(Fed1Ucb(pulls="4", clients=3)),
        clients=3,
        quorum=_EASY,
        privacy=_USERS,
        poor=_poorer(_USERS, 1),
    ),
    "no budget": Game(
        rule=_rule(Fed1Ucb(pulls="4", clients=3)),
        clients=3,
        privacy=_USERS,
        poor=_poorer(_USERS, 0.5),
    ),
    "mute": Game(rule=_rule(Fed1Ucb(pulls="3", clients=3)), clients=3, mute_from=1),
    "falls silent": Game(
        rule=_rule(Fed1Ucb(pulls="3", clients=3), phases=4), clients=3, mute_from=2
    ),
    "silent at last": Game(rule=_rule(Fed1Ucb(pulls="3", clients=3)), clients=3, mute_from=3),
    "silent at the horizon": Game(
        rule=_rule(Fed1Ucb(pulls="4", clients=3), horizon=24, noise=0.3),
        clients=3,
        privacy=replace(_NOISED, scale=None, rho=50.0),
        mute_from=2,
    ),
}

# What makes a record likely, so that all of them meet all faults.
_PROVOKED: dict[str, tuple[str, ...]] = {
    "AnswerRefused": ("budget", "no budget"),
    "PhaseAbandoned": ("mute", "falls silent", "silent at last", "silent at the horizon"),
}


def observations(data: int, client: int, phase: int, arm: int, n: int) -> list[float]:
    """Return what a client observes: always the same, and no two alike."""
    source = random.Random(f"{data} {client} {phase} {arm}")
    mean = (0.3, 0.45, 0.6)[(arm + data) % 3] + 0.05 * ((client + arm) % 2)
    return [mean + 0.2 * (source.random() - 0.5) for _ in range(n)]


# Stores: what is left of a write after a crash ---------------------------------------------------


class Store:
    """The server's log in memory; the last record may be torn."""

    def __init__(self) -> None:
        self.kept: list[Record | bytes] = []

    def open(self) -> list[Record]:
        """Return what a restarted server finds: without a last record that is torn."""
        if self.kept and isinstance(self.kept[-1], bytes):
            try:
                json.loads(self.kept[-1])
            except ValueError:
                self.kept.pop()
        return [record for record in self.kept if not isinstance(record, bytes)]

    def write(self, record: Record) -> None:
        self.kept.append(record)

    def tear(self, record: Record, part: float) -> None:
        said = json.dumps(encode(record)).encode()
        if part > 0.2:  # else nothing of it is there
            self.kept.append(said[: int(part * (len(said) - 1))])

    def close(self) -> None:
        """Let go of it."""


class FileStore:
    """The server's log in SQLite."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log: DurableLog | None = None
        self.dropped = 0

    def open(self) -> list[Record]:
        self.close()
        self.log = DurableLog(self.path, {"run": RUN})
        self.dropped += self.log.dropped
        return list(self.log)

    def write(self, record: Record) -> None:
        assert self.log is not None
        self.log.append(record)

    def tear(self, record: Record, part: float) -> None:
        if part <= 0.2:
            return
        self.write(record)
        self.close()
        damage = "body = substr(body, 1, length(body) - 2)" if part < 0.6 else "checksum = 'x'"
        with sqlite3.connect(self.path) as database:
            database.execute(
                f"UPDATE records SET {damage} WHERE number = (SELECT max(number) FROM records)"
            )
        database.close()

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
            self.log = None


class Entries:
    """A client's outbox in memory; a torn entry is not there."""

    def __init__(self) -> None:
        self.kept: list[Entry] = []

    def open(self) -> list[Entry]:
        return list(self.kept)

    def write(self, entry: Entry) -> None:
        self.kept.append(entry)

    def tear(self, entry: Entry, part: float) -> None:
        """Lose it: the end of its line was not written."""


class FileEntries:
    """A client's outbox in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = AuditFile(path)

    def open(self) -> list[Entry]:
        self.file = AuditFile(self.path)
        return list(self.file)

    def write(self, entry: Entry) -> None:
        self.file.append(entry)

    def tear(self, entry: Entry, part: float) -> None:
        before = self.path.stat().st_size if self.path.exists() else 0
        self.file.append(entry)
        line = self.path.read_bytes()[before:]
        with self.path.open("r+b") as file:
            file.truncate(before + int(part * (len(line) - 1)))


# The world ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A world with a mistake in it, which the checks must find."""

    server: type[Server] = Server
    client: type[Client] = Client
    coordinator: type[Coordinator] = Coordinator


@dataclass(frozen=True, kw_only=True)
class Storm:
    """How likely what is, while it lasts."""

    until: float
    crash: float = 0.0
    write: float = 0.0
    client_crash: float = 0.0
    client_write: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    partition: float = 0.0
    lie: float = 0.0
    withdrawal: float = 0.0
    disk: float = 0.0
    mailbox: bool = True
    """Whether answers wait for a server that is down."""
    target: tuple[str, str] | None = None
    """A write that goes wrong as soon as it comes."""


CALM = Storm(until=0.0)

Message: TypeAlias = Assignment | Conclusion
Answer: TypeAlias = Update | Refusal


def planned(seed: int) -> tuple[Game, int, Storm]:
    """Return game, data and storm of a seed."""
    rng = random.Random(seed)
    target = rng.choice(sorted(WRITE_POINTS)) if rng.random() < 0.7 else None
    names = _PROVOKED.get(target[0] if target else "", tuple(GAMES))
    game = GAMES[rng.choice(names)]

    def rate(*rates: float, often: float = 0.4) -> float:
        return rng.choice(rates) if rng.random() < often else 0.0

    storm = Storm(
        until=rng.choice((6.0, 15.0, 40.0)),
        crash=rate(0.01, 0.04),
        write=rate(0.02, 0.06),
        client_crash=rate(0.03, 0.1),
        client_write=rate(0.1, 0.3, often=0.5),
        loss=rate(0.1, 0.3),
        duplicate=rate(0.1, 0.3),
        delay=rate(0.1, 0.4),
        partition=rate(0.03, 0.1),
        lie=rate(0.1, 0.3),
        withdrawal=0.3 if target and target[0] == "ArmWithdrawn" else rate(0.05, 0.15, often=0.3),
        disk=rate(0.02, 0.05),
        mailbox=rng.random() < 0.5,
        target=target,
    )
    return game, rng.randrange(4), storm


class Site:
    """Where a client lives: its file stays, the process comes and goes."""

    def __init__(self, world: World, number: int, entries: Entries | FileEntries) -> None:
        self.world = world
        self.number = number
        self.name = f"client {number}"
        self.entries = entries
        self.cut_until = 0.0
        self.down_until = 0.0
        self.phase = 0
        self.told: list[Decision] = []
        self.client: Client | None = None

    @property
    def up(self) -> bool:
        return self.world.now >= self.down_until

    @property
    def reachable(self) -> bool:
        return self.up and self.world.now >= self.cut_until

    def claim(self) -> None:
        """Serve every incarnation of the client, one after the other."""

    def append(self, entry: Entry) -> None:
        """Be the outbox of the client."""
        world, key = self.world, (self.name, entry.update.phase)
        check(key not in world.answers, f"{key} was recorded twice")
        if world.happens(world.storm.client_write):
            moment = world.rng.choice(("before", "torn", "after", "disk"))
            if moment == "disk":
                world.count("failing disk of a client")
                raise DiskError
            world.count("crash at a write of a client")
            if moment == "torn":
                world.count("torn entry")
                self.entries.tear(entry, world.rng.random())
            elif moment == "after":
                self.entries.write(entry)
                world.answers[key] = replace(entry.update, header=world.header)
            raise CrashError(moment)
        self.entries.write(entry)
        world.answers[key] = replace(entry.update, header=world.header)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.open())

    def pull(self, arm: int, n: int) -> list[float]:
        world = self.world
        check((self.name, self.phase) not in world.answers, "pulled again for a recorded answer")
        if world.happens(world.storm.client_crash):
            raise CrashError("while it pulled")
        seen = observations(world.data, self.number, self.phase, arm, n)
        world.secrets.update(seen)
        return seen

    def noise(self, kind: Law, scale: float, size: int) -> IntArray:
        world = self.world
        check((self.name, self.phase) not in world.answers, "noise again for a recorded answer")
        source = random.Random(f"{world.data} {self.number} {self.phase}")
        return np.array([round(source.gauss(0.0, scale)) for _ in range(size)], dtype=np.int64)

    def start(self) -> Client:
        game = self.world.game
        poor = game.poor is not None and self.number == 0
        self.client = self.world.mutant.client(
            self.name,
            self.pull,
            privacy=game.poor if poor else game.privacy,
            outbox=self,
            noise=self.noise,
            rng=_NOBODY,
        )
        return self.client

    def crash(self) -> None:
        self.world.count("client crash")
        self.client = None
        self.down_until = self.world.now + self.world.rng.choice((0.5, 3.0, 12.0))

    def take(self, message: Message) -> Answer | None:
        """Do what a message asks for; return the answer, if there is one."""
        world = self.world
        client = self.start() if self.client is None else self.client
        if isinstance(message, Conclusion):
            try:
                client.conclude(message.decision)
            except ProtocolError:  # from a server that is not there any more
                return None
            self.told.append(message.decision)
            return None
        self.phase = message.phase
        try:
            answer: Answer = client.play(message)
        except RefusalError as error:
            world.count("refusal")
            return error.refusal
        except (ProtocolError, DiskError):  # nothing for it, or it could not be recorded
            return None
        return answer


_NOBODY = np.random.default_rng(0)  # no stochastic rounding here


class World:
    """A run in a storm.

    Parameters
    ----------
    game, data, storm
        What is played, which observations there are, and what goes wrong.
    seed : int
        Of everything that goes wrong.
    mutant : Mutant
        The code under test, or a mistake.
    folder : path, optional
        For logs and outboxes on a real disk; in memory by default.
    """

    def __init__(
        self,
        game: Game,
        data: int,
        storm: Storm,
        *,
        seed: int,
        mutant: Mutant | None = None,
        folder: Path | None = None,
    ) -> None:
        self.game, self.data, self.storm = game, data, storm
        self.mutant = Mutant() if mutant is None else mutant
        self.rng = random.Random(f"storm {seed}")
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self.points: set[tuple[str, str]] = set()
        self.store = Store() if folder is None else FileStore(folder / "run.fedlog")
        self.sites = {
            site.name: site
            for site in (
                Site(
                    self,
                    number,
                    Entries() if folder is None else FileEntries(folder / f"{number}.jsonl"),
                )
                for number in range(game.clients)
            )
        }
        self.answers: dict[tuple[str, int], Update] = {}
        self.secrets: set[float] = set()
        self.events: list[tuple[float, int, str, Any, str]] = []
        self.number = 0
        self.newest = 0
        self.written: list[Record] = []
        self.ended: set[int] = set()
        self.opened = 0
        self.epoch = 1
        self.finals: set[Decision] = set()
        self.left_as: ServerSnapshot | None = None
        self.server = self.made()
        self.header = self.server.header
        self.targeted = False

    # What happens

    @property
    def stormy(self) -> bool:
        return self.now < self.storm.until

    def happens(self, rate: float) -> bool:
        return rate > 0.0 and self.stormy and self.rng.random() < rate

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def made(self) -> Server:
        """Return the server as its log has it."""
        game = self.game
        return self.mutant.server(
            game.rule,
            run=RUN,
            log=self,
            privacy=game.privacy,
            quorum=game.quorum,
            quarantine_after=game.quarantine_after,
        )

    # The log of the server

    def __iter__(self) -> Iterator[Record]:
        return iter(self.written)

    def append(self, record: Record) -> None:
        """Be the log of the server."""
        moment = self._goes_wrong(record)
        if moment == "disk":
            self.count("failing disk")
            raise DiskError
        if moment is not None:
            self.count("crash at a write of the server")
        if moment == "torn":
            self.count("torn record")
            self.store.tear(record, self.rng.random())
        if moment in ("before", "torn"):
            raise CrashError(moment)
        self.store.write(record)
        self._noted(record)
        if moment == "after":
            self.left_as = None  # it was written, and the server does not know
            raise CrashError(moment)

    def _goes_wrong(self, record: Record) -> str | None:
        kind, storm = type(record).__name__, self.storm
        moment = None
        if storm.target is not None and storm.target[0] == kind and not self.targeted:
            self.targeted = True
            moment = storm.target[1]
        elif self.happens(storm.write):
            moment = self.rng.choice(("before", "torn", "after"))
        elif self.happens(storm.disk):
            moment = "disk"
        if moment is not None:
            self.points.add((kind, moment))
            self.left_as = self.server.snapshot()
        return moment

    def _noted(self, record: Record) -> None:
        self.written.append(record)
        match record:
            case PhaseOpened(assignment=assignment):
                self.opened = assignment.phase
            case PhaseClosed(decision=decision):
                self.ended.add(decision.phase)
            case PhaseAbandoned(phase=phase):
                self.ended.add(phase)
            case ServerStarted(epoch=epoch):
                self.epoch = epoch

    # The network

    def connected(self) -> list[str]:
        self._may_crash()
        return [site.name for site in self.sites.values() if site.reachable]

    def send(self, message: Message, clients: Sequence[str]) -> None:
        self._check_sent(message, clients)
        for name in clients:
            self._may_crash()
            self._carry("to client", message, name)

    def _check_sent(self, message: Message, clients: Sequence[str]) -> None:
        """Refuse what is sent before it is written, or to strangers."""
        check(message.header.epoch == self.epoch, "sent in an epoch that is not in the log")
        check(set(clients) <= set(self.server.clients), "sent to somebody who is not admitted")
        self._check_bare(message)
        if isinstance(message, Assignment):
            check(message.phase == self.opened, "a phase was sent that is not in the log")
            missing = set(range(1, message.phase)) - self.ended
            check(not missing, f"phase {message.phase} was sent before the end of {missing}")
            return
        check(message.decision.final, "a decision was sent that is not the last")
        self.finals.add(replace(message.decision, header=self.header))
        check(len(self.finals) == 1, "two last decisions were sent")

    def _check_bare(self, message: Message | Answer) -> None:
        """Refuse a message with an observation in it, or with room for one."""
        match message:
            case Update():
                numbers = [*message.means, *(message.squares or ())]
                sizes = {len(message.means), len(message.squares or ())}
                check(sizes <= {0, 3}, "more numbers than arms")
                check(len(message.packed) <= 24, "more bytes than numbers")
            case Conclusion(decision=last):
                numbers = [*last.estimates, *last.widths, *message.low, *message.high]
            case Assignment(previous=Decision() as previous):
                numbers = [*previous.estimates, *previous.widths]
            case _:
                numbers = []
        check(self.secrets.isdisjoint(numbers), "an observation has left its client")

    def _carry(self, way: str, message: Message | Answer, name: str) -> None:
        """Put a message on its way: once, twice or never."""
        storm, rng = self.storm, self.rng
        site = self.sites[name]
        if self.now < site.cut_until:
            return
        if self.happens(storm.loss):
            self.count("loss")
            return
        copies = 1
        if self.happens(storm.duplicate):
            self.count("duplicate")
            copies = 2
        for _ in range(copies):
            takes = 0.1 + 0.4 * rng.random()
            if self.happens(storm.delay):
                self.count("delay")
                takes += rng.choice((2.0, 6.0, 14.0))
            self.number += 1
            heapq.heappush(self.events, (self.now + takes, self.number, way, message, name))

    def flush(self, timeout: float) -> None:
        pass

    def receive(self, timeout: float) -> list[Answer]:
        """Let time pass until something comes in."""
        self._may_crash()
        answers = self._pass(self.now + timeout)
        self._may_crash()
        return answers

    def _pass(self, until: float, *, stop: bool = True) -> list[Answer]:
        answers: list[Answer] = []
        while self.events and self.events[0][0] <= until:
            if answers and stop and self.events[0][0] > self.now:
                return answers
            time, number, way, message, name = heapq.heappop(self.events)
            self.now = max(self.now, time)
            if way == "to client":
                self._deliver(message, self.sites[name])
                continue
            if number < self.newest:
                self.count("reorder")
            self.newest = max(self.newest, number)
            answers.append(message)
        if not (answers and stop):
            self.now = max(self.now, until)
        return answers

    def _deliver(self, message: Message, site: Site) -> None:
        if not site.reachable:
            return
        if self.happens(self.storm.client_crash):
            site.crash()
            return
        try:
            answer = site.take(message)
        except CrashError:
            site.crash()
            return
        last = self.game.mute_from
        mute = last is not None and answer is not None and answer.phase >= last
        if answer is None or (mute and site.number == self.game.clients - 1):
            return
        self._check_bare(answer)
        if isinstance(answer, Update):
            key = site.name, answer.phase
            same = replace(answer, header=self.header) == self.answers.get(key)
            check(same, f"{key} was answered in two ways, or not recorded")
            if self.happens(self.storm.lie):
                self.count("malformed update")
                self._carry("to server", malformed(answer, self.rng), site.name)
                if self.rng.random() < 0.5:
                    return
        self._carry("to server", answer, site.name)

    # Accidents

    def _may_crash(self) -> None:
        if self.happens(self.storm.crash):
            self.left_as = self.server.snapshot()
            raise CrashError("of the server")

    def _accidents(self) -> None:
        """Cut clients off, or withdraw an arm."""
        if self.happens(self.storm.partition):
            self.count("partition")
            until = self.now + self.rng.choice((1.0, 5.0, 20.0))
            for site in self.rng.sample(list(self.sites.values()), self.rng.randrange(1, 4)):
                site.cut_until = until
        if self.happens(self.storm.withdrawal) and not self.server.finished:
            active = [arm for arm, is_in in enumerate(self.server.snapshot().active) if is_in]
            if len(active) > 1:
                self.count("withdrawal")
                self.server.withdraw(self.rng.choice(active), "harm")

    # The run

    def run(self) -> None:
        """Play until the run is over, and once more, so that all hear of its end."""
        for _ in range(60):
            if self._life():
                break
        else:
            raise BrokenError("the server was restarted 60 times")
        self.storm = CALM
        self.now += 100.0  # whoever was down or cut off is back
        last = self.server.decision
        check(self._life(), "a server that is over goes on")
        self._pass(self.now + 60.0, stop=False)
        if last is not None:
            check(self.server.decision is not None, "a decision is forgotten")
            self._check_told(last)

    def _check_told(self, last: Decision) -> None:
        for name in self.server.clients:
            told = {decision.best for decision in self.sites[name].told}
            check(told == {last.best}, f"{name} was told {told} where {last.best} is best")

    def _life(self) -> bool:
        """Live from a start of the server to its crash or its end; return whether it is over."""
        try:
            self._start()
            coordinator = self.mutant.coordinator(
                self.server, self, clock=lambda: self.now, seed=7, patience=PATIENCE
            )
            for _ in range(400):
                if not coordinator.step():
                    return True
                self._accidents()
        except (CrashError, DiskError):
            self.count("server crash")
            answers = self._pass(self.now + self.rng.choice((0.2, 2.0, 9.0)), stop=False)
            if self.storm.mailbox:
                for answer in answers:
                    self.number += 1
                    event = (self.now, self.number, "to server", answer, "")
                    heapq.heappush(self.events, event)
            return False
        raise BrokenError("the run does not end")

    def _start(self) -> None:
        """Take the run up from its log."""
        found = self.store.open()
        check(found == self.written, "the log is not what was written")
        before, self.left_as = self.left_as, None
        self.server = self.made()
        if before is not None:
            check(self.server.snapshot() == before, "a restarted server is not as it was")
        if found:
            self.left_as = self.server.snapshot()
            self.server.take_over(self.server.header.epoch + 1)
            self.left_as = None


def malformed(update: Update, rng: random.Random) -> Any:
    """Return what no server may count."""
    header, nothing = update.header, cast(Any, None)
    changes: Sequence[Callable[[], Any]] = (
        lambda: replace(update, counts=tuple(n + 1 for n in update.counts)),
        lambda: replace(update, means=(math.nan,) * 3, packed=b""),
        lambda: replace(update, means=(*update.means, 0.5)),
        lambda: replace(update, packed=update.packed + b"x"),
        lambda: replace(update, squares=(-1.0, 0.0, 0.0)),
        lambda: replace(update, client="stranger"),
        lambda: replace(update, phase=update.phase + 99),
        lambda: replace(update, header=replace(header, arms="x")),
        lambda: replace(update, header=replace(header, run="another")),
        lambda: replace(update, means=nothing),
        lambda: "an update",
        lambda: None,
    )
    return rng.choice(changes)()


# What must hold of a log -------------------------------------------------------------------------

_FAULTY = {
    Rejection.SHAPE,
    Rejection.COUNTS,
    Rejection.NOT_FINITE,
    Rejection.PACKED,
}


def check_log(world: World) -> None:
    """Read a log as somebody who knows the rules and not the code."""
    game, records = world.game, world.written
    active, admitted = [True] * 3, set[str]()
    phase, is_open, is_last, is_over, epoch = 0, False, False, False, 1
    reported: set[str] = set()
    faults: Counter[str] = Counter()
    dropped: set[int] = set()
    may_return: set[int] = set()  # those that were out when another arm was withdrawn
    for record in records:
        if not isinstance(record, UpdateRejected | ServerStarted):
            check(not is_over, f"{type(record).__name__} after the end")
            ends = not is_last or isinstance(record, RunEnded)
            check(ends, f"{type(record).__name__} where no phase follows")
        match record:
            case PhaseOpened(assignment=assignment, admitted=newcomers, complete=complete):
                check(not is_open, "a phase was opened while one was open")
                check(assignment.phase == phase + 1, "a phase was left out")
                check(phase != game.rule.max_phases, "a phase after the last")
                check(admitted.isdisjoint(newcomers), "a client was admitted twice")
                pulled = [n > 0 for n in assignment.pulls]
                active = [active[k] or (pulled[k] and k in may_return) for k in range(3)]
                # An index rule leaves out what it need not ask for; one arm is always pulled.
                fair = (
                    any(pulled) and all(active[arm] for arm, n in enumerate(pulled) if n)
                    if not game.rule.scheduled
                    else pulled == active
                )
                check(
                    fair or not complete, "pulls of an arm that is out, or none of one that is in"
                )
                phase, is_open, is_last = assignment.phase, complete, not complete
                admitted |= set(newcomers)
                reported = set()
            case UpdateAccepted(update=update):
                check(is_open and update.phase == phase, "an update of another phase was counted")
                check(update.client not in reported, "an update was counted twice")
                check(update.client in admitted, "a stranger was counted")
                check(update.header.epoch == epoch, "an update of another epoch was counted")
                truth = world.answers.get((update.client, phase))
                check(replace(update, header=world.header) == truth, "a lie was counted")
                reported.add(update.client)
            case UpdateRejected(client=client, rejection=rejection):
                faults[client] += rejection in _FAULTY
            case PhaseClosed(decision=decision):
                check(is_open and decision.phase == phase, "another phase was decided")
                most = game.quarantine_after
                out = {name for name in admitted - reported if most and faults[name] >= most}
                needed = game.quorum.of(len(admitted - out))
                check(len(reported) >= needed, f"decided by {len(reported)}, quorum {needed}")
                stays = enumerate(zip(active, decision.active, strict=True))
                check(all(a or not b or k in may_return for k, (a, b) in stays), "an arm came back")
                dropped |= {k for k in range(3) if active[k]}
                active, may_return = list(decision.active), set()
                dropped -= {k for k in range(3) if active[k]}
                check(all(map(math.isfinite, decision.estimates)), "an estimate is no number")
                is_open, is_last = False, decision.final
            case PhaseAbandoned():
                check(is_open, "abandoned what was not open")
                is_open = False
            case ArmWithdrawn(arm=arm):
                check(active[arm] or arm in may_return, "an arm was withdrawn twice")
                active[arm] = False
                dropped.discard(arm)
                may_return = set(dropped)
            case ServerStarted(epoch=newer):
                check(newer > epoch, "an epoch was used twice")
                epoch = newer
            case RunEnded(decision=last):
                check(last.final, "a run has ended without a reason")
                stays = enumerate(zip(active, last.active, strict=True))
                check(all(a == b or k in may_return for k, (a, b) in stays), "other arms are left")
                is_open, is_over = False, True
        check(any(active) or bool(may_return), "no arm is left")
    check(is_over, "the last word is not in the log")


def check_end(world: World) -> None:
    """Somebody may stay on the arm that is told as the best."""
    live = world.server
    check(live.finished, "the run goes on")
    if live.decision is not None:
        best = live.decision.best
        check(best not in live.withdrawn, "clients are to stay on a withdrawn arm")
        check(live.decision.active[best], "clients are to stay on an arm that is out")


def check_replay(world: World) -> None:
    """The state is the log, and the decisions are what was accepted, in any order."""
    live = world.server
    replayed = Server.replay(
        world.game.rule,
        world.written,
        run=RUN,
        privacy=world.game.privacy,
        quorum=world.game.quorum,
        quarantine_after=world.game.quarantine_after,
    )
    check(replayed.snapshot() == live.snapshot(), "replay differs from the live state")
    check(replayed.decision == live.decision, "the decision of the replay differs")
    check(replayed.assignment == live.assignment, "the assignment of the replay differs")
    check(replayed.finished, "the replay goes on where the run has ended")
    # Made again from what was accepted alone, the other way round, by a server without a quorum.
    again = Server(
        world.game.rule, run=RUN, privacy=world.game.privacy, quorum=Quorum(fraction=1e-9)
    )
    waiting: list[Update] = []
    for record in world.written:
        match record:
            case PhaseOpened(admitted=admitted, assignment=assignment):
                check(again.open(admitted) == assignment, "another assignment")
            case UpdateAccepted(update=update):
                waiting.append(update)
                continue
            case UpdateRejected():
                continue
            case RunEnded(decision=last):  # it may have ended by itself
                if again.state is not ServerState.FINISHED:
                    again._commit(record)
                check(again.run_state.last_word == last, "another last word")
            case ServerStarted(epoch=epoch):
                waiting = [
                    replace(update, header=replace(update.header, epoch=epoch))
                    for update in waiting
                ]
                again._commit(record)
            case PhaseClosed(decision=decision):
                for update in reversed(waiting):
                    check(again.receive(update) is None, "an accepted update is rejected")
                waiting = []
                check(again.close() == decision, "another decision")
            case PhaseAbandoned():
                for update in reversed(waiting):
                    check(again.receive(update) is None, "an accepted update is rejected")
                waiting = []
                again._commit(record)
            case _:
                again._commit(record)


def decisions_of(world: World) -> list[Decision]:
    return [
        replace(record.decision, header=world.header)
        for record in world.written
        if isinstance(record, PhaseClosed)
    ]


def admissions_of(world: World) -> list[tuple[str, ...]]:
    return [record.admitted for record in world.written if isinstance(record, PhaseOpened)]


def nobody_was_left_out(world: World) -> bool:
    """Return whether every phase was decided by all clients, and nobody intervened."""
    admitted, reported = 0, 0
    for record in world.written:
        match record:
            case PhaseOpened(admitted=newcomers):
                admitted, reported = admitted + len(newcomers), 0
            case UpdateAccepted():
                reported += 1
            case PhaseClosed() if reported < admitted:
                return False
            case PhaseAbandoned() | ArmWithdrawn():
                return False
            case RunEnded(decision=last) if last.reason in (Reason.BUDGET, Reason.QUORUM):
                return False
    return True


@cache
def undisturbed(name: str, data: int) -> World:
    """Return the run of a game without any fault."""
    world = World(GAMES[name], data, CALM, seed=0)
    world.run()
    return world


_NAMES = {id(game): name for name, game in GAMES.items()}


def checked(world: World) -> bool:
    """Check a run that is over; return whether it was compared with the undisturbed one."""
    check_log(world)
    check_end(world)
    check_replay(world)
    if not nobody_was_left_out(world):
        return False
    calm = undisturbed(_NAMES[id(world.game)], world.data)
    if admissions_of(world) != admissions_of(calm):
        return False
    check(decisions_of(world) == decisions_of(calm), "faults have changed the decision")
    return True


def played(seed: int, mutant: Mutant | None = None, folder: Path | None = None) -> World:
    """Play the storm of a seed and check it; an error names the seed."""
    game, data, storm = planned(seed)
    world = World(game, data, storm, seed=seed, mutant=mutant, folder=folder)
    try:
        world.run()
        if checked(world):
            world.count("compared")
    except Exception as error:
        error.add_note(f"in the storm of seed {seed}: python tests/faults.py {seed}")
        raise
    finally:
        world.store.close()
    if folder is not None:
        content = read_log(folder / "run.fedlog")
        check(list(content.records) == world.written, "the file is not what was written")
    return world


def main() -> None:
    """Play one seed again and print its log."""
    seed = int(sys.argv[1])
    game, data, storm = planned(seed)
    world = World(game, data, storm, seed=seed)
    out = sys.stdout.write
    out(f"{_NAMES[id(game)]}, data {data}\n{storm}\n")
    try:
        world.run()
        checked(world)
    finally:
        for record in world.written:
            out(f"{record}\n")
        out(f"{dict(world.counts)}\n")


if __name__ == "__main__":
    main()
