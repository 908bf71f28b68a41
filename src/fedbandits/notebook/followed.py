"""Who is told how far a long call has come: the caller's function, or whoever looks at a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypeVar

ToldT = TypeVar("ToldT", bound=Callable[..., None])


def followed(
    progress: ToldT | Literal[False] | None,
    bar: Callable[[], AbstractContextManager[ToldT | None]],
) -> AbstractContextManager[ToldT | None]:
    """Return what yields the function to tell, or None if nobody is told.

    Parameters
    ----------
    progress : callable, False or None
        What the caller wants: to be told, or nothing. None is a bar, if anybody can see it.
    bar : callable
        Makes the bar.

    Examples
    --------
    >>> with followed(False, nullcontext) as told:
    ...     print(told)
    None
    """
    if progress is None and is_watched():
        return bar()
    return nullcontext(progress or None)


def in_notebook() -> bool:
    """Return whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


def is_watched() -> bool:
    """Return whether a bar would be seen: in a terminal, or below the cell of a notebook."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
