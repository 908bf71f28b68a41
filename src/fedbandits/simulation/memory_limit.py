"""What becomes of replications that do not fit into memory together: they are played in parts."""

from __future__ import annotations

from collections.abc import Callable

from fedbandits.errors import InputError
from fedbandits.rules.arrays import IntArray
from fedbandits.simulation.game import Outcome


class OutOfMemoryLimitError(Exception):
    """The statistics of these replications together would exceed the memory limit."""


def check_memory(
    bytes_an_arm: int, *, clients: int, n_arms: int, replications: int, limit: int
) -> None:
    """Refuse to hold more than the limit: in parts if that helps, else say so.

    Parameters
    ----------
    bytes_an_arm : int
        What the clients of one replication take for an arm.
    clients, n_arms, replications : int
        How many there are.
    limit : int
        In bytes.
    """
    a_replication = bytes_an_arm * n_arms
    if replications * a_replication <= limit:
        return
    if replications > 1:
        raise OutOfMemoryLimitError
    raise InputError(
        "memory_limit",
        f"one replication with {clients:,} clients and {n_arms} arms takes "
        f"{a_replication / 2**20:,.0f} MiB, and a process may take {limit / 2**20:,.0f} MiB; "
        "raise it, or lower max_clients",
    )


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
