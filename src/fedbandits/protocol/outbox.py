"""What a client has sent, kept by the client: its memory after a crash, and its audit.

An entry is in the outbox before the update leaves. A phase that was played is answered from it,
with the very same values: noise is never drawn twice for one release, because the average of two
draws would be less noisy than either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from fedbandits.privacy.accounting import Spending
from fedbandits.protocol.messages import Release, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One update that left a client, or was about to.

    Parameters
    ----------
    update : Update
        All of what was sent.
    release : Release
        How it was protected.
    means : tuple of float
        The means as the server reads them.
    clipped : int
        Observations that were clipped to the range; known to the client even if it is not sent.
    gain : float or None
        By which share adjusting made the variance smaller, if there is a covariate; known to the
        client even if it is not sent.
    spent : Spending
        Of the privacy budget, by this release.
    total : Spending
        By all releases so far, at the policy's level.
    budget : str
        Total and budget in words.
    at : str
        When, if the outbox has a clock.
    """

    update: Update
    release: Release
    means: tuple[float, ...]
    clipped: int
    spent: Spending
    total: Spending
    budget: str
    at: str = ""
    gain: float | None = None


class Outbox(Protocol):
    """An append-only sequence of entries, of one client."""

    def claim(self) -> None:
        """Say that a client uses it, which knows what was spent by what it has read; refuse two."""

    def append(self, entry: Entry) -> None:
        """Add an entry; when this returns it is as safe as the outbox can make it."""

    def __iter__(self) -> Iterator[Entry]: ...
