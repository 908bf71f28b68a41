"""Progress of an experiment, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedbandits.experiments.experiment import Experiment
from fedbandits.simulation.simulator import Progress as Report


@contextmanager
def show_progress(experiment: Experiment, *, quiet: bool) -> Iterator[Report | None]:
    """Yield what `Experiment.run` calls as replications are done; None when nothing is shown.

    A terminal gets a bar; anything else gets nothing, so that logs stay readable.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("replications"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        total = experiment.replications * len(experiment.variants)
        task = bar.add_task(experiment.variants[0].label, total=total)

        def report(label: str, done: int) -> None:
            bar.update(task, advance=done, description=label)

        yield report
