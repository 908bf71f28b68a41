"""What happened in a run, from its log: phases, clients, withdrawals, restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from fedbandits.federation.signing import fingerprint
from fedbandits.protocol import Decision, Reason, Refusal, Refused, Rejection, Update, records
from fedbandits.rules.estimators import LeftOut


class PhaseEnd(Enum):
    """How a phase ended."""

    OPEN = "open"
    """It has not ended: clients play it."""
    DECIDED = "decided"
    ABANDONED = "abandoned"
    """Too few clients have reported: what came is counted, and nothing was decided."""
    REFUSED = "refused"
    """A client's privacy budget is spent, and the run stopped."""
    CUT = "cut short"
    """The horizon ends within it: it is played to the end, and nobody reports."""
    STOPPED = "stopped"
    """The run was given up in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCourse:
    """One phase of a run.

    Parameters
    ----------
    phase : int
        From 1.
    opened : str
        When it was.
    ended : str or None
        When it was; None for one that is open.
    end : PhaseEnd
        How it ended.
    admitted, clients, reported : int
        Clients that joined in it, all that were in, and those whose update was counted.
    arms, pulls : int
        How many arms each client plays in it, and how often in all.
    dropped : tuple of str
        Arms that it has decided against.
    """

    phase: int
    opened: str
    ended: str | None = None
    end: PhaseEnd = PhaseEnd.OPEN
    admitted: int
    clients: int
    reported: int = 0
    arms: int
    pulls: int
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How often decisions have left out a client among the lowest and the highest.

    Parameters
    ----------
    comparisons : int
        Of two arms, in all phases that were decided on what the client has reported.
    left_out : int
        Of how many of these it was left out.
    expected : float
        Of how many it would be left out if it were like the others.
    """

    comparisons: int = 0
    left_out: int = 0
    expected: float = 0.0

    @property
    def share(self) -> float:
        """Of which share of its comparisons it was left out."""
        return self.left_out / self.comparisons if self.comparisons else 0.0


@dataclass(slots=True, kw_only=True)
class ClientCourse:
    """What one client has sent, according to the log.

    Parameters
    ----------
    name : str
        As it calls itself.
    admitted : int
        The phase in which it joined.
    phases : int
        In how many its update was counted.
    pulls, means, bits, clipped : int
        Behind these updates; means that they held, and the bits of them; observations outside the
        declared range, if clients report them.
    rejections : mapping of Rejection to int
        Its messages that were not counted.
    compared : Compared or None
        How often it was left out; None if the rule leaves nobody out.
    gain : float or None
        By which share adjusting by a covariate makes its variance smaller, on average over its
        pulls; None if it has not said so.
    measured : int
        The pulls behind that.
    """

    name: str
    admitted: int
    phases: int = 0
    pulls: int = 0
    means: int = 0
    bits: int = 0
    clipped: int = 0
    rejections: Mapping[Rejection, int] = field(default_factory=dict)
    compared: Compared | None = None
    gain: float | None = None
    measured: int = 0

    def add(self, update: Update) -> None:
        """Count an update."""
        counts = update.counts
        self.phases += 1
        self.pulls += sum(counts)
        self.means += len(counts) - counts.count(0)
        self.bits += update.payload_bits
        self.clipped += update.clipped
        if update.gain is not None:
            pulls = sum(counts)
            known = (self.gain or 0.0) * self.measured
            self.measured += pulls
            self.gain = (known + update.gain * pulls) / max(self.measured, 1)


def joint_gain(clients: Iterable[ClientCourse]) -> float | None:
    """Return the gain of several clients, on average over their pulls; None if none has told it.

    Examples
    --------
    >>> joint_gain([
    ...     ClientCourse(name="a", admitted=1, gain=0.5, measured=100),
    ...     ClientCourse(name="b", admitted=1, gain=0.2, measured=200),
    ... ])
    0.3
    """
    told = [(one.gain, one.measured) for one in clients if one.gain is not None]
    pulls = sum(measured for _, measured in told)
    return sum(gain * measured for gain, measured in told) / pulls if pulls else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """An arm that somebody, or a guardrail, has taken out.

    Parameters
    ----------
    arm, reason : str
        The arm, and why it was withdrawn.
    phase : int
        The last one that was opened before; 0 if none was.
    when : str
        In words: before, in or after which phase.
    at : str
        The time.
    """

    arm: str
    reason: str
    phase: int
    when: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltAtClient:
    """What the operator of a client has halted there, or lifted.

    Parameters
    ----------
    client : str
        The client.
    arms : tuple of str
        What is halted there from then on; empty if nothing is halted any longer.
    reason, when, at : str
        Why; before, in or after which phase the server heard of it; the time.
    """

    client: str
    arms: tuple[str, ...]
    reason: str
    when: str
    at: str

    @property
    def words(self) -> str:
        """The event in a sentence."""
        if not self.arms:
            return f"{self.client} has lifted what was halted there ({self.when})"
        return f"{self.client} has halted {', '.join(self.arms)} ({self.when}): {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Clients that the server's operator has moved to another node, or to another key of their own.

    Parameters
    ----------
    clients : tuple of str
        The clients that were moved.
    node, key : str
        Fingerprint of the node's key, or of the key that the client signs with; the other is empty.
    reason : str
        Why.
    at : str
        The time.
    """

    clients: tuple[str, ...]
    node: str = ""
    key: str = ""
    reason: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A server has taken the run over.

    Parameters
    ----------
    epoch : int
        The epoch that it began.
    when : str
        In words: before, in or after which phase.
    at : str
        The time.
    """

    epoch: int
    when: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """All that happened.

    Parameters
    ----------
    phases : tuple of PhaseCourse
        In order.
    clients : tuple of ClientCourse
        Those that are in, in the order in which they joined.
    withdrawals : tuple of Withdrawn
        In order.
    halts : tuple of HaltAtClient
        In order.
    moves : tuple of Move
        In order.
    restarts : tuple of Restart
        In order; the first server of a run is none.
    rejections : mapping of Rejection to int
        All messages that were not counted.
    refusals : tuple of Refusal
        Why clients did not answer, in order; once per client, phase and reason.
    ending : str or None
        Why the run was given up, or who refused to go on; None if neither happened.
    """

    phases: tuple[PhaseCourse, ...]
    clients: tuple[ClientCourse, ...]
    withdrawals: tuple[Withdrawn, ...]
    halts: tuple[HaltAtClient, ...]
    moves: tuple[Move, ...]
    restarts: tuple[Restart, ...]
    rejections: Mapping[Rejection, int]
    refusals: tuple[Refusal, ...]
    ending: str | None


_GIVEN_UP = {
    Reason.QUORUM: "too few clients answer",
    Reason.STOPPED: "somebody has stopped it",
    Reason.HARM: "every option was withdrawn, the last by a guardrail",
}


@dataclass(slots=True)
class CourseReader:
    """Reads records one after the other; none costs more because of those before it.

    Parameters
    ----------
    arms : tuple of str
        Their names; the rest is what has happened so far.

    Examples
    --------
    >>> reader = CourseReader(("red", "blue"))
    >>> reader.take(records.ArmWithdrawn(arm=1, reason="complaints"), "2026-01-01T00:00:00+00:00")
    >>> reader.take(records.ServerStarted(epoch=2), "2026-01-01T00:01:00+00:00")
    >>> course = reader.course()
    >>> course.withdrawals[0].arm, course.restarts[0].epoch, course.phases
    ('blue', 2, ())
    """

    arms: tuple[str, ...]
    active: tuple[bool, ...] = ()
    reported: int = 0
    phases: list[PhaseCourse] = field(default_factory=list)
    clients: dict[str, ClientCourse] = field(default_factory=dict)
    rejected: dict[str, Counter[Rejection]] = field(default_factory=dict)
    rejections: Counter[Rejection] = field(default_factory=Counter)
    refusals: list[Refusal] = field(default_factory=list)
    withdrawals: list[Withdrawn] = field(default_factory=list)
    halts: list[HaltAtClient] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    ending: str | None = None

    def __post_init__(self) -> None:
        self.active = self.active or (True,) * len(self.arms)

    @property
    def _when(self) -> str:
        if not self.phases:
            return "before phase 1"
        last = self.phases[-1]
        return f"{'in' if last.end is PhaseEnd.OPEN else 'after'} phase {last.phase}"

    def take(self, record: records.Record, at: str) -> None:
        """Take one more record, and when it was written."""
        match record:
            case records.UpdateAccepted(update=update):
                self.clients[update.client].add(update)
                self.reported += 1
            case records.UpdateRejected(client=client, rejection=rejection):
                self.rejected.setdefault(client, Counter())[rejection] += 1
                self.rejections[rejection] += 1
            case records.PhaseOpened():
                self._open(record, at)
            case records.AnswerRefused(refusal=refusal):
                self.refusals.append(refusal)
            case records.PhaseClosed(decision=decision):
                self._end(PhaseEnd.DECIDED, at, dropped=self._dropped_by(decision))
            case records.PhaseAbandoned():
                self._end(PhaseEnd.ABANDONED, at)
            case records.ArmWithdrawn():
                self._withdraw(record, at)
            case records.ClientHalted(client=client, arms=arms, reason=reason):
                named = tuple(self.arms[arm] for arm in arms)
                self.halts.append(
                    HaltAtClient(client=client, arms=named, reason=reason, when=self._when, at=at)
                )
            case records.ClientsBound(node=node, clients=clients, reason=reason) if reason:
                self.moves.append(Move(clients=clients, node=node, reason=reason, at=at))
            case records.KeyPinned(client=client, key=key, reason=reason) if reason:
                new = fingerprint(key)
                self.moves.append(Move(clients=(client,), key=new, reason=reason, at=at))
            case records.ServerStarted(epoch=epoch):
                self.restarts.append(Restart(epoch=epoch, when=self._when, at=at))
            case records.RunEnded(decision=decision, words=words):
                self._give_up(decision.reason, words, at)

    def compare(self, found: LeftOut) -> None:
        """Count whom a decision has left out; clients are in the order in which they joined."""
        of_clients = zip(
            self.clients.values(), found.clients.tolist(), found.times.tolist(), strict=True
        )
        for client, compared, times in of_clients:
            known, n = client.compared or Compared(), found.comparisons if compared else 0
            client.compared = Compared(
                comparisons=known.comparisons + n,
                left_out=known.left_out + times,
                expected=known.expected + n * found.share,
            )

    def course(self) -> Course:
        """Return what has happened so far."""
        phases = tuple(self.phases)
        if phases and phases[-1].end is PhaseEnd.OPEN:
            phases = (*phases[:-1], replace(phases[-1], reported=self.reported))
        return Course(
            phases=phases,
            clients=tuple(
                replace(one, rejections=dict(self.rejected.get(one.name, {})))
                for one in self.clients.values()
            ),
            withdrawals=tuple(self.withdrawals),
            halts=tuple(self.halts),
            moves=tuple(self.moves),
            restarts=tuple(self.restarts),
            rejections=dict(self.rejections),
            refusals=tuple(self.refusals),
            ending=self.ending,
        )

    def _open(self, record: records.PhaseOpened, at: str) -> None:
        assignment = record.assignment
        for client in record.admitted:
            self.clients[client] = ClientCourse(name=client, admitted=assignment.phase)
        self.reported = 0
        # A withdrawal may have brought arms back.
        pulled = zip(self.active, assignment.pulls, strict=True)
        self.active = tuple(active or n > 0 for active, n in pulled)
        self.phases.append(
            PhaseCourse(
                phase=assignment.phase,
                opened=at,
                ended=None if record.complete else at,
                end=PhaseEnd.OPEN if record.complete else PhaseEnd.CUT,
                admitted=len(record.admitted),
                clients=len(self.clients),
                arms=sum(n > 0 for n in assignment.pulls),
                pulls=sum(assignment.pulls),
            )
        )

    def _end(self, end: PhaseEnd, at: str, dropped: tuple[str, ...] = ()) -> None:
        """End the open phase, if one is."""
        if self.phases and self.phases[-1].end is PhaseEnd.OPEN:
            self.phases[-1] = replace(
                self.phases[-1], end=end, ended=at, dropped=dropped, reported=self.reported
            )

    def _withdraw(self, record: records.ArmWithdrawn, at: str) -> None:
        self.active = tuple(a and k != record.arm for k, a in enumerate(self.active))
        arm, phase = self.arms[record.arm], self.phases[-1].phase if self.phases else 0
        self.withdrawals.append(
            Withdrawn(arm=arm, reason=record.reason, phase=phase, when=self._when, at=at)
        )

    def _give_up(self, reason: Reason, words: str, at: str) -> None:
        """Note why a run was given up, if it was; an open phase ends with it."""
        refused = [one for one in self.refusals if one.why is Refused.BUDGET]
        if reason is Reason.BUDGET and refused:
            self._end(PhaseEnd.REFUSED, at)
            self.ending = f"{refused[-1].client} cannot go on: {refused[-1].why.value}"
        elif reason in _GIVEN_UP:
            self._end(PhaseEnd.STOPPED, at)
            self.ending = _GIVEN_UP[reason] + (f": {words}" if words else "")

    def _dropped_by(self, decision: Decision) -> tuple[str, ...]:
        before, self.active = self.active, decision.active
        each = zip(self.arms, before, decision.active, strict=True)
        return tuple(arm for arm, was, stays in each if was and not stays)
