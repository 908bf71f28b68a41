"""Calls of a user's code that may hang: each has its own time, and none costs the others theirs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_Found = TypeVar("_Found")


class _Attempt(Generic[_Found]):
    """A call in a thread of its own.

    A call that hangs is left to itself: the process that Flower starts for every message ends soon.
    """

    def __init__(self, call: Callable[[], _Found], seconds: float) -> None:
        self.limit = time.monotonic() + seconds
        self._seconds = seconds
        self._call = call
        self._found: list[_Found] = []
        self._failed: BaseException | None = None
        self._done = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        try:
            self._found.append(self._call())
        except BaseException as error:
            self._failed = error  # and returned where it is waited for
        finally:
            self._done.set()

    def wait(self, seconds: float) -> None:
        """Wait until it is done, so many seconds at most."""
        self._done.wait(max(seconds, 0.0))

    def outcome(self) -> _Found | Exception:
        """Return what it has returned or raised, when it is done or its time is over."""
        self.wait(self.limit - time.monotonic())
        if not self._done.is_set():
            return TimeoutError(
                f"it takes more than {self._seconds:.3g} s; give it longer (patience.pulls, and a"
                " deadline beyond that), or mend it"
            )
        if self._failed is None:
            return self._found[0]
        if isinstance(self._failed, Exception):
            return self._failed
        ended = RuntimeError(f"it ends the process ({self._failed!r})")  # by sys.exit, say
        ended.__cause__ = self._failed
        return ended


def each_in_time(
    calls: Sequence[Callable[[], _Found]], *, each: float, together: float
) -> list[_Found | Exception]:
    """Return what calls return or raise, in their order; a TimeoutError for who is late.

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
    begun: list[_Attempt[_Found]] = []
    for place, call in enumerate(calls):
        left = max(end - time.monotonic(), 0.0)
        begun.append(_Attempt(call, min(each, left)))
        begun[-1].wait(min(each, left / (len(calls) - place)))
    return [attempt.outcome() for attempt in begun]
