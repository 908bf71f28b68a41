"""The server machine: phases, updates and decisions, without any input or output.

The caller owns the loop: it asks how many clients are wanted, opens the phase, hands in the updates
and closes the phase. Whoever moves the bytes is a driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeGuard

import numpy as np

from fedbandits.errors import LARGEST, InputError, ProtocolError, check_number
from fedbandits.privacy.mechanisms import Mechanism, Noised
from fedbandits.privacy.packing import payload_bits, unpack
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import bits_in_phase, protected
from fedbandits.protocol.codec import is_text
from fedbandits.protocol.log import (
    AnswerRefused,
    ArmWithdrawn,
    Log,
    MemoryLog,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    PhaseRefused,
    Record,
    Rejection,
    RunStopped,
    ServerStarted,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.messages import (
    Assignment,
    Decision,
    Header,
    Reason,
    Refusal,
    Refused,
    Release,
    Update,
    arms_hash,
)
from fedbandits.protocol.quorum import Quorum
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, DistortionSums
from fedbandits.rules.phased import PhasedRule, cut_to_fit
from fedbandits.rules.reports import Reports
from fedbandits.rules.standing import Standing
from fedbandits.rules.variance_components import merged_squares


class ServerState(Enum):
    """Where the server is."""

    READY = "ready"
    """Between phases: the next one can be opened."""
    COLLECTING = "collecting"
    """A phase is being played; updates come in."""
    FINISHED = "finished"
    """Nothing more is decided."""


class _Event(Enum):
    OPENED = "a phase is opened"
    PLAYED_OUT = "a phase is opened that the horizon cuts short"
    ACCEPTED = "an update is accepted"
    REJECTED = "an update is rejected"
    DECIDED = "a phase is closed"
    ENDED = "the last phase is closed"
    REFUSED = "a client refuses to answer"
    REFUSAL_NOTED = "it is noted that a client refuses to answer"
    ABANDONED = "a phase ends below its quorum"
    WITHDRAWN = "an arm is withdrawn"
    STARTED = "a server takes the run over"
    STOPPED = "the run is given up"


_TRANSITIONS: dict[tuple[ServerState, _Event], ServerState] = {
    (ServerState.READY, _Event.OPENED): ServerState.COLLECTING,
    (ServerState.READY, _Event.PLAYED_OUT): ServerState.FINISHED,
    (ServerState.READY, _Event.REJECTED): ServerState.READY,
    (ServerState.COLLECTING, _Event.ACCEPTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.REJECTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.DECIDED): ServerState.READY,
    (ServerState.COLLECTING, _Event.ENDED): ServerState.FINISHED,
    (ServerState.COLLECTING, _Event.REFUSED): ServerState.FINISHED,
    (ServerState.COLLECTING, _Event.REFUSAL_NOTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.ABANDONED): ServerState.READY,
    (ServerState.READY, _Event.WITHDRAWN): ServerState.READY,
    (ServerState.COLLECTING, _Event.WITHDRAWN): ServerState.COLLECTING,
    (ServerState.READY, _Event.STARTED): ServerState.READY,
    (ServerState.COLLECTING, _Event.STARTED): ServerState.COLLECTING,
    (ServerState.FINISHED, _Event.STARTED): ServerState.FINISHED,
    (ServerState.READY, _Event.STOPPED): ServerState.FINISHED,
    (ServerState.COLLECTING, _Event.STOPPED): ServerState.FINISHED,
    (ServerState.FINISHED, _Event.REJECTED): ServerState.FINISHED,
}


_EVENTS: dict[type[Record], _Event] = {
    UpdateAccepted: _Event.ACCEPTED,
    UpdateRejected: _Event.REJECTED,
    PhaseRefused: _Event.REFUSED,
    AnswerRefused: _Event.REFUSAL_NOTED,
    PhaseAbandoned: _Event.ABANDONED,
    ArmWithdrawn: _Event.WITHDRAWN,
    ServerStarted: _Event.STARTED,
    RunStopped: _Event.STOPPED,
}


def _event_of(record: Record) -> _Event:
    match record:
        case PhaseOpened(complete=complete):
            return _Event.OPENED if complete else _Event.PLAYED_OUT
        case PhaseClosed(decision=decision):
            return _Event.ENDED if decision.final else _Event.DECIDED
    return _EVENTS[type(record)]


def _well_formed(update: object) -> TypeGuard[Update]:
    """Return whether something that came from outside is an update with values of its types."""
    if not isinstance(update, Update) or not isinstance(update.header, Header):
        return False
    header = update.header
    squares = () if update.squares is None else update.squares
    words = (header.run, header.arms, update.client)
    vectors = (update.counts, update.means, squares)
    return (
        all(_is_word(word) for word in words)
        and all(isinstance(vector, tuple) for vector in vectors)
        and all(
            _is_whole(number)
            for number in (header.epoch, header.version, update.phase, *update.counts)
        )
        and isinstance(update.packed, bytes)
        and _is_whole(update.clipped)
        and update.clipped >= 0
        and all(
            isinstance(number, int | float) and not isinstance(number, bool)
            for number in (*update.means, *squares)
        )
    )


def _is_word(word: object) -> bool:
    """Return whether something is text of reasonable length that a log can keep."""
    return isinstance(word, str) and len(word) <= _LONGEST_WORD and is_text(word)


def _is_whole(number: object) -> bool:
    """Return whether something is a whole number that a log can keep."""
    return type(number) is int and abs(number) < _LARGEST_WHOLE


def _counting(rule: PhasedRule, weights: Mapping[str, float] | None) -> PhasedRule:
    """Return a rule that counts clients by these weights; where all are equal, as it is."""
    if weights is None:
        if rule.estimator.needs_shares:
            raise ProtocolError("the rule counts clients by weights; give them, by name")
        return rule
    for client, weight in weights.items():
        check_number(weight, f'weights["{client}"]')
        if not 1 / LARGEST <= weight <= LARGEST:
            raise ProtocolError(f'the weight of client "{client}" is {weight}, and not positive')
    if not rule.estimator.needs_shares:
        if len(set(weights.values())) <= 1:
            return rule
        try:
            rule = rule.with_given_weights()
        except InputError as error:
            raise ProtocolError(str(error)) from None
    if len(weights) != rule.population:
        raise ProtocolError(f"{len(weights)} weights for a rule of {rule.population} clients")
    return rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSnapshot:
    """All of a server's state, as plain values that compare bit for bit."""

    state: ServerState
    phase: int
    slots_played: int
    capped: bool
    clients: tuple[str, ...]
    reported: tuple[str, ...]
    active: tuple[bool, ...]
    estimates: tuple[float, ...]
    widths: tuple[float, ...]
    counts: bytes
    reward_sums: bytes
    squares: bytes
    distortion: bytes
    withdrawn: tuple[int, ...]
    quarantined: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Statistics:
    """What clients have reported so far, by arm and client."""

    counts: IntArray
    sums: FloatArray
    squares: FloatArray
    distorted: DistortionSums


_FAULTS = frozenset(
    {
        Rejection.FORM,
        Rejection.SHAPE,
        Rejection.COUNTS,
        Rejection.NOT_FINITE,
        Rejection.PACKED,
        Rejection.RANGE,
    }
)
"""What only a broken or lying client sends; late and repeated updates happen to everybody."""

# The mean of outcomes at an end of their range may be off that end by its last digits.
_LAST_DIGITS = 1e-9

# What a stranger sends is in the log with its name and phase: they must be short enough for it.
_LONGEST_WORD = 1000
_LARGEST_WHOLE = 2**63

# Noise that is further out than so many of its scales is no noise: e^-60 is less than 10^-26.
_SCALES_OUT = 60.0


class Server:
    """One game, decided by a `PhasedRule`.

    Every change of state is a record that is first appended to the log and then applied, so that
    `replay` of a log gives the same state, bit for bit.

    Parameters
    ----------
    rule : PhasedRule
        What decides.
    arms : sequence of str, optional
        Names of the arms; their indices by default.
    run : str
        Name of the run, in every header.
    epoch : int
        Counted up whenever a server takes a run over.
    log : Log, optional
        Where the records go; a `MemoryLog` by default. What it holds already has happened: the
        server goes on from there.
    release : Release, optional
        What clients are asked to send; by default what the rule needs: sums of squares where it
        estimates σ.
    weights : mapping from str to float, optional
        How much each client counts, by its name, in any unit. The answer is then for these clients,
        weighted; the rule takes all of them at once. Equal ones are the same as none.
    privacy : Privacy, optional
        How clients protect their means, by which widths are widened. Clients hold it, too.
    quorum : Quorum, optional
        How many clients must report before a phase is decided; all by default. Who does not is
        left out of that phase, and counts with what it has reported before.
    limits : (float, float), optional
        The range that contains every outcome: a mean outside is not counted. The radius's own by
        default, if it has one.
    quarantine_after : int, optional
        A client whose updates were wrong so often is not listened to any more; by default every
        update is judged by itself.

    Examples
    --------
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> from fedbandits.rules.phased import Beliefs
    >>> rule = Fed1Ucb(pulls="10", clients=1).rule(
    ...     Beliefs(n_arms=2, horizon=1000, noise=0.01, spread=0.0)
    ... )
    >>> server = Server(rule, arms=["red", "blue"])
    >>> server.wanted()
    1
    >>> assignment = server.open(["alice"])
    >>> assignment.pulls
    (10, 10)
    >>> server.receive(
    ...     Update(header=server.header, phase=1, client="alice", counts=(10, 10), means=(0.2, 0.9))
    ... )
    >>> server.close().winner
    1
    """

    def __init__(
        self,
        rule: PhasedRule,
        *,
        arms: Sequence[str] | None = None,
        run: str = "run",
        epoch: int = 1,
        log: Log | None = None,
        release: Release | None = None,
        weights: Mapping[str, float] | None = None,
        privacy: Privacy | None = None,
        quorum: Quorum | None = None,
        quarantine_after: int | None = None,
        limits: tuple[float, float] | None = None,
    ) -> None:
        names = [str(k) for k in range(rule.n_arms)] if arms is None else list(arms)
        if len(names) != rule.n_arms:
            raise ProtocolError(f"{len(names)} arm names for a rule of {rule.n_arms} arms")
        if weights is not None and not isinstance(weights, Mapping):
            raise InputError("weights", f'{weights!r} is not a mapping such as {{"alice": 2.0}}')
        self.weights = None if weights is None else dict(weights)
        self.privacy = privacy
        self.rule = _counting(rule, self.weights)
        self.rule.check_clients()
        if privacy is not None:
            self.rule = protected(self.rule, privacy)
        self.arms = tuple(names)
        self.header = Header(run=run, epoch=epoch, arms=arms_hash(names))
        self.log: Log = MemoryLog() if log is None else log
        self.release = Release(squares=rule.needs_squares) if release is None else release
        if rule.needs_squares and not self.release.squares:
            raise ProtocolError("the rule estimates σ from sums of squares: release them")
        if self.release.mechanism is not None:
            raise ProtocolError("how means are protected follows from a policy; give privacy")
        if privacy is not None and self.release.squares:
            raise ProtocolError("sums of squares are not protected, and means are: leave them out")
        self.state = ServerState.READY
        self.phase = 0
        self.slots_played = 0
        self.capped = False
        self.assignment: Assignment | None = None
        self.decision: Decision | None = None
        self._columns: dict[str, int] = {}
        self._reported: dict[str, Update] = {}
        self._active: BoolArray = np.ones(rule.n_arms, dtype=np.bool_)
        self._estimates: FloatArray = np.zeros(rule.n_arms)
        self._widths: FloatArray = np.full(rule.n_arms, np.inf)
        self._counts: IntArray = np.zeros((rule.n_arms, 0), dtype=np.int64)
        self._sums: FloatArray = np.zeros((rule.n_arms, 0))
        self._squares: FloatArray = np.zeros((rule.n_arms, 0))
        self._distorted = DistortionSums.nothing((rule.n_arms, 0))
        # What is behind the last decision: a phase that was abandoned since has counted more.
        self._decided_by: _Statistics | None = None
        self._uplink: IntArray = np.zeros(0, dtype=np.int64)
        self.quorum = Quorum() if quorum is None else quorum
        self.quarantine_after = quarantine_after
        self.limits = limits
        self.withdrawn: dict[int, str] = {}
        self._faults: dict[str, int] = {}
        self._refusals: set[tuple[str, int, Refused]] = set()
        for record in list(self.log):
            self._apply(record)

    @property
    def clients(self) -> tuple[str, ...]:
        """The admitted clients, in their order of admission."""
        return tuple(self._columns)

    @property
    def left(self) -> int:
        """How many arms are left."""
        return int(self._active.sum())

    @property
    def heard(self) -> int:
        """How many clients are behind the last decision."""
        counts = self._counts if self._decided_by is None else self._decided_by.counts
        return int((counts > 0).any(axis=0).sum())

    @property
    def quarantined(self) -> tuple[str, ...]:
        """The clients that are not listened to any more."""
        if not self._faults:
            return ()
        return tuple(client for client in self._columns if self._is_quarantined(client))

    def _is_quarantined(self, client: str) -> bool:
        most = self.quarantine_after
        return most is not None and self._faults.get(client, 0) >= most

    @property
    def missing(self) -> tuple[str, ...]:
        """The clients that are asked to report and have not, in their order of admission."""
        if self.state is not ServerState.COLLECTING:
            return ()
        out = {*self._reported, *self.quarantined}
        return tuple(client for client in self._columns if client not in out)

    @property
    def has_quorum(self) -> bool:
        """Whether enough clients have reported for the open phase to be decided."""
        reported = len(self._reported)
        if self.rule.estimator.needs_shares and self._unheard():
            return False
        return reported >= self.quorum.of(reported + len(self.missing))

    def _unheard(self) -> bool:
        """Return whether a client has never reported: without it weights mean something else."""
        never = (self._counts == 0).all(axis=0)
        silent = (
            column for client, column in self._columns.items() if client not in self._reported
        )
        return any(never[column] for column in silent)

    @property
    def uplink_bits(self) -> dict[str, int]:
        """Bits of the means that each client has sent: 64 for one that is sent as it is."""
        return dict(zip(self._columns, self._uplink.tolist(), strict=True))

    @property
    def finished(self) -> bool:
        """Whether nothing more is decided."""
        return self.state is ServerState.FINISHED

    def wanted(self) -> int:
        """Return how many new clients the next phase asks for."""
        return self._admission()[0]

    def _admission(self) -> tuple[int, bool]:
        """Return how many new clients the next phase asks for, and whether a cap has cut them."""
        clients, standing = len(self._columns), self._standing()
        return self.rule.admit(self.phase + 1, clients, self.capped, standing)

    def _standing(self) -> Standing | None:
        """Return what is known between phases, for a rule that asks for it."""
        if not (self.rule.adaptive and self._columns):
            return None
        reports = self._reports(self._counts, self._sums, self._squares, self._distorted)
        return Standing(
            active=self._active,
            estimate=self.rule.estimate(reports),
            clients=np.asarray(len(self._columns)),
            slots_left=np.asarray(self.rule.slots - self.slots_played),
        )

    def open(self, admitted: Sequence[str]) -> Assignment:
        """Open the next phase with these new clients and return what everybody plays.

        When the phase does not fit into what is left of the horizon the server is finished: the
        assignment, cut to fit, is played out and nobody reports.
        """
        self._expect(ServerState.READY, "open a phase")
        known = [client for client in admitted if client in self._columns]
        if known or len(set(admitted)) != len(admitted):
            raise ProtocolError(f"a client was admitted twice: {(known or list(admitted))[0]}")
        wanted, capped = self._admission()
        if len(admitted) > wanted:
            raise ProtocolError(f"{len(admitted)} new clients where the phase wants {wanted}")
        if not self._columns and not admitted:
            raise ProtocolError("the first phase needs at least one client")
        self._check_weights(admitted, wanted)
        planned = self.rule.plan(self.phase + 1, self._active, self._standing(), len(admitted))
        fitting = cut_to_fit(planned, self.rule.slots - self.slots_played)
        assignment = Assignment(
            header=self.header,
            phase=self.phase + 1,
            pulls=tuple(fitting.tolist()),
            release=self._release_of(planned, len(admitted)),
            previous=self.decision,
        )
        self._commit(
            PhaseOpened(
                admitted=tuple(admitted),
                assignment=assignment,
                complete=bool((fitting == planned).all()),
                capped=capped,
            )
        )
        return assignment

    def receive(self, update: object) -> Rejection | None:
        """Take what a client has sent; return None if it counts, else why not. Never raises."""
        if not _well_formed(update):
            self._commit(UpdateRejected(client="", phase=0, rejection=Rejection.FORM))
            return Rejection.FORM
        rejection = self._fault_in(update)
        if rejection is None:
            self._commit(UpdateAccepted(update))
        else:
            self._commit(
                UpdateRejected(client=update.client, phase=update.phase, rejection=rejection)
            )
        return rejection

    def _release_of(self, pulls: IntArray, newcomers: int) -> Release:
        """Return what clients are to send of the phase that begins, and how."""
        if self.privacy is None:
            return self.release
        # Noise that protects the mean of the fewest pulls protects the others, too.
        arm = int(np.where(pulls > 0, pulls, np.iinfo(np.int64).max).argmin())
        phase, n = self.phase + 1, int(pulls[arm])
        before = np.pad(self._counts[arm], (0, newcomers))
        sums = self._distorted.admitted(newcomers).kept(np.array([arm]))
        bits = bits_in_phase(
            self.rule,
            self.privacy,
            phase=phase,
            pulls=n,
            counts=before + n,
            sums=sums,
        )
        mechanism = self.privacy.mechanism(n, self.rule.n_arms, bits)
        return Release(squares=self.release.squares, mechanism=mechanism)

    def note_refusal(self, refusal: Refusal) -> None:
        """Write down why a client does not answer; what it has said before is not repeated."""
        self._check_refusal(refusal)
        if _key(refusal) not in self._refusals:
            self._commit(AnswerRefused(refusal))

    def refuse(self, refusal: Refusal) -> Decision | None:
        """Take a client's refusal: where its budget is spent the run stops with what is known."""
        self._check_refusal(refusal)
        if refusal.why is not Refused.BUDGET:
            raise ProtocolError(
                f"client {refusal.client} refuses phase {refusal.phase}: {refusal.why.value}"
                f" ({refusal.detail})"
            )
        last = None if self.decision is None else replace(self.decision, reason=Reason.BUDGET)
        self._commit(PhaseRefused(refusal=refusal, decision=last))
        return last

    def _check_refusal(self, refusal: Refusal) -> None:
        if refusal.header != self.header or refusal.client not in self._columns:
            raise ProtocolError(f"a refusal from elsewhere: client {refusal.client}")
        if refusal.phase != self.phase:
            raise ProtocolError(f"a refusal of phase {refusal.phase} in phase {self.phase}")

    def take_over(self, epoch: int) -> None:
        """Begin a new epoch: messages of a server before this one are not taken any more."""
        if epoch <= self.header.epoch:
            raise ProtocolError(f"epoch {epoch} after epoch {self.header.epoch}")
        self._commit(ServerStarted(epoch=epoch))

    def withdraw(self, arm: int, reason: str) -> None:
        """Take an arm out, for harm or any reason but its estimates; the rest goes on."""
        if not 0 <= arm < self.rule.n_arms or not self._active[arm]:
            raise ProtocolError(f"arm {arm} is not in the game any more")
        if self._active.sum() == 1:
            raise ProtocolError("the last arm that is left cannot be withdrawn; stop the run")
        self._commit(ArmWithdrawn(arm=arm, reason=reason))

    def abandon(self) -> None:
        """End a phase below its quorum: what came is counted, and nothing is decided."""
        self._expect(ServerState.COLLECTING, "abandon a phase")
        if self.has_quorum:
            raise ProtocolError("enough clients have reported; close the phase")
        reported = len(self._reported)
        self._commit(
            PhaseAbandoned(
                phase=self.phase, reported=reported, expected=reported + len(self.missing)
            )
        )

    def stop(self, reason: Reason = Reason.STOPPED) -> Decision | None:
        """Give the run up; return what is known."""
        self._commit(RunStopped(reason=reason))
        return self.decision

    def close(self) -> Decision:
        """Decide the phase. A quorum of clients must have reported, all of them by default."""
        self._expect(ServerState.COLLECTING, "close a phase")
        if not self.has_quorum:
            asked = len(self._reported) + len(self.missing)
            raise ProtocolError(f"{len(self.missing)} of {asked} clients have not reported")
        decision = self._decide()
        self._commit(PhaseClosed(decision))
        return decision

    @classmethod
    def replay(
        cls,
        rule: PhasedRule,
        records: Iterable[Record],
        *,
        arms: Sequence[str] | None = None,
        run: str = "run",
        epoch: int = 1,
        weights: Mapping[str, float] | None = None,
        privacy: Privacy | None = None,
        quorum: Quorum | None = None,
        quarantine_after: int | None = None,
    ) -> Server:
        """Return the server whose log holds these records; the rest as when it was made."""
        return cls(
            rule,
            arms=arms,
            run=run,
            epoch=epoch,
            log=MemoryLog(records),
            weights=weights,
            privacy=privacy,
            quorum=quorum,
            quarantine_after=quarantine_after,
        )

    def interval_widths(self, level: float) -> FloatArray:
        """Return half-widths of intervals around all estimates, after the last closed phase.

        They hold together, in all phases, with probability 1 − ``level`` at least, unless pulls
        follow from what was observed; see `fedbandits.rules.phased.PhasedRule.interval_widths`.
        """
        if self.decision is None:
            raise ProtocolError("nothing is known before the first phase is closed")
        if self._decided_by is None:  # one arm was left before anything was measured
            return np.full(self.rule.n_arms, np.inf)
        last = self._decided_by
        reports = self._reports(last.counts, last.sums, last.squares, last.distorted)
        widths = self.rule.interval_widths(level, phase=self.decision.phase, reports=reports)
        return np.where((last.counts > 0).any(axis=1), widths, np.inf)

    def snapshot(self) -> ServerSnapshot:
        """Return all of the state as values that can be compared."""
        return ServerSnapshot(
            state=self.state,
            phase=self.phase,
            slots_played=self.slots_played,
            capped=self.capped,
            clients=self.clients,
            reported=tuple(sorted(self._reported)),
            active=tuple(self._active.tolist()),
            estimates=tuple(self._estimates.tolist()),
            widths=tuple(self._widths.tolist()),
            counts=self._counts.tobytes(),
            reward_sums=self._sums.tobytes(),
            squares=self._squares.tobytes(),
            distortion=self._distorted.tobytes(),
            withdrawn=tuple(sorted(self.withdrawn)),
            quarantined=self.quarantined,
        )

    def _expect(self, state: ServerState, action: str) -> None:
        if self.state is not state:
            raise ProtocolError(f"cannot {action} while {self.state.value}")

    def _check_weights(self, admitted: Sequence[str], wanted: int) -> None:
        """Refuse clients that nobody gave a weight, and fewer than all where they have weights."""
        if self.weights is None:
            return
        for client in admitted:
            if client not in self.weights:
                raise ProtocolError(
                    f'client "{client}" has no weight; give it one, or do not admit it'
                )
        if self.rule.estimator.needs_shares and len(admitted) < wanted:
            raise ProtocolError(
                f"{len(admitted)} clients where {wanted} have weights; all of them must play"
            )

    def _shares(self, first: int | None = None) -> FloatArray | None:
        """Return the weights of the admitted clients, or of the first of them, in their order."""
        if self.weights is None or not self.rule.estimator.needs_shares:
            return None
        shares = [self.weights[client] for client in self._columns]
        return np.array(shares[:first], dtype=np.float64)

    def _fault_in(self, update: Update) -> Rejection | None:
        if update.header != self.header:
            return Rejection.HEADER
        if update.client not in self._columns:
            return Rejection.CLIENT
        if self._is_quarantined(update.client):
            return Rejection.QUARANTINED
        assignment = self.assignment
        if (
            self.state is not ServerState.COLLECTING
            or assignment is None
            or update.phase != assignment.phase
        ):
            return Rejection.PHASE
        if update.client in self._reported:
            return Rejection.DUPLICATE
        return self._fault_in_values(update, assignment)

    def _fault_in_values(self, update: Update, assignment: Assignment) -> Rejection | None:
        squares = () if update.squares is None else update.squares
        n_arms = self.rule.n_arms
        mechanism = assignment.release.mechanism
        wanted = (
            n_arms if mechanism is None else 0,
            n_arms if assignment.release.squares else 0,
        )
        sent_as_asked = (update.squares is not None) == assignment.release.squares
        if (len(update.means), len(squares)) != wanted or not sent_as_asked:
            return Rejection.SHAPE
        if update.counts != assignment.pulls:
            return Rejection.COUNTS
        if not _packed_as(mechanism, update):
            return Rejection.PACKED
        reasonable = all(abs(value) <= LARGEST for value in update.means)
        reasonable &= all(0 <= value <= LARGEST for value in squares)
        if not reasonable:
            return Rejection.NOT_FINITE
        return None if self._in_range(update, mechanism) else Rejection.RANGE

    def _in_range(self, update: Update, mechanism: Mechanism | None) -> bool:
        """Return whether means are possible if outcomes lie in the radius's range, if it has one.

        Noise may carry a mean out of it, and rounding by less than a step.
        """
        limits = self.limits or self.rule.radius.limits
        if limits is None or isinstance(mechanism, Noised):
            return True
        low, high = limits
        aside = _LAST_DIGITS * max(abs(low), abs(high)) + (mechanism.step if mechanism else 0.0)
        means = self._means_of(update)[np.array(update.counts) > 0]
        return bool(((low - aside <= means) & (means <= high + aside)).all())

    def _commit(self, record: Record) -> None:
        """Log a record, then apply it."""
        self._after(record)
        self.log.append(record)
        self._apply(record)

    def _after(self, record: Record) -> ServerState:
        """Return the state after a record, or refuse it."""
        step = (self.state, _event_of(record))
        if step not in _TRANSITIONS:
            raise ProtocolError(f"not while {self.state.value}: {step[1].value}")
        return _TRANSITIONS[step]

    def _apply(self, record: Record) -> None:
        """Change the state by what has happened: the only place where it changes."""
        after = self._after(record)
        match record:
            case PhaseOpened():
                self._apply_opened(record)
            case UpdateAccepted(update=update):
                self._reported[update.client] = update
            case PhaseClosed(decision=decision):
                self._apply_closed(decision)
            case AnswerRefused(refusal=refusal):
                self._refusals.add(_key(refusal))
            case PhaseRefused(decision=decision):
                self.decision, self._reported = decision, {}
            case UpdateRejected(client=client, rejection=rejection) if rejection in _FAULTS:
                self._faults[client] = self._faults.get(client, 0) + 1
            case PhaseAbandoned():
                self._count_reports()
                after = self._end_if_none_follows(after)
            case ArmWithdrawn(arm=arm, reason=reason):
                self.withdrawn[arm] = reason
                self._take_out(arm)
            case ServerStarted(epoch=epoch):
                self._renumber(epoch)
            case RunStopped(reason=reason):
                self._reported = {}
                self._conclude(reason)
        self.state = after
        self._end_if_one_is_left()

    def _renumber(self, epoch: int) -> None:
        """Speak as a new incarnation; an open assignment is sent again under its header."""
        self.header = replace(self.header, epoch=epoch)
        if self.assignment is not None:
            self.assignment = replace(self.assignment, header=self.header)
        if self.decision is not None:
            self.decision = replace(self.decision, header=self.header)
        self._reported = {
            client: replace(update, header=self.header) for client, update in self._reported.items()
        }

    def _take_out(self, arm: int) -> None:
        """Take an arm out of the game, and out of what is known already: nobody stays on it."""
        self._active = self._active & (np.arange(self._active.size) != arm)
        if self.decision is not None:
            self.decision = replace(
                self.decision,
                active=tuple(self._active.tolist()),
                best=int(self.rule.best(self._estimates, self._active)),
            )

    def _conclude(self, reason: Reason) -> None:
        """Let what is known be the last word."""
        if self.decision is not None:
            self.decision = replace(self.decision, reason=reason)

    def _end_if_none_follows(self, after: ServerState) -> ServerState:
        """Finish when the phase that was abandoned was the last one."""
        if self.slots_played == self.rule.slots:
            self._conclude(Reason.HORIZON)
        elif self.rule.ends_after(self.phase):
            spent = self.rule.spent_after(self.phase)
            self._conclude(Reason.BUDGET if spent else Reason.LAST_PHASE)
        else:
            return after
        return ServerState.FINISHED

    def _end_if_one_is_left(self) -> None:
        """Finish when withdrawals have left one arm: there is nothing more to find out."""
        if self.state is not ServerState.READY or self._active.sum() > 1:
            return
        last = int(self._active.argmax())
        self.decision = Decision(
            header=self.header,
            phase=self.phase,
            active=tuple(self._active.tolist()),
            estimates=tuple(self._estimates.tolist()),
            widths=tuple(self._widths.tolist()),
            best=last,
            winner=last,
            reason=Reason.ONE_ARM_LEFT,
        )
        self.state = ServerState.FINISHED

    def _apply_opened(self, record: PhaseOpened) -> None:
        self.phase = record.assignment.phase
        self.capped = record.capped
        self.assignment = record.assignment
        self.release = record.assignment.release
        self.slots_played += sum(record.assignment.pulls)
        if not record.admitted:
            return
        for client in record.admitted:
            self._columns[client] = len(self._columns)
        none = np.zeros((self.rule.n_arms, len(record.admitted)))
        whole = none.astype(np.int64)
        self._counts = np.concatenate([self._counts, whole], axis=1)
        self._sums = np.concatenate([self._sums, none], axis=1)
        self._squares = np.concatenate([self._squares, none], axis=1)
        self._distorted = self._distorted.admitted(len(record.admitted))
        self._uplink = np.concatenate([self._uplink, whole[0]])

    def _reports(
        self, counts: IntArray, sums: FloatArray, squares: FloatArray, distorted: DistortionSums
    ) -> Reports:
        """Return what clients have reported by now."""
        return Reports(
            counts=counts,
            means=_means(counts, sums),
            active=self._active,
            squares=squares,
            shares=self._shares(counts.shape[1]),
            distortion=UNDISTORTED
            if self.privacy is None
            else distorted.over(counts, doubled=self.privacy.doubled),
        )

    def _decide(self) -> Decision:
        counts, sums, squares = self._with_reports()
        reports = self._reports(counts, sums, squares, self._distorted_after(counts))
        estimate = self.rule.estimate(reports)
        # Those of arms that are out, or that nobody has pulled, stay as they were.
        fresh = self._active & (estimate.pulls > 0)
        estimate = replace(estimate, values=np.where(fresh, estimate.values, self._estimates))
        verdict = self.rule.decide(phase=self.phase, active=self._active, estimate=estimate)
        left = np.flatnonzero(verdict.active)
        best = int(self.rule.best(verdict.estimates, verdict.active))
        winner = best if verdict.settled else None
        reason = Reason.OPEN
        if winner is not None:
            reason = Reason.ONE_ARM_LEFT if left.size == 1 else Reason.WITHIN_TOLERANCE
        elif self.rule.ends_after(self.phase):
            spent = self.rule.spent_after(self.phase)
            reason = Reason.BUDGET if spent else Reason.LAST_PHASE
        elif self.slots_played == self.rule.slots:
            reason = Reason.HORIZON
        widths = np.where(self._active, verdict.widths, self._widths)
        return Decision(
            header=self.header,
            phase=self.phase,
            active=tuple(verdict.active.tolist()),
            estimates=tuple(verdict.estimates.tolist()),
            widths=tuple(widths.tolist()),
            best=best,
            winner=winner,
            reason=reason,
        )

    def _with_reports(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return counts, reward sums and squares with this phase's updates, in client order.

        Of an arm that was withdrawn meanwhile nothing more is counted: its estimate stays.
        """
        updates = self._reported.values()
        columns = [self._columns[client] for client in self._reported]
        counts, sums, squares = self._counts.copy(), self._sums.copy(), self._squares.copy()
        if columns:
            left = self._active[:, None]
            fresh = left * np.array([update.counts for update in updates], dtype=np.int64).T
            means = np.array([self._means_of(update) for update in updates]).T
            scatter = [update.squares for update in updates if update.squares is not None]
            if scatter:
                before = counts[:, columns], sums[:, columns], squares[:, columns]
                reported = fresh, fresh * means, left * np.array(scatter, dtype=np.float64).T
                squares[:, columns] = merged_squares(before, reported)
            counts[:, columns] += fresh
            sums[:, columns] += fresh * means
        return counts, sums, squares

    def _mechanism(self) -> Mechanism | None:
        return None if self.assignment is None else self.assignment.release.mechanism

    def _means_of(self, update: Update) -> FloatArray:
        """Return the means that an update reports, unpacked if they are packed."""
        mechanism = self._mechanism()
        if mechanism is None:
            return np.array(update.means, dtype=np.float64)
        pulled = np.array(update.counts) > 0
        places = unpack(update.packed, mechanism.bits, int(pulled.sum()))
        means = np.zeros(self.rule.n_arms)
        means[pulled] = mechanism.values(np.array(places, dtype=np.int64))
        return means

    def _distorted_after(self, counts: IntArray) -> DistortionSums:
        """Return what this phase's releases make of what protects the means."""
        mechanism = self._mechanism()
        if mechanism is None:
            return self._distorted
        return self._distorted.released(counts - self._counts, mechanism.error)

    def _count_reports(self) -> None:
        """Take the phase's updates into the statistics."""
        counts, sums, squares = self._with_reports()
        self._distorted = self._distorted_after(counts)
        self._uplink = self._uplink + self._sent()
        self._counts, self._sums, self._squares = counts, sums, squares
        self._reported = {}

    def _apply_closed(self, decision: Decision) -> None:
        self._count_reports()
        self._active = np.array(decision.active)
        self._estimates = np.array(decision.estimates)
        self._widths = np.array(decision.widths)
        self.decision = decision
        self._decided_by = _Statistics(
            counts=self._counts, sums=self._sums, squares=self._squares, distorted=self._distorted
        )

    def _sent(self) -> IntArray:
        """Return the bits of the means that clients have sent in this phase, in their order."""
        sent = np.zeros_like(self._uplink)
        for client, update in self._reported.items():
            sent[self._columns[client]] = update.payload_bits
        return sent


def _means(counts: IntArray, sums: FloatArray) -> FloatArray:
    """Return the mean of every client and arm; 0 where nothing was pulled."""
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)


def _key(refusal: Refusal) -> tuple[str, int, Refused]:
    return refusal.client, refusal.phase, refusal.why


def _packed_as(mechanism: Mechanism | None, update: Update) -> bool:
    """Return whether an update's means are packed as its assignment asks."""
    if mechanism is None:
        return not update.packed
    arms = sum(count > 0 for count in update.counts)
    if 8 * len(update.packed) != payload_bits(arms, mechanism.bits):
        return False
    try:
        places = unpack(update.packed, mechanism.bits, arms)
    except InputError:
        return False
    if not isinstance(mechanism, Noised):
        return True
    if update.clipped:  # such a count is a release of its own
        return False
    means = mechanism.values(np.array(places, dtype=np.int64))
    out = _SCALES_OUT * mechanism.scale
    return bool(((mechanism.low - out <= means) & (means <= mechanism.high + out)).all())
