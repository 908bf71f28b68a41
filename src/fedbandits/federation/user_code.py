"""Limits on a user's code: how long each call may take, and how much it may print.

Each call has its own time, and one that hangs costs the others none of theirs. Code that prints in
a loop must not fill a disk.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from io import TextIOBase
from typing import TextIO, TypeVar

_Found = TypeVar("_Found")

MOST = 256 * 1024
"""How many characters of one message's output are kept."""


def _started(call: Callable[[], _Found]) -> Future[_Found]:
    """Begin a call in a thread of its own.

    A call that hangs is left to itself: the process that Flower starts for every message ends soon.
    """
    future: Future[_Found] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)  # `_outcome` returns it

    threading.Thread(target=work, daemon=True).start()
    return future


def _outcome(future: Future[_Found], limit: float, seconds: float) -> _Found | Exception:
    """Return what a call has returned or raised, when it is done or its time is over."""
    if not wait([future], max(limit - time.monotonic(), 0.0)).done:
        return TimeoutError(
            f"it takes more than {seconds:.3g} s; give it longer (patience.pulls, and a"
            " deadline beyond that), or mend it"
        )
    failed = future.exception()
    if failed is None:
        return future.result()
    if isinstance(failed, Exception):
        return failed
    ended = RuntimeError(f"it ends the process ({failed!r})")  # for instance by sys.exit
    ended.__cause__ = failed
    return ended


def each_in_time(
    calls: Sequence[Callable[[], _Found]], *, each: float, together: float
) -> list[_Found | Exception]:
    """Return what calls return or raise, in their order; a TimeoutError for one that is late.

    They run one after the other as long as none takes more than its share of the time. The next
    does not wait for one that does: from then on both run at once.

    Parameters
    ----------
    calls : sequence of callables
        What to call.
    each, together : float
        Seconds that a call may take from its own beginning, and all of them from now.

    Examples
    --------
    >>> each_in_time([lambda: 3, lambda: int("x")], each=5.0, together=5.0)
    [3, ValueError("invalid literal for int() with base 10: 'x'")]
    """
    end = time.monotonic() + together
    begun: list[tuple[Future[_Found | Exception], float, float]] = []
    for place, call in enumerate(calls):
        now = time.monotonic()
        left = max(end - now, 0.0)
        begun.append((_started(call), now + min(each, left), min(each, left)))
        wait([begun[-1][0]], min(each, left / (len(calls) - place)))
    return [_outcome(*attempt) for attempt in begun]


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
    limited = partial(_Limited, left=[most], lock=threading.Lock())
    with redirect_stdout(limited(sys.stdout)), redirect_stderr(limited(sys.stderr)):
        yield
