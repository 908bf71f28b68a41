"""The records of a server's log: what was opened, accepted, rejected and decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

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
    GUARDRAILS = "sums of guardrails that were not asked for, or that no values in range have"
    SIGNATURE = "not signed with the client's key"


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
    """Somebody, or a guardrail, has taken an arm out: the answer is about the others.

    Parameters
    ----------
    arm : int
        Which.
    reason : str
        Why, in words.
    """

    arm: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecallConfirmed:
    """Clients have confirmed that they give nobody the arms that are withdrawn so far."""

    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHalted:
    """What is halted at a client has changed: its operator's doing, which needs no server.

    Parameters
    ----------
    client : str
        Which.
    arms : tuple of int
        The arms that are not given there from now on; none if everything goes on again.
    reason : str
        Why, in the operator's words.
    """

    client: str
    arms: tuple[int, ...]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsBound:
    """From now on one node answers for these clients, and no other.

    Parameters
    ----------
    node : str
        Fingerprint of its key.
    clients : tuple of str
        Their names.
    reason : str
        Why they were moved, in words; empty if nobody answered for them before.
    """

    node: str
    clients: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRefused:
    """A node has claimed clients that another one answers for.

    Parameters
    ----------
    node : str
        Fingerprint of its key.
    clients : tuple of str
        Their names.
    """

    node: str
    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPinned:
    """From now on updates of a client count only if they are signed with this key.

    Parameters
    ----------
    client : str
        Which.
    key : bytes
        Its public key (Ed25519).
    reason : str
        Why it has another key than before, in words; empty if it had none.
    """

    client: str
    key: bytes
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSigned:
    """The server vouches for all records so far. It follows every decision, and the end of the run.

    Parameters
    ----------
    checksum : str
        Of the record before this one, and through it of all before that.
    at : str
        When it was signed.
    signature : bytes
        By the server's key, of what the log says of its run, and of the other two.
    """

    checksum: str
    at: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over. The decision is the last word: all that is known, and why it ended.

    Parameters
    ----------
    decision : Decision
        The last word.
    words : str
        Why somebody has stopped it, in their words.
    """

    decision: Decision
    words: str = ""


Record: TypeAlias = (
    PhaseOpened
    | UpdateAccepted
    | UpdateRejected
    | PhaseClosed
    | AnswerRefused
    | PhaseAbandoned
    | ArmWithdrawn
    | RecallConfirmed
    | ClientHalted
    | ServerStarted
    | ClientsBound
    | ClaimRefused
    | KeyPinned
    | HeadSigned
    | RunEnded
)
