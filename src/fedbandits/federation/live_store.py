"""What a client in live traffic keeps on disk: who got which option, and what came of it.

Units are numbered in the order in which they were assigned, without gaps. A phase counts the units
from its first number on, as many as it asks for: which ones count is settled when they are
assigned, and never by which outcomes come first.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np

from fedbandits.errors import InputError, ProtocolError
from fedbandits.federation.state_files import lock_file
from fedbandits.federation.trial import Trial
from fedbandits.protocol import Assignment, Decision
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.turns import turns

FORMAT = 1

WAIT = 10.0
"""So many seconds a process waits for another one that is writing."""

Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970: it goes on while no process runs."""

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS standing (only_one INTEGER PRIMARY KEY CHECK (only_one = 1),"
    " body TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS units (number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " unit TEXT NOT NULL UNIQUE, arm INTEGER NOT NULL, at REAL NOT NULL, value REAL) STRICT",
)
_TABLES = {"standing", "units", "sqlite_sequence"}

_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"

# One statement sees one state of the file.
_LOOK_UP = (
    "SELECT standing.body, units.number, units.arm, units.at, units.value"
    " FROM standing LEFT JOIN units ON units.unit = ?"
)

_AT_ONCE = 1000
"""So many units are read or forgotten at a time; others may write in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a client is in a run.

    Parameters
    ----------
    arms : tuple of str
        The options.
    active : tuple of bool
        Those that are in the game.
    run : str
        Its name; empty before the first phase.
    replaced : tuple of str
        Runs before it. What is late of them is not taken up again.
    begins : int
        The number of its first unit.
    phase : int
        The last phase that was assigned; 0 before the first.
    pulls : tuple of int
        How many units each option gets in it.
    first : int
        The number of its first unit.
    complete : bool
        Whether all its outcomes were there at some time: then they are final.
    best : int, optional
        The option that looks best, as far as the server has told.
    over : bool
        Whether the run is.
    """

    arms: tuple[str, ...]
    active: tuple[bool, ...]
    run: str = ""
    replaced: tuple[str, ...] = ()
    begins: int = 1
    phase: int = 0
    pulls: tuple[int, ...] = ()
    first: int = 1
    complete: bool = False
    best: int | None = None
    over: bool = False

    @property
    def size(self) -> int:
        """How many units the phase counts."""
        return 0 if self.over else sum(self.pulls)

    @property
    def last(self) -> int:
        """The number of the last unit that the phase counts."""
        return self.first + self.size - 1

    def counts(self, number: int) -> bool:
        """Return whether the phase counts a unit."""
        return self.first <= number <= self.last

    def outside(self, number: int) -> int:
        """Return the option of a unit that no phase counts: the best one, or each in turn."""
        if self.best is not None and self.active[self.best]:
            return self.best
        left = [arm for arm, inside in enumerate(self.active) if inside]
        return left[number % len(left)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """How far a phase is.

    Parameters
    ----------
    ready : bool
        Whether all its outcomes are final.
    words : str
        What is missing. It says nothing of outcomes: where only some units ever have one, how many
        are there is an outcome itself.
    """

    ready: bool
    words: str = ""


@dataclass(frozen=True, slots=True)
class _Unit:
    number: int
    arm: int
    at: float
    value: float | None


def order_of_units(seed: int, client: str, phase: int, pulls: Sequence[int]) -> Iterator[int]:
    """Yield the options of a phase's units, in permuted blocks of one unit each.

    Up to `fedbandits.protocol.turns.MOST_TURNS` units of an option it is the order in which
    `fedbandits.protocol.turns.permuted_blocks` pulls. With more that one pulls several times in a
    row, to save calls; there are none to save here.

    Examples
    --------
    >>> order = list(order_of_units(7, "shop-1", 1, [2, 0, 2]))
    >>> sorted(order[:2]), sorted(order[2:])
    ([0, 2], [0, 2])
    """
    rng = np.random.default_rng([seed, phase, *client.encode()])
    most = max(pulls, default=0)
    for block in range(most):
        # As even as whole numbers can be.
        now = [n * (block + 1) // most - n * block // most for n in pulls]
        for arm, _ in turns(now, rng):
            yield arm


class LiveStore:
    """The file of one client; several threads and processes may use it at once.

    Parameters
    ----------
    path : path
        Of the file; made if it is not there.
    client : str
        Whose it is.
    trial : Trial
        What is compared.
    clock : callable
        The time.
    durable : bool
        Whether what has returned is on disk. If not, a power cut may damage the file: for simulated
        traffic only.
    """

    def __init__(
        self,
        path: Path,
        client: str,
        trial: Trial,
        *,
        clock: Clock = time.time,
        durable: bool = True,
    ) -> None:
        if trial.live is None:
            raise InputError(
                "live",
                "is not in fedbandits.toml; write live = {} there, or when a unit without an"
                " outcome is final, as in live = { maturity = 86400, missing = 0.0 }",
            )
        self.path = path
        self.client = client
        self.trial = trial
        self.clock = clock
        self._live = trial.live
        self._durable = durable
        # What a unit's outcome tells must not show in when the phase is reported.
        self._private = trial.privacy is not None and trial.privacy.noise is not None
        self._order: Iterator[int] = iter(())
        self._order_of: tuple[str, int] = ("", 0)
        self._drawn = 0
        self._read: dict[int, Iterator[float]] = {}
        self._known = ""
        self._standing = _new_standing(trial)
        self._database: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        _STORES.add(self)

    # In the service -------------------------------------------------------------------------------

    def assign(self, unit: str) -> str:
        """Return a unit's option, the one it has or a new one; it is on disk then."""
        with self._reading() as database:
            standing, found = self._look_up(database, unit)
            if found is not None and self._keeps(standing, found):
                return standing.arms[found.arm]
        with self._writing() as database:
            standing, found = self._look_up(database, unit)
            if found is None or found.number < standing.begins:
                arm = self._take_in(database, standing, unit)
            elif self._keeps(standing, found):  # somebody else was faster
                arm = found.arm
            else:
                arm = standing.outside(found.number)
                database.execute(
                    "UPDATE units SET arm = ?, value = NULL WHERE number = ?", (arm, found.number)
                )
            return standing.arms[arm]

    def _keeps(self, standing: Standing, found: _Unit) -> bool:
        """Return whether a unit stays with its option: one that is out is not given any more."""
        return found.number >= standing.begins and standing.active[found.arm]

    def _take_in(self, database: sqlite3.Connection, standing: Standing, unit: str) -> int:
        number = _next_number(database)
        if standing.counts(number):
            arm = self._ordered(standing, number - standing.first)
        else:
            arm = standing.outside(number)
        database.execute(
            "INSERT OR REPLACE INTO units (number, unit, arm, at) VALUES (?, ?, ?, ?)",
            (number, unit, arm, self.clock()),
        )
        return arm

    def _ordered(self, standing: Standing, place: int) -> int:
        """Return the option in a place of the phase's order; places mostly come one by one."""
        phase = (standing.run, standing.phase)
        if phase != self._order_of or place < self._drawn:
            self._order = order_of_units(
                self.trial.seed, self.client, standing.phase, standing.pulls
            )
            self._order_of, self._drawn = phase, 0
        arm = next(islice(self._order, place - self._drawn, None))
        self._drawn = place + 1
        return arm

    def record(self, unit: str, value: float) -> bool:
        """Keep a unit's outcome; return whether it counts."""
        with self._reading() as database:
            counts = self._verdict(database, unit, value)[0]
        if counts is None:
            with self._writing() as database:
                counts, number = self._verdict(database, unit, value)
                if counts is None:
                    database.execute("UPDATE units SET value = ? WHERE number = ?", (value, number))
        return counts is not False

    def _verdict(
        self, database: sqlite3.Connection, unit: str, value: float
    ) -> tuple[bool | None, int]:
        """Return whether an outcome counts, or None if it is the unit's first; and the unit."""
        standing, found = self._look_up(database, unit)
        if found is None:
            raise InputError(
                "unit", f"{unit!r} was never assigned, or is forgotten; call assign(unit) first"
            )
        if not standing.counts(found.number):
            return False, found.number
        if found.value is not None:
            if found.value != value:
                raise InputError(
                    "value",
                    f"{value!r} for unit {unit!r}, whose outcome is {found.value!r}; a unit has one"
                    " outcome (add up what comes in parts, and record it once)",
                )
            return True, found.number
        maturity = self._live.maturity
        if standing.complete or (maturity is not None and self.clock() - found.at >= maturity):
            return False, found.number
        return None, found.number

    def wanted(self) -> int:
        """Return how many units more the phase counts; 0 when none is open."""
        with self._reading() as database:
            standing = self._look_up(database, "")[0]
            return max(0, standing.last + 1 - max(standing.first, _next_number(database)))

    def best(self) -> str | None:
        """Return the option to stay on; None while the run goes on."""
        with self._reading() as database:
            standing = self._look_up(database, "")[0]
        best = standing.best if standing.over else None
        return None if best is None else standing.arms[best]

    def forget(self, before: float) -> int:
        """Delete units that were assigned before a time and that the phase does not count."""
        forgotten, more = 0, True
        while more:
            with self._writing() as database:
                standing = self._look_up(database, "")[0]
                gone = database.execute(
                    "DELETE FROM units WHERE number IN (SELECT number FROM units WHERE at < ?"
                    " AND NOT number BETWEEN ? AND ? LIMIT ?)",
                    (before, standing.first, standing.last, _AT_ONCE),
                ).rowcount
            forgotten, more = forgotten + gone, gone == _AT_ONCE
        with self._reading() as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return forgotten

    # For the server's messages --------------------------------------------------------------------

    def take(self, assignment: Assignment) -> Collected:
        """Open the phase of an assignment, if it is a new one; return how far it is."""
        self._read = {}
        with self._writing() as database:
            standing = self._standing_now(database)
            run, phase = assignment.header.run, assignment.phase
            if run in standing.replaced:
                return Collected(ready=False, words=f'"{standing.run}" was begun here since')
            if run != standing.run:
                standing = self._begun(database, standing, run)
            if standing.over or phase < standing.phase:
                return Collected(ready=False, words=f"phase {phase} is over here")
            if phase > standing.phase:
                standing = _opened(standing, assignment, _next_number(database))
            elif assignment.pulls != standing.pulls:
                raise ProtocolError(
                    f"client {self.client}: phase {phase} with {assignment.pulls} pulls, and"
                    f" {standing.pulls} before"
                )
            came = min(_next_number(database) - standing.first, standing.size)
            if not standing.complete and came == standing.size:
                standing = replace(standing, complete=self._all_final(database, standing))
            self._keep(database, standing)
            if standing.complete:
                return Collected(ready=True)
            outcomes = "; their outcomes are waited for" if came == standing.size else ""
            return Collected(
                ready=False, words=f"{came} of {standing.size} units have come{outcomes}"
            )

    def _all_final(self, database: sqlite3.Connection, standing: Standing) -> bool:
        """Return whether no outcome of the phase is waited for any more."""
        maturity = self._live.maturity
        if maturity is None:
            waited = "value IS NULL"
        elif self._private:
            waited = "at > :young"
        else:
            waited = "value IS NULL AND at > :young"
        young = None if maturity is None else self.clock() - maturity
        (found,) = database.execute(
            "SELECT EXISTS (SELECT 1 FROM units"
            f" WHERE number BETWEEN :first AND :last AND {waited})",
            {"first": standing.first, "last": standing.last, "young": young},
        ).fetchone()
        return not found

    def read(self, arm: int, n: int) -> list[float]:
        """Return the next n outcomes of an option in the phase, in the order of assignment."""
        return list(islice(self._read.setdefault(arm, self._outcomes(arm)), n))

    def _outcomes(self, arm: int) -> Iterator[float]:
        with self._reading() as database:
            standing = self._standing_now(database)
        read = standing.first - 1
        while True:
            with self._reading() as database:
                rows = database.execute(
                    "SELECT number, coalesce(value, ?) FROM units WHERE number > ?"
                    " AND number <= ? AND arm = ? ORDER BY number LIMIT ?",
                    (self._live.missing, read, standing.last, arm, _AT_ONCE),
                ).fetchall()
            if not rows:
                return
            yield from (value for _, value in rows)
            read = rows[-1][0]

    def conclude(self, run: str, decision: Decision) -> None:
        """Keep the last decision of a run: units get the best option from now on."""
        with self._writing() as database:
            standing = self._standing_now(database)
            if run in standing.replaced:
                return
            if run != standing.run:
                standing = self._begun(database, standing, run)
            best = decision.best if decision.known else None
            over = replace(standing, over=True, active=decision.active, best=best)
            self._keep(database, over)

    def _begun(self, database: sqlite3.Connection, standing: Standing, run: str) -> Standing:
        """Return where a client is when a run begins: units of the one before are new again."""
        if not standing.run and standing.arms == self.trial.arms:
            return replace(standing, run=run)
        return self._fresh(standing, run, _next_number(database))

    def _fresh(self, standing: Standing, run: str, number: int) -> Standing:
        before = (standing.run,) if standing.run else ()
        return replace(
            _new_standing(self.trial),
            run=run,
            replaced=standing.replaced + before,
            begins=number,
            first=number,
        )

    # The file -------------------------------------------------------------------------------------

    def _look_up(self, database: sqlite3.Connection, unit: str) -> tuple[Standing, _Unit | None]:
        body, number, *rest = database.execute(_LOOK_UP, (unit,)).fetchone()
        standing = self._parsed(body)
        if standing.arms != self.trial.arms:
            raise InputError(
                "arms",
                f"{', '.join(self.trial.arms)} here, and the run that goes on has"
                f" {', '.join(standing.arms)}; give the service the same fedbandits.toml",
            )
        return standing, None if number is None else _Unit(number, *rest)

    def _standing_now(self, database: sqlite3.Connection) -> Standing:
        (body,) = database.execute("SELECT body FROM standing").fetchone()
        return self._parsed(body)

    def _parsed(self, body: str) -> Standing:
        if body != self._known:
            self._standing = decode(Standing, json.loads(body), "standing")
            self._known = body
        return self._standing

    def _keep(self, database: sqlite3.Connection, standing: Standing) -> None:
        body = json.dumps(encode(standing))
        if body != self._known:
            database.execute("INSERT OR REPLACE INTO standing VALUES (1, ?)", (body,))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._failing():
            yield self._connected()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._failing():
            database = self._connected()
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # it may be rolled back already
                    database.execute("ROLLBACK")
                raise

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InputError(
                str(self.path),
                f"cannot be used: {error} (is the disk full, the file somebody else's, or on a"
                " network drive?)",
            ) from error

    def _connected(self) -> sqlite3.Connection:
        if self._database is None:
            with self._alone():
                database = sqlite3.connect(
                    self.path, timeout=WAIT, isolation_level=None, check_same_thread=False
                )
                try:
                    self._prepare(database)
                except BaseException:
                    database.close()
                    raise
            self._database = database
        return self._database

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time open or close the file: SQLite does not wait in all of it."""
        try:
            lock = self.path.with_name(self.path.name + ".lock").open("ab")
        except OSError as error:
            raise InputError(str(self.path), f"cannot be opened: {error.strerror}") from None
        with lock:
            lock_file(lock, wait=True)
            yield

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the file if it is new, and begin anew if its options are of a run that is over."""
        database.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}")
        # What is forgotten is overwritten.
        database.execute("PRAGMA secure_delete = ON")
        tables = {name for (name,) in database.execute(_NAMES)}
        if not tables:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")
            for table in _SCHEMA:
                database.execute(table)
            body = json.dumps(encode(_new_standing(self.trial)))
            database.execute("INSERT OR IGNORE INTO standing VALUES (1, ?)", (body,))
            database.execute(f"PRAGMA user_version = {FORMAT}")
            database.execute("COMMIT")
        elif tables != _TABLES:
            raise InputError(
                str(self.path), "is a database, and not one of live traffic; name another folder"
            )
        (found,) = database.execute("PRAGMA user_version").fetchone()
        if found != FORMAT:
            raise InputError(str(self.path), f"has format {found}, and this version reads {FORMAT}")
        standing = self._standing_now(database)
        if standing.arms != self.trial.arms and (standing.over or not standing.run):
            database.execute("BEGIN IMMEDIATE")
            self._keep(database, self._fresh(standing, "", _next_number(database)))
            database.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file; whoever uses the store again opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            with self._alone():
                self._database.close()
        self._database = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def before_fork(self) -> None:
        """Let go of the file until `after_fork`: SQLite cannot be carried into another process."""
        self._lock.acquire()
        self._close()

    def after_fork(self) -> None:
        """Go on, in either process."""
        self._lock.release()


def _new_standing(trial: Trial) -> Standing:
    return Standing(arms=trial.arms, active=(True,) * len(trial.arms))


def _next_number(database: sqlite3.Connection) -> int:
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'units'").fetchone()
    return 1 if row is None else int(row[0]) + 1


def _opened(standing: Standing, assignment: Assignment, number: int) -> Standing:
    """Return where a client is when a phase begins, whatever became of the one before."""
    previous = assignment.previous
    return replace(
        standing,
        phase=assignment.phase,
        pulls=assignment.pulls,
        active=tuple(n > 0 for n in assignment.pulls),
        first=number,
        complete=False,
        best=None if previous is None else previous.best,
    )


_STORES: weakref.WeakSet[LiveStore] = weakref.WeakSet()
_FORKING: list[LiveStore] = []


def _before_fork() -> None:
    for store in list(_STORES):
        _FORKING.append(store)
        store.before_fork()


def _after_fork() -> None:
    while _FORKING:
        _FORKING.pop().after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
