"""Which f and g are best: hundreds of schedules, foreseen roughly, then simulated.

The search goes from coarse to fine. For each pair of shapes, a forecast over a wide grid says where
to look, and a few first values around that point are simulated. Then a finer grid around the best
of all is simulated; it is the map that a plan shows. All schedules share the same random draws, so
their differences are less noisy than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, product
from typing import TypeAlias

import numpy as np

from fedbandits.planning.candidates import MOST_PHASES, PULLS_SHAPES, Candidate, Shape, foresee
from fedbandits.planning.detection import Detector
from fedbandits.planning.outlook import Expected, ended, simulated
from fedbandits.planning.question import MOST_CLIENTS, Question
from fedbandits.simulation import Simulation
from fedbandits.simulation.tables import Table

MOST_UNDECIDED = 0.05
"""Schedules that leave more games undecided are not suggested."""

_WIDE_POINTS, _FEW_POINTS = 14, 8
_COARSE_STEP = 2.0
_FINE_STEP = math.sqrt(2.0)
# Of the slots, for schedules that are not simulated before they are suggested.
_TIME_TO_SPARE = 0.6

OnTried: TypeAlias = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and out of how much."""


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
    others : tuple of Candidate
        The best of those that admit all clients at once (Fed1-UCB), and of those that admit them
        gradually, except the best of all.
    map : tuple of Tried
        The finest grid of first values, for the shapes of Fed2-UCB with the least regret.
    """

    tried: tuple[Tried, ...]
    best: Candidate | None
    others: tuple[Candidate, ...]
    map: tuple[Tried, ...]

    @property
    def best_on_map(self) -> Candidate | None:
        """The candidate of the map with the least regret; None if none decides."""
        return _best(self.map)


def _best(tried: Iterable[Tried]) -> Candidate | None:
    """Return the candidate with the least regret of those that decide."""
    fit = (one for one in tried if one.decides)
    # If all clients are admitted at once the two algorithms are one, which is Fed1-UCB.
    least = min(fit, key=lambda one: (one.regret, one.candidate.g is not None), default=None)
    return None if least is None else least.candidate


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
    >>> len(found.tried) > 100, found.others
    (True, ())
    """
    n_coarse, n_fine, games = _effort(question)
    tried: dict[Candidate, Tried] = {}

    def best(of: Callable[[Candidate], bool]) -> Candidate | None:
        return _best(one for candidate, one in tried.items() if of(candidate))

    def simulate(what: str, grids: Iterable[Iterable[Candidate]]) -> None:
        """Simulate the candidates that were not simulated yet."""
        new = [candidate for candidate in dict.fromkeys(chain(*grids)) if candidate not in tried]
        done = count(1)
        runs = simulated(
            question,
            [candidate.algorithm(question) for candidate in new],
            draws="plan: search",
            max_phases=2 * MOST_PHASES,  # games scatter around what was foreseen
            replications=games,
            seed=seed,
            workers=workers,
            progress=progress and (lambda *_: progress(what, next(done), len(new))),
        )
        for candidate, run in zip(new, runs, strict=True):
            tried[candidate] = _tried(question, candidate, run)

    coarse = [
        _around(question, middle, step=_COARSE_STEP, side=n_coarse)
        for _, middle in _foreseen_best(question)
    ]
    simulate("coarse search", coarse)
    fine = [
        [] if middle is None else _around(question, middle, step=_FINE_STEP, side=n_fine)
        for middle in (best(lambda c: c.g is not None), best(lambda c: c.g is None))
    ]
    simulate("fine search", fine)
    least = best(lambda _: True)
    of_kinds = (
        best(lambda c: c.g is None),
        best(lambda c: c.g is not None and c.admissions != question.population),
    )
    return Searched(
        tried=tuple(tried.values()),
        best=least,
        others=tuple(other for other in of_kinds if other is not None and other != least),
        map=tuple(tried[candidate] for candidate in fine[0]),
    )


def _effort(question: Question) -> tuple[int, int, int]:
    """Return how many values of f and of g are tried, coarse and fine, and in how many games.

    They are fewer if games take longer: with many arms, and if some clients may lie, so that each
    of them is simulated.
    """
    if question.liars:
        return (5, 7, 32)
    return (5, 11, 256) if question.n_arms <= 50 else (3, 7, 128)


def foreseen_best(question: Question) -> Candidate | None:
    """Return the schedule with the least foreseen regret; nothing is simulated.

    A tenth of a second is enough for it, unless some clients may lie. Games scatter around what is
    foreseen, so that it is one with time to spare, if there is one. None if no schedule is foreseen
    to decide within the horizon.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> game = least_favourable(n_arms=2, gap=0.5, noise=0.5, spread=0.1, delta=0.05)
    >>> found = foreseen_best(game)
    >>> found.f, found.g
    ('6', '3')
    """
    for share in (_TIME_TO_SPARE, 1.0):
        found = list(_foreseen_best(question, share))
        if found:
            return min(found, key=lambda one: one[0])[1]
    return None


def _foreseen_best(question: Question, share: float = 1.0) -> Iterator[tuple[float, Candidate]]:
    """Yield the least foreseen regret for each pair of shapes, and which candidate has it.

    Those that are foreseen to take more than a share of the slots do not count.
    """
    detector = Detector.of(question, population=None)
    least = question.fewest_pulls
    # What one client alone would pull if all were alike, and how many need only the fewest pulls.
    alone = replace(detector, spread=0.0).fewest_pulls(question.gap, 1) or MOST_CLIENTS
    most_pulls = min(max(2, least, alone), question.most_pulls)
    if most_pulls < least:
        return
    enough = max(2, detector.fewest_clients(question.gap, least) or MOST_CLIENTS)
    points = _FEW_POINTS if question.liars else _WIDE_POINTS
    pulls = _whole(np.geomspace(least, most_pulls, points))
    clients = _whole(np.geomspace(1.0, min(enough, question.most_clients), points))
    at_once = () if question.population is None else product(PULLS_SHAPES, [None])
    for f_shape, g_shape in chain(product(PULLS_SHAPES, Shape), at_once):
        grid = [
            Candidate(pulls=f, admissions=g, pulls_shape=f_shape, admissions_shape=g_shape)
            for f, g in product(pulls, clients if g_shape else [question.population or 1])
        ]
        foreseen = foresee(question, grid)
        regret = np.where(foreseen.slots <= share * question.slots, foreseen.regret, np.inf)
        if np.isfinite(regret).any():
            least = int(regret.argmin())
            yield float(regret[least]), grid[least]


def _around(question: Question, middle: Candidate, *, step: float, side: int) -> list[Candidate]:
    """Return candidates with first values around those of one, itself included."""
    fs = _values(middle.pulls, step, side, question.most_pulls, question.fewest_pulls)
    if middle.admissions_shape is None:
        return [replace(middle, pulls=f) for f in fs]
    gs = _values(middle.admissions, step, side, question.most_clients)
    grid = [replace(middle, pulls=f, admissions=g) for f, g in product(fs, gs)]
    foreseen = foresee(question, grid)
    # Candidates that need many more phases would only take time.
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
    ratios = middle / least, most / middle
    room_below, room_above = (math.floor(math.log(ratio, step) + 1e-9) for ratio in ratios)
    below = min(side // 2, room_below)
    # What does not fit on one side is tried on the other.
    if room_above < side // 2 == below:
        return _whole(most * step**-i for i in range(side) if most * step**-i >= least)
    above = min(side - 1 - below, room_above)
    return _whole(middle * step**i for i in range(-below, above + 1))


def _whole(values: Iterable[float]) -> list[int]:
    return sorted({max(1, round(float(value))) for value in values})


def _tried(question: Question, candidate: Candidate, run: Simulation) -> Tried:
    total = run.games.total[ended(question, run.games)]
    found = Expected.over(total) if total.size else None
    return Tried(
        candidate=candidate,
        regret=math.inf if found is None else found.mean,
        stderr=math.inf if found is None else found.stderr,
        undecided_rate=float((run.games.winner < 0).mean()),
    )


def map_table(searched: Searched) -> Table:
    """Return the map of regret over f and g, one row per schedule.

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
