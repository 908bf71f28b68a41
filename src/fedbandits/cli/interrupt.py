"""Ctrl-C, with a message about what is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RunInterruptedError(Exception):
    """The user pressed Ctrl-C; the message says what is left behind."""


@contextmanager
def interruptible(left_behind: str | Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into an error that reaches `main`; Click would end without a message.

    Parameters
    ----------
    left_behind : str or callable
        The message, or a function that makes it when needed.
    """
    try:
        yield
    except KeyboardInterrupt:
        said = left_behind if isinstance(left_behind, str) else left_behind()
        raise RunInterruptedError(said) from None
