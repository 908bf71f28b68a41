"""Progress of an experiment, a reproduction, a sweep and of reading a log, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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

from fedbandits.experiments.experiment import Experiment
from fedbandits.federation.followed import OnRead
from fedbandits.planning.search import OnTried
from fedbandits.reproduce.steps import OnStep, Step
from fedbandits.simulation.simulator import Progress as Report
from fedbandits.sweeps.run import OnSweepStep, SweepStep


@contextmanager
def _bar(
    *columns: ProgressColumn,
    console: Console | None = None,
    quiet: bool = False,
    description: str = "",
    **fields: Any,
) -> Iterator[Callable[..., None] | None]:
    """Yield a function that updates a bar; None if quiet, or if there is no terminal.

    The bar begins with a description of what is done, and disappears when the block ends.
    """
    console = console or Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    what = TextColumn("{task.description}", markup=False)
    with Progress(what, BarColumn(), *columns, console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(description, **fields))


@contextmanager
def show_progress(experiment: Experiment, *, quiet: bool) -> Iterator[Report | None]:
    """Yield what `Experiment.run` calls as replications finish; None if nothing is shown.

    A terminal gets a bar; anything else gets nothing, so that logs stay readable. A single game
    with a million clients takes a while: the spinner and the clock show that it is being played.
    """
    columns = (
        *(MofNCompleteColumn(), TextColumn("replications,"), TimeElapsedColumn()),
        *(TextColumn("so far,"), TimeRemainingColumn(), TextColumn("left"), SpinnerColumn()),
    )
    total, label = experiment.replications * len(experiment.variants), experiment.variants[0].label
    with _bar(*columns, quiet=quiet, total=total, description=label) as update:
        yield update and (lambda label, done: update(advance=done, description=label))


@contextmanager
def show_search() -> Iterator[OnTried | None]:
    """Yield what the search of a plan calls as it proceeds; None if nothing is shown."""
    with _bar(MofNCompleteColumn(), TextColumn("schedules"), total=None) as update:
        yield update and (lambda what, n, of: update(description=what, completed=n, total=of))


@contextmanager
def show_tries(runs: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yield what trying a trial several times calls as it proceeds."""
    columns = (MofNCompleteColumn(), TextColumn("runs"))
    with _bar(*columns, quiet=quiet, total=runs) as update:
        yield (lambda done: update(completed=done)) if update else (lambda _: None)


@contextmanager
def show_records(log: str) -> Iterator[OnRead]:
    """Yield what reading a long log calls as it proceeds."""
    with _bar(MofNCompleteColumn(), TextColumn("records"), total=None) as update:
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
    columns = replications, _LeftColumn()
    with _bar(*columns, console=console, total=1.0, replications="", until=None) as update:
        if update is None:
            yield _Lines(console).step
        else:
            yield lambda step: update(
                completed=step.share,
                description=f"{step.part} ({step.number} of {step.parts})",
                replications=_replications(step),
                until=time.monotonic() + step.left,
            )


@contextmanager
def show_sweep(*, quiet: bool, console: Console | None = None) -> Iterator[OnSweepStep | None]:
    """Yield what `fedbandits.sweeps.run.run_sweep` calls with its progress; None if not shown.

    A terminal gets a bar with the time left; anything else gets a line now and then.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    console : Console, optional
        Where it is shown; standard error by default.
    """
    with _bar(_LeftColumn(), console=console, quiet=quiet, total=1.0, until=None) as update:
        if update is None:
            yield None if quiet else _Lines(console, -_QUIET_SECONDS).sweep_step
        else:
            yield lambda step: update(
                completed=step.done,
                total=max(step.cells, 1),
                description=_of_sweep(step),
                until=None if step.left is None else time.monotonic() + step.left,
            )


class _Lines:
    """Progress, line by line; a long step gets a line now and then."""

    def __init__(self, console: Console | None, said: float = 0.0) -> None:
        self.console = console or Console(stderr=True)
        self.said = said

    def step(self, step: Step) -> None:
        """Say what is being made, and what is done."""
        in_progress = step.state == "running" and step.replications > 0
        what = _replications(step) if in_progress else step.state
        since = f"{step.number} of {step.parts}, {step.passed:.0f} s, {_left(step.left)}"
        self._say(f"{step.part}: {what} ({since})", step.passed, at_once=not in_progress)

    def sweep_step(self, step: SweepStep) -> None:
        """Say when a sweep begins, when it is done, and now and then."""
        reading = step.state == "reading"
        if reading and step.done == 0:
            self.said = 0.0
        since = f"{step.passed:.0f} s"
        if step.left is not None and step.done < step.cells:
            since += f", {_left(step.left)}"
        ends = not reading and step.done in (step.reused, step.cells)
        self._say(f"{_of_sweep(step)} ({since})", step.passed, at_once=ends)

    def _say(self, line: str, passed: float, *, at_once: bool) -> None:
        if at_once or passed - self.said >= _QUIET_SECONDS:
            self.said = passed
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _of_sweep(step: SweepStep) -> str:
    """Return the progress of a sweep, in words."""
    if step.state == "reading":
        return f"checked {step.done:,} of {step.cells:,} settings"
    reused = f", {step.reused:,} of them from an earlier run" if step.reused else ""
    return f"finished {step.done:,} of {step.cells:,} cells{reused}"


class _LeftColumn(ProgressColumn):
    """How long it may still take, counted down until more is known."""

    def render(self, task: Task) -> Text:
        until = task.fields["until"]
        if until is None:
            return Text("")
        return Text(_left(max(0.0, until - time.monotonic())), style="progress.remaining")


def _replications(step: Step) -> str:
    """Return how many replications are done, in words."""
    if not step.replications:
        return ""
    whole = f" of {step.all_replications:,}" if step.all_replications else ""
    return f"{step.replications:,}{whole} replications"


def _left(seconds: float) -> str:
    """Return how long it may still take, in words.

    Examples
    --------
    >>> _left(12.3), _left(100.0)
    ('about 12 s left', 'about 2 min left')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left"
