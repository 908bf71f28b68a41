"""Clocks that are off: if a node's clock is ahead, Flower silently refuses what it signs.

A node signs the time with every message, and the SuperLink refuses a time that lies more than 5 s
ahead of its own, or more than 305 s behind it.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from fedbandits.errors import InputError

MOST_AHEAD: Final = 5.0
MOST_BEHIND: Final = 305.0
"""Seconds that Flower lets a node's clock be off."""

LIMITS: Final = f"from {MOST_AHEAD:g} s ahead or {MOST_BEHIND:g} s behind it is refused"
"""The same in words."""

WORTH_SAYING: Final = 1.0
"""Seconds by which a clock must be off to be mentioned."""

_ANSWERS = 5.0
_RESOLUTION = 1.0  # of the time in a server's answers


def seconds_ahead(
    server: str, authority: Path, *, clock: Callable[[], float] = time.time
) -> float | None:
    """Return how far this machine's clock is ahead of a server's, at least; None if it is unknown.

    It is below 0 if the clock is behind, and 0 if nothing can be said against it.

    Parameters
    ----------
    server : str
        Host and port, with TLS.
    authority : path
        Certificate of the authority that signed its own.
    clock : callable
        Of this machine.

    Raises
    ------
    InputError
        If the address is not of the form host:port.
    """
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError("--superlink", f'"{server}" is not an address; give host:port')
    context = ssl.create_default_context(cafile=str(authority))
    line = http.client.HTTPSConnection(
        host.strip("[]"), int(port), timeout=_ANSWERS, context=context
    )
    try:
        before = clock()
        line.request("HEAD", "/")
        said = line.getresponse().getheader("Date")
        after = clock()
        if said is None:
            return None
        there = parsedate_to_datetime(said).timestamp()
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        line.close()
    return off_by(before, after, there, there + _RESOLUTION)


def off_by(first: float, last: float, earliest: float, latest: float) -> float:
    """Return how far a clock is ahead of another, at least, below 0 if it is behind.

    Parameters
    ----------
    first, last : float
        Between which times of its own it was looked at.
    earliest, latest : float
        Between which times of the other one that was.

    Examples
    --------
    >>> off_by(120.0, 120.2, 100.0, 101.0), off_by(100.0, 107.0, 100.0, 101.0)
    (19.0, 0.0)
    >>> off_by(40.0, 40.0, 100.0, 101.0)
    -60.0
    """
    return max(first - latest, 0.0) + min(last - earliest, 0.0)


def clock_words(ahead: float) -> str:
    """Return how far a clock is off, in words.

    Examples
    --------
    >>> clock_words(19.0), clock_words(-400.2)
    ('19 s ahead of', '400 s behind')
    """
    return f"{ahead:.0f} s ahead of" if ahead > 0 else f"{-ahead:.0f} s behind"


def check_clock(server: str, authority: Path, warn: Callable[[str], None]) -> None:
    """Refuse a clock that the server would refuse; warn of one that is off.

    Raises
    ------
    InputError
        If it is too far off.
    """
    ahead = seconds_ahead(server, authority)
    if ahead is None or abs(ahead) < WORTH_SAYING:
        return
    words = (
        f"this machine's clock is at least {clock_words(ahead)} the server's; set it, for instance"
        " with: timedatectl set-ntp true"
    )
    if -MOST_BEHIND < ahead < MOST_AHEAD:
        warn(f"{words}; {LIMITS}")
        return
    raise InputError("clock", f"{words}. The server refuses all that this node signs, so it ends")
