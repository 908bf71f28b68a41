"""Games that storms befall, and stores that lose what a crash leaves unwritten."""

from __future__ import annotations

import json
import random
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from fedbandits.federation.audit_file import AuditFile
from fedbandits.federation.coordinator import Patience
from fedbandits.federation.durable_log import DurableLog
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.protocol import (
    Entry,
    HeadSigned,
    KeyPinned,
    Quorum,
    Record,
)
from fedbandits.protocol.codec import encode
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb, FedIndex
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.phased import PhasedRule
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
    "halt at a site",
    "claim of a node",
    "slice",
)
"""Every kind of fault, as counted."""

# Clients have no keys here; signatures are written together with what they are about.
RECORDS: tuple[type[Record], ...] = tuple(
    kind for kind in get_args(Record) if kind not in (KeyPinned, HeadSigned)
)
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
