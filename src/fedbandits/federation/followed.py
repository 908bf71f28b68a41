"""A run followed through its log: the server's own fold, with a little history beside it.

Only new records cost time: the status of a run of a million records is refreshed as fast as that
of a thousand.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbandits.federation.course import Course, CourseReader
from fedbandits.federation.durable_log import LogReader
from fedbandits.federation.local import server_of
from fedbandits.federation.presence import presence_of
from fedbandits.federation.run import run_in_header
from fedbandits.federation.status import MOST_PHASES, RunStatus, arm_statuses, client_means
from fedbandits.federation.trial import Trial
from fedbandits.protocol import (
    Answer,
    ArmWithdrawn,
    PhaseClosed,
    Record,
    RunState,
    Server,
    ServerState,
    answer_of,
)

# All of the first phases are kept; after them, each one kept is this many times later.
_APART = 1.1


class FollowedRun:
    """A run as its records tell it.

    Parameters
    ----------
    name : str
        In every message; no two runs have the same.
    trial : Trial
        What is compared.
    versions : dict
        Of the programs that began it.
    """

    def __init__(self, name: str, trial: Trial, versions: dict[str, Any] | None = None) -> None:
        self.name = name
        self.trial = trial
        self.versions = {} if versions is None else versions
        self.server = server_of(trial, run=name)
        self.began: str | None = None
        self.wrote: str | None = None
        self.dropped = 0
        self._course = CourseReader(trial.arms)
        self._answers = _AnswersOverPhases(self.server)
        # What was known when an arm was withdrawn: what came later is not in its estimate.
        self._withdrawn: dict[str, Answer | None] = {}

    def take(self, record: Record, at: str) -> None:
        """Take one more record, and when it was written."""
        if isinstance(record, ArmWithdrawn):
            self._withdrawn[self.trial.arms[record.arm]] = self.answer()
        self.server.follow(record)
        self._course.take(record, at)
        self._answers.take(record)
        self.began, self.wrote = self.began or at, at

    def answer(self) -> Answer | None:
        """Return what can be said; None before a phase is decided.

        Withdrawals alone may end a run with one arm of which nothing is known.
        """
        return None if self.server.run_state.behind is None else answer_of(self.server)

    def answers(self) -> list[Answer]:
        """Return what could be said after each phase that was decided.

        Of more than `MOST_PHASES` those are given in which an arm went out, the first, the last,
        and some between, the earlier the closer.
        """
        return self._answers.some()

    def status(self) -> RunStatus:
        """Return where the run is."""
        server, answer, course = self.server, self.answer(), self._course.course()
        missing, quarantined = server.missing, server.quarantined
        silent = {*missing, *quarantined}
        collecting = server.state is ServerState.COLLECTING
        return RunStatus(
            run=self.name,
            title=self.trial.title,
            began=self.began,
            wrote=self.wrote,
            state=server.state,
            epoch=server.header.epoch,
            arms=arm_statuses(server, course, answer, self._withdrawn),
            answer=answer,
            reported=tuple(c for c in server.clients if c not in silent) if collecting else (),
            missing=missing,
            quarantined=quarantined,
            unconfirmed=self._unconfirmed(course),
            halted=tuple(
                f"halted at {client}: {', '.join(self.trial.arms[arm] for arm in halt.arms)}"
                f" ({halt.reason})"
                for client, halt in server.run_state.halts.items()
            ),
            homes=server.run_state.homes,
            conflicts=server.run_state.conflicts,
            course=course,
            means=client_means(server.run_state),
            dropped=self.dropped,
        )

    def _unconfirmed(self, course: Course) -> tuple[str, ...]:
        """Return the clients that have not confirmed a withdrawal, unless they joined after it.

        Clients that were not admitted yet are among them: their service may give any option.
        """
        if not course.withdrawals:
            return ()
        since, state = course.withdrawals[-1].phase, self.server.run_state
        joined = dict.fromkeys(state.homes, 0) | {one.name: one.admitted for one in course.clients}
        told = (client for client, phase in joined.items() if phase <= since)
        return tuple(client for client in told if client not in state.recalled)


class _AnswersOverPhases:
    """What could be said after phases: after all of the first ones, then after fewer and fewer.

    Only the last decided phase is kept as a state; an answer is worked out when it is to be kept.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: dict[int, Answer] = {}
        self._telling: set[int] = set()
        self._last: tuple[int, RunState] | None = None
        self._next = 1

    def take(self, record: Record) -> None:
        """Take a record that the server has followed."""
        state = self._server.run_state
        if isinstance(record, ArmWithdrawn):
            self._telling.add(state.phase)
        elif isinstance(record, PhaseClosed):
            self._keep_last()
            number = 1 if self._last is None else self._last[0] + 1
            if record.decision.phase in [shown.phase for shown in state.beaten.values()]:
                self._telling.add(state.phase)
            self._last = number, state

    def _keep_last(self) -> None:
        """Keep the phase before, if it is one of those to keep."""
        if self._last is None:
            return
        number, state = self._last
        if number >= self._next or state.phase in self._telling:
            self._kept[number] = self._answer(state)
        if number >= self._next:
            self._next = number + 1 if number < MOST_PHASES else math.ceil(_APART * number)

    def _answer(self, state: RunState) -> Answer:
        server = copy(self._server)
        server.run_state = state
        return answer_of(server)

    def some(self) -> list[Answer]:
        """Return them, no more than can be shown."""
        if self._last is None:
            return []
        number, state = self._last
        found = {**self._kept, number: self._answer(state)}
        if len(found) <= MOST_PHASES:
            return list(found.values())
        steps = [number ** (step / (MOST_PHASES - 1)) for step in range(MOST_PHASES)]
        places = {min(found, key=lambda kept: abs(kept - step)) for step in steps}
        places |= {place for place, answer in found.items() if answer.phase in self._telling}
        return [answer for place, answer in found.items() if place in places]


class LoggedRun(FollowedRun):
    """A run whose log may be written meanwhile.

    Parameters
    ----------
    path : path
        Of the log.

    Raises
    ------
    InputError
        If there is no log.
    DamagedLogError
        If it cannot be trusted.
    """

    def __init__(self, path: str | Path) -> None:
        self._log = LogReader(path)
        name, trial = run_in_header(self._log.header, Path(path))
        super().__init__(name, trial, self._log.header.get("versions", {}))
        self.refresh()

    def refresh(self) -> None:
        """Take the records that were written since the last call."""
        for record, at in self._log.new():
            self.take(record, at)
        self.dropped = self._log.dropped

    def status(self) -> RunStatus:
        """Return where the run is, and whether a server is at work on it."""
        return replace(super().status(), presence=presence_of(self._log.path))
