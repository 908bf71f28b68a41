"""Simulate replications of variants: in chunks, on one core or several, with the same numbers."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from fedbandits.errors import AssumptionWarning, InputError, check_count
from fedbandits.notebook.followed import followed
from fedbandits.notebook.viewed import Viewed, known_name
from fedbandits.privacy.policy import Privacy
from fedbandits.problems.problem import Problem
from fedbandits.report.chart import Chart
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation.attacks import Attack
from fedbandits.simulation.charts import regret_charts
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.game import Game, PlayedGames
from fedbandits.simulation.in_step import in_batches, key_in_step
from fedbandits.simulation.regret import make_grid
from fedbandits.simulation.tables import (
    REGRETS,
    Table,
    curves_table,
    replications_table,
    shown_simulation,
)
from fedbandits.simulation.tasks import PER_TASK, Task, run_tasks
from fedbandits.simulation.variants import Assume, Built, Variant, all_doubts, build_rules

if TYPE_CHECKING:
    from fedbandits.report.shown import Shown

DEFAULT_MEMORY_LIMIT = 512 * 2**20
"""Bytes that the statistics of clients may take, over all workers together."""

MOST_GRID_POINTS = 100_000
# At most this many rows, one per game and replication, are played in step: more leave the cache.
_MOST_ROWS_IN_STEP = 6400

Progress: TypeAlias = Callable[[str, int], None]
"""Called with a variant's label and how many more of its replications are done."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Simulation(Viewed):
    """The results of simulating a variant.

    Parameters
    ----------
    variant : Variant
        What was simulated.
    rule : PhasedRule or SlotRule
        What decided.
    fidelity : Fidelity
        What was drawn.
    grid : array of int
        The slots of the curves.
    games : PlayedGames
        One entry per replication.
    seconds : float
        How long it took, added up over workers.
    """

    tables: ClassVar[tuple[str, ...]] = ("replications", "curves")
    charts: ClassVar[tuple[str, ...]] = REGRETS

    variant: Variant
    rule: PhasedRule | SlotRule
    fidelity: Fidelity
    grid: IntArray
    games: PlayedGames
    seconds: float

    def total_curves(self) -> FloatArray:
        """Return the total regret on the grid, shape (replications, grid)."""
        return self.games.exploration_curves + self.games.communication_curves

    def replications(self) -> Table:
        """Return one row per replication, as columns."""
        return replications_table([self])

    def curves(self) -> Table:
        """Return one row per regret and slot of the grid, as columns."""
        return curves_table([self])

    def in_short(self) -> str:
        """Return what was simulated, in a line."""
        n = self.games.winner.size
        games = "one replication" if n == 1 else f"{n:,} replications"
        return f"{self.variant.label}, {games}, {self.fidelity.value}"

    def shown(self) -> Shown:
        """Return the means, with half of a 95 % interval each."""
        return shown_simulation(self)

    def chart(self, name: str | None = None) -> Chart:
        """Return regret against slot: the total, exploration or communication."""
        found = regret_charts(self.curves(), self.variant.label)
        return found[known_name(name, self.charts, "name")]


def most_in_step(replications: int) -> int:
    """Return how many games are played in step, given their replications.

    Examples
    --------
    >>> most_in_step(100), most_in_step(10**6)
    (64, 1)
    """
    return max(1, _MOST_ROWS_IN_STEP // replications)


def check_length(replications: int, grid_points: int) -> None:
    """Refuse numbers of games, or of points of their curves, that cannot be."""
    check_count(replications, "replications")
    check_count(grid_points, "grid_points")
    if grid_points > MOST_GRID_POINTS:
        raise InputError("grid_points", f"{grid_points:,} points; {MOST_GRID_POINTS:,} at most")


def _warn(variants: Sequence[Variant], rules: Built) -> None:
    """Warn the caller of `simulate` or `simulate_all`, once per variant."""
    for variant, (rule, _) in zip(variants, rules, strict=True):
        found = all_doubts(variant, rule)
        if found:
            words = f"{variant.label}: {'; '.join(found)}"
            warnings.warn(words, AssumptionWarning, stacklevel=3)


def simulate_all(
    variants: Sequence[Variant],
    *,
    horizon: int | None,
    replications: int = 100,
    seed: int = 0,
    grid_points: int = 400,
    workers: int | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    progress: Progress | Literal[False] | None = None,
    trace: bool = False,
    breakpoints: bool = False,
    warn: bool = True,
    rules: Built | None = None,
    known: Mapping[int, PlayedGames] | None = None,
    finished: Callable[[int, PlayedGames], None] | None = None,
) -> list[Simulation]:
    """Simulate several variants; variants of one problem share their random draws.

    The numbers depend on the seed and the problems' names alone: not on the workers, the memory
    limit, or which other variants there are. If a problem breaks what a rule assumes, there is a
    `fedbandits.AssumptionWarning`.

    Parameters
    ----------
    variants : sequence of Variant
        What to simulate.
    horizon : int, optional
        T; None to play every game until it is decided, or until `max_phases`.
    replications : int
        How many independent games.
    seed : int
        Not negative.
    grid_points : int
        On how many slots regret curves are kept: 16 bytes per point and replication.
    workers : int, optional
        Processes; all cores by default, and only once a second has passed.
    memory_limit : int
        Bytes that the statistics of clients may take, over all workers together.
    progress : callable or False, optional
        Called with a variant's label and how many more of its replications are done. By default
        there is a bar after a second, in terminals and notebooks; False shows nothing.
    trace, breakpoints : bool
        Whether to keep the estimates of every phase, and every bend of the regret curves.
    warn : bool
        Whether to warn of assumptions that do not hold.
    rules : list, optional
        What `build_rules` has made of the variants, if that is done.
    known : mapping, optional
        Games of variants, by number, that need not be played.
    finished : callable, optional
        Called with the number and the games of a variant once all of them are played.

    Examples
    --------
    >>> from fedbandits.problems import Approximate, Gaussian
    >>> from fedbandits.rules.algorithms import Fed2Ucb
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> variant = Variant(
    ...     label="demo", problem=game, algorithm=Fed2Ucb(pulls=10, admissions="2^p")
    ... )
    >>> (run,) = simulate_all([variant], horizon=10_000, replications=20, seed=1)
    >>> int((run.games.winner == 1).sum())
    20
    """
    check_length(replications, grid_points)
    check_count(workers, "workers", optional=True)
    check_count(memory_limit, "memory_limit")
    rules = build_rules(variants, horizon) if rules is None else rules
    if warn:
        _warn(variants, rules)
    n_workers = workers or os.cpu_count() or 1
    grid = make_grid(horizon, grid_points)
    games = [
        Game(
            problem=variant.problem,
            rule=rule,
            communication_cost=variant.communication_cost,
            seed=seed,
            grid=grid,
            memory_limit=memory_limit // n_workers,
            trace=trace,
            breakpoints=breakpoints,
            privacy=variant.privacy,
            attack=variant.attack,
        )
        for variant, (rule, _) in zip(variants, rules, strict=True)
    ]
    keys = [key_in_step(game, fidelity) for game, (_, fidelity) in zip(games, rules, strict=True)]
    tasks: list[Task] = []
    known = known or {}
    for batch in in_batches(keys, most_in_step(replications)):
        numbers = [number for number in batch if number not in known]
        if not numbers:
            continue
        fidelity = rules[numbers[0]][1]
        fewest, most = PER_TASK[fidelity]
        at_once = min(most, max(math.ceil(replications / n_workers), fewest))
        together = [games[number] for number in numbers]
        tasks += [
            Task(numbers, together, fidelity, np.arange(start, min(start + at_once, replications)))
            for start in range(0, replications, at_once)
        ]
    outcomes, parts = dict(known), [dict[int, PlayedGames]() for _ in variants]
    seconds = [0.0] * len(variants)
    with followed(progress, partial(_bar, [one.label for one in variants], replications)) as tell:
        for task, (found, took) in run_tasks(tasks, n_workers):
            for number, played in zip(task.numbers, found, strict=True):
                done = parts[number]
                done[int(task.replications[0])] = played
                seconds[number] += took / len(found)
                if tell is not None:
                    tell(variants[number].label, played.winner.size)
                if sum(part.winner.size for part in done.values()) == replications:
                    whole = PlayedGames.joined([done.pop(first) for first in sorted(done)])
                    outcomes[number] = whole
                    if finished is not None:
                        finished(number, whole)
    simulations = [
        Simulation(
            variant=variant,
            rule=rules[number][0],
            fidelity=rules[number][1],
            grid=grid,
            games=outcomes[number],
            seconds=seconds[number],
        )
        for number, variant in enumerate(variants)
    ]
    return simulations if horizon is not None else _up_to_the_last(simulations)


@contextmanager
def _bar(labels: Sequence[str], replications: int) -> Iterator[Progress | None]:
    from fedbandits.notebook.bar import bar, counting  # noqa: PLC0415 - Rich, only to show

    total, first = replications * len(labels), labels[0]
    columns = counting("replications", timed=True)
    with bar(*columns, total=total, description=first) as update:
        yield update and (lambda label, done: update(advance=done, description=label))


def _up_to_the_last(simulations: list[Simulation]) -> list[Simulation]:
    """Return simulations without a horizon, with a grid that ends when the last game is over."""
    over = 1
    for simulation in simulations:
        curves = simulation.total_curves()
        moving = np.flatnonzero((curves != curves[:, -1:]).any(axis=0))
        over = max(over, int(moving[-1]) + 2 if moving.size else 1)
    return [replace(one, grid=one.grid[:over], games=one.games.up_to(over)) for one in simulations]


def simulate(
    problem: Problem,
    algorithm: Algorithm,
    *,
    horizon: int | None,
    label: str | None = None,
    communication_cost: float = 1.0,
    assume: Assume | None = None,
    fidelity: str | None = None,
    max_clients: int | None = None,
    max_phases: int | None = None,
    privacy: Privacy | None = None,
    attack: Attack | None = None,
    **settings: Any,
) -> Simulation:
    """Simulate one algorithm on one problem; see `Variant` and `simulate_all`.

    Examples
    --------
    >>> from fedbandits.problems import Exact, Gaussian
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> game = Exact(local_means=[[0.2, 0.9], [0.7, 0.4]], noise=Gaussian(0.5))
    >>> run = simulate(game, Fed1Ucb(pulls=50), horizon=10**5, replications=10)
    >>> run.fidelity.value, sorted(set(run.games.winner.tolist()))
    ('cohorts', [1])
    """
    variant = Variant(
        label=algorithm.name if label is None else label,
        problem=problem,
        algorithm=algorithm,
        communication_cost=communication_cost,
        assume=Assume() if assume is None else assume,
        fidelity=fidelity,
        max_clients=max_clients,
        max_phases=max_phases,
        privacy=privacy,
        attack=attack,
    )
    rules = build_rules([variant], horizon)
    if settings.pop("warn", True):
        _warn([variant], rules)
    return simulate_all([variant], horizon=horizon, warn=False, rules=rules, **settings)[0]
