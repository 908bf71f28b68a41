"""What a client has pulled of a phase that it has not finished, kept by the client.

A client plays for a while, keeps what it has, and goes on when it is asked again: so a withdrawal
reaches it in the middle of a phase, whatever carries the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from fedbandits.protocol.codec import IF_ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSums:
    """What is kept of an arm's observations while a phase is played.

    Parameters
    ----------
    pulls, clipped : int
        How many there are, and how many of them were clipped.
    total, squares : float
        Their sum, and their sum of squares around their mean.
    guardrails : tuple of float
        Sums of the values of each guardrail; empty if there are none.
    plain_total, plain_squares : float
        The same of outcomes before they were adjusted by a covariate; 0 if there is none.
    """

    pulls: int = 0
    total: float = 0.0
    squares: float = 0.0
    clipped: int = 0
    guardrails: tuple[float, ...] = field(default=(), metadata=IF_ANY)
    plain_total: float = field(default=0.0, metadata=IF_ANY)
    plain_squares: float = field(default=0.0, metadata=IF_ANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A phase that is partly played.

    Parameters
    ----------
    run, arms : str
        Of the assignment's header.
    phase : int
        Which.
    pulls : tuple of int
        That were assigned.
    calls : int
        How many calls of ``pull`` are over, or were left out.
    sums : tuple of ArmSums
        What came of them, by arm.
    halted : tuple of int
        Arms that were halted at the client at any time in this phase.
    seconds : float
        How long it was played.
    """

    run: str
    arms: str
    phase: int
    pulls: tuple[int, ...]
    calls: int = 0
    sums: tuple[ArmSums, ...]
    halted: tuple[int, ...] = ()
    seconds: float = 0.0


class Workbench(Protocol):
    """Keeps the phase that is not finished, of one client."""

    def read(self) -> Unfinished | None:
        """Return what is kept, or None."""

    def write(self, work: Unfinished, /) -> None:
        """Keep it instead of what was kept before."""

    def clear(self) -> None:
        """Forget it: it is reported."""


class MemoryWorkbench:
    """Keeps it as long as the process lasts."""

    def __init__(self) -> None:
        self._work: Unfinished | None = None

    def read(self) -> Unfinished | None:
        """Return what is kept, or None."""
        return self._work

    def write(self, work: Unfinished) -> None:
        """Keep it instead of what was kept before."""
        self._work = work

    def clear(self) -> None:
        """Forget it."""
        self._work = None
