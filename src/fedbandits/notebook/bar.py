"""A bar that shows how far a long call has come: in a terminal, or below the cell of a notebook."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, Timer
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fedbandits.notebook.followed import in_notebook

PATIENCE = 1.0
"""Seconds until a bar appears: what is done sooner needs none."""

# Seconds between two pictures of a bar in a notebook, and how many characters it has there.
_PAUSE, _WIDTH = 0.5, 100


@contextmanager
def bar(
    *columns: ProgressColumn,
    console: Console | None = None,
    quiet: bool = False,
    description: str = "",
    patience: float | None = None,
    **fields: Any,
) -> Iterator[Callable[..., None] | None]:
    """Yield a function that updates a bar; None if quiet, or if nobody can see one.

    The bar begins with a description of what is done. It appears after a second, and disappears
    when the block ends.

    Parameters
    ----------
    *columns : ProgressColumn
        What stands behind the bar.
    console : Console, optional
        Where it is shown; standard error, or the cell of the notebook, by default.
    quiet : bool
        Show nothing.
    description : str
        What is done.
    patience : float, optional
        Seconds until it appears; `PATIENCE` by default.
    **fields
        As in ``rich.progress.Progress.add_task``.
    """
    console = console or Console(stderr=True, force_jupyter=False)
    shown = in_notebook()
    if quiet or not (shown or console.is_terminal):
        yield None
        return
    what = TextColumn("{task.description}", markup=False)
    progress = Progress(what, BarColumn(), *columns, console=console, transient=True)
    update = partial(progress.update, progress.add_task(description, **fields))
    patience = PATIENCE if patience is None else patience
    where = _in_cell if shown else _in_terminal
    with where(progress, update, patience) as told:
        yield told


@contextmanager
def _in_terminal(
    progress: Progress, update: Callable[..., None], patience: float
) -> Iterator[Callable[..., None]]:
    """Show progress once some seconds have passed, whether or not anything is told by then."""
    over, lock = False, Lock()

    def begin() -> None:
        with lock:
            if not over:
                progress.start()

    timer = Timer(patience, begin)
    timer.daemon = True
    if patience > 0:
        timer.start()
    else:
        begin()
    try:
        yield update
    finally:
        timer.cancel()
        with lock:
            over = True
            if progress.live.is_started:
                progress.stop()


@contextmanager
def _in_cell(
    progress: Progress, update: Callable[..., None], patience: float
) -> Iterator[Callable[..., None]]:
    """Show pictures of the progress below the cell, one in place of the other."""
    from IPython.display import display  # noqa: PLC0415 - of the notebook

    due, cell = time.monotonic() + patience, None

    def tell(**changed: Any) -> None:
        nonlocal due, cell
        update(**changed)
        if time.monotonic() < due:
            return
        picture = {"text/plain": _text(progress)}
        if cell is None:
            cell = display(picture, raw=True, display_id=True)
        else:
            cell.update(picture, raw=True)
        due = time.monotonic() + _PAUSE

    try:
        yield tell
    finally:
        if cell is not None:
            cell.update({"text/plain": ""}, raw=True)


def _text(progress: Progress) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=_WIDTH, force_terminal=False, force_jupyter=False)
    console.print(progress.get_renderable())
    return buffer.getvalue().strip()


def counting(unit: str, *, timed: bool = False) -> tuple[ProgressColumn, ...]:
    """Return columns that say how many of how many are done; also how long it takes, if timed.

    A single step may take a while: the spinner and the clock show that it goes on.
    """
    if not timed:
        return MofNCompleteColumn(), TextColumn(unit)
    return (
        *(MofNCompleteColumn(), TextColumn(f"{unit},"), TimeElapsedColumn()),
        *(TextColumn("so far,"), TimeRemainingColumn(), TextColumn("left"), SpinnerColumn()),
    )


class LeftColumn(ProgressColumn):
    """How long it may still take, counted down until more is known: the field ``until``."""

    def render(self, task: Task) -> Text:
        """Return it in words; nothing as long as it is unknown."""
        until = task.fields["until"]
        if until is None:
            return Text("")
        return Text(in_words(max(0.0, until - time.monotonic())), style="progress.remaining")


def in_words(seconds: float) -> str:
    """Return how long it may still take, in words.

    Examples
    --------
    >>> in_words(12.3), in_words(100.0)
    ('about 12 s left', 'about 2 min left')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left"
