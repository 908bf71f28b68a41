"""What becomes of replications that do not fit into memory together: they are played in parts."""

from __future__ import annotations

from collections.abc import Callable

from fedbandits.rules.arrays import IntArray
from fedbandits.simulation.game import Outcome


class OutOfMemoryLimitError(Exception):
    """The statistics of these replications together would exceed the memory limit."""


def in_parts(play: Callable[[IntArray], Outcome], replications: IntArray) -> Outcome:
    """Play replications together, or in halves where they exceed the memory limit.

    Streams are keyed by replication, so that a batch can be begun again in parts.
    """
    try:
        return play(replications)
    except OutOfMemoryLimitError:
        half = replications.size // 2
        parts = (replications[:half], replications[half:])
        return Outcome.joined([in_parts(play, part) for part in parts])
