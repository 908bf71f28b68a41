"""The client machine: it pulls what it is assigned and reports statistics, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

import numpy as np

from fedbandits.errors import InputError, ProtocolError
from fedbandits.protocol.messages import Assignment, Decision, Header, Update
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.variance_components import merged_squares

Pull: TypeAlias = Callable[[int, int], Sequence[float] | FloatArray]
"""``pull(arm, n)`` tries an arm n times and returns the n observations."""

MOST_AT_ONCE = 65_536
"""So many observations are asked for in one call, which bounds what a client ever holds."""


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

    Examples
    --------
    >>> header = Header(run="demo", epoch=1, arms="x")
    >>> alice = Client("alice", lambda arm, n: [0.25 + arm] * n)
    >>> alice.play(Assignment(header=header, phase=1, pulls=(4, 0, 2))).means
    (0.25, 0.0, 2.25)
    """

    def __init__(self, name: str, pull: Pull) -> None:
        self.name = name
        self.state = ClientState.WAITING
        self.best: int | None = None
        self._pull = pull
        self._header: Header | None = None
        self._last: Update | None = None
        self._played: Assignment | None = None

    def play(self, assignment: Assignment) -> Update:
        """Play a phase and return its update; the same assignment again gets the same update."""
        self._check(assignment.header)
        if self._last is not None and assignment.phase <= self._last.phase:
            if assignment == self._played and self.state is not ClientState.FINISHED:
                return self._last
            raise ProtocolError(
                f"client {self.name}: phase {assignment.phase} after phase {self._last.phase}"
            )
        after = self._after(_Event.ASSIGNED)
        wanted = assignment.release.squares
        totals = [self._total(arm, pulls, wanted) for arm, pulls in enumerate(assignment.pulls)]
        counts = assignment.pulls
        update = Update(
            header=assignment.header,
            phase=assignment.phase,
            client=self.name,
            counts=counts,
            means=tuple(s / n if n else 0.0 for (s, _), n in zip(totals, counts, strict=True)),
            squares=tuple(squares for _, squares in totals) if wanted else None,
        )
        self._header, self._last, self.state = assignment.header, update, after
        self._played = assignment
        return update

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
        if self._header is not None and header != self._header:
            raise ProtocolError(f"client {self.name}: {header} where {self._header} is played")

    def _total(self, arm: int, pulls: int, wanted: bool) -> tuple[float, float]:
        """Return the sum of fresh observations of an arm and, if wanted, that of their squares."""
        total, squares, left = 0.0, 0.0, pulls
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
            fresh = float(observations.sum())
            if wanted:
                apart = observations - fresh / n
                before = (pulls - left, total, squares)
                squares = float(merged_squares(before, (n, fresh, float(apart @ apart))))
            total += fresh
            left -= n
        return total, squares
