"""Progress of an experiment, of a reproduction and of a sweep, on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

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
from fedbandits.reproduce.steps import Step, Watch
from fedbandits.simulation.simulator import Progress as Report
from fedbandits.sweeps.run import Standing
from fedbandits.sweeps.run import Watch as SweepWatch


@contextmanager
def show_progress(experiment: Experiment, *, quiet: bool) -> Iterator[Report | None]:
    """Yield what `Experiment.run` calls as replications are done; None when nothing is shown.

    A terminal gets a bar; anything else gets nothing, so that logs stay readable. A single game
    with a million clients takes a while: what turns and counts the time shows that it is played.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("replications,"),
        TimeElapsedColumn(),
        TextColumn("so far,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        total = experiment.replications * len(experiment.variants)
        task = bar.add_task(experiment.variants[0].label, total=total)

        def report(label: str, done: int) -> None:
            bar.update(task, advance=done, description=label)

        yield report


_QUIET_SECONDS = 10.0
"""For how long nothing is said of a part that is being made, in lines."""


@contextmanager
def show_steps(console: Console | None = None) -> Iterator[Watch]:
    """Yield what `fedbandits.reproduce.reproduction.reproduce_paper` tells where it stands.

    A terminal gets a bar with what is being made; anything else gets lines.

    Parameters
    ----------
    console : Console, optional
        Where it is shown; standard error by default.
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield _Lines(console).show
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[replications]}", markup=False),
        _LeftColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, replications="", until=None)

        def show(step: Step) -> None:
            bar.update(
                task,
                completed=step.share,
                description=f"{step.part} ({step.number} of {step.parts})",
                replications=_replications(step),
                until=time.monotonic() + step.left,
            )

        yield show


@contextmanager
def show_sweep(*, quiet: bool, console: Console | None = None) -> Iterator[SweepWatch | None]:
    """Yield what `fedbandits.sweeps.run.run_sweep` tells where it stands; None if nobody looks.

    A terminal gets a bar with the time left; anything else gets a line now and then.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    console : Console, optional
        Where it is shown; standard error by default.
    """
    console = Console(stderr=True) if console is None else console
    if quiet:
        yield None
        return
    if not console.is_terminal:
        yield _SweepLines(console).show
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), _LeftColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, until=None)

        def show(standing: Standing) -> None:
            left = standing.left
            bar.update(
                task,
                completed=standing.done,
                total=max(standing.cells, 1),
                description=_standing(standing),
                until=None if left is None else time.monotonic() + left,
            )

        yield show


class _SweepLines:
    """Where a sweep stands, line by line: when it begins, when it is done, and now and then."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.said = -_QUIET_SECONDS

    def show(self, standing: Standing) -> None:
        if standing.state == "reading":
            ends = False
            self.said = 0.0 if standing.done == 0 else self.said
        else:
            ends = standing.done in (standing.reused, standing.cells)
        if not ends and standing.passed - self.said < _QUIET_SECONDS:
            return
        self.said = standing.passed
        since = f"{standing.passed:.0f} s"
        if standing.left is not None and standing.done < standing.cells:
            since += f", {_left(standing.left)}"
        line = f"{_standing(standing)} ({since})"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _standing(standing: Standing) -> str:
    """Return where a sweep stands, in words."""
    if standing.state == "reading":
        return f"checked {standing.done:,} of {standing.cells:,} settings"
    as_it_was = f", {standing.reused:,} of them as they were" if standing.reused else ""
    return f"finished {standing.done:,} of {standing.cells:,} cells{as_it_was}"


class _LeftColumn(ProgressColumn):
    """How long it may still take, counted down until more is known."""

    def render(self, task: Task) -> Text:
        until = task.fields["until"]
        if until is None:
            return Text("")
        return Text(_left(max(0.0, until - time.monotonic())), style="progress.remaining")


class _Lines:
    """What is being made and what is done, line by line; of what takes long, now and then."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.said = 0.0

    def show(self, step: Step) -> None:
        going_on = step.state == "running" and step.replications > 0
        if going_on and step.passed - self.said < _QUIET_SECONDS:
            return
        self.said = step.passed
        what = _replications(step) if going_on else step.state
        since = f"{step.number} of {step.parts}, {step.passed:.0f} s, {_left(step.left)}"
        line = f"{step.part}: {what} ({since})"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


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
