"""The server machine: phases, updates and decisions, without any input or output.

The caller owns the loop: it asks how many clients are wanted, opens the phase, hands in the updates
and closes the phase. Whoever moves the bytes is a driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from fedbandits.errors import LARGEST, InputError, ProtocolError, check_number
from fedbandits.privacy.mechanisms import UNPROTECTED_BITS, Mechanism, Noised
from fedbandits.privacy.packing import payload_bits, unpack
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import bits_in_phase, protected
from fedbandits.protocol.log import (
    Log,
    MemoryLog,
    PhaseClosed,
    PhaseOpened,
    PhaseRefused,
    Record,
    Rejection,
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
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums
from fedbandits.rules.phased import PhasedRule, cut_to_fit
from fedbandits.rules.radii.paired_t import t_interval_widths
from fedbandits.rules.statistics import aggregate
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


_TRANSITIONS: dict[tuple[ServerState, _Event], ServerState] = {
    (ServerState.READY, _Event.OPENED): ServerState.COLLECTING,
    (ServerState.READY, _Event.PLAYED_OUT): ServerState.FINISHED,
    (ServerState.READY, _Event.REJECTED): ServerState.READY,
    (ServerState.COLLECTING, _Event.ACCEPTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.REJECTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.DECIDED): ServerState.READY,
    (ServerState.COLLECTING, _Event.ENDED): ServerState.FINISHED,
    (ServerState.COLLECTING, _Event.REFUSED): ServerState.FINISHED,
    (ServerState.FINISHED, _Event.REJECTED): ServerState.FINISHED,
}


def _event_of(record: Record) -> _Event:
    match record:
        case PhaseOpened(complete=complete):
            return _Event.OPENED if complete else _Event.PLAYED_OUT
        case UpdateAccepted():
            return _Event.ACCEPTED
        case UpdateRejected():
            return _Event.REJECTED
        case PhaseClosed(decision=decision):
            return _Event.ENDED if decision.final else _Event.DECIDED
        case PhaseRefused():
            return _Event.REFUSED


def _well_formed(update: object) -> bool:
    """Return whether something that came from outside is an update with values of its types."""
    if not isinstance(update, Update) or not isinstance(update.header, Header):
        return False
    header = update.header
    squares = () if update.squares is None else update.squares
    words = (header.run, header.arms, update.client)
    vectors = (update.counts, update.means, squares)
    return (
        all(isinstance(word, str) for word in words)
        and all(isinstance(vector, tuple) for vector in vectors)
        and all(
            type(number) is int
            for number in (header.epoch, header.version, update.phase, *update.counts)
        )
        and isinstance(update.packed, bytes)
        and type(update.clipped) is int
        and update.clipped >= 0
        and all(
            isinstance(number, int | float) and not isinstance(number, bool)
            for number in (*update.means, *squares)
        )
    )


def _counting(rule: PhasedRule, weights: Mapping[str, float] | None) -> PhasedRule:
    """Return a rule that counts clients by these weights; where all are equal, as it is."""
    if weights is None:
        if rule.weights == "given":
            raise ProtocolError("the rule counts clients by weights; give them, by name")
        return rule
    for client, weight in weights.items():
        check_number(weight, f'weights["{client}"]')
        if not 1 / LARGEST <= weight <= LARGEST:
            raise ProtocolError(f'the weight of client "{client}" is {weight}, and not positive')
    if rule.weights != "given":
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


# The mean of outcomes at an end of their range may be off that end by its last digits.
_LAST_DIGITS = 1e-9

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
        Where the records go; a `MemoryLog` by default.
    release : Release, optional
        What clients are asked to send; by default what the rule needs: sums of squares where it
        estimates σ.
    weights : mapping from str to float, optional
        How much each client counts, by its name, in any unit. The answer is then for these clients,
        weighted; the rule takes all of them at once. Equal ones are the same as none.
    privacy : Privacy, optional
        How clients protect their means, by which widths are widened. Clients hold it, too.

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
        self._uplink: IntArray = np.zeros(0, dtype=np.int64)

    @property
    def clients(self) -> tuple[str, ...]:
        """The admitted clients, in their order of admission."""
        return tuple(self._columns)

    @property
    def heard(self) -> int:
        """How many clients are behind the last decision."""
        return int((self._counts > 0).any(axis=0).sum())

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
        return self.rule.admit(self.phase + 1, len(self._columns), self.capped)[0]

    def open(self, admitted: Sequence[str]) -> Assignment:
        """Open the next phase with these new clients and return what everybody plays.

        When the phase does not fit into what is left of the horizon the server is finished: the
        assignment, cut to fit, is played out and nobody reports.
        """
        self._expect(ServerState.READY, "open a phase")
        known = [client for client in admitted if client in self._columns]
        if known or len(set(admitted)) != len(admitted):
            raise ProtocolError(f"a client was admitted twice: {(known or list(admitted))[0]}")
        wanted, capped = self.rule.admit(self.phase + 1, len(self._columns), self.capped)
        if len(admitted) > wanted:
            raise ProtocolError(f"{len(admitted)} new clients where the phase wants {wanted}")
        if not self._columns and not admitted:
            raise ProtocolError("the first phase needs at least one client")
        self._check_weights(admitted, wanted)
        planned = self.rule.plan(self.phase + 1, self._active)
        fitting = cut_to_fit(planned, self.rule.slots - self.slots_played)
        assignment = Assignment(
            header=self.header,
            phase=self.phase + 1,
            pulls=tuple(fitting.tolist()),
            release=self._release_of(fitting, len(admitted)),
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

    def receive(self, update: Update) -> Rejection | None:
        """Take a client's update; return None if it counts, else why not. Never raises."""
        rejection = self._fault_in(update)
        if rejection is None:
            self._commit(UpdateAccepted(update))
        else:
            formed = rejection is not Rejection.FORM
            self._commit(
                UpdateRejected(
                    client=update.client if formed else "",
                    phase=update.phase if formed else 0,
                    rejection=rejection,
                )
            )
        return rejection

    def _release_of(self, pulls: IntArray, newcomers: int) -> Release:
        """Return what clients are to send of the phase that begins, and how."""
        if self.privacy is None:
            return self.release
        phase, n, arm = self.phase + 1, int(pulls.max()), int(pulls.argmax())
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

    def refuse(self, refusal: Refusal) -> Decision | None:
        """Take a client's refusal: where its budget is spent the run stops with what is known."""
        if refusal.header != self.header or refusal.client not in self._columns:
            raise ProtocolError(f"a refusal from elsewhere: client {refusal.client}")
        if refusal.phase != self.phase:
            raise ProtocolError(f"a refusal of phase {refusal.phase} in phase {self.phase}")
        if refusal.why is not Refused.BUDGET:
            raise ProtocolError(
                f"client {refusal.client} refuses phase {refusal.phase}: {refusal.why.value}"
                f" ({refusal.detail})"
            )
        last = None if self.decision is None else replace(self.decision, reason=Reason.BUDGET)
        self._commit(PhaseRefused(refusal=refusal, decision=last))
        return last

    def close(self) -> Decision:
        """Decide the phase. Every admitted client must have reported."""
        self._expect(ServerState.COLLECTING, "close a phase")
        missing = len(self._columns) - len(self._reported)
        if missing:
            raise ProtocolError(f"{missing} of {len(self._columns)} clients have not reported")
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
    ) -> Server:
        """Return the server whose log holds these records; the rest as when it was made."""
        server = cls(rule, arms=arms, run=run, epoch=epoch, weights=weights, privacy=privacy)
        for record in records:
            server._commit(record)
        return server

    def interval_widths(self, level: float) -> FloatArray:
        """Return half-widths of intervals around all estimates, after the last closed phase.

        They hold together, in all phases, with probability 1 − ``level`` at least; see
        `fedbandits.rules.phased.PhasedRule.interval_widths`.
        """
        if self.decision is None:
            raise ProtocolError("nothing is known before the first phase is closed")
        counts, sums = self._counts, self._sums
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        distortion = self._distortion(self._distorted, counts)
        if self.rule.radius.needs_clients:  # it is told no variances
            inside = counts > 0
            widths = t_interval_widths(means, inside, level=level, phase=self.decision.phase)
            return widths + distortion.averaged(inside.astype(np.float64)).bias
        components = self.rule.components(
            counts=counts, client_means=means, squares=self._squares, active=self._active
        )
        return self.rule.interval_widths(
            level,
            phase=self.decision.phase,
            counts=counts,
            components=components,
            shares=self._shares(),
            distortion=distortion,
        )

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
        if self.rule.weights == "given" and len(admitted) < wanted:
            raise ProtocolError(
                f"{len(admitted)} clients where {wanted} have weights; all of them must play"
            )

    def _shares(self) -> FloatArray | None:
        """Return the weights of the admitted clients, in their order."""
        if self.weights is None or self.rule.weights != "given":
            return None
        return np.array([self.weights[client] for client in self._columns], dtype=np.float64)

    def _fault_in(self, update: Update) -> Rejection | None:
        if not _well_formed(update):
            return Rejection.FORM
        if update.header != self.header:
            return Rejection.HEADER
        if update.client not in self._columns:
            return Rejection.CLIENT
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
        if (len(update.means), len(squares)) != wanted:
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
        limits = getattr(self.rule.radius, "range", None)
        if limits is None or isinstance(mechanism, Noised):
            return True
        low, high = limits
        aside = _LAST_DIGITS * max(abs(low), abs(high)) + (mechanism.step if mechanism else 0.0)
        means = self._means_of(update)[np.array(update.counts) > 0]
        return bool(((low - aside <= means) & (means <= high + aside)).all())

    def _commit(self, record: Record) -> None:
        """Log a record, then apply it: the only place where the state changes."""
        step = (self.state, _event_of(record))
        if step not in _TRANSITIONS:
            raise ProtocolError(f"not while {self.state.value}: {step[1].value}")
        self.log.append(record)
        match record:
            case PhaseOpened():
                self._apply_opened(record)
            case UpdateAccepted(update=update):
                self._reported[update.client] = update
            case PhaseClosed(decision=decision):
                self._apply_closed(decision)
            case PhaseRefused(decision=decision):
                self.decision, self._reported = decision, {}
        self.state = _TRANSITIONS[step]

    def _apply_opened(self, record: PhaseOpened) -> None:
        self.phase = record.assignment.phase
        self.capped = record.capped
        self.assignment = record.assignment
        self.release = record.assignment.release
        self.slots_played += sum(record.assignment.pulls)
        for client in record.admitted:
            self._columns[client] = len(self._columns)
        new = ((0, 0), (0, len(record.admitted)))
        self._counts = np.pad(self._counts, new)
        self._sums = np.pad(self._sums, new)
        self._squares = np.pad(self._squares, new)
        self._distorted = self._distorted.admitted(len(record.admitted))
        self._uplink = np.pad(self._uplink, (0, len(record.admitted)))

    def _distortion(self, sums: DistortionSums, counts: IntArray) -> Distortion:
        """Return what protecting the means of clients leaves in them."""
        if self.privacy is None:
            return UNDISTORTED
        quantize = self.privacy.quantize
        return sums.over(counts, doubled=quantize is not None and quantize.widening == "paper")

    def _decide(self) -> Decision:
        counts, sums, squares = self._with_reports()
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        pulled = self._active & (counts > 0).any(axis=1)
        components = self.rule.components(
            counts=counts, client_means=means, squares=squares, active=self._active
        )
        shares = self._shares()
        distortion = self._distortion(self._distorted_after(counts), counts)
        weights = self.rule.weights_of(
            counts[pulled],
            components=components,
            shares=shares,
            distortion=distortion.of_arms(pulled),
        )
        fresh = self._estimates.copy()
        fresh[pulled] = aggregate(means[pulled], weights=weights)
        verdict = self.rule.decide(
            phase=self.phase,
            active=self._active,
            estimates=fresh,
            counts=counts,
            client_means=means if self.rule.radius.needs_clients else None,
            components=components,
            shares=shares,
            distortion=distortion,
        )
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
        """Return counts, reward sums and squares with this phase's updates, in client order."""
        updates = self._reported.values()
        columns = [self._columns[client] for client in self._reported]
        counts, sums, squares = self._counts.copy(), self._sums.copy(), self._squares.copy()
        if columns:
            fresh = np.array([update.counts for update in updates], dtype=np.int64).T
            means = np.array([self._means_of(update) for update in updates]).T
            scatter = [update.squares for update in updates if update.squares is not None]
            if scatter:
                before = counts[:, columns], sums[:, columns], squares[:, columns]
                reported = fresh, fresh * means, np.array(scatter, dtype=np.float64).T
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

    def _apply_closed(self, decision: Decision) -> None:
        counts, sums, squares = self._with_reports()
        self._distorted = self._distorted_after(counts)
        self._uplink = self._uplink + self._sent()
        self._counts, self._sums, self._squares = counts, sums, squares
        self._active = np.array(decision.active)
        self._estimates = np.array(decision.estimates)
        self._widths = np.array(decision.widths)
        self.decision = decision
        self._reported = {}

    def _sent(self) -> IntArray:
        """Return the bits of the means that clients have sent in this phase, in their order."""
        sent = np.zeros_like(self._uplink)
        for client, update in self._reported.items():
            arms = sum(count > 0 for count in update.counts)
            sent[self._columns[client]] = 8 * len(update.packed) or payload_bits(
                arms, UNPROTECTED_BITS
            )
        return sent


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
