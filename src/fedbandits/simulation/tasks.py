"""Tasks: some replications of variants, run here or on several processes, and in parts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fedbandits.errors import InputError
from fedbandits.loopback import RejectionError
from fedbandits.plugins import RunPlugins
from fedbandits.protocol import Rejection
from fedbandits.rules.arrays import IntArray
from fedbandits.simulation.clients import ClientEvidence
from fedbandits.simulation.cohorts import CohortEvidence
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.game import Game, OutOfMemoryLimitError, PlayedGames
from fedbandits.simulation.in_step import FailedGameError
from fedbandits.simulation.phases import play_phases
from fedbandits.simulation.pulls import play_pulls
from fedbandits.simulation.slots import play_slots
from fedbandits.simulation.variants import located

PER_TASK = {
    Fidelity.COHORTS: (256, 2048),
    Fidelity.CLIENTS: (4, 64),
    Fidelity.PULLS: (1, 2),
    Fidelity.SLOTS: (64, 256),
}
"""The fewest and the most replications of one task.

Vectorised drivers gain from many, and take as long for half of the fewest; the others do not.
"""

_SERIAL_SECONDS = 1.0
# Once there are processes, work is handed to them at once.
_SERIAL_SECONDS_LATER = 0.1
_processes = {"started": False}


class TaskResult(NamedTuple):
    """What a task gave, one entry per variant, and how many seconds it took."""

    played: list[PlayedGames]
    seconds: float


@dataclass(frozen=True, slots=True)
class Task:
    """Some replications of one variant, or of several that are played in step.

    Parameters
    ----------
    numbers : list of int
        The variants' places among all.
    games : list of Game
        The same, ready to be played.
    fidelity : Fidelity
        What is drawn.
    replications : array of int
        Of each of them, ascending.
    """

    numbers: list[int]
    games: list[Game]
    fidelity: Fidelity
    replications: IntArray

    def run(self) -> TaskResult | None:
        """Return what came out; None if memory asks for halves."""
        begin = time.perf_counter()
        try:
            return TaskResult(self._play(), time.perf_counter() - begin)
        except OutOfMemoryLimitError:
            return None
        except FailedGameError as error:
            number, refused = self.numbers[self.games.index(error.game)], error.problem
        except InputError as error:
            number, refused = self.numbers[0], error
        except RejectionError as error:
            if error.rejection is not Rejection.RANGE:
                raise
            # A server takes no such mean; the other fidelities have none that could refuse it.
            problem = f'{error}; widen it, or use fidelity = "clients" to see what the rule does'
            number, refused = self.numbers[0], InputError("radius.range", problem)
        raise located(refused, number)

    def _play(self) -> list[PlayedGames]:
        match self.fidelity:
            case Fidelity.PULLS:
                return [play_pulls(self.games[0], self.replications)]
            case Fidelity.SLOTS:
                return [play_slots(self.games[0], self.replications)]
        evidence = CohortEvidence if self.fidelity is Fidelity.COHORTS else ClientEvidence
        return play_phases(self.games, self.replications, evidence)

    def halves(self) -> list[Task]:
        """Return two tasks of half as much: of the replications, or of the games if it has one."""
        half = self.replications.size // 2
        if half:
            parts = self.replications[:half], self.replications[half:]
            return [replace(self, replications=part) for part in parts]
        half = len(self.games) // 2
        return [
            replace(self, numbers=self.numbers[part], games=self.games[part])
            for part in (slice(half), slice(half, None))
        ]


def run_tasks(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, TaskResult]]:
    """Run the tasks: here for a second, and what is left then on several processes.

    Starting processes takes about a second, and most experiments are done before. A task that
    memory does not allow is run in halves, and so are those of its variants that are as large.
    """
    alone = _SERIAL_SECONDS_LATER if _processes["started"] else _SERIAL_SECONDS
    left, until = deque(tasks), time.perf_counter() + alone
    while left and (workers == 1 or time.perf_counter() <= until):
        task = left.popleft()
        found = task.run()
        if found is not None:
            yield task, found
            continue
        waiting, left = [task, *left], deque()
        for each in waiting:
            as_large = each.replications.size >= task.replications.size
            left.extend(each.halves() if as_large and each.numbers == task.numbers else [each])
    while left:
        at_once, left = list(left), deque()
        for task, found in zip(at_once, _on_processes(at_once, workers), strict=True):
            if found is None:
                left.extend(task.halves())
            else:
                yield task, found


def _on_processes(tasks: Sequence[Task], workers: int) -> Iterator[TaskResult | None]:
    """Yield what tasks give, in their order."""
    from joblib import Parallel, delayed  # noqa: PLC0415 - only long work needs it

    _processes["started"] = True
    parallel = Parallel(n_jobs=workers, return_as="generator")
    yield from parallel(delayed(_run_task)(RunPlugins(), task) for task in tasks)


def _run_task(_: RunPlugins, task: Task) -> TaskResult | None:
    return task.run()
