"""How much memory the statistics of simulated clients may take."""

from __future__ import annotations

from fedbandits.errors import InputError


class OutOfMemoryLimitError(Exception):
    """The statistics of these replications together would exceed the memory limit.

    Streams are keyed by replication, so that they can be begun again in parts.
    """


def check_memory(held: int, *, replications: int, limit: int, what: str, lower: str) -> None:
    """Refuse to use more memory than the limit: play in parts if that helps, else say so.

    Parameters
    ----------
    held : int
        Bytes that one replication takes.
    replications : int
        How many are held at once.
    limit : int
        In bytes.
    what, lower : str
        What takes so much, and what to lower.
    """
    if replications * held <= limit:
        return
    if replications > 1:
        raise OutOfMemoryLimitError
    raise InputError(
        "memory_limit",
        f"{what} takes {held / 2**20:,.0f} MiB, and a process may take {limit / 2**20:,.0f} MiB;"
        f" raise it, or lower {lower}",
    )
