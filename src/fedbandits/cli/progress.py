"""Progress of a reproduction, a sweep, of trials and of reading a log, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console
from rich.progress import TextColumn

from fedbandits.federation.durable_log import OnRead
from fedbandits.notebook.bar import LeftColumn, bar, counting, in_words
from fedbandits.notebook.followed import is_watched
from fedbandits.reproduce.steps import OnStep, Step
from fedbandits.sweeps.run import OnSweepStep, SweepStep, in_short


@contextmanager
def show_tries(runs: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yield what trying a trial several times calls as it proceeds."""
    with bar(*counting("runs"), quiet=quiet, total=runs) as update:
        yield (lambda done: update(completed=done)) if update else (lambda _: None)


@contextmanager
def show_records(log: str) -> Iterator[OnRead]:
    """Yield what reading a long log calls as it proceeds."""
    # Its caller has waited.
    with bar(*counting("records"), patience=0.0, total=None) as update:
        what = f"reading {log}"

        def read(done: int, of: int) -> None:
            if update is not None:
                update(description=what, completed=done, total=of)

        yield read


_QUIET_SECONDS = 10.0
"""How long to wait between two lines about the same part."""


@contextmanager
def show_steps(console: Console | None = None) -> Iterator[OnStep]:
    """Yield what `fedbandits.reproduce.reproduction.reproduce_paper` calls with its progress.

    A terminal gets a bar with the part that is being made; anything else gets lines.

    Parameters
    ----------
    console : Console, optional
        Where it is shown; standard error by default.
    """
    replications = TextColumn("{task.fields[replications]}", markup=False)
    columns = replications, LeftColumn()
    with bar(*columns, console=console, total=1.0, replications="", until=None) as update:
        if update is None:
            yield _Lines(console).step
        else:
            yield lambda step: update(
                completed=step.share,
                description=f"{step.part} ({step.number} of {step.parts})",
                replications=_replications(step),
                until=time.monotonic() + step.left,
            )


def sweep_progress(
    *, quiet: bool, console: Console | None = None
) -> OnSweepStep | Literal[False] | None:
    """Return what `fedbandits.run_sweep` takes as ``progress``.

    A terminal gets the bar of the library; anything else gets a line now and then.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    console : Console, optional
        Where it is shown; standard error by default.
    """
    if quiet:
        return False
    if is_watched() if console is None else console.is_terminal:
        return None
    return _Lines(console, -_QUIET_SECONDS).sweep_step


class _Lines:
    """Progress, line by line; a long step gets a line now and then."""

    def __init__(self, console: Console | None, said: float = 0.0) -> None:
        self.console = console or Console(stderr=True)
        self.said = said

    def step(self, step: Step) -> None:
        """Say what is being made, and what is done."""
        in_progress = step.state == "running" and step.replications > 0
        what = _replications(step) if in_progress else step.state
        since = f"{step.number} of {step.parts}, {step.passed:.0f} s, {in_words(step.left)}"
        self._say(f"{step.part}: {what} ({since})", step.passed, at_once=not in_progress)

    def sweep_step(self, step: SweepStep) -> None:
        """Say when a sweep begins, when it is done, and now and then."""
        reading = step.state == "reading"
        if reading and step.done == 0:
            self.said = 0.0
        since = f"{step.passed:.0f} s"
        if step.left is not None and step.done < step.cells:
            since += f", {in_words(step.left)}"
        ends = not reading and step.done in (step.reused, step.cells)
        self._say(f"{in_short(step)} ({since})", step.passed, at_once=ends)

    def _say(self, line: str, passed: float, *, at_once: bool) -> None:
        if at_once or passed - self.said >= _QUIET_SECONDS:
            self.said = passed
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _replications(step: Step) -> str:
    """Return how many replications are done, in words."""
    if not step.replications:
        return ""
    whole = f" of {step.all_replications:,}" if step.all_replications else ""
    return f"{step.replications:,}{whole} replications"
