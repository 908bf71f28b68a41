"""What a client in live traffic keeps on disk: who got which option, and what came of it.

The table of units is a ledger: every allocation adds a row, and the only change to a row is that
its outcome is entered, once. A row is removed only when its unit is forgotten. A phase counts the
units that are assigned first, as many as it asks for: which ones count is settled when they are
assigned, and never by which outcomes come first.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedbandits.errors import InputError
from fedbandits.federation.halts import HaltedError, halt_of, refuse_halted
from fedbandits.federation.state_files import Closing, alone_with, private_database
from fedbandits.federation.trial import Trial
from fedbandits.protocol import Assignment, Decision, Halt, Refusal, Refused
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.covariates import Adjustment
from fedbandits.protocol.outcomes import COVARIATE, joint_range
from fedbandits.protocol.turns import turns
from fedbandits.rules.attrition import uneven
from fedbandits.rules.guardrails import OUTCOME

FORMAT = 3

WAIT = 10.0
"""Seconds that a process waits for another one that is writing."""

WallClock: TypeAlias = Callable[[], float]
"""Seconds since 1970: a clock that runs on while no process does."""

_KEPT = (
    "CREATE TRIGGER IF NOT EXISTS units_are_kept BEFORE UPDATE ON units WHEN"
    " OLD.value IS NOT NULL OR OLD.number <> NEW.number OR OLD.unit <> NEW.unit"
    " OR OLD.arm <> NEW.arm OR OLD.at <> NEW.at OR OLD.phase <> NEW.phase"
    " OR OLD.place IS NOT NEW.place OR OLD.covariate IS NOT NEW.covariate"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS state (only_one INTEGER PRIMARY KEY CHECK (only_one = 1),"
    " body TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS units (number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " unit TEXT NOT NULL, arm INTEGER NOT NULL, at REAL NOT NULL, phase INTEGER NOT NULL,"
    " place INTEGER, value REAL, heard REAL, counted INTEGER, covariate REAL) STRICT",
    "CREATE INDEX IF NOT EXISTS units_by_name ON units (unit)",
    _KEPT,
    "CREATE TABLE IF NOT EXISTS reports (run TEXT NOT NULL, phase INTEGER NOT NULL,"
    " first INTEGER NOT NULL, last INTEGER NOT NULL, body TEXT NOT NULL,"
    " forgotten INTEGER NOT NULL, PRIMARY KEY (run, phase)) STRICT",
)
# Files of format 2 know of no covariates.
_FROM_FORMAT_2 = (
    "ALTER TABLE units ADD COLUMN covariate REAL",
    "DROP TRIGGER units_are_kept",
    _KEPT,
)
_TABLES = {"state", "units", "reports", "sqlite_sequence"}

# In files of trials with guardrails.
_GUARDED = (
    "CREATE TABLE IF NOT EXISTS guarded (number INTEGER NOT NULL, name TEXT NOT NULL,"
    " value REAL NOT NULL, PRIMARY KEY (number, name)) STRICT",
    "CREATE TRIGGER IF NOT EXISTS guarded_are_kept BEFORE UPDATE ON guarded"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)

_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"

# One statement sees one state of the file.
_LOOK_UP = (
    "SELECT state.body, units.number, units.arm, units.at, units.phase, units.value,"
    " units.counted FROM state LEFT JOIN units"
    " ON units.number = (SELECT max(number) FROM units WHERE unit = ?)"
)

_COUNTED = "CASE WHEN counted THEN value ELSE ? END"
"""What a unit counts: its outcome, or the value of a unit whose outcome has not come in time."""

_GUARDED_VALUE = (
    "CASE WHEN counted THEN (SELECT value FROM guarded WHERE guarded.number = units.number"
    " AND name = ?) ELSE ? END"
)
"""What a unit counts of the guardrail of a name, likewise."""

_NO_GUARDRAIL = (
    "a unit of the phase has none; give the service the same fedbandits.toml as the node, and"
    " record(unit, value, {}=…)"
)

_NO_COVARIATE = (
    "a unit of the phase has none; give the service the same fedbandits.toml as the node, and"
    " assign(unit, covariate=…)"
)

_AT_ONCE = 1000
"""How many units are read or forgotten at a time; others may write in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """Where a client is in a run.

    Parameters
    ----------
    arms : tuple of str
        The options.
    active : tuple of bool
        Those that the last phase has, or that were left in the end.
    withdrawn : tuple of int
        Options that nobody gets in the rest of this run.
    run : str
        Its name; empty before the first phase.
    replaced : tuple of str
        Runs before it. Their late messages are ignored.
    begins : int
        The number of its first unit.
    phase : int
        The last phase that was assigned; 0 before the first.
    pulls : tuple of int
        How many units each option was to get in it.
    left_out : tuple of int
        Options of the phase that were withdrawn, or halted here, since it was opened.
    first : int
        The number of the first unit after the phase was opened.
    part, since : int
        How often the order of the phase was drawn again, because options were left out; and after
        how many of its units the last time.
    rest : tuple of int
        How many units each option gets from there on.
    last : int, optional
        The number of the phase's last unit, once it was assigned.
    complete : bool
        Whether all its outcomes were there at some time: then they are final.
    best : int, optional
        The option that looks best, as far as the server has told.
    over : bool
        Whether the run is.
    """

    arms: tuple[str, ...]
    active: tuple[bool, ...]
    withdrawn: tuple[int, ...] = ()
    run: str = ""
    replaced: tuple[str, ...] = ()
    begins: int = 1
    phase: int = 0
    pulls: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()
    first: int = 1
    part: int = 0
    since: int = 0
    rest: tuple[int, ...] = ()
    last: int | None = None
    complete: bool = False
    best: int | None = None
    over: bool = False

    @property
    def open(self) -> bool:
        """Whether a phase is open here."""
        return self.phase > 0 and not self.over

    @property
    def size(self) -> int:
        """How many units the phase has, including those of options that were left out."""
        return self.since + sum(self.rest) if self.open else 0

    @property
    def asked(self) -> frozenset[int]:
        """The options of the phase that are reported."""
        return frozenset(k for k, n in enumerate(self.pulls) if n).difference(self.left_out)

    def counts(self, unit: _Unit) -> bool:
        """Return whether the phase counts a unit."""
        inside = unit.number >= self.first and unit.phase == self.phase
        return self.open and inside and unit.arm not in self.left_out

    def given(self, out: Collection[int]) -> list[int]:
        """Return the options that may be given: those of the phase, except halted ones.

        If all of the phase were withdrawn, others come back with the next one.
        """
        free = [k for k in range(len(self.arms)) if k not in self.withdrawn]
        return [k for k in [k for k in free if self.active[k]] or free if k not in out]

    def outside(self, number: int, out: Collection[int]) -> int:
        """Return the option of a unit that no phase counts: the best one, or each in turn."""
        left = self.given(out)
        return self.best if self.best in left else left[number % len(left)]


@dataclass(frozen=True, slots=True)
class _Unit:
    number: int
    arm: int
    at: float
    phase: int
    value: float | None
    counted: int | None


def order_of_units(
    seed: int, client: str, phase: int, pulls: Sequence[int], part: int = 0
) -> Iterator[int]:
    """Yield the options of a phase's units, in permuted blocks of one unit each.

    Each part of a phase has a new order: the options that are left then, in full blocks.

    Up to `fedbandits.protocol.turns.MOST_TURNS` units of an option it is the order in which
    `fedbandits.protocol.turns.permuted_blocks` pulls. With more that one pulls several times in a
    row, to save calls; there are none to save here.

    Examples
    --------
    >>> order = list(order_of_units(7, "shop-1", 1, [2, 0, 2]))
    >>> sorted(order[:2]), sorted(order[2:])
    ([0, 2], [0, 2])
    """
    rng = np.random.default_rng([seed, phase, *client.encode(), *([256 + part] if part else [])])
    most = max(pulls, default=0)
    for block in range(most):
        # As even as whole numbers can be.
        now = [n * (block + 1) // most - n * block // most for n in pulls]
        for arm, _ in turns(now, rng):
            yield arm


@dataclass(eq=False)
class LiveStore(Closing):
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

    path: Path
    client: str
    trial: Trial
    _: KW_ONLY
    clock: WallClock = time.time
    durable: bool = True

    def __post_init__(self) -> None:
        trial = self.trial
        if trial.live is None:
            raise InputError(
                "live",
                "is not in fedbandits.toml; write live = {} there, or when a unit without an"
                " outcome is final, as in live = { maturity = 86400, missing = 0.0 }",
            )
        self._live = trial.live
        # The time of the report must not reveal anything about outcomes.
        self._private = trial.privacy is not None and trial.privacy.noise is not None
        self._order: Iterator[int] = iter(())
        self._order_of: tuple[str, int, int] = ("", 0, 0)
        self._drawn = self._latest = 0
        self._read: dict[int, Iterator[tuple[Any, ...]]] = {}
        self.adjustment: Adjustment | None = None
        """What outcomes are adjusted by in the run, if the trial has a covariate."""
        self._known = ""
        self._state = _new_state(trial)
        self._connection: sqlite3.Connection | None = None
        self.lock = threading.Lock()
        _STORES.add(self)

    # In the service -------------------------------------------------------------------------------

    def assign(self, unit: str, covariate: float | None = None) -> str:
        """Return a unit's option, the one it has or a new one, once it is on disk."""
        halt = self._halt_here()
        out = halt.arms
        with self._reading():
            state, found = self._look_up(unit)
            if found is not None and self._keeps(state, found, out):
                return self._given(state, found.arm)
        with self._writing():
            state, found = self._look_up(unit)
            if not state.given(out):
                why = f" ({halt.reason})" if halt.arms else ""
                raise HaltedError(
                    "assign", f"the trial is halted here{why}; give what you give without it"
                )
            state = self._without(state, out)
            if found is not None and self._keeps(state, found, out):  # another call was faster
                arm = found.arm
            else:
                fresh = found is None or found.number < state.begins
                arm = self._allocate(state, unit, out, covariate, fresh=fresh)
            return self._given(state, arm)

    def _given(self, state: LiveState, arm: int) -> str:
        """Return what a unit of an option gets, by the name that the service knows."""
        return state.arms[arm] if self.trial.treatment is None else self.trial.treatment

    def _halt_here(self) -> Halt:
        """Return what the operator of this client has halted, or that nothing is."""
        found = halt_of(self.path.parent, self.client, self.trial.arms)
        return found or Halt(arms=(), reason="")

    def halt(self) -> Halt | None:
        """Return the options that were halted here at any time since the phase was opened."""
        with self._reading():
            state = self._state_now()
        arms = tuple(k for k in state.left_out if k not in state.withdrawn)
        return Halt(arms=arms, reason="") if arms else None

    def _keeps(self, state: LiveState, found: _Unit, out: Collection[int]) -> bool:
        """Return whether a unit stays with its option: one that is out is no longer given."""
        inside = state.active[found.arm] and found.arm not in state.withdrawn
        return found.number >= state.begins and inside and found.arm not in out

    def next_option(self) -> str:
        """Return what the phase's next unit gets, for simulated traffic: no other call may come."""
        with self._reading():
            state = self._state_now()
            place = self._next_place(state)
            return self._given(
                state, state.outside(0, ()) if place is None else self._ordered(state, place)
            )

    def _allocate(
        self,
        state: LiveState,
        unit: str,
        out: Collection[int],
        covariate: float | None,
        *,
        fresh: bool,
    ) -> int:
        """Add a row to the ledger; only a unit that has had no option in this run counts."""
        number = self._next_number()
        place = self._next_place(state) if fresh else None
        if place is None:
            arm = state.outside(number, out)
        else:
            arm = self._ordered(state, place)
            if place + 1 == state.size:
                state = replace(state, last=number)
        self._database.execute(
            "INSERT INTO units (number, unit, arm, at, phase, place, covariate)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                number,
                unit,
                arm,
                self.clock(),
                0 if place is None else state.phase,
                place,
                covariate,
            ),
        )
        self._keep(state)
        return arm

    def _next_number(self) -> int:
        find = "SELECT seq FROM sqlite_sequence WHERE name = 'units'"
        row = self._database.execute(find).fetchone()
        return 1 if row is None else int(row[0]) + 1

    def _next_place(self, state: LiveState) -> int | None:
        """Return the place of the next unit in the phase; None if no phase counts it."""
        if not state.open or state.last is not None:
            return None
        place = self._came(state)
        return place if place < state.size else None

    def _came(self, state: LiveState) -> int:
        """Return how many units of the open phase have come."""
        if state.last is not None:
            return state.size
        row = self._database.execute(
            "SELECT place FROM units WHERE number >= ? AND place IS NOT NULL"
            " ORDER BY number DESC LIMIT 1",
            (state.first,),
        ).fetchone()
        return 0 if row is None else int(row[0]) + 1

    def _ordered(self, state: LiveState, place: int) -> int:
        """Return the option at a place in the phase's order; places mostly come in sequence."""
        order = (state.run, state.phase, state.part)
        place -= state.since
        if order == self._order_of and place == self._drawn - 1:
            return self._latest
        if order != self._order_of or place < self._drawn:
            self._order = order_of_units(
                self.trial.seed, self.client, state.phase, state.rest, state.part
            )
            self._order_of, self._drawn = order, 0
        arm = next(islice(self._order, place - self._drawn, None))
        self._drawn, self._latest = place + 1, arm
        return arm

    def _without(self, state: LiveState, out: Collection[int]) -> LiveState:
        """Return where a client is when options are withdrawn or halted in the open phase.

        Those that are left still get as many units as they were to get. An option that is halted
        and lifted again comes back with the next phase. If all are halted the phase waits.
        """
        asked = state.asked.difference(state.withdrawn)
        halted = asked.intersection(out)
        gone = (state.asked - asked) | (halted if halted != asked else set())
        if not state.open or not gone:
            return state
        left_out = tuple(sorted({*state.left_out, *gone}))
        by_arm = "SELECT arm, count(*) FROM units WHERE number >= ? AND phase = ? GROUP BY arm"
        came = dict(self._database.execute(by_arm, (state.first, state.phase)).fetchall())
        rest = tuple(0 if k in left_out else n - came.get(k, 0) for k, n in enumerate(state.pulls))
        last = state.last
        if last is None and not sum(rest):
            last = self._next_number() - 1
        part, since = state.part + 1, sum(came.values())
        return replace(state, left_out=left_out, part=part, since=since, rest=rest, last=last)

    def record(self, unit: str, value: float, guarded: Mapping[str, float] | None = None) -> bool:
        """Keep a unit's outcome and guardrails, counting or not; return whether they count."""
        guarded = guarded or {}
        with self._reading():
            found, counts = self._judged(unit, value, guarded)
        if found.value is not None:
            return counts
        with self._writing():
            found, counts = self._judged(unit, value, guarded)
            if found.value is None:
                self._database.execute(
                    "UPDATE units SET value = ?, heard = ?, counted = ? WHERE number = ?",
                    (value, self.clock(), int(counts), found.number),
                )
                if guarded:
                    self._database.executemany(
                        "INSERT INTO guarded VALUES (?, ?, ?)",
                        [(found.number, name, one) for name, one in guarded.items()],
                    )
        return counts

    def _judged(self, unit: str, value: float, guarded: Mapping[str, float]) -> tuple[_Unit, bool]:
        """Return a unit, and whether an outcome of it counts."""
        state, found = self._look_up(unit)
        if found is None:
            raise InputError(
                "unit", f"{unit!r} was never assigned, or is forgotten; call assign(unit) first"
            )
        if not state.counts(found):
            return found, False
        if found.value is not None:
            if found.value != value:
                raise InputError(
                    "value",
                    f"{value!r} for unit {unit!r}, whose outcome is {found.value!r}; a unit has one"
                    " outcome (add up what comes in parts, and record it once)",
                )
            if guarded:
                find = "SELECT name, value FROM guarded WHERE number = ?"
                known = dict(self._database.execute(find, (found.number,)).fetchall())
                if known != guarded:
                    raise InputError(
                        "guardrails",
                        f"{guarded} for unit {unit!r}, which has {known}; a unit has one value of"
                        " each (wait until all are known, and record them once)",
                    )
            return found, bool(found.counted)
        maturity = self._live.maturity
        late = maturity is not None and self.clock() - found.at >= maturity
        return found, not (state.complete or late)

    def wanted(self) -> int:
        """Return how many more units the phase counts; 0 if none is open."""
        with self._reading():
            state = self._look_up("")[0]
            return max(0, state.size - self._came(state)) if state.open else 0

    def best(self) -> str | None:
        """Return the option to stay on, unless it is halted; None while the run goes on."""
        with self._reading():
            state = self._look_up("")[0]
        if state.best is None or not state.over:
            return None
        best = state.arms[state.best]
        refuse_halted(self.path.parent, self.client, best, state.arms)
        return self._given(state, state.best)

    def forget(self, before: float) -> int:
        """Delete units that were assigned before a time and that the phase does not count."""
        forgotten, more = 0, True
        while more:
            with self._writing():
                state = self._look_up("")[0]
                gone = self._database.execute(
                    "DELETE FROM units WHERE number IN (SELECT number FROM units WHERE at < ?"
                    " AND NOT (phase = ? AND number >= ?) LIMIT ?) RETURNING number, phase",
                    (before, state.phase if state.open else -1, state.first, _AT_ONCE),
                ).fetchall()
                if self.trial.guardrails:
                    self._database.executemany(
                        "DELETE FROM guarded WHERE number = ?", [(number,) for number, _ in gone]
                    )
                self._database.executemany(
                    "UPDATE reports SET forgotten = forgotten + 1"
                    " WHERE ? BETWEEN first AND last AND phase = ?",
                    gone,
                )
            forgotten, more = forgotten + len(gone), len(gone) == _AT_ONCE
        with self._reading():
            (busy, _, _) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise InputError(
                str(self.path),
                f"{forgotten} units are deleted, and not overwritten on disk yet, because a program"
                " reads the file all the time; end it and forget again",
            )
        return forgotten

    # For the server's messages --------------------------------------------------------------------

    def has_begun(self, run: str) -> bool:
        """Return whether units are assigned for a run, or were."""
        with self._reading():
            return self._state_now().run == run

    def take(self, assignment: Assignment) -> Refusal | tuple[int, ...]:
        """Open the phase of an assignment, if it is a new one.

        Return the withdrawn options once all outcomes of the phase are final, and until then a
        refusal that says what is missing. It says nothing of outcomes: if only some units ever have
        one, how many there are is an outcome itself.
        """
        self._read = {}
        phase, refused = assignment.phase, partial(assignment.refused, self.client)
        with self._in_run(assignment.header.run) as found:
            if found is None:
                return refused(Refused.BUSY, f'"{self._state.run}" has begun here since')
            if found.over or phase < found.phase:
                return refused(Refused.PLAYED, f"phase {phase} is over here")
            state = found
            if phase > state.phase:
                state = _opened(state, assignment, self._next_number())
            elif assignment.pulls != state.pulls:
                words = f"phase {phase} with {assignment.pulls} pulls, and {state.pulls} before"
                return refused(Refused.PLAYED, words)
            halt = self._halt_here()
            state = self._without(_withdrawn(state, assignment.withdrawn), halt.arms)
            came = self._came(state)
            if not state.complete and came == state.size and self._all_final(state):
                state = replace(state, complete=True)
                self._keep_report(state)
            self._keep(state)
            if halt.arms and state.asked <= set(halt.arms):
                return refused(Refused.HALTED, halt.reason)
            if state.complete:
                return state.withdrawn
            outcomes = "; their outcomes are waited for" if came == state.size else ""
            return refused(Refused.PENDING, f"{came} of {state.size} units have come{outcomes}")

    def recall(self, run: str, arms: Sequence[int]) -> None:
        """Take options back: nobody gets them in this run from now on."""
        with self._in_run(run) as state:
            if state is not None:
                self._keep(self._without(_withdrawn(state, arms), ()))

    def _all_final(self, state: LiveState) -> bool:
        """Return whether all outcomes of the phase are final."""
        maturity = self._live.maturity
        waited, young = "value IS NULL", -math.inf
        if maturity is not None:
            waited = "TRUE" if self._private else waited
            young = self.clock() - maturity
        left = ", ".join(map(str, sorted(state.asked)))
        (found,) = self._database.execute(
            "SELECT EXISTS (SELECT 1 FROM units WHERE number BETWEEN :first AND :last"
            f" AND phase = :phase AND arm IN ({left}) AND {waited} AND at > :young)",
            {"first": state.first, "last": state.last, "phase": state.phase, "young": young},
        ).fetchone()
        return not found

    def _keep_report(self, state: LiveState) -> None:
        """Keep what is about to be reported, before it is protected, so that it can be verified."""
        last = self._next_number() - 1 if state.last is None else state.last
        privacy = self.trial.privacy
        kept: dict[str, Any] = {
            "arms": state.arms,
            "missing": self._live.missing,
            # Outcomes outside it are kept as they are, and clipped when they count.
            "range": joint_range((self.trial.range, None if privacy is None else privacy.range)),
        }
        if self.trial.covariate is not None and self.adjustment is not None:
            kept["range"] = self.trial.range
            kept["adjusted"] = {
                "range": self.trial.covariate.range,
                "coefficient": self.adjustment.coefficient,
                "mean": self.adjustment.mean,
            }
        found = values_of(self._database, (state.first, last, state.phase), state.asked, kept)
        each = [found.get(arm, []) for arm in range(len(state.arms))]
        counts = [len(values) for values in each]
        means = [mean_of(values) for values in each]
        lost = dict(
            self._database.execute(
                "SELECT arm, count(*) FROM units WHERE number BETWEEN ? AND ? AND phase = ?"
                " AND (value IS NULL OR NOT counted) GROUP BY arm",
                (state.first, last, state.phase),
            ).fetchall()
        )
        losses = [lost.get(arm, 0) if counts[arm] else 0 for arm in range(len(counts))]
        if self.trial.guardrails:
            assumed = {rail.name: rail.assumed for rail in self.trial.guardrails}
            units = (state.first, last, state.phase)
            kept["assumed"] = assumed
            kept["guardrails"] = guarded_of(self._database, units, state.asked, kept)
        # Blocks that an option was taken out of are not balanced, and prove nothing about losses.
        balanced = {} if state.part else {"lost": losses}
        body = json.dumps({**kept, "counts": counts, "means": means, **balanced})
        report = (state.run, state.phase, state.first, last, body)
        self._database.execute("INSERT OR REPLACE INTO reports VALUES (?, ?, ?, ?, ?, 0)", report)

    def uneven(self) -> tuple[int, ...]:
        """Return the options of which suspiciously many units were lost in this run."""
        if not self._live.attrition:
            return ()
        with self._reading():
            rows = self._database.execute(
                "SELECT body FROM reports WHERE run = ? ORDER BY phase", (self._state_now().run,)
            ).fetchall()
        # Not all reports say it.
        kept = [one for one in (json.loads(body) for (body,) in rows) if "lost" in one]
        shape = (len(kept), len(self.trial.arms))
        assigned, lost = (
            np.array([one[key] for one in kept], dtype=np.int64).reshape(shape)
            for key in ("counts", "lost")
        )
        return tuple(np.flatnonzero(uneven(assigned, lost)).tolist())

    def read(self, arm: int, n: int) -> list[float] | dict[str, list[float]]:
        """Return the next n outcomes of an option in the phase, in the order of assignment.

        If there are guardrails or a covariate, it is a mapping as `parted` takes it.
        """
        rows = list(islice(self._read.setdefault(arm, self._outcomes(arm)), n))
        names = [OUTCOME, *(rail.name for rail in self.trial.guardrails), COVARIATE]
        columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
        if self.trial.covariate is None:
            del columns[COVARIATE]
        elif None in columns[COVARIATE]:
            raise InputError(COVARIATE, _NO_COVARIATE)
        for rail in self.trial.guardrails:
            if None in columns[rail.name]:
                raise InputError(rail.name, _NO_GUARDRAIL.format(rail.name))
        return columns[OUTCOME] if len(columns) == 1 else columns

    def _outcomes(self, arm: int) -> Iterator[tuple[Any, ...]]:
        with self._reading():
            state = self._state_now()
        read, rails = state.first - 1, self.trial.guardrails
        second = f", {_GUARDED_VALUE}" * len(rails)
        assumed = [one for rail in rails for one in (rail.name, rail.assumed)]
        while True:
            with self._reading():
                rows = self._database.execute(
                    f"SELECT number, {_COUNTED}{second}, covariate FROM units WHERE number > ?"
                    " AND number <= ? AND phase = ? AND arm = ? ORDER BY number LIMIT ?",
                    (self._live.missing, *assumed, read, state.last, state.phase, arm, _AT_ONCE),
                ).fetchall()
            if not rows:
                return
            yield from (row[1:] for row in rows)
            read = rows[-1][0]

    def conclude(self, run: str, decision: Decision) -> None:
        """Keep the last decision of a run: units get the best option from now on."""
        best = decision.best if decision.known else None
        with self._in_run(run) as state:
            if state is not None:
                over = replace(state, over=True, active=decision.active, best=best)
                # If none is left, none is given, whether or not a recall has come.
                gone = () if any(decision.active) else range(len(state.arms))
                self._keep(_withdrawn(over, gone))

    @contextmanager
    def _in_run(self, run: str) -> Iterator[LiveState | None]:
        """Yield where a client is in a run, which may begin now; None if a later one has begun.

        When a run begins, units of the one before are new again.
        """
        with self._writing():
            state = self._state_now()
            if run in state.replaced:
                yield None
            elif run == state.run:
                yield state
            elif not state.run and state.arms == self.trial.arms:
                yield replace(state, run=run)
            else:
                yield self._fresh(state, run)

    def _fresh(self, state: LiveState, run: str) -> LiveState:
        """Return where a client is when a run begins after another one."""
        replaced = (*state.replaced, state.run) if state.run else state.replaced
        now = self._next_number()
        return replace(_new_state(self.trial), run=run, replaced=replaced, begins=now, first=now)

    # The file -------------------------------------------------------------------------------------

    def _look_up(self, unit: str) -> tuple[LiveState, _Unit | None]:
        body, number, *rest = self._database.execute(_LOOK_UP, (unit,)).fetchone()
        state = self._parsed(body)
        if state.arms != self.trial.arms:
            raise InputError(
                "arms",
                f"{', '.join(self.trial.arms)} here, and the run that goes on has"
                f" {', '.join(state.arms)}; give the service the same fedbandits.toml",
            )
        return state, None if number is None else _Unit(number, *rest)

    def _state_now(self) -> LiveState:
        (body,) = self._database.execute("SELECT body FROM state").fetchone()
        return self._parsed(body)

    def _parsed(self, body: str) -> LiveState:
        if body != self._known:
            self._state = decode(LiveState, json.loads(body), "state")
            self._known = body
        return self._state

    def _keep(self, state: LiveState) -> None:
        body = json.dumps(encode(state))
        if body != self._known:
            self._database.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (body,))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self.lock:
            try:
                yield
            except (sqlite3.Error, UnicodeDecodeError, json.JSONDecodeError) as error:
                raise InputError(
                    str(self.path),
                    f"cannot be used: {error} (is the disk full, the file somebody else's, or on a"
                    " network drive?)",
                ) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._reading():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # it may be rolled back already
                    self._database.execute("ROLLBACK")
                raise

    @property
    def _database(self) -> sqlite3.Connection:
        """The file: opened when it is needed, in `_reading` or `_writing`."""
        if self._connection is None:
            with alone_with(self.path):
                private_database(self.path)
                self._connection = sqlite3.connect(
                    self.path, timeout=WAIT, isolation_level=None, check_same_thread=False
                )
                try:
                    self._prepare()
                except BaseException:
                    self._connection.close()
                    self._connection = None
                    raise
        return self._connection

    def _prepare(self) -> None:
        """Make a new file, and start afresh if the options are those of a run that is over."""
        self._database.execute(f"PRAGMA synchronous = {'FULL' if self.durable else 'OFF'}")
        # What is forgotten is overwritten.
        self._database.execute("PRAGMA secure_delete = ON")
        tables = {name for (name,) in self._database.execute(_NAMES)}
        if not tables:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("BEGIN IMMEDIATE")
            for table in _SCHEMA:
                self._database.execute(table)
            body = json.dumps(encode(_new_state(self.trial)))
            self._database.execute("INSERT OR IGNORE INTO state VALUES (1, ?)", (body,))
            self._database.execute(f"PRAGMA user_version = {FORMAT}")
            self._database.execute("COMMIT")
        elif tables - {"guarded"} != _TABLES:
            raise InputError(str(self.path), "is not a file of live traffic; name another folder")
        (found,) = self._database.execute("PRAGMA user_version").fetchone()
        if found == FORMAT - 1:
            self._database.execute("BEGIN IMMEDIATE")
            for change in _FROM_FORMAT_2:
                self._database.execute(change)
            self._database.execute(f"PRAGMA user_version = {FORMAT}")
            self._database.execute("COMMIT")
            found = FORMAT
        if found != FORMAT:
            raise InputError(str(self.path), f"has format {found}, and this version reads {FORMAT}")
        if self.trial.guardrails and "guarded" not in tables:
            self._database.execute("BEGIN IMMEDIATE")
            for table in _GUARDED:
                self._database.execute(table)
            self._database.execute("COMMIT")
        state = self._state_now()
        if state.arms != self.trial.arms and (state.over or not state.run):
            self._database.execute("BEGIN IMMEDIATE")
            self._keep(self._fresh(state, ""))
            self._database.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file; the next use of the store opens it again."""
        with self.lock:
            self.close_file()

    def close_file(self) -> None:
        """Let go of the file; the caller holds the lock."""
        if self._connection is not None:
            with alone_with(self.path):
                self._connection.close()
        self._connection = None


def _new_state(trial: Trial) -> LiveState:
    return LiveState(arms=trial.arms, active=(True,) * len(trial.arms))


def _opened(state: LiveState, assignment: Assignment, number: int) -> LiveState:
    """Return where a client is when a phase begins, however the one before it ended."""
    previous = assignment.previous
    return replace(
        state,
        phase=assignment.phase,
        pulls=assignment.pulls,
        active=tuple(n > 0 for n in assignment.pulls),
        left_out=(),
        first=number,
        part=0,
        since=0,
        rest=assignment.pulls,
        last=None,
        complete=False,
        best=None if previous is None else previous.best,
    )


def arms_in(folder: Path) -> tuple[str, ...]:
    """Return the options of the trial whose live traffic is in a folder; none if it has none."""
    for path in sorted(folder.glob("*.live.sqlite")):
        with suppress(sqlite3.Error, InputError, ValueError):
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
                (body,) = file.execute("SELECT body FROM state").fetchone()
            state: LiveState = decode(LiveState, json.loads(body), "state")
            return state.arms
    return ()


def _withdrawn(state: LiveState, arms: Sequence[int]) -> LiveState:
    return replace(state, withdrawn=tuple(sorted({*state.withdrawn, *arms})))


def values_of(
    database: sqlite3.Connection,
    units: tuple[int, int, int],
    arms: Collection[int],
    kept: Mapping[str, Any],
) -> dict[int, list[float]]:
    """Return what the units of a phase count, by option: outcomes in time, within the range.

    Parameters
    ----------
    database : sqlite3.Connection
        Of the ledger.
    units : (int, int, int)
        Numbers of the first and the last unit, and the phase.
    arms : collection of int
        The options that are reported.
    kept : mapping
        What was kept of the report: ``missing``, ``range``, and what outcomes were ``adjusted`` by.
    """
    found: dict[int, list[float]] = {arm: [] for arm in arms}
    low, high = kept["range"] or (-math.inf, math.inf)
    by = kept.get("adjusted")
    # A ledger of before covariates has no such column.
    before = "NULL" if by is None else "covariate"
    rows = database.execute(
        f"SELECT arm, value, counted, {before} FROM units"
        " WHERE number BETWEEN ? AND ? AND phase = ?",
        units,
    )
    for arm, value, counted, covariate in rows:
        if arm not in found:
            continue
        known = counted and value is not None
        outcome = min(max(float(value if known else kept["missing"]), low), high)
        if by is not None:
            if covariate is None:
                raise InputError("covariate", _NO_COVARIATE)
            held = min(max(covariate, by["range"][0]), by["range"][1])
            outcome -= by["coefficient"] * (held - by["mean"])
        found[arm].append(outcome)
    return found


def guarded_of(
    database: sqlite3.Connection,
    units: tuple[int, int, int],
    arms: Collection[int],
    kept: Mapping[str, Any],
) -> list[list[float]]:
    """Return the sums of guardrails over the units of a phase, one row per guardrail.

    Parameters
    ----------
    database, units, arms
        As in `values_of`.
    kept : mapping
        What was kept of the report: ``arms`` and ``assumed``.
    """
    found = []
    for name, assumed in kept["assumed"].items():
        values: dict[int, list[float]] = {arm: [] for arm in arms}
        rows = database.execute(
            f"SELECT arm, {_GUARDED_VALUE} FROM units WHERE number BETWEEN ? AND ? AND phase = ?",
            (name, assumed, *units),
        )
        for arm, value in rows:
            if arm in values:
                if value is None:
                    raise InputError(name, _NO_GUARDRAIL.format(name))
                values[arm].append(float(value))
        found.append([math.fsum(values.get(arm, ())) for arm in range(len(kept["arms"]))])
    return found


def mean_of(values: Sequence[float]) -> float:
    """Return the mean; 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


_STORES: weakref.WeakSet[LiveStore] = weakref.WeakSet()
_FORKING: list[LiveStore] = []


def _before_fork() -> None:
    """Let go of all files: SQLite cannot be carried into another process."""
    for store in list(_STORES):
        store.lock.acquire()
        _FORKING.append(store)
        store.close_file()


def _after_fork() -> None:
    while _FORKING:
        _FORKING.pop().lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
