"""What is handed to a worker, wherever it runs, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.experiments.describe import versions
from fedbandits.plugins import RunPlugins
from fedbandits.simulation import simulate_all
from fedbandits.simulation.tables import outcome_columns
from fedbandits.sweeps.cells import FinishedCell, Group, Playable, made_with


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """Cells to be played together.

    Parameters
    ----------
    plugins : RunPlugins
        What the classes of the cells come from: the first to be read where the task is played.
    cells : mapping of str to Playable
        By their addresses.
    group : tuple
        What they have in common: horizon, replications and seed.
    memory_limit : int
        Bytes that the statistics of clients may take.
    """

    plugins: RunPlugins = field(default_factory=RunPlugins)
    cells: Mapping[str, Playable]
    group: Group
    memory_limit: int

    def run(self) -> TaskResult:
        """Play them here, on one core."""
        horizon, replications, seed = self.group
        try:
            variants, rules = zip(*self.cells.values(), strict=True)
            simulations = simulate_all(
                variants,
                horizon=horizon,
                replications=replications,
                seed=seed,
                grid_points=1,  # regret is wanted at the end alone
                workers=1,
                memory_limit=self.memory_limit,
                progress=False,
                warn=False,
                rules=list(rules),
            )
        except InputError as error:
            # As a value: every backend wraps errors in a way of its own.
            return TaskResult(addresses=tuple(self.cells), refused=(error.where, error.problem))
        finished = []
        for address, simulation in zip(self.cells, simulations, strict=True):
            columns = outcome_columns(simulation)
            del columns["total"]  # depends on the cost of communication
            fidelity = simulation.fidelity.value
            finished.append(FinishedCell(address=address, fidelity=fidelity, columns=columns))
        return TaskResult(addresses=tuple(self.cells), cells=tuple(finished))


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
