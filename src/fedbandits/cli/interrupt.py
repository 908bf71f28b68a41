"""Ctrl-C, with a word about what is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RunInterruptedError(Exception):
    """The user pressed Ctrl-C; the message says what is left behind."""


@contextmanager
def interruptible(left_behind: str | Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into an error that reaches `main`; Click would end without a word.

    Parameters
    ----------
    left_behind : str or callable
        What is said, or what finds out then what there is to say.
    """
    try:
        yield
    except KeyboardInterrupt:
        said = left_behind if isinstance(left_behind, str) else left_behind()
        raise RunInterruptedError(said) from None
