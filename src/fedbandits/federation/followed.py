"""A run followed through its log: the server's own fold, with a little history beside it.

Only new records cost time: the status of a run of a million records is refreshed as fast as that
of a thousand. If there is a checkpoint beside the log, only the records after it are read.
"""

import math
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError, ProtocolError
from fedbandits.federation.checkpoint import NOT_ONE, Checkpoint, read_checkpoint, write_checkpoint
from fedbandits.federation.course import Course, CourseReader
from fedbandits.federation.durable_log import DurableLog, LogReader, OnRead
from fedbandits.federation.local import server_of
from fedbandits.federation.presence import presence_of
from fedbandits.federation.run import keys_in_header, run_in_header
from fedbandits.federation.signing import fingerprint, is_signed, require_signing, server_key
from fedbandits.federation.status import MOST_PHASES, RunStatus, arm_statuses, client_means
from fedbandits.federation.trial import Trial
from fedbandits.protocol import Answer, RunState, Server, ServerState, answer_of, records
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.decisions import left_out
from fedbandits.protocol.health import aa_words, drift, guarded, segments

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
    signed : bool
        Whether updates and decisions are signed.
    """

    def __init__(
        self,
        name: str,
        trial: Trial,
        versions: dict[str, Any] | None = None,
        *,
        signed: bool = False,
    ) -> None:
        self.name = name
        self.trial = trial
        self.versions = {} if versions is None else versions
        self.signed = signed
        self.server = server_of(trial, run=name)
        self.dropped = 0
        self._history = _History(course=CourseReader(trial.arms))

    def take(self, record: records.Record, at: str) -> None:
        """Take one more record, and when it was written."""
        history = self._history
        if isinstance(record, records.ArmWithdrawn):
            history.withdrawn[self.trial.arms[record.arm]] = self.answer()
        self.server.follow(record)
        history.course.take(record, at)
        if isinstance(record, records.PhaseClosed):
            found = left_out(self.server.run_state)
            if found is not None:
                history.course.compare(found)
        history.answers.take(record, self.server)
        history.began, history.wrote = history.began or at, at

    @property
    def decided(self) -> int:
        """How many phases were decided."""
        return self._history.answers.number

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
        return self._history.answers.some()

    def status(self) -> RunStatus:
        """Return where the run is."""
        server, answer, history = self.server, self.answer(), self._history
        treatment = self.trial.treatment
        course = history.course.course()
        missing, quarantined = server.missing, server.quarantined
        silent = {*missing, *quarantined}
        collecting = server.state is ServerState.COLLECTING
        return RunStatus(
            run=self.name,
            title=self.trial.title,
            began=history.began,
            wrote=history.wrote,
            state=server.state,
            epoch=server.header.epoch,
            arms=arm_statuses(server, course, answer, history.withdrawn),
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
            aa=aa_words(server.run_state, treatment) if treatment is not None else "",
            drift=drift(server.run_state),
            segments=segments(server.run_state, self.trial.segments) if self.trial.segments else (),
            guardrails=guarded(server.run_state),
            dropped=self.dropped,
            uneven={
                client: tuple(self.trial.arms[arm] for arm in arms)
                for client, arms in server.run_state.uneven.items()
            },
            covariate="" if self.trial.covariate is None else self.trial.covariate.name,
            signed=self.signed,
            head=server.run_state.head,
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


@dataclass
class _KeptAnswers:
    """What could be said after phases: after all of the first ones, then after fewer and fewer.

    Only the last decided phase is kept as it was; an answer is worked out when it is to be kept.

    Parameters
    ----------
    kept : dict of int to Answer
        After which of them.
    telling : set of int
        Phases in which an arm went out.
    next : int
        Which one to keep next.
    number, phase : int
        How many phases were decided, and the last of them.
    last : Answer or None
        What could be said after that one; None if it was not asked for yet.
    """

    kept: dict[int, Answer] = field(default_factory=dict)
    telling: set[int] = field(default_factory=set)
    next: int = 1
    number: int = 0
    phase: int = 0
    last: Answer | None = None

    def __post_init__(self) -> None:
        self._server: Server | None = None  # after the last decided phase

    def take(self, record: records.Record, server: Server) -> None:
        """Take a record that a server has followed."""
        state = server.run_state
        if isinstance(record, records.ArmWithdrawn):
            self.telling.add(state.phase)
        elif isinstance(record, records.PhaseClosed):
            self._keep_last()
            if record.decision.phase in [shown.phase for shown in state.beaten.values()]:
                self.telling.add(state.phase)
            self.number, self.phase, self.last = self.number + 1, state.phase, None
            self._server = copy(server)

    def _keep_last(self) -> None:
        """Keep the phase before, if it is one of those to keep."""
        due = self.number >= self.next
        if due or self.phase in self.telling:
            self.kept |= self.after_last()
        if due:
            first = self.number < MOST_PHASES
            self.next = self.number + 1 if first else math.ceil(_APART * self.number)

    def after_last(self) -> dict[int, Answer]:
        """Return what could be said after the last phase, by its number; nothing before it."""
        if self.last is None and self._server is not None:
            self.last = answer_of(self._server)
        return {} if self.last is None else {self.number: self.last}

    def some(self) -> list[Answer]:
        """Return them, no more than can be shown."""
        found = self.kept | self.after_last()
        if len(found) <= MOST_PHASES:
            return list(found.values())
        steps = [self.number ** (step / (MOST_PHASES - 1)) for step in range(MOST_PHASES)]
        places = {min(found, key=lambda kept: abs(kept - step)) for step in steps}
        places |= {place for place, answer in found.items() if answer.phase in self.telling}
        return [answer for place, answer in found.items() if place in places]


@dataclass(slots=True)
class _History:
    """What is kept beside the server's state, and goes into a checkpoint with it.

    Parameters
    ----------
    course : CourseReader
        What happened.
    began, wrote : str or None
        When the first and the last record were written.
    withdrawn : dict of str to Answer or None
        What was known when an arm was withdrawn: what came later is not in its estimate.
    answers : _KeptAnswers
        What could be said after phases.
    """

    course: CourseReader
    began: str | None = None
    wrote: str | None = None
    withdrawn: dict[str, Answer | None] = field(default_factory=dict)
    answers: _KeptAnswers = field(default_factory=_KeptAnswers)


class LoggedRun(FollowedRun):
    """A run whose log may be written meanwhile.

    Parameters
    ----------
    log : path or DurableLog
        The file; or the log itself, in the process that writes it.
    full : bool
        Whether to read every record, and check all of the log. By default records are taken from
        the checkpoint beside the log, if there is one, and only later ones are read and checked.
    progress : callable, optional
        Told how much of a long log was read.

    Raises
    ------
    InputError
        If there is no log.
    DamagedLogError
        If it cannot be trusted.
    """

    def __init__(
        self, log: str | Path | DurableLog, *, full: bool = False, progress: OnRead | None = None
    ) -> None:
        path = log.path if isinstance(log, DurableLog) else Path(log)
        checkpoint = None if full else read_checkpoint(path)
        after = None if checkpoint is None else checkpoint.place
        self._whole = True
        self._log = log.reader(after) if isinstance(log, DurableLog) else LogReader(path, after)
        name, trial = run_in_header(self._log.header, path)
        versions, signed = self._log.header.get("versions", {}), "signed" in self._log.header
        super().__init__(name, trial, versions, signed=signed)
        self.only_letters = bool(self._log.header.get("only_letters"))
        """Whether it began without a network; see `fedbandits.federation.letters`."""
        keys = keys_in_header(self._log.header, path)
        self.server.pins_first_keys = keys is None or not keys[1]
        if checkpoint is not None and self._log.number:  # else the place is not in this log
            self._restore(checkpoint.content)
        self.refresh(progress)

    def _restore(self, content: dict[str, Any]) -> None:
        """Take what a checkpoint holds; if it is not what it should be, read the log instead."""
        try:
            state = RunState.restored(content["state"], self.server.terms)
            history = decode(_History, content["history"], "history")
        except NOT_ONE:
            self._log.begin_again()
            return
        self.server.run_state, self._history = state, history

    @property
    def n_records(self) -> int:
        """How many records were read."""
        return self._log.number

    def refresh(self, progress: OnRead | None = None) -> None:
        """Take the records that were written since the last call."""
        # Whatever interrupts it may leave a record read and not taken, or taken in part.
        whole, self._whole = self._whole, False
        for record, at in self._log.new(progress):
            self.take(record, at)
        self.dropped, self._whole = self._log.dropped, whole

    def write_checkpoint(self) -> None:
        """Write the checkpoint that the next reader begins with; for the writer of the log alone.

        Raises
        ------
        ProtocolError
            If reading was ever interrupted: what is known may not be that of whole records.
        InputError
            If it cannot be written.
        TypeError, ValueError
            If the state has values that cannot be kept.
        """
        if not self._whole:
            raise ProtocolError("reading the log was interrupted, and the state may be incomplete")
        self._history.answers.after_last()
        content = {"state": self.server.run_state.kept(), "history": encode(self._history)}
        write_checkpoint(self._log.path, Checkpoint(place=self._log.place, content=content))

    def serving(self, log: DurableLog) -> Server:
        """Return a server that is where this run is, and writes its log from now on.

        If the run is signed, it demands the signatures of clients, and signs its decisions.

        Raises
        ------
        InputError
            If its key is not there.
        """
        server = copy(self.server)
        server.log = log
        keys = keys_in_header(log.header, log.path)
        if keys is not None:
            require_signing("this run is signed")
            (public, known), key = keys, server_key(log.path)
            if key.public != public:
                raise InputError(
                    str(log.path),
                    "is signed with another key than the server's that lies beside it"
                    f" ({fingerprint(key.public)}); restore fedbandits-server.key from a copy",
                )
            server.is_signed = is_signed
            log.sign_with(key.sign, over=server.finished)
            server.pin(known, beforehand=True)
        return server

    def status(self) -> RunStatus:
        """Return where the run is, and whether a server is at work on it."""
        return replace(super().status(), presence=presence_of(self._log.path))
