"""What is handed to a worker, wherever it runs, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.experiments.describe import versions
from fedbandits.plugins import Plugin, plugins_in_use
from fedbandits.registry import Parts, parts_in_use
from fedbandits.sweeps.cells import FinishedCell, made_with, play_cells


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """Cells to be played together.

    Parameters
    ----------
    specs : mapping
        Of one horizon, number of replications and seed, by their addresses.
    memory_limit : int
        Bytes that the statistics of clients may take.
    plugins : tuple of Plugin
        That the specs need; they travel with their sources.
    registered : Parts
        What was registered in Python; it travels likewise.
    """

    specs: Mapping[str, Mapping[str, Any]]
    memory_limit: int
    plugins: tuple[Plugin, ...] = ()
    registered: Parts = field(default_factory=dict)

    def run(self) -> TaskResult:
        """Play them here."""
        try:
            with parts_in_use(self.registered), plugins_in_use(self.plugins):
                cells = play_cells(self.specs, memory_limit=self.memory_limit)
        except InputError as error:
            # As a value: every backend wraps errors in a way of its own.
            return TaskResult(addresses=tuple(self.specs), refused=(error.where, error.problem))
        return TaskResult(addresses=tuple(self.specs), cells=tuple(cells))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What a worker made of a task.

    Parameters
    ----------
    addresses : tuple of str
        Of the task's cells.
    cells : tuple of FinishedCell
        What their games gave.
    refused : (str, str), optional
        Where a cell is wrong, and what is.
    """

    addresses: tuple[str, ...]
    cells: tuple[FinishedCell, ...] = ()
    refused: tuple[str, str] | None = None


def run_remotely(task: SweepTask, expected: str) -> TaskResult:
    """Play a task on a machine whose package may be another one.

    Parameters
    ----------
    task : SweepTask
        What to play.
    expected : str
        The versions and sources of the machine that asks (`made_with`): others are refused, since
        numbers could differ.
    """
    if made_with() != expected:
        there = ", ".join(f"{name} {version}" for name, version in versions().items())
        raise FedbanditsError(
            "a worker has other versions or sources than this machine, and numbers could differ;"
            f" install the same there (it has {there})"
        )
    return task.run()
