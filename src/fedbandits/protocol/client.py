"""The client machine: it pulls what it is assigned and reports statistics, nothing else.

It holds its own privacy policy, and refuses what the policy does not allow, whatever the server
asks. What it has sent is in its outbox.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import numpy as np

from fedbandits.errors import AssumptionWarning, InputError, ProtocolError
from fedbandits.privacy.accounting import UNBOUNDED, Spending
from fedbandits.privacy.mechanisms import PLACES_PER_SCALE, Mechanism, Noised, Rounded
from fedbandits.privacy.packing import pack
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.sampling import Noise, discrete_noise
from fedbandits.protocol.messages import (
    Assignment,
    Decision,
    Header,
    Refusal,
    Refused,
    Release,
    Update,
)
from fedbandits.protocol.outbox import Entry, Outbox
from fedbandits.protocol.turns import Turns, in_order
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.variance_components import merged_squares

Pull: TypeAlias = Callable[[int, int], Sequence[float] | FloatArray]
"""``pull(arm, n)`` tries an arm n times and returns the n observations."""

MOST_AT_ONCE = 65_536
"""So many observations are asked for in one call, which bounds what a client ever holds."""


# A scale that another machine has computed may differ in its last digits.
_ALIKE = 1.0 - 1e-9


class RefusalError(ProtocolError):
    """A client may not answer an assignment; its ``refusal`` is the message to send instead."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(
            f"client {refusal.client} refuses phase {refusal.phase}: {refusal.why.value}"
            f" ({refusal.detail})"
        )
        self.refusal = refusal


@dataclass(slots=True)
class _Tally:
    """What is kept of an arm's observations while a phase is played."""

    pulls: int = 0
    total: float = 0.0
    squares: float = 0.0
    clipped: int = 0


class ClientState(Enum):
    """Where a client is."""

    WAITING = "waiting"
    """No phase played yet."""
    REPORTED = "reported"
    """The last assignment is played and its update made."""
    FINISHED = "finished"
    """The winner is known."""


class _Event(Enum):
    ASSIGNED = "an assignment"
    DECIDED = "the last decision"


_TRANSITIONS: dict[tuple[ClientState, _Event], ClientState] = {
    (ClientState.WAITING, _Event.ASSIGNED): ClientState.REPORTED,
    (ClientState.WAITING, _Event.DECIDED): ClientState.FINISHED,
    (ClientState.REPORTED, _Event.ASSIGNED): ClientState.REPORTED,
    (ClientState.REPORTED, _Event.DECIDED): ClientState.FINISHED,
    (ClientState.FINISHED, _Event.DECIDED): ClientState.FINISHED,
}


class Client:
    """One client of a game.

    Parameters
    ----------
    name : str
        Who it is, in its updates.
    pull : callable
        ``pull(arm, n) -> n observations``: the user's code.
    privacy : Privacy, optional
        The client's own policy. Without one it protects its means as the server asks.
    outbox : Outbox, optional
        What it has sent so far, and is to be kept of what it sends: an `AuditFile` outlasts the
        process. By default the last update is kept, in memory.
    noise : Noise, optional
        Where noise comes from; OpenDP's discrete samplers by default. A seeded one is for
        simulations only.
    rng : numpy.random.Generator, optional
        For stochastic rounding; not seeded by default.
    turns : Turns
        In which order the arms are pulled; one after the other by default.
    min_pulls : int
        A mean of fewer pulls is not sent, whatever the policy says.

    Examples
    --------
    >>> header = Header(run="demo", epoch=1, arms="x")
    >>> alice = Client("alice", lambda arm, n: [0.25 + arm] * n)
    >>> alice.play(Assignment(header=header, phase=1, pulls=(4, 0, 2))).means
    (0.25, 0.0, 2.25)
    """

    def __init__(
        self,
        name: str,
        pull: Pull,
        *,
        privacy: Privacy | None = None,
        outbox: Outbox | None = None,
        noise: Noise = discrete_noise,
        rng: np.random.Generator | None = None,
        turns: Turns = in_order,
        min_pulls: int = 1,
    ) -> None:
        self.name = name
        self.min_pulls = min_pulls if privacy is None else max(min_pulls, privacy.min_pulls)
        self.state = ClientState.WAITING
        self.best: int | None = None
        self.privacy = privacy
        self.spent = Spending()
        self.releases = 0
        self.clipped = 0
        self._pull = pull
        self._outbox = outbox
        self._noise = noise
        self._turns = turns
        self._rng = np.random.default_rng() if rng is None else rng
        self._header: Header | None = None
        # What was sent last, by game.
        self._last: dict[tuple[str, str, int], Entry] = {}
        if outbox is not None:
            outbox.claim()
        elif privacy is not None and privacy.noise is not None and noise is discrete_noise:
            warnings.warn(
                f"client {name} has no outbox: after a restart it would draw noise again for what"
                " it has sent, and forget what it has spent; give it an AuditFile",
                AssumptionWarning,
                stacklevel=2,
            )
        for entry in () if outbox is None else outbox:
            self._recall(entry)

    def _recall(self, entry: Entry) -> None:
        """Take up an entry of the outbox: what was sent, and what it has spent."""
        if entry.update.client != self.name:
            raise InputError(
                "outbox",
                f'is that of client "{entry.update.client}", and this is "{self.name}"; give every'
                " client its own",
            )
        self._last[_game(entry.update.header)] = entry
        self.spent = self._after_spending(self._spent_by(entry))
        self.releases += 1
        self.clipped += entry.clipped

    def _spent_by(self, entry: Entry) -> Spending:
        """Return what an earlier release spends by today's policy, whatever it was made under."""
        policy, mechanism = self.privacy, entry.release.mechanism
        if policy is None or policy.noise is None:
            return Spending()
        pulls = [n for n in entry.update.counts if n]
        if isinstance(mechanism, Noised):
            return policy.spends(min(pulls), len(pulls), mechanism)
        # Means without noise protect nobody. An observation of another release is another matter.
        return Spending() if policy.level == "event" else UNBOUNDED

    def _after_spending(self, spent: Spending) -> Spending:
        return self.spent if self.privacy is None else self.privacy.total(self.spent, spent)

    def play(self, assignment: Assignment) -> Update:
        """Play a phase and return its update; the same assignment again gets the same update.

        Raises
        ------
        RefusalError
            If the policy does not allow the answer; nothing was pulled then.
        """
        self._check(assignment.header)
        last = self._last.get(_game(assignment.header))
        if last is not None and assignment.phase <= last.update.phase:
            return self._again(assignment, last)
        after = self._after(_Event.ASSIGNED)
        spent = self._allowed(assignment)
        release, counts = assignment.release, assignment.pulls
        totals = [_Tally() for _ in counts]
        for arm, n in self._turns(assignment.phase, counts):
            self._observe(totals[arm], arm, n, release)
        means = np.array(
            [tally.total / n if n else 0.0 for tally, n in zip(totals, counts, strict=True)]
        )
        clipped = sum(tally.clipped for tally in totals)
        mechanism, packed = release.mechanism, b""
        if mechanism is not None:
            pulled = np.array(counts) > 0
            places = self._places(mechanism, means[pulled])
            packed = pack(places.tolist(), mechanism.bits)
            means[pulled] = mechanism.values(places)
        update = Update(
            header=assignment.header,
            phase=assignment.phase,
            client=self.name,
            counts=counts,
            means=tuple(means.tolist()) if mechanism is None else (),
            packed=packed,
            squares=tuple(tally.squares for tally in totals) if release.squares else None,
            clipped=0 if isinstance(mechanism, Noised) else clipped,
        )
        total = self._after_spending(spent)
        entry = Entry(
            update=update,
            release=release,
            means=tuple(means.tolist()),
            clipped=clipped,
            spent=spent,
            total=total,
            budget="" if self.privacy is None else self.privacy.in_words(total),
        )
        if self._outbox is not None:
            self._outbox.append(entry)
        self.spent = total
        self.releases += 1
        self.clipped += clipped
        self._last[_game(update.header)] = entry
        self._header, self.state = assignment.header, after
        return update

    def _again(self, assignment: Assignment, last: Entry) -> Update:
        """Return what was sent for the last phase, as it was."""
        update = last.update
        same = (assignment.phase, assignment.pulls, assignment.release) == (
            update.phase,
            update.counts,
            last.release,
        )
        if not same or self.state is ClientState.FINISHED:
            raise ProtocolError(
                f"client {self.name}: phase {assignment.phase} after phase {update.phase}"
            )
        self._header, self.state = assignment.header, self._after(_Event.ASSIGNED)
        return replace(update, header=assignment.header)

    def _allowed(self, assignment: Assignment) -> Spending:
        """Return what answering an assignment spends, or refuse it."""
        policy, mechanism = self.privacy, assignment.release.mechanism

        def refused(why: Refused, detail: str) -> RefusalError:
            return RefusalError(
                Refusal(
                    header=assignment.header,
                    phase=assignment.phase,
                    client=self.name,
                    why=why,
                    detail=detail,
                )
            )

        pulls = [n for n in assignment.pulls if n]
        fewest = min(pulls, default=0)
        if pulls and fewest < self.min_pulls:
            raise refused(Refused.FEW_PULLS, f"{fewest} pulls, and min_pulls is {self.min_pulls}")
        if policy is None:
            return Spending()
        if not _protects(policy, assignment.release, fewest, len(assignment.pulls)):
            raise refused(Refused.POLICY, f"{assignment.release}, and the policy is {policy}")
        if not isinstance(mechanism, Noised):
            return Spending()
        if policy.releases is not None and self.releases >= policy.releases:
            raise refused(Refused.BUDGET, f"all {policy.releases} releases were made")
        spent = policy.spends(fewest, len(pulls), mechanism)
        total = policy.total(self.spent, spent)
        if not policy.within_budget(total):
            raise refused(Refused.BUDGET, policy.in_words(total))
        if self._noise is discrete_noise:  # said before anything is pulled for nothing
            discrete_noise(mechanism.kind, float(PLACES_PER_SCALE), 1)
        return spent

    def _places(self, mechanism: Mechanism, means: FloatArray) -> IntArray:
        if isinstance(mechanism, Noised):
            return mechanism.places(means, self._noise)
        return mechanism.places(means, self._rng)

    def conclude(self, decision: Decision) -> None:
        """Take the last decision: ``best`` is then the arm to stay on."""
        self._check(decision.header)
        if not decision.final:
            raise ProtocolError(f"client {self.name}: phase {decision.phase} is not the last")
        self.state = self._after(_Event.DECIDED)
        self.best = decision.best

    def _after(self, event: _Event) -> ClientState:
        step = (self.state, event)
        if step not in _TRANSITIONS:
            raise ProtocolError(
                f"client {self.name} is {self.state.value}: it cannot take {event.value}"
            )
        return _TRANSITIONS[step]

    def _check(self, header: Header) -> None:
        """Refuse another game; a server that was restarted counts its epoch up."""
        known = self._header
        if known is not None and (
            replace(header, epoch=known.epoch) != known or header.epoch < known.epoch
        ):
            raise ProtocolError(f"client {self.name}: {header} where {known} is played")

    def _observe(self, tally: _Tally, arm: int, pulls: int, release: Release) -> None:
        """Add fresh observations of an arm to its tally, in pieces of bounded size."""
        mechanism, left = release.mechanism, pulls
        while left:
            n = min(left, MOST_AT_ONCE)
            where = f"pull(arm={arm}, n={n})"
            returned = self._pull(arm, n)
            try:
                observations = np.asarray(returned, dtype=np.float64)
            except (TypeError, ValueError):
                kind = type(returned).__name__
                raise InputError(where, f"returned a {kind}; return {n} numbers") from None
            if observations.shape != (n,):
                raise InputError(
                    where, f"returned an array of shape {observations.shape}; return {n} numbers"
                )
            if not np.isfinite(observations).all():
                raise InputError(where, "returned an observation that is not a finite number")
            if mechanism is not None:
                inside = np.clip(observations, mechanism.low, mechanism.high)
                tally.clipped += int((inside != observations).sum())
                observations = inside
            fresh = float(observations.sum())
            if release.squares:
                apart = observations - fresh / n
                before = (tally.pulls, tally.total, tally.squares)
                tally.squares = float(merged_squares(before, (n, fresh, float(apart @ apart))))
            tally.total += fresh
            tally.pulls += n
            left -= n


def _protects(policy: Privacy, release: Release, pulls: int, arms: int) -> bool:
    """Return whether a release is protected as a policy asks, or more."""
    asked = release.mechanism
    if asked is None or release.squares:
        return False
    own = policy.mechanism(pulls, arms, asked.bits)
    if isinstance(own, Noised) and isinstance(asked, Noised):
        return replace(asked, scale=own.scale) == own and asked.scale >= own.scale * _ALIKE
    if isinstance(own, Rounded) and isinstance(asked, Rounded):
        return replace(asked, bits=own.bits) == own and asked.bits <= own.bits
    return False


def _game(header: Header) -> tuple[str, str, int]:
    """Return what makes a game another one; a server that was restarted goes on with the same."""
    return header.run, header.arms, header.version
