"""A limit on what a user's code prints: code that prints in a loop must not fill a disk."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import TextIO

MOST = 256 * 1024
"""How many characters of one message's output are kept."""


class _Limited(TextIOBase):
    """Passes text on until all who share the limit have written too much."""

    def __init__(self, stream: TextIO, left: list[int], lock: threading.Lock) -> None:
        self._stream = stream
        self._left = left
        self._lock = lock

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            left = self._left[0]
            self._left[0] = max(left - len(text), 0)
            if left:
                self._stream.write(text[:left])
            if 0 < left <= len(text):
                self._stream.write("\n… more was printed, and is left out\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def limited_output(most: int = MOST) -> Iterator[None]:
    """Leave out what threads of this process print beyond a number of characters.

    Examples
    --------
    >>> with limited_output(5):
    ...     print("abcdefgh")
    abcde
    … more was printed, and is left out
    """
    left, lock = [most], threading.Lock()
    with (
        redirect_stdout(_Limited(sys.stdout, left, lock)),
        redirect_stderr(_Limited(sys.stderr, left, lock)),
    ):
        yield
