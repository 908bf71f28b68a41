"""Run a sweep: what is finished is read back, what is not is played and kept as it finishes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.notebook.followed import followed
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.simulator import DEFAULT_MEMORY_LIMIT, most_in_step
from fedbandits.sweeps.backends import DEFAULT_TIMEOUT, Where, open_backend
from fedbandits.sweeps.cells import Cell, Playable, cells_of
from fedbandits.sweeps.doubts import Doubt, doubts_of
from fedbandits.sweeps.results import SweepResults
from fedbandits.sweeps.store import FOLDER, Store
from fedbandits.sweeps.sweep import Sweep
from fedbandits.sweeps.tasks import SweepTask

# This many tasks per worker, if there are enough cells, keep all workers busy until the end.
_TASKS_A_WORKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStep:
    """How far a sweep has come.

    Parameters
    ----------
    state : str
        "reading" while settings are checked, "playing" then.
    done, cells : int
        How many cells are finished, and of how many.
    reused : int
        How many of them an earlier run had finished.
    passed : float
        Seconds since the state began.
    """

    state: Literal["reading", "playing"]
    done: int
    cells: int
    reused: int
    passed: float

    @property
    def left(self) -> float | None:
        """About how many seconds are left, once that can be said."""
        timed = self.done - self.reused
        return self.passed / timed * (self.cells - self.done) if timed else None


OnSweepStep: TypeAlias = Callable[[SweepStep], None]
"""Told how far a sweep has come, whenever that changes."""


def in_short(step: SweepStep) -> str:
    """Return the progress of a sweep, in words."""
    if step.state == "reading":
        return f"checked {step.done:,} of {step.cells:,} settings"
    reused = f", {step.reused:,} of them from an earlier run" if step.reused else ""
    return f"finished {step.done:,} of {step.cells:,} cells{reused}"


@contextmanager
def _bar() -> Iterator[OnSweepStep | None]:
    from fedbandits.notebook.bar import LeftColumn, bar  # noqa: PLC0415 - Rich, only to show

    with bar(LeftColumn(), total=1.0, until=None) as update:
        yield update and (
            lambda step: update(
                completed=step.done,
                total=max(step.cells, 1),
                description=in_short(step),
                until=None if step.left is None else time.monotonic() + step.left,
            )
        )


def run_sweep(
    sweep: Sweep,
    directory: Path,
    *,
    backend: str = "processes",
    address: str | None = None,
    workers: int | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    timeout: float = DEFAULT_TIMEOUT,
    fresh: bool = False,
    progress: OnSweepStep | Literal[False] | None = None,
    warn: Callable[[list[Doubt]], None] | None = None,
) -> SweepResults:
    """Play every cell of a sweep that is not finished yet.

    All settings are checked before any is played. Finished cells are kept in a folder of the
    directory as they finish: an interrupted run goes on from there, and one of a changed file plays
    only what has changed.

    Parameters
    ----------
    sweep : Sweep
        What to play.
    directory : Path
        Where finished cells are kept.
    backend : {"processes", "dask", "ray"}
        Where it runs; the numbers are the same.
    address : str, optional
        Of a Dask scheduler or a Ray cluster that is running.
    workers : int, optional
        Processes on this machine; all cores by default.
    memory_limit : int
        Bytes that the statistics of clients may take, over all workers together.
    timeout : float
        Seconds that the address has to answer.
    fresh : bool
        Play what an earlier run has finished, too.
    progress : callable or False, optional
        Told how far the sweep has come; see `fedbandits.simulate_all`.
    warn : callable, optional
        Told which assumptions do not hold, if any, before anything is played.
    """
    begun: dict[str, float] = {}

    def tell(state: Literal["reading", "playing"], done: int, cells: int, reused: int = 0) -> None:
        now = time.monotonic()
        passed = now - begun.setdefault(state, now)
        if told is not None:
            told(SweepStep(state=state, done=done, cells=cells, reused=reused, passed=passed))

    store = Store(Path(directory) / FOLDER)
    where = Where(address=address, workers=workers, timeout=timeout)
    with followed(progress, _bar) as told, open_backend(backend, where) as opened:
        cells: list[Cell] = []
        ready: dict[str, Playable] = {}
        for number in range(len(sweep)):
            tell("reading", number, len(sweep))
            for cell, playable in cells_of(sweep, number):
                cells.append(cell)
                ready[cell.address] = playable
        tell("reading", len(sweep), len(sweep))
        doubts = doubts_of(cells)
        if warn is not None and doubts:
            warn(doubts)
        wanted = {cell.address: cell for cell in cells}
        finished = {} if fresh else store.read(wanted)
        reused = len(finished)
        tell("playing", reused, len(wanted), reused)
        open_cells = [cell for address, cell in wanted.items() if address not in finished]
        tasks = list(_tasks(open_cells, ready, opened.workers, memory_limit // opened.workers))
        with closing(opened.play(tasks)) as answers:
            for answer in answers:
                if answer.refused is not None:
                    with sweep.located(wanted[answer.addresses[0]].setting):
                        raise InputError(*answer.refused)
                store.keep(answer.cells)
                finished |= {cell.address: cell for cell in answer.cells}
                tell("playing", len(finished), len(wanted), reused)
    missing = wanted.keys() - finished.keys()
    if missing:
        raise FedbanditsError(
            f"{len(missing):,} of {len(wanted):,} cells were not played; nothing was written, and"
            " what is finished is kept: run it again"
        )
    return SweepResults(sweep=sweep, cells=tuple(cells), finished=finished)


def _tasks(
    cells: list[Cell], ready: dict[str, Playable], workers: int, memory_limit: int
) -> Iterator[SweepTask]:
    """Yield cells in tasks of some that can be played together; they are no longer kept here."""
    groups: dict[object, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.group, cell.fidelity, cell.problem), []).append(cell)
    for members in groups.values():
        shared = math.ceil(len(members) / (_TASKS_A_WORKER * workers))
        _, replications, _ = members[0].group
        # Many small games share their draws and their array operations; others gain nothing.
        in_step = members[0].fidelity is Fidelity.COHORTS
        size = max(1, min(shared, most_in_step(replications) if in_step else 1))
        for start in range(0, len(members), size):
            addresses = [cell.address for cell in members[start : start + size]]
            yield SweepTask(
                cells={address: ready.pop(address) for address in addresses},
                group=members[0].group,
                memory_limit=memory_limit,
            )
