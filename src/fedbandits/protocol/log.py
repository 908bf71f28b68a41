"""The server's log: what was opened, accepted, rejected and decided, in order.

The server's state is a function of this sequence alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from fedbandits.protocol.messages import Assignment, Decision, Refusal, Update


class Rejection(Enum):
    """Why an update was not counted."""

    FORM = "not an update with values of its types"
    HEADER = "another run, epoch, arm list or protocol version"
    CLIENT = "unknown client"
    PHASE = "not the phase that is open"
    DUPLICATE = "already counted"
    SHAPE = "wrong number of arms"
    COUNTS = "counts that were not assigned"
    NOT_FINITE = "a mean that is no finite number of reasonable size, or a square that is none"
    PACKED = "means that are not packed as assigned"
    RANGE = "a mean outside the range that the rule takes all outcomes to lie in"
    QUARANTINED = "a client whose updates were wrong too often"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOpened:
    """A phase began.

    Parameters
    ----------
    admitted : tuple of str
        The clients who joined in it, in order.
    assignment : Assignment
        What all clients play; cut to what is left of the horizon.
    complete : bool
        Whether all of it fits into the horizon. If not it is played out and never decided.
    capped : bool
        Whether the cap on clients has ever cut admissions short.
    """

    admitted: tuple[str, ...]
    assignment: Assignment
    complete: bool
    capped: bool


@dataclass(frozen=True, slots=True)
class UpdateAccepted:
    """A client's statistics were counted."""

    update: Update


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRejected:
    """A client's message was not counted."""

    client: str
    phase: int
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class PhaseClosed:
    """A phase was decided."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class AnswerRefused:
    """A client did not answer, and has said why; the others go on. Kept once a phase and reason."""

    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseAbandoned:
    """A phase ended below its quorum: what came is counted, and nothing is decided.

    Parameters
    ----------
    phase : int
        Which.
    reported, expected : int
        Clients that have reported, and those that should have.
    """

    phase: int
    reported: int
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmWithdrawn:
    """Somebody has taken an arm out: the answer is about the others.

    Parameters
    ----------
    arm : int
        Which.
    reason : str
        Why, in words.
    """

    arm: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStarted:
    """A server has taken the run over; messages of the one before are of another epoch.

    Parameters
    ----------
    epoch : int
        The new one.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over. The decision is the last word: all that is known, and why it ended."""

    decision: Decision


Record: TypeAlias = (
    PhaseOpened
    | UpdateAccepted
    | UpdateRejected
    | PhaseClosed
    | AnswerRefused
    | PhaseAbandoned
    | ArmWithdrawn
    | ServerStarted
    | RunEnded
)


class Log(Protocol):
    """An append-only sequence of records.

    A record is in it before anything is sent because of it.
    """

    def append(self, record: Record) -> None:
        """Add a record; when this returns it is as safe as the log can make it."""
        ...

    def __iter__(self) -> Iterator[Record]: ...


class MemoryLog:
    """A log that lasts as long as the process.

    Parameters
    ----------
    records : iterable of Record
        What it holds already.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: list[Record] = list(records)

    def append(self, record: Record) -> None:
        """Add a record."""
        self._records.append(record)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)
