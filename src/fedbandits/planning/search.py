"""Which f and g are best: hundreds of schedules, foreseen roughly, then simulated.

From coarse to fine. A forecast over a wide grid says, for each pair of shapes, where to look; a few
first values around there are simulated for every pair; a finer grid around the best of them is
simulated for its pair, and is the map that a plan shows. All of them meet the same random draws, so
that their differences are less noisy than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np

from fedbandits.experiments.tables import Table
from fedbandits.planning.candidates import (
    ADMISSIONS_SHAPES,
    MOST_PHASES,
    PULLS_SHAPES,
    Candidate,
    Shape,
    foresee,
)
from fedbandits.planning.detection import Detector
from fedbandits.planning.outlook import Expected, ended
from fedbandits.planning.question import MOST_CLIENTS, Question
from fedbandits.simulation import Variant, simulate_all

MOST_UNDECIDED = 0.05
"""Schedules that leave more games undecided are not suggested."""

_WIDE_POINTS = 14
_COARSE_STEP = 2.0
_FINE_STEP = math.sqrt(2.0)

OnTried: TypeAlias = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and out of how much."""

_Pair: TypeAlias = tuple[Shape, Shape | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A candidate that was simulated.

    Parameters
    ----------
    candidate : Candidate
        f and g.
    regret, stderr : float
        Mean total regret and its standard error.
    undecided_rate : float
        Games that it did not decide.
    """

    candidate: Candidate
    regret: float
    stderr: float
    undecided_rate: float

    @property
    def decides(self) -> bool:
        """Whether it may be suggested."""
        return self.undecided_rate <= MOST_UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search found.

    Parameters
    ----------
    tried : tuple of Tried
        All candidates that were simulated.
    best : Candidate, optional
        The one with the least regret; None if nothing decides.
    best_at_once, best_gradual : Candidate, optional
        The best of those that let all clients in at once (Fed1-UCB), and of the others.
    map : tuple of Tried
        The finest grid of first values, for the shapes of Fed2-UCB with the least regret.
    """

    tried: tuple[Tried, ...]
    best: Candidate | None
    best_at_once: Candidate | None
    best_gradual: Candidate | None
    map: tuple[Tried, ...]


def search(
    question: Question,
    *,
    seed: int = 0,
    workers: int | None = 1,
    progress: OnTried | None = None,
) -> Searched:
    """Return the schedules with the least regret.

    Parameters
    ----------
    question : Question
        The game.
    seed : int
        Of the simulations.
    workers : int, optional
        Processes; None is all cores.
    progress : callable, optional
        Called as candidates are done.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> game = least_favourable(n_arms=2, gap=0.5, noise=0.5, spread=0.1, delta=0.05)
    >>> found = search(game, workers=1)
    >>> len(found.tried) > 100, found.best_at_once is None
    (True, True)
    """
    runner = _Runner(question, seed, workers, progress)
    pairs: list[_Pair] = list(product(PULLS_SHAPES, ADMISSIONS_SHAPES))
    if question.population is not None:
        pairs += [(shape, None) for shape in PULLS_SHAPES]
    effort = _Effort.for_arms(question.n_arms)
    wide: list[Candidate] = []
    for pair in pairs:
        middle = _foreseen_best(question, pair)
        if middle is not None:
            wide += _around(question, middle, step=_COARSE_STEP, side=effort.coarse)
    runner.run("coarse search", wide)
    middles = (runner.best(lambda c: c.g is not None), runner.best(lambda c: c.g is None))
    grids = [
        [] if middle is None else _around(question, middle, step=_FINE_STEP, side=effort.fine)
        for middle in middles
    ]
    runner.run("fine search", [candidate for grid in grids for candidate in grid])
    return Searched(
        tried=tuple(runner.tried.values()),
        best=runner.best(lambda _: True),
        best_at_once=runner.best(lambda c: c.g is None),
        best_gradual=runner.best(lambda c: c.g is not None and c.admissions != question.population),
        map=tuple(runner.tried[candidate] for candidate in grids[0]),
    )


@dataclass(frozen=True, slots=True)
class _Effort:
    """How many values of f and of g are tried, coarse and fine, and in how many games each."""

    coarse: int
    fine: int
    replications: int

    @classmethod
    def for_arms(cls, n_arms: int) -> _Effort:
        """Return less where a game takes longer."""
        return cls(5, 11, 256) if n_arms <= 50 else cls(3, 7, 128)


def _foreseen_best(question: Question, pair: _Pair) -> Candidate | None:
    """Return the candidate of these shapes with the least foreseen regret."""
    detector = Detector.of(question, population=None)
    least = question.fewest_pulls
    # What one client alone would pull if all were alike, and how many would do with so few pulls.
    alone = replace(detector, spread=0.0).fewest_pulls(question.gap, 1)
    most_pulls = max(2, least, MOST_CLIENTS if alone is None else alone)
    most_clients = max(2, detector.fewest_clients(question.gap, least) or MOST_CLIENTS)
    most_pulls = min(most_pulls, question.slots // question.n_arms)
    most_clients = min(most_clients, question.population or MOST_CLIENTS)
    if most_pulls < least:
        return None
    pulls = _whole(np.geomspace(least, most_pulls, _WIDE_POINTS))
    clients = _whole(np.geomspace(1.0, most_clients, _WIDE_POINTS))
    if pair[1] is None:
        clients = [question.population or 1]
    grid = [
        Candidate(pulls=f, admissions=g, pulls_shape=pair[0], admissions_shape=pair[1])
        for f, g in product(pulls, clients)
    ]
    return _least(question, grid)


def _least(question: Question, grid: Sequence[Candidate]) -> Candidate | None:
    foreseen = foresee(question, grid)
    regret = np.where(foreseen.slots <= question.slots, foreseen.regret, np.inf)
    best = int(regret.argmin())
    return grid[best] if math.isfinite(regret[best]) else None


def _around(question: Question, middle: Candidate, *, step: float, side: int) -> list[Candidate]:
    """Return candidates with first values around these, as many each way; the middle is one."""
    most = question.population or MOST_CLIENTS
    room = question.slots // question.n_arms
    fs = _values(middle.pulls, step, side, room, question.fewest_pulls)
    if middle.admissions_shape is None:
        return [replace(middle, pulls=f) for f in fs]
    gs = _values(middle.admissions, step, side, most)
    grid = [replace(middle, pulls=f, admissions=g) for f, g in product(fs, gs)]
    foreseen = foresee(question, grid)
    # What would not be decided in many more phases would only take time.
    return [c for c, phases in zip(grid, foreseen.phases, strict=True) if phases <= MOST_PHASES]


def _values(middle: int, step: float, side: int, most: int, least: int = 1) -> list[int]:
    """Return whole numbers around one, in equal ratios, from the least to the most.

    Examples
    --------
    >>> _values(8, 2.0, 5, 1000), _values(2, 2.0, 5, 1000), _values(900, 2.0, 5, 1000)
    ([2, 4, 8, 16, 32], [1, 2, 4, 8, 16], [62, 125, 250, 500, 1000])
    >>> _values(12, 2.0, 5, 1000, least=10)
    [12, 24, 48, 96, 192]
    """
    below = above = side // 2
    low, high = math.log(least / middle, step), math.log(most / middle, step)
    # What does not fit on one side is tried on the other.
    below, above = min(below, math.floor(-low + 1e-9)), min(above, math.floor(high + 1e-9))
    if below < side // 2:
        above = min(side - 1 - below, math.floor(high + 1e-9))
    elif above < side // 2:
        return _whole(most * step**-i for i in range(side) if most * step**-i >= least)
    return _whole(middle * step**i for i in range(-below, above + 1))


def _whole(values: Iterable[float]) -> list[int]:
    return sorted({max(1, round(float(value))) for value in values})


class _Runner:
    """Simulates candidates, each once."""

    def __init__(
        self, question: Question, seed: int, workers: int | None, progress: OnTried | None
    ) -> None:
        self.question = question
        self.seed = seed
        self.workers = workers
        self.progress = progress
        self.problem = question.problem("plan: search")
        self.tried: dict[Candidate, Tried] = {}

    def best(self, of: Callable[[Candidate], bool]) -> Candidate | None:
        """Return the candidate of a kind with the least regret of those that decide."""
        fit = [one for one in self.tried.values() if one.decides and of(one.candidate)]
        # Where all clients are admitted at once the two algorithms are one, which is Fed1-UCB.
        return min(fit, key=lambda one: (one.regret, one.candidate.name)).candidate if fit else None

    def run(self, what: str, candidates: Iterable[Candidate]) -> None:
        """Simulate those that were not simulated yet."""
        new = [c for c in dict.fromkeys(candidates) if c not in self.tried]
        if not new:
            return
        variants = [
            Variant(
                label=f"{candidate.f}, {candidate.g}",
                problem=self.problem,
                algorithm=candidate.algorithm(self.question),
                communication_cost=self.question.communication_cost,
                # Games scatter around what was foreseen.
                max_phases=2 * MOST_PHASES,
                privacy=self.question.simulated_privacy,
            )
            for candidate in new
        ]
        done = 0

        def report(_: str, __: int) -> None:
            nonlocal done
            done += 1
            if self.progress is not None:
                self.progress(what, done, len(new))

        runs = simulate_all(
            variants,
            horizon=self.question.horizon,
            replications=_Effort.for_arms(self.question.n_arms).replications,
            seed=self.seed,
            grid_points=1,
            workers=self.workers,
            progress=report,
            warn=False,
        )
        for candidate, run in zip(new, runs, strict=True):
            found = Expected.over(run.games.total[ended(self.question, run.games)])
            self.tried[candidate] = Tried(
                candidate=candidate,
                regret=math.inf if found is None else found.mean,
                stderr=math.inf if found is None else found.stderr,
                undecided_rate=float((run.games.winner < 0).mean()),
            )


def map_table(searched: Searched) -> Table:
    """Return the map of regret over f and g: a row a schedule.

    Parameters
    ----------
    searched : Searched
        From `search`.
    """
    known = [one for one in searched.map if math.isfinite(one.regret)]
    rows = sorted(known, key=lambda one: (one.candidate.pulls, one.candidate.admissions))
    return {
        "pulls": [one.candidate.pulls for one in rows],
        "admissions": [one.candidate.admissions for one in rows],
        "f": [one.candidate.f for one in rows],
        "g": [one.candidate.g for one in rows],
        "regret": [one.regret for one in rows],
        "stderr": [one.stderr for one in rows],
        "undecided": [one.undecided_rate for one in rows],
    }
