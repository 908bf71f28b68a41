"""The messages between server and client. Frozen; they carry statistics, never observations.

Vectors run over the arms, in the order of the arm list that the header's hash stands for.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS, Mechanism
from fedbandits.privacy.packing import payload_bits
from fedbandits.protocol.codec import IF_ANY, encode
from fedbandits.rules.guardrails import Guardrail

PROTOCOL_VERSION = 2


def arms_hash(arms: Sequence[str]) -> str:
    """Return the fingerprint of an arm list: names and order.

    Examples
    --------
    >>> arms_hash(["red", "blue"])
    'd4d061dc39d86523'
    """
    text = json.dumps(list(arms), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What every message says of itself, so that none from elsewhere is taken.

    Parameters
    ----------
    run : str
        The run it belongs to.
    epoch : int
        Which incarnation of the server speaks; a restarted server increases it.
    arms : str
        `arms_hash` of the arm list.
    version : int
        Of this protocol.
    """

    run: str
    epoch: int
    arms: str
    version: int = PROTOCOL_VERSION


class Reason(Enum):
    """Why a decision is as it is."""

    OPEN = "open"
    """Several arms are left; the next phase follows."""
    ONE_ARM_LEFT = "one arm left"
    """The winner is known."""
    WITHIN_TOLERANCE = "within tolerance"
    """All arms that are left are as good as the best up to the tolerance."""
    LAST_PHASE = "last phase"
    """No phase follows; the arm with the best estimate is played on, undecided."""
    HORIZON = "horizon"
    """The phase ended with the last slot, and several arms are left."""
    BUDGET = "budget"
    """The clients' privacy budget allows no further release, and several arms are left."""
    QUORUM = "quorum"
    """Too few clients answer, and several arms are left."""
    STOPPED = "stopped"
    """Somebody has stopped it, and several arms are left."""
    HARM = "harm"
    """Every arm was withdrawn, the last of them by a guardrail: none is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a phase has decided.

    Parameters
    ----------
    header : Header
        Whose message this is.
    phase : int
        The phase that was decided.
    active : tuple of bool
        The arms still in the game.
    estimates, widths : tuple of float
        Global estimates and the half-widths of their intervals; those of dropped arms as they were
        when they were dropped.
    best : int
        The active arm with the highest estimate: what is played when no phase follows. It means
        nothing if none is active.
    winner : int or None
        The arm that is left, once only one is.
    reason : Reason
        Whether and why this is the last one.
    """

    header: Header
    phase: int
    active: tuple[bool, ...]
    estimates: tuple[float, ...]
    widths: tuple[float, ...]
    best: int
    winner: int | None
    reason: Reason

    @property
    def final(self) -> bool:
        """Whether no phase follows."""
        return self.reason is not Reason.OPEN

    @property
    def known(self) -> bool:
        """Whether there is a reason to stay on the best arm: it was measured, or is alone."""
        measured = math.isfinite(self.widths[self.best])
        return any(self.active) and (self.winner is not None or measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a client may send of a phase, beside counts and means.

    Parameters
    ----------
    squares : bool
        Whether sums of squares are wanted: only for a rule that estimates σ. They say more of what
        was observed than means do, and two pulls with their sum of squares are an open book.
    mechanism : Mechanism, optional
        How means are rounded or noised before they are sent; as they are by default.
    guardrails : tuple of Guardrail
        Of which second outcomes sums are wanted. A client sends them only if it has the same ones.
    """

    squares: bool = False
    mechanism: Mechanism | None = None
    guardrails: tuple[Guardrail, ...] = field(default=(), metadata=IF_ANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a client is to do in a phase: the same for all of them.

    Parameters
    ----------
    header : Header
        Whose message this is.
    phase : int
        From 1.
    pulls : tuple of int
        How often to pull each arm; 0 for an arm that is not active.
    release : Release
        What to send.
    previous : Decision or None
        The decision of the phase before, which rides along.
    withdrawn : tuple of int
        Arms that were withdrawn since the phase was opened: they are no longer pulled, and what
        was pulled of them is not reported.
    """

    header: Header
    phase: int
    pulls: tuple[int, ...]
    release: Release = field(default_factory=Release)
    previous: Decision | None = None
    withdrawn: tuple[int, ...] = ()

    def refused(self, client: str, why: Refused, detail: str = "") -> Refusal:
        """Return what a client says that does not answer it."""
        return Refusal(header=self.header, phase=self.phase, client=client, why=why, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What is sent to all clients as soon as an arm is withdrawn, in the middle of a phase or not.

    Parameters
    ----------
    header : Header
        Whose message this is.
    arms : tuple of int
        All arms that are withdrawn so far. They are no longer given to anybody.
    """

    header: Header
    arms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """What the operator of a client has stopped there, without asking a server.

    Parameters
    ----------
    arms : tuple of int
        The arms that are not given at this client; all of them if the client is halted altogether.
    reason : str
        Why, in the operator's words.
    """

    arms: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a client says when it has taken a recall: it obeys from now on.

    Parameters
    ----------
    header : Header
        Whose message this is.
    client : str
        Who says it.
    arms : tuple of int
        Those of the recall.
    halt : Halt or None
        What is halted at the client now.
    """

    header: Header
    client: str
    arms: tuple[int, ...]
    halt: Halt | None = None


class Refused(Enum):
    """Why a client does not send what it was asked for."""

    BUDGET = "its privacy budget is spent"
    FEW_PULLS = "too few pulls behind a mean"
    POLICY = "less protection than its own policy asks for"
    ARMS = "its list of arms is another one"
    PENDING = "not all of its outcomes are there yet"
    PAUSED = "it has not finished, and goes on when it is asked again"
    BUSY = "it plays another run"
    HALTED = "it is halted where it is"
    OUTSIDE = "an outcome lies outside the declared range"
    PLAYED = "it has played more of this run than the server's log knows"
    FAILED = "its own code failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What a client says when it may not answer an assignment. It says nothing of observations.

    Parameters
    ----------
    header : Header
        Whose message this is.
    phase : int
        The phase that was assigned.
    client : str
        Who refuses.
    why : Refused
        The reason.
    detail : str
        The rule, the value and the way out.
    halt : Halt or None
        What is halted at the client now.
    """

    header: Header
    phase: int
    client: str
    why: Refused
    detail: str = ""
    halt: Halt | None = None

    @property
    def words(self) -> str:
        """Who refuses what, and why."""
        return f"client {self.client} refuses phase {self.phase}: {self.why.value} ({self.detail})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The last word to all clients: what to stay on, and how sure that is.

    Parameters
    ----------
    header : Header
        Whose message this is.
    arms : tuple of str
        Their names.
    decision : Decision
        The last one. If no phase was decided its widths are infinite, and nothing has won unless
        one arm alone is left.
    low, high : tuple of float
        Ends of the arms' intervals, which hold together with probability 1 − ``level`` at least.
    level : float
        Their error probability; 1 if none is known.
    error : str or None
        With which probability the rule loses the best arm, in words.
    assumptions : tuple of str
        What all of it rests on.
    words : str
        All of it in plain words.
    """

    header: Header
    arms: tuple[str, ...]
    decision: Decision
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    error: str | None
    assumptions: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The statistics of one client's pulls of one phase: all that ever leaves a client.

    Parameters
    ----------
    header : Header
        Whose message this is.
    phase : int
        The phase that was played.
    client : str
        Who played it.
    counts : tuple of int
        Pulls of each arm.
    means : tuple of float
        Mean of these pulls; 0.0 if there were none. Empty if they are packed.
    packed : bytes
        In place of means, if the assignment has a mechanism: the places on its grid of all arms
        that were pulled, in order, as `fedbandits.privacy.packing.pack` makes them.
    squares : tuple of float or None
        Sum of squares of these pulls around their mean, if the assignment asked for it; 0.0 if
        there were none. Around the mean, because in a sum of raw squares what is wanted may cancel.
    clipped : int
        How many observations were clipped to the declared range. Always 0 if means are noised:
        such a count is a release of its own, and stays with the client.
    halted : tuple of int
        Arms of which nothing is reported, because they were halted at the client in this phase.
    halt : Halt or None
        What is halted at the client when it sends this; it is not part of what was observed.
    uneven : tuple of int
        Arms of which suspiciously many units are lost at this client, by its own test:
        `fedbandits.rules.attrition`. Always empty if means are noised, like ``clipped``.
    guardrails : tuple of tuple of float
        One row per guardrail of the assignment, with the sum of its values in the pulls of each
        arm; 0.0 if there were none.
    gain : float or None
        By which share adjusting outcomes by the trial's covariate makes their variance within
        options smaller, in hundredths, if there is a covariate. Never sent if means are noised.
    signature : bytes
        By the client's key, of `signed_bytes`; empty if the client has none.
    """

    header: Header
    phase: int
    client: str
    counts: tuple[int, ...]
    means: tuple[float, ...] = ()
    packed: bytes = b""
    squares: tuple[float, ...] | None = None
    clipped: int = 0
    halted: tuple[int, ...] = ()
    halt: Halt | None = None
    uneven: tuple[int, ...] = field(default=(), metadata=IF_ANY)
    guardrails: tuple[tuple[float, ...], ...] = field(default=(), metadata=IF_ANY)
    gain: float | None = field(default=None, metadata=IF_ANY)
    signature: bytes = field(default=b"", metadata=IF_ANY)

    @property
    def payload_bits(self) -> int:
        """Bits of the means: those that are packed, or 64 for each that is sent as it is."""
        sent = len(self.counts) - self.counts.count(0)
        return 8 * len(self.packed) or payload_bits(sent, UNPROTECTED_BITS)


def signed_bytes(update: Update, assignment: Assignment) -> bytes:
    """Return what a client signs: all of an update, and the assignment that it answers.

    The header names run, epoch and arms, so that the signature is good for nothing else. How means
    are packed and how often arms are pulled is part of what the numbers mean.
    """
    said = {**encode(update), "signature": ""}
    asked = {"pulls": assignment.pulls, "release": encode(assignment.release)}
    return f"fedbandits update\n{json.dumps([asked, said], sort_keys=True)}".encode()
