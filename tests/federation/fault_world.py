"""A federation in a storm: a server, its clients and their disks, in one thread."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from fault_games import (
    _PROVOKED,
    GAMES,
    PATIENCE,
    RUN,
    WRITE_POINTS,
    BrokenError,
    CrashError,
    DiskError,
    Entries,
    FileEntries,
    FileStore,
    Game,
    Store,
    check,
    observations,
)
from fedbandits.errors import ProtocolError
from fedbandits.federation.coordinator import Coordinator
from fedbandits.privacy.sampling import NoiseKind
from fedbandits.protocol import (
    ArmWithdrawn,
    Assignment,
    Client,
    Conclusion,
    Decision,
    Entry,
    Halt,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    Recall,
    Receipt,
    Record,
    Refusal,
    RefusalError,
    Server,
    ServerSnapshot,
    ServerStarted,
    Update,
)
from fedbandits.protocol.client import Slice
from fedbandits.protocol.unfinished import MemoryWorkbench
from fedbandits.rules.arrays import IntArray

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
    slices: float = 0.0
    halt: float = 0.0
    claim: float = 0.0
    mailbox: bool = True
    """Whether answers wait for a server that is down."""
    target: tuple[str, str] | None = None
    """A write that goes wrong as soon as it comes."""


CALM = Storm(until=0.0)

_AFTER_HARM = ("ArmWithdrawn", "RecallConfirmed")
_OF_NODES = ("ClientsBound", "ClaimRefused")

Message: TypeAlias = Assignment | Recall | Conclusion
Answer: TypeAlias = Update | Refusal | Receipt


def planned(seed: int) -> tuple[Game, int, Storm]:
    """Return game, data and storm of a seed."""
    rng = random.Random(seed)
    target = rng.choice(sorted(WRITE_POINTS)) if rng.random() < 0.85 else None
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
        withdrawal=0.3 if target and target[0] in _AFTER_HARM else rate(0.05, 0.15, often=0.3),
        disk=rate(0.02, 0.05),
        mailbox=rng.random() < 0.5,
        target=target,
        slices=rate(0.2, 0.6),
        halt=0.3 if target and target[0] == "ClientHalted" else rate(0.02, 0.1, often=0.2),
        claim=0.9 if target and target[0] in _OF_NODES else rate(0.2, 0.6, often=0.4),
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
        self.workbench = MemoryWorkbench()  # what it keeps outlasts the process
        self.recalled: set[int] = set()
        self.halt: Halt | None = None

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
        check(arm not in self.recalled, "a withdrawn arm was pulled after it was recalled")
        check(self.halt is None or arm not in self.halt.arms, "a halted arm was pulled")
        if world.happens(world.storm.client_crash):
            raise CrashError("while it pulled")
        seen = observations(world.data, self.number, self.phase, arm, n)
        world.secrets.update(seen)
        return seen

    def noise(self, kind: NoiseKind, scale: float, size: int) -> IntArray:
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
            halted=lambda: self.halt,
            workbench=self.workbench,
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
        if isinstance(message, Recall):
            self.recalled.update(message.arms)
            return Receipt(
                header=message.header, client=self.name, arms=message.arms, halt=self.halt
            )
        self.phase = message.phase
        # An assignment from before a recall may come after it: the site remembers.
        self.recalled.update(message.withdrawn)
        out = sorted(arm for arm in self.recalled if message.pulls[arm])
        message = replace(message, withdrawn=tuple(out))
        part = None
        if world.happens(world.storm.slices):
            world.count("slice")
            part = Slice(seconds=0.0, in_all=math.inf, clock=lambda: 0.0)
        try:
            answer: Answer = replace(client.play(message, part), halt=self.halt)
        except RefusalError as error:
            world.count("refusal")
            return replace(error.refusal, halt=self.halt)
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
        self._check_bare(message)
        if isinstance(message, Recall):
            out = [record.arm for record in self.written if isinstance(record, ArmWithdrawn)]
            check(list(message.arms) == out, "what is recalled is not what the log says")
            return
        admitted = set(self.server.clients)
        if isinstance(message, Assignment):
            check(set(clients) <= admitted, "sent to somebody who is not admitted")
            check(message.phase == self.opened, "a phase was sent that is not in the log")
            missing = set(range(1, message.phase)) - self.ended
            check(not missing, f"phase {message.phase} was sent before the end of {missing}")
            return
        # Who was not let in is told the last word, too, if it can be reached.
        check(set(clients) >= admitted, "somebody who was admitted is not told the last word")
        check(set(clients) <= admitted | set(self.sites), "the last word is sent to strangers")
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
        phase = getattr(answer, "phase", 0)
        mute = last is not None and phase >= last
        if answer is None or (mute and site.number == self.game.clients - 1):
            return
        self._check_bare(answer)
        if isinstance(answer, Update):
            key = site.name, answer.phase
            same = replace(answer, header=self.header, halt=None) == self.answers.get(key)
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
        """Cut clients off, withdraw an arm, let a site halt one, or a node claim a client."""
        if self.happens(self.storm.claim) and not self.server.finished:
            self.count("claim of a node")
            # Of two clients, so that claims meet.
            name = self.rng.choice(list(self.sites)[:2])
            node = self.rng.choice(("east", "west"))
            known = self.server.run_state.homes.get(name, node)
            answers_for = self.server.settle(node, [name])
            check(answers_for == ([name] if known == node else []), "a client has two homes")
        if self.happens(self.storm.halt):
            self.count("halt at a site")
            site = self.rng.choice(list(self.sites.values()))
            arms = self.rng.choice(((), (0,), (1,), (2,), (0, 2), (0, 1, 2)))
            site.halt = Halt(arms=arms, reason="harm here") if arms else None
        if self.happens(self.storm.partition):
            self.count("partition")
            until = self.now + self.rng.choice((1.0, 5.0, 20.0))
            for site in self.rng.sample(list(self.sites.values()), self.rng.randrange(1, 4)):
                site.cut_until = until
        if self.happens(self.storm.withdrawal) and not self.server.finished:
            active = [arm for arm, is_in in enumerate(self.server.run_state.active) if is_in]
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
