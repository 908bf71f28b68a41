"""Ctrl-C, with a word about what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RunInterruptedError(Exception):
    """The user pressed Ctrl-C; the message says what is left behind."""


@contextmanager
def interruptible(left_behind: str) -> Iterator[None]:
    """Turn Ctrl-C into an error that reaches `main`; Click would end without a word."""
    try:
        yield
    except KeyboardInterrupt:
        raise RunInterruptedError(left_behind) from None
